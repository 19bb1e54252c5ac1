"""Waiting in ``asyncio``: by a source's descriptor, in the loop's own thread.

The core has futures and descriptors; this uses the descriptor: a loop watches it like a socket, and
no foreign thread has to attach to the interpreter. It is readable until a look has found nothing,
so: try, look, and only then wait.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from .errors import CallTimeout, SendersGone, Timeout

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ._outlive import Call, Client, Stream

T = TypeVar("T")


#: Descriptors that a task waits for: a loop calls one reader for each.
_waited: set[tuple[int, int]] = set()


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class _Ready(Protocol):
    def is_ready(self) -> bool: ...
    def fileno(self) -> int: ...


async def _readable(source: _Ready) -> None:
    """Waits until a look at the source may find something."""
    descriptor = source.fileno()
    if source.is_ready():
        # Another task may have been first, again and again: the loop gets its turn.
        await asyncio.sleep(0)
        return
    loop = asyncio.get_running_loop()
    place = (id(loop), descriptor)
    if place in _waited:
        raise RuntimeError("another task waits for this one; give each task its own")
    future: asyncio.Future[None] = loop.create_future()
    _waited.add(place)
    loop.add_reader(descriptor, _wake, future)
    try:
        await future
    finally:
        loop.remove_reader(descriptor)
        _waited.discard(place)


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


async def answer_of(call: Call) -> bytes:
    """Implements ``await call``."""
    return await _told(call, call.result)


async def reply_of(call: Call) -> bytes:
    """Implements ``async for`` over a call."""
    reply = await _told(call, call.next)
    if reply is None:
        raise StopAsyncIteration
    return reply


async def call(client: Client, request: Buffer, timeout: float | None) -> bytes:
    """Implements ``Client.call_async``.

    A request that has to wait for memory, or for a server, waits in a thread.
    """
    until = None if timeout is None else time.monotonic() + timeout
    try:
        begun = client.begin(request, timeout=0)
    except CallTimeout:
        begun = await asyncio.to_thread(client.begin, request, timeout)
    # The call is cancelled at the end, also when the task is cancelled.
    with begun:
        if until is None:
            return await answer_of(begun)
        try:
            return await asyncio.wait_for(answer_of(begun), until - time.monotonic())
        except asyncio.TimeoutError:
            was_begun = not begun.cancel()
            raise CallTimeout("no answer came until the deadline passed", was_begun) from None


async def send(stream: Stream, data: Buffer) -> None:
    """Implements ``Stream.send_async``."""
    try:
        stream.send(data, timeout=0)
    except Timeout:
        await asyncio.to_thread(stream.send, data)
