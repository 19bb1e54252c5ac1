"""The configuration file: its profiles, as arguments."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from outlive import BadOption, Config, Domain, Lagged, NewSession, NotFound, Topic

WHOLE = """
domain = "robot"
group = 2000
[limits]
budget = "2G"
[wait]
strategy = "spin"
[[profile]]
name = "camera"
topics = ["camera.*"]
depth = 4
max_bytes = "1M"
max_publishers = 3
max_subscribers = 5
max_samples = 8
stamps = true
durability = "persistent"
reliable = true
max_blocking = "0s"
lifespan = "1h"
history = 2
keep_last = 3
sessions = true
max_age = "500ms"
liveliness = "30s"
period = "20s"
publisher_period = "40s"
mode = "0600"
keys = [0, 7]
[[profile]]
name = "slow"
topics = ["slow"]
max_blocking = "forever"
lifespan = "forever"
max_age = "forever"
[[profile]]
name = "rest"
topics = ["*"]
reliable = false
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "outlive.toml"
    path.write_text(WHOLE)
    return path


def test_a_profile_gives_arguments(folder: str, file: Path) -> None:
    config = Config.load(file)
    assert config.files == [file] and repr(config) == "<Config of 1 file: 3 profiles>"
    assert (config.domain, config.group, config.budget, config.wait_strategy) == ("robot", "2000", 2 << 30, "spin")
    name = "camera.front"
    assert (config.profile(name), config.profile("lidar")) == ("camera", "rest")
    topic = Topic(name, folder, **config.topic(name))
    assert topic.config == {
        "depth": 4, "max_bytes": 1 << 20, "stamps": True, "reliable": True, "durability": "persistent",
        "max_publishers": 3, "max_subscribers": 5, "max_samples": 8, "mode": 0o600,
    }
    assert config.publisher(name) == {"max_blocking": 0.0, "lifespan": 3600.0, "period": 40.0}
    assert config.subscriber(name) == {
        "reliable": True, "history": 2, "keep_last": 3, "keys": [0, 7], "period": 20.0, "sessions": True, "max_age": 0.5, "liveliness": 30.0,
    }
    publisher = topic.publisher(**config.publisher(name))
    subscriber = topic.subscriber(**config.subscriber(name))
    for number in range(6):
        publisher.publish(bytes([number]))
    # It is reliable, and no publisher waits for it; it is told of sessions.
    with pytest.raises((NewSession, Lagged)):
        subscriber.recv(timeout=60)
    # For ever is a time, too.
    assert config.publisher("slow") == {"max_blocking": math.inf, "lifespan": math.inf}
    assert config.subscriber("slow") == {"max_age": math.inf}
    slow = Topic("slow", folder)
    waits, takes = slow.publisher(**config.publisher("slow")), slow.subscriber(**config.subscriber("slow"))
    waits.publish(b"x")
    assert bytes(takes.recv(timeout=60)) == b"x"
    # What the caller sets wins.
    assert Topic("camera.back", folder, **{**config.topic("camera.back"), "depth": 8}).config["depth"] == 8
    assert (config.topic("lidar"), config.publisher("lidar"), config.subscriber("lidar")) == ({}, {}, {"reliable": False})


def test_the_files_of_the_environment_are_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("root = true\n" + WHOLE)
    monkeypatch.setenv("OUTLIVE_CONFIG", str(file))
    assert Config.load().files == [file]
    file.write_text("root = true\n[wait]\nstrategie = 1\n")
    with pytest.raises(BadOption, match=r"outlive.toml:3:1: 'strategie' is no key here; is 'strategy' meant"):
        Config.load()
    with pytest.raises(NotFound):
        Config.load(file.with_name("none.toml"))


def test_a_domains_wait_strategy(folder: str) -> None:
    domain = Domain(folder)
    assert domain.wait_strategy == "adaptive"
    assert Domain(folder, wait_strategy="block").wait_strategy == "block"
    # It is the process's, in that domain.
    assert domain.wait_strategy == "block" and Domain.open(folder).wait_strategy == "block"
    assert Domain.open(folder, wait_strategy="spin").wait_strategy == "spin"
    with Domain.create_new(folder + "/other", wait_strategy="spin") as other:
        assert other.wait_strategy == "spin"
    with pytest.raises(ValueError, match="'adaptive', 'spin' or 'block'"):
        Domain(folder, wait_strategy="doze")  # type: ignore[arg-type]
