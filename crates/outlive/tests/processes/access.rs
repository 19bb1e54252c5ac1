//! Access to a domain: the owner alone may enter, or a group may; the library refuses what other
//! users have made beforehand.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use outlive::queue::Queue;
use outlive::sync::Mutex;
use outlive::{Domain, Error};

use crate::board::Board;
use crate::child::Child;
use crate::runner::World;

crate::checks!(
    folders_and_files_are_the_owners_alone,
    a_groups_domain_is_the_groups,
    a_folder_that_is_too_open_is_refused,
    a_folder_of_other_things_is_left_as_it_is,
    what_only_opens_makes_nothing,
    somebody_elses_folder_is_refused,
    a_stranger_has_no_permission,
    a_member_of_the_group_may,
    a_symbolic_link_is_not_followed,
    what_is_no_folder_is_refused,
    a_folder_that_is_not_there,
    half_made_folders_are_mended,
    nobody_finds_a_folder_half_made: 60,
    makers_killed_at_random: 60,
    a_groups_domain_by_name,
    a_node_that_cannot_be_read_hides_no_other,
    a_configuration_in_anothers_home,
    no_member_takes_another_members_domain_away,
);

const STRANGER: u32 = 12_345;

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("there").mode() & 0o7777
}

fn change_owner(path: &Path, user: u32, group: u32) {
    let path = CString::new(path.to_str().expect("a plain path")).expect("no NUL");
    // SAFETY: a string that lives until the call returns.
    assert_eq!(unsafe { libc::chown(path.as_ptr(), user, group) }, 0);
}

fn skip_unless_root(world: &World) {
    // SAFETY: always.
    if unsafe { libc::geteuid() } != 0 {
        world.skip("only root can play somebody else");
    }
}

/// Starts a child that runs as another user from now on.
fn as_stranger(group: u32, body: impl FnOnce()) {
    Child::start(|| {
        // SAFETY: no pointers but an empty list are passed.
        unsafe {
            assert_eq!(libc::setgroups(0, core::ptr::null()), 0);
            assert_eq!(libc::setgid(group), 0);
            assert_eq!(libc::setuid(STRANGER), 0);
        }
        body();
    })
    .finish();
}

fn make_some(domain: &Domain) -> Vec<std::path::PathBuf> {
    Mutex::<u64>::options(0).open_or_create(domain, "m").expect("opens");
    Queue::<[u8]>::open_or_create(domain, "q").expect("made");
    ["m", "q", ".tokens"].iter().map(|name| domain.path().join(name)).collect()
}

fn folders_and_files_are_the_owners_alone(world: &World) {
    for (name, umask) in [("open", 0), ("usual", 0o022), ("closed", 0o777)] {
        // SAFETY: always.
        unsafe { libc::umask(umask) };
        let domain = world.domain_named(name);
        assert_eq!(mode(domain.path()), 0o700, "umask {umask:o}");
        for path in make_some(&domain) {
            assert_eq!(mode(&path), 0o600, "{}, umask {umask:o}", path.display());
        }
    }
}

fn a_groups_domain_is_the_groups(world: &World) {
    skip_unless_root(world);
    for (name, umask) in [("open", 0), ("closed", 0o777)] {
        // SAFETY: always.
        unsafe { libc::umask(umask) };
        let path = world.folder().join(name);
        let domain =
            Domain::options().group(Some(STRANGER)).open_or_create_at(&path).expect("opens");
        assert_eq!((mode(&path), fs::metadata(&path).expect("there").gid()), (0o770, STRANGER));
        for file in make_some(&domain) {
            assert_eq!(mode(&file), 0o660, "{}", file.display());
            assert_eq!(fs::metadata(&file).expect("there").gid(), STRANGER);
        }
        // The owner opens it as if it were their own: it stays the group's.
        let own = Domain::open_or_create_at(&path).expect("opens");
        Mutex::<u64>::options(0).open_or_create(&own, "later").expect("opens");
        assert_eq!(mode(&path.join("later")), 0o660);
    }
    // The domain is meant for a group, but its folder was made for the owner alone: the library
    // does not open it up behind the owner's back.
    let own = world.domain_named("own");
    let error =
        Domain::options().group(Some(STRANGER)).open_or_create_at(own.path()).expect_err("refused");
    assert!(matches!(error, Error::Untrusted { .. }), "{error}");
    assert_eq!(mode(own.path()), 0o700);
}

fn a_folder_that_is_too_open_is_refused(world: &World) {
    for bits in [0o755, 0o777, 0o1777, 0o701, 0o750] {
        let path = world.folder().join(format!("{bits:o}"));
        fs::create_dir(&path).expect("made");
        fs::set_permissions(&path, fs::Permissions::from_mode(bits)).expect("set");
        let error = Domain::open_or_create_at(&path).expect_err("refused");
        // SAFETY: always.
        let user = unsafe { libc::geteuid() };
        assert_eq!(error, Error::Untrusted { path, owner: user, user, mode: bits });
        let text = error.to_string();
        assert!(text.contains(&format!("{bits:04o}")), "{text}");
        // A folder for all users, as /tmp is, stays one.
        assert_eq!(text.contains("chmod 0700"), bits != 0o1777, "{text}");
    }
}

/// Returns what lies in a folder.
fn names(folder: &Path) -> Vec<std::ffi::OsString> {
    let entries = fs::read_dir(folder).expect("there");
    let mut names: Vec<_> = entries.map(|entry| entry.expect("read").file_name()).collect();
    names.sort();
    names
}

/// `/etc`, `/tmp`, a home: neither a file is put there nor a word said of its permissions.
fn a_folder_of_other_things_is_left_as_it_is(world: &World) {
    for bits in [0o700, 0o755, 0o1777, 0o770] {
        let path = world.folder().join(format!("{bits:o}"));
        fs::create_dir(&path).expect("made");
        fs::write(path.join("passwd"), "text").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(bits)).expect("set");
        // SAFETY: always.
        let own_group = unsafe { libc::getegid() };
        for group in [None, Some(own_group)] {
            for create in [true, false] {
                let options = Domain::options().group(group);
                let result =
                    if create { options.open_or_create_at(&path) } else { options.open_at(&path) };
                let error = result.expect_err("refused");
                assert_eq!(error, Error::NotADomain { path: path.clone() });
                let text = error.to_string();
                assert!(text.contains("name another folder"), "{text}");
                assert!(!text.contains("chmod") && !text.contains("remove"), "{text}");
            }
        }
        assert_eq!(names(&path), ["passwd"]);
        assert_eq!(mode(&path), bits);
    }
    // A name need not be UTF-8.
    let path = world.folder().join("latin");
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9");
    fs::create_dir(&path).expect("made");
    fs::write(path.join(name), "text").expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("set");
    // SAFETY: always.
    for group in [None, Some(unsafe { libc::getegid() })] {
        let error = Domain::options().group(group).open_or_create_at(&path).expect_err("refused");
        assert_eq!(error, Error::NotADomain { path: path.clone() });
    }
    assert_eq!(names(&path), [name]);
    assert_eq!(mode(&path), 0o700);
    // A folder of domains is none either.
    let domain = world.domain();
    let parent = domain.path().parent().expect("it lies somewhere").to_owned();
    let before = names(&parent);
    let error = Domain::open_or_create_at(&parent).expect_err("refused");
    assert_eq!(error, Error::NotADomain { path: parent.clone() });
    assert_eq!(names(&parent), before);
    // A domain whose registry was removed: its files' tokens are of that registry.
    make_some(&domain);
    fs::remove_file(domain.path().join(".tokens")).expect("removed");
    let error = Domain::open_or_create_at(domain.path()).expect_err("refused");
    assert_eq!(error, Error::NotADomain { path: domain.path().to_owned() });
}

fn what_only_opens_makes_nothing(world: &World) {
    let path = world.folder().join("empty");
    fs::create_dir(&path).expect("made");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("set");
    let error = Domain::options().open_at(&path).expect_err("no domain yet");
    assert_eq!(error, Error::NotFound { path: path.join(".tokens") });
    assert!(names(&path).is_empty());
    // An empty folder of one's own becomes a domain when that is asked for.
    Domain::open_or_create_at(&path).expect("opens");
    assert_eq!(names(&path), [".tokens"]);
    Domain::open_at(&path).expect("opens");
    Domain::open(&format!("outlive-test-{}", std::process::id())).expect_err("not there");
}

fn somebody_elses_folder_is_refused(world: &World) {
    skip_unless_root(world);
    // SAFETY: always.
    let user = unsafe { libc::geteuid() };
    for bits in [0o700, 0o777] {
        let path = world.folder().join(format!("{bits:o}"));
        fs::create_dir(&path).expect("made");
        fs::set_permissions(&path, fs::Permissions::from_mode(bits)).expect("set");
        change_owner(&path, STRANGER, STRANGER);
        let error = Domain::open_or_create_at(&path).expect_err("refused");
        assert_eq!(
            error,
            Error::Untrusted { path: path.clone(), owner: STRANGER, user, mode: bits }
        );
        let text = error.to_string();
        assert!(text.contains("12345") && text.contains("OUTLIVE_DOMAIN"), "{text}");
        assert_eq!(fs::read_dir(&path).expect("there").count(), 0, "nothing was put there");
    }
}

fn a_stranger_has_no_permission(world: &World) {
    skip_unless_root(world);
    let domain = world.domain();
    make_some(&domain);
    let open_up =
        |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("set");
    open_up(world.folder());
    open_up(world.folder().parent().expect("there is one"));
    let path = domain.path().to_owned();
    as_stranger(STRANGER, || {
        let error = Domain::open_or_create_at(&path).expect_err("refused");
        let text = error.to_string();
        assert!(matches!(error, Error::Permission { .. }), "{text}");
        assert!(text.contains("no permission to open"), "{text}");
        let error = Domain::open_or_create_at(path.with_file_name("mine")).expect_err("refused");
        assert!(matches!(error, Error::Permission { doing: "make", .. }), "{error}");
    });
}

fn a_member_of_the_group_may(world: &World) {
    skip_unless_root(world);
    let open_up =
        |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("set");
    open_up(world.folder());
    open_up(world.folder().parent().expect("there is one"));
    let path = world.folder().join("domain");
    let open = || {
        let options = Domain::options().group(Some(STRANGER)).recheck(None);
        options.open_or_create_at(&path).expect("opens")
    };
    let domain = open();
    let mutex = Mutex::<u64>::options(1).open_or_create(&domain, "m").expect("opens");
    let queue = Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
    let mut receiver = queue.receiver().expect("the first");
    as_stranger(STRANGER, || {
        let domain = open();
        *Mutex::<u64>::options(0)
            .open_or_create(&domain, "m")
            .expect("opens")
            .lock()
            .expect("free") += 1;
        let queue = Queue::<[u8]>::open(&domain, "q").expect("there");
        queue.sender().expect("a sender").send(b"from a member").expect("room");
        Mutex::<u64>::options(5).open_or_create(&domain, "by a member").expect("opens");
        // The process dies while it holds a lock, as any process may.
        std::mem::forget(mutex.lock().expect("free"));
    });
    assert_eq!(receiver.recv().expect("sent"), b"from a member");
    match mutex.lock() {
        Err(outlive::sync::LockError::OwnerDied(guard)) => assert_eq!(*guard, 2),
        other => panic!("{other:?}"),
    }
    let other = Mutex::<u64>::options(0).open_or_create(&domain, "by a member").expect("opens");
    assert_eq!(*other.lock().expect("free"), 5);
}

fn a_symbolic_link_is_not_followed(world: &World) {
    let real = world.domain_named("real");
    let link = world.folder().join("link");
    symlink(real.path(), &link).expect("made");
    let error = Domain::open_or_create_at(&link).expect_err("refused");
    assert_eq!(error, Error::NotAFolder { path: link });
    assert!(error.to_string().contains("symbolic links are not followed"), "{error}");
    // A dangling one does not make a folder elsewhere either.
    let dangling = world.folder().join("dangling");
    symlink(world.folder().join("elsewhere"), &dangling).expect("made");
    Domain::open_or_create_at(&dangling).expect_err("refused");
    assert!(!world.folder().join("elsewhere").exists());
}

fn what_is_no_folder_is_refused(world: &World) {
    let path = world.folder().join("file");
    fs::write(&path, "text").expect("written");
    let error = Domain::open_or_create_at(&path).expect_err("refused");
    assert_eq!(error, Error::NotAFolder { path });
}

fn a_folder_that_is_not_there(world: &World) {
    let path = world.folder().join("nowhere");
    let error = Domain::options().open_at(&path).expect_err("not there");
    assert_eq!(error, Error::NotFound { path: path.clone() });
    let text = error.to_string();
    assert!(text.contains("does not exist") && text.contains("OUTLIVE_DOMAIN"), "{text}");
    let below = path.join("nothing");
    let error = Domain::open_or_create_at(&below).expect_err("no parent");
    assert_eq!(error, Error::NotFound { path: below });
    assert!(!path.exists());
}

/// A process that dies between making a folder and giving it its mode leaves one with fewer rights.
fn half_made_folders_are_mended(world: &World) {
    let path = world.folder().join("half");
    fs::create_dir(&path).expect("made");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("set");
    Domain::open_or_create_at(&path).expect("opens").token().expect("a token");
    // SAFETY: always.
    let group = unsafe { libc::getegid() };
    let path = world.folder().join("half a group's");
    fs::create_dir(&path).expect("made");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("set");
    Domain::options()
        .group(Some(group))
        .open_or_create_at(&path)
        .expect("opens")
        .token()
        .expect("a token");
    assert_eq!(mode(&path), 0o770, "for the whole group");
    // With something in it, it is its owner's alone.
    let path = world.domain_named("own").path().to_owned();
    let error = Domain::options().group(Some(group)).open_or_create_at(&path).expect_err("refused");
    assert!(error.to_string().contains("owner's alone"), "{error}");
    assert_eq!(mode(&path), 0o700);
}

/// Two members come at once; neither finds what the other has not finished.
fn nobody_finds_a_folder_half_made(world: &World) {
    skip_unless_root(world);
    let board = Board::new();
    for round in 1..=150 {
        let path = world.folder().join(format!("{round}"));
        let children = [0, 1].map(|_| {
            Child::start(|| {
                board.add(0, 1);
                while board.get(0) < 2 * round {
                    core::hint::spin_loop();
                }
                Domain::options().group(Some(STRANGER)).open_or_create_at(&path).expect("opens");
                assert_eq!(
                    (mode(&path), fs::metadata(&path).expect("there").gid()),
                    (0o770, STRANGER)
                );
            })
        });
        children.into_iter().for_each(Child::finish);
    }
    let left: Vec<_> = fs::read_dir(world.folder())
        .expect("there")
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with('.')), "{left:?}");
}

fn makers_killed_at_random(world: &World) {
    skip_unless_root(world);
    let mut random = crate::random::Random::new();
    let path = |number| world.folder().join(format!("{number}"));
    let open = |number: u64| {
        Domain::options().group(Some(STRANGER)).open_or_create_at(path(number)).expect("opens")
    };
    let board = Board::new();
    for _ in 0..60 {
        let mut maker = Child::start(|| {
            loop {
                drop(open(board.add(0, 1)));
            }
        });
        random.pause(5_000);
        maker.kill();
    }
    let last = board.get(0);
    // A process opens so many domains at most.
    for first in (1..=last).step_by(400) {
        Child::start(|| {
            for number in first..last.min(first + 399) + 1 {
                // The next opener finds it whole, or makes it.
                drop(open(number));
                assert_eq!(
                    (mode(&path(number)), fs::metadata(path(number)).expect("there").gid()),
                    (0o770, STRANGER)
                );
                fs::remove_dir_all(path(number)).expect("removed");
                // What the dead had begun goes with the next folder of that name.
                drop(open(number));
            }
        })
        .finish();
    }
    let left: Vec<_> = fs::read_dir(world.folder())
        .expect("there")
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with('.')), "{left:?}");
}

/// By name, it lies where every member may come.
fn a_groups_domain_by_name(world: &World) {
    skip_unless_root(world);
    let group = 1_000_000 + std::process::id();
    let base = std::path::PathBuf::from(format!("/dev/shm/outlive-group-{group}"));
    let open =
        || Domain::options().group(Some(group)).recheck(None).open_or_create("d").expect("opens");
    let domain = open();
    assert_eq!(domain.path(), base.join("d"));
    for (path, right) in [(&base, 0o1770), (&base.join("d"), 0o770)] {
        assert_eq!((mode(path), fs::metadata(path).expect("there").gid()), (right, group));
    }
    let mutex = Mutex::<u64>::options(1).open_or_create(&domain, "m").expect("opens");
    as_stranger(group, || {
        *Mutex::<u64>::options(0)
            .open_or_create(&open(), "m")
            .expect("opens")
            .lock()
            .expect("free") += 1;
        // A member may make one, too.
        Domain::options().group(Some(group)).open_or_create("another").expect("opens");
    });
    assert_eq!(*mutex.lock().expect("free"), 2);
    // As an older build made it: its owner makes it sticky when it opens a domain there, another
    // member cannot, and one that only looks changes nothing.
    fs::set_permissions(&base, fs::Permissions::from_mode(0o770)).expect("it is ours");
    as_stranger(group, || drop(open()));
    Domain::options().group(Some(group)).open("d").expect("opens");
    assert_eq!(mode(&base), 0o770);
    open();
    assert_eq!((mode(&base), fs::metadata(&base).expect("there").gid()), (0o1770, group));
    fs::remove_dir_all(&base).expect("removed");
}

/// Removes a folder that is made for a test.
struct Removed(std::path::PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A member may use all that is in another's domain. It may not put a domain of its own in that
/// one's place: some processes would then use the one, and some the other.
fn no_member_takes_another_members_domain_away(world: &World) {
    skip_unless_root(world);
    let group = 2_000_000 + std::process::id();
    let base = Removed(format!("/dev/shm/outlive-group-{group}").into());
    let base = &base.0;
    let options = || Domain::options().group(Some(group)).recheck(None);
    let theirs = options().open_or_create("theirs").expect("made");
    Mutex::<u64>::options(1).open_or_create(&theirs, "m").expect("made");
    as_stranger(group, || {
        let refused = |done: std::io::Result<()>| {
            let error = done.expect_err("another's");
            assert_eq!(error.raw_os_error(), Some(libc::EPERM), "{error}");
        };
        refused(fs::rename(base.join("theirs"), base.join("away")));
        options().open_or_create("mine").expect("made");
        refused(fs::rename(base.join("mine"), base.join("theirs")));
        // Its own it may take away. In the other's it may remove names: the members trust each
        // other with what is in a domain.
        fs::rename(base.join("mine"), base.join("my other one")).expect("its own");
        fs::remove_dir_all(base.join("my other one")).expect("its own");
        let theirs = options().open("theirs").expect("there");
        theirs.remove("m").expect("any member's");
        fs::remove_file(base.join("theirs/.tokens")).expect("any member's");
        refused(fs::remove_dir(base.join("theirs")));
    });
}

fn open_up_the_way_to(folder: &Path) {
    for folder in [Some(folder), folder.parent()].into_iter().flatten() {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("ours");
    }
}

fn a_node_that_cannot_be_read_hides_no_other(world: &World) {
    skip_unless_root(world);
    open_up_the_way_to(world.folder());
    let path = world.folder().join("domain");
    let open = || Domain::options().group(Some(STRANGER)).open_or_create_at(&path).expect("opens");
    let domain = open();
    let _closed = domain.node("closed").register().expect("registered");
    let files = fs::read_dir(&path).expect("readable").flatten().map(|file| file.path());
    let file = files.into_iter().find(|file| file.to_string_lossy().contains(".node-"));
    let nobody = fs::Permissions::from_mode(0o600);
    fs::set_permissions(file.expect("there"), nobody).expect("ours");
    as_stranger(STRANGER, || {
        let domain = open();
        let _mine = domain.node("mine").register().expect("registered");
        let nodes = domain.nodes().expect("listed");
        let names: Vec<_> = nodes.iter().map(|node| (&*node.name, node.is_damaged)).collect();
        assert_eq!(names, [("", true), ("mine", false)]);
        assert_eq!(domain.contents().expect("listed").nodes.len(), 2);
    });
}

/// `HOME` names another's home after `su`: what cannot even be seen there is passed over, what can
/// be seen and not read is an error.
fn a_configuration_in_anothers_home(world: &World) {
    use outlive::config::Config;
    skip_unless_root(world);
    open_up_the_way_to(world.folder());
    let home = world.folder().join("home");
    let file = home.join(".config/outlive/outlive.toml");
    fs::create_dir_all(file.parent().expect("a folder")).expect("made");
    fs::write(&file, "domain = 'theirs'").expect("written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("ours");
    for (mode, is_seen) in [(0o700, false), (0o755, true)] {
        fs::set_permissions(&home, fs::Permissions::from_mode(mode)).expect("ours");
        as_stranger(STRANGER, || {
            for name in ["OUTLIVE_CONFIG", "XDG_CONFIG_HOME"] {
                // SAFETY: a child of a single thread.
                unsafe { std::env::remove_var(name) };
            }
            // SAFETY: a child of a single thread.
            unsafe { std::env::set_var("HOME", &home) };
            match Config::load() {
                Err(Error::Permission { path, .. }) => assert!(is_seen && path == file),
                Err(error) => panic!("{error}"),
                Ok(config) => assert!(!is_seen && !config.files().contains(&file)),
            }
        });
    }
}
