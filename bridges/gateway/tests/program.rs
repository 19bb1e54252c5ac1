//! The program as its user types it: what it exits with, what it says when nothing answers, and that it
//! ends when it is asked to, whatever it waits for.

use std::fs::{self, File};
use std::process::{Command, Stdio};
use std::time::Duration;

use outlive_testnet::{Child, Folder, eventually, free_port};

const LONG: Duration = Duration::from_secs(60);

fn command(folder: &Folder, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outlive-gateway"));
    command.arg("--domain").arg(folder.join("domain")).args(args).stdin(Stdio::null());
    command
}

#[test]
fn exit_codes_are_those_of_outlive() {
    let folder = Folder::new("codes");
    let secret = folder.join("is-a-folder");
    fs::create_dir(&secret).expect("made");
    let text = |name: &str, text: &str| {
        fs::write(folder.join(name), text).expect("written");
        folder.join(name).display().to_string()
    };
    let (bad, unknown) = (text("bad.toml", "= 3"), text("unknown.toml", "colour = 'red'"));
    let zenoh = text("zenoh.json5", "{ nothing: of, the kind");
    for (code, says, args) in [
        (2, "nothing may pass", &[][..]),
        (2, "--lease-ms", &["--allow", "a", "--lease-ms", "soon"]),
        (6, "nope.toml", &["--config", "nope.toml"]),
        (6, "nope.json5", &["--allow", "a", "--zenoh", "nope.json5"]),
        (16, "bad.toml", &["--config", &bad]),
        (16, "colour", &["--config", &unknown]),
        (16, "zenoh.json5", &["--allow", "a", "--zenoh", &zenoh]),
        (16, "'camera/front'", &["--allow-in", "camera.front"]),
        (16, "key expression", &["--allow", "a//b"]),
        (16, "a lease is", &["--allow", "a", "--lease-ms", "0"]),
        (16, "Endpoints", &["--allow", "a", "--connect", "nonsense"]),
        (15, "192.0.2.1", &["--allow", "a", "--listen", "tcp/192.0.2.1:7447"]),
    ] {
        let ended = command(&folder, args).output().expect("runs");
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(says), "{args:?}: {said}");
    }
}

#[test]
fn the_last_of_repeated_options_counts() {
    let folder = Folder::new("repeated");
    let mut command = Command::new(env!("CARGO_BIN_EXE_outlive-gateway"));
    command.env("OUTLIVE_DOMAIN", "elsewhere").args(["--domain", "/nowhere/at/all", "--domain"]);
    command.arg(folder.join("domain")).args(["--json", "--json", "--lease-ms", "5"]);
    // It has got as far as the last option's value.
    let ended = command.args(["--lease-ms", "0", "--allow", "a"]).output().expect("runs");
    assert_eq!(ended.status.code(), Some(16), "{}", String::from_utf8_lossy(&ended.stderr));
}

/// Starts it, waits until it says that, and asks it to end.
fn says_and_ends(folder: &Folder, log: &str, says: &str, args: &[&str]) {
    let path = folder.join(log);
    let to = File::create(&path).expect("made");
    let mut command = command(folder, args);
    command.stderr(to.try_clone().expect("a descriptor")).stdout(to);
    let mut child = Child::start(command).expect("starts");
    let text = || fs::read_to_string(&path).unwrap_or_default();
    assert!(eventually(LONG, || text().contains(says)), "{args:?}: {}", text());
    child.signal(libc::SIGTERM);
    let status = child.wait(LONG).expect("it ends");
    assert_eq!(status.code(), Some(0), "{args:?}: {}", text());
}

#[test]
fn it_says_when_nothing_answers_and_ends_when_asked_to() {
    let folder = Folder::new("alone");
    let nobody = format!("tcp/127.0.0.1:{}", free_port());
    for mode in ["peer", "client", "router"] {
        let args = ["--allow", "a", "--connect", &nobody, "--mode", mode];
        says_and_ends(&folder, mode, &format!("alone  {nobody}"), &args);
    }
}

#[test]
fn one_that_waits_for_another_ends_when_asked_to() {
    let folder = Folder::new("waits");
    let log = folder.join("acts");
    let mut first = command(&folder, &["--allow", "a"]);
    first.stdout(File::create(&log).expect("made"));
    let _first = Child::start(first).expect("starts");
    let acts = || fs::read_to_string(&log).unwrap_or_default().contains("acts");
    assert!(eventually(LONG, acts));
    says_and_ends(&folder, "waits", "waits  default", &["--allow", "a"]);
}
