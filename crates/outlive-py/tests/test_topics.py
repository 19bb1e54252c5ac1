"""Topics: arrays, views that keep their samples, loans, DLPack, msgpack; publishers and subscribers that are killed."""

from __future__ import annotations

import array
import asyncio
import ctypes
import gc
import itertools
import math
import os
import struct
import threading
import zlib

import numpy as np
import pytest

from outlive import (
    BadOption,
    Lagged,
    Lively,
    Missed,
    NoSpace,
    NotLively,
    Timeout,
    TooLarge,
    TooMany,
    Topic,
    WaitSet,
    WrongKind,
)


def pair(folder, name="topic", **options):
    topic = Topic(name, folder, **options)
    return topic.publisher(), topic.subscriber()


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"])
def test_arrays_arrive_as_they_were(folder, dtype):
    publisher, subscriber = pair(folder)
    for shape in [(), (0,), (5,), (3, 4), (2, 3, 4), (1, 2, 1, 2, 1, 2, 3), (300, 40)]:
        sent = (np.arange(math.prod(shape)) % 100).astype(dtype).reshape(shape)
        publisher.publish(sent)
        sample = subscriber.recv(timeout=60)
        got = sample.numpy()
        assert got.dtype == sent.dtype and got.shape == sent.shape and np.array_equal(got, sent)
        assert not got.flags.writeable and got.flags.c_contiguous
        assert sample.dtype == sent.dtype.str or (dtype == "u1" and len(shape) == 1)
        with publisher.loan(shape, dtype) as loan:
            assert loan.shape == shape and loan.dtype == sent.dtype and loan.flags.writeable
            loan[...] = sent
        assert np.array_equal(subscriber.recv(timeout=60).numpy(), sent)


def test_views_of_arrays_are_published_row_by_row(folder):
    publisher, subscriber = pair(folder)
    whole = np.arange(10_000, dtype="f4").reshape(100, 100)
    for view in [whole.T, whole[::2, 1::3], whole[::-1], np.broadcast_to(whole[0], (7, 100)), np.asfortranarray(whole)]:
        publisher.publish(view)
        assert np.array_equal(subscriber.recv(timeout=60).numpy(), view)


def test_bytes_and_their_like(folder):
    publisher, subscriber = pair(folder)
    for data in [b"", b"bytes", bytearray(b"more"), memoryview(b"x" * 100_000), array.array("B", [1, 2, 3])]:
        publisher.publish(data)
        sample = subscriber.recv(timeout=60)
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
    sample = chosen.recv(timeout=60)
    assert (bytes(sample), sample.key, sample.frame, sample.stamp, sample.own) == (b"this", 7, 8, 9, b"own".ljust(32, b"\0"))
    assert sample.sequence == 1
    publisher.publish(np.zeros(3), key=7)
    sample = chosen.recv(timeout=60)
    assert sample.key == 7 and sample.dtype == "<f8" and sample.stamp > 10**18


def test_a_header_that_lies_is_no_array(folder):
    publisher, subscriber = pair(folder)
    for own in [b"\xa5\x01f\x04\xff\xff\xff\xff", b"\xa5\x08f\x04", b"\xa5\x01f\x03\x01", b"\xa5\x02f\x08" + b"\xff" * 28]:
        publisher.publish(b"twelve bytes", own=own)
        sample = subscriber.recv(timeout=60)
        assert sample.dtype is None and bytes(sample) == b"twelve bytes"


def test_it_has_room_for_as_many_as_its_maker_asked_for(folder):
    topic = Topic("narrow", folder, max_publishers=2, max_subscribers=1, max_samples=8)
    assert [topic.config[most] for most in ("max_publishers", "max_subscribers", "max_samples")] == [2, 1, 8]
    publishers, subscriber = [topic.publisher() for _ in range(2)], topic.subscriber()
    for another in (topic.publisher, topic.subscriber):
        with pytest.raises(TooMany):
            another()
    kept = []
    for publisher in publishers * 4:
        publisher.publish(bytes(200))
        kept.append(subscriber.recv(timeout=60))
    publishers[0].publish(bytes(200))
    with pytest.raises(TooMany):
        subscriber.recv(timeout=60)
    with pytest.raises(BadOption, match="max_publishers of .* is 2, this program wants 3"):
        Topic("narrow", folder, max_publishers=3)
    with pytest.raises(BadOption, match="8 to 65,536"):
        Topic("other", folder, max_samples=7)


def test_who_may_publish_is_its_makers_choice(folder):
    topic = Topic("motors", folder, mode=0o640)
    assert topic.config["mode"] == 0o640
    assert os.stat(os.path.join(folder, "motors")).st_mode & 0o7777 == 0o640
    assert Topic("motors", folder).config["mode"] == 0o640
    with pytest.raises(BadOption, match="mode of .* is 0640, this program wants 0660"):
        Topic("motors", folder, mode=0o660)
    with pytest.raises(BadOption, match="0640 .the group subscribes"):
        Topic.create_new("other", folder, mode=0o644)


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
    held = [subscriber.recv(timeout=60).numpy() for _ in range(256)]
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
    sample = subscriber.recv(timeout=60)
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
    assert bytes(subscriber.recv(timeout=60)) == b"0123456789"
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
        thread.join(60)
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
        sample = subscriber.recv(timeout=60)
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
    sample.__dlpack__(max_version=(1, 0))  # never taken
    sample.__dlpack__()
    with pytest.raises(TypeError):
        publisher.publish(OnDevice(np.eye(2)))


class OldConsumer:
    """Asks as JAX 0.4 to 0.7 does: by ``__dlpack__(stream=None)``, which says nothing of versions."""

    def __init__(self, sample):
        self.sample = sample

    def __dlpack__(self, *, stream=None):
        return self.sample.__dlpack__(stream=stream)

    def __dlpack_device__(self):
        return self.sample.__dlpack_device__()


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("dimensions", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class DLManagedTensor(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p))]


@pytest.mark.parametrize("count", [7, 50_000])
def test_dlpack_of_the_first_version_gets_an_aligned_copy(folder, count):
    """What XLA asks of a buffer: 64 bytes, or it refuses; and it may write to it."""
    publisher, subscriber = pair(folder)
    sent = np.arange(count, dtype="f4")
    publisher.publish(sent)
    sample = subscriber.recv(timeout=60)
    capsule = sample.__dlpack__(stream=None)
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    at = pointer(capsule, b"dltensor")
    managed = DLManagedTensor.from_address(at)
    tensor = managed.tensor
    assert tensor.data % 64 == 0 and tensor.byte_offset == 0
    assert (tensor.dimensions, tensor.shape[0], tensor.strides[0]) == (1, count, 1)
    assert (tensor.code, tensor.bits, tensor.lanes) == (2, 32, 1)
    mine = np.frombuffer((ctypes.c_float * count).from_address(tensor.data), "f4")
    assert np.array_equal(mine, sent)
    mine[:] = 0
    assert np.array_equal(sample.numpy(), sent)
    # As a consumer does: it takes the tensor by giving the capsule another name, and lets it go later.
    rename = ctypes.pythonapi.PyCapsule_SetName
    rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
    rename(capsule, b"used_dltensor")
    del capsule, mine
    managed.deleter(at)


def test_dlpack_says_when_it_copies(folder):
    publisher, subscriber = pair(folder)
    publisher.publish(np.arange(1000.0))
    sample = subscriber.recv(timeout=60)
    old = OldConsumer(sample)
    copied = np.from_dlpack(old)
    assert np.array_equal(copied, np.arange(1000.0)) and not np.shares_memory(copied, sample.numpy())
    with pytest.raises(BufferError, match="max_version"):
        sample.__dlpack__(copy=False)
    with pytest.raises(BufferError, match="max_version"):
        sample.__dlpack__(max_version=(0, 8), copy=False)
    with pytest.raises(BufferError, match="CPU"):
        sample.__dlpack__(max_version=(1, 0), dl_device=(2, 0))
    for copy, shares in [(None, True), (False, True), (True, False)]:
        got = np.from_dlpack(sample, device="cpu", copy=copy)
        assert np.array_equal(got, np.arange(1000.0))
        assert np.shares_memory(got, sample.numpy()) == shares and got.flags.writeable != shares
    # A tensor keeps the message by itself.
    view = np.from_dlpack(sample)
    del sample, old, got
    for _ in range(100):
        publisher.publish(np.zeros(1000))
    gc.collect()
    assert np.array_equal(view, np.arange(1000.0))


def test_jax_takes_samples(folder):
    jnp = pytest.importorskip("jax.numpy", exc_type=ImportError)
    publisher, subscriber = pair(folder)
    for count in (7, 50_000):
        publisher.publish(np.arange(count, dtype="f4"))
        assert float(jnp.from_dlpack(subscriber.recv(timeout=60)).sum()) == float(np.arange(count, dtype="f4").sum())


@pytest.mark.parametrize("count", [1, 168, 169, 5000, 100_000, 3 << 20])
def test_alignment_is_as_the_page_says(folder, count):
    publisher, subscriber = pair(folder)
    kept = []
    for _ in range(9):
        publisher.publish(np.ones(count, "u1"))
        kept.append(subscriber.recv(timeout=60))
        at = kept[-1].numpy().__array_interface__["data"][0]
        assert at % (8 if count <= 168 else 64) == 0
    with publisher.loan(count, "u1") as loan:
        assert loan.__array_interface__["data"][0] % (8 if count <= 168 else 64) == 0
        loan[:] = 0


def test_an_array_is_read_as_what_it_is(folder):
    publisher, subscriber = pair(folder)
    publisher.publish(np.arange(6, dtype="i4").reshape(2, 3))
    sample = subscriber.recv(timeout=60)
    for dtype in ["f4", "u4", ">i4", "i8", "i2"]:
        with pytest.raises(WrongKind, match=r"array of int32, not of .*view"):
            sample.numpy(dtype)
    for shape in [6, (3, 2), (2, 3, 1), ()]:
        with pytest.raises(ValueError, match=r"shape \(2, 3\), not .*reshape"):
            sample.numpy(shape=shape)
    for got in [sample.numpy("i4"), sample.numpy(np.int32, (2, 3)), sample.numpy(shape=[2, 3])]:
        assert np.array_equal(got, np.arange(6).reshape(2, 3)) and np.shares_memory(got, sample.numpy())
    # As something else only by numpy's own words for it.
    assert np.array_equal(sample.numpy().view("f4").view("i4").reshape(6), np.arange(6))


POINTS = [
    np.dtype([("x", "f4"), ("y", "f4")]),
    np.dtype([("id", "u1"), ("at", "f8", (3,)), ("name", "|S" + "7"), ("größe", "U3")]),
    np.dtype([("a", "i1"), ("b", "i4"), ("c", "i2")], align=True),
    np.dtype([("pose", [("position", "f8", (2, 2)), ("ok", "?")]), ("z", "c16"), ("big", ">i4")]),
    np.dtype({"names": ["p", "q"], "formats": ["i2", "u8"], "offsets": [3, 16], "itemsize": 40}),
]


@pytest.mark.parametrize("dtype", POINTS, ids=str)
def test_records_arrive_as_they_were(folder, dtype):
    publisher, subscriber = pair(folder)
    random = np.random.default_rng(1)
    for shape in [(), (0,), (3,), (2, 5), (1,) * 6, (5000,)]:
        sent = np.zeros(shape, dtype)
        for name in dtype.names:
            if sent[name].dtype.kind in "iufc":
                sent[name] = random.integers(0, 100, sent[name].shape)
        publisher.publish(sent, key=3)
        sample = subscriber.recv(timeout=60)
        got = sample.numpy()
        assert got.dtype == dtype and got.shape == shape and not got.flags.writeable
        assert np.array_equal(got, sent) and np.shares_memory(got, sample.numpy()) == (sent.size > 0)
        assert (sample.dtype, sample.shape, len(sample), sample.key) == (f"|V{dtype.itemsize}", shape, sent.nbytes, 3)
        assert bytes(sample) == sent.tobytes()
        assert np.array_equal(sample.numpy(dtype, shape), sent)
        with publisher.loan(shape, dtype) as loan:
            assert loan.dtype == dtype and loan.shape == shape and loan.flags.writeable
            loan[...] = sent
        assert np.array_equal(subscriber.recv(timeout=60).numpy(), sent)
    with pytest.raises(WrongKind):
        sample.numpy("u1")
    with pytest.raises(BufferError, match="numpy"):
        sample.__dlpack__(max_version=(1, 0))
    publisher.publish(np.recarray(4, dtype=dtype))
    assert subscriber.recv(timeout=60).numpy().dtype == dtype


def test_structs_of_ctypes_are_records(folder):
    class Point(ctypes.Structure):
        _fields_ = [("x", ctypes.c_float), ("n", ctypes.c_uint32)]

    publisher, subscriber = pair(folder)
    publisher.publish((Point * 2)(Point(1.5, 2), Point(2.5, 3)))
    got = subscriber.recv(timeout=60).numpy()
    assert got.dtype.names == ("x", "n") and got.tolist() == [(1.5, 2), (2.5, 3)]


def test_records_of_addresses_are_refused(folder):
    publisher, subscriber = pair(folder)
    for dtype in [[("a", object)], [("a", "M8[s]")], [("a", [("b", object)])]]:
        with pytest.raises((TypeError, ValueError)):
            publisher.publish(np.zeros(2, dtype))
        with pytest.raises((TypeError, ValueError)):
            publisher.loan(2, dtype)
    with pytest.raises((TypeError, ValueError)):

        class Address(ctypes.Structure):
            _fields_ = [("at", ctypes.c_void_p)]

        publisher.publish((Address * 2)())


@pytest.mark.parametrize(
    "text",
    [
        b"T{O:a:}", b"T{l:a:O:b:}", b"T{T{O:x:}:a:}", b"T{&l:a:}", b"T{P:a:}", b"T{X{}:a:}", b"T{l:a:", b"T{l:a}", b"T{(2l:a:}",
        b"l", b"", b"T{", b"T", b"T{l:a:}}", b"T{l:a:}\0", b"T{\xff:a:}", b"T{l:\xff:}", b"T{" * 100 + b"}" * 100, b"T{^^^^Zx:a:}",
    ],
)
def test_a_description_that_lies_is_no_array(folder, text):
    """Another program's header and text: numpy must not take its numbers for addresses."""
    publisher, subscriber = pair(folder)
    own = b"\xa5\x01V\0" + struct.pack("<6I", 2, 0, 0, 0, 0, 0) + struct.pack("<I", 8)
    publisher.publish(bytes(range(16)) + text, own=own)
    sample = subscriber.recv(timeout=60)
    assert sample.dtype is None and len(sample) == 16 + len(text)
    assert sample.numpy().dtype == np.uint8


def test_a_description_of_another_size_is_an_error_of_numpys(folder):
    publisher, subscriber = pair(folder)
    for text in [b"T{l:a:l:b:}", b"T{b:a:}", b"T{2147483647l:a:}", b"T{(99999,99999,99999)l:a:}", b"T{}", b"T{99999999999999999999s:a:}"]:
        own = b"\xa5\x01V\0" + struct.pack("<6I", 2, 0, 0, 0, 0, 0) + struct.pack("<I", 8)
        publisher.publish(bytes(16) + text, own=own)
        with pytest.raises((RuntimeError, ValueError, OverflowError, TypeError)):
            subscriber.recv(timeout=60).numpy()


def test_msgpack_is_all_of_the_message(folder):
    publisher, subscriber = pair(folder)
    for value in [b"\x01", b"\x92\x01\x02", b"\xa1a", b"\x81\x01\xc0", b"\xc0"]:
        for rest in [b"\x01", b"\x91", b"\xa5", b"\xc1", b"\xc0", b"\xd9", value]:
            publisher.publish(value)
            subscriber.recv(timeout=60).msgpack()
            publisher.publish(value + rest)
            with pytest.raises(ValueError, match="bytes are left"):
                subscriber.recv(timeout=60).msgpack()


def test_a_message_larger_than_the_topic_says_so(folder):
    publisher, _ = pair(folder, max_bytes=1 << 20)
    with pytest.raises(TooLarge, match=r"message of 2097152 bytes does not fit, the most is [0-9]{6,7};"):
        publisher.publish(bytes(2 << 20))
    publisher.publish(bytes(900_000))


def test_msgpack(folder):
    publisher, subscriber = pair(folder)
    for value in [None, True, -1, 2**63, 1.5, "text", b"bytes", [1, [2, []]], {"a": {1: None}, "b": [b"x" * 10_000]}]:
        publisher.publish_msgpack(value)
        assert subscriber.recv(timeout=60).msgpack() == value
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
    publisher, subscriber = pair(folder, depth=4, reliable=True)
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
    publisher.publish(b"now", timeout=60)
    with pytest.raises(Missed):
        Topic("topic", folder).subscriber(period=0.05).recv(timeout=60)


def test_both_sides_count_the_periods_without_a_message(folder):
    topic = Topic("topic", folder)
    publisher, subscriber = topic.publisher(period=0.002), topic.subscriber(period=0.002)
    waiting = WaitSet(folder)
    waiting.add_due(publisher)
    assert waiting.wait(timeout=60) == [publisher] and publisher.missed >= 1
    with pytest.raises(KeyError):
        waiting.remove(subscriber)
    waiting.remove(publisher)
    waiting.add(subscriber)
    assert waiting.wait(timeout=60) == [subscriber]
    for ask in (subscriber.try_recv, subscriber.recv, lambda: asyncio.run(one(subscriber))):
        with pytest.raises(Missed):
            while True:
                ask()
    assert subscriber.missed >= 3
    publisher.publish(b"x")
    assert bytes(subscriber.recv()) == b"x" and topic.publisher().missed == 0


def test_a_publisher_that_does_nothing_is_told(folder):
    topic = Topic("topic", folder)
    publisher, subscriber = topic.publisher(), topic.subscriber(liveliness=0.003)
    with pytest.raises(NotLively, match="done nothing") as told:
        subscriber.recv(timeout=60)
    assert (told.value.session, told.value.pid, subscriber.lapses) == (1, os.getpid(), 1)
    publisher.assert_liveliness()
    with pytest.raises(Lively) as told:
        subscriber.recv(timeout=60)
    assert told.value.session == 1


def test_a_message_counts_for_its_lifespan(folder):
    topic = Topic("topic", folder)
    subscriber, publisher = topic.subscriber(), topic.publisher(lifespan=1000)
    publisher.publish(b"of 1970", stamp=1)
    publisher.publish(b"now")
    assert bytes(subscriber.recv()) == b"now" and subscriber.expired == 1
    with pytest.raises(BadOption, match="stamps"):
        Topic("none", folder, stamps=False).publisher(lifespan=1)


async def one(subscriber):
    return await subscriber.recv_async()


def test_reliable_delivery_needs_a_topic_that_offers_it(folder):
    kept = pair(folder, depth=4)
    with pytest.raises(BadOption, match="reliability .* is best effort .* wants reliable"):
        Topic("topic", folder).subscriber(reliable=True)
    with pytest.raises(BadOption):
        Topic("topic", folder, reliable=True)
    # Those that were refused have left nothing.
    assert len(Topic("topic", folder).subscribers()) == 1
    del kept


@pytest.mark.parametrize("limit", [0, 0.02])
def test_a_publisher_waits_no_longer_than_its_limit(folder, limit):
    topic = Topic("topic", folder, depth=2, reliable=True)
    slow = topic.subscriber(reliable=True)
    publisher = topic.publisher(max_blocking=limit)
    for number in range(5):
        publisher.publish(b"%d" % number)
    with pytest.raises(Lagged, match="3"):
        slow.recv(timeout=60)
    assert [bytes(slow.recv(timeout=60)) for _ in range(2)] == [b"3", b"4"]
    assert slow.lost == 3
    with pytest.raises(ValueError, match="max_blocking"):
        topic.publisher(max_blocking=-1)


def test_the_slowest_reliable_subscriber_is_named(folder):
    topic = Topic("topic", folder, depth=2, reliable=True)
    publisher = topic.publisher(max_blocking=math.inf)
    waiting = WaitSet(folder)
    with pytest.raises(KeyError):
        waiting.slowest(publisher)
    waiting.add(publisher)
    assert publisher.slowest() is None and waiting.slowest(publisher) is None
    slow = topic.subscriber(reliable=True)
    publisher.publish(b"one")
    assert publisher.slowest() == waiting.slowest(publisher) == (os.getpid(), 1)
    assert waiting.wait(timeout=60) == [publisher]
    publisher.publish(b"two")
    assert waiting.wait(timeout=0.01) == [] and waiting.slowest(publisher) == (os.getpid(), 2)
    with pytest.raises(Timeout) as late:
        publisher.publish(b"three", timeout=0.01)
    assert late.value.pid == os.getpid() and publisher.stopped_waiting == 0
    # While a thread waits in ``publish``, its publisher is asked by a set alone.
    thread = threading.Thread(target=publisher.publish, args=(b"three",))
    thread.start()
    assert waiting.slowest(publisher) == (os.getpid(), 2)
    assert bytes(slow.recv()) == b"one"
    thread.join()
    waiting.remove(publisher)
    assert len(waiting) == 0
    with pytest.raises(Timeout) as late:
        for _ in range(3):
            slow.recv(timeout=0)
    assert late.value.pid == 0


def test_a_dead_reliable_subscriber_is_waited_for_no_longer(folder, start):
    publisher, _ = pair(folder, depth=1, reliable=True)
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
    thread = threading.Thread(target=lambda: outcome.append(publisher.publish(np.zeros(1000), timeout=60)))
    thread.start()
    program.kill()
    thread.join(60)
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
        assert bytes(subscriber.recv(timeout=60)) == b"before"
        assert subscriber.try_recv() is None
    publisher = topic.publisher()
    assert subscriber.publisher_count == 1
    for _ in range(20):
        with publisher.loan((1000, 1000), "f8") as a:
            a[:] = 2
        assert float(subscriber.recv(timeout=60).numpy().mean()) == 2


def test_a_full_topic_says_so(folder):
    publisher, subscriber = pair(folder, max_bytes=1 << 20)
    held = []
    with pytest.raises(NoSpace, match="subscribers hold [1-9]") as raised:
        for _ in range(9):
            publisher.publish(bytes(200_000))
            held.append(subscriber.recv(timeout=60))
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
    subscriber = Topic("topic", folder, depth=256, reliable=True).subscriber(reliable=True)
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
