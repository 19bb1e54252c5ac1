"""Arrays of PyTorch, CuPy and JAX, on a GPU: skipped where there is none, or where one of them is not installed."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import Program

import outlive
from outlive import DeviceTopic, Topic


def has_gpu() -> bool:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int()
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


pytestmark = pytest.mark.skipif(not has_gpu(), reason="no GPU is here")


@pytest.fixture(name="torch")
def _torch() -> Any:
    return pytest.importorskip("torch")


@pytest.fixture(name="cupy")
def _cupy() -> Any:
    return pytest.importorskip("cupy")


@pytest.fixture(name="jax")
def _jax(monkeypatch: pytest.MonkeyPatch) -> Any:
    # It would take most of the GPU's memory.
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    return pytest.importorskip("jax")


KINDS = pytest.mark.parametrize("kind", [Topic, DeviceTopic])


@KINDS
def test_torch_to_torch(torch: Any, folder: str, kind: Any) -> None:
    topic = kind("frames", folder)
    subscriber = topic.subscriber()
    for number in range(20):
        with topic.loan_gpu((480, 640, 3), "float32") as frame:
            torch.from_dlpack(frame)[:] = number
        found = subscriber.recv(timeout=60).torch()
        assert found.is_cuda and found.dtype == torch.float32 and tuple(found.shape) == (480, 640, 3)
        assert bool((found == number).all())
    topic.wait_gpu(10)


@KINDS
def test_torch_on_streams_of_its_own(torch: Any, folder: str, kind: Any) -> None:
    """Each side works on its own stream, and neither waits in the processor: the numbers are right all the same."""
    topic = kind("frames", folder, depth=8, reliable=True)
    subscriber = topic.subscriber(reliable=True)
    ours, theirs = torch.cuda.Stream(), torch.cuda.Stream()
    size, sums = 4 << 20, []
    for number in range(30):
        with torch.cuda.stream(ours), topic.loan_gpu(size, "int32", stream=ours) as frame:
            work = torch.full((size,), number, dtype=torch.int32, device="cuda")
            for _ in range(10):
                work = work * 3 - work * 2
            torch.from_dlpack(frame).copy_(work)
        with torch.cuda.stream(theirs):
            sums.append(subscriber.recv(timeout=60).torch().sum(dtype=torch.int64))
    torch.cuda.synchronize()
    assert [int(each) for each in sums] == [number * size for number in range(30)]
    topic.wait_gpu(10)


@KINDS
def test_cupy_to_torch_to_numpy(cupy: Any, torch: Any, folder: str, kind: Any) -> None:
    topic = kind("frames", folder)
    subscriber = topic.subscriber()
    with topic.loan_gpu((100, 7), "float64") as frame:
        cupy.from_dlpack(frame)[:] = cupy.arange(700, dtype="float64").reshape(100, 7)
    sample = subscriber.recv(timeout=60)
    assert np.array_equal(sample.torch().cpu().numpy(), np.arange(700.0).reshape(100, 7))
    assert np.array_equal(cupy.asnumpy(sample.cupy()), np.arange(700.0).reshape(100, 7))


@KINDS
def test_jax_reads_what_cupy_made(cupy: Any, jax: Any, folder: str, kind: Any) -> None:
    topic = kind("frames", folder)
    subscriber = topic.subscriber()
    with topic.loan_gpu((64, 64), "float32") as frame:
        cupy.from_dlpack(frame)[:] = 2
    array = jax.numpy.from_dlpack(subscriber.recv(timeout=60).gpu())
    assert array.shape == (64, 64) and float(array.sum()) == 2 * 64 * 64


def test_what_the_processor_publishes_the_gpu_reads(torch: Any, folder: str) -> None:
    topic = Topic("frames", folder)
    subscriber = topic.subscriber()
    topic.publisher().publish(np.arange(1000, dtype="int16"))
    assert int(subscriber.recv(timeout=60).torch().sum(dtype=torch.int64)) == 999 * 500


def test_a_device_sample_outlives_its_publisher(torch: Any, start: Callable[[str], Program], folder: str) -> None:
    """A process that has mapped a block keeps it, though the one that made it is killed."""
    code = """
        import torch
        topic = DeviceTopic("frames", folder)
        say("there")
        for number in range(1 << 30):
            with topic.loan_gpu(1 << 20, "int32") as frame:
                torch.from_dlpack(frame)[:] = number
            time.sleep(0.001)
    """
    topic = DeviceTopic("frames", folder)
    for _ in range(4):
        subscriber = topic.subscriber()
        publisher = start(code)
        publisher.line(60)
        held = []
        for _ in range(3):
            sample = subscriber.recv(timeout=60)
            held.append((sample, sample.torch()))
        before = [int(array[0]) for _, array in held]
        publisher.kill()
        assert [int(array[-1]) for _, array in held] == before
        assert all(bool((array == array[0]).all()) for _, array in held)
        del held, sample
        subscriber.close()


def test_no_message_is_half_written_when_its_writer_is_killed(torch: Any, start: Callable[[str], Program], folder: str) -> None:
    code = """
        import torch
        topic = Topic("frames", folder)
        say("there")
        for number in range(1 << 30):
            with topic.loan_gpu(1 << 20, "int32") as frame:
                torch.from_dlpack(frame)[:] = number
    """
    topic = Topic("frames", folder)
    for round_ in range(4):
        subscriber = topic.subscriber()
        publisher = start(code)
        publisher.line(60)
        for _ in range(20 + 7 * round_):
            array = subscriber.recv(timeout=60).numpy()
            assert (array == array[0]).all()
        publisher.kill()
        while (sample := subscriber.try_recv()) is not None:
            array = sample.numpy()
            assert (array == array[0]).all()
            del array, sample
        subscriber.close()


def test_a_gpu_that_is_not_there(folder: str) -> None:
    with pytest.raises(outlive.NoGpu):
        DeviceTopic("frames", folder, device=64)
