"""Recordings: what the programs and other libraries make of them, and this package of theirs."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import time

import numpy as np
import pytest
from bag_values import IMU, POINT, same, values

import outlive
from outlive import bag


def program(name):
    """A program of the workspace, as the other stages built it."""
    here = os.path.dirname(os.path.abspath(__file__))
    found = os.path.join(here, "../../../target/debug", name)
    if not os.path.exists(found):
        pytest.skip(f"{name} is not built: cargo build -p {'outlive-record' if name != 'outlive-bag' else name}")
    return os.path.normpath(found)


@contextlib.contextmanager
def recording(folder, path, *args):
    process = subprocess.Popen(
        [program("outlive-record"), "--all", "-o", path, "--domain", folder, "--json", *args],
        stdout=subprocess.PIPE, text=True,
    )
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until and '"records"' not in process.stdout.readline():
            pass
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


def publish_all(folder, publishers, number):
    for topic, (_, value) in values().items():
        if topic == "msgpack":
            publishers[topic].publish_msgpack(value)
        elif topic == "json":
            publishers[topic].publish(json.dumps(value).encode())
        else:
            publishers[topic].publish(value, stamp=1000 + number)


def test_what_outlive_record_wrote(folder, path):
    topics = {name: outlive.Topic(name, folder, payload=payload, reliable=True) for name, (payload, _) in values().items()}
    publishers = {name: topic.publisher() for name, topic in topics.items()}
    with recording(folder, path):
        for number in range(5):
            publish_all(folder, publishers, number)
    with bag.Reader(path) as reader:
        info = reader.info
        assert info.finished and info.lost == {} and info.deaths == []
        assert "acceleration: f64[3]" in info.topics["imu"].payload
        assert info.topics["imu"].metadata["outlive.depth"] == "16"
        assert [event["event"] for event in reader.events()][0] == "started"
        for topic, (_, value) in values().items():
            messages = list(reader.messages(topic))
            assert len(messages) == 5, topic
            for number, message in enumerate(messages):
                assert same(message.value, value), (topic, message.value, value)
                if topic not in ("json", "msgpack"):
                    assert message.publish_time == 1000 + number


def test_a_death_and_a_loss_are_told(folder, path, start):
    topic = outlive.Topic("a", folder, depth=4)
    with recording(folder, path):
        dies = start("""
            publisher = Topic("a", folder).publisher()
            publisher.publish(b"x")
            say("published")
            time.sleep(60)
        """)
        dies.line()
        dies.kill()
        publisher = topic.publisher()
        until = time.monotonic() + 60
        with bag.Reader(path) as reader:
            while time.monotonic() < until and not reader.info.deaths:
                publisher.publish(b"y")
                time.sleep(0.05)
                reader = bag.Reader(path)
    info = bag.Reader(path).info
    assert [(death.topic, death.pid) for death in info.deaths] == [("a", dies.pid)]
    told = str(info)
    assert f"a publisher of a died: {dies.pid}" in told
    # The recorder's own events are no messages that were recorded.
    assert info.messages == info.topics["a"].messages
    assert f"  a: {info.messages} message" in told and "of the recorder: Reader.events()" in told


def test_outlive_replay_publishes_what_was_written(folder, path):
    with bag.Writer(path) as writer:
        for topic, (payload, _) in values().items():
            if payload is not None:
                writer.topic(topic, payload)
        for number in range(3):
            for topic, (_, value) in values().items():
                writer.write(topic, value, log_time=number)
    process = subprocess.Popen([program("outlive-replay"), path, "--domain", folder, "--rate", "max", "--wait", str(len(values()))])
    try:
        subscribers = {}
        until = time.monotonic() + 60
        while len(subscribers) < len(values()) and time.monotonic() < until:
            for topic in set(values()) - set(subscribers):
                with contextlib.suppress(outlive.NotFound):
                    subscribers[topic] = outlive.Topic.open(topic, domain=folder).subscriber(reliable=True, history=100)
        for topic, (payload, value) in values().items():
            for _ in range(3):
                sample = subscribers[topic].recv(timeout=60)
                if topic == "msgpack":
                    assert sample.msgpack() == value
                elif topic == "json":
                    assert json.loads(bytes(sample)) == value
                elif topic == "bytes":
                    assert bytes(sample) == value
                else:
                    assert same(sample.numpy(), value), topic
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()


def test_outlive_bag_finds_no_fault(path):
    with bag.Writer(path) as writer:
        for number in range(3):
            for topic, (payload, value) in values().items():
                writer.topic(topic, payload)
                writer.write(topic, value, log_time=number)
            writer.write("array", np.zeros((3, number), "f4"), log_time=number)
    run = lambda *args: subprocess.run([program("outlive-bag"), *args], capture_output=True, text=True, timeout=60)
    done = run("check", path)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(run("info", "--json", path).stdout)
    # A topic with four channels is one.
    assert {topic["topic"]: topic["messages"] for topic in told["topics"]} == {topic: 3 for topic in values()} | {"array": 6}
    assert len(told["topics"]) == len(values())


# With other programs' libraries.


def test_mcap_reads_and_decodes_it(path):
    reader_of = pytest.importorskip("mcap.reader")
    decoders = pytest.importorskip("mcap_ros2.decoder")
    with bag.Writer(path, compression="zstd") as writer:
        writer.topic("imu", IMU)
        writer.topic("points", [POINT])
        writer.write("imu", (7, [1, 2, 3], 20.5), log_time=5)
        writer.write("points", np.ones(4, POINT), log_time=6)
        writer.write("scan", np.arange(6, dtype="f4").reshape(2, 3), log_time=7)
    with open(path, "rb") as file:
        reader = reader_of.make_reader(file, decoder_factories=[decoders.DecoderFactory()])
        (_, _, message, imu), (_, _, _, points) = reader.iter_decoded_messages(topics=["imu", "points"])
        assert (message.log_time, imu.stamp, list(imu.acceleration), imu.temperature) == (5, 7, [1, 2, 3], 20.5)
        assert [point.intensity for point in points.items] == [1] * 4
        _, channel, message = next(reader.iter_messages(topics=["scan"]))
        # What a program needs to know that has not Outlive.
        shape = [int(extent) for extent in channel.metadata["outlive.shape"].split(",")]
        array = np.frombuffer(message.data, channel.metadata["outlive.dtype"]).reshape(shape)
        assert array.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_rosbags_reads_it(path):
    any_reader = pytest.importorskip("rosbags.highlevel")
    stores = pytest.importorskip("rosbags.typesys")
    with bag.Writer(path) as writer:
        writer.topic("imu", IMU)
        for number in range(3):
            writer.write("imu", (number, [1, 2, 3], 20.5), log_time=number)
    store = stores.get_typestore(stores.Stores.EMPTY)
    with any_reader.AnyReader([pathlib.Path(path)], default_typestore=store) as reader:
        found = [reader.deserialize(raw, connection.msgtype) for connection, _, raw in reader.messages()]
    assert [(one.stamp, one.acceleration.tolist()) for one in found] == [(number, [1, 2, 3]) for number in range(3)]


@pytest.mark.parametrize("chunked", [True, False])
@pytest.mark.parametrize("finished", [True, False])
def test_files_of_pypis_mcap(path, chunked, finished):
    writers = pytest.importorskip("mcap.writer")
    with open(path, "wb") as file:
        writer = writers.Writer(file, use_chunking=chunked, chunk_size=1000)
        writer.start(profile="x", library="other")
        schema = writer.register_schema("Said", "jsonschema", b"{}")
        said = writer.register_channel("said", "json", schema)
        raw = writer.register_channel("raw", "", 0)
        for number in range(100):
            writer.add_message(said, number, json.dumps({"n": number}).encode(), number)
            writer.add_message(raw, number, bytes([number]) * 20, number)
        if finished:
            writer.finish()
    with bag.Reader(path) as reader:
        info = reader.info
        assert info.finished == finished and (info.profile, info.library) == ("x", "other")
        counts = {name: topic.messages for name, topic in info.topics.items()}
        assert counts["said"] == counts["raw"] or not finished
        assert info.topics["said"].schema == "Said" and info.topics["said"].schema_data == b"{}"
        numbers = [message.value["n"] for message in reader.messages("said")]
        assert numbers == list(range(len(numbers))) and len(numbers) == counts["said"]
        assert finished is False or len(numbers) == 100
        assert [bytes(message)[0] for message in reader.messages("raw", start=20, end=30)] == list(range(20, 30))
        if chunked:
            assert [message.log_time for message in reader.messages("raw", reverse=True, end=30)] == list(range(29, -1, -1))
        else:
            with pytest.raises(outlive.BadOption):
                reader.messages(reverse=True)
        with pytest.raises(outlive.WrongKind):
            reader.array("said")
