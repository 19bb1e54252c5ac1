"""fork, spawn and Ctrl-C."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import shutil
import time

import pytest

import outlive
from outlive import Barrier, Condition, Domain, Event, Lock, NotYours, Queue, RwLock, Semaphore, State, Topic

WAITS = {
    "lock": "Lock('held', folder).acquire()",
    "lock with": "Lock('held', folder).__enter__()",
    "reader": "RwLock('written', folder).read().__enter__()",
    "semaphore": "Semaphore('taken', 1, folder).acquire()",
    "event": "Event('never', folder).wait()",
    "subscriber": "Topic('topic', folder).subscriber().recv()",
    "iterator": "next(Topic('topic', folder).subscriber())",
    "publisher": "p = Topic('full', folder).publisher()\nwhile True: p.publish(b'x')",
    "get": "Queue('queue', folder).get()",
    "recv": "Queue('queue', folder).recv()",
    "put": "Queue('small', folder, max_bytes=1 << 16)\nq = Queue('small', folder)\nwhile True: q.put(b'x' * 1000)",
    "server": "Server('service', folder).next()",
    "client": "Client('service', folder).call(b'x')",
    "state": "State('state', 8, folder).wait_changed(1)",
    "barrier": "Barrier('step', 2, folder).wait()",
    "condition": "c = Condition('condition', Lock('free', folder))\nwith c: c.wait_for(lambda: False)",
    "peer": "d = Domain(folder); d.peer(d.token()).wait_dead()",
    "set": "WaitSet(folder).wait()",
    "a turn": """
s = Topic('topic', folder).subscriber()
threading.Thread(target=s.recv, daemon=True).start()
time.sleep(0.2)
s.recv()
""",
}


@pytest.mark.parametrize("code", WAITS.values(), ids=WAITS)
def test_every_wait_can_be_interrupted(folder, start, code):
    held = Lock("held", folder), Semaphore("taken", 1, folder)
    for each in held:
        each.acquire()
    written = RwLock("written", folder).write()
    written.__enter__()
    server = outlive.Server("service", folder) if "Client" in code else None
    slow = Topic("full", folder, depth=1, reliable=True).subscriber(reliable=True)
    program = start(f"""
def run():
    exec({code!r}, globals())
try:
    # Other threads run meanwhile.
    threading.Thread(target=lambda: (time.sleep(0.4), say("running")), daemon=True).start()
    run()
except KeyboardInterrupt:
    say("interrupted")
    os._exit(0)
""")
    assert program.line() == "running"
    begun = time.monotonic()
    program.interrupt()
    assert program.line() == "interrupted"
    # Bounded, so that it is the signal that ended the wait; how long it takes is no test's business.
    assert time.monotonic() - begun < 60
    assert program.end() == 0
    del server, slow


def child(call):
    """What a forked child's call comes to."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            outcome = call()
        except BaseException as error:  # noqa: BLE001
            outcome = error
        os.write(write, pickle.dumps(outcome))
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        outcome = pickle.loads(pipe.read())
    assert os.waitpid(pid, 0)[1] == 0
    return outcome


def test_a_forked_child_is_not_its_parent(folder):
    domain = Domain(folder)
    lock = Lock("lock", domain)
    lock.acquire()
    tokens = domain.token(), domain.process_token()
    assert child(lambda: (domain.token(), domain.process_token()) == tokens) is False
    assert child(lambda: lock.acquire(timeout=0.1)) is False, "its parent has it"
    assert isinstance(child(lock.release), RuntimeError)
    assert isinstance(child(lambda: lock.value), RuntimeError)
    assert lock.locked()
    lock.release()

    def take():
        with lock as held:
            held.value += 1
        return lock.locked()

    assert child(take) is False
    kept = []
    assert child(lambda: kept.append(Lock("lock", domain)) or kept[0].acquire()) is True
    with lock as held:
        assert held.owner_died and held.value == 1, "the last child ended holding it"
        held.mark_consistent()


def test_what_a_forked_child_has_of_its_parents(folder):
    queue, state, event = Queue("queue", folder), State("state", 8, folder), Event("event", folder)
    slots = Semaphore("slots", 2, folder)
    topic = Topic("topic", folder)
    publisher, subscriber = topic.publisher(), topic.subscriber()
    publisher.publish(b"parents")
    queue.send(b"1")
    assert queue.recv() == b"1"
    queue.send(b"2")
    slots.acquire()
    sample = subscriber.recv()
    loan = publisher.loan(100)

    def use():
        nonlocal loan, sample
        assert bytes(sample) == b"parents"
        for call in [lambda: publisher.publish(b"x"), subscriber.try_recv, loan.publish]:
            with pytest.raises(NotYours):
                call()
        del loan, sample
        with pytest.raises(outlive.Taken):
            queue.recv(timeout=1)
        with pytest.raises(outlive.Taken):
            queue.get(timeout=1)
        queue.put("childs")
        event.set()
        assert slots.acquire(timeout=60) and not slots.acquire(blocking=False)
        with pytest.raises(ValueError):
            slots.release(2)
        state.set(b"childs")
        with topic.publisher().loan(6) as view:
            view[:] = b"childs"
        return "done"

    assert child(use) == "done"
    assert event.wait(5) and state.get() == b"childs"
    assert queue.recv(timeout=60) == b"2" and pickle.loads(queue.recv(timeout=60)) == "childs"
    assert bytes(subscriber.recv(timeout=60)) == b"childs"
    assert slots.acquire(timeout=60), "the child's permit came back"
    assert loan.publish() == 1


def test_a_fork_while_another_thread_is_inside(folder):
    import threading

    queue = Queue("queue", folder)
    # This process is the receiver, also where the thread is late.
    assert queue.try_recv() is None
    thread = threading.Thread(target=lambda: queue.recv(timeout=60), daemon=True)
    thread.start()
    time.sleep(0.2)

    def use():
        with pytest.raises(outlive.Taken):
            queue.recv(timeout=1)
        queue.put(1)
        return "done"

    with pytest.warns(DeprecationWarning) if os.sys.version_info >= (3, 12) else _nothing():
        assert child(use) == "done"
    thread.join(60)
    assert not thread.is_alive()


class _nothing:
    def __enter__(self):
        pass

    def __exit__(self, *_):
        pass


def work(lock, queue, answers, event, state, slots, topic):
    """In a child of multiprocessing."""
    assert event.wait(60)
    with slots, lock as held:
        held.value += queue.get(timeout=60)
    answers.put((os.getpid(), state.get()))
    topic.publisher().publish(b"from a child")


@pytest.mark.parametrize("how", ["fork", "spawn", "forkserver"])
def test_what_is_given_to_children(folder, how):
    context = multiprocessing.get_context(how)
    lock, queue, answers = Lock("lock", folder), Queue("queue", folder), Queue("answers", folder)
    event, state, slots = Event("event", folder), State("state", 8, folder, initial=b"ours"), Semaphore("slots", 2, folder)
    topic = Topic("topic", folder)
    subscriber = topic.subscriber()
    children = [
        context.Process(target=work, args=(lock, queue, answers, event, state, slots, topic)) for _ in range(2)
    ]
    for process in children:
        process.start()
    queue.put(3)
    queue.put(4)
    event.set()
    for process in children:
        process.join(60)
        assert process.exitcode == 0
    with lock as held:
        assert held.value == 7
    assert {answers.get(timeout=60)[1] for _ in children} == {b"ours"}
    assert [bytes(subscriber.recv(timeout=60)) for _ in children] == [b"from a child"] * 2
    for process in children:
        process.close()


@pytest.mark.parametrize("make", [Lock, RwLock, Event, Queue, Topic, lambda n, d: State(n, 8, d), lambda n, d: Semaphore(n, 1, d), lambda n, d: Barrier(n, 2, d), lambda n, d: Condition(n, Lock('lock', d))])
def test_pickled_things_are_the_same_thing(folder, make):
    thing = make("thing", folder)
    again = pickle.loads(pickle.dumps(thing))
    assert (type(again), again.name) == (type(thing), "thing")
    domain = pickle.loads(pickle.dumps(Domain(folder)))
    assert domain == Domain(folder) and domain.path == folder and hash(domain) == hash(Domain(folder))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can play several users")
def test_what_is_pickled_in_a_groups_domain_is_opened_by_another_member(start):
    group = 6_000_000 + os.getpid()
    try:
        domain = Domain("robots", group=group)
        lock = Lock("lock", domain)
        assert pickle.loads(pickle.dumps(domain)) == domain
        pickled = pickle.dumps((domain, lock))
        program = start(f"""
            import pickle, outlive._reopen
            os.setgroups([{group}]); os.setgid(65534); os.setuid(65534)
            domain, lock = pickle.loads({pickled!r})
            with lock as held:
                held.value = 7
            say(domain.path, domain.names())
        """)
        assert program.line() == f"{domain.path} {domain.names()}"
        assert program.end() == 0
        with lock as held:
            assert held.value == 7
    finally:
        shutil.rmtree(f"/dev/shm/outlive-group-{group}", ignore_errors=True)
