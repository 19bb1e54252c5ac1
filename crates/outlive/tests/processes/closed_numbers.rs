//! A process that becomes a daemon closes all its descriptors, and what it opens then gets their
//! numbers. Nothing of outlive's takes such a file for the one that it had: none is lengthened,
//! loses pages, is searched or closed.

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};

use outlive::Domain;
use outlive::pool::Pool;
use outlive::queue::Queue;

use crate::child::Child;
use crate::runner::World;

crate::checks!(files_are_left_alone, folders_are_left_alone, files_stay_open,);

fn close_all() {
    // SAFETY: this process has one thread, which uses none of its descriptors by number.
    unsafe { libc::close_range(3, u32::MAX, 0) };
}

/// Closes everything and opens that file by all numbers below 100, which are to be there when
/// `body` is over.
fn beside(open: impl FnOnce() -> fs::File, body: impl FnOnce()) {
    close_all();
    let file = open();
    // Nothing of std's: it ends a process that closes one of its files.
    // SAFETY: no pointers are passed.
    let number = |of: i32| unsafe { libc::fcntl(of, libc::F_DUPFD, 3) };
    while number(file.as_raw_fd()) < 100 {}
    body();
    // SAFETY: no pointers are passed.
    let closed: Vec<_> =
        (3..100).filter(|&fd| unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0).collect();
    std::mem::forget(file);
    assert!(closed.is_empty(), "closed: {closed:?}");
}

/// The same for a file that belongs to no part of the library.
fn beside_files(world: &World, body: impl FnOnce()) {
    beside(|| fs::File::create(world.folder().join("other")).expect("made"), body);
}

fn files_are_left_alone(world: &World) {
    const BYTES: usize = 64 << 20;
    let domain = world.domain();
    let options = Pool::options().max_bytes(512 << 20);
    let pool = options.open_or_create(&domain, "pool").expect("opens");
    let queue = Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
    Child::start(|| {
        let sender = queue.sender().expect("a sender");
        sender.send(b"before").expect("room");
        // Free, and with pages.
        drop(pool.alloc(32 << 20).expect("room"));
        beside_files(world, || {
            let other =
                fs::File::options().write(true).open(world.folder().join("other")).expect("there");
            other.write_all_at(&vec![7; BYTES], 0).expect("room");
            let (sent, collected) = (sender.send(&[1; 8 << 20]), pool.gc());
            assert_eq!(
                other.metadata().expect("there").len(),
                BYTES as u64,
                "lengthened: {sent:?}"
            );
            let holes = other.metadata().expect("there").blocks() * 512 < BYTES as u64;
            assert!(!holes, "holes: {collected:?}");
            assert!(sent.is_err() && collected.is_err(), "{sent:?}, {collected:?}");
        });
        crate::child::exit_now(0);
    })
    .finish();
    let mut receiver = queue.receiver().expect("none yet");
    assert_eq!(receiver.try_recv().expect("readable").expect("sent"), b"before");
    assert_eq!(receiver.try_recv(), Ok(None));
    queue.sender().expect("a sender").send(&[2; 8 << 20]).expect("room");
    assert_eq!(receiver.try_recv().expect("readable").expect("sent"), [2; 8 << 20]);
}

/// The same of the domain's folder: another domain, whose number it has, keeps what it has.
fn folders_are_left_alone(world: &World) {
    let (ours, theirs) = (world.domain(), world.domain_named("theirs"));
    let their_folder = world.folder().join("theirs");
    drop(Queue::<[u8]>::open_or_create(&ours, "q").expect("made"));
    drop(Queue::<[u8]>::open_or_create(&theirs, "q").expect("made"));
    let before = fs::read_dir(&their_folder).expect("there").count();
    Child::start(|| {
        beside(
            || fs::File::open(&their_folder).expect("there"),
            || {
                let (removed, made) =
                    (ours.remove("q"), Queue::<[u8]>::open_or_create(&ours, "new").map(drop));
                assert!(removed.is_err() && made.is_err(), "{removed:?}, {made:?}");
            },
        );
        crate::child::exit_now(0);
    })
    .finish();
    assert_eq!(fs::read_dir(&their_folder).expect("there").count(), before);
    ours.remove("q").expect("there");
    theirs.remove("q").expect("there");
}

/// The same when what was open is dropped: neither other files nor numbers without a file are
/// closed.
fn files_stay_open(world: &World) {
    let folder = world.folder().join("domain");
    for are_used_again in [true, false] {
        Child::start(|| {
            let domain = Domain::open_or_create_at(&folder).expect("opens");
            let queue = Queue::<[u8]>::open(&domain, "q")
                .or_else(|_| Queue::<[u8]>::open_or_create(&domain, "q"))
                .expect("made");
            let sender = queue.sender().expect("a sender");
            let drop_all = || drop((sender, queue, domain));
            if are_used_again {
                beside_files(world, drop_all);
            } else {
                close_all();
                drop_all();
            }
        })
        .finish();
    }
}
