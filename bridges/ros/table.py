"""Writes the table of doc/how-to/ros.md: which message types go without a copy.

Run it by the system's Python, which has ROS 1: ``/usr/bin/python3 bridges/ros/table.py``; with
``--check`` it only compares. Each type that the table calls described has been made a topic.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "crates/outlive-py"))

import outlive
from outlive._payload import tail_name
from outlive._ros import Array, Encoding, Struct
from outlive.ros1 import DEFINITION, Type

PAGE = ROOT / "doc/how-to/ros.md"
BEGIN, END = "<!-- table: written by bridges/ros/table.py -->\n", "<!-- end of the table -->\n"
ENCODING = Encoding(aligned=False)


def described(of: Type, domain: outlive.Domain) -> str:
    if of.dtype is None:
        return ""
    of.topic("made", domain, max_bytes=1 << 20).close()
    domain.remove("made")
    return f"with a tail, `{tail_name(of.dtype)}`" if tail_name(of.dtype) else "yes"


def views(kind: Struct, before: str = "") -> tuple[list[str], list[str]]:
    """Returns the arrays that numpy sees where they lie, and those that are read one by one."""
    seen: list[str] = []
    read: list[str] = []
    for name, of in kind.fields:
        if isinstance(of, Array):
            (read if ENCODING.dtype(of.of) is None else seen).append(f"`{before}{name}`")
            if isinstance(of.of, Struct) and ENCODING.dtype(of.of) is None:
                inner, one_by_one = views(of.of, f"{before}{name}[].")
                seen += inner
                read += one_by_one
        elif isinstance(of, Struct):
            inner, one_by_one = views(of, f"{before}{name}.")
            seen += inner
            read += one_by_one
    return seen, read


def rows(domain: outlive.Domain) -> list[str]:
    lines = [
        "| type | described: all languages see the fields | arrays that `Type.read` shows where they lie "
        "| arrays that it makes |",
        "| --- | --- | --- | --- |",
    ]
    for package in ("std_msgs", "geometry_msgs", "sensor_msgs"):
        module = importlib.import_module(f"{package}.msg")
        for name in sorted(vars(module)):
            found: Any = getattr(module, name)
            if not hasattr(found, "_md5sum"):
                continue
            of = Type(found._type, found._full_text)
            assert of.md5sum == found._md5sum, of.name
            assert DEFINITION in of.attributes, of.name
            seen, read = views(of.struct)
            cells = (of.name, described(of, domain), ", ".join(seen), ", ".join(read))
            lines.append(f"| {' | '.join(cells)} |".replace("  ", " "))
    return lines


def main() -> int:
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="outlive-ros-table-") as folder:
        with outlive.Domain(folder) as domain:
            table = "\n".join(rows(domain)) + "\n"
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    new = before + BEGIN + table + END + after
    if "--check" in sys.argv:
        return int(new != text)
    PAGE.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
