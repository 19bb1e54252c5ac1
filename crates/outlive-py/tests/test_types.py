"""The stubs say what is there, and a typed program passes ``mypy --strict``."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent


def run(*args: str) -> str:
    done = subprocess.run([sys.executable, *args], cwd=HERE.parent, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_typed_example_runs(folder):
    lines = run("tests/typed_example.py", folder).splitlines()
    assert lines == ["True", "nothing came until the deadline passed", "0.5 b'abc' [1, 2]"]


def test_mypy_strict():
    pytest.importorskip("mypy")
    assert "no issues" in run("-m", "mypy")


def test_the_stubs_say_what_is_there():
    pytest.importorskip("mypy")
    # The extension alone has stubs; and the bridges' modules cannot be imported without ROS.
    assert "no issues" in run("-m", "mypy.stubtest", "outlive._outlive", "--allowlist", "tests/stubtest.txt")
