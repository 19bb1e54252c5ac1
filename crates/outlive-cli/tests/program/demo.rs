//! The demo: it comes out well, it notices what does not, and it leaves nothing behind.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::stage::{Stage, is_alive, until};

/// Processes that a process has started.
fn children(pid: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// Folders of the demo that this process runs, or ran.
fn folders(pid: u32) -> Vec<PathBuf> {
    let mark = format!("-{pid}-");
    let entries = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name.starts_with("outlive-demo-") && name.contains(&mark)
        })
        .collect()
}

fn no_folders() -> Vec<PathBuf> {
    Vec::new()
}

#[track_caller]
fn all_zero(verdict: &Value) {
    let robot =
        ["samples_changed", "lost_for_reliable", "frames_out_of_order", "counts_wrong", "log_lost"];
    let queue =
        ["lost", "corrupted", "duplicates_not_marked", "out_of_order", "total_wrong", "hung"];
    for name in queue.iter().chain(robot.iter().filter(|_| verdict["frames"].is_number())) {
        assert_eq!(verdict[name], 0, "{name} in {verdict}");
    }
    assert_eq!(verdict["ok"], true);
}

#[test]
fn processes_are_killed_and_nothing_is_lost() {
    let stage = Stage::new();
    let demo = stage.start(&["demo", "--seconds", "2", "--json"]);
    let pid = demo.pid();
    let verdict = demo.end().expect(0).says("4 producers").json();
    all_zero(&verdict);
    assert!(verdict["messages"].as_u64().is_some_and(|messages| messages > 1000), "{verdict}");
    assert!(verdict["killed"]["producers"].as_u64().is_some_and(|killed| killed > 0), "{verdict}");
    for figure in ["frames", "looks", "log_lines"] {
        assert!(verdict[figure].as_u64().is_some_and(|count| count > 0), "{figure}: {verdict}");
    }
    // Which members the dice choose in so short a time is not known.
    assert!(verdict["robot_killed"].is_number(), "{verdict}");
    assert_eq!(folders(pid), no_folders());
}

#[test]
fn the_zeroes_are_printed_for_people() {
    let stage = Stage::new();
    fs::write(stage.path("records"), "some text to send. ".repeat(1000)).expect("written");
    let text = stage
        .run(&["demo", "--seconds", "0.5", "--producers", "2", "--no-robot", "records"])
        .expect(0)
        .text();
    assert!(!text.contains("robot"), "{text}");
    stage.run(&["demo", "--watch"]).expect(2).says("needs a terminal");
    for line in ["acknowledged and lost: 0", "corrupted: 0", "duplicates not marked: 0", "hung: 0"]
    {
        assert!(text.lines().any(|found| found == line), "'{line}' is not in {text}");
    }
}

#[test]
fn a_broken_promise_is_noticed() {
    for (fault, figure) in [
        ("lose", "lost"),
        ("corrupt", "corrupted"),
        ("repeat", "duplicates_not_marked"),
        ("miscount", "total_wrong"),
        ("hang", "hung"),
        ("scratch", "samples_changed"),
        ("skip", "lost_for_reliable"),
    ] {
        let stage = Stage::new();
        let mut args =
            vec!["demo", "--seconds", "1", "--fault", fault, "--patience", "2", "--json"];
        if ["scratch", "skip"].contains(&fault) {
            // It is played with every tenth frame of a sensor.
            (args[2], args[6]) = ("2", "10");
        } else {
            args.push("--no-robot");
        }
        let verdict = stage.run(&args).expect(1).json();
        assert_ne!(verdict[figure], 0, "{fault}: {verdict}");
        assert_eq!(verdict["ok"], false);
    }
}

#[test]
fn an_interrupted_demo_compares_and_tidies_up() {
    let stage = Stage::new();
    let demo = stage.start(&["demo", "--seconds", "600", "--json"]);
    let pid = demo.pid();
    until("it runs", || children(pid).len() == 13);
    demo.signal(2);
    let verdict = demo.end().expect(0).json();
    all_zero(&verdict);
    assert_eq!(verdict["interrupted"], true);
    assert_eq!(folders(pid), no_folders());
}

#[test]
fn a_killed_demo_takes_its_processes_along_and_the_next_one_tidies_up() {
    if !Path::new("/dev/shm").is_dir() {
        crate::stage::skip("no /dev/shm here");
        return;
    }
    let stage = Stage::new();
    let demo = stage.start(&["demo", "--seconds", "600"]);
    let pid = demo.pid();
    until("it runs", || children(pid).len() == 13);
    let members = children(pid);
    demo.kill();
    demo.end();
    until("its processes are gone", || members.iter().all(|member| !is_alive(*member)));
    // Or none: another test's demo may be quicker to tidy up.
    assert!(folders(pid).len() <= 1);
    let report = stage.run(&["doctor", "--json"]).expect(0).json();
    let findings = report["findings"].as_array().expect("a list");
    assert!(findings.iter().any(|finding| finding["name"] == "demos"));
    stage.run(&["demo", "--seconds", "0.2", "--no-robot"]).expect(0);
    assert_eq!(folders(pid), no_folders());
}

#[test]
fn files_that_cannot_be_read_are_told() {
    let stage = Stage::new();
    stage.run(&["demo", "/no/such/file"]).expect(6).says("/no/such/file");
    stage.run(&["demo", "/dev/null"]).expect(2).says("nothing to send");
    stage.run(&["demo", "--data", "/no/such/folder"]).expect(6).says("/no/such/folder");
}

#[test]
fn scans_and_pictures_pass() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let files: Vec<String> = fs::read_dir(&data)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            path.extension().is_some_and(|extension| extension == "bin" || extension == "jpg")
        })
        .map(|path| path.display().to_string())
        .collect();
    if files.is_empty() {
        crate::stage::skip("no LiDAR scans and pictures beside the project");
        return;
    }
    let stage = Stage::new();
    let folder = data.display().to_string();
    let mut args = vec!["demo", "--seconds", "1", "--json", "--data", &folder];
    args.extend(files.iter().map(String::as_str));
    all_zero(&stage.run(&args).expect(0).json());
}
