//! Limits of the process: file sizes, address space, open files.

use std::io;

use outlive::queue::Queue;
use outlive::sync::Mutex;
use outlive::topic::Topic;
use outlive::{Domain, Error, RecvError, SendError};

use crate::board::Board;
use crate::child::{Child, PATIENCE};
use crate::forge::Registry;
use crate::order::{message, read_message};
use crate::runner::World;

crate::checks!(
    a_file_size_limit_is_an_error_not_a_signal,
    four_thousand_queues: 120,
    little_address_space,
    a_receiver_with_less_address_space_than_its_senders,
    no_address_space_at_all,
    a_topic_that_others_have_grown_beyond_what_is_mapped,
    a_thread_without_memory_for_its_tokens_takes_none,
    few_open_files,
    too_many_domains: 60,
);

pub fn set_limit(what: libc::__rlimit_resource_t, limit: u64) {
    let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
    // SAFETY: a place of ours.
    let set = unsafe { libc::setrlimit(what, &raw const limit) };
    assert_eq!(set, 0, "setrlimit: {}", io::Error::last_os_error());
}

fn a_file_size_limit_is_an_error_not_a_signal(world: &World) {
    let domain = world.domain();
    let queue =
        Queue::<[u8]>::options().max_bytes(1 << 30).open_or_create(&domain, "q").expect("made");
    set_limit(libc::RLIMIT_FSIZE, 8 << 20);
    let sender = queue.sender().expect("a sender");
    for len in [100, 3_000, 100_000] {
        while sender.try_send(&message(0, 0, len)).is_ok() {}
        assert_eq!(sender.try_send(&message(0, 0, len)), Err(SendError::Full { slowest: None }));
    }
    assert_eq!(sender.try_send(&vec![1; 16 << 20]), Err(SendError::Full { slowest: None }));
    let mut receiver = queue.receiver().expect("the first");
    while receiver.try_recv().is_ok_and(|message| message.is_some()) {}
    sender.send_timeout(&message(1, 1, 100), PATIENCE).expect("room");
    assert_eq!(read_message(&receiver.recv().expect("sent")), (1, 1));
    set_limit(libc::RLIMIT_FSIZE, 4 << 10);
    let error =
        Mutex::<u64>::options(0).open_or_create(&domain, "m").err().expect("8 KiB are too many");
    assert!(
        matches!(error, Error::NoSpace { .. }) && error.to_string().contains("limit"),
        "{error}"
    );
}

fn four_thousand_queues(world: &World) {
    const COUNT: usize = 4_096;
    let stat = rustix::fs::statvfs(world.folder()).expect("known");
    if stat.f_bavail * stat.f_frsize < 3 << 30 {
        world.skip("less than 3 GiB of the memory file system is free");
    }
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a place of ours.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    if limit.rlim_max < 2 * COUNT as u64 {
        world.skip("too few open files are allowed");
    }
    set_limit(libc::RLIMIT_NOFILE, limit.rlim_max);
    let domain = world.domain();
    let mut queues = Vec::new();
    for n in 0..COUNT {
        let queue = Queue::<[u8]>::open_or_create(&domain, &format!("q{n}"));
        queues.push(queue.unwrap_or_else(|error| panic!("queue {n}: {error}")));
    }
    for (n, queue) in queues.iter().enumerate() {
        let sender = queue.sender().expect("a sender");
        sender.send(&message(n as u64, 0, 60)).expect("room");
        sender.send(&message(n as u64, 1, 600)).expect("room");
    }
    for (n, queue) in queues.iter().enumerate().rev() {
        let mut receiver = queue.receiver().expect("the first");
        for number in 0..2 {
            assert_eq!(read_message(&receiver.recv().expect("sent")), (n as u64, number));
        }
    }
}

fn little_address_space(world: &World) {
    let folder = world.folder().join("domain");
    Child::start(|| {
        set_limit(libc::RLIMIT_AS, 1 << 30);
        let domain = Domain::options().recheck(None).open_or_create_at(&folder).expect("opens");
        for n in 0..8 {
            let queue = Queue::<[u8]>::open_or_create(&domain, &format!("q{n}")).expect("made");
            let sender = queue.sender().expect("a sender");
            let mut receiver = queue.receiver().expect("the first");
            for number in 0..1_000 {
                sender.send(&message(0, number, 80)).expect("room");
            }
            for number in 0..1_000 {
                assert_eq!(read_message(&receiver.recv().expect("sent")), (0, number));
            }
            // Kept open: the next one gets half of what is left.
            std::mem::forget((queue, sender, receiver));
        }
    })
    .finish();
    // A process without a limit has the same queues.
    let domain = Domain::options().recheck(None).open_or_create_at(&folder).expect("opens");
    let queue = Queue::<[u8]>::open(&domain, "q7").expect("there");
    let sender = queue.sender().expect("a sender");
    let mut receiver = queue.receiver().expect("the last one is dead");
    sender.send(&message(0, 0, 10 << 20)).expect("room");
    assert_eq!(read_message(&receiver.recv().expect("sent")), (0, 0));
}

/// What others have grown beyond what this process has mapped is an error, not a fault; the small
/// ones arrive.
fn a_receiver_with_less_address_space_than_its_senders(world: &World) {
    let domain = world.domain();
    let queue =
        Queue::<[u8]>::options().max_bytes(2 << 30).open_or_create(&domain, "q").expect("made");
    let sender = queue.sender().expect("a sender");
    sender.send(&message(0, 0, 80)).expect("room");
    sender.send(&message(0, 1, 100 << 20)).expect("room");
    sender.send(&message(0, 2, 80)).expect("room");
    let folder = world.folder().join("domain");
    Child::start(|| {
        drop(sender);
        drop(queue);
        set_limit(libc::RLIMIT_AS, 256 << 20);
        let domain = Domain::options().recheck(None).open_or_create_at(&folder).expect("opens");
        let queue = match Queue::<[u8]>::open(&domain, "q") {
            Ok(queue) => queue,
            // Not even what exists may be mapped.
            Err(error) => {
                assert!(matches!(error, Error::NoAddressSpace { .. }), "{error}");
                assert!(error.to_string().contains("RLIMIT_AS"), "{error}");
                return;
            }
        };
        let mut receiver = queue.receiver().expect("the first");
        assert_eq!(read_message(&receiver.recv().expect("sent")), (0, 0));
        let error = receiver.recv().expect_err("beyond what is mapped");
        assert!(matches!(error, RecvError::Damaged(_) | RecvError::System(_)), "{error}");
    })
    .finish();
}

fn no_address_space_at_all(world: &World) {
    let domain = world.domain();
    Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
    Child::start(|| {
        let pages = std::fs::read_to_string("/proc/self/statm").expect("readable");
        let used: u64 = pages.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
        set_limit(libc::RLIMIT_AS, used * 4096 + (16 << 10));
        let error = Queue::<[u8]>::open(&domain, "q").err().expect("no room to map it");
        let text = error.to_string();
        assert!(matches!(error, Error::NoAddressSpace { .. }), "{text}");
        assert!(text.contains("RLIMIT_AS"), "{text}");
    })
    .finish();
}

fn few_open_files(world: &World) {
    let domain = world.domain();
    set_limit(libc::RLIMIT_NOFILE, 40);
    let mut kept = Vec::new();
    let error = loop {
        match Mutex::<u64>::options(0).open_or_create(&domain, &format!("m{}", kept.len())) {
            Ok(mutex) => kept.push(mutex),
            Err(error) => break error,
        }
    };
    let text = error.to_string();
    assert!(matches!(error, Error::System { errno: libc::EMFILE, .. }), "{text}");
    assert!(kept.len() > 10 && text.contains("Too many open files"), "{text}");
    for mutex in &kept {
        drop(mutex.lock().expect("usable"));
    }
}

fn too_many_domains(world: &World) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a place of ours.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    if limit.rlim_max < 4_096 {
        world.skip("too few open files are allowed");
    }
    set_limit(libc::RLIMIT_NOFILE, limit.rlim_max);
    let mut domains = Vec::new();
    let error = loop {
        match Domain::open_or_create_at(world.folder().join(format!("d{}", domains.len()))) {
            Ok(domain) => domains.push(domain),
            Err(error) => break error,
        }
        assert!(domains.len() < 2_000);
    };
    assert!(matches!(error, Error::TooMany { what: "domains", max: 959, .. }), "{error:?}");
    assert!(error.to_string().contains("too many domains"));
    assert!(domains.len() >= 900, "{}", domains.len());
    for domain in &domains {
        let id = domain.token().expect("a token");
        assert!(domain.peer(id).is_alive());
    }
    // One that is open already may be opened again.
    Domain::open_or_create_at(world.folder().join("d0")).expect("known");
}

/// A thread that tries again and again to get a token, and has no memory to keep it in.
fn a_thread_without_memory_for_its_tokens_takes_none(world: &World) {
    const TRIES: u64 = 50;
    let domain = world.domain();
    domain.token().expect("a token");
    let registry = Registry::of(&domain);
    let in_use =
        || (0..domain.stats().slots).filter(|&slot| registry.generation(slot) & 1 == 1).count();
    let (before, board) = (in_use(), Board::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Its arena is there.
            drop(std::hint::black_box(vec![1u8; 1000]));
            board.set(0, 1);
            board.reach(1, 1);
            let failed = (0..TRIES).filter(|_| domain.token().is_err()).count();
            board.set(2, failed as u64 + 1);
            board.reach(3, 1);
            domain.token().expect("a token");
            board.set(4, 1);
            board.reach(5, 1);
        });
        board.reach(0, 1);
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: places of ours.
        unsafe {
            assert_eq!(libc::getrlimit(libc::RLIMIT_AS, &raw mut limit), 0);
            let none = libc::rlimit { rlim_cur: 4096, ..limit };
            assert_eq!(libc::setrlimit(libc::RLIMIT_AS, &raw const none), 0);
        }
        board.set(1, 1);
        let failed = board.reach(2, 1) - 1;
        // SAFETY: a place of ours.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
        let meanwhile = in_use();
        board.set(3, 1);
        board.reach(4, 1);
        let after = in_use();
        board.set(5, 1);
        assert_eq!((failed, meanwhile, after), (TRIES, before, before + 1));
    });
}

/// A process that cannot look at the publishers' rings cannot subscribe; however often it tries,
/// there is room for others.
fn a_topic_that_others_have_grown_beyond_what_is_mapped(world: &World) {
    /// More than a topic has lines.
    const TRIES: usize = 70;
    let domain = world.domain();
    // A ring of this depth takes 16 MiB.
    let topic = || {
        Topic::<[u8]>::options().depth(1 << 16).max_bytes(1 << 30).open_or_create(&domain, "topic")
    };
    drop(topic().expect("made"));
    let board = Board::new();
    let little = Child::start(|| {
        domain.process_token().expect("a token");
        let status = std::fs::read_to_string("/proc/self/status").expect("readable");
        let size = status.lines().find_map(|line| {
            line.strip_prefix("VmSize:")?.trim().strip_suffix(" kB")?.parse().ok()
        });
        let size: u64 = size.expect("a number");
        set_limit(libc::RLIMIT_AS, (size << 10) + (4 << 20));
        let topic = topic().expect("what exists is little");
        board.set(0, 1);
        board.reach(1, 1);
        for _ in 0..TRIES {
            let error = topic.subscriber().err().expect("the ring is not mapped");
            assert!(matches!(error, Error::NoAddressSpace { .. }), "{error}");
        }
        board.set(2, 1);
        board.reach(3, 1);
    });
    board.reach(0, 1);
    let topic = topic().expect("opens");
    let publisher = topic.publisher().expect("a ring");
    board.set(1, 1);
    board.reach(2, 1);
    let mut subscriber = topic.subscriber().expect("a line");
    publisher.publish(b"to all").expect("published");
    assert_eq!(*subscriber.try_recv().expect("ours").expect("there"), *b"to all");
    board.set(3, 1);
    little.finish();
}
