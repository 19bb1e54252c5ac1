"""Topics and services of ROS 1 in shared memory, and messages of ROS 1 without ROS.

``outlive ros1 bridge`` carries topics and services between a domain and a ROS 1 graph. This module
reads and writes what it carries, and needs numpy and no ROS: :class:`Type` knows a message type by
its definition, which the topic's attributes have.

>>> point = Type("geometry_msgs/Point", "float64 x\\nfloat64 y\\nfloat64 z")
>>> point.md5sum
'4a842b65f413084dc2b10fb484ea7f17'
>>> topic = point.topic("where", folder)
>>> subscriber = topic.subscriber()
>>> topic.publisher().publish({"x": 1.0, "y": 2.0, "z": 3.0})
0
>>> float(subscriber.recv().numpy()["y"])       # all languages see the fields, where they lie
2.0
>>> text = Type("std_msgs/Header", "uint32 seq\\ntime stamp\\nstring frame_id\\nfloat32[] ranges")
>>> data = text.written({"frame_id": "laser", "ranges": [0.5, 1.5]})
>>> text.read(data).ranges                      # a view of the message's own bytes
array([0.5, 1.5], dtype=float32)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .. import _outlive
from .._bag import Recorder as _Recorder
from .._bag import Schema as _Schema
from .._ros import BadMessage as BadMessage
from .._ros import Encoding as _Encoding
from .._ros import Message as Message
from .._ros import Room as Room
from .._ros import fitting as _fitting
from .._ros import is_describable as _is_describable
from .._ros import payload_of as _payload_of
from ._definition import Definition as _Definition

#: The attributes of a topic or service of ROS 1.
TYPE, MD5, DEFINITION = "ros1.type", "ros1.md5sum", "ros1.definition"

_ENCODING = _Encoding(aligned=False)


class Type:
    """A message type of ROS 1, by its name and its definition.

    The definition is a message definition as ROS programs send it to each other: the types that it
    uses follow it, each behind a line of ``=``. ``Type.of_topic`` takes both from a topic.
    """

    def __init__(self, name: str, definition: str) -> None:
        self.name = name
        self._definition = _Definition(name, definition)
        self.struct = self._definition.struct

    @staticmethod
    def installed(name: str) -> Type:
        """Returns a type of ROS's own packages, which are to be installed."""
        import roslib.message

        found = roslib.message.get_message_class(name)
        if found is None:
            raise LookupError(f"ROS has no message type {name!r} on this machine")
        return Type(name, found._full_text)

    @staticmethod
    def of_topic(name: str, domain: Any = None) -> Type:
        """Returns the type of a topic's messages, from the topic's attributes."""
        if not isinstance(domain, _outlive.Domain):
            domain = _outlive.Domain(domain)
        attributes = domain.attributes(name)
        if TYPE not in attributes or DEFINITION not in attributes:
            raise LookupError(f"the attributes of {name!r} name no message type of ROS 1")
        return Type(attributes[TYPE], attributes[DEFINITION])

    @property
    def md5sum(self) -> str:
        """ROS's checksum of the definition; two programs with another one do not connect."""
        return self._definition.md5sum

    @property
    def definition(self) -> str:
        """The definition without comments, with all types that it uses."""
        return self._definition.text

    @property
    def dtype(self) -> Any:
        """numpy's type of a message, if its fields lie the same in all messages, but for a tail."""
        if not _is_describable(self.struct):
            return None
        fixed = _ENCODING.dtype(self.struct)
        return _ENCODING.with_tail(self.struct) if fixed is None else fixed

    @property
    def payload(self) -> Any:
        """What ``payload=`` of a topic takes: the fields, or that a message is ROS's bytes."""
        dtype = self.dtype
        return f"bytes {self.name}" if dtype is None else _payload_of(self.name, dtype)

    @property
    def attributes(self) -> dict[str, str]:
        """The attributes of a topic with such messages. A definition that is too long is left out."""
        return _fitting({TYPE: self.name, MD5: self.md5sum, DEFINITION: self.definition}, DEFINITION)

    def topic(self, name: str, domain: Any = None, **options: Any) -> _outlive.Topic:
        """Opens a topic of such messages, or makes it, with ``Topic``'s options."""
        if not isinstance(domain, _outlive.Domain):
            domain = _outlive.Domain(domain)
        return _outlive.Topic(name, domain.with_attributes(self.attributes), payload=self.payload, **options)

    def read(self, data: Any) -> Message:
        """Returns the message in a sample or in other bytes, where they lie.

        Raises :class:`BadMessage` if they are none: no length in them is taken on trust.
        """
        return _ENCODING.read(self.struct, data)

    def check(self, data: Any) -> None:
        """Raises :class:`BadMessage` if the bytes are no message of this type."""
        _ENCODING.check(self.struct, data)

    def written(self, values: Any) -> bytearray:
        """Returns the bytes of a message. Fields that are not given are zero, as in ROS."""
        return _ENCODING.written(self.struct, values)

    def publish(self, publisher: _outlive.Publisher, values: Any, *, timeout: float | None = None) -> None:
        """Publishes a message, written where the subscribers read it."""
        with self.loan(publisher, values, timeout=timeout):
            pass

    @contextmanager
    def loan(
        self, publisher: _outlive.Publisher, values: Any, *, timeout: float | None = None
    ) -> Iterator[Message]:
        """Lends a message with those values, which is published when the block ends.

        An array may be a :class:`Room`: the block fills it, ``message.data[:] = image``.
        """
        size = _ENCODING.size(self.struct, values)
        with publisher.loan((size,), "uint8", timeout=timeout) as memory:
            _ENCODING.write(self.struct, values, memory)
            yield _ENCODING.read(self.struct, memory)

    def __repr__(self) -> str:
        return f"<Type {self.name} {self.md5sum}>"


def record(path: Any, topics: Any, domain: Any = None, *, reliable: bool = False) -> _Recorder:
    """Begins to record topics with messages of ROS 1 in an MCAP file, which must not be there.

    ``topics`` are names, or a dictionary of each one's name in ROS; a topic ``camera.left`` is else
    ``/camera/left``. Each has to be there, with its definition among its attributes. The file has the
    profile ``ros1``. Publishers wait for a recorder that is ``reliable``, and else ``lost`` counts.
    """

    def schema_of(name: str, domain: _outlive.Domain) -> _Schema:
        of = Type.of_topic(name, domain)
        return _Schema(of.name, of.definition, {"md5sum": of.md5sum}, bytes)

    return _Recorder(path, topics, domain, "ros1", schema_of, reliable)
