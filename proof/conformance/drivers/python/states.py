"""`state.` and `bytes.`"""

from __future__ import annotations

import sys
import time

import outlive
from line import Verbs, Wrong, done, end_of, family, folder, keep, left, message, pattern, seconds, show, thing, truly


def number(data: bytes) -> int:
    return int.from_bytes(data, sys.byteorder)


def eight_bytes(value: str) -> bytes:
    return int(value).to_bytes(8, sys.byteorder)


def state_get(name: str) -> str:
    state = thing(name)
    return f"{number(state.get())} {state.version}"


def close(name: str) -> None:
    # An object that was closed stays closed; the state is there.
    thing(name).close()
    keep(name, outlive.State.open(name, domain=folder))


def bytes_get(name: str) -> str:
    state = thing(name)
    return f"{show(state.get())} {state.version}"


def flood(name: str, size: str, span: str) -> None:
    end, count = end_of(span), 0
    while time.monotonic() < end:
        count += 1
        thing(name).set(pattern(int(size), count))


def watch(name: str, count: str, span: str) -> None:
    # The value and its version are two calls: what is between them may be newer.
    state, seen, end = thing(name), 1, end_of(span)
    for _ in range(int(count)):
        seen = truly(state.wait_changed(seen, timeout=left(end)))
        value = state.get()
        if not value or value != pattern(len(value), value[0]):
            raise Wrong(f"version {seen} is {show(value)}")


VERBS: Verbs = {
    **family(
        "state",
        open=lambda name, value: keep(name, outlive.State(name, 8, folder, initial=eight_bytes(value), fixed=True)),
        find=lambda name: done(outlive.State.open(name, domain=folder)),
        get=state_get,
        set=lambda name, value: thing(name).set(eight_bytes(value)),
        prefault=lambda name, readers: thing(name).prefault(int(readers)),
        wait=lambda name, version, span: truly(thing(name).wait_changed(int(version), timeout=seconds(span))),
        close=close,
    ),
    **family(
        "bytes",
        open=lambda name, most, word: keep(name, outlive.State(name, int(most), folder, initial=message(word))),
        get=bytes_get,
        set=lambda name, word: thing(name).set(message(word)),
        flood=flood,
        watch=watch,
    ),
}
