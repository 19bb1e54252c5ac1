//! Readers that cannot write: a process that only subscribes, and whose stores go wild, changes nothing
//! that other processes hold or receive later.

use std::fs;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use outlive::Domain;
use rustix::fs::OFlags;
use rustix::mm::{MprotectFlags, mprotect};

use crate::board::Board;
use crate::child::{Child, PATIENCE};
use crate::order::{message, read_message};
use crate::runner::World;
use crate::topics::{open, reliable};

crate::checks!(
    a_wild_subscriber_damages_nothing: 60,
    a_topic_is_one_name_and_both_files_go,
    a_member_with_fewer_rights_subscribes,
    a_topics_mode_is_its_makers_choice,
    a_sweep_that_cannot_read_one_topic_removes_what_others_left,
);

const PAGE: usize = 4096;

/// A mapping of one of a topic's files in this process.
struct Mapped {
    start: usize,
    /// As far as the file goes.
    len: usize,
    is_control: bool,
    is_writable: bool,
}

fn mapped(domain: &Domain) -> Vec<Mapped> {
    let folder = domain.path().to_str().expect("plain").to_owned();
    let maps = fs::read_to_string("/proc/self/maps").expect("readable");
    let mut found = Vec::new();
    for line in maps.lines() {
        let mut fields = line.split_ascii_whitespace();
        let (Some(range), Some(rights), Some(offset), Some(path)) =
            (fields.next(), fields.next(), fields.next(), fields.nth(2))
        else {
            continue;
        };
        let Some(name) = path.strip_prefix(&*folder).and_then(|name| name.strip_prefix('/')) else {
            continue;
        };
        let is_control = name.starts_with(".control-");
        if !is_control && name != "topic" {
            continue;
        }
        let number = |text| usize::from_str_radix(text, 16).expect("a number");
        let (start, end) = range.split_once('-').expect("a range");
        let (start, end) = (number(start), number(end));
        let file = fs::metadata(Path::new(path)).expect("there").len() as usize;
        let len = (end - start).min(file.saturating_sub(number(offset)));
        found.push(Mapped { start, len, is_control, is_writable: rights.contains('w') });
    }
    found
}

/// Writes over all pages of the topic that this process has mapped, as far as it can. Returns how many
/// pages of the topic's own file and of its control file took it.
fn write_over_all(domain: &Domain, garbage: &File) -> [usize; 2] {
    let mut written = [0; 2];
    for mapping in mapped(domain) {
        for page in (mapping.start..mapping.start + mapping.len).step_by(PAGE) {
            let at = core::ptr::without_provenance_mut::<u8>(page);
            // Where the mapping does not allow a store, the kernel answers EFAULT and sends no
            // signal.
            // SAFETY: none for the words there, which is what the check is about.
            let count = unsafe { libc::pread(fd(garbage), at.cast(), PAGE, 0) };
            assert_eq!(count == PAGE as isize, mapping.is_writable, "page {page:#x}");
            written[usize::from(mapping.is_control)] += usize::from(mapping.is_writable);
        }
        if !mapping.is_writable {
            let at = core::ptr::without_provenance_mut::<u8>(mapping.start);
            let both = MprotectFlags::READ | MprotectFlags::WRITE;
            // SAFETY: it is refused.
            let made = unsafe { mprotect(at.cast(), PAGE, both) };
            assert_eq!(made, Err(rustix::io::Errno::ACCESS), "a descriptor that cannot write");
        }
    }
    written
}

fn fd(file: &File) -> i32 {
    use std::os::fd::AsRawFd;
    file.as_fd().as_raw_fd()
}

/// Checks that no descriptor of this process could write into one of the topic's files.
fn cannot_write(domain: &Domain) {
    let mut files = 0;
    for entry in fs::read_dir("/proc/self/fd").expect("readable").flatten() {
        let Ok(path) = fs::read_link(entry.path()) else { continue };
        if !path.starts_with(domain.path())
            || path.file_name().is_none_or(|name| name != "topic" && name.len() < 20)
        {
            continue;
        }
        let info = entry.path().to_str().expect("plain").replace("/fd/", "/fdinfo/");
        let info = fs::read_to_string(info).expect("readable");
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).expect("there");
        let flags = u32::from_str_radix(flags.trim(), 8).expect("octal");
        assert_eq!(flags & OFlags::ACCMODE.bits(), OFlags::RDONLY.bits(), "{path:?}");
        files += 1;
    }
    assert_eq!(files, 2);
}

fn a_wild_subscriber_damages_nothing(world: &World) {
    // What was written over where sleepers announce themselves makes them late, by a recheck.
    let domain = Domain::options()
        .recheck(Some(Duration::from_millis(50)))
        .open_or_create_at(world.domain().path())
        .expect("opens");
    for (round, byte) in [0, 0xa5, 0xff_u8].into_iter().enumerate() {
        let path = world.folder().join("garbage");
        fs::write(&path, vec![byte; PAGE]).expect("written");
        let board = Board::new();
        // Started before this process has the topic: it inherits no mapping of it.
        let mut wild = Child::start(|| {
            let garbage = File::open(&path).expect("there");
            board.reach(0, 1);
            let topic = open(&domain, 8);
            let mut subscriber = topic.subscriber().expect("a slot");
            board.set(1, 1);
            let sample = subscriber.recv().expect("published");
            assert_eq!(read_message(&sample), (1, 0));
            cannot_write(&domain);
            board.reach(0, 2);
            // Where subscribers announce themselves, and its own slot: a page each.
            assert_eq!(write_over_all(&domain, &garbage), [0, 2]);
            board.set(1, 2);
            std::thread::sleep(PATIENCE);
        });
        let asleep = Child::start(|| {
            board.reach(0, 1);
            let topic = open(&domain, 8);
            let mut subscriber = topic.subscriber_with(reliable()).expect("a slot");
            board.set(2, 1);
            for number in 0..100 {
                let sample = subscriber.recv_timeout(PATIENCE).expect("ours").expect("in time");
                assert_eq!(read_message(&sample), (1, number));
                board.set(2, 2 + number);
            }
        });
        let topic = open(&domain, 8);
        let publisher = topic.publisher().expect("a ring");
        let mut subscriber = topic.subscriber_with(reliable()).expect("a slot");
        board.set(0, 1);
        board.reach(1, 1);
        board.reach(2, 1);
        let mut held = Vec::new();
        let mut publish = |number: u64, subscriber: &mut outlive::topic::Subscriber| {
            let bytes = message(1, number, 200 + number as usize % 7 * 3000);
            publisher.publish_timeout(&bytes, PATIENCE).expect("no process is in the way");
            let sample = subscriber.try_recv().expect("ours").expect("published");
            assert_eq!(read_message(&sample), (1, number));
            held.push(sample);
        };
        publish(0, &mut subscriber);
        for number in 1..8 {
            publish(number, &mut subscriber);
        }
        board.reach(2, 9);
        board.set(0, 2);
        board.reach(1, 2);
        for number in 8..100 {
            publish(number, &mut subscriber);
            if number % 16 == 0 {
                // It sleeps, most likely.
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        asleep.finish();
        for (number, sample) in held.iter().enumerate() {
            assert_eq!(read_message(sample), (1, number as u64), "round {round}");
        }
        wild.kill();
        drop(held);
        drop((publisher, subscriber));
        domain.sweep(false).expect("swept");
        domain.remove("topic").expect("removed");
    }
}

fn names(domain: &Domain) -> Vec<String> {
    let entries = fs::read_dir(domain.path()).expect("there").flatten();
    let names = entries.map(|entry| entry.file_name().into_string().expect("plain"));
    names.filter(|name| name != ".tokens").collect()
}

fn a_topic_is_one_name_and_both_files_go(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 2);
    drop(open(&domain, 2));
    assert_eq!(names(&domain).len(), 2, "{:?}", names(&domain));
    let entries = domain.entries().expect("readable");
    assert_eq!(entries.iter().map(|entry| &*entry.name).collect::<Vec<_>>(), ["topic"]);
    assert!(domain.sweep(false).expect("swept").is_clean());
    assert_eq!(names(&domain).len(), 2, "a pair stays");
    domain.remove("topic").expect("there");
    assert!(names(&domain).is_empty(), "{:?}", names(&domain));
    // Those that have it go on, also with slots of their own.
    let publisher = topic.publisher().expect("a ring");
    let mut subscriber = topic.subscriber().expect("a slot");
    publisher.publish(&message(1, 1, 5000)).expect("room");
    assert_eq!(read_message(&subscriber.recv().expect("published")), (1, 1));
    let again = open(&domain, 2);
    assert!(again.subscribers().is_empty() && topic.subscribers().len() == 1);
    // A control file whose topic lost its name in another way.
    fs::remove_file(domain.path().join("topic")).expect("there");
    assert_eq!(names(&domain).len(), 1);
    assert!(domain.sweep(true).expect("looked").is_clean());
    assert_eq!(names(&domain).len(), 1);
    domain.sweep(false).expect("swept");
    assert!(names(&domain).is_empty(), "{:?}", names(&domain));
    // And a topic that lost its control file.
    drop(open(&domain, 2));
    let control = names(&domain).into_iter().find(|name| name.starts_with('.')).expect("there");
    fs::remove_file(domain.path().join(control)).expect("there");
    let told = outlive::topic::Topic::<[u8]>::open(&domain, "topic").map(drop);
    assert!(matches!(told, Err(outlive::Error::Damaged { .. })), "{told:?}");
    domain.remove("topic").expect("there");
    drop(open(&domain, 2));
}

/// A user, and a group's number, that no account here has.
const STRANGER: u32 = 65_432;

/// A topic's own file that its group may only read: its members subscribe, and cannot publish.
fn a_member_with_fewer_rights_subscribes(world: &World) {
    // SAFETY: always.
    if unsafe { libc::geteuid() } != 0 {
        world.skip("only root can play somebody else");
    }
    use std::os::unix::fs::PermissionsExt;
    let set_mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
    };
    set_mode(world.folder(), 0o755);
    let path = world.folder().join("shared");
    let of_group = || Domain::options().group(Some(STRANGER)).open_or_create_at(&path);
    let board = Board::new();
    // Forked before this process has the topic.
    let member = Child::start(|| {
        // SAFETY: no pointers but an empty list are passed.
        unsafe {
            assert_eq!(libc::setgroups(0, core::ptr::null()), 0);
            assert_eq!(libc::setgid(STRANGER), 0);
            assert_eq!(libc::setuid(STRANGER), 0);
        }
        board.reach(0, 1);
        let domain = of_group().expect("a member's");
        let topic = outlive::topic::Topic::<[u8]>::open(&domain, "topic").expect("readable");
        let mut subscriber = topic.subscriber_with(reliable()).expect("a slot");
        assert_eq!(topic.config().mode, 0o640);
        let told = topic.publisher().map(drop).expect_err("it may read alone");
        assert!(matches!(told, outlive::Error::Permission { doing: "publish to", .. }), "{told}");
        assert!(told.to_string().contains("lets this user subscribe alone"), "{told}");
        let file = path.join("topic");
        let opened = File::options().read(true).write(true).open(&file).map(drop);
        assert_eq!(opened.expect_err("refused").raw_os_error(), Some(libc::EACCES));
        assert!(matches!(domain.remove("topic"), Err(outlive::Error::Permission { .. })));
        let entry = domain.entry("topic").expect("readable");
        assert!(matches!(entry.detail, outlive::Detail::Topic(_)), "{entry:?}");
        board.set(1, 1);
        for number in 0..40 {
            let sample = subscriber.recv_timeout(PATIENCE).expect("ours").expect("in time");
            assert_eq!(read_message(&sample), (1, number));
        }
        // What it cannot look after is left to processes that can.
        let report = domain.sweep(false).expect("swept");
        assert!(report.failed.iter().all(|(name, _)| name == "topic"), "{report:?}");
    });
    let domain = of_group().expect("made");
    // Whatever the umask.
    // SAFETY: always.
    unsafe { libc::umask(0o077) };
    let options = outlive::topic::Topic::<[u8]>::options().depth(8).reliable(true);
    let topic = options.mode(0o640).create_new(&domain, "topic").expect("made");
    board.set(0, 1);
    board.reach(1, 1);
    let publisher = topic.publisher().expect("a ring");
    for number in 0..40 {
        let bytes = message(1, number, 200 + number as usize % 7 * 3000);
        publisher.publish_timeout(&bytes, PATIENCE).expect("it takes them");
    }
    member.finish();
}

fn a_topics_mode_is_its_makers_choice(world: &World) {
    use std::os::unix::fs::PermissionsExt;
    let domain = world.domain();
    let mode = |name: &str| {
        let path = domain.path().join(name);
        fs::metadata(path).expect("there").permissions().mode() & 0o7777
    };
    let control = || names(&domain).into_iter().find(|name| name.starts_with('.')).expect("there");
    let options = outlive::topic::Topic::<[u8]>::options;
    for umask in [0, 0o777] {
        // SAFETY: always.
        unsafe { libc::umask(umask) };
        for (asked, own, of_control) in [
            (None, 0o600, 0o600),
            (Some(0o600), 0o600, 0o600),
            (Some(0o640), 0o640, 0o660),
            (Some(0o660), 0o660, 0o660),
        ] {
            let with = |mode: Option<u32>| mode.map_or(options(), |mode| options().mode(mode));
            let topic = with(asked).open_or_create(&domain, "topic").expect("made");
            assert_eq!((mode("topic"), mode(&control())), (own, of_control), "{asked:?}");
            assert_eq!(topic.config().mode, own);
            let entry = domain.entry("topic").expect("readable");
            assert!(matches!(entry.detail, outlive::Detail::Topic(usage) if usage.mode == own));
            // What is there is compared, and stays.
            for other in [0o600, 0o640, 0o660] {
                let again = with(Some(other)).open_or_create(&domain, "topic").map(drop);
                let Err(error) = again else {
                    assert_eq!(other, own);
                    continue;
                };
                let text = error.to_string();
                assert!(matches!(error, outlive::Error::OtherOptions { what: "mode", .. }));
                assert!(text.contains(&format!("{other:04o}")), "{text}");
                with(Some(other)).as_is().open_or_create(&domain, "topic").expect("as it is");
            }
            assert_eq!(mode("topic"), own);
            domain.remove("topic").expect("removed");
        }
    }
    for mode in [0, 0o400, 0o620, 0o644, 0o666, 0o700, 0o1640] {
        let told = options().mode(mode).open_or_create(&domain, "topic").map(drop);
        let told = told.expect_err("no such mode");
        assert!(matches!(told, outlive::Error::InvalidOption { .. }), "{told}");
    }
    assert!(names(&domain).is_empty());
}

/// A thing that a sweep cannot read keeps its own control file, and no other.
fn a_sweep_that_cannot_read_one_topic_removes_what_others_left(world: &World) {
    let domain = world.domain();
    drop(open(&domain, 2));
    let kept = names(&domain).into_iter().find(|name| name.starts_with('.')).expect("there");
    for (round, damage) in [false, true].into_iter().enumerate() {
        // An orphan: its topic lost its name behind the library's back.
        drop(open_named(&domain, "orphan"));
        fs::remove_file(domain.path().join("orphan")).expect("there");
        assert_eq!(names(&domain).len(), 3, "{:?}", names(&domain));
        if damage {
            // The layout's version, in the topic's own file: this build cannot read what is there.
            let file =
                File::options().write(true).open(domain.path().join("topic")).expect("there");
            use std::os::unix::fs::FileExt;
            file.write_all_at(&0xff_u32.to_le_bytes(), 8).expect("written");
        }
        let report = domain.sweep(false).expect("swept");
        assert_eq!(report.failed.len(), usize::from(damage), "round {round}: {report:?}");
        assert!(report.failed.iter().all(|(name, _)| name == "topic"), "{report:?}");
        let left = names(&domain);
        assert_eq!(left.len(), 2, "round {round}: {left:?}");
        assert!(left.contains(&kept), "{left:?}");
    }
    domain.remove("topic").expect("removed");
    domain.sweep(false).expect("swept");
    assert!(names(&domain).is_empty(), "{:?}", names(&domain));
}

fn open_named(domain: &Domain, name: &str) -> outlive::topic::Topic {
    outlive::topic::Topic::<[u8]>::open_or_create(domain, name).expect("made")
}
