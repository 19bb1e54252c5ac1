//! A pod of containers, as the page on containers shows it: pod.sh.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use crate::stage::{Running, Stage, skip};

#[test]
fn containers_of_a_pod_share_a_domain_of_64_mebibytes() {
    let stage = Stage::new();
    if !rustix::process::geteuid().is_root() {
        skip("only root can play several users");
        return;
    }
    let program = stage.path("outlive");
    fs::copy(env!("CARGO_BIN_EXE_outlive"), &program).expect("copied");
    let volume = stage.path("volume");
    fs::create_dir(&volume).expect("made");
    for path in [&program, &stage.path(""), &volume] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("ours");
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program/pod.sh");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", script]).arg(&volume).arg(&program);
    command.current_dir("/").env_remove("OUTLIVE_DOMAIN").env_remove("OUTLIVE_GROUP");
    if Command::new("setpriv").arg("--version").stdout(Stdio::null()).status().is_err() {
        skip("setpriv is not installed");
        return;
    }
    let ended = Running::new(command).end();
    if ended.code() == 77 {
        skip(&format!("a pod cannot be had here: {}", ended.err));
        return;
    }
    let ended = ended.expect(0);
    let text = ended.text();
    for wanted in [
        "the second container has the lock",
        "the last holder died",
        "still no room",
        "exit code 5",
        "a line of some length",
    ] {
        assert!(text.contains(wanted), "{wanted:?} is not in {text}");
    }
    let free: u64 =
        text.lines().last().and_then(|line| line.trim().parse().ok()).expect("a number");
    assert!((16..64).contains(&free), "{free} MiB of 64 are free: {text}");
}
