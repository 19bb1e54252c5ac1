//! parking_lot's tests, from its crate: they are inside its sources. Where a source has only types
//! around a raw lock, it is taken whole; where it has a lock of its own, only its tests are.

use std::io;

use super::Program;
use super::crates::Adapted;

const WHOLE: [&str; 2] = ["src/mutex.rs", "src/rwlock.rs"];
const WITH_A_LOCK: [&str; 3] = ["condvar.rs", "once.rs", "remutex.rs"];
const FILES: [&str; 2] = ["issue_203", "issue_392"];

pub(super) fn ready(may_install: bool) -> io::Result<Result<Vec<Program>, String>> {
    let adapted = match Adapted::new("parking_lot", "0.12.5", may_install)? {
        Ok(adapted) => adapted,
        Err(why) => return Ok(Err(why)),
    };
    WHOLE.iter().try_for_each(|file| adapted.take(file))?;
    WITH_A_LOCK.iter().try_for_each(|file| adapted.take_tests(file))?;
    let mut programs = vec![adapted.program("src", &["--lib"])];
    for file in FILES {
        adapted.take(&format!("tests/{file}.rs"))?;
        programs.push(adapted.program(file, &["--test", file]));
    }
    Ok(Ok(programs))
}
