//! No room: the file ends after its last whole group, and the open group waits for room.

use std::fs;

use outlive_mcap::{Compression, Error, Writer};

use crate::drive::{Folder, check_finished, options, position, positions, put, write_group};

/// Runs `body` with a limit on the length of files. The limit is the process's, and other tests
/// write files: so this is a process of its own.
fn limited(limit: u64) -> libc::rlimit {
    let mut old = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointers are to this function's own values; to ignore the signal is safe.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        libc::getrlimit(libc::RLIMIT_FSIZE, &mut old);
        let new = libc::rlimit { rlim_cur: limit, rlim_max: old.rlim_max };
        libc::setrlimit(libc::RLIMIT_FSIZE, &new);
    }
    old
}

fn unlimited(old: libc::rlimit) {
    // SAFETY: the pointer is to the caller's own value.
    unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &old) };
}

/// Runs where the environment says so.
#[test]
fn full_victim() {
    if std::env::var_os("OUTLIVE_MCAP_FULL").is_none() {
        return;
    }
    let folder = Folder::new();
    let mut failed = 0;
    for limit in (200..22_000).step_by(61) {
        let path = folder.file(&format!("{limit}.mcap"));
        let mut writer: Writer =
            Writer::create(&path, options(Compression::None)).expect("a new file");
        let old = limited(limit);
        let mut last = 0;
        let refused = loop {
            if last == 20 {
                break writer.finish(&positions(20)).err();
            }
            match write_group(&mut writer, last) {
                Ok(number) => last = number,
                Err(error) => break Some(error),
            }
        };
        unlimited(old);
        let whole = writer.file_len();
        if let Some(error) = refused {
            assert!(matches!(error, Error::NoSpace { .. }), "{error}");
            assert_eq!(fs::metadata(&path).expect("the file").len(), whole, "limit {limit}");
            failed += 1;
            if last < 20 {
                // The group is still there, and there is room now; or it is given up.
                if limit % 2 == 0 {
                    last += 5;
                    writer.flush(&positions(last)).expect("room");
                } else {
                    assert_eq!(writer.discard(), 5);
                    put(&mut writer, last + 1).expect("room");
                    last += 1;
                }
            }
            writer.finish(&positions(last)).expect("room");
        }
        drop(writer);
        check_finished(&path, last);
        let (_, tail) =
            Writer::<Vec<u8>>::resume(&path, options(Compression::None)).expect("a file");
        assert_eq!(position(&tail.positions), last);
        fs::remove_file(&path).expect("the file");
    }
    assert!(failed > 100, "{failed} limits were met");
}

#[test]
fn a_full_disk_damages_nothing() {
    let ran = std::process::Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "full::full_victim", "--nocapture"])
        .env("OUTLIVE_MCAP_FULL", "1")
        .output()
        .expect("this program runs");
    let told = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{told}");
}
