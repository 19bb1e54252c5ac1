"""Waiting in ``asyncio``: by a source's descriptor, in the loop's own thread.

The core has futures and descriptors; this uses the descriptor: a loop watches it like a socket, and
no foreign thread has to attach to the interpreter. It is readable until a look has found nothing,
so: try, look, and only then wait.
"""

from __future__ import annotations

import asyncio
import functools
import os
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from .errors import CallTimeout, Dropped, SendersGone, Timeout

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ._outlive import Call, Client, Part, Reply, Request, RequestLoan, WaitSet

T = TypeVar("T")

#: How long a task waits, in seconds, for a thread that is inside of what it needs.
_INSIDE = 0.005
#: How often a task that waits for a cancellation looks whether the request was answered.
_ANSWERED = 0.5


#: How often a task looks whether what it waits for was closed, which makes no descriptor readable.
_CLOSED = 0.5

#: The objects that a task of a loop waits for, as long as it does.
_waited: set[tuple[int, int]] = set()


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class _Ready(Protocol):
    def is_ready(self) -> bool: ...
    def fileno(self) -> int: ...


async def _readable(source: _Ready, of: object = None) -> None:
    """Waits until a look at the source may find something; ``of``: whose descriptor it is, if not its own.

    It also returns twice a second, so that a task learns by its look that the source was closed.
    """
    # An object may be false: an empty set is.
    of, number = source if of is None else of, source.fileno()
    if source.is_ready():
        # Another task may have been first, again and again: the loop gets its turn.
        await asyncio.sleep(0)
        return
    loop = asyncio.get_running_loop()
    # The task keeps both as long as their numbers are there.
    place = (id(loop), id(of))
    if place in _waited:
        raise RuntimeError("another task waits for this one; give each task its own")
    # Its own: the object may be closed meanwhile, and another file get the number, which the loop would
    # take for this one's.
    descriptor = os.dup(number)
    _waited.add(place)
    try:
        future: asyncio.Future[None] = loop.create_future()
        loop.add_reader(descriptor, _wake, future)
        looks = loop.call_later(_CLOSED, _wake, future)
        try:
            await future
        finally:
            looks.cancel()
            loop.remove_reader(descriptor)
    finally:
        _waited.discard(place)
        os.close(descriptor)


async def take(source: _Ready, ask: Callable[[], T | None]) -> T:
    """Returns the source's next message, which ``ask`` returns once it is there."""
    while True:
        message = ask()
        if message is not None:
            return message
        await _readable(source)


async def next_of(source: _Ready, ask: Callable[[], T | None]) -> T:
    """Returns the next message, for ``async for`` over a queue whose senders may be gone."""
    try:
        return await take(source, ask)
    except SendersGone:
        raise StopAsyncIteration from None


async def _told(call: Call, ask: Callable[[float], T]) -> T:
    """Returns the result of ``ask``, called with a timeout of 0, once there is one."""
    while True:
        try:
            return ask(0)
        except CallTimeout:
            await _readable(call)


async def told(ask: Callable[..., T], source: Callable[[], _Ready | None], *given: object) -> T:
    """Returns the result of ``ask``, called with a timeout of 0, once it does not raise ``Timeout``.

    ``source`` makes what the task waits for. It tells of all that changes after it was made: so the task
    asks once more before it waits. None: a thread is inside the object, and has to leave it.
    """
    made: _Ready | None = None
    while True:
        try:
            return ask(*given, timeout=0)
        except Timeout:
            pass
        if made is not None:
            await _readable(made)
            made = None
            continue
        made = source()
        if made is None:
            await asyncio.sleep(_INSIDE)


async def told_within(
    timeout: float | None, ask: Callable[..., T], source: Callable[[], _Ready | None], *given: object
) -> T:
    """Does as ``told``; raises ``CallTimeout`` after so many seconds."""
    if timeout is None:
        return await told(ask, source, *given)
    if not timeout >= 0:
        raise ValueError("a timeout is a number of seconds, not negative, or None for ever")
    try:
        # ``wait_for`` asks nothing at all when no time is left.
        return ask(*given, timeout=0)
    except Timeout:
        pass
    try:
        return await asyncio.wait_for(told(ask, source, *given), timeout)
    except asyncio.TimeoutError:
        raise CallTimeout("the request could not be sent until the deadline passed", False) from None


async def role(source: _Ready, ask: Callable[..., bool]) -> None:
    """Returns once ``ask``, called with a timeout of 0, has said that this process has the role."""
    await take(source, lambda: ask(timeout=0) or None)


class _Parts(Protocol):
    def next_part(self, timeout: float | None = None, *, copy: bool = True) -> bytes | Part | None: ...
    def _part_source(self) -> _Ready | None: ...


async def part_of(request: _Parts, copy: bool) -> bytes | Part | None:
    """Implements ``next_part_async`` of a request and of a stream."""
    return await told(functools.partial(request.next_part, copy=copy), request._part_source)


async def answer_of(call: Call) -> bytes:
    """Implements ``await call``."""
    return await _told(call, call.result)


async def reply_in_place(call: Call) -> Reply | None:
    """Implements ``Call.reply_async``."""
    return await _told(call, call.reply)


async def reply_of(call: Call) -> bytes:
    """Implements ``async for`` over a call."""
    reply = await _told(call, call.next)
    if reply is None:
        raise StopAsyncIteration
    return reply


async def _only_reply_of(call: Call) -> Reply:
    """Returns the one reply of a call, where it lies."""
    reply = await reply_in_place(call)
    if reply is None:
        raise Dropped("the server let go of the request without an answer")
    return reply


async def _end_of(begun: Call, answer: Coroutine[Any, Any, T], until: float | None) -> T:
    """Returns the answer of a call, which is cancelled at the end, also when the task is cancelled."""
    with begun:
        if until is None:
            return await answer
        try:
            return await asyncio.wait_for(answer, until - time.monotonic())
        except asyncio.TimeoutError:
            was_begun = not begun.cancel()
            raise CallTimeout("no answer came until the deadline passed", was_begun) from None


def _until(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout


async def call(client: Client, request: Buffer, timeout: float | None, copy: bool) -> bytes | Reply:
    """Implements ``Client.call_async``."""
    until = _until(timeout)
    begun = await told_within(timeout, client.begin, client._begin_source, request)
    if copy:
        return await _end_of(begun, answer_of(begun), until)
    return await _end_of(begun, _only_reply_of(begun), until)


async def call_by_loan(loan: RequestLoan[Any], timeout: float | None) -> Reply:
    """Implements ``RequestLoan.call_async``."""
    until = _until(timeout)
    begun = await told_within(timeout, loan.begin, loan._begin_source)
    return await _end_of(begun, _only_reply_of(begun), until)


async def cancelled(request: Request) -> bool:
    """Implements ``Request.wait_cancelled_async``."""
    source = request._cancelled_source()
    while source is not None:
        if source.is_ready():
            return True
        if request._is_answered():
            break
        try:
            # An answer, which another task gives, wakes no waiter.
            await asyncio.wait_for(_readable(source), _ANSWERED)
        except asyncio.TimeoutError:
            pass
    return False


class _Looked:
    """A set that has just been looked at, by the look that its task needs."""

    def __init__(self, waiting: WaitSet) -> None:
        self.fileno = waiting.fileno

    def is_ready(self) -> bool:
        return False


async def ready_of(waiting: WaitSet, timeout: float | None) -> list[Any]:
    """Implements ``WaitSet.wait_async``."""
    until = _until(timeout)
    looked = _Looked(waiting)
    while True:
        ready = waiting.try_wait()
        left = None if until is None else until - time.monotonic()
        if ready or left is not None and left <= 0:
            return ready
        try:
            await asyncio.wait_for(_readable(looked, waiting), left)
        except asyncio.TimeoutError:
            return waiting.try_wait()
