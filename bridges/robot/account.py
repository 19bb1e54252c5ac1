"""The account of a run: what was published, what has arrived, and who was told of what is missing."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

Condition = Callable[["Account"], bool]
Message = tuple[str, int]

#: The topics and the queue, each with the sender and the receiver whose notes are compared.
FLOWS = (
    ("picture", "camera", "planner"),
    ("scan", "lidar", "planner"),
    ("log", "planner", "logger"),
    ("picture", "camera", "laptop"),
    ("scan", "lidar", "laptop"),
    ("command", "planner", "laptop"),
)


class Account:
    """What the notes in a folder say. A program's note is written behind the deed: what a process had
    published, and had not noted when it was killed, may arrive, and is not asked for."""

    def __init__(self, folder: Path, parts: dict[str, Any]) -> None:
        self.parts = parts
        self.published: dict[str, dict[Message, float]] = defaultdict(dict)
        self.saw: dict[tuple[str, str], dict[Message, float]] = defaultdict(dict)
        self.told: dict[tuple[str, str], set[Message]] = defaultdict(set)
        self.again = self.asked = self.answered = 0
        self.refusals: dict[str, int] = defaultdict(int)
        for file in folder.glob("*.notes"):
            for line in file.read_text().splitlines():
                self._read(file.stem, *line.split(" "))
        self._read_log(folder / "log.txt")
        self.lost_by_gateways: dict[str, int] = defaultdict(int)
        self.unreachable = 0
        for file in folder.glob("*gateway.out"):
            for line in file.read_text(errors="replace").splitlines():
                self._read_gateway(line)
        echoed = folder / "rostopic-echo.out"
        lines = echoed.read_text(errors="replace").splitlines() if echoed.exists() else []
        self.echoed = [line for line in lines if line[:1].isdigit()]
        hz = folder / "rostopic-hz.out"
        rates = [line for line in hz.read_text(errors="replace").splitlines() if "average rate" in line] if hz.exists() else []
        self.rate = rates[-1].split(":")[1].strip() if rates else ""

    def _read(self, program: str, time: str, did: str, *what: str) -> None:
        at = float(time)
        if did == "published" or did == "sent":
            self.published[what[0]][what[1], int(what[2])] = at
        elif did == "saw":
            self.saw[program, what[0]].setdefault((what[1], int(what[2])), at)
        elif did == "missing":
            first, end = int(what[2]), int(what[3])
            self.told[program, what[0]] |= {(what[1], number) for number in range(first, end)}
        elif did == "again":
            self.again += 1
        elif did == "asked":
            self.asked += 1
        elif did == "answered":
            self.answered += 1
        elif did == "told":
            self.refusals[what[0]] += 1

    def _read_log(self, file: Path) -> None:
        for line in file.read_text().splitlines() if file.exists() else []:
            source, number = line.split(":")[0].split(" ")
            self.saw["logger", "log"].setdefault((source, int(number)), 0.0)

    def _read_gateway(self, line: str) -> None:
        if line.startswith("{"):
            event = json.loads(line)
            self.unreachable += event["event"] == "unreachable"
            if event["event"] == "lost":
                self.lost_by_gateways[event["name"]] += event.get("messages", 0)

    def flows(self) -> list[tuple[str, str, str]]:
        return [flow for flow in FLOWS if flow[2] in self.parts]

    def lost(self, topic: str, to: str) -> set[Message]:
        return self.published[topic].keys() - self.saw[to, topic].keys()

    def untold(self, topic: str, to: str) -> int:
        """Returns how many messages are lost of which no process was told."""
        lost = self.lost(topic, to)
        told = len(lost & self.told[to, topic])
        # The laptop sees what is missing between two messages, its gateway what is missing at an end, too.
        return max(len(lost) - max(told, self.lost_by_gateways[topic] if to == "laptop" else 0), 0)

    def gap(self, topic: str, to: str, begin: float, end: float) -> float:
        """Returns the longest time without a new message there, in seconds."""
        times = sorted(at for at in self.saw[to, topic].values() if at >= begin)
        last = [end] if not times or times[-1] < end else []
        return max((b - a for a, b in zip([begin, *times], [*times, *last])), default=0)

    def faults(self) -> list[str]:
        found = []
        for topic, of, to in self.flows():
            if untold := self.untold(topic, to):
                found.append(f"{untold} messages from {of} to {to} ({topic}) are lost, and nobody was told")
            if not self.saw[to, topic]:
                found.append(f"nothing of {topic} has arrived at {to}")
        # A killed laptop does not note how its call ended; one call may be under way at the end.
        open_calls = self.asked - self.answered - sum(self.refusals.values())
        if "laptop" in self.parts and open_calls > len(self.parts["laptop"].kills) + 1:
            found.append(f"{open_calls} calls have no end")
        if "rostopic echo" in self.parts and not self.echoed:
            found.append("rostopic echo has printed nothing")
        return found

    def table(self, begin: float, end: float, cuts: list[tuple[float, float]]) -> str:
        handled = {"rostopic echo": len(self.echoed), "logger": len(self.saw["logger", "log"])}
        handled |= {of: len(self.published[topic]) for topic, of, _ in FLOWS if topic != "log"}
        for reader in ("planner", "laptop"):
            seen = sum(len(of) for (who, _), of in self.saw.items() if who == reader)
            handled[reader] = handled.get(reader, 0) + seen
        lines = [f"{'process':<18}{'kills':>6}{'messages':>10}"]
        for part in self.parts.values():
            messages = handled.get(part.name, "")
            lines.append(f"{part.name:<18}{len(part.kills):>6}{messages:>10}")
        if cuts:
            lines.append(f"{'the cable':<18}{len(cuts):>6}")
        lines += ["", f"{'from, to':<28}{'sent':>6}{'arrived':>9}{'lost':>6}{'told':>6}{'longest gap':>15}"]
        for topic, of, to in self.flows():
            name, sent, lost = f"{topic}: {of}, {to}", self.published[topic], len(self.lost(topic, to))
            gap = f"{self.gap(topic, to, begin, end) * 1000:.0f} ms" if to == "laptop" else ""
            arrived, told = len(sent) - lost, lost - self.untold(topic, to)
            lines.append(f"{name:<28}{len(sent):>6}{arrived:>9}{lost:>6}{told:>6}{gap:>15}")
        lines.append("")
        if "laptop" in self.parts:
            told = ", ".join(f"{count} {name}" for name, count in sorted(self.refusals.items())) or "none"
            lines.append(f"the laptop's calls: {self.asked} made, {self.answered} answered, told otherwise: {told}")
            lines.append(f"gateways told {self.unreachable} times that the other one is unreachable; {self.again} repeats")
        if "rostopic echo" in self.parts:
            lines.append(f"ROS, which promises none: rostopic hz /scan says {self.rate or 'nothing'} Hz at the end")
        return "\n".join(lines)


def is_under_way(found: Account) -> bool:
    """Says whether something has passed everywhere."""
    everywhere = all(found.saw[to, topic] for topic, _, to in found.flows())
    return everywhere and (bool(found.echoed) or "rostopic echo" not in found.parts)


def is_complete(found: Account) -> bool:
    """Says whether all that was published has arrived, or is told as lost."""
    return not any(found.untold(topic, to) for topic, _, to in found.flows())
