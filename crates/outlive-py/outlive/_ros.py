"""Messages of ROS 1 and ROS 2 as they lie in memory; used by ``outlive.ros1`` and ``outlive.ros2``.

Both put a message's fields one after the other, texts and arrays behind their lengths. ROS 1 leaves
no gaps, and CDR (ROS 2) aligns each number to its size. A reader takes no length on trust: each one
is compared with the bytes that are there.
"""

from __future__ import annotations

from dataclasses import dataclass as _dataclass
from functools import lru_cache as _lru_cache
from typing import Any as _Any
from typing import Iterator as _Iterator

from ._numpy import numpy as _imported_numpy
from .errors import BadMessage as BadMessage

_numpy = _imported_numpy()

__all__ = ["Array", "BadMessage", "Encoding", "Message", "Number", "Room", "Struct", "Text", "payload_of"]

#: What both call by its size, as numpy does.
INTEGERS = {
    "int8": "i1",
    "uint8": "u1",
    "int16": "i2",
    "uint16": "u2",
    "int32": "i4",
    "uint32": "u4",
    "int64": "i8",
    "uint64": "u8",
}

#: No definition is nested deeper; one that says so would otherwise exhaust the reader's stack.
MOST_DEPTH = 32

#: Items without fields take no bytes, so a message of few bytes could name any number of them.
_MOST_EMPTY = 1 << 16

#: What a description of Outlive's may hold.
_DESCRIBED_DEPTH = 8


@_dataclass(frozen=True)
class Number:
    """A number: ``code`` is numpy's, as ``"f4"``."""

    code: str


@_dataclass(frozen=True)
class Text:
    """A text: 4 bytes of length, then UTF-8, with a zero byte at its end in CDR."""


@_dataclass(frozen=True)
class Array:
    """An array; ``length`` is ``None`` where each message has its own, of at most ``most`` items."""

    of: Number | Text | Struct
    length: int | None = None
    most: int | None = None


@_dataclass(frozen=True)
class Struct:
    """A message's fields; ``name`` is its type's, as ``"geometry_msgs/Pose"``."""

    name: str
    fields: tuple[tuple[str, Kind], ...]


Kind = Number | Text | Array | Struct


class Room:
    """In place of an array's items: room for so many, which the program fills in the message."""

    def __init__(self, items: int) -> None:
        self.items = items

    def __len__(self) -> int:
        return self.items

    def __repr__(self) -> str:
        return f"Room({self.items})"


class Message:
    """A message that is read where it lies: fields are attributes.

    Arrays of numbers, and of structs of fixed length, are numpy's views of the message's own memory.
    Single numbers and texts are values; nested messages are of this class, too.
    """

    __slots__ = ("_fields", "_name")

    def __init__(self, name: str, fields: dict[str, _Any]) -> None:
        self._name, self._fields = name, fields

    def __getattr__(self, name: str) -> _Any:
        try:
            return self._fields[name]
        except KeyError:
            raise AttributeError(f"{self._name} has no field {name!r}") from None

    def __getitem__(self, name: str) -> _Any:
        return self._fields[name]

    def __iter__(self) -> _Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __repr__(self) -> str:
        return f"<{self._name}: {', '.join(self._fields)}>"


@_dataclass(frozen=True)
class Encoding:
    """How a message lies in its bytes: ``aligned`` is CDR, and not ROS 1."""

    aligned: bool

    def dtype(self, kind: Kind) -> _Any:
        """Returns numpy's type of a value, if all values take the same bytes; or ``None``.

        In CDR that holds of a struct only if it lies the same wherever it begins: its first number
        wants the largest alignment, and no padding follows its last one.
        """
        try:
            return self._dtype(kind)
        except (ValueError, OverflowError) as error:
            raise BadMessage(f"a value has more bytes than a message: {error}") from None

    @_lru_cache(maxsize=4096)
    def _dtype(self, kind: Kind) -> _Any:
        if isinstance(kind, Number):
            return _numpy.dtype("<" + kind.code)
        if isinstance(kind, Array):
            item = self._dtype(kind.of) if kind.length is not None else None
            return None if item is None else _numpy.dtype((item, (kind.length,)))
        if isinstance(kind, Text):
            return None
        parts = [(name, self._dtype(of)) for name, of in kind.fields]
        if not parts or any(of is None for _, of in parts):
            return None
        dtype: _Any = _numpy.dtype(parts, align=self.aligned)
        if self.aligned:
            last, at = dtype.fields[dtype.names[-1]][:2]
            if _alignment(parts[0][1]) != dtype.alignment or at + last.itemsize != dtype.itemsize:
                return None
        return dtype

    def with_tail(self, kind: Struct) -> _Any:
        """Returns numpy's type of a message that is fixed but for its last field, which is an array
        of any length or a text; or ``None``.

        The type's tail has the items, and ``NAME_length`` their number, which the message has, too.
        """
        if self.aligned or not kind.fields:
            return None
        *head, (name, last) = kind.fields
        if isinstance(last, Text):
            item: _Any = _numpy.dtype("u1")
        elif isinstance(last, Array) and last.length is None:
            item = self.dtype(last.of)
        else:
            return None
        parts = [(one, self.dtype(of)) for one, of in head]
        if item is None or any(of is None for _, of in parts):
            return None
        parts.append((name + "_length", _numpy.dtype("<u4")))
        size = sum(of.itemsize for _, of in parts)
        # A description's tail is aligned; another one is read in place all the same.
        if size % _natural(item) or len({one for one, _ in parts}) < len(parts):
            return None
        return _numpy.dtype([*parts, (name, item, (0,))])

    def read(self, kind: Struct, data: _Any, padding: int = 0) -> Message:
        """Returns the message in those bytes, where they lie; so many more may follow it."""
        reader = _Reader(self, memoryview(data).cast("B"))
        message = reader.value(kind, 0)
        reader.end(padding)
        return message  # type: ignore[no-any-return]

    def check(self, kind: Struct, data: _Any, padding: int = 0) -> None:
        """Raises :class:`BadMessage` if the bytes are no message of that type."""
        reader = _Reader(self, memoryview(data).cast("B"))
        reader.passes(kind, 0)
        reader.end(padding)

    def size(self, kind: Struct, values: _Any) -> int:
        """Returns how many bytes a message with those values takes."""
        writer = _Writer(self, None)
        writer.value(kind, values)
        return writer.at

    def write(self, kind: Struct, values: _Any, into: _Any) -> None:
        """Writes the values into memory of exactly as many bytes; a :class:`Room` stays as it is."""
        writer = _Writer(self, memoryview(into).cast("B"))
        writer.value(kind, values)

    def written(self, kind: Struct, values: _Any) -> bytearray:
        """Returns the bytes of a message with those values."""
        data = bytearray(self.size(kind, values))
        self.write(kind, values, data)
        return data


def _alignment(dtype: _Any) -> int:
    return _alignment(dtype.base) if dtype.subdtype else int(dtype.alignment)


def _natural(dtype: _Any) -> int:
    """Returns the alignment that a description gives an item."""
    from ._payload import _alignment as of

    return of(dtype)


class _Reader:
    """Goes through a message's bytes. Each step checks that they are there."""

    def __init__(self, encoding: Encoding, data: memoryview) -> None:
        self.encoding, self.data, self.at = encoding, data, 0
        self.empty = 0

    def take(self, size: int) -> int:
        at = self.at
        if size > len(self.data) - at:
            raise BadMessage(f"the message ends after {len(self.data)} bytes, within a field")
        self.at = at + size
        return at

    def align(self, to: int) -> None:
        if self.encoding.aligned:
            self.at += -self.at % to

    def end(self, padding: int) -> None:
        if self.at + padding < len(self.data):
            raise BadMessage(f"{len(self.data) - self.at} bytes follow the message")

    def length(self) -> int:
        self.align(4)
        at = self.take(4)
        return int.from_bytes(self.data[at : at + 4], "little")

    def items(self, kind: Array) -> int:
        """Returns how many items follow. Each takes a byte at least, so a length beyond the
        message's end is refused before anything is made for it."""
        count = kind.length
        if count is None:
            count = self.length()
            if kind.most is not None and count > kind.most:
                raise BadMessage(f"an array of at most {kind.most} items has {count}")
        if _is_empty(kind.of):
            self.empty += count
            if self.empty > _MOST_EMPTY:
                raise BadMessage(f"the message has {self.empty} items without fields")
        elif count > len(self.data) - self.at:
            raise BadMessage(f"an array of {count} items lies in {len(self.data)} bytes")
        return count

    def array(self, dtype: _Any, count: int) -> _Any:
        if count:
            self.align(dtype.alignment)
        at = self.take(dtype.itemsize * count)
        return _numpy.frombuffer(self.data, dtype, count, at) if count else _numpy.empty(0, dtype)

    def value(self, kind: Kind, depth: int) -> _Any:
        if isinstance(kind, Number):
            dtype = _numpy.dtype("<" + kind.code)
            self.align(dtype.itemsize)
            return _numpy.frombuffer(self.data, dtype, 1, self.take(dtype.itemsize))[0].item()
        if isinstance(kind, Text):
            return self.text()
        if depth > MOST_DEPTH:
            raise BadMessage("the definition is nested too deep")
        if isinstance(kind, Struct):
            return Message(kind.name, {name: self.value(of, depth + 1) for name, of in kind.fields})
        count = self.items(kind)
        dtype = self.encoding.dtype(kind.of)
        if dtype is not None:
            return self.array(dtype, count)
        return [self.value(kind.of, depth + 1) for _ in range(count)]

    def text(self) -> str:
        size = self.length()
        at = self.take(size)
        data = bytes(self.data[at : at + size])
        if self.encoding.aligned:
            data = data.removesuffix(b"\0")
        return data.decode(errors="replace")

    def passes(self, kind: Kind, depth: int) -> None:
        """Goes over a value without making it."""
        if isinstance(kind, Struct) and depth > MOST_DEPTH:
            raise BadMessage("the definition is nested too deep")
        if isinstance(kind, Number):
            size = int(kind.code[1:])
            self.align(size)
            self.take(size)
        elif isinstance(kind, Text):
            self.take(self.length())
        elif isinstance(kind, Struct):
            for _, of in kind.fields:
                self.passes(of, depth + 1)
        else:
            count = self.items(kind)
            dtype = self.encoding.dtype(kind.of)
            if dtype is None:
                for _ in range(count):
                    self.passes(kind.of, depth + 1)
            elif count:
                self.align(dtype.alignment)
                self.take(dtype.itemsize * count)


def _is_empty(kind: Kind) -> bool:
    return isinstance(kind, Struct) and all(_is_empty(of) for _, of in kind.fields)


class _Writer:
    """Writes values, or counts the bytes that they will take (``data`` is ``None``)."""

    def __init__(self, encoding: Encoding, data: memoryview | None) -> None:
        self.encoding, self.data, self.at = encoding, data, 0

    def put(self, data: _Any) -> None:
        size = len(data)
        if self.data is not None:
            self.data[self.at : self.at + size] = data
        self.at += size

    def align(self, to: int) -> None:
        if self.encoding.aligned:
            self.put(bytes(-self.at % to))

    def length(self, count: int) -> None:
        if count >= 1 << 32:
            raise BadMessage(f"an array has {count} items")
        self.align(4)
        self.put(count.to_bytes(4, "little"))

    def value(self, kind: Kind, value: _Any) -> None:
        if isinstance(kind, Number):
            dtype = _numpy.dtype("<" + kind.code)
            self.align(dtype.itemsize)
            if isinstance(value, bytes):
                # A single octet of ROS 2.
                value = value[0] if value else 0
            self.put(_numpy.array(value).astype(dtype, casting="unsafe").tobytes())
        elif isinstance(kind, Text):
            data = value if isinstance(value, bytes) else str(value).encode()
            data += b"\0" if self.encoding.aligned else b""
            self.length(len(data))
            self.put(data)
        elif isinstance(kind, Struct):
            self.fields(kind, value)
        else:
            self.items(kind, value)

    def fields(self, kind: Struct, value: _Any) -> None:
        given = _mapping(value)
        if given is not None:
            unknown = set(given) - {name for name, _ in kind.fields}
            if unknown:
                raise BadMessage(f"{kind.name} has no field {min(unknown)!r}")
        for name, of in kind.fields:
            if given is None:
                one = getattr(value, name, None)
                if one is None:
                    # rosidl gives a message without fields a byte that its class does not have.
                    one = nothing(of)
            else:
                one = given[name] if name in given else nothing(of)
            self.value(of, one)

    def items(self, kind: Array, value: _Any) -> None:
        if isinstance(value, str):
            value = value.encode()
        if isinstance(value, (bytes, bytearray, memoryview)):
            value = _numpy.frombuffer(value, "u1")
        dtype = self.encoding.dtype(kind.of)
        if isinstance(kind.of, Number) and not isinstance(value, Room):
            # Numbers of any type of numpy's, and of any shape: an image is one, too.
            value = _numpy.asarray(value, None if hasattr(value, "dtype") else dtype).reshape(-1)
        count = len(value)
        if kind.length is None:
            if kind.most is not None and count > kind.most:
                raise BadMessage(f"an array of at most {kind.most} items is given {count}")
            self.length(count)
        elif count != kind.length:
            raise BadMessage(f"an array of {kind.length} items is given {count}")
        if dtype is None:
            if isinstance(value, Room):
                raise BadMessage("there is room only for items of fixed length")
            for one in value:
                self.value(kind.of, one)
            return
        if count:
            self.align(dtype.alignment)
        size = dtype.itemsize * count
        if self.data is not None and count and not isinstance(value, Room):
            target = _numpy.frombuffer(self.data, dtype, count, self.at)
            if isinstance(kind.of, Number) or getattr(value, "dtype", None) == dtype:
                _numpy.copyto(target, value, casting="unsafe")
            else:
                for one in value:
                    self.value(kind.of, one)
                return
        self.at += size


def _mapping(value: _Any) -> dict[str, _Any] | None:
    """Returns the fields of what is a mapping or a record of numpy's; ``None`` of other objects."""
    if isinstance(value, dict):
        return value
    if isinstance(value, Message):
        return value._fields
    names = getattr(getattr(value, "dtype", None), "names", None)
    return {name: value[name] for name in names} if names else None


def nothing(kind: Kind) -> _Any:
    """Returns the value of a field that was not given: zero, as ROS has it."""
    if isinstance(kind, Number):
        return 0
    if isinstance(kind, Text):
        return ""
    if isinstance(kind, Array):
        return [nothing(kind.of)] * (kind.length or 0)
    return {}


def payload_of(name: str, dtype: _Any) -> _Any:
    """Returns what ``payload=`` takes: a described type of that name."""
    return type("Payload", (), {"__outlive_payload__": (name, dtype)})


#: All attributes of a thing, and four bytes for each, take at most so many bytes.
_MOST_ATTRIBUTES = 4080


def fitting(attributes: dict[str, str], longest: str) -> dict[str, str]:
    """Returns attributes that a thing has room for: without that one if they are too long with it."""
    if sum(len(key) + len(value.encode()) + 4 for key, value in attributes.items()) > _MOST_ATTRIBUTES:
        del attributes[longest]
    return attributes


def depth(kind: Kind) -> int:
    """Returns how deep structs are nested in a type."""
    if isinstance(kind, Array):
        return depth(kind.of)
    return 1 + max((depth(of) for _, of in kind.fields), default=0) if isinstance(kind, Struct) else 0


def is_describable(kind: Struct) -> bool:
    """Whether a description of Outlive's can hold the type, if its layout is fixed."""
    return depth(kind) <= _DESCRIBED_DEPTH
