//! The keeper: a sleeping thread without libc that holds one robust word for as long as its process
//! lives.
//!
//! The process token must read alive until the *process* ends, but a robust word belongs to a
//! *thread*. The main thread's word suffices while that thread exists. If the first user is another
//! thread, or when main leaves early by `pthread_exit`, a keeper holds the word. A pthread would
//! not do: a process whose main thread has left ends with its last pthread, and a pthread runs
//! destructors and handlers. So this is a bare `clone`: it shares its maker's thread pointer and
//! must therefore never touch libc (errno, stack protector, TLS). It makes a few system calls by
//! hand and sleeps in the last until `exit_group`, `execve` or a fatal signal ends it; then the
//! kernel walks its robust list and marks the word.
//!
//! For the kernel each thread has its own credentials, and libc's `setuid` changes only the threads
//! that libc knows. So a keeper keeps the credentials of its start, and a new keeper replaces it
//! once they differ from the process's: the new one takes the word from the former in one exchange,
//! so that the word is held at every moment, and the former ends. The former's list still has the
//! word, which now holds another thread's number.
//!
//! | dies here | seen by others |
//! | --- | --- |
//! | before the word is taken | the word is as before: the process has no token yet; or the walk of the former keeper's list marks it |
//! | taken, not yet linked | `list_op_pending` points to it: marked all the same |
//! | linked | marked by the walk |
//! | two keepers, before the former ends | marked by the new one's walk; the former's finds another number |

use core::ffi::{c_int, c_void};
use std::ptr::NonNull;

use super::robust::ListHead;
use super::{Errno, map};
use crate::shim::{AtomicU32, Ordering};

const STACK: usize = 16 * 1024;
const FUTEX_WAITERS: u32 = 0x8000_0000;

/// What maker and keeper share; lies at the low end of the keeper's stack, and is never freed.
#[repr(C)]
struct Control {
    head: ListHead,
    /// The only entry of the robust list: the address of the next, which is the head.
    entry: *mut u8,
    word: *const AtomicU32,
    /// 0 until the keeper holds the word; its maker sleeps on it.
    holds: AtomicU32,
    /// 0 until another keeper holds the word; the keeper sleeps on it.
    ends: AtomicU32,
}

/// A keeper of this process.
pub(crate) struct Keeper {
    control: *const Control,
    credentials: Credentials,
}

// SAFETY: the control block is never freed, and other threads touch only its atomics.
unsafe impl Send for Keeper {}

impl Keeper {
    /// Returns whether the calling thread has other credentials than the keeper.
    pub(crate) fn is_outdated(&self) -> bool {
        self.credentials != Credentials::own()
    }

    /// Lets the keeper end: another one holds its word.
    pub(crate) fn end(self) {
        // SAFETY: the control block is never freed (`start`).
        let ends = unsafe { &(*self.control).ends };
        // Release: pairs with the load in `keep`; another keeper has taken the word before.
        ends.store(1, Ordering::Release);
        super::futex::wake_all(ends);
    }
}

/// What a thread may do by its users, groups and capabilities, as far as a process gives such
/// rights up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Credentials([u32; 13]);

impl Credentials {
    /// Returns the calling thread's. What cannot be read is 0: the raw calls fail in no known case.
    fn own() -> Credentials {
        let mut all = [0u32; 13];
        let (ids, capabilities) = all.split_at_mut(6);
        // The header: version 3, the calling thread. Three sets of 64 bits, each in two halves:
        // effective, permitted, inheritable.
        let mut header = [0x2008_0522u32, 0];
        // SAFETY: each call gets places for three numbers, or a header of 8 bytes and room for two
        // times 12 bytes, all on this stack; getgroups only returns how many there are.
        unsafe {
            let [ruid, euid, suid, rgid, egid, sgid] = core::array::from_fn(|n| (&raw mut ids[n]));
            libc::syscall(libc::SYS_getresuid, ruid, euid, suid);
            libc::syscall(libc::SYS_getresgid, rgid, egid, sgid);
            libc::syscall(libc::SYS_capget, header.as_mut_ptr(), capabilities.as_mut_ptr());
            capabilities[6] =
                libc::syscall(libc::SYS_getgroups, 0, core::ptr::null_mut::<u32>()) as u32;
        }
        Credentials(all)
    }
}

/// Starts a keeper that holds `word`, and returns when it does. If another keeper of this process
/// holds the word, the new one takes it over, and the former may then end.
///
/// # Safety
/// `word` stays mapped until the process ends.
pub(crate) unsafe fn start(word: &AtomicU32) -> Result<Keeper, Errno> {
    let credentials = Credentials::own();
    let memory: NonNull<u8> = map::anonymous(STACK)?;
    let control: *mut Control = memory.as_ptr().cast();
    // SAFETY: fresh zeroed memory, large enough and page-aligned; no other thread knows it yet.
    unsafe {
        (*control).word = word;
        (*control).entry = (&raw mut (*control).head).cast();
        (*control).head.next = (&raw mut (*control).head).cast();
        // The kernel finds the lock word at entry + futex_offset; there is one entry, so one offset
        // serves.
        let entry = (&raw mut (*control).entry) as isize;
        (*control).head.futex_offset = (word.as_ptr() as isize).wrapping_sub(entry);
    }
    let all = [u64::MAX; 1];
    let mut before = [0u64; 1];
    // A signal handler that ran on the keeper would run on libc without a thread of libc's. The raw
    // call, because libc's own leaves two of its internal signals unblocked.
    // SAFETY: both sets are 8 bytes, as the kernel is told.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const all,
            &raw mut before,
            8,
        )
    };
    let flags = libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD
        | libc::CLONE_SYSVSEM;
    // SAFETY: the stack is memory of its own, never freed once the thread runs; `keep` obeys the
    // rules at the head of this file.
    let started =
        unsafe { libc::clone(keep, memory.as_ptr().add(STACK).cast(), flags, control.cast()) };
    let failed = super::robust::last_errno();
    // SAFETY: the set is 8 bytes, as the kernel is told.
    unsafe {
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const before, 0usize, 8)
    };
    if started == -1 {
        // SAFETY: mapped above, and no thread runs there, because `clone` failed.
        unsafe { map::unmap(memory, STACK) };
        return Err(failed);
    }
    // SAFETY: the control block is never freed once the keeper runs.
    let holds = unsafe { &(*control).holds };
    while holds.load(Ordering::Acquire) == 0 {
        let watch = super::futex::Watch { word: holds, expected: 0 };
        let soon = super::clock::Deadline::after(std::time::Duration::from_millis(100));
        if super::futex::wait_any(&[watch], 0, soon).is_err() {
            // The keeper runs, and cannot be taken back: look again a little later.
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
    Ok(Keeper { control, credentials })
}

/// Does all that a keeper does. No libc call, no panic, no allocation.
extern "C" fn keep(argument: *mut c_void) -> c_int {
    let control: *mut Control = argument.cast();
    // SAFETY: the control block is never freed; the system calls get pointers into it.
    unsafe {
        raw_syscall(
            libc::SYS_set_robust_list,
            (&raw mut (*control).head) as usize,
            size_of::<ListHead>(),
            0,
            0,
        );
        let tid = raw_syscall(libc::SYS_gettid, 0, 0, 0, 0) as u32;
        let word = &*(*control).word;
        let entry: *mut u8 = (&raw mut (*control).entry).cast();
        (&raw mut (*control).head.list_op_pending).write_volatile(entry);
        // WAITERS always: the watchers of main's word sleep on this one too, without having set it
        // (keeper.pml, NOBIT). The word held 0, a dead owner's number or a former keeper's, and
        // their sleepers' bit stays. Acquire and Release: as in libc's own lock, with the next
        // holder's and the former's.
        word.swap(tid | FUTEX_WAITERS, Ordering::AcqRel);
        (&raw mut (*control).head.next).write_volatile(entry);
        (&raw mut (*control).head.list_op_pending).write_volatile(core::ptr::null_mut());
        (*control).holds.store(1, Ordering::Release);
        let wake = libc::FUTEX_WAKE as usize;
        raw_syscall(libc::SYS_futex, (*control).holds.as_ptr() as usize, wake, 1, 0);
        // Acquire pairs with the Release in `end`.
        while (*control).ends.load(Ordering::Acquire) == 0 {
            let wait = libc::FUTEX_WAIT as usize;
            raw_syscall(libc::SYS_futex, (*control).ends.as_ptr() as usize, wait, 0, 0);
        }
        // Ends this thread alone. The kernel walks its list and finds the other keeper's number in
        // the word.
        loop {
            raw_syscall(libc::SYS_exit, 0, 0, 0, 0);
        }
    }
}

/// Makes a system call that leaves errno alone.
///
/// # Safety
/// What the call itself requires.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn raw_syscall(number: libc::c_long, a: usize, b: usize, c: usize, d: usize) -> isize {
    let result: isize;
    // SAFETY: the kernel's x86-64 convention; it overwrites rcx and r11. The caller answers for the
    // arguments.
    unsafe {
        core::arch::asm!("syscall", inlateout("rax") number as isize => result, in("rdi") a, in("rsi") b, in("rdx") c,
            in("r10") d, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// Makes a system call that leaves errno alone.
///
/// # Safety
/// What the call itself requires.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
unsafe fn raw_syscall(number: libc::c_long, a: usize, b: usize, c: usize, d: usize) -> isize {
    let result: isize;
    // SAFETY: the kernel's aarch64 convention. The caller answers for the arguments.
    unsafe {
        core::arch::asm!("svc 0", in("x8") number, inlateout("x0") a as isize => result, in("x1") b, in("x2") c,
            in("x3") d, options(nostack));
    }
    result
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the keeper's system calls are written for x86-64 and aarch64 only");
