//! What the members of the demo tell each other: a record in the demo's domain, and the total under
//! the lock.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence};

use outlive::sync::{LockError, Mutex, MutexGuard, Record};
use outlive::{Deadline, Domain};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::exit::{Code, Failure};

/// The most producers.
pub const MOST_SOURCES: usize = 64;

outlive::record! {
    /// Counters and marks, each written by one side and read by others.
    pub struct Ledger {
        // Written by the parent.
        /// One of the `GO`, `STOP_SENDING`, `STOP_WHEN_EMPTY`, `STOP_LOGGING` below.
        pub stage: AtomicU32,
        /// Taken by the one producer that plays the fault that was asked for.
        pub fault_played: AtomicU32,
        // Written by each source, under the lock.
        /// How many of its records have been acknowledged.
        pub acknowledged: [AtomicU64; 64],
        // Written by the lock's owner.
        /// How often a new owner was told that the lock's owner had died.
        pub owner_deaths: AtomicU64,
        /// How often the total was found half-written without such a message.
        pub total_torn: AtomicU64,
        // Written by the consumer.
        /// The last record of each source: life in the upper 24 bits, number + 1 in the lower 40.
        pub last: [AtomicU64; 64],
        /// When it last had a message, in nanoseconds of the monotonic clock.
        pub progress_at: AtomicU64,
        /// The longest time between two messages.
        pub longest_stall: AtomicU64,
        /// Messages whose checksum was wrong.
        pub corrupted: AtomicU64,
        /// Messages that came twice without being marked.
        pub unmarked: AtomicU64,
        /// Messages that overtook another of their source.
        pub out_of_order: AtomicU64,
        /// Records that a replacement sent again: their first sender had died before it was told.
        pub sent_again: AtomicU64,
    }
}

const _: () = assert!(MOST_SOURCES == 64);

/// Produce and consume.
pub const GO: u32 = 0;
/// Producers end.
pub const STOP_SENDING: u32 = 1;
/// No producer and no sensor is left; the consumer ends when the queue is empty, watchers when no
/// frame is left.
pub const STOP_WHEN_EMPTY: u32 = 2;
/// No watcher is left either; the logger ends when its queue is empty.
pub const STOP_LOGGING: u32 = 3;

impl Ledger {
    /// Returns the demo's one.
    pub fn open(domain: &Domain) -> Result<Record<Ledger>, Failure> {
        Ok(Record::<Ledger>::open_or_create(domain, "ledger")?)
    }

    /// Returns what the members should be doing.
    pub fn stage(&self) -> u32 {
        self.stage.load(Ordering::Acquire)
    }
}

/// What the lock guards: a total that is updated in two steps, so that a death in between leaves it
/// half-written.
///
/// 1. `begun` takes the figures as they will be, and `intent` says so, and for which record.
/// 2. The record is sent and noted as acknowledged.
/// 3. `done` takes the figures, and `intent` is cleared.
///
/// A producer that is told of the owner's death finds an intent or none. None: `done` is right.
/// One: the ledger says whether that record was acknowledged; if so, the producer makes step 3 for
/// the dead one, else it undoes step 1. It may be killed in the middle of either, too.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Total {
    /// 0, or the source + 1 in the upper 16 bits and the record's number in the lower 48.
    intent: u64,
    begun: Figures,
    done: Figures,
}

/// Records and payload bytes acknowledged.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Figures {
    /// Records.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Total {
    /// Makes step 1.
    pub fn begin(&mut self, source: u32, number: u64, length: u64) {
        self.begun = Figures { records: self.done.records + 1, bytes: self.done.bytes + length };
        // A death is like a signal to the compiler's order of stores: this keeps it as written.
        compiler_fence(Ordering::SeqCst);
        self.intent = (u64::from(source) + 1) << 48 | number;
        compiler_fence(Ordering::SeqCst);
    }

    /// Makes step 3.
    pub fn finish(&mut self) {
        compiler_fence(Ordering::SeqCst);
        self.done = self.begun;
        compiler_fence(Ordering::SeqCst);
        self.intent = 0;
    }

    /// Undoes step 1: the record was not sent.
    pub fn undo(&mut self) {
        self.intent = 0;
    }

    /// Repairs the total after an owner's death.
    pub fn repair(&mut self, ledger: &Ledger) {
        if self.intent == 0 {
            return;
        }
        let (source, number) = ((self.intent >> 48) as usize - 1, self.intent & 0xffff_ffff_ffff);
        let acknowledged = ledger
            .acknowledged
            .get(source)
            .is_some_and(|count| count.load(Ordering::Acquire) > number);
        if acknowledged { self.finish() } else { self.undo() }
    }

    /// Returns the figures, whole.
    pub fn figures(&self) -> Figures {
        self.done
    }
}

/// Returns the lock that all producers take.
pub fn total(domain: &Domain) -> Result<Mutex<Total>, Failure> {
    Ok(Mutex::<Total>::options(Total::default()).open_or_create(domain, "total")?)
}

/// Takes the lock; repairs the total if its last owner died.
pub fn lock<'a>(
    mutex: &'a Mutex<Total>,
    ledger: &Ledger,
    deadline: Deadline,
) -> Result<MutexGuard<'a, Total>, Failure> {
    match mutex.lock_until(deadline) {
        Ok(None) => {
            let text = "another process still held the lock when the deadline passed";
            Err(Failure::new(Code::TimedOut, text))
        }
        Ok(Some(mut guard)) => {
            // The caller is not told of a death, and yet the total is half-written: then two were
            // in here at once, or an owner's death was not told.
            if guard.intent != 0 {
                ledger.total_torn.fetch_add(1, Ordering::Relaxed);
                guard.repair(ledger);
            }
            Ok(guard)
        }
        Err(LockError::OwnerDied(mut guard)) => {
            ledger.owner_deaths.fetch_add(1, Ordering::Relaxed);
            guard.repair(ledger);
            guard.mark_consistent();
            Ok(guard)
        }
        Err(error) => Err(error.into()),
    }
}
