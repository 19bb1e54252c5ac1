"""The LiDAR: ten scans a second, on the topic ``scan``.

    python lidar.py [FOLDER]          the files lidar_*.f32xN.bin of that folder, N numbers a point;
                                      without it, a wall that comes nearer
"""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path

import numpy as np
from messages import SCAN, header, note, source, topic
from outlive import ros1

NAMES = ("x", "y", "z", "intensity", "ring")


def wall(distance: float) -> np.ndarray:
    """Returns the points of a wall in front of the robot."""
    across = np.linspace(-5, 5, 2000, dtype="<f4")
    return np.stack([np.full_like(across, distance), across, across * 0, across * 0 + 1], axis=1)


def read(file: Path) -> np.ndarray:
    return np.fromfile(file, "<f4").reshape(-1, int(file.name.split(".f32x")[1].removesuffix(".bin")))


files = sorted(Path(sys.argv[1]).glob("lidar_*.f32x*.bin")) if len(sys.argv) > 1 else []
scans = [read(file) for file in files] or [wall(20 - step / 5) for step in range(95)]

publisher = topic("scan").publisher()
for number in itertools.count():
    points = scans[number % len(scans)]
    fields = [{"name": name, "offset": 4 * at, "datatype": 7, "count": 1} for at, name in enumerate(NAMES)]
    values = {
        "header": header(number),
        "height": 1,
        "width": len(points),
        "fields": fields[: points.shape[1]],
        "point_step": 4 * points.shape[1],
        "row_step": points.nbytes,
        "data": ros1.Room(points.nbytes),
        "is_dense": 1,
    }
    with SCAN.loan(publisher, values) as scan:  # in shared memory, published when the block ends
        scan.data[:] = points.view("u1").reshape(-1)
    note("published", "scan", source(), number)
    time.sleep(0.1)
