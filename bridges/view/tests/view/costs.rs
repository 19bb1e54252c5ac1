//! What clients cost a publisher: nothing. Its instructions are counted one by one, by a tracer.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use outlive::topic::Topic;
use outlive_testnet::{eventually, skip};

use crate::support::{LONG, Shown};

/// As many messages.
const COUNT: u64 = 60;

/// Instructions, and the system calls among them.
#[derive(Debug, PartialEq, Eq)]
struct Counted {
    instructions: u64,
    calls: u64,
}

fn ptrace(request: libc::c_uint, pid: i32, data: libc::c_long) -> libc::c_long {
    let none = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: none of the requests that are made here reads or writes memory of this process.
    unsafe { libc::ptrace(request, pid, none, data) }
}

/// Returns the next signal that stops the child.
fn wait_stopped(pid: i32) -> i32 {
    let mut status = 0;
    // SAFETY: status is a place for an int, and the child this process's own.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert!(libc::WIFSTOPPED(status), "the publisher has ended: {status:x}");
    libc::WSTOPSIG(status)
}

/// Whether the instruction that comes next is a system call.
fn is_call(pid: i32) -> bool {
    // SAFETY: all zeroes are valid registers, which the kernel fills.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    let place = (&raw mut registers).cast::<libc::c_void>();
    // SAFETY: the kernel writes the registers to their place.
    let got = unsafe {
        libc::ptrace(libc::PTRACE_GETREGS, pid, std::ptr::null_mut::<libc::c_void>(), place)
    };
    assert_eq!(got, 0);
    let place = registers.rip as *mut libc::c_void;
    let none = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: it reads the child's memory, not this process's.
    let word = unsafe { libc::ptrace(libc::PTRACE_PEEKTEXT, pid, place, none) };
    word & 0xffff == 0x050f
}

/// Counts the instructions of a publisher's messages; `None` where a process may not be traced.
fn counted(domain: &Path) -> Option<Counted> {
    let view = Path::new(env!("CARGO_BIN_EXE_outlive-view"));
    let mut command = Command::new(view.with_file_name("examples").join("stepped"));
    command.arg(domain).args(["steps", &COUNT.to_string(), "64"]).stdin(Stdio::null());
    // SAFETY: the closure makes system calls alone, between `fork` and `exec`.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            match ptrace(libc::PTRACE_TRACEME, 0, 0) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
    let mut child = match command.spawn() {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return None,
        child => child.expect("starts"),
    };
    let pid = child.id() as i32;
    assert_eq!(wait_stopped(pid), libc::SIGTRAP, "its exec");
    while wait_stopped({
        ptrace(libc::PTRACE_CONT, pid, 0);
        pid
    }) != libc::SIGSTOP
    {}
    let mut counted = Counted { instructions: 0, calls: 0 };
    loop {
        counted.calls += u64::from(is_call(pid));
        ptrace(libc::PTRACE_SINGLESTEP, pid, 0);
        if wait_stopped(pid) == libc::SIGSTOP {
            break;
        }
        counted.instructions += 1;
    }
    ptrace(libc::PTRACE_CONT, pid, 0);
    child.wait().expect("ends");
    Some(counted)
}

#[test]
fn three_clients_cost_a_publisher_nothing() {
    let shown = Shown::start("costs", &[]);
    let topic = Topic::<[u8]>::open_or_create(&shown.domain, "steps").expect("made");
    let domain = shown.folder.join("domain");
    let Some(alone) = counted(&domain) else {
        skip("three_clients_cost_a_publisher_nothing", "a process may not be traced here");
        return;
    };
    let mut clients: Vec<_> = (0..3).map(|_| shown.client()).collect();
    let subscriptions: Vec<u32> = clients.iter_mut().map(|one| one.subscribe("steps")).collect();
    assert!(eventually(LONG, || topic.subscribers().len() == 1));
    let seen = counted(&domain).expect("as before");
    for (client, subscription) in clients.iter_mut().zip(subscriptions) {
        client.message(subscription);
    }
    println!("{COUNT} messages: alone {alone:?}; with three clients {seen:?}");
    // What it would cost if the reader slept.
    let mut sleeper = topic.subscriber().expect("joins");
    let sleeper =
        std::thread::spawn(
            move || while sleeper.recv_timeout(LONG / 6).is_ok_and(|one| one.is_some()) {},
        );
    let woken = counted(&domain).expect("as before");
    println!("with a subscriber that sleeps {woken:?}");
    assert!(woken.calls > alone.calls, "nothing was woken: the counts say nothing");
    drop(sleeper);
    // The calls are those of the stop itself.
    assert_eq!(seen.calls, alone.calls, "{alone:?}, {seen:?}");
    // While the reader copies a message, its publisher takes another place for the next one: a few
    // instructions, once in a while.
    assert!(
        seen.instructions <= alone.instructions + alone.instructions / 10,
        "{alone:?}, {seen:?}"
    );
}
