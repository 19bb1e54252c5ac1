//! The mutex with priority inheritance when its owner dies: told as the plain one tells, though by
//! the kernel's hand-over and libc's words.

use std::os::unix::fs::FileExt;

use outlive::sync::{AcquireError, LockError, PiMutex, PiMutexGuard};
use outlive::{Deadline, Domain};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::{Child, wait_until};
use crate::pi_mutex::opened;
use crate::runner::World;

crate::checks!(
    a_fresh_locker_is_told,
    of_eight_sleepers_one_is_told,
    all_sleepers_get_on_after_many_deaths: 60,
    woken_sleepers_are_killed: 60,
    a_stopped_sleeper_delays_only_those_behind_it,
    told_and_killed_before_repair,
    who_has_no_answer_leaves_the_lock_to_others,
    not_recoverable_is_refused_until_reset,
    several_at_once,
    a_thread_that_ends_is_a_death_too,
    a_mark_that_the_kernel_lost_is_made,
    damaged_words_are_errors,
);

fn pause() -> ! {
    loop {
        std::thread::park();
    }
}

/// Returns the guard, and whether the lock told of an owner's death.
fn got<'a>(
    result: Result<PiMutexGuard<'a, u64>, LockError<PiMutexGuard<'a, u64>>>,
) -> (PiMutexGuard<'a, u64>, bool) {
    match result {
        Ok(guard) => (guard, false),
        Err(LockError::OwnerDied(mut guard)) => {
            guard.mark_consistent();
            (guard, true)
        }
        Err(error) => panic!("{error}"),
    }
}

/// A child that holds the mutex until it is killed.
fn hold(mutex: &PiMutex<u64>) -> Child {
    let board = Board::new();
    let child = Child::start(|| {
        let (mut guard, _) = got(mutex.lock());
        *guard += 1;
        board.set(0, 1);
        pause();
    });
    board.reach(0, 1);
    child
}

/// Sleepers that count on the board: word 0 told, word 1 not told.
fn sleepers(mutex: &PiMutex<u64>, board: Board, count: usize) -> Vec<Child> {
    let children: Vec<Child> = (0..count)
        .map(|_| {
            Child::start(|| {
                let (_guard, told) = got(mutex.lock());
                board.add(usize::from(!told), 1);
            })
        })
        .collect();
    for child in &children {
        wait_asleep(child.pid());
    }
    children
}

fn a_fresh_locker_is_told(world: &World) {
    let domain = world.domain();
    let mutex = opened(&domain);
    hold(&mutex).kill();
    match mutex.lock() {
        Err(LockError::OwnerDied(mut guard)) => {
            assert_eq!(*guard, 1, "as the dead one left it");
            *guard = 5;
            guard.mark_consistent();
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(*mutex.lock().expect("whole again"), 5);
    hold(&mutex).kill();
    assert!(got(mutex.try_lock().map(|guard| guard.expect("not held"))).1);
    assert_eq!(domain.stats().owner_deaths, 2);
    assert_eq!(domain.stats().rescues, 0, "the kernel made the marks");
}

fn of_eight_sleepers_one_is_told(world: &World) {
    let domain = world.domain();
    let mutex = opened(&domain);
    for _ in 0..20 {
        let mut owner = hold(&mutex);
        let board = Board::new();
        let children = sleepers(&mutex, board, 8);
        owner.kill();
        children.into_iter().for_each(Child::finish);
        assert_eq!((board.get(0), board.get(1)), (1, 7));
    }
}

fn all_sleepers_get_on_after_many_deaths(world: &World) {
    let domain = world.domain();
    let mutex = opened(&domain);
    for _ in 0..30 {
        let board = Board::new();
        let mut owner = hold(&mutex);
        // Each gets in, and every other dies inside.
        let mut children: Vec<Child> = (0..8)
            .map(|n| {
                let mutex = &mutex;
                Child::start(move || {
                    let _guard = got(mutex.lock());
                    board.add(0, 1);
                    if n % 2 == 0 {
                        // SAFETY: no pointers are passed.
                        unsafe { libc::raise(libc::SIGKILL) };
                    }
                })
            })
            .collect();
        for child in &children {
            wait_asleep(child.pid());
        }
        owner.kill();
        for child in &mut children {
            child.wait();
        }
        assert_eq!(board.get(0), 8, "all got in");
    }
}

/// The kernel hands the lock to a sleeper before that one runs; it may be killed until then.
fn woken_sleepers_are_killed(world: &World) {
    let domain = world.domain();
    let mutex = opened(&domain);
    for round in 0..60 {
        let board = Board::new();
        let owner = (round % 2 == 0).then(|| hold(&mutex));
        let guard = owner.is_none().then(|| got(mutex.lock()));
        let mut children = sleepers(&mutex, board, 6);
        if let Some(owner) = &owner {
            owner.signal(libc::SIGKILL);
        }
        drop(guard);
        for child in &children[..4] {
            child.signal(libc::SIGKILL);
        }
        children.drain(4..).for_each(Child::finish);
    }
}

/// The kernel hands over in order, so those behind a stopped one wait for it, as for any owner; the
/// others do not hang.
fn a_stopped_sleeper_delays_only_those_behind_it(world: &World) {
    let domain = world.domain();
    let mutex = opened(&domain);
    for stopped in 0..3 {
        let board = Board::new();
        let mut owner = hold(&mutex);
        let mut children = sleepers(&mutex, board, 3);
        children[stopped].stop();
        owner.kill();
        let late = children.remove(stopped);
        late.go_on();
        late.finish();
        children.into_iter().for_each(Child::finish);
        assert_eq!((board.get(0), board.get(1)), (1, 2));
    }
}

fn told_and_killed_before_repair(world: &World) {
    let domain = world.domain();
    let mutex = opened(&domain);
    hold(&mutex).kill();
    for _ in 0..3 {
        let board = Board::new();
        let mut child = Child::start(|| {
            let guard = mutex.lock();
            assert!(matches!(guard, Err(LockError::OwnerDied(_))));
            board.set(0, 1);
            pause();
        });
        board.reach(0, 1);
        child.kill();
    }
    assert!(got(mutex.lock()).1);
    drop(mutex.lock().expect("whole"));
}

fn mark_not_recoverable(mutex: &PiMutex<u64>) {
    hold(mutex).kill();
    match mutex.lock() {
        Err(LockError::OwnerDied(guard)) => drop(guard),
        other => panic!("{other:?}"),
    }
}

fn who_has_no_answer_leaves_the_lock_to_others(world: &World) {
    let domain = world.domain();
    let mutex = opened(&domain);
    hold(&mutex).kill();
    for _ in 0..3 {
        // In turn by this process and by another: libc tells once, the rest is our own word's
        // doing.
        assert!(matches!(mutex.lock(), Err(LockError::OwnerDied(_))));
        Child::start(|| assert!(matches!(mutex.try_lock(), Err(LockError::OwnerDied(_))))).finish();
    }
    match mutex.lock() {
        Err(LockError::OwnerDied(mut guard)) => guard.mark_consistent(),
        other => panic!("{other:?}"),
    }
    drop(mutex.lock().expect("whole"));
}

fn not_recoverable_is_refused_until_reset(world: &World) {
    let domain = world.domain();
    let mutex = opened(&domain);
    let mut owner = hold(&mutex);
    let board = Board::new();
    let children: Vec<Child> = (0..8)
        .map(|_| {
            Child::start(|| {
                match mutex.lock() {
                    Err(LockError::OwnerDied(guard)) => {
                        board.add(0, 1);
                        guard.mark_not_recoverable();
                    }
                    Err(LockError::Failed(AcquireError::NotRecoverable)) => drop(board.add(1, 1)),
                    other => panic!("{other:?}"),
                };
            })
        })
        .collect();
    for child in &children {
        wait_asleep(child.pid());
    }
    owner.kill();
    children.into_iter().for_each(Child::finish);
    assert_eq!((board.get(0), board.get(1)), (1, 7));
    assert!(matches!(mutex.try_lock(), Err(LockError::Failed(AcquireError::NotRecoverable))));
    mutex.reset(70).expect("reset");
    assert_eq!(*mutex.lock().expect("whole"), 70);
    // One that is whole may be reset too, also from a dead owner.
    hold(&mutex).kill();
    mutex.reset(80).expect("reset");
    assert_eq!(*mutex.lock().expect("whole"), 80);
    // Several processes reset at once: all succeed.
    mark_not_recoverable(&mutex);
    let children: Vec<Child> = (0..4)
        .map(|n| {
            let mutex = &mutex;
            Child::start(move || mutex.reset(n).expect("reset"))
        })
        .collect();
    children.into_iter().for_each(Child::finish);
    assert!(*mutex.lock().expect("whole") < 4);
}

fn several_at_once(world: &World) {
    let domain = world.domain();
    let mutexes: Vec<PiMutex<u64>> = (0..50)
        .map(|n| PiMutex::options(0).open_or_create(&domain, &format!("m{n}")).expect("opens"))
        .collect();
    let board = Board::new();
    let mut child = Child::start(|| {
        let _guards: Vec<_> = mutexes.iter().map(|mutex| mutex.lock().expect("free")).collect();
        board.set(0, 1);
        pause();
    });
    board.reach(0, 1);
    child.kill();
    for mutex in &mutexes {
        assert!(matches!(mutex.lock(), Err(LockError::OwnerDied(_))));
    }
}

fn a_thread_that_ends_is_a_death_too(world: &World) {
    let domain = world.domain();
    let mutex = opened(&domain);
    std::thread::scope(|scope| {
        scope.spawn(|| std::mem::forget(mutex.lock().expect("free")));
    });
    wait_until("the thread's death is told", || {
        matches!(mutex.try_lock(), Err(LockError::OwnerDied(_)))
    });
}

/// The words of a mutex, as a stray write reaches them.
struct Words(std::fs::File);

impl Words {
    fn of(domain: &Domain) -> Words {
        let path = domain.path().join("m");
        Words(std::fs::OpenOptions::new().read(true).write(true).open(path).expect("there"))
    }

    fn read(&self, at: u64) -> u32 {
        let mut bytes = [0; 4];
        self.0.read_exact_at(&mut bytes, 12_288 + at).expect("read");
        u32::from_le_bytes(bytes)
    }

    fn write(&self, at: u64, value: u32) {
        self.0.write_all_at(&value.to_le_bytes(), 12_288 + at).expect("written");
    }

    /// Where libc's lock word lies.
    fn lock_word(&self) -> u64 {
        16 + u64::from(self.read(0) as u8)
    }
}

/// As after the OOM killer's reaper: the word still names a thread that is no more.
fn a_mark_that_the_kernel_lost_is_made(world: &World) {
    let domain = world.domain();
    let mutex = opened(&domain);
    let words = Words::of(&domain);
    let mut gone = Child::start(|| {});
    gone.wait();
    // Not there any more; and dead, but not buried.
    let zombie = Child::start(|| {});
    wait_until("it is a zombie", || {
        std::fs::read_to_string(format!("/proc/{}/stat", zombie.pid()))
            .is_ok_and(|stat| stat.contains(") Z "))
    });
    for (nth, number) in [gone.pid(), zombie.pid()].into_iter().enumerate() {
        words.write(words.lock_word(), number as u32);
        assert!(got(mutex.lock()).1, "told");
        words.write(words.lock_word(), number as u32);
        assert!(got(mutex.try_lock().map(|guard| guard.expect("not held"))).1, "told");
        assert_eq!(domain.stats().rescues, 2 * (nth as u64 + 1));
    }
}

fn damaged_words_are_errors(world: &World) {
    let domain = world.domain();
    let words = {
        drop(opened(&domain));
        Words::of(&domain)
    };
    // Every word but the first two, one after the other; in a child each time, for libc keeps what
    // it found.
    for at in (8..64).step_by(4) {
        let whole = words.read(at);
        for value in [1, 2, 0x7fff_ffff, 0x4000_0000, 0xdead_beef, u32::MAX] {
            words.write(at, value);
            let end = Child::start(|| {
                let mutex = opened(&domain);
                let within = || Deadline::after(std::time::Duration::from_millis(20));
                let _ = mutex.holder();
                drop(mutex.try_lock());
                drop(mutex.lock_until(within()));
                drop(mutex.lock_to_reset_until(within()));
                let _ = domain.entries();
            })
            .wait();
            assert_eq!(end, crate::child::End::Code(0), "word {at} is {value:#x}");
            // The words as they were, for the next.
            for other in (8..64).step_by(4) {
                words.write(other, 0);
            }
            words.write(at, whole);
        }
    }
}
