"""Barriers: what threading's do, between threads and processes."""

from __future__ import annotations

import pickle
import threading
import time

import pytest

from outlive import Barrier, BarrierBroken, Timeout


def test_a_death_breaks_a_barrier(folder, start):
    code = """
        step = Barrier("step", 2, folder)
        say(step.wait(timeout=60))
        time.sleep(60)
    """
    step = Barrier("step", 2, folder)
    program = start(code)
    assert {str(step.wait(timeout=60)), program.line()} == {"0", "1"}
    with pytest.raises(Timeout):
        step.wait(timeout=0.05, abort=False)
    assert len(step.participants()) == 2
    program.kill()
    with pytest.raises(BarrierBroken) as raised:
        step.wait(timeout=60)
    assert isinstance(raised.value, threading.BrokenBarrierError) and step.broken
    step.repair(timeout=60)
    assert not step.broken
    program = start(code)
    step.wait(timeout=60)
    step.leave()


def test_a_timeout_breaks_a_barrier(folder, start):
    step = Barrier("step", 2, folder, timeout=0.05)
    for wait in [lambda: step.wait(), lambda: step.wait(timeout=0), lambda: step.wait(0.01)]:
        with pytest.raises(BarrierBroken):
            wait()
        assert step.broken and step.n_waiting == 0
        step.reset()
        assert not step.broken
    with pytest.raises(Timeout):
        step.wait(abort=False)
    assert (step.n_waiting, step.parties, step.broken) == (1, 2, False)
    program = start("step = Barrier('step', 2, folder); say(step.wait(timeout=60)); time.sleep(60)")
    assert (program.line(), step.wait(timeout=0)) == ("1", 0), "the arrival counted"
    for timeout, error in [(-1, ValueError), (1e100, OverflowError)]:
        with pytest.raises(error):
            Barrier("step", 2, folder, timeout=timeout)


def test_a_barriers_index_is_that_of_the_seat(folder):
    step = Barrier("step", 2, folder)
    found = []

    def twice():
        found.extend([step.wait(timeout=60), step.wait(timeout=60)])

    thread = threading.Thread(target=twice)
    thread.start()
    while step.n_waiting < 1:
        time.sleep(0.001)
    assert [step.wait(timeout=60), step.wait(timeout=60)] == [1, 1]
    thread.join()
    assert found == [0, 0]


def test_a_thread_that_ends_with_its_seat_is_missed(folder):
    step = Barrier("step", 2, folder)
    thread = threading.Thread(target=lambda: step.wait(timeout=60))
    thread.start()
    step.wait(timeout=60)
    thread.join()
    with pytest.raises(BarrierBroken):
        step.wait(timeout=60)
    step.reset()
    # One that leaves is not.
    thread = threading.Thread(target=lambda: (step.wait(timeout=60), step.leave()))
    thread.start()
    step.wait(timeout=60)
    thread.join()
    step.wait(timeout=60)


def test_a_barrier_is_aborted_and_reset_by_another_process(folder, start):
    step = Barrier("step", 2, folder)
    for order, is_broken in [("abort", True), ("reset", False)]:
        program = start(f"""
            step = Barrier("step", 2, folder)
            while step.n_waiting < 1: time.sleep(0.001)
            step.{order}()
            say(step.broken)
        """)
        with pytest.raises(BarrierBroken):
            step.wait(timeout=60)
        assert program.line() == str(is_broken) and step.broken is is_broken
        program.kill()
        step.reset()
    step.close()
    for use in [step.abort, step.reset]:
        with pytest.raises(ValueError):
            use()


def test_a_barriers_action(folder):
    acted = []
    step = Barrier("step", 2, folder, action=lambda: acted.append(step.n_waiting))
    thread = threading.Thread(target=lambda: [step.wait(timeout=60) for _ in range(3)])
    thread.start()
    for turn in range(1, 4):
        step.wait(timeout=60)
        assert len(acted) == turn
    thread.join()

    def fails():
        raise KeyError("in the action")

    alone = Barrier("alone", 1, folder, action=fails, timeout=60)
    with pytest.raises(KeyError):
        alone.wait()
    assert alone.broken
    copy = pickle.loads(pickle.dumps(Barrier("copied", 1, folder, action=print, timeout=60)))
    assert copy.wait() == 0


def test_a_wait_that_times_out_during_the_action_goes_on_there(folder):
    acts, may_end, acted, ends = threading.Event(), threading.Event(), [], []

    def action():
        acts.set()
        may_end.wait(60)
        acted.append(len(ends))

    step = Barrier("step", 2, folder, action=action)

    def waits():
        while not acts.is_set():
            try:
                step.wait(timeout=0.01, abort=False)
            except Timeout:
                pass
        with pytest.raises(Timeout):
            step.wait(timeout=0.01, abort=False)
        may_end.set()
        for _ in range(3):
            step.wait(timeout=60)
            ends.append("other")

    other = threading.Thread(target=waits)
    other.start()
    while step.n_waiting < 1:
        time.sleep(0.001)
    # The last to arrive is the one that acts.
    for turn in range(1, 4):
        step.wait(timeout=60)
        assert len(acted) == turn
    other.join()
    assert len(ends) == 3 and step.n_waiting == 0


def test_a_leader_killed_in_the_action_breaks_the_barrier(folder, start):
    step = Barrier("step", 2, folder, action=lambda: None)
    ends = []

    def waits():
        try:
            ends.append(step.wait(timeout=60))
        except BarrierBroken:
            ends.append("broken")

    thread = threading.Thread(target=waits)
    thread.start()
    while step.n_waiting < 1:
        time.sleep(0.001)
    # The last to arrive is the one that acts.
    program = start("""
        step = Barrier("step", 2, folder, action=lambda: (say("acts"), time.sleep(60)))
        step.wait()
    """)
    assert program.line() == "acts"
    program.kill()
    thread.join()
    assert ends == ["broken"]


def test_a_barrier_counts_the_dead_out(folder, start):
    step = Barrier("step", 2, folder, count_out=True)
    program = start("step = Barrier('step', 2, folder); step.wait(); say('passed'); time.sleep(60)")
    step.wait(timeout=60)
    program.line()
    program.kill()
    step.wait(timeout=60)
    step.leave()
