//! Tries that find nothing, and waits of a queue and a service whose time is over before they
//! begin: each returns after some thousand instructions and without a sleep, although the handles
//! were told to spin long before they sleep.

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::task::Poll;

use outlive::queue::{Queue, Receiver, Sender};
use outlive::rpc::{Call, CallError, Client, Server, Service};
use outlive::state::{State, Watch};
use outlive::sync::{Barrier, Event, Latch, Mutex, OnceLock, RwLock, Semaphore};
use outlive::topic::{Publisher, Subscriber, Topic};
use outlive::wait::WaitSet;
use outlive::{Deadline, Domain, Peer, SendError, TokenId, WaitError, WaitStrategy};

use crate::board::Board;
use crate::child::Child;
use crate::runner::World;
use crate::services::{client_of, server_of};
use crate::steps::{FREE, Stepped, in_rounds};

crate::checks!(tries_neither_spin_nor_sleep: 120);

/// The token of the process that holds what the tries want.
const HOLDER: usize = FREE;
/// More than any try makes. A long spin makes 200,000 rounds, of several instructions each.
const MOST: u64 = 100_000;
/// Where the token of a barrier's repairer lies in its file.
const REPAIR: u64 = 12_288 + 16;
/// Two of these do not fit into the service.
const LONG: usize = 600 << 10;

/// What the tries want, as their process has it.
struct Wanted {
    mutex: Mutex<u64>,
    lock: RwLock<u64>,
    semaphore: Semaphore,
    once: OnceLock<u64>,
    barrier: Barrier,
    event: Event,
    latch: Latch,
    state: State<u64>,
    watch: RefCell<Watch>,
    empty: RefCell<Receiver<[u8]>>,
    full: Sender<[u8]>,
    silent: RefCell<Subscriber<[u8]>>,
    awaited: Publisher<[u8]>,
    _slow: Subscriber<[u8]>,
    set: RefCell<WaitSet>,
    client: &'static Client,
    call: RefCell<Call<'static>>,
    unasked: RefCell<Server>,
    holder: Peer,
}

/// A try with its name.
type Try = (&'static str, fn(&Wanted));

/// Each try, which must find nothing.
const TRIES: &[Try] = &[
    ("Mutex::try_lock", |wanted| assert!(matches!(wanted.mutex.try_lock(), Ok(None)))),
    ("RwLock::try_read", |wanted| assert!(matches!(wanted.lock.try_read(), Ok(None)))),
    ("RwLock::try_write", |wanted| assert!(matches!(wanted.lock.try_write(), Ok(None)))),
    ("Semaphore::try_acquire", |wanted| {
        assert!(matches!(wanted.semaphore.try_acquire(), Ok(None)));
    }),
    ("OnceLock::try_get_or_init", |wanted| {
        assert!(matches!(wanted.once.try_get_or_init(|_| 1), Ok(None)));
    }),
    ("Barrier::try_repair", |wanted| {
        assert_eq!(wanted.barrier.try_repair(), Err(WaitError::TimedOut));
    }),
    ("Event::try_wait_any", |wanted| assert_eq!(wanted.event.try_wait_any(1), Ok(None))),
    ("Latch::try_wait", |wanted| assert_eq!(wanted.latch.try_wait(), Err(WaitError::TimedOut))),
    ("State::try_wait_to_write", |wanted| {
        assert!(matches!(wanted.state.try_wait_to_write(), Ok(None)));
    }),
    ("Watch::try_changed", |wanted| {
        assert!(matches!(wanted.watch.borrow_mut().try_changed(), Ok(None)));
    }),
    ("Receiver::try_recv", |wanted| {
        assert!(matches!(wanted.empty.borrow_mut().try_recv(), Ok(None)));
    }),
    ("Receiver::try_peek", |wanted| {
        assert!(matches!(wanted.empty.borrow_mut().try_peek(), Ok(None)));
    }),
    ("Sender::try_send", |wanted| {
        assert!(matches!(wanted.full.try_send(&[0; 9000]), Err(SendError::Full { .. })));
    }),
    ("Receiver::recv_until", |wanted| {
        assert!(matches!(wanted.empty.borrow_mut().recv_until(past()), Ok(None)));
    }),
    ("Receiver::peek_until", |wanted| {
        assert!(matches!(wanted.empty.borrow_mut().peek_until(past()), Ok(None)));
    }),
    ("Sender::send_until", |wanted| {
        let told = wanted.full.send_until(&[0; 9000], past());
        assert!(matches!(told, Err(SendError::TimedOut { .. })));
    }),
    ("Server::next_until", |wanted| {
        assert!(matches!(wanted.unasked.borrow_mut().next_until(past()), Ok(None)));
    }),
    ("Subscriber::try_recv", |wanted| {
        assert!(matches!(wanted.silent.borrow_mut().try_recv(), Ok(None)));
    }),
    ("Publisher::try_publish", |wanted| {
        assert!(matches!(wanted.awaited.try_publish(b"2"), Err(SendError::Full { .. })));
    }),
    ("WaitSet::try_wait", |wanted| {
        assert_eq!(wanted.set.borrow_mut().try_wait().map(|ready| ready.len()), Ok(0));
    }),
    ("Client::try_begin", |wanted| {
        let told = wanted.client.try_begin(&[0; LONG]).map(drop);
        assert_eq!(told, Err(CallError::TimedOut { begun: false }));
    }),
    ("Call::try_next", |wanted| {
        assert!(matches!(wanted.call.borrow_mut().try_next(), Ok(Poll::Pending)));
    }),
    ("Server::try_next", |wanted| {
        assert!(matches!(wanted.unasked.borrow_mut().try_next(), Ok(None)));
    }),
    ("Peer::try_wait_dead", |wanted| {
        assert_eq!(wanted.holder.try_wait_dead(), Err(WaitError::TimedOut));
    }),
];

/// A moment long ago.
fn past() -> Deadline {
    Deadline::at_nanos(0)
}

fn mutex(domain: &Domain) -> Mutex<u64> {
    Mutex::options(0).open_or_create(domain, "mutex").expect("opens")
}

fn lock(domain: &Domain) -> RwLock<u64> {
    RwLock::options(0).open_or_create(domain, "lock").expect("opens")
}

fn semaphore(domain: &Domain) -> Semaphore {
    Semaphore::options(1).open_or_create(domain, "semaphore").expect("opens")
}

fn once(domain: &Domain) -> OnceLock<u64> {
    OnceLock::open_or_create(domain, "once").expect("opens")
}

fn state(domain: &Domain) -> State<u64> {
    State::open_or_create(domain, "state").expect("opens")
}

/// Holds what the tries want, and is the server of a call that it does not answer.
fn hold(domain: &Domain, board: Board) {
    let (mutex, lock, semaphore) = (mutex(domain), lock(domain), semaphore(domain));
    let _guard = mutex.lock().expect("free");
    let _writing = lock.write().expect("free");
    let _permit = semaphore.acquire().expect("free");
    let _writer = state(domain).writer().expect("none yet");
    let _server = server_of(domain, "service");
    let _ = once(domain).get_or_init(|_| {
        board.set(HOLDER, u64::from(domain.token().expect("a token").as_u32()));
        loop {
            std::thread::park();
        }
    });
}

impl Wanted {
    fn open(domain: &Domain, holder: TokenId) -> Wanted {
        let strategy = WaitStrategy::Spin;
        let queue = |name: &str| {
            Queue::<[u8]>::options()
                .max_bytes(64 << 10)
                .wait_strategy(strategy)
                .open_or_create(domain, name)
                .expect("opens")
        };
        let full = queue("full").sender().expect("a sender");
        while full.try_send(&[0; 9000]).is_ok() {}
        let topic = Topic::<[u8]>::options()
            .depth(1)
            .reliable(true)
            .wait_strategy(strategy)
            .open_or_create(domain, "topic")
            .expect("opens");
        let reliable = Subscriber::options().reliable(true);
        let slow = topic.subscriber_with(reliable).expect("room");
        let awaited = topic.publisher().expect("room");
        while awaited.try_publish(b"1").is_ok() {}
        let silent = Topic::<[u8]>::options()
            .wait_strategy(strategy)
            .open_or_create(domain, "silent")
            .and_then(|topic| topic.subscriber())
            .expect("room");
        let empty = queue("empty").receiver().expect("free");
        let event = Event::open_or_create(domain, "event").expect("opens");
        let mut set = WaitSet::new(domain);
        set.set_wait_strategy(strategy);
        set.add(&domain.peer(holder)).expect("added");
        let client: &'static Client = Box::leak(Box::new(client_of(domain, "service")));
        let unasked = server_of(domain, "unasked");
        let call = client.begin(&[0; LONG]).expect("room for one");
        let mut watch = state(domain).watch();
        assert!(watch.try_changed().expect("readable").is_some(), "the value that is there");
        let wanted = Wanted {
            mutex: mutex(domain),
            lock: lock(domain),
            semaphore: semaphore(domain),
            once: once(domain),
            barrier: Barrier::options(2).open_or_create(domain, "barrier").expect("opens"),
            latch: Latch::options(1).open_or_create(domain, "latch").expect("opens"),
            watch: RefCell::new(watch),
            state: state(domain),
            event,
            empty: RefCell::new(empty),
            full,
            silent: RefCell::new(silent),
            awaited,
            _slow: slow,
            set: RefCell::new(set),
            client,
            call: RefCell::new(call),
            unasked: RefCell::new(unasked),
            holder: domain.peer(holder),
        };
        wanted.mutex.set_wait_strategy(strategy);
        wanted.lock.set_wait_strategy(strategy);
        wanted.semaphore.set_wait_strategy(strategy);
        wanted.once.set_wait_strategy(strategy);
        wanted.barrier.set_wait_strategy(strategy);
        wanted.event.set_wait_strategy(strategy);
        wanted.latch.set_wait_strategy(strategy);
        wanted.state.set_wait_strategy(strategy);
        wanted.client.set_wait_strategy(strategy);
        wanted.unasked.borrow().set_wait_strategy(strategy);
        wanted
    }
}

fn tries_neither_spin_nor_sleep(world: &World) {
    let domain = world.domain();
    let board = Board::new();
    Service::<[u8], [u8]>::options()
        .max_bytes(1 << 20)
        .create_new(&domain, "service")
        .expect("made");
    drop(Barrier::options(2).create_new(&domain, "barrier").expect("made"));
    let _holder = Child::start(|| hold(&domain, board));
    while board.get(HOLDER) == 0 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let holder = board.get(HOLDER) as u32;
    let path = domain.path().join("barrier");
    let file = File::options().write(true).open(path).expect("writable");
    file.write_all_at(&holder.to_ne_bytes(), REPAIR).expect("written");
    let mut trying = Stepped::start(world, board, || {
        let holder = TokenId::from_u32(holder).expect("a token");
        let wanted = Wanted::open(&domain, holder);
        // What a first call prepares is no part of a try.
        TRIES.iter().for_each(|(_, attempt)| attempt(&wanted));
        in_rounds(board, |round| TRIES[round as usize % TRIES.len()].1(&wanted), |_| ());
    });
    for (name, _) in TRIES {
        // A try that slept would never return: what it wants does not come.
        assert!(trying.step(MOST), "{name} has not returned after {MOST} instructions");
        trying.go_on();
    }
}
