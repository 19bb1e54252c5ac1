"""Nodes, attributes, and following what comes and goes in a domain."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest

import outlive
from outlive import AlreadyExists, BadOption, Domain, Lock, Queue, State, Topic, WaitSet


def test_a_process_names_itself(folder: str) -> None:
    domain = Domain(folder)
    with domain.node("planner", version="1.4", attributes={"host": "größe"}) as node:
        (seen,) = domain.nodes()
        assert (seen.name, seen.version, seen.attributes) == ("planner", "1.4", {"host": "größe"})
        assert (seen.pid, seen.token) == (os.getpid(), domain.process_token())
        assert node.info() == seen == domain.node_of(domain.token())
        with pytest.raises(AlreadyExists):
            domain.node("again")
    assert domain.nodes() == [] and domain.node_of(0) is None
    with pytest.raises(BadOption):
        domain.node("x" * 5000)


def test_a_killed_process_has_no_name_and_watchers_are_told(folder: str) -> None:
    domain = Domain(folder)
    watch = domain.watch()
    assert watch.changed() == ([], [])
    waiting = WaitSet(domain)
    waiting.add(watch)
    assert waiting.wait(timeout=0) == []
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        node = Domain(folder).node("victim")
        os.write(writing, b"!")
        signal.pause()
        os._exit(int(node is None))
    os.read(reading, 1)
    assert waiting.wait(timeout=60) == [watch]
    change = watch.changed(timeout=60)
    assert change is not None and [node.name for node in change[1]] == ["victim"]
    os.kill(child, signal.SIGKILL)
    assert waiting.wait(timeout=60) == [watch]
    assert watch.changed(timeout=60) == ([], [])
    os.waitpid(child, 0)
    Lock("total", domain)
    assert watch.changed(timeout=60) == (["total"], [])
    assert watch.changed(timeout=0.01) is None


def test_changes_come_in_asyncio(folder: str) -> None:
    domain = Domain(folder)

    async def follow() -> list[list[str]]:
        seen = []
        async for names, _ in domain.watch():
            seen.append(names)
            if len(names) == 2:
                return seen
            # While nothing waits, and while the loop does.
            asyncio.get_running_loop().call_later(0.01, Lock, "ab"[len(names)], domain)
        return seen

    assert asyncio.run(asyncio.wait_for(follow(), 60)) == [[], ["a"], ["a", "b"]]
    watch = domain.watch()
    assert watch.changed() == (["a", "b"], [])

    async def first() -> Any:
        return await watch.changed_async()

    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(asyncio.wait_for(first(), 0.02))


@pytest.mark.parametrize("made", [Lock, Queue, lambda name, domain: State(name, 8, domain), Topic])
def test_things_carry_attributes(folder: str, made: Any) -> None:
    domain = Domain(folder)
    made("thing", domain.with_attributes({"unit": "m/s", "from": "arm"}))
    assert domain.attributes("thing") == {"from": "arm", "unit": "m/s"}
    made("thing", domain)
    made("thing", domain.with_attributes({"unit": "m/s"}))
    for other in ({"unit": "km/h"}, {"new": "x"}):
        with pytest.raises(BadOption, match="attribute"):
            made("thing", domain.with_attributes(other))
    with pytest.raises(BadOption):
        made("large", domain.with_attributes({"k": "x" * 5000}))
    assert "large" not in domain.names()
    with pytest.raises(outlive.NotFound):
        domain.attributes("none")
