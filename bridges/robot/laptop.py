"""The laptop, in a domain of its own: sees what the robot publishes, and tells it to stop now and then.

Gateways carry all of that. The laptop's subscribers are as reliable as the robot's own; a call whose server
dies is told so, and is not made again: it may have been carried out.
"""

from __future__ import annotations

import threading
import time

import outlive
from messages import TYPES, Next, name_of, note, subscriber

EVERY, DEADLINE = 1.0, 3.0


def stop_now_and_then() -> None:
    client = outlive.Client("plan.stop")
    while True:
        note("asked")
        try:
            client.call(b"", timeout=DEADLINE)
            note("answered")
        except (outlive.ServerDied, outlive.NoServer, outlive.CallTimeout) as error:
            note("told", type(error).__name__)
        time.sleep(EVERY)


def main() -> None:
    threading.Thread(target=stop_now_and_then, daemon=True).start()
    subscribers = {subscriber(name): name for name in TYPES}
    ready, next = outlive.WaitSet(), Next()
    for one in subscribers:
        ready.add(one)
    while True:
        for one in ready.wait():
            topic = subscribers[one]
            try:
                sample = one.try_recv()
            except outlive.Lagged as lagged:
                note("lagged", lagged.lost)
                continue
            if sample is not None:
                with sample:
                    name = name_of(TYPES[topic].read(sample))
                    note("saw" if next.is_new(topic, name) else "again", topic, name.source, name.number)


if __name__ == "__main__":
    main()
