//! The logger: takes lines out of the queue, and notes which it has seen before it commits them.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use outlive::queue::Queue;

use super::board::Board;
use super::{LOG, WATCHERS};
use crate::exit::{Code, Failure};
use crate::verbs::demo::ledger::{Ledger, STOP_LOGGING};
use crate::verbs::demo::{MemberArgs, Role, place};

/// How long it waits for a line, at most, before it looks whether the demo is over.
const A_WHILE: Duration = Duration::from_millis(50);

/// Runs the logger until the parent says that no watcher is left, and the queue is empty.
pub fn run(args: &MemberArgs, folder: &Path) -> Result<(), Failure> {
    let domain = place::domain(folder)?;
    let (ledger, board) = (Ledger::open(&domain)?, Board::open(&domain)?);
    let mut receiver = Queue::<[u8]>::open(&domain, LOG)?.receiver()?;
    loop {
        let last_look = ledger.stage() >= STOP_LOGGING;
        let line = match receiver.peek_timeout(A_WHILE)? {
            Some(line) => line,
            None if last_look => return Ok(()),
            None => continue,
        };
        let (index, number) = read(&line)
            .ok_or_else(|| Failure::new(Code::CheckFailed, "a line of the log makes no sense"))?;
        let next = &board.log_next[index];
        let expected = next.load(Ordering::Acquire);
        if number >= expected {
            board.log_lost.fetch_add(number - expected, Ordering::Relaxed);
            // Killed just behind this, the line comes again, and is an old one.
            next.store(number + 1, Ordering::Release);
        }
        line.commit();
        board.note(Role::Logger, args.index);
    }
}

/// Returns whose line it is, and its number.
fn read(line: &[u8]) -> Option<(usize, u64)> {
    let (index, number) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    let index = index.parse().ok().filter(|index| *index < WATCHERS.len())?;
    Some((index, number.parse().ok()?))
}
