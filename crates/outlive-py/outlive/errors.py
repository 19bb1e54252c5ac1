"""What can go wrong.

Each class is an :class:`OutliveError` and, where Python has a word of its own for it, that as well: a deadline that passed is
a ``TimeoutError``, a full queue a ``queue.Full``, a name in use for something else a ``TypeError``. Messages say what happened
and what to do next.
"""

from __future__ import annotations

import queue as _queue
import threading as _threading

__all__ = [
    "BadName",
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
    "Missed",
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
    "Taken",
    "Timeout",
    "TooLarge",
    "TooMany",
    "WrongKind",
]


class OutliveError(Exception):
    """All that Outlive raises, but for what Python raises for wrong arguments."""


class OwnerDied(OutliveError):
    """An owner died holding the lock, and nobody has said since that what it guards is whole: see ``Lock.check``."""


class NotRecoverable(OutliveError):
    """A holder gave the lock up (``give_up``): ``reset`` it once what it guards is whole."""


class Deadlock(OutliveError, RuntimeError):
    """This thread has it already and would wait for itself."""


class Timeout(OutliveError, TimeoutError):
    """The deadline passed first."""


class Missed(Timeout):
    """No message came for longer than the subscriber's ``period``."""


class PeerDied(OutliveError):
    """The one on the other side died."""


class ReceiverDied(PeerDied):
    """The queue's receiver died, and none has taken over. What was sent before is kept for one that does."""


class ClientDied(PeerDied):
    """Who asked died: nobody wants the answer."""


class ServerDied(PeerDied):
    """The server died. ``begun``: it had begun the call, and how far it came nobody knows; if not, the call may be made again."""

    def __init__(self, message: str, begun: bool = False) -> None:
        super().__init__(message, begun)
        self.begun = begun

    def __str__(self) -> str:
        return str(self.args[0])


class CallTimeout(Timeout):
    """The deadline passed. ``begun``: a server had begun the call; if not, nobody will carry it out any more."""

    def __init__(self, message: str, begun: bool = False) -> None:
        # Alone: an OSError takes two for its number and its text.
        super().__init__(message)
        self.begun = begun


class NoReceiver(OutliveError):
    """There is no receiver, and the queue was made to refuse messages then."""


class NoServer(OutliveError):
    """The service has no server, and none died."""


class SendersGone(OutliveError):
    """Nothing left to receive, and all senders are gone."""


class Dropped(OutliveError):
    """The server let go of the request without an answer."""


class Cancelled(OutliveError):
    """The client wants no answer any more."""


class BarrierBroken(PeerDied, _threading.BrokenBarrierError):
    """A participant died: ``repair`` the barrier to go on."""


class Full(OutliveError, _queue.Full):
    """The queue is as large as it may grow."""


class Empty(OutliveError, _queue.Empty):
    """Nothing to receive."""


class Gone(OutliveError, LookupError):
    """What was offered has been claimed, what was shared is held by nobody any more."""


class NoGpu(OutliveError):
    """There is no driver for GPUs here, none that can be used, or no such GPU. Everything else works without."""


class GpuError(OutliveError, RuntimeError):
    """The GPU's driver refused: its function, words and number are in the message. After some errors a GPU does nothing more for this process."""


class TooLarge(OutliveError, ValueError):
    """More bytes than there may be."""


class TooMany(OutliveError):
    """As many are there as there may be: publishers, subscribers, samples held, calls in flight."""


class Taken(OutliveError):
    """There is one of these at a time (a queue's receiver, a state's writer, a service's server), and it lives."""


class NotYours(OutliveError, RuntimeError):
    """A forked child has its parent's handle: it needs one of its own."""


class BadName(OutliveError, ValueError):
    """What was given cannot be a name, or a number out of bounds."""


class WrongKind(OutliveError, TypeError):
    """The name is in use for something of another kind, or for values of another type."""


class Damaged(OutliveError):
    """Shared bytes make no sense: a stray write, somebody hostile, or another version of Outlive."""


class NotFound(OutliveError, FileNotFoundError):
    """There is nothing of that name."""


class NotPermitted(OutliveError, PermissionError):
    """A permission is missing, or the folder belongs to somebody else."""


class NoSpace(OutliveError, OSError):
    """The file system, its quota or a limit has no room. What was there stays usable."""


class Refused(OutliveError, OSError):
    """The system refused for a reason of its own: ``errno``."""
