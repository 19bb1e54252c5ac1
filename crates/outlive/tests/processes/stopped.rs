//! What a stopped process holds up: only the processes that wait for something that it has. And
//! what is left of a sleeper's recheck when the kernel keeps silent.

use std::time::Duration;

use outlive::Domain;
use outlive::sync::{LockError, Mutex, RwLock};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::{Child, PATIENCE, exit_now, wait_until};
use crate::denied;
use crate::forge::{BODY, Bytes};
use crate::runner::World;
use crate::waiting::owner;

crate::checks!(
    a_sleeper_stopped_with_the_death_notice_in_hand_holds_up_nobody: 60,
    a_releaser_stopped_at_any_instruction_has_the_lock_or_has_told_all: 300,
    a_reader_sleeps_behind_one_that_was_stopped_before_it_was_told: 60,
    short_deadlines_find_a_mark_that_the_kernel_lost: 60,
    wakes_do_not_slow_down_with_the_age_of_the_domain: 60,
    a_call_that_is_denied_from_now_on_is_done_without: 60,
);

/// A child that this process steers by `ptrace`. It begins stopped.
struct Steered(Child);

impl Steered {
    fn start(body: impl FnOnce()) -> Steered {
        let child = Child::start(|| {
            // SAFETY: no pointers are passed.
            unsafe {
                libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
                libc::raise(libc::SIGSTOP);
            }
            body();
        });
        let steered = Steered(child);
        assert!(steered.is_stopped_again(), "it begins stopped");
        steered
    }

    /// Lets it go on: to the next system call's begin or end, by one instruction, or untraced.
    fn order(&self, request: libc::c_uint) {
        // SAFETY: no pointers are passed; the child is stopped and ours.
        let done = unsafe { libc::ptrace(request, self.0.pid(), 0, 0) };
        assert_eq!(done, 0, "ptrace: {}", std::io::Error::last_os_error());
    }

    /// Waits until it is stopped; false: it has ended, and is not to be asked again.
    fn is_stopped_again(&self) -> bool {
        let mut stopped = None;
        wait_until("a traced child stops", || {
            stopped = self.stop_seen();
            stopped.is_some()
        });
        stopped.unwrap_or(false)
    }

    fn stop_seen(&self) -> Option<bool> {
        let mut status = 0;
        // SAFETY: status is a place for an int.
        let got = unsafe { libc::waitpid(self.0.pid(), &raw mut status, libc::WNOHANG) };
        (got == self.0.pid()).then_some(libc::WIFSTOPPED(status))
    }

    /// The number of the system call that it is in.
    fn call(&self) -> Option<i64> {
        let text = std::fs::read_to_string(format!("/proc/{}/syscall", self.0.pid())).ok()?;
        text.split(' ').next()?.parse().ok()
    }

    fn is_asleep(&self) -> bool {
        let stat =
            std::fs::read_to_string(format!("/proc/{}/stat", self.0.pid())).unwrap_or_default();
        stat.contains(") S ") && self.call() == Some(libc::SYS_futex_waitv)
    }

    /// From one system call to the next, until it sleeps in a `futex_waitv`. How many futex calls
    /// began meanwhile.
    fn goes_to_sleep(&self) -> u32 {
        let mut calls = 0;
        let mut begins = false;
        loop {
            self.order(libc::PTRACE_SYSCALL);
            begins = !begins;
            let mut stopped = None;
            wait_until("a traced child stops or sleeps", || {
                stopped = self.stop_seen();
                stopped.is_some() || self.is_asleep()
            });
            match stopped {
                Some(true) => {}
                Some(false) => panic!("it ended"),
                None => return calls,
            }
            if begins && matches!(self.call(), Some(libc::SYS_futex | libc::SYS_futex_waitv)) {
                calls += 1;
            }
        }
    }

    /// Counts its futex calls until its end.
    fn futex_calls_to_the_end(self) -> u32 {
        let mut calls = 0;
        let mut begins = true;
        loop {
            self.order(libc::PTRACE_SYSCALL);
            if !self.is_stopped_again() {
                // Waited for already.
                core::mem::forget(self);
                return calls;
            }
            if begins && matches!(self.call(), Some(libc::SYS_futex | libc::SYS_futex_waitv)) {
                calls += 1;
            }
            begins = !begins;
        }
    }

    fn let_go(self) -> Child {
        self.order(libc::PTRACE_DETACH);
        self.0
    }
}

/// With the recheck that there is unless one says otherwise.
fn rechecking(world: &World) -> Domain {
    Domain::options()
        .recheck(Some(Duration::from_secs(1)))
        .open_or_create_at(world.domain().path())
        .expect("opens")
}

fn holder(mutex: &Mutex<u64>) -> Child {
    let board = Board::new();
    let child = Child::start(|| {
        let _guard = mutex.lock().expect("free");
        board.set(0, 1);
        loop {
            std::thread::park();
        }
    });
    board.reach(0, 1);
    child
}

/// The next to come in, told of the death of the last, makes it whole.
fn mend(mutex: &Mutex<u64>) {
    match mutex.lock() {
        Ok(_) => {}
        Err(LockError::OwnerDied(mut guard)) => guard.mark_consistent(),
        Err(error) => panic!("{error}"),
    }
}

/// The kernel wakes one sleeper of a dead owner's, the first. It is stopped on its way out of the
/// system call.
fn a_sleeper_stopped_with_the_death_notice_in_hand_holds_up_nobody(world: &World) {
    let domain = rechecking(world);
    let mutex = Mutex::<u64>::options(0).open_or_create(&domain, "m").expect("opens");
    let mut owner = holder(&mutex);
    let first = Steered::start(|| mend(&mutex));
    first.goes_to_sleep();
    let others: Vec<Child> = (0..2).map(|_| Child::start(|| mend(&mutex))).collect();
    others.iter().for_each(|other| wait_asleep(other.pid()));
    owner.kill();
    // It has the notice, and is stopped before it has told any process.
    assert!(first.is_stopped_again());
    others.into_iter().for_each(Child::finish);
    first.let_go().finish();
}

/// There is no recheck: a process that sleeps beside a free lock sleeps on.
fn a_releaser_stopped_at_any_instruction_has_the_lock_or_has_told_all(world: &World) {
    let domain = world.domain();
    let mutex = Mutex::<u64>::options(0).open_or_create(&domain, "m").expect("opens");
    let mut held_at = 0;
    let mut free_at = 0;
    for stop_at in 0.. {
        let board = Board::new();
        let releaser = Steered::start(|| {
            let guard = mutex.lock().expect("free");
            board.set(0, 1);
            // Stopped once more, just before it gives the lock back.
            // SAFETY: no pointers are passed.
            unsafe { libc::syscall(libc::SYS_tkill, libc::gettid(), libc::SIGSTOP) };
            drop(guard);
            board.set(1, 1);
        });
        releaser.order(libc::PTRACE_CONT);
        assert!(releaser.is_stopped_again());
        assert_eq!(board.get(0), 1);
        let sleepers: Vec<Child> = (0..2)
            .map(|_| {
                Child::start(|| {
                    drop(mutex.lock().expect("given back"));
                    board.add(2, 1);
                })
            })
            .collect();
        sleepers.iter().for_each(|sleeper| wait_asleep(sleeper.pid()));
        for _ in 0..stop_at {
            releaser.order(libc::PTRACE_SINGLESTEP);
            assert!(releaser.is_stopped_again());
        }
        let over = board.get(1) == 1;
        // Stopped there, it either has the lock still, or both come in.
        if matches!(mutex.try_lock(), Ok(None)) && board.get(2) == 0 {
            held_at += 1;
        } else {
            free_at += 1;
            board.reach(2, 2);
        }
        releaser.let_go().finish();
        sleepers.into_iter().for_each(Child::finish);
        if over {
            break;
        }
    }
    eprintln!("stopped at {held_at} instructions with the lock, at {free_at} without");
    assert!(held_at > 3 && free_at > 1);
}

/// What the lock guards is torn, and no thread holds it: the next upgradable reader has its mark in
/// the word before it looks at the state, and lets no thread in.
fn a_reader_sleeps_behind_one_that_was_stopped_before_it_was_told(world: &World) {
    const SHARED: u32 = 1 << 30;
    let domain = world.domain();
    let lock = RwLock::options(0u64).open_or_create(&domain, "rw").expect("opens");
    Child::start(|| {
        let _guard = lock.write().expect("free");
        exit_now(0);
    })
    .finish();
    assert!(matches!(lock.write(), Err(LockError::OwnerDied(_))), "told, and has not repaired it");
    let board = Board::new();
    let upgradable = Steered::start(|| {
        domain.token().expect("a token");
        // SAFETY: no pointers are passed.
        unsafe { libc::raise(libc::SIGSTOP) };
        let Err(LockError::OwnerDied(mut guard)) = lock.upgradable_read() else {
            panic!("not told");
        };
        guard.mark_consistent();
        let _reading = guard.downgrade_to_upgradable().expect("repaired");
        board.reach(0, 1);
    });
    upgradable.order(libc::PTRACE_CONT);
    assert!(upgradable.is_stopped_again());
    let words = Bytes::of(&domain, "rw");
    while words.word(BODY) & SHARED == 0 {
        upgradable.order(libc::PTRACE_SINGLESTEP);
        assert!(upgradable.is_stopped_again());
    }
    assert!(matches!(lock.try_read(), Ok(None)));
    assert!(matches!(lock.read_timeout(Duration::from_millis(50)), Ok(None)));
    let reader = Child::start(|| {
        drop(lock.read().expect("repaired, and shared"));
        board.set(0, 1);
    });
    wait_asleep(reader.pid());
    upgradable.let_go().finish();
    reader.finish();
    assert_eq!(domain.stats().rescues, 0);
}

/// The list of robust mutexes is taken away: the kernel marks nothing at the end. No process sleeps
/// for a whole recheck.
fn short_deadlines_find_a_mark_that_the_kernel_lost(world: &World) {
    let domain = Domain::options()
        .recheck(Some(Duration::from_millis(300)))
        .open_or_create_at(world.domain().path())
        .expect("opens");
    let mutex = Mutex::<u64>::options(0).open_or_create(&domain, "m").expect("opens");
    let board = Board::new();
    let mut unmarked = Child::start(|| {
        let _guard = mutex.lock().expect("free");
        let mut head = [0usize; 3];
        head[0] = head.as_ptr().addr();
        // SAFETY: an empty list, which lives as long as this process.
        unsafe { libc::syscall(libc::SYS_set_robust_list, head.as_mut_ptr(), size_of_val(&head)) };
        board.set(0, 1);
        loop {
            std::thread::park();
        }
    });
    board.reach(0, 1);
    unmarked.kill();
    wait_until("a waiter with short deadlines is told", || {
        match mutex.lock_timeout(Duration::from_millis(40)) {
            Ok(None) => false,
            Err(LockError::OwnerDied(mut guard)) => {
                guard.mark_consistent();
                true
            }
            other => panic!("{:?}", other.err()),
        }
    });
    assert_eq!(domain.stats().rescues, 1);
}

const WORKERS: usize = 120;

/// Workers that were once watched together with others have gone, and no process has claimed their
/// slots since.
fn wakes_do_not_slow_down_with_the_age_of_the_domain(world: &World) {
    let domain = world.domain();
    let (_others, peers): (Vec<Child>, Vec<_>) =
        (0..2).map(|_| owner(&domain, Board::new())).unzip();
    let pair = [peers[0].id(), peers[1].id()];
    let board = Board::new();
    let shared = &domain;
    let mut workers = Child::start(|| {
        for _ in 0..WORKERS {
            let domain = shared.clone();
            std::thread::spawn(move || {
                domain.token().expect("a token");
                board.add(0, 1);
                loop {
                    std::thread::park();
                }
            });
        }
        loop {
            std::thread::park();
        }
    });
    board.reach(0, WORKERS as u64);
    let pid = workers.pid() as u32;
    let ids: Vec<_> =
        domain.tokens().iter().filter(|token| token.pid == pid).map(|token| token.id).collect();
    assert!(ids.len() >= WORKERS);
    let glance = Duration::from_millis(1);
    for some in ids.chunks(20) {
        assert!(domain.wait_any_dead_timeout(some, glance) == Ok(None), "all live");
    }
    workers.kill();
    // The first wake after their end tells all processes that may have slept on them.
    assert!(domain.wait_any_dead_timeout(&pair, glance) == Ok(None), "both live");
    let mutex = Mutex::<u64>::options(0).open_or_create(&domain, "m").expect("opens");
    let (told, free) = (Board::new(), Board::new());
    let owner = Child::start(|| {
        // Watched together with another: sleepers behind it use the shared relay.
        let guard = mutex.lock().expect("free");
        told.set(0, u64::from(shared.token().expect("a token").as_u32()));
        free.reach(0, 1);
        drop(guard);
    });
    let id = crate::waiting::token_on(&domain, told, 0);
    assert!(domain.wait_any_dead_timeout(&[id, pair[0]], glance) == Ok(None), "both live");
    let waiter = Steered::start(|| drop(mutex.lock().expect("given back")));
    let before = waiter.goes_to_sleep();
    free.set(0, 1);
    assert!(waiter.is_stopped_again());
    let after = waiter.futex_calls_to_the_end();
    owner.finish();
    assert!(before + after < 40, "{before} and {after} futex calls for one contended lock");
}

/// A filter that comes after the first question, and one that answers with any number.
fn a_call_that_is_denied_from_now_on_is_done_without(world: &World) {
    let domain = world.domain();
    let mutex = Mutex::<u64>::options(0).open_or_create(&domain, "m").expect("opens");
    for errno in [libc::EPERM, libc::ENOSYS, libc::EINVAL, libc::ENOTSUP, libc::ELOOP] {
        for asked_before in [true, false] {
            let (mut dies, peer) = owner(&domain, Board::new());
            let guard = mutex.lock().expect("free");
            let board = Board::new();
            let denied = Child::start(|| {
                if asked_before {
                    // A sleep, so that the question has been asked.
                    assert!(matches!(mutex.lock_timeout(Duration::from_millis(1)), Ok(None)));
                }
                denied::answer(libc::SYS_futex_waitv, None, errno);
                assert!(matches!(mutex.lock_timeout(Duration::from_millis(20)), Ok(None)));
                board.set(0, 1);
                drop(mutex.lock_timeout(PATIENCE).expect("given back").expect("in time"));
                board.set(0, 2);
                peer.wait_dead().expect("told");
            });
            board.reach(0, 1);
            drop(guard);
            board.reach(0, 2);
            dies.kill();
            denied.finish();
        }
    }
}
