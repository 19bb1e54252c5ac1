//! The system calls of tracing: step, look, wait, kill. Everything unsafe about ptrace is in this
//! file.
//!
//! A step over a system call is one step. Such a step may sleep for as long as the call does, so it
//! is awaited with a timer that interrupts the wait and lets the caller look whether the victim
//! sleeps in the kernel.
//!
//! x86-64 and aarch64. On aarch64 a load-exclusive / store-exclusive loop never ends under single
//! steps: build with `-C target-feature=+lse` there.

use std::fs;
use std::io;
use std::time::{Duration, Instant};

use libc::{c_int, c_long, c_void, pid_t};

/// What became of the victim in one wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It is stopped; the signal is what stopped it (SIGTRAP after a step).
    Stopped(c_int),
    /// It has ended by itself, with this code.
    Exited(c_int),
    /// A signal ended it.
    Killed(c_int),
    /// The time allowed for this wait was over first.
    Nothing,
}

/// How often a wait with a limit wakes up to look at the clock.
const LOOK_EVERY: Duration = Duration::from_millis(1);

extern "C" fn only_interrupt(_signal: c_int) {}

/// Sets up the timer signal that cuts waits short. Once per process, before the first wait with a
/// limit.
pub fn arm_interrupts() {
    // SAFETY: a zeroed sigaction is a valid one; the handler does nothing and so is
    // async-signal-safe; without SA_RESTART, which is the point.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = only_interrupt as extern "C" fn(c_int) as usize;
        libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut());
    }
}

fn set_timer(every: Duration) {
    let period = libc::timeval { tv_sec: 0, tv_usec: every.as_micros() as libc::suseconds_t };
    let timer = libc::itimerval { it_interval: period, it_value: period };
    // SAFETY: a valid timer value, no old value asked for.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()) };
}

fn decode(status: c_int) -> Event {
    if libc::WIFSTOPPED(status) {
        Event::Stopped(libc::WSTOPSIG(status))
    } else if libc::WIFEXITED(status) {
        Event::Exited(libc::WEXITSTATUS(status))
    } else {
        Event::Killed(libc::WTERMSIG(status))
    }
}

/// Waits for `tid` (a thread or a process) to stop or end, as long as it takes.
///
/// # Errors
/// What waitpid reports, `ECHILD` for a stranger.
pub fn wait(tid: pid_t) -> io::Result<Event> {
    loop {
        let mut status = 0;
        // SAFETY: status is a valid place for the result.
        let got = unsafe { libc::waitpid(tid, &mut status, libc::__WALL) };
        if got == tid {
            return Ok(decode(status));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Waits for `tid` until `enough`, asked every millisecond or so, says true; then the answer is
/// [`Event::Nothing`].
///
/// # Errors
/// As [`wait`].
pub fn wait_unless(tid: pid_t, mut enough: impl FnMut() -> bool) -> io::Result<Event> {
    set_timer(LOOK_EVERY);
    let event = loop {
        let mut status = 0;
        // SAFETY: status is a valid place for the result.
        let got = unsafe { libc::waitpid(tid, &mut status, libc::__WALL) };
        if got == tid {
            break Ok(decode(status));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            break Err(error);
        }
        if enough() {
            break Ok(Event::Nothing);
        }
    };
    set_timer(Duration::ZERO);
    event
}

/// As [`wait_unless`], with an instant at which to give up.
///
/// # Errors
/// As [`wait`].
pub fn wait_until(tid: pid_t, deadline: Instant) -> io::Result<Event> {
    wait_unless(tid, || Instant::now() >= deadline)
}

/// One look without waiting.
///
/// # Errors
/// As [`wait`].
pub fn look(tid: pid_t) -> io::Result<Event> {
    let mut status = 0;
    // SAFETY: status is a valid place for the result.
    match unsafe { libc::waitpid(tid, &mut status, libc::__WALL | libc::WNOHANG) } {
        0 => Ok(Event::Nothing),
        got if got == tid => Ok(decode(status)),
        _ => Err(io::Error::last_os_error()),
    }
}

fn ptrace(request: libc::c_uint, tid: pid_t, address: usize, data: usize) -> io::Result<c_long> {
    // SAFETY: the requests of this file pass either numbers or pointers to places that outlive the
    // call.
    let got = unsafe { libc::ptrace(request, tid, address as *mut c_void, data as *mut c_void) };
    if got == -1 { Err(io::Error::last_os_error()) } else { Ok(got) }
}

/// In the victim: lets the parent trace the calling thread, then stops it. Returns when the parent
/// moves it on.
pub fn offer_to_parent() {
    // SAFETY: no memory is passed; raise stops the calling thread until its tracer moves it on.
    unsafe {
        libc::ptrace(
            libc::PTRACE_TRACEME,
            0,
            std::ptr::null_mut::<c_void>(),
            std::ptr::null_mut::<c_void>(),
        );
        libc::raise(libc::SIGSTOP);
    }
}

/// The victim dies with its tracer.
///
/// # Errors
/// What ptrace reports.
pub fn tie_to_tracer(tid: pid_t) -> io::Result<()> {
    ptrace(libc::PTRACE_SETOPTIONS, tid, 0, libc::PTRACE_O_EXITKILL as usize).map(drop)
}

/// Lets the stopped victim execute one instruction, with a signal to deliver on the way (0: none).
///
/// # Errors
/// What ptrace reports, `ESRCH` when the victim does not stand still.
pub fn single_step(tid: pid_t, signal: c_int) -> io::Result<()> {
    ptrace(libc::PTRACE_SINGLESTEP, tid, 0, signal as usize).map(drop)
}

/// How many instructions [`run_on`] can be asked to stop at.
pub const BREAKPOINTS: usize = 2;

/// Has the processor stop the victim's thread before it executes the instruction at any of these
/// addresses. In the debug registers, so that neither its memory nor its other threads are touched.
/// Returns false where the machine has none to give: then the only way on is by single steps.
#[cfg(target_arch = "x86_64")]
#[must_use]
pub fn set_breakpoints(tid: pid_t, addresses: [u64; BREAKPOINTS]) -> bool {
    const REGISTERS: usize = std::mem::offset_of!(libc::user, u_debugreg);
    const CONTROL: usize = 7;
    // Two bits each: locally enabled, never globally; kind and length 0: on execution.
    let enabled: usize = (0..BREAKPOINTS).map(|number| 1 << (2 * number)).sum();
    let set = |register: usize, value: usize| {
        ptrace(libc::PTRACE_POKEUSER, tid, REGISTERS + 8 * register, value)
    };
    set(CONTROL, 0).is_ok()
        && addresses
            .iter()
            .enumerate()
            .all(|(number, &address)| set(number, address as usize).is_ok())
        && set(CONTROL, enabled).is_ok()
}

/// Not written for this architecture.
#[cfg(not(target_arch = "x86_64"))]
#[must_use]
pub fn set_breakpoints(_tid: pid_t, _addresses: [u64; BREAKPOINTS]) -> bool {
    false
}

/// Lets the stopped victim run until something stops it, with a signal to deliver on the way (0:
/// none).
///
/// # Errors
/// What ptrace reports, `ESRCH` when the victim does not stand still.
pub fn run_on(tid: pid_t, signal: c_int) -> io::Result<()> {
    ptrace(libc::PTRACE_CONT, tid, 0, signal as usize).map(drop)
}

const NT_PRSTATUS: usize = 1;

fn registers(tid: pid_t) -> io::Result<libc::user_regs_struct> {
    // SAFETY: plain numbers; all zero is valid.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    let mut place =
        libc::iovec { iov_base: (&raw mut registers).cast(), iov_len: size_of_val(&registers) };
    ptrace(libc::PTRACE_GETREGSET, tid, NT_PRSTATUS, (&raw mut place) as usize)?;
    Ok(registers)
}

/// Where the stopped victim is: the address of its next instruction.
///
/// # Errors
/// What ptrace reports.
pub fn instruction_pointer(tid: pid_t) -> io::Result<u64> {
    let registers = registers(tid)?;
    #[cfg(target_arch = "x86_64")]
    return Ok(registers.rip);
    #[cfg(target_arch = "aarch64")]
    return Ok(registers.pc);
}

/// Returns the system call that the victim is about to make.
///
/// # Errors
/// What ptrace reports.
pub fn call_number(tid: pid_t) -> io::Result<c_long> {
    let registers = registers(tid)?;
    #[cfg(target_arch = "x86_64")]
    return Ok(registers.rax as c_long);
    #[cfg(target_arch = "aarch64")]
    return Ok(registers.regs[8] as c_long);
}

/// The same with its first two arguments and the newest word on its stack.
///
/// # Errors
/// What ptrace reports.
pub fn call(tid: pid_t) -> io::Result<(c_long, [u64; 2], u64)> {
    let registers = registers(tid)?;
    #[cfg(target_arch = "x86_64")]
    let (arguments, stack) = ([registers.rdi, registers.rsi], registers.rsp);
    #[cfg(target_arch = "aarch64")]
    let (arguments, stack) = ([registers.regs[0], registers.regs[1]], registers.sp);
    let caller = read_words::<1>(tid, stack).map_or(0, |[word]| word);
    Ok((call_number(tid)?, arguments, caller))
}

/// Fails the system call that the victim is about to make: the victim is behind it then, and the
/// kernel has not carried it out.
///
/// # Errors
/// What ptrace reports.
pub fn fail_call(tid: pid_t, errno: c_int) -> io::Result<()> {
    let mut registers = registers(tid)?;
    #[cfg(target_arch = "x86_64")]
    {
        // As the processor leaves them: where to return to, and the flags.
        registers.rip += 2;
        registers.rcx = registers.rip;
        registers.r11 = registers.eflags;
        registers.rax = i64::from(-errno) as u64;
    }
    #[cfg(target_arch = "aarch64")]
    {
        registers.pc += 4;
        registers.regs[0] = i64::from(-errno) as u64;
    }
    let mut place =
        libc::iovec { iov_base: (&raw mut registers).cast(), iov_len: size_of_val(&registers) };
    ptrace(libc::PTRACE_SETREGSET, tid, NT_PRSTATUS, (&raw mut place) as usize).map(drop)
}

/// Copies the victim's memory at that address.
fn copy_bytes(pid: pid_t, address: usize, bytes: &mut [u8]) -> io::Result<()> {
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: address as *mut c_void, iov_len: bytes.len() };
    // SAFETY: the local place is as long as said; the remote one is checked by the kernel.
    let copied = unsafe { libc::process_vm_readv(pid, &local, 1, &remote, 1, 0) };
    if copied == bytes.len() as isize { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns whether the instruction at `address` enters the kernel.
///
/// # Errors
/// What ptrace reports for an unreadable address.
pub fn is_system_call(tid: pid_t, address: u64) -> io::Result<bool> {
    // SAFETY: glibc's wrapper tells an error from a word of -1 by errno alone, so errno is cleared
    // first.
    let word = unsafe {
        *libc::__errno_location() = 0;
        let word = libc::ptrace(
            libc::PTRACE_PEEKTEXT,
            tid,
            address as *mut c_void,
            std::ptr::null_mut::<c_void>(),
        );
        if word == -1 && *libc::__errno_location() != 0 {
            return Err(io::Error::last_os_error());
        }
        word as u64
    };
    #[cfg(target_arch = "x86_64")]
    return Ok(word & 0xffff == 0x050f);
    #[cfg(target_arch = "aarch64")]
    return Ok(word & 0xffff_ffff == 0xd400_0001);
}

/// The part of the victim's robust list that decides what the kernel does at its death.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RobustHead {
    /// Address of the newest entry, or of the head itself.
    pub newest: u64,
    /// The entry after that one.
    pub second: u64,
    /// The entry being taken or given up.
    pub pending: u64,
}

fn read_words<const COUNT: usize>(pid: pid_t, address: u64) -> io::Result<[u64; COUNT]> {
    let mut words = [[0_u8; 8]; COUNT];
    copy_bytes(pid, address as usize, words.as_flattened_mut())?;
    Ok(words.map(u64::from_ne_bytes))
}

/// Reads the victim's robust list head.
///
/// # Errors
/// What get_robust_list or reading the victim's memory reports.
pub fn robust_head(tid: pid_t) -> io::Result<RobustHead> {
    let (mut head, mut length) = (0_u64, 0_usize);
    // SAFETY: both results have a place.
    if unsafe { libc::syscall(libc::SYS_get_robust_list, tid, &mut head, &mut length) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if head == 0 {
        return Ok(RobustHead::default());
    }
    let [newest, _offset, pending] = read_words::<3>(tid, head)?;
    // The lowest bit of an entry marks a priority-inheriting mutex.
    let second = if newest & !1 == head {
        head
    } else {
        read_words::<1>(tid, newest & !1).map_or(0, |[next]| next)
    };
    Ok(RobustHead { newest, second, pending })
}

/// The letter of the thread's state in /proc (`S` asleep, `R` running, `t` traced), if it is there.
#[must_use]
pub fn state_letter(pid: pid_t, tid: pid_t) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    // The program's name is in brackets before it and may itself hold brackets and spaces.
    stat[stat.rfind(')')? + 1..].trim_start().chars().next()
}

/// The system call in which a process sleeps, if it does.
#[must_use]
pub fn sleeping_in(pid: pid_t) -> Option<c_long> {
    if state_letter(pid, pid)? != 'S' {
        return None;
    }
    let call = fs::read_to_string(format!("/proc/{pid}/syscall")).ok()?;
    call.split(' ').next()?.parse().ok()
}

/// Sends SIGSTOP to a thread of a victim.
///
/// # Errors
/// What tgkill reports.
pub fn signal_stop(pid: pid_t, tid: pid_t) -> io::Result<()> {
    // SAFETY: numbers alone. The thread is traced by us and not yet reaped, so its number cannot
    // have been reused.
    match unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, libc::SIGSTOP) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// SIGKILLs a process of ours.
pub fn kill(pid: pid_t) {
    // SAFETY: no memory is passed. The pid is of a child not yet reaped, so it cannot have been
    // reused.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}
