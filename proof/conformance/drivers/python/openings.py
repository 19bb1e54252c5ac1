"""`open.`, each kind by each of the three openings; `misuse.`, what a call refuses."""

from __future__ import annotations

from functools import partial
from typing import Any

import outlive
from line import Verbs, done, family, folder

#: Its class, and the option that is compared with what is there.
OPENED: dict[str, tuple[Any, str | None]] = {
    "mutex": (outlive.Lock, None),
    "rwlock": (outlive.RwLock, None),
    "reentrant_mutex": (outlive.RLock, None),
    "condvar": (outlive.Condition, None),
    "event": (outlive.Event, "automatic"),
    "latch": (outlive.Latch, "arrivals"),
    "semaphore": (outlive.Semaphore, "value"),
    "barrier": (outlive.Barrier, "parties"),
    "queue": (outlive.Queue, "max_bytes"),
    "topic": (outlive.Topic, "max_bytes"),
    "state": (outlive.State, "capacity"),
    "service": (outlive.Client, "max_bytes"),
    "pool": (outlive.Pool, "max_bytes"),
}
#: What a maker must say.
NEEDED = {"latch": 1, "barrier": 1}


def open_as(kind: str, how: str, name: str, *number: str) -> None:
    of, option = OPENED[kind]
    where = {"lock": outlive.Lock("its-lock", folder)} if of is outlive.Condition else {"domain": folder}
    if how == "open":
        of.open(name, **where)
        return
    given: Any = int(number[0]) if number else NEEDED.get(kind)
    options = {} if option is None or given is None else {option: given == 2 if kind == "event" else given}
    (of.create_new if how == "create_new" else of)(name, **options, **where)


VERBS: Verbs = {
    **family("open", **{kind: partial(open_as, kind) for kind in OPENED}),
    **family(
        "misuse",
        name=lambda: done(outlive.Queue(7, folder)),  # type: ignore[arg-type]
        message=lambda: outlive.Queue("misused", folder).send(7),  # type: ignore[arg-type]
        handle=lambda: done(outlive.Condition("misused", None)),  # type: ignore[arg-type]
        number=lambda: outlive.Event("misused-event", folder).set(-1),
        timeout=lambda: outlive.Queue("misused", folder).recv(timeout=-1),
        unlock=lambda: outlive.Lock("misused-lock", folder).release(),
    ),
}
