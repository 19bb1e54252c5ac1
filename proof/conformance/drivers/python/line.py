"""The words of a line, what is open by name, and how answers are said."""

from __future__ import annotations

import sys
import time
from typing import Any, Callable

import outlive

#: What a verb does, of its words: nothing, or what is said.
Verbs = dict[str, Callable[..., Any]]


class Refused(Exception):
    """What a call returned instead of what was asked for."""

    def __init__(self, returned: object) -> None:
        super().__init__("")
        self.name = repr(returned)


class Wrong(Exception):
    """A message that is not what was sent."""


class Whole(str):
    """An answer that is said as it is, without an ``ok`` before it."""


PERIOD = bytes(range(251))
#: The domain's.
folder = sys.argv[1]
things: dict[str, Any] = {}
# Of floods: how many messages went out and came in.
counts: dict[str, int] = {}
# What is there once: a sample, a request, a loan.
last: dict[str, Any] = {}


def pattern(size: int, seed: int) -> bytes:
    seed %= 251
    return ((PERIOD[seed:] + PERIOD[:seed]) * (size // 251 + 1))[:size]


def message(word: str) -> bytes:
    if "*" in word:
        size, seed = word.split("*")
        return pattern(int(size), int(seed))
    return word.encode()


def show(data: Any) -> str:
    data = bytes(data)
    if 1 <= len(data) <= 16 and all(0x21 <= byte <= 0x7E for byte in data):
        return data.decode()
    seed = data[0] if data else 0
    return f"{len(data)}*{seed if data == pattern(len(data), seed) else 'broken'}"


def seconds(word: str) -> float:
    return int(word) / 1000


def patience(word: str) -> float:
    """A ``timeout=``, also of a call that has no other form for not waiting."""
    return 0 if word == "try" else seconds(word)


def blocking(word: str) -> dict[str, Any]:
    """The same for a call that has ``blocking=``."""
    return {"blocking": False} if word == "try" else {"timeout": seconds(word)}


def end_of(span: str) -> float:
    return time.monotonic() + seconds(span)


def left(end: float) -> float:
    return max(0, end - time.monotonic())


def truly(returned: Any) -> Any:
    """What it returned, unless that says no."""
    if returned is None or returned is False or returned == 0 or returned == []:
        raise Refused(returned)
    return returned


def done(_: Any) -> None:
    """Of a call whose result is not said."""


def got(lock: Any) -> Whole:
    """Of a lock that was taken."""
    return Whole(f"{'owner-died' if lock.owner_died else 'ok'} {lock.value}")


def thing(name: str) -> Any:
    return things[name]


def named(options: tuple[str, ...], **kinds: str) -> dict[str, int]:
    """Options ``key=7`` as keyword arguments, under the names that they have in Python."""
    given = dict(option.split("=") for option in options if "=" in option)
    return {kinds[key]: int(value) for key, value in given.items() if key in kinds}


def keep(name: str, made: Any) -> None:
    """What is open under that name, from now on."""
    things[name] = made


def peer(word: str) -> Any:
    return outlive.Domain(folder).peer(int(word))


def family(name: str, /, **verbs: Callable[..., Any]) -> Verbs:
    """The verbs ``name.VERB``."""
    return {f"{name}.{verb}": act for verb, act in verbs.items()}
