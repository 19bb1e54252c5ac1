"""Shared-memory communication for Linux processes that may die at any instruction.

What is shared (locks, queues, topics) outlives whoever used it. When a process is killed, nobody hangs, nothing that was
acknowledged is lost, and no daemon had to watch.

Everything has a name in a domain, a folder in ``/dev/shm``; whoever opens the name has the same thing::

    import outlive

    lock = outlive.Lock("total")                    # another process: the same line
    with lock as held:
        if held.owner_died:                         # somebody was killed in here
            held.mark_consistent()                  # after a look at what it guards
        held.value += 1

    topic = outlive.Topic("camera")
    with topic.publisher().loan((1080, 1920, 3), "uint8") as image:
        image[:] = 0                                # in shared memory, published when the block ends

    for sample in topic.subscriber():               # there
        image = sample.numpy()                      # where it lies, read-only, never changes

All waits can be interrupted by Ctrl-C and let other threads run. After ``os.fork`` a child uses the same locks, events,
semaphores, queues, states and domains; of topics and services it makes ends of its own (``NotYours`` says so).
"""

from __future__ import annotations

import os as _os

from . import _outlive
from . import errors as _errors
from ._outlive import (
    Barrier,
    Block,
    Call,
    Client,
    Condition,
    DeviceSample,
    DeviceSubscriber,
    DeviceTopic,
    Domain,
    Event,
    GpuArray,
    GpuLoan,
    Latch,
    Loan,
    Lock,
    Peeked,
    Peer,
    Pool,
    Publisher,
    Queue,
    Request,
    RwHold,
    RwLock,
    Sample,
    Semaphore,
    Server,
    SharedObject,
    State,
    Stream,
    Subscriber,
    Topic,
    WaitSet,
)
from .errors import *

__all__ = [
    "Barrier",
    "Block",
    "Call",
    "Client",
    "Condition",
    "DeviceSample",
    "DeviceSubscriber",
    "DeviceTopic",
    "Domain",
    "Event",
    "GpuArray",
    "GpuLoan",
    "Latch",
    "Loan",
    "Lock",
    "Peeked",
    "Peer",
    "Pool",
    "Publisher",
    "Queue",
    "Request",
    "RwHold",
    "RwLock",
    "Sample",
    "Semaphore",
    "Server",
    "SharedObject",
    "State",
    "Stream",
    "Subscriber",
    "Topic",
    "WaitSet",
]
__all__ += _errors.__all__

# A thread that was inside an object when its process forked is not there in the child.
_os.register_at_fork(after_in_child=_outlive._after_fork)
