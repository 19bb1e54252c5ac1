"""What the bridge's tests use: a master, nodes and a domain of their own, all below one folder.

Everything listens on 127.0.0.1 alone. What a test has started is killed when it ends, and its
folders are removed.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

#: Every wait in a test ends by then: a hang must fail.
PATIENCE = 60.0

PACKAGE = Path(__file__).resolve().parents[3] / "crates/outlive-py"

NODE = """
import os, sys, time
import rospy
from std_msgs.msg import *
from sensor_msgs.msg import *
from geometry_msgs.msg import *
def say(*words):
    # One write: callbacks run in threads of their own, and `print` writes word by word.
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())
"""


class Process:
    """A process whose lines are read as they come."""

    def __init__(self, args: list[str], env: dict[str, str], cwd: str) -> None:
        # In a session of its own: what it starts ends with it.
        self.process = subprocess.Popen(
            args, env=env, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        )
        self.lines: list[str] = []
        self._more = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._more:
                self.lines.append(line.decode(errors="replace").rstrip())
                self._more.notify_all()

    def until(self, part: str, timeout: float = PATIENCE, after: int = 0) -> str:
        """Waits for a line that contains the text, among those from number `after` on."""

        def found() -> str | None:
            return next((line for line in self.lines[after:] if part in line), None)

        with self._more:
            assert self._more.wait_for(lambda: found() is not None, timeout), (
                f"no {part!r} from {self.process.args}:\n" + "\n".join(self.lines[-40:])
            )
            return found() or ""

    def kill(self) -> None:
        """Kills it alone."""
        self.process.kill()
        self.process.wait(PATIENCE)

    def end(self, how: int = signal.SIGINT) -> int:
        self.process.send_signal(how)
        return self.process.wait(PATIENCE)

    def remove(self) -> None:
        """Kills it and all that it has started: roscore gives its children sessions of their own."""
        for pid in [self.process.pid, *self.descendants()] if self.process.poll() is None else []:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait(PATIENCE)

    def descendants(self) -> list[int]:
        found, parents = [], [self.process.pid]
        while parents:
            parents = [child for parent in parents for child in children(parent)]
            found += parents
        return found


def children(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                    found.append(int(entry.name))
            except OSError:
                pass
    return found


class World:
    """A master, a domain, and the processes of a test."""

    core: Process

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="outlive-ros-")
        self.domain = f"/dev/shm/outlive-ros-{os.getpid()}-{Path(self.folder).name[-8:]}"
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port = one.getsockname()[1]
        self.env = dict(os.environ) | {
            "ROS_MASTER_URI": f"http://127.0.0.1:{self.port}",
            "ROS_IP": "127.0.0.1",
            "ROS_HOME": f"{self.folder}/home",
            "ROS_LOG_DIR": f"{self.folder}/log",
            "PYTHONPATH": str(PACKAGE),
            "PYTHONUNBUFFERED": "1",
        }
        self.env.pop("ROS_HOSTNAME", None)
        self.started: list[Process] = []

    def start(self, *args: str) -> Process:
        process = Process(list(args), self.env, self.folder)
        self.started.append(process)
        return process

    def master(self) -> Process:
        """Starts a master, and waits until it answers."""
        process = self.start(sys.executable, "/usr/bin/rosmaster", "--core", "-p", str(self.port))
        self.answers()
        return process

    def roscore(self) -> Process:
        """Starts ROS's own launcher of a master, a log and parameters."""
        process = self.start(sys.executable, "/usr/bin/roscore", "-p", str(self.port))
        self.answers()
        # The launcher has started the log, too.
        wait_for(lambda: len(process.descendants()) >= 2)
        return process

    def answers(self) -> None:
        import xmlrpc.client

        proxy = xmlrpc.client.ServerProxy(self.env["ROS_MASTER_URI"])

        def has_pid() -> bool:
            try:
                return bool(proxy.getPid("/test")[0] == 1)
            except OSError:
                return False

        wait_for(has_pid)

    def bridge(self, *rules: str, module: str = "outlive.ros1.bridge") -> Process:
        process = self.start(sys.executable, "-m", module, "--domain", self.domain, *rules)
        return process

    def node(self, code: str) -> Process:
        """Starts a node of ROS with code of the test's own."""
        return self.start(sys.executable, "-c", NODE + textwrap.dedent(code))

    def program(self, code: str) -> Process:
        """Starts a program of the domain: ROS is not in it."""
        head = f"import os, sys, time\nimport outlive\nfolder = {self.domain!r}\n"
        return self.start(sys.executable, "-c", head + textwrap.dedent(code))

    def tool(self, name: str, *args: str) -> Process:
        return self.start(sys.executable, f"/usr/bin/{name}", *args)

    def remove(self) -> None:
        for process in reversed(self.started):
            process.remove()
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(self.domain, ignore_errors=True)


def wait_for(condition: Callable[[], Any], timeout: float = PATIENCE) -> Any:
    until = time.monotonic() + timeout
    while not (found := condition()):
        assert time.monotonic() < until, "it did not become so in time"
        time.sleep(0.02)
    return found


def received(subscriber: Any, timeout: float = PATIENCE) -> Any:
    """Returns the next message; bounded."""
    return subscriber.recv(timeout=timeout)


def drain(subscriber: Any) -> None:
    """Takes the messages that are there already."""
    while subscriber.try_recv() is not None:
        pass


@pytest.fixture
def world() -> Iterator[World]:
    """A world without a master."""
    one = World()
    try:
        yield one
    finally:
        one.remove()


@pytest.fixture
def graph(world: World) -> World:
    """A world with a master."""
    world.core = world.master()
    return world


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Closes with the line by which the test command counts, and says why what was skipped."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        of = {key: len(reporter.stats.get(key, [])) for key in ("passed", "failed", "error", "skipped")}
        for report in reporter.stats.get("skipped", []):
            print(f"\n{report.nodeid} is skipped: {report.longrepr[-1]}")
        print(f"\n{of['passed']} passed, {of['failed'] + of['error']} failed, {of['skipped']} skipped")
