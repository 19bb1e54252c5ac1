"""`sem.`, `event.`, `cond.`, `barrier.`, `latch.`"""

from __future__ import annotations

import outlive
from line import Verbs, blocking, done, family, folder, keep, patience, seconds, thing, truly
from locks import await_value


def barrier_state(name: str) -> str:
    barrier = thing(name)
    return f"{barrier.n_waiting} of {barrier.parties}" + (" broken" if barrier.broken else "")


VERBS: Verbs = {
    **family(
        "sem",
        open=lambda name, permits: keep(name, outlive.Semaphore(name, int(permits), folder)),
        acquire=lambda name, word: done(truly(thing(name).acquire(**blocking(word)))),
        release=lambda name: thing(name).release(),
        acquire_many=lambda name, n, word: done(truly(thing(name).acquire(n=int(n), **blocking(word)))),
        release_many=lambda name, n: thing(name).release(int(n)),
        available=lambda name: thing(name).available_permits,
    ),
    **family(
        "event",
        open=lambda name, reset: keep(name, outlive.Event(name, folder, automatic=reset == "automatic")),
        set=lambda name, bits: thing(name).set(int(bits)),
        clear=lambda name, bits: thing(name).clear(int(bits)),
        bits=lambda name: thing(name).bits,
        any=lambda name, bits, word: truly(thing(name).wait_bits(int(bits), timeout=patience(word))),
        all=lambda name, bits, word: truly(thing(name).wait_bits(int(bits), all=True, timeout=patience(word))),
    ),
    **family(
        "cond",
        open=lambda name, lock: keep(name, outlive.Condition(name, thing(lock))),
        **{"await": await_value},
        notify=lambda name: thing(name).notify(),
        notify_all=lambda name: thing(name).notify_all(),
    ),
    **family(
        "barrier",
        open=lambda name, parties, when: keep(
            name, outlive.Barrier(name, int(parties), folder, count_out=when == "count_out")
        ),
        wait=lambda name, span: thing(name).wait(timeout=seconds(span), abort=False),
        # The arrival counts, so this goes on with it, and its time runs out at once.
        abort_wait=lambda name: thing(name).wait(timeout=0),
        abort=lambda name: thing(name).abort(),
        reset=lambda name, span: thing(name).reset(timeout=seconds(span)),
        state=barrier_state,
        repair=lambda name, span: thing(name).repair(timeout=seconds(span)),
    ),
    **family(
        "latch",
        open=lambda name, arrivals: keep(name, outlive.Latch(name, int(arrivals), folder)),
        arrive=lambda name, arrivals: thing(name).arrive(int(arrivals)),
        wait=lambda name, word: done(truly(thing(name).wait(timeout=patience(word)))),
    ),
}
