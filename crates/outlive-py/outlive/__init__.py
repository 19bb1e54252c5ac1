"""Daemonless shared-memory IPC for Linux.

Its locks, queues and topics recover when any participant is killed: no other process hangs, and
there is no daemon to watch them. ``Queue.peek`` and ``commit`` lose no acknowledged message; a
``recv`` can lose the one message that a process had taken when it died.

Each object has a name in a domain, a folder in ``/dev/shm``; all processes that open the name
share the object::

    import outlive

    lock = outlive.Lock("total")                    # another process: the same line
    with lock as held:
        if held.owner_died:                         # a holder was killed in here
            held.mark_consistent()                  # after a check of what it guards
        held.value += 1

    topic = outlive.Topic("camera")
    with topic.publisher().loan((1080, 1920, 3), "uint8") as image:
        image[:] = 0                                # in shared memory, published when the block ends

    for sample in topic.subscriber():               # in another process
        image = sample.numpy()                      # where it lies, read-only, never changes

``Lock(name)`` opens the lock of that name or makes it, ``Lock.open(name)`` wants an existing one, and
``Lock.create_new(name)`` a new one; so do all classes with a name. Options that are not given take
what is there, and options that contradict it raise ``BadOption``.

All waits can be interrupted by Ctrl-C and let other threads run. After ``os.fork`` a child uses the
same locks, events, semaphores, queues, states and domains; it makes its own publishers,
subscribers, clients and servers (its parent's raise ``NotYours``).
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
    CountingSemaphore,
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
    RLock,
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
    "CountingSemaphore",
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
    "RLock",
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

# A thread that was inside an object when its process forked does not exist in the child.
_os.register_at_fork(after_in_child=_outlive._after_fork)
