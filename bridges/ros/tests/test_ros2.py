"""Topics and services of ROS 2 beside rclpy: real nodes, which are killed."""

from __future__ import annotations

import array
import glob
import importlib
import os
import sys
import time
from collections.abc import Iterator

import pytest

pytest.importorskip("rclpy", reason="ROS 2's wheels are not there")

import numpy as np
import outlive
from outlive import _ros, ros2
from outlive.ros2 import BadMessage, Room, Type
from rclpy.duration import Duration
from rclpy.qos import DurabilityPolicy, HistoryPolicy, LivelinessPolicy, QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import Image, JointState, PointCloud2

from conftest import Process, World, drain, received, wait_for


HEAD = """
import array, os, sys, threading, time
import rclpy
from rclpy.duration import Duration
from rclpy.qos import *
from sensor_msgs.msg import *
from std_msgs.msg import *
from std_srvs.srv import *
def say(*words):
    # One write: callbacks run in threads of their own, and `print` writes word by word.
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())
"""


class World2(World):
    """A domain and nodes of ROS 2, in a ROS domain of the test's own."""

    def __init__(self) -> None:
        super().__init__()
        # Nothing leaves this machine: discovery is by loopback alone, in 100 of ROS's own domains.
        self.env |= {"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST", "ROS_DOMAIN_ID": str(1 + os.getpid() % 100)}
        self.before = set(shared())

    def node2(self, code: str) -> Process:
        return self.start(sys.executable, "-c", HEAD + "rclpy.init()\n" + code)

    def bridge2(self, code: str) -> Process:
        """Starts a bridge; `code` says what it carries."""
        made = f"from outlive import ros2\nbridge = ros2.Bridge('outlive_bridge', {self.domain!r})\n"
        return self.start(sys.executable, "-c", HEAD + made + code + "\nsay('up')\nbridge.wait()\n")

    def remove(self) -> None:
        super().remove()
        # Killed processes leave Fast DDS's own files.
        for path in set(shared()) - self.before:
            os.unlink(path)


def shared() -> list[str]:
    return glob.glob("/dev/shm/*fastdds_*") + glob.glob("/dev/shm/*fast_datasharing*")


@pytest.fixture
def world2() -> Iterator[World2]:
    one = World2()
    try:
        yield one
    finally:
        one.remove()


TALKER = """
node = rclpy.create_node("talker")
out = node.create_publisher(String, "/chatter", {qos})
n = 0
while True:
    out.publish(String(data=str(n))); n += 1
    time.sleep(0.02)
"""


@pytest.mark.parametrize("package", ["std_msgs", "geometry_msgs", "sensor_msgs"])
def test_messages_are_those_of_rclpy(package: str) -> None:
    module = importlib.import_module(f"{package}.msg")
    classes = [one for one in vars(module).values() if hasattr(one, "SLOT_TYPES")]
    described = 0
    for one in classes:
        of = Type(one)
        described += of.dtype is not None
        body = bytes(of.from_wire(serialize_message(one())))
        of.check(body)
        of.read(body)
        # Padding is whatever Fast CDR's memory had: messages are compared, not bytes.
        assert of.message(of.written(one())) == one(), of.name
        assert of.message(body) == one(), of.name
    assert (described > 1) == (package != "sensor_msgs")


def test_arrays_are_views_both_ways(world2: World2) -> None:
    image = Image(height=2, width=3, encoding="mono8", data=array.array("B", range(6)))
    of = Type(Image)
    topic = of.topic("eye", world2.domain)
    assert topic.payload == "sensor_msgs/msg/Image (cdr)"
    subscriber, publisher = topic.subscriber(), topic.publisher()
    of.publish(publisher, image)
    sample = received(subscriber)
    message = Type.of_topic("eye", world2.domain).read(sample)
    assert message.data.tolist() == list(range(6)) and message.encoding == "mono8"
    assert np.shares_memory(message.data, np.frombuffer(sample, "u1"))
    assert of.message(sample) == image
    with of.loan(publisher, {"height": 480, "width": 640, "data": Room(640 * 480)}) as lent:
        lent.data.reshape(480, 640)[:] = 7
    assert bytes(of.message(received(subscriber)).data) == b"\7" * (640 * 480)
    joints = JointState(name=["a", "bc"], position=[1.0, 2.0], effort=[0.5])
    kind = Type(JointState)
    read = kind.read(kind.written(joints))
    assert (read.name, read.position.tolist(), read.effort.tolist()) == (["a", "bc"], [1.0, 2.0], [0.5])
    assert deserialize_message(kind.to_wire(kind.written(joints)), JointState) == joints


def test_a_topic_has_the_definition_of_its_messages(world2: World2) -> None:
    of = Type(PointCloud2)
    domain = outlive.Domain(world2.domain)
    of.topic("points", domain)
    attributes = domain.attributes("points")
    assert attributes == {ros2.TYPE: of.name, ros2.DEFINITION: of.definition}
    assert "sensor_msgs/PointField[] fields" in attributes[ros2.DEFINITION]
    # Of a program that knows the type's name alone.
    outlive.Topic("bare", domain.with_attributes({ros2.TYPE: of.name}), payload=of.payload)
    of.topic("bare", domain)
    assert Type.of_topic("bare", domain).name == of.name
    # Attributes have an end.
    assert list(_ros.fitting({"a": "1", "long": "x" * 4066}, "long")) == ["a", "long"]
    assert list(_ros.fitting({"a": "1", "long": "x" * 4067}, "long")) == ["a"]
    outlive.Topic("full", domain.with_attributes({"a": "1", "long": "x" * 4066}))


def test_hostile_bytes_are_refused() -> None:
    of = Type(PointCloud2)
    data = of.written({"data": b"12345678", "header": {"frame_id": "map"}, "fields": [{"name": "x"}]})
    for end in range(len(data)):
        with pytest.raises(BadMessage):
            of.read(data[:end])
    for at in range(4, len(data)):
        for byte in (0x7F, 0xFF):
            bad = bytearray(data)
            bad[at] = byte
            try:
                of.read(bytes(bad))
            except BadMessage:
                pass
    with pytest.raises(BadMessage, match="little-endian"):
        of.read(b"\0\0" + data[2:])


def test_each_policy_has_its_option(world2: World2) -> None:
    qos = QoSProfile(
        depth=4,
        reliability=ReliabilityPolicy.RELIABLE,
        durability=DurabilityPolicy.TRANSIENT_LOCAL,
        deadline=Duration(seconds=0.5),
        lifespan=Duration(seconds=2),
        liveliness=LivelinessPolicy.MANUAL_BY_TOPIC,
        liveliness_lease_duration=Duration(seconds=1.5),
    )
    assert ros2.for_topic(qos) == {"depth": 4, "reliable": True, "durability": "transient_local"}
    assert ros2.for_publisher(qos) == {"period": 0.5, "lifespan": 2.0}
    wanted = {"reliable": True, "history": 4, "period": 0.5, "max_age": 2.0, "liveliness": 1.5}
    assert ros2.for_subscriber(qos) == wanted
    plain = QoSProfile(depth=5, reliability=ReliabilityPolicy.BEST_EFFORT)
    assert ros2.for_topic(plain) == {"depth": 5, "reliable": False, "durability": "volatile"}
    assert ros2.for_publisher(plain) == {} and ros2.for_subscriber(plain) == {"keep_last": 5}
    every = QoSProfile(history=HistoryPolicy.KEEP_ALL, reliability=ReliabilityPolicy.RELIABLE)
    assert ros2.for_topic(every) == {"reliable": True, "durability": "volatile"}
    # The options are taken, and the way back is the same profile.
    for number, profile in enumerate((qos, plain, every)):
        topic = outlive.Topic(f"t{number}", world2.domain, **ros2.for_topic(profile))
        topic.publisher(**ros2.for_publisher(profile)).close()
        topic.subscriber(**ros2.for_subscriber(profile)).close()
        back = ros2.profile_of(topic)
        assert (back.reliability, back.durability) == (profile.reliability, profile.durability)
        # A depth is the next power of two; a subscriber's keep_last is exact.
        assert profile.history != HistoryPolicy.KEEP_LAST or profile.depth <= back.depth < 2 * profile.depth


def test_a_topic_comes_in_and_a_killed_node_is_told_within_its_lease(world2: World2) -> None:
    lease = "QoSProfile(depth=8, liveliness=LivelinessPolicy.AUTOMATIC, liveliness_lease_duration=Duration(seconds=1))"
    bridge = world2.bridge2(f"bridge.topic_in('/chatter', String, {lease})")
    talker = world2.node2(TALKER.format(qos=lease))
    bridge.until("in /chatter -> chatter: std_msgs/msg/String")
    topic = outlive.Topic.open("chatter", domain=world2.domain)
    subscriber = topic.subscriber()
    of = Type.of_topic("chatter", world2.domain)
    numbers = [int(of.read(received(subscriber)).data) for _ in range(20)]
    assert numbers == list(range(numbers[0], numbers[0] + 20))
    talker.kill()
    killed = time.monotonic()
    bridge.until("its last publisher is gone")
    print(f"told {time.monotonic() - killed:.3f} s after the kill")
    wait_for(lambda: subscriber.publisher_count == 0)
    mark = len(bridge.lines)
    world2.node2(TALKER.format(qos=lease))
    bridge.until("in /chatter -> chatter", after=mark)
    drain(subscriber)
    sample = received(subscriber)
    assert sample.publisher_alive
    bridge.kill()
    assert not sample.publisher_alive
    wait_for(lambda: subscriber.publisher_count == 0)


def test_a_topic_goes_out_until_its_publisher_is_killed(world2: World2) -> None:
    bridge = world2.bridge2("bridge.topic_out('/eye', Image, 4)")
    bridge.until("up")
    looker = world2.node2(
        """
node = rclpy.create_node("looker")
def see(image):
    say("image", image.height, len(image.data), bytes(image.data) == bytes(image.data[:1]) * len(image.data))
node.create_subscription(Image, "/eye", see, 4)
while True:
    rclpy.spin_once(node, timeout_sec=0.1)
    say("publishers", node.count_publishers("/eye"))
"""
    )
    camera = world2.program(
        """
from outlive import ros2
from sensor_msgs.msg import Image
of = ros2.Type(Image)
topic = outlive.Topic.open("eye", domain=folder)
publisher = topic.publisher()
n = 0
while True:
    with of.loan(publisher, {"height": 1080, "data": ros2.Room(6220800)}) as image:
        image.data[:] = n % 256
    n += 1
    time.sleep(0.05)
"""
    )
    looker.until("image 1080 6220800 True")
    camera.kill()
    bridge.until(f"its publisher, process {camera.process.pid}, died")
    mark = len(looker.lines)
    looker.until("publishers 0", after=mark)


SERVER = """
node = rclpy.create_node("server")
def answer(request, response):
    say("asked")
    time.sleep({sleep})
    response.success, response.message = not request.data, "was %s" % request.data
    return response
node.create_service(SetBool, "/arm/enable", answer)
say("serving")
rclpy.spin(node)
"""


def test_services_both_ways_with_deadlines(world2: World2) -> None:
    from std_srvs.srv import SetBool

    bridge = world2.bridge2(
        "bridge.service_in('/arm/enable', SetBool, timeout=2.0)\nbridge.service_out('/gripper', SetBool, timeout=10)"
    )
    bridge.until("up")
    request, reply = Type(SetBool.Request), Type(SetBool.Response)
    with outlive.Client.open("arm.enable", domain=world2.domain) as client:
        with pytest.raises(outlive.ServiceError, match="ROS 2 has no server"):
            client.call(request.written({"data": True}), 60)
        server = world2.node2(SERVER.format(sleep=0))
        server.until("serving")
        answer = reply.read(wait_for(lambda: attempt(client, request.written({"data": True}))))
        assert (answer.success, answer.message) == (0, "was True")
        server.end(9)
        slow = world2.node2(SERVER.format(sleep=60))
        slow.until("serving")
        with pytest.raises(outlive.ServiceError, match="did not answer within 2.0 s"):
            client.call(request.written({"data": True}), 60)
    local = """
from outlive import ros2
from std_srvs.srv import SetBool
request, reply = ros2.Type(SetBool.Request), ros2.Type(SetBool.Response)
server = outlive.Server("gripper", folder, request=request.payload, reply=reply.payload)
print("serving", flush=True)
for one in server:
    print("asked", flush=True)
    time.sleep(%s)
    one.reply(reply.written({"success": True, "message": "by process %%d" %% os.getpid()}))
"""
    caller = """
node = rclpy.create_node("caller")
client = node.create_client(SetBool, "/gripper")
client.wait_for_service(timeout_sec=60)
future = client.call_async(SetBool.Request(data=True))
rclpy.spin_until_future_complete(node, future, timeout_sec=60)
say(future.result().success, future.result().message)
"""
    first = world2.program(local % 0)
    first.until("serving")
    world2.node2(caller).until(f"True by process {first.process.pid}")
    first.kill()
    second = world2.program(local % 60)
    second.until("serving")
    asking = world2.node2(caller)
    second.until("asked")
    second.kill()
    asking.until("False the server of gripper died; it had begun the call")


def attempt(client: outlive.Client, data: bytes) -> bytes | None:
    try:
        return client.call(data, 20)
    except outlive.ServiceError:
        return None


def test_a_topic_goes_one_way(world2: World2) -> None:
    bridge = world2.bridge2(
        "bridge.topic_in('/chatter', String, 8)\n"
        "try:\n    bridge.topic_out('/chatter', String, 8)\nexcept ValueError as error:\n    print(error, flush=True)"
    )
    bridge.until("it goes one way")
