"""A zenoh program in Python beside gateways: it knows nothing of Outlive but the how-to's page.

`clients.py ENDPOINT` prints a line for each key once it has read what it waits for, and writes until
its standard input ends.
"""

import json
import os
import struct
import sys
import threading

import numpy as np
import zenoh

POSE = np.dtype([("position", "<f8", 3), ("heading", "<f4"), ("gear", "<u4")])

config = zenoh.Config()
config.insert_json5("mode", '"client"')
config.insert_json5("connect/endpoints", json.dumps([sys.argv[1]]))
config.insert_json5("scouting/multicast/enabled", "false")


def say(*words: object) -> None:
    """A line as one write: two threads of zenoh's call at once, and `print` writes word by word."""
    os.write(sys.stdout.fileno(), (" ".join(map(str, words)) + "\n").encode())


def frame(sample: zenoh.Sample) -> None:
    """The attachment's number of a message is at byte 32."""
    (number,) = struct.unpack_from("<Q", sample.attachment.to_bytes(), 32)
    say("frame", sample.key_expr, sample.payload.to_bytes().decode(), number)


def pose(sample: zenoh.Sample) -> None:
    (read,) = np.frombuffer(sample.payload.to_bytes(), POSE)
    say("pose", *read["position"], read["heading"], read["gear"])


ended = threading.Event()


def wait_for_end() -> None:
    sys.stdin.read()
    ended.set()


threading.Thread(target=wait_for_end, daemon=True).start()
with zenoh.open(config) as session:
    subscribers = [
        session.declare_subscriber("camera/front", frame),
        session.declare_subscriber("robot/pose", pose),
    ]
    goal = np.array([((4, 5, 6), 0.25, 7)], POSE)
    while not ended.wait(0.05):
        session.put("drive/speed", b"fast")
        session.put("robot/goal", goal.tobytes())
        # Of another length: refused there, and counted.
        session.put("robot/goal", goal.tobytes()[:-1])
