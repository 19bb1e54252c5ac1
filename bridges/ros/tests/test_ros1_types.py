"""All message types of ROS's packages: checksums, bytes, and the page's table."""

from __future__ import annotations

import importlib
import io
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("rospy", reason="python3-rospy is not there")

from outlive.ros1 import Type


@pytest.mark.parametrize("package", ["std_msgs", "geometry_msgs", "sensor_msgs", "rosgraph_msgs"])
def test_checksums_and_bytes_are_those_of_ros(package: str) -> None:
    module = importlib.import_module(f"{package}.msg")
    classes = [one for one in vars(module).values() if hasattr(one, "_md5sum")]
    assert classes
    for one in classes:
        of = Type(one._type, one._full_text)
        assert of.md5sum == one._md5sum
        assert Type(of.name, of.definition).md5sum == of.md5sum
        bytes_of_ros = io.BytesIO()
        one().serialize(bytes_of_ros)
        assert bytes(of.written({})) == bytes_of_ros.getvalue()
        of.check(bytes_of_ros.getvalue())
        # A message as rospy has it is written, too.
        assert bytes(of.written(one())) == bytes_of_ros.getvalue()


def test_a_scan_of_rospy_is_read_and_one_of_ours_is_read_by_rospy() -> None:
    from sensor_msgs.msg import LaserScan

    of = Type.installed("sensor_msgs/LaserScan")
    scan = LaserScan(angle_min=-1.5, ranges=[0.5, 1.5, 2.5], intensities=[])
    scan.header.frame_id = "laser"
    written = io.BytesIO()
    scan.serialize(written)
    message = of.read(written.getvalue())
    assert (message.header.frame_id, message.ranges.tolist(), message.angle_min) == ("laser", [0.5, 1.5, 2.5], -1.5)
    again = LaserScan()
    again.deserialize(bytes(of.written(message)))
    assert again == scan


def test_the_pages_table_is_as_the_types_are() -> None:
    table = Path(__file__).parents[1] / "table.py"
    subprocess.run([sys.executable, str(table), "--check"], check=True, timeout=60)
