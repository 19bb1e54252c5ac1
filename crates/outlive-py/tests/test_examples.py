"""The examples run."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"


@pytest.mark.parametrize(
    "name, args, says",
    [
        ("robust_counter.py", [], "all of them killed"),
        ("log_collector.py", ["--demo"], "of 600 lines"),
        ("camera.py", [], "one was killed holding frames"),
        ("service.py", [], "100 answers, 1 of them asked for twice"),
    ],
)
def test_example(folder, name, args, says):
    command = [sys.executable, str(EXAMPLES / name), *args, folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stdout + done.stderr
    assert says in done.stdout and not done.stderr, done.stdout + done.stderr
