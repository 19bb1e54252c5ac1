"""Locks: what threading's are, between threads and processes."""

from __future__ import annotations

import math
import threading
import time

import pytest
from conftest import in_thread

from outlive import (
    BadOption,
    Barrier,
    CountingSemaphore,
    Deadlock,
    Event,
    Lock,
    NotRecoverable,
    OwnerDied,
    RLock,
    RwLock,
    Semaphore,
    WrongKind,
)


def test_a_lock_has_threadings_methods(folder):
    lock = Lock("lock", folder)
    assert lock.acquire() is True
    assert lock.locked()
    assert lock.acquire(False) is False
    assert lock.acquire(blocking=False) is False
    with pytest.raises(Deadlock):
        lock.acquire()
    assert in_thread(lambda: lock.acquire(timeout=0.05)) is False
    assert in_thread(lambda: lock.acquire(blocking=False)) is False
    assert isinstance(in_thread(lock.release), RuntimeError)
    lock.release()
    assert not lock.locked()
    with pytest.raises(RuntimeError):
        lock.release()
    assert in_thread(lambda: (lock.acquire(True, 1.0), lock.release())) == (True, None)


def test_two_handles_are_one_lock(folder):
    one, two = Lock("lock", folder), Lock("lock", folder)
    with one:
        assert two.locked() and not two.acquire(blocking=False)
        with pytest.raises(RuntimeError):
            two.release()
    with two as held:
        held.value = 2**64 - 1
    with one as held:
        assert held.value == 2**64 - 1
    with pytest.raises(RuntimeError):
        one.value


def test_threads_exclude_each_other(folder):
    lock = Lock("lock", folder)
    counts = [0]

    def count():
        for _ in range(500):
            with lock as held:
                held.value += 1
                seen = counts[0]
                counts[0] = seen + 1

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    with lock:
        assert (lock.value, counts) == (2000, [2000])


def test_processes_exclude_each_other(folder, start):
    code = """
        lock = Lock("total", folder)
        for _ in range(2000):
            with lock as held:
                held.value += 1
    """
    for program in [start(code) for _ in range(3)]:
        assert program.end() == 0
    with Lock("total", folder) as held:
        assert held.value == 6000


@pytest.mark.parametrize("repairs", [True, False])
def test_the_next_is_told_of_a_death(folder, start, repairs):
    program = start("""
        with Lock("lock", folder) as held:
            held.value = 7
            say("inside")
            time.sleep(60)
    """)
    assert program.line() == "inside"
    lock = Lock("lock", folder)
    assert lock.acquire(timeout=0.01) is False
    waiting = []
    thread = threading.Thread(target=lambda: waiting.append((lock.acquire(timeout=60), lock.owner_died, lock.release())))
    thread.start()
    program.kill()
    thread.join(60)
    assert waiting == [(True, True, None)], "the waiter was told"
    # The waiter released the lock unrepaired: each next owner is told, until one repairs or
    # marks the lock not recoverable.
    for _ in range(2):
        with lock as held:
            assert (held.value, held.owner_died) == (7, True)
    with lock as held:
        held.mark_not_recoverable()
        assert not held.owner_died
        with pytest.raises(RuntimeError):
            held.mark_not_recoverable()
    with pytest.raises(NotRecoverable):
        lock.acquire()
    lock.reset(8)
    with lock as held:
        assert (held.value, held.owner_died) == (8, False)
    with pytest.raises(RuntimeError), lock as held:
        held.release()
    assert lock.acquire()
    lock.mark_not_recoverable()
    lock.reset(9)
    with pytest.raises(RuntimeError), lock as held:
        held.release()
    program = start("lock = Lock('lock', folder); lock.acquire(); say('inside'); time.sleep(60)")
    program.line()
    program.kill()
    if repairs:
        with lock as held:
            assert held.owner_died
            held.mark_consistent()
            assert not held.owner_died
            held.check()
        with lock as held:
            assert not held.owner_died
    else:
        for _ in range(2):
            with pytest.raises(OwnerDied), lock as held:
                held.check()
        assert lock.acquire(timeout=1)
        assert lock.owner_died
        lock.release()


def test_each_thread_that_gave_the_lock_up_leaves_its_block_without_an_error(folder):
    lock = Lock("lock", folder)

    def mark_not_recoverable():
        with lock as held:
            held.mark_not_recoverable()

    with lock as held:
        held.mark_not_recoverable()
        lock.reset(0)
        # The second thread marks the lock in a block of its own, while the first thread's block goes on.
        assert in_thread(mark_not_recoverable) is None
    lock.reset(0)
    # A later block that gives the lock back itself still raises at its end.
    with pytest.raises(RuntimeError), lock as held:
        held.release()


def test_an_exception_is_no_death(folder):
    lock, rwlock = Lock("lock", folder), RwLock("rwlock", folder)
    for _ in range(2):
        with pytest.raises(KeyError), lock as held, rwlock.write() as writing:
            held.value += 1
            writing.value += 1
            raise KeyError("in the middle")
    with lock as held, rwlock.read() as reading:
        assert (held.value, held.owner_died) == (2, False)
        assert (reading.value, reading.owner_died) == (2, False)


def test_a_with_block_tells_of_a_lock_that_is_not_held(folder):
    lock = Lock("lock", folder)
    with pytest.raises(RuntimeError, match="not acquired"):
        with lock:
            lock.release()
    with pytest.raises(KeyError):
        with lock:
            lock.release()
            raise KeyError


def test_a_holders_own_acquire_answers_as_threadings(folder):
    lock = Lock("lock", folder)
    lock.acquire()
    begun = time.monotonic()
    assert lock.acquire(timeout=0.1) is False and time.monotonic() - begun >= 0.1
    assert lock.acquire(blocking=False) is False
    with pytest.raises(Deadlock):
        lock.acquire()
    lock.release()
    permits = Semaphore("permits", 1, folder)
    permits.acquire()
    assert permits.acquire(timeout=0.1) is False
    assert permits.acquire(blocking=False) is False


def test_a_recursive_lock(folder, start):
    lock = RLock("tree", folder)
    with lock:
        assert lock.acquire() and lock.acquire(blocking=False) and lock.acquire(timeout=1)
        for _ in range(3):
            assert in_thread(lambda: lock.acquire(blocking=False)) is False
            assert isinstance(in_thread(lock.release), RuntimeError)
            lock.release()
    assert not lock.locked()
    with pytest.raises(RuntimeError):
        lock.release()
    program = start("lock = RLock('tree', folder); lock.acquire(); lock.acquire(); say('holds'); time.sleep(60)")
    assert program.line() == "holds"
    assert lock.acquire(timeout=0.05) is False and lock.holder_pid == program.pid
    program.kill()
    assert lock.acquire() and lock.owner_died
    # Told once, and once is enough to release it.
    assert lock.acquire() and lock.owner_died
    lock.release()
    lock.mark_consistent()
    lock.release()
    assert not lock.locked()
    # Two objects of the name are one lock.
    other = RLock("tree", folder)
    with lock, other:
        lock.value = 5
        assert other.value == 5
    assert not lock.locked()
    with pytest.raises(WrongKind):
        Lock("tree", folder)
    with lock, lock:
        lock.mark_not_recoverable()
    with pytest.raises(NotRecoverable):
        lock.acquire()
    lock.reset(7)
    with lock as held:
        assert held.value == 7


def test_each_object_of_a_recursive_lock_knows_what_is_not_repaired(folder, start):
    one, other = RLock("tree", folder), RLock("tree", folder)
    program = start("lock = RLock('tree', folder); lock.acquire(); say('holds'); time.sleep(60)")
    assert program.line() == "holds"
    program.kill()
    with one:
        # This thread was told by the first, and nothing is repaired.
        with other:
            assert one.owner_died and other.owner_died
            with pytest.raises(OwnerDied):
                other.check()
            other.mark_consistent()
            assert not one.owner_died and not other.owner_died
        one.check()
        # What it gives up inside, it does not undo outside.
        with other:
            other.mark_not_recoverable()
        one.mark_consistent()
        assert one.owner_died
        with pytest.raises(NotRecoverable):
            other.acquire()
    assert not one.owner_died
    with pytest.raises(NotRecoverable):
        one.acquire()
    one.reset()
    with one, other:
        assert not one.owner_died and not other.owner_died


def closed_by_another(thing):
    """Another thread is in its `with` block while this one closes it, and lives on after the block."""
    inside, closed, left, end = (threading.Event() for _ in range(4))

    def run():
        with thing:
            inside.set()
            closed.wait(60)
        left.set()
        end.wait(60)

    thread = threading.Thread(target=run)
    thread.start()
    assert inside.wait(60)
    thing.close()
    closed.set()
    assert left.wait(60)
    return lambda: (end.set(), thread.join(60))


def test_a_block_releases_what_another_thread_has_closed(folder):
    """The thread of the block lives on, so that no death releases it."""
    end = closed_by_another(RLock("tree", folder))
    assert RLock.open("tree", domain=folder).acquire(timeout=60)
    end()
    end = closed_by_another(Semaphore("one", 1, folder))
    assert Semaphore.open("one", domain=folder).acquire(timeout=60)
    end()
    # Closed by the block's own thread: released once.
    lock = RLock("own", folder)
    with lock, lock:
        lock.close()
    own = RLock.open("own", domain=folder)
    assert in_thread(lambda: own.acquire(blocking=False))
    permits = Semaphore("two", 2, folder)
    with permits, permits:
        permits.close()
    assert Semaphore.open("two", domain=folder).available_permits == 2


def test_what_a_lock_cannot_be_is_named(folder):
    for make in (
        lambda: Semaphore("s", 0, folder),
        lambda: Semaphore("s", 70000, folder),
        lambda: Barrier("b", 0, folder),
        lambda: Barrier("b", 70000, folder),
    ):
        with pytest.raises(BadOption, match="number of"):
            make()
    for wrong in (
        lambda: Semaphore("s", -1, folder),
        lambda: CountingSemaphore("c", -1, folder),
        lambda: Barrier("b", -1, folder),
    ):
        with pytest.raises(ValueError, match="not be negative"):
            wrong()
    lock = Lock("lock", folder)
    for wait in (
        lambda: lock.acquire(timeout=1e100),
        lambda: Event("e", folder).wait(timeout=1e100),
        lambda: Semaphore("s", 1, folder).acquire(timeout=1e100),
    ):
        with pytest.raises(OverflowError):
            wait()
    assert lock.acquire(timeout=math.inf) and lock.acquire(timeout=0.01) is False
