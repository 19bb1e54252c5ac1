"""A robot, a laptop that looks on, and ROS's tools beside; and something of it is killed all the time.

    python chaos.py [--seconds 20] [--every 0.3] [--seed N] [--data FOLDER] [--picture FILE.svg]

Starts all processes, kills one at random again and again, and starts another in its place. Then it
compares what was published with what has arrived, and prints that. Exit code 1: a message is lost, and no
process has told it. It leaves nothing behind.

``outlive-gateway`` is looked for in PATH; ROS 1 is what this very Python can import (on Debian
/usr/bin/python3). Without the one there is no laptop, without the other no ROS.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import account
import picture

HERE = Path(__file__).resolve().parent
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


class Cable:
    """The network between robot and laptop: two namespaces with a cable between them; else loopback."""

    def __init__(self) -> None:
        self.spaces = [f"outlive-{os.getpid()}-{end}" for end in ("robot", "laptop")]
        self.is_real = False
        if os.geteuid() == 0 and shutil.which("ip") is not None:
            self.is_real = self._lay()
            if not self.is_real:
                self.remove()
        if self.is_real:
            self.endpoint = "tcp/10.77.0.1:7447"
        else:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.endpoint = f"tcp/127.0.0.1:{free.getsockname()[1]}"

    def _lay(self) -> bool:
        robot, laptop = self.spaces
        commands = [f"netns add {robot}", f"netns add {laptop}"]
        commands.append(f"-n {robot} link add robot type veth peer name laptop netns {laptop}")
        for space, name, address in ((robot, "robot", "10.77.0.1"), (laptop, "laptop", "10.77.0.2")):
            commands += [f"-n {space} addr add {address}/24 dev {name}", f"-n {space} link set {name} up"]
        return all(ip(command) for command in commands)

    def at(self, end: int) -> list[str]:
        """Returns what to put in front of a command that runs at that end."""
        return ["ip", "netns", "exec", self.spaces[end]] if self.is_real else []

    def cut(self) -> None:
        ip(f"-n {self.spaces[0]} link set robot down")

    def mend(self) -> None:
        ip(f"-n {self.spaces[0]} link set robot up")

    def remove(self) -> None:
        for space in self.spaces:
            ip(f"netns del {space}")


def ip(command: str) -> bool:
    done = subprocess.run(["ip", *command.split()], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return done.returncode == 0


@dataclass
class Part:
    """A process that is started again when it was killed."""

    name: str
    command: list[str]
    env: dict[str, str]
    folder: Path
    process: subprocess.Popen[bytes] | None = None
    kills: list[float] = field(default_factory=list)
    starts: list[float] = field(default_factory=list)
    stopped: float | None = None

    def start(self) -> None:
        def die_with_parent() -> None:
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

        with open(self.folder / f"{self.name.replace(' ', '-')}.out", "ab") as out:
            self.process = subprocess.Popen(
                self.command, env=self.env, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                preexec_fn=die_with_parent,
            )  # fmt: skip
        self.starts.append(time.monotonic())

    def kill(self) -> None:
        if self.end():
            self.kills.append(time.monotonic())

    def end(self) -> bool:
        """Ends it for good; a victim is started again."""
        if self.process is None:
            return False
        self.process.kill()
        self.process.wait()
        self.process, self.stopped = None, time.monotonic()
        return True

    def has_ended(self) -> bool:
        return self.process is not None and self.process.poll() is not None


class World:
    """All processes, their two domains, and the folder of their notes."""

    def __init__(self, data: str | None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="outlive-robot-"))
        self.domains = [f"/dev/shm/{self.folder.name}-{end}" for end in ("robot", "laptop")]
        self.cable = Cable()
        self.parts: dict[str, Part] = {}
        self.cuts: list[tuple[float, float]] = []
        self.skipped: list[str] = []
        given = [data] if data else []
        self._add("camera", 0, [sys.executable, str(HERE / "camera.py"), *given])
        self._add("lidar", 0, [sys.executable, str(HERE / "lidar.py"), *given])
        self._add("planner", 0, [sys.executable, str(HERE / "planner.py")])
        self._add("logger", 0, [sys.executable, str(HERE / "logger.py"), str(self.folder / "log.txt")])
        self._add_laptop()
        self._add_ros()

    def _add(self, name: str, domain: int, command: list[str], **more: str) -> None:
        env = dict(os.environ) | {"OUTLIVE_DOMAIN": self.domains[domain], "ROBOT_NOTES": str(self.folder)}
        env |= {"PYTHONUNBUFFERED": "1"} | more
        self.parts[name] = Part(name, command, env, self.folder)

    def _add_laptop(self) -> None:
        gateway = shutil.which("outlive-gateway")
        if gateway is None:
            self.skipped.append("laptop, gateways: there is no outlive-gateway in PATH")
            return
        both = [gateway, "--json"]
        names = ["scan", "picture", "command", "plan/**"]
        out = [f"--allow-out={name}" for name in names]
        back = [f"--allow-in={name}" for name in names]
        at = self.cable.endpoint
        self._add("robot's gateway", 0, [*self.cable.at(0), *both, f"--listen={at}", *out])
        self._add("laptop's gateway", 1, [*self.cable.at(1), *both, f"--connect={at}", *back])
        self._add("laptop", 1, [sys.executable, str(HERE / "laptop.py")])

    def _add_ros(self) -> None:
        if importlib.util.find_spec("rospy") is None or shutil.which("rosmaster") is None:
            self.skipped.append("ROS: rospy, rosmaster and rostopic are not there")
            return
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.master_port = port = free.getsockname()[1]
        env = {
            "ROS_MASTER_URI": f"http://127.0.0.1:{port}",
            "ROS_IP": "127.0.0.1",
            "ROS_HOME": f"{self.folder}/ros",
            "ROS_LOG_DIR": f"{self.folder}/ros/log",
        }
        rules = [f"--out=/{name}={name}" for name in ("scan", "picture", "command")]
        # The master without its launcher: of a roscore that is killed, the master would go on.
        self._add("ROS master", 0, [sys.executable, "/usr/bin/rosmaster", "--core", f"--port={port}"], **env)
        self._add("ROS bridge", 0, [sys.executable, "-m", "outlive.ros1.bridge", *rules], **env)
        self._add("rostopic echo", 0, [sys.executable, "/usr/bin/rostopic", "echo", "-p", "/command/header"], **env)
        self._add("rostopic hz", 0, [sys.executable, "/usr/bin/rostopic", "hz", "/scan"], **env)

    def start(self) -> None:
        self._start_all(list(self.parts))
        self._until(account.is_under_way, 40, "not all processes have begun to work")

    def _start_all(self, names: list[str]) -> None:
        for name in names:
            self.parts[name].start()
            if name == "ROS master":
                self._wait_for_master()

    def _wait_for_master(self) -> None:
        """ROS's tools end where no master answers."""
        until = time.monotonic() + 20
        while time.monotonic() < until:
            with socket.socket() as master:
                if master.connect_ex(("127.0.0.1", self.master_port)) == 0:
                    return
            time.sleep(0.05)

    def settle(self) -> None:
        """Ends what publishes, and waits until the rest has all that was published."""
        for sensor in ("camera", "lidar"):
            self.parts[sensor].end()
        try:
            self._until(account.is_complete, 60, "")
        except TimeoutError:
            pass

    def _until(self, condition: account.Condition, seconds: float, why: str) -> None:
        until = time.monotonic() + seconds
        while not condition(account.Account(self.folder, self.parts)):
            if ended := self.ended():
                raise TimeoutError(f"ended by themselves: {ended}; what they have said:\n{self.said()}")
            if time.monotonic() > until:
                raise TimeoutError(f"{why}; what they have said:\n{self.said()}")
            time.sleep(0.25)

    def ended(self) -> str:
        """Returns the names of those that have ended without being killed, which none should."""
        return ", ".join(part.name for part in self.parts.values() if part.has_ended())

    def said(self) -> str:
        texts = []
        for file in sorted(self.folder.glob("*.out")):
            lines = file.read_text(errors="replace").splitlines()[-12:]
            texts += [f"--- {file.stem}", *lines]
        return "\n".join(texts)

    def strike(self, victim: str, numbers: random.Random, pause: float) -> None:
        """Kills one, or cuts the cable, and some time later has it there again."""
        if victim == "cable":
            cut = time.monotonic()
            self.cable.cut()
            # Sometimes for longer than the gateways' lease: then each is told that the other is unreachable.
            time.sleep(numbers.choice((pause, 1.6)))
            self.cable.mend()
            self.cuts.append((cut, time.monotonic()))
            return
        victims = [victim]
        if victim == "ROS master":
            # ROS's own tools do not tell a new master of themselves; the bridge does.
            victims += ["rostopic echo", "rostopic hz"]
        for name in victims:
            self.parts[name].kill()
        time.sleep(pause)
        self._start_all(victims)

    def may_be_cut(self) -> bool:
        """Says whether both gateways have been connected for some time.

        A sending gateway whose cable is cut while much is on its way may send nothing for some seconds after:
        zenoh 1.10 waits for a message that waits for room on the link that is gone.
        """
        starts = [self.parts[f"{end}'s gateway"].starts[-1] for end in ("robot", "laptop")]
        return time.monotonic() > max([*starts, *(mended for _, mended in self.cuts)]) + 3

    def remove(self) -> None:
        for part in self.parts.values():
            part.end()
        if self.cable.is_real:
            self.cable.remove()
        for folder in (self.folder, *self.domains):
            shutil.rmtree(folder, ignore_errors=True)


def run(world: World, options: argparse.Namespace) -> int:
    for line in world.skipped:
        print(f"skipped: {line}")
    if not world.cable.is_real and "laptop" in world.parts:
        print("skipped: the cable that is cut: no network namespaces here, so the laptop is on loopback")
    world.start()
    numbers = random.Random(options.seed)
    victims = [name for name in world.parts if name != "rostopic hz"]
    has_cable = world.cable.is_real and "laptop" in world.parts
    begin = time.monotonic()
    print(f"all is up: {options.seconds:g} s of kills begin, seed {options.seed}", flush=True)
    while time.monotonic() < begin + options.seconds:
        cable = ["cable"] * 2 if has_cable and world.may_be_cut() else []
        world.strike(numbers.choice(victims + cable), numbers, options.every)
        if ended := world.ended():
            print(f"ended by themselves: {ended}; what they have said:\n{world.said()}")
            return 1
    end = time.monotonic()
    world.settle()
    found = account.Account(world.folder, world.parts)
    print(found.table(begin, end, world.cuts))
    if options.picture:
        text = picture.drawn(found, world.parts, world.cuts, begin, time.monotonic())
        Path(options.picture).write_text(text)
    for fault in (faults := found.faults()):
        print(f"fault: {fault}")
    return 1 if faults else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20, help="for how long (default: %(default)s)")
    parser.add_argument("--every", type=float, default=0.3, help="seconds from one kill to the next")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 100_000, help="for the same victims again")
    parser.add_argument("--data", metavar="FOLDER", help="camera_*.jpg and lidar_*.f32xN.bin (default: drawn ones)")
    parser.add_argument("--picture", metavar="FILE", help="draw the run as an SVG")
    options = parser.parse_args()
    if options.data:
        options.data = str(Path(options.data).resolve())
    # What ends this program ends it in order: nothing stays.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    world = World(options.data)
    try:
        return run(world, options)
    except TimeoutError as error:
        print(f"fault: {error}")
        return 1
    finally:
        world.remove()


if __name__ == "__main__":
    sys.exit(main())
