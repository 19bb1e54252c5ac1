"""The planner: sees each picture and each scan, and says for each scan how fast to drive.

It publishes on the topic ``command``, sends a line to the queue ``log``, and serves ``plan.stop``. How far
it has come is a state: its successor goes on behind that, with what the rings still have. A planner that
is killed between two of these steps has its scan planned twice, and none is left out.
"""

from __future__ import annotations

import json
import time

import numpy as np
import outlive
from messages import COMMAND, PICTURE, SCAN, Name, Next, header, log, name_of, note, source, subscriber, topic
from outlive import ros1

STOP_FOR = 0.5


def nearest(scan: ros1.Message) -> float:
    """Returns the distance to the nearest point ahead, in metres."""
    points = scan.data.view("<f4").reshape(-1, scan.point_step // 4)  # where the LiDAR wrote them
    x, y, z = points[:, 0], points[:, 1], points[:, 2]
    ahead = x[(x > 2) & (abs(y) < 1.2) & (z > -1.2)]
    return float(ahead.min()) if len(ahead) else 50.0


class Planner:
    def __init__(self) -> None:
        self.pictures, self.scans = subscriber("picture"), subscriber("scan")
        self.commands = topic("command").publisher()
        self.log = log()
        # A dead planner's place is taken at once; a stopped one's is waited for.
        self.server = outlive.Server("plan.stop", timeout=None)
        self.state = outlive.State("plan.done", 65536, initial=b"{}")
        self.next = Next(json.loads(self.state.get()))
        self.number, self.stop_until = 0, 0.0

    def take(self, subscriber: outlive.Subscriber) -> None:
        try:
            sample = subscriber.try_recv()
        except outlive.Lagged as lagged:  # the ring has lost messages: what is missing is seen by number
            note("lagged", lagged.lost)
            return
        if sample is None:
            return
        with sample:
            if subscriber is self.pictures:
                topic, message = "picture", PICTURE.read(sample)
            else:
                topic, message = "scan", SCAN.read(sample)
            name = name_of(message)
            if self.next.is_new(topic, name):
                if topic == "scan":
                    self.plan(name, nearest(message))
                note("saw", topic, name.source, name.number)
                self.state.set(json.dumps(self.next.known).encode())

    def plan(self, scan: Name, distance: float) -> None:
        speed = 0.0 if time.monotonic() < self.stop_until else min(distance / 4, 8.0)
        COMMAND.publish(self.commands, {"header": header(self.number), "twist": {"linear": {"x": speed}}})
        note("published", "command", source(), self.number)
        self.number += 1
        self.log.send(f"{scan.source} {scan.number}: {distance:.1f} m ahead, {speed:.1f} m/s".encode())
        note("sent", "log", scan.source, scan.number)

    def answer(self, request: outlive.Request) -> None:
        self.stop_until = time.monotonic() + STOP_FOR
        request.reply(b"stopped")

    def run(self) -> None:
        ready = outlive.WaitSet()
        for one in (self.pictures, self.scans, self.server):
            ready.add(one)
        while True:
            for one in ready.wait():
                if one is not self.server:
                    self.take(one)
                elif (request := self.server.try_next()) is not None:
                    self.answer(request)


if __name__ == "__main__":
    Planner().run()
