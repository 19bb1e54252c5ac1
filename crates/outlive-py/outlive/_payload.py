"""Types of messages, read from numpy's types and from classes; used by ``payload=``."""

from __future__ import annotations

import dataclasses as _dataclasses
import re as _re
import sys as _sys
from typing import Any as _Any

from ._numpy import numpy as _numpy

_NUMBERS = {
    "bool": "?",
    "u8": "u1",
    "i8": "i1",
    "u16": "u2",
    "i16": "i2",
    "u32": "u4",
    "i32": "i4",
    "u64": "u8",
    "i64": "i8",
    "f32": "f4",
    "f64": "f8",
}
_NAMES = {(code if code != "?" else "b1"): name for name, code in _NUMBERS.items()}
_ENCODINGS = ("msgpack", "cdr", "protobuf", "json", "bytes")
_TEXT = _re.compile(r"^text\[(\d+)\]$")
_LIST = _re.compile(r"^list\[([\w.]+)\]\[(\d+)\]$")
_TAIL = _re.compile(r"^tail\[(.+)\]$")
_ARRAY = _re.compile(r"^([A-Za-z_][\w.]*)((?:\[\d+\])*)$")


def payload(cls: _Any = None, *, name: str | None = None) -> _Any:
    """Makes the objects of a class messages with fields that every language sees.

    The class becomes a dataclass. Its fields are annotated with numbers (``"f64"``, ``"u8"``, a type
    of numpy's, ``float``, ``int``, ``bool``), with other such classes, and with arrays of both:
    ``"f64[3]"``, or a pair of type and length; a text of at most 32 bytes is ``"text[32]"``, a list
    of at most 16 items ``"list[Point][16]"``: ``outlive.text`` and ``outlive.items`` read them. The
    last field may be a tail, any number of items: ``"tail[Point]"``. They lie in memory as C has
    them. A ``ctypes`` structure stays as it is. ``name``: the type's name, if it is not the class's.

    >>> @outlive.payload
    ... class Pose:
    ...     position: "f64[3]"
    ...     frame: "u32"
    >>> topic = Topic("pose", folder, payload=Pose)
    >>> subscriber = topic.subscriber()
    >>> topic.publisher().publish(Pose([1.0, 2.0, 3.0], 7))
    0
    >>> pose = subscriber.recv().numpy()            # where it lies, read-only
    >>> pose["position"].tolist(), int(pose["frame"])
    ([1.0, 2.0, 3.0], 7)
    """
    if cls is None:
        return lambda cls: payload(cls, name=name)
    numpy = _numpy()

    if hasattr(cls, "_fields_"):
        dtype = numpy.dtype(cls)
    else:
        if not _dataclasses.is_dataclass(cls):
            cls = _dataclasses.dataclass(cls)
        module = _sys.modules.get(cls.__module__)
        known = vars(module) if module else {}
        fields = [(one.name, *_annotated(one.type, known)) for one in _dataclasses.fields(cls)]
        dtype = numpy.dtype(fields, align=True)
    cls.__outlive_payload__ = (name or cls.__name__, dtype)
    return cls


def _annotated(annotation: _Any, known: dict[str, _Any]) -> tuple[_Any, tuple[int, ...]]:
    """Returns what an annotation says, as numpy's type and shape."""
    numpy = _numpy()

    shape: tuple[int, ...] = ()
    if isinstance(annotation, tuple):
        annotation, shape = annotation
        shape = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    if isinstance(annotation, str):
        text = annotation.strip().strip("\"'")
        if match := _TAIL.match(text):
            item, extents = _annotated(match[1], known)
            return (item, (0, *extents))
        if match := _TEXT.match(text):
            if int(match[1]) % 4:
                raise TypeError(f"{annotation!r} has no place in C: a text has room for a multiple of 4 bytes")
            fields = [("length", "u4"), ("bytes", "u1", (int(match[1]),))]
            return (numpy.dtype(fields, align=True), shape)
        if match := _LIST.match(text):
            item, extents = _annotated(match[1], known)
            items = ("items", item, (int(match[2]), *extents))
            dtype = numpy.dtype([("length", "u8"), items], align=True)
            if dtype["items"].itemsize % 8:
                raise TypeError(f"{annotation!r}: the items of a list take a multiple of 8 bytes")
            return (dtype, shape)
        match = _ARRAY.match(text)
        if match is None:
            raise TypeError(f"{annotation!r} is no type of a field: 'f64' is, or 'Point[4]'")
        shape += tuple(int(extent) for extent in _re.findall(r"\d+", match[2]))
        annotation = _NUMBERS.get(match[1]) or _found(match[1], known)
    of_class = getattr(annotation, "__outlive_payload__", None)
    dtype = of_class[1] if of_class else numpy.dtype(annotation)
    return (dtype, shape)


def _found(name: str, known: dict[str, _Any]) -> _Any:
    first, *rest = name.split(".")
    builtins = {"float": float, "int": int, "bool": bool}
    found = known.get(first, builtins.get(first))
    for part in rest:
        found = getattr(found, part, None)
    if found is None:
        raise TypeError(f"there is no type '{name}' for a field")
    return found


def spec(given: _Any) -> tuple[str, str, bool, _Any, _Any]:
    """Returns encoding, name, whether it is of slices, and of raw values (size, alignment, fields)
    and the tail."""
    if isinstance(given, str) and given.split(maxsplit=1)[:1] and given.split()[0] in _ENCODINGS:
        encoding, _, name = given.partition(" ")
        return (encoding, name.strip(), False, None, None)
    is_slice = isinstance(given, list) and len(given) == 1 and not isinstance(given[0], tuple)
    if is_slice:
        (given,) = given
    match = _ARRAY.match(given) if isinstance(given, str) else None
    if match and match[1] in _NUMBERS:
        name, given = "", _annotated(given, {})
    else:
        # A structure of ctypes has the name of its class.
        name = getattr(given, "__name__", "") if hasattr(given, "_fields_") else ""
        name, given = getattr(given, "__outlive_payload__", (name, given))
    numpy = _numpy()

    try:
        dtype = numpy.dtype(given)
    except TypeError as error:
        if not isinstance(given, str):
            raise
        encodings = ", ".join(sorted(_ENCODINGS))
        raise TypeError(
            f"{given!r} is no payload: give an encoding ({encodings}), which a name may follow, a type of "
            "numpy's, or a class with @outlive.payload"
        ) from error
    shape = _struct(dtype) if dtype.names else None
    if shape is None:
        extents, of = _item(dtype)
        shape = (dtype.itemsize, _alignment(dtype), [("", 0, extents, of)])
        return ("raw", name, is_slice, shape, None)
    tail = None
    if tail_name(dtype):
        name_of_tail, offset, extents, of = shape[2].pop()
        tail = (name_of_tail, offset, extents[1:], of)
    return ("raw", name, is_slice, shape, tail)


def tail_name(dtype: _Any) -> str | None:
    """Returns the name of the last field, if it is an array without items: a tail."""
    last = dtype.names[-1] if dtype.names else None
    is_tail = last is not None and (dtype.fields[last][0].shape or (1,))[0] == 0
    return last if is_tail else None


def with_tail(dtype: _Any, count: int) -> _Any:
    """Returns the type of a message that has so many items in its tail: for a loan, or an array.

    >>> path = np.dtype([("robot", "u8"), ("points", "f4", (0,))])
    >>> outlive.with_tail(path, 3)["points"].shape
    (3,)
    """
    last = tail_name(dtype)
    if last is None:
        raise TypeError(f"{dtype} has no tail: a last field that is an array without items")
    fields = [(name, *dtype.fields[name][:2]) for name in dtype.names]
    of, offset = fields.pop()[1:]
    of = _numpy_dtype((of.base, (count, *of.shape[1:])))
    return _numpy_dtype(
        {
            "names": list(dtype.names),
            "formats": [one[1] for one in fields] + [of],
            "offsets": [one[2] for one in fields] + [offset],
            "itemsize": offset + of.itemsize,
        }
    )


def tail_type(dtype: _Any, size: int) -> _Any:
    """Returns the type of a value of so many bytes, which has a tail."""
    each = dtype[dtype.names[-1]]
    each = _numpy_dtype((each.base, each.shape[1:])).itemsize
    count, rest = divmod(size - dtype.itemsize, each)
    if count < 0 or rest:
        raise ValueError(f"a value has {dtype.itemsize} bytes, and {each} for each item of its tail")
    return with_tail(dtype, count)


def record(data: _Any, dtype: _Any) -> _Any:
    """Returns the value that bytes are, where they lie, with its tail if the type has one.

    >>> queue = Queue("paths", folder, payload=np.dtype([("robot", "u8"), ("points", "f4", (0,))]))
    >>> queue.send({"robot": 7, "points": [0.5, 1.5]})
    >>> path = outlive.record(queue.recv(), queue.dtype)
    >>> int(path["robot"]), path["points"].tolist()
    (7, [0.5, 1.5])
    """
    numpy = _numpy()

    if tail_name(dtype):
        dtype = tail_type(dtype, memoryview(data).nbytes)
    return numpy.ndarray((), dtype, data)[()]


def _struct(dtype: _Any) -> tuple[int, int, list[_Any]]:
    # What begins so is padding, which other languages need not name.
    names = [name for name in dtype.names if not name.startswith("_")]
    fields = sorted(((name, *dtype.fields[name][:2]) for name in names), key=lambda one: one[2])
    return (
        dtype.itemsize,
        _alignment(dtype),
        [(name, offset, *_item(of)) for name, of, offset in fields],
    )


def _item(dtype: _Any) -> tuple[list[int], _Any]:
    base, extents = dtype.subdtype or (dtype, ())
    if base.names:
        return (list(extents), _struct(base))
    if base.kind == "S":
        return ([*extents, base.itemsize], "u8")
    found = _NAMES.get(f"{base.kind}{base.itemsize}")
    if found is None or not base.isnative:
        raise TypeError(f"a field of {base} has no description: numbers in native byte order have")
    return (list(extents), found)


def _alignment(dtype: _Any) -> int:
    """Returns the alignment that C gives the type if its fields lie where C puts them, or else 1."""
    if dtype.names:
        parts = [(_alignment(of), offset) for of, offset in (dtype.fields[n][:2] for n in dtype.names)]
        most = max((align for align, _ in parts), default=1)
        fits = all(offset % align == 0 for align, offset in parts) and dtype.itemsize % most == 0
        return most if fits else 1
    if dtype.base.names:
        return _alignment(dtype.base)
    return int(dtype.base.itemsize) if dtype.base.kind in "biuf" else 1


def message(value: _Any, dtype: _Any, is_slice: bool) -> _Any:
    """Returns the bytes of a value of that type: bytes as they are."""
    numpy = _numpy()

    if isinstance(value, (bytes, bytearray, memoryview)):
        return value
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        array = numpy.asarray(value)
        if last := tail_name(dtype):
            # An array of one such record is one, too.
            if last in (array.dtype.names or ()) and array.size == 1:
                dtype = with_tail(dtype, (array.dtype[last].shape or (0,))[0])
        if array.dtype != dtype.base and not _is_same(array.dtype, dtype.base):
            raise TypeError(f"messages are {dtype}, not {array.dtype}")
        return array.tobytes()
    if hasattr(value, "_fields_"):
        return bytes(value)
    # Zeroed, because no assignment writes to padding.
    values = list(value) if is_slice else [value]
    if last := tail_name(dtype):
        items = _field(value, dtype.names, last)
        dtype = with_tail(dtype, len(items))
    array = numpy.zeros(len(values), dtype)
    for at, one in enumerate(values):
        array[at] = _plain(one, dtype)
    return array.tobytes()


def _is_same(one: _Any, other: _Any) -> bool:
    """Whether two records have the same fields: texts of numpy's are bytes here."""
    return bool(one.names and other.names) and _struct(one) == _struct(other)


def _plain(value: _Any, dtype: _Any) -> _Any:
    base, extents = dtype.subdtype or (dtype, ())
    if extents:
        if isinstance(value, _ndarray()) and value.dtype == base and value.shape == extents:
            return value
        inner = base if len(extents) == 1 else _numpy_dtype((base, extents[1:]))
        if len(value) != extents[0]:
            raise ValueError(f"an array of {extents[0]} is needed, not of {len(value)}")
        return [_plain(one, inner) for one in value]
    if not base.names:
        return value
    if base.names == ("length", "bytes") and isinstance(value, str):
        room, data = base["bytes"].shape[0], value.encode()
        if len(data) > room:
            raise ValueError(f"there is room for {room} bytes, not for {len(data)}")
        return (len(data), [*data, *bytes(room - len(data))])
    if base.names == ("length", "items") and isinstance(value, list):
        return _list(value, base["items"])
    if isinstance(value, dict):
        other = set(value) - set(base.names)
        if other:
            raise ValueError(f"there is no field {sorted(other)[0]!r}")
        missing = [name for name in base.names if name not in value]
        if missing:
            raise ValueError(f"field {missing[0]!r} is missing")
        return tuple(_plain(value[name], base.fields[name][0]) for name in base.names)
    if isinstance(value, tuple):
        if len(value) != len(base.names):
            raise ValueError(f"{len(base.names)} fields are needed, not {len(value)}")
        return tuple(_plain(one, base.fields[name][0]) for one, name in zip(value, base.names))
    return tuple(_plain(getattr(value, name), base.fields[name][0]) for name in base.names)


def _field(value: _Any, names: _Any, name: str) -> _Any:
    """Returns a field of what is a value: of a dictionary, a tuple, or an object."""
    if isinstance(value, dict):
        if name not in value:
            raise ValueError(f"field {name!r} is missing")
        return value[name]
    return value[names.index(name)] if isinstance(value, tuple) else getattr(value, name)


def _ndarray() -> _Any:
    numpy = _numpy()

    return numpy.ndarray


def _list(value: list[_Any], dtype: _Any) -> tuple[int, _Any]:
    numpy = _numpy()

    room = dtype.shape[0]
    if len(value) > room:
        raise ValueError(f"there is room for {room} items, not for {len(value)}")
    inner = _numpy_dtype((dtype.base, dtype.shape[1:]))
    items = numpy.zeros(dtype.shape, dtype.base)
    for at, one in enumerate(value):
        items[at] = _plain(one, inner)
    return (len(value), items)


def text(value: _Any) -> str:
    """Returns the text that a field ``"text[32]"`` of a message has.

    Bytes that are no UTF-8 become U+FFFD; a length beyond the room counts as the room.
    """
    return bytes(value["bytes"][: int(value["length"])]).decode(errors="replace")


def items(value: _Any) -> _Any:
    """Returns the items that a field ``"list[Point][16]"`` of a message has, where they lie.

    A length beyond the room counts as the room.
    """
    return value["items"][: int(value["length"])]


def _numpy_dtype(of: _Any) -> _Any:
    numpy = _numpy()

    return numpy.dtype(of)
