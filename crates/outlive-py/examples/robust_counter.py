"""A counter that survives its processes: they are killed at random, and no count is lost or doubled.

    python examples/robust_counter.py [DOMAIN]

Each process adds 1 to the number that the lock guards, and to a tally of its own. One after the
other is killed; at the end the number is compared with all tallies.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time

import outlive


def count(lock: outlive.Lock, tally: outlive.State) -> None:
    """Counts for ever."""
    while True:
        with lock as held:
            if held.owner_died:
                # A holder was killed in here. A number of 64 bits is always whole.
                held.mark_consistent()
            held.value += 1
        # Killed just here: counted, and not yet in the tally.
        tally.set((int.from_bytes(tally.get(), "little") + 1).to_bytes(8, "little"))


def main() -> None:
    # DOMAIN, else what OUTLIVE_DOMAIN names, else the user's default one; no other program's names in it.
    domain = outlive.Domain(sys.argv[1] if len(sys.argv) > 1 else None)
    prefix = f"example-{os.getpid()}-"
    try:
        run(domain, prefix)
    finally:
        # Names stay until a process removes them.
        for name in domain.names():
            if name.startswith(prefix):
                domain.remove(name)


def run(domain: outlive.Domain, prefix: str) -> None:
    lock = outlive.Lock(prefix + "count", domain)
    tallies = [outlive.State(f"{prefix}tally-{number}", 8, domain, initial=bytes(8)) for number in range(4)]
    context = multiprocessing.get_context("spawn")
    # Locks and states can be sent to processes: they open the same ones.
    processes = [context.Process(target=count, args=(lock, tally)) for tally in tallies]
    for process in processes:
        process.start()
    for tally in tallies:
        # Each has counted; version 1 is the one that it was made with.
        tally.wait_changed(1, timeout=30)
    for process in processes:
        process.kill()
        process.join()
        time.sleep(0.1)
    with lock as held:
        if held.owner_died:
            held.mark_consistent()
        counted = held.value
    told = sum(int.from_bytes(tally.get(), "little") for tally in tallies)
    print(f"{counted} counted, {told} in the tallies of {len(processes)} processes, all of them killed")
    # Each was killed once: at most one count of each is not in its tally.
    assert 0 <= counted - told <= len(processes) and counted > 0


if __name__ == "__main__":
    main()
