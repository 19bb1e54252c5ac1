"""Recordings: what is written and read by this package."""

from __future__ import annotations

import contextlib
import datetime
import gc
import os
import random
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from bag_values import IMU, PADDED, PATH, POINT, same, values

import outlive
from outlive import bag


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_what_is_written_comes_back(path, compression):
    with bag.Writer(path, compression=compression) as writer:
        for number in range(3):
            for topic, (payload, value) in values().items():
                if number == 0 and payload is not None:
                    writer.topic(topic, payload)
                assert writer.write(topic, value, log_time=100 + number, publish_time=number) == number
    with bag.Reader(path) as reader:
        assert reader.info.finished and reader.info.faults == []
        assert reader.topics == list(values()) and reader.info.messages == 3 * len(values())
        for topic, (_, value) in values().items():
            messages = list(reader.messages(topic))
            assert [message.log_time for message in messages] == [100, 101, 102]
            assert [message.publish_time for message in messages] == [0, 1, 2]
            assert [message.sequence for message in messages] == [0, 1, 2]
            for message in messages:
                assert same(message.value, value), (topic, message.value, value)
                assert repr(message).startswith(f"<Message of '{topic}': ")
                assert bytes(message) == bytes(message.data) and len(message) == message.data.nbytes


def test_live_topics_and_files_give_the_same_type(folder, path):
    for topic, (payload, value) in values().items():
        if payload in ("json", "msgpack"):
            continue
        live = outlive.Topic(topic, folder, payload=payload)
        subscriber = live.subscriber()
        live.publisher().publish(value)
        sample = subscriber.recv(timeout=60)
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)
        with bag.Writer(path) as writer:
            writer.topic(topic, like=live)
            writer.write(topic, value)
        message = next(iter(bag.Reader(path)))
        assert same(message.numpy(), sample.numpy()), topic
        assert type(message.numpy()) is type(sample.numpy()), topic


def test_views_outlive_all_that_gave_them(path):
    with bag.Writer(path, group_bytes=4096) as writer:
        writer.topic("imu", IMU)
        for number in range(1000):
            writer.write("imu", (number, [number] * 3, number), log_time=number)
            writer.write("image", np.full((16, 16), number % 256, "u1"), log_time=number)
    kept = {"imu": [], "image": []}
    with bag.Reader(path) as reader:
        for message in reader:
            view = message.value
            assert not view.flags.writeable
            kept[message.topic].append(view)
        with pytest.raises(ValueError):
            view[0, 0] = 1
    del reader, message, view
    gc.collect()
    rubbish = [bytes(1 << 20) for _ in range(16)]
    assert [int(view["stamp"]) for view in kept["imu"]] == list(range(1000))
    assert [int(view[3, 3]) for view in kept["image"]] == [number % 256 for number in range(1000)]
    del rubbish


def test_a_view_is_where_the_chunk_lies(path):
    with bag.Writer(path) as writer:
        writer.topic("imu", IMU)
        writer.write("imu", (1, [1, 2, 3], 4))
        writer.write("image", np.zeros((8, 8), "f4"))
    address = lambda array: np.asarray(array).__array_interface__["data"][0]
    imu, image = bag.Reader(path)
    for message, behind in ((imu, 4), (image, 0)):
        assert address(message.numpy()) == address(np.frombuffer(message, "u1")) + behind


def test_times_filters_and_the_reverse(path):
    with bag.Writer(path, group_bytes=512) as writer:
        for number in range(200):
            writer.write("even" if number % 2 == 0 else "odd", number.to_bytes(100, "little"), log_time=number * 10)
    with bag.Reader(path) as reader:
        times = lambda *topics, **wanted: [message.log_time for message in reader.messages(*topics, **wanted)]
        everything = list(range(0, 2000, 10))
        assert times() == everything
        assert times(reverse=True) == everything[::-1]
        assert times(start=95, end=300) == list(range(100, 300, 10))
        assert times(start=95, end=300, reverse=True) == list(range(290, 90, -10))
        assert times("odd") == everything[1::2]
        assert times("odd", "even") == everything
        assert times("odd", start=1990) == [1990]
        assert times("odd", start=5000) == [] and times(start=5000) == []
        moment = datetime.datetime.fromtimestamp(1e-6, datetime.timezone.utc)
        assert times(start=moment, end=np.datetime64(1020, "ns")) == [1000, 1010]
        assert reader.times("odd").astype("i8").tolist() == everything[1::2]
        assert (reader.info.first, reader.info.last) == (0, 1990)
        assert (reader.info.topics["odd"].first, reader.info.topics["odd"].last) == (10, 1990)
        assert reader.info.topics["even"].last == 1980 and "even" in reader and "x" not in reader
        for wrong in (-1, "now", 1.5, datetime.datetime(2020, 1, 1), 1 << 64):
            with pytest.raises((TypeError, ValueError)):
                times(start=wrong)
        with pytest.raises(ValueError):
            times(damaged="perhaps")


def test_whole_topics_are_arrays_and_columns(path):
    with bag.Writer(path, group_bytes=4096) as writer:
        for topic, payload in (("imu", IMU), ("padded", PADDED), ("points", [POINT]), ("path", PATH), ("number", "f64")):
            writer.topic(topic, payload)
        for number in range(500):
            writer.write("imu", (number, [number] * 3, number), log_time=number)
            writer.write("padded", (1, number, 2), log_time=number)
            writer.write("points", np.zeros(4, POINT), log_time=number)
            writer.write("path", (number, [[1, 2]]), log_time=number)
            writer.write("number", float(number), log_time=number)
            writer.write("image", np.full((3, 2), number, "u2"), log_time=number)
            writer.write("scans", np.zeros((number % 5, 3), "f4"), log_time=number)
            writer.write("bytes", b"x", log_time=number)
    with bag.Reader(path) as reader:
        imu = reader.array("imu")
        assert imu.dtype == IMU and imu["stamp"].tolist() == list(range(500))
        assert imu.flags.writeable
        assert reader.array("imu", start=10, end=12)["temperature"].tolist() == [10, 11]
        assert reader.array("padded")["b"].tolist() == list(range(500))
        assert reader.array("points").shape == (500, 4)
        assert reader.array("path")["points"].shape == (500, 1, 2)
        assert reader.array("number").tolist() == list(range(500))
        assert reader.array("image").shape == (500, 3, 2) and int(reader.array("image")[7, 2, 1]) == 7
        # One channel, whatever the number of points.
        assert reader.info.topics["scans"].metadata["outlive.shape"] == "-1,3"
        for topic in ("scans", "bytes"):
            with pytest.raises(outlive.WrongKind, match="iterate"):
                reader.array(topic)
        with pytest.raises(outlive.NotFound):
            reader.array("nothing")
        columns = reader.columns("imu")
        assert list(columns) == ["log_time", "publish_time", "sequence", "stamp", "acceleration[0]",
            "acceleration[1]", "acceleration[2]", "temperature"]
        assert columns["log_time"].dtype == "datetime64[ns]" and columns["sequence"].tolist() == list(range(500))
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame(columns).set_index("log_time")
        assert frame["temperature"].sum() == sum(range(500))
        frame = pandas.DataFrame(reader.array("padded"))
        assert list(frame.columns) == ["a", "b", "c"]


def test_what_flush_returned_for_survives(folder, path, start):
    """A writer is killed, again and again, by a process that counts what it was told."""
    rng = random.Random(5)
    told = {"imu": 0, "image": 0}
    for round in range(6):
        writer = start(f"""
            import numpy as np
            from outlive import bag
            bag = bag.Writer({path!r}, resume=True, compression={[None, "zstd", "lz4"][round % 3]!r}, group_bytes=2048)
            bag.topic("imu", "u64[2]")
            say("count", bag.count("imu"), bag.count("image"))
            while True:
                number = bag.count("imu")
                bag.write("imu", [number, number], log_time=number)
                bag.write("image", np.full((4, 100), number % 256, "u1"), log_time=number)
                if number % 7 == 0:
                    bag.flush()
                    say("flushed", bag.count("imu"), bag.count("image"))
        """)
        counts = [int(count) for count in writer.line(60).split()[1:]]
        assert counts[0] >= told["imu"] and counts[1] >= told["image"]
        for _ in range(rng.randrange(1, 40)):
            _, imu, image = writer.line(60).split()
        told = {"imu": int(imu), "image": int(image)}
        time.sleep(rng.random() / 100)
        writer.kill()
        while line := writer.process.stdout.readline():
            if line.endswith(b"\n"):
                writer.buffer += line
        for line in writer.buffer.decode().splitlines():
            told = dict(zip(("imu", "image"), map(int, line.split()[1:])))
    with bag.Reader(path) as reader:
        assert not reader.info.finished
        numbers = [int(message.value[0]) for message in reader.messages("imu")]
        assert numbers == list(range(len(numbers))) and len(numbers) >= told["imu"]
        images = [int(message.value[2, 2]) for message in reader.messages("image")]
        assert images == [number % 256 for number in range(len(images))] and len(images) >= told["image"]
    with bag.Writer(path, resume=True) as writer:
        assert writer.count("imu") >= told["imu"]
    assert bag.Reader(path).info.finished


def test_positions_and_metadata(path):
    with bag.Writer(path) as writer:
        writer.metadata("drive", {"driver": "ada"})
        writer.write("a", b"1")
        writer.flush({"camera": "17"})
        with pytest.raises(ValueError):
            writer.flush({"topic.a": "1"})
    with bag.Writer(path, resume=True) as writer:
        assert (writer.resumed, writer.cut, writer.count("a"), writer.count("b")) == ({"camera": "17"}, 0, 1, 0)
        assert writer.write("a", b"2") == 1
    # Another time by another writer; a file without its end is read for its metadata.
    size = os.path.getsize(path)
    os.truncate(path, size - 20)
    info = bag.Reader(path).info
    assert info.metadata == [("drive", {"driver": "ada"})] and not info.finished


def test_numpy_is_asked_for_where_it_is_needed(folder, path):
    with bag.Writer(path) as writer:
        writer.write("a", b"some bytes", log_time=1_000_000_000)
        writer.write("a", b"more", log_time=1_500_000_000)
    told = str(bag.Reader(path).info)
    assert ": 2 messages in 0.500 s, a file of " in told and told.endswith("\n  a: 2 messages, bytes"), told
    code = f"""
import sys
sys.modules["numpy"] = None                     # as if it were not installed
import outlive
from outlive import bag
reader = bag.Reader({str(path)!r})
assert [bytes(message) for message in reader] == [b"some bytes", b"more"]
for use in (lambda: reader.times("a"), lambda: outlive.payload(type("T", (), {{}}))):
    try:
        use()
    except ModuleNotFoundError as error:
        assert "pip install numpy" in str(error) and error.name == "numpy", error
    else:
        raise AssertionError("numpy is there")
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=50)


def test_refusals(folder, path):
    with pytest.raises(outlive.NotFound):
        bag.Reader(path)
    with pytest.raises(FileNotFoundError):
        bag.Reader(path)
    writer = bag.Writer(path)
    with pytest.raises(outlive.AlreadyExists):
        bag.Writer(path)
    with pytest.raises(outlive.Taken):
        bag.Writer(path, resume=True)
    writer.topic("imu", IMU)
    writer.topic("imu", IMU)
    with pytest.raises(outlive.WrongKind, match="imu"):
        writer.topic("imu", "f64")
    for wrong in (b"x", (1, 2), {"stamp": 1}, np.zeros(1, PADDED)):
        with pytest.raises((TypeError, ValueError)):
            writer.write("imu", wrong)
    with pytest.raises(TypeError):
        writer.write("bytes", object())
    for wrong in ({"compression": "gzip"}, {"flush_every": -1}, {"flush_every": float("nan")}):
        with pytest.raises(ValueError):
            bag.Writer(path + "x", **wrong)
    assert writer.write("imu", (1, [1, 2, 3], 4)) == 0, "what was refused is not counted"
    writer.close()
    writer.close()
    for use in (lambda: writer.write("a", b"x"), writer.flush, lambda: writer.count("a"), writer.__enter__):
        with pytest.raises(ValueError, match="closed"):
            use()
    assert "closed" in repr(writer)
    reader = bag.Reader(path)
    assert repr(reader) == f"<Reader of '{path}'>"
    messages = iter(reader)
    reader.close()
    reader.close()
    with pytest.raises(ValueError, match="closed"):
        reader.messages()
    assert len(list(messages)) == 1
    messages.close()
    with pytest.raises(ValueError, match="closed"):
        next(messages)
    with open(path, "wb") as file:
        file.write(b"no recording at all")
    with pytest.raises(outlive.WrongKind, match="not an MCAP"):
        bag.Reader(path)
    with pytest.raises(outlive.WrongKind):
        bag.Writer(path, resume=True)
    with open(path, "wb") as file:
        file.write(b"\x89MCAP7\r\n")
    with pytest.raises(outlive.WrongKind, match="version"):
        bag.Reader(path)
    with pytest.raises(outlive.NotFound):
        bag.Writer(folder + "/no/such/folder.mcap")


def test_a_forked_child_leaves_its_parents_file_alone(path):
    writer = bag.Writer(path)
    writer.write("a", b"parent")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            writer.write("a", b"child")
        except outlive.NotYours:
            code = 0
        del writer
        gc.collect()
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    writer.close()
    assert [bytes(message) for message in bag.Reader(path)] == [b"parent"]


def test_no_room(path):
    code = f"""
import resource, signal, sys
from outlive import bag, NoSpace
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
writer = bag.Writer({path!r}, group_bytes=20_000)
written = 0
try:
    while True:
        writer.write("a", bytes(1000), log_time=written)
        written += 1
except NoSpace as error:
    print(written, error.errno)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    written = int(done.stdout.split()[0])
    with bag.Reader(path) as reader:
        count = len(list(reader))
    assert 60 <= count <= written


def test_bad_files_raise_and_take_no_memory(path):
    """Mutated files: each raises exceptions of the package, or is read; in bounded memory."""
    with bag.Writer(path, group_bytes=1024, compression="zstd") as writer:
        for number in range(8):
            for topic, (payload, value) in values().items():
                if number == 0 and payload is not None:
                    writer.topic(topic, payload)
                writer.write(topic, value, log_time=number)
    with bag.Writer(path + ".raw", group_bytes=2048) as writer:
        for number in range(5):
            for topic, (payload, value) in values().items():
                if number == 0 and payload is not None:
                    writer.topic(topic, payload)
                writer.write(topic, value, log_time=number)
    wholes = []
    for name in (path, path + ".raw"):
        with open(name, "rb") as file:
            wholes.append(file.read())
        os.remove(name)
    code = f"""
import random, resource, sys
import numpy, outlive
from outlive import bag
wholes = [sys.stdin.buffer.read({len(wholes[0])}), sys.stdin.buffer.read({len(wholes[1])})]
rng = random.Random(3)
mutant = {path!r}
limit = 2 << 30
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
raised = read = 0
def tries(what):
    global raised, read
    try:
        what()
        read += 1
    except (outlive.OutliveError, ValueError) as error:
        raised += 1
def all_of(reader, **wanted):
    for message in reader.messages(**wanted):
        try:
            message.value, repr(message), bytes(message), message.numpy()
        except (outlive.OutliveError, ValueError):
            pass
for number in range(300):
    bytes_of = bytearray(wholes[number % 2])
    for _ in range(rng.choice([1, 1, 3, 20])):
        at = rng.randrange(len(bytes_of))
        kind = rng.randrange(4)
        if kind == 0:
            bytes_of[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            bytes_of[at:at + 8] = rng.choice([b"\\xff" * 8, bytes(8), b"\\0\\0\\0\\x40\\0\\0\\0\\0"])
        elif kind == 2:
            del bytes_of[at:at + rng.randrange(40)]
        elif len(bytes_of) > 200:
            del bytes_of[rng.randrange(100, len(bytes_of)):]
    with open(mutant, "wb") as file:
        file.write(bytes_of)
    try:
        reader = bag.Reader(mutant, max_chunk=64 << 20)
    except outlive.OutliveError:
        raised += 1
        continue
    tries(lambda: all_of(reader))
    tries(lambda: all_of(reader, damaged="skip"))
    tries(lambda: all_of(reader, damaged="skip", reverse=True))
    tries(lambda: all_of(reader, start=2, end=4))
    tries(lambda: reader.info)
    tries(lambda: reader.events())
    for topic in ("imu", "path", "records"):
        tries(lambda: reader.columns(topic, damaged="skip"))
    tries(lambda: bag.Writer(mutant, resume=True).close())
print(read, raised, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""
    done = subprocess.run([sys.executable, "-c", code], input=b"".join(wholes), capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    read, raised, mib = map(int, done.stdout.split())
    assert read > 300 and raised > 50 and mib < 700, (read, raised, mib)


def test_damage_raises_once_and_what_follows_is_read(path):
    with bag.Writer(path, group_bytes=200) as writer:
        for number in range(20):
            writer.write("a", bytes([number]) * 200, log_time=number)
    with open(path, "r+b") as file:
        whole = file.read()
        file.seek(whole.index(bytes([7]) * 200) + 3)
        file.write(b"\xee")
    with bag.Reader(path) as reader:
        messages = reader.messages()
        found, faults = [], 0
        while True:
            try:
                found.append(next(messages).log_time)
            except outlive.Damaged as error:
                assert "checksum" in str(error)
                faults += 1
            except StopIteration:
                break
        assert faults == 1 and found == [number for number in range(20) if number != 7]
        assert [message.log_time for message in reader.messages(damaged="skip")] == found
        with pytest.raises(outlive.Damaged):
            list(reader)


def test_other_threads_run_while_chunks_are_read(path):
    with bag.Writer(path, compression="zstd", group_bytes=32 << 20) as writer:
        noise = np.random.default_rng(1).integers(0, 40, 8 << 20, "u1")
        for number in range(16):
            writer.write("big", noise, log_time=number)
    beats, done = [0], threading.Event()

    def beat():
        while not done.is_set():
            beats[0] += 1
            time.sleep(0.0005)

    thread = threading.Thread(target=beat)
    # One that does not give way: what is counted is what the reader lets run.
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        thread.start()
        before = beats[0]
        assert sum(len(message) for message in bag.Reader(path)) == 16 * (8 << 20)
        during = beats[0] - before
    finally:
        done.set()
        sys.setswitchinterval(interval)
        thread.join(60)
    assert during >= 3, during


def test_threads_share_a_reader_and_a_writer(path):
    with bag.Writer(path, group_bytes=4096) as writer:
        writer.topic("n", "u64")

        def write(who):
            for number in range(500):
                writer.write("n", who * 1000 + number)

        threads = [threading.Thread(target=write, args=(who,)) for who in range(4)]
        [thread.start() for thread in threads]
        [thread.join(60) for thread in threads]
    with bag.Reader(path) as reader:
        assert sorted(reader.array("n").tolist()) == [who * 1000 + number for who in range(4) for number in range(500)]
        assert [message.sequence for message in reader] == list(range(2000))
        messages, found = reader.messages(), []
        threads = [threading.Thread(target=lambda: found.extend(int(one.value) for one in messages)) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join(60) for thread in threads]
        assert len(found) == 2000 == len(set(found))


def test_a_topic_that_is_not_there_is_not_found_by_all(path):
    writer = bag.Writer(path)
    writer.topic("empty", payload="json")
    writer.write("a", b"1", log_time=1)
    writer.flush()
    for finished in (False, True):
        if finished:
            writer.close()
        with bag.Reader(path) as reader:
            for read in (reader.messages, reader.array, reader.times, reader.columns):
                with pytest.raises(outlive.NotFound, match="no topic 'zz', but 'a'"):
                    read("zz")
            with pytest.raises(outlive.NotFound, match="zz"):
                reader.messages("a", "zz")
            assert [message.log_time for message in reader.messages("a")] == [1]
            assert list(reader.messages("a", start=2)) == []
            assert reader.events() == []
    with bag.Writer(path, resume=True) as writer, bag.Reader(path) as reader:
        assert "b" not in reader and not reader.info.finished
        writer.write("b", b"2", log_time=2)
        writer.flush()
        # The file has grown since the reader looked.
        assert [message.log_time for message in reader.messages("b")] == [2]


def test_errors_of_writers_name_the_way_on(path):
    bag.Writer(path).close()
    with pytest.raises(outlive.AlreadyExists, match="resume=True continues"):
        bag.Writer(path)
    with bag.Writer(path, resume=True) as writer:
        for value in ({"a": 1}, 5, "text"):
            with pytest.raises(TypeError) as told:
                writer.write("said", value)
            kind = type(value).__name__
            assert f"bytes, an array or a tensor are required, not '{kind}': topic('said', payload)" in str(told.value)
        writer.topic("told", payload="json")
        assert writer.write("told", {"a": 1}) == 0


def test_a_value_that_is_no_json_is_told_by_an_error_of_ours(path):
    with bag.Writer(path) as writer:
        writer.topic("mode", payload="json")
        for data in (b'{"a": 1', b"\xff\xfe\xfd", b"[" * 100_000, b'{"a": 1}'):
            writer.write("mode", data)
    with bag.Reader(path) as reader:
        *wrong, whole = reader.messages("mode")
        for message in wrong:
            with pytest.raises(outlive.BadMessage, match="no JSON") as told:
                message.value
            assert isinstance(told.value, ValueError) and told.value.__cause__ is not None
        assert whole.value == {"a": 1} and bytes(wrong[0]) == b'{"a": 1'
