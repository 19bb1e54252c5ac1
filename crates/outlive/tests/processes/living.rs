//! A living owner is never called dead: whatever its name, whatever runs out, whatever hides it.
//! And one that is gone is found out although the kernel has not marked it.

use std::ffi::{CString, OsStr};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use outlive::Domain;
use outlive::sync::{LockError, Mutex};

use crate::asleep::thread_id;
use crate::board::Board;
use crate::child::{Child, wait_until};
use crate::limits::set_limit;
use crate::runner::World;

crate::checks!(
    an_owner_whose_name_is_no_text,
    a_name_with_brackets,
    no_descriptor_left_in_the_waiter,
    no_descriptor_left_in_the_owner,
    hidden_from_the_waiter,
    another_users_without_a_dump,
    waiters_in_another_time_namespace,
    owners_in_another_time_namespace,
    no_proc_at_all,
    another_process_in_the_place_of_proc,
    a_thread_that_is_gone_by_exec,
    a_stopped_owner_lives,
    a_waiter_that_has_closed_its_files: 90,
);

/// The recheck of these checks: many of them pass while a waiter waits.
const OFTEN: Duration = Duration::from_millis(10);
pub const A_WHILE: Duration = Duration::from_millis(400);
const STRANGER: u32 = 12_345;

pub fn open(folder: &Path) -> Domain {
    Domain::options().recheck(Some(OFTEN)).open_or_create_at(folder.join("domain")).expect("opens")
}

pub fn mutex(domain: &Domain) -> Mutex<u64> {
    Mutex::options(0).open_or_create(domain, "m").expect("opens")
}

/// A child that prepares itself, locks, and holds until word 1 of the board is 1.
pub fn start_owner(folder: &Path, board: Board, prepare: impl FnOnce()) -> Child {
    Child::start(move || {
        let domain = open(folder);
        let mutex = mutex(&domain);
        prepare();
        let guard = mutex.lock().expect("free");
        board.set(0, 1);
        board.reach(1, 1);
        drop(guard);
    })
}

/// Waits in vain, through many rechecks, for what a living owner holds.
pub fn expect_held(mutex: &Mutex<u64>) {
    let got = mutex.lock_timeout(A_WHILE);
    assert!(matches!(got, Ok(None)), "a living owner's lock was taken: {got:?}");
    assert!(mutex.holder().expect("held").alive);
}

/// Sees an owner's lock held by a waiter that prepares itself, then given back whole.
fn between(folder: &Path, owner: impl FnOnce(), waiter: impl FnOnce()) {
    let board = Board::new();
    let owner = start_owner(folder, board, owner);
    board.reach(0, 1);
    Child::start(|| {
        let domain = open(folder);
        let mutex = mutex(&domain);
        domain.token().expect("a token");
        waiter();
        expect_held(&mutex);
    })
    .finish();
    board.set(1, 1);
    owner.finish();
    drop(mutex(&open(folder)).lock().expect("given back, and whole"));
}

/// What this program does when it is started anew for these checks.
pub fn play(arguments: &[String]) -> i32 {
    let [role, folder] = arguments else { return 2 };
    let folder = Path::new(folder);
    match role.as_str() {
        "hold" => {
            let domain = open(folder);
            let mutex = mutex(&domain);
            let _guard = mutex.lock().expect("free");
            fs::write(folder.join("held"), "").expect("written");
            wait_until("the file is there", || folder.join("end").exists());
            0
        }
        _ => 2,
    }
}

/// Starts this program under another file's name, which becomes the process's.
fn start_as(world: &World, name: &OsStr, role: &str) -> Child {
    let path = world.folder().join(name);
    symlink(fs::read_link("/proc/self/exe").expect("known"), &path).expect("made");
    let path = CString::new(path.as_os_str().as_bytes()).expect("no NUL");
    let words = ["x", "--role", role, world.folder().to_str().expect("a plain path")];
    let words = words.map(|word| CString::new(word).expect("no NUL"));
    Child::start(move || {
        let mut arguments: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
        arguments.push(core::ptr::null());
        // SAFETY: strings that live until the call replaces the program.
        unsafe { libc::execv(path.as_ptr(), arguments.as_ptr()) };
        panic!("exec: {}", std::io::Error::last_os_error());
    })
}

fn hold_under(world: &World, name: &OsStr) {
    let owner = start_as(world, name, "hold");
    wait_until("the lock is held", || world.folder().join("held").exists());
    expect_held(&mutex(&open(world.folder())));
    fs::write(world.folder().join("end"), "").expect("written");
    owner.finish();
    drop(mutex(&open(world.folder())).lock().expect("given back, and whole"));
}

/// Cut after 15 bytes it is no UTF-8 any more.
fn an_owner_whose_name_is_no_text(world: &World) {
    hold_under(world, OsStr::new("наблюдатель"));
}

fn a_name_with_brackets(world: &World) {
    hold_under(world, OsStr::from_bytes(b"a) Z 1 (\xff) X"));
}

fn no_descriptors() {
    set_limit(libc::RLIMIT_NOFILE, 0);
}

fn no_descriptor_left_in_the_waiter(world: &World) {
    between(world.folder(), || {}, no_descriptors);
}

/// Its token is taken after that: when it was started cannot be told.
fn no_descriptor_left_in_the_owner(world: &World) {
    between(world.folder(), no_descriptors, || {});
}

fn skip_unless_root(world: &World) {
    // SAFETY: always.
    if unsafe { libc::geteuid() } != 0 {
        world.skip("only root can play somebody else");
    }
}

/// From now on this process sees another `/proc` than the others; false: that is not permitted
/// here.
fn mount_on_proc(kind: &str, options: &str) -> bool {
    let [kind, options] = [kind, options].map(|text| CString::new(text).expect("no NUL"));
    // SAFETY: strings that live until the calls return.
    unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(
                c"none".as_ptr(),
                c"/".as_ptr(),
                core::ptr::null(),
                libc::MS_REC | libc::MS_PRIVATE,
                core::ptr::null(),
            ) == 0
            && libc::mount(
                kind.as_ptr(),
                c"/proc".as_ptr(),
                kind.as_ptr(),
                0,
                options.as_ptr().cast(),
            ) == 0
    }
}

fn skip_unless_mountable(world: &World, kind: &'static str, options: &'static str) {
    if Child::start(move || assert!(mount_on_proc(kind, options))).wait()
        != crate::child::End::Code(0)
    {
        world.skip("no other /proc may be mounted here");
    }
}

fn become_stranger() {
    // SAFETY: no pointers but an empty list are passed.
    unsafe {
        assert_eq!(libc::setgroups(0, core::ptr::null()), 0);
        assert_eq!(libc::setgid(STRANGER), 0);
        assert_eq!(libc::setuid(STRANGER), 0);
    }
}

/// A group's domain: a member waits for what another user holds.
fn between_users(world: &World, owner: impl FnOnce(), waiter: impl FnOnce()) {
    let open_up =
        |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("set");
    open_up(world.folder());
    open_up(world.folder().parent().expect("there is one"));
    let path = world.folder().join("domain");
    let open = || {
        Domain::options()
            .group(Some(STRANGER))
            .recheck(Some(OFTEN))
            .open_or_create_at(&path)
            .expect("opens")
    };
    let board = Board::new();
    let owner = Child::start(|| {
        owner();
        let domain = open();
        let mutex = mutex(&domain);
        let guard = mutex.lock().expect("free");
        board.set(0, 1);
        board.reach(1, 1);
        drop(guard);
    });
    board.reach(0, 1);
    Child::start(|| {
        waiter();
        become_stranger();
        expect_held(&mutex(&open()));
    })
    .finish();
    board.set(1, 1);
    owner.finish();
}

/// `hidepid=2` says that there is no such process, of any other user's.
fn hidden_from_the_waiter(world: &World) {
    skip_unless_root(world);
    skip_unless_mountable(world, "proc", "hidepid=2");
    between_users(world, || {}, || assert!(mount_on_proc("proc", "hidepid=2")));
}

fn another_users_without_a_dump(world: &World) {
    skip_unless_root(world);
    // SAFETY: no pointers are passed.
    let hide = || assert_eq!(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) }, 0);
    between_users(world, hide, || {});
}

/// Makes children of this process live in a time namespace in which the machine booted longer ago.
fn leave_time() -> Result<(), std::io::Error> {
    // SAFETY: no pointers are passed.
    if unsafe { libc::unshare(libc::CLONE_NEWTIME) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    fs::write("/proc/self/timens_offsets", "monotonic 5000 0\nboottime 100000 0\n")
}

fn skip_unless_time_can_be_left(world: &World) {
    if Child::start(|| leave_time().expect("permitted")).wait() != crate::child::End::Code(0) {
        world.skip("time namespaces may not be made here");
    }
}

fn elsewhere_in_time(body: impl FnOnce()) -> Child {
    Child::start(|| {
        leave_time().expect("permitted");
        Child::start(body).finish();
    })
}

fn waiters_in_another_time_namespace(world: &World) {
    skip_unless_time_can_be_left(world);
    let board = Board::new();
    let owner = start_owner(world.folder(), board, || {});
    board.reach(0, 1);
    elsewhere_in_time(|| expect_held(&mutex(&open(world.folder())))).finish();
    // One whose children will live elsewhere, and which has not left itself.
    Child::start(|| {
        leave_time().expect("permitted");
        expect_held(&mutex(&open(world.folder())));
    })
    .finish();
    board.set(1, 1);
    owner.finish();
}

fn owners_in_another_time_namespace(world: &World) {
    skip_unless_time_can_be_left(world);
    let board = Board::new();
    let owner = elsewhere_in_time(|| start_owner(world.folder(), board, || {}).finish());
    board.reach(0, 1);
    expect_held(&mutex(&open(world.folder())));
    // By the machine's clock, the numbers of both agree.
    let owners: Vec<_> =
        open(world.folder()).tokens().into_iter().filter(|token| token.alive).collect();
    let mine = open(world.folder()).token().expect("a token");
    let mine = open(world.folder()).peer(mine).info().expect("known");
    for token in owners {
        assert!(token.start_time.abs_diff(mine.start_time) < 1_000_000, "{token:?} {mine:?}");
    }
    board.set(1, 1);
    owner.finish();
}

fn no_proc_at_all(world: &World) {
    skip_unless_mountable(world, "tmpfs", "");
    between(world.folder(), || {}, || assert!(mount_on_proc("tmpfs", "")));
    between(world.folder(), || assert!(mount_on_proc("tmpfs", "")), || {});
}

/// In the place of `/proc` there is a folder of ordinary files that look like it.
fn another_process_in_the_place_of_proc(world: &World) {
    skip_unless_mountable(world, "tmpfs", "");
    let board = Board::new();
    let owner = start_owner(world.folder(), board, || board.set(2, thread_id() as u64));
    board.reach(0, 1);
    let number = board.get(2);
    Child::start(|| {
        let mutex = mutex(&open(world.folder()));
        let stat = fs::read(format!("/proc/{number}/stat")).expect("readable");
        let status = fs::read("/proc/self/status").expect("readable");
        assert!(mount_on_proc("tmpfs", ""));
        fs::create_dir(format!("/proc/{number}")).expect("made");
        let forged = String::from_utf8(stat).expect("text").replacen(") S ", ") Z ", 1);
        fs::write(format!("/proc/{number}/stat"), forged).expect("written");
        let me = std::process::id();
        fs::create_dir(format!("/proc/{me}")).expect("made");
        fs::write(format!("/proc/{me}/status"), status).expect("written");
        symlink(me.to_string(), "/proc/self").expect("made");
        expect_held(&mutex);
    })
    .finish();
    board.set(1, 1);
    owner.finish();
}

/// The kernel gives such a thread its process's number before it looks for its locks, which bear
/// the old one.
fn a_thread_that_is_gone_by_exec(world: &World) {
    let domain = open(world.folder());
    let lock = mutex(&domain);
    let board = Board::new();
    let mut child = Child::start(|| {
        let domain = open(world.folder());
        std::thread::spawn(move || {
            let mutex = mutex(&domain);
            std::mem::forget(mutex.lock().expect("free"));
            board.set(0, 1);
            board.reach(1, 1);
            let words = [c"outlive", c"--role", c"pause"];
            let arguments =
                [words[0].as_ptr(), words[1].as_ptr(), words[2].as_ptr(), core::ptr::null()];
            // SAFETY: strings that live until the call replaces the program.
            unsafe { libc::execv(c"/proc/self/exe".as_ptr(), arguments.as_ptr()) };
            panic!("exec: {}", std::io::Error::last_os_error());
        })
        .join()
        .expect("it never ends");
    });
    board.reach(0, 1);
    let holder = lock.holder().expect("held");
    assert!(holder.alive && holder.tid != holder.pid);
    expect_held(&lock);
    board.set(1, 1);
    let got = lock.lock_timeout(crate::child::PATIENCE);
    assert!(matches!(got, Err(LockError::OwnerDied(_))), "its program is gone: {got:?}");
    assert!(!child.has_ended(), "the process lives on as another program");
    child.kill();
}

fn a_stopped_owner_lives(world: &World) {
    let board = Board::new();
    let owner = start_owner(world.folder(), board, || {});
    board.reach(0, 1);
    owner.stop();
    expect_held(&mutex(&open(world.folder())));
    owner.go_on();
    board.set(1, 1);
    owner.finish();
}

/// As one that becomes a daemon does. The slots that came since then are not a dead owner's.
fn a_waiter_that_has_closed_its_files(world: &World) {
    /// More than a domain has slots at first.
    const THREADS: u64 = 300;
    let folder = world.folder();
    let board = Board::new();
    let waiter = Child::start(|| {
        let domain = open(folder);
        let mutex = mutex(&domain);
        domain.token().expect("a token");
        // SAFETY: this process has one thread, which uses none of its descriptors by number.
        unsafe { libc::close_range(3, u32::MAX, 0) };
        board.set(0, 1);
        board.reach(1, 1);
        expect_held(&mutex);
        // Another file by those numbers is not asked instead, and not lengthened.
        let other = fs::File::create_new(folder.join("other")).expect("made");
        let files: Vec<_> = (0..20).map(|_| other.try_clone().expect("a descriptor")).collect();
        expect_held(&mutex);
        assert_eq!(other.metadata().expect("there").len(), 0);
        // What these had open is closed already, and std ends a process that closes it once more.
        std::mem::forget((domain, mutex, files));
    });
    board.reach(0, 1);
    let owner = Child::start(|| {
        let domain = open(folder);
        let mutex = mutex(&domain);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    domain.token().expect("a token");
                    board.add(2, 1);
                    board.reach(3, 1);
                });
            }
            board.reach(2, THREADS);
            let guard = scope.spawn(|| {
                let guard = mutex.lock().expect("free");
                board.set(1, 1);
                board.reach(3, 1);
                drop(guard);
            });
            guard.join().expect("no panic");
        });
    });
    waiter.finish();
    board.set(3, 1);
    owner.finish();
}
