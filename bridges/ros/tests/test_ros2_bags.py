"""Bags: topics with messages of ROS 1 and ROS 2 in MCAP files, which readers of others read back."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcap", reason="PyPI's mcap is not there")
pytest.importorskip("rclpy", reason="ROS 2's wheels are not there")

import numpy as np
import outlive
from mcap.reader import NonSeekingReader, make_reader
from outlive import ros1, ros2
from sensor_msgs.msg import CameraInfo, Image, JointState, PointCloud2
from geometry_msgs.msg import Pose, Vector3
from std_msgs.msg import String

from conftest import PACKAGE, wait_for

IMAGE_1 = f"""uint32 seq
string frame_id
uint8[] data
{"=" * 80}
MSG: std_msgs/String
string data"""


@pytest.fixture
def domain() -> Iterator[outlive.Domain]:
    folder = tempfile.mkdtemp(prefix="outlive-bags-", dir="/dev/shm")
    try:
        yield outlive.Domain(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def messages_2() -> list[tuple[str, type, dict[str, Any]]]:
    return [
        ("camera.left", Image, {"height": 4, "width": 5, "encoding": "mono8", "step": 5, "data": bytes(range(20))}),
        ("arm.pose", Pose, {"position": {"x": 1.0, "y": 2.0, "z": 3.0}, "orientation": {"w": 1.0}}),
        ("joints", JointState, {"name": ["a", "bc"], "position": [0.5, 1.5], "velocity": [], "effort": [7.0]}),
        ("info", CameraInfo, {"distortion_model": "plumb_bob", "d": [1.0, 2.0], "k": [float(n) for n in range(9)]}),
        ("points", PointCloud2, {"fields": [{"name": "x", "datatype": 7, "count": 1}], "data": b"\0\0\x80?", "width": 1}),
        ("text", String, {"data": "grüße"}),
    ]


def record_2(path: Path, domain: outlive.Domain, times: int = 3) -> list[tuple[str, type, dict[str, Any]]]:
    given = messages_2()
    of = {name: ros2.Type(message_class) for name, message_class, _ in given}
    publishers = {name: one.topic(name, domain).publisher() for name, one in of.items()}
    with ros2.record(path, list(of), domain) as bag:
        for _ in range(times):
            for name, _, values in given:
                of[name].publish(publishers[name], values)
        assert sum(iter(lambda: bag.take(0.2), 0)) == times * len(given)
        assert bag.lost == 0
    return given


def test_rosbags_reads_what_is_recorded_of_ros_2(tmp_path: Path, domain: outlive.Domain) -> None:
    pytest.importorskip("rosbags", reason="PyPI's rosbags is not there")
    from rosbags.highlevel import AnyReader
    from rosbags.typesys import Stores, get_typestore

    given = record_2(tmp_path / "a.mcap", domain)
    with AnyReader([tmp_path / "a.mcap"], default_typestore=get_typestore(Stores.EMPTY)) as reader:
        read = [(one.topic, one.msgtype, reader.deserialize(raw, one.msgtype)) for one, _, raw in reader.messages()]
    assert len(read) == 3 * len(given)
    for name, message_class, values in given:
        topic = "/" + name.replace(".", "/")
        found = [message for at, of, message in read if at == topic and of == ros2.Type(message_class).name]
        assert len(found) == 3
        for field, value in values.items():
            same(getattr(found[1], field), value)


def same(found: Any, value: Any) -> None:
    if isinstance(value, dict):
        for field, part in value.items():
            same(getattr(found, field), part)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for one, part in zip(found, value, strict=True):
            same(one, part)
    elif isinstance(value, bytes):
        assert bytes(found) == value
    else:
        assert list(found) == list(value) if isinstance(value, list) else found == value


def test_mcap_and_rclpy_read_what_is_recorded_of_ros_2(tmp_path: Path, domain: outlive.Domain) -> None:
    from rclpy.serialization import deserialize_message

    given = {"/" + name.replace(".", "/"): (of, values) for name, of, values in record_2(tmp_path / "a.mcap", domain)}
    with open(tmp_path / "a.mcap", "rb") as file:
        reader = make_reader(file)
        assert reader.get_header().profile == "ros2"
        times = []
        for schema, channel, message in reader.iter_messages():
            of, values = given[channel.topic]
            assert schema is not None and (schema.encoding, channel.message_encoding) == ("ros2msg", "cdr")
            assert schema.name == ros2.Type(of).name
            same(deserialize_message(message.data, of), values) if "fields" not in values else None
            times.append(message.log_time)
        assert times == sorted(times) and abs(times[0] / 1e9 - time.time()) < 60


def test_definitions_of_ros_2_have_all_types_that_they_use() -> None:
    text = ros2.Type(PointCloud2).definition
    parts = text.split("=" * 80 + "\n")
    assert parts[0].splitlines()[3] == "sensor_msgs/PointField[] fields"
    assert [part.splitlines()[0] for part in parts[1:]] == [
        "MSG: std_msgs/Header", "MSG: builtin_interfaces/Time", "MSG: sensor_msgs/PointField"
    ]  # fmt: skip
    assert "float64[9] k" in ros2.Type(CameraInfo).definition.splitlines()
    assert ros2.Type(Vector3).definition == "float64 x\nfloat64 y\nfloat64 z"


def test_ros_1_is_read_by_its_own_decoder(tmp_path: Path, domain: outlive.Domain) -> None:
    support = pytest.importorskip("mcap_ros1.decoder", reason="PyPI's mcap-ros1-support is not there")
    of = ros1.Type("robot_msgs/Picture", IMAGE_1)
    point = ros1.Type("geometry_msgs/Point32", "float32 x\nfloat32 y\nfloat32 z")
    pictures, points = of.topic("picture", domain).publisher(), point.topic("points.near", domain).publisher()
    with ros1.record(tmp_path / "a.mcap", {"picture": "/camera", "points.near": "/near"}, domain) as bag:
        for number in range(5):
            of.publish(pictures, {"seq": number, "frame_id": "left", "data": bytes([number] * 9)})
            point.publish(points, {"x": number, "y": 0.5})
        assert sum(iter(lambda: bag.take(0.2), 0)) == 10
    with open(tmp_path / "a.mcap", "rb") as file:
        reader = make_reader(file, decoder_factories=[support.DecoderFactory()])
        assert reader.get_header().profile == "ros1"
        read = list(reader.iter_decoded_messages())
    assert [one[3].seq for one in read if one[1].topic == "/camera"] == list(range(5))
    assert [bytes(one[3].data) for one in read if one[1].topic == "/camera"][3] == bytes([3] * 9)
    assert [(one[3].x, one[3].y) for one in read if one[1].topic == "/near"][4] == (4.0, 0.5)
    channel = next(one[1] for one in read if one[1].topic == "/near")
    assert channel.message_encoding == "ros1" and channel.metadata["md5sum"] == point.md5sum


def test_what_take_has_written_is_there_after_a_kill(tmp_path: Path, domain: outlive.Domain) -> None:
    of = ros2.Type(Image)
    publisher = of.topic("camera", domain, depth=1024).publisher()
    path = tmp_path / "a.mcap"
    code = f"""
from outlive import ros2
bag = ros2.record({str(path)!r}, ["camera"], {domain.path!r})
print(0, flush=True)
total = 0
while True:
    total += bag.take(10)
    print(total, flush=True)
"""
    env = dict(os.environ) | {"PYTHONPATH": str(PACKAGE)}
    with subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True) as recorder:
        assert recorder.stdout is not None and recorder.stdout.readline() == "0\n"
        for number in range(300):
            of.publish(publisher, {"height": number, "data": np.full(1000, number % 256, "u1")})
            time.sleep(0.002)
        recorder.send_signal(signal.SIGKILL)
        said = [int(line) for line in recorder.stdout.read().split()]
    read = []
    with open(path, "rb") as file, pytest.raises(Exception):  # noqa: B017 (it depends on where the file ends)
        for _, _, message in NonSeekingReader(file).iter_messages(log_time_order=False):
            read.append(of.read(message.data).height)
        raise EOFError("whole to its last record")
    assert said[-1] > 200 and len(read) >= said[-1] and read == list(range(len(read)))


def test_faults_are_told(tmp_path: Path, domain: outlive.Domain, monkeypatch: pytest.MonkeyPatch) -> None:
    of = ros2.Type(String)
    topic = of.topic("text", domain, depth=4)
    outlive.Topic("plain", domain)
    with pytest.raises(LookupError, match="'plain' name no message type"):
        ros2.record(tmp_path / "a.mcap", ["plain"], domain)
    assert not (tmp_path / "a.mcap").exists()
    publisher = topic.publisher()
    with ros2.record(tmp_path / "a.mcap", ["text"], domain) as bag:
        for number in range(20):
            of.publish(publisher, {"data": str(number)})
        assert wait_for(lambda: bag.take(0)) + bag.lost == 20 and bag.lost >= 16
        assert repr(bag) == f"<Recorder {tmp_path / 'a.mcap'}, 1 topics>"
    with pytest.raises(FileExistsError):
        ros2.record(tmp_path / "a.mcap", ["text"], domain)
    monkeypatch.setitem(sys.modules, "mcap.writer", None)
    with pytest.raises(ImportError, match=r"pip install 'outlive\[mcap\]'"):
        ros2.record(tmp_path / "b.mcap", ["text"], domain)
