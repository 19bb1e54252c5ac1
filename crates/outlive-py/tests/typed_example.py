"""What a typed program does with Outlive: looked at by mypy, and run by ``test_types.py``."""

from __future__ import annotations

import asyncio
import sys

import numpy as np
import numpy.typing as npt

import outlive


def count(domain: outlive.Domain) -> int:
    lock = outlive.Lock("total", domain)
    with lock as held:
        if held.owner_died:
            held.mark_consistent()
        held.value += 1
        return held.value


def publish(topic: outlive.Topic) -> int:
    publisher = topic.publisher()
    with publisher.loan((4, 4), np.float32) as image:
        image[:] = 0.5
    with publisher.loan(3) as view:
        view[:] = b"abc"
    return publisher.publish(np.arange(3), key=7)


def mean(sample: outlive.Sample) -> float:
    image: npt.NDArray[np.float32] = sample.numpy()
    return float(image.mean())


def hand_over(pool: outlive.Pool, queue: outlive.Queue) -> int:
    block = pool.alloc((480, 640), np.uint8)
    block.numpy()[:] = 0
    offset = block.offer()
    with queue.peek(timeout=1.0) as peeked:
        return offset + len(peeked.data)


async def first(subscriber: outlive.Subscriber) -> bytes | None:
    async for sample in subscriber:
        return bytes(sample)
    return None


async def both(client: outlive.Client, subscriber: outlive.Subscriber) -> tuple[bytes, int]:
    answer = asyncio.create_task(client.call_async(b"now", timeout=1.0))
    sample = asyncio.create_task(subscriber.recv_async())
    async with asyncio.TaskGroup() as group:
        third: asyncio.Task[bytes] = group.create_task(client.call_async(b"later"))
    with await sample as received:
        return await answer + third.result(), len(received)


def closes(domain: outlive.Domain) -> dict[str, str | None]:
    with outlive.Topic("frames", domain) as topic, topic.publisher() as publisher:
        publisher.publish(b"")
    domain.remove("frames", missing_ok=True)
    return domain.names() if domain.sweep()["failed"] == 0 else {}


async def replies(client: outlive.Client) -> list[bytes]:
    with client.begin(b"all of them") as call:
        first: bytes = await call
        return [first] + [reply async for reply in call]


def answer(request: outlive.Request, parts: list[bytes]) -> None:
    with request.stream() as stream:
        for part in parts:
            stream.send(part, timeout=1.0)


def blur(client: outlive.Client) -> float:
    loan = client.loan((480, 640), np.uint8)
    with loan as image:
        image[:] = 7
    with loan.call(timeout=1.0) as reply:
        return float(reply.numpy(np.uint8, (480, 640)).mean())


def invert(request: outlive.Request) -> None:
    with request.loan(len(request), np.uint8) as answer:
        answer[:] = 255 - request.numpy(np.uint8)


def main(folder: str) -> None:
    domain = outlive.Domain(folder)
    topic = outlive.Topic("frames", domain)
    subscriber = topic.subscriber()
    numbers: list[int] = [count(domain), publish(topic)]
    queue = outlive.Queue("queue", domain)
    queue.put(numbers)
    print(hand_over(outlive.Pool("pool", domain), queue) > 0)
    queue.put(numbers)
    try:
        queue.get_nowait()
        queue.get(timeout=0.01)
    except outlive.Empty as empty:
        print(empty)
    print(mean(subscriber.recv(timeout=1.0)), asyncio.run(first(subscriber)), numbers)


if __name__ == "__main__":
    main(sys.argv[1])
