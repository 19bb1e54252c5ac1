"""asyncio: by descriptors."""

from __future__ import annotations

import asyncio
import os
import socket

import outlive
import pytest

from outlive import CallTimeout, Client, Queue, Server, ServerDied, Topic


def run(coroutine):
    async def bounded():
        return await asyncio.wait_for(coroutine, 60)

    return asyncio.run(bounded())


def test_async_for_over_a_topic_of_another_process(folder, start):
    subscriber = Topic("topic", folder, depth=256, reliable=True).subscriber(reliable=True)
    program = start("""
        publisher = Topic("topic", folder).publisher()
        for number in range(50):
            publisher.publish(b"%d" % number)
            time.sleep(0.002)
    """)

    async def read():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.001)

        ticking = asyncio.create_task(tick())
        seen = []
        async for sample in subscriber:
            seen.append(int(bytes(sample)))
            if len(seen) == 50:
                break
        ticking.cancel()
        return seen, ticks

    seen, ticks = run(read())
    assert seen == list(range(50))
    assert ticks > 5, "the loop went on meanwhile"
    assert program.end() == 0


def test_queues_and_cancelling(folder, start):
    queue = Queue("queue", folder, end_when_senders_gone=True)

    async def read():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(queue.recv_async(), 0.05)
        waiting = asyncio.create_task(queue.recv_async())
        await asyncio.sleep(0.01)
        with pytest.raises(RuntimeError):
            await queue.recv_async()
        queue.send(b"first")
        assert await waiting == b"first"
        program = start("queue = Queue('queue', folder); queue.send(b'second'); queue.send(b'third')")
        second = await queue.recv_async()
        third = await queue.recv_async()
        program.end()
        return second, third

    assert run(read()) == (b"second", b"third")


def test_async_for_ends_when_senders_are_gone(folder, start):
    program = start("queue = Queue('queue', folder); [queue.send(b'x') for _ in range(5)]; time.sleep(0.2)")
    queue = Queue("queue", folder, end_when_senders_gone=True)

    async def read():
        return [message async for message in queue]

    assert run(read()) == [b"x"] * 5
    assert program.end() == 0


def test_two_subscribers_in_one_loop(folder):
    topics = [Topic(f"topic{number}", folder) for number in range(2)]
    subscribers = [topic.subscriber() for topic in topics]
    publishers = [topic.publisher() for topic in topics]

    async def read():
        both = asyncio.gather(*(subscriber.recv_async() for subscriber in subscribers))
        await asyncio.sleep(0.02)
        publishers[1].publish(b"one")
        publishers[0].publish(b"zero")
        return [bytes(sample) for sample in await both]

    assert run(read()) == [b"zero", b"one"]
    assert os.fstat(subscribers[0].fileno())


def test_a_service_in_asyncio_both_ends(folder, start):
    program = start("""
        import asyncio
        async def serve():
            async for request in Server("double", folder):
                request.reply(request.data * 2)
        say("serving")
        asyncio.run(serve())
    """)
    assert program.line() == "serving"
    client = Client("double", folder, wait_for_server=True)

    async def ask():
        answers = [await client.call_async(b"%d" % number, timeout=60) for number in range(20)]
        return answers, await asyncio.gather(*(client.call_async(b"x") for _ in range(5)))

    assert run(ask()) == ([b"%d" % number * 2 for number in range(20)], [b"xx"] * 5)
    program.kill()

    async def after():
        await client.call_async(b"late", timeout=0.05)

    with pytest.raises((CallTimeout, ServerDied)):
        run(after())


def test_a_server_looks_without_waiting(folder):
    server, client = Server("looks", folder), Client("looks", folder)
    assert server.try_next() is None

    async def both():
        asking = asyncio.create_task(client.call_async(b"a", 20))
        request = await server.next_async()
        request.reply(request.data + b"!")
        return await asking

    assert run(both()) == b"a!"


def test_a_closed_objects_task_leaves_other_descriptors_alone(folder):
    """A socket that gets the number of a closed object's descriptor is the loop's like any other."""

    async def closes():
        loop = asyncio.get_running_loop()
        server = outlive.Server("server", folder)
        task = asyncio.ensure_future(server.next_async())
        await asyncio.sleep(0.05)
        number = server.fileno()
        server.close()
        pairs = [pair for _ in range(8) for pair in [socket.socketpair()]]
        (read, write), = [ends[::step] for ends in pairs for step in (1, -1) if ends[::step][0].fileno() == number]
        read.setblocking(False)
        reading = asyncio.ensure_future(loop.sock_recv(read, 10))
        await asyncio.sleep(0.05)
        with pytest.raises(ValueError, match="closed"):
            await asyncio.wait_for(task, 60)
        write.send(b"hello")
        assert await asyncio.wait_for(reading, 60) == b"hello"
        for end in (end for pair in pairs for end in pair):
            end.close()

    asyncio.run(closes())


def test_one_task_waits_for_an_empty_set(folder):
    waiting = outlive.WaitSet(folder)

    async def both():
        # Longer than a busy machine keeps this task from its next step.
        first = asyncio.ensure_future(waiting.wait_async(timeout=6))
        await asyncio.sleep(0.05)
        with pytest.raises(RuntimeError, match="another task"):
            await asyncio.wait_for(waiting.wait_async(timeout=60), 60)
        assert await first == []

    asyncio.run(both())


@pytest.mark.parametrize("kind", ["due", "subscriber", "server", "queue", "jobs", "listener", "set"])
def test_closing_ends_a_tasks_wait(folder, kind):
    """As it ends a thread's. Another object gets the descriptor's number meanwhile, and is waited for, too."""

    async def closes():
        publisher = outlive.Topic("topic", folder).publisher()
        subscriber, queue, server = outlive.Topic("topic", folder).subscriber(), outlive.Queue("queue", folder), outlive.Server("server", folder)
        jobs, listener, waiting = outlive.JobQueue("jobs", folder), outlive.Listener("doors", folder), outlive.WaitSet(folder)
        thing, wait = {
            "due": (publisher, publisher.due_async), "subscriber": (subscriber, subscriber.recv_async), "server": (server, server.next_async),
            "queue": (queue, queue.recv_async), "jobs": (jobs, jobs.take_async), "listener": (listener, listener.wait_async),
            "set": (waiting, waiting.wait_async),
        }[kind]
        task = asyncio.ensure_future(wait())
        await asyncio.sleep(0.05)
        thing.close()
        others = [asyncio.ensure_future(outlive.Queue(name, folder).recv_async()) for name in ("one", "two", "three")]
        with pytest.raises(ValueError, match="closed"):
            await asyncio.wait_for(task, 60)
        await asyncio.sleep(0.05)
        for name in ("one", "two", "three"):
            outlive.Queue(name, folder).send(name.encode())
        assert await asyncio.wait_for(asyncio.gather(*others), 60) == [b"one", b"two", b"three"]

    asyncio.run(closes())
