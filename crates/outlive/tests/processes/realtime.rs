//! Real-time priorities and cores, for checks that need them.

use std::sync::OnceLock;

use crate::child::{Child, End};
use crate::runner::World;

/// The highest priority that a check uses.
pub const HIGH: i32 = 30;
pub const MIDDLE: i32 = 20;
pub const LOW: i32 = 10;

/// Ends the check where threads may not be real-time ones.
pub fn skip_without_right(world: &World) {
    let right = Child::start(|| {
        // SAFETY: the parameter is plain data.
        let set = unsafe {
            let parameter = libc::sched_param { sched_priority: HIGH };
            libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameter)
        };
        assert_eq!(set, 0);
    })
    .wait();
    if right != End::Code(0) {
        world.skip("no right to SCHED_FIFO (CAP_SYS_NICE, RLIMIT_RTPRIO, a real-time budget of the control group)");
    }
}

/// Makes the calling thread a real-time one.
pub fn become_fifo(priority: i32) {
    let parameter = libc::sched_param { sched_priority: priority };
    // SAFETY: the parameter is plain data.
    let set = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameter) };
    assert_eq!(set, 0, "SCHED_FIFO {priority}: {}", std::io::Error::last_os_error());
}

/// Makes the calling thread an ordinary one.
pub fn become_ordinary() {
    let parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameter is plain data.
    assert_eq!(unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const parameter) }, 0);
}

/// Keeps the calling thread to one core.
pub fn pin(core: usize) {
    // SAFETY: plain bits of the size given.
    unsafe {
        let mut set: libc::cpu_set_t = core::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set), 0);
    }
}

/// The first two cores that this process could use when it first asked.
pub fn two_cores(world: &World) -> [usize; 2] {
    static CORES: OnceLock<Vec<usize>> = OnceLock::new();
    let cores = CORES.get_or_init(|| {
        // SAFETY: plain bits of the size given.
        unsafe {
            let mut set: libc::cpu_set_t = core::mem::zeroed();
            libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set);
            (0..libc::CPU_SETSIZE as usize).filter(|core| libc::CPU_ISSET(*core, &set)).collect()
        }
    });
    match cores[..] {
        [first, second, ..] => [first, second],
        _ => world.skip("it takes two cores: one for the threads that are watched, one to watch"),
    }
}

/// Policy and real-time priority of the calling thread, as others see them.
pub fn own_schedule() -> (i32, i32) {
    let mut parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameter is a place of ours.
    unsafe {
        assert_eq!(libc::sched_getparam(0, &raw mut parameter), 0);
        (libc::sched_getscheduler(0), parameter.sched_priority)
    }
}
