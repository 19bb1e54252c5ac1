//! The futex as loom sees it: sleepers in a list, looked at and queued under one lock, as the
//! kernel does under its bucket locks. No sleeper times out. If all threads sleep for ever, loom
//! reports a deadlock.
//!
//! A sleeper that has been woken on one of its words stays queued on the others until it runs:
//! there it takes a wake-up for one sleeper, as in the kernel.

use loom::sync::{Condvar, Mutex, MutexGuard};

use super::Errno;
use super::clock::Deadline;
use crate::shim::{AtomicU32, Ordering};

/// As the kernel's.
pub(crate) const MOST_WATCHES: usize = 128;
/// All sleepers.
pub(crate) const ALL: u32 = i32::MAX as u32;

#[derive(Clone, Copy)]
pub(crate) struct Watch<'a> {
    pub(crate) word: &'a AtomicU32,
    pub(crate) expected: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wakeup {
    LookAgain,
    TimedOut,
}

struct Sleeper {
    /// Where it is queued.
    words: Vec<usize>,
    number: u64,
    is_woken: bool,
}

#[derive(Default)]
struct Kernel {
    sleepers: Vec<Sleeper>,
    next: u64,
}

struct Bucket {
    kernel: Mutex<Kernel>,
    woken: Condvar,
}

loom::lazy_static! {
    static ref BUCKET: Bucket = Bucket { kernel: Mutex::new(Kernel::default()), woken: Condvar::new() };
}

fn address(word: &AtomicU32) -> usize {
    core::ptr::from_ref(word) as usize
}

pub(crate) fn wait_any(
    set: &[Watch<'_>],
    _principal: usize,
    _deadline: Deadline,
) -> Result<Wakeup, Errno> {
    let mut kernel = BUCKET.kernel.lock().unwrap();
    if set.iter().any(|watch| watch.word.load(Ordering::Acquire) != watch.expected) {
        return Ok(Wakeup::LookAgain);
    }
    let number = kernel.queue(set.iter().map(|watch| address(watch.word)).collect());
    sleep(kernel, number);
    Ok(Wakeup::LookAgain)
}

/// Word by word, as the kernel does it: between two of them a thread that is queued already may
/// be awake.
pub(crate) fn wait_any_at(words: &[(usize, u32)], own: Watch<'_>) -> Result<(), Errno> {
    let number = BUCKET.kernel.lock().unwrap().queue(Vec::new());
    for &(address, expected) in words.iter().chain([&(address(own.word), own.expected)]) {
        let mut kernel = BUCKET.kernel.lock().unwrap();
        // SAFETY: the test keeps its words.
        let word = unsafe { &*core::ptr::with_exposed_provenance::<AtomicU32>(address) };
        if word.load(Ordering::Acquire) != expected {
            kernel.sleepers.retain(|sleeper| sleeper.number != number);
            return Err(Errno::AGAIN);
        }
        kernel
            .sleepers
            .iter_mut()
            .filter(|sleeper| sleeper.number == number)
            .for_each(|one| one.words.push(address));
    }
    sleep(BUCKET.kernel.lock().unwrap(), number);
    Ok(())
}

/// Until that one is woken.
fn sleep(mut kernel: MutexGuard<'_, Kernel>, number: u64) {
    while kernel.sleepers.iter().any(|sleeper| sleeper.number == number && !sleeper.is_woken) {
        kernel = BUCKET.woken.wait(kernel).unwrap();
    }
    kernel.sleepers.retain(|sleeper| sleeper.number != number);
}

pub(crate) fn wake_all(word: &AtomicU32) {
    wake(word, usize::MAX);
}

/// Under the lock, as the kernel does it under its bucket's: no other thread comes between the
/// store and the wake.
pub(crate) fn set_and_wake_all(word: &AtomicU32, held: u32, free: u16) {
    let mut kernel = BUCKET.kernel.lock().unwrap();
    let before = word.swap(u32::from(free), Ordering::AcqRel);
    assert_eq!(
        before, held,
        "the thread that gives it back holds it, and sleepers have asked already"
    );
    kernel.wake(word, usize::MAX);
}

/// Likewise; the word still names its owner, which has looked for sleepers before.
pub(crate) fn set_bit_and_wake_all(word: &AtomicU32, held: u32, bit: u8) {
    let mut kernel = BUCKET.kernel.lock().unwrap();
    let before = word.fetch_or(1 << bit, Ordering::AcqRel);
    assert_eq!(before, held, "the thread that sets it owns the word");
    kernel.wake(word, usize::MAX);
}

/// Also the kernel's own, at a thread's end.
pub(crate) fn wake_one(word: &AtomicU32) -> usize {
    wake(word, 1)
}

fn wake(word: &AtomicU32, most: usize) -> usize {
    BUCKET.kernel.lock().unwrap().wake(word, most)
}

impl Kernel {
    /// Returns the number of one that is queued there from now on.
    fn queue(&mut self, words: Vec<usize>) -> u64 {
        self.next += 1;
        self.sleepers.push(Sleeper { words, number: self.next, is_woken: false });
        self.next
    }

    fn wake(&mut self, word: &AtomicU32, most: usize) -> usize {
        let mut left = most;
        for sleeper in &mut self.sleepers {
            let queued = sleeper.words.iter().position(|&at| at == address(word));
            if let Some(at) = queued.filter(|_| left > 0) {
                sleeper.words.swap_remove(at);
                sleeper.is_woken = true;
                left -= 1;
            }
        }
        BUCKET.woken.notify_all();
        most - left
    }
}

/// Under the lock, as the kernel does it under those of its buckets.
pub(crate) fn raise_and_wake(sequence: &AtomicU32, through: &AtomicU32, most: u32) -> u32 {
    let mut kernel = BUCKET.kernel.lock().unwrap();
    sequence.fetch_add(1, Ordering::SeqCst);
    kernel.wake(through, most as usize) as u32
}

/// Under the lock, too.
pub(crate) fn raise_and_wake_both(sequence: &AtomicU32, other: &AtomicU32) -> u32 {
    let mut kernel = BUCKET.kernel.lock().unwrap();
    sequence.fetch_add(1, Ordering::SeqCst);
    let most = ALL as usize;
    (kernel.wake(sequence, most) + kernel.wake(other, most)) as u32
}

/// As the real one.
#[derive(Clone, Copy)]
pub(crate) enum InOneStep {
    Set(u16),
    Or(u16),
    SetBit(u8),
    ClearBit(u8),
}

impl InOneStep {
    /// As the real one, but of three bits, so that others are tried, too.
    pub(crate) fn or(bits: u32) -> Option<InOneStep> {
        match bits {
            0..=7 => Some(InOneStep::Or(bits as u16)),
            _ if bits.is_power_of_two() => Some(InOneStep::SetBit(bits.trailing_zeros() as u8)),
            _ => None,
        }
    }

    /// Under the lock, as the kernel does it under those of its buckets.
    pub(crate) fn and_wake(self, word: &AtomicU32, most: u32) -> u32 {
        let mut kernel = BUCKET.kernel.lock().unwrap();
        match self {
            InOneStep::Set(value) => word.swap(u32::from(value), Ordering::SeqCst),
            InOneStep::Or(bits) => word.fetch_or(u32::from(bits), Ordering::SeqCst),
            InOneStep::SetBit(bit) => word.fetch_or(1 << bit, Ordering::SeqCst),
            InOneStep::ClearBit(bit) => word.fetch_and(!(1 << bit), Ordering::SeqCst),
        };
        kernel.wake(word, most as usize) as u32
    }
}
