"""`set.`, waiting for several."""

from __future__ import annotations

from typing import Any

import outlive
from line import Verbs, family, folder, keep, last, peer, seconds, thing, truly
from topics import publisher, slowest, subscriber


def open_set(name: str) -> None:
    keep(name, outlive.WaitSet(folder))
    last[name] = []


def add(name: str, what: str, source: Any, **options: Any) -> None:
    thing(name).add(source, **options)
    last[name].append((source, what))


def wait(name: str, patience: str) -> str:
    ready = thing(name).try_wait() if patience == "try" else thing(name).wait(timeout=seconds(patience))
    truly(ready)
    names = [what for source, what in last[name] if any(source is one for one in ready)]
    return " ".join(sorted(names))


VERBS: Verbs = family(
    "set",
    open=open_set,
    add_queue=lambda name, queue: add(name, queue, thing(queue)),
    add_topic=lambda name, topic: add(name, topic, subscriber(topic)),
    add_listener=lambda name, listener: add(name, listener, thing(f"listener {listener}")),
    add_event=lambda name, event, bits: add(name, event, thing(event), bits=int(bits)),
    add_peer=lambda name, what, token: add(name, what, peer(token)),
    add_stand_by=lambda name, service: add(name, service, outlive.Server.stand_by(service, folder)),
    add_publisher=lambda name, topic: add(name, topic, publisher(topic)),
    slowest=lambda name, topic: slowest(thing(name).slowest(publisher(topic))),
    wait=wait,
)
