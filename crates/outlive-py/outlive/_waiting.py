"""Waiting in ``asyncio``: by a source's descriptor, in the loop's own thread.

Of the core's two ways, futures and descriptors, this takes the descriptor: a loop watches it like a socket, and no foreign
thread has to come into the interpreter. It is readable until a look has found nothing, so: try, look, and only then wait.
"""

from __future__ import annotations

import asyncio
from typing import Protocol, TypeVar

from .errors import SendersGone

T = TypeVar("T", covariant=True)


class _Source(Protocol[T]):
    def try_recv(self) -> T | None: ...
    def is_ready(self) -> bool: ...
    def fileno(self) -> int: ...


#: Descriptors that a task waits for: a loop calls one reader for each.
_waited: set[tuple[int, int]] = set()


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def take(source: _Source[T]) -> T:
    """The source's next message."""
    loop = asyncio.get_running_loop()
    while True:
        message = source.try_recv()
        if message is not None:
            return message
        descriptor = source.fileno()
        if source.is_ready():
            # Somebody else may have been quicker, again and again: the loop has its turn.
            await asyncio.sleep(0)
            continue
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


async def next_of(source: _Source[T]) -> T:
    """The same, for ``async for`` over a queue whose senders may be gone."""
    try:
        return await take(source)
    except SendersGone:
        raise StopAsyncIteration from None
