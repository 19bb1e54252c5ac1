"""Waits that have got a part of what they want when a signal comes: they keep it while the handler runs."""

from __future__ import annotations

import time

import pytest

from outlive import CountingSemaphore, RwLock, Semaphore

#: What another thread than the one that the handler interrupts gets of ``call``.
AT_ONCE = """
def in_thread(call):
    got = []
    thread = threading.Thread(target=lambda: got.append(call()))
    thread.start()
    thread.join()
    return got[0]
def reads(lock):
    try:
        with lock.read(timeout=0.01):
            return "enters"
    except Timeout:
        return "waits"
# The next signal only after the last one's handler: on a busy machine one of a period
# would interrupt the handler, and so on, until the stack is full.
running = False
def every(seconds, handler):
    def once(*_):
        if running:
            handler()
        if running:
            signal.setitimer(signal.ITIMER_REAL, seconds)
    global running
    running = True
    signal.signal(signal.SIGALRM, once)
    signal.setitimer(signal.ITIMER_REAL, seconds)
def no_more():
    global running
    running = False
    signal.setitimer(signal.ITIMER_REAL, 0)
def stop():
    no_more()
    raise ZeroDivisionError
# How long a wait lasts, until the handler has run often enough during one.
PATIENCE = (0.5, 2, 8)
"""


@pytest.mark.parametrize("kind", [Semaphore, CountingSemaphore])
def test_several_permits_are_kept_while_a_handler_runs(folder, start, kind):
    permits = kind("permits", 3, folder)
    assert permits.acquire()
    program = start(
        AT_ONCE
        + f"""
permits = {kind.__name__}("permits", 3, folder)
seen = []
for seconds in PATIENCE:
    del seen[:]
    every(0.02, lambda: seen.append(permits.available_permits))
    got = permits.acquire(n=3, timeout=seconds)
    no_more()
    if len(seen) > 3:
        break
say(got, len(seen) > 3, set(seen[3:]))
say(permits.available_permits)
try:
    every(0.2, stop)
    permits.acquire(n=3)
except ZeroDivisionError:
    say(permits.available_permits)
del seen[:]
def gets_one():
    return permits.acquire(False) and (permits.release() or True)
def look():
    if len(seen) < 10:
        seen.append(in_thread(gets_one))
    if len(seen) == 10:
        seen.append(None)
        say("waits", any(seen[3:]))
every(0.02, look)
got = permits.acquire(n=3)
no_more()
say(got)
"""
    )
    assert program.line() == "False True {0}"
    assert program.line() == "2", "what it had is given back"
    assert program.line() == "2", "and also when a handler raises"
    assert program.line() == "waits False"
    # In its turn it keeps the others: another thread gets none, however long it takes.
    assert not permits.acquire(timeout=0.5)
    permits.release()
    assert program.line() == "True"
    assert program.end() == 0


@pytest.mark.parametrize("how", ["read", "upgradable_read"])
def test_new_readers_stay_out_while_a_handler_runs(folder, start, how):
    lock = RwLock("lock", folder, value=7)
    with lock.read():
        program = start(
            AT_ONCE
            + f"""
lock = RwLock("lock", folder)
seen = []
with lock.{how}() as hold:
    for seconds in PATIENCE:
        del seen[:]
        every(0.02, lambda: seen.append((in_thread(lambda: reads(lock)), hold.value)))
        try:
            hold.upgrade(timeout=seconds)
        except Timeout:
            no_more()
        if len(seen) > 3:
            break
    say(len(seen) > 3, set(seen[3:]))
    say(hold.value, in_thread(lambda: reads(lock)))
    try:
        every(0.2, stop)
        hold.upgrade()
    except ZeroDivisionError:
        say(hold.value, in_thread(lambda: reads(lock)))
    say("upgrades")
    hold.upgrade()
    hold.value = 8
    say(hold.value)
with lock.write(timeout=60):
    say("all is given back")
"""
        )
        assert program.line() == "True {('waits', 7)}"
        assert program.line() == "7 enters", "it reads on, and others may"
        assert program.line() == "7 enters", "and also when a handler has raised"
        assert program.line() == "upgrades"
    assert program.line() == "8"
    assert program.line() == "all is given back"
    assert program.end() == 0


def test_a_handler_may_use_what_it_interrupts(folder, start):
    """It becomes an ordinary reader, or waits for the same: the interrupted wait goes on."""
    lock = RwLock("lock", folder)
    with lock.read():
        program = start(
            AT_ONCE
            + """
lock = RwLock("lock", folder)
asked = []
def handler():
    asked.append(1)
    if len(asked) == 3:
        hold.downgrade()
    elif len(asked) < 6:
        try:
            hold.upgrade(timeout=0.01)
        except Timeout:
            pass
    elif len(asked) == 7:
        say("asked seven times")
with lock.upgradable_read() as hold:
    every(0.05, handler)
    hold.upgrade()
    hold.value = 9
    no_more()
say("upgraded")
"""
        )
        assert program.line() == "asked seven times"
    assert program.line() == "upgraded"
    with lock.read() as held:
        assert held.value == 9
    assert program.end() == 0
