//! USDT probes: places at which bpftrace, perf, SystemTap or gdb read what this process does, by the
//! provider `outlive`. doc/how-to/probes.md has the table of them, with what their values mean.
//!
//! | a probe | costs |
//! | --- | --- |
//! | that no tool watches | a comparison with a word of this process, which is 0, and a branch that is not taken |
//! | that a tool watches | a call, a copy of the name, and the kernel's trap |
//!
//! The word is the probe's *semaphore*: the kernel raises it in each process that maps the file while
//! a tool watches the probe. Without it each value would have to be in a register at the probe, also
//! while no tool runs. The note that tells the tools where a probe is (an ELF note of
//! type 3 and of the name `stapsdt`) lies in the probe's own function, so a program has one of each
//! probe, however often the compiler inlines the callers.
//!
//! A probe changes nothing in shared memory: a death at a probe is one before or after it.

use core::sync::atomic::AtomicU16;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The name of a thing as tools read it: its file's, with a NUL behind it.
struct Name([u8; 256]);

impl Name {
    /// Makes one of the last part of the path; of a longer one it has the beginning.
    fn of(path: &Path) -> Name {
        let mut name = Name([0; 256]);
        let bytes = path.file_name().unwrap_or_default().as_bytes();
        let kept = bytes.len().min(name.0.len() - 1);
        name.0[..kept].copy_from_slice(&bytes[..kept]);
        name
    }
}

/// Makes a module for each probe: whether a tool watches it, and the probe itself.
macro_rules! probes {
    ($($(#[$doc:meta])* $probe:ident($($value:ident),*);)*) => {$(
        $(#[$doc])*
        pub(crate) mod $probe {
            use super::*;

            // Where tools look for it. Writable memory: the kernel changes it.
            #[cfg_attr(not(miri), unsafe(link_section = ".probes"))]
            static SEMAPHORE: AtomicU16 = AtomicU16::new(0);

            /// Returns whether a tool watches the probe in this process.
            #[inline(always)]
            pub(crate) fn is_watched() -> bool {
                probe_is_watched!(SEMAPHORE)
            }

            /// The probe. A tool that was not there at `is_watched` sees nothing.
            #[cold]
            #[inline(never)]
            pub(crate) fn note(name: &Path, $($value: u64),*) {
                let name = Name::of(name);
                probe_note!($probe, SEMAPHORE, name.0.as_ptr(), $($value),*);
            }
        }
    )*};
}

/// Returns whether the semaphore is up.
#[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
macro_rules! probe_is_watched {
    ($semaphore:ident) => {
        // Assembly: the compiler knows neither that the static is of the same file as the code, nor
        // how to compare it where it lies, and takes four instructions.
        // SAFETY: reads a static and jumps; `hidden`, as no other file has it, so that it may be
        // named relative to the code in a shared library too.
        unsafe {
            core::arch::asm!(
                ".hidden {semaphore}",
                "cmp word ptr [rip + {semaphore}], 0",
                "jne {watched}",
                semaphore = sym $semaphore,
                watched = label { return true },
                options(readonly, nostack)
            );
            false
        }
    };
}
#[cfg(all(target_arch = "aarch64", not(any(miri, loom))))]
macro_rules! probe_is_watched {
    ($semaphore:ident) => {
        // Volatile, as a word is read that something outside the program changes.
        // SAFETY: an aligned static, which no thread of this program writes.
        unsafe { $semaphore.as_ptr().read_volatile() != 0 }
    };
}
#[cfg(any(miri, loom, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
macro_rules! probe_is_watched {
    ($semaphore:ident) => {
        false
    };
}

/// The instruction, and the note of where it is and where its values are then.
macro_rules! probe_note {
    ($probe:ident, $semaphore:ident, $name:expr, $($value:ident),*) => {
        // SAFETY: one instruction that does nothing, beside sections that no instruction reads.
        // `readonly`: a tool reads the name behind the pointer, which its owner, `note`, keeps.
        unsafe {
            probe_asm!(
                "990: nop",
                ".pushsection .note.stapsdt,\"?\",\"note\"",
                ".balign 4",
                ".4byte 992f-991f, 994f-993f, 3",
                "991: .asciz \"stapsdt\"",
                "992: .balign 4",
                "993: .8byte 990b",
                ".8byte _.stapsdt.base",
                ".8byte {semaphore}",
                ".asciz \"outlive\"",
                concat!(".asciz \"", stringify!($probe), "\""),
                concat!(".asciz \"8@{name}", $(" 8@{", stringify!($value), "}",)* "\""),
                "994: .balign 4",
                ".popsection",
                // By this, tools find the probes of a program whose addresses were changed after it
                // was linked.
                ".ifndef _.stapsdt.base",
                ".pushsection .stapsdt.base,\"aGR\",\"progbits\",.stapsdt.base,comdat",
                ".weak _.stapsdt.base",
                ".hidden _.stapsdt.base",
                "_.stapsdt.base: .space 1",
                ".size _.stapsdt.base, 1",
                ".popsection",
                ".endif",
                semaphore = sym $semaphore,
                name = in(reg) $name,
                $($value = in(reg) $value,)*
                options(readonly, nostack, preserves_flags)
            );
        }
    };
}

// Tools know registers by the names that they have in AT&T's syntax.
#[cfg(all(target_arch = "x86_64", not(miri)))]
macro_rules! probe_asm {
    ($($part:tt)*) => { core::arch::asm!($($part)*, options(att_syntax)) };
}
#[cfg(all(target_arch = "aarch64", not(miri)))]
macro_rules! probe_asm {
    ($($part:tt)*) => { core::arch::asm!($($part)*) };
}
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
macro_rules! probe_asm {
    ($($ignored:literal,)* $(concat!($($also:tt)*),)* $($rest:tt)*) => {
        ()
    };
}

probes! {
    /// A thread is about to wait for a lock, which another thread has.
    lock_wait(offset, pid, tid);
    /// It waits no more.
    lock_waited(offset, outcome);
    /// A thread has a lock whose last owner died, and is told so.
    owner_died(offset, pid, tid);
    /// A process has found another one dead that had a role, a publisher's ring or a subscriber's
    /// slot, and goes on in its place.
    took_over(pid, what);
    /// A thread is about to wait for permits of a semaphore.
    semaphore_wait(offset, permits);
    /// It waits no more.
    semaphore_waited(offset, outcome);
    /// A thread gives its lock back, and is about to wait for a notification of a condition variable.
    condvar_wait(offset);
    /// It waits no more.
    condvar_waited(offset, outcome);
    /// A message, or a batch, is in a queue.
    queue_send(bytes, messages);
    /// A message was taken out of a queue.
    queue_receive(bytes);
    /// A receiver or a sender is about to wait.
    queue_wait(what);
    /// It waits no more.
    queue_waited(what);
    /// A job is in a job queue.
    job_put(job, bytes);
    /// A worker has taken a job.
    job_take(job, attempt);
    /// It has the job no more.
    job_left(job, outcome);
    /// A worker, a producer, or a thread that waits for all jobs is about to wait.
    job_wait(what);
    /// It waits no more.
    job_waited(what);
    /// A message is in a topic.
    topic_publish(bytes, sequence);
    /// A subscriber has taken a message.
    topic_receive(bytes, sequence);
    /// Messages were gone before a subscriber took them.
    topic_lost(messages);
    /// A subscriber or a publisher is about to wait.
    topic_wait(what);
    /// It waits no more.
    topic_waited(what);
    /// A pool, a queue or a topic has no memory for that many bytes.
    no_space(bytes);
}

/// What a thread waits for.
pub(crate) const FOR_MESSAGES: u64 = 0;
pub(crate) const FOR_ROOM: u64 = 1;
pub(crate) const FOR_ALL_DONE: u64 = 2;
/// How a worker has left a job.
pub(crate) const DONE: u64 = 0;
pub(crate) const GIVEN_BACK: u64 = 1;
pub(crate) const SET_ASIDE: u64 = 2;
/// How a wait for a lock, for permits or for a condition variable ended.
pub(crate) const TAKEN: u64 = 0;
pub(crate) const TAKEN_OVER: u64 = 1;
pub(crate) const TIMED_OUT: u64 = 2;
pub(crate) const REFUSED: u64 = 3;
/// What a dead process had.
pub(crate) const OF_A_ROLE: u64 = 1;
pub(crate) const OF_A_PUBLISHER: u64 = 2;
pub(crate) const OF_A_SUBSCRIBER: u64 = 3;

/// Notes a probe at the end of its scope, however that ends.
pub(crate) struct AtEnd<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        self.0();
    }
}

/// Notes a probe if a tool watches it. The values are made only then.
macro_rules! probe {
    ($probe:ident, $($value:expr),+ $(,)?) => {
        if $crate::sys::probe::$probe::is_watched() {
            $crate::sys::probe::$probe::note($($value),+);
        }
    };
}
pub(crate) use probe;
