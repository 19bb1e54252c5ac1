"""Messages written and read by a GPU: through a driver that needs none, and a consumer of its arrays written here."""

from __future__ import annotations

import ctypes
import math
import os
import pathlib
import sys
import threading
import types
from collections.abc import Iterator
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from typing import Any

import numpy as np
import pytest

import outlive
from outlive import DeviceTopic, Topic

#: ``cargo xtask python`` builds it beside the environment.
FAKE = pathlib.Path(sys.prefix).parent / "debug/liboutlive_gpu_fake.so"
ALLOCATIONS, VIOLATIONS = 4, 2


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device", c_int32),
        ("dimensions", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("offset", c_uint64),
    ]


class Managed(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", c_void_p), ("deleter", c_void_p)]


class ManagedVersioned(ctypes.Structure):
    _fields_ = [
        ("major", c_uint32),
        ("minor", c_uint32),
        ("context", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("tensor", Tensor),
    ]


ctypes.pythonapi.PyCapsule_GetName.restype = c_char_p
ctypes.pythonapi.PyCapsule_GetName.argtypes = [ctypes.py_object]
ctypes.pythonapi.PyCapsule_GetPointer.restype = c_void_p
ctypes.pythonapi.PyCapsule_GetPointer.argtypes = [ctypes.py_object, c_char_p]
ctypes.pythonapi.PyCapsule_SetName.argtypes = [ctypes.py_object, c_char_p]
USED = {b"dltensor": b"used_dltensor", b"dltensor_versioned": b"used_dltensor_versioned"}


class Taken:
    """An array as a consumer has it: by DLPack, until it is let go of."""

    def __init__(self, array: Any, **how: Any) -> None:
        capsule = array.__dlpack__(**how)
        self.name = ctypes.pythonapi.PyCapsule_GetName(capsule)
        self.at = ctypes.pythonapi.PyCapsule_GetPointer(capsule, self.name)
        ctypes.pythonapi.PyCapsule_SetName(capsule, USED[self.name])
        kind: Any = ManagedVersioned if self.name == b"dltensor_versioned" else Managed
        self.managed = kind.from_address(self.at)
        self.tensor = self.managed.tensor
        self.shape = tuple(self.tensor.shape[at] for at in range(self.tensor.dimensions))

    def let_go(self) -> None:
        ctypes.CFUNCTYPE(None, c_void_p)(self.managed.deleter)(self.at)


class Cuda:
    """The driver, as CuPy or PyTorch call it."""

    def __init__(self) -> None:
        self.driver = ctypes.CDLL(str(FAKE))
        for name, arguments in {
            "cuMemcpyHtoDAsync_v2": [c_uint64, c_void_p, c_size_t, c_void_p],
            "cuMemcpyDtoHAsync_v2": [c_void_p, c_uint64, c_size_t, c_void_p],
            "cuMemHostAlloc": [POINTER(c_void_p), c_size_t, c_uint32],
            "cuStreamCreate": [POINTER(c_void_p), c_uint32],
            "cuStreamSynchronize": [c_void_p],
            "cuStreamDestroy_v2": [c_void_p],
            "cuDevicePrimaryCtxRetain": [POINTER(c_void_p), c_int],
            "cuCtxPushCurrent_v2": [c_void_p],
            "outlive_fake_fail": [c_char_p, c_uint32, c_int],
            "outlive_fake_delay": [c_uint64],
        }.items():
            getattr(self.driver, name).argtypes = arguments
        self.driver.outlive_fake_count.restype = c_uint64
        assert self.driver.cuInit(0) == 0
        context = c_void_p()
        assert self.driver.cuDevicePrimaryCtxRetain(byref(context), 0) == 0
        assert self.driver.cuCtxPushCurrent_v2(context) == 0

    def call(self, name: str, *arguments: object) -> None:
        assert getattr(self.driver, name)(*arguments) == 0, name

    def count(self, what: int) -> int:
        return int(self.driver.outlive_fake_count(what))

    def stream(self) -> int:
        stream = c_void_p()
        self.call("cuStreamCreate", byref(stream), 1)
        assert stream.value
        return stream.value

    def host(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """A copy in memory that the driver knows: copies from and to it are not waited for."""
        place = c_void_p()
        self.call("cuMemHostAlloc", byref(place), array.nbytes, 0)
        assert place.value
        host = np.frombuffer((c_uint8 * array.nbytes).from_address(place.value), "uint8")
        host[:] = array
        return host

    def write(self, address: int, array: np.ndarray[Any, Any], stream: int) -> None:
        """What ``array`` has is copied there; it must stay."""
        self.call("cuMemcpyHtoDAsync_v2", address, array.ctypes.data, array.nbytes, stream)

    def read(self, array: Any) -> np.ndarray[Any, Any]:
        """A ``GpuArray`` as its ``__cuda_array_interface__`` says."""
        interface = array.__cuda_array_interface__
        assert interface["version"] == 3 and interface["strides"] is None
        found = np.empty(interface["shape"], interface["typestr"])
        if found.nbytes:
            address, _ = interface["data"]
            self.call("cuMemcpyDtoHAsync_v2", found.ctypes.data, address, found.nbytes, interface["stream"])
            self.call("cuStreamSynchronize", interface["stream"])
        return found


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cuda]:
    assert FAKE.exists(), f"{FAKE} is not there: cargo build -p outlive-gpu-fake"
    monkeypatch.setenv("OUTLIVE_GPU_DRIVER", str(FAKE))
    cuda = Cuda()
    yield cuda
    cuda.driver.outlive_fake_shut(0)
    cuda.driver.outlive_fake_delay(0)
    assert cuda.count(VIOLATIONS) == 0


def numbers(*shape: int, dtype: str = "float32", first: int = 0) -> np.ndarray[Any, Any]:
    return (np.arange(np.prod(shape)) + first).astype(dtype).reshape(shape)


@pytest.mark.parametrize("dtype", ["float32", np.uint8, "complex128", bool])
@pytest.mark.parametrize("shape", [(3, 4), (), 7, (480, 640), (2, 0, 3)])
def test_from_device_to_device(cuda: Cuda, folder: str, dtype: Any, shape: Any) -> None:
    topic = Topic("frames", folder)
    subscriber = topic.subscriber()
    whole = shape if isinstance(shape, tuple) else (shape,)
    wanted = numbers(*whole, dtype=np.dtype(dtype).str)
    with topic.loan_gpu(shape, dtype, key=3, frame=4, stamp=5) as array:
        assert (array.shape, array.dtype, array.nbytes) == (whole, wanted.dtype.str, wanted.nbytes)
        assert (array.device, array.stream) == (0, 1)
        if wanted.nbytes:
            cuda.write(array.__cuda_array_interface__["data"][0], wanted, array.stream)
    sample = subscriber.recv(timeout=60)
    assert (sample.key, sample.frame, sample.stamp, sample.shape) == (3, 4, 5, whole)
    assert np.array_equal(sample.numpy(), wanted)
    there = sample.gpu()
    del sample
    assert np.array_equal(cuda.read(there), wanted)
    topic.wait_gpu(10)


def test_a_message_is_seen_when_its_stream_has_got_there(cuda: Cuda, folder: str) -> None:
    topic = Topic("frames", folder)
    subscriber, bytes_ = topic.subscriber(), numbers(1000, dtype="uint8")
    stream = cuda.stream()
    with topic.loan_gpu(1000, stream=stream) as array:
        assert array.stream == stream
        cuda.write(array.__cuda_array_interface__["data"][0], bytes_, stream)
        cuda.driver.outlive_fake_shut(1)
    assert subscriber.try_recv() is None
    with pytest.raises(outlive.Timeout):
        topic.wait_gpu(0.01)
    cuda.driver.outlive_fake_shut(0)
    topic.wait_gpu(10)
    sample = subscriber.try_recv()
    assert sample is not None and bytes(sample) == bytes_.tobytes()


@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (1, 3)])
def test_a_consumer_takes_it_by_dlpack(cuda: Cuda, folder: str, version: Any) -> None:
    topic = Topic("frames", folder)
    subscriber, wanted = topic.subscriber(), numbers(3, 5, dtype="int16")
    with topic.loan_gpu((3, 5), "int16") as array:
        assert array.__dlpack_device__() == (2, 0)
        taken = Taken(array, stream=1, max_version=version)
        assert taken.name == (b"dltensor_versioned" if version and version[0] else b"dltensor")
        tensor = taken.tensor
        assert (tensor.device_type, tensor.device, tensor.code, tensor.bits, tensor.lanes) == (2, 0, 0, 16, 1)
        assert taken.shape == (3, 5) and (tensor.strides[0], tensor.strides[1], tensor.offset) == (5, 1, 0)
        if taken.name == b"dltensor_versioned":
            assert (taken.managed.major, taken.managed.flags) == (1, 0)
        cuda.write(tensor.data, wanted, 1)
    assert np.array_equal(subscriber.recv(timeout=60).numpy(), wanted)
    topic.wait_gpu(10)
    # The consumer keeps it until it gives it back, on whatever thread.
    del array
    cuda.write(tensor.data, wanted, 1)
    cuda.call("cuStreamSynchronize", 1)
    thread = threading.Thread(target=taken.let_go)
    thread.start()
    thread.join()
    # A capsule that no consumer takes keeps nothing.
    with topic.loan_gpu(5) as array:
        array.__dlpack__(max_version=version)


def test_what_consumers_write_on_their_streams_is_waited_for(cuda: Cuda, folder: str) -> None:
    """The consumer's stream is slow; the array's own has nothing to do."""
    topic = Topic("frames", folder, depth=2)
    subscriber, wanted = topic.subscriber(), cuda.host(numbers(1 << 20, dtype="uint8", first=1))
    other = cuda.stream()
    for _ in range(3):
        cuda.driver.outlive_fake_delay(2000)
        with topic.loan_gpu(1 << 20) as array:
            taken = Taken(array, stream=other)
            cuda.write(taken.tensor.data, wanted, other)
            taken.let_go()
        cuda.driver.outlive_fake_delay(0)
        assert np.array_equal(subscriber.recv(timeout=60).numpy(), wanted)


def test_a_consumers_stream_waits_for_the_array(cuda: Cuda, folder: str) -> None:
    topic = Topic("frames", folder)
    subscriber, wanted = topic.subscriber(), numbers(1 << 20, dtype="uint8", first=3)
    topic.publisher().publish(wanted)
    mine, theirs = cuda.stream(), cuda.stream()
    cuda.driver.outlive_fake_delay(2000)
    array = subscriber.recv(timeout=60).gpu(stream=mine)
    taken = Taken(array, stream=theirs, max_version=(1, 0))
    found = cuda.host(np.zeros_like(wanted))
    cuda.call("cuMemcpyDtoHAsync_v2", found.ctypes.data, taken.tensor.data, found.nbytes, theirs)
    cuda.call("cuStreamSynchronize", theirs)
    assert np.array_equal(found, wanted)
    taken.let_go()


def test_memory_is_used_again_when_who_had_it_has_done(cuda: Cuda, folder: str) -> None:
    topic = Topic("frames", folder, depth=4)
    subscriber, before = topic.subscriber(), cuda.count(ALLOCATIONS)
    other, found = cuda.stream(), [cuda.host(np.zeros(300_000, "uint8")) for _ in range(20)]
    slow = cuda.host(np.zeros(300_000, "uint8"))
    frames = [cuda.host(numbers(300_000, dtype="uint8", first=at)) for at in range(20)]
    cuda.driver.outlive_fake_delay(500)
    for at in range(20):
        with topic.loan_gpu(300_000) as array:
            cuda.write(array.__cuda_array_interface__["data"][0], frames[at], 1)
        taken = Taken(subscriber.recv(timeout=60).gpu(), stream=other)
        # Let go of before it is read: that stream is slow.
        for _ in range(4):
            cuda.call("cuMemcpyDtoHAsync_v2", slow.ctypes.data, taken.tensor.data, 300_000, other)
        cuda.call("cuMemcpyDtoHAsync_v2", found[at].ctypes.data, taken.tensor.data, 300_000, other)
        taken.let_go()
    cuda.call("cuStreamSynchronize", other)
    assert all(np.array_equal(*pair) for pair in zip(found, frames))
    assert cuda.count(ALLOCATIONS) <= before + 4


def test_what_is_not_published(cuda: Cuda, folder: str) -> None:
    topic = Topic("frames", folder, depth=2, reliable=True)
    subscriber = topic.subscriber(reliable=True)
    with pytest.raises(KeyError), topic.loan_gpu(10):
        raise KeyError("no light")
    loan = topic.loan_gpu(10)
    loan.discard()
    with pytest.raises(RuntimeError, match="already"):
        loan.publish()
    topic.wait_gpu(10)
    assert subscriber.try_recv() is None
    for _ in range(2):
        with topic.loan_gpu(10):
            pass
    # The reliable subscriber is in the way; what was not published can be, later.
    late = topic.loan_gpu(10, timeout=0.05)
    with pytest.raises(outlive.Timeout):
        late.publish()
    subscriber.recv(timeout=60)
    late.publish()
    with pytest.raises(outlive.Timeout), topic.loan_gpu(10, timeout=0.05):
        pass
    for _ in range(2):
        subscriber.recv(timeout=60)


def test_a_gpus_loan_waits_no_longer_than_its_limit(cuda: Cuda, folder: str) -> None:
    topic = Topic("frames", folder, depth=2, reliable=True)
    slow = topic.subscriber(reliable=True)
    for _ in range(5):
        with topic.loan_gpu(10, max_blocking=0.01):
            pass
    topic.wait_gpu(10)
    with pytest.raises(outlive.Lagged, match="3"):
        slow.recv(timeout=60)
    # Loans with the same limit are of one publisher, and with another of another.
    assert len(topic.publishers()) == 1
    with topic.loan_gpu(10), topic.loan_gpu(10, max_blocking=math.inf):
        assert len(topic.publishers()) == 2
    with pytest.raises(ValueError, match="max_blocking"):
        topic.loan_gpu(10, max_blocking=-1)


def test_streams_as_libraries_have_them(cuda: Cuda, folder: str) -> None:
    topic = Topic("frames", folder)
    number = cuda.stream()
    of_torch, of_cupy = types.SimpleNamespace(cuda_stream=number), types.SimpleNamespace(ptr=number)
    of_cuda = types.SimpleNamespace(__cuda_stream__=lambda: (0, number))
    for stream in (number, of_torch, of_cupy, of_cuda):
        assert topic.loan_gpu(1, stream=stream).__enter__().stream == number
    default = types.SimpleNamespace(ptr=0)
    assert [topic.loan_gpu(1, stream=stream).__enter__().stream for stream in (None, 0, 1, 2, default)] == [1, 1, 1, 2, 1]
    with pytest.raises(TypeError, match="a stream is"):
        topic.loan_gpu(1, stream="first")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no stream"):
        topic.loan_gpu(1, stream=-1)
    array = topic.loan_gpu(1).__enter__()
    with pytest.raises(ValueError, match="stream 0"):
        array.__dlpack__(stream=0)
    # -1: it is to wait for nothing.
    Taken(array, stream=-1).let_go()
    for elsewhere in ({"dl_device": (1, 0)}, {"dl_device": (2, 1)}, {"copy": True}):
        with pytest.raises(BufferError):
            array.__dlpack__(**elsewhere)


def test_types_as_libraries_have_them(cuda: Cuda, folder: str) -> None:
    class TorchType:
        def __str__(self) -> str:
            return "torch.float16"

    topic = Topic("frames", folder)
    array = topic.loan_gpu([2, 3], TorchType()).__enter__()
    assert (array.dtype, array.shape, repr(array)) == ("<f2", (2, 3), "<GpuArray <f2 [2, 3] on GPU 0>")
    with pytest.raises(TypeError):
        topic.loan_gpu(2, "datetime64[s]")
    with pytest.raises(outlive.TooLarge):
        topic.loan_gpu((1 << 20, 1 << 20), "float64")


class Library(types.ModuleType):
    """As much of CuPy, or of PyTorch, as is asked for."""

    def __init__(self, name: str, stream: int) -> None:
        super().__init__(name)
        self.asked: list[Any] = []
        current = types.SimpleNamespace(ptr=stream, cuda_stream=stream)
        self.cuda = types.SimpleNamespace(
            runtime=types.SimpleNamespace(getDevice=lambda: 0),
            get_current_stream=lambda: current,
            current_device=lambda: 0,
            current_stream=lambda device: current,
        )

    def from_dlpack(self, array: Any) -> Any:
        self.asked.append(array.stream)
        return Taken(array, stream=array.stream, max_version=(1, 0))


@pytest.mark.parametrize("name", ["cupy", "torch"])
def test_cupy_and_torch(cuda: Cuda, folder: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = Topic("frames", folder)
    subscriber = topic.subscriber()
    topic.publisher().publish(numbers(2, 2))
    sample = subscriber.recv(timeout=60)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"install .* or use sample\.gpu\(\)"):
        getattr(sample, name)()
    streams = [cuda.stream(), cuda.stream()]
    library = Library(name, streams[0])
    monkeypatch.setitem(sys.modules, name, library)
    for how in ({}, {"stream": streams[1]}, {"device": 0}):
        taken = getattr(sample, name)(**how)
        assert taken.shape == (2, 2)
        taken.let_go()
    assert library.asked == [streams[0], streams[1], streams[0]]


def test_what_the_driver_refuses(cuda: Cuda, folder: str) -> None:
    topic = Topic("frames", folder)
    subscriber = topic.subscriber()
    cuda.driver.outlive_fake_fail(b"cuMemcpyDtoHAsync", 0, 2)
    with pytest.raises(outlive.GpuError, match="CUDA_ERROR_OUT_OF_MEMORY, 2"), topic.loan_gpu(5000):
        pass
    topic.publisher().publish(b"5" * 5000)
    sample = subscriber.recv(timeout=60)
    cuda.driver.outlive_fake_fail(b"cuMemcpyHtoDAsync", 0, 2)
    with pytest.raises(outlive.GpuError):
        sample.gpu()
    assert bytes(cuda.read(sample.gpu())) == b"5" * 5000
    with pytest.raises(outlive.NoGpu, match="number 7"):
        sample.gpu(device=7)


def test_without_a_driver(start: Any) -> None:
    program = start(
        """
        os.environ["OUTLIVE_GPU_DRIVER"] = "/nonexistent/libcuda.so.1"
        topic = Topic("frames", folder)
        subscriber = topic.subscriber()
        for attempt in (lambda: topic.loan_gpu(5), lambda: subscriber.recv(timeout=60).gpu()):
            topic.publisher().publish(b"works")
            try:
                attempt()
            except NoGpu as error:
                say(error)
        topic.wait_gpu(1)
        say(bytes(subscriber.recv(timeout=60)))
        """
    )
    for _ in range(2):
        assert program.line().startswith("no GPU can be used here: /nonexistent/libcuda.so.1")
    assert program.line() == "b'works'"


def test_a_forked_child_is_told(start: Any) -> None:
    program = start(
        f"""
        os.environ["OUTLIVE_GPU_DRIVER"] = {str(FAKE)!r}
        topic = Topic("frames", folder)
        loan = topic.loan_gpu(5)
        child = os.fork()
        if child == 0:
            try:
                Topic("frames", folder).loan_gpu(5)
            except NotYours as error:
                say(error)
            os._exit(0)
        os.waitpid(child, 0)
        loan.publish()
        topic.wait_gpu(10)
        say("published")
        """
    )
    assert "forked child" in program.line() and program.line() == "published"


def test_killed_before_the_stream_has_got_there(cuda: Cuda, folder: str, start: Any) -> None:
    code = f"""
        import ctypes
        os.environ["OUTLIVE_GPU_DRIVER"] = {str(FAKE)!r}
        topic = Topic("frames", folder)
        subscriber = topic.subscriber()
        with topic.loan_gpu(100_000):
            pass
        held = subscriber.recv(timeout=60)
        ctypes.CDLL({str(FAKE)!r}).outlive_fake_shut(1)
        array = held.gpu()
        del held
        with topic.loan_gpu(100_000):
            pass
        say("due")
        time.sleep(60)
        """
    topic = Topic("frames", folder)
    subscriber = topic.subscriber()
    for at in range(3):
        program = start(code)
        assert program.line() == "due"
        program.kill()
        assert len(subscriber.recv(timeout=60)) == 100_000
        assert subscriber.try_recv() is None
        wanted = numbers(100_000, dtype="uint8", first=at)
        with topic.loan_gpu(100_000) as array:
            cuda.write(array.__cuda_array_interface__["data"][0], wanted, 1)
        assert np.array_equal(subscriber.recv(timeout=60).numpy(), wanted)
    assert topic.publishers() == [os.getpid()] and topic.subscribers() == [os.getpid()]


def test_many_threads(cuda: Cuda, folder: str) -> None:
    topic = Topic("frames", folder, depth=64)
    subscriber, failed = topic.subscriber(), []

    def publish(letter: int) -> None:
        try:
            cuda_here = Cuda()
            wanted, stream = np.full(20_000, letter, "uint8"), cuda_here.stream()
            for _ in range(12):
                with topic.loan_gpu(20_000, stream=stream) as array:
                    cuda_here.write(array.__cuda_array_interface__["data"][0], wanted, stream)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=publish, args=(letter,)) for letter in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    topic.wait_gpu(10)
    assert not failed
    seen = [subscriber.recv(timeout=60).numpy() for _ in range(48)]
    assert all((frame == frame[0]).all() for frame in seen)
    assert sorted(int(frame[0]) for frame in seen) == sorted([0, 1, 2, 3] * 12)


def test_device_topics_copy_nothing(cuda: Cuda, folder: str) -> None:
    topic = DeviceTopic("frames", folder)
    subscriber, wanted = topic.subscriber(), numbers(30, 40)
    with topic.loan_gpu((30, 40), "float32", key=3, frame=4, stamp=5) as array:
        place, read_only = array.__cuda_array_interface__["data"]
        assert not read_only
        cuda.write(place, wanted, 1)
    with pytest.raises(BufferError, match="published"):
        array.__dlpack__()
    with pytest.raises(BufferError, match="published"):
        _ = array.__cuda_array_interface__
    sample = subscriber.recv(timeout=60)
    assert (sample.key, sample.frame, sample.stamp, sample.shape, sample.dtype) == (3, 4, 5, (30, 40), "<f4")
    assert (len(sample), sample.device, topic.device, topic.name) == (4800, 0, 0, "frames")
    view = sample.gpu()
    assert view.__cuda_array_interface__["data"][1], "it is read-only"
    assert np.array_equal(cuda.read(view), wanted)
    taken = Taken(view, max_version=(1, 0))
    assert taken.managed.flags == 1 and taken.shape == (30, 40)
    assert taken.tensor.data == view.__cuda_array_interface__["data"][0]
    taken.let_go()
    assert subscriber.try_recv() is None and topic.publishers() == topic.subscribers() == [os.getpid()]
    with topic.loan_gpu(7):
        pass
    topic.wait_gpu(10)
    latest = subscriber.latest()
    assert latest is not None and (latest.dtype, latest.shape) == (None, (7,))
    topic.wait_gpu(10)


def test_device_topics_open_in_three_ways(cuda: Cuda, folder: str) -> None:
    with pytest.raises(outlive.NotFound):
        DeviceTopic.open("frames", domain=folder)
    made = DeviceTopic.create_new("frames", folder, depth=2)
    with pytest.raises(outlive.AlreadyExists):
        DeviceTopic.create_new("frames", folder)
    with pytest.raises(outlive.BadOption):
        DeviceTopic("frames", folder, depth=4)
    subscriber = DeviceTopic.open("frames", domain=folder).subscriber()
    with made.loan_gpu(7):
        pass
    assert len(subscriber.recv(timeout=60)) == 7
    DeviceTopic("frames", folder)


def test_a_device_message_is_seen_when_its_streams_have_got_there(cuda: Cuda, folder: str) -> None:
    topic = DeviceTopic("frames", folder)
    subscriber, other = topic.subscriber(), cuda.stream()
    wanted = cuda.host(numbers(1 << 20, dtype="uint8", first=1))
    cuda.driver.outlive_fake_delay(2000)
    for _ in range(3):
        with topic.loan_gpu(1 << 20) as array:
            taken = Taken(array, stream=other)
            cuda.write(taken.tensor.data, wanted, other)
            taken.let_go()
        assert np.array_equal(cuda.read(subscriber.recv(timeout=60).gpu()), wanted)
    with pytest.raises(KeyError), topic.loan_gpu(10):
        raise KeyError("no light")
    with pytest.raises(outlive.Timeout):
        subscriber.recv(timeout=0.05)


def test_a_device_sample_is_held_until_its_consumers_have_done(cuda: Cuda, folder: str) -> None:
    topic = DeviceTopic("frames", folder, depth=2)
    subscriber, other = topic.subscriber(), cuda.stream()
    found = [cuda.host(np.zeros(300_000, "uint8")) for _ in range(12)]
    frames = [cuda.host(numbers(300_000, dtype="uint8", first=at)) for at in range(12)]
    slow = cuda.host(np.zeros(300_000, "uint8"))
    cuda.driver.outlive_fake_delay(500)
    for at in range(12):
        with topic.loan_gpu(300_000) as array:
            cuda.write(array.__cuda_array_interface__["data"][0], frames[at], 1)
        sample = subscriber.recv(timeout=60)
        taken = Taken(sample.gpu(), stream=other)
        del sample
        # Let go of before it is read: that stream is slow.
        for _ in range(4):
            cuda.call("cuMemcpyDtoHAsync_v2", slow.ctypes.data, taken.tensor.data, 300_000, other)
        cuda.call("cuMemcpyDtoHAsync_v2", found[at].ctypes.data, taken.tensor.data, 300_000, other)
        taken.let_go()
    cuda.call("cuStreamSynchronize", other)
    assert all(np.array_equal(*pair) for pair in zip(found, frames))
    topic.wait_gpu(10)


@pytest.mark.parametrize("name", ["cupy", "torch"])
def test_device_samples_for_cupy_and_torch(cuda: Cuda, folder: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = DeviceTopic("frames", folder)
    subscriber, library = topic.subscriber(), Library(name, cuda.stream())
    monkeypatch.setitem(sys.modules, name, library)
    with topic.loan_gpu((2, 2), "float32"):
        pass
    sample = next(subscriber)
    getattr(sample, name)().let_go()
    getattr(sample, name)(stream=2).let_go()
    assert library.asked == [library.cuda.get_current_stream().ptr, 2]


def test_a_device_topics_publisher_is_killed(cuda: Cuda, folder: str, start: Any) -> None:
    program = start(
        f"""
        os.environ["OUTLIVE_GPU_DRIVER"] = {str(FAKE)!r}
        topic = DeviceTopic("frames", folder)
        subscriber = topic.subscriber()
        def publish(size):
            with topic.loan_gpu(size):
                pass
            topic.wait_gpu(10)
        say("there")
        publish(1000)
        time.sleep(0.05)
        say("one")
        while topic.subscribers() == [os.getpid()]:
            time.sleep(0.01)
        while len(subscriber.recv()) != 1000:
            pass
        # Another block than the first, which a subscriber holds.
        publish(3 << 20)
        say("two")
        time.sleep(60)
        """
    )
    assert program.line() == "there" and program.line() == "one"
    topic = DeviceTopic("frames", folder)
    subscriber = topic.subscriber(history=2)
    first = subscriber.recv(timeout=60)
    view = first.gpu()
    assert program.line() == "two"
    program.kill()
    # A mapped block stays; for another one, the dead publisher cannot be asked.
    assert len(cuda.read(view)) == 1000
    with pytest.raises(outlive.PeerDied):
        subscriber.recv(timeout=60)
    wanted = numbers(50, dtype="uint8")
    with topic.loan_gpu(50) as array:
        cuda.write(array.__cuda_array_interface__["data"][0], wanted, 1)
    assert np.array_equal(cuda.read(subscriber.recv(timeout=60).gpu()), wanted)
