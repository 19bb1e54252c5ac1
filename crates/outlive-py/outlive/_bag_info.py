"""What a recording holds: ``outlive.bag.Reader.info``."""

from __future__ import annotations

from dataclasses import dataclass as _dataclass

#: The topic of what happened to a recording: the recorder's own, none that it has recorded.
EVENTS = "outlive/events"


def recorded(topic: str) -> bool:
    """Whether a topic was recorded. The recorder's own counts neither as messages nor in times."""
    return topic != EVENTS


@_dataclass(frozen=True)
class TopicInfo:
    """A topic of a file."""

    topic: str
    #: The schema's name; None without a schema.
    schema: str | None
    #: ``"ros2msg"``, ``"ros1msg"``, ``"jsonschema"``; None without a schema.
    schema_encoding: str | None
    #: The schema's text; None without a schema.
    schema_data: bytes | None
    #: ``"cdr"``, ``"json"``, ``"msgpack"``; ``""`` of bytes and arrays.
    encoding: str
    #: What its messages are, if the topic describes them: ``"Pose { x: f64 }"``.
    payload: str | None
    messages: int
    #: The first and the last log time; None without a message.
    first: int | None
    last: int | None
    #: What the topic was made with, and its attributes.
    metadata: dict[str, str]


@_dataclass(frozen=True)
class Death:
    """A publisher that died while it was recorded."""

    topic: str
    log_time: int
    pid: int
    program: str


@_dataclass(frozen=True)
class Info:
    """What a file holds: ``Reader.info``."""

    path: str
    bytes: int
    profile: str
    #: What wrote it.
    library: str
    #: Whether the file has its end. Without it, its writer lives, or died.
    finished: bool
    #: By name.
    topics: dict[str, TopicInfo]
    #: Those that were recorded, in all topics but ``outlive/events``.
    messages: int
    #: Their first and last log time; None without a message.
    first: int | None
    last: int | None
    #: How many messages were overwritten before they were recorded, by topic.
    lost: dict[str, int]
    deaths: list[Death]
    #: Metadata of the file: names and texts. Of a finished file without attachments it is not read.
    metadata: list[tuple[str, dict[str, str]]]
    #: Attachments: name, media type, bytes.
    attachments: list[tuple[str, str, int]]
    #: What is damaged.
    faults: list[str]

    @property
    def seconds(self) -> float:
        """From the first message to the last one."""
        return 0.0 if self.first is None or self.last is None else (self.last - self.first) / 1e9

    def __str__(self) -> str:
        state = "" if self.finished else ", not finished"
        messages = _counted(self.messages, "message")
        lines = [f"{self.path}: {messages} in {self.seconds:.3f} s, a file of {self.bytes} bytes{state}"]
        for topic in self.topics.values():
            if recorded(topic.topic):
                what = topic.payload or topic.schema or topic.encoding or _array_of(topic) or "bytes"
                lines.append(f"  {topic.topic}: {_counted(topic.messages, 'message')}, {what}")
            else:
                lines.append(f"  {_counted(topic.messages, 'event')} of the recorder: Reader.events()")
        lines += [f"  {count} messages of {topic} were lost" for topic, count in self.lost.items()]
        lines += [f"  a publisher of {death.topic} died: {death.pid} {death.program}" for death in self.deaths]
        return "\n".join(lines + [f"  {fault}" for fault in self.faults])


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _array_of(topic: TopicInfo) -> str | None:
    dtype, shape = topic.metadata.get("outlive.dtype"), topic.metadata.get("outlive.shape", "of several shapes")
    return dtype and f"{dtype} [{shape}]"


def together(one: TopicInfo, other: TopicInfo) -> TopicInfo:
    """A topic has a channel for each layout of its arrays."""
    firsts = [first for first in (one.first, other.first) if first is not None]
    lasts = [last for last in (one.last, other.last) if last is not None]
    counts = {"messages": one.messages + other.messages}
    times = {"first": min(firsts, default=None), "last": max(lasts, default=None)}
    metadata = {key: value for key, value in one.metadata.items() if other.metadata.get(key) == value}
    more = one if one.messages else other
    return TopicInfo(**{**vars(more), **counts, **times, "metadata": metadata})
