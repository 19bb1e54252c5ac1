//! How the calling thread is scheduled: `sched_getattr(2)`, `sched_setattr(2)`.

use super::Errno;
use super::robust::last_errno;

/// The kernel's `struct sched_attr` in its first version, 48 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

const SIZE: u32 = size_of::<Schedule>() as u32;
const _: () = assert!(SIZE == 48);

/// `SCHED_DEADLINE`: before every real-time priority.
const DEADLINE: u32 = 6;
/// The rank of such a thread beside priorities of 1 to 99.
const BEFORE_ALL: u32 = 100;

impl Schedule {
    /// No thread's schedule: before a thread has asked for its own.
    pub(crate) const NONE: Schedule = Schedule {
        size: SIZE,
        policy: 0,
        flags: 0,
        nice: 0,
        priority: 0,
        runtime: 0,
        deadline: 0,
        period: 0,
    };

    /// Returns the calling thread's schedule.
    pub(crate) fn own() -> Result<Schedule, Errno> {
        let mut schedule = Schedule::NONE;
        // SAFETY: the kernel writes at most SIZE bytes, and the place has so many.
        let result =
            unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut schedule, SIZE, 0) };
        if result == 0 { Ok(schedule) } else { Err(last_errno()) }
    }

    /// Returns the same schedule, but with `SCHED_FIFO` and that priority.
    pub(crate) fn raised_to(self, priority: u32) -> Schedule {
        // The kernel keeps the niceness meanwhile; a forked child gets the same as before.
        Schedule {
            policy: libc::SCHED_FIFO as u32,
            priority,
            flags: self.flags & RESET_ON_FORK,
            ..Schedule::NONE
        }
    }

    /// Returns an ordinary schedule with this one's niceness.
    pub(crate) fn ordinary(self) -> Schedule {
        Schedule { nice: self.nice, flags: self.flags & RESET_ON_FORK, ..Schedule::NONE }
    }

    /// Makes it the calling thread's schedule.
    pub(crate) fn apply(&self) -> Result<(), Errno> {
        // SAFETY: the kernel reads `size` bytes, which is this struct's size.
        let result =
            unsafe { libc::syscall(libc::SYS_sched_setattr, 0, core::ptr::from_ref(self), 0) };
        if result == 0 { Ok(()) } else { Err(last_errno()) }
    }

    /// Returns its rank among real-time priorities, 1 to 99; 0 below them, 100 above.
    pub(crate) fn rank(&self) -> u32 {
        match self.policy {
            DEADLINE => BEFORE_ALL,
            policy if policy == libc::SCHED_FIFO as u32 || policy == libc::SCHED_RR as u32 => {
                self.priority
            }
            _ => 0,
        }
    }
}

/// `SCHED_FLAG_RESET_ON_FORK`.
const RESET_ON_FORK: u64 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_follow_the_policies() {
        let fifo = Schedule::NONE.raised_to(30);
        assert_eq!((fifo.rank(), fifo.ordinary().rank()), (30, 0));
        assert_eq!(Schedule { policy: libc::SCHED_RR as u32, ..fifo }.rank(), 30);
        assert_eq!(Schedule { policy: DEADLINE, ..fifo }.rank(), BEFORE_ALL);
        assert_eq!(Schedule { policy: libc::SCHED_BATCH as u32, ..fifo }.rank(), 0);
    }

    #[test]
    fn the_thread_s_own_can_be_applied_again() {
        let own = Schedule::own().expect("asked");
        own.apply().expect("nothing changes");
        assert_eq!(Schedule::own(), Ok(own));
    }
}
