"""Events and latches: which waiters go on, and when."""

from __future__ import annotations

import mmap
import struct
import threading
import time

import pytest

from outlive import Event, Latch, WaitSet


def test_an_event_wakes(folder, start):
    event = Event("event", folder)
    program = start("say('waits'); say(Event('event', folder).wait(timeout=60))")
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


@pytest.mark.parametrize("wait", ["wait(timeout=60)", "wait_bits(5, timeout=60)", "wait_bits(3, all=True, timeout=60)"])
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
        waiter.join(60)
    assert results == [True] * 20 and program.line() == "True"
    assert not event.is_set() and not event.wait(timeout=0.01)


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
        waiter.join(60)
        assert results == [0]


def test_a_latch_opens_once_and_arrivals_outlive(folder, start):
    latch = Latch("latch", 3, folder)
    program = start("say('waits'); say(Latch('latch', 3, folder).wait(timeout=60))")
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
    assert latch.wait() and waiting.wait(timeout=60) == [latch]
    assert latch.arrive() == 0, "more than were missing do no harm"
    other = Latch("other", 5, folder)
    other.release()
    assert other.is_open()
