//! The receiving end of a queue: which process receives, and which thread may be inside a receive.
//!
//! `receiver` names the receiving *process*, for notification: senders check it with every send.
//! `inside` names the *thread* that may be inside a receive, for safety: a process token can read
//! dead a moment before its last thread has stopped, and a successor must not enter before that. A
//! `Receiver` has one owner in its process, so the thread that has it now puts itself into `inside`
//! before its first shared store, by compare-exchange from the thread that the same handle put
//! there before, and stays there until another thread has the handle.
//!
//! | receiver | inside | meaning | changes |
//! | --- | --- | --- | --- |
//! | 0 | 0 | no receiver (yet) | a new receiver: receiver 0 → its process, inside → its thread |
//! | P alive | any | P receives | P leaves: inside → 0, then receiver → 0, wake |
//! | P dead | T alive | T is being killed | a new receiver: receiver P → its process, waits for T's end, inside T → its thread; T does not end: receiver → RECEIVER_DIED |
//! | P dead | 0 or T dead | senders get `ReceiverDied` | a new receiver: receiver P → its process, inside → its thread |
//! | RECEIVER_DIED | 0, T | the same, after a sweep or after a taker that did not get in | the same |
//!
//! A process that becomes the receiver and dies before it has written `inside` leaves an older dead
//! thread there, or 0: both let the next receiver in. Senders that wait with no receiver sleep on
//! `receiver` too. The new receiver wakes them; if it dies before it could, the kernel wakes one of
//! them by `x`, and that sender wakes the rest. proof/models/endpoint.pml.

use std::time::Duration;

use super::Inner;
use super::layout::RECEIVER_DIED;
use crate::liveness::{Me, Peer, TokenId, WAITERS};
use crate::shim::Ordering;
use crate::sys::Errno;
use crate::sys::futex::{self, Watch};
use crate::sys::robust::WakeRelay;
use crate::wake::{Asleep, Sleep, WaitError, WaitWords, has_changed};
use crate::{Deadline, Error, SendError};

/// Which process receives at the moment.
pub(super) enum CurrentReceiver {
    /// None, and none died.
    None,
    /// A living process; `word` is the value that was read.
    Process { token: TokenId, word: u32 },
}

/// Returns how long a waiter sleeps at once when no wake is certain (the kernel denies membarrier).
pub(super) fn short_slice() -> Deadline {
    Deadline::after(Duration::from_millis(10))
}

/// Checks that there is a receiver, or that messages may wait for one.
#[inline]
pub(super) fn check_receiver(inner: &Inner) -> Result<CurrentReceiver, SendError> {
    // Acquire pairs with `take_receiver`.
    let word = inner.ring.head().receiver.load(Ordering::Acquire);
    match TokenId::from_word(word) {
        Some(token) if inner.registry.is_alive(token) => {
            Ok(CurrentReceiver::Process { token, word })
        }
        Some(_) => Err(SendError::ReceiverDied),
        None => check_no_receiver(inner, word),
    }
}

#[cold]
fn check_no_receiver(inner: &Inner, word: u32) -> Result<CurrentReceiver, SendError> {
    match word & !WAITERS {
        0 if inner.need_receiver => Err(SendError::NoReceiver),
        0 => Ok(CurrentReceiver::None),
        RECEIVER_DIED => Err(SendError::ReceiverDied),
        _ => Err(SendError::Damaged(inner.ring.segment.damaged("the receiver's word"))),
    }
}

/// Sleeps until there is space or a receiver.
pub(super) fn sleep_without_receiver(
    inner: &Inner,
    relay: &WakeRelay,
    space: Watch<'_>,
    deadline: Deadline,
) -> Result<Asleep, Errno> {
    let head = inner.ring.head();
    relay.to(&head.x);
    // A stray write: the word's only value is 0.
    if head.x.load(Ordering::Relaxed) != 0 {
        head.x.store(0, Ordering::Relaxed);
    }
    let word = head.receiver.load(Ordering::Acquire);
    if word & !WAITERS != 0 {
        // Woken by `x`, or late: the new receiver may have died before it woke the other senders.
        futex::wake_all(&head.receiver);
        return Ok(Asleep::LookAgain);
    }
    if word == 0
        && head.receiver.compare_exchange(0, WAITERS, Ordering::Relaxed, Ordering::Relaxed).is_err()
    {
        return Ok(Asleep::LookAgain);
    }
    let set = [
        Watch { word: &head.x, expected: 0 },
        space,
        Watch { word: &head.receiver, expected: WAITERS },
    ];
    // The wait watches no process: a new receiver, or a thread that frees memory, may be stopped
    // before its wake.
    let end =
        Sleep::on(inner.registry, &set).about(1).until_it_comes(deadline, || has_changed(&set));
    if head.receiver.load(Ordering::Acquire) & !WAITERS != 0 {
        futex::wake_all(&head.receiver);
    }
    end
}

/// Sleeps until the receiver is not the dead one, or the absent one, of now; or until `also`
/// changes.
pub(super) fn sleep_until_receiver_comes(
    inner: &Inner,
    relay: &WakeRelay,
    also: Watch<'_>,
    deadline: Deadline,
) -> Result<Asleep, Errno> {
    let head = inner.ring.head();
    relay.to(&head.x);
    let Some(waited) = ask_who_comes(inner) else { return Ok(Asleep::LookAgain) };
    let set = [
        Watch { word: &head.x, expected: 0 },
        also,
        Watch { word: &head.receiver, expected: waited },
    ];
    // The wait watches no process, for the same reason as in `sleep_without_receiver`.
    let end =
        Sleep::on(inner.registry, &set).about(2).until_it_comes(deadline, || has_changed(&set));
    woken_by_who_comes(inner, waited);
    end
}

/// No living process receives: asks the next receiver to wake the waiters on `receiver`. Returns
/// the value to sleep on; `None`: look again.
fn ask_who_comes(inner: &Inner) -> Option<u32> {
    let head = inner.ring.head();
    if head.x.load(Ordering::Relaxed) != 0 {
        head.x.store(0, Ordering::Relaxed);
    }
    let word = head.receiver.load(Ordering::Acquire);
    let waited = word | WAITERS;
    if TokenId::from_word(word).is_some_and(|id| inner.registry.is_alive(id)) {
        // Woken by `x`, or late: the new receiver may have died before it woke the other senders.
        futex::wake_all(&head.receiver);
        return None;
    }
    let asked = || {
        head.receiver.compare_exchange(word, waited, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    };
    (word == waited || asked()).then_some(waited)
}

/// Wakes the other waiters, as a thread that has slept on that word has to.
pub(super) fn woken_by_who_comes(inner: &Inner, waited: u32) {
    let receiver = &inner.ring.head().receiver;
    if receiver.load(Ordering::Acquire) != waited {
        futex::wake_all(receiver);
    }
}

/// For a wait set: where no process receives, adds the words to sleep on until one does.
pub(super) fn add_who_comes<'a>(inner: &'a Inner, words: &mut WaitWords<'a>) -> Option<u32> {
    let head = inner.ring.head();
    let word = head.receiver.load(Ordering::Acquire);
    if TokenId::from_word(word).is_some_and(|id| inner.registry.is_alive(id)) {
        // This watches the receiver's end. If it ends between this and the look, the look sees it.
        words.add(&[Watch { word: &head.receiver, expected: word }]);
        return None;
    }
    // A receiver has arrived since: the word has another value, and no waiter sleeps on it.
    let waited = ask_who_comes(inner).unwrap_or(word | WAITERS);
    words.add(&[
        Watch { word: &head.x, expected: 0 },
        Watch { word: &head.receiver, expected: waited },
    ]);
    words.relay_by(&head.x);
    Some(waited)
}

/// Makes the calling thread's process the queue's receiver.
pub(super) fn take_receiver(inner: &Inner, me: Me, process: TokenId) -> Result<(), Error> {
    let head = inner.ring.head();
    let relay = WakeRelay::begin(me.list());
    // If this thread dies between the exchange and the wake below, the kernel wakes one of the
    // waiters.
    relay.to(&head.x);
    let before = loop {
        let word = head.receiver.load(Ordering::Acquire);
        if let Some(token) = TokenId::from_word(word) {
            let peer = Peer::new(inner.registry, token);
            if peer.is_alive() {
                let pid = peer.info().map_or(0, |info| info.pid);
                return Err(Error::Taken {
                    role: "receiver",
                    path: inner.ring.segment.path().to_path_buf(),
                    pid,
                });
            }
        } else if !matches!(word & !WAITERS, 0 | RECEIVER_DIED) {
            return Err(inner.ring.segment.damaged("the receiver's word"));
        }
        // AcqRel: this thread sees all that a predecessor wrote, and senders that see the new name
        // find it alive.
        if head
            .receiver
            .compare_exchange(word, process.as_u32(), Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            if word & WAITERS != 0 {
                futex::wake_all(&head.receiver);
            }
            break if TokenId::from_word(word).is_some() { RECEIVER_DIED } else { word & !WAITERS };
        }
    };
    let result = take_inside(inner, me, process);
    if result.is_err() {
        // Restored to what was found: senders would otherwise take this process for a receiver.
        leave_receiver_word(inner, process, before);
    }
    result
}

/// The second step: waits until the thread that may still be inside has ended, and takes its place.
fn take_inside(inner: &Inner, me: Me, process: TokenId) -> Result<(), Error> {
    let head = inner.ring.head();
    // A predecessor that died just before leaves an older dead thread in `inside`, or 0; the next
    // taker goes on from there.
    let deadline = Deadline::after(LONGEST_END);
    loop {
        let inside = head.inside.load(Ordering::Acquire);
        wait_until_outside(inner, inside, deadline)?;
        // Without this check a thread that was merely slow would rob a successor whose own thread
        // has ended since.
        let receiver = head.receiver.load(Ordering::Acquire);
        if TokenId::from_word(receiver) != Some(process) {
            return Err(Error::Taken {
                role: "receiver",
                path: inner.ring.segment.path().to_path_buf(),
                pid: 0,
            });
        }
        // By compare-exchange: a thread of the dead process that still runs may have passed the
        // receiver on.
        if head
            .inside
            .compare_exchange(inside, me.id.as_u32(), Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            return Ok(());
        }
    }
}

/// How long a taker waits for the last thread of a dead receiver to end. The kernel has killed it
/// already.
const LONGEST_END: Duration = Duration::from_secs(2);

/// Waits for the end of the dead process's thread, which may be between two instructions of a
/// receive.
fn wait_until_outside(inner: &Inner, inside: u32, deadline: Deadline) -> Result<(), Error> {
    let Some(thread) = TokenId::from_word(inside) else {
        return Ok(());
    };
    let thread = Peer::new(inner.registry, thread);
    match thread.wait_dead_until(deadline) {
        Ok(()) => Ok(()),
        Err(WaitError::TimedOut) => Err(Error::Ending {
            role: "receiver",
            path: inner.ring.segment.path().to_path_buf(),
            pid: thread.info().map_or(0, |info| info.pid),
        }),
        Err(WaitError::System(error)) => Err(error),
    }
}

/// Removes the receiver in good order: the queue goes on without one.
pub(super) fn leave_receiver(inner: &Inner, process: TokenId, inside: u32) {
    let head = inner.ring.head();
    // `inside` first: a successor's successor would otherwise wait for the end of this thread,
    // which lives on. From the value that this handle put there: a failure means that this process
    // was taken for dead and another one receives.
    if head.inside.compare_exchange(inside, 0, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return;
    }
    leave_receiver_word(inner, process, 0);
}

/// Removes this process's name from `receiver`, if it is still there.
fn leave_receiver_word(inner: &Inner, process: TokenId, leaving: u32) {
    let receiver = &inner.ring.head().receiver;
    let mut word = receiver.load(Ordering::Relaxed);
    while TokenId::from_word(word) == Some(process) {
        // Keeps WAITERS: senders that wait for a receiver expect 0 with that bit.
        match receiver.compare_exchange(
            word,
            leaving | word & WAITERS,
            Ordering::AcqRel,
            Ordering::Relaxed,
        ) {
            Ok(_) => {
                // Senders that wait for space sleep on this word too. If this thread died just
                // before, they are woken because they watch its token as well.
                futex::wake_all(receiver);
                return;
            }
            Err(now) => word = now,
        }
    }
}
