"""`jobs.`"""

from __future__ import annotations

import outlive
from line import Verbs, family, folder, keep, last, message, named, seconds, show, thing, truly


def put(name: str, word: str, patience: str) -> int:
    data = message(word)
    return thing(name).try_put(data) if patience == "try" else thing(name).put(data, timeout=seconds(patience))


def take(name: str, patience: str) -> str:
    jobs = thing(name)
    job = truly(jobs.try_take() if patience == "try" else jobs.take(timeout=seconds(patience)))
    last[f"job of {name}"] = job
    return f"{show(job.data)} {job.attempts}"


VERBS: Verbs = family(
    "jobs",
    open=lambda name, *options: keep(
        name, outlive.JobQueue(name, folder, **named(options, max="max_jobs", attempts="max_attempts"))
    ),
    put=put,
    take=take,
    done=lambda name: last.pop(f"job of {name}").done(),
    release=lambda name: last.pop(f"job of {name}").release(),
    aside=lambda name: last.pop(f"job of {name}").set_aside(),
    prefault=lambda name, jobs: thing(name).prefault(int(jobs)),
    join=lambda name, span: thing(name).join(timeout=seconds(span)),
    retry=lambda name, id: thing(name).retry(int(id)),
    count=lambda name, what: thing(name).counts()[what],
)
