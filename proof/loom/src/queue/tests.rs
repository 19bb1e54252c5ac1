//! The queue's own code under loom: small messages, two senders at most, deaths between calls.
//!
//! Loom sees atomics only, not the bytes of a payload; so a message's number is its length, which
//! lies in an atomic.

use std::sync::{Arc as StdArc, OnceLock};

use loom::thread;

use super::ring::Ring;
use super::spare::Spare;
use super::{Inner, Receiver, Sender};
use crate::liveness::{Registry, Slot, TokenId, become_thread};
use crate::shim::explore;
use crate::sys::robust::{ListHead, end_thread};
use crate::wake::SpinWait;
use crate::{Deadline, SendError};

/// Tokens 0, 1, 2 are threads; 3, 4, 5 their processes.
fn world(first: usize, regions: usize) -> StdArc<Inner> {
    let slots = (0..6).map(|n| Slot::held_by(n + 100)).collect();
    let registry: &'static Registry = Box::leak(Box::new(Registry::new(slots)));
    let ring = Ring::new(first, regions);
    let (spin_wait, need_receiver, keeps) = (SpinWait::new(), false, false);
    let annex_bytes = OnceLock::new();
    let spare = Spare::default();
    StdArc::new(Inner { ring, registry, spin_wait, need_receiver, keeps, annex_bytes, spare })
}

/// The calling thread is number `n`, in a process of its own; its list lives as long as the test.
fn be(n: u32) -> &'static ListHead {
    let list: &'static mut ListHead = Box::leak(Box::new(ListHead::new()));
    let pointer: *mut ListHead = list;
    become_thread(TokenId::new(n, 0), TokenId::new(n + 3, 0), pointer);
    // SAFETY: leaked; written through the pointer by this thread only, read after.
    unsafe { &*pointer }
}

/// The calling thread's process ends: its thread's mark, then its own.
fn die(inner: &Inner, n: u32, list: &ListHead) {
    end_thread(&inner.registry.slots[n as usize], list);
    end_thread(&inner.registry.slots[n as usize + 3], &ListHead::new());
}

fn message(n: usize) -> &'static [u8] {
    &[0; 48][..n]
}

#[test]
fn loom_queue_one_sender_in_order_and_the_receiver_is_woken() {
    explore(3, || {
        let inner = world(2, 1);
        let sending = {
            let inner = StdArc::clone(&inner);
            thread::spawn(move || {
                be(1);
                let sender = Sender::<[u8]>::new(inner).unwrap();
                sender.send(message(1)).unwrap();
                sender.send(message(2)).unwrap();
                core::mem::forget(sender);
            })
        };
        be(0);
        let mut receiver = Receiver::<[u8]>::new(inner, Deadline::NEVER).unwrap();
        assert_eq!(receiver.recv().unwrap().len(), 1);
        assert_eq!(receiver.recv().unwrap().len(), 2);
        core::mem::forget(receiver);
        sending.join().unwrap();
    });
}

#[test]
fn loom_queue_two_senders_through_a_closed_region() {
    explore(3, || {
        let inner = world(1, 2);
        let sending = [1, 2].map(|n| {
            let inner = StdArc::clone(&inner);
            thread::spawn(move || {
                be(n);
                let sender = Sender::<[u8]>::new(inner).unwrap();
                sender.send(message(n as usize)).unwrap();
                core::mem::forget(sender);
            })
        });
        for thread in sending {
            thread.join().unwrap();
        }
        be(0);
        let mut receiver = Receiver::<[u8]>::new(inner, Deadline::NEVER).unwrap();
        let mut got = [(); 2].map(|()| receiver.try_recv().unwrap().unwrap().len());
        got.sort_unstable();
        assert_eq!(got, [1, 2]);
        assert_eq!(receiver.try_recv(), Ok(None));
        core::mem::forget(receiver);
    });
}

#[test]
fn loom_queue_a_full_queue_lets_its_sender_go_on() {
    a_full_queue(2);
}

#[test]
#[ignore = "half a minute: part of `cargo xtask loom --all`"]
fn loom_queue_a_full_queue_lets_its_sender_go_on_with_one_more_preemption() {
    a_full_queue(3);
}

fn a_full_queue(bound: usize) {
    explore(bound, || {
        let inner = world(1, 1);
        let sending = {
            let inner = StdArc::clone(&inner);
            thread::spawn(move || {
                be(1);
                let sender = Sender::<[u8]>::new(inner).unwrap();
                for n in 1..=2 {
                    sender.send(message(n)).unwrap();
                }
                core::mem::forget(sender);
            })
        };
        be(0);
        let mut receiver = Receiver::<[u8]>::new(inner, Deadline::NEVER).unwrap();
        for n in 1..=2 {
            assert_eq!(receiver.recv().unwrap().len(), n);
        }
        core::mem::forget(receiver);
        sending.join().unwrap();
    });
}

#[test]
fn loom_queue_a_waiting_sender_is_told_of_its_receivers_death() {
    explore(3, || {
        let inner = world(1, 1);
        let sending = {
            let inner = StdArc::clone(&inner);
            thread::spawn(move || {
                be(1);
                let sender = Sender::<[u8]>::new(inner).unwrap();
                let sent = sender.send(message(1)).and_then(|()| sender.send(message(2)));
                core::mem::forget(sender);
                sent
            })
        };
        let list = be(0);
        let receiver = Receiver::<[u8]>::new(StdArc::clone(&inner), Deadline::NEVER).unwrap();
        core::mem::forget(receiver);
        die(&inner, 0, list);
        assert_eq!(sending.join().unwrap(), Err(SendError::ReceiverDied));
    });
}

#[test]
#[ignore = "half a minute: part of `cargo xtask loom --all`"]
fn loom_queue_a_region_is_closed_while_others_claim_and_receive() {
    explore(1, || {
        let inner = world(1, 2);
        let sending = [(1, 2), (2, 1)].map(|(n, count)| {
            let inner = StdArc::clone(&inner);
            thread::spawn(move || {
                be(n);
                let sender = Sender::<[u8]>::new(inner).unwrap();
                for k in 0..count {
                    sender.send(message((n * 2 + k) as usize)).unwrap();
                }
                core::mem::forget(sender);
            })
        });
        be(0);
        let mut receiver = Receiver::<[u8]>::new(inner, Deadline::NEVER).unwrap();
        let mut got: Vec<usize> = (0..3).map(|_| receiver.recv().unwrap().len()).collect();
        assert!(got.iter().position(|&n| n == 2) < got.iter().position(|&n| n == 3), "{got:?}");
        got.sort_unstable();
        assert_eq!(got, [2, 3, 4]);
        core::mem::forget(receiver);
        for thread in sending {
            thread.join().unwrap();
        }
    });
}

/// A wait set's part, as `wait/source_list.rs` does it: look, announce, fence, look again, sleep on
/// the eventcount.
fn wait_in_set(readiness: &super::QueueReadiness) {
    use crate::sys::clock::Deadline;
    use crate::sys::futex;
    use crate::wake::{Readiness, SourceState, Waited};
    let is_ready = || readiness.look() == SourceState::Ready(Readiness::Readable);
    while !is_ready() {
        let mut ticket = readiness.messages().count().announce();
        crate::sys::barrier::heavy();
        readiness.messages().count().note_fence(&mut ticket);
        // The sender that writes there lives on in these tests: it will notify.
        if is_ready() {
            return;
        }
        futex::wait_any(&[readiness.messages().count().watch(ticket)], 0, Deadline::NEVER).unwrap();
    }
}

#[test]
fn loom_queue_a_set_is_told_beside_the_receiver() {
    explore(2, || {
        let inner = world(2, 1);
        be(0);
        let mut receiver = Receiver::<[u8]>::new(StdArc::clone(&inner), Deadline::NEVER).unwrap();
        let readiness = receiver.raw.readiness();
        let sending = {
            let inner = StdArc::clone(&inner);
            thread::spawn(move || {
                be(1);
                let sender = Sender::<[u8]>::new(inner).unwrap();
                sender.send(message(1)).unwrap();
                core::mem::forget(sender);
            })
        };
        // The same message is told to all.
        let other = readiness.clone();
        let set = thread::spawn(move || wait_in_set(&other));
        wait_in_set(&readiness);
        sending.join().unwrap();
        set.join().unwrap();
        assert_eq!(receiver.recv().unwrap().len(), 1);
        core::mem::forget(receiver);
    });
}

#[test]
fn loom_queue_a_set_is_told_of_each_of_two_messages() {
    explore(2, || {
        let inner = world(2, 1);
        be(0);
        let mut receiver = Receiver::<[u8]>::new(StdArc::clone(&inner), Deadline::NEVER).unwrap();
        let readiness = receiver.raw.readiness();
        let sending = [1, 2].map(|n| {
            let inner = StdArc::clone(&inner);
            thread::spawn(move || {
                be(n);
                let sender = Sender::<[u8]>::new(inner).unwrap();
                sender.send(message(n as usize)).unwrap();
                core::mem::forget(sender);
            })
        });
        for _ in 0..2 {
            wait_in_set(&readiness);
            assert!(receiver.try_recv().unwrap().is_some());
        }
        core::mem::forget(receiver);
        sending.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
