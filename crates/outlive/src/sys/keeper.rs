//! The keeper: a sleeping thread without libc that holds one robust word for as long as its process lives.
//!
//! The process token must read alive until the *process* ends, but a robust word belongs to a *thread*. The main
//! thread's will do while it is there. Where the first user is another thread, or when main leaves early by
//! `pthread_exit`, a keeper holds the word. A pthread would not do: a process whose main thread has left ends with its
//! last pthread, and a pthread runs destructors and handlers. So this is a bare `clone`:
//! it shares the creator's thread pointer and must therefore never touch libc (errno, stack protector, TLS); it makes
//! three system calls by hand and sleeps in the third until `exit_group`, `execve` or a fatal signal ends it, which is
//! when the kernel walks its robust list and marks the word.
//!
//! | dies here | seen by others |
//! | --- | --- |
//! | before the word is taken | word as before: the process has no token yet |
//! | taken, not yet linked | `list_op_pending` points to it: marked all the same |
//! | linked | marked by the walk |

use core::ffi::{c_int, c_void};
use std::ptr::NonNull;

use super::robust::ListHead;
use super::{Errno, map};
use crate::shim::{AtomicU32, Ordering};

const STACK: usize = 16 * 1024;
const FUTEX_WAITERS: u32 = 0x8000_0000;

/// What creator and keeper share; lies at the low end of the keeper's stack, and is never freed.
#[repr(C)]
struct Control {
    head: ListHead,
    /// The one robust-list entry: the address of the next, which is the head.
    entry: *mut u8,
    word: *const AtomicU32,
    /// 0 until the word is held; the creator sleeps on it.
    holds: AtomicU32,
    /// Always 0; the keeper sleeps on it.
    forever: AtomicU32,
}

/// Starts a keeper that holds `word`, and returns when it does.
///
/// # Safety
/// `word` stays mapped until the process ends.
pub(crate) unsafe fn start(word: &AtomicU32) -> Result<(), Errno> {
    let memory: NonNull<u8> = map::anonymous(STACK)?;
    let control: *mut Control = memory.as_ptr().cast();
    // SAFETY: fresh zeroed memory, large enough and page-aligned, known to nobody else yet.
    unsafe {
        (*control).word = word;
        (*control).entry = (&raw mut (*control).head).cast();
        (*control).head.next = (&raw mut (*control).head).cast();
        // The kernel finds the lock word at entry + futex_offset; there is one entry, so one offset serves.
        let entry = (&raw mut (*control).entry) as isize;
        (*control).head.futex_offset = (word.as_ptr() as isize).wrapping_sub(entry);
    }
    let all = [u64::MAX; 1];
    let mut before = [0u64; 1];
    // A handler that ran on the keeper would run on libc without a thread of libc's. The raw call, because libc's own
    // leaves two of its internal signals unblocked.
    // SAFETY: both sets are 8 bytes, as the kernel is told.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const all, &raw mut before, 8) };
    let flags = libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD
        | libc::CLONE_SYSVSEM;
    // SAFETY: the stack is memory of its own, never freed; `keep` obeys the rules at the head of this file.
    let started = unsafe { libc::clone(keep, memory.as_ptr().add(STACK).cast(), flags, control.cast()) };
    let failed = super::robust::last_errno();
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const before, 0usize, 8) };
    if started == -1 {
        return Err(failed);
    }
    // SAFETY: the control block is never freed.
    let holds = unsafe { &(*control).holds };
    while holds.load(Ordering::Acquire) == 0 {
        let watch = super::futex::Watch { word: holds, expected: 0 };
        super::futex::wait_any(&[watch], 0, super::clock::Deadline::after(std::time::Duration::from_millis(100)))?;
    }
    Ok(())
}

/// The keeper's whole life. No libc call, no panic, no allocation.
extern "C" fn keep(argument: *mut c_void) -> c_int {
    let control: *mut Control = argument.cast();
    // SAFETY: the control block outlives the process's last thread but this; the system calls get pointers into it.
    unsafe {
        raw_syscall(libc::SYS_set_robust_list, (&raw mut (*control).head) as usize, size_of::<ListHead>(), 0, 0);
        let tid = raw_syscall(libc::SYS_gettid, 0, 0, 0, 0) as u32;
        let word = &*(*control).word;
        let entry: *mut u8 = (&raw mut (*control).entry).cast();
        (&raw mut (*control).head.list_op_pending).write_volatile(entry);
        // The WAITERS bit of a former owner's sleepers stays: whoever clears it may die before waking them.
        let mut seen = word.load(Ordering::Acquire);
        while let Err(now) =
            word.compare_exchange(seen, tid | (seen & FUTEX_WAITERS), Ordering::AcqRel, Ordering::Acquire)
        {
            seen = now;
        }
        (&raw mut (*control).head.next).write_volatile(entry);
        (&raw mut (*control).head.list_op_pending).write_volatile(core::ptr::null_mut());
        (*control).holds.store(1, Ordering::Release);
        let wake = libc::FUTEX_WAKE as usize;
        raw_syscall(libc::SYS_futex, (*control).holds.as_ptr() as usize, wake, 1, 0);
        loop {
            let wait = libc::FUTEX_WAIT as usize;
            raw_syscall(libc::SYS_futex, (*control).forever.as_ptr() as usize, wait, 0, 0);
        }
    }
}

/// A system call that leaves errno alone.
///
/// # Safety
/// As the call itself asks.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn raw_syscall(number: libc::c_long, a: usize, b: usize, c: usize, d: usize) -> isize {
    let result: isize;
    // SAFETY: the kernel's x86-64 convention; rcx and r11 are overwritten.
    unsafe {
        core::arch::asm!("syscall", inlateout("rax") number as isize => result, in("rdi") a, in("rsi") b, in("rdx") c,
            in("r10") d, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// A system call that leaves errno alone.
///
/// # Safety
/// As the call itself asks.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
unsafe fn raw_syscall(number: libc::c_long, a: usize, b: usize, c: usize, d: usize) -> isize {
    let result: isize;
    // SAFETY: the kernel's aarch64 convention.
    unsafe {
        core::arch::asm!("svc 0", in("x8") number, inlateout("x0") a as isize => result, in("x1") b, in("x2") c,
            in("x3") d, options(nostack));
    }
    result
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the keeper's system calls are written for x86-64 and aarch64 only");
