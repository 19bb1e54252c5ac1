"""`lock.` and `reentrant.`"""

from __future__ import annotations

import time
from typing import Any, Callable

import outlive
from line import Verbs, Whole, blocking, end_of, family, folder, got, keep, left, seconds, thing, truly


def acquire(name: str, word: str) -> Whole:
    lock = thing(name)
    truly(lock.acquire(**blocking(word)))
    return got(lock)


def await_value(condition: str, name: str, value: str, span: str) -> Whole:
    """With the lock in hand."""
    lock = thing(name)
    truly(thing(condition).wait_for(lambda: lock.owner_died or lock.value == int(value), timeout=seconds(span)))
    return got(lock)


def churn(name: str, span: str) -> None:
    lock, end = thing(name), end_of(span)
    while time.monotonic() < end:
        with lock:
            lock.value += 1


def awaits(name: str, value: str, span: str) -> None:
    lock, end = thing(name), end_of(span)
    while True:
        truly(lock.acquire(timeout=left(end)))
        try:
            if lock.value >= int(value):
                return
        finally:
            lock.release()


def mutex(of: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """What both kinds of mutex do."""
    return {
        "open": lambda name, value: keep(name, of(name, folder, value=int(value))),
        "lock": acquire,
        "set": lambda name, value: setattr(thing(name), "value", int(value)),
        "consistent": lambda name: thing(name).mark_consistent(),
        "mark_not_recoverable": lambda name: thing(name).mark_not_recoverable(),
        "unlock": lambda name: thing(name).release(),
        "reset": lambda name, value, span: thing(name).reset(int(value), timeout=seconds(span)),
        "holder": lambda name: thing(name).holder_pid or "nobody",
    }


VERBS: Verbs = {
    **family("lock", **mutex(outlive.Lock), churn=churn, awaits=awaits),
    **family(
        "reentrant",
        **mutex(outlive.RLock),
        **{"await": lambda name, condition, value, span: await_value(condition, name, value, span)},
    ),
}
