//! The receiving end of a queue: which process receives, and which thread may be inside a receive.
//!
//! `receiver` names the receiving *process*, for notice: senders ask it with every send. `inside` names the *thread* that
//! may be inside a receive, for safety: a process token can read dead a moment before its last thread has stopped, and a
//! successor must not come in before. A `Receiver` has one owner in its process, so the thread that has it now puts itself
//! into `inside` before its first shared store, by compare-exchange from whom the same handle put there before, and stays
//! there until another thread has it.
//!
//! | receiver | inside | meaning | who leaves it, and how |
//! | --- | --- | --- | --- |
//! | 0 | 0 | no receiver (yet) | a receiver comes: receiver 0 → its process, inside → its thread |
//! | P alive | any | P receives | P leaves: inside → 0, then receiver → 0, wake |
//! | P dead | T alive | T is being killed | a receiver comes: receiver P → its process, waits for T's end, inside T → its thread; T does not end: receiver → RECEIVER_DIED |
//! | P dead | 0 or T dead | senders get `ReceiverDied` | a receiver comes: receiver P → its process, inside → its thread |
//! | RECEIVER_DIED | 0, T | the same, after a sweep or one who did not get in | the same |
//!
//! A receiver that comes and dies before `inside` leaves an older dead thread there, or 0: both let
//! the next one in. Senders that wait with no receiver sleep on `receiver` too; the one who comes
//! wakes them, and if it dies before it could, the kernel wakes one by `x`, who wakes the rest.
//! proof/models/endpoint.pml.

use std::time::Duration;

use super::Inner;
use super::error::SendError;
use super::layout::RECEIVER_DIED;
use crate::liveness::{Me, Peer, TokenId, WAITERS};
use crate::shim::Ordering;
use crate::sys::Errno;
use crate::sys::futex::{self, Watch};
use crate::sys::robust::WakeRelay;
use crate::wake::{Asleep, Sleep, WaitError, WaitWords, has_changed};
use crate::{Deadline, Error};

/// Who reads just now.
pub(super) enum CurrentReceiver {
    /// Nobody, and nobody died.
    None,
    /// A living process; `word` as it was read.
    Process { token: TokenId, word: u32 },
}

/// How long one sleeps who cannot be sure to be woken (the kernel denies membarrier).
pub(super) fn short_slice() -> Deadline {
    Deadline::after(Duration::from_millis(10))
}

/// Whether there is somebody to send to.
#[inline]
pub(super) fn check_receiver(inner: &Inner) -> Result<CurrentReceiver, SendError> {
    // Acquire pairs with `take_receiver`.
    let word = inner.ring.head().receiver.load(Ordering::Acquire);
    match TokenId::from_word(word) {
        Some(token) if inner.registry.is_alive(token) => Ok(CurrentReceiver::Process { token, word }),
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
    // A stray write. It means nothing but 0.
    if head.x.load(Ordering::Relaxed) != 0 {
        head.x.store(0, Ordering::Relaxed);
    }
    let word = head.receiver.load(Ordering::Acquire);
    if word & !WAITERS != 0 {
        // Woken by `x` or come late: the receiver that came may have died before waking the others.
        futex::wake_all(&head.receiver);
        return Ok(Asleep::LookAgain);
    }
    if word == 0 && head.receiver.compare_exchange(0, WAITERS, Ordering::Relaxed, Ordering::Relaxed).is_err() {
        return Ok(Asleep::LookAgain);
    }
    let set = [Watch { word: &head.x, expected: 0 }, space, Watch { word: &head.receiver, expected: WAITERS }];
    // Nobody's end is watched: who comes, or frees memory, may be stopped before its wake.
    let end = Sleep::on(inner.registry, &set).about(1).until_it_comes(deadline, || has_changed(&set));
    if head.receiver.load(Ordering::Acquire) & !WAITERS != 0 {
        futex::wake_all(&head.receiver);
    }
    end
}

/// Sleeps until another receives than the dead one, or nobody, of just now; or until `also` changes.
pub(super) fn sleep_until_receiver_comes(
    inner: &Inner,
    relay: &WakeRelay,
    also: Watch<'_>,
    deadline: Deadline,
) -> Result<Asleep, Errno> {
    let head = inner.ring.head();
    relay.to(&head.x);
    let Some(waited) = ask_who_comes(inner) else { return Ok(Asleep::LookAgain) };
    let set = [Watch { word: &head.x, expected: 0 }, also, Watch { word: &head.receiver, expected: waited }];
    // As above.
    let end = Sleep::on(inner.registry, &set).about(2).until_it_comes(deadline, || has_changed(&set));
    woken_by_who_comes(inner, waited);
    end
}

/// Nobody receives who lives: from now on who comes wakes those who sleep on `receiver`. What they sleep on; `None`: look again.
fn ask_who_comes(inner: &Inner) -> Option<u32> {
    let head = inner.ring.head();
    if head.x.load(Ordering::Relaxed) != 0 {
        head.x.store(0, Ordering::Relaxed);
    }
    let word = head.receiver.load(Ordering::Acquire);
    let waited = word | WAITERS;
    if TokenId::from_word(word).is_some_and(|id| inner.registry.is_alive(id)) {
        // As above.
        futex::wake_all(&head.receiver);
        return None;
    }
    let asked = || head.receiver.compare_exchange(word, waited, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    (word == waited || asked()).then_some(waited)
}

/// What one who has slept on that owes the others.
pub(super) fn woken_by_who_comes(inner: &Inner, waited: u32) {
    let receiver = &inner.ring.head().receiver;
    if receiver.load(Ordering::Acquire) != waited {
        futex::wake_all(receiver);
    }
}

/// For a wait set: where nobody receives, the words to sleep on until somebody does.
pub(super) fn add_who_comes<'a>(inner: &'a Inner, words: &mut WaitWords<'a>) -> Option<u32> {
    let head = inner.ring.head();
    let word = head.receiver.load(Ordering::Acquire);
    if TokenId::from_word(word).is_some_and(|id| inner.registry.is_alive(id)) {
        // It watches that one's end; gone between this and the look, that is looked at again.
        words.add(&[Watch { word: &head.receiver, expected: word }]);
        return None;
    }
    // Come since: this is not what it says, and nobody sleeps on it.
    let waited = ask_who_comes(inner).unwrap_or(word | WAITERS);
    words.add(&[Watch { word: &head.x, expected: 0 }, Watch { word: &head.receiver, expected: waited }]);
    words.relay_by(&head.x);
    Some(waited)
}

/// Makes the calling thread's process the queue's receiver.
pub(super) fn take_receiver(inner: &Inner, me: Me, process: TokenId) -> Result<(), Error> {
    let head = inner.ring.head();
    let relay = WakeRelay::begin(me.list());
    // Died between the exchange and the wake below: the kernel wakes one of those who wait for a receiver.
    relay.to(&head.x);
    let before = loop {
        let word = head.receiver.load(Ordering::Acquire);
        if let Some(token) = TokenId::from_word(word) {
            let peer = Peer::new(inner.registry, token);
            if peer.is_alive() {
                let pid = peer.info().map_or(0, |info| info.pid);
                return Err(Error::ReceiverTaken { path: inner.ring.segment.path().to_path_buf(), pid });
            }
        } else if !matches!(word & !WAITERS, 0 | RECEIVER_DIED) {
            return Err(inner.ring.segment.damaged("the receiver's word"));
        }
        // AcqRel: all that a predecessor wrote is seen; senders that see us find us alive.
        if head.receiver.compare_exchange(word, process.as_u32(), Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            if word & WAITERS != 0 {
                futex::wake_all(&head.receiver);
            }
            break if TokenId::from_word(word).is_some() { RECEIVER_DIED } else { word & !WAITERS };
        }
    };
    let result = take_inside(inner, me, process);
    if result.is_err() {
        // As it was found: senders would otherwise take us for a receiver.
        leave_receiver_word(inner, process, before);
    }
    result
}

/// The second step: the thread that may still be inside has to end first.
fn take_inside(inner: &Inner, me: Me, process: TokenId) -> Result<(), Error> {
    let head = inner.ring.head();
    // Died just before: `inside` names an older dead thread, or nobody, and the next taker goes on from there.
    let deadline = Deadline::after(LONGEST_END);
    loop {
        let inside = head.inside.load(Ordering::Acquire);
        wait_until_outside(inner, inside, deadline)?;
        // Without this, a thread that was merely slow would rob a successor whose own thread has ended since.
        let receiver = head.receiver.load(Ordering::Acquire);
        if TokenId::from_word(receiver) != Some(process) {
            return Err(Error::ReceiverTaken { path: inner.ring.segment.path().to_path_buf(), pid: 0 });
        }
        // By compare-exchange: a thread of the dead process that is still running may have passed the receiver on.
        if head.inside.compare_exchange(inside, me.id.as_u32(), Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return Ok(());
        }
    }
}

/// How long the last thread of a dead receiver is given to end. The kernel has killed it already.
const LONGEST_END: Duration = Duration::from_secs(2);

/// The dead process's thread may still be between two instructions of a receive.
fn wait_until_outside(inner: &Inner, inside: u32, deadline: Deadline) -> Result<(), Error> {
    let Some(thread) = TokenId::from_word(inside) else {
        return Ok(());
    };
    let thread = Peer::new(inner.registry, thread);
    match thread.wait_dead(deadline) {
        Ok(()) => Ok(()),
        Err(WaitError::TimedOut) => Err(Error::ReceiverEnding {
            path: inner.ring.segment.path().to_path_buf(),
            pid: thread.info().map_or(0, |info| info.pid),
        }),
        Err(WaitError::System(error)) => Err(error),
    }
}

/// The receiver leaves, in good order: the queue goes on without one.
pub(super) fn leave_receiver(inner: &Inner, process: TokenId, inside: u32) {
    let head = inner.ring.head();
    // First `inside`: were it left to name this thread, which lives on, a successor's successor would wait for its end.
    // From what we last put there: failed, we were taken for dead, and another is the receiver.
    if head.inside.compare_exchange(inside, 0, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return;
    }
    leave_receiver_word(inner, process, 0);
}

/// Takes our process's name out of `receiver`, if it is still there.
fn leave_receiver_word(inner: &Inner, process: TokenId, leaving: u32) {
    let receiver = &inner.ring.head().receiver;
    let mut word = receiver.load(Ordering::Relaxed);
    while TokenId::from_word(word) == Some(process) {
        // Keeping WAITERS: 0 with the bit is what those who wait for a receiver expect.
        match receiver.compare_exchange(word, leaving | word & WAITERS, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => {
                // Senders that wait for space watch this word too. Died just before: they watch our token as well.
                futex::wake_all(receiver);
                return;
            }
            Err(now) => word = now,
        }
    }
}
