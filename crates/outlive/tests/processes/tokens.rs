//! A token lives exactly as long as its thread: whatever the end, and whatever forks and execs
//! happen meanwhile.

use std::ffi::CString;
use std::sync::mpsc;

use outlive::TokenKind;
use outlive::sync::{LockError, Mutex};

use crate::board::Board;
use crate::child::{Child, PATIENCE};
use crate::runner::World;

crate::checks!(
    thread_end,
    kill,
    exit,
    panic_of_a_thread,
    exec,
    fork_gives_the_child_its_own,
    guard_held_over_fork,
    facts_about_a_token,
    two_domains_two_tokens,
);

fn thread_end(world: &World) {
    let domain = world.domain();
    let (tell, told) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    let thread = std::thread::spawn({
        let domain = domain.clone();
        move || {
            tell.send(domain.token().expect("a token")).expect("somebody listens");
            // Until the other side is dropped.
            let _ = ended.recv();
        }
    });
    let peer = domain.peer(told.recv().expect("told"));
    assert!(peer.is_alive());
    drop(end);
    peer.wait_dead_timeout(PATIENCE).expect("its end is told");
    assert!(!peer.is_alive());
    thread.join().expect("ended well");
    assert!(!peer.is_alive(), "dead for ever");
}

/// A child that claims both of its tokens and then does what it is told. Thread's, then process's.
fn claim_both(world: &World, board: Board, then: impl FnOnce()) -> Child {
    let domain = world.domain();
    Child::start(move || {
        board.set(2, u64::from(domain.process_token().expect("a token").as_u32()));
        board.set(1, u64::from(domain.token().expect("a token").as_u32()));
        board.set(0, 1);
        then();
    })
}

fn see_both_die(world: &World, board: Board, end: impl FnOnce()) {
    let domain = world.domain();
    board.reach(0, 1);
    let tokens: Vec<_> = domain.tokens().into_iter().filter(|token| token.alive).collect();
    let peers = [1, 2].map(|word| {
        let token = tokens.iter().find(|token| u64::from(token.id.as_u32()) == board.get(word));
        domain.peer(token.expect("listed").id)
    });
    assert!(peers.iter().all(|peer| peer.is_alive()));
    end();
    for peer in peers {
        peer.wait_dead_timeout(PATIENCE).expect("its end is told");
        assert!(!peer.is_alive());
    }
}

fn pause() {
    loop {
        std::thread::park();
    }
}

fn kill(world: &World) {
    let board = Board::new();
    let mut child = claim_both(world, board, pause);
    see_both_die(world, board, || child.kill());
}

fn exit(world: &World) {
    for ordinary in [true, false] {
        let board = Board::new();
        let child = claim_both(world, board, || {
            board.reach(3, 1);
            if ordinary {
                // Destructors and what libc does at an exit.
                std::process::exit(0);
            }
        });
        see_both_die(world, board, || board.set(3, 1));
        child.finish();
    }
}

fn panic_of_a_thread(world: &World) {
    let domain = world.domain();
    let (tell, told) = mpsc::channel();
    let thread = std::thread::spawn({
        let domain = domain.clone();
        move || {
            tell.send(domain.token().expect("a token")).expect("somebody listens");
            panic!("on purpose");
        }
    });
    let peer = domain.peer(told.recv().expect("told"));
    assert!(thread.join().is_err());
    assert!(!peer.is_alive());
}

fn exec(world: &World) {
    let board = Board::new();
    let mut child = claim_both(world, board, || {
        board.reach(3, 1);
        let program = CString::new("/proc/self/exe").expect("no NUL");
        let words = ["outlive", "--role", "pause"].map(|word| CString::new(word).expect("no NUL"));
        let arguments =
            [words[0].as_ptr(), words[1].as_ptr(), words[2].as_ptr(), core::ptr::null()];
        // SAFETY: strings that live until the call replaces the program.
        unsafe { libc::execv(program.as_ptr(), arguments.as_ptr()) };
        panic!("exec: {}", std::io::Error::last_os_error());
    });
    see_both_die(world, board, || board.set(3, 1));
    assert!(!child.has_ended(), "the process lives on as another program");
    child.kill();
}

fn fork_gives_the_child_its_own(world: &World) {
    let domain = world.domain();
    let (mine, my_process) =
        (domain.token().expect("a token"), domain.process_token().expect("a token"));
    Child::start(|| {
        let (its, its_process) =
            (domain.token().expect("a token"), domain.process_token().expect("a token"));
        assert_ne!(its, mine);
        assert_ne!(its_process, my_process);
        for id in [its, its_process, mine, my_process] {
            assert!(domain.peer(id).is_alive());
        }
        let info = domain.peer(its).info().expect("it is known");
        assert_eq!(info.pid, std::process::id());
    })
    .finish();
    for id in [mine, my_process] {
        assert!(domain.peer(id).is_alive(), "a child's end is not its parent's");
    }
    assert_eq!(domain.token(), Ok(mine));
}

fn guard_held_over_fork(world: &World) {
    let domain = world.domain();
    let mutex = Mutex::<u64>::options(0).open_or_create(&domain, "m").expect("opens");
    let guard = mutex.lock().expect("free");
    // Without a token of its own, and with one.
    for claims_first in [false, true] {
        Child::start(|| {
            if claims_first {
                domain.token().expect("a token");
            }
            // SAFETY: read once; the original is forgotten with the child.
            drop(unsafe { core::ptr::read(&raw const guard) });
            assert!(matches!(mutex.try_lock(), Err(LockError::WouldBlock)), "its parent holds it");
        })
        .finish();
        let holder = mutex.holder().expect("held");
        assert_eq!((holder.pid, holder.alive), (std::process::id(), true));
        assert!(matches!(mutex.try_lock(), Err(LockError::Deadlock)), "we hold it still");
    }
    drop(guard);
    drop(mutex.lock().expect("free again, and whole"));
}

fn facts_about_a_token(world: &World) {
    let domain = world.domain();
    let id = domain.token().expect("a token");
    let info = domain.peer(id).info().expect("known");
    assert_eq!(info.kind, TokenKind::Thread);
    assert_eq!(info.pid, std::process::id());
    assert_eq!(info.tid as i32, crate::asleep::thread_id());
    assert!(info.alive && info.same_namespace);
    let comm = std::fs::read_to_string("/proc/self/comm").expect("readable");
    assert_eq!(info.program, comm.trim_end());
    let process = domain.process_token().expect("a token");
    let info = domain.peer(process).info().expect("known");
    assert_eq!(info.kind, TokenKind::Process);
    assert_ne!(process, id);
}

fn two_domains_two_tokens(world: &World) {
    let domains = ["a", "b"].map(|name| world.domain_named(name));
    let ids = domains.each_ref().map(|domain| domain.token().expect("a token"));
    for (domain, id) in domains.iter().zip(ids) {
        assert_eq!(domain.token(), Ok(id));
        assert!(domain.peer(id).is_alive());
        assert_eq!(domain.tokens().len(), 1);
    }
    let again = world.domain_named("a");
    assert_eq!(again.token(), Ok(ids[0]), "one registry for all openings of a domain");
}
