"""The examples run, in the domain that they are told, and leave nothing behind."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from outlive import Domain

EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"


@pytest.mark.parametrize("by", ["argument", "environment"])
@pytest.mark.parametrize(
    "name, args, says",
    [
        ("robust_counter.py", [], "all of them killed"),
        ("log_collector.py", ["--demo"], "of 600 lines"),
        ("camera.py", [], "one was killed holding frames"),
        ("service.py", [], "100 answers, 1 of them asked for twice"),
    ],
)
def test_example(folder, name, args, says, by):
    command = [sys.executable, str(EXAMPLES / name), *args]
    # Nowhere else: a domain that it must not make.
    environment = dict(os.environ, OUTLIVE_DOMAIN="/dev/shm/outlive-pytest-none/of/these")
    if by == "argument":
        command.append(folder)
    else:
        environment["OUTLIVE_DOMAIN"] = folder
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert says in done.stdout and not done.stderr, done.stdout + done.stderr
    assert os.path.exists(folder + "/.tokens"), "it used another domain"
    assert Domain(folder).names() == {}


def test_the_speed_of_recordings_is_measured(folder):
    done = subprocess.run([sys.executable, str(EXAMPLES / "bag_speed.py"), folder, "1"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr
    assert "read them as one array: median" in done.stdout
    assert os.listdir(folder) == []


def test_every_example_runs_here():
    names = {"robust_counter.py", "log_collector.py", "camera.py", "service.py", "bag_speed.py"}
    assert {path.name for path in EXAMPLES.glob("*.py")} == names
