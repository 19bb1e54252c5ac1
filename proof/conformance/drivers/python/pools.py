"""`pool.`"""

from __future__ import annotations

import outlive
from line import Verbs, done, family, folder, keep, message, named, peer, show, thing, things


def alloc(name: str, into: str, word: str) -> None:
    data = message(word)
    block = thing(name).alloc(len(data))
    with memoryview(block) as bytes_of_it:
        bytes_of_it[:] = data
    things[into] = block


def shown(name: str) -> str:
    with memoryview(thing(name)) as data:
        return show(data)


def claim(name: str, into: str, offset: str) -> str:
    things[into] = thing(name).claim(int(offset))
    return shown(into)


def join(name: str, into: str, offset: str) -> str:
    things[into] = thing(name).join(int(offset))
    return shown(into)


def share(name: str) -> int:
    things[name] = shared = thing(name).share()
    return shared.offset


def free(name: str) -> None:
    held = things.pop(name)
    if isinstance(held, outlive.Block):
        held.free()


VERBS: Verbs = family(
    "pool",
    open=lambda name, *options: keep(name, outlive.Pool(name, folder, **named(options, max="max_bytes"))),
    alloc=alloc,
    show=shown,
    offer=lambda name: things.pop(name).offer(),
    offer_to=lambda name, token: things.pop(name).offer(peer(token)),
    claim=claim,
    share=share,
    join=join,
    free=free,
    prefault=lambda name, objects, size: thing(name).prefault(int(objects), int(size)),
    gc=lambda name: done(thing(name).gc()),
    count=lambda name, what: thing(name).usage()[what],
)
