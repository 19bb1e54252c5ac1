"""`rw.`"""

from __future__ import annotations

from typing import Any

import outlive
from line import Verbs, Whole, family, folder, got, keep, last, patience, seconds, thing


def hold(name: str, held: Any) -> Whole:
    last[name] = held.__enter__()
    return got(held)


def give_up(name: str) -> None:
    held = last.pop(name)
    held.mark_not_recoverable()
    held.__exit__(None, None, None)


VERBS: Verbs = family(
    "rw",
    open=lambda name, value: keep(name, outlive.RwLock(name, folder, value=int(value))),
    read=lambda name, word: hold(name, thing(name).read(patience(word))),
    write=lambda name, word: hold(name, thing(name).write(patience(word))),
    upgradable=lambda name, word: hold(name, thing(name).upgradable_read(patience(word))),
    upgrade=lambda name, span: last[name].upgrade(seconds(span)),
    downgrade=lambda name: last[name].downgrade(),
    downgrade_to_upgradable=lambda name: last[name].downgrade(upgradable=True),
    set=lambda name, value: setattr(last[name], "value", int(value)),
    consistent=lambda name: last[name].mark_consistent(),
    mark_not_recoverable=give_up,
    unlock=lambda name: last.pop(name).__exit__(None, None, None),
    reset=lambda name, value, span: thing(name).reset(int(value), timeout=seconds(span)),
)
