"""Outlive in Python, beside others: frames of 6 MB to a numpy consumer in another process, and locks.

    python bench.py [--rounds N] [--quick] [--json] [frames] [lock]

`rate`: frames a second, none lost; `one way`: half of a round trip, a frame each way. The sender writes one byte of each frame, in
place where the library lends memory, and the receiver makes a numpy array of it and reads that byte: what is measured is what it
takes to hand a frame over, copies included where a library makes them. Contenders take turns in every round, each round begun by
another one; median of the rounds, with the smallest and the largest; `ratio` is the median of the rounds' ratios to iceoryx2.
A contender that is not installed is named and left out.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

FRAME = 1920 * 1080 * 3
DEPTH = 16


class Outlive:
    """Loans and samples; the receiver polls, as iceoryx2's has to."""

    needs = "outlive"
    blocking = False

    def __init__(self, folder: str, name: str) -> None:
        import outlive

        self.topic = outlive.Topic(name, folder, depth=DEPTH, reliable=True)

    def sender(self) -> Callable[[int], None]:
        publisher = self.topic.publisher()
        while publisher.subscriber_count == 0:
            time.sleep(0.001)

        def send(number: int) -> None:
            with publisher.loan(FRAME, np.uint8) as frame:
                frame[0] = number & 0xFF

        return send

    def receiver(self) -> Callable[[], int]:
        subscriber = self.topic.subscriber(reliable=True)
        take = subscriber.recv if self.blocking else subscriber.try_recv

        def receive() -> int:
            while (sample := take()) is None:
                pass
            return int(sample.numpy()[0])

        return receive


class OutliveRecv(Outlive):
    """The same by `recv`, which waits: a moment awake, then asleep, Ctrl-C and other threads allowed for."""

    blocking = True


class Iceoryx2:
    """Lent slices, and a numpy array over the view that the wheel gives; `receive` polled; nothing is lost."""

    needs = "iceoryx2"

    def __init__(self, folder: str, name: str) -> None:
        import ctypes

        import iceoryx2

        iceoryx2.set_log_level(iceoryx2.LogLevel.Error)
        self.iox = iceoryx2
        self.node = iceoryx2.NodeBuilder.new().create(iceoryx2.ServiceType.Ipc)
        service = iceoryx2.ServiceName.new(f"{os.path.basename(folder)}/{name}")
        builder = self.node.service_builder(service).publish_subscribe(iceoryx2.Slice[ctypes.c_uint8])
        builder = builder.enable_safe_overflow(False).subscriber_max_buffer_size(DEPTH)
        self.service = builder.open_or_create()

    def sender(self) -> Callable[[int], None]:
        builder = self.service.publisher_builder().initial_max_slice_len(FRAME)
        publisher = builder.backpressure_strategy(self.iox.BackpressureStrategy.RetryUntilDelivered).create()
        while self.service.dynamic_config.number_of_subscribers == 0:
            time.sleep(0.001)
        publisher.update_connections()

        def send(number: int) -> None:
            sample = publisher.loan_slice_uninit(FRAME)
            frame = np.frombuffer(sample.payload().as_memory_view(), np.uint8)
            frame[0] = number & 0xFF
            sample.assume_init().send()

        return send

    def receiver(self) -> Callable[[], int]:
        subscriber = self.service.subscriber_builder().buffer_size(DEPTH).create()

        def receive() -> int:
            while (sample := subscriber.receive()) is None:
                pass
            return int(np.frombuffer(sample.payload().as_memory_view(), np.uint8)[0])

        return receive


class MultiprocessingQueue:
    """Pickled arrays through a pipe."""

    needs = "multiprocessing"

    def __init__(self, folder: str, name: str) -> None:
        # Made by the parent, see `main`.
        self.queue = INHERITED[name][0]

    def sender(self) -> Callable[[int], None]:
        frame = np.zeros(FRAME, np.uint8)

        def send(number: int) -> None:
            # The feeder thread pickles later: a frame of its own, as a camera's is.
            copy = frame.copy()
            copy[0] = number & 0xFF
            self.queue.put(copy)

        return send

    def receiver(self) -> Callable[[], int]:
        return lambda: int(self.queue.get()[0])


class MultiprocessingPipe:
    """Bytes through a pipe."""

    needs = "multiprocessing"

    def __init__(self, folder: str, name: str) -> None:
        self.read, self.write = INHERITED[name][1]

    def sender(self) -> Callable[[int], None]:
        frame = np.zeros(FRAME, np.uint8)

        def send(number: int) -> None:
            frame[0] = number & 0xFF
            self.write.send_bytes(frame)

        return send

    def receiver(self) -> Callable[[], int]:
        return lambda: int(np.frombuffer(self.read.recv_bytes(), np.uint8)[0])


class Pyzmq:
    """PUSH and PULL over ipc, without copies of its own where it can."""

    needs = "zmq"

    def __init__(self, folder: str, name: str) -> None:
        import zmq

        self.zmq, self.address = zmq, f"ipc://{folder}/{name}.zmq"

    def sender(self) -> Callable[[int], None]:
        socket = self.zmq.Context.instance().socket(self.zmq.PUSH)
        socket.sndhwm = DEPTH
        socket.connect(self.address)

        def send(number: int) -> None:
            frame = np.zeros(FRAME, np.uint8)
            frame[0] = number & 0xFF
            socket.send(frame, copy=False)

        return send

    def receiver(self) -> Callable[[], int]:
        socket = self.zmq.Context.instance().socket(self.zmq.PULL)
        socket.rcvhwm = DEPTH
        socket.bind(self.address)
        return lambda: int(np.frombuffer(socket.recv(copy=False).buffer, np.uint8)[0])


CONTENDERS: dict[str, tuple[Any, int, int]] = {
    # How many frames at full rate, how many round trips.
    "outlive": (Outlive, 100_000, 20_000),
    "outlive recv()": (OutliveRecv, 100_000, 20_000),
    "iceoryx2": (Iceoryx2, 100_000, 20_000),
    "pyzmq": (Pyzmq, 150, 60),
    "multiprocessing.Pipe": (MultiprocessingPipe, 150, 60),
    "multiprocessing.Queue": (MultiprocessingQueue, 60, 20),
}

#: What multiprocessing's own contenders have to be given when the other process begins.
INHERITED: dict[str, Any] = {}


def other(contender: Any, folder: str, rate: int, trips: int, ends: dict[str, Any], done: Any, core: int) -> None:
    """The receiver of the rate, the answerer of the trips."""
    pin(core)
    INHERITED.update(ends)
    receive = contender(folder, "there").receiver()
    done.send("ready")
    send = contender(folder, "back").sender()
    done.send("ready")
    for number in range(warm_up(rate)):
        assert receive() == number & 0xFF
        send(number)
    for number in range(rate):
        assert receive() == number & 0xFF
    done.send("all")
    for number in range(trips):
        assert receive() == number & 0xFF
        send(number)
    # Not before the last frame has been taken: some libraries take it back when its sender ends.
    done.recv()


def warm_up(rate: int) -> int:
    """Round trips that are not measured: the first frames' memory is made and zeroed by the kernel, 6 MB each."""
    return 5 * DEPTH if rate > 1000 else 2


#: Before any process is pinned: a child begins on its parent's core.
CORES = sorted(os.sched_getaffinity(0))


def pin(core: int) -> None:
    os.sched_setaffinity(0, {core})


def turn(contender: Any, rate: int, trips: int) -> tuple[float, float]:
    """Frames a second, and microseconds one way."""
    context = multiprocessing.get_context("spawn")
    folder = tempfile.mkdtemp(prefix="outlive-bench-", dir="/dev/shm")
    ends = {name: (context.Queue(DEPTH), context.Pipe(duplex=False)) for name in ("there", "back")}
    INHERITED.update(ends)
    done, theirs = context.Pipe()
    process = context.Process(target=other, args=(contender, folder, rate, trips, ends, theirs, CORES[-1]))
    process.start()
    try:
        assert done.poll(60) and done.recv() == "ready"
        receive = contender(folder, "back").receiver()
        send = contender(folder, "there").sender()
        assert done.poll(60) and done.recv() == "ready"
        # iceoryx2 drops what is sent before the subscriber has called receive for the first time, whatever it was told.
        time.sleep(0.3)
        for number in range(warm_up(rate)):
            send(number)
            assert receive() == number & 0xFF
        begun = time.perf_counter()
        for number in range(rate):
            send(number)
        assert done.poll(120) and done.recv() == "all"
        frames = rate / (time.perf_counter() - begun)
        begun = time.perf_counter()
        for number in range(trips):
            send(number)
            assert receive() == number & 0xFF
        one_way = (time.perf_counter() - begun) / trips / 2 * 1e6
        done.send("over")
        process.join(30)
        assert process.exitcode == 0, f"the other process ended with {process.exitcode}"
        return frames, one_way
    finally:
        process.kill()
        shutil.rmtree(folder, ignore_errors=True)


def frames(rounds: int, quick: bool) -> dict[str, Any]:
    here = dict(CONTENDERS)
    for name, (contender, _, _) in CONTENDERS.items():
        try:
            importlib.import_module(contender.needs)
        except ImportError as missing:
            print(f"{name} is left out: {missing}")
            del here[name]
    results: dict[str, list[tuple[float, float]]] = {name: [] for name in here}
    names = list(here)
    for round in range(rounds):
        for at in range(len(names)):
            name = names[(round + at) % len(names)]
            contender, rate, trips = here[name]
            if quick:
                rate, trips = max(rate // 20, 10), max(trips // 20, 5)
            results[name].append(turn(contender, rate, trips))
    table = {}
    for what, index, unit in (("rate", 0, "frames/s"), ("one way", 1, "µs")):
        print(f"\n6 MB frames to numpy, {what}, {unit}, {rounds} rounds")
        print(f"{'':24}{'median':>12}{'min':>12}{'max':>12}{'ratio':>9}")
        for name, turns in results.items():
            values = [each[index] for each in turns]
            ratios = [
                each[index] / base[index] for each, base in zip(turns, results.get("iceoryx2", []), strict=False)
            ]
            ratio = statistics.median(ratios) if ratios else float("nan")
            row = (statistics.median(values), min(values), max(values), ratio)
            print(f"{name:24}{row[0]:>12.1f}{row[1]:>12.1f}{row[2]:>12.1f}{row[3]:>9.3f}")
            table[f"{name}, {what}"] = dict(zip(("median", "min", "max", "ratio"), row, strict=True))
    print("targets: rate at least 2 times iceoryx2's, one way at most 0.6 times")
    return table


def lock(rounds: int, quick: bool) -> dict[str, Any]:
    import outlive

    folder = tempfile.mkdtemp(prefix="outlive-bench-", dir="/dev/shm")
    times = 10_000 if quick else 200_000
    locks: dict[str, Any] = {
        "outlive.Lock": outlive.Lock("lock", folder),
        "multiprocessing.Lock": multiprocessing.Lock(),
        "threading.RLock": threading.RLock(),
        "threading.Lock": threading.Lock(),
    }

    def measure(lock: Any) -> float:
        begun = time.perf_counter()
        for _ in range(times):
            with lock:
                pass
        return (time.perf_counter() - begun) / times * 1e9

    results: dict[str, list[float]] = {name: [] for name in locks}
    for _ in range(rounds):
        for name, each in locks.items():
            results[name].append(measure(each))
    shutil.rmtree(folder, ignore_errors=True)
    print(f"\n`with lock: pass`, uncontended, ns, {rounds} rounds")
    print(f"{'':24}{'median':>12}{'min':>12}{'max':>12}")
    for name, values in results.items():
        print(f"{name:24}{statistics.median(values):>12.0f}{min(values):>12.0f}{max(values):>12.0f}")
    print("target: outlive.Lock at most 1000")
    return {f"{name}, uncontended": {"median": statistics.median(values)} for name, values in results.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", choices=["frames", "lock", []], help="default: both")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="that it runs, not how fast")
    parser.add_argument("--json", action="store_true", help="the table as JSON on the last line")
    args = parser.parse_args()
    rounds = 1 if args.quick else args.rounds
    pin(CORES[0])
    table = {}
    for what in args.what or ["frames", "lock"]:
        table.update({"frames": frames, "lock": lock}[what](rounds, args.quick))
    if args.json:
        sys.stdout.write(json.dumps(table) + "\n")


if __name__ == "__main__":
    main()
