//! The program's own robust mutexes of libc go on working in threads that have a token, also while
//! they sleep in here.

use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::time::Duration;

use outlive::queue::Queue;
use outlive::sync::{LockError, Mutex};
use outlive::{Deadline, SendError};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::{Child, PATIENCE};
use crate::runner::World;

crate::checks!(
    both_are_told,
    held_while_asleep_in_a_lock,
    a_hundred_at_once,
    pending_is_given_back,
    taken_and_given_back_between_sleeps,
);

/// A robust, process-shared mutex in memory that children inherit.
#[derive(Clone, Copy)]
struct Robust(NonNull<libc::pthread_mutex_t>);

impl Robust {
    fn new() -> Robust {
        // SAFETY: fresh shared memory, page-aligned and large enough; the attribute is initialised
        // by its first call.
        unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
            let memory = libc::mmap(core::ptr::null_mut(), 4096, protection, flags, -1, 0);
            assert_ne!(memory, libc::MAP_FAILED);
            let mutex = memory.cast::<libc::pthread_mutex_t>();
            let mut attribute = MaybeUninit::uninit();
            libc::pthread_mutexattr_init(attribute.as_mut_ptr());
            libc::pthread_mutexattr_setpshared(
                attribute.as_mut_ptr(),
                libc::PTHREAD_PROCESS_SHARED,
            );
            libc::pthread_mutexattr_setrobust(attribute.as_mut_ptr(), libc::PTHREAD_MUTEX_ROBUST);
            assert_eq!(libc::pthread_mutex_init(mutex, attribute.as_ptr()), 0);
            Robust(NonNull::new(mutex).expect("mapped"))
        }
    }

    /// What `pthread_mutex_lock` says; never waits long, as `pthread_mutex_timedlock`.
    fn lock(self) -> i32 {
        // SAFETY: the place is ours; the mutex lives as long as the memory, which is never
        // unmapped.
        unsafe {
            let mut until = MaybeUninit::<libc::timespec>::uninit();
            libc::clock_gettime(libc::CLOCK_REALTIME, until.as_mut_ptr());
            let mut until = until.assume_init();
            until.tv_sec += PATIENCE.as_secs() as libc::time_t;
            libc::pthread_mutex_timedlock(self.0.as_ptr(), &raw const until)
        }
    }

    fn unlock(self) {
        // SAFETY: the place is ours; the mutex lives as long as the memory, which is never
        // unmapped.
        assert_eq!(unsafe { libc::pthread_mutex_unlock(self.0.as_ptr()) }, 0);
    }

    /// Takes it from an owner that must have died.
    fn expect_owner_died(self) {
        assert_eq!(self.lock(), libc::EOWNERDEAD);
        // SAFETY: the place is ours; the mutex lives as long as the memory, which is never
        // unmapped.
        assert_eq!(unsafe { libc::pthread_mutex_consistent(self.0.as_ptr()) }, 0);
        self.unlock();
        assert_eq!(self.lock(), 0);
        self.unlock();
    }
}

/// What the kernel would look at if this thread died now.
fn pending() -> usize {
    let mut head: *mut [usize; 3] = core::ptr::null_mut();
    let mut size = 0usize;
    // SAFETY: two places of ours; the head is this thread's own and has three words.
    unsafe {
        assert_eq!(libc::syscall(libc::SYS_get_robust_list, 0, &raw mut head, &raw mut size), 0);
        (*head)[2]
    }
}

fn both_are_told(world: &World) {
    let domain = world.domain();
    let mutex = Mutex::<u64>::options(0).open_or_create(&domain, "m").expect("opens");
    for token_first in [true, false] {
        let robust = Robust::new();
        let board = Board::new();
        let mut child = Child::start(|| {
            if token_first {
                domain.token().expect("a token");
            }
            assert_eq!(robust.lock(), 0);
            let _guard = match mutex.lock() {
                Ok(guard) => guard,
                Err(error) => panic!("{error}"),
            };
            board.set(0, 1);
            loop {
                std::thread::park();
            }
        });
        board.reach(0, 1);
        child.kill();
        robust.expect_owner_died();
        match mutex.lock() {
            Err(LockError::OwnerDied(mut guard)) => guard.mark_consistent(),
            other => panic!("{other:?}"),
        }
    }
}

fn held_while_asleep_in_a_lock(world: &World) {
    let domain = world.domain();
    let mutex = Mutex::<u64>::options(0).open_or_create(&domain, "m").expect("opens");
    let (before, after) = (Robust::new(), Robust::new());
    let guard = mutex.lock().expect("free");
    let mut asleep = Child::start(|| {
        assert_eq!(before.lock(), 0);
        domain.token().expect("a token");
        assert_eq!(after.lock(), 0);
        let _ = mutex.lock();
    });
    let other = Child::start(|| drop(mutex.lock().expect("free in the end")));
    wait_asleep(asleep.pid());
    wait_asleep(other.pid());
    asleep.kill();
    before.expect_owner_died();
    after.expect_owner_died();
    drop(guard);
    other.finish();
}

fn a_hundred_at_once(world: &World) {
    let domain = world.domain();
    let robust: Vec<Robust> = (0..100).map(|_| Robust::new()).collect();
    let board = Board::new();
    let mut child = Child::start(|| {
        for (n, robust) in robust.iter().enumerate() {
            if n == 50 {
                domain.token().expect("a token");
                domain.process_token().expect("a token");
            }
            assert_eq!(robust.lock(), 0);
        }
        board.set(0, 1);
        loop {
            std::thread::park();
        }
    });
    board.reach(0, 1);
    assert_eq!(domain.tokens().iter().filter(|token| token.alive).count(), 2);
    child.kill();
    assert_eq!(domain.tokens().iter().filter(|token| token.alive).count(), 0);
    robust.into_iter().for_each(Robust::expect_owner_died);
}

/// Every call that sleeps borrows the field; all of them give it back, however they end.
fn pending_is_given_back(world: &World) {
    let domain = world.domain();
    let soon = || Deadline::after(Duration::from_millis(5));
    let mutex = Mutex::<u64>::options(0).open_or_create(&domain, "m").expect("opens");
    let queue =
        Queue::<[u8]>::options().max_bytes(64 << 10).open_or_create(&domain, "q").expect("made");
    let sender = queue.sender().expect("a sender");
    assert_eq!(pending(), 0);
    while sender.try_send(&[1; 64]).is_ok() {}
    assert_eq!(sender.send_until(&[1; 64], soon()), Err(SendError::TimedOut { slowest: None }));
    assert_eq!(pending(), 0, "after a send without a receiver");
    let mut receiver = queue.receiver().expect("none yet");
    assert_eq!(pending(), 0, "after becoming the receiver");
    assert_eq!(sender.send_until(&[1; 64], soon()), Err(SendError::TimedOut { slowest: None }));
    assert_eq!(pending(), 0, "after a send with a receiver");
    while receiver.try_recv().is_ok_and(|message| message.is_some()) {}
    assert_eq!(receiver.recv_until(soon()), Ok(None));
    assert_eq!(pending(), 0, "after a receive that timed out");
    let board = Board::new();
    let child = Child::start(|| {
        let guard = mutex.lock().expect("free");
        board.set(0, 1);
        board.reach(1, 1);
        drop(guard);
        board.reach(1, 2);
        queue.sender().expect("a sender").send(b"x").expect("sent");
    });
    board.reach(0, 1);
    assert!(matches!(mutex.lock_until(soon()), Ok(None)));
    assert_eq!(pending(), 0, "after a lock that timed out");
    let peer = domain.peer(mutex.holder().expect("the child").token);
    peer.wait_dead_until(soon()).expect_err("it lives");
    assert_eq!(pending(), 0, "after waiting for an end in vain");
    board.set(1, 1);
    drop(mutex.lock().expect("given back"));
    assert_eq!(pending(), 0, "after a lock that was waited for");
    board.set(1, 2);
    assert_eq!(receiver.recv().expect("sent"), b"x");
    assert_eq!(pending(), 0, "after a receive that slept");
    child.finish();
    peer.wait_dead_timeout(PATIENCE).expect("ended");
    assert_eq!(pending(), 0, "after waiting for an end");
}

fn taken_and_given_back_between_sleeps(world: &World) {
    let domain = world.domain();
    let mutex = Mutex::<u64>::options(0).open_or_create(&domain, "m").expect("opens");
    let robust = Robust::new();
    let board = Board::new();
    let mut children: Vec<Child> = (0..2)
        .map(|n| {
            let (domain, mutex, board) = (&domain, &mutex, board);
            Child::start(move || {
                domain.token().expect("a token");
                loop {
                    let guard = mutex.lock();
                    assert_eq!(robust.lock(), 0);
                    drop(guard.expect("nobody dies"));
                    robust.unlock();
                    board.add(n, 1);
                }
            })
        })
        .collect();
    board.reach(0, 2_000);
    board.reach(1, 2_000);
    for child in &mut children {
        child.kill();
    }
    match robust.lock() {
        0 => robust.unlock(),
        libc::EOWNERDEAD => {}
        other => panic!("{other}"),
    }
}
