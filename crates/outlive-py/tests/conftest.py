"""What all tests use: a domain folder of their own, and programs that can be killed."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

#: Every wait in a test ends by then: a hang must fail.
PATIENCE = 60.0

PRELUDE = """
import os, signal, sys, threading, time
import outlive
from outlive import *
# Tests that run in a shell's background have inherited an ignored SIGINT, which Python would go on to ignore.
signal.signal(signal.SIGINT, signal.default_int_handler)
folder = sys.argv[1]
def say(*words):
    print(*words, flush=True)
"""


class Program:
    """A Python process with code of a test's own, told apart from others by its pid."""

    def __init__(self, folder: str, code: str) -> None:
        code = PRELUDE + textwrap.dedent(code)
        self.process = subprocess.Popen([sys.executable, "-c", code, folder], stdout=subprocess.PIPE)
        self.pid = self.process.pid
        self.buffer = b""

    def line(self, timeout: float = PATIENCE) -> str:
        """The next line that it says."""
        assert self.process.stdout is not None
        until = time.monotonic() + timeout
        while b"\n" not in self.buffer:
            # Not select(), which takes no descriptor from 1024 on.
            waiting = select.poll()
            waiting.register(self.process.stdout, select.POLLIN)
            assert waiting.poll(max(0, until - time.monotonic()) * 1000), "it said nothing in time"
            more = os.read(self.process.stdout.fileno(), 65536)
            assert more, f"it ended early, with {self.process.wait(PATIENCE)}"
            self.buffer += more
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line.decode()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def end(self) -> int:
        """Waits for its end: its code."""
        return self.process.wait(PATIENCE)


def in_thread(call: Callable[[], Any]) -> Any:
    """What the call comes to in another thread."""
    result: list[Any] = []

    def run() -> None:
        try:
            result.append(call())
        except BaseException as error:  # noqa: BLE001
            result.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(PATIENCE)
    assert result, "it hangs"
    return result[0]


#: Past pytest's capture.
_STDERR = os.fdopen(os.dup(2), "w")


@pytest.fixture(autouse=True)
def _bounded() -> Iterator[None]:
    """A test that hangs ends all of them, and says where."""
    faulthandler.dump_traceback_later(10 * PATIENCE, exit=True, file=_STDERR)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture
def folder() -> Iterator[str]:
    """A domain's folder."""
    folder = tempfile.mkdtemp(prefix="outlive-pytest-", dir="/dev/shm")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def path(folder: str) -> Iterator[str]:
    """A recording's, beside the domain."""
    path = folder + "-bag.mcap"
    yield path
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)


@pytest.fixture
def start(folder: str) -> Iterator[Callable[[str], Program]]:
    """Starts programs, and kills those that are left."""
    programs: list[Program] = []

    def start(code: str) -> Program:
        programs.append(Program(folder, code))
        return programs[-1]

    yield start
    for program in programs:
        if program.process.poll() is None:
            program.kill()
        if program.process.stdout:
            program.process.stdout.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The closing line, as all stages of the project's test command have it."""
    count = {kind: len(terminalreporter.stats.get(kind, [])) for kind in ("passed", "failed", "error", "skipped")}
    failed = count["failed"] + count["error"]
    terminalreporter.write_line(f"{count['passed']} passed, {failed} failed, {count['skipped']} skipped")
