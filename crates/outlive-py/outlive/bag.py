"""Recordings: MCAP files, as ``outlive record`` writes them, read and written.

:class:`Reader` opens any MCAP file, also one whose writer died, a compressed one, or one of another program.
Its messages are what they were in their topics: numpy's records and arrays, where they lie in the chunk
that was read. ::

    from outlive import bag

    with bag.Reader("drive.mcap") as reader:
        print(reader.info)
        for message in reader.messages("lidar"):
            points = message.value                  # an array, with its type and shape
        imu = reader.array("imu")                   # all values as one structured array

:class:`Writer` writes files that ``outlive replay``, Foxglove, ``rosbags`` and ``mcap`` read. What ``flush``
has returned for is in the file, even if this process is killed then; ``resume=True`` continues behind it.

Times are nanoseconds since 1970, as numbers; ``datetime`` and ``numpy.datetime64`` are taken, too.
"""

from __future__ import annotations

import datetime as _datetime
import json as _json
import os as _os
import time as _time
from collections.abc import Iterator as _Iterator
from collections.abc import Mapping as _Mapping
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any
from typing import Literal as _Literal

from ._bag_info import EVENTS as EVENTS
from ._bag_info import Death as Death
from ._bag_info import Info as Info
from ._bag_info import TopicInfo as TopicInfo
from ._bag_info import recorded as _recorded
from ._bag_info import together as _together
from ._numpy import numpy as _numpy
from ._outlive import BagFile as _BagFile
from ._outlive import BagMessage as Message
from ._outlive import BagMessages as Messages
from ._outlive import BagWriter as _BagWriter
from ._outlive import Topic as _Topic
from .errors import WrongKind as _WrongKind

if _TYPE_CHECKING:
    import numpy as _np

    _Time = int | _datetime.datetime | _np.datetime64 | None

__all__ = ["Death", "Info", "Message", "Messages", "Reader", "TopicInfo", "Writer"]

class Reader:
    """Reads a recording: any MCAP file, in the memory of two chunks.

    It reads that one file. A recording that was split, or stopped and started, has several: read them one
    after another, in the order of their numbers, or merge them into one first (``outlive bag merge``).

    ``max_chunk``: the most bytes of a chunk, compressed or not; a larger one raises ``TooLarge``.
    Raises ``NotFound``, ``WrongKind`` if it is not an MCAP file of a known version and compression,
    ``Damaged`` where its bytes contradict the format.

    A file whose writer was killed may end in the middle of a record: it is read up to there. Views of
    messages stay valid when the reader is closed. Several threads may use a reader at the same time.

    >>> path = folder + ".mcap"
    >>> imu = np.dtype([("acceleration", "f8", (3,)), ("temperature", "f8")])
    >>> with outlive.bag.Writer(path) as bag:
    ...     bag.topic("imu", payload=imu)
    ...     for number in range(3):
    ...         _ = bag.write("imu", ([0, 0, 9.81], 20 + number), log_time=number)
    >>> with outlive.bag.Reader(path) as bag:
    ...     print(bag.info.messages, bag.topics)
    ...     for message in bag.messages("imu", start=1):
    ...         print(message.log_time, float(message.value["temperature"]))
    ...     columns = bag.columns("imu")            # pandas.DataFrame(columns)
    3 ['imu']
    1 21.0
    2 22.0
    >>> list(columns)[2:]
    ['sequence', 'acceleration[0]', 'acceleration[1]', 'acceleration[2]', 'temperature']
    >>> columns["temperature"].tolist()
    [20.0, 21.0, 22.0]
    >>> os.remove(path)
    """

    def __init__(self, path: str | _os.PathLike[str], *, max_chunk: int = 1 << 30) -> None:
        self._path = _os.fspath(path)
        self._file: _BagFile | None = _BagFile(self._path, max_chunk)
        self._info: Info | None = None

    def _open(self) -> _BagFile:
        if self._file is None:
            raise ValueError("the object is closed: open another")
        return self._file

    @property
    def path(self) -> str:
        """The file's path."""
        return self._path

    @property
    def info(self) -> Info:
        """What the file holds, as of the first use of this attribute. It comes from the index of a finished
        file; an unfinished file is read from beginning to end."""
        file = self._open()
        if self._info is None:
            self._info = self._survey(file)
        return self._info

    def _survey(self, file: _BagFile) -> Info:
        told = file.survey()
        topics: dict[str, TopicInfo] = {}
        for channel in told["channels"]:
            one = TopicInfo(**channel)
            topics[one.topic] = _together(topics[one.topic], one) if one.topic in topics else one
        lost: dict[str, int] = {}
        deaths: list[Death] = []
        for event in self.events() if EVENTS in topics else []:
            try:
                if event.get("event") == "lost":
                    topic, count = str(event["topic"]), int(event["count"])
                    lost[topic] = lost.get(topic, 0) + count
                elif event.get("event") == "publisher_died":
                    program = str(event.get("program", ""))
                    deaths.append(Death(str(event["topic"]), event["log_time"], int(event["pid"]), program))
            except (KeyError, TypeError, ValueError):
                continue  # Not what `outlive record` writes.
        own = [topic for topic in topics.values() if _recorded(topic.topic)]
        firsts = [topic.first for topic in own if topic.first is not None]
        lasts = [topic.last for topic in own if topic.last is not None]
        del told["channels"]
        return Info(
            path=self._path,
            topics=topics,
            messages=sum(topic.messages for topic in own),
            first=min(firsts, default=None),
            last=max(lasts, default=None),
            lost=lost,
            deaths=deaths,
            **told,
        )

    @property
    def topics(self) -> list[str]:
        """The topics' names."""
        return list(self.info.topics)

    def __contains__(self, topic: object) -> bool:
        return topic in self.info.topics

    def messages(
        self,
        *topics: str,
        start: _Time = None,
        end: _Time = None,
        reverse: bool = False,
        damaged: _Literal["raise", "skip"] = "raise",
    ) -> Messages:
        """Returns the messages of these topics, of all without a name, in the order of the file. Raises
        ``NotFound`` for a topic that the file does not have.

        ``start``, ``end``: log times; ``end`` itself is excluded. With them, and in a finished file with
        topics, too, only the chunks that may have such messages are read. ``reverse``: from the last message
        to the first one; it raises ``BadOption`` for a file whose messages are not in chunks.

        A damaged part raises ``Damaged``, and the next message is the first one behind it; with
        ``damaged="skip"`` it is passed over. Chunks are read without the interpreter.
        """
        skip, file = _is_skip(damaged), self._open()
        for topic in topics:
            file.require(topic)
        return file.messages(list(topics) or None, _time_of(start), _time_of(end), reverse, skip)

    def __iter__(self) -> _Iterator[Message]:
        return self.messages()

    def array(
        self, topic: str, *, start: _Time = None, end: _Time = None, damaged: _Literal["raise", "skip"] = "raise"
    ) -> _Any:
        """Returns the values of all messages of a topic as one array, which is the caller's own. For a topic
        whose payload has fields it is a structured array (``pandas.DataFrame(reader.array("imu"))``); for a
        topic of arrays it has one dimension more than a message.

        Raises ``WrongKind`` if the messages are of several types or lengths, or of a type that numpy does not
        have: iterate over them instead.
        """
        values = self._columns(topic, start, end, damaged, True)[3]
        if values is None:
            return _numpy().empty(0)
        return values

    def times(self, topic: str, *, start: _Time = None, end: _Time = None) -> _Any:
        """Returns the log times of a topic's messages, as ``datetime64[ns]``."""
        return self._columns(topic, start, end, "raise", False)[0]

    def columns(
        self, topic: str, *, start: _Time = None, end: _Time = None, damaged: _Literal["raise", "skip"] = "raise"
    ) -> dict[str, _Any]:
        """Returns a topic as columns of one dimension, by name: ``log_time``, ``publish_time``, ``sequence``,
        and each number of its values. Nested numbers are called ``pose.x`` or ``points[0].x``; values without
        fields are the column ``value``. For ``pandas.DataFrame`` and the like."""
        log, publish, sequence, values = self._columns(topic, start, end, damaged, True)
        columns = {"log_time": log, "publish_time": publish, "sequence": sequence}
        if values is not None:
            _flatten(columns, "", values)
        return columns

    def _columns(self, topic: str, start: _Time, end: _Time, damaged: str, values: bool) -> tuple[_Any, ...]:
        file = self._open()
        found = file.columns(topic, _time_of(start), _time_of(end), _is_skip(damaged), values)
        if len(found[0]) == 0:
            file.require(topic)
        return found

    def events(self) -> list[dict[str, _Any]]:
        """Returns what happened to the recording, in the order of the file: losses, deaths, sessions, with the
        members that ``outlive record`` gives them (``event``, ``topic`` …) and their ``log_time``."""
        events = []
        for message in self._open().messages([EVENTS], None, None, False, True):
            try:
                event = _json.loads(bytes(message))
            except ValueError:
                continue
            if isinstance(event, dict):
                events.append({"log_time": message.log_time, **event})
        return events

    def close(self) -> None:
        """Closes the reader. Its messages and iterators stay usable."""
        self._file = None

    def __enter__(self) -> Reader:
        self._open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Reader of '{self._path}'{', closed' if self._file is None else ''}>"


class Writer:
    """Writes a recording, which is readable after each ``flush``, also if this process is killed.

    It makes the file, and raises ``AlreadyExists`` if there is one. With ``resume=True`` it continues a file
    that such a writer, or ``outlive record``, has left, and makes one if there is none. It raises ``Taken``
    if another process writes the file. ``compression``: ``"zstd"`` or ``"lz4"``. ``sync``: ``flush`` waits
    until the disk has the messages, so that a power cut does not take them.

    Messages gather in memory. They go into the file when they have ``group_bytes`` bytes, with the first
    ``write`` after ``flush_every`` seconds, by ``flush`` and by ``close``. ``close``, and the end of a
    ``with`` block, give the file its index. A writer that dies, or is not closed, leaves a file without an
    index, which has everything that was written before the last ``flush`` that returned.

    >>> path = folder + ".mcap"
    >>> bag = outlive.bag.Writer(path)
    >>> bag.topic("pose", payload=np.dtype([("x", "f8"), ("y", "f8")]))
    >>> bag.topic("state", payload="json")
    >>> bag.write("pose", (1.0, 2.0))
    0
    >>> bag.write("state", {"mode": "drive"})
    0
    >>> bag.write("camera", np.zeros((4, 6, 3), "uint8"))      # arrays and bytes need no topic()
    0
    >>> bag.flush()                                             # from here on no death takes them
    >>> del bag                                                 # as if it had died
    >>> with outlive.bag.Writer(path, resume=True) as bag:
    ...     bag.count("pose")
    1
    >>> with outlive.bag.Reader(path) as bag:
    ...     [message.topic for message in bag]
    ['pose', 'state', 'camera']
    >>> os.remove(path)
    """

    def __init__(
        self,
        path: str | _os.PathLike[str],
        *,
        resume: bool = False,
        compression: _Literal["zstd", "lz4"] | None = None,
        sync: bool = False,
        flush_every: float = 1.0,
        group_bytes: int = 1 << 20,
    ) -> None:
        self._path = _os.fspath(path)
        self._file = _BagWriter(self._path, resume, compression, sync, flush_every, group_bytes)

    @property
    def path(self) -> str:
        """The file's path."""
        return self._path

    def topic(
        self,
        topic: str,
        payload: _Any = None,
        *,
        attributes: _Mapping[str, str] = {},
        like: _Topic | None = None,
    ) -> None:
        """Says what the messages of a topic are, before its first one: values of a ``payload`` as ``Topic``
        takes it, or those of a live topic (``like``), with its attributes. Without this call they are bytes and
        arrays.

        The file has them as ``outlive record`` writes them: described values as CDR with a schema in
        ``ros2msg``. Raises ``WrongKind`` if an earlier call said otherwise.
        """
        self._file.channel(topic, payload, dict(attributes), like)

    def write(
        self,
        topic: str,
        value: _Any,
        *,
        log_time: _Time = None,
        publish_time: _Time = None,
        sequence: int | None = None,
    ) -> int:
        """Writes a message, and returns its number among the topic's messages in the file.

        ``value``: what ``Publisher.publish`` takes; for msgpack and JSON the object. ``log_time`` is now unless
        it is given, and ``publish_time`` is the log time unless it is given. A call that raises, for example
        ``NoSpace`` on a full disk, has written nothing of this message.
        """
        log = _time.time_ns() if log_time is None else _moment(log_time)
        published = log if publish_time is None else _moment(publish_time)
        if not self._file.has_channel(topic):
            self._file.channel(topic, None, {}, None)
        return self._file.write(topic, value, log, published, sequence)

    def flush(self, positions: _Mapping[str, str] | None = None) -> None:
        """Returns when everything that was written is in the file: from then on no process's death takes it.
        ``positions``: texts that say how far the caller's sources are. They get into the file together with the
        messages; the next writer has them in ``resumed``."""
        self._file.flush(None if positions is None else dict(positions))

    def metadata(self, name: str, texts: _Mapping[str, str]) -> None:
        """Adds metadata to the file: a name, and texts by their keys."""
        self._file.put_metadata(name, dict(texts))

    def count(self, topic: str) -> int:
        """Returns how many messages of a topic were written, also by the writers before a ``resume``: the number
        of the next one."""
        return self._file.count(topic)

    @property
    def resumed(self) -> dict[str, str]:
        """The positions of the last ``flush`` before this writer resumed the file."""
        return self._file.resumed

    @property
    def cut(self) -> int:
        """How many bytes at the end of a dead writer's file were cut off: a part of a group, never what it
        flushed."""
        return self._file.cut

    @property
    def file_bytes(self) -> int:
        """How long the file is."""
        return self._file.file_bytes

    def close(self) -> None:
        """Writes what is left, and the file's index."""
        self._file.close()

    def __enter__(self) -> Writer:
        if self._file.closed:
            raise ValueError("the object is closed: open another")
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Writer of '{self._path}'{', closed' if self._file.closed else ''}>"


def _is_skip(damaged: str) -> bool:
    if damaged not in ("raise", "skip"):
        raise ValueError(f"damaged is 'raise' or 'skip', not {damaged!r}")
    return damaged == "skip"


def _moment(time: _Any) -> int:
    found = _time_of(time)
    assert found is not None
    return found


def _time_of(time: _Any) -> int | None:
    """Returns nanoseconds since 1970. Times before 1970 are refused."""
    if time is None:
        return None
    if isinstance(time, _datetime.datetime):
        if time.tzinfo is None:
            raise ValueError("a datetime needs a time zone: datetime.now(timezone.utc)")
        span = time - _datetime.datetime(1970, 1, 1, tzinfo=_datetime.timezone.utc)
        found = (span.days * 86_400 + span.seconds) * 1_000_000_000 + span.microseconds * 1000
    elif type(time).__name__ == "datetime64":
        import numpy

        found = int(time.astype("datetime64[ns]").astype(numpy.int64))
    else:
        found = _operator_index(time)
    if not 0 <= found < 1 << 64:
        raise ValueError(f"a time is a number of nanoseconds since 1970, not {time!r}")
    return found


def _operator_index(time: _Any) -> int:
    import operator

    try:
        return operator.index(time)
    except TypeError:
        raise TypeError(f"a time is an int (nanoseconds since 1970), a datetime or a datetime64, not {time!r}") from None


def _flatten(columns: dict[str, _Any], name: str, values: _Any) -> None:
    if values.dtype.names:
        for field in values.dtype.names:
            _flatten(columns, f"{name}.{field}" if name else field, values[field])
    elif values.ndim > 1:
        if values[0:1].size > 4096:
            raise _WrongKind("more than 4096 columns: use array()")
        for at in range(values.shape[1]):
            _flatten(columns, f"{name or 'value'}[{at}]", values[:, at])
    else:
        name = name or "value"
        columns[f"value.{name}" if name in columns else name] = values

