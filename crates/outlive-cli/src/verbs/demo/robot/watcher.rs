//! A watcher: takes frames in its own manner, checks each on arrival and once more before it
//! releases it, and sends a line to the log for each.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use outlive::queue::{Queue, Sender};
use outlive::topic::{Sample, Subscriber, SubscriberOptions, Topic};
use outlive::{Deadline, SendError};

use super::board::{Board, NONE};
use super::frames::{self, Which};
use super::{LOG, SENSORS, WATCHERS, Watches};
use crate::exit::{Code, Failure};
use crate::verbs::demo::ledger::{Ledger, STOP_WHEN_EMPTY};
use crate::verbs::demo::{MemberArgs, Role, place};

/// How long it waits for a frame, at most, before it looks whether the demo is over.
const A_WHILE: Duration = Duration::from_millis(50);
/// How long the slow one looks at a frame.
const SLOWLY: Duration = Duration::from_millis(120);
/// How long one waits for a replaced logger to come.
const A_MOMENT: Duration = Duration::from_millis(1);

impl Watches {
    fn options(self) -> SubscriberOptions {
        let options = Subscriber::options().reliable(self == Watches::Reliable);
        if self == Watches::Latest { options.keep_last(1) } else { options }
    }

    /// Frames that it holds at once.
    fn holds(self) -> usize {
        if self == Watches::Slow { 6 } else { 1 }
    }
}

/// Runs a watcher until the parent says that no sensor is left, and nothing is there any more.
pub fn run(args: &MemberArgs, folder: &Path) -> Result<(), Failure> {
    let (watches, watched) = *WATCHERS
        .get(args.index as usize)
        .ok_or_else(|| Failure::new(Code::Usage, "there is no such watcher"))?;
    let domain = place::domain(folder)?;
    let (ledger, board) = (Ledger::open(&domain)?, Board::open(&domain)?);
    let log = Queue::<[u8]>::open(&domain, LOG)?.sender()?;
    let topic = Topic::<[u8]>::open_or_create(&domain, SENSORS[watched].topic)?;
    let next = &board.next[args.index as usize];
    // Before the subscriber is made: the predecessor did not live to get what it did not get.
    next.store(NONE, Ordering::Release);
    let mut subscriber = topic.subscriber_with(watches.options())?;
    let mut last: Option<Which> = None;
    let mut lost = 0;
    let mut held: VecDeque<Sample<[u8]>> = VecDeque::new();
    loop {
        // Before the look: what was published before that stage is there now.
        let last_look = ledger.stage() >= STOP_WHEN_EMPTY;
        let sample = match subscriber.recv_timeout(A_WHILE)? {
            Some(sample) => sample,
            None if last_look => break,
            None => continue,
        };
        let which = look_at(&board, &sample);
        follow(&board, watches, last, which);
        last = Some(which);
        next.store(which.number + 1, Ordering::Release);
        board.looks.fetch_add(1, Ordering::Relaxed);
        board.passed_over.fetch_add(subscriber.lost() - lost, Ordering::Relaxed);
        lost = subscriber.lost();
        held.push_back(sample);
        if held.len() > watches.holds()
            && let Some(oldest) = held.pop_front()
        {
            look_at(&board, &oldest);
        }
        write_line(&log, &board, args.index, &ledger)?;
        board.note(Role::Watcher, args.index);
        if watches == Watches::Slow && !last_look {
            std::thread::sleep(SLOWLY);
        }
    }
    for sample in held {
        look_at(&board, &sample);
    }
    Ok(())
}

/// Checks a frame.
fn look_at(board: &Board, sample: &Sample<[u8]>) -> Which {
    let (which, is_whole) = frames::check(&sample.header(), sample);
    if !is_whole {
        board.changed.fetch_add(1, Ordering::Relaxed);
    }
    which
}

/// Notes how a frame follows on the last one.
fn follow(board: &Board, watches: Watches, last: Option<Which>, which: Which) {
    let Some(last) = last else { return };
    // Published by one that was killed before it knew: its replacement publishes it again.
    let is_again = which.life > last.life && which.number == last.number;
    if which.number <= last.number && !is_again {
        board.out_of_order.fetch_add(1, Ordering::Relaxed);
    } else if watches == Watches::Reliable && which.number > last.number + 1 {
        board.lost_for_reliable.fetch_add(which.number - last.number - 1, Ordering::Relaxed);
    }
}

/// Sends a line to the log: its watcher, and its number. Killed before it is noted, the same line
/// comes again.
fn write_line(log: &Sender, board: &Board, index: u32, ledger: &Ledger) -> Result<(), Failure> {
    let logged = &board.logged[index as usize];
    let number = logged.load(Ordering::Acquire);
    let line = format!("{index} {number}");
    loop {
        match log.send_until(line.as_bytes(), Deadline::after(A_WHILE)) {
            Ok(()) => {
                logged.store(number + 1, Ordering::Release);
                return Ok(());
            }
            Err(SendError::ReceiverDied) if ledger.stage() <= STOP_WHEN_EMPTY => {
                std::thread::sleep(A_MOMENT)
            }
            Err(SendError::TimedOut { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
