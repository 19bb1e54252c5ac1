//! The process that is killed: this test program once more, told by the environment to record.
//!
//! It runs as the test `victim`, which does nothing without that.

use std::io::Write;
use std::path::Path;

use outlive_mcap::{Compression, Writer};

use crate::drive::{options, position, positions, write_group};

/// Names the file.
pub const FILE: &str = "OUTLIVE_MCAP_VICTIM";
/// How many groups it writes; then it finishes the file.
pub const GROUPS: &str = "OUTLIVE_MCAP_GROUPS";
/// It asks to be traced.
pub const TRACED: &str = "OUTLIVE_MCAP_TRACED";

#[test]
fn victim() {
    let Some(file) = std::env::var_os(FILE) else { return };
    let groups = std::env::var(GROUPS).ok().and_then(|text| text.parse().ok()).unwrap_or(u64::MAX);
    if std::env::var_os(TRACED).is_some() {
        // SAFETY: the call touches no memory of this process.
        unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) };
        tell(u64::from(rustix::thread::gettid().as_raw_nonzero().get() as u32));
        // SAFETY: the signal stops this thread alone, until its tracer lets it go on.
        unsafe {
            libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), libc::SIGSTOP);
        }
    }
    record(file.as_ref(), groups);
}

/// Writes a number to the pipe, at once.
fn tell(number: u64) {
    let line = format!("\n#{number}\n");
    // Not through the standard library's buffer, which another test could hold.
    let mut out = std::io::stderr();
    out.write_all(line.as_bytes()).expect("the other end is there");
}

fn record(path: &Path, groups: u64) {
    let (mut writer, mut last) = match path.exists() {
        true => {
            let (writer, tail) =
                Writer::<Vec<u8>>::resume(path, options(Compression::None)).expect("a file");
            (writer, position(&tail.positions))
        }
        false => (Writer::create(path, options(Compression::None)).expect("a new file"), 0),
    };
    for _ in 0..groups {
        last = write_group(&mut writer, last).expect("room");
        tell(last);
    }
    writer.finish(&positions(last)).expect("room");
}
