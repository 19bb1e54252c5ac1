"""Everything around the bridge, and the bridge itself, is killed at random; both ways go on each time."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

pytest.importorskip("rospy", reason="python3-rospy is not there")

import outlive
from outlive import ros1

from conftest import Process, World, wait_for
from test_ros1_topics import LISTENER, SPEAKER, TALKER, open_topic

RULES = ("--in", "/chatter", "--out", "/back=spoken:std_msgs/String")


def test_kills_at_random(graph: World) -> None:
    seed = time.time_ns() % 1_000_000
    print(f"seed {seed}")
    numbers = random.Random(seed)
    starts: dict[str, Callable[[], Process]] = {
        "master": graph.master,
        "bridge": lambda: graph.bridge(*RULES),
        "stand-by": lambda: graph.bridge(*RULES),
        "talker": lambda: graph.node(TALKER),
        "listener": lambda: graph.node(LISTENER.replace("/chatter", "/back")),
        "speaker": lambda: graph.program(SPEAKER.replace('"chatter"', '"spoken"')),
    }
    live = {name: start() for name, start in starts.items() if name != "master"}
    live["master"] = graph.core
    topic = open_topic(graph, "chatter")
    of = ros1.Type.of_topic("chatter", graph.domain)

    def goes_on() -> None:
        """New messages pass in both directions."""
        with topic.subscriber() as subscriber:
            texts = [of.read(subscriber.recv(timeout=60)).data for _ in range(3)]
            assert [int(text) for text in texts] == list(range(int(texts[0]), int(texts[0]) + 3))
        listener = live["listener"]
        listener.until("heard", after=len(listener.lines))

    goes_on()
    for _ in range(12):
        victims = numbers.sample(sorted(starts), numbers.choice((1, 1, 1, 2)))
        for name in victims:
            live[name].kill()
        time.sleep(numbers.random() * 0.3)
        if "master" in victims:
            # rospy's nodes do not tell a new master of themselves: their own users start them again.
            for name in ("talker", "listener"):
                if name not in victims:
                    live[name].kill()
                    victims.append(name)
        for name in sorted(victims, key=["master", "bridge", "stand-by", "talker", "listener", "speaker"].index):
            live[name] = starts[name]()
        goes_on()
    # The dead have left nothing: one stand-in for the talker, one bridge that carries.
    wait_for(lambda: len(topic.publishers()) == 1)
    nodes = [node for node in outlive.Domain(graph.domain).nodes() if node.name == "outlive-ros1-bridge"]
    assert len(nodes) == 1 and nodes[0].pid in (live["bridge"].process.pid, live["stand-by"].process.pid)
    dry = outlive.Domain(graph.domain).sweep(dry_run=True)
    assert dry is not None
