"""What the robot's processes say to each other: three topics, whose messages are ROS's, a queue and a service.

A message is named by the process that published it and by its number there, both in ROS's header. Each
process notes what it has published and what it has seen, if ROBOT_NOTES names a folder: ``chaos.py``
compares these notes when it has killed enough.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import outlive
from outlive import ros1

HEADER = f"""
{"=" * 80}
MSG: std_msgs/Header
uint32 seq
time stamp
string frame_id
"""
PICTURE = ros1.Type("sensor_msgs/CompressedImage", f"Header header\nstring format\nuint8[] data{HEADER}")
SCAN = ros1.Type(
    "sensor_msgs/PointCloud2",
    f"""
Header header
uint32 height
uint32 width
PointField[] fields
bool is_bigendian
uint32 point_step
uint32 row_step
uint8[] data
bool is_dense{HEADER}{"=" * 80}
MSG: sensor_msgs/PointField
uint8 INT8=1
uint8 UINT8=2
uint8 INT16=3
uint8 UINT16=4
uint8 INT32=5
uint8 UINT32=6
uint8 FLOAT32=7
uint8 FLOAT64=8
string name
uint32 offset
uint8 datatype
uint32 count
""",
)
COMMAND = ros1.Type(
    "geometry_msgs/TwistStamped",
    f"""
Header header
Twist twist{HEADER}{"=" * 80}
MSG: geometry_msgs/Twist
Vector3 linear
Vector3 angular
{"=" * 80}
MSG: geometry_msgs/Vector3
float64 x
float64 y
float64 z
""",
)
TYPES = {"picture": PICTURE, "scan": SCAN, "command": COMMAND}

#: So many messages of each publisher stay to be read: what a subscriber misses while it is dead, a
#: gateway's link while it is cut. At ten scans a second that is more than six seconds.
DEPTH = int(os.environ.get("ROBOT_DEPTH", "64"))


def topic(name: str) -> outlive.Topic:
    """Opens a topic of the robot, or makes it. What a killed publisher has left stays to be read."""
    try:
        return outlive.Topic.open(name)
    except outlive.NotFound:
        options = {"reliable": True, "depth": DEPTH, "durability": "persistent", "max_bytes": 512 << 20}
        return TYPES[name].topic(name, **options)


def subscriber(name: str) -> outlive.Subscriber:
    """Returns a subscriber that loses nothing while it lives, and begins with what is still there."""
    return topic(name).subscriber(reliable=True, history=DEPTH)


def log() -> outlive.Queue:
    """Opens the queue of the log, which keeps its lines while the logger is dead."""
    return outlive.Queue("log", on_receiver_death="keep", need_receiver=False)


class Name(NamedTuple):
    """Which message: of which process, and its number there."""

    source: str
    number: int


def header(number: int) -> dict[str, Any]:
    """Returns ROS's header of this process's next message."""
    now = time.time_ns()
    stamp = {"secs": now // 10**9, "nsecs": now % 10**9}
    return {"seq": number, "stamp": stamp, "frame_id": source()}


def name_of(message: ros1.Message) -> Name:
    return Name(message.header.frame_id, message.header.seq)


def source() -> str:
    """Returns the name of this process among all that have run this program."""
    return f"{program()}.{os.getpid()}"


def program() -> str:
    return Path(sys.argv[0]).stem


class Next:
    """Which message of each source is the next one: tells repeats, and how many are missing."""

    def __init__(self, known: dict[str, int] | None = None) -> None:
        self.known = dict(known or {})

    def is_new(self, topic: str, name: Name) -> bool:
        """Says whether the message has not been seen before, and notes those that are missing before it."""
        expected = self.known.get(name.source, 0)
        if name.number > expected:
            note("missing", topic, name.source, expected, name.number)
        if name.number >= expected:
            self.known[name.source] = name.number + 1
        return name.number >= expected


def note(did: str, *what: object) -> None:
    """Appends a line to this program's notes: when, what it did, and to which message."""
    if (folder := os.environ.get("ROBOT_NOTES")) is not None:
        # One write: a kill leaves the whole line or none.
        line = " ".join(map(str, (f"{time.monotonic():.6f}", did, *what)))
        with open(f"{folder}/{program()}.notes", "ab", buffering=0) as file:
            file.write(line.encode() + b"\n")
