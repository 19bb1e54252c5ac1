"""Topics: arrays, views that keep their samples, loans, DLPack, msgpack; publishers and subscribers that are killed."""

from __future__ import annotations

import array
import gc
import itertools
import math
import threading
import zlib

import numpy as np
import pytest

from outlive import Missed, NoSpace, Timeout, TooMany, Topic


def pair(folder, name="topic", **options):
    topic = Topic(name, folder, **options)
    return topic.publisher(), topic.subscriber()


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"])
def test_arrays_arrive_as_they_were(folder, dtype):
    publisher, subscriber = pair(folder)
    for shape in [(), (0,), (5,), (3, 4), (2, 3, 4), (1, 2, 1, 2, 1, 2, 3), (300, 40)]:
        sent = (np.arange(math.prod(shape)) % 100).astype(dtype).reshape(shape)
        publisher.publish(sent)
        sample = subscriber.recv(timeout=5)
        got = sample.numpy()
        assert got.dtype == sent.dtype and got.shape == sent.shape and np.array_equal(got, sent)
        assert not got.flags.writeable and got.flags.c_contiguous
        assert sample.dtype == sent.dtype.str or (dtype == "u1" and len(shape) == 1)
        with publisher.loan(shape, dtype) as loan:
            assert loan.shape == shape and loan.dtype == sent.dtype and loan.flags.writeable
            loan[...] = sent
        assert np.array_equal(subscriber.recv(timeout=5).numpy(), sent)


def test_views_of_arrays_are_published_row_by_row(folder):
    publisher, subscriber = pair(folder)
    whole = np.arange(10_000, dtype="f4").reshape(100, 100)
    for view in [whole.T, whole[::2, 1::3], whole[::-1], np.broadcast_to(whole[0], (7, 100)), np.asfortranarray(whole)]:
        publisher.publish(view)
        assert np.array_equal(subscriber.recv(timeout=5).numpy(), view)


def test_bytes_and_their_like(folder):
    publisher, subscriber = pair(folder)
    for data in [b"", b"bytes", bytearray(b"more"), memoryview(b"x" * 100_000), array.array("B", [1, 2, 3])]:
        publisher.publish(data)
        sample = subscriber.recv(timeout=5)
        assert bytes(sample) == bytes(data) and sample.dtype is None and sample.shape == (len(data),)
        assert sample.numpy().dtype == np.uint8
        assert len(sample) == len(data)
    publisher.publish(array.array("d", [1.5, 2.5]))
    assert subscriber.recv().numpy().tolist() == [1.5, 2.5]
    publisher.publish(b"\1\0\0\0\2\0\0\0")
    assert subscriber.recv().numpy("<i4", (2, 1)).tolist() == [[1], [2]]


def test_headers(folder):
    publisher, _ = pair(folder)
    chosen = Topic("topic", folder).subscriber(keys=[7])
    publisher.publish(b"other", key=6)
    publisher.publish(b"this", key=7, frame=8, stamp=9, own=b"own")
    sample = chosen.recv(timeout=5)
    assert (bytes(sample), sample.key, sample.frame, sample.stamp, sample.own) == (b"this", 7, 8, 9, b"own".ljust(32, b"\0"))
    assert sample.sequence == 1
    publisher.publish(np.zeros(3), key=7)
    sample = chosen.recv(timeout=5)
    assert sample.key == 7 and sample.dtype == "<f8" and sample.stamp > 10**18


def test_a_header_that_lies_is_no_array(folder):
    publisher, subscriber = pair(folder)
    for own in [b"\xa5\x01f\x04\xff\xff\xff\xff", b"\xa5\x08f\x04", b"\xa5\x01f\x03\x01", b"\xa5\x02f\x08" + b"\xff" * 28]:
        publisher.publish(b"twelve bytes", own=own)
        sample = subscriber.recv(timeout=5)
        assert sample.dtype is None and bytes(sample) == b"twelve bytes"


def test_a_view_never_changes(folder):
    """The best peer's view changes under the user. Ours is published over for as long as it is there, and compared."""
    topic = Topic("frames", folder, depth=2, max_bytes=64 << 20)
    publisher, subscriber = topic.publisher(), topic.subscriber()
    random = np.random.default_rng(1)
    kept = []
    for round in range(300):
        frame = random.integers(0, 256, (64, 1000), dtype=np.uint8)
        publisher.publish(frame)
        if round % 10 == 0:
            view = subscriber.latest().numpy()[3:60, ::7]
            kept.append((view, zlib.crc32(view.tobytes())))
            if len(kept) > 12:
                kept.pop(round % 12)
        for view, sum in kept:
            assert zlib.crc32(view.tobytes()) == sum, "it changed"
    del topic, subscriber, publisher
    gc.collect()
    for view, sum in kept:
        assert zlib.crc32(view.tobytes()) == sum, "it changed when the topic was closed"


def test_a_slot_is_given_back_with_the_last_view(folder):
    publisher, subscriber = pair(folder, depth=512)
    frame = np.ones((100, 100))
    for _ in range(300):
        publisher.publish(frame)
    held = [subscriber.recv(timeout=5).numpy() for _ in range(256)]
    with pytest.raises(TooMany):
        subscriber.try_recv()
    part = held[0][1:]
    del held[0]
    with pytest.raises(TooMany):
        subscriber.try_recv()
    del part
    assert subscriber.try_recv() is not None


def test_nobody_can_make_a_view_writable(folder):
    publisher, subscriber = pair(folder)
    publisher.publish(np.ones(1000))
    sample = subscriber.recv()
    view = sample.numpy()
    with pytest.raises(ValueError):
        view.flags.writeable = True
    with pytest.raises(ValueError):
        view[0] = 2
    with pytest.raises(TypeError):
        memoryview(sample)[0] = 2
    shared = np.from_dlpack(sample)
    assert not shared.flags.writeable


@pytest.mark.parametrize("shape", [3, (200, 200)])
def test_a_loan_is_read_only_when_it_is_published(folder, shape):
    publisher, subscriber = pair(folder)
    with publisher.loan(shape, float, key=3) as a:
        a[...] = 1
    with pytest.raises(ValueError):
        a[...] = 2
    sample = subscriber.recv(timeout=5)
    assert sample.numpy().shape == a.shape and sample.key == 3 and (sample.numpy() == 1).all()


def test_a_loan_is_discarded_on_an_exception(folder):
    publisher, subscriber = pair(folder)
    with pytest.raises(KeyError), publisher.loan((100, 100), "f4"):
        raise KeyError
    assert subscriber.try_recv() is None
    with publisher.loan(10) as view:
        view[:] = b"0123456789"
    with pytest.raises(ValueError):
        view[0] = 1  # released
    assert bytes(subscriber.recv(timeout=5)) == b"0123456789"
    loan = publisher.loan(4)
    memoryview(loan)[:] = b"word"
    assert loan.publish() == 1
    with pytest.raises(RuntimeError):
        loan.publish()
    loan = publisher.loan(100_000, np.uint8)
    with loan as a:
        loan.discard()
    with pytest.raises(ValueError):
        a[0] = 1
    # Lent and forgotten, many times: the memory comes back.
    small = Topic("small", folder, max_bytes=16 << 20).publisher()
    for _ in range(100):
        small.loan(1 << 20)


def test_loans_of_several_threads(folder):
    publisher, subscriber = pair(folder, depth=1024)

    def lend(thread):
        for round in range(100):
            with publisher.loan(1000, "i8") as a:
                a[:] = thread * 1000 + round
            publisher.loan(2000)

    threads = [threading.Thread(target=lend, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    seen = set()
    while (sample := subscriber.try_recv()) is not None:
        view = sample.numpy()
        assert (view == view[0]).all()
        seen.add(int(view[0]))
    assert len(seen) == 400


class Tensor:
    """What another library has: DLPack, and nothing else."""

    def __init__(self, data, old=False):
        self.data, self.old = data, old

    def __dlpack__(self, **asked):
        if self.old:
            if asked:
                raise TypeError("unexpected keyword")
            return self.data.__dlpack__()
        return self.data.__dlpack__(**asked)

    def __dlpack_device__(self):
        return self.data.__dlpack_device__()


class OnDevice(Tensor):
    def __dlpack_device__(self):
        return (2, 0)


@pytest.mark.parametrize("old", [True, False])
def test_dlpack_both_ways(folder, old):
    publisher, subscriber = pair(folder)
    whole = np.arange(60_000, dtype="f4").reshape(20, 30, 100)
    for sent in [whole, whole[:, ::2], whole.T, whole[3:5, ::-1, ::2], whole[0, 0, :1], np.array(5, "i8"), np.zeros((0, 3))]:
        publisher.publish(Tensor(sent, old))
        sample = subscriber.recv(timeout=5)
        assert sample.shape == sent.shape and np.array_equal(sample.numpy(), sent)
        view = np.from_dlpack(sample)
        assert np.array_equal(view, sent)
        again = np.from_dlpack(sample, copy=True)
        del sample
        gc.collect()
        assert np.array_equal(view, sent) and again.flags.writeable
    publisher.publish(np.eye(2))
    sample = subscriber.recv()
    assert sample.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError):
        sample.__dlpack__()
    sample.__dlpack__(max_version=(1, 0))  # never taken
    with pytest.raises(TypeError):
        publisher.publish(OnDevice(np.eye(2)))


def test_msgpack(folder):
    publisher, subscriber = pair(folder)
    for value in [None, True, -1, 2**63, 1.5, "text", b"bytes", [1, [2, []]], {"a": {1: None}, "b": [b"x" * 10_000]}]:
        publisher.publish_msgpack(value)
        assert subscriber.recv(timeout=5).msgpack() == value
    publisher.publish_msgpack((1, 2))
    assert subscriber.recv().msgpack() == [1, 2]
    endless = []
    endless.append(endless)
    with pytest.raises(ValueError):
        publisher.publish_msgpack(endless)
    with pytest.raises(TypeError):
        publisher.publish_msgpack({"a": object()})
    with pytest.raises(OverflowError):
        publisher.publish_msgpack(2**64)
    for bad in [b"\xc1", b"", b"\x92\x01", b"\x91" * 5000]:
        publisher.publish(bad)
        with pytest.raises(ValueError):
            subscriber.recv().msgpack()


def test_who_lags_loses_the_oldest_and_reliable_ones_are_waited_for(folder):
    publisher, subscriber = pair(folder, depth=4)
    for number in range(10):
        publisher.publish(b"%d" % number)
    assert subscriber.lag == 4
    assert [bytes(subscriber.recv()) for _ in range(4)] == [b"6", b"7", b"8", b"9"]
    assert subscriber.lost == 6
    reliable = Topic("topic", folder).subscriber(reliable=True)
    for number in range(4):
        publisher.publish(b"%d" % number)
    with pytest.raises(Timeout):
        publisher.publish(b"late", timeout=0.06)
    loan = publisher.loan(1000, "u1", timeout=0.06)
    with pytest.raises(Timeout), loan as a:
        a[:] = 1
    assert bytes(reliable.recv()) == b"0"
    publisher.publish(b"now", timeout=5)
    with pytest.raises(Missed):
        Topic("topic", folder).subscriber(period=0.05).recv(timeout=5)


def test_a_dead_reliable_subscriber_is_waited_for_no_longer(folder, start):
    publisher, _ = pair(folder, depth=1)
    program = start("""
        subscriber = Topic("topic", folder).subscriber(reliable=True)
        say("subscribes")
        sample = subscriber.recv()
        say("holds", sample.numpy().sum())
        time.sleep(60)
    """)
    program.line()
    publisher.publish(np.ones(1000))
    assert program.line() == "holds 1000.0"
    publisher.publish(np.ones(1000))
    outcome = []
    thread = threading.Thread(target=lambda: outcome.append(publisher.publish(np.zeros(1000), timeout=20)))
    thread.start()
    program.kill()
    thread.join(20)
    assert outcome == [2]
    # What it held is used again: this has room for a few.
    for _ in range(50):
        publisher.publish(np.zeros(100_000))


def test_a_publisher_killed_in_a_loan_leaves_nothing_behind(folder, start):
    topic = Topic("topic", folder, max_bytes=32 << 20)
    subscriber = topic.subscriber()
    for _ in range(3):
        program = start("""
            publisher = Topic("topic", folder).publisher()
            publisher.publish(b"before")
            with publisher.loan((1000, 1000), "f8") as a:
                a[:500] = 1
                say("lent")
                time.sleep(60)
        """)
        program.line()
        program.kill()
        assert bytes(subscriber.recv(timeout=5)) == b"before"
        assert subscriber.try_recv() is None
    publisher = topic.publisher()
    assert subscriber.publisher_count == 1
    for _ in range(20):
        with publisher.loan((1000, 1000), "f8") as a:
            a[:] = 2
        assert float(subscriber.recv(timeout=5).numpy().mean()) == 2


def test_a_full_topic_says_so(folder):
    publisher, _ = pair(folder, max_bytes=1 << 20)
    with pytest.raises(NoSpace) as raised:
        publisher.loan(8 << 20)
    assert isinstance(raised.value, OSError) and raised.value.errno == 28


def test_a_subscriber_iterates_and_two_processes_meet(folder, start):
    program = start("""
        import numpy as np
        publisher = Topic("topic", folder).publisher()
        while not publisher.has_subscribers:
            time.sleep(0.001)
        for number in range(100):
            publisher.publish(np.full((50, 50), number))
    """)
    subscriber = Topic("topic", folder, depth=256).subscriber(reliable=True)
    seen = [int(sample.numpy()[0, 0]) for sample in itertools.islice(subscriber, 100)]
    assert seen == list(range(100))
    assert program.end() == 0


def test_rusts_topics_open_as_bytes(folder):
    from outlive import NotFound, WrongKind, Queue

    with pytest.raises(NotFound):
        Topic.open("nothing", domain=folder)
    Queue("queue", folder)
    with pytest.raises(WrongKind):
        Topic("queue", folder)
    Topic("topic", folder)
    assert Topic.open("topic", domain=folder).subscribers() == []
