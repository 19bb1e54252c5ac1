"""Conditions: which waits end, and what a wait does about the lock afterwards."""

from __future__ import annotations

import math
import signal
import sys
import threading
import time

import pytest
from conftest import in_thread

from outlive import Condition, Event, Lock, RLock, Timeout


def test_conditions(folder, start):
    lock = Lock("lock", folder)
    condition = Condition("condition", lock)
    program = start("""
        lock = Lock("lock", folder)
        condition = Condition("condition", lock)
        with condition:
            say("waits")
            condition.wait_for(lambda: lock.value == 1, timeout=60)
            lock.value = 2
            condition.notify_all()
        say("done")
        Event("go", folder).wait(timeout=60)
        with condition:
            say("inside")
            time.sleep(60)
    """)
    program.line()
    with condition:
        lock.value = 1
        condition.notify()
        assert condition.wait_for(lambda: lock.value == 2, timeout=60)
    assert program.line() == "done"
    # Not before: the lock is not fair, and a newcomer may take it before the waiter does.
    Event("go", folder).set()
    program.line()
    program.kill()
    with condition:
        assert lock.owner_died
        lock.mark_consistent()
        assert condition.wait(timeout=0.01) is False
        assert condition.wait_for(lambda: "", timeout=0.01) == ""
    with pytest.raises(RuntimeError):
        condition.wait()


KEEPER = """
    lock = Lock("lock", folder)
    condition = Condition("condition", lock)
    Event("waits", folder).wait(timeout=60)
    # The waiter set the event while it held the lock: the lock is free once the waiter waits.
    with lock:
        condition.notify()
        say("keeps")
        time.sleep(60)
"""


def waiting(folder, then=lambda: None):
    """A condition whose lock is taken by a keeper that notifies, once this thread waits, and to which ``then`` happens.

    This thread sets the event with the lock, just before it waits.
    """
    lock = Lock("lock", folder)
    condition = Condition("condition", lock)
    threading.Thread(target=then).start()
    return lock, condition, Event("waits", folder)


@pytest.mark.parametrize("stopped", [False, True])
def test_a_wait_that_does_not_get_the_lock_again_ends(folder, start, stopped):
    keeper = start(KEEPER)
    lock, condition, waits = waiting(folder, lambda: (keeper.line(), stopped and keeper.process.send_signal(signal.SIGSTOP)))
    with pytest.raises(Timeout, match="does not hold it") as late:
        with condition:
            waits.set()
            while True:
                condition.wait(timeout=1, relock=0.1)
    assert str(keeper.pid) in str(late.value)
    assert lock.holder_pid == keeper.pid
    with pytest.raises(RuntimeError):
        lock.release()
    keeper.kill()
    with lock:
        assert lock.owner_died
        lock.mark_consistent()
        assert condition.wait(timeout=0.01, relock=0.01) is False, "with nobody in the way it is held again"
        assert lock.value == 0
        for wrong in (-1, float("nan")):
            with pytest.raises(ValueError):
                condition.wait(timeout=0.01, relock=wrong)
        assert lock.locked()


def test_a_holder_that_dies_keeps_nobody_from_the_lock(folder, start):
    keeper = start(KEEPER)
    lock, condition, waits = waiting(folder, lambda: (keeper.line(), time.sleep(0.5), keeper.kill()))
    with condition:
        waits.set()
        assert condition.wait_for(lambda: lock.owner_died, timeout=60, relock=math.inf)
        lock.mark_consistent()


def test_a_wait_for_the_lock_again_can_be_interrupted(folder, start):
    keeper = start(KEEPER)
    program = start("""
        lock = Lock("lock", folder)
        condition = Condition("condition", lock)
        try:
            with condition:
                Event("waits", folder).set()
                condition.wait_for(lambda: False)
        except KeyboardInterrupt as interrupt:
            say("interrupted", interrupt.__context__)
        Event("go on", folder).wait(timeout=60)
        with lock:
            say(lock.owner_died)
            lock.mark_consistent()
    """)
    assert keeper.line() == "keeps"
    time.sleep(0.3)
    program.interrupt()
    assert program.line() == "interrupted None"
    keeper.kill()
    Event("go on", folder).set()
    assert program.line() == "True"
    assert program.end() == 0


def test_a_wait_returns_true_only_when_notified(folder, start):
    """The main thread looks for signals meanwhile: neither that nor another's timeout ends it."""
    lock = Lock("lock", folder)
    changed = Condition("changed", lock)
    program = start(
        """
        changed = Condition("changed", Lock("lock", folder))
        ticks = []
        signal.signal(signal.SIGALRM, lambda *_: ticks.append(1))
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        with changed:
            begun = time.monotonic()
            say(changed.wait(0), changed.wait(timeout=2.5), time.monotonic() - begun >= 2.5, len(ticks) > 5)
        with changed:
            say("waits")
            say(changed.wait(timeout=60))
        """
    )
    with changed:
        for _ in range(5):
            assert changed.wait(timeout=0.05) is False
    assert program.line() == "False False True True"
    assert program.line() == "waits"
    time.sleep(1.5)
    with changed:
        changed.notify()
    assert program.line() == "True"


def waiting_threads(changed, count):
    """So many threads that wait, and the list that gets what each wait returns."""
    inside, results = [], []

    def run():
        with changed:
            inside.append(True)
            results.append(changed.wait(timeout=60))

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    until = time.monotonic() + 60
    while time.monotonic() < until:
        # A thread that has the lock finds each of these in its wait.
        with changed:
            if len(inside) == count:
                break
        time.sleep(0.01)
    return threads, results


def test_a_notification_ends_one_wait(folder):
    """As CPython's lock tests: the notifier keeps the lock, so each woken waiter finds it held."""
    changed = Condition("changed", Lock("lock", folder))
    waiters, results = waiting_threads(changed, 6)
    for count, woken in ((1, 1), (3, 4)):
        with changed:
            changed.notify(count)
            time.sleep(0.05)
        until = time.monotonic() + 60
        while len(results) < woken and time.monotonic() < until:
            time.sleep(0.01)
        # Long enough for one too many.
        time.sleep(0.2)
        assert results == [True] * woken
    with changed:
        changed.notify_all()
    for waiter in waiters:
        waiter.join(60)
    assert results == [True] * 6


def test_who_does_not_hold_the_lock_neither_waits_nor_notifies(folder):
    changed = Condition("changed", Lock("lock", folder))
    for call in (changed.wait, changed.notify, changed.notify_all):
        with pytest.raises(RuntimeError):
            call()
    with changed:
        for call in (changed.notify, changed.notify_all):
            assert isinstance(in_thread(call), RuntimeError)
        changed.notify()
        changed.notify_all()


def test_who_was_not_notified_hands_nothing_on(folder):
    lock = Lock("lock", folder)
    full, empty = Condition("full", lock), Condition("empty", lock)
    results = []

    def run():
        with full:
            results.append(full.wait(timeout=1))

    waiter = threading.Thread(target=run)
    waiter.start()
    time.sleep(0.3)
    with lock:
        assert full.wait(timeout=0.05) is False
        assert empty.wait(timeout=0.05) is False
    waiter.join(60)
    assert results == [False]


def test_the_relock_begins_at_the_end_of_the_wait(folder):
    """A holder that works for longer than that in the middle of a wait does not end it."""
    lock = Lock("lock", folder)
    changed = Condition("changed", lock)
    waits = threading.Event()

    def run():
        with changed:
            waits.set()
            return changed.wait(timeout=60, relock=6)

    def holder():
        assert waits.wait(60)
        with changed:
            time.sleep(8)
        # The waiter has had the lock since.
        time.sleep(0.2)
        with changed:
            changed.notify()

    thread = threading.Thread(target=holder)
    thread.start()
    assert in_thread(run) is True
    thread.join(60)


def test_a_notification_that_a_handler_keeps_from_its_wait_goes_to_the_next(folder, start):
    """The signal wakes a waiter, which is notified while it wants the lock: then its handler runs."""
    changed = Condition("changed", Lock("lock", folder))
    program = start("""
        changed = Condition("changed", Lock("lock", folder))
        try:
            with changed:
                say("waits")
                changed.wait(timeout=60)
        except KeyboardInterrupt:
            say("interrupted")
        time.sleep(60)
    """)
    assert program.line() == "waits"
    # Sooner than a part of the wait, after which the thread would be the first.
    (waiter,), results = waiting_threads(changed, 1)
    with changed:
        program.interrupt()
        # It is awake, and the first that wants the lock, with which it finds the notification.
        time.sleep(0.1)
        changed.notify()
    assert program.line() == "interrupted"
    waiter.join(60)
    assert results == [True]


def test_any_number_may_be_notified(folder):
    changed = Condition("changed", Lock("lock", folder))
    waiters, results = waiting_threads(changed, 3)
    with changed:
        changed.notify(sys.maxsize)
    for waiter in waiters:
        waiter.join(60)
    assert results == [True] * 3


def test_a_condition_of_a_recursive_lock(folder, start):
    lock = RLock("tree", folder)
    grown = Condition("grown", lock)
    program = start(
        "lock = RLock('tree', folder); grown = Condition('grown', lock)\n"
        "with lock, lock, grown:\n"
        "    say('waits')\n"
        "    say(grown.wait(60))\n"
        "    say(lock.value)\n"
        "    for n in range(3): lock.release()\n"
        "    say(lock.locked())\n"
        "    for n in range(3): lock.acquire()\n"
    )
    assert program.line() == "waits"
    with grown, lock:
        # The waiter gave up all three.
        lock.value = 3
        assert grown.wait(0.01) is False
        grown.notify()
    assert [program.line() for _ in range(3)] == ["True", "3", "False"]
    with pytest.raises(RuntimeError):
        grown.wait(0.01)
    with pytest.raises(RuntimeError):
        grown.notify()
    # A thread of this process that has the same object, meanwhile.
    got = []

    def change():
        with lock, lock:
            lock.value = 4
            grown.notify_all()
            got.append(lock.value)

    thread = threading.Thread(target=change)
    with lock, lock:
        thread.start()
        assert grown.wait_for(lambda: lock.value == 4, timeout=60) and got == [4]
        lock.release()
        assert lock.locked()
        lock.acquire()
    thread.join(60)
    assert not lock.locked() and repr(grown).count("RLock") == 1


def test_a_wait_gives_up_no_level_of_another_object(folder):
    one, other = RLock("tree", folder), RLock("tree", folder)
    grown = Condition("grown", one)
    with other, one:
        for wait in (lambda: grown.wait(0.01), lambda: grown.wait_for(lambda: False, 0.01)):
            with pytest.raises(RuntimeError, match="by another object"):
                wait()
        one.release()
        assert other.locked()
        one.acquire()
    assert not one.locked()
    with one:
        with other:
            pass
        assert grown.wait(0.01) is False


def test_a_recursive_lock_that_a_wait_does_not_get_again(folder, start):
    lock = RLock("tree", folder)
    grown = Condition("grown", lock)
    with pytest.raises(Timeout), lock, lock:
        program = start("lock = RLock('tree', folder)\nsay('ready')\nlock.acquire()\nsay('holds')\ntime.sleep(60)")
        assert program.line() == "ready"
        grown.wait(1.0, relock=0.2)
    assert program.line() == "holds"
    program.kill()
    # What the thread had before is gone: the lock is taken once.
    assert lock.acquire(timeout=60) and lock.owner_died
    lock.mark_consistent()
    lock.release()
    assert not lock.locked()
