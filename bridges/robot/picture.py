"""Draws a run: what was killed when, and what the laptop had of it meanwhile. An SVG of a few KiB."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from xml.sax.saxutils import escape

from account import Account

WIDTH, LEFT, RIGHT, ROW, TOP = 860, 150, 16, 26, 62
CHART = 190

STYLE = """
    .paper { fill: #ffffff }
    text { fill: #1f2328 }
    .head { font-weight: 600 }
    .small { font-size: 14px; fill: #424a53 }
    .name { text-anchor: end }
    .middle { text-anchor: middle }
    .grid { stroke: #d0d7de; stroke-width: 1 }
    .lives { fill: #9cc4ea }
    .cut { fill: #f0b072 }
    .kill { stroke: #cf222e; stroke-width: 2; fill: none }
    .sent { stroke: #8c959f; stroke-width: 2; fill: none; stroke-dasharray: 5 3 }
    .saw { stroke: #0969da; stroke-width: 2.5; fill: none }
    .gap { fill: #fbe3cf }"""


class Scale:
    """Where a moment of the run lies."""

    def __init__(self, begin: float, end: float) -> None:
        self.begin, self.end = begin, end

    def x(self, at: float) -> float:
        part = (min(max(at, self.begin), self.end) - self.begin) / (self.end - self.begin)
        return round(LEFT + part * (WIDTH - LEFT - RIGHT), 1)


def drawn(found: Account, parts: dict[str, Any], cuts: list[tuple[float, float]], begin: float, end: float) -> str:
    """Returns the picture."""
    scale = Scale(begin, end)
    rows = [(part.name, lives(part, end), part.kills) for part in parts.values()]
    rows = [row for row in rows if row[0] != "rostopic hz"]
    body: list[str] = []
    bottom = TOP + ROW * (len(rows) + bool(cuts))
    height = bottom + 70 + CHART + 44
    for second in range(0, int(end - begin) + 1, 5):
        x = scale.x(begin + second)
        body.append(f'<line class="grid" x1="{x}" y1="{TOP - 8}" x2="{x}" y2="{height - 34}"/>')
        body.append(f'<text class="small middle" x="{x}" y="{height - 16}">{second} s</text>')
    y = TOP
    for name, spans, kills in rows:
        body += row(name, y, "lives", spans, scale)
        crosses = [f"M{scale.x(at) - 4} {y + 2}l8 10m0 -10l-8 10" for at in kills if begin <= at <= end]
        body.append(f'<path class="kill" d="{"".join(crosses)}"/>')
        y += ROW
    if cuts:
        body += row("the cable is cut", y, "cut", cuts, scale)
    body += chart(found, bottom + 70, scale)
    kills = sum(begin <= at <= end for part in parts.values() for at in part.kills)
    label = f"{kills} kills in {end - begin:.0f} seconds, and the scans that the laptop has seen meanwhile."
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="system-ui, sans-serif"'
        f' font-size="15" role="img" aria-label="{label}">\n  <style>{STYLE}\n  </style>'
    )
    lines = [head, f'  <rect class="paper" width="{WIDTH}" height="{height}"/>']
    lines.append('  <text class="head" x="16" y="24">Who lives, and when it is killed</text>')
    lines += [f"  {line}" for line in body]
    return "\n".join(lines) + "\n</svg>\n"


def lives(part: Any, end: float) -> list[tuple[float, float]]:
    """Returns from when until when the processes of a part lived."""
    last = end if part.process is not None else part.stopped
    return list(zip(part.starts, [*part.kills, last]))


def row(name: str, y: int, kind: str, spans: Iterable[tuple[float, float]], scale: Scale) -> list[str]:
    lines = [f'<text class="small name" x="{LEFT - 12}" y="{y + 12}">{escape(name)}</text>']
    for first, last in spans:
        width = round(scale.x(last) - scale.x(first), 1)
        if width > 0:
            lines.append(f'<rect class="{kind}" x="{scale.x(first)}" y="{y + 2}" width="{width}" height="10"/>')
    return lines


def chart(found: Account, top: int, scale: Scale) -> list[str]:
    """Draws how many scans were published, and how many of them the laptop had, over time."""
    sent = sorted(at for at in found.published["scan"].values() if at <= scale.end)
    saw = sorted(at for at in found.saw["laptop", "scan"].values() if at <= scale.end)
    before = sum(at < scale.begin for at in sent)
    most = max(len(sent) - before, 1)

    def y(count: int) -> float:
        return round(top + CHART * (1 - max(count - before, 0) / most), 1)

    def line(times: list[float]) -> str:
        path = [f"M{LEFT} {y(before)}"]
        path += [f"H{scale.x(at)}V{y(count)}" for count, at in enumerate(times, 1) if at >= scale.begin]
        return "".join([*path, f"H{WIDTH - RIGHT}"])

    texts = [f'<text class="head" x="16" y="{top - 24}">Scans: published on the robot, and seen on the laptop</text>']
    # The robot's own end is no gap.
    until = [scale.end] if saw[-1:] < sent[-1:] else []
    gaps = [(a, b) for a, b in zip([scale.begin, *saw], [*saw, *until]) if b - a > 0.5 and b > scale.begin]
    for first, last in gaps:
        width = round(scale.x(last) - scale.x(first), 1)
        texts.append(f'<rect class="gap" x="{scale.x(first)}" y="{top}" width="{width}" height="{CHART}"/>')
        if width > 44:
            middle = round(scale.x(first) + width / 2, 1)
            # Where the lines are not.
            is_low = y(sum(at <= last for at in sent)) > top + CHART / 2
            height = top + 20 if is_low else top + CHART - 8
            gap = f"{last - first:.1f} s"
            texts.append(f'<text class="small middle" x="{middle}" y="{height}">{gap}</text>')
    for count in (0, most):
        height = y(before + count)
        texts.append(f'<line class="grid" x1="{LEFT}" y1="{height}" x2="{WIDTH - RIGHT}" y2="{height}"/>')
        texts.append(f'<text class="small name" x="{LEFT - 12}" y="{height + 5}">{count}</text>')
    texts.append(f'<path class="sent" d="{line(sent)}"/>')
    texts.append(f'<path class="saw" d="{line(saw)}"/>')
    texts.append(f'<line class="sent" x1="16" y1="{top + 50}" x2="46" y2="{top + 50}"/>')
    texts.append(f'<text class="small" x="52" y="{top + 55}">published</text>')
    texts.append(f'<line class="saw" x1="16" y1="{top + 76}" x2="46" y2="{top + 76}"/>')
    texts.append(f'<text class="small" x="52" y="{top + 81}">seen</text>')
    texts.append(f'<rect class="gap" x="16" y="{top + 95}" width="30" height="14"/>')
    texts.append(f'<text class="small" x="52" y="{top + 107}">a gap</text>')
    return texts
