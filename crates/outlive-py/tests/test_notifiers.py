"""Notifiers and listeners: notices that each listener counts."""

import asyncio
import os
import pickle
import threading

import pytest

from outlive import BadOption, Listener, Notifier, NotYours, WaitSet


def test_each_listener_counts_for_itself(folder):
    notifier = Notifier("doors", folder)
    assert notifier.notify(3) == 0
    one, two = Listener("doors", folder), Listener.open("doors", domain=folder)
    assert [notifier.notify(3) for _ in range(1000)][-1] == 2
    notifier.notify(63)
    assert one.wait() == {3: 1000, 63: 1}
    assert one.wait(timeout=0) == {} == one.wait(timeout=0.002)
    assert two.wait(timeout=0) == {3: 1000, 63: 1}
    two.close()
    assert notifier.notify(0) == 1
    with pytest.raises(BadOption):
        notifier.notify(64)
    with pytest.raises(BadOption):
        Notifier.create_new("wrong", folder, on_left=64)


def test_a_sleeper_is_woken(folder):
    listener, notifier = Listener("doors", folder), Notifier("doors", folder)
    threading.Timer(0.02, notifier.notify, [5]).start()
    assert listener.wait(timeout=60) == {5: 1}


def test_comings_goings_and_deaths_are_told(folder, start):
    listener = Listener("doors", folder, on_created=1, on_left=2, on_died=3)
    with Notifier("doors", folder):
        assert listener.wait() == {1: 1}
    assert listener.wait() == {2: 1}
    child = start("it = Notifier('doors', folder); it.notify(9); say('there'); time.sleep(1000)")
    assert child.line() == "there"
    assert listener.wait() == {1: 1, 9: 1}
    waits = WaitSet(folder)
    waits.add(listener)
    assert waits.wait(timeout=0) == []
    child.kill()
    assert waits.wait(timeout=60) == [listener]
    assert listener.wait(timeout=0) == {3: 1}


def test_a_forked_childs_copies_are_its_parents(folder):
    listener, notifier = Listener("doors", folder, on_left=2), Notifier("doors", folder)
    child = os.fork()
    if child == 0:
        try:
            with pytest.raises(NotYours):
                notifier.notify(1)
            with pytest.raises(NotYours):
                listener.wait(timeout=0)
            notifier.close()
            listener.close()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert listener.wait(timeout=0) == {}
    assert notifier.notify(1) == 1


def test_asyncio(folder):
    listener, notifier = Listener("doors", folder), Notifier("doors", folder)

    async def main():
        told = asyncio.create_task(listener.wait_async())
        for number in (5, 5, 6):
            await asyncio.sleep(0.005)
            notifier.notify(number)
        counts = await asyncio.wait_for(told, 60)
        while sum(counts.values()) < 3:
            for number, count in (await asyncio.wait_for(listener.wait_async(), 60)).items():
                counts[number] = counts.get(number, 0) + count
        return counts

    assert asyncio.run(main()) == {5: 2, 6: 1}
    assert listener.try_wait() is None


def test_they_are_pickled_by_name(folder):
    listener = Listener("doors", folder)
    again = pickle.loads(pickle.dumps(Notifier("doors", folder)))
    assert (again.name, again.notify(4)) == ("doors", 1)
    assert listener.wait() == {4: 1}
    assert repr(again) == f"<Notifier 'doors' in '{folder}'>"
