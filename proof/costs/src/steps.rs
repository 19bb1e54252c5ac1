//! The instructions of a child, one by one.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Instructions, and the system calls among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// All that the child's only thread executed in user space.
    pub instructions: u64,
    /// Those of them that call the kernel.
    pub calls: u64,
}

/// Starts a program of one thread that stops itself twice (`raise(SIGSTOP)`), and counts what it executes
/// between the stops; then it runs to its end. The calls include that of the second stop.
///
/// `None`: a process may not be traced here.
///
/// # Panics
/// If the program cannot be started, or ends before its second stop.
#[must_use]
pub fn count(mut command: Command) -> Option<Counted> {
    // SAFETY: the closure makes system calls alone, between `fork` and `exec`.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            match ptrace(libc::PTRACE_TRACEME, 0) {
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
    assert_eq!(next_stop(pid), libc::SIGTRAP, "its exec");
    loop {
        ptrace(libc::PTRACE_CONT, pid);
        if next_stop(pid) == libc::SIGSTOP {
            break;
        }
    }
    let mut counted = Counted { instructions: 0, calls: 0 };
    loop {
        counted.calls += u64::from(calls_next(pid));
        ptrace(libc::PTRACE_SINGLESTEP, pid);
        if next_stop(pid) == libc::SIGSTOP {
            break;
        }
        counted.instructions += 1;
    }
    ptrace(libc::PTRACE_CONT, pid);
    child.wait().expect("ends");
    Some(counted)
}

fn ptrace(request: libc::c_uint, pid: i32) -> libc::c_long {
    let none = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: none of the requests that are made here reads or writes memory of this process.
    unsafe { libc::ptrace(request, pid, none, none) }
}

/// Returns the next signal that stops the child.
fn next_stop(pid: i32) -> i32 {
    let mut status = 0;
    // SAFETY: status is a place for an int, and the child this process's own.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert!(libc::WIFSTOPPED(status), "the program has ended: {status:x}");
    libc::WSTOPSIG(status)
}

/// Returns whether the instruction that comes next is a system call.
fn calls_next(pid: i32) -> bool {
    // SAFETY: all zeroes are valid registers, which the kernel fills.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    let mut place =
        libc::iovec { iov_base: (&raw mut registers).cast(), iov_len: size_of_val(&registers) };
    let kind: *mut libc::c_void = std::ptr::without_provenance_mut(libc::NT_PRSTATUS as usize);
    // SAFETY: the kernel writes the registers to their place, and no more than that.
    let got = unsafe { libc::ptrace(libc::PTRACE_GETREGSET, pid, kind, &raw mut place) };
    assert_eq!(got, 0);
    let none = std::ptr::null_mut::<libc::c_void>();
    let at = instruction_of(&registers) as *mut libc::c_void;
    // SAFETY: it reads the child's memory, not this process's.
    is_call(unsafe { libc::ptrace(libc::PTRACE_PEEKTEXT, pid, at, none) })
}

#[cfg(target_arch = "x86_64")]
fn instruction_of(registers: &libc::user_regs_struct) -> u64 {
    registers.rip
}

/// `syscall`
#[cfg(target_arch = "x86_64")]
fn is_call(word: libc::c_long) -> bool {
    word & 0xffff == 0x050f
}

#[cfg(target_arch = "aarch64")]
fn instruction_of(registers: &libc::user_regs_struct) -> u64 {
    registers.pc
}

/// `svc #0`
#[cfg(target_arch = "aarch64")]
fn is_call(word: libc::c_long) -> bool {
    word & 0xffff_ffff == 0xd400_0001
}
