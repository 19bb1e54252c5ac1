"""Wrong arguments get Python's kind of error."""

from __future__ import annotations

import numpy as np
import pytest

from outlive import BadName, BadOption, Domain, Event, Lock, NotFound, OutliveError, Queue, Semaphore, State, Topic, WaitSet, WrongKind

WRONG = [
    (TypeError, lambda folder: Lock()),
    (TypeError, lambda folder: Lock(7, folder)),
    (TypeError, lambda folder: Lock("lock", 7)),
    (ValueError, lambda folder: Lock("a/b", folder)),
    (ValueError, lambda folder: Lock("", folder)),
    (BadName, lambda folder: Lock(".hidden", folder)),
    (OverflowError, lambda folder: Lock("lock", folder, value=-1)),
    (ValueError, lambda folder: Lock("lock", folder).acquire(True, -2)),
    (ValueError, lambda folder: Lock("lock", folder).acquire(False, 1)),
    (ValueError, lambda folder: Lock("lock", folder).acquire(timeout=float("nan"))),
    (TypeError, lambda folder: Lock("lock", folder).acquire(timeout="soon")),
    (FileNotFoundError, lambda folder: Domain(folder + "/a/b")),
    (NotFound, lambda folder: Domain.open(folder + "/nothing")),
    (ValueError, lambda folder: Domain(folder).peer(7)),
    (OverflowError, lambda folder: Domain(folder).peer(-7)),
    (ValueError, lambda folder: Semaphore("none", 0, folder)),
    (ValueError, lambda folder: Semaphore("one", 1, folder).release(0)),
    (WrongKind, lambda folder: (Lock("thing", folder), Event("thing", folder))),
    (TypeError, lambda folder: (Lock("thing", folder), Event("thing", folder))),
    (OverflowError, lambda folder: Event("event", folder).set(2**32)),
    (TypeError, lambda folder: Queue("queue", folder).send("text")),
    (ValueError, lambda folder: Queue("queue", folder).recv(timeout=-1)),
    (TypeError, lambda folder: State("state", 8, folder).set(8)),
    (ValueError, lambda folder: State("state", None, folder, fixed=True)),
    (BadOption, lambda folder: (State("state", 8, folder), State("state", 16, folder))),
    (BadOption, lambda folder: (State("state", None, folder), State("state", 16, folder))),
    (WrongKind, lambda folder: (State("state", 8, folder, fixed=True), State("state", 16, folder, fixed=True))),
    (WrongKind, lambda folder: (State("state", 8, folder, fixed=True), State("state", 8, folder))),
    (FileNotFoundError, lambda folder: State.open("nothing", domain=folder)),
    (TypeError, lambda folder: Topic("topic", folder).publisher().publish("text")),
    (TypeError, lambda folder: Topic("topic", folder).publisher().publish(object())),
    (TypeError, lambda folder: Topic("topic", folder).publisher().publish(np.array(["text"]))),
    (TypeError, lambda folder: Topic("topic", folder).publisher().publish(np.array([object()]))),
    (TypeError, lambda folder: Topic("topic", folder).publisher().publish(np.zeros(3, ">f4"))),
    (TypeError, lambda folder: Topic("topic", folder).publisher().publish(np.zeros(3, [("a", "i4"), ("b", object)]))),
    (ValueError, lambda folder: Topic("topic", folder).publisher().publish(np.zeros((1,) * 7, [("a", "i4")]))),
    (ValueError, lambda folder: Topic("topic", folder).publisher().publish(np.zeros(3, [("a", "i4")]), own=b"x")),
    (ValueError, lambda folder: Topic("topic", folder).publisher().publish(np.zeros((1,) * 8))),
    (ValueError, lambda folder: Topic("topic", folder).publisher().publish(b"x", own=bytes(33))),
    (ValueError, lambda folder: Topic("topic", folder).publisher().publish(np.zeros(3), own=b"x")),
    (OverflowError, lambda folder: Topic("topic", folder).publisher().publish(b"x", key=-1)),
    (ValueError, lambda folder: Topic("topic", folder).publisher().publish(b"x", timeout=-1)),
    (TypeError, lambda folder: Topic("topic", folder).publisher().loan((2, 2))),
    (TypeError, lambda folder: Topic("topic", folder).publisher().loan("many")),
    (TypeError, lambda folder: Topic("topic", folder).publisher().loan(3, "no type")),
    (TypeError, lambda folder: Topic("topic", folder).publisher().loan(3, object)),
    (OverflowError, lambda folder: Topic("topic", folder).publisher().loan(-3)),
    (ValueError, lambda folder: Topic("topic", folder).publisher().loan((1 << 20, 1 << 20), "u1")),
    (ValueError, lambda folder: Topic("topic", folder).publisher().loan(2**40)),
    (ValueError, lambda folder: Topic("topic", folder).subscriber(period=-1)),
    (ValueError, lambda folder: WaitSet(folder).every(0)),
    (TypeError, lambda folder: WaitSet(folder).add(Queue("queue", folder), bits=1)),
]


@pytest.mark.parametrize("kind, call", WRONG)
def test_wrong(folder, kind, call):
    with pytest.raises(kind):
        call(folder)


def test_damage_is_an_error(folder):
    Lock("lock", folder)
    with open(folder + "/lock", "r+b") as file:
        file.write(b"\xff" * 64)
    with pytest.raises(OutliveError):
        Lock("lock", folder)


@pytest.mark.parametrize("kind", [Lock, Topic, Queue, lambda name, folder: Domain(folder).remove(name)])
def test_a_name_as_ros_has_them_is_answered_with_one_that_works(folder, kind):
    with pytest.raises(BadName, match=r"'camera\.image' can,"):
        kind("/camera/image", folder)
