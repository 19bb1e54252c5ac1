"""The exceptions that Outlive raises.

Each class is an :class:`OutliveError` and, where Python has a class of its own for it, that as
well: a deadline that passed is a ``TimeoutError``, a full queue a ``queue.Full``, a name in use for
something else a ``TypeError``. Messages say what happened and what to do next.
"""

from __future__ import annotations

import queue as _queue
import threading as _threading

__all__ = [
    "AlreadyExists",
    "BadMessage",
    "BadName",
    "BadOption",
    "BarrierBroken",
    "CallTimeout",
    "Cancelled",
    "ClientDied",
    "Damaged",
    "Deadlock",
    "Dropped",
    "Empty",
    "Full",
    "Gone",
    "GpuError",
    "Lagged",
    "Missed",
    "NewSession",
    "NotLively",
    "Lively",
    "PublisherDied",
    "NoGpu",
    "NoReceiver",
    "NoServer",
    "NoSpace",
    "NotFound",
    "NotPermitted",
    "NotRecoverable",
    "NotYours",
    "OutliveError",
    "OwnerDied",
    "PeerDied",
    "ReceiverDied",
    "Refused",
    "SendersGone",
    "ServerDied",
    "ServiceError",
    "Taken",
    "Timeout",
    "TooLarge",
    "TooMany",
    "WrongKind",
]


class OutliveError(Exception):
    """The base of all exceptions of Outlive. Python raises its own for wrong arguments."""


class OwnerDied(OutliveError):
    """An owner died holding the lock, and no holder has repaired what it guards: see ``Lock.check``."""


class NotRecoverable(OutliveError):
    """A holder marked the lock so (``mark_not_recoverable``): ``reset`` it once what it guards is whole."""


class Deadlock(OutliveError, RuntimeError):
    """This thread holds it already, and would wait for itself."""


class Timeout(OutliveError, TimeoutError):
    """The deadline passed. ``pid``: the process that ``publish`` waited for, the slowest reliable
    subscriber; 0 where there is none to name."""

    pid: int = 0


class Missed(Timeout):
    """No message came for longer than the subscriber's ``period``."""


class Lagged(OutliveError):
    """A publisher did not wait any longer for this subscriber, and has overwritten messages. The next
    ``recv`` goes on with those that are left. ``lost``: how many messages of that publisher."""

    def __init__(self, message: str, lost: int = 0) -> None:
        super().__init__(message, lost)
        self.lost = lost

    def __str__(self) -> str:
        return str(self.args[0])


class NewSession(OutliveError):
    """The next message is the first one of a publisher that has started. The next ``recv`` returns it.
    ``session``: that publisher's session, as of ``Sample.session``."""

    def __init__(self, message: str, session: int = 0) -> None:
        super().__init__(message, session)
        self.session = session

    def __str__(self) -> str:
        return str(self.args[0])


class PeerDied(OutliveError):
    """The process on the other side died."""


class _OfPublisher(OutliveError):
    def __init__(self, message: str, session: int = 0, pid: int = 0) -> None:
        super().__init__(message, session, pid)
        self.session, self.pid = session, pid

    def __str__(self) -> str:
        return str(self.args[0])


class NotLively(_OfPublisher):
    """A publisher lives and has done nothing for longer than the subscriber's ``liveliness``.

    ``session``: its session; ``pid``: its process.
    """


class Lively(_OfPublisher):
    """A publisher that was not lively does something again. ``session``, ``pid``: as of ``NotLively``."""


class PublisherDied(_OfPublisher, PeerDied):
    """A publisher died, told to a subscriber with ``liveliness``. ``session``: its session; ``pid``: its process."""


class ReceiverDied(PeerDied):
    """The queue's receiver died, and no process has taken over. Messages in the queue stay for one that does."""


class ClientDied(PeerDied):
    """The client died: no process waits for the reply."""


class ServerDied(PeerDied):
    """The server died. ``begun``: whether it had begun the call.

    If so, no process knows how far it came; if not, the call may be repeated.
    """

    def __init__(self, message: str, begun: bool = False) -> None:
        super().__init__(message, begun)
        self.begun = begun

    def __str__(self) -> str:
        return str(self.args[0])


class CallTimeout(Timeout):
    """The deadline passed. ``begun``: a server had begun the call; if not, no server will begin it."""

    def __init__(self, message: str, begun: bool = False) -> None:
        # One argument: an OSError takes two for its number and its text.
        super().__init__(message)
        self.begun = begun


class NoReceiver(OutliveError):
    """The queue has no receiver, and was made to refuse messages then."""


class NoServer(OutliveError):
    """The service has no server, and none died."""


class SendersGone(OutliveError):
    """The queue is empty, and all senders are gone."""


class Dropped(OutliveError):
    """The server dropped the request without a reply."""


class Answered(OutliveError):
    """The server has replied, and takes no more parts of the request: ``Call.result`` has the reply."""


class ServiceError(OutliveError):
    """The service could not do what was asked, and said why: the message is its server's.

    A server answers so by ``Request.fail``, or when a ``with request:`` block raises.
    """


class Cancelled(OutliveError):
    """The client wants no reply any more."""


class BarrierBroken(OutliveError, _threading.BrokenBarrierError):
    """The barrier is broken: ``repair`` or ``reset`` it to go on.

    A participant died, ``abort`` was called, a wait's time ran out, or the barrier was reset under it.
    """


class Full(OutliveError, _queue.Full):
    """The queue is full, and as large as it may grow."""


class Empty(OutliveError, _queue.Empty):
    """The queue is empty."""


class Gone(OutliveError, LookupError):
    """The offered object has been claimed, or no process holds the shared one any more."""


class NoGpu(OutliveError):
    """There is no driver for GPUs here, none that can be used, or no such GPU. All else works without."""


class GpuError(OutliveError, RuntimeError):
    """The GPU's driver refused: the message has its function, message and number.

    After some errors a GPU does no more work for this process.
    """


class TooLarge(OutliveError, ValueError):
    """The message or object is larger than it may be."""


class TooMany(OutliveError):
    """A limit is reached: of publishers, subscribers, samples held, or calls in flight."""


class Taken(OutliveError):
    """A living process has this role (a queue's receiver, a state's writer, a service's server, a
    recording's writer), or is before this thread in becoming a lock's writer."""


class BadMessage(OutliveError, ValueError):
    """The bytes of a message are no value of the encoding that its topic or channel names: no JSON, no msgpack,
    no message of a type of ROS."""


class NotYours(OutliveError, RuntimeError):
    """A forked child does not have its parent's handle: it makes its own."""


class BadName(OutliveError, ValueError):
    """The argument is no valid name, or no token of the domain."""


class BadOption(OutliveError, ValueError):
    """An option has an impossible value, or another one than the existing object was made with."""


class WrongKind(OutliveError, TypeError):
    """The name is in use for another kind of object, or for values of another type; a file is no
    recording, or one of a kind that is not known."""


class Damaged(OutliveError):
    """Shared memory is damaged, by a stray write or a hostile process, or of another version; or the bytes of
    a recording are."""


class NotFound(OutliveError, FileNotFoundError):
    """There is no object of that name."""


class AlreadyExists(OutliveError, FileExistsError):
    """The name is in use, and the caller wanted to make something new."""


class NotPermitted(OutliveError, PermissionError):
    """A permission is missing, or the folder belongs to another user."""


class NoSpace(OutliveError, OSError):
    """The file system, its quota or a limit has no room. Existing objects stay usable."""


class Refused(OutliveError, OSError):
    """The system refused a call, for another reason: ``errno``."""
