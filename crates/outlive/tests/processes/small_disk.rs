//! A memory file system of 16 MiB: what does not fit is an error, never a signal, and what was
//! there stays usable.

use std::ffi::CString;
use std::fs;
use std::path::Path;

use outlive::queue::Queue;
use outlive::sync::Mutex;
use outlive::topic::Topic;
use outlive::{Domain, Error, SendError};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::{Child, End, PATIENCE};
use crate::forge::Bytes;
use crate::order::{message, read_message};
use crate::runner::World;

crate::checks!(
    a_queue_fills_it,
    large_messages_fill_it,
    somebody_else_fills_it,
    a_large_message_is_tried_again_and_again,
    nothing_new_fits,
    the_registry_cannot_grow,
    a_default_queue_takes_a_quarter,
    senders_are_killed_while_it_is_full: 60,
    a_ring_that_its_first_publisher_never_made,
);

const BYTES: u64 = 16 << 20;

/// Mounts it in a mount namespace of this process's own, and opens a domain there.
pub fn small_disk(world: &World) -> Domain {
    let target = CString::new(world.folder().to_str().expect("a plain path")).expect("no NUL");
    let options = CString::new(format!("size={BYTES},mode=0700")).expect("no NUL");
    // SAFETY: strings that live until the calls return.
    let mounted = unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(
                core::ptr::null(),
                c"/".as_ptr(),
                core::ptr::null(),
                libc::MS_REC | libc::MS_PRIVATE,
                core::ptr::null(),
            ) == 0
            && libc::mount(
                c"tmpfs".as_ptr(),
                target.as_ptr(),
                c"tmpfs".as_ptr(),
                0,
                options.as_ptr().cast(),
            ) == 0
    };
    if !mounted {
        world.skip("a file system may not be mounted here");
    }
    world.domain()
}

/// Fills what is left of the file system with a file that is not the domain's.
pub fn fill_up(world: &World) -> std::path::PathBuf {
    let path = world.folder().join("ballast");
    let file = fs::File::create(&path).expect("made");
    let mut len = 0;
    for step in [1u64 << 20, 4096] {
        while rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), len, step).is_ok() {
            len += step;
        }
    }
    path
}

fn free(folder: &Path) -> u64 {
    let stat = rustix::fs::statvfs(folder).expect("known");
    stat.f_bfree * stat.f_frsize
}

fn pass_messages(queue: &Queue, count: u64, len: usize) {
    let sender = queue.sender().expect("a sender");
    let mut receiver = queue.receiver().expect("none lives");
    while receiver.try_recv().is_ok_and(|message| message.is_some()) {}
    for number in 0..count {
        sender.send_timeout(&message(7, number, len), PATIENCE).expect("there was room before");
        assert_eq!(
            read_message(&receiver.try_recv().expect("readable").expect("sent")),
            (7, number)
        );
    }
}

fn fills_it(world: &World, len: usize) {
    let domain = small_disk(world);
    let mutex = Mutex::<u64>::options(3).open_or_create(&domain, "m").expect("opens");
    let queue =
        Queue::<[u8]>::options().max_bytes(1 << 30).open_or_create(&domain, "q").expect("made");
    let sender = queue.sender().expect("a sender");
    let mut sent = 0;
    let error = loop {
        match sender.try_send(&message(0, sent, len)) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error, SendError::Full { slowest: None });
    assert!(sent as usize * len > (BYTES / 3) as usize, "{sent} messages of {len}");
    assert!(free(world.folder()) < 4 << 20, "{} free", free(world.folder()));
    *mutex.lock().expect("usable") += 1;
    let mut receiver = queue.receiver().expect("the first");
    for number in 0..sent {
        assert_eq!(
            read_message(&receiver.try_recv().expect("readable").expect("sent")),
            (0, number)
        );
    }
    drop(receiver);
    pass_messages(&queue, 5_000, len);
    assert_eq!(*mutex.lock().expect("usable"), 4);
}

fn a_queue_fills_it(world: &World) {
    fills_it(world, 100);
}

fn large_messages_fill_it(world: &World) {
    fills_it(world, 50_000);
}

fn somebody_else_fills_it(world: &World) {
    let domain = small_disk(world);
    let queue =
        Queue::<[u8]>::options().max_bytes(1 << 30).open_or_create(&domain, "q").expect("made");
    let sender = queue.sender().expect("a sender");
    for number in 0..1_000 {
        sender.send(&message(0, number, 100)).expect("room");
        sender.send(&message(1, number, 1_000)).expect("room");
    }
    let ballast = fill_up(world);
    assert_eq!(free(world.folder()), 0);
    // What it has is used to the last slot, then it is full; and it goes on passing messages.
    while sender.try_send(&message(2, 0, 100)).is_ok() {}
    assert_eq!(sender.try_send(&message(2, 0, 100)), Err(SendError::Full { slowest: None }));
    pass_messages(&queue, 5_000, 100);
    pass_messages(&queue, 5_000, 1_000);
    // Room again: it grows again.
    fs::remove_file(ballast).expect("removed");
    let before = queue.counters().expect("counts").bytes;
    let mut sent = 0;
    while sender.try_send(&message(3, sent, 1_000)).is_ok() {
        sent += 1;
    }
    assert!(sent > 2_000, "{sent}");
    assert!(queue.counters().expect("counts").bytes > before);
}

/// Each try finds offsets and no pages for them: the offsets must not be lost. A process that waits
/// for pages gets them, though no process tells it that another file was removed.
fn a_large_message_is_tried_again_and_again(world: &World) {
    let domain = small_disk(world);
    let queue =
        Queue::<[u8]>::options().max_bytes(64 << 20).open_or_create(&domain, "q").expect("made");
    let sender = queue.sender().expect("a sender");
    let large = message(0, 0, 3 << 20);
    let ballast = fs::OpenOptions::new().write(true).open(fill_up(world)).expect("opens");
    // Room for tags, and not for the message.
    let len = ballast.metadata().expect("known").len();
    ballast.set_len(len - (1 << 20)).expect("shorter");
    for _ in 0..200 {
        assert_eq!(sender.try_send(&large), Err(SendError::Full { slowest: None }));
    }
    let waiting = Child::start(|| {
        let sender = queue.sender().expect("a sender");
        sender.send_timeout(&large, PATIENCE).expect("room in the end");
    });
    wait_asleep(waiting.pid());
    ballast.set_len(0).expect("shorter");
    waiting.finish();
    assert_eq!(
        queue.receiver().expect("the first").try_recv().expect("readable").expect("sent"),
        large
    );
    assert_eq!(domain.sweep(false).expect("sweeps").objects, 0);
}

fn nothing_new_fits(world: &World) {
    let domain = small_disk(world);
    let mutex = Mutex::<u64>::options(3).open_or_create(&domain, "m").expect("opens");
    domain.token().expect("a token");
    fill_up(world);
    let errors = [
        Mutex::<u64>::options(0).open_or_create(&domain, "n").err(),
        Queue::<[u8]>::open_or_create(&domain, "q").err(),
        Domain::open_or_create_at(world.folder().join("another")).err(),
    ];
    for error in errors {
        let error = error.expect("no room");
        let text = error.to_string();
        assert!(matches!(error, Error::NoSpace { .. }), "{text}");
        assert!(text.contains("no room") && text.contains("outlive gc"), "{text}");
    }
    assert!(domain.entries().expect("listed").len() == 1, "nothing half-made is left");
    *mutex.lock().expect("usable") += 1;
    assert_eq!(*mutex.lock().expect("usable"), 4);
}

fn the_registry_cannot_grow(world: &World) {
    let domain = small_disk(world);
    domain.token().expect("a token");
    fill_up(world);
    let slots = domain.stats().slots;
    let (tell, told) = std::sync::mpsc::channel();
    let mut ends = Vec::new();
    let threads: Vec<_> = (0..slots)
        .map(|_| {
            let (end, ended) = std::sync::mpsc::channel::<()>();
            ends.push(end);
            let (domain, tell) = (domain.clone(), tell.clone());
            std::thread::spawn(move || {
                tell.send(domain.token()).expect("somebody listens");
                let _ = ended.recv();
            })
        })
        .collect();
    let results: Vec<_> = (0..slots).map(|_| told.recv().expect("told")).collect();
    let refused: Vec<_> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    // This thread has one of the slots.
    assert!(matches!(refused[..], [Error::NoSpace { .. }]), "{refused:?}");
    drop(ends);
    for thread in threads {
        thread.join().expect("no panic");
    }
    crate::slots::short_lived(&domain);
    assert_eq!(domain.stats().slots, slots);
}

fn a_default_queue_takes_a_quarter(world: &World) {
    let domain = small_disk(world);
    let queue = Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
    assert_eq!(queue.counters().expect("counts").max_bytes, BYTES / 4);
    let sender = queue.sender().expect("a sender");
    while sender.try_send(&[1; 1_000]).is_ok() {}
    assert!(free(world.folder()) > BYTES / 2, "there is room for others");
    Queue::<[u8]>::open_or_create(&domain, "another").expect("made");
}

fn senders_are_killed_while_it_is_full(world: &World) {
    let domain = small_disk(world);
    let queue =
        Queue::<[u8]>::options().max_bytes(1 << 30).open_or_create(&domain, "q").expect("made");
    let mut random = crate::random::Random::new();
    for _ in 0..100 {
        let mut sender = Child::start(|| {
            let sender = queue.sender().expect("a sender");
            for number in 0.. {
                let len = 16 << (number % 14);
                match sender.try_send(&message(0, number, len)) {
                    Ok(()) | Err(SendError::Full { .. } | SendError::TooLarge { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        });
        random.pause(6_000);
        sender.signal(libc::SIGKILL);
        assert_eq!(sender.wait(), End::Signal(libc::SIGKILL));
    }
    pass_messages(&queue, 1_000, 100);
    let first = domain.sweep(false).expect("sweeps");
    assert!(first.failed.is_empty(), "{first:?}");
    assert!(domain.sweep(false).expect("sweeps").is_clean());
}

/// Where a topic's rings' words begin: each ring's owner comes first.
const FIRST_OWNER: u64 = 16_384;

/// The first to publish has claimed ring 0 and is stopped before it has made its pages. The second
/// makes ring 1, the disk is filled, the first dies, and the third takes ring 0.
fn a_ring_that_its_first_publisher_never_made(world: &World) {
    let domain = small_disk(world);
    let options = || Topic::<[u8]>::options().depth(1024).max_bytes(4 << 20);
    let (topic, other) = (
        options().open_or_create(&domain, "t").expect("made"),
        options().open_or_create(&domain, "u").expect("made"),
    );
    let board = Board::new();
    let mut first = Child::start(|| {
        // Its name is in another topic's ring 0, to be copied from there.
        let _publisher = other.publisher().expect("a ring");
        board.set(0, 1);
        board.reach(1, 1);
    });
    board.reach(0, 1);
    let name = Bytes::of(&domain, "u").word(FIRST_OWNER);
    let words = Bytes::of(&domain, "t");
    assert_ne!(name, 0);
    words.set_word(FIRST_OWNER, name);
    let second = topic.publisher().expect("ring 1");
    assert_eq!(words.word(FIRST_OWNER), name, "ring 0 is the first one's");
    let mut subscriber = topic.subscriber().expect("a line");
    fill_up(world);
    first.kill();
    Child::start(|| {
        let third = topic.publisher().expect("ring 0");
        for number in 0..3_000 {
            match third.publish(&message(3, number, 60)) {
                Ok(_) | Err(outlive::SendError::NoSpace { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    })
    .finish();
    second.publish(&message(2, 0, 60)).expect("its slots are there");
    let mut seen = 0;
    while let Some(sample) = subscriber.try_recv().expect("readable") {
        read_message(&sample);
        seen += 1;
    }
    assert!(seen > 0);
}
