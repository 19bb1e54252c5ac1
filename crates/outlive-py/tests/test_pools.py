"""Pools: blocks taken, handed over, shared; their holders are killed. Queues' messages, peeked at and committed."""

from __future__ import annotations

import gc
import os
import pickle

import numpy as np
import pytest

from outlive import Domain, Empty, Gone, NoSpace, NotPermitted, Peeked, Pool, Queue, WrongKind


def test_blocks_are_arrays_bytes_and_come_back(folder):
    pool = Pool("pool", folder, max_bytes=32 << 20)
    for shape, dtype in [((480, 640), np.uint8), (7, "f8"), ((2, 0, 3), np.int16), ((), np.complex64)]:
        block = pool.alloc(shape, dtype)
        array = block.numpy()
        assert array.shape == (shape if isinstance(shape, tuple) else (shape,)) and array.dtype == np.dtype(dtype)
        assert array.flags.writeable and len(block) == array.nbytes
        array[...] = 1
        del array
        block.free()
        with pytest.raises(ValueError, match="closed"):
            block.free()
        with pytest.raises(ValueError, match="closed"):
            memoryview(block)
    used = pool.usage()["used"]
    view = pool.alloc(100).numpy()
    view[:] = 7
    assert pool.usage()["used"] == used + 1, "the array keeps its block"
    assert bytes(view) == b"\7" * 100
    del view
    gc.collect()
    assert pool.usage()["used"] == used
    assert pickle.loads(pickle.dumps(pool)).alloc(1) is not None
    assert pool.gc() >= 0 and repr(pool).endswith(" used of 33554432 bytes>")
    with pytest.raises(NoSpace):
        pool.alloc(64 << 20)
    with pytest.raises(TypeError):
        pool.alloc((2, 2))
    with pytest.raises(TypeError):
        pool.alloc(3, "datetime64[s]")
    with pytest.raises(WrongKind):
        Queue("pool", folder)


def test_an_object_is_not_handed_over_while_an_array_writes_to_it(folder):
    pool = Pool("pool", folder)
    block = pool.alloc(4, np.uint8)
    array = block.numpy()
    array[:] = [1, 2, 3, 4]
    for hand_over in [block.offer, block.share, block.free]:
        with pytest.raises(BufferError):
            hand_over()
    assert list(array) == [1, 2, 3, 4]
    del array
    offset = block.offer()
    with pytest.raises(ValueError, match="closed"):
        block.offer()
    with pytest.raises(ValueError, match="closed"):
        block.numpy()
    mine = pool.claim(offset)
    assert bytes(mine) == b"\1\2\3\4"
    with pytest.raises(Gone):
        pool.claim(offset)
    shared = mine.share()
    with pytest.raises((BufferError, ValueError)):
        shared.numpy()[0] = 9
    view = shared.numpy()
    offset = shared.offset
    del shared
    assert list(pool.join(offset).numpy()) == [1, 2, 3, 4] == list(view), "a view holds it"
    del view
    gc.collect()
    with pytest.raises(Gone):
        pool.join(offset)


def test_from_process_to_process(folder, start):
    pool, queue = Pool("pool", folder), Queue("offsets", folder)
    there = start("""
        pool, offsets = Pool("pool", folder), Queue("offsets", folder)
        say(Domain(folder).process_token())
        block = pool.claim(offsets.get(timeout=60))
        image = block.numpy("f4", (2, 3))
        say(float(image.sum()))
        image *= 2
        del image
        shared = block.share()
        offsets.put(shared.offset)
        say("shared")
        time.sleep(60)
    """)
    peer = Domain(folder).peer(int(there.line()))
    block = pool.alloc((2, 3), "f4")
    block.numpy()[:] = 1.5
    offset = block.offer(peer)
    with pytest.raises(NotPermitted):
        pool.claim(offset)
    queue.put(offset)
    assert there.line() == "9.0"
    assert there.line() == "shared"
    offset = queue.get(timeout=60)
    shared = pool.join(offset)
    there.kill()
    assert float(shared.numpy("f4").sum()) == 18.0, "its giver died, and the holder keeps it"
    del shared
    pool.gc()
    with pytest.raises(Gone):
        pool.join(offset)


def test_what_a_dead_process_had_is_free(folder, start):
    pool = Pool("pool", folder, max_bytes=24 << 20)
    there = start("""
        block = Pool("pool", folder).alloc(20 << 20)
        say("has it")
        time.sleep(60)
    """)
    assert there.line() == "has it"
    with pytest.raises(NoSpace):
        pool.alloc(20 << 20)
    there.kill()
    assert len(pool.alloc(20 << 20)) == 20 << 20


def test_a_forked_child_frees_nothing_of_its_parents(folder):
    pool = Pool("pool", folder)
    block = pool.alloc(5)
    with memoryview(block) as view:
        view[:] = b"whole"
    child = os.fork()
    if child == 0:
        del block
        gc.collect()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert bytes(block) == b"whole" and pool.usage()["used"] >= 1
    block.free()


def test_peeked_at_and_committed(folder):
    queue = Queue("queue", folder)
    queue.send(b"first")
    queue.send(b"second")
    with pytest.raises(KeyError), queue.peek() as peeked:
        assert peeked.data == b"first" and len(peeked) == 5 and not peeked.redelivered
        raise KeyError
    with queue.peek(timeout=1.0) as peeked:
        assert isinstance(peeked, Peeked) and peeked.data == b"first"
    with queue.peek() as peeked:
        peeked.commit()
    assert peeked.data == b"second", "its bytes are a copy"
    with pytest.raises(RuntimeError):
        peeked.commit()
    with pytest.raises(Empty):
        queue.peek(timeout=0.01)
    queue.send(b"third")
    peeked = queue.peek()
    assert queue.recv() == b"third"
    queue.send(b"fourth")
    with pytest.raises(RuntimeError):
        peeked.commit()
    assert queue.recv() == b"fourth", "a late commit takes nobody else's message"


def test_killed_between_peek_and_commit(folder, start):
    queue = Queue("queue", folder)
    there = start("""
        queue = Queue("queue", folder)
        with queue.peek(timeout=60) as peeked:
            say(peeked.data.decode())
            time.sleep(60)
    """)
    queue.send(b"weld")
    assert there.line() == "weld"
    there.kill()
    with queue.peek(timeout=60) as peeked:
        assert peeked.data == b"weld" and peeked.redelivered
    assert queue.empty()
