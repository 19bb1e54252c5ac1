//! A living owner was declared dead by mistake: it is told, and what another process has taken over
//! from it stays that process's.

use std::time::Duration;

use outlive::sync::{AcquireError, LockError, Mutex, OnceLock, RwLock};
use outlive::{Error, TokenKind};

use crate::board::Board;
use crate::child::Child;
use crate::forge::{BODY, Bytes, Registry};
use crate::living::{A_WHILE, mutex, open, start_owner};
use crate::runner::World;
use crate::slots::slot_of;

crate::checks!(a_process_that_is_declared_dead_is_told, what_another_process_has_by_now_stays_its,);

/// Where a writer of a reader-writer lock says that it is inside: doc/memory-layout.md.
const INSIDE: u64 = BODY + 20;

fn a_process_that_is_declared_dead_is_told(world: &World) {
    let domain = open(world.folder());
    let lock = mutex(&domain);
    let process = domain.process_token().expect("a token");
    let kind = domain.peer(process).info().expect("known").kind;
    assert_eq!(kind, TokenKind::Process);
    let id = domain.token().expect("a token");
    let registry = Registry::of(&domain);
    for told in [id, process] {
        let slot = slot_of(told);
        registry.set_generation(slot, registry.generation(slot) + 1);
        assert!(!domain.peer(told).is_alive());
    }
    let expected = Error::DeclaredDead { path: domain.path().to_owned() };
    assert_eq!(domain.token(), Err(expected.clone()));
    assert_eq!(domain.process_token(), Err(expected.clone()));
    assert!(expected.to_string().contains("end this process"), "{expected}");
    let board = Board::new();
    let holder = start_owner(world.folder(), board, || {});
    board.reach(0, 1);
    // Where it would wait, it is told.
    let got = lock.lock_timeout(A_WHILE);
    assert!(
        matches!(&got, Err(LockError::Failed(AcquireError::System(error))) if *error == expected),
        "{got:?}"
    );
    board.set(1, 1);
    holder.finish();
    // Another thread of it has a token of its own.
    let other = domain.clone();
    std::thread::spawn(move || other.token().expect("a token")).join().expect("no panic");
}

/// A process has taken a living holder for dead, and another process has the lock by the time that
/// the holder gives it back: the holder finds that in the word, leaves the word alone, and does not
/// mark the other's lock not recoverable.
fn what_another_process_has_by_now_stays_its(world: &World) {
    let domain = world.domain();
    let board = Board::new();
    let other = Child::start(|| {
        board.set(0, u64::from(domain.token().expect("a token").as_u32()));
        board.reach(1, 1);
    });
    while board.get(0) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let other_s = board.get(0) as u32;
    let mutex = Mutex::<u64>::options(0).open_or_create(&domain, "mutex").expect("opens");
    let bytes = Bytes::of(&domain, "mutex");
    let take = || {
        let guard = mutex.lock().expect("free");
        assert_ne!(bytes.word(BODY), 0, "where it stands");
        bytes.set_word(BODY, other_s);
        guard
    };
    let mark_not_recoverable = || take().mark_not_recoverable();
    let drop_it = || drop(take());
    let panic = || {
        let _guard = take();
        panic!("with the guard in hand");
    };
    let ways: [&dyn Fn(); 3] = [&mark_not_recoverable, &drop_it, &panic];
    for give_back in ways {
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(give_back));
        assert_eq!(bytes.word(BODY), other_s);
        bytes.set_word(BODY, 0);
        drop(mutex.lock().expect("as it was"));
    }
    let lock = RwLock::<u64>::options(0).open_or_create(&domain, "lock").expect("opens");
    let bytes = Bytes::of(&domain, "lock");
    let word = (BODY..BODY + 4096).step_by(4);
    let own = domain.token().expect("a token").as_u32();
    let guard = lock.write().expect("free");
    let at = word.clone().find(|&at| bytes.word(at) == own).expect("somewhere");
    bytes.set_word(at, other_s);
    guard.mark_not_recoverable();
    assert_eq!(bytes.word(at), other_s);
    bytes.set_word(at, 0);
    // The process that has the lock now is inside: it alone may say that it no longer is.
    bytes.set_word(INSIDE, 0);
    let guard = lock.write().expect("as it was");
    assert_eq!(bytes.word(INSIDE), 1, "where a writer says that it is inside");
    bytes.set_word(at, other_s);
    drop(guard);
    assert_eq!((bytes.word(at), bytes.word(INSIDE)), (other_s, 1));
    bytes.set_word(at, 0);
    bytes.set_word(INSIDE, 0);
    // A reader's word that another reader has by now.
    let guard = lock.read().expect("as it was");
    let mine = word.clone().find(|&at| bytes.word(at) == own).expect("somewhere");
    bytes.set_word(mine, other_s);
    drop(guard);
    assert_eq!(bytes.word(mine), other_s);
    bytes.set_word(mine, 0);
    drop(lock.write().expect("nobody is inside"));
    let once = OnceLock::<u64>::open_or_create(&domain, "once").expect("opens");
    let bytes = Bytes::of(&domain, "once");
    let made = once.get_or_init(|_| {
        assert_ne!(bytes.word(BODY), 0, "where it stands");
        bytes.set_word(BODY, other_s);
        7
    });
    assert!(made.is_ok());
    assert_eq!(bytes.word(BODY), other_s);
    board.set(1, 1);
    other.finish();
}
