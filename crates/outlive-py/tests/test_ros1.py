"""Message types of ROS 1: definitions, checksums and bytes, without ROS. The bridge's tests, with ROS,
are those of `cargo xtask bridges`."""

from __future__ import annotations

import doctest
import importlib.util
import random
import subprocess
import sys

import numpy as np
import pytest

import outlive
from outlive import ros1
from outlive.ros1 import BadMessage, Room, Type
from outlive.ros1 import _rules

LINE = "=" * 80


def test_the_modules_example_runs(folder: str) -> None:
    found = doctest.DocTestParser().get_doctest(ros1.__doc__ or "", vars(ros1) | {"folder": folder}, "ros1", None, None)
    assert found.examples and doctest.DocTestRunner().run(found).failed == 0


HEADER = "uint32 seq\ntime stamp\nstring frame_id\n"
IMAGE = f"""# An image: row by row.

Header header        # when and where

uint32 height
uint32 width
string encoding
uint8 is_bigendian
uint32 step
uint8[] data
{LINE}
MSG: std_msgs/Header
# Comments go.
{HEADER}"""
POINT = "float64 x\nfloat64 y\nfloat64 z\n"
QUATERNION = POINT + "float64 w\n"
POSE = f"Point position\nQuaternion orientation\n{LINE}\nMSG: geometry_msgs/Point\n{POINT}\n{LINE}\nMSG: geometry_msgs/Quaternion\n{QUATERNION}"
CONSTANTS = "int8 STATUS_NO_FIX =  -1   # none\nint8 STATUS_FIX = 0\nstring NAME=a # b\nint8 status\n"


@pytest.mark.parametrize(
    ("name", "definition", "md5sum"),
    [
        ("std_msgs/String", "string data", "992ce8a1687cec8c8bd883ec73ca41d1"),
        ("std_msgs/Header", HEADER, "2176decaecbce78abc3b96ef049fabed"),
        ("sensor_msgs/Image", IMAGE, "060021388200f6f0f447d0fcd9c64743"),
        ("geometry_msgs/Pose", POSE, "e45d45a5a1ce597b249e23fb30fc871f"),
        ("std_msgs/Empty", "", "d41d8cd98f00b204e9800998ecf8427e"),
    ],
)
def test_checksums_are_those_of_ros(name: str, definition: str, md5sum: str) -> None:
    of = Type(name, definition)
    assert of.md5sum == md5sum
    again = Type(name, of.definition)
    assert (again.md5sum, again.struct) == (md5sum, of.struct)
    assert "#" not in of.definition


def test_constants_are_no_fields() -> None:
    of = Type("a/B", CONSTANTS)
    assert [name for name, _ in of.struct.fields] == ["status"]
    assert "string NAME=a # b" in of.definition


@pytest.mark.parametrize(
    "definition",
    [
        "Other other",
        "A a",
        "string",
        "uint8[x] a",
        "uint8 a b",
        "uint8 a\nuint8 a",
        f"uint8 a\n{LINE}\nno head",
        "x" * (2 << 20),
        # Thirty types, of which each one uses the next one twice.
        "T0 a\nT0 b\n" + "".join(f"{LINE}\nMSG: a/T{n}\nT{n + 1} a\nT{n + 1} b\n" for n in range(30)),
    ],
)
def test_a_definition_that_is_none_is_refused(definition: str) -> None:
    with pytest.raises(BadMessage):
        Type("a/A", definition)


def test_what_has_a_fixed_layout_is_described(folder: str) -> None:
    pose = Type("geometry_msgs/Pose", POSE)
    topic = pose.topic("pose", folder)
    assert topic.payload is not None and topic.payload.startswith("geometry_msgs/Pose { position: { x: f64")
    subscriber = topic.subscriber()
    pose.publish(topic.publisher(), {"position": {"x": 1.5}})
    record = subscriber.recv(timeout=60).numpy()
    assert record["position"]["x"] == 1.5 and not record.flags.writeable
    # Behind an odd number of bytes, a number lies where no language aligns it.
    odd = Type("a/Odd", "uint8 a\nfloat64 b")
    assert odd.dtype.itemsize == 9
    assert odd.topic("odd", folder).dtype.itemsize == 9


def test_an_image_is_read_and_filled_where_it_lies(folder: str) -> None:
    of = Type("sensor_msgs/Image", IMAGE)
    assert of.dtype is None and of.payload == "bytes sensor_msgs/Image"
    topic = of.topic("camera", folder)
    subscriber, publisher = topic.subscriber(), topic.publisher()
    values = {"height": 480, "width": 640, "encoding": "mono8", "data": Room(480 * 640)}
    with of.loan(publisher, values) as image:
        image.data.reshape(480, 640)[:] = 7
    sample = subscriber.recv(timeout=60)
    image = Type.of_topic("camera", folder).read(sample)
    assert (image.height, image.width, image.encoding, image.header.frame_id) == (480, 640, "mono8", "")
    assert image.data.shape == (480 * 640,) and (image.data == 7).all()
    assert np.shares_memory(image.data, np.frombuffer(sample, "u1"))
    with pytest.raises(ValueError):
        image.data[0] = 1
    with pytest.raises(AttributeError, match="no field 'colour'"):
        image.colour
    with pytest.raises(BadMessage, match="no field 'colour'"):
        of.written({"colour": 1})
    # What was read can be written again.
    assert bytes(of.written(image)) == bytes(sample)


def test_a_topic_of_another_type_is_refused(folder: str) -> None:
    Type("std_msgs/String", "string data").topic("a", folder)
    with pytest.raises(outlive.OutliveError):
        Type("std_msgs/UInt8", "uint8 data").topic("a", folder)
    with pytest.raises(LookupError):
        outlive.Topic("b", folder)
        Type.of_topic("b", folder)


MIXED = Type(
    "a/Mixed",
    f"string a\nb/Part[] parts\nuint16[3] three\nEmpty[] none\nstring[] texts\n{LINE}\nMSG: b/Part\nfloat64[] x\nbool y\n{LINE}\nMSG: a/Empty\n",
)
VALUES = {
    "a": "ä",
    "parts": [{"x": [1.0, 2.0], "y": 1}, {"x": [], "y": 0}],
    "three": [1, 2, 3],
    "none": [{}, {}],
    "texts": ["", "b"],
}


def test_texts_and_arrays_of_any_length_are_read() -> None:
    message = MIXED.read(MIXED.written(VALUES))
    assert message.a == "ä" and message.three.tolist() == [1, 2, 3] and message.texts == ["", "b"]
    assert message.parts[0].x.tolist() == [1.0, 2.0] and len(message.none) == 2
    with pytest.raises(BadMessage, match="3 items is given 2"):
        MIXED.written(VALUES | {"three": [1, 2]})


def test_no_length_of_hostile_bytes_is_taken_on_trust() -> None:
    data = bytes(MIXED.written(VALUES))
    for end in range(len(data)):
        with pytest.raises(BadMessage):
            MIXED.read(data[:end])
        with pytest.raises(BadMessage):
            MIXED.check(data[:end])
    with pytest.raises(BadMessage, match="1 bytes follow"):
        MIXED.check(data + b"\0")
    numbers = random.Random(18)
    refused = 0
    for _ in range(3_000):
        bad = bytearray(data)
        for _ in range(numbers.randrange(1, 4)):
            bad[numbers.randrange(len(bad))] = numbers.choice((0, 1, 0x7F, 0x80, 0xFF))
        outcomes = []
        for go in (MIXED.read, MIXED.check):
            try:
                go(bytes(bad))
                outcomes.append(True)
            except BadMessage:
                outcomes.append(False)
        assert outcomes[0] == outcomes[1]
        refused += not outcomes[0]
    assert 100 < refused < 3_000


@pytest.mark.parametrize(
    ("rule", "ros", "name"),
    [
        ("/camera/*=camera.{1}", "/camera/left", "camera.left"),
        ("/camera/**", "/camera/left/image", "camera.left.image"),
        ("/*/image=img.{1}", "/left/image", "img.left"),
        ("/a/*/*=x.{2}.{1}", "/a/b/c", "x.c.b"),
    ],
)
def test_a_rule_maps_names_both_ways(rule: str, ros: str, name: str) -> None:
    given = _rules.given(rule, "both")
    assert (given.name_of(ros), given.ros_of(name)) == (name, ros)
    assert given.name_of("/other") is None and given.ros_of("other") is None


def test_a_name_without_counterpart_is_refused() -> None:
    given = _rules.given("/**", "both")
    for name in ("a-b", "a..b", "1a", "a b", "ä"):
        with pytest.raises(_rules.BadName):
            given.ros_of(name)
    with pytest.raises(_rules.BadName, match="too long"):
        given.name_of("/" + "a" * 201)


@pytest.mark.parametrize(
    "rule", ["", "camera", "/a/*=x", "/a/*=x{1}{1}", "/a b", "/a=x/y", "/a=", "/***", "/a:Image", "/a/..", "/a=x{1}"]
)
def test_a_rule_that_cannot_be_followed_is_refused(rule: str) -> None:
    with pytest.raises(_rules.BadRule):
        _rules.given(rule, "in")


@pytest.mark.parametrize(
    "text",
    [
        "[[topic]]",
        "[[topic]]\nros = '/a'\ndirection = 'up'",
        "[[topic]]\nros = '/a'\ndepht = 8",
        "[[topic]]\nros = '/a'\ndepth = 'x'",
        "[[topic]]\nros = '/a'\nlatch = 1",
        "[other]",
        "topic = 3",
        "not toml",
    ],
)
def test_a_file_with_a_fault_is_refused(tmp_path: object, text: str) -> None:
    path = f"{tmp_path}/rules.toml"
    with open(path, "w") as file:
        file.write(text)
    with pytest.raises(_rules.BadRule):
        _rules.read(path)


def test_a_file_of_rules_is_read(tmp_path: object) -> None:
    path = f"{tmp_path}/rules.toml"
    with open(path, "w") as file:
        file.write(
            "[[topic]]\nros = '/camera/*'\noutlive = 'eye.{1}'\ndirection = 'in'\ndepth = 8\n"
            "[[service]]\nros = '/arm'\ntype = 'std_srvs/SetBool'\ntimeout = 1\n"
        )
    topics, services = map(_rules.Rules, _rules.read(path))
    name, rule = topics.coming_in("/camera/left") or ("", None)
    assert name == "eye.left" and rule is not None and rule.options == {"depth": 8}
    assert topics.going_out("eye.left") is None
    ros, rule = services.going_out("arm") or ("", None)
    assert ros == "/arm" and rule is not None and rule.type == "std_srvs/SetBool"


@pytest.mark.parametrize(
    ("rules", "code", "says"),
    [
        ([], 2, "no rule names what may pass"),
        (["--in", "camera"], 2, "'camera' is no pattern of names of ROS"),
        (["--in", "/a", "--config", "/nowhere.toml"], 16, "/nowhere.toml"),
        (["--in", "/a"], 6, "apt-get install python3-rospy"),
    ],
)
def test_the_bridge_says_what_it_lacks(folder: str, rules: list[str], code: int, says: str) -> None:
    if code == 6 and importlib.util.find_spec("rospy"):
        pytest.skip("this Python has rospy")
    ran = subprocess.run(
        [sys.executable, "-m", "outlive.ros1.bridge", "--domain", folder, *rules],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ran.returncode, says in ran.stderr) == (code, True), ran.stderr


def test_what_is_larger_than_any_message_is_refused() -> None:
    of = Type("a/A", f"B[] first\nstring second\n{LINE}\nMSG: a/B\nfloat64[4000000000] x")
    with pytest.raises(BadMessage, match="more bytes than a message"):
        of.check(bytes(100))
    # Four bytes that say how many items without fields there are, again and again.
    none = Type("a/A", f"B[] outer\n{LINE}\nMSG: a/B\nNone[] inner\n{LINE}\nMSG: a/None\n")
    few, many = (60_000).to_bytes(4, "little"), (2).to_bytes(4, "little")
    assert len(none.read((1).to_bytes(4, "little") + few).outer[0].inner) == 60_000
    for go in (none.read, none.check):
        with pytest.raises(BadMessage, match="items without fields"):
            go(many + few + few)
