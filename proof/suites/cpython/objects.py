"""Outlive's classes as CPython's tests call them: without a name, which each object gets here.

Nothing else is added. What CPython's classes have and Outlive's have not is no attribute here
either, and its tests are rows of doc/suites.md.
"""

from __future__ import annotations

import itertools
import os
import queue

import outlive

_numbers = itertools.count()


def _name(kind: str) -> str:
    """Returns a name that no other object has: the child of a fork makes objects, too."""
    return f"{kind}.{os.getpid()}.{next(_numbers)}"


def _of(kind: str):
    """Returns a class of Outlive's; a test of one that is not there says so and fails."""
    try:
        return getattr(outlive, kind)
    except AttributeError:
        raise NotImplementedError(f"outlive has no {kind}") from None


def Lock():
    return _of("Lock")(_name("lock"))


def RLock():
    return _of("RLock")(_name("rlock"))


def Condition(lock=None):
    return _of("Condition")(_name("condition"), RLock() if lock is None else lock)


def Event():
    return _of("Event")(_name("event"))


def Semaphore(value=1):
    return _of("CountingSemaphore")(_name("semaphore"), value)


def BoundedSemaphore(value=1):
    return _of("CountingSemaphore")(_name("semaphore"), value, max_permits=max(value, 1))


def Barrier(parties, action=None, timeout=None):
    options = {"action": action, "timeout": timeout}
    return _of("Barrier")(_name("barrier"), parties, **{key: given for key, given in options.items() if given is not None})


def Queue(maxsize=0):
    return _of("Queue")(_name("queue"), **({"maxsize": maxsize} if maxsize > 0 else {}))


class QueueModule:
    """The module ``queue``, as far as test_queue asks it."""

    Empty = queue.Empty
    Full = queue.Full
    Queue = staticmethod(Queue)
