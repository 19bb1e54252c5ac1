"""Killed at random moments inside ``with lock``, a loan, a queue: what a survivor may rely on."""

from __future__ import annotations

import mmap
import random

import pytest

from outlive import Lock, Queue, Topic

KILLS = 50

# A process that forks workers and kills them. It has one thread, so that its children are whole. It
# says what it killed.
NURSERY = """
    import mmap, random
    with open({path!r}, "r+b") as file:
        # One store each: struct.pack_into writes zeroes first, and a process that is killed then leaves them.
        numbers = memoryview(mmap.mmap(file.fileno(), 4096)).cast("q")
    random.seed({seed})
{work}
    for turn in range({kills}):
        pid = os.fork()
        if pid == 0:
            try:
                work(turn)
            finally:
                os._exit(7)
        time.sleep(random.uniform(0.001, 0.02))
        os.kill(pid, signal.SIGKILL)
        say(turn, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


@pytest.fixture
def nursery(start, tmp_path):
    def nursery(work):
        path = tmp_path / "numbers"
        path.write_bytes(bytes(4096))
        seed = random.randrange(1 << 32)
        print("seed", seed)
        with path.open("r+b") as file:
            numbers = memoryview(mmap.mmap(file.fileno(), 4096)).cast("q")
        return start(NURSERY.format(path=str(path), work=work, kills=KILLS, seed=seed)), numbers

    return nursery


def turns(program):
    """Each kill, as it is told."""
    for turn in range(KILLS):
        assert program.line() == f"{turn} -9", "it was killed, and had not ended by itself"
        yield turn
    assert program.end() == 0


def test_inside_with_lock(folder, nursery):
    """Three numbers are raised one after the other. Who is not told of a death finds them equal."""
    lock = Lock("lock", folder)
    program, numbers = nursery("""
    lock = Lock("lock", folder)
    def work(turn):
        while True:
            with lock as held:
                if held.owner_died:
                    held.value = numbers[1] = numbers[0]
                    held.mark_consistent()
                numbers[0] += 1
                for _ in range(50):
                    pass
                numbers[1] += 1
                held.value += 1
    """)
    died = 0
    for _ in turns(program):
        assert lock.acquire(timeout=60)
        first, second = numbers[0], numbers[1]
        if lock.owner_died:
            died += 1
            assert first - 1 <= second <= first and first - 1 <= lock.value <= first
            numbers[1] = lock.value = first
            lock.mark_consistent()
        else:
            assert first == second == lock.value
        lock.release()
    assert numbers[0] > KILLS and died > 0


def test_inside_a_loan(folder, nursery):
    """What is published is whole, nobody waits for the dead, and their memory is used again."""
    topic = Topic("topic", folder, depth=8, reliable=True)
    reliable, subscriber = topic.subscriber(reliable=True), topic.subscriber()
    program, _ = nursery("""
    topic = Topic("topic", folder)
    def work(turn):
        publisher = topic.publisher()
        count = 0
        while True:
            count += 1
            size = (64, 20_000)[count % 2]
            with publisher.loan(size) as view:
                view[:] = bytes([count % 251]) * size
    """)
    seen = 0
    ours = topic.publisher()
    for turn in turns(program):
        ours.publish(bytes([turn]) * 64, timeout=60)
        for each in reliable, subscriber:
            while (sample := each.try_recv()) is not None:
                data = bytes(sample)
                assert len(data) in (64, 20_000) and len(set(data)) == 1
                seen += 1
    assert seen > 3 * KILLS, "more than what is ours"
    assert len(topic.publishers()) == 1


def test_inside_put_and_get(folder, nursery):
    """What a put has returned from is there, in order and once; who is killed in a get holds up nobody."""
    done, jobs = Queue("done", folder), Queue("jobs", folder)
    program, numbers = nursery("""
    done, jobs = Queue("done", folder), Queue("jobs", folder)
    # Imported before any process can be killed.
    import multiprocessing.reduction, pickle
    def work(turn):
        count = 0
        while True:
            job = jobs.get(timeout=60)
            assert job == ("job", "x" * 300)
            done.put((turn, count, "y" * 300))
            # Acknowledged.
            count += 1
            numbers[turn] = count
    """)
    received = {turn: 0 for turn in range(KILLS)}

    def collect():
        while not done.empty():
            turn, count, text = done.get(timeout=60)
            assert count == received[turn] and text == "y" * 300
            received[turn] += 1

    for _ in range(200):
        jobs.put(("job", "x" * 300), timeout=60)
    for _ in turns(program):
        while jobs.qsize() < 200:
            jobs.put(("job", "x" * 300), timeout=60)
        collect()
    collect()
    for turn in range(KILLS):
        assert numbers[turn] <= received[turn] <= numbers[turn] + 1
    assert sum(received.values()) > 0
    while not jobs.empty():
        assert jobs.get(timeout=60) == ("job", "x" * 300)
