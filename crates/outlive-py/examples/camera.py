"""A camera and three viewers: frames of 6 MB, written and read in place; none waits for a slow one.

    python examples/camera.py [DOMAIN]

The camera fills a frame in shared memory; each viewer reads it in the same place. One viewer is slow
and loses frames, one keeps every tenth to compare at the end, and one is killed while it holds
frames: the others go on.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time

import numpy as np

import outlive

FRAMES = 60
SHAPE = (1080, 1920, 3)


def camera(topic: outlive.Topic) -> None:
    publisher = topic.publisher()
    while publisher.subscriber_count < 3:
        time.sleep(0.001)
    for number in range(FRAMES):
        with publisher.loan(SHAPE, np.uint8, frame=number) as image:
            image[:] = number
        time.sleep(0.01)
    with publisher.loan(1) as goodbye:
        goodbye[0] = 0


def view(topic: outlive.Topic, name: str, pause: float, results: outlive.Queue) -> None:
    subscriber = topic.subscriber()
    seen, kept = 0, []
    for sample in subscriber:
        if sample.dtype is None:
            break
        image = sample.numpy()
        assert image.shape == SHAPE and image[0, 0, 0] == image[-1, -1, -1] == sample.frame
        if sample.frame % 10 == 0:
            kept.append((sample.frame, image[::2, ::2]))  # a view: it keeps its sample
        seen += 1
        if name == "killed" and seen == 3:
            os.kill(os.getpid(), 9)
        time.sleep(pause)
    # Published over many times since; ours have not changed.
    assert all((image == number).all() for number, image in kept)
    results.put((name, seen, subscriber.lost, len(kept)))


def main() -> None:
    # DOMAIN, else what OUTLIVE_DOMAIN names, else the user's default one; no other program's names in it.
    domain = outlive.Domain(sys.argv[1] if len(sys.argv) > 1 else None)
    prefix = f"example-{os.getpid()}-"
    try:
        run(outlive.Topic(prefix + "camera", domain, depth=8), outlive.Queue(prefix + "results", domain))
    finally:
        # Names stay until a process removes them.
        for name in domain.names():
            if name.startswith(prefix):
                domain.remove(name)


def run(topic: outlive.Topic, results: outlive.Queue) -> None:
    context = multiprocessing.get_context("spawn")
    viewers = [("quick", 0.0), ("slow", 0.05), ("killed", 0.0)]
    # Topics and queues can be sent to processes: they open the same ones.
    processes = [context.Process(target=view, args=(topic, name, pause, results)) for name, pause in viewers]
    processes.append(context.Process(target=camera, args=(topic,)))
    for process in processes:
        process.start()
    for _ in range(2):
        name, seen, lost, kept = results.get(timeout=60)
        print(f"{name}: {seen} frames, {lost} lost, {kept} kept to the end as they were")
        assert seen + lost in (FRAMES, FRAMES + 1)
    for process in processes:
        process.join()
    print(f"{len(topic.subscribers())} viewers left, one was killed holding frames")


if __name__ == "__main__":
    main()
