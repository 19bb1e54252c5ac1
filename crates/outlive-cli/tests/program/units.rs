//! The files for systemd: systemd reads them without a complaint, what they run does what they are
//! for, and a service tells how it is.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::stage::{Running, Stage, is_alive, skip, until};

const PACKAGING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging");
const PROGRAM: &str = "/usr/bin/outlive";

fn units(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(PACKAGING).join("systemd").join(folder);
    let entries = fs::read_dir(folder).expect("the repository's");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    paths.retain(|path| path.is_file());
    paths.sort();
    paths
}

/// Returns a unit's text with a program in it that is there.
fn text(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("readable");
    text.replace(PROGRAM, env!("CARGO_BIN_EXE_outlive"))
        .replace("/usr/local/bin/robot-controller", "/bin/true")
}

/// Runs one of systemd's tools; `None` where it is missing.
fn tool(name: &str, args: &[&str], folder: &Path) -> Option<std::process::Output> {
    let mut command = Command::new(name);
    command.args(args).env("XDG_RUNTIME_DIR", folder).env("HOME", folder);
    match command.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            skip(&format!("{name} is not installed"));
            None
        }
        output => Some(output.expect("it runs")),
    }
}

#[test]
fn systemd_has_no_complaint() {
    let stage = Stage::new();
    for (folder, whose) in [("", "--system"), ("examples", "--system"), ("user", "--user")] {
        let at = stage.path(&format!("units-{folder}"));
        fs::create_dir(&at).expect("made");
        let mut all = units("");
        all.extend(units(folder));
        for path in &all {
            // Of a template, an instance.
            let name = path.file_name().expect("it has one").to_str().expect("plain");
            fs::write(at.join(name.replace("@.", "@robot.")), text(path)).expect("written");
        }
        for path in units(folder) {
            let name = path.file_name().expect("it has one").to_str().expect("plain");
            let name = name.replace("@.", "@robot.");
            let unit = at.join(&name);
            let args = [whose, "verify", "--man=no", unit.to_str().expect("plain")];
            let Some(output) = tool("systemd-analyze", &args, &stage.path("")) else { return };
            let said = String::from_utf8_lossy(&output.stderr);
            // What it says of the machine's own units is not of interest.
            let ours: Vec<&str> = said
                .lines()
                .filter(|line| line.contains("outlive") || line.contains("robot"))
                .collect();
            assert!(output.status.success() && ours.is_empty(), "{name}: {said}");
        }
    }
    // A key that there is not: that is what it would say.
    let wrong = stage.path("outlive-wrong.service");
    let text = text(&Path::new(PACKAGING).join("systemd/outlive-gc.service"));
    fs::write(&wrong, text.replace("Nice=", "Nicer=")).expect("written");
    let args = ["verify", "--man=no", wrong.to_str().expect("plain")];
    let output = tool("systemd-analyze", &args, &stage.path("")).expect("as before");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("outlive-wrong.service") && said.contains("Nicer"), "{said}");
}

/// Returns the arguments that a unit gives the program, in a folder of the test's own.
fn arguments(unit: &str, stage: &Stage) -> Vec<String> {
    let path = Path::new(PACKAGING).join("systemd").join(unit);
    let text = fs::read_to_string(path).expect("readable");
    let line = text.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a command");
    let words = line.strip_prefix(PROGRAM).expect("the program").split_whitespace();
    let run = stage.path("run");
    words
        .filter(|word| *word != "$OPTIONS")
        .map(|word| {
            word.replace("/run/outlive", run.to_str().expect("plain"))
                .replace("/dev/shm/outlive-%U", run.to_str().expect("plain"))
                .replace("%i", "robot")
        })
        .collect()
}

/// What the units run: a domain is made in the folder that systemd has made, and swept.
#[test]
fn a_units_domain_is_made_and_swept() {
    let stage = Stage::new();
    let run = |unit: &str| {
        let args = arguments(unit, &stage);
        stage.run(&args.iter().map(String::as_str).collect::<Vec<_>>())
    };
    // Nothing is there yet.
    for unit in ["outlive-gc.service", "user/outlive-gc.service"] {
        assert_eq!(run(unit).expect(0).text(), "");
    }
    // As RuntimeDirectory= and RuntimeDirectoryMode= do it.
    let folder = stage.path("run").join("robot");
    fs::create_dir_all(&folder).expect("made");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o770)).expect("ours");
    run("outlive-domain@.service").expect(0);
    run("outlive-domain@.service").expect(0);
    assert_eq!(fs::metadata(&folder).expect("there").mode() & 0o7777, 0o770);
    assert_eq!(fs::metadata(folder.join(".tokens")).expect("made").mode() & 0o7777, 0o660);
    // What is no domain, and a link to one, are left alone.
    fs::create_dir(stage.path("run").join("another")).expect("made");
    let elsewhere = stage.domain();
    stage.run(&["state", "set", "s", "x"]).expect(0);
    std::os::unix::fs::symlink(elsewhere, stage.path("run").join("link")).expect("made");
    let domain = folder.to_str().expect("plain");
    let holder = stage.start(&["--domain", domain, "lock", "L", "sleep", "1000"]);
    until("it is held", || {
        let info = stage.run(&["lock", "info", "L", "--json", "--domain", domain]);
        info.code() == 0 && info.json()["holders"][0]["alive"] == true
    });
    holder.kill();
    holder.end();
    let mut lines = String::new();
    until("the dead one's token is swept", || {
        lines = run("outlive-gc.service").expect(0).text();
        lines.contains("swept")
    });
    assert!(lines.starts_with(&format!("{domain}: ")) && lines.lines().count() == 1, "{lines}");
    let args = ["gc", "--json", "--below", folder.parent().expect("one").to_str().expect("plain")];
    let told = stage.run(&args).expect(0).json();
    assert_eq!(told["domain"], domain, "{told}");
}

/// One that cannot be swept does not keep the others from it.
#[test]
fn a_domain_of_another_version_does_not_keep_the_others_from_being_swept() {
    let stage = Stage::new();
    let run = stage.path("run");
    fs::create_dir(&run).expect("made");
    for name in ["a", "b"] {
        let domain = run.join(name);
        stage.run(&["state", "set", "s", "x", "-d", domain.to_str().expect("plain")]).expect(0);
    }
    fs::write(run.join("a/.tokens"), vec![7; 8192]).expect("written");
    let ended = stage.run(&["gc", "--below", run.to_str().expect("plain")]);
    assert_ne!(ended.code(), 0);
    assert!(ended.text().contains("/b: "), "{}", ended.text());
    assert!(ended.err.contains("/a"), "{}", ended.err);
}

#[test]
fn the_folder_of_domains_is_made_at_boot() {
    let stage = Stage::new();
    let conf = format!("{PACKAGING}/tmpfiles/outlive.conf");
    let root = format!("--root={}", stage.path("root").display());
    fs::create_dir(stage.path("root")).expect("made");
    let args = ["--create", "--remove", &root, &conf];
    let Some(output) = tool("systemd-tmpfiles", &args, &stage.path("")) else { return };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
    let made = fs::metadata(stage.path("root/run/outlive")).expect("made");
    assert_eq!(made.mode() & 0o7777, 0o755);
}

/// Says what a service of `Type=notify` says: that it is ready, that it goes on, that it ends.
#[test]
fn a_service_says_how_it_is() {
    let stage = Stage::new();
    let folder = stage.path("domain-of-services");
    let folder = folder.to_str().expect("plain");
    stage.run(&["state", "set", "s", "x", "--domain", folder]).expect(0);
    let file = stage.path("out.prom");
    let file = file.to_str().expect("plain");
    let services: [&[&str]; 2] = [
        &["metrics", "--listen", "127.0.0.1:0", "--domain", folder],
        &["metrics", "--file", file, "--interval", "1h", "--domain", folder],
    ];
    for (args, number) in services.into_iter().zip(0..) {
        let path = stage.path(&format!("notify-{number}"));
        let socket = UnixDatagram::bind(&path).expect("bound");
        socket.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
        let next = || {
            let mut bytes = [0; 64];
            let length = socket.recv(&mut bytes).expect("it says something");
            String::from_utf8(bytes[..length].to_vec()).expect("text")
        };
        let mut command = stage.command(args);
        command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "100000");
        command.env_remove("WATCHDOG_PID");
        let running = Running::new(command);
        assert_eq!(next(), "READY=1", "{args:?}");
        for _ in 0..3 {
            assert_eq!(next(), "WATCHDOG=1", "{args:?}");
        }
        assert!(is_alive(running.pid()));
        running.signal(libc::SIGTERM);
        let mut last = next();
        while last == "WATCHDOG=1" {
            last = next();
        }
        assert_eq!(last, "STOPPING=1", "{args:?}");
        running.end().expect(0);
    }
    // Another process's watchdog, and a socket that is not there: it does its work all the same.
    fs::remove_file(file).expect("written before");
    let mut command = stage.command(services[1]);
    command
        .env("NOTIFY_SOCKET", "/no/such/socket")
        .env("WATCHDOG_USEC", "1")
        .env("WATCHDOG_PID", "1");
    let running = Running::new(command);
    until("the file is written", || Path::new(file).exists());
    running.signal(libc::SIGTERM);
    running.end().expect(0);
}
