"""Standing by for a role, what a set tells of states, topics, publishers and streams, and what errors carry."""

from __future__ import annotations

import os
import signal

import pytest

import outlive
from outlive import Client, Lagged, NewSession, Queue, Server, State, Taken, Topic, WaitSet


def test_a_process_stands_by_for_a_queue_and_a_state(folder: str) -> None:
    queue, mode = Queue("orders", folder), State("mode", 8, folder)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        theirs, written = Queue("orders", folder), State("mode", 8, folder)
        theirs.try_recv()
        written.set(b"theirs")
        os.write(writing, b"!")
        signal.pause()
        os._exit(0)
    os.read(reading, 1)
    assert queue.wait_to_receive(timeout=0.005) is False
    assert mode.wait_to_write(timeout=0.005) is False
    with pytest.raises(Taken):
        mode.set(b"mine")
    os.kill(child, signal.SIGKILL)
    assert queue.wait_to_receive(timeout=60) and mode.wait_to_write(timeout=60)
    os.waitpid(child, 0)
    queue.send(b"x")
    assert queue.recv(timeout=60) == b"x" and mode.set(b"mine") == 3
    # A process that has the role gets it at once.
    assert queue.wait_to_receive(timeout=0) and mode.wait_to_write(timeout=0)


def test_a_set_waits_for_a_state(folder: str) -> None:
    mode = State("mode", 8, folder)
    waiting = WaitSet(folder)
    waiting.add(mode)
    assert waiting.wait(timeout=60) == [mode]  # its present value
    assert waiting.wait(timeout=0) == []
    other = State("mode", 8, folder)
    other.set(b"a")
    assert waiting.wait(timeout=60) == [mode] and waiting.wait(timeout=0) == []
    waiting.remove(mode)
    assert len(waiting) == 0


def test_a_set_waits_for_a_topics_ends(folder: str) -> None:
    topic = Topic("poses", folder)
    waiting = WaitSet(folder)
    waiting.add(topic)
    assert waiting.wait(timeout=60) == [topic]  # those that are there now: none
    assert waiting.wait(timeout=0) == []
    publisher = topic.publisher()
    assert waiting.wait(timeout=60) == [topic] and waiting.wait(timeout=0) == []
    publisher.close()
    assert waiting.wait(timeout=60) == [topic]


def test_a_set_waits_for_room(folder: str) -> None:
    topic = Topic("steps", folder, depth=1, reliable=True)
    slow, publisher = topic.subscriber(reliable=True), topic.publisher()
    waiting = WaitSet(folder)
    waiting.add(publisher)
    assert waiting.wait(timeout=0) == [publisher]
    publisher.publish(b"1")
    assert waiting.wait(timeout=0) == []
    slow.recv(timeout=60)
    assert waiting.wait(timeout=60) == [publisher]


def test_a_set_waits_for_a_stream_that_no_client_wants(folder: str) -> None:
    server, client = Server("count", folder), Client("count", folder)
    call = client.begin(b"x")
    stream = server.next(timeout=60).stream()
    waiting = WaitSet(folder)
    waiting.add(stream)
    assert waiting.wait(timeout=0) == []
    call.cancel()
    assert waiting.wait(timeout=60) == [stream]
    with pytest.raises(TypeError, match="topics, states, queues"):
        waiting.add(7)  # type: ignore[arg-type]


def test_errors_carry_their_numbers(folder: str) -> None:
    topic = Topic("steps", folder, depth=1, reliable=True)
    slow = topic.subscriber(reliable=True)
    publisher = topic.publisher(max_blocking=0.001)
    for number in range(3):
        publisher.publish(bytes([number]))
    assert publisher.stopped_waiting == 1
    with pytest.raises(Lagged) as lagged:
        slow.recv(timeout=60)
    assert lagged.value.lost == 2 and "overwritten" in str(lagged.value)
    told = topic.subscriber(sessions=True, history=1)
    with pytest.raises(NewSession) as new:
        told.recv(timeout=60)
    assert new.value.session == told.recv(timeout=60).session and "has started" in str(new.value)


def test_a_payload_that_is_none_names_the_encodings(folder: str) -> None:
    with pytest.raises(TypeError, match=r"'jsn' is no payload: give an encoding \(bytes, cdr, json, msgpack, protobuf\)"):
        Topic("x", folder, payload="jsn")
    assert outlive.Domain(folder).names() == {}


def test_a_set_waits_for_roles(folder: str, start) -> None:  # type: ignore[no-untyped-def]
    program = start("""
        server, queue, mode = Server("work", folder), Queue("orders", folder), State("mode", 8, folder)
        queue.wait_to_receive()
        mode.wait_to_write()
        say("there")
        signal.pause()
    """)
    assert program.line() == "there"
    queue, mode = Queue("orders", folder), State("mode", 8, folder)
    roles = [queue.stand_by(), mode.stand_by(), Server.stand_by("work", folder)]
    waiting = WaitSet(folder)
    for role in roles:
        waiting.add(role)
    assert waiting.wait(timeout=0.01) == [] and [role.name for role in roles] == ["orders", "mode", "work"]
    program.kill()
    free: list[object] = []
    while len(free) < 3:
        ready = waiting.wait(timeout=60)
        assert ready
        free = ready
    assert all(role in free for role in roles)
    assert queue.wait_to_receive(timeout=0) and mode.wait_to_write(timeout=0)
    with Server("work", folder):
        assert waiting.wait(timeout=0) == []
    assert waiting.wait(timeout=60) == [roles[2]]
    waiting.remove(roles[2])
    assert waiting.try_wait() == [] and len(waiting) == 2
    queue.close()
    with pytest.raises(ValueError, match="closed"):
        queue.stand_by()
