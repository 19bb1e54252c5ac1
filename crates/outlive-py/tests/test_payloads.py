"""Topics that describe their messages: numpy's types, classes, the first field that differs."""

from __future__ import annotations

import ctypes
import dataclasses
import json

import numpy as np
import pytest

import outlive
from outlive import Client, Domain, Queue, Server, State, Topic, WrongKind

POINT = np.dtype([("x", "f8"), ("y", "f8")])
TRACK = np.dtype([("corners", POINT, 4), ("label", "S12"), ("class", "u4"), ("grid", "f4", (2, 3))])


@outlive.payload
class Point:
    x: "f64"
    y: float


@outlive.payload(name="Track")
class Lorry:
    corners: "Point[4]"
    label: "u8[12]"
    kind: np.uint32
    grid: "f32[2][3]"


class Pose(ctypes.Structure):
    _fields_ = [("x", ctypes.c_double), ("frame", ctypes.c_uint32)]


def test_records_come_as_they_were(folder):
    topic = Topic("track", folder, payload=TRACK)
    text = "{ corners: { x: f64, y: f64 }[4], label: u8[12], class: u32, grid: f32[2][3] }"
    assert topic.payload == text
    publisher, subscriber = topic.publisher(), topic.subscriber()
    one = np.zeros((), TRACK)
    one["corners"]["y"][3] = 2.5
    one["label"], one["class"] = b"lorry", 7
    publisher.publish(one)
    sample = subscriber.recv(timeout=60)
    assert len(sample) == 104 and sample.shape == (104,)
    got = sample.numpy()
    assert got["corners"][3]["y"] == 2.5 and got["class"] == 7
    assert bytes(got["label"]).rstrip(b"\0") == b"lorry"
    # Where it lies: it keeps its sample.
    del sample, subscriber
    assert got["class"] == 7
    again = Topic.open("track", domain=folder)
    assert again.dtype.names == TRACK.names and again.dtype.itemsize == 104
    assert Topic("track", folder, payload=TRACK).payload == text


def test_values_of_all_forms_are_published(folder):
    topic = Topic("track", folder, payload=Lorry)
    assert topic.payload.startswith("Track { corners: { x: f64")
    publisher, subscriber = topic.publisher(), topic.subscriber()
    points = [Point(n, -n) for n in range(4)]
    lorry = Lorry(points, list(range(12)), 7, [[1, 2, 3], [4, 5, 6]])
    publisher.publish(lorry)
    publisher.publish(dataclasses.asdict(lorry))
    for _ in range(2):
        got = subscriber.recv(timeout=60).numpy()
        assert got["corners"]["y"].tolist() == [0, -1, -2, -3] and got["kind"] == 7
        assert got["grid"].tolist() == [[1, 2, 3], [4, 5, 6]]
    with pytest.raises(ValueError, match="104 bytes, not of 5"):
        publisher.publish(b"hello")
    with pytest.raises(TypeError, match="messages are"):
        publisher.publish(np.zeros(26, "f4"))
    with pytest.raises(ValueError, match="'z'"):
        publisher.publish({"z": 1})
    with pytest.raises(ValueError, match="'label' is missing"):
        publisher.publish({"corners": points})
    with publisher.loan((), topic.dtype) as loan:
        loan["kind"] = 9
    assert subscriber.recv(timeout=60).numpy()["kind"] == 9


def test_another_description_is_refused_by_its_first_field(folder):
    Topic("track", folder, payload=TRACK)
    other = np.dtype([("corners", [("x", "f8"), ("y", "i8")], 4), *[(n, TRACK[n]) for n in TRACK.names[1:]]])
    with pytest.raises(WrongKind, match="corners.y: f64' at byte 8.*corners.y: i64' at byte 8"):
        Topic("track", folder, payload=other)
    with pytest.raises(WrongKind, match="class: u32.*kind: u32"):
        Topic("track", folder, payload=Lorry)
    with pytest.raises(WrongKind, match="raw messages.*json messages"):
        Topic("track", folder, payload="json")
    with pytest.raises(WrongKind):
        Topic("track", folder)
    # Of the same fields another name; a type of numpy's has none, and takes every name.
    Topic("pose", folder, payload=Pose)
    assert Topic("pose", folder, payload=np.dtype(Pose)).payload == "Pose { x: f64, frame: u32 }"
    with pytest.raises(WrongKind, match="'Pose'.*'Position'"):
        Topic("pose", folder, payload=outlive.payload(name="Position")(type("P", (Pose,), {})))


def test_slices_numbers_and_encodings(folder):
    topic = Topic("points", folder, payload=[Point])
    subscriber = topic.subscriber()
    publisher = topic.publisher()
    publisher.publish([Point(1, 2), Point(3, 4)])
    publisher.publish(np.zeros(3, topic.dtype))
    publisher.publish([])
    assert subscriber.recv(timeout=60).numpy()["y"].tolist() == [2, 4]
    assert subscriber.recv(timeout=60).numpy().shape == (3,)
    assert subscriber.recv(timeout=60).numpy().shape == (0,)
    for payload, text in [("f64[3]", "f64[3]"), (("f4", 2), "f32[2]"), ("u8", "u8"), (np.int16, "i16")]:
        assert Topic(f"of {text}", folder, payload=payload).payload == text
    topic = Topic.open("of f64[3]", domain=folder)
    subscriber = topic.subscriber()
    topic.publisher().publish([1, 2, 3])
    assert subscriber.recv(timeout=60).numpy().tolist() == [1, 2, 3]
    assert Topic("cdr", folder, payload="cdr geometry_msgs/msg/Pose").payload == "geometry_msgs/msg/Pose (cdr)"
    assert Topic("cdr", folder).dtype is None
    with pytest.raises(TypeError):
        Topic("no", folder, payload=np.dtype([("x", "c16")]))
    with pytest.raises(TypeError):
        Topic("no", folder, payload=np.dtype([("x", ">f8")]))


@outlive.payload
class Scan:
    name: "text[32]"
    ranges: "list[f32][6]"
    corners: "list[Point][2]"


def test_texts_and_lists_lie_in_place(folder):
    topic = Topic("scan", folder, payload=Scan)
    publisher, subscriber = topic.publisher(), topic.subscriber()
    publisher.publish(Scan("größe", [0.5, 1.5], [Point(1, 2)]))
    got = subscriber.recv(timeout=60).numpy()
    assert outlive.text(got["name"]) == "größe"
    assert outlive.items(got["ranges"]).tolist() == [0.5, 1.5]
    assert outlive.items(got["corners"])["y"].tolist() == [2]
    with pytest.raises(ValueError, match="32 bytes"):
        publisher.publish(Scan("x" * 33, [], []))
    with pytest.raises(ValueError, match="2 items"):
        publisher.publish(Scan("", [], [Point(1, 2)] * 3))
    # Lengths of a publisher that keeps to nothing.
    publisher.publish(b"\xff" * topic.dtype.itemsize)
    got = subscriber.recv(timeout=60).numpy()
    assert len(outlive.text(got["name"])) == 32 and len(outlive.items(got["ranges"])) == 6


def test_texts_lie_where_c_puts_them():
    @outlive.payload
    class Sign:
        kind: "u8"
        name: "text[8]"
        tail: "u8"
        ranges: "list[u16][4]"

    _, dtype = Sign.__outlive_payload__
    assert [dtype.fields[name][1] for name in dtype.names] == [0, 4, 16, 24] and dtype.itemsize == 40
    for wrong in ("text[5]", "list[f32][3]"):
        with pytest.raises(TypeError, match="multiple"):
            outlive.payload(type("Wrong", (), {"__annotations__": {"name": wrong}}))


def test_queues_are_described_too(folder):
    queue = Queue("points", folder, payload=Point)
    assert queue.payload == "Point { x: f64, y: f64 }"
    queue.send(Point(1, 2))
    queue.try_send({"x": 3, "y": 4})
    queue.send_many([Point(5, 6), np.zeros((), queue.dtype)])
    got = [np.frombuffer(queue.recv(timeout=60), queue.dtype)[0] for _ in range(4)]
    assert [one["y"] for one in got] == [2, 4, 6, 0]
    with pytest.raises(ValueError, match="16 bytes, not of 3"):
        queue.send(b"abc")
    with pytest.raises(WrongKind, match="'Point'.*'Track'"):
        Queue("points", folder, payload=Lorry)
    with pytest.raises(WrongKind):
        Queue("points", folder)
    assert Queue.open("points", domain=folder).dtype == queue.dtype
    assert Queue("bytes", folder).dtype is None and Queue("bytes", folder).payload is None
    assert Domain(folder).payload("points") == queue.payload


def test_states_are_described_too(folder):
    state = State("at", domain=folder, payload=Point)
    assert (state.capacity, state.payload) == (16, "Point { x: f64, y: f64 }")
    state.set(Point(1, 2))
    assert np.frombuffer(state.get(), state.dtype)[0]["y"] == 2
    with pytest.raises(ValueError):
        state.set(b"abc")
    with pytest.raises(WrongKind, match="raw messages.*cdr messages"):
        State("at", domain=folder, payload="cdr geometry_msgs/msg/Pose")
    path = State("path", 64, folder, payload=[Point])
    path.set([Point(1, 2), Point(3, 4)])
    assert np.frombuffer(path.get(), path.dtype)["y"].tolist() == [2, 4]


def test_services_are_described_too(folder):
    server = Server("norm", folder, request=Point, reply="f64")
    client = Client("norm", folder, request=Point, reply="f64")
    assert Domain(folder).payload("norm") == "Point { x: f64, y: f64 } -> f64"
    with pytest.raises(TypeError, match="not float64"):
        client.begin(np.array([3.0, 4.0]))
    call = client.begin(np.array([3.0, 4.0]).tobytes())
    request = server.next(timeout=60)
    request.reply(np.hypot(*np.frombuffer(request.data)))
    assert np.frombuffer(call.result(timeout=60))[0] == 5
    with pytest.raises(WrongKind, match="replies of"):
        Client("norm", folder, request=Point, reply="f32")
    assert Client.create_new("one", folder, request="json Query") and Domain(folder).payload("one") == "Query (json) -> bytes"


def test_services_take_objects_and_give_values(folder):
    server = Server("norm", folder, request=Point, reply="f64")
    client = Client.open("norm", domain=folder)
    for request in (Point(3, 4), {"x": 3, "y": 4}, (3, 4), np.array((3, 4), "f8, f8").tobytes()):
        call = client.begin(request)
        with server.next(timeout=60) as asked:
            asked.reply(float(np.hypot(asked.value["x"], asked.value["y"])))
        assert client.value(call.result(timeout=60)) == 5
    with pytest.raises(ValueError, match="16 bytes, not of 3"):
        client.call(b"abc")
    with pytest.raises(ValueError, match="'x' is missing"):
        client.begin({"y": 1})

    # Several replies, of a head with a tail.
    server, client = Server("scan", folder, request="u32", reply=Cloud), Client.open("scan", domain=folder)
    call = client.begin(2)
    with server.next(timeout=60) as asked, asked.stream() as replies:
        for n in range(asked.value):
            replies.send(Cloud(n, [Point(n, n)] * n))
    assert [len(client.value(reply)["points"]) for reply in call] == [0, 1]

    # msgpack, as topics have it.
    server = Server("drive", folder, request="msgpack Order", reply="msgpack")
    client = Client("drive", folder, request="msgpack Order", reply="msgpack")
    call = client.begin({"speed": 1.5, "gears": [1, None]})
    with server.next(timeout=60) as asked:
        assert asked.value == {"speed": 1.5, "gears": [1, None]} and asked.data[0] == 0x82
        asked.reply(["done", asked.value["speed"]])
    assert client.value(call.result(timeout=60)) == ["done", 1.5]
    call = client.begin([np.float64(0.5), 1])
    with server.next(timeout=60) as asked:
        asked.reply(np.float64(0.25))
    assert client.value(call.result(timeout=60)) == 0.25
    with pytest.raises(TypeError):
        client.call({"speed": object()})
    topic = Topic("orders", folder, payload="msgpack Order")
    subscriber = topic.subscriber()
    topic.publisher().publish({"speed": 2})
    assert subscriber.recv(timeout=60).msgpack() == {"speed": 2}
    topic.publisher().publish(np.int64(3))
    assert subscriber.recv(timeout=60).msgpack() == 3
    # Without a description all are bytes.
    bare = Client("bare", folder)
    assert bare.value(b"x") == b"x"
    with pytest.raises(TypeError, match="bytes-like"):
        bare.call({"speed": 1})



@outlive.payload
class Cloud:
    stamp: "u64"
    points: "tail[Point]"


def test_a_tail_follows_a_head(folder):
    topic = Topic("cloud", folder, payload=Cloud)
    assert topic.payload == "Cloud { stamp: u64, points: { x: f64, y: f64 }[] }"
    assert topic.dtype.itemsize == 8 and topic.dtype["points"].shape == (0,)
    publisher, subscriber = topic.publisher(), topic.subscriber()
    points = [Point(1, 2), Point(3, 4)]
    publisher.publish(Cloud(7, points))
    publisher.publish({"stamp": 7, "points": np.array([(1, 2), (3, 4)], topic.dtype["points"].base)})
    publisher.publish((7, points))
    record = np.zeros((), outlive.with_tail(topic.dtype, 2))
    record["stamp"], record["points"]["y"] = 7, [2, 4]
    publisher.publish(record)
    with publisher.loan((), outlive.with_tail(topic.dtype, 2)) as loan:
        loan["stamp"], loan["points"]["y"] = 7, [2, 4]
    for _ in range(5):
        sample = subscriber.recv(timeout=60)
        got = sample.numpy()
        del sample
        assert (int(got["stamp"]), got["points"]["y"].tolist()) == (7, [2, 4])
    publisher.publish(Cloud(8, []))
    publisher.publish(Cloud(9, np.zeros(100000, topic.dtype["points"].base)))
    assert len(subscriber.recv(timeout=60).numpy()["points"]) == 0
    big = subscriber.recv(timeout=60)
    assert np.shares_memory(big.numpy()["points"], np.frombuffer(big, "u1"))
    assert len(big.numpy()["points"]) == 100000
    with pytest.raises(ValueError, match="8 bytes, and 16 for each item of its tail, not of 30"):
        publisher.publish(bytes(30))
    with pytest.raises(ValueError, match="'points' is missing"):
        publisher.publish({"stamp": 1})
    # Another type of items, and a type without any.
    other = np.dtype([("stamp", "u8"), ("points", "f4", (0, 4))])
    with pytest.raises(WrongKind, match="tail 'points: { x: f64, y: f64 }"):
        Topic("cloud", folder, payload=outlive.payload(type("Cloud", (), {"__annotations__": {"stamp": "u64"}})))
    with pytest.raises(WrongKind, match=r"f32\[4\]\[\]"):
        Topic("cloud", folder, payload=other)
    # Where the compiler of a C program would leave a gap.
    with pytest.raises(ValueError, match="to fill the gap"):
        Topic("gap", folder, payload=np.dtype([("a", "u8"), ("b", "u4"), ("c", "u1", (0,))], align=True))

    queue = Queue("rows", folder, payload=other)
    queue.send({"stamp": 3, "points": [[1, 2, 3, 4]]})
    row = outlive.record(queue.recv(timeout=60), queue.dtype)
    assert row["points"].tolist() == [[1, 2, 3, 4]]
    state = State("last", domain=folder, payload=Cloud, capacity=100)
    assert len(outlive.record(state.get(), state.dtype)["points"]) == 0
    state.set(Cloud(5, points))
    assert outlive.record(state.get(), state.dtype)["points"]["x"].tolist() == [1, 3]
    with pytest.raises(ValueError, match="9 bytes|8 bytes"):
        outlive.record(bytes(9), state.dtype)


def test_a_topic_of_json_takes_what_json_takes(folder):
    topic = Topic("mode", folder, payload="json")
    publisher, subscriber = topic.publisher(), topic.subscriber()
    for value in ({"mode": "auto", "seen": [1, 2.5, None, True]}, [1], "text", 7, None):
        publisher.publish(value)
        assert json.loads(bytes(subscriber.recv(timeout=60))) == value
    publisher.publish(np.float32(1.5))
    assert bytes(subscriber.recv(timeout=60)) == b"1.5"
    publisher.publish(np.array([[1, 2], [3, 4]]))
    assert json.loads(bytes(subscriber.recv(timeout=60))) == [[1, 2], [3, 4]]
    # Bytes are taken as they are, as another program may have made them.
    publisher.publish(b'{"a":1}')
    assert bytes(subscriber.recv(timeout=60)) == b'{"a":1}'
    with pytest.raises(TypeError, match="not JSON serializable"):
        publisher.publish({"a": {1, 2}})
    with pytest.raises(ValueError, match="Circular"):
        endless = []
        endless.append(endless)
        publisher.publish(endless)
    queue = Queue("modes", folder, payload="json")
    queue.send({"mode": "off"})
    assert json.loads(bytes(queue.recv(timeout=60))) == {"mode": "off"}


def test_bytes_that_are_no_msgpack_are_told_by_an_error_of_ours(folder):
    topic = Topic("mode", folder, payload="msgpack")
    publisher, subscriber = topic.publisher(), topic.subscriber()
    publisher.publish({"a": 1})
    assert subscriber.recv(timeout=60).msgpack() == {"a": 1}
    publisher.publish(b"\xc1")
    with pytest.raises(outlive.BadMessage, match="no msgpack"):
        subscriber.recv(timeout=60).msgpack()
