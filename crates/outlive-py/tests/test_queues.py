"""Queues, states, services, wait sets."""

from __future__ import annotations

import queue as stdlib
import threading
import time

import pytest

from outlive import (
    BadOption,
    CallTimeout,
    Client,
    ClientDied,
    Domain,
    Dropped,
    Empty,
    Event,
    Full,
    NoServer,
    PeerDied,
    Queue,
    ReceiverDied,
    SendersGone,
    Server,
    ServerDied,
    State,
    Taken,
    Timeout,
    TooLarge,
    Topic,
    WaitSet,
)


def test_batches(folder, start):
    queue = Queue("queue", folder)
    assert queue.send_many([]) == 0
    assert queue.send_many([b"one", bytearray(b"two"), memoryview(b"x" * 5000)[::2]], timeout=1) == 3
    queue.send(b"four")
    assert queue.recv_many(2) == [b"one", b"two"]
    assert queue.recv_many() == [b"x" * 2500, b"four"]
    with pytest.raises(Empty):
        queue.recv_many(timeout=0.01)
    with pytest.raises(TypeError):
        queue.send_many([b"whole", 7])
    with pytest.raises(ValueError):
        queue.recv_many(0)
    assert queue.try_recv() is None, "none of them"
    queue.send_many(b"%d" % number for number in range(5000))
    received = []
    while len(received) < 5000:
        received += queue.recv_many(timeout=60)
    assert received == [b"%d" % number for number in range(5000)]
    queue.send_many([b"looked at", b"next"])
    looked = queue.peek()
    assert queue.recv_many(1) == [b"looked at"]
    with pytest.raises(RuntimeError):
        looked.commit()
    queue.close()
    small = Queue("small", folder, max_bytes=1 << 16)
    with pytest.raises(Full):
        while True:
            small.send_many([b"x" * 1000] * 10, timeout=0)
    program = start("queue = Queue('queue', folder); say(queue.recv_many(1, timeout=60)); say('looks'); queue.recv_many(1000)")
    assert program.line() == "[b'next']" and program.line() == "looks"
    time.sleep(0.1)
    program.kill()
    with pytest.raises(ReceiverDied):
        queue = Queue("queue", folder)
        queue.send_many([b"late"] * 2)


def test_multiprocessings_methods(folder):
    queue = Queue("queue", folder)
    for thing in [1, None, "text", {"a": [1, 2]}, b"x" * 100_000, ValueError("inside")]:
        queue.put(thing)
    assert queue.qsize() == 6 and not queue.empty() and not queue.full()
    assert [queue.get() for _ in range(5)] == [1, None, "text", {"a": [1, 2]}, b"x" * 100_000]
    assert str(queue.get_nowait()) == "inside"
    assert queue.empty()
    for get in [queue.get_nowait, lambda: queue.get(False), lambda: queue.get(True, 0.01), lambda: queue.get(timeout=-1)]:
        with pytest.raises(stdlib.Empty):
            get()
    queue.put_nowait(1)
    queue.put(2, False)
    queue.put(3, True, 1.0)
    queue.close()
    queue.join_thread()
    queue.cancel_join_thread()
    with pytest.raises(ValueError):
        queue.put(4)
    with pytest.raises(ValueError):
        queue.get()
    again = Queue("queue", folder)
    assert [again.get() for _ in range(3)] == [1, 2, 3]
    with pytest.raises(Exception, match="pickle|local object"):
        again.put(lambda: None)


def test_a_full_queue(folder):
    queue = Queue("queue", folder, max_bytes=1 << 16)
    with pytest.raises(stdlib.Full):
        while True:
            queue.put(b"x" * 1000, block=False)
    assert queue.full()
    with pytest.raises(Full):
        queue.put(b"x" * 1000, timeout=0.06)
    with pytest.raises(Full):
        queue.send(b"x" * 1000, timeout=0.01)
    with pytest.raises(TooLarge):
        queue.send(bytes(1 << 20))
    got = threading.Timer(0.1, queue.get)
    got.start()
    queue.put(b"x" * 1000, timeout=60)
    got.join(60)


def test_maxsize_is_the_most_messages(folder, start):
    for most in [1, 2, 3, 7]:
        queue = Queue(f"of.{most}", folder, maxsize=most)
        assert queue.maxsize == most and Queue.open(f"of.{most}", domain=folder).maxsize == most
        for round in range(5):
            for number in range(most):
                assert not queue.full() and queue.qsize() == number
                queue.put((round, number), block=0)
            assert queue.full() and queue.qsize() == most
            for late in [lambda: queue.put_nowait(0), lambda: queue.put(0, timeout=0.01), lambda: queue.put(b"x" * 50_000, 0)]:
                with pytest.raises(stdlib.Full):
                    late()
            got = threading.Timer(0.05, queue.get)
            got.start()
            queue.put((round, most), timeout=60)
            got.join(60)
            assert [queue.get() for _ in range(most)] == [(round, number) for number in range(1, most + 1)]
            assert queue.empty() and not queue.full()
    # No bound is set: it stays as it is, and a new queue has none.
    assert Queue("of.3", folder, maxsize=0).maxsize == Queue("of.3", folder).maxsize == 3
    assert Queue("free", folder, maxsize=-1).maxsize == 0
    for other in ["of.3", "free"]:
        with pytest.raises(BadOption, match="max_messages"):
            Queue(other, folder, maxsize=4)
    for beyond in [(1 << 20) + 1, 1 << 40]:
        with pytest.raises(BadOption):
            Queue("beyond", folder, maxsize=beyond)


def test_counters_say_how_many_messages_there_is_memory_for(folder):
    assert Queue("of.3", folder, maxsize=3).counters()["places"] == 3
    assert "places" not in Queue("free", folder).counters()
    queue = Queue("short", folder, maxsize=20_000, max_bytes=64 << 10)
    assert queue.counters()["places"] <= 20_000
    sent = 0
    while not queue.full():
        queue.put_nowait(sent)
        sent += 1
    assert 0 < sent < 20_000
    assert queue.counters()["places"] == sent and queue.maxsize == 20_000


def test_a_killed_putter_leaves_the_whole_bound(folder, start):
    program = start("""
        queue = Queue("queue", folder, maxsize=3)
        for number in range(3):
            queue.put(number)
        say("full")
        queue.put(3)
    """)
    assert program.line() == "full"
    time.sleep(0.1)
    program.kill()
    queue = Queue("queue", folder)
    assert [queue.get(timeout=60) for _ in range(3)] == [0, 1, 2]
    for number in range(3):
        queue.put_nowait(number)
    assert queue.full() and queue.qsize() == 3


def test_join_waits_for_what_is_not_done(folder):
    queue = Queue("queue", folder)
    queue.join()
    with pytest.raises(ValueError):
        queue.task_done()
    queue.put("one")
    queue.put("two")
    for _ in range(2):
        with pytest.raises(Timeout):
            queue.join(0.01)
        queue.get()
    # Several are got before the first is done, and any thread and object of the process may say so.
    Queue("queue", folder).task_done()
    with pytest.raises(Timeout):
        queue.join(0.01)
    done = threading.Timer(0.05, queue.task_done)
    done.start()
    queue.join(60)
    done.join(60)
    with pytest.raises(ValueError):
        queue.task_done()
    # Bytes are done when they are received, or committed.
    queue.send(b"three")
    queue.send(b"four")
    queue.recv()
    peeked = queue.peek()
    with pytest.raises(Timeout):
        queue.join(0.01)
    peeked.commit()
    queue.join(60)
    # As the one receiver it gets objects as well.
    queue.put("five")
    assert queue.get() == "five"
    with pytest.raises(Timeout):
        queue.join(0.01)
    queue.task_done()
    queue.join()
    queue.close()
    for late in [queue.join, queue.task_done]:
        with pytest.raises(ValueError, match="closed"):
            late()


def test_join_waits_for_no_killed_process(folder, start):
    queue = Queue("queue", folder)
    for number in range(5):
        queue.put(number)
    code = """
        queue = Queue("queue", folder)
        say([queue.get(), queue.get()])
        queue.get()
        say("a third")
        time.sleep(60)
    """
    first, second = start(code), start(code)
    assert first.line() and second.line()
    # One of them has got the last object, and the other waits for one.
    first.kill()
    with pytest.raises(Timeout):
        queue.join(0.05)
    second.kill()
    # A getter that was killed while it waited: the next one takes over. What was got is gone.
    while not queue.empty():
        queue.get(timeout=60)
        queue.task_done()
    queue.join(60)
    # What a killed process put is waited for.
    putter = start("""
        Queue("queue", folder).put("left")
        say("put")
        time.sleep(60)
    """)
    putter.line()
    putter.kill()
    with pytest.raises(Timeout):
        queue.join(0.05)
    assert queue.get(timeout=60) == "left"
    queue.task_done()
    queue.join(60)


def test_many_processes_put_and_get(folder, start):
    """As with multiprocessing's: each object to one of them."""
    work, done = Queue("work", folder), Queue("done", folder)
    code = """
        work, done = Queue("work", folder), Queue("done", folder)
        say("ready")
        while (number := work.get()) is not None:
            done.put(number * number)
    """
    workers = [start(code) for _ in range(3)]
    for worker in workers:
        worker.line()
    for number in range(300):
        work.put(number)
    # One of them is killed, most likely in get: no process hangs, and no put fails.
    while work.qsize() > 0:
        time.sleep(0.001)
    workers[0].kill()
    for number in range(300, 600):
        work.put(number)
    for _ in workers:
        work.put(None)
    squares = sorted(done.get(timeout=60) for _ in range(600 - lost(work, done, workers)))
    assert len(set(squares)) == len(squares) >= 598
    for worker in workers[1:]:
        assert worker.end() == 0


def lost(work, done, workers):
    """What the killed worker had taken and not answered."""
    until = time.monotonic() + 60
    while (workers[1].process.poll() is None or workers[2].process.poll() is None) and time.monotonic() < until:
        time.sleep(0.01)
    return 600 - done.qsize()


def test_bytes_go_to_one_receiver_and_its_death_is_told(folder, start):
    queue = Queue("queue", folder)
    program = start("""
        queue = Queue("queue", folder)
        say(queue.recv())
        time.sleep(60)
    """)
    queue.send(b"first")
    assert program.line() == "b'first'"
    with pytest.raises(Taken):
        queue.recv(timeout=1)
    queue.send(memoryview(b"second"))
    program.kill()
    with pytest.raises(ReceiverDied) as raised:
        while True:
            queue.send(b"third")
    assert isinstance(raised.value, PeerDied)
    assert queue.recv(timeout=60) == b"second"
    with pytest.raises(Empty):
        while True:
            assert queue.recv(timeout=0.05) == b"third"
    assert queue.try_recv() is None
    queue.send(b"")
    assert next(iter(queue)) == b""
    assert queue.counters()["pending"] == 0


def test_put_goes_on_when_a_getter_was_killed(folder, start):
    queue = Queue("queue", folder)
    program = start("say('gets'); Queue('queue', folder).get()")
    program.line()
    time.sleep(0.2)
    program.kill()
    queue.put("on")
    assert queue.get(timeout=60) == "on"


def test_senders_gone(folder, start):
    program = start("queue = Queue('queue', folder); queue.send(b'one'); queue.send(b'two')")
    assert program.end() == 0
    queue = Queue("queue", folder, end_when_senders_gone=True)
    assert list(queue) == [b"one", b"two"]
    with pytest.raises(SendersGone):
        queue.recv()


def test_states(folder, start):
    state = State("state", 16, folder, initial=b"first")
    program = start("""
        state = State.open("state", domain=folder)
        state.set(b"second")
        say("set")
        time.sleep(60)
    """)
    assert state.wait_changed(1, timeout=60) == 2
    program.line()
    assert state.get() == b"second" and state.capacity >= 16
    with pytest.raises(Taken):
        state.set(b"mine")
    program.kill()
    with pytest.raises(PeerDied):
        state.wait_changed(2, timeout=60)
    assert state.set(b"mine") == 3
    with pytest.raises(TooLarge):
        state.set(b"x" * 1000)
    assert state.get() == b"mine"


def test_services(folder, start):
    client = Client("service", folder)
    with pytest.raises(NoServer):
        client.call(b"")
    server = Server("service", folder)
    with pytest.raises(CallTimeout) as late:
        client.call(b"nobody takes it", timeout=0.06)
    assert not late.value.begun and isinstance(late.value, TimeoutError)
    with pytest.raises(Taken):
        Server("service", folder)
    program = start("""
        client = Client("service", folder)
        say(client.call(b"x" * 100_000, timeout=60)[:3])
        try:
            client.call(b"drop", timeout=60)
        except Dropped:
            say("dropped")
        client.call(b"wait")
    """)
    request = server.next(timeout=60)
    assert request.data == b"x" * 100_000 and request.client_pid == program.pid and not request.cancelled
    request.reply(request.data.replace(b"x", b"y"))
    assert program.line() == "b'yyy'"
    with pytest.raises(RuntimeError):
        request.reply(b"again")
    request = next(server)
    del request
    assert program.line() == "dropped"
    request = server.next(timeout=60)
    program.kill()
    with pytest.raises(ClientDied):
        request.reply(b"too late")
    with pytest.raises(Timeout):
        server.next(timeout=0.01)


@pytest.mark.parametrize("begun", [True, False])
def test_a_servers_death_ends_calls(folder, start, begun):
    program = start(f"""
        server = Server("service", folder)
        say("serves")
        if {begun}:
            request = server.next()
            say("begun")
        time.sleep(60)
    """)
    program.line()
    client = Client("service", folder)
    outcome, asked = [], threading.Event()

    def call():
        try:
            pending = client.begin(b"x")
            asked.set()
            pending.result(timeout=60)
        except ServerDied as died:
            outcome.append(died.begun)

    thread = threading.Thread(target=call)
    thread.start()
    if begun:
        program.line()
    else:
        assert asked.wait(60)
    program.kill()
    thread.join(60)
    assert outcome == [begun]


def test_wait_sets(folder, start):
    domain = Domain(folder)
    topic, queue, event = Topic("topic", domain), Queue("queue", domain), Event("event", domain)
    subscriber = topic.subscriber()
    program = start("say(Domain(folder).process_token()); time.sleep(60)")
    peer = domain.peer(int(program.line()))
    waiting = WaitSet(domain)
    for source in [subscriber, queue, event, peer]:
        waiting.add(source)
    assert len(waiting) == 4 and waiting.wait(timeout=0.01) == [] and waiting.try_wait() == []
    topic.publisher().publish(b"x")
    assert waiting.wait(timeout=60) == [subscriber]
    subscriber.recv()
    queue.send(b"y")
    assert waiting.wait(timeout=60) == [queue]
    assert queue.recv() == b"y"
    event.set(4)
    program.kill()
    assert peer.wait_dead(timeout=60) and not peer.alive
    assert set(map(id, waiting.wait(timeout=60))) == {id(event), id(peer)}
    waiting.remove(event)
    waiting.remove(peer)
    with pytest.raises(KeyError):
        waiting.remove(peer)
    waiting.every(0.01, "tick")
    assert waiting.wait(timeout=60) == ["tick"]
    with pytest.raises(TypeError):
        waiting.add(7)
