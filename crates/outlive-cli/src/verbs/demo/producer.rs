//! A producer: takes the lock, sends a record, notes that it was acknowledged, gives the lock back;
//! and so on.
//!
//! It may be killed at any instruction. Its replacement goes on behind the last acknowledged
//! record, so one that had been sent but not acknowledged is sent again, under the replacement's
//! life: that is no duplicate of the queue's making.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use outlive::queue::Queue;
use outlive::{Deadline, SendError};

use super::journal::{Entry, Journal, Side};
use super::ledger::{self, GO, Ledger};
use super::material::Material;
use super::record::{self, HEAD, Head};
use super::{Fault, MemberArgs, place};
use crate::exit::{Code, Failure};

/// How long one waits, at most, before it looks whether the demo is over.
const A_WHILE: Duration = Duration::from_secs(1);
/// How long one waits for a replaced consumer to come.
const A_MOMENT: Duration = Duration::from_millis(1);
/// The record of which the fault is played that was asked for.
const FAULTY: u64 = 500;

/// Runs a producer until the parent says stop.
pub fn run(args: &MemberArgs, folder: &Path) -> Result<(), Failure> {
    let domain = place::domain(folder)?;
    let ledger = Ledger::open(&domain)?;
    let mutex = ledger::total(&domain)?;
    let sender = Queue::<[u8]>::open(&domain, "queue")?.sender()?;
    let material = Material::open(folder, args.index, args.sources)?;
    let journaling = |error| Failure::system("write the journal", &error);
    let mut journal = Journal::open(folder, Side::Acknowledged, args.index).map_err(journaling)?;
    let acknowledged = &ledger.acknowledged[args.index as usize];
    let mut head =
        Head { source: args.index, life: args.life, number: acknowledged.load(Ordering::Acquire) };
    let mut message = Vec::new();
    while ledger.stage() == GO {
        let payload = material.record(head.number);
        let sum = record::write(&mut message, head, payload);
        let fault = args.fault.filter(|&fault| {
            fault != Fault::Hang
                && !fault.is_of_robot()
                && head.number >= FAULTY
                && takes_fault(&ledger)
        });
        if fault == Some(Fault::Corrupt) {
            message[HEAD] ^= 1;
        }
        let mut guard = match ledger::lock(&mutex, &ledger, Deadline::after(A_WHILE)) {
            Ok(guard) => guard,
            Err(Failure::Told { code: Code::TimedOut, .. }) => continue,
            Err(other) => return Err(other),
        };
        guard.begin(head.source, head.number, payload.len() as u64);
        let sent = match fault {
            Some(Fault::Lose) => Ok(()),
            Some(Fault::Repeat) => sender.send(&message).and_then(|()| sender.send(&message)),
            _ => sender.send_until(&message, Deadline::after(A_WHILE)),
        };
        match sent {
            Ok(()) => {
                journal
                    .write(head.number, Entry::new(payload.len() as u32, sum))
                    .map_err(journaling)?;
                head.number += 1;
                // Release: a process that sees the count finds the journal's word. Died just
                // before: sent again.
                acknowledged.store(head.number, Ordering::Release);
                if fault == Some(Fault::Miscount) { guard.undo() } else { guard.finish() }
            }
            Err(SendError::ReceiverDied) => {
                guard.undo();
                drop(guard);
                // The parent replaces it at once; there is nothing to wait on but time.
                std::thread::sleep(A_MOMENT);
            }
            Err(SendError::TimedOut { .. }) => guard.undo(),
            Err(error) => {
                guard.undo();
                return Err(error.into());
            }
        }
    }
    // Now that no process is killed any more: else the parent might kill this one before it sees
    // that it hangs.
    if args.fault == Some(Fault::Hang) && takes_fault(&ledger) {
        std::thread::sleep(Duration::MAX);
    }
    Ok(())
}

/// Returns whether this process is the one to play the fault that was asked for.
fn takes_fault(ledger: &Ledger) -> bool {
    ledger.fault_played.swap(1, Ordering::AcqRel) == 0
}
