//! A sensor: publishes a frame when it is due, written in place. Killed anywhere, its replacement
//! goes on behind the last frame whose publishing had returned; so one that had been published
//! without that comes again, under the replacement's life.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use outlive::topic::Topic;

use super::SENSORS;
use super::board::Board;
use super::frames::{self, Frames, Which};
use crate::exit::{Code, Failure};
use crate::verbs::demo::ledger::{GO, Ledger};
use crate::verbs::demo::{Fault, MemberArgs, Role, place};

/// How long it waits for the reliable watcher, at most, before it looks whether the demo is over.
const A_WHILE: Duration = Duration::from_millis(200);
/// With every tenth frame the fault is played that was asked for (once is not enough: sensor and
/// watcher are killed in between, too), by the sensor with the reliable watcher.
const FAULTY: u64 = 10;
const FAULTY_SENSOR: u32 = 1;

/// Runs a sensor until the parent says stop.
pub fn run(args: &MemberArgs, folder: &Path) -> Result<(), Failure> {
    let sensor = SENSORS
        .get(args.index as usize)
        .ok_or_else(|| Failure::new(Code::Usage, "there is no such sensor"))?;
    let domain = place::domain(folder)?;
    let (ledger, board) = (Ledger::open(&domain)?, Board::open(&domain)?);
    let publisher = Topic::<[u8]>::open_or_create(&domain, sensor.topic)?.publisher()?;
    let seen = Frames::open(folder, sensor.sees)?;
    let published = &board.published[args.index as usize];
    let mut number = published.load(Ordering::Acquire);
    let period = Duration::from_secs(1) / sensor.hertz;
    let mut due = Instant::now();
    while ledger.stage() == GO {
        let faulty = args.index == FAULTY_SENSOR && number > 0 && number.is_multiple_of(FAULTY);
        let fault = args.fault.filter(|fault| faulty && fault.is_of_robot());
        if fault == Some(Fault::Skip) {
            number += 1;
        }
        let picture = seen.get(number);
        let mut loan = publisher.loan(picture.len())?;
        let header = frames::write(&mut loan, picture, Which { number, life: args.life });
        if fault == Some(Fault::Scratch) {
            loan[picture.len() / 2] ^= 1;
        }
        loan.set_header(header);
        match publisher.publish_timeout(loan, A_WHILE) {
            Ok(_) => {}
            Err(outlive::SendError::TimedOut { .. }) => continue,
            Err(error) => return Err(error.into()),
        }
        board.published_bytes.fetch_add(picture.len() as u64, Ordering::Relaxed);
        number += 1;
        // Release: a process that sees the count finds the frame. Died just before: it comes again.
        published.store(number, Ordering::Release);
        board.note(Role::Sensor, args.index);
        due += period;
        let now = Instant::now();
        // What was missed, as in front of a camera, is missed.
        due = due.max(now);
        std::thread::sleep(due - now);
    }
    Ok(())
}
