"""`queue.`"""

from __future__ import annotations

import time

import outlive
from line import Refused, Verbs, Wrong, counts, end_of, family, folder, keep, left, message, named, pattern, patience
from line import seconds, show, thing


def open_queue(name: str, *options: str) -> None:
    if "existing" in options:
        return keep(name, outlive.Queue.open(name, domain=folder))
    queue = outlive.Queue(
        name,
        folder,
        need_receiver=True if "refuse" in options else None,
        on_receiver_death="keep" if "keep" in options else None,
        end_when_senders_gone="ending" in options,
        **named(options, max="max_bytes", messages="maxsize"),
    )
    return keep(name, queue)


def send(name: str, word: str, patience: str) -> None:
    if patience == "try":
        thing(name).try_send(message(word))
    else:
        thing(name).send(message(word), timeout=seconds(patience))


def batch(name: str, *words: str) -> None:
    *messages, span = words
    thing(name).send_many([message(word) for word in messages], timeout=seconds(span))


def recv(name: str, patience: str) -> str:
    if patience == "try":
        received = thing(name).try_recv()
        if received is None:
            raise Refused(None)
    else:
        received = thing(name).recv(timeout=seconds(patience))
    return show(received)


def peek(name: str, word: str) -> str:
    peeked = thing(name).peek(timeout=patience(word))
    return f"{show(peeked.data)} {'again' if peeked.redelivered else 'fresh'}"


def next_pattern(name: str, size: str) -> bytes:
    counts[name] = counts.get(name, 0) + 1
    return pattern(int(size), counts[name])


def fill(name: str, size: str) -> int:
    while True:
        try:
            thing(name).try_send(next_pattern(name, size))
        except outlive.Full:
            counts[name] -= 1
            return counts[name]


def flood(name: str, size: str, span: str) -> None:
    end = end_of(span)
    while time.monotonic() < end:
        thing(name).send(next_pattern(name, size), timeout=seconds(span))


def drain_one(name: str, end: float) -> None:
    data = thing(name).recv(timeout=left(end))
    count = counts[f"{name} in"] = counts.get(f"{name} in", 0) + 1
    if data != pattern(len(data), count):
        raise Wrong(f"message {count} is {show(data)}")


def drain(name: str, count: str, span: str) -> None:
    end = end_of(span)
    for _ in range(int(count)):
        drain_one(name, end)


def drain_all(name: str, span: str) -> int:
    end = end_of(span)
    while True:
        try:
            drain_one(name, end)
        except outlive.SendersGone:
            return counts.get(f"{name} in", 0)


def close(name: str) -> None:
    # An object that was closed stays closed; the queue is there.
    thing(name).close()
    keep(name, outlive.Queue(name, folder))


VERBS: Verbs = family(
    "queue",
    open=open_queue,
    join=lambda name, span: thing(name).join(timeout=seconds(span)),
    send=send,
    batch=batch,
    recv=recv,
    peek=peek,
    commit=lambda name: thing(name).peek(timeout=0).commit(),
    count=lambda name, what: thing(name).counters()[what],
    fill=fill,
    flood=flood,
    drain=drain,
    drain_all=drain_all,
    close=close,
    prefault=lambda name, messages, size: thing(name).prefault(int(messages), int(size)),
)
