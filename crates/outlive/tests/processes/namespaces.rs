//! Pid namespaces: threads with equal numbers in two of them never pass for one another.

use std::path::Path;
use std::time::Duration;

use outlive::sync::{LockError, Mutex};
use outlive::{Domain, TokenId};

use crate::asleep::thread_id;
use crate::board::Board;
use crate::child::{self, Child, End, wait_until};
use crate::runner::World;

crate::checks!(
    equal_numbers_and_one_is_killed,
    a_domain_opened_before_the_namespace,
    a_child_of_the_same_number,
    a_namesake_is_killed_while_it_waits,
    locks_work_across,
    a_foreign_proc_does_not_kill_the_living,
    many_deaths_across: 180,
);

/// Makes the next child of this process the first of a pid namespace of its own.
fn leave_namespace() -> Result<(), std::io::Error> {
    // SAFETY: no pointers are passed.
    let user = unsafe { libc::geteuid() };
    // SAFETY: no pointers are passed.
    if unsafe { libc::unshare(libc::CLONE_NEWPID) } == 0 {
        return Ok(());
    }
    // SAFETY: no pointers are passed.
    if unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWPID) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    // The user stays the same as before; otherwise the domain's folder would belong to another
    // user.
    std::fs::write("/proc/self/uid_map", format!("{user} {user} 1"))
}

pub fn skip_if_not_permitted(world: &World) {
    let code = Child::start(|| leave_namespace().expect("permitted")).wait();
    if code != End::Code(0) {
        world.skip("pid namespaces may not be made here");
    }
}

/// A child in a pid namespace of its own, where it is number 1. Killed when dropped: a namespace
/// ends with its first.
pub fn start_namespace(body: impl FnOnce()) -> Child {
    let board = Board::new();
    // A process between, which may leave; it ends with its child.
    Child::start(move || {
        leave_namespace().expect("permitted");
        let inner = Child::start(|| {
            board.set(0, 1);
            assert_eq!(thread_id(), 1);
            body();
        });
        match inner.wait_however_long() {
            End::Code(code) => child::exit_now(code),
            End::Signal(signal) => child::exit_now(128 + signal),
        }
    })
}

/// Kills the one in the namespace and the one between.
fn kill(mut between: Child) {
    let children = format!("/proc/{}/task/{0}/children", between.pid());
    let inner: i32 = std::fs::read_to_string(Path::new(&children))
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .expect("it has one child");
    // SAFETY: no pointers are passed; the pid is of a grandchild that its parent has not waited
    // for.
    unsafe { libc::kill(inner, libc::SIGKILL) };
    between.wait();
}

fn pause() -> ! {
    loop {
        std::thread::park();
    }
}

fn find(domain: &Domain, bits: u64) -> TokenId {
    let tokens = domain.tokens();
    let found = tokens.iter().find(|token| u64::from(token.id.as_u32()) == bits);
    found.expect("in the registry").id
}

fn equal_numbers_and_one_is_killed(world: &World) {
    skip_if_not_permitted(world);
    kill_one_of_two(world, || world.domain());
}

/// What this process had found out about itself is not true of its child.
fn a_domain_opened_before_the_namespace(world: &World) {
    skip_if_not_permitted(world);
    let domain = world.domain();
    domain.token().expect("a token");
    kill_one_of_two(world, || domain.clone());
}

fn kill_one_of_two(world: &World, open: impl Fn() -> Domain) {
    for _ in 0..10 {
        let board = Board::new();
        let [a, b] = [1, 2].map(|word| {
            let open = &open;
            start_namespace(move || {
                let domain = open();
                board.set(word, u64::from(domain.token().expect("a token").as_u32()));
                pause();
            })
        });
        board.reach(1, 1);
        board.reach(2, 1);
        // In a process that has not seen the namespaces being made.
        let domain = world.domain();
        let [first, second] = [1, 2].map(|word| domain.peer(find(&domain, board.reach(word, 1))));
        for peer in [first, second] {
            let info = peer.info().expect("known");
            assert_eq!((info.pid, info.tid, info.same_namespace), (1, 1, false));
        }
        assert!(first.is_alive() && second.is_alive());
        kill(a);
        first.wait_dead_timeout(crate::child::PATIENCE).expect("told");
        assert!(second.is_alive(), "the namesake lives");
        kill(b);
        second.wait_dead_timeout(crate::child::PATIENCE).expect("told");
    }
}

fn a_child_of_the_same_number(world: &World) {
    skip_if_not_permitted(world);
    let domain = world.domain();
    start_namespace(|| {
        let (mine, my_process) = (domain.token(), domain.process_token());
        start_namespace(|| {
            assert_ne!(domain.token(), mine);
            assert_ne!(domain.process_token(), my_process, "a child passes for its parent");
        })
        .finish();
        for id in [mine, my_process] {
            assert!(domain.peer(id.expect("a token")).is_alive());
        }
    })
    .finish();
}

/// The one that waits has the owner's token word in its wait set; killed there, it must not mark
/// the owner.
fn a_namesake_is_killed_while_it_waits(world: &World) {
    skip_if_not_permitted(world);
    let domain = world.domain();
    let mutex = Mutex::<u64>::options(0).open_or_create(&domain, "m").expect("opens");
    for _ in 0..20 {
        let board = Board::new();
        let owner = start_namespace(|| {
            let mut guard = match mutex.lock() {
                Ok(guard) => guard,
                Err(LockError::OwnerDied(mut guard)) => {
                    guard.mark_consistent();
                    guard
                }
                Err(error) => panic!("{error}"),
            };
            *guard += 1;
            board.set(1, 1);
            board.reach(2, 1);
            board.set(3, 1);
            drop(guard);
        });
        board.reach(1, 1);
        let waiter = start_namespace(|| {
            board.set(4, 1);
            let _ = mutex.lock();
        });
        board.reach(4, 1);
        // Asleep or about to be.
        std::thread::sleep(Duration::from_millis(2));
        kill(waiter);
        let holder = mutex.holder().expect("held");
        assert!(holder.alive, "the owner lives: its namesake was killed");
        assert!(matches!(mutex.try_lock(), Ok(None)));
        board.set(2, 1);
        owner.finish();
        drop(mutex.lock().expect("given back, and whole"));
    }
}

fn locks_work_across(world: &World) {
    skip_if_not_permitted(world);
    let domain = world.domain();
    let mutex = Mutex::<[u64; 2]>::options([0; 2]).open_or_create(&domain, "m").expect("opens");
    let count = || {
        for _ in 0..20_000 {
            let mut value = mutex.lock().expect("nobody dies");
            assert_eq!(value[0], value[1]);
            value[0] += 1;
            value[1] += 1;
        }
    };
    let children = [start_namespace(count), start_namespace(count), Child::start(count)];
    children.into_iter().for_each(Child::finish);
    assert_eq!(*mutex.lock().expect("free"), [60_000; 2]);
}

/// `/proc` here still belongs to the outer namespace: what it says about a number is about another
/// process.
fn a_foreign_proc_does_not_kill_the_living(world: &World) {
    skip_if_not_permitted(world);
    let folder = world.folder().join("domain");
    // The coarse recheck, which looks into /proc, comes often.
    let open = || {
        let often = Some(Duration::from_millis(5));
        Domain::options().recheck(often).open_or_create_at(&folder).expect("opens")
    };
    let board = Board::new();
    start_namespace(|| {
        // A number that no process outside has.
        for _ in 0..2_000 {
            let mut owner = Child::start(|| {
                if Path::new(&format!("/proc/{}", thread_id())).exists() {
                    return;
                }
                let mutex = Mutex::<u64>::options(0).open_or_create(&open(), "m").expect("opens");
                let _guard = mutex.lock().expect("free");
                board.set(1, 1);
                board.reach(2, 1);
            });
            wait_until("it has ended, or has the lock", || board.get(1) == 1 || owner.has_ended());
            if board.get(1) == 0 {
                continue;
            }
            let mutex = Mutex::<u64>::options(0).open_or_create(&open(), "m").expect("opens");
            let soon = Duration::from_millis(100);
            let got = mutex.lock_timeout(soon);
            assert!(matches!(got, Ok(None)), "a living owner's lock was taken: {got:?}");
            board.set(2, 1);
            owner.finish();
            return;
        }
        panic!("every number is somebody's outside");
    })
    .finish();
}

fn many_deaths_across(world: &World) {
    skip_if_not_permitted(world);
    let domain = world.domain();
    let mutex = Mutex::<u64>::options(0).open_or_create(&domain, "m").expect("opens");
    let board = Board::new();
    // One in a namespace of its own for as long as the check lasts, one after another beside it.
    let lasting = start_namespace(|| {
        loop {
            match mutex.lock() {
                Ok(mut guard) => *guard += 1,
                Err(LockError::OwnerDied(mut guard)) => {
                    guard.mark_consistent();
                    board.add(2, 1);
                }
                Err(error) => panic!("{error}"),
            }
            board.add(1, 1);
            // On a busy machine it would have the lock again before any other process has a turn.
            std::thread::yield_now();
        }
    });
    board.reach(1, 1);
    for round in 1..=40 {
        let holding = start_namespace(|| {
            let _guard = match mutex.lock() {
                Ok(guard) => guard,
                Err(LockError::OwnerDied(mut guard)) => {
                    guard.mark_consistent();
                    guard
                }
                Err(error) => panic!("{error}"),
            };
            board.set(3, round);
            pause();
        });
        board.reach(3, round);
        kill(holding);
        board.reach(2, round);
    }
    kill(lasting);
}
