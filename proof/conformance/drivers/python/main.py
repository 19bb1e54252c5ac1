"""Python's driver: does what each line of its input says, by the package alone, and answers with a line.

doc/conformance.md has the commands; the drivers of the other languages do the same, each with its own means.
"""

from __future__ import annotations

import os
import sys
import time

import jobs
import locks
import nodes
import notifiers
import openings
import outlive
import pools
import queues
import rw_locks
import services
import states
import sync
import topics
import waits
from line import Refused, Verbs, Whole, done, folder, got, peer, seconds, thing, truly

VERBS: Verbs = {
    "domain.find": lambda path: done(outlive.Domain.open(path)),
    "domain.create": lambda name: done(outlive.Domain.create_new(f"{folder}/{name}")),
    "token": lambda: outlive.Domain(folder).token(),
    "process_token": lambda: outlive.Domain(folder).process_token(),
    "peer.alive": lambda word: "yes" if peer(word).alive else "no",
    "peer.wait_dead": lambda word, span: done(truly(peer(word).wait_dead(timeout=seconds(span)))),
    "exit": lambda: os._exit(0),
    "crash": os.abort,
    "hang": lambda: time.sleep(60),
}
for module in (jobs, locks, nodes, notifiers, openings, pools, queues, rw_locks, services, states, sync, topics, waits):
    VERBS |= module.VERBS

# Kinds of things that it has none of.
LACKING_KINDS = {"pi", "ceiling", "once", "record"}
# Single commands: its queues have no type.
LACKING = {"queue.typed", *(f"open.{kind}" for kind in ("pi_mutex", "ceiling_mutex", "once", "record"))}


def kind(error: BaseException) -> str:
    """Its class, and Python's own kind that it is."""
    name = type(error).__name__ + ("-begun" if getattr(error, "begun", False) else "")
    for base in type(error).__mro__[1:]:
        if base.__module__.startswith("outlive") or base in (Exception, BaseException, object):
            continue
        if type(error).__module__ == "builtins":
            break
        module = "" if base.__module__ in ("builtins", "_queue") else f"{base.__module__}."
        module = "queue." if base.__module__ in ("queue", "_queue") else module
        return f"{name}:{module}{base.__name__}"
    return name


def act(line: str) -> str:
    command, *words = line.split(" ")
    if command.partition(".")[0] in LACKING_KINDS or command in LACKING:
        return f"error Unsupported {command}"
    verb = VERBS.get(command)
    if verb is None:
        return f"error Usage no command {command}"
    try:
        answer = verb(*words)
    except Refused as refused:
        return f"error {refused.name} "
    except Exception as error:
        # str() puts the number before an OSError's message.
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return f"error {kind(error)} {said}"
    if answer is None:
        return "ok"
    return answer if isinstance(answer, Whole) else f"ok {answer}"


def tell(answer: str) -> None:
    print(answer, flush=True)


def within(name: str) -> None:
    """A block, which the next lines are in."""
    with thing(name) as held:
        tell(got(held))
        serve(f"lock.leave {name}")


# It answers when it begins, and when it ends.
VERBS["lock.within"] = within


def serve(end: str | None) -> None:
    while line := sys.stdin.readline():
        line = line.rstrip("\n")
        if line == end:
            return
        tell(act(line))


if __name__ == "__main__":
    domain = outlive.Domain(folder)
    tell("ready")
    serve(None)
