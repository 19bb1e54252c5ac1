"""Topics and services of ROS 2 in shared memory, beside ``rclpy``.

:class:`Type` reads and writes messages of ROS 2 (CDR) where they lie. :class:`Bridge` carries the
topics and services that a program names between a domain and a node of ``rclpy``. ``for_topic``,
``for_publisher``, ``for_subscriber`` and ``profile_of`` map ROS 2's QoS to Outlive's options and back.

Types need the message's class; the bridge needs ``rclpy``. Both are in ROS 2's own packages.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from .. import _outlive
from .._bag import Recorder as _Recorder
from .._bag import Schema as _Schema
from .._ros import Array, Kind, Number, Struct, Text
from .._ros import INTEGERS as _INTEGERS
from .._ros import BadMessage as BadMessage
from .._ros import Encoding as _Encoding
from .._ros import Message as Message
from .._ros import Room as Room
from .._ros import fitting as _fitting
from .._ros import is_describable as _is_describable
from .._ros import payload_of as _payload_of
from ..errors import NotFound as _NotFound
from ._qos import for_publisher as for_publisher
from ._qos import for_subscriber as for_subscriber
from ._qos import for_topic as for_topic
from ._qos import profile_of as profile_of

#: The attributes of a topic of ROS 2; of a service, its type alone.
TYPE, DEFINITION = "ros2.type", "ros2.definition"

#: What is in front of each message on the wire: CDR, little-endian, no options.
HEAD = b"\x00\x01\x00\x00"
#: Fast CDR counts padding before empty arrays, and sends as many bytes more.
_MOST_PADDING = 64

_ENCODING = _Encoding(aligned=True)

_NUMBERS = {
    "boolean": "u1",
    "octet": "u1",
    "char": "u1",
    **_INTEGERS,
    "float": "f4",
    "double": "f8",
}


class Type:
    """A message type of ROS 2, by its class: ``Type(sensor_msgs.msg.Image)``.

    A message whose fields lie in CDR as C has them is a described payload. Any other one is CDR, as
    ROS 2 has it on the wire, with its four bytes of encapsulation in front.
    """

    def __init__(self, message_class: Any) -> None:
        self.message_class = message_class
        module = message_class.__module__.split(".")
        self.name = f"{module[0]}/{module[1]}/{message_class.__name__}"
        self.struct = _struct(message_class, self.name)

    @staticmethod
    def of_topic(name: str, domain: Any = None) -> Type:
        """Returns the type that a topic's attributes name. Its package has to be installed."""
        if not isinstance(domain, _outlive.Domain):
            domain = _outlive.Domain(domain)
        found = domain.attributes(name).get(TYPE)
        if found is None:
            raise LookupError(f"the attributes of {name!r} name no message type of ROS 2")
        return Type(_class(found))

    @property
    def dtype(self) -> Any:
        """numpy's type of a message, if its fields lie the same in all messages."""
        return _ENCODING.dtype(self.struct) if _is_describable(self.struct) else None

    @property
    def payload(self) -> Any:
        """What ``payload=`` of a topic takes."""
        dtype = self.dtype
        return f"cdr {self.name}" if dtype is None else _payload_of(self.name, dtype)

    @property
    def attributes(self) -> dict[str, str]:
        """The attributes of a topic with such messages. A definition that is too long is left out."""
        return _fitting({TYPE: self.name, DEFINITION: self.definition}, DEFINITION)

    def topic(self, name: str, domain: Any = None, **options: Any) -> _outlive.Topic:
        """Opens a topic of such messages, or makes it, with ``Topic``'s options."""
        if not isinstance(domain, _outlive.Domain):
            domain = _outlive.Domain(domain)
        attributes = self.attributes
        with suppress(_NotFound):
            if DEFINITION not in domain.attributes(name):
                # The program that has made it knows no definition.
                attributes.pop(DEFINITION, None)
        return _outlive.Topic(name, domain.with_attributes(attributes), payload=self.payload, **options)

    def read(self, data: Any) -> Message:
        """Returns the message in a sample, where it lies: arrays of numbers are numpy's views.

        Raises :class:`BadMessage` if the bytes are none: no length in them is taken on trust.
        """
        return _ENCODING.read(self.struct, self._body(data), _MOST_PADDING)

    def check(self, data: Any) -> None:
        """Raises :class:`BadMessage` if the bytes are no message of this type."""
        _ENCODING.check(self.struct, self._body(data), _MOST_PADDING)

    def message(self, data: Any) -> Any:
        """Returns a message of ``rclpy``'s, which has copies of what it holds."""
        from rclpy.serialization import deserialize_message

        return deserialize_message(self.to_wire(data), self.message_class)

    def publish(self, publisher: _outlive.Publisher, values: Any, *, timeout: float | None = None) -> None:
        """Publishes a message of ``rclpy``'s, or a dictionary, written where subscribers read it."""
        with self.loan(publisher, values, timeout=timeout):
            pass

    @contextmanager
    def loan(
        self, publisher: _outlive.Publisher, values: Any, *, timeout: float | None = None
    ) -> Iterator[Message]:
        """Lends a message with those values, which is published when the block ends.

        An array may be a :class:`Room`: the block fills it, ``message.data[:] = image``.
        """
        head = b"" if self.dtype is not None else HEAD
        size = len(head) + _ENCODING.size(self.struct, values)
        with publisher.loan((size,), "uint8", timeout=timeout) as memory:
            memory[: len(head)] = list(head)
            body = memory[len(head) :]
            _ENCODING.write(self.struct, values, body)
            yield _ENCODING.read(self.struct, body)

    def written(self, values: Any) -> bytes:
        """Returns the bytes of a message, as topics and services of the domain have them."""
        return (b"" if self.dtype is not None else HEAD) + bytes(_ENCODING.written(self.struct, values))

    @property
    def definition(self) -> str:
        """The definition of the message's fields, with all types that it uses, as ``.msg`` files have it.

        Constants, default values and comments are not in it: they are none of what a message holds.
        """
        texts: dict[str, str] = {}
        _define(self.message_class, self.name, texts)
        first, *others = texts.items()
        parts = (f"MSG: {name.replace('/msg/', '/')}\n{text}" for name, text in others)
        return f"\n{'=' * 80}\n".join([first[1], *parts])

    def to_wire(self, data: Any) -> bytes:
        """Returns a message of the domain as ``rclpy`` has it on the wire."""
        return HEAD + bytes(data) if self.dtype is not None else bytes(data)

    def from_wire(self, data: bytes) -> memoryview:
        """Returns the part of a message from the wire that the domain's topics have."""
        if data[:2] != HEAD[:2]:
            raise BadMessage(f"a message of {self.name} is not little-endian CDR: it begins with {data[:4]!r}")
        dtype = self.dtype
        if dtype is None:
            return memoryview(data)
        if not 0 <= len(data) - len(HEAD) - dtype.itemsize <= _MOST_PADDING:
            raise BadMessage(f"a message of {self.name} has {len(data)} bytes")
        return memoryview(data)[len(HEAD) : len(HEAD) + dtype.itemsize]

    def _body(self, data: Any) -> memoryview:
        view = memoryview(data).cast("B")
        if self.dtype is not None:
            return view
        if bytes(view[:2]) != HEAD[:2] or len(view) < len(HEAD):
            raise BadMessage(f"a message of {self.name} is not little-endian CDR")
        return view[len(HEAD) :]

    def __repr__(self) -> str:
        return f"<Type {self.name}>"


#: As a definition calls what rosidl calls so.
_IN_DEFINITIONS = {"boolean": "bool", "octet": "byte", "char": "uint8", "float": "float32", "double": "float64"}
_SEQUENCE = re.compile(r"sequence<(.+?)(?:, (\d+))?>$")
_ARRAY = re.compile(r"(.+)\[(\d+)\]$")
_BOUNDED = re.compile(r"(w?string)<(\d+)>$")


def _define(message_class: Any, name: str, texts: dict[str, str]) -> None:
    """Adds a type's own lines, and those of all types that it uses."""
    if name in texts:
        return
    lines = [f"{_in_definition(of)} {field}" for field, of in message_class.get_fields_and_field_types().items()]
    texts[name] = "\n".join(lines)
    for of in message_class.SLOT_TYPES:
        of = getattr(of, "value_type", of)
        if type(of).__name__ == "NamespacedType":
            used = "/".join((*of.namespaces, of.name))
            _define(_class(used), used, texts)


def _in_definition(of: str) -> str:
    if found := _SEQUENCE.match(of):
        item, most = found.groups()
        return f"{_in_definition(item)}[{'<=' + most if most else ''}]"
    if found := _ARRAY.match(of):
        return f"{_in_definition(found[1])}[{found[2]}]"
    if found := _BOUNDED.match(of):
        return f"{found[1]}<={found[2]}"
    return _IN_DEFINITIONS.get(of, of)


def record(path: Any, topics: Any, domain: Any = None, *, reliable: bool = False) -> _Recorder:
    """Begins to record topics with messages of ROS 2 in an MCAP file, which must not be there.

    ``topics`` are names, or a dictionary of each one's name in ROS; a topic ``camera.left`` is else
    ``/camera/left``. Each has to be there, with its type among its attributes, and the type's package is
    to be installed. The file has the profile ``ros2``, and ``rosbags`` and ROS's own tools read it.
    Publishers wait for a recorder that is ``reliable``, and else ``lost`` counts.
    """

    def schema_of(name: str, domain: _outlive.Domain) -> _Schema:
        of = Type.of_topic(name, domain)
        return _Schema(of.name, of.definition, {"offered_qos_profiles": ""}, of.to_wire)

    return _Recorder(path, topics, domain, "ros2", schema_of, reliable)


def _class(name: str) -> Any:
    package, kind, of = name.split("/")
    if kind not in ("msg", "srv") or not all(part.isidentifier() for part in (package, of)):
        raise LookupError(f"{name!r} is no type of ROS 2: 'sensor_msgs/msg/Image' is")
    return getattr(importlib.import_module(f"{package}.{kind}"), of)


def _struct(message_class: Any, name: str) -> Struct:
    fields = list(message_class.get_fields_and_field_types())
    found = [(field, _kind(of)) for field, of in zip(fields, message_class.SLOT_TYPES)]
    if not found:
        # rosidl gives a message without fields one byte.
        found = [("structure_needs_at_least_one_member", Number("u1"))]
    return Struct(name, tuple(found))


def _kind(of: Any) -> Kind:
    """Returns what rosidl says of a field."""
    kind = type(of).__name__
    if kind == "BasicType" and of.typename in _NUMBERS:
        return Number(_NUMBERS[of.typename])
    if kind in ("UnboundedString", "BoundedString"):
        return Text()
    if kind == "NamespacedType":
        name = "/".join((*of.namespaces, of.name))
        return _struct(_class(name), name)
    if kind in ("Array", "BoundedSequence", "UnboundedSequence"):
        item = _kind(of.value_type)
        assert not isinstance(item, Array)
        length = of.size if kind == "Array" else None
        return Array(item, length, of.maximum_size if kind == "BoundedSequence" else None)
    raise LookupError(f"a field is of {kind} {getattr(of, 'typename', '')}, which has no counterpart here")


def __getattr__(name: str) -> Any:
    # The bridge imports rclpy, and types do not.
    if name == "Bridge":
        from ._bridge import Bridge

        return Bridge
    raise AttributeError(f"module 'outlive.ros2' has no attribute {name!r}")
