"""Semaphores: permits that belong to a thread, and permits that belong to none."""

from __future__ import annotations

import pytest
from conftest import in_thread

from outlive import BadOption, CountingSemaphore, Semaphore


def test_permits_come_back(folder, start):
    slots = Semaphore("slots", 2, folder)
    program = start("slots = Semaphore('slots', 2, folder); slots.acquire(); say('has one'); time.sleep(60)")
    program.line()
    assert slots.acquire() and not slots.acquire(timeout=0.05) and not slots.acquire(blocking=False)
    assert isinstance(in_thread(slots.release), ValueError), "not its own"
    program.kill()
    assert slots.acquire(timeout=60)
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
    assert slots.acquire(n=3, timeout=60)
    slots.release(3)
    for wrong in (0, -1, 4):
        with pytest.raises(ValueError):
            slots.acquire(n=wrong)
    parts = CountingSemaphore("parts", 1, folder)
    assert not parts.acquire(blocking=False, n=2) and parts.available_permits == 1
    parts.release(2)
    assert parts.acquire(n=3) and parts.available_permits == 0


def test_a_counting_semaphore_belongs_to_nobody(folder, start):
    parts = CountingSemaphore("parts", 0, folder)
    assert parts.acquire(blocking=False) is False and parts.acquire(timeout=0.01) is False
    program = start("parts = CountingSemaphore.open('parts', domain=folder); say('waits'); say(parts.acquire(timeout=60))")
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


def test_a_counting_semaphore_closed_in_its_block_has_its_permit_back(folder):
    parts = CountingSemaphore("parts", 1, folder)
    with pytest.raises(KeyError):
        with parts:
            parts.close()
            raise KeyError
    assert CountingSemaphore.open("parts", domain=folder).available_permits == 1
    with pytest.raises(ValueError, match="closed"):
        parts.release()
