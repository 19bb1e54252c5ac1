"""Calls in flight and streams of replies; requests and answers are in ``test_queues.py``."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
import tracemalloc

import numpy as np
import outlive
import pytest

from outlive import (
    Answered,
    BadOption,
    Call,
    CallTimeout,
    Cancelled,
    Client,
    ClientDied,
    Domain,
    Dropped,
    NoServer,
    NotYours,
    OutliveError,
    Server,
    ServerDied,
    ServiceError,
    Taken,
    Timeout,
    TooLarge,
    Topic,
    WaitSet,
)

SERVER = """
    server = Server("service", folder)
    say("serving")
"""


def ends(folder):
    return Server("service", folder), Client("service", folder)


def test_two_servers_share_the_calls(folder):
    first = Server("shared", folder, max_servers=2)
    second = Server.open("shared", domain=folder)
    with pytest.raises(Taken):
        Server.open("shared", domain=folder)
    with pytest.raises(BadOption):
        Client("shared", folder, max_servers=3)
    client = Client("shared", folder)
    calls = [client.begin(bytes([number])) for number in range(2)]
    for server in (first, second):
        request = server.next(timeout=60)
        request.reply(request.data * 2)
    assert [call.result(timeout=60) for call in calls] == [b"\0\0", b"\1\1"]


def test_clients_that_do_nothing_or_die_are_told(folder):
    server = Server("watched", folder)
    watch = server.watch_clients(0.02)
    assert watch.next(timeout=0) is None
    client = Client("watched", folder)
    assert watch.next(timeout=60) == ("not-lively", os.getpid())
    client.assert_liveliness()
    waiting = outlive.WaitSet(folder)
    waiting.add(watch)
    assert waiting.wait(timeout=60) == [watch]
    assert watch.next(timeout=60) == ("lively", os.getpid())
    assert (watch.lapses, watch.deaths) == (1, 0)
    outside = outlive.ClientWatch.open("watched", domain=folder, lease=0.001)
    assert outside.next(timeout=60) == ("not-lively", os.getpid()) and "watched" in repr(outside)
    with pytest.raises(outlive.NotFound):
        outlive.ClientWatch.open("nothing", domain=folder, lease=1)
    with pytest.raises(ValueError):
        outlive.ClientWatch.open("watched", domain=folder, lease=-1)
    client.close()

    deaths = server.watch_clients(1000)
    code = f"import outlive, time; c = outlive.Client('watched', {str(folder)!r}); print('here', flush=True); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"here\n"
    assert deaths.next(timeout=0) is None
    process.kill()
    assert deaths.next(timeout=60) == ("died", process.pid)
    assert asyncio.run(asyncio.wait_for(told_of_another(folder, server), 10)) == "not-lively"
    process.wait()
    process.stdout.close()


async def told_of_another(folder, server):
    with Client("watched", folder):
        async for what, _pid in server.watch_clients(0.01):
            return what


def test_many_calls_in_flight_are_answered_in_any_order(folder):
    server, client = ends(folder)
    calls = [client.begin(b"%d" % number) for number in range(200)]
    requests = [server.next(timeout=60) for _ in calls]
    for request in reversed(requests):
        request.reply(request.data * 3)
    assert [call.result(timeout=60) for call in calls] == [b"%d" % number * 3 for number in range(200)]
    assert calls[7].result() == b"777", "it is kept"
    assert calls[8].next() is None and list(calls[9]) == [], "an answer is one reply"


def test_a_call_goes_on_after_a_timeout(folder):
    server, client = ends(folder)
    call = client.begin(b"x")
    with pytest.raises(CallTimeout) as late:
        call.result(timeout=0.01)
    assert late.value.begun is False
    request = server.next(timeout=60)
    with pytest.raises(CallTimeout) as late:
        call.result(timeout=0)
    assert late.value.begun is True
    request.reply(b"y")
    assert call.result(timeout=60) == b"y"


def test_cancelling(folder):
    server, client = ends(folder)
    waiting = client.begin(b"first")
    told = []

    def wait():
        try:
            waiting.result(timeout=60)
        except Cancelled as cancelled:
            told.append(cancelled)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.05)
    assert waiting.cancel() is True, "another thread's, that waits"
    thread.join(10)
    assert len(told) == 1
    assert server.try_next() is None, "nobody carries it out"
    sources = WaitSet(folder)
    with client.begin(b"second") as call:
        request = server.next(timeout=60)
        sources.add(request)
        assert not request.wait_cancelled(timeout=0) and not sources.try_wait()
    assert request.wait_cancelled(timeout=60)
    assert sources.wait(timeout=60) == [request]
    assert request.cancelled
    with pytest.raises(Cancelled):
        request.reply(b"")
    with pytest.raises(Cancelled):
        call.result()
    assert call.cancel() is False
    client.begin(b"collected")
    assert server.try_next() is None
    dropped = client.begin(b"dropped")
    request = server.next(timeout=60)
    del request
    for _ in range(2):
        with pytest.raises(Dropped):
            dropped.result(timeout=60)


def test_a_server_says_why_it_has_no_reply(folder):
    server, client = ends(folder)
    call = client.begin(b"x")
    request = server.next(timeout=60)
    request.fail("no such picture: x")
    for _ in range(2):
        with pytest.raises(ServiceError, match="^no such picture: x$"):
            call.result(timeout=60)
    with pytest.raises(RuntimeError, match="already"):
        request.fail("twice")
    # As long as it may be, and with letters of several bytes.
    call = client.begin(b"y")
    server.next(timeout=60).fail("ü" * 40_000)
    with pytest.raises(ServiceError) as error:
        call.result(timeout=60)
    assert str(error.value) == "ü" * (64 << 9)
    # The client has given up.
    call = client.begin(b"z")
    request = server.next(timeout=60)
    call.cancel()
    with pytest.raises(Cancelled):
        request.fail("late")


@pytest.mark.parametrize("how", ["for", "async for"])
def test_a_loop_that_an_exception_leaves_answers_its_request(folder, how):
    server, client = ends(folder)
    raised = []

    def loop():
        for request in server:
            if request.data != b"first":
                raise KeyError("no such thing")

    async def async_loop():
        async for request in server:
            if request.data != b"first":
                raise KeyError("no such thing")

    def serve():
        try:
            loop() if how == "for" else asyncio.run(async_loop())
        except KeyError as error:
            # Its traceback keeps the request.
            raised.append(error)

    thread = threading.Thread(target=serve)
    thread.start()
    first = client.begin(b"first")
    with pytest.raises(ServiceError, match="^KeyError: 'no such thing'$"):
        client.call(b"second", timeout=60)
    thread.join(10)
    with pytest.raises(Dropped):
        first.result(timeout=60)
    # A loop that ends in another way leaves its request to the caller.
    third = client.begin(b"third")
    for request in server:
        break
    try:
        raise KeyError
    except KeyError:
        request.reply(b"later")
    assert third.result(timeout=60) == b"later" and len(raised) == 1


def test_an_exception_of_a_function_that_asked_for_no_request_answers_none(folder):
    server, client = ends(folder)

    def take(requests):
        return next(requests)

    call = client.begin(b"x")
    with pytest.raises(KeyError):
        # What `map` has is freed while the exception is on its way.
        for request in map(take, [iter(server)]):
            taken = request
            raise KeyError("of this loop, not of the request")
    taken.reply(b"by another thread")
    assert call.result(timeout=60) == b"by another thread"


@pytest.mark.parametrize("how", ["call", "result", "iteration", "await", "async for"])
def test_a_handler_that_raises_does_not_leave_its_client_waiting(folder, how):
    server, client = ends(folder)
    kept = []

    def serve():
        for request in server:
            kept.append(request)
            try:
                with request:
                    if request.data == b"end":
                        request.reply(b"")
                        return
                    if request.data == b"nothing":
                        continue
                    request.reply(b"%d" % int(request.data))
            except ValueError:
                pass

    def ask(data):
        if how == "call":
            return client.call(data, timeout=60)
        if how == "result":
            return client.begin(data).result(timeout=60)
        if how == "iteration":
            return list(client.begin(data))[0]

        async def later():
            if how == "await":
                return await client.call_async(data, timeout=60)
            async for reply in client.begin(data):
                return reply

        return asyncio.run(later())

    thread = threading.Thread(target=serve)
    thread.start()
    assert ask(b" 12") == b"12"
    with pytest.raises(ServiceError, match="^ValueError: invalid literal for int.. with base 10: b'twelve'$"):
        ask(b"twelve")
    with pytest.raises(ServiceError, match="^no reply$"):
        ask(b"nothing")
    assert ask(b"13") == b"13"
    ask(b"end")
    thread.join(10)
    assert not thread.is_alive()


def test_async_handlers_too(folder):
    server, client = ends(folder)

    async def serve():
        async for request in server:
            try:
                async with asyncio.timeout(5):
                    with request:
                        raise KeyError(request.data.decode())
            except KeyError:
                return

    async def both():
        with pytest.raises(ServiceError, match="^KeyError: 'x'$"):
            await asyncio.gather(serve(), client.call_async(b"x", timeout=60))

    asyncio.run(both())


def test_a_stream_may_end_in_a_failure(folder):
    server, client = ends(folder)
    calls = [client.begin(b"x") for _ in range(4)]
    requests = [server.next(timeout=60) for _ in calls]
    with pytest.raises(ZeroDivisionError), requests[0].stream() as replies:
        replies.send(b"1")
        1 / 0
    # Eight replies are under way: a failure needs no room.
    replies = requests[1].stream()
    for number in range(8):
        replies.send(b"%d" % number, timeout=60)
    replies.fail("no more")
    with pytest.raises(RuntimeError, match="already"):
        replies.finish()
    # The request's own block ends what was begun in it.
    with pytest.raises(LookupError), requests[2]:
        replies = requests[2].stream()
        replies.send(b"1")
        raise LookupError
    with requests[3]:
        replies = requests[3].stream()
        replies.send(b"1")
    replies.send(b"2")
    replies.finish()
    told = [("ZeroDivisionError: division by zero", 1), ("no more", 8), ("LookupError", 1)]
    for call, (why, count) in zip(calls, told):
        got = []
        with pytest.raises(ServiceError) as error:
            for reply in call:
                got.append(reply)
        assert (str(error.value), len(got)) == (why, count)
    assert list(calls[3]) == [b"1", b"2"]


def test_no_service_is_left_by_a_thread_that_cannot_use_it(folder):
    token = Domain(folder).token()
    # The token's slot of the registry, as if it had been given out once more: doc/memory-layout.md.
    place = 16384 + (token & 0xFFFF) * 128 + 48
    registry = os.open(os.path.join(folder, ".tokens"), os.O_RDWR)
    generation = int.from_bytes(os.pread(registry, 4, place), "little")
    os.pwrite(registry, (generation + 1).to_bytes(4, "little"), place)
    os.close(registry)
    for make in (Client, Server, Client.create_new, Server.create_new):
        with pytest.raises(OutliveError, match="declared dead"):
            make("service", folder)
    assert not os.path.exists(os.path.join(folder, "service"))


def test_one_client_many_threads(folder):
    server, client = ends(folder)

    def serve():
        for _ in range(8 * 50):
            request = server.next(timeout=60)
            request.reply(request.data[::-1])

    wrong = []

    def ask(who):
        for number in range(50):
            data = b"%d %d" % (who, number)
            if client.begin(data).result(timeout=60) != data[::-1]:
                wrong.append(data)

    threads = [threading.Thread(target=serve)] + [threading.Thread(target=ask, args=(who,)) for who in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not wrong


def test_another_thread_uses_the_client_while_one_waits(folder):
    server, client = ends(folder)
    slow = client.begin(b"slow")
    held = server.next(timeout=60)
    got = []
    thread = threading.Thread(target=lambda: got.append(slow.result(timeout=60)))
    thread.start()
    time.sleep(0.05)
    quick = client.begin(b"quick", timeout=60)
    server.next(timeout=60).reply(b"1")
    assert quick.result(timeout=60) == b"1" and not got
    held.reply(b"2")
    thread.join(10)
    assert got == [b"2"]


@pytest.mark.parametrize("how", ["result", "next", "iteration", "set", "await", "async for"])
def test_a_killed_server_ends_a_begun_call_at_once(folder, start, how):
    program = start(SERVER + "    request = server.next(); say('begun'); time.sleep(60)")
    program.line()
    client = Client("service", folder)
    begun = client.begin(b"begun")
    program.line()
    not_begun = client.begin(b"not begun")

    async def over(call):
        async for _ in call:
            pass

    def wait(call):
        match how:
            case "result":
                call.result(timeout=60)
            case "next":
                call.next(timeout=60)
            case "iteration":
                next(call)
            case "set":
                waiting = WaitSet(folder)
                waiting.add(call)
                assert waiting.wait(timeout=60) == [call]
                call.result(timeout=0)
            case "await":
                asyncio.run(asyncio.wait_for(answer(call), 15))
            case "async for":
                asyncio.run(asyncio.wait_for(over(call), 15))

    async def answer(call):
        await call

    threading.Timer(0.2, program.kill).start()
    for call, was_begun in (begun, True), (not_begun, False):
        for _ in range(2):
            with pytest.raises(ServerDied) as died:
                wait(call)
            assert died.value.begun is was_begun
            if how in ("set", "iteration"):
                break
    with pytest.raises((ServerDied, NoServer)):
        client.begin(b"late").result(timeout=60)


def test_streams(folder, start):
    program = start(SERVER + """
    for request in server:
        with request.stream() as replies:
            for number in range(int(request.data)):
                replies.send(b"%d" % number)
    """)
    program.line()
    client = Client("service", folder)
    call = client.begin(b"1000")
    assert list(call) == [b"%d" % number for number in range(1000)]
    assert call.result() == b"0" and call.next() is None
    empty = client.begin(b"0")
    assert empty.next(timeout=60) is None
    with pytest.raises(Dropped):
        empty.result()
    assert client.call(b"5", timeout=60) == b"0", "of several, the first"


def test_a_server_killed_in_a_stream(folder, start):
    program = start(SERVER + """
    replies = server.next().stream()
    replies.send(b"one")
    replies.send(b"x" * 100_000)
    say("sent")
    time.sleep(60)
    """)
    program.line()
    call = Client("service", folder).begin(b"")
    program.line()
    threading.Timer(0.1, program.kill).start()
    seen = []
    with pytest.raises(ServerDied) as died:
        for reply in call:
            seen.append(reply)
    assert died.value.begun
    assert seen == [b"one", b"x" * 100_000], "what had arrived is given first"


def test_the_end_of_a_stream(folder):
    server, client = ends(folder)
    cut = client.begin(b"")
    with pytest.raises(KeyError), server.next(timeout=60).stream() as replies:
        replies.send(b"one")
        raise KeyError
    assert cut.next(timeout=60) == b"one"
    with pytest.raises(ServiceError, match="^KeyError$"):
        cut.next(timeout=60)
    with pytest.raises(RuntimeError):
        replies.send(b"late")
    full = client.begin(b"")
    request = server.next(timeout=60)
    replies = request.stream()
    with pytest.raises(RuntimeError):
        request.reply(b"too late")
    for _ in range(8):
        replies.send(b"x")
    with pytest.raises(Timeout):
        replies.send(b"x", timeout=0.01)
    assert full.next() == b"x"
    replies.send(b"x", timeout=60)
    full.cancel()
    with pytest.raises(Cancelled):
        replies.send(b"x", timeout=60)


def test_a_killed_client_ends_a_stream(folder, start):
    server = Server("service", folder)
    program = start("call = Client('service', folder).begin(b''); say(call.next(timeout=60)); time.sleep(60)")
    replies = server.next(timeout=60).stream()
    replies.send(b"one")
    program.line()
    threading.Timer(0.1, program.kill).start()
    with pytest.raises(ClientDied):
        while True:
            replies.send(b"more", timeout=60)


def test_asyncio_both_ends(folder):
    server, client = ends(folder)

    async def serve():
        async for request in server:
            with request.stream() as replies:
                for number in range(int(request.data)):
                    await replies.send_async(b"%d" % number)

    async def ask(count):
        return [int(reply) async for reply in client.begin(b"%d" % count)]

    async def both():
        serving = asyncio.create_task(serve())
        await asyncio.sleep(0)
        try:
            first = asyncio.gather(*(ask(count) for count in (3, 0, 5)))
            assert await client.begin(b"2") == b"0"
            assert await client.call_async(b"1", timeout=60) == b"0"
            return await first
        finally:
            serving.cancel()

    async def bounded():
        return await asyncio.wait_for(both(), 60)

    assert asyncio.run(bounded()) == [[0, 1, 2], [], [0, 1, 2, 3, 4]]


def test_a_cancelled_task_cancels_its_call(folder):
    server, client = ends(folder)

    async def ask():
        asking = asyncio.create_task(client.call_async(b"x"))
        await asyncio.sleep(0.01)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        with pytest.raises(CallTimeout) as late:
            await client.call_async(b"y", timeout=0.01)
        return late.value.begun

    assert asyncio.run(ask()) is False
    assert server.try_next() is None


def test_a_set_of_calls_and_a_server(folder):
    server, client = ends(folder)
    waiting = WaitSet(folder)
    waiting.add(server)
    assert waiting.wait(timeout=0) == []
    calls = [client.begin(b"%d" % number) for number in range(3)]
    for call in calls:
        waiting.add(call)
    assert waiting.wait(timeout=60) == [server]
    requests = [server.next(timeout=60) for _ in calls]
    assert waiting.wait(timeout=0.01) == []
    requests[1].reply(b"!")
    assert waiting.wait(timeout=60) == [calls[1]]
    assert calls[1].result(timeout=0) == b"!"
    calls[0].cancel()
    with pytest.raises(Cancelled):
        waiting.add(calls[0])


def test_a_forked_childs_copy_is_its_parents(folder):
    from test_processes import child

    server, client = ends(folder)
    call = client.begin(b"x")

    def use():
        nonlocal call
        for ask in (lambda: call.result(timeout=1), lambda: client.begin(b"y", timeout=1)):
            with pytest.raises(NotYours):
                ask()
        del call
        return "done"

    assert child(use) == "done"
    server.next(timeout=60).reply(b"parent's")
    assert isinstance(call, Call) and call.result(timeout=60) == b"parent's"


def test_a_process_that_stands_by_takes_over(folder, start):
    with Server("service", folder):
        with pytest.raises(Taken):
            Server("service", folder)
        with pytest.raises(Taken):
            Server.open("service", domain=folder, timeout=0.01)
    first = start(SERVER + "\n    time.sleep(60)")
    assert first.line() == "serving"
    standing = start(
        """
    say("standing by")
    server = Server.open("service", domain=folder, timeout=60)
    say("serving")
    with server.next(timeout=60) as request:
        request.reply(b"from the next one")
    """
    )
    assert standing.line() == "standing by"
    first.kill()
    assert standing.line() == "serving"
    assert Client("service", folder).call(b"", timeout=60) == b"from the next one"


SIX_MB = 6_000_000


def fewest_bytes(work):
    """Returns the most memory that Python and numpy had while it worked."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_six_megabytes_both_ways_without_a_copy(folder):
    server, client = ends(folder)
    image = np.arange(SIX_MB, dtype=np.uint8).reshape(2000, 3000)
    seen = []

    def work():
        loan = client.loan((2000, 3000), np.uint8)
        with loan as request:
            request[:] = image
            kept.append(request)
        call = loan.begin()
        asked = server.next(timeout=60)
        assert len(asked) == SIX_MB
        with asked.loan((2000, 3000), np.uint8) as answer:
            np.subtract(255, asked.numpy(np.uint8, (2000, 3000)), out=answer)
        seen.append(call.reply(timeout=60))

    kept = []
    assert fewest_bytes(work) < 100_000
    reply = seen[0]
    assert len(reply) == SIX_MB
    assert (reply.numpy(np.uint8).reshape(2000, 3000) == 255 - image).all()
    with pytest.raises(ValueError, match="read-only"):
        kept[0][0, 0] = 1
    with pytest.raises(ValueError, match="read-only"):
        reply.numpy(np.uint8)[0] = 1


def test_a_view_of_a_reply_keeps_it(folder):
    server, client = ends(folder)
    call = client.begin(b"x")
    server.next(timeout=60).reply(b"z" * SIX_MB)
    with call.reply(timeout=60) as reply:
        view = reply.numpy(np.uint8)
    with pytest.raises(ValueError, match="closed"):
        bytes(reply)
    del reply
    # Another reply does not take its memory.
    other = client.begin(b"y")
    server.next(timeout=60).reply(b"a" * SIX_MB)
    assert bytes(other.reply(timeout=60))[:1] == b"a" and (view == ord("z")).all()
    with pytest.raises(RuntimeError, match="already"):
        other.result(timeout=60)
    assert other.reply() is None


def test_a_view_of_a_request_outlives_its_answer(folder):
    server, client = ends(folder)
    calls = [client.begin(bytes([number]) * SIX_MB) for number in range(4)]
    requests = [server.next(timeout=60) for _ in calls]
    view = memoryview(requests[0])
    copy = requests[1].data
    for request in requests:
        request.reply(b"!" * SIX_MB)
    assert [call.result(timeout=60)[:1] for call in calls] == [b"!"] * 4
    assert view == b"\0" * SIX_MB and view.readonly
    assert requests[1].data is copy and copy[:1] == b"\1" and memoryview(requests[1]) == copy
    # Bytes that were not asked for before the answer.
    assert requests[2].data == bytes(requests[2]) == b"\2" * SIX_MB
    assert requests[3].numpy(np.uint8).sum() == 3 * SIX_MB


@pytest.mark.parametrize("size", [10, SIX_MB])
def test_loans_of_requests(folder, size):
    server, client = ends(folder)
    loan = client.loan(size)
    with pytest.raises(KeyError), loan:
        raise KeyError
    with pytest.raises(RuntimeError, match="already"):
        loan.begin()
    assert server.try_next() is None
    # What could not be sent is still there.
    server.close()
    loan = client.loan(size)
    with loan as view:
        view[:] = b"x" * size
    with pytest.raises(NoServer):
        loan.call(timeout=60)
    server = Server("service", folder)
    with pytest.raises(CallTimeout) as late:
        loan.call(timeout=0.01)
    assert late.value.begun is False and server.try_next() is None
    loan = client.loan((size, 1), np.uint8)
    np.asarray(loan)[:] = ord("y")
    call = loan.begin()
    request = server.next(timeout=60)
    assert request.data == b"y" * size
    request.reply(request)
    reply = call.reply(timeout=60)
    assert bytes(reply) == b"y" * size and reply.value is reply
    with pytest.raises(TypeError, match="dtype"):
        client.loan((2, 3))
    with pytest.raises((TooLarge, ValueError, OverflowError)):
        client.loan(1 << 40)
    client.loan(size).discard()


@pytest.mark.parametrize("size", [10, SIX_MB])
def test_loans_of_replies(folder, size):
    server, client = ends(folder)
    calls = [client.begin(b"%d" % number) for number in range(5)]
    requests = [server.next(timeout=60) for _ in calls]
    with pytest.raises(KeyError), requests[0].loan(size):
        raise KeyError("no such picture")
    requests[1].loan(size).discard()
    with pytest.raises(LookupError), requests[2]:
        loan = requests[2].loan(size)
        raise LookupError
    loan = requests[3].loan(size)
    with loan as view:
        view[:] = b"x" * size
        loan.send()
    with pytest.raises(RuntimeError, match="already"):
        loan.send()
    with pytest.raises(RuntimeError, match="already"):
        requests[3].loan(size)
    with pytest.raises(TypeError, match="dtype"):
        requests[4].loan((2, 3))
    with pytest.raises(ServiceError, match="^KeyError: 'no such picture'$"):
        calls[0].reply(timeout=60)
    with pytest.raises(Dropped):
        calls[1].reply(timeout=60)
    with pytest.raises(ServiceError, match="^LookupError$"):
        calls[2].reply(timeout=60)
    assert calls[3].result(timeout=60) == b"x" * size
    loan = requests[4].loan(size)
    calls[4].cancel()
    with pytest.raises(Cancelled):
        loan.send()


def test_a_loan_that_was_sent_is_shown_to_no_block(folder):
    """Of an object without a buffer numpy makes an array of that one object, in which a reply would be lost."""
    server, client = ends(folder)
    publisher = Topic("frames", folder).publisher()
    for size in (10, SIX_MB):
        asked = client.loan(size, np.uint8)
        with asked:
            call = asked.begin()
        answer, message = server.next(timeout=60).loan(size, np.uint8), publisher.loan(size, np.uint8)
        with answer, message:
            pass
        for loan in (asked, answer, message):
            with pytest.raises(RuntimeError, match="already"), loan as array:
                array[...] = 7
        assert call.reply(timeout=60) is not None


def test_a_request_whose_reply_gets_no_memory_is_still_to_be_answered(folder):
    server, client = Server("service", folder, max_bytes=8 << 20), Client("service", folder)
    calls = [client.begin(b"x" * size) for size in (1, 1, 100_000)]
    with server.next(timeout=60) as request:
        with pytest.raises(TooLarge):
            request.loan(1 << 30)
        request.reply(b"smaller")
    with pytest.raises(TooLarge), server.next(timeout=60) as request:
        request.loan(1 << 30)
    request = server.next(timeout=60)
    with pytest.raises(TooLarge):
        request.loan(1 << 30)
    assert len(request.data) == 100_000
    with request.loan(10) as view:
        view[:] = b"0123456789"
    assert calls[0].result(timeout=60) == b"smaller"
    with pytest.raises(ServiceError, match="^TooLarge"):
        calls[1].result(timeout=60)
    assert calls[2].result(timeout=60) == b"0123456789"


def test_loans_of_what_a_service_describes(folder):
    server, client = Server("service", folder, request=["f4"], reply="f8"), Client.open("service", domain=folder)
    loan = client.loan(100_000, np.float32)
    with loan as numbers:
        numbers[:] = 0.5
    call = loan.begin()
    request = server.next(timeout=60)
    assert request.value.dtype == np.float32 and request.numpy().shape == (100_000,)
    with request.loan((), np.float64) as answer:
        answer[()] = request.value.sum()
    assert call.reply(timeout=60).value == 50_000
    with pytest.raises(ValueError, match="not of 3"):
        client.loan(3)


def test_a_server_killed_with_a_loan(folder, start):
    program = start(SERVER + "    loan = server.next().loan(6_000_000); say('lent'); time.sleep(60)")
    program.line()
    client = Client("service", folder)
    call = client.loan(SIX_MB).begin()
    program.line()
    program.kill()
    with pytest.raises(ServerDied) as died:
        call.reply(timeout=60)
    assert died.value.begun


def test_requests_of_several_parts(folder):
    server, client = ends(folder)
    call = client.stream(b"name")
    with pytest.raises(CallTimeout):
        for number in range(9):
            call.send(bytearray([number]) * 5000, timeout=0.01)
    request = server.next(timeout=60)
    for number in range(8):
        assert request.next_part(timeout=60) == bytes([number]) * 5000
    with pytest.raises(Timeout):
        request.next_part(timeout=0.01)
    sending = threading.Timer(0.05, lambda: (call.send(b"later"), call.finish()))
    sending.start()
    assert request.next_part(timeout=60) == b"later" and request.next_part(timeout=60) is None
    sending.join(5)
    with pytest.raises(RuntimeError, match="parts"):
        call.send(b"too late")
    with request.stream() as replies:
        assert replies.next_part(timeout=60) is None
        replies.send(b"1")
    assert list(call) == [b"1"]
    with pytest.raises(RuntimeError, match="answered"):
        request.next_part()
    plain = client.begin(b"plain")
    with pytest.raises(RuntimeError, match="parts"):
        plain.send(b"x")
    request = server.next(timeout=60)
    assert request.next_part() is None
    request.reply(b"")


def test_sets_wait_for_parts(folder):
    server, client = ends(folder)
    call = client.stream(b"name")
    request = server.next(timeout=60)
    waiting = outlive.WaitSet(folder)
    waiting.add_parts(request)
    assert waiting.try_wait() == []
    threading.Timer(0.05, lambda: call.send(b"one")).start()
    assert waiting.wait(timeout=60) == [request] and request.next_part(timeout=0) == b"one"
    assert waiting.wait(timeout=0.01) == []
    replies = request.stream()
    assert waiting.try_wait() == []
    waiting.add_parts(replies)
    waiting.add(call)
    replies.send(b"two")
    assert waiting.wait(timeout=60) == [call] and call.next(timeout=0) == b"two"
    call.finish()
    assert replies in waiting.wait(timeout=60) and replies.next_part(timeout=0) is None
    assert waiting.try_wait() == []
    call.cancel()
    assert replies in waiting.wait(timeout=60)
    waiting.remove(replies)
    waiting.remove(request)
    with pytest.raises(TypeError, match="parts"):
        waiting.add_parts(call)
    with pytest.raises(RuntimeError, match="answered"):
        waiting.add_parts(request)


@pytest.mark.parametrize("count", [0, 5, 100_000])
def test_parts_and_replies_by_loan(folder, count):
    server, client = ends(folder)
    call = client.stream(b"name")
    with pytest.raises(ZeroDivisionError):
        with call.loan(count) as part:
            raise ZeroDivisionError
    with call.loan(count, np.uint16, timeout=60) as part:
        part[:] = 7
    if count:
        with pytest.raises(ValueError, match="read-only"):
            part[0] = 8
    with call.loan(count) as part:
        part[:] = b"\3" * count
    with server.next(timeout=60).stream() as replies:
        assert replies.next_part(timeout=60) == b"\7\0" * count
        assert replies.next_part(timeout=60) == b"\3" * count
        replies.loan(count).discard()
        with replies.loan((count, 2), "float64", timeout=60) as reply:
            reply[:] = 1
        loan = replies.loan(count)
        memoryview(loan)[:] = b"x" * count
        loan.send()
        with pytest.raises(RuntimeError, match="already"):
            loan.send()
        late = replies.loan(count)
    with pytest.raises(RuntimeError, match="finished"):
        late.send()
    assert call.reply(timeout=60).numpy("float64").sum() == 2 * count and call.next(timeout=60) == b"x" * count
    assert call.next(timeout=60) is None
    late = client.stream(b"name")
    part = late.loan(count)
    server.next(timeout=60).reply(b"enough")
    with pytest.raises(Answered):
        part.send()
    with pytest.raises(RuntimeError, match="parts"):
        client.begin(b"plain").loan(count)


@pytest.mark.parametrize("count", [16, 5000])
def test_a_second_loan_of_the_last_place_is_told_that_it_is_full(folder, count):
    server, client = ends(folder)
    call = client.begin(b"name")
    with server.next(timeout=60).stream() as replies:
        for _ in range(7):
            replies.send(b"x")
        one, other = replies.loan(count), replies.loan(count)
        one.send()
        with pytest.raises(outlive.Full):
            other.send()
    assert len(list(call)) == 8


@pytest.mark.parametrize("count", [16, 5000])
def test_a_loan_of_a_part_that_finds_no_room_is_kept(folder, count):
    server, client = ends(folder)
    call = client.stream(b"name")
    request = server.next(timeout=60)
    loans = [call.loan(count, timeout=60) for _ in range(9)]
    for number, loan in enumerate(loans[:8]):
        with loan as part:
            part[0] = number
    with pytest.raises(outlive.Full):
        with loans[8] as part:
            part[0] = 8
    with pytest.raises(outlive.Full):
        loans[8].send()
    assert request.next_part(timeout=60)[0] == 0
    loans[8].send()
    call.finish()
    assert [part[0] for part in iter(lambda: request.next_part(timeout=60), None)] == list(range(1, 9))


def test_a_thread_takes_parts_while_another_waits_for_room(folder):
    server, client = ends(folder)
    call = client.stream(b"name")
    replies = server.next(timeout=60).stream()
    sends = threading.Thread(target=lambda: [replies.send(b"x", timeout=60) for _ in range(20)])
    takes = threading.Thread(target=lambda: [replies.next_part(timeout=60) for _ in range(40)])
    sends.start()
    time.sleep(0.05)
    takes.start()
    # Its replies are taken after all parts: the ninth waits meanwhile.
    for _ in range(40):
        call.send(b"part", timeout=60)
    call.finish()
    takes.join(10)
    taken = [call.next(timeout=60) for _ in range(20)]
    sends.join(10)
    replies.finish()
    assert taken == [b"x"] * 20 and call.next(timeout=60) is None


def test_two_threads_wait_for_parts(folder):
    server, client = ends(folder)
    call = client.stream(b"name")
    request = server.next(timeout=60)
    found = []
    threads = [threading.Thread(target=lambda: found.append(request.next_part(timeout=60))) for _ in range(2)]
    for thread in threads:
        thread.start()
    call.send(b"one")
    call.send(b"two")
    for thread in threads:
        thread.join(10)
    assert sorted(found) == [b"one", b"two"]


def both_end(wait, meanwhile, threads=2):
    """What a wait comes to in several threads, of which one takes what ends the wait of all."""
    found = []

    def run():
        try:
            found.append(wait())
        except Exception as error:  # noqa: BLE001
            found.append(type(error))

    waiting = [threading.Thread(target=run, daemon=True) for _ in range(threads)]
    for thread in waiting:
        thread.start()
    time.sleep(0.1)
    assert not found
    meanwhile()
    for thread in waiting:
        thread.join(5)
    assert len(found) == threads, "a thread waits on"
    return found


def test_all_threads_that_wait_see_the_end(folder):
    server, client = ends(folder)
    call = client.begin(b"one")
    request = server.next(timeout=60)
    assert both_end(lambda: call.result(), lambda: request.reply(b"a"), 3) == [b"a"] * 3

    call = client.begin(b"many")
    replies = server.next(timeout=60).stream()

    def answers():
        for _ in range(3):
            replies.send(b"p")
        replies.finish()

    counts = both_end(lambda: len(list(iter(lambda: call.next(), None))), answers)
    assert sum(counts) == 3

    def all_parts(of):
        return len(list(iter(lambda: of.next_part(), None)))

    call = client.stream(b"parts")
    request = server.next(timeout=60)

    def sends():
        call.send(b"p")
        call.finish()

    assert sum(both_end(lambda: all_parts(request), sends)) == 1
    request.reply(b"")
    call = client.stream(b"parts")
    replies = server.next(timeout=60).stream()
    assert sum(both_end(lambda: all_parts(replies), sends)) == 1


def test_a_thread_that_waits_for_room_is_told_of_the_end(folder):
    server, client = ends(folder)

    def full():
        call = client.stream(b"name")
        request = server.next(timeout=60)
        for _ in range(8):
            call.send(b"part")
        return call, request

    call, request = full()
    assert both_end(lambda: call.send(b"ninth"), call.finish) == [RuntimeError] * 2
    assert len(list(iter(lambda: request.next_part(timeout=60), None))) == 8
    call, request = full()
    assert both_end(lambda: call.loan(10), call.cancel) == [Cancelled] * 2
    # Another thread takes the reply that says that no more parts are wanted.
    call, request = full()
    reading = threading.Thread(target=call.result, daemon=True)
    reading.start()
    assert both_end(lambda: call.send(b"ninth"), lambda: request.reply(b"enough")) == [Answered] * 2
    reading.join(5)
    assert call.result(timeout=60) == b"enough"


def test_a_handler_finishes_what_its_thread_sends(folder, start):
    server = Server("service", folder)
    program = start("""
        call = Client("service", folder).stream(b"")
        for _ in range(8):
            call.send(b"x")
        signal.signal(signal.SIGALRM, lambda *_: call.finish())
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        try:
            call.send(b"ninth")
        except RuntimeError as error:
            say(error)
    """)
    assert "no (more) parts" in program.line()
    assert program.end() == 0
    server.close()


def test_both_streams_at_once(folder, start):
    program = start(SERVER + """
    with server.next().stream() as replies:
        for part in iter(replies.next_part, None):
            replies.send(part[::-1])
    """)
    program.line()
    client = Client("service", folder)
    call = client.stream(b"echo", timeout=60)

    def send():
        for number in range(100):
            call.send(b"%d" % number, timeout=60)
        call.finish()

    thread = threading.Thread(target=send)
    thread.start()
    assert list(call) == [(b"%d" % number)[::-1] for number in range(100)]
    thread.join(10)


def test_handlers_run_while_parts_are_waited_for_and_sent(start):
    program = start("""
        server, client = Server("service", folder), Client("service", folder)
        call = client.stream(b"")
        request = server.next(timeout=60)
        def stop(*_):
            raise ZeroDivisionError
        signal.signal(signal.SIGALRM, stop)
        def interrupted(wait):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.05)
                wait()
            except ZeroDivisionError:
                say("stopped")
        interrupted(request.next_part)
        replies = request.stream()
        interrupted(replies.next_part)
        signal.signal(signal.SIGALRM, lambda *_: replies.finish())
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            replies.next_part()
        except RuntimeError as error:
            say(error)
        call = client.stream(b"")
        for _ in range(8):
            call.send(b"x")
        signal.signal(signal.SIGALRM, lambda *_: say(call.cancel()))
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            call.send(b"x")
        except Cancelled:
            say("cancelled")
    """)
    assert program.line() == "stopped" and program.line() == "stopped"
    assert "finished already" in program.line()
    assert program.line() == "True" and program.line() == "cancelled"
    assert program.end() == 0


def test_a_reply_before_the_last_part(folder):
    server, client = ends(folder)
    call = client.stream(b"name")
    call.send(b"x" * 100_000)
    server.next(timeout=60).fail("enough")
    with pytest.raises(Answered):
        call.send(b"more")
    with pytest.raises(ServiceError, match="enough"):
        call.result(timeout=60)
    call = client.stream(b"name")
    request = server.next(timeout=60)
    assert call.cancel() is False
    with pytest.raises(Cancelled):
        request.next_part(timeout=60)
    with pytest.raises(Cancelled):
        call.send(b"x")


def test_a_death_ends_parts(folder, start):
    server = Server("service", folder)
    program = start("call = Client('service', folder).stream(b''); call.send(b'one'); say('sent'); time.sleep(60)")
    request = server.next(timeout=60)
    program.line()
    assert request.next_part(timeout=60) == b"one"
    threading.Timer(0.05, program.kill).start()
    with pytest.raises(Cancelled):
        request.next_part(timeout=60)
    server.close()
    program = start(SERVER + "    request = server.next(); say('begun'); time.sleep(60)")
    program.line()
    call = Client("service", folder).stream(b"")
    program.line()
    threading.Timer(0.05, program.kill).start()
    with pytest.raises(ServerDied) as died:
        while True:
            call.send(b"more", timeout=60)
    assert died.value.begun


def test_a_thread_that_waits_for_room_is_not_inside_the_client(folder):
    """Neither a client of which a thread waits to send a part, nor a stream of which one waits to send a reply."""
    server, client = ends(folder)
    call = client.stream(b"name")
    for _ in range(8):
        call.send(b"part")
    request = server.next(timeout=60)
    told = []

    def sends():
        try:
            call.send(b"ninth", timeout=60)
            told.append("sent")
        except CallTimeout as error:
            told.append(error)

    def outside(of):
        """How often a look found no thread inside."""
        time.sleep(0.1)
        found = 0
        for _ in range(100):
            found += of._room_source() is not None
            time.sleep(0.001)
        return found

    sending = threading.Thread(target=sends)
    sending.start()
    assert outside(call) > 80 and not told
    # The client's other calls go on meanwhile.
    other = client.begin(b"other", timeout=60)
    server.next(timeout=60).reply(b"at once")
    assert other.result(timeout=60) == b"at once"
    assert request.next_part(timeout=60) == b"part"
    sending.join(60)
    assert told == ["sent"]
    with pytest.raises(CallTimeout):
        call.send(b"tenth", timeout=0.05)
    # A cancellation ends the wait.
    sending = threading.Thread(target=lambda: told.append(pytest.raises(outlive.Cancelled, call.send, b"tenth")))
    sending.start()
    time.sleep(0.05)
    call.cancel()
    sending.join(60)
    assert len(told) == 2

    call = client.begin(b"many")
    replies = server.next(timeout=60).stream()
    for _ in range(8):
        replies.send(b"reply")
    told.clear()
    sending = threading.Thread(target=lambda: told.append(replies.send(b"ninth", timeout=60)))
    sending.start()
    assert outside(replies) > 80 and not told
    assert call.next(timeout=60) == b"reply"
    sending.join(60)
    assert told == [None]
    with pytest.raises(Timeout):
        replies.send(b"tenth", timeout=0.05)


def test_ctrl_c_ends_a_wait_for_room(folder, start):
    server = Server("echo", folder)
    program = start("""
        call = Client("echo", folder).stream(b"x")
        for _ in range(8):
            call.send(b"part")
        say("full")
        try:
            call.send(b"ninth")
        except KeyboardInterrupt:
            say("interrupted")
        call.send(b"tenth", timeout=60)
        call.finish()
        say("sent")
        call.result()
    """)
    assert program.line() == "full"
    time.sleep(0.1)
    program.interrupt()
    assert program.line() == "interrupted"
    request = server.next(timeout=60)
    parts = list(iter(lambda: request.next_part(timeout=60), None))
    assert program.line() == "sent" and parts[-1] == b"tenth" and len(parts) == 9
    request.reply(b"")
    assert program.end() == 0


def test_parts_are_read_where_they_lie(folder):
    server, client = ends(folder)
    call = client.stream(b"name")
    for number in range(8):
        call.send(np.full(10_000, number, np.uint32), timeout=60)
    request = server.next(timeout=60)
    first = request.next_part(timeout=60, copy=False)
    assert isinstance(first, outlive.Part) and len(first) == 40_000 and first.value is first
    array = first.numpy(np.uint32)
    assert not array.flags.writeable and array.sum() == 0
    first.close()
    with pytest.raises(ValueError, match="closed"):
        bytes(first)
    replies = request.stream()
    with replies.next_part(copy=False) as second:
        assert second.numpy(np.uint32, (100, 100))[99, 99] == 1
    # Views keep the memory, also of a part that is closed, and of a service that goes on.
    call.finish()
    rest = [replies.next_part(timeout=60, copy=False) for _ in range(6)]
    assert [int(part.numpy(np.uint32)[7]) for part in rest] == [2, 3, 4, 5, 6, 7]
    assert replies.next_part(timeout=60, copy=False) is None and array.sum() == 0

    async def takes():
        call = client.stream(b"async")
        call.send(b"part")
        request = await server.next_async()
        assert bytes(await request.next_part_async(copy=False)) == b"part"
        call.send(b"copied")
        assert await request.next_part_async() == b"copied"
        request.reply(b"")

    asyncio.run(takes())
