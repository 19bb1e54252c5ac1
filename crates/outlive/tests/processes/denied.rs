//! System calls that a filter answers in the kernel's place: with an error, or as if they had been made.
//!
//! `EFAULT` of `FUTEX_WAKE_OP` is the kernel's answer where it cannot get the word's page. The word itself may be written all the same:
//! the change must be made, and a wake that failed must not count as one that found nobody asleep.

use outlive::sync::{Event, Reset};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::Child;
use crate::runner::World;
use crate::wait_sets::queue;

crate::checks!(
    a_message_is_told_though_its_step_fails,
    a_wake_that_fails_is_made_up_for_by_the_next,
    bits_are_set_though_their_step_fails,
);

/// From now on, this process gets that errno (0: success) for all calls of that number; of `futex`, where an `operation` is given, for
/// that one alone.
pub fn answer(call: libc::c_long, operation: Option<i32>, errno: i32) {
    let statement = |code: u32, jt, jf, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let load = |at: u32| statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, at);
    let equals = |value: u32, otherwise| statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, otherwise, value);
    let answer = statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32);
    let allow = statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW);
    // Where the second argument's lower half lies.
    let second = 24 + if cfg!(target_endian = "big") { 4 } else { 0 };
    let mut filter = match operation {
        None => vec![load(0), equals(call as u32, 1), answer, allow],
        Some(operation) => {
            // Without `FUTEX_PRIVATE_FLAG` and the like.
            let plain = statement(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, 0x7f);
            vec![load(0), equals(call as u32, 4), load(second), plain, equals(operation as u32, 1), answer, allow]
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

/// `FUTEX_WAKE_OP` fails in this process from now on.
fn fail_steps() {
    answer(libc::SYS_futex, Some(libc::FUTEX_WAKE_OP), libc::EFAULT);
}

fn a_message_is_told_though_its_step_fails(world: &World) {
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

fn a_wake_that_fails_is_made_up_for_by_the_next(world: &World) {
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
    assert_eq!(board.get(0), 0, "nobody has been woken");
    queue.sender().expect("there is room").send(&[2]).expect("sent");
    receiving.finish();
}

fn bits_are_set_though_their_step_fails(world: &World) {
    let event = Event::open(&world.domain(), "event", Reset::Manual).expect("opens");
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
