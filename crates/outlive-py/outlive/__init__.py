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

| what | classes |
| --- | --- |
| where things are found | ``Domain``, ``Peer``, ``Node`` (``NodeInfo``), ``DomainWatch``, ``Config`` |
| locks and their like | ``Lock``, ``RLock``, ``RwLock``, ``Semaphore``, ``CountingSemaphore``, ``Event``, ``Condition``, ``Barrier``, ``Latch`` |
| objects or bytes to one receiver | ``Queue`` |
| jobs, each for one of several workers | ``JobQueue`` (``Job``, ``SetAside``) |
| arrays, bytes, values to many | ``Topic`` (``Publisher``, ``Subscriber``, ``Sample``), ``payload`` |
| how often something has happened, to many | ``Notifier``, ``Listener`` |
| the latest value | ``State`` |
| requests and replies | ``Server`` (``Request``, ``Part``, ``ReplyLoan``, ``Stream``, ``StreamLoan``, ``ClientWatch``), ``Client`` (``RequestLoan``, ``Call``, ``PartLoan``, ``Reply``) |
| memory to hand over or share | ``Pool`` (``Block``, ``SharedObject``) |
| waiting for several of them | ``WaitSet``, ``StandBy`` |
| recordings | ``outlive.bag``: ``Reader``, ``Writer`` |
| arrays in a GPU's memory | ``Topic.loan_gpu``, ``Sample.gpu``, ``DeviceTopic``, ``GpuArray`` |

``help(outlive.Lock)`` tells all of a class; ``outlive.errors`` has the exceptions, each of which is an
``OutliveError``. Names have 1 to 200 bytes without ``/``: ``camera.image``.

``Lock(name)`` opens the lock of that name or makes it, ``Lock.open(name)`` wants an existing one, and
``Lock.create_new(name)`` a new one; so do all classes with a name. Options that are not given take
what is there, and options that contradict it raise ``BadOption``.

All objects have ``close``, which is also what ``with`` does at the end of its block where it means
nothing else (a lock is acquired and released by it); a closed object raises ``ValueError``.

All waits can be interrupted by Ctrl-C and let other threads run. After ``os.fork`` a child uses the
same locks, events, semaphores, queues, states and domains; it makes its own publishers,
subscribers, clients, servers, notifiers and listeners (its parent's raise ``NotYours``).
"""

import os as _os

from . import _outlive
from . import errors as errors
from ._payload import items as items
from ._payload import payload as payload
from ._payload import record as record
from ._payload import text as text
from ._payload import with_tail as with_tail

# No `__all__`: with one, `help(outlive)` would print all of each class.
from ._outlive import (
    Barrier as Barrier,
    Block as Block,
    Call as Call,
    Client as Client,
    ClientWatch as ClientWatch,
    Condition as Condition,
    Config as Config,
    CountingSemaphore as CountingSemaphore,
    DeviceSample as DeviceSample,
    DeviceSubscriber as DeviceSubscriber,
    DeviceTopic as DeviceTopic,
    Domain as Domain,
    DomainWatch as DomainWatch,
    Event as Event,
    GpuArray as GpuArray,
    GpuLoan as GpuLoan,
    Job as Job,
    JobQueue as JobQueue,
    Latch as Latch,
    Listener as Listener,
    Loan as Loan,
    Lock as Lock,
    Node as Node,
    NodeInfo as NodeInfo,
    Notifier as Notifier,
    Part as Part,
    PartLoan as PartLoan,
    Peeked as Peeked,
    Peer as Peer,
    Pool as Pool,
    Publisher as Publisher,
    Queue as Queue,
    Reply as Reply,
    ReplyLoan as ReplyLoan,
    Request as Request,
    RequestLoan as RequestLoan,
    RLock as RLock,
    RwHold as RwHold,
    RwLock as RwLock,
    Sample as Sample,
    Semaphore as Semaphore,
    Server as Server,
    SetAside as SetAside,
    SharedObject as SharedObject,
    StandBy as StandBy,
    State as State,
    Stream as Stream,
    StreamLoan as StreamLoan,
    Subscriber as Subscriber,
    Topic as Topic,
    WaitSet as WaitSet,
)
from ._outlive import __version__ as __version__
from .errors import (
    Answered as Answered,
    AlreadyExists as AlreadyExists,
    BadMessage as BadMessage,
    BadName as BadName,
    BadOption as BadOption,
    BarrierBroken as BarrierBroken,
    CallTimeout as CallTimeout,
    Cancelled as Cancelled,
    ClientDied as ClientDied,
    Damaged as Damaged,
    Deadlock as Deadlock,
    Dropped as Dropped,
    Empty as Empty,
    Full as Full,
    Gone as Gone,
    GpuError as GpuError,
    Lagged as Lagged,
    Missed as Missed,
    Lively as Lively,
    NewSession as NewSession,
    NotLively as NotLively,
    PublisherDied as PublisherDied,
    NoGpu as NoGpu,
    NoReceiver as NoReceiver,
    NoServer as NoServer,
    NoSpace as NoSpace,
    NotFound as NotFound,
    NotPermitted as NotPermitted,
    NotRecoverable as NotRecoverable,
    NotYours as NotYours,
    OutliveError as OutliveError,
    OwnerDied as OwnerDied,
    PeerDied as PeerDied,
    ReceiverDied as ReceiverDied,
    Refused as Refused,
    SendersGone as SendersGone,
    ServerDied as ServerDied,
    ServiceError as ServiceError,
    Taken as Taken,
    Timeout as Timeout,
    TooLarge as TooLarge,
    TooMany as TooMany,
    WrongKind as WrongKind,
)

# A thread that was inside an object when its process forked does not exist in the child.
_os.register_at_fork(after_in_child=_outlive._after_fork)
