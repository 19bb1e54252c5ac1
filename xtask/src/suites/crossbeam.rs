//! crossbeam-channel's tests, from its crate.

use std::io;

use super::Program;
use super::crates::Adapted;

/// The files of tests that ask for a channel with or without a bound. The others are about channels
/// without room, about channels of time, and about a choice among several channels.
const FILES: [&str; 4] = ["mpsc", "list", "array", "iter"];

pub(super) fn ready(may_install: bool) -> io::Result<Result<Vec<Program>, String>> {
    let adapted = match Adapted::new("crossbeam-channel", "0.5.15", may_install)? {
        Ok(adapted) => adapted,
        Err(why) => return Ok(Err(why)),
    };
    for file in FILES {
        adapted.take(&format!("tests/{file}.rs"))?;
    }
    Ok(Ok(FILES.map(|file| adapted.program(file, &["--test", file])).into_iter().collect()))
}
