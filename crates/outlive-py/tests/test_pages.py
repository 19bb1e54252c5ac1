"""The steps of doc/python-tutorial.md: each prints what the page says. (Whole programs on pages: ``cargo xtask python``.)"""

from __future__ import annotations

import doctest
import pathlib
import re
import subprocess
import sys

PAGE = pathlib.Path(__file__).parents[3] / "doc/python-tutorial.md"


def test_the_steps_print_what_the_page_says(folder):
    text = PAGE.read_text(encoding="utf-8")
    sessions = re.findall(r"^```pycon\n(.*?)^```$", text, re.M | re.S)
    assert len(sessions) >= 15
    # Lines of the page, so that a failure names its own.
    kept, inside = [], False
    for line in text.splitlines():
        if line.startswith("```"):
            inside = line == "```pycon"
            line = ""
        kept.append(line if inside else "")
    # In a process of its own, as a reader would, with the domain that the page says.
    steps = pathlib.Path(folder) / ".steps"
    steps.write_text("\n".join(kept) + "\n", encoding="utf-8")
    code = f"import doctest, sys; sys.exit(doctest.testfile({str(steps)!r}, False, optionflags=doctest.ELLIPSIS).failed)"
    place = folder + "/steps"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, env={"OUTLIVE_DOMAIN": place, "PATH": ""}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(doctest.DocTestParser().get_examples("\n".join(kept))) >= 60
