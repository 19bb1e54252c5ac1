"""What the bridge may carry, and by which names: nothing passes that no rule names."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from typing import Any

#: Names of Outlive have at most so many bytes.
_MOST_NAME = 200

_ROS_NAME = re.compile(r"^(?:/[A-Za-z]\w*)+$", re.ASCII)
_PART = re.compile(r"\*\*|\*|[^*]+")
_PLACE = re.compile(r"\{(\d+)\}")
_TYPE = re.compile(r"^[A-Za-z]\w*/[A-Za-z]\w*$", re.ASCII)
_DIRECTIONS = {"in": (True, False), "out": (False, True), "both": (True, True)}


class BadRule(ValueError):
    """A rule that cannot be followed."""


class BadName(ValueError):
    """A name that has no counterpart on the other side."""


@dataclass
class Rule:
    """Which names it is for, in which directions, and with which options.

    ``ros`` is a pattern: ``*`` is one part of a name, ``**`` one or several. ``outlive`` is the name
    in Outlive, in which ``{1}`` stands for what the first of them matched; without it, ``/`` is ``.``.
    """

    ros: str
    outlive: str | None = None
    comes_in: bool = True
    goes_out: bool = True
    type: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        stars = [part for part in _PART.findall(self.ros) if part.startswith("*")]
        if not _ROS_NAME.match(re.sub(r"\*+", "x", self.ros)) or "***" in self.ros:
            raise BadRule(f"{self.ros!r} is no pattern of names of ROS: '/camera/*' is")
        if self.type is not None and not _TYPE.match(self.type):
            raise BadRule(f"{self.type!r} is no type of ROS: 'sensor_msgs/Image' is")
        template = self.outlive
        if template is None:
            count = iter(range(1, len(stars) + 1))
            template = "".join(
                f"{{{next(count)}}}" if part.startswith("*") else part for part in _PART.findall(self.ros)
            )[1:].replace("/", ".")
        places = [int(place) for place in _PLACE.findall(template)]
        if sorted(places) != list(range(1, len(stars) + 1)):
            raise BadRule(f"{self.ros!r} has {len(stars)} stars, and {template!r} has to have each once, as {{1}}")
        if "/" in template or "*" in template or not template:
            raise BadRule(f"{template!r} is no name of Outlive: 'camera.{{1}}' is")
        self._template, self._places, self._stars = template, places, stars
        self._of_ros = re.compile("^" + self._pattern(_PART.findall(self.ros), "/") + "$", re.ASCII)
        parts = re.split(r"(\{\d+\})", template)
        self._of_outlive = re.compile(
            "^"
            + "".join(
                self._group(stars[int(part[1:-1]) - 1], ".") if _PLACE.fullmatch(part) else re.escape(part)
                for part in parts
            )
            + "$",
            re.ASCII,
        )

    def _pattern(self, parts: list[str], between: str) -> str:
        return "".join(self._group(part, between) if part.startswith("*") else re.escape(part) for part in parts)

    @staticmethod
    def _group(star: str, between: str) -> str:
        return f"([^{between}]+)" if star == "*" else "(.+)"

    def name_of(self, ros: str) -> str | None:
        """Returns the name in Outlive of a name in ROS, or ``None`` if the rule is not for it."""
        match = self._of_ros.match(ros)
        if match is None:
            return None
        if not _ROS_NAME.match(ros):
            raise BadName(f"{ros!r} is no name of ROS: '/camera/image' is")
        name = _PLACE.sub(lambda place: match[int(place[1])].replace("/", "."), self._template)
        if len(name.encode()) > _MOST_NAME:
            raise BadName(f"{name!r} is too long for a name of Outlive, which has at most {_MOST_NAME} bytes")
        return name

    def ros_of(self, name: str) -> str | None:
        """Returns the name in ROS of a name in Outlive, or ``None`` if the rule is not for it."""
        match = self._of_outlive.match(name)
        if match is None:
            return None
        found = dict(zip(self._places, match.groups()))
        count = iter(range(1, len(self._stars) + 1))
        ros = "".join(
            found[next(count)].replace(".", "/") if part.startswith("*") else part for part in _PART.findall(self.ros)
        )
        if not _ROS_NAME.match(ros):
            raise BadName(
                f"{name!r} is no name of ROS: between its dots are letters, digits and '_', and a letter comes first"
            )
        return ros


class Rules:
    """Rules of topics, or of services. The first one that is for a name decides."""

    def __init__(self, rules: list[Rule]) -> None:
        self.rules = rules

    def coming_in(self, ros: str) -> tuple[str, Rule] | None:
        """Returns the name in Outlive of what may come from ROS."""
        for rule in self.rules:
            if rule.comes_in and (name := rule.name_of(ros)) is not None:
                return name, rule
        return None

    def going_out(self, name: str) -> tuple[str, Rule] | None:
        """Returns the name in ROS of what may go there."""
        for rule in self.rules:
            if rule.goes_out and (ros := rule.ros_of(name)) is not None:
                return ros, rule
        return None


def given(text: str, direction: str) -> Rule:
    """Reads a rule of the command line: ``PATTERN[=NAME][:TYPE]``."""
    text, _, of = text.partition(":")
    ros, equals, name = text.partition("=")
    comes_in, goes_out = _DIRECTIONS[direction]
    return Rule(ros, name if equals else None, comes_in, goes_out, of or None)


_TOPIC_OPTIONS = {"depth": int, "max_bytes": int, "queue": int, "latch": bool, "max_blocking": float}
_SERVICE_OPTIONS = {"timeout": float}


def read(path: str) -> tuple[list[Rule], list[Rule]]:
    """Reads the rules of topics and of services from a file."""
    with open(path, "rb") as file:
        try:
            found = tomllib.load(file)
        except tomllib.TOMLDecodeError as error:
            raise BadRule(f"{path}: {error}") from None
    unknown = set(found) - {"topic", "service"}
    if unknown:
        raise BadRule(f"{path}: there is no key {min(unknown)!r}: 'topic' and 'service' are")
    return (
        _tables(path, found.get("topic", []), _TOPIC_OPTIONS),
        _tables(path, found.get("service", []), _SERVICE_OPTIONS),
    )


def _tables(path: str, tables: Any, known: dict[str, Any]) -> list[Rule]:
    if not isinstance(tables, list):
        raise BadRule(f"{path}: rules stand under [[topic]] and [[service]]")
    rules = []
    for table in tables:
        options = dict(table)
        ros, direction = options.pop("ros", None), options.pop("direction", "both")
        name, of = options.pop("outlive", None), options.pop("type", None)
        texts = (ros, *(one for one in (name, of) if one is not None))
        if not all(isinstance(one, str) for one in texts) or direction not in _DIRECTIONS:
            raise BadRule(f"{path}: a rule has 'ros = \"/camera/*\"', and 'direction' is in, out or both: {table}")
        for key, value in options.items():
            if key not in known:
                raise BadRule(f"{path}: there is no option {key!r}; {', '.join(sorted(known))} are")
            wanted = (int, float) if known[key] is float else known[key]
            if not isinstance(value, wanted) or isinstance(value, bool) != (known[key] is bool):
                raise BadRule(f"{path}: {key!r} is not {value!r}")
        rules.append(Rule(ros, name, *_DIRECTIONS[direction], of, options))
    return rules
