//! The probes: that the program has those that the page tells of, and that bpftrace counts by them
//! what was done.

use super::stage::{Running, Stage, skip, until};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

const PROGRAM: &str = env!("CARGO_BIN_EXE_outlive");
const PAGE: &str = include_str!("../../../../doc/how-to/probes.md");

/// The probes of the page's table, and how many values each has.
fn documented() -> BTreeMap<String, usize> {
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| {
        let (name, rest) = row.split_once("` | ").expect("a name, then the values");
        let (values, _) = rest.split_once(" | ").expect("the values, then when");
        (name.to_owned(), values.split(", ").count())
    })
    .collect()
}

fn number<const N: usize>(file: &[u8], at: usize) -> usize {
    let mut bytes = [0; 8];
    bytes[..N].copy_from_slice(&file[at..at + N]);
    u64::from_le_bytes(bytes) as usize
}

fn text(file: &[u8], at: usize) -> &str {
    let end = file[at..].iter().position(|&byte| byte == 0).expect("a NUL");
    std::str::from_utf8(&file[at..at + end]).expect("text")
}

/// The probes in a file's notes: for each its name, how many values it has, and where it and its
/// semaphore are.
fn noted(path: &Path) -> Vec<(String, usize, usize, usize)> {
    let file = std::fs::read(path).expect("readable");
    assert_eq!(&file[..5], b"\x7fELF\x02", "a file of 64 bits");
    let (table, size, count) =
        (number::<8>(&file, 0x28), number::<2>(&file, 0x3a), number::<2>(&file, 0x3c));
    let section = |index: usize| table + index * size;
    let names = number::<8>(&file, section(number::<2>(&file, 0x3e)) + 0x18);
    let notes = (0..count)
        .map(section)
        .find(|&at| text(&file, names + number::<4>(&file, at)) == ".note.stapsdt")
        .expect("the section of the probes' notes");
    let (mut at, len) = (number::<8>(&file, notes + 0x18), number::<8>(&file, notes + 0x20));
    let end = at + len;
    let mut found = Vec::new();
    while at < end {
        let aligned = |len: usize| len.next_multiple_of(4);
        let (owner, what) = (number::<4>(&file, at), number::<4>(&file, at + 4));
        assert_eq!((number::<4>(&file, at + 8), text(&file, at + 12)), (3, "stapsdt"));
        let inside = at + 12 + aligned(owner);
        let provider = text(&file, inside + 24);
        let name = text(&file, inside + 24 + provider.len() + 1);
        let values = text(&file, inside + 24 + provider.len() + 1 + name.len() + 1);
        if provider == "outlive" {
            let values = values.split(' ').filter(|value| value.starts_with("8@")).count();
            let place = number::<8>(&file, inside);
            found.push((name.to_owned(), values, place, number::<8>(&file, inside + 16)));
        }
        at = inside + aligned(what);
    }
    found
}

#[test]
fn the_program_has_each_probe_of_the_page_once() {
    let noted = noted(Path::new(PROGRAM));
    for (name, _, place, semaphore) in &noted {
        assert!(*place != 0 && *semaphore != 0, "{name} is nowhere");
    }
    let mut places: Vec<usize> = noted.iter().map(|(_, _, place, _)| *place).collect();
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), noted.len(), "two probes in one place");
    let found: BTreeMap<String, usize> =
        noted.iter().map(|(name, values, ..)| (name.clone(), *values)).collect();
    assert_eq!(found.len(), noted.len(), "a probe twice");
    assert_eq!(found, documented());
}

/// Starts bpftrace with that script, and returns when it watches; `None`, with a line that says so,
/// where this machine has no bpftrace or does not let it watch.
fn bpftrace(script: &str) -> Option<(Running, Arc<Mutex<String>>)> {
    let version = Command::new("bpftrace").arg("--version").output();
    if !version.is_ok_and(|said| said.status.success()) {
        skip("the program bpftrace is not there");
        return None;
    }
    // It attaches them in some order; at both ends, a tick comes when all are. It ends by itself,
    // since it may not heed a signal.
    let script = format!(
        "interval:ms:200 {{ printf(\"first\\n\"); }} {} interval:ms:200 {{ printf(\"last\\n\"); }}
         interval:s:120 {{ exit(); }}",
        script.replace("$P", PROGRAM)
    );
    let mut command = Command::new("bpftrace");
    command.args(["-B", "line", "-e", &script]);
    command.stdin(std::process::Stdio::piped());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut running = Running::with_own_streams(command);
    let said = Arc::new(Mutex::new(String::new()));
    let out = running.child.stdout.take().expect("a pipe");
    let into = Arc::clone(&said);
    std::thread::spawn(move || {
        for line in std::io::BufRead::lines(std::io::BufReader::new(out)).map_while(Result::ok) {
            let mut said = into.lock().expect("not poisoned");
            said.push_str(&line);
            said.push('\n');
        }
    });
    let has = |word: &str| said.lock().expect("not poisoned").contains(word);
    until("bpftrace watches, or ends", || !running.is_running() || has("first\n") && has("last\n"));
    if !running.is_running() {
        skip(&format!("bpftrace may not watch: {}", running.end().err.trim()));
        return None;
    }
    Some((running, said))
}

#[test]
fn bpftrace_counts_what_was_done() {
    let stage = Stage::new();
    let Some((mut watching, said)) = bpftrace(
        "usdt:$P:outlive:queue_send /str(arg0) == \"probed\"/ { printf(\"sent %d %d\\n\", arg1, arg2); }
         usdt:$P:outlive:queue_receive /str(arg0) == \"probed\"/ { printf(\"received %d\\n\", arg1); }
         usdt:$P:outlive:lock_wait /str(arg0) == \"probed-lock\"/ { printf(\"waits for %d\\n\", arg2); }
         usdt:$P:outlive:lock_waited /str(arg0) == \"probed-lock\"/ { printf(\"waited %d\\n\", arg2); }
         usdt:$P:outlive:owner_died /str(arg0) == \"probed-lock\"/ { printf(\"died %d\\n\", arg2); }
         usdt:$P:outlive:semaphore_wait /str(arg0) == \"probed-seats\"/ { printf(\"permits %d\\n\", arg2); }
         usdt:$P:outlive:semaphore_waited /str(arg0) == \"probed-seats\"/ { printf(\"got %d\\n\", arg2); }
         usdt:$P:outlive:job_put /str(arg0) == \"probed-jobs\"/ { printf(\"job %d %d\\n\", arg1, arg2); }
         usdt:$P:outlive:job_take /str(arg0) == \"probed-jobs\"/ { printf(\"taken %d %d\\n\", arg1, arg2); }
         usdt:$P:outlive:job_left /str(arg0) == \"probed-jobs\"/ { printf(\"left %d %d\\n\", arg1, arg2); }",
    ) else {
        return;
    };
    let lines = |word: &str| {
        let said = said.lock().expect("not poisoned");
        said.lines().filter(|line| line.starts_with(word)).map(str::to_owned).collect::<Vec<_>>()
    };
    for message in ["one", "three", "seventh"] {
        stage.feed(&["send", "probed"], message.as_bytes()).expect(0);
    }
    stage.run(&["recv", "probed", "-n", "3"]).expect(0);
    until("bpftrace has told of each message", || lines("received").len() >= 3);
    assert_eq!(lines("sent"), ["sent 3 1", "sent 5 1", "sent 7 1"]);
    assert_eq!(lines("received"), ["received 3", "received 5", "received 7"]);

    stage.feed(&["job", "put", "probed-jobs"], b"one\nthree\n").expect(0);
    stage.run(&["job", "work", "probed-jobs", "--drain", "true"]).expect(0);
    until("bpftrace has told of the jobs that were done", || lines("left").len() >= 2);
    assert_eq!(lines("job"), ["job 0 3", "job 1 5"]);
    assert_eq!(lines("taken"), ["taken 0 1", "taken 1 1"]);
    assert_eq!(lines("left"), ["left 0 0", "left 1 0"]);

    // A holder of the only permit leaves while another process waits for one.
    let seat = ["semaphore", "run", "--permits", "1", "probed-seats", "cat"];
    let first = stage.start(&seat);
    let holders = |entry: serde_json::Value| entry["holders"].as_array().map_or(0, Vec::len);
    until("it has the permit", || stage.entry("probed-seats").map_or(0, holders) == 1);
    let second = stage.start(&seat);
    until("bpftrace has told of the wait for a permit", || !lines("permits").is_empty());
    drop((first.end().expect(0), second.end().expect(0)));
    until("bpftrace has told of the permit", || !lines("got").is_empty());
    assert_eq!(lines("permits"), ["permits 1"]);
    assert_eq!(lines("got"), ["got 0"]);

    // The holder is killed while another process waits.
    let marker = stage.path("held");
    let hold = format!("echo $$ >{0}.new; mv {0}.new {0}; exec sleep 60", marker.display());
    let mut holder = stage.start(&["lock", "probed-lock", "sh", "-c", &hold]);
    until("it holds the lock", || marker.exists());
    let waiter = stage.start(&["lock", "probed-lock", "true"]);
    until("bpftrace has told of the wait", || !lines("waits").is_empty());
    let pid = holder.pid();
    holder.kill();
    waiter.end();
    until("bpftrace has told of the death", || !lines("died").is_empty());
    assert_eq!(lines("waits"), [format!("waits for {pid}")]);
    assert_eq!(lines("waited"), ["waited 1"]);
    assert_eq!(lines("died"), [format!("died {pid}")]);
    assert!(!holder.is_running());
    let left = std::fs::read_to_string(&marker).expect("the command's pid");
    // SAFETY: no memory is touched; the pid is of the command that this test had started.
    unsafe { libc::kill(left.trim().parse().expect("a pid"), libc::SIGKILL) };
    watching.signal(libc::SIGKILL);
    until("bpftrace has ended", || !watching.is_running());
}
