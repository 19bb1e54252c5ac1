"""Locks, semaphores, events: what threading's do, between threads and processes."""

from __future__ import annotations

import math
import mmap
import signal
import struct
import sys
import threading
import time

import pytest

from outlive import (
    BadOption,
    Barrier,
    Condition,
    CountingSemaphore,
    Deadlock,
    Event,
    Latch,
    Lock,
    NotRecoverable,
    OwnerDied,
    RLock,
    RwLock,
    Semaphore,
    Timeout,
    WaitSet,
    WrongKind,
)


def in_thread(call):
    """What the call comes to in another thread."""
    result = []

    def run():
        try:
            result.append(call())
        except BaseException as error:  # noqa: BLE001
            result.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(20)
    assert result, "it hangs"
    return result[0]


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
        thread.join(20)
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
    thread = threading.Thread(target=lambda: waiting.append((lock.acquire(timeout=20), lock.owner_died, lock.release())))
    thread.start()
    program.kill()
    thread.join(20)
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


def test_readers_and_writers(folder, start):
    lock = RwLock("lock", folder, value=3)
    with lock.read() as one, lock.read() as two:
        assert one.value == two.value == 3
        with pytest.raises(RuntimeError):
            one.value = 4
        outcome = in_thread(lambda: lock.write(timeout=0.05).__enter__())
        assert isinstance(outcome, Timeout) and isinstance(outcome, TimeoutError)
    with lock.write() as held:
        held.value = 4
        assert isinstance(in_thread(lambda: lock.read(timeout=0.05).__enter__()), Timeout)
    with pytest.raises(RuntimeError):
        held.value
    hold = lock.read()
    with hold, pytest.raises(RuntimeError):
        hold.__enter__()
    program = start("""
        with RwLock("lock", folder).write():
            say("writes")
            time.sleep(60)
    """)
    program.line()
    program.kill()
    with lock.read(timeout=20) as held:
        assert held.owner_died
    with lock.read() as held:
        assert held.owner_died
        held.mark_not_recoverable()
    for hold in (lock.read(), lock.write()):
        with pytest.raises(NotRecoverable):
            hold.__enter__()
    lock.reset(4)
    with lock.read() as held, pytest.raises(RuntimeError):
        held.mark_not_recoverable()
    with lock.write() as held:
        held.value = 5
        held.mark_consistent()
    with lock.read() as held:
        assert (held.value, held.owner_died) == (5, False)


def test_one_reader_at_a_time_is_upgradable(folder, start):
    lock = RwLock("lock", folder, value=3)
    with lock.upgradable_read() as held:
        assert held.value == 3
        assert isinstance(in_thread(lambda: lock.upgradable_read(timeout=0.05).__enter__()), Timeout)
        with pytest.raises(RuntimeError):
            held.value = 4
        program = start("""
            with RwLock("lock", folder).read() as held:
                try:
                    held.upgrade()
                except Taken:
                    say(f"reads {held.value}")
                time.sleep(60)
        """)
        assert program.line() == "reads 3"
        with pytest.raises(Timeout):
            held.upgrade(timeout=0.12)
        assert held.value == 3
        program.kill()
        held.upgrade(timeout=20)
        held.value = 4
        held.upgrade()
        held.downgrade(upgradable=True)
        with pytest.raises(Deadlock):
            lock.upgradable_read().__enter__()
        with lock.read() as beside, pytest.raises(Deadlock):
            assert beside.value == 4
            held.upgrade()
        held.downgrade()
        with pytest.raises(RuntimeError):
            held.downgrade(upgradable=True)
        held.upgrade()
    with pytest.raises(RuntimeError):
        held.upgrade()
    program = start("""
        with RwLock("lock", folder).upgradable_read() as held:
            say("reads")
            time.sleep(60)
    """)
    program.line()
    with lock.read() as held:
        assert held.value == 4
    program.kill()
    with lock.write(timeout=20) as held:
        assert not held.owner_died


def test_a_dead_readers_lock_is_free(folder, start):
    program = start("""
        with RwLock("lock", folder).read():
            say("reads")
            time.sleep(60)
    """)
    program.line()
    lock = RwLock("lock", folder)
    with pytest.raises(Timeout), lock.write(timeout=0.05):
        pass
    program.kill()
    with lock.write(timeout=20) as held:
        assert not held.owner_died


def test_permits_come_back(folder, start):
    slots = Semaphore("slots", 2, folder)
    program = start("slots = Semaphore('slots', 2, folder); slots.acquire(); say('has one'); time.sleep(60)")
    program.line()
    assert slots.acquire() and not slots.acquire(timeout=0.05) and not slots.acquire(blocking=False)
    assert isinstance(in_thread(slots.release), ValueError), "not its own"
    program.kill()
    assert slots.acquire(timeout=20)
    slots.release(2)
    with pytest.raises(ValueError):
        slots.release()
    assert slots.available_permits == 2


def test_several_permits_at_once(folder, start):
    slots = Semaphore("slots", 3, folder)
    program = start("slots = Semaphore('slots', 3, folder); slots.acquire(n=2); say('has two'); time.sleep(60)")
    program.line()
    assert not slots.acquire(n=2, timeout=0.12) and not slots.acquire(False, n=2)
    assert slots.available_permits == 1
    program.kill()
    assert slots.acquire(n=3, timeout=20)
    slots.release(3)
    for wrong in (0, -1, 4):
        with pytest.raises(ValueError):
            slots.acquire(n=wrong)
    parts = CountingSemaphore("parts", 1, folder)
    assert not parts.acquire(blocking=False, n=2) and parts.available_permits == 1
    parts.release(2)
    assert parts.acquire(n=3) and parts.available_permits == 0


def test_an_event_wakes(folder, start):
    event = Event("event", folder)
    program = start("say('waits'); say(Event('event', folder).wait(timeout=20))")
    program.line()
    event.set()
    assert program.line() == "True"
    event.clear()
    assert not event.is_set()
    assert event.wait(timeout=0) is False
    assert event.wait_bits(0b11, all=True, timeout=0.01) == 0
    once = Event("once", folder, automatic=True)
    once.set()
    assert once.wait(1) and not once.wait(0)


@pytest.mark.parametrize("wait", ["wait(timeout=20)", "wait_bits(5, timeout=20)", "wait_bits(3, all=True, timeout=20)"])
def test_all_who_wait_when_an_event_is_set_go_on_though_it_is_cleared(folder, start, wait):
    event = Event("event", folder)
    threads, results = [], []
    program = start(f"say('waits'); say(bool(Event('event', folder).{wait}))")
    assert program.line() == "waits"
    for _ in range(20):
        waiter = threading.Thread(target=lambda: results.append(bool(eval("event." + wait, {"event": event}))))
        waiter.start()
        threads.append(waiter)
    time.sleep(0.3)
    for _ in range(2):
        event.set(3)
        event.clear()
    for waiter in threads:
        waiter.join(20)
    assert results == [True] * 20 and program.line() == "True"
    assert not event.is_set() and not event.wait(timeout=0.01)


def test_a_latch_opens_once_and_arrivals_outlive(folder, start):
    latch = Latch("latch", 3, folder)
    program = start("say('waits'); say(Latch('latch', 3, folder).wait(timeout=20))")
    program.line()
    arrived = start("say(Latch('latch', 3, folder).arrive()); time.sleep(60)")
    assert arrived.line() == "2"
    arrived.kill()
    assert latch.missing == 2 and not latch.is_open() and latch.wait(timeout=0.01) is False
    waiting = WaitSet(folder)
    waiting.add(latch)
    assert waiting.wait(timeout=0.01) == []
    assert latch.arrive(2) == 0
    assert program.line() == "True"
    assert latch.wait() and waiting.wait(timeout=5) == [latch]
    assert latch.arrive() == 0, "more than were missing do no harm"
    other = Latch("other", 5, folder)
    other.release()
    assert other.is_open()


def test_conditions(folder, start):
    lock = Lock("lock", folder)
    condition = Condition("condition", lock)
    program = start("""
        lock = Lock("lock", folder)
        condition = Condition("condition", lock)
        with condition:
            say("waits")
            condition.wait_for(lambda: lock.value == 1, timeout=20)
            lock.value = 2
            condition.notify_all()
        say("done")
        Event("go", folder).wait(timeout=20)
        with condition:
            say("inside")
            time.sleep(60)
    """)
    program.line()
    with condition:
        lock.value = 1
        condition.notify()
        assert condition.wait_for(lambda: lock.value == 2, timeout=20)
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
    Event("waits", folder).wait(timeout=20)
    time.sleep(0.1)
    with lock:
        condition.notify()
        say("keeps")
        time.sleep(60)
"""


def waiting(folder, then=lambda: None):
    """A condition whose lock is taken by a keeper that notifies, once this thread waits, and to which ``then`` happens."""
    lock = Lock("lock", folder)
    condition = Condition("condition", lock)
    Event("waits", folder).set()
    threading.Thread(target=then).start()
    return lock, condition


@pytest.mark.parametrize("stopped", [False, True])
def test_a_wait_that_does_not_get_the_lock_again_ends(folder, start, stopped):
    keeper = start(KEEPER)
    lock, condition = waiting(folder, lambda: (keeper.line(), stopped and keeper.process.send_signal(signal.SIGSTOP)))
    with pytest.raises(Timeout, match="does not hold it") as late:
        with condition:
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
    lock, condition = waiting(folder, lambda: (keeper.line(), time.sleep(0.5), keeper.kill()))
    with condition:
        assert condition.wait_for(lambda: lock.owner_died, timeout=15, relock=math.inf)
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
        Event("go on", folder).wait(timeout=20)
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


def test_a_with_block_tells_of_a_lock_that_is_not_held(folder):
    lock = Lock("lock", folder)
    with pytest.raises(RuntimeError, match="not acquired"):
        with lock:
            lock.release()
    with pytest.raises(KeyError):
        with lock:
            lock.release()
            raise KeyError


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
            say(changed.wait(timeout=20))
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


def test_a_notification_ends_one_wait(folder):
    """As CPython's lock tests: the notifier keeps the lock, so each woken waiter finds it held."""
    changed = Condition("changed", Lock("lock", folder))
    results = []

    def run():
        with changed:
            results.append(changed.wait(timeout=20))

    waiters = [threading.Thread(target=run) for _ in range(6)]
    for waiter in waiters:
        waiter.start()
    time.sleep(0.3)
    for count in (1, 3):
        with changed:
            changed.notify(count)
            time.sleep(0.05)
        time.sleep(0.2)
        assert results == [True] * {1: 1, 3: 4}[count]
    with changed:
        changed.notify_all()
    for waiter in waiters:
        waiter.join(20)
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


def test_a_condition_of_a_recursive_lock(folder, start):
    lock = RLock("tree", folder)
    grown = Condition("grown", lock)
    program = start(
        "lock = RLock('tree', folder); grown = Condition('grown', lock)\n"
        "with lock, lock, grown:\n"
        "    say('waits')\n"
        "    say(grown.wait(20))\n"
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
        assert grown.wait_for(lambda: lock.value == 4, timeout=20) and got == [4]
        lock.release()
        assert lock.locked()
        lock.acquire()
    thread.join(20)
    assert not lock.locked() and repr(grown).count("RLock") == 1


def test_a_handler_that_leaves_the_block_ends_an_upgrade(folder, start):
    lock = RwLock("rw", folder)
    program = start("""
        lock = RwLock("rw", folder)
        hold = lock.upgradable_read()
        hold.__enter__()
        signal.signal(signal.SIGUSR1, lambda *args: hold.__exit__(None, None, None))
        say("reads")
        try:
            hold.upgrade()
        except RuntimeError as error:
            say(error)
    """)
    with lock.read():
        assert program.line() == "reads"
        time.sleep(0.3)
        program.process.send_signal(signal.SIGUSR1)
        assert "with" in program.line()
    assert program.end() == 0
    with lock.write(timeout=10):
        pass


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
    assert lock.acquire(timeout=10) and lock.owner_died
    lock.mark_consistent()
    lock.release()
    assert not lock.locked()


def test_a_counting_semaphore_belongs_to_nobody(folder, start):
    parts = CountingSemaphore("parts", 0, folder)
    assert parts.acquire(blocking=False) is False and parts.acquire(timeout=0.01) is False
    program = start("parts = CountingSemaphore.open('parts', domain=folder); say('waits'); say(parts.acquire(timeout=20))")
    assert program.line() == "waits"
    parts.release()
    assert program.line() == "True"
    # What a process released stays, and what it acquired and did not release is used up.
    program = start("parts = CountingSemaphore('parts', 0, folder); parts.release(5); parts.acquire(); say('done'); time.sleep(60)")
    assert program.line() == "done"
    program.kill()
    assert parts.available_permits == 4
    with parts:
        assert parts.available_permits == 3
    few = CountingSemaphore("few", 1, folder, max_permits=2)
    few.release()
    with pytest.raises(ValueError, match="2; 0 of 1"):
        few.release()
    with pytest.raises(BadOption):
        CountingSemaphore("few", 1, folder, max_permits=3)


def closed_by_another(thing):
    """Another thread is in its `with` block while this one closes it, and lives on after the block."""
    inside, closed, left, end = (threading.Event() for _ in range(4))

    def run():
        with thing:
            inside.set()
            closed.wait(20)
        left.set()
        end.wait(20)

    thread = threading.Thread(target=run)
    thread.start()
    assert inside.wait(20)
    thing.close()
    closed.set()
    assert left.wait(20)
    return lambda: (end.set(), thread.join(20))


def test_a_block_releases_what_another_thread_has_closed(folder):
    """The thread of the block lives on, so that no death releases it."""
    end = closed_by_another(RLock("tree", folder))
    assert RLock.open("tree", domain=folder).acquire(timeout=5)
    end()
    end = closed_by_another(Semaphore("one", 1, folder))
    assert Semaphore.open("one", domain=folder).acquire(timeout=5)
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


def test_a_counting_semaphore_closed_in_its_block_has_its_permit_back(folder):
    parts = CountingSemaphore("parts", 1, folder)
    with pytest.raises(KeyError):
        with parts:
            parts.close()
            raise KeyError
    assert CountingSemaphore.open("parts", domain=folder).available_permits == 1
    with pytest.raises(ValueError, match="closed"):
        parts.release()


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
    waiter.join(20)
    assert results == [False]


def test_the_relock_begins_at_the_end_of_the_wait(folder):
    """A holder that works for longer than that in the middle of a wait does not end it."""
    lock = Lock("lock", folder)
    changed = Condition("changed", lock)
    waits = threading.Event()

    def run():
        with changed:
            waits.set()
            return changed.wait(timeout=18, relock=0.1)

    def holder():
        assert waits.wait(20)
        with changed:
            time.sleep(1.5)
        # The waiter has had the lock since.
        time.sleep(0.2)
        with changed:
            changed.notify()

    thread = threading.Thread(target=holder)
    thread.start()
    assert in_thread(run) is True
    thread.join(20)


def test_a_notification_that_a_handler_keeps_from_its_wait_goes_to_the_next(folder, start):
    """The signal wakes a waiter, which is notified while it wants the lock: then its handler runs."""
    changed = Condition("changed", Lock("lock", folder))
    program = start("""
        changed = Condition("changed", Lock("lock", folder))
        try:
            with changed:
                say("waits")
                changed.wait(timeout=20)
        except KeyboardInterrupt:
            say("interrupted")
        time.sleep(60)
    """)
    assert program.line() == "waits"
    results = []

    def run():
        with changed:
            results.append(changed.wait(timeout=10))

    # Shorter than a part of the wait, after which the thread would be the first.
    time.sleep(0.1)
    waiter = threading.Thread(target=run)
    waiter.start()
    time.sleep(0.15)
    with changed:
        program.interrupt()
        # It is awake, and the first that wants the lock, with which it finds the notification.
        time.sleep(0.1)
        changed.notify()
    assert program.line() == "interrupted"
    waiter.join(20)
    assert results == [True]


def test_any_number_may_be_notified(folder):
    changed = Condition("changed", Lock("lock", folder))
    results = []

    def run():
        with changed:
            results.append(changed.wait(timeout=20))

    waiters = [threading.Thread(target=run) for _ in range(3)]
    for waiter in waiters:
        waiter.start()
    time.sleep(0.3)
    with changed:
        changed.notify(sys.maxsize)
    for waiter in waiters:
        waiter.join(20)
    assert results == [True] * 3


@pytest.mark.parametrize("all", [False, True])
def test_clearings_of_other_bits_end_no_wait(folder, all):
    """However many they are: the count in the file is raised as by 2^30 of them."""
    event = Event("event", folder)
    with open(f"{folder}/event", "r+b") as file, mmap.mmap(file.fileno(), 0) as words:
        before = bytes(words)
        event.set(0b110000)
        after = bytes(words)
        (at,) = (n for n in range(0, len(before), 4) if before[n : n + 4] != after[n : n + 4])
        event.clear()
        results = []

        def run():
            results.append(event.wait_bits(0b11 << 11, all=all, timeout=4))

        waiter = threading.Thread(target=run)
        waiter.start()
        time.sleep(0.3)
        (number,) = struct.unpack_from("<I", words, at + 4)
        for clearings in (number + (1 << 29), number + (1 << 30) + (2 << 20)):
            # Old numbers are renewed at each 2^20th.
            clearings = clearings >> 20 << 20
            struct.pack_into("<I", words, at + 4, clearings - 1)
            event.set(1)
            event.clear(1)
            # Longer than a slice.
            time.sleep(0.7)
        waiter.join(20)
        assert results == [0]


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
