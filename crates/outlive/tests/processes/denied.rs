//! System calls that a seccomp filter answers in the kernel's place, with an error or with success.
//!
//! A wait set of more than 128 words sleeps by threads of its own. Where the kernel refuses it a
//! thread, it sleeps in slices, and its waiter is told nothing of it.
//!
//! A file that `fstat` does not describe is still known by another call, and closed when it is
//! dropped.
//!
//! `FUTEX_WAKE_OP` returns `EFAULT` if the kernel cannot get the word's page. The process may be
//! able to write the word all the same. So the change must be made, and a wake that failed must not
//! count as a wake that found no sleeper.

use std::time::Duration;

use outlive::WaitStrategy;
use outlive::queue::Queue;
use outlive::sync::{Event, Reset};
use outlive::wait::{Readiness, WaitSet};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::Child;
use crate::runner::World;
use crate::wait_sets::{AS_IT_IS, Many, add_all, crowd, queue};

crate::checks!(
    a_message_wakes_the_receiver_though_wake_op_fails,
    the_next_wake_makes_up_for_one_that_failed,
    bits_are_set_though_wake_op_fails,
    large_sets_wait_without_threads,
    what_fstat_does_not_describe_is_closed,
);

/// From now on, each call of that number by this process returns that errno (0: success). With an
/// `operation`, only the calls of `futex` with that operation do.
pub fn answer(call: libc::c_long, operation: Option<i32>, errno: i32) {
    let statement = |code: u32, jt, jf, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let load = |at: u32| statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, at);
    let equals = |value: u32, otherwise| {
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, otherwise, value)
    };
    let answer =
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32);
    let allow = statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW);
    // The offset of the second argument's lower half.
    let second = 24 + if cfg!(target_endian = "big") { 4 } else { 0 };
    let mut filter = match operation {
        None => vec![load(0), equals(call as u32, 1), answer, allow],
        Some(operation) => {
            // The operation without its flags, as `FUTEX_PRIVATE_FLAG`.
            let plain = statement(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, 0x7f);
            vec![
                load(0),
                equals(call as u32, 4),
                load(second),
                plain,
                equals(operation as u32, 1),
                answer,
                allow,
            ]
        }
    };
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program and its filter live until the call returns.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let set = libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program);
        assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
    }
}

/// Sets of that many owners need more than one call of `futex_waitv`.
pub const OWNERS: usize = 50;

/// A child sleeps in a large set, then `deny` is called in it, and it sleeps twice more: by another
/// thread's words, and by an owner's end. `prepare` comes before the first sleep.
fn a_large_set_though(world: &World, prepare: fn(), deny: fn()) {
    let domain = world.domain();
    let event =
        Event::options().reset(Reset::Automatic).open_or_create(&domain, "event").expect("opens");
    let Many { mut children, peers, .. } = crowd(&domain, 0, OWNERS);
    let board = Board::new();
    let waiter = Child::start(|| {
        prepare();
        let mut set = WaitSet::new(&domain);
        set.set_wait_strategy(WaitStrategy::Block);
        let told = set.add(&event.any_of(1)).expect("added");
        let ends = add_all(&mut set, &peers);
        assert_eq!(set.wait_timeout(Duration::from_millis(5)).expect("waits").len(), 0);
        deny();
        board.set(0, 1);
        assert_eq!(set.wait().expect("ready").collect::<Vec<_>>(), [(told, Readiness::Set)]);
        assert_eq!(event.try_wait_any(1), Ok(Some(1)));
        board.set(0, 2);
        assert_eq!(set.wait().expect("ready").collect::<Vec<_>>(), [(ends[30], Readiness::Ended)]);
    });
    board.reach(0, 1);
    wait_asleep(waiter.pid());
    event.set(1);
    board.reach(0, 2);
    wait_asleep(waiter.pid());
    children[30].kill();
    waiter.finish();
}

fn large_sets_wait_without_threads(world: &World) {
    let prepare = || {
        answer(libc::SYS_clone3, None, libc::EAGAIN);
        answer(libc::SYS_clone, None, libc::EAGAIN);
    };
    a_large_set_though(world, prepare, AS_IT_IS);
}

/// Before a long-lived descriptor is closed, `fstat` says whether it still is that file's. Another
/// call does, too.
fn what_fstat_does_not_describe_is_closed(world: &World) {
    let domain = world.domain();
    let queue = Queue::<[u8]>::open_or_create(&domain, "queue").expect("made");
    Child::start(|| {
        // SAFETY: no pointers are passed.
        let open = || (0..100).filter(|&fd| unsafe { libc::fcntl(fd, libc::F_GETFD) } >= 0).count();
        let before = open();
        let again = Queue::<[u8]>::open(&domain, "queue").expect("there");
        assert_eq!(open(), before + 1);
        answer(libc::SYS_fstat, None, libc::ENOMEM);
        drop(again);
        assert_eq!(open(), before);
        assert!(Queue::<[u8]>::open(&domain, "queue").is_err(), "nothing says how long it is");
        assert_eq!(open(), before);
    })
    .finish();
    assert_eq!(queue.counters().expect("whole").sent, 0);
}

fn fail_steps() {
    answer(libc::SYS_futex, Some(libc::FUTEX_WAKE_OP), libc::EFAULT);
}

fn a_message_wakes_the_receiver_though_wake_op_fails(world: &World) {
    let queue = queue(&world.domain(), "queue");
    let receiving = Child::start(|| {
        let mut receiver = queue.receiver().expect("free");
        assert_eq!(receiver.recv().expect("told"), [1]);
    });
    wait_asleep(receiving.pid());
    Child::start(|| {
        let sender = queue.sender().expect("there is room");
        fail_steps();
        sender.send(&[1]).expect("sent");
    })
    .finish();
    receiving.finish();
}

fn the_next_wake_makes_up_for_one_that_failed(world: &World) {
    let queue = queue(&world.domain(), "queue");
    let board = Board::new();
    let receiving = Child::start(|| {
        let mut receiver = queue.receiver().expect("free");
        assert_eq!(receiver.recv().expect("told"), [1]);
        board.set(0, 1);
    });
    wait_asleep(receiving.pid());
    Child::start(|| {
        let sender = queue.sender().expect("there is room");
        fail_steps();
        answer(libc::SYS_futex, Some(libc::FUTEX_WAKE), libc::EFAULT);
        sender.send(&[1]).expect("sent");
    })
    .finish();
    assert_eq!(board.get(0), 0, "the receiver has not been woken");
    queue.sender().expect("there is room").send(&[2]).expect("sent");
    receiving.finish();
}

fn bits_are_set_though_wake_op_fails(world: &World) {
    let event = Event::options()
        .reset(Reset::Manual)
        .open_or_create(&world.domain(), "event")
        .expect("opens");
    for bits in [1, 1 << 20, 1 | 1 << 20 | 1 << 30] {
        let waiting = Child::start(|| assert_eq!(event.wait_all(bits).expect("set") & bits, bits));
        wait_asleep(waiting.pid());
        Child::start(|| {
            fail_steps();
            event.set(bits);
        })
        .finish();
        waiting.finish();
        event.clear(u32::MAX);
    }
}
