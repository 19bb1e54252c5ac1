"""Reader-writer locks: readers, writers, one upgradable reader, and their deaths."""

from __future__ import annotations

import signal
import time

import pytest
from conftest import in_thread

from outlive import Deadlock, NotRecoverable, RwLock, Timeout


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
    with lock.read(timeout=60) as held:
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
        held.upgrade(timeout=60)
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
    with lock.write(timeout=60) as held:
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
    with lock.write(timeout=60) as held:
        assert not held.owner_died


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
    with lock.write(timeout=60):
        pass
