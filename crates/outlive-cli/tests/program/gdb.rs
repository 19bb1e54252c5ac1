//! gdb's view of what a process has open, by crates/outlive-c/share/outlive-gdb.py: of a process that
//! runs, of a core file, of damaged memory.

use super::stage::{Running, Stage, skip, until};
use outlive::pool::Pool;
use outlive::sync::{Mutex, PiMutex, ReentrantMutex, RwLock};
use std::fs;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../outlive-c/share/outlive-gdb.py");
/// Where a lock's word lies in its file.
const WORD: u64 = 12288;

/// Returns whether gdb is there, with Python; if not, says that the test skips itself.
fn has_gdb() -> bool {
    let asked = Command::new("gdb").args(["-nx", "-batch", "-ex", "python print(6 * 7)"]).output();
    let has = asked.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).contains("42"));
    if !has {
        skip("the program gdb, with Python, is not there");
    }
    has
}

/// What gdb says to these commands, once it has the process or the core file.
fn gdb(target: &str, commands: &[&str]) -> String {
    let mut command = Command::new("gdb");
    command.args(["-nx", "-batch", "-ex", "set debuginfod enabled off", "-ex", target, "-ex"]);
    command.arg(format!("source {SCRIPT}"));
    for each in commands {
        command.args(["-ex", each]);
    }
    let ended = Running::new(command).end();
    format!("{}{}", ended.text(), ended.err)
}

#[track_caller]
fn has(said: &str, what: &str) {
    assert!(said.contains(what), "'{what}' is not in:\n{said}");
}

/// A lock that one process holds and another waits for.
struct Contended {
    holder: Running,
    waiter: Running,
    /// What the holder runs.
    inside: libc::pid_t,
}

impl Contended {
    fn new(stage: &Stage, waiter: Command) -> Contended {
        let marker = stage.path("inside");
        let hold = format!("echo $$ >{0}.new; mv {0}.new {0}; exec sleep 600", marker.display());
        let holder = stage.start(&["lock", "arm", "sh", "-c", &hold]);
        until("the lock is held", || marker.exists());
        let inside = fs::read_to_string(&marker).expect("a pid").trim().parse().expect("a pid");
        let waiter = Running::new(waiter);
        let at = stage.domain().join("arm");
        until("the other process waits", || {
            let mut word = [0; 4];
            fs::File::open(&at).and_then(|file| file.read_exact_at(&mut word, WORD)).expect("read");
            u32::from_le_bytes(word) >> 31 == 1
        });
        Contended { holder, waiter, inside }
    }

    /// How gdb names the holder's only thread.
    fn held(&self) -> String {
        format!("held by thread {0} of process {0} (outlive)", self.holder.pid())
    }
}

impl Drop for Contended {
    fn drop(&mut self) {
        // SAFETY: no memory is touched; the pid is of the command that this test had started.
        unsafe { libc::kill(self.inside, libc::SIGKILL) };
    }
}

#[test]
fn the_script_knows_the_layout_that_this_version_writes() {
    let stage = Stage::new();
    stage.feed(&["send", "orders"], b"one").expect(0);
    let made = fs::read(stage.domain().join("orders")).expect("the queue's file");
    let version = u32::from_le_bytes(made[8..12].try_into().expect("four bytes"));
    let script = fs::read_to_string(SCRIPT).expect("the script");
    has(&script, &format!("\nLAYOUT = {version}\n"));
}

#[test]
fn gdb_shows_what_a_running_process_has_open() {
    if !has_gdb() {
        return;
    }
    let stage = Stage::new();
    let contended = Contended::new(&stage, stage.command(["lock", "arm", "true"]));
    let pid = contended.waiter.pid();
    let said = gdb(&format!("attach {pid}"), &["outlive locks", "outlive tokens", "detach"]);
    has(&said, &format!("arm: rwlock, {}\n", contended.held()));
    has(&said, &format!("    waits: thread {pid} of process {pid} (outlive)\n"));
    has(&said, &format!("thread {pid} of process {pid} (outlive), waits in arm +{WORD}\n"));

    let mut sender = stage.start(&["send", "orders"]);
    for (sent, message) in ["one\n", "two\n", "three\n"].iter().enumerate() {
        sender.write(message.as_bytes());
        until("the message is in the queue", || has_messages(&stage, sent as u64 + 1));
    }
    let said = gdb(&format!("attach {}", sender.pid()), &["outlive queues", "detach"]);
    has(&said, "orders: 3 messages, receiver: none; received 0, abandoned 0\n");

    let echo = stage.start(&["topic", "echo", "scan"]);
    let mut publisher = stage.start(&["pub", "scan"]);
    let info = |what: &str| {
        let said = stage.run(&["topic", "info", "scan"]);
        said.code() == 0 && said.text().contains(what)
    };
    until("it subscribes", || info(&echo.pid().to_string()));
    publisher.write(b"a\nb\n");
    let mut said = String::new();
    until("both messages are published", || {
        said = gdb(&format!("attach {}", publisher.pid()), &["outlive topics", "detach"]);
        said.contains("published 2\n") && said.contains(", 0 behind")
    });
    has(&said, "scan: depth ");
    has(
        &said,
        &format!(
            "    publisher 0: process {} (outlive); session 1, published 2\n",
            publisher.pid()
        ),
    );
    has(
        &said,
        &format!(
            "    subscriber 0: process {} (outlive); subscribed, 0 behind, lost 0\n",
            echo.pid()
        ),
    );
}

/// This very process, which one gdb at a time stops for a moment.
static THIS_PROCESS: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// Returns what gdb says of this process.
fn of_this_process(commands: &[&str]) -> String {
    let _one = THIS_PROCESS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let all: Vec<&str> = commands.iter().copied().chain(["detach"]).collect();
    gdb(&format!("attach {}", std::process::id()), &all)
}

/// Locks of each kind, one of them in a record, and a pool.
#[test]
fn gdb_shows_locks_of_each_kind_and_pools() {
    if !has_gdb() {
        return;
    }
    let stage = Stage::new();
    let domain = outlive::Domain::open_or_create_at(stage.domain()).expect("opens");
    let plain = Mutex::<u64>::options(0).open_or_create(&domain, "plain").expect("made");
    let again = ReentrantMutex::<u64>::options(0).open_or_create(&domain, "again").expect("made");
    let pi = PiMutex::<u64>::options(0).open_or_create(&domain, "pi").expect("made");
    let read = RwLock::<u64>::options(0).open_or_create(&domain, "read").expect("made");
    let pool = Pool::open_or_create(&domain, "frames").expect("made");
    let _kept = pool.alloc(100).expect("memory");
    let _held = (plain.lock().expect("free"), again.lock().expect("free"));
    let _held_too = (pi.lock().expect("free"), read.read().expect("free"));
    let pid = std::process::id();
    let said = of_this_process(&["outlive locks", "outlive pools"]);
    let me = outlive::Domain::token(&domain).expect("this thread's");
    let tid = domain.peer(me).info().expect("known").tid;
    for lock in ["plain: mutex", "again: reentrant mutex", "pi: pi mutex"] {
        has(&said, &format!("\n{lock}, held by thread {tid} of process {pid} ("));
    }
    has(&said, "\nread: rwlock, free\n");
    has(&said, &format!("    read by thread {tid} of process {pid} ("));
    has(
        &said,
        "spans of 2 MiB: 1 of classes, 0 of long objects, 0 being taken; 0 failed allocations\n",
    );
}

#[test]
fn gdb_shows_the_place_that_is_kept_for_a_dead_recorder() {
    if !has_gdb() {
        return;
    }
    let stage = Stage::new();
    let domain = outlive::Domain::open_or_create_at(stage.domain()).expect("opens");
    let topic = outlive::topic::Topic::<[u8]>::options().depth(2).reliable(true);
    let topic = topic.open_or_create(&domain, "scan").expect("made");
    let options = outlive::topic::Subscriber::options().reliable(true);
    let options = options.kept("record:night", std::time::Duration::from_secs(90));
    topic.subscriber_with(options).expect("a place").abandon();
    let publisher = topic.publisher().expect("a ring");
    let show = || of_this_process(&["outlive topics"]);
    let place = "    subscriber 0 'record:night': no process; reliable, ";
    has(&show(), &format!("{place}0 behind, lost 0; its place is kept, patience 90 s\n"));
    while publisher.try_publish(b"x").is_ok() {}
    has(
        &show(),
        &format!("{place}2 behind, lost 0; its place is kept, patience 90 s, which began "),
    );
}

/// Whether the queue `orders` has so many messages, by the place of its first region's tail.
fn has_messages(stage: &Stage, count: u64) -> bool {
    let mut tail = [0; 8];
    let file = fs::File::open(stage.domain().join("orders"));
    file.and_then(|file| file.read_exact_at(&mut tail, 12928)).is_ok()
        && u64::from_le_bytes(tail) == count
}

#[test]
fn gdb_shows_what_a_killed_process_had_open_by_its_core_file() {
    if !has_gdb() {
        return;
    }
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    if pattern.trim().contains(['|', '/', '%']) {
        return skip(&format!("core files go to {}", pattern.trim()));
    }
    let stage = Stage::new();
    let folder = stage.path("core-files");
    fs::create_dir(&folder).expect("a folder");
    let mut waiter = stage.command(["lock", "arm", "true"]);
    waiter.current_dir(&folder);
    // SAFETY: both calls are async-signal-safe and allocate nothing.
    unsafe {
        waiter.pre_exec(|| {
            let all = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
            libc::setrlimit(libc::RLIMIT_CORE, &raw const all);
            Ok(())
        });
    }
    let mut contended = Contended::new(&stage, waiter);
    let pid = contended.waiter.pid();
    fs::write(format!("/proc/{pid}/coredump_filter"), "0x3b").expect("its own to set");
    contended.waiter.signal(libc::SIGABRT);
    until("it has ended", || !contended.waiter.is_running());
    let found = fs::read_dir(&folder).expect("readable").next();
    let Some(core) = found.map(|entry| entry.expect("readable").path()) else {
        return skip("this machine writes no core files");
    };
    let held = contended.held();
    // What the files say by now is no longer what they said then.
    drop(contended);
    fs::remove_dir_all(stage.domain()).expect("removed");
    let said = gdb(&format!("core {}", core.display()), &["outlive locks", "outlive tokens"]);
    has(&said, &format!("arm: rwlock, {held}\n"));
    has(&said, &format!("    waits: thread {pid} of process {pid} (outlive)\n"));
}

#[test]
fn gdb_tells_damage_and_refuses_another_layout() {
    if !has_gdb() {
        return;
    }
    let stage = Stage::new();
    let contended = Contended::new(&stage, stage.command(["lock", "arm", "true"]));
    // The waiter would take the lock from an owner that does not exist.
    contended.waiter.signal(libc::SIGSTOP);
    let attach = format!("attach {}", contended.holder.pid());
    let write = |name: &str, at: u64, bytes: &[u8]| {
        let file = fs::OpenOptions::new().write(true).open(stage.domain().join(name));
        file.and_then(|file| file.write_all_at(bytes, at)).expect("written");
    };
    write("arm", WORD + 4, &9u32.to_le_bytes());
    has(&gdb(&attach, &["outlive locks", "detach"]), ", damaged state\n");
    // A token that does not exist; the bit of sleepers, as before.
    write("arm", WORD, &0xa000_ffff_u32.to_le_bytes());
    let said = gdb(&attach, &["outlive locks", "detach"]);
    has(&said, "arm: rwlock, held by damaged: 0xa000ffff names a token that does not exist");
    write("arm", 8, &99u32.to_le_bytes());
    let said = gdb(&attach, &["outlive locks", "detach"]);
    has(&said, "has memory layout 99 (architecture 0x800); this outlive-gdb.py knows layout ");
}
