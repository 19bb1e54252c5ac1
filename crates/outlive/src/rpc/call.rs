//! A call's words: which side writes next, what is there, and which side sleeps.
//!
//! | claim | meaning | a death here |
//! | --- | --- | --- |
//! | number n - 1, any state | call n is not begun | the server's: the client cancels, or waits for the next server |
//! | WRITING(n, thread), no reply of n yet | that thread copies the request, or writes the first reply | the client cancels |
//! | TAKEN(n, process) | that server has it | the client cancels: begun, and no process knows how far |
//! | WRITING(n, thread) | that thread writes a reply | the same, after another look at `ready` |
//! | WRITING(n, thread), `ready` says END of n | over | |
//! | CANCELLED(n) | no server begins n, or writes for it, any more | |
//! | CANCELLED(n), UNDONE | the same; its server has given it back, and did nothing for it | |
//! | OVER(n) | over, and a sweep removed a dead thread's id | |
//!
//! Every change is an exchange from the exact word that was seen. doc/protocols/rpc.md,
//! proof/models/rpc.pml.

use crate::liveness::{Me, TokenId};
use crate::shim::{AtomicU32, AtomicU64, Ordering, Pad32};
use crate::sys::robust::WakeRelay;
use crate::wake::EventCount;

/// The words of a call slot, in pairs of cache lines by writer.
#[repr(C)]
#[derive(Default)]
pub(super) struct CallWords {
    // Written by the server; now and then by the client.
    pub(super) claim: AtomicU64,
    /// The eventcount on which a server waits until the client has taken a reply of a stream.
    pub(super) space: EventCount,
    /// What the server has taken of the request's parts: {number, parts}. Written in WRITING.
    parts_taken: AtomicU64,
    reserved: [Pad32; 26],
    // Written by the client.
    /// What the client has taken of a stream: {number, replies}.
    pub(super) taken: AtomicU64,
    /// The eventcount on which the client, and its wait sets, wait for replies.
    pub(super) replies: EventCount,
    /// Always 0: the kernel wakes a client here when a thread that writes for it ends alone.
    pub(super) x: AtomicU32,
    /// Of a client slot's first call slot: how often its clients have asserted that they are there.
    pub(super) asserted: AtomicU32,
    /// What the client has sent of the request's parts: {number, parts, END}. Another number: the
    /// call has none.
    parts: AtomicU64,
    /// By part: {reference, length} of its object (layout.rs).
    pub(super) places: [AtomicU64; 8],
    /// Of a client slot's first call slot: the last process to leave it in order; 0 once that
    /// one has taken it again.
    pub(super) left: AtomicU32,
    reserved_2: [Pad32; 7],
    // Written by the server; the first reply follows in the same line.
    pub(super) ready: AtomicU64,
}

crate::shim::assert_layout!(
    core::mem::offset_of!(CallWords, taken) == 128,
    core::mem::offset_of!(CallWords, places) == 160,
    core::mem::offset_of!(CallWords, ready) == 256,
    size_of::<CallWords>() == 264,
);

// SAFETY: all its fields are atomics, for which every bit pattern is valid.
unsafe impl crate::segment::SharedLayout for CallWords {}

const NUMBER_BITS: u32 = 33;
const NUMBERS: u64 = (1 << NUMBER_BITS) - 1;
const AT: u32 = 64 - NUMBER_BITS;
const ID: u64 = (1 << 29) - 1;
const COUNTS: u32 = (1 << 28) - 1;
/// In a claim that says CANCELLED, in which no owner's id stands.
const UNDONE: u64 = 1 << 2;

/// Returns the number of the next call.
#[inline]
pub(super) fn next(number: u64) -> u64 {
    number.wrapping_add(1) & NUMBERS
}

/// The values of a claim's state bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Over,
    Taken,
    Writing,
    Cancelled,
}

/// The claim.
///
/// ```text
///  63          31 30           2 1      0
/// +--------------+--------------+--------+
/// |    number    |   owner id   | state  |
/// +--------------+--------------+--------+
/// ```
/// An id's bits 29 to 31 are always 001, so 29 bits hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claim(pub(super) u64);

impl Claim {
    #[inline]
    fn of(number: u64, owner: TokenId, state: u64) -> Claim {
        Claim(number << AT | (u64::from(owner.as_u32()) & ID) << 2 | state)
    }

    #[inline]
    pub(super) fn taken(number: u64, process: TokenId) -> Claim {
        Claim::of(number, process, 1)
    }

    #[inline]
    pub(super) fn writing(number: u64, thread: TokenId) -> Claim {
        Claim::of(number, thread, 2)
    }

    pub(super) fn cancelled(number: u64) -> Claim {
        Claim(number << AT | 3)
    }

    /// Returns the claim of a call that is cancelled by its server, which did nothing for it.
    pub(super) fn undone(number: u64) -> Claim {
        Claim(number << AT | UNDONE | 3)
    }

    /// Returns whether its server has given it back.
    pub(super) fn is_undone(self) -> bool {
        self.state() == State::Cancelled && self.0 & UNDONE != 0
    }

    pub(super) fn over(number: u64) -> Claim {
        Claim(number << AT)
    }

    #[inline]
    pub(super) fn number(self) -> u64 {
        self.0 >> AT
    }

    #[inline]
    pub(super) fn state(self) -> State {
        match self.0 & 3 {
            0 => State::Over,
            1 => State::Taken,
            2 => State::Writing,
            _ => State::Cancelled,
        }
    }

    /// Returns the owner of TAKEN and WRITING.
    pub(super) fn owner(self) -> Option<TokenId> {
        TokenId::from_word((self.0 >> 2 & ID) as u32 | 0x2000_0000)
    }
}

/// The value of `ready`: {number, replies written, flags}. `taken` is the same without flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ready(pub(super) u64);

/// In `ready`: no more replies.
const END: u64 = 1;
/// In `ready`, with END: the server dropped the request without a last reply.
const DROPPED: u64 = 2;
/// In `ready`, with END and DROPPED: the server has said why, in the slot's `failure`.
const FAILED: u64 = 4;

/// The state in which a reply leaves the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    More,
    End,
    Dropped,
    Failed,
}

impl Ready {
    #[inline]
    pub(super) fn new(number: u64, count: u32, after: After) -> Ready {
        let flags = match after {
            After::More => 0,
            After::End => END,
            After::Dropped => END | DROPPED,
            After::Failed => END | DROPPED | FAILED,
        };
        Ready(number << AT | u64::from(count & COUNTS) << 3 | flags)
    }

    #[inline]
    pub(super) fn number(self) -> u64 {
        self.0 >> AT
    }

    /// Returns how many replies of this call it has beyond those `taken`, modularly.
    #[inline]
    pub(super) fn beyond(self, taken: u32) -> u32 {
        (self.count().wrapping_sub(taken)) & COUNTS
    }

    #[inline]
    pub(super) fn count(self) -> u32 {
        (self.0 >> 3) as u32 & COUNTS
    }

    #[inline]
    pub(super) fn is_end(self) -> bool {
        self.0 & END != 0
    }

    /// Returns whether it ended without a last reply.
    pub(super) fn is_dropped(self) -> bool {
        self.0 & DROPPED != 0
    }

    /// Returns whether the server has said why it ended so.
    pub(super) fn is_failed(self) -> bool {
        self.0 & FAILED != 0
    }
}

/// The outcome of settling a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// The call of that number, and all earlier ones, are over.
    Over(u64),
    /// A living thread writes there.
    Busy,
}

/// The limit of tries: a hostile process could change a word for ever.
pub(super) const TRIES: u32 = 64;

impl CallWords {
    #[inline]
    pub(super) fn claim(&self) -> Claim {
        // Acquire pairs with the store of the process that changed it.
        Claim(self.claim.load(Ordering::Acquire))
    }

    #[inline]
    pub(super) fn ready(&self) -> Ready {
        // Acquire pairs with `publish`.
        Ready(self.ready.load(Ordering::Acquire))
    }

    #[inline]
    pub(super) fn change(&self, from: Claim, to: Claim) -> bool {
        self.claim.compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Begins a call for the server's thread, which then copies the request. Returns `false` if the
    /// call was cancelled, or a sweep took a dead thread's id out of the claim of the call before.
    /// The thread's end wakes the client meanwhile.
    ///
    /// A death just before: not begun, for a successor. Just after: begun, and the claim names the
    /// thread.
    #[inline]
    pub(super) fn begin_copying(
        &self,
        relay: &WakeRelay,
        seen: Claim,
        number: u64,
        thread: TokenId,
    ) -> bool {
        // Before the claim: if the thread ends in between, the client wakes for nothing.
        relay.to(&self.x);
        self.change(seen, Claim::writing(number, thread))
    }

    /// The request is copied: from now on the claim names the server's process.
    #[inline]
    pub(super) fn copied(&self, taken: Claim) {
        // Only this thread may change a claim that says that it writes. Release: its reads come
        // before what the client writes into the slot once it has let go of the call.
        self.claim.store(taken.0, Ordering::Release);
    }

    /// Begins writing a reply; returns `false` if the call was cancelled. The thread's end wakes
    /// the client meanwhile.
    #[inline]
    pub(super) fn begin_writing(
        &self,
        relay: &WakeRelay,
        number: u64,
        process: TokenId,
        thread: TokenId,
    ) -> bool {
        // Before the claim: if the thread ends in between, the client wakes for nothing.
        relay.to(&self.x);
        self.change(Claim::taken(number, process), Claim::writing(number, thread))
    }

    /// Publishes the reply and wakes the client.
    ///
    /// A death just before `ready`: the reply never was. Just after: the client has it, and is
    /// woken by the thread's token or by `relay`.
    #[inline]
    pub(super) fn publish(&self, ready: Ready, more: Option<Claim>) {
        // Release pairs with `CallWords::ready`: the bytes are there.
        self.ready.store(ready.0, Ordering::Release);
        if let Some(taken) = more {
            // Only this thread may change a claim that says that it writes. If it died before, the
            // claim is WRITING by a dead thread, with a reply to read first.
            self.claim.store(taken.0, Ordering::Release);
        }
        self.wake_client();
    }

    /// Returns what the client has sent of the request's parts.
    pub(super) fn parts(&self) -> Ready {
        // Acquire pairs with `set_parts`: the places below the count, and the objects' tags.
        Ready(self.parts.load(Ordering::Acquire))
    }

    /// Says how many parts have been sent, for the client in its turn.
    ///
    /// A death just before: the part's object is the slot's, and is freed with the slot. Just after:
    /// the server finds the part; asleep, it is woken by the end of the client's process.
    pub(super) fn set_parts(&self, parts: Ready) {
        // Release: the place and the tag come before.
        self.parts.store(parts.0, Ordering::Release);
    }

    /// Returns how many parts of that call the server has taken.
    pub(super) fn parts_taken(&self, number: u64) -> u32 {
        // Acquire pairs with `set_parts_taken`: the server has read the place. Of another call: none
        // of this one yet.
        let taken = Ready(self.parts_taken.load(Ordering::Acquire));
        if taken.number() == number { taken.count() } else { 0 }
    }

    /// Says how many parts have been taken, for the thread that the claim says writes here.
    ///
    /// A death just before: the part is the dead process's, and the client, which is told, looks at
    /// no place again. Just after: the same.
    pub(super) fn set_parts_taken(&self, number: u64, count: u32) {
        // Release: the client may write to the place again.
        self.parts_taken.store(Ready::new(number, count, After::More).0, Ordering::Release);
    }

    /// Gives the claim back: nothing was written after all, or a part was taken.
    #[cold]
    pub(super) fn hand_back(&self, taken: Claim) {
        self.claim.store(taken.0, Ordering::Release);
    }

    #[inline]
    pub(super) fn wake_client(&self) {
        self.replies.notify_all();
    }

    /// Wakes a server that waits for space: the client has taken a reply of a stream, or wants no
    /// more.
    #[inline]
    pub(super) fn wake_server(&self) {
        self.space.notify_all();
    }

    /// Cancels the call from that very word. After a death just after, it is as if the caller had
    /// been told.
    pub(super) fn cancel(&self, seen: Claim, number: u64) -> bool {
        self.end_by(seen, Claim::cancelled(number))
    }

    /// Does the same to a claim that says CANCELLED.
    pub(super) fn end_by(&self, seen: Claim, cancelled: Claim) -> bool {
        let done = self.change(seen, cancelled);
        if done {
            self.wake_server();
        }
        done
    }

    /// Ends whatever goes on in the slot, for the process that has its client slot: the caller
    /// frees what objects are left in it.  The number goes on by one: a request that the former
    /// client sent and no server has begun is not taken for the next
    /// client's.
    pub(super) fn settle(&self, me: Me) -> Settled {
        for _ in 0..TRIES {
            let seen = self.claim();
            let writes = seen.state() == State::Writing && {
                let ready = self.ready();
                !(ready.number() == seen.number() && ready.is_end())
            };
            if writes && seen.owner().is_some_and(|thread| me.is_alive(thread)) {
                return Settled::Busy;
            }
            let number = next(seen.number());
            if self.cancel(seen, number) {
                return Settled::Over(number);
            }
        }
        Settled::Busy
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn claims_and_readies_keep_what_they_are_given() {
        let id = TokenId::new(65_535, 8_191);
        for claim in [Claim::taken(NUMBERS, id), Claim::writing(NUMBERS, id)] {
            assert_eq!((claim.number(), claim.owner()), (NUMBERS, Some(id)));
        }
        assert_eq!(Claim::taken(1, id).state(), State::Taken);
        assert_eq!(Claim::writing(1, id).state(), State::Writing);
        assert_eq!(Claim::cancelled(7).state(), State::Cancelled);
        let undone = Claim::undone(NUMBERS);
        assert_eq!((undone.number(), undone.state()), (NUMBERS, State::Cancelled));
        assert!(undone.is_undone() && !Claim::cancelled(7).is_undone());
        assert!(!Claim::taken(7, id).is_undone() && !Claim::writing(7, id).is_undone());
        assert_eq!(Claim(0), Claim::over(0), "zeroes are a call that is over");
        assert_eq!(next(NUMBERS), 0, "numbers wrap");
        let ready = Ready::new(NUMBERS, COUNTS, After::Dropped);
        assert!(ready.is_end() && ready.is_dropped() && !ready.is_failed());
        assert_eq!((ready.number(), ready.count()), (NUMBERS, COUNTS));
        let failed = Ready::new(NUMBERS, COUNTS, After::Failed);
        assert!(failed.is_end() && failed.is_dropped() && failed.is_failed());
        assert_eq!((failed.number(), failed.count()), (NUMBERS, COUNTS));
        assert_eq!(Ready::new(1, 2, After::More).beyond(COUNTS), 3, "counts wrap");
        assert!(!Ready::new(1, 2, After::More).is_end());
    }
}
