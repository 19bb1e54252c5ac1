"""How fast recordings are read and written, beside PyPI's mcap where that is installed: `bag_speed.py FOLDER [ROUNDS]`.

Times are the processor's, so that other programs count less.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from outlive import bag

IMU = np.dtype([("stamp", "u8"), ("acceleration", "f8", (3,)), ("gyro", "f8", (3,)), ("temperature", "f8")])
SHORT, LONG = 50_000, 40


def write(path: str, topic: str, payload: Any, value: Any, count: int) -> None:
    if os.path.exists(path):
        os.remove(path)
    with bag.Writer(path) as writer:
        writer.topic(topic, payload)
        for number in range(count):
            writer.write(topic, value, log_time=number)


def values(path: str) -> None:
    for message in bag.Reader(path):
        message.value


def messages(path: str) -> None:
    for _ in bag.Reader(path):
        pass


def peer(path: str) -> None:
    from mcap.reader import make_reader

    with open(path, "rb") as file:
        for _, _, message in make_reader(file).iter_messages():
            np.frombuffer(message.data, "u1")


def main() -> None:
    folder, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5
    short, long = os.path.join(folder, "bag-speed-short.mcap"), os.path.join(folder, "bag-speed-long.mcap")
    imu, image = np.zeros(1, IMU)[0], np.zeros((1080, 1920, 3), "u1")
    what: dict[str, Callable[[], Any]] = {
        f"write {SHORT} records of 64 B": lambda: write(short, "imu", IMU, imu, SHORT),
        "read them as one array": lambda: bag.Reader(short).array("imu"),
        "iterate over the messages": lambda: messages(short),
        "iterate over the values": lambda: values(short),
        "the same by PyPI's mcap, bytes": lambda: peer(short),
        f"write {LONG} pictures of 6.2 MB": lambda: write(long, "camera", None, image, LONG),
        "iterate over them as arrays": lambda: values(long),
        "the same by PyPI's mcap, of bytes": lambda: peer(long),
    }
    times: dict[str, list[float]] = {name: [] for name in what}
    for _ in range(rounds):
        for name, call in what.items():
            begun = time.process_time()
            try:
                call()
            except ImportError:
                continue
            times[name].append(1000 * (time.process_time() - begun))
    for name, took in times.items():
        if took:
            print(f"{name}: median {statistics.median(took):.0f} ms ({min(took):.0f} to {max(took):.0f})")
    os.remove(short)
    os.remove(long)


if __name__ == "__main__":
    main()
