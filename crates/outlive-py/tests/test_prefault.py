"""Memory that is there before it is used: brought in, and locked."""

from __future__ import annotations

import os
import resource

import pytest

from outlive import BadOption, Client, Domain, JobQueue, Lock, NoSpace, Pool, Queue, Server, State, Topic


def faults() -> int:
    usage = resource.getrusage(resource.RUSAGE_THREAD)
    return usage.ru_minflt + usage.ru_majflt


def locked() -> int:
    """KiB that this process has locked."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmLck:"))


def test_samples_and_loans_are_no_page_faults(folder):
    domain = Domain(folder)
    topic = Topic("frames", domain, depth=4)
    publisher, subscriber = topic.publisher(), topic.subscriber()
    lock = Lock("lock", domain)
    size = 200_000
    message = b"x" * size

    def turn() -> None:
        with lock:
            publisher.publish(message)
        with subscriber.try_recv() as sample:
            assert memoryview(sample)[size - 1] == ord("x")

    publisher.prefault(2, size)
    domain.prefault()
    # What Python itself allocates at first.
    for _ in range(20):
        turn()
    before = faults()
    for _ in range(100):
        turn()
    # 49 pages for each message, if it had them anew.
    assert faults() - before < 49


def test_what_grows_is_made_before(folder):
    domain = Domain(folder)
    queue = Queue("queue", domain, max_bytes=16 << 20)
    queue.prefault(100, 50_000)
    assert queue.counters()["bytes"] > 100 * 50_000
    with pytest.raises(NoSpace):
        queue.prefault(1000, 50_000)
    queue.send(b"still works")
    pool = Pool("pool", domain)
    pool.prefault(10, 10_000)
    assert pool.usage()["objects"] >= 10
    with Server("service", domain) as server, Client("service", domain) as client:
        server.prefault(4, 10_000)
        client.prefault(4, 10_000)
    state = State("state", 5000, domain, initial=bytes(5000), fixed=True)
    state.prefault(20)
    assert os.path.getsize(os.path.join(folder, "state")) > 22 * 5000
    assert state.set(bytes(5000)) == 2
    with pytest.raises(NoSpace):
        state.prefault(65)
    jobs = JobQueue("jobs", domain, max_jobs=200)
    jobs.prefault(200)
    assert os.path.getsize(os.path.join(folder, "jobs")) > 200 * 4096
    with pytest.raises(NoSpace):
        jobs.prefault(201)
    with pytest.raises(BadOption, match="stack"):
        domain.prefault(1 << 40)


def test_memory_is_locked(folder, start):
    before = locked()
    domain = Domain(folder)
    queue = Queue("queue", domain)
    queue.prefault(100, 10_000)
    domain.lock_memory()
    assert locked() - before > 1000
    del queue
    limited = start(
        """
        import resource
        queue = Queue("queue", folder)
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
        # Root has no limit.
        if os.geteuid() == 0:
            import ctypes
            header, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
            assert ctypes.CDLL(None).syscall(126 if os.uname().machine == "x86_64" else 91, header, none) == 0
        try:
            Domain(folder).lock_memory()
            say("locked")
        except OSError as error:
            say("RLIMIT_MEMLOCK" in str(error))
        """
    )
    assert limited.line() == "True"
    assert os.path.isdir(folder)
