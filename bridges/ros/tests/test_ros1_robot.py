"""The robot of bridges/robot, with its laptop and ROS's tools, while its processes are killed at random."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("rospy", reason="python3-rospy is not there")

from conftest import PACKAGE, children

ROOT = Path(__file__).resolve().parents[3]
BUILT = ROOT / "bridges/target/debug"
CHAOS = ROOT / "bridges/robot/chaos.py"


def run(*options: str, **more: str) -> subprocess.CompletedProcess[str]:
    # As any shell has it, without the time that pip's environments take to begin.
    env = dict(os.environ) | {"PYTHONPATH": str(PACKAGE), "PATH": f"{BUILT}:{os.environ['PATH']}"} | more
    return subprocess.run(
        [sys.executable, str(CHAOS), *options], env=env, capture_output=True, text=True, timeout=180, check=False
    )


def left() -> set[str]:
    """Returns what a run leaves if it does not clean up: folders, and namespaces."""
    found = {str(path) for place in ("/tmp", "/dev/shm") for path in Path(place).glob("outlive-robot-*")}
    spaces = Path("/run/netns")
    return found | {str(path) for path in (spaces.glob("outlive-*-robot") if spaces.is_dir() else [])}


def columns(text: str, begin: str) -> list[str]:
    return next(line for line in text.splitlines() if line.startswith(begin)).removeprefix(begin).split()


@pytest.mark.skipif(not (BUILT / "outlive-gateway").exists(), reason="outlive-gateway is not built")
def test_no_loss_is_kept_silent(tmp_path: Path) -> None:
    before, started = left(), children(os.getpid())
    drawn = tmp_path / "run.svg"
    done = run("--seconds", "10", "--picture", str(drawn))
    text = done.stdout + done.stderr
    assert done.returncode == 0, text
    # What lives in one machine loses nothing at all: three seconds of scans lie in the ring.
    for flow in ("picture: camera, planner", "scan: lidar, planner", "log: planner, logger"):
        sent, arrived, lost, told = map(int, columns(text, flow))
        assert sent == arrived > 50 and lost == told == 0, text
    for flow in ("picture: camera, laptop", "scan: lidar, laptop", "command: planner, laptop"):
        sent, arrived, lost, told, gap = map(int, columns(text, flow)[:5])
        assert arrived > 0 and lost == told and arrived + lost == sent and gap > 0, text
    names = ["camera", "lidar", "planner", "logger", "robot's gateway", "laptop's gateway", "laptop "]
    kills = [int(columns(text, name)[0]) for name in [*names, "ROS bridge", "rostopic echo"]]
    assert sum(kills) >= 1, text
    assert "rostopic hz /scan says nothing" not in text
    assert drawn.read_text().startswith("<svg") and len(drawn.read_text()) < 40_000
    assert left() <= before and children(os.getpid()) == started


def test_a_loss_of_which_nobody_was_told_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(CHAOS.parent))
    from account import Account

    parts = {"camera": None, "lidar": None, "planner": None, "logger": None}
    (tmp_path / "camera.notes").write_text("".join(f"{n}.0 published picture camera.7 {n}\n" for n in range(4)))
    (tmp_path / "lidar.notes").write_text("1.0 published scan lidar.8 0\n")
    seen = "2.0 saw picture camera.7 0\n2.0 saw scan lidar.8 0\n2.0 sent log lidar.8 0\n"
    (tmp_path / "log.txt").write_text("lidar.8 0: 2.0 m ahead\n")
    told = seen + "3.0 missing picture camera.7 1 3\n4.0 saw picture camera.7 3\n"
    (tmp_path / "planner.notes").write_text(told)
    assert Account(tmp_path, parts).faults() == []
    (tmp_path / "planner.notes").write_text(told.replace("missing picture camera.7 1 3", "again picture camera.7 0"))
    assert Account(tmp_path, parts).faults() == [
        "2 messages from camera to planner (picture) are lost, and nobody was told"
    ]


def test_what_is_missing_is_skipped_by_name() -> None:
    """Without a gateway and without ROS the robot alone is killed."""
    blind = "import sys, runpy; sys.modules['rospy'] = None; sys.argv[:] = sys.argv[1:];"
    blind += "import importlib.util; importlib.util.find_spec = lambda name: None;"
    blind += "runpy.run_path(sys.argv[0], run_name='__main__')"
    env = dict(os.environ) | {"PYTHONPATH": f"{PACKAGE}:{CHAOS.parent}", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", blind, str(CHAOS), "--seconds", "2"],
        env=env, capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped: ROS" in done.stdout and "skipped: laptop, gateways" in done.stdout
    assert "command: planner, laptop" not in done.stdout and "scan: lidar, planner" in done.stdout
