//! A system call that fails where shared memory is looked at: nothing is lost by it. The caller is
//! told, and finds everything the next time.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use outlive::queue::Queue;
use outlive::{Domain, RecvError};

use crate::board::Board;
use crate::child::{Child, PATIENCE, wait_until};
use crate::order::{message, read_message};
use crate::runner::World;
use crate::topics;

crate::checks!(
    a_long_message_stays,
    a_long_sample_stays,
    who_cannot_subscribe_keeps_no_line,
    a_sweep_that_cannot_look_keeps_the_tokens,
);

/// More than lies in a slot, and behind all that the file had before.
pub(crate) const LONG: usize = 5 << 20;

/// Runs `body` while `fstat` fails for that file, which this process has open. A check is a process
/// of one thread, and `body` opens nothing that could get the number of a descriptor that is closed
/// meanwhile.
pub(crate) fn without_fstat<T>(domain: &Domain, name: &str, body: impl FnOnce() -> T) -> T {
    let file = fs::metadata(domain.path().join(name)).expect("there");
    let is_it = |number: &i32| {
        let of = |path: &Path| {
            fs::metadata(path).is_ok_and(|it| (it.dev(), it.ino()) == (file.dev(), file.ino()))
        };
        of(Path::new(&format!("/proc/self/fd/{number}")))
    };
    let numbers: Vec<i32> = fs::read_dir("/proc/self/fd")
        .expect("readable")
        .filter_map(|entry| entry.expect("readable").file_name().to_str()?.parse().ok())
        .filter(is_it)
        .collect();
    assert!(!numbers.is_empty());
    // SAFETY: the numbers are of descriptors that are open, and mean the same files again
    // afterwards.
    unsafe {
        let kept: Vec<i32> =
            numbers.iter().map(|&number| libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 500)).collect();
        assert!(numbers.iter().all(|&number| libc::close(number) == 0));
        let result = body();
        for (&number, &kept) in numbers.iter().zip(&kept) {
            assert!(libc::dup2(kept, number) == number && libc::close(kept) == 0);
        }
        result
    }
}

fn a_long_message_stays(world: &World) {
    let domain = world.domain();
    let queue = Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
    let mut receiver = queue.receiver().expect("the only one");
    for (round, len) in [LONG, 4 * LONG].into_iter().enumerate() {
        let round = round as u64;
        Child::start(|| {
            let sender = queue.sender().expect("a sender");
            sender.send(&message(1, round, len)).expect("room");
            sender.send(b"and a short one").expect("room");
        })
        .finish();
        let told = without_fstat(&domain, "q", || {
            let waited = receiver.recv_timeout(PATIENCE);
            (waited, receiver.try_recv(), receiver.peek_timeout(PATIENCE).map(drop))
        });
        assert!(matches!(
            told,
            (Err(RecvError::System(_)), Err(RecvError::System(_)), Err(RecvError::System(_)))
        ));
        assert_eq!(
            read_message(&receiver.try_recv().expect("readable").expect("there")),
            (1, round)
        );
        assert_eq!(receiver.try_recv().expect("readable").expect("there"), b"and a short one");
    }
    let counters = queue.counters().expect("whole");
    assert_eq!((counters.received, counters.abandoned), (4, 0));
}

fn a_long_sample_stays(world: &World) {
    let domain = world.domain();
    let topic = topics::open(&domain, 4);
    let keep = topics::reliable().history(4);
    let mut subscribers = [
        topic.subscriber_with(keep.clone()).expect("a line"),
        topic.subscriber_with(keep).expect("a line"),
    ];
    let [first, second] = &mut subscribers;
    let board = Board::new();
    let publishing = Child::start(|| {
        let publisher = topic.publisher().expect("a ring");
        publisher.publish(&message(1, 6, 20)).expect("published");
        board.reach(0, 1);
        publisher.publish(&message(1, 7, LONG)).expect("published");
        // Not dropped, as by a death.
        crate::child::exit_now(0);
    });
    // From here on they know the ring.
    for subscriber in [&mut *first, &mut *second] {
        assert_eq!(
            read_message(&subscriber.recv_timeout(PATIENCE).expect("no error").expect("published")),
            (1, 6)
        );
    }
    board.set(0, 1);
    publishing.finish();
    let told = without_fstat(&domain, "topic", || {
        let told = (
            first.try_recv().map(drop),
            second.latest().map(drop),
            first.recv_timeout(PATIENCE).map(drop),
        );
        // A new publisher looks for what lies in the dead one's ring.
        assert!(topic.publisher().is_err());
        told
    });
    let system =
        |told: &Result<(), outlive::RecvError>| matches!(told, Err(outlive::RecvError::System(_)));
    assert!(system(&told.0) && system(&told.1) && system(&told.2), "{told:?}");
    let publisher = topic.publisher().expect("a ring");
    assert_eq!(read_message(&first.try_recv().expect("ours").expect("there")), (1, 7));
    assert_eq!(read_message(&second.latest().expect("ours").expect("there")), (1, 7));
    publisher.publish(&message(2, 8, LONG)).expect("published");
    for subscriber in &mut subscribers {
        assert_eq!(read_message(&subscriber.try_recv().expect("ours").expect("there")), (2, 8));
        assert_eq!(subscriber.lost(), 0);
    }
}

/// The lines are there and were used before; the ring that has come since cannot be looked at.
fn who_cannot_subscribe_keeps_no_line(world: &World) {
    /// Lines of a topic.
    const MOST: usize = 64;
    let domain = world.domain();
    let topic = topics::open(&domain, 1 << 10);
    let used: Vec<_> = (0..MOST).map(|_| topic.subscriber().expect("a line")).collect();
    drop(used);
    Child::start(|| {
        let publisher = topic.publisher().expect("a ring");
        publisher.publish(&message(1, 6, 20)).expect("published");
    })
    .finish();
    without_fstat(&domain, "topic", || {
        for _ in 0..MOST {
            assert!(topic.subscriber().is_err(), "the ring cannot be looked at");
        }
    });
    let all: Vec<_> = (0..MOST).map(|_| topic.subscriber()).collect();
    assert!(
        all.iter().all(Result::is_ok),
        "{} lines are left",
        all.iter().filter(|one| one.is_ok()).count()
    );
}

fn a_sweep_that_cannot_look_keeps_the_tokens(world: &World) {
    let domain = world.domain();
    Queue::<[u8]>::open_or_create(&domain, "broken").expect("made");
    let path = domain.path().join("broken");
    // So long is a file with a whole header, but not the queue that it says.
    let whole = fs::read(&path).expect("readable");
    Child::start(|| assert!(domain.token().is_ok())).finish();
    let mut damaged = whole.clone();
    damaged[12_288..].fill(0xa5);
    fs::write(&path, &damaged).expect("written");
    for dry_run in [true, false, false] {
        let report = domain.sweep(dry_run).expect("sweeps");
        assert_eq!((report.failed.len(), report.tokens), (1, 1), "{report:?}");
    }
    fs::write(&path, &whole).expect("written");
    let report = domain.sweep(false).expect("sweeps");
    assert_eq!((report.failed.len(), report.tokens), (0, 1), "{report:?}");
    wait_until("nothing of the dead", || domain.sweep(false).expect("sweeps").is_clean());
}
