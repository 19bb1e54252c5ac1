"""asyncio: calls, loans, parts, cancellation and standing by, of which none blocks the loop."""

import asyncio
import threading

import numpy as np
import pytest

from outlive import Call, CallTimeout, Cancelled, Client, Dropped, NoServer, Queue, Reply, Server, State, Topic, WaitSet


def run(coroutine):
    """Bounded, and without a thread of the loop's executor."""
    async def bounded():
        answer = await asyncio.wait_for(coroutine, 60)
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("asyncio")]
        return answer

    return asyncio.run(bounded())


async def waits(coroutine):
    """A task that is not done after a moment, while the loop goes on."""
    task = asyncio.ensure_future(coroutine)
    await asyncio.sleep(0.03)
    assert not task.done()
    return task


def test_replies_in_place(folder):
    server, client = Server("ones", folder), Client("ones", folder)

    async def both():
        asking = asyncio.ensure_future(client.call_async(b"first", 20, copy=False))
        with (await server.next_async()).loan(1000, "float32") as ones:
            ones[:] = 1
        reply = await asking
        assert isinstance(reply, Reply) and reply.numpy("float32").sum() == 1000
        reply.close()

        loan = await client.loan_async((480, 640), np.uint8)
        with loan as image:
            image[:] = 2
        asking = asyncio.ensure_future(loan.call_async(timeout=60))
        request = await server.next_async()
        assert request.numpy(np.uint8).sum() == 2 * 480 * 640
        request.reply(b"done")
        assert bytes(await asking) == b"done"

        loan = await client.loan_async(10)
        with loan as memory:
            memory[:] = b"0123456789"
        call = await loan.begin_async()
        assert isinstance(call, Call)
        stream = (await server.next_async()).stream()
        await stream.send_async(b"a")
        assert bytes(await call.reply_async()) == b"a"
        stream.finish()
        assert await call.reply_async() is None

        asking = asyncio.ensure_future(client.call_async(b"dropped", copy=False))
        (await server.next_async()).fail("no")
        with pytest.raises(Exception, match="no"):
            await asking
        with pytest.raises(CallTimeout) as late:
            await client.call_async(b"late", 0.02, copy=False)
        assert late.value.begun is False

    run(both())


def test_a_begin_waits_for_a_server(folder):
    client = Client("later", folder, wait_for_server=True)

    async def both():
        asking = await waits(client.call_async(b"a"))
        begun = await waits(client.begin_async(b"b"))
        server = Server("later", folder)
        for _ in range(2):
            request = await server.next_async()
            request.reply(request.data + b"!")
        assert await asking == b"a!" and await (await begun) == b"b!"
        server.close()
        with pytest.raises(CallTimeout) as late:
            await client.begin_async(b"c", timeout=0.02)
        assert late.value.begun is False
        with pytest.raises(NoServer):
            await Client("later", folder).call_async(b"d")

    run(both())


def test_a_timeout_of_a_begin(folder):
    """Of 0 it tries once, as in ``begin``; what is no timeout there is none here."""
    server, client = Server("at once", folder), Client("at once", folder)

    async def both():
        for begin in (lambda timeout: client.begin_async(b"x", timeout), lambda timeout: client.stream_async(b"x", timeout)):
            call = await begin(0)
            assert (await server.next_async()).data == b"x"
            call.cancel()
            for no_time in (-1, float("nan")):
                with pytest.raises(ValueError, match="timeout"):
                    await begin(no_time)
        (await client.loan_async(8, timeout=0)).discard()
        with pytest.raises(ValueError, match="timeout"):
            await client.call_async(b"x", -1)

    run(both())


def test_a_begin_and_a_loan_wait_for_memory(folder):
    server, client = Server("small", folder, max_bytes=1 << 20), Client("small", folder)

    def fill():
        calls = []
        with pytest.raises(CallTimeout):
            while True:
                calls.append(client.begin(bytes(200_000), timeout=0))
        return calls

    async def both():
        calls = fill()
        asking = await waits(client.call_async(b"x" * 200_000))
        for call in calls:
            call.cancel()
        request = await server.next_async()
        assert request.data[:1] == b"x"
        request.reply(b"ok")
        assert await asking == b"ok"
        del request

        calls = fill()
        lending = await waits(client.loan_async(200_000))
        server.try_next().fail("no")
        loan = await lending
        with loan as memory:
            assert len(memory) == 200_000
        for call in calls:
            call.cancel()

    run(both())


def test_parts_and_replies_wait_for_room(folder):
    server, client = Server("store", folder), Client("store", folder)

    async def both():
        call = await client.stream_async(b"name")
        request = await server.next_async()

        async def upload():
            for number in range(30):
                await call.send_async(b"%d" % number)
            call.finish()

        uploading = await waits(upload())
        parts = []
        while (part := await request.next_part_async()) is not None:
            parts.append(int(part))
        assert parts == list(range(30))
        await uploading
        stream = request.stream()
        assert await stream.next_part_async() is None

        async def download():
            for number in range(30):
                await stream.send_async(b"%d" % number)
            stream.finish()

        downloading = await waits(download())
        assert [int(reply) async for reply in call] == list(range(30))
        await downloading

        call = await client.stream_async(b"cut off")
        request = await server.next_async()
        waiting = await waits(request.next_part_async())
        call.cancel()
        with pytest.raises(Cancelled):
            await waiting

    run(both())


def test_a_cancellation_is_awaited(folder):
    server, client = Server("search", folder), Client("search", folder)

    async def both():
        call = client.begin(b"all primes")
        request = await server.next_async()
        waiting = await waits(request.wait_cancelled_async())
        call.cancel()
        assert await waiting is True
        call = client.begin(b"one prime")
        request = await server.next_async()
        waiting = await waits(request.wait_cancelled_async())
        request.reply(b"2")
        assert await waiting is False and await request.wait_cancelled_async() is False

    run(both())


def test_tasks_stand_by(folder, start):
    program = start("""
        server, queue, mode = Server("s", folder), Queue("q", folder), State("m", 8, folder)
        queue.wait_to_receive()
        mode.set(b"theirs")
        say("serving")
        signal.pause()
    """)
    assert program.line() == "serving"
    queue, mode = Queue("q", folder), State("m", 8, folder)
    client = Client("s", folder, wait_for_server=True)

    async def stand_by():
        serving = await waits(Server.wait_to_serve_async("s", folder))
        receiving = await waits(queue.wait_to_receive_async())
        writing = await waits(mode.wait_to_write_async())
        dropped = await waits(Server.wait_to_serve_async("s", folder))
        dropped.cancel()
        program.kill()
        asking = asyncio.ensure_future(client.call_async(b"x"))
        with await serving as server:
            (await server.next_async()).reply(b"mine")
            assert await asking == b"mine"
            await receiving
            await writing
            mode.set(b"mine")
            queue.send(b"y")
            assert await queue.recv_async() == b"y"
            other = await waits(Server.wait_to_serve_async("s", folder))
        (await other).close()

    run(stand_by())


def test_a_publishers_period_and_a_set(folder):
    topic = Topic("steps", folder)
    publisher = topic.publisher(period=0.01)
    queue = Queue("orders", folder)
    waiting = WaitSet(folder)
    waiting.add(queue)

    async def wait():
        assert await publisher.due_async() >= 1 and publisher.missed >= 1
        assert await waiting.wait_async(timeout=0.01) == []
        ready = await waits(waiting.wait_async())
        queue.send(b"x")
        assert await ready == [queue] and queue.try_recv() == b"x"
        assert await waiting.wait_async(timeout=0) == []

    run(wait())
