"""A log collector: any number of programs send lines, and one writes them to a file, in one order.

    python examples/log_collector.py FILE [DOMAIN]      collects, until all senders have ended
    python examples/log_collector.py --demo [DOMAIN]    three programs that log, and a collector that is killed on the way

``logging`` needs only a handler that sends. A sender that is killed leaves whole lines. When the
collector is killed, the next one goes on where it stopped; at most the one line is lost that the
killed collector had received and not written.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import sys
import tempfile
import time

import outlive


class QueueHandler(logging.Handler):
    """Sends each record as a line of bytes."""

    def __init__(self, queue: outlive.Queue) -> None:
        super().__init__()
        self.queue = queue

    def emit(self, record: logging.LogRecord) -> None:
        # While the collector is dead, the queue keeps what is sent.
        self.queue.send(self.format(record).encode())


def collect(domain: outlive.Domain, path: str, name: str = "log", pause: float = 0.0) -> None:
    """Writes lines until all senders are gone."""
    queue = outlive.Queue(name, domain, on_receiver_death="keep", end_when_senders_gone=True)
    with open(path, "ab", buffering=0) as file, queue:
        for line in queue:
            file.write(line + b"\n")
            time.sleep(pause)


def chatter(queue: outlive.Queue, name: str) -> None:
    logger = logging.getLogger(name)
    logger.setLevel(logging.INFO)
    handler = QueueHandler(queue)
    handler.setFormatter(logging.Formatter("%(name)s %(message)s"))
    logger.addHandler(handler)
    for number in range(200):
        logger.info("line %d", number)


def demo(domain: outlive.Domain, name: str) -> None:
    queue = outlive.Queue(name, domain, on_receiver_death="keep")
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "log")
        first = context.Process(target=collect, args=(domain, path, name, 0.001))
        first.start()
        chatterers = [context.Process(target=chatter, args=(queue, f"program-{number}")) for number in range(3)]
        for process in chatterers:
            process.start()
        while not os.path.exists(path) or os.path.getsize(path) < 1000:
            time.sleep(0.001)
        first.kill()
        first.join()
        second = context.Process(target=collect, args=(domain, path, name))
        second.start()
        for process in chatterers:
            process.join()
        second.join()
        # Perhaps no sender was alive between two programs, and the second collector took that for
        # the end.
        collect(domain, path, name)
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    # Killed between receiving a line and writing it, the first collector took one with it.
    print(f"{len(lines)} of 600 lines, whole and in order, though the collector was killed")
    assert len(set(lines)) == len(lines) >= 599
    for name in ("program-0", "program-1", "program-2"):
        numbers = [int(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name)]
        assert numbers == sorted(numbers)


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    # DOMAIN, else what OUTLIVE_DOMAIN names, else the user's default one.
    domain = outlive.Domain(sys.argv[2] if len(sys.argv) > 2 else None)
    if sys.argv[1] != "--demo":
        # The queue "log" stays, with what is sent while no collector runs.
        return collect(domain, sys.argv[1])
    name = f"example-{os.getpid()}-log"
    try:
        demo(domain, name)
    finally:
        # Names stay until a process removes them.
        domain.remove(name)


if __name__ == "__main__":
    main()
