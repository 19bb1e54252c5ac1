"""`node.`, `watch.` and `config.`"""

from __future__ import annotations

import os
import tempfile
from typing import Any

import outlive
from line import Verbs, family, folder, last, seconds, truly


def said(words: list[str]) -> str:
    """All of them, sorted."""
    return " ".join(sorted(words)) or "nothing"


def node_open(name: str, version: str, key: str, value: str) -> None:
    last["node"] = outlive.Domain(folder).node(name, version=version, attributes={key: value})


def node_attribute(token: str, key: str) -> str:
    node = outlive.Domain(folder).node_of(int(token))
    assert node is not None
    return node.attributes.get(key, "none")


def pairs(attributes: dict[str, str]) -> str:
    return said([f"{key}={value}" for key, value in attributes.items()])


def node_all(token: str) -> str:
    node = outlive.Domain(folder).node_of(int(token))
    assert node is not None
    return pairs(node.attributes)


def node_make(name: str, key: str, value: str) -> None:
    outlive.Event(name, outlive.Domain(folder).with_attributes({key: value}))


def watch_open() -> None:
    last["watch"], last["told"] = outlive.Domain(folder).watch(), set()


def watch_changed(span: str) -> str:
    names, nodes = truly(last["watch"].changed(timeout=seconds(span)))
    kinds = outlive.Domain(folder).names()
    before = last["told"]
    now = {f"{name}:{kinds.get(name)}" for name in names} | {f"{node.name}:node" for node in nodes}
    last["told"] = now
    return said([f"+{one}" for one in now - before] + [f"-{one}" for one in before - now])


def config_load(*keys: str) -> None:
    """A file with a profile that has those keys."""
    with tempfile.NamedTemporaryFile("w", suffix=".toml", delete=False) as file:
        file.write('[[profile]]\nname = "p"\ntopics = ["c.*"]\n' + "\n".join(keys) + "\n")
    try:
        last["config"] = outlive.Config.load(file.name)
    finally:
        os.remove(file.name)


def configured(name: str) -> Any:
    return outlive.Topic(name, folder, **last["config"].topic(name))


def config_topic(name: str) -> str:
    made = configured(name).config
    return f"{made['depth']} {made['durability']} {'yes' if made['reliable'] else 'no'}"


def config_flow(name: str, count: str) -> int:
    topic, config = configured(name), last["config"]
    subscriber = topic.subscriber(**config.subscriber(name))
    publisher = topic.publisher(**config.publisher(name))
    for number in range(int(count)):
        publisher.publish(bytes([number]))
    sample = subscriber.try_recv()
    return int(bytes(truly(sample))[0])


VERBS: Verbs = {
    **family(
        "node",
        open=node_open,
        close=lambda: last.pop("node").close(),
        list=lambda: said([f"{node.name}/{node.version}" for node in outlive.Domain(folder).nodes()]),
        attribute=node_attribute,
        make=node_make,
        all=node_all,
        all_of=lambda name: pairs(outlive.Domain(folder).attributes(name)),
        prefault=lambda size: outlive.Domain(folder).prefault(int(size)),
        lock_memory=lambda size: outlive.Domain(folder).lock_memory(int(size)),
        of=lambda name, key: outlive.Domain(folder).attributes(name).get(key, "none"),
    ),
    **family("watch", open=watch_open, changed=watch_changed),
    **family(
        "config",
        load=config_load,
        profile=lambda name: last["config"].profile(name) or "none",
        topic=config_topic,
        flow=config_flow,
    ),
}
