//! A wait whose deadline has passed already makes no call that sleeps.

use std::fs::File;
use std::os::unix::fs::FileExt;

use outlive::sync::{Barrier, Condvar, Mutex, RwLock, UpgradeError, Woke};
use outlive::{Deadline, Domain, WaitError};

use crate::board::Board;
use crate::child::Child;
use crate::counted::{counted, sleeps_of};
use crate::runner::World;

crate::checks!(a_passed_deadline_costs_no_sleep);

/// On the board: the reader's token, and that it may end.
const READER: usize = 0;
const OVER: usize = 1;

/// Where the word lies in a barrier's file that names the thread that repairs it
/// (doc/memory-layout.md).
const REPAIR: u64 = 12_288 + 16;

/// The calls, with what each waits for.
fn in_vain(domain: &Domain) {
    let past = Deadline::at_nanos(1);
    let stock = Mutex::options(0u64).open_or_create(domain, "stock").expect("opens");
    let delivered = Condvar::open_or_create(domain, "delivered").expect("opens");
    let table = RwLock::options(0u64).open_or_create(domain, "table").expect("opens");
    let step = Barrier::options(2).open_or_create(domain, "step").expect("opens");
    let mut seat = step.join().expect("a seat");
    let guard = stock.lock().expect("free");
    let reading = table.read().expect("no writer");
    counted(|| {
        let (guard, woke) = delivered.wait_until(guard, past).expect("locked again");
        assert_eq!(woke, Woke::TimedOut);
        let ended = delivered.wait_while_until(guard, past, |stock| *stock == 0);
        assert_eq!(ended.expect("locked again").1, Woke::TimedOut);
        let refused = reading.upgrade_until(past).expect_err("another process reads");
        assert!(matches!(refused, UpgradeError::TimedOut(_)), "{refused}");
        assert_eq!(step.repair_until(past), Err(WaitError::TimedOut), "another process repairs");
        assert!(seat.wait_until(past).expect("nothing is wrong").is_none());
    });
}

fn a_passed_deadline_costs_no_sleep(world: &World) {
    let domain = world.domain();
    let board = Board::new();
    let table = RwLock::options(0u64).open_or_create(&domain, "table").expect("opens");
    let reader = Child::start(|| {
        let _reading = table.read().expect("no writer");
        board.set(READER, u64::from(domain.token().expect("a token").as_u32()));
        board.reach(OVER, 1);
    });
    drop(Barrier::options(2).create_new(&domain, "step").expect("made"));
    let step = File::options().write(true).open(domain.path().join("step")).expect("writable");
    let reader_id = board.reach(READER, 1) as u32;
    step.write_all_at(&reader_id.to_ne_bytes(), REPAIR).expect("written");
    let slept = sleeps_of(|| in_vain(&domain));
    board.set(OVER, 1);
    reader.finish();
    match slept {
        None => world.skip("a process may not be traced here"),
        Some(slept) => assert_eq!(slept, 0, "sleeps for what has passed"),
    }
}
