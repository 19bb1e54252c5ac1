"""ROS's messages in topics, written to an MCAP file; used by ``outlive.ros1`` and ``outlive.ros2``."""

from __future__ import annotations

import time as _time
from collections.abc import Iterable as _Iterable
from collections.abc import Mapping as _Mapping
from typing import Any as _Any
from typing import Callable as _Callable
from typing import NamedTuple as _NamedTuple

from . import _outlive
from .errors import Lagged as _Lagged

__all__ = ["Recorder", "Schema"]


class Schema(_NamedTuple):
    """What a file says of a topic's messages."""

    #: As ROS names it.
    type: str
    #: The definition with all types that it uses.
    definition: str
    metadata: dict[str, str]
    #: Returns a sample's message as it is on ROS's wire.
    to_wire: _Callable[[_Any], bytes]


class Recorder:
    """Writes what topics publish to an MCAP file, from now on, until it is closed.

    A message that :meth:`take` has written is in the file also if this process is killed then; the file
    has no index in that case, and a reader that goes through it from its beginning finds all of them
    (``mcap.reader.NonSeekingReader``). Nothing is synced to the disk: a power cut may take more.
    """

    def __init__(
        self,
        path: _Any,
        topics: _Iterable[str] | _Mapping[str, str],
        domain: _Any,
        profile: str,
        schema_of: _Callable[[str, _outlive.Domain], Schema],
        reliable: bool,
    ) -> None:
        try:
            from mcap.writer import Writer
        except ImportError as error:
            raise ImportError("a bag is written by the package mcap: pip install 'outlive[mcap]'") from error
        if not isinstance(domain, _outlive.Domain):
            domain = _outlive.Domain(domain)
        names = dict(topics) if isinstance(topics, _Mapping) else {name: _in_ros(name) for name in topics}
        schemas = {name: schema_of(name, domain) for name in names}
        self._subscribers: dict[_outlive.Subscriber, tuple[int, Schema]] = {}
        self._lost = 0
        self._ready = _outlive.WaitSet(domain)
        self._file = open(path, "xb")
        try:
            # Without chunks: a killed recorder's open chunk would be lost.
            self._writer = Writer(self._file, use_chunking=False)
            self._writer.start(profile=profile, library="outlive")
            for name, schema in schemas.items():
                number = self._writer.register_schema(schema.type, f"{profile}msg", schema.definition.encode())
                encoding = "ros1" if profile == "ros1" else "cdr"
                channel = self._writer.register_channel(names[name], encoding, number, schema.metadata)
                subscriber = _outlive.Topic.open(name, domain=domain).subscriber(reliable=reliable)
                self._ready.add(subscriber)
                self._subscribers[subscriber] = channel, schema
            self._file.flush()
        except BaseException:
            self._file.close()
            raise

    def take(self, timeout: float | None = None) -> int:
        """Waits for messages, and writes those that are there; returns how many. 0: none came in time."""
        written = 0
        for subscriber in self._ready.wait(timeout):
            channel, schema = self._subscribers[subscriber]
            # As many as may be there by now: a fast publisher does not keep the others waiting.
            for _ in range(256):
                try:
                    sample = subscriber.try_recv()
                except _Lagged:
                    continue
                if sample is None:
                    break
                with sample:
                    now, at = _time.time_ns(), sample.stamp
                    data = schema.to_wire(sample)
                    self._writer.add_message(channel, now, data, at or now, sample.sequence & 0xFFFF_FFFF)
                written += 1
        self._file.flush()
        return written

    @property
    def lost(self) -> int:
        """How many messages publishers have overwritten before they were written here."""
        return self._lost if self._file.closed else sum(subscriber.lost for subscriber in self._subscribers)

    def close(self) -> None:
        """Writes the file's index, and closes it."""
        if not self._file.closed:
            self._lost = self.lost
            self._ready.close()
            for subscriber in self._subscribers:
                subscriber.close()
            try:
                self._writer.finish()
            finally:
                self._file.close()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Recorder {self._file.name}, {len(self._subscribers)} topics>"


def _in_ros(name: str) -> str:
    return "/" + name.replace(".", "/")
