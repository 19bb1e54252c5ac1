//! A full memory file system: an error, never a crash, and what was there stays usable.

use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::stage::Stage;

/// A memory file system of 16 MiB.
struct Small(PathBuf);

impl Small {
    fn mount(at: &Path) -> Option<Small> {
        std::fs::create_dir(at).expect("a folder to mount on");
        match mount(
            "tmpfs",
            at,
            "tmpfs",
            MountFlags::NOSUID | MountFlags::NODEV,
            Some(c"size=16m,mode=0700"),
        ) {
            Ok(()) => Some(Small(at.to_path_buf())),
            Err(errno) => {
                crate::stage::skip(&format!("mounting is not permitted here ({errno})"));
                None
            }
        }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

#[test]
fn a_full_file_system_is_told_and_nothing_is_lost() {
    let stage = Stage::new();
    let Some(small) = Small::mount(&stage.path("small")) else { return };
    let domain = small.0.join("domain").display().to_string();
    let line = "a line of some length, so that few of them fill it\n";
    let input = line.repeat(600_000);
    let args =
        ["send", "q", "--domain", &domain, "--max-bytes", "1G", "--timeout", "0.2", "--json"];
    let ended = stage.feed(&args, input.as_bytes()).expect(5).says("still no room");
    let sent = ended.json()["messages"].as_u64().expect("a number");
    assert!(sent > 1000, "{sent}");
    // What the queue leaves over is taken up by a file.
    let rest = std::fs::write(small.0.join("rest"), vec![1; 16 << 20]);
    assert!(rest.is_err(), "it is larger than it was made");
    stage.feed(&["send", "new", "--domain", &domain], b"x").expect(10).says("no room for");
    let report = stage.run(&["doctor", "--domain", &domain]).expect(1).text();
    assert!(report.contains("FAULT   room"), "{report}");
    let received = stage.run(&["recv", "q", "--domain", &domain, "--until-idle", "0"]).expect(0);
    assert_eq!(received.out.len() as u64, sent * line.len() as u64);
    // There is room in the queue again.
    stage.feed(&["send", "q", "--domain", &domain, "--timeout", "5"], line.as_bytes()).expect(0);
}

#[test]
fn a_full_domain_names_its_budget_as_doctor_does() {
    let stage = Stage::new();
    stage.run(&["domain", "create", "--max-bytes", "1M"]).expect(0);
    let full = ["state", "set", "--capacity", "8M", "wide", "x"];
    let said = stage.run(&full).expect(10).says("no room for").says("of 1.0 MiB are taken");
    let said = said.says("'outlive domain create --max-bytes SIZE' gives more");
    let report = stage.run(&["doctor"]).text();
    let budget = report.lines().find(|line| line.contains("budget")).expect("it has one");
    // As both say it: how much of how much.
    assert!(budget.contains("of 1.0 MiB taken"), "{budget}: {}", said.err);
}
