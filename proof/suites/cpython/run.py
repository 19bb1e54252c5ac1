"""Runs CPython's own tests of locks and queues, unmodified, with Outlive's classes in the place of
CPython's.

    python run.py [--only TEXT] [--without FILE] [--verbose]

FILE has a test's name on each line: these do not run. What tests write beside their results is
shown with ``--verbose`` alone. Each test runs in a process of its own, a
fork of this one, with a domain of its own, and is killed when it takes longer than a minute. Says
for each, on a line: ``passed NAME``, ``failed NAME: why``, or ``skipped NAME: why``, where the
test itself says why it does not run here.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import sys
import time
import unittest

LONGEST = 60.0


def classes() -> dict[str, type[unittest.TestCase]]:
    """CPython's test classes, bound to Outlive's objects."""
    import multiprocessing

    import objects
    from test import _test_multiprocessing as between_processes
    from test import lock_tests as between_threads
    from test import test_queue

    multiprocessing.set_start_method("fork", force=True)
    found: dict[str, type[unittest.TestCase]] = {}

    def threads(name: str, **types: object) -> None:
        base = getattr(between_threads, name)
        attributes = {key: staticmethod(made) for key, made in types.items()}
        found[f"threads.{name}"] = type(name, (base,), attributes)

    threads("LockTests", locktype=objects.Lock)
    threads("RLockTests", locktype=objects.RLock)
    threads("EventTests", eventtype=objects.Event)
    threads("ConditionTests", condtype=objects.Condition)
    threads("SemaphoreTests", semtype=objects.Semaphore)
    threads("BoundedSemaphoreTests", semtype=objects.BoundedSemaphore)
    threads("BarrierTests", barriertype=objects.Barrier)

    class Processes:
        TYPE = "processes"
        Process = multiprocessing.Process
        connection = multiprocessing.connection
        current_process = staticmethod(multiprocessing.current_process)
        parent_process = staticmethod(multiprocessing.parent_process)
        active_children = staticmethod(multiprocessing.active_children)
        Pipe = staticmethod(multiprocessing.Pipe)
        Value = staticmethod(multiprocessing.Value)
        Array = staticmethod(multiprocessing.Array)

    for kind in ["Lock", "RLock", "Condition", "Event", "Semaphore", "BoundedSemaphore", "Barrier", "Queue"]:
        setattr(Processes, kind, staticmethod(getattr(objects, kind)))
    Processes.JoinableQueue = staticmethod(objects.Queue)
    for kind in ["Lock", "Semaphore", "Condition", "Event", "Barrier", "Queue"]:
        base = getattr(between_processes, f"_Test{kind}")
        found[f"processes.{kind}"] = type(kind, (base, Processes, unittest.TestCase), {})

    found["queue.QueueTest"] = type(
        "QueueTest", (test_queue.QueueTest, unittest.TestCase), {"queue": objects.QueueModule}
    )
    return found


def outcome(test: unittest.TestCase) -> str:
    """Runs a test, and says what came of it in one line."""
    result = unittest.TestResult()
    test.run(result)
    for _, why in result.skipped:
        return f"skipped {why}"
    for _, trace in result.errors + result.failures:
        # The line that names the exception, which a difference of two lists may follow.
        said = [line for line in trace.splitlines() if re.match(r"[\w.]+(Error|Exception|Group|Timeout|Deadlock)\b|[\w.]+: ", line)]
        return f"failed {said[-1] if said else trace.strip().splitlines()[-1]}"
    return "passed"


def in_a_process_of_its_own(test: unittest.TestCase, verbose: bool) -> str:
    domain = f"/dev/shm/outlive-suite-{os.getpid()}"
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os.environ["OUTLIVE_DOMAIN"] = domain
        os.close(read)
        if not verbose:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            said = outcome(test)
        except BaseException as error:  # noqa: BLE001
            said = f"failed {type(error).__name__}: {error}"
        os.write(write, said.encode()[:4096])
        # Threads that hang would hold up an ordinary end.
        os._exit(0)
    os.close(write)
    by = time.monotonic() + LONGEST
    while os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() > by:
            break
        time.sleep(0.002)
    os.set_blocking(read, False)
    try:
        said = os.read(read, 4096).decode(errors="replace")
    except BlockingIOError:
        said = ""
    os.close(read)
    # The child's group, with the processes that a failed test left: the child is not yet waited
    # for, so its number is still its own.
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        pass
    _, status = os.waitpid(child, 0)
    shutil.rmtree(domain, ignore_errors=True)
    if said:
        return said
    if time.monotonic() > by:
        return f"failed it takes longer than {LONGEST:.0f} s"
    return f"failed the process ended with status {status}"


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--only", default="")
    arguments.add_argument("--without")
    arguments.add_argument("--verbose", action="store_true")
    asked = arguments.parse_args()
    without = set()
    if asked.without:
        with open(asked.without) as file:
            without = {line.strip() for line in file}
    for prefix, of in classes().items():
        for method in unittest.TestLoader().getTestCaseNames(of):
            name = f"{prefix}.{method}"
            if name in without or asked.only not in name:
                continue
            result, _, why = in_a_process_of_its_own(of(method), asked.verbose).partition(" ")
            print(f"{result} {name}" + (f": {why}" if why else ""), flush=True)


if __name__ == "__main__":
    try:
        import test.lock_tests
        import test.test_queue
        import test._test_multiprocessing
    except ImportError as error:
        print(f"not here: this Python ships no tests of its own ({error})")
        sys.exit(0)
    main()
