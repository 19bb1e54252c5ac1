"""Job queues: a killed worker's job goes to another."""

from __future__ import annotations

import asyncio
import os
import pickle
import threading

import pytest

from outlive import AlreadyExists, BadOption, Damaged, Empty, Full, JobQueue, NotFound, NotYours, Timeout, TooLarge, WaitSet, WrongKind


def test_a_job_is_done_at_the_end_of_its_block_or_given_back(folder):
    jobs = JobQueue("jobs", folder)
    assert (jobs.put(b"one"), jobs.put(bytearray(b"two"))) == (0, 1)
    with jobs.take() as job:
        assert (job.data, job.id, job.attempts, len(job)) == (b"one", 0, 1, 3)
        assert jobs.counts() == {"waiting": 1, "taken": 1, "set_aside": 0, "being_put": 0, "put": 2}
    with pytest.raises(OSError, match="no gas"), jobs.take() as job:
        raise OSError("no gas")
    with jobs.take() as job:
        assert (job.data, job.attempts) == (b"two", 2)
        job.done()
    with pytest.raises(RuntimeError):
        job.release()
    jobs.join()
    with pytest.raises(Empty):
        jobs.take(timeout=0.01)
    assert jobs.try_take() is None and len(jobs) == 0 and jobs


def test_a_job_that_is_forgotten_comes_back(folder):
    jobs = JobQueue("jobs", folder)
    jobs.put_msgpack({"seam": [1, 2]})
    jobs.take()
    assert jobs.take().attempts == 2
    job = jobs.take()
    assert (job.msgpack(), job.attempts) == ({"seam": [1, 2]}, 3)
    with pytest.raises(Timeout):
        jobs.join(timeout=0.01)
    job.release()
    with pytest.raises(TypeError):
        jobs.put("text")
    with pytest.raises(TypeError):
        jobs.put_msgpack(object())


def test_a_killed_workers_job_goes_to_another(folder, start):
    jobs = JobQueue("jobs", folder)
    for number in range(5):
        jobs.put(str(number).encode())
    worker = start("jobs = JobQueue('jobs', folder); job = jobs.take(); say(job.data.decode()); time.sleep(1000)")
    assert worker.line() == "0"
    waiting = threading.Timer(0.05, worker.kill)
    for number in range(1, 5):
        with jobs.take() as job:
            assert job.data == str(number).encode()
    waiting.start()
    with jobs.take(timeout=60) as job:
        assert (job.data, job.attempts) == (b"0", 2)
    waiting.join()
    jobs.join(timeout=60)


def test_what_fails_too_often_is_set_aside(folder):
    jobs = JobQueue("jobs", folder, max_attempts=2)
    jobs.put(b"poison")
    for _ in range(2):
        jobs.take().release()
    assert jobs.try_take() is None
    [aside] = jobs.set_aside()
    assert (aside.id, aside.attempts, aside.data, aside.is_damaged) == (0, 2, b"poison", False)
    assert (jobs.retry(7), jobs.retry(0), jobs.retry()) == (0, 1, 0)
    jobs.take().set_aside()
    assert jobs.retry() == 1
    jobs.take().set_aside()
    assert jobs.discard(0) and not jobs.discard(0)
    assert jobs.set_aside() == []


def test_a_damaged_job_is_shown_and_can_be_discarded(folder):
    jobs = JobQueue("jobs", folder, job_bytes=100)
    jobs.put(b"one")
    jobs.put(b"two")
    # A stray write hits the first job's length: doc/memory-layout.md has its place.
    with open(f"{folder}/jobs", "r+b") as file:
        file.seek(-(-(12288 + 512 + 1024 * 16) // 4096) * 4096)
        file.write((101).to_bytes(8, "little"))
    with pytest.raises(Damaged):
        jobs.take()
    jobs.take().set_aside()
    first, second = jobs.set_aside()
    assert first.is_damaged and first.data.startswith(b"one") and "damaged" in repr(first)
    assert not second.is_damaged and second.data == b"two"
    assert jobs.discard(first.id) and len(jobs.set_aside()) == 1


def test_limits_and_openings(folder):
    jobs = JobQueue.create_new("jobs", folder, max_jobs=1, job_bytes=10)
    with pytest.raises(TooLarge):
        jobs.put(bytes(11))
    jobs.put(b"one")
    with pytest.raises(Full):
        jobs.try_put(b"two")
    with pytest.raises(Full):
        jobs.put(b"two", timeout=0.01)
    with pytest.raises(AlreadyExists):
        JobQueue.create_new("jobs", folder)
    with pytest.raises(BadOption):
        JobQueue("jobs", folder, max_jobs=2)
    with pytest.raises(NotFound):
        JobQueue.open("none", domain=folder)
    again = pickle.loads(pickle.dumps(JobQueue.open("jobs", domain=folder)))
    assert (again.name, len(again), repr(again)) == ("jobs", 1, f"<JobQueue 'jobs' in '{folder}': 1 waiting>")
    done = threading.Timer(0.05, lambda: again.take().done())
    done.start()
    jobs.put(b"two", timeout=60)
    done.join()


def test_a_forked_child_has_none_of_the_jobs(folder):
    jobs = JobQueue("jobs", folder)
    jobs.put(b"one")
    job = jobs.take()
    child = os.fork()
    if child == 0:
        try:
            job.done()
        except NotYours:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    job.done()
    jobs.join()


def test_asyncio_and_wait_sets(folder):
    jobs = JobQueue("jobs", folder)

    async def work():
        later = asyncio.get_running_loop().call_later(0.05, jobs.put, b"one")
        with await jobs.take_async() as job:
            assert job.data == b"one"
        assert later is not None
        jobs.put(b"two")
        async for job in jobs:
            job.done()
            return job.data

    assert asyncio.run(asyncio.wait_for(work(), 60)) == b"two"
    waiting = WaitSet(folder)
    waiting.add(jobs)
    assert waiting.wait(timeout=0.01) == []
    jobs.put(b"three")
    assert waiting.wait(timeout=60) == [jobs]
    for job in jobs:
        job.done()
        break


def test_rusts_job_queues_open_as_bytes(folder):
    jobs = JobQueue("jobs", folder)
    jobs.put(b"four")
    # As Rust's `JobQueue<[u8; 7]>` or the like would have named it: doc/memory-layout.md has its place.
    with open(os.path.join(folder, "jobs"), "r+b") as file:
        file.seek(64)
        file.write(b"Frame\0")
    with pytest.raises(WrongKind):
        JobQueue("jobs", folder)
    assert bytes(JobQueue.open("jobs", domain=folder).take().data) == b"four"
