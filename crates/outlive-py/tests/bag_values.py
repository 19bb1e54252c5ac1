"""Messages of all kinds that a recording has, for its tests."""

from __future__ import annotations

import numpy as np

import outlive

IMU = np.dtype([("stamp", "u8"), ("acceleration", "f8", (3,)), ("temperature", "f8")])
#: C has padding in it, and behind it.
PADDED = np.dtype([("a", "u1"), ("b", "f8"), ("c", "u2")], align=True)
POINT = np.dtype([("x", "f4"), ("y", "f4"), ("intensity", "u1")], align=True)
PATH = np.dtype([("robot", "u8"), ("points", "f4", (0, 2))])


def values():
    rng = np.random.default_rng(1)
    imu = np.zeros(1, IMU)[0]
    imu["stamp"], imu["acceleration"], imu["temperature"] = 7, [1, 2, 3], 20.5
    padded = np.zeros(1, PADDED)[0]
    padded["a"], padded["b"], padded["c"] = 1, 2.5, 3
    points = np.zeros(5, POINT)
    points["x"] = rng.random(5)
    points["intensity"] = range(5)
    return {
        "imu": (IMU, imu),
        "padded": (PADDED, padded),
        "points": ([POINT], points),
        "none": ([POINT], points[:0]),
        "number": ("f64", np.float64(2.5)),
        "matrix": ("f64[2][2]", np.eye(2)),
        "path": (PATH, outlive.record(outlive._payload.message((7, [[1, 2], [3, 4]]), PATH, False), PATH)),
        "array": (None, np.arange(12, dtype="i2").reshape(3, 4)),
        "scalar": (None, np.array(1 + 2j)),
        "records": (None, points.reshape(5, 1)),
        "bytes": (None, b"\x00\x01hello"),
        "msgpack": ("msgpack", {"a": [1, None, b"x"]}),
        "json": ("json", {"a": [1, None, "x"], "b": 2.5}),
    }


def same(one, other):
    if isinstance(one, memoryview):
        return bytes(one) == bytes(other)
    if isinstance(one, (np.ndarray, np.generic)):
        one, other = np.asarray(one), np.asarray(other)
        if one.dtype != other.dtype or one.shape != other.shape:
            return False
        # By field: padding may have anything.
        names = one.dtype.names
        return all(same(one[name], other[name]) for name in names) if names else np.array_equal(one, other)
    return one == other
