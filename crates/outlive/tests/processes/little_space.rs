//! A process whose address space is limited (`RLIMIT_AS`), so that it has mapped less of a file
//! than others make of it: what lies beyond its mapping is an error in every call, never a fault,
//! never a message that no process finds, never an `Ok`.

use outlive::pool::Pool;
use outlive::queue::Queue;
use outlive::rpc::Service;
use outlive::state::State;
use outlive::topic::{Subscriber, Topic};
use outlive::{Domain, Error, RecvError, SendError};

use crate::board::Board;
use crate::child::{Child, PATIENCE};
use crate::limits::set_limit;
use crate::order::{message, read_message};
use crate::runner::World;
use crate::services::server_of;

crate::checks!(
    a_sender_beyond_its_mapping: 60,
    a_receiver_beyond_its_mapping: 60,
    a_service_is_mapped_whole_or_not_at_all,
    a_reader_beyond_its_mapping,
    a_subscriber_beyond_its_mapping,
    a_registry_is_mapped_whole_or_not_at_all,
    a_sweep_beyond_its_mapping,
);

/// From now on this process may map so many bytes more.
fn leave_only(bytes: u64) {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("readable");
    let used: u64 = pages.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
    set_limit(libc::RLIMIT_AS, used * 4096 + bytes);
}

/// As many messages as make the queue larger than what the child maps of it, and a region begin
/// behind that.
const MANY: u64 = 600_000;

fn is_no_space(error: &Error) -> bool {
    matches!(error, Error::NoAddressSpace { .. })
}

/// A child that makes the queue while it has little address space, and goes on once the others have
/// filled it.
fn beside(world: &World, body: impl FnOnce(&Domain, &Queue, &dyn Fn())) -> (Child, Board) {
    let board = Board::new();
    let folder = world.folder().join("domain");
    let child = Child::start(|| {
        leave_only(192 << 20);
        let domain = Domain::options().recheck(None).open_or_create_at(&folder).expect("opens");
        let queue =
            Queue::<[u8]>::options().max_bytes(1 << 30).open_or_create(&domain, "q").expect("made");
        body(&domain, &queue, &|| {
            board.set(0, 1);
            board.reach(1, 1);
        });
    });
    board.reach(0, 1);
    (child, board)
}

fn a_sender_beyond_its_mapping(world: &World) {
    let (child, board) = beside(world, |_, queue, others_send| {
        let sender = queue.sender().expect("a sender");
        sender.send(&message(0, 0, 80)).expect("room");
        others_send();
        for _ in 0..20 {
            match sender.try_send(&message(0, 1, 80)) {
                Err(SendError::System(error)) if is_no_space(&error) => {}
                other => panic!("{other:?}"),
            }
        }
        // Nor from anew.
        match queue.sender().map(|sender| sender.try_send(&message(0, 1, 80))) {
            Ok(Err(SendError::System(error))) | Err(error) if is_no_space(&error) => {}
            other => panic!("{:?}", other.map(|_| ())),
        }
    });
    let domain = world.domain();
    let queue = Queue::<[u8]>::open(&domain, "q").expect("there");
    let sender = queue.sender().expect("a sender");
    for number in 0..MANY {
        sender.send(&message(1, number, 80)).expect("room");
    }
    board.set(1, 1);
    child.finish();
    let mut receiver = queue.receiver().expect("none yet");
    assert_eq!(read_message(&receiver.try_recv().expect("readable").expect("sent")), (0, 0));
    for number in 0..MANY {
        assert_eq!(
            read_message(&receiver.try_recv().expect("readable").expect("sent")),
            (1, number)
        );
    }
    assert_eq!(receiver.try_recv(), Ok(None));
    assert_eq!(queue.counters().expect("counts").abandoned, 0);
}

fn a_receiver_beyond_its_mapping(world: &World) {
    let received = Board::new();
    let (child, board) = beside(world, |_, queue, others_send| {
        let mut receiver = queue.receiver().expect("none yet");
        others_send();
        let mut message = Vec::new();
        let mut number = 0;
        let error = loop {
            match receiver.try_recv_into(&mut message) {
                Ok(Some(())) => assert_eq!(read_message(&message), (1, number)),
                Ok(None) => panic!("{number} received, and no error"),
                Err(error) => break error,
            }
            number += 1;
        };
        assert!(number < MANY, "the whole queue was mapped");
        received.set(0, number);
        for error in [error]
            .into_iter()
            .chain((0..20).map(|_| receiver.try_recv().expect_err("it is out of reach")))
        {
            assert!(matches!(&error, RecvError::System(error) if is_no_space(error)), "{error:?}");
        }
        let error = receiver.peek_timeout(PATIENCE).err().expect("it is out of reach");
        assert!(matches!(&error, RecvError::System(error) if is_no_space(error)), "{error:?}");
    });
    let domain = world.domain();
    let queue = Queue::<[u8]>::open(&domain, "q").expect("there");
    let sender = queue.sender().expect("a sender");
    for number in 0..MANY {
        sender.send(&message(1, number, 80)).expect("room");
    }
    board.set(1, 1);
    child.finish();
    // A process that can map it goes on where the limited one had to stop.
    let mut receiver = queue.receiver().expect("the last one has ended");
    for number in received.get(0)..MANY {
        assert_eq!(
            read_message(&receiver.try_recv().expect("readable").expect("sent")),
            (1, number)
        );
    }
    assert_eq!(receiver.try_recv(), Ok(None));
    assert_eq!(queue.counters().expect("counts").abandoned, 0);
}

/// A request in a slot that the server cannot see would never be answered; a reply that the client
/// cannot see, never read.
fn a_service_is_mapped_whole_or_not_at_all(world: &World) {
    let domain = world.domain();
    let server = Service::<[u8], [u8]>::options()
        .max_bytes(1 << 20)
        .open_or_create(&domain, "s")
        .and_then(|service| service.server())
        .expect("none lives");
    drop(server);
    let folder = world.folder().join("domain");
    Child::start(|| {
        leave_only(48 << 20);
        let domain = Domain::options().recheck(None).open_or_create_at(&folder).expect("opens");
        let errors = [
            Service::<[u8], [u8]>::open_or_create(&domain, "s")
                .and_then(|service| service.server())
                .err(),
            Service::<[u8], [u8]>::open_or_create(&domain, "s")
                .and_then(|service| service.client())
                .err(),
        ];
        for error in errors {
            let error = error.expect("too little to map all clients' places");
            assert!(is_no_space(&error), "{error}");
        }
    })
    .finish();
    server_of(&domain, "s");
}

fn a_reader_beyond_its_mapping(world: &World) {
    let board = Board::new();
    let folder = world.folder().join("domain");
    let child = Child::start(|| {
        leave_only(64 << 20);
        let domain = Domain::options().recheck(None).open_or_create_at(&folder).expect("opens");
        let state = State::<[u8]>::options()
            .capacity(1 << 20)
            .initial(b"first")
            .create_new(&domain, "s")
            .expect("made");
        board.set(0, 1);
        board.reach(1, 1);
        for _ in 0..20 {
            let error = state.get().expect_err("out of reach");
            assert!(is_no_space(&error), "{error}");
        }
        // A writer looks at all buffers before its first set: it is refused, and leaves the role.
        let error = state.writer().map(drop).expect_err("it can look at some of the buffers only");
        assert!(is_no_space(&error), "{error}");
    });
    board.reach(0, 1);
    let domain = world.domain();
    let state = State::<[u8]>::open(&domain, "s").expect("there");
    // Readers that stand in a pinned read keep a buffer each, so that the writer makes more.
    let readers: Vec<Child> = (0..8)
        .map(|reader| {
            let ready = Board::new();
            let pinned = Child::start(|| {
                let _ = state.get_as_if_stopped(|| {
                    ready.set(0, 1);
                    board.reach(4, 1);
                });
            });
            ready.reach(0, 1);
            let mut writer = state.writer().expect("none lives");
            writer.set(format!("value {reader}").as_bytes()).expect("room");
            pinned
        })
        .collect();
    board.set(1, 1);
    child.finish();
    state.writer().expect("the one that was refused has left").set(b"another").expect("room");
    board.set(4, 1);
    readers.into_iter().for_each(Child::finish);
}

fn a_subscriber_beyond_its_mapping(world: &World) {
    const PUBLISHERS: u64 = 12;
    let board = Board::new();
    let folder = world.folder().join("domain");
    let child = Child::start(|| {
        leave_only(256 << 20);
        let domain = Domain::options().recheck(None).open_or_create_at(&folder).expect("opens");
        let topic: Topic<[u8]> = Topic::options()
            .depth(1 << 16)
            .max_bytes(1 << 30)
            .open_or_create(&domain, "t")
            .expect("made");
        let mut subscriber = topic.subscriber_with(Subscriber::options()).expect("a line");
        board.set(0, 1);
        board.reach(1, 1);
        let mut errors = 0;
        for _ in 0..100 {
            match subscriber.try_recv() {
                Ok(Some(sample)) => assert_eq!(read_message(&sample).1, 0),
                Ok(None) => {}
                Err(_) => errors += 1,
            }
        }
        assert!(errors > 0, "all of it was mapped");
    });
    board.reach(0, 1);
    let domain = world.domain();
    let topic: Topic<[u8]> = Topic::open_or_create(&domain, "t").expect("there");
    let publishers: Vec<_> = (0..PUBLISHERS).map(|_| topic.publisher().expect("a ring")).collect();
    for (who, publisher) in (0..).zip(&publishers) {
        publisher.publish(&message(who, 0, 100)).expect("room");
        publisher.publish(&message(who, 0, 100_000)).expect("room");
    }
    board.set(1, 1);
    child.finish();
}

/// An owner whose slot this process cannot see would read dead.
fn a_registry_is_mapped_whole_or_not_at_all(world: &World) {
    let folder = world.folder().join("domain");
    Child::start(|| {
        leave_only(4 << 20);
        let error = Domain::options()
            .recheck(None)
            .open_or_create_at(&folder)
            .expect_err("no room for 65,536 slots");
        assert!(is_no_space(&error), "{error}");
    })
    .finish();
}

/// It sweeps what it has mapped, says of the rest that it has not, and retires no token: a name
/// that is left there is a dead process's by that alone.
fn a_sweep_beyond_its_mapping(world: &World) {
    let domain = world.domain();
    let pool = Pool::options().max_bytes(1 << 30).open_or_create(&domain, "p").expect("made");
    Child::start(|| {
        let objects = [0; 4].map(|_| pool.alloc(32 << 20).expect("room"));
        assert_eq!(objects.len(), 4);
        // Not dropped, as by a death.
        crate::child::exit_now(0);
    })
    .finish();
    Child::start(|| {
        leave_only(64 << 20);
        let report = domain.sweep(false).expect("sweeps");
        assert!(
            report.failed.iter().any(|(name, error)| name == "p" && is_no_space(error)),
            "{report:?}"
        );
        assert!(report.tokens > 0, "{report:?}");
    })
    .finish();
    let report = domain.sweep(false).expect("sweeps");
    assert!(report.failed.is_empty() && report.ending == 0 && report.tokens > 0, "{report:?}");
    assert!(domain.sweep(false).expect("sweeps").is_clean());
}
