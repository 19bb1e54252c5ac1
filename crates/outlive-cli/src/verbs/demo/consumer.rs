//! The consumer: looks at a message, compares its checksum, notes it in the journal, and only then
//! commits it.
//!
//! Killed in between, its replacement is handed the same message once more, marked as redelivered:
//! the only kind of repeat that is allowed.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use outlive::queue::Queue;
use outlive::sync::Record;
use rustix::time::{ClockId, clock_gettime};

use super::journal::{Entry, Journal, Side};
use super::ledger::{Ledger, MOST_SOURCES, STOP_WHEN_EMPTY};
use super::record::{self, HEAD, Head};
use super::{MemberArgs, place};
use crate::exit::Failure;

/// How long it waits for a message, at most, before it looks whether the demo is over.
const A_WHILE: Duration = Duration::from_millis(50);

/// Runs the consumer until the parent says that no producer is left, and the queue is empty.
pub fn run(args: &MemberArgs, folder: &Path) -> Result<(), Failure> {
    let domain = place::domain(folder)?;
    let ledger = Ledger::open(&domain)?;
    let mut receiver = Queue::<[u8]>::open(&domain, "queue")?.receiver()?;
    let journaling = |error| Failure::system("write the journal", &error);
    let mut journals = Vec::new();
    for source in 0..args.sources.min(MOST_SOURCES as u32) {
        journals.push(Journal::open(folder, Side::Received, source).map_err(journaling)?);
    }
    loop {
        // Before the look: what was sent before that stage is there now.
        let last_look = ledger.stage() == STOP_WHEN_EMPTY;
        let message = match receiver.peek_timeout(A_WHILE)? {
            Some(message) => message,
            None if last_look => return Ok(()),
            None => continue,
        };
        note_time(&ledger);
        match record::read(&message) {
            Some((head, sum, true)) if (head.source as usize) < journals.len() => {
                check_order(&ledger, head, message.redelivered());
                let length = (message.len() - HEAD) as u32;
                let entry = Entry::new(length, sum);
                journals[head.source as usize].write(head.number, entry).map_err(journaling)?;
            }
            _ => {
                ledger.corrupted.fetch_add(1, Ordering::Relaxed);
            }
        }
        message.commit();
    }
}

/// Notes the time since the last message, whichever consumer received it.
fn note_time(ledger: &Record<Ledger>) {
    let now = monotonic_nanos();
    let before = ledger.progress_at.swap(now, Ordering::Relaxed);
    if before != 0 {
        let stall = now.saturating_sub(before);
        if stall > ledger.longest_stall.load(Ordering::Relaxed) {
            ledger.longest_stall.store(stall, Ordering::Relaxed);
        }
    }
}

/// Nanoseconds of the clock that all processes share.
pub fn monotonic_nanos() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Checks that a source's records come one after the other; a replacement may begin with the one
/// that its predecessor sent last.
fn check_order(ledger: &Ledger, head: Head, redelivered: bool) {
    let place = &ledger.last[head.source as usize];
    let word = place.load(Ordering::Relaxed);
    let (life, next) = ((word >> 40) as u32, word & 0xff_ffff_ffff);
    match classify(head, life, next, redelivered) {
        Order::Next => {}
        Order::Marked => return,
        Order::SentAgain => {
            ledger.sent_again.fetch_add(1, Ordering::Relaxed);
        }
        Order::Unmarked => {
            ledger.unmarked.fetch_add(1, Ordering::Relaxed);
            return;
        }
        Order::Wrong => {
            ledger.out_of_order.fetch_add(1, Ordering::Relaxed);
        }
    }
    // One store: killed before it, the message comes again and is compared with the old word.
    place.store(u64::from(head.life) << 40 | (head.number + 1), Ordering::Relaxed);
}

#[derive(Debug, PartialEq, Eq)]
enum Order {
    Next,
    Marked,
    SentAgain,
    Unmarked,
    Wrong,
}

/// Tells how a message follows on the last one of its source, of that life and with that number
/// next.
fn classify(head: Head, life: u32, next: u64, redelivered: bool) -> Order {
    if head.life >= life && head.number == next {
        Order::Next
    } else if head.life > life && head.number + 1 == next {
        Order::SentAgain
    } else if head.life == life && head.number + 1 == next && redelivered {
        Order::Marked
    } else if head.life <= life && head.number < next {
        Order::Unmarked
    } else {
        Order::Wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_marked_repeats_and_unacknowledged_ones_may_come_twice() {
        let head = |life, number| Head { source: 0, life, number };
        assert_eq!(classify(head(0, 0), 0, 0, false), Order::Next);
        assert_eq!(classify(head(2, 7), 2, 7, false), Order::Next);
        assert_eq!(classify(head(3, 7), 2, 7, false), Order::Next);
        assert_eq!(classify(head(3, 6), 2, 7, false), Order::SentAgain);
        assert_eq!(classify(head(2, 6), 2, 7, true), Order::Marked);
        assert_eq!(classify(head(2, 6), 2, 7, false), Order::Unmarked);
        assert_eq!(classify(head(2, 5), 2, 7, true), Order::Unmarked);
        assert_eq!(classify(head(1, 6), 2, 7, false), Order::Unmarked);
        assert_eq!(classify(head(2, 8), 2, 7, false), Order::Wrong);
        assert_eq!(classify(head(3, 5), 2, 7, false), Order::Wrong);
    }
}
