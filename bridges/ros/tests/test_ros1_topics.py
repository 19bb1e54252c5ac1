"""Topics of ROS 1, in and out of a domain, while nodes, programs, master and bridge are killed."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

pytest.importorskip("rospy", reason="python3-rospy is not there")

import outlive
from outlive import ros1

from conftest import World, drain, received, wait_for

TALKER = """
rospy.init_node("talker")
out = rospy.Publisher("/chatter", String, queue_size=10)
n = 0
while not rospy.is_shutdown():
    out.publish(str(n)); n += 1
    time.sleep(0.02)
"""

LISTENER = """
rospy.init_node("listener")
rospy.Subscriber("/chatter", String, lambda message: say("heard", message.data))
rospy.spin()
"""

SPEAKER = """
from outlive import ros1
string = ros1.Type("std_msgs/String", "string data")
publisher = string.topic("chatter", folder).publisher()
n = 0
while True:
    string.publish(publisher, {"data": str(n)}); n += 1
    time.sleep(0.02)
"""


def open_topic(world: World, name: str) -> outlive.Topic:
    """Opens a topic once the bridge has made it."""

    def opened() -> outlive.Topic | None:
        try:
            return outlive.Topic.open(name, domain=world.domain)
        except outlive.NotFound:
            return None

    return wait_for(opened)


def test_a_text_comes_in_and_its_fields_are_seen(graph: World) -> None:
    bridge = graph.bridge("--in", "/chatter")
    graph.node(TALKER)
    bridge.until("in /chatter -> chatter: /talker publishes std_msgs/String")
    topic = open_topic(graph, "chatter")
    assert topic.payload == "std_msgs/String { data_length: u32, data: u8[] }"
    of = ros1.Type.of_topic("chatter", graph.domain)
    assert (of.name, of.md5sum) == ("std_msgs/String", "992ce8a1687cec8c8bd883ec73ca41d1")
    subscriber = topic.subscriber()
    numbers = [int(of.read(received(subscriber)).data) for _ in range(20)]
    assert numbers == list(range(numbers[0], numbers[0] + 20))
    assert bytes(received(subscriber).numpy()["data"]) == str(numbers[-1] + 1).encode()


def test_nothing_passes_unasked(graph: World) -> None:
    bridge = graph.bridge("--in", "/asked", "--out", "/asked_out")
    graph.node(TALKER)
    speaker = ros1.Type("std_msgs/String", "string data")
    publisher = speaker.topic("secret", graph.domain).publisher()
    graph.node(TALKER.replace("chatter", "asked").replace('"talker"', '"other"'))
    bridge.until("/other publishes")
    assert "chatter" not in outlive.Domain(graph.domain).names()
    speaker.publish(publisher, {"data": "x"})
    topics = graph.tool("rostopic", "list")
    topics.process.wait(30)
    assert not any("secret" in line for line in topics.lines) and "/asked" in topics.lines


def test_an_image_of_six_megabytes_lies_where_it_was_received(graph: World) -> None:
    bridge = graph.bridge("--in", "/camera/*=eye.{1}")
    graph.node(
        """
        rospy.init_node("camera")
        out = rospy.Publisher("/camera/left", Image, queue_size=2)
        image = Image(height=1080, width=1920, encoding="rgb8", step=5760)
        image.header.frame_id = "left"
        n = 0
        while not rospy.is_shutdown():
            image.data = bytes([n % 256]) * 6220800
            image.header.seq = n
            out.publish(image); n += 1
            time.sleep(0.05)
        """
    )
    bridge.until("in /camera/left -> eye.left")
    subscriber = open_topic(graph, "eye.left").subscriber()
    of = ros1.Type.of_topic("eye.left", graph.domain)
    seen = []
    for _ in range(10):
        with received(subscriber) as sample:
            image = of.read(sample)
            assert (image.height, image.width, image.header.frame_id) == (1080, 1920, "left")
            assert len(image.data) == 6220800 and not image.data.flags.owndata
            assert (image.data == image.data[0]).all()
            seen.append(image.header.seq)
            del image
    assert seen == sorted(set(seen))


def test_a_killed_node_is_told_within_a_second_and_its_stand_in_is_gone(graph: World) -> None:
    bridge = graph.bridge("--in", "/chatter")
    first = graph.node(TALKER)
    bridge.until("/talker publishes")
    topic = open_topic(graph, "chatter")
    subscriber = topic.subscriber()
    received(subscriber)
    assert subscriber.publisher_count == 1
    first.kill()
    killed = time.monotonic()
    bridge.until("/talker died")
    wait_for(lambda: subscriber.publisher_count == 0)
    print(f"told {time.monotonic() - killed:.3f} s after the kill")
    mark = len(bridge.lines)
    again = graph.node(TALKER)
    bridge.until("/talker publishes", after=mark)
    wait_for(lambda: subscriber.publisher_count == 1)
    assert again.end() == 0
    bridge.until("/talker left", after=mark)


def test_two_nodes_have_two_stand_ins(graph: World) -> None:
    bridge = graph.bridge("--in", "/chatter")
    one, two = graph.node(TALKER), graph.node(TALKER.replace('"talker"', '"other"'))
    bridge.until("/talker publishes")
    bridge.until("/other publishes")
    topic = open_topic(graph, "chatter")
    wait_for(lambda: len(topic.publishers()) == 2)
    one.kill()
    bridge.until("/talker died")
    wait_for(lambda: len(topic.publishers()) == 1)
    received(topic.subscriber())
    assert two.process.poll() is None


def test_a_local_publisher_is_heard_by_rospy_and_by_the_tools(graph: World) -> None:
    bridge = graph.bridge("--out", "/chatter")
    listener = graph.node(LISTENER)
    graph.program(SPEAKER)
    bridge.until("out chatter -> /chatter: std_msgs/String")
    listener.until("heard")
    heard = [int(line.split()[1]) for line in listener.lines if line.startswith("heard")]
    assert heard == list(range(heard[0], heard[0] + len(heard)))
    echo = graph.tool("rostopic", "echo", "-n", "3", "/chatter")
    echo.until("data: ")
    hz = graph.tool("rostopic", "hz", "-w", "20", "/chatter")
    hz.until("average rate")
    info = graph.tool("rostopic", "info", "/chatter")
    info.until("Type: std_msgs/String")


def test_a_killed_local_publisher_is_unregistered(graph: World) -> None:
    bridge = graph.bridge("--out", "/chatter")
    listener = graph.node(LISTENER)
    speaker = graph.program(SPEAKER)
    listener.until("heard")
    speaker.kill()
    bridge.until(f"its publisher, process {speaker.process.pid}, died; unregistered")
    topics = graph.tool("rostopic", "list", "-p")
    topics.process.wait(30)
    assert not any("chatter" in line for line in topics.lines)
    mark = len(listener.lines)
    graph.program(SPEAKER)
    listener.until("heard", after=mark)


def test_rostopic_pub_comes_in_and_rosbag_records_what_goes_out(graph: World) -> None:
    bridge = graph.bridge("--in", "/pose:geometry_msgs/Pose2D", "--out", "/chatter")
    graph.tool("rostopic", "pub", "-r", "20", "/pose", "geometry_msgs/Pose2D", "{x: 1.5, y: -2.0, theta: 0.25}")
    bridge.until("in /pose -> pose")
    topic = open_topic(graph, "pose")
    assert topic.payload == "geometry_msgs/Pose2D { x: f64, y: f64, theta: f64 }"
    assert received(topic.subscriber()).numpy().tolist() == (1.5, -2.0, 0.25)
    graph.program(SPEAKER)
    bridge.until("out chatter -> /chatter")
    recorder = graph.start("/usr/lib/rosbag/record", "-O", "out.bag", "/chatter")
    # Its own words come when their buffer is full; it records when it has connected.
    wait_for(lambda: Path(graph.folder, "out.bag.active").exists())
    time.sleep(2)
    assert recorder.end() == 0
    from rosbag import Bag

    with Bag(f"{graph.folder}/out.bag") as bag:
        numbers = [int(message.data) for _, message, _ in bag.read_messages()]
    assert len(numbers) > 10 and numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def test_large_images_go_out_from_the_samples_memory(graph: World) -> None:
    bridge = graph.bridge("--out", "/eye:sensor_msgs/Image")
    looker = graph.node(
        """
        rospy.init_node("looker")
        def see(image):
            data = image.data
            say("image", image.height, len(data), data[0], data == data[:1] * len(data), image.header.frame_id)
        rospy.Subscriber("/eye", Image, see, buff_size=1 << 24)
        rospy.spin()
        """
    )
    of = ros1.Type.installed("sensor_msgs/Image")
    publisher = of.topic("eye", graph.domain).publisher()
    bridge.until("out eye -> /eye")

    def publish(n: int) -> None:
        values = {"height": 1080, "width": 1920, "data": ros1.Room(6220800), "header": {"frame_id": "eye"}}
        with of.loan(publisher, values) as image:
            image.data[:] = n

    n = 0
    while len([line for line in looker.lines if line.startswith("image")]) < 5:
        publish(n % 256)
        n += 1
        time.sleep(0.05)
        assert n < 4000, looker.lines
    assert all(line.split()[4] == "True" and line.split()[5] == "eye" for line in looker.lines if "image" in line)


def test_both_ways_there_are_no_echoes(graph: World) -> None:
    """Two bridges of one domain, and a topic both ways: each message is seen once on each side."""
    bridge = graph.bridge("--topic", "/chatter")
    other = graph.bridge("--topic", "/chatter", "--name", "second")
    listener = graph.node(LISTENER)
    graph.program(SPEAKER.replace("str(n)", "'local%d' % n"))
    graph.node(TALKER.replace("str(n)", "'ros%d' % n"))
    bridge.until("/talker publishes")
    other.until("/talker publishes")
    subscriber = open_topic(graph, "chatter").subscriber()
    bridge.until("out chatter")
    other.until("out chatter")
    time.sleep(1.0)
    of = ros1.Type.of_topic("chatter", graph.domain)
    begun, local, came = time.monotonic(), [], []
    # Two seconds, or on a slow machine until there were enough of both.
    while (waited := time.monotonic() - begun) < 2 or waited < 60 and (len(local) <= 20 or not came):
        text = of.read(received(subscriber)).data
        (local if text.startswith("local") else came).append(text)
    # Two bridges carry each message once each, and neither one carries it back.
    assert len(set(local)) == len(local) and len(local) > 20
    assert max(came.count(one) for one in set(came)) == 2
    heard = [line.split()[1] for line in listener.lines if line.startswith("heard")][-100:]
    assert max(heard.count(one) for one in set(heard) if one.startswith("ros")) == 1
    assert max(heard.count(one) for one in set(heard) if one.startswith("local")) == 2


def test_a_new_master_is_told_all_and_connections_go_on(world: World) -> None:
    core = world.roscore()
    bridge = world.bridge("--in", "/chatter", "--out", "/back=spoken:std_msgs/String")
    talker = world.node(TALKER)
    listener = world.node(LISTENER.replace("/chatter", "/back"))
    world.program(SPEAKER.replace('"chatter"', '"spoken"'))
    bridge.until("/talker publishes")
    listener.until("heard")
    subscriber = open_topic(world, "chatter").subscriber()
    received(subscriber)
    core.remove()
    bridge.until("master is gone")
    mark = len(listener.lines)
    # Without a master, both connections go on.
    listener.until("heard", after=mark + 20)
    for _ in range(20):
        received(subscriber)
    # The listener of before has connected; a new one needs the master.
    mark_bridge = len(bridge.lines)
    world.roscore()
    bridge.until("registered again", after=mark_bridge)
    late = world.node(LISTENER.replace("/chatter", "/back").replace('"listener"', '"late"'))
    late.until("heard")
    other = world.node(TALKER.replace('"talker"', '"other"'))
    bridge.until("/other publishes", after=mark_bridge)
    assert talker.process.poll() is None and other.process.poll() is None
    mark = len(listener.lines)
    listener.until("heard", after=mark)
    assert not any("/talker" in line for line in bridge.lines[mark_bridge:])


def test_a_killed_bridge_has_a_successor(graph: World) -> None:
    first = graph.bridge("--topic", "/chatter")
    first.until("bridge /outlive_bridge")
    second = graph.bridge("--topic", "/chatter")
    second.until(f"stands by: process {first.process.pid}")
    graph.node(TALKER)
    listener = graph.node(LISTENER.replace("/chatter", "/spoken"))
    first.until("/talker publishes")
    subscriber = open_topic(graph, "chatter").subscriber()
    received(subscriber)
    first.kill()
    second.until("the bridge before this one died")
    second.until("/talker publishes")
    drain(subscriber)
    assert received(subscriber).publisher_alive
    assert listener.process.poll() is None
    assert second.end() == 0
    nodes = graph.tool("rostopic", "info", "/chatter")
    nodes.process.wait(30)
    assert not any("outlive_bridge" in line for line in nodes.lines), nodes.lines


def test_what_is_no_message_is_refused_and_told(graph: World) -> None:
    bridge = graph.bridge("--out", "/wrong:std_msgs/String")
    listener = graph.node(LISTENER.replace("/chatter", "/wrong"))
    of = ros1.Type("std_msgs/String", "string data")
    publisher = of.topic("wrong", graph.domain).publisher()
    bridge.until("out wrong -> /wrong")
    # A length beyond the message's end.
    publisher.publish(b"\xff\xff\xff\xffabc")
    bridge.until("refused: out wrong: the message ends after 7 bytes")
    wait_for(lambda: (of.publish(publisher, {"data": "good"}), time.sleep(0.05), "heard good" in listener.lines)[-1])
    assert all("abc" not in line for line in listener.lines)
    publisher.close()
    bridge.until("its publisher left; unregistered; 1 of its messages were refused")


def test_a_name_that_has_no_counterpart_is_refused(graph: World) -> None:
    bridge = graph.bridge("--out", "/**:std_msgs/String")
    of = ros1.Type("std_msgs/String", "string data")
    publisher = of.topic("no-name.of ros", graph.domain).publisher()
    bridge.until("refused: out no-name.of ros: 'no-name.of ros' is no name of ROS")
    of.publish(publisher, {"data": "x"})


def test_a_ros_node_that_sends_no_messages_is_refused_and_holds_up_nothing(graph: World) -> None:
    bridge = graph.bridge("--in", "/chatter", "--max-message", "1000")
    bad = graph.node(
        """
        class Bad(String):
            def serialize(self, buff):
                buff.write(self.data)
        rospy.init_node("bad")
        out = rospy.Publisher("/chatter", Bad, queue_size=10)
        while not rospy.is_shutdown():
            for data in (b"", b"abc", b"\\xff\\xff\\xff\\xffabc", b"\\x02\\0\\0\\0abc", bytes(5000), b"\\x02\\0\\0\\0ok"):
                out.publish(Bad(data))
            time.sleep(0.02)
        """
    )
    bridge.until("/bad publishes std_msgs/String")
    subscriber = open_topic(graph, "chatter").subscriber()
    of = ros1.Type.of_topic("chatter", graph.domain)
    assert [of.read(received(subscriber)).data for _ in range(5)] == ["ok"] * 5
    for why in (
        "a message is std_msgs/String { data_length: u32, data: u8[] } of 4 bytes, and 1 for each item of its tail, not of 0",
        "a message is std_msgs/String { data_length: u32, data: u8[] } of 4 bytes, and 1 for each item of its tail, not of 3",
        "the message ends after 7 bytes",
        "1 bytes follow the message",
        "a message of 5000 bytes is larger than --max-message",
    ):
        bridge.until(f"refused: in /chatter: /bad: {why}")
    bad.kill()
    bridge.until("of its messages were refused")


def test_a_stopped_ros_subscriber_holds_up_nobody_and_its_losses_are_told(graph: World) -> None:
    bridge = graph.bridge("--out", "/eye:sensor_msgs/Image")
    see = """
rospy.init_node("%s")
rospy.Subscriber("/eye", Image, lambda image: say("image", image.header.seq), buff_size=1 << 24)
rospy.spin()
"""
    stopped, lively = graph.node(see % "stopped"), graph.node(see % "lively")
    graph.program(
        """
from outlive import ros1
of = ros1.Type.installed("sensor_msgs/Image")
publisher = of.topic("eye", folder).publisher()
n = 0
while True:
    of.publish(publisher, {"data": bytes(1 << 20), "header": {"seq": n}}); n += 1
    time.sleep(0.01)
"""
    )
    stopped.until("image")
    lively.until("image")
    stopped.process.send_signal(signal.SIGSTOP)
    bridge.until("messages were too fast and are lost")
    mark = len(lively.lines)
    lively.until("image", after=mark)
    mark = len(stopped.lines)
    stopped.process.send_signal(signal.SIGCONT)
    stopped.until("image", after=mark)


def test_a_stopped_bridge_holds_up_neither_side(graph: World) -> None:
    bridge = graph.bridge("--in", "/chatter", "--out", "/back=spoken:std_msgs/String")
    other = graph.bridge("--in", "/chatter", "--name", "other")
    other.until("bridge /other")
    graph.node(TALKER)
    listener = graph.node(LISTENER.replace("/chatter", "/back"))
    speaker = graph.program(
        SPEAKER.replace('"chatter"', '"spoken"').replace("n += 1", "n += 1; print('said', n, flush=True)")
    )
    listener.until("heard")
    subscriber = open_topic(graph, "chatter").subscriber()
    bridge.process.send_signal(signal.SIGSTOP)
    # The publisher in the domain goes on, and so does the node, which another bridge hears.
    mark = len(speaker.lines)
    speaker.until("said", after=mark + 50)
    drain(subscriber)
    for _ in range(50):
        received(subscriber)
    mark = len(listener.lines)
    bridge.process.send_signal(signal.SIGCONT)
    listener.until("heard", after=mark)
