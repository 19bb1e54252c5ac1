//! The process token: it outlives every single thread, main included, and no longer than the
//! process.

use std::ffi::{CString, c_void};
use std::path::Path;

use outlive::{Domain, TokenKind};

use crate::asleep::wait_thread_asleep;
use crate::board::Board;
use crate::child::{self, Child, PATIENCE, wait_until};
use crate::runner::World;

crate::checks!(
    main_leaves_early_and_the_process_ends,
    main_leaves_early_and_the_process_is_killed,
    main_hands_over_to_several_who_watch: 60,
    first_asked_for_by_another_thread,
    a_keeper_does_not_keep_the_process,
    a_keeper_does_not_survive_exec,
    many_threads_ask_at_once,
    a_keeper_gives_up_what_its_process_gives_up,
);

unsafe extern "C-unwind" {
    fn pthread_exit(value: *mut c_void) -> !;
}

/// What this program does when it is started anew for a part in a check.
pub fn play(arguments: &[String]) -> i32 {
    match arguments {
        [role] if role == "pause" => loop {
            std::thread::park();
        },
        [role, folder] if role == "main leaves" => main_leaves(Path::new(folder), false),
        [role, folder] if role == "main leaves when told" => main_leaves(Path::new(folder), true),
        _ => crate::living::play(arguments),
    }
}

/// Main claims the process token, starts a thread that lives until the file `end` is there, and
/// leaves.
fn main_leaves(folder: &Path, when_told: bool) -> i32 {
    let domain =
        Domain::options().recheck(None).open_or_create_at(folder.join("domain")).expect("opens");
    domain.process_token().expect("a token");
    let folder = folder.to_owned();
    let told = folder.join("leave");
    std::thread::spawn(move || {
        domain.token().expect("a token");
        wait_until("the file is there", || folder.join("end").exists());
    });
    if when_told {
        wait_until("the file is there", || told.exists());
    }
    // SAFETY: no frame below has a destructor that matters; C's main is ours.
    unsafe { pthread_exit(core::ptr::null_mut()) }
}

fn start_role(world: &World, role: &str) -> Child {
    let words = ["outlive", "--role", role, world.folder().to_str().expect("a plain path")];
    let words = words.map(|word| CString::new(word).expect("no NUL"));
    Child::start(move || {
        let program = CString::new("/proc/self/exe").expect("no NUL");
        let mut arguments: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
        arguments.push(core::ptr::null());
        // SAFETY: strings that live until the call replaces the program.
        unsafe { libc::execv(program.as_ptr(), arguments.as_ptr()) };
        panic!("exec: {}", std::io::Error::last_os_error());
    })
}

fn after_main_has_left(world: &World, end: impl FnOnce(&mut Child)) {
    let domain = world.domain();
    let mut child = start_role(world, "main leaves");
    let of_child = |kind| {
        let tokens = domain.tokens();
        let found = tokens.iter().find(|token| {
            token.pid as i32 == child.pid()
                && token.kind == kind
                && (kind == TokenKind::Process || token.tid != token.pid)
        });
        found.map(|token| domain.peer(token.id))
    };
    wait_until("both tokens are there", || {
        of_child(TokenKind::Process).is_some() && of_child(TokenKind::Thread).is_some()
    });
    let process = of_child(TokenKind::Process).expect("there");
    let thread = of_child(TokenKind::Thread).expect("there");
    let stat = format!("/proc/{}/task/{0}/stat", child.pid());
    wait_until("main has left", || {
        std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") Z "))
    });
    assert!(process.is_alive(), "main has left, the process lives");
    assert!(thread.is_alive());
    // A process that sleeps for the end now sleeps on the keeper's word.
    let waiter = Child::start(|| process.wait_dead().expect("told"));
    crate::asleep::wait_asleep(waiter.pid());
    assert!(process.is_alive());
    end(&mut child);
    waiter.finish();
    process.wait_dead_timeout(PATIENCE).expect("told");
    assert!(!process.is_alive() && !thread.is_alive());
}

fn main_leaves_early_and_the_process_ends(world: &World) {
    after_main_has_left(world, |child| {
        std::fs::write(world.folder().join("end"), "").expect("written");
        assert_eq!(child.wait(), child::End::Code(0));
    });
}

fn main_leaves_early_and_the_process_is_killed(world: &World) {
    after_main_has_left(world, Child::kill);
}

/// The kernel wakes one of main's watchers. That one gives up in an orderly way; the others are
/// told of the end all the same.
fn main_hands_over_to_several_who_watch(world: &World) {
    let domain = world.domain();
    let mut child = start_role(world, "main leaves when told");
    let process = || {
        let tokens = domain.tokens();
        let found = tokens
            .iter()
            .find(|token| token.pid as i32 == child.pid() && token.kind == TokenKind::Process);
        found.map(|token| domain.peer(token.id))
    };
    wait_until("the token is there", || process().is_some());
    let process = process().expect("there");
    let board = Board::new();
    let asleep = |waiter: &Child| crate::asleep::wait_asleep(waiter.pid());
    let first = Child::start(|| {
        let until = std::time::Duration::from_secs(8);
        assert_eq!(process.wait_dead_timeout(until), Err(outlive::WaitError::TimedOut));
        board.set(0, 1);
    });
    asleep(&first);
    let others = [0, 1, 2].map(|_| {
        let other = Child::start(|| process.wait_dead().expect("told"));
        asleep(&other);
        other
    });
    std::fs::write(world.folder().join("leave"), "").expect("written");
    let stat = format!("/proc/{}/task/{0}/stat", child.pid());
    wait_until("main has left", || {
        std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") Z "))
    });
    first.finish();
    assert!(process.is_alive());
    child.kill();
    others.into_iter().for_each(Child::finish);
}

fn first_asked_for_by_another_thread(world: &World) {
    let domain = world.domain();
    let board = Board::new();
    let mut child = Child::start(|| {
        let its = domain.clone();
        let id = std::thread::spawn(move || its.process_token().expect("a token"));
        let id = id.join().expect("no panic");
        assert!(domain.peer(id).is_alive(), "the thread that asked has ended, the process lives");
        assert_eq!(domain.process_token(), Ok(id), "one for all threads");
        let info = domain.peer(id).info().expect("known");
        assert_eq!((info.kind, info.tid), (TokenKind::Process, 0));
        board.set(0, 1);
        loop {
            std::thread::park();
        }
    });
    board.reach(0, 1);
    let tokens = domain.tokens();
    let process = tokens.iter().find(|token| token.kind == TokenKind::Process);
    let process = domain.peer(process.expect("there").id);
    assert!(process.is_alive());
    let waiter = Child::start(|| process.wait_dead().expect("told"));
    wait_thread_asleep(waiter.pid(), waiter.pid());
    child.kill();
    waiter.finish();
    assert!(!process.is_alive());
}

fn by_keeper(domain: &Domain) {
    let domain = domain.clone();
    let asked = std::thread::spawn(move || domain.process_token().expect("a token"));
    asked.join().expect("no panic");
}

fn a_keeper_does_not_keep_the_process(world: &World) {
    let domain = world.domain();
    for ordinary in [true, false] {
        let child = Child::start(|| {
            by_keeper(&domain);
            if ordinary {
                std::process::exit(0);
            }
        });
        child.finish();
    }
    assert!(domain.tokens().iter().all(|token| !token.alive));
}

fn a_keeper_does_not_survive_exec(world: &World) {
    let domain = world.domain();
    let board = Board::new();
    let mut child = Child::start(|| {
        by_keeper(&domain);
        board.set(0, 1);
        board.reach(1, 1);
        let program = c"/proc/self/exe";
        let words = [c"outlive", c"--role", c"pause"];
        let arguments =
            [words[0].as_ptr(), words[1].as_ptr(), words[2].as_ptr(), core::ptr::null()];
        // SAFETY: strings that live until the call replaces the program.
        unsafe { libc::execv(program.as_ptr(), arguments.as_ptr()) };
        panic!("exec: {}", std::io::Error::last_os_error());
    });
    board.reach(0, 1);
    let tokens = domain.tokens();
    let process = tokens.iter().find(|token| token.kind == TokenKind::Process);
    let process = domain.peer(process.expect("there").id);
    assert!(process.is_alive());
    board.set(1, 1);
    process.wait_dead_timeout(PATIENCE).expect("told");
    assert!(!child.has_ended());
    child.kill();
}

fn many_threads_ask_at_once(world: &World) {
    let domain = world.domain();
    for _ in 0..20 {
        Child::start(|| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    let domain = domain.clone();
                    std::thread::spawn(move || domain.process_token().expect("a token"))
                })
                .collect();
            let mut ids: Vec<_> =
                threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
            ids.dedup();
            assert_eq!(ids.len(), 1, "one process, one token");
            assert!(domain.peer(ids[0]).is_alive());
        })
        .finish();
    }
}

/// libc's `setuid` does not reach a keeper: another one takes its place, and the token lives all
/// the while.
fn a_keeper_gives_up_what_its_process_gives_up(world: &World) {
    const STRANGER: u32 = 12_345;
    // SAFETY: always.
    if unsafe { libc::geteuid() } != 0 {
        world.skip("only root can give rights up");
    }
    let domain = world.domain();
    let board = Board::new();
    let mut child = Child::start(|| {
        by_keeper(&domain);
        board.set(0, u64::from(domain.process_token().expect("a token").as_u32()));
        board.reach(1, 1);
        // SAFETY: no pointers but an empty list are passed.
        unsafe {
            assert_eq!(libc::setgroups(0, core::ptr::null()), 0);
            assert_eq!(libc::setgid(STRANGER), 0);
            assert_eq!(libc::setuid(STRANGER), 0);
        }
        board.set(2, 1);
        board.reach(3, 1);
        assert_eq!(u64::from(domain.process_token().expect("the same").as_u32()), board.get(0));
        board.set(4, 1);
        loop {
            std::thread::park();
        }
    });
    board.reach(0, 1);
    let process =
        domain.tokens().into_iter().find(|token| token.kind == TokenKind::Process).expect("there");
    let process = domain.peer(process.id);
    let waiter = Child::start(|| process.wait_dead().expect("told"));
    crate::asleep::wait_asleep(waiter.pid());
    let users = || {
        let mut users: Vec<String> = Vec::new();
        for task in
            std::fs::read_dir(format!("/proc/{}/task", child.pid())).expect("it lives").flatten()
        {
            let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
            users.extend(status.lines().filter(|line| line.starts_with("Uid:")).map(str::to_owned));
        }
        users
    };
    assert_eq!(users().len(), 2, "main and the keeper");
    board.set(1, 1);
    board.reach(2, 1);
    assert!(
        users().iter().any(|user| user.contains("\t0\t")),
        "that is what it is about: {:?}",
        users()
    );
    board.set(3, 1);
    while board.get(4) == 0 {
        assert!(process.is_alive(), "it lives all the while");
    }
    wait_until("every thread is somebody else", || {
        users().len() == 2
            && users().iter().all(|user| user.contains("12345") && !user.contains("\t0\t"))
    });
    assert!(process.is_alive());
    child.kill();
    waiter.finish();
    assert!(!process.is_alive());
}
