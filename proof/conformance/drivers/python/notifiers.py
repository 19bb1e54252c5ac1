"""`notifier.` and `listener.`"""

from __future__ import annotations

import outlive
from line import Refused, Verbs, family, folder, keep, named, patience, thing


def given(options: tuple[str, ...]) -> dict[str, int]:
    return named(options, created="on_created", left="on_left", died="on_died")


def wait(name: str, span: str) -> str:
    told = thing(f"listener {name}").wait(timeout=patience(span))
    if not told:
        raise Refused(None)
    return " ".join(f"{number}:{count}" for number, count in told.items())


VERBS: Verbs = {
    **family(
        "notifier",
        open=lambda name, *options: keep(f"notifier {name}", outlive.Notifier(name, folder, **given(options))),
        notify=lambda name, number: str(thing(f"notifier {name}").notify(int(number))),
        close=lambda name: thing(f"notifier {name}").close(),
    ),
    **family(
        "listener",
        open=lambda name, *options: keep(f"listener {name}", outlive.Listener(name, folder, **given(options))),
        wait=wait,
        close=lambda name: thing(f"listener {name}").close(),
    ),
}
