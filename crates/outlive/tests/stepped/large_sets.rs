//! A wait set of more than 128 words, whose process is followed from call to call of its ring.

use std::cell::{Cell, RefCell};
use std::fs;
use std::time::Duration;

use outlive::sync::{AwaitError, Event, Reset};
use outlive::wait::{Key, Readiness, WaitSet};
use outlive::{Deadline, Domain, WaitStrategy};

use crate::board::Board;
use crate::child::{Child, End, wait_until};
use crate::runner::World;
use crate::steps::{FREE, Stepped, in_rounds};

crate::checks!(
    far_deadlines_are_slept_for,
    requests_without_memory_are_no_error,
    a_process_without_memory_asks_for_rings_again,
);

/// So many events have more words than one call of `futex_waitv` watches.
const EVENTS: usize = 200;
/// What the child's wait has come to.
const TOLD: usize = FREE;
const RIGHT: u64 = 1;
const WRONG: u64 = 2;

fn skip_without_rings(world: &World) {
    if Child::start(|| assert!(outlive::abilities::has_io_uring_futex())).wait() != End::Code(0) {
        world.skip("no io_uring here");
    }
}

/// Before Linux 6.11 a request that does nothing may say nothing else.
fn skip_where_none_can_be_refused(world: &World) {
    skip_without_rings(world);
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("readable");
    let mut numbers = release.split(|part: char| !part.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
    let version: [u32; 2] = [numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)];
    if version < [6, 11] {
        world.skip("this kernel answers a request as it likes");
    }
}

fn event(domain: &Domain, number: usize) -> Event {
    Event::open(domain, &format!("event-{number}"), Reset::Automatic).expect("opens")
}

/// A set of many events that has waited once, and so has a ring; the last one's key.
fn set_with_a_ring(domain: &Domain) -> (WaitSet, Key) {
    let mut set = WaitSet::new(domain);
    set.set_wait(WaitStrategy::Block);
    let keys: Vec<Key> = (0..EVENTS).map(|n| set.add(&event(domain, n).any_of(1)).expect("added")).collect();
    // On a busy machine a short time may have passed before the set sleeps.
    wait_until("it has a ring", || {
        assert_eq!(set.wait(Duration::from_millis(5)).err(), Some(AwaitError::TimedOut));
        fs::read_to_string("/proc/self/maps").expect("readable").contains("[io_uring]")
    });
    (set, keys[EVENTS - 1])
}

/// A child that waits in such a set until each of these deadlines, a round each, and says what it was told.
fn waiting<'a>(world: &'a World, domain: &Domain, board: Board, deadlines: &[Deadline]) -> Stepped<'a> {
    Stepped::start(world, board, || {
        let (set, last) = set_with_a_ring(domain);
        let set = RefCell::new(set);
        let wait = |round: u64| {
            let mut set = set.borrow_mut();
            let told = set.wait(deadlines[round as usize % deadlines.len()]).map(Iterator::collect::<Vec<_>>);
            board.set(TOLD, if told == Ok(vec![(last, Readiness::Set)]) { RIGHT } else { WRONG });
        };
        in_rounds(board, wait, |_| assert_eq!(event(domain, EVENTS - 1).try_wait_any(1), Some(1)));
    })
}

/// Those that the kernel's clock cannot say as well: the ring sleeps for a span, to which the kernel adds what its clock reads.
fn far_deadlines_are_slept_for(world: &World) {
    skip_without_rings(world);
    let domain = world.domain();
    let board = Board::new();
    let deadlines = [Deadline::NEVER, Deadline::at_nanos(u64::MAX - 1), Deadline::at_nanos(i64::MAX as u64)];
    let mut waiting = waiting(world, &domain, board, &deadlines);
    for deadline in deadlines {
        assert!(waiting.to_sleep(libc::SYS_io_uring_enter, 40), "{deadline:?}: it looks again and again");
        board.set(TOLD, 0);
        event(&domain, EVENTS - 1).set(1);
        waiting.wait_woken();
        waiting.go_on();
        assert_eq!(board.get(TOLD), RIGHT, "{deadline:?}");
    }
}

const SUBMISSION: usize = 64;
const NOP: u8 = 0;
const FUTEX_WAITV: u8 = 53;
const INJECT_RESULT: u32 = 1;

/// Makes nothing of the requests to sleep in the rings of a process that stands still: the kernel answers them that it has no
/// memory, when they are handed in. How many that were.
fn refuse_requests(pid: i32) -> usize {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("it lives");
    let mut refused = 0;
    for line in maps.lines().filter(|line| line.ends_with("[io_uring]")) {
        let mut fields = line.split_whitespace();
        let (range, offset) = (fields.next().expect("a range"), fields.nth(1).expect("an offset"));
        // IORING_OFF_SQES: the requests.
        if u64::from_str_radix(offset, 16) != Ok(0x1000_0000) {
            continue;
        }
        let (from, to) = range.split_once('-').expect("two addresses");
        let address = |text| usize::from_str_radix(text, 16).expect("an address");
        let mut requests = vec![0u8; address(to) - address(from)];
        copy(pid, address(from), &mut requests, false);
        for request in requests.chunks_mut(SUBMISSION).filter(|request| request[0] == FUTEX_WAITV) {
            // struct io_uring_sqe: opcode, len, nop_flags.
            request[0] = NOP;
            request[24..28].copy_from_slice(&(-libc::ENOMEM).to_ne_bytes());
            request[28..32].copy_from_slice(&INJECT_RESULT.to_ne_bytes());
            refused += 1;
        }
        copy(pid, address(from), &mut requests, true);
    }
    refused
}

fn copy(pid: i32, address: usize, bytes: &mut [u8], to_process: bool) {
    let here = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let there = libc::iovec { iov_base: core::ptr::without_provenance_mut(address), iov_len: bytes.len() };
    // SAFETY: memory of ours on this side, which lives until the call returns; the kernel checks the other one.
    let copied = unsafe {
        if to_process {
            libc::process_vm_writev(pid, &raw const here, 1, &raw const there, 1, 0)
        } else {
            libc::process_vm_readv(pid, &raw const here, 1, &raw const there, 1, 0)
        }
    };
    assert_eq!(copied, bytes.len() as isize, "{}", std::io::Error::last_os_error());
}

fn requests_without_memory_are_no_error(world: &World) {
    skip_where_none_can_be_refused(world);
    let domain = world.domain();
    let board = Board::new();
    let mut waiting = waiting(world, &domain, board, &[Deadline::NEVER]);
    let mut refused = 0;
    while refused < 20 {
        assert!(waiting.to_call(libc::SYS_io_uring_enter), "told: {}", board.get(TOLD));
        refused += refuse_requests(waiting.child.pid());
    }
    // A slice instead: it would look in a loop.
    assert!(waiting.to_call(libc::SYS_futex), "told: {}", board.get(TOLD));
    event(&domain, EVENTS - 1).set(1);
    waiting.go_on();
    assert_eq!(board.get(TOLD), RIGHT);
    // The ring is there still, and serves.
    assert!(waiting.to_sleep(libc::SYS_io_uring_enter, 40));
    event(&domain, EVENTS - 1).set(1);
    waiting.wait_woken();
    waiting.go_on();
}

/// Whether it has rings, as asked in a round.
const HAS: usize = FREE;

fn a_process_without_memory_asks_for_rings_again(world: &World) {
    skip_where_none_can_be_refused(world);
    let board = Board::new();
    let has = Cell::new(false);
    let mut asking = Stepped::start(world, board, || {
        let ask = |_| has.set(outlive::abilities::has_io_uring_futex());
        in_rounds(board, ask, |_| board.set(HAS, if has.get() { RIGHT } else { WRONG }));
    });
    assert!(asking.to_call(libc::SYS_io_uring_enter), "it tries one");
    assert_eq!(refuse_requests(asking.child.pid()), 1);
    asking.go_on();
    assert_eq!(board.get(HAS), WRONG);
    asking.go_on();
    assert_eq!(board.get(HAS), RIGHT);
}
