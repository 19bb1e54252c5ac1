"""Message definitions of ROS 1: what they say, their checksum, and their text without comments."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from .._ros import INTEGERS, MOST_DEPTH, Array, BadMessage, Kind, Number, Struct, Text

_NUMBERS = {
    "bool": "u1",
    "byte": "i1",
    "char": "u1",
    **INTEGERS,
    "float32": "f4",
    "float64": "f8",
}
_TIMES = {
    "time": Struct("time", (("secs", Number("u4")), ("nsecs", Number("u4")))),
    "duration": Struct("duration", (("secs", Number("i4")), ("nsecs", Number("i4")))),
}
_TYPE = re.compile(r"^([A-Za-z]\w*(?:/[A-Za-z]\w*)?)(\[(\d*)\])?$")
_NAME = re.compile(r"^[A-Za-z]\w*$")
_TYPE_NAME = re.compile(r"^[A-Za-z]\w*/[A-Za-z]\w*$")
_SEPARATOR = "=" * 80

#: More text than any message has; a peer's definition is read by every bridge that it meets.
_MOST_TEXT = 1 << 20

#: A few types that use each other twice would have any number of fields.
_MOST_FIELDS = 10_000


class Definition:
    """A definition with all types that it uses."""

    def __init__(self, name: str, text: str) -> None:
        if not _TYPE_NAME.match(name):
            raise BadMessage(f"{name!r} is no type of ROS: 'package/Type' is")
        if len(text) > _MOST_TEXT:
            raise BadMessage(f"the definition of {name} has {len(text)} characters")
        first, *others = re.split(r"^={80,}[^\S\n]*$\n?", text, flags=re.MULTILINE)
        self._parts = {name: _Part(name, first)}
        for other in others:
            head, _, rest = other.partition("\n")
            if not head.startswith("MSG:"):
                raise BadMessage(f"the definition of {name} has a part without 'MSG:'")
            other_name = head[4:].strip()
            self._parts.setdefault(other_name, _Part(other_name, rest))
        self._sums: dict[str, str] = {}
        self._used: list[str] = []
        self._fields = 0
        self.struct = self._struct(name, 0)
        self.md5sum = self._sum(name)
        parts = [self._parts[name].text, *(f"MSG: {one}\n{self._parts[one].text}" for one in self._used)]
        self.text = f"\n{_SEPARATOR}\n".join(parts)

    def _struct(self, name: str, depth: int) -> Struct:
        if depth > MOST_DEPTH:
            raise BadMessage(f"{name} is nested too deep, or uses itself")
        part = self._parts.get(name)
        if part is None:
            raise BadMessage(f"the definition lacks {name}")
        if depth and name not in self._used:
            self._used.append(name)
        self._fields += len(part.fields)
        if self._fields > _MOST_FIELDS:
            raise BadMessage(f"{name} has more than {_MOST_FIELDS} fields, those of its fields counted")
        return Struct(name, tuple((field, self._kind(part, of, depth)) for of, field in part.fields))

    def _kind(self, part: _Part, text: str, depth: int) -> Kind:
        match = _TYPE.match(text)
        if match is None:
            raise BadMessage(f"{text!r} is no type of a field")
        bare, array, length = match.groups()
        of: Any
        if bare in _NUMBERS:
            of = Number(_NUMBERS[bare])
        elif bare in _TIMES:
            of = _TIMES[bare]
        elif bare == "string":
            of = Text()
        else:
            of = self._struct(part.resolved(bare), depth + 1)
        if array is None:
            return of  # type: ignore[no-any-return]
        return Array(of, int(length) if length else None)

    def _sum(self, name: str) -> str:
        """Returns the checksum, as ROS makes it: of constants and fields, and of the checksums of the
        types that they are of."""
        if name not in self._sums:
            part = self._parts[name]
            lines = list(part.constants)
            for of, field in part.fields:
                bare = of.partition("[")[0]
                is_simple = bare in _NUMBERS or bare in _TIMES or bare == "string"
                lines.append(f"{of if is_simple else self._sum(part.resolved(bare))} {field}")
            self._sums[name] = hashlib.md5("\n".join(lines).encode(), usedforsecurity=False).hexdigest()
        return self._sums[name]


class _Part:
    """One type's own lines: its constants as the checksum has them, and its fields."""

    def __init__(self, name: str, text: str) -> None:
        self.package = name.partition("/")[0]
        self.constants: list[str] = []
        self.fields: list[tuple[str, str]] = []
        for line in text.splitlines():
            self._read(line)

    def _read(self, line: str) -> None:
        bare = line.partition("#")[0].strip()
        if not bare:
            return
        of, _, rest = bare.partition(" ")
        rest = rest.strip()
        if "=" in rest:
            name, value = (one.strip() for one in rest.split("=", 1))
            if of == "string":
                # A text is all that follows, '#' included.
                value = line.split("=", 1)[1].strip()
            self.constants.append(f"{of} {name}={value}")
        elif not _NAME.match(rest):
            raise BadMessage(f"{line!r} is no line of a definition")
        elif rest in (field for _, field in self.fields):
            raise BadMessage(f"there are two fields {rest!r}")
        else:
            self.fields.append((of, rest))

    def resolved(self, of: str) -> str:
        if of == "Header":
            return "std_msgs/Header"
        return of if "/" in of else f"{self.package}/{of}"

    @property
    def text(self) -> str:
        return "\n".join([*self.constants, *(f"{of} {name}" for of, name in self.fields)])
