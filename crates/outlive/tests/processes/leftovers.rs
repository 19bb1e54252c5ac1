//! What the dead leave behind is seen, swept, and gone after one sweep.

use outlive::queue::Queue;
use outlive::sync::Mutex;
use outlive::{Detail, Domain, Error, Kind, TokenId};

use crate::board::Board;
use crate::child::Child;
use crate::runner::World;

crate::checks!(
    a_domain_is_described,
    everything_at_once_is_swept,
    sweepers_are_killed: 60,
    sweeps_beside_traffic: 60,
    removed_names_live_on_for_those_who_have_them,
    a_removed_folder_can_be_made_again,
    files_of_extensions_go_with_their_owners,
);

fn pause() -> ! {
    loop {
        std::thread::park();
    }
}

fn a_domain_is_described(world: &World) {
    let domain = world.domain();
    let mutex = Mutex::<u64>::options(0).open_or_create(&domain, "total").expect("opens");
    let queue = Queue::<[u8]>::options()
        .max_bytes(1 << 20)
        .open_or_create(&domain, "orders")
        .expect("made");
    let receiver = queue.receiver().expect("the first");
    let sender = queue.sender().expect("a sender");
    sender.send(b"one").expect("room");
    let _guard = mutex.lock().expect("free");
    let board = Board::new();
    let mut child = Child::start(|| {
        let _sender = queue.sender().expect("a sender");
        board.set(0, 1);
        pause();
    });
    board.reach(0, 1);
    let entries = domain.entries().expect("listed");
    let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["orders", "total"], "in order, without internal files");
    let [orders, total] = &entries[..] else { unreachable!() };
    assert_eq!((&orders.kind, &total.kind), (&Ok(Kind::Queue), &Ok(Kind::Mutex)));
    let both = {
        let mut pids = [std::process::id(), child.pid() as u32];
        pids.sort_unstable();
        pids
    };
    assert_eq!(
        (&orders.users[..], &total.users[..]),
        (&both[..], &both[..]),
        "the child has inherited both"
    );
    assert!(orders.bytes >= 20 << 10 && orders.bytes < 1 << 20, "{}", orders.bytes);
    assert_eq!((orders.max_bytes, orders.dead_claims), (1 << 20, 0));
    assert_eq!(total.type_name, "u64");
    let Detail::Queue { counters, receiver: receiving, senders, .. } = &orders.detail else {
        panic!("{orders:?}")
    };
    assert_eq!((counters.sent, counters.pending), (1, 1));
    assert_eq!(receiving.as_ref().map(|holder| holder.pid), Some(std::process::id()));
    assert_eq!(senders.len(), 2);
    let Detail::Lock(lock) = &total.detail else { panic!("{total:?}") };
    assert!(lock.holders.first().is_some_and(|holder| holder.alive) && !lock.not_recoverable);
    child.kill();
    let orders = domain.entry("orders").expect("there");
    assert_eq!((orders.users, orders.dead_claims), (vec![std::process::id()], 1));
    let error = domain.entry("nothing").expect_err("not there");
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
    drop(receiver);
}

fn everything_at_once_is_swept(world: &World) {
    let domain = world.domain();
    let mutexes: Vec<Mutex<u64>> = (0..10)
        .map(|n| Mutex::options(0).open_or_create(&domain, &format!("m{n}")).expect("opens"))
        .collect();
    let queue =
        Queue::<[u8]>::options().max_bytes(64 << 20).open_or_create(&domain, "q").expect("made");
    let board = Board::new();
    let mut child = Child::start(|| {
        let _guards: Vec<_> = mutexes.iter().map(|mutex| mutex.lock().expect("free")).collect();
        let _receiver = queue.receiver().expect("the first");
        let sender = queue.sender().expect("a sender");
        sender.send(&vec![1; 3 << 20]).expect("room");
        board.set(0, 1);
        pause();
    });
    board.reach(0, 1);
    assert!(domain.sweep(true).expect("looks").is_clean(), "all live");
    child.kill();
    let looked = domain.sweep(true).expect("looks");
    // Ten locks; a reader, the thread inside, a sender; a thread's and a process's token.
    assert_eq!((looked.claims, looked.tokens), (13, 2), "{looked:?}");
    assert_eq!(domain.sweep(true).expect("looks"), looked, "looking changes nothing");
    assert_eq!(domain.sweep(false).expect("sweeps"), looked);
    assert!(domain.sweep(false).expect("sweeps").is_clean());
    assert!(domain.tokens().iter().all(|token| token.alive));
    assert_eq!(queue.counters().expect("counts").pending, 1, "what was sent is not swept");
}

/// Each is killed somewhere in a sweep; the last one sweeps the rest.
fn sweepers_are_killed(world: &World) {
    let domain = world.domain();
    let mut random = crate::random::Random::new();
    let mutexes: Vec<Mutex<u64>> = (0..40)
        .map(|n| Mutex::options(0).open_or_create(&domain, &format!("m{n}")).expect("opens"))
        .collect();
    for _ in 0..60 {
        let board = Board::new();
        let mut dying = Child::start(|| {
            let _guards: Vec<_> = mutexes.iter().map(Mutex::lock).collect();
            board.set(0, 1);
            pause();
        });
        board.reach(0, 1);
        dying.kill();
        let mut sweeper = Child::start(|| {
            loop {
                domain.sweep(false).expect("sweeps");
            }
        });
        random.pause(3_000);
        sweeper.kill();
        let last = domain.sweep(false).expect("sweeps");
        assert!(last.failed.is_empty());
        assert!(domain.sweep(false).expect("sweeps").is_clean());
        for mutex in &mutexes {
            assert!(mutex.holder().is_none());
            // Told, or marked not recoverable by the next one killed.
            mutex.reset(0).expect("free");
        }
    }
}

/// A sweep takes nothing from the living.
fn sweeps_beside_traffic(world: &World) {
    const COUNT: u64 = 20_000;
    let domain = world.domain();
    let mutex = Mutex::<u64>::options(0).open_or_create(&domain, "m").expect("opens");
    let queue = Queue::<[u8]>::options()
        .max_bytes(4 << 20)
        .slots(4)
        .open_or_create(&domain, "q")
        .expect("made");
    let board = Board::new();
    let sweeping = Child::start(|| {
        while board.get(0) == 0 {
            let report = domain.sweep(false).expect("sweeps");
            assert_eq!((report.objects, report.claims), (0, 0), "{report:?}");
            board.add(1, 1);
        }
    });
    let sending = Child::start(|| {
        let sender = queue.sender().expect("a sender");
        for number in 0..COUNT {
            let len = if number % 3 == 0 { 3_000 } else { 40 };
            sender.send(&crate::order::message(0, number, len)).expect("room");
            *mutex.lock().expect("nobody dies") += 1;
        }
        board.reach(0, 1);
    });
    let mut receiver = queue.receiver().expect("the first");
    for number in 0..COUNT {
        let bytes = receiver.recv_timeout(crate::child::PATIENCE).expect("readable").expect("sent");
        assert_eq!(crate::order::read_message(&bytes), (0, number));
        *mutex.lock().expect("nobody dies") += 1;
    }
    board.reach(1, 3);
    board.set(0, 1);
    sweeping.finish();
    sending.finish();
    assert_eq!(*mutex.lock().expect("free"), 2 * COUNT);
}

fn removed_names_live_on_for_those_who_have_them(world: &World) {
    let domain = world.domain();
    let queue = Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
    let sender = queue.sender().expect("a sender");
    let mut receiver = queue.receiver().expect("the first");
    assert!(!queue.is_removed());
    domain.remove("q").expect("there");
    assert!(queue.is_removed());
    assert!(matches!(domain.remove("q"), Err(Error::NotFound { .. })));
    sender.send(b"still").expect("room");
    assert_eq!(receiver.recv().expect("sent"), b"still");
    let error = Queue::<[u8]>::open(&domain, "q").err().expect("gone");
    assert!(
        matches!(error, Error::NotFound { .. }) && error.to_string().contains("create it"),
        "{error}"
    );
    let another = Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
    assert!(!another.is_removed());
    assert_eq!(another.counters().expect("counts").sent, 0);
    drop(another.receiver().expect("it is another queue"));
}

fn a_removed_folder_can_be_made_again(world: &World) {
    let domain = world.domain();
    let id = domain.token().expect("a token");
    std::fs::remove_dir_all(domain.path()).expect("removed");
    // The old file still works for the processes that have it open.
    assert!(domain.peer(id).is_alive());
    let again = world.domain();
    let other = again.token().expect("a token");
    assert!(again.peer(other).is_alive());
    assert_eq!(again.tokens().len(), 1);
    let mutex = Mutex::<u64>::options(0).open_or_create(&again, "m").expect("opens");
    drop(mutex.lock().expect("free"));
}

/// A file `.WORD-TOKEN` belongs to the process with that token, whatever the word.
fn files_of_extensions_go_with_their_owners(world: &World) {
    let domain = world.domain();
    let put = |name: String| {
        std::fs::write(domain.path().join(&name), b"of an extension").expect("written");
        name
    };
    let process = domain.process_token().expect("a token");
    let own = put(Domain::extension_file("thing", process));
    let others = [own, put(".thing-00000801.txt".into()), put(".thing-801".into())];
    let (mut owners, dead): (Vec<Child>, Vec<String>) = ["gpu", "thing"]
        .map(|word| {
            let board = Board::new();
            let child = Child::start(|| {
                let token = domain.process_token().expect("a token").as_u32();
                board.set(0, u64::from(token));
                pause();
            });
            board.reach(0, 1);
            let owner = TokenId::from_u32(board.get(0) as u32).expect("a token");
            (child, put(Domain::extension_file(word, owner)))
        })
        .into_iter()
        .unzip();
    let exists = |name: &String| domain.path().join(name).exists();
    domain.sweep(false).expect("swept");
    assert!(dead.iter().all(exists), "their owners live");
    owners.iter_mut().for_each(Child::kill);
    domain.sweep(true).expect("looked");
    assert!(dead.iter().all(exists), "a dry run removes nothing");
    domain.sweep(false).expect("swept");
    assert!(!dead.iter().any(exists), "{dead:?}");
    assert!(others.iter().all(exists), "a living owner's, and names of another form");
}
