"""Many threads share one object: with an interpreter's lock, and, in a free-threaded Python, without."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import numpy as np
import pytest

from outlive import (
    Barrier,
    Cancelled,
    Client,
    Condition,
    Domain,
    Empty,
    Event,
    Gone,
    Latch,
    Lock,
    Pool,
    Queue,
    RwLock,
    Semaphore,
    Server,
    State,
    Topic,
    WaitSet,
)

THREADS = 8
#: A free-threaded Python gets more to do: there it is what this is about.
TIMES = 300 if getattr(sys, "_is_gil_enabled", lambda: True)() else 3000


def at_once(call, threads=THREADS):
    """What the call comes to in so many threads that begin at the same moment; the first exception is raised."""
    begin = threading.Barrier(threads)
    results, raised = [], []

    def run(who):
        begin.wait(60)
        try:
            results.append(call(who))
        except BaseException as error:  # noqa: BLE001
            raised.append(error)

    workers = [threading.Thread(target=run, args=(who,), daemon=True) for who in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(50)
        assert not worker.is_alive(), "it hangs"
    if raised:
        raise raised[0]
    return results


def test_a_lock(folder):
    lock, condition = Lock("lock", folder), None
    plain = [0]

    def work(who):
        for turn in range(TIMES):
            if turn % 2:
                with lock as held:
                    assert not held.owner_died
                    held.value += 1
                    plain[0] += 1
            else:
                assert lock.acquire(timeout=60)
                lock.value, plain[0] = lock.value + 1, plain[0] + 1
                lock.release()
            with pytest.raises(RuntimeError):
                lock.value

    at_once(work)
    condition = Condition("condition", lock)
    with condition:
        assert lock.value == plain[0] == THREADS * TIMES
        lock.value = 0

    def take_turns(who):
        for turn in range(TIMES // 10):
            with condition:
                assert condition.wait_for(lambda: lock.value % THREADS == who, timeout=60)
                lock.value += 1
                condition.notify_all()

    at_once(take_turns)


def test_a_reader_writer_lock(folder):
    lock = RwLock("lock", folder)
    shared = lock.write()

    def work(who):
        refused = 0
        for turn in range(TIMES):
            with lock.write(timeout=60) as held:
                held.value += 1
            with lock.read(timeout=60) as held:
                assert held.value > 0
            try:
                # One thread's at a time: the others are told.
                with shared as held:
                    held.value += 1
            except RuntimeError:
                refused += 1
        return refused

    refused = sum(at_once(work))
    with lock.read() as held:
        assert held.value == 2 * THREADS * TIMES - refused


def test_permits_events_latches_and_barriers(folder):
    slots, event, latch = Semaphore("slots", 3, folder), Event("event", folder), Latch("latch", THREADS * TIMES, folder)
    step = Barrier("step", THREADS, folder)
    inside = []

    def work(who):
        firsts = 0
        for turn in range(TIMES):
            with slots:
                inside.append(who)
                assert len(inside) <= 3
                inside.remove(who)
            event.set(1 << who)
            assert event.wait_bits(1 << who, timeout=60)
            latch.arrive()
            if turn % 10 == 0:
                firsts += step.wait(timeout=60) == 0
        assert latch.wait(timeout=60)
        step.wait(timeout=60)
        step.leave()
        return firsts

    assert sum(at_once(work)) == (TIMES + 9) // 10
    assert slots.available_permits == 3 and event.bits == (1 << THREADS) - 1


def test_a_queue(folder):
    queue = Queue("queue", folder)

    def work(who):
        got = []
        for turn in range(TIMES):
            queue.put((who, turn))
            got.append(queue.get(timeout=60))
        return got

    got = sorted(sum(at_once(work), []))
    assert got == [(who, turn) for who in range(THREADS) for turn in range(TIMES)]

    def send(who):
        received = 0
        for turn in range(TIMES):
            queue.send_many([b"%d" % who] * 3)
            received += len(queue.recv_many(2, timeout=60))
            try:
                with queue.peek(timeout=0) as peeked:
                    bytes(peeked.data)
                received += 1
            except (Empty, RuntimeError):
                pass
        return received

    received = sum(at_once(send))
    while queue.try_recv() is not None:
        received += 1
    assert received == 3 * THREADS * TIMES
    queue.send(b"once")
    peeked = queue.peek()

    def commit(who):
        try:
            peeked.commit()
            return 1
        except RuntimeError:
            return 0

    assert sum(at_once(commit)) == 1


def test_a_topic(folder):
    topic = Topic("topic", folder, depth=64)
    publisher, subscriber = topic.publisher(), topic.subscriber()
    kinds = ["uint8", np.float32, "int64", np.float64]

    def work(who):
        for turn in range(TIMES):
            with publisher.loan((4, 4), kinds[(who + turn) % 4]) as array:
                array[:] = who
            publisher.publish_msgpack({"who": [who]})
            publisher.loan(10)
            sample = subscriber.try_recv()
            if sample is not None and sample.dtype:
                array = sample.numpy()
                assert array.shape == (4, 4) and (array == array[0, 0]).all()
            elif sample is not None:
                assert sample.msgpack()["who"][0] < THREADS
            assert subscriber.lag >= 0 and publisher.subscriber_count == 1

    at_once(work)
    loan = publisher.loan(5)

    def publish(who):
        try:
            loan.publish()
            return 1
        except RuntimeError:
            return 0

    assert sum(at_once(publish)) == 1
    shared = {0: 0}

    def change(who):
        for turn in range(TIMES):
            if who % 2:
                shared[turn % 50] = [turn]
                shared.pop((turn * 7) % 50, None)
            else:
                publisher.publish_msgpack(shared)

    at_once(change)
    publisher.publish(b"last")
    while (sample := subscriber.try_recv()) is not None and bytes(sample) != b"last":
        if not sample.dtype and len(sample) != 5:
            sample.msgpack()


def test_a_pool(folder):
    pool = Pool("pool", folder)
    offered = Queue("offered", folder)

    def work(who):
        for turn in range(TIMES):
            block = pool.alloc((10,), np.int64)
            block.numpy()[:] = who
            offered.put(block.offer())
            mine = pool.claim(offered.get(timeout=60))
            values = mine.numpy(np.int64)
            assert (values == values[0]).all()
            del values
            shared = mine.share()
            assert pool.join(shared.offset).numpy(np.int64)[0] == shared.numpy(np.int64)[9]

    at_once(work)

    for _ in range(30):
        block = pool.alloc(100)

        def free_or_look(who):
            try:
                if who % 2:
                    block.free()
                    return 1
                with memoryview(block) as view:
                    view[who] = who
            except (BufferError, ValueError):
                pass
            return 0

        assert sum(at_once(free_or_look)) <= 1
        shared = pool.alloc(8).share()
        offset = shared.offset
        del shared
        with pytest.raises(Gone):
            pool.join(offset)


def test_a_service(folder):
    server, client = Server("service", folder), Client("service", folder)

    server_done = threading.Event()

    def serve():
        while not server_done.is_set():
            request = server.try_next()
            try:
                if request is None:
                    server_done.wait(0.0005)
                elif len(request.data) % 2:
                    with request.stream() as replies:
                        replies.send(request.data * 2)
                else:
                    request.reply(request.data * 2)
            except Cancelled:
                pass

    serving = threading.Thread(target=serve, daemon=True)
    serving.start()

    def ask(who):
        for turn in range(TIMES):
            data = b"%d %d" % (who, turn)
            if turn % 3:
                assert client.call(data, timeout=60) == data * 2
            else:
                # Collected while others are inside, or answered.
                client.begin(data)
                assert client.begin(data).result(timeout=60) == data * 2

    at_once(ask)
    server_done.set()
    serving.join(60)
    one = client.begin(b"x")

    def result_or_cancel(who):
        try:
            if who == 0:
                one.cancel()
            one.result(timeout=60)
        except Cancelled:
            return 1
        return 0

    assert sum(at_once(result_or_cancel)) == THREADS
    while (request := server.try_next()) is not None:
        request.reply(b"")
    two = client.begin(b"y")
    request = server.next(timeout=60)

    def reply(who):
        try:
            request.reply(b"%d" % who)
            return 1
        except RuntimeError:
            return 0

    assert sum(at_once(reply)) == 1
    assert len(set(at_once(lambda who: two.result(timeout=60)))) == 1


def test_a_state_and_a_set(folder):
    state, waiting, domain = State("state", 8, folder), WaitSet(folder), Domain(folder)
    events = [Event(f"event{who}", folder) for who in range(THREADS)]

    def work(who):
        for turn in range(TIMES):
            version = state.set(bytes([who] * 8))
            assert len(set(state.get())) == 1 and state.version >= version
            if turn % 10 == 0:
                waiting.add(events[who])
                events[who].set()
                waiting.wait(timeout=60)
                waiting.remove(events[who])
            assert domain.peer(domain.token()).alive

    at_once(work)
    assert len(waiting) == 0


def test_a_state_that_a_thread_waits_to_write_can_be_closed(folder, start):
    program = start("theirs = State('mode', 8, folder); theirs.set(b'theirs'); say('writes'); time.sleep(60)")
    program.line()
    mode = State("mode", 8, folder)
    closing = threading.Timer(0.05, mode.close)
    closing.start()
    with pytest.raises(ValueError, match="closed"):
        mode.wait_to_write()
    closing.join(10)
    assert not closing.is_alive()


def test_a_publisher_that_waits_for_room_can_be_closed(folder):
    topic = Topic("topic", folder, depth=1, reliable=True)
    slow, publisher = topic.subscriber(reliable=True), topic.publisher()
    publisher.publish(b"1")
    closing = threading.Timer(0.05, publisher.close)
    closing.start()
    with pytest.raises(ValueError, match="closed"):
        publisher.publish(b"2", timeout=60)
    closing.join(10)
    assert not closing.is_alive() and bytes(slow.recv(timeout=60)) == b"1"


def test_threads_that_wait_for_room_let_others_in(folder):
    """With both rings full, the thread that sends has to let the one in that takes the replies."""
    server, client = Server("service", folder), Client("service", folder)

    def echo():
        with server.next(timeout=60).stream() as replies:
            for part in iter(replies.next_part, None):
                replies.send(part)

    def send():
        for _ in range(300):
            call.send(b"x", timeout=60)
        call.finish()

    call = client.stream(b"")
    threads = [threading.Thread(target=echo), threading.Thread(target=send)]
    for thread in threads:
        thread.start()
    assert len(list(call)) == 300
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


@pytest.mark.parametrize(
    "thing, wait, use",
    [
        ("Topic('topic', folder).subscriber()", "recv", "try_recv"),
        ("Queue('queue', folder)", "recv", "try_recv"),
        ("Server('service', folder)", "next", "try_next"),
    ],
)
def test_a_signals_handler_closes_what_its_thread_waits_in(start, thing, wait, use):
    """The usual way to end a service. Any other use of the handle there is refused: none may hang."""
    program = start(f"""
        thing = {thing}
        def end(*_):
            try:
                thing.{use}()
            except RuntimeError as error:
                say("handler" in str(error))
            thing.close()
        signal.signal(signal.SIGTERM, end)
        say("waits")
        try:
            thing.{wait}()
        except ValueError as error:
            say(error)
        try:
            thing.{use}()
        except ValueError as error:
            say(error)
    """)
    assert program.line() == "waits"
    time.sleep(0.3)
    os.kill(program.pid, signal.SIGTERM)
    assert program.line() == "True"
    assert "closed" in program.line() and "closed" in program.line()
    assert program.end() == 0
