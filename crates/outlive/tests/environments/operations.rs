//! The main operations, between a process inside an environment and a partner outside it.
//!
//! | part | what must hold |
//! | --- | --- |
//! | locks that the other holds | they stay its own, however often the waiter checks its life |
//! | deaths on both sides, with locks held | `wait_any_dead` names the dead; the next is told so |
//! | queue, topic, state, service, pool, event, semaphore | everything arrives, both ways |
//!
//! All of it happens twice: before the environment's limits are used up, and afterwards. Waiters
//! look every 50 ms whether the owner lives, so an environment that hides the living has its
//! chance.

use std::time::Duration;

use outlive::pool::Pool;
use outlive::queue::{Queue, Receiver, Sender};
use outlive::rpc::{Client, Server};
use outlive::state::{State, Writer};
use outlive::sync::{Event, LockError, Mutex, Reset, Semaphore};
use outlive::topic::{Publisher, Subscriber, Topic};
use outlive::{Domain, DomainOptions, TokenId};

use crate::board::Board;
use crate::child::{Child, PATIENCE};
use crate::runner::World;

// Words of the board: how far each of the two sides has come, and the tokens of the processes that
// are killed.
const INSIDE: usize = 0;
const OUTSIDE: usize = 1;
const DYING_INSIDE: usize = 2;
const DYING_OUTSIDE: usize = 3;
const PARTNER: usize = 4;
/// From here on they are the check's.
pub const FREE: usize = 8;

/// So long a waiter waits for what a living process holds: many looks.
const A_WHILE: Duration = Duration::from_millis(600);
/// As long as a message in an object.
const LARGE: usize = 100_000;

/// Which of the two sides a process is on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Inside,
    Outside,
}

impl Side {
    /// What this side writes, and the other one reads.
    fn own(self, what: &str) -> String {
        format!("{what}-of-{}", if self == Side::Inside { "inside" } else { "outside" })
    }

    fn other(self) -> Side {
        if self == Side::Inside { Side::Outside } else { Side::Inside }
    }
}

/// An environment.
pub struct Environment<'a> {
    /// How every process opens the domain.
    pub open: &'a dyn Fn() -> Domain,
    /// Enters it; what comes before the domain is opened.
    pub enter: &'a dyn Fn(),
    /// Whether only the children of the one that enters are inside.
    pub forks: bool,
    /// What comes after everything has been opened: limits that are used up.
    pub use_up: &'a dyn Fn(),
}

/// A domain whose waiters look often.
pub fn options() -> DomainOptions {
    Domain::options().recheck(Some(Duration::from_millis(50)))
}

pub fn plain(world: &World) -> Domain {
    options().open_or_create_at(world.folder().join("domain")).expect("the check's domain opens")
}

/// All that one side has of the domain.
struct Things {
    side: Side,
    domain: Domain,
    own_lock: Mutex<u64>,
    other_lock: Mutex<u64>,
    /// The process that dies inside has held one lock for each side; the process that dies outside
    /// has held another.
    held_inside: Mutex<u64>,
    held_outside: Mutex<u64>,
    permits: Semaphore,
    sender: Sender,
    receiver: Receiver,
    publisher: Publisher,
    subscriber: Subscriber,
    writer: Writer<[u64; 100]>,
    state: State<[u64; 100]>,
    server: Server,
    client: Client,
    pool: Pool,
    events: Event,
}

impl Things {
    fn open(domain: Domain, side: Side) -> Things {
        let other = side.other();
        let queue = |name: &str| {
            Queue::<[u8]>::options()
                .max_bytes(1 << 20)
                .open_or_create(&domain, name)
                .expect("a queue")
        };
        let topic = |name: &str| {
            Topic::<[u8]>::options()
                .depth(4)
                .max_bytes(2 << 20)
                .reliable(true)
                .open_or_create(&domain, name)
                .expect("a topic")
        };
        let state = |name: &str| State::open_or_create(&domain, name).expect("a state");
        let lock = |name: &str| Mutex::options(0).open_or_create(&domain, name).expect("a lock");
        let service = || outlive::rpc::Service::<[u8], [u8]>::options().max_bytes(1 << 20);
        let reliable = Subscriber::options().reliable(true);
        let pool = Pool::options().max_bytes(2 << 20);
        Things {
            side,
            own_lock: lock(&side.own("lock")),
            other_lock: lock(&other.own("lock")),
            held_inside: lock(&side.own("held-inside")),
            held_outside: lock(&side.own("held-outside")),
            permits: Semaphore::options(1).open_or_create(&domain, "permits").expect("a semaphore"),
            sender: queue(&side.own("queue")).sender().expect("a sender"),
            receiver: queue(&other.own("queue")).receiver().expect("a receiver"),
            publisher: topic(&side.own("topic")).publisher().expect("a publisher"),
            subscriber: topic(&other.own("topic")).subscriber_with(reliable).expect("a subscriber"),
            writer: state(&side.own("state")).writer().expect("a writer"),
            state: state(&other.own("state")),
            server: service()
                .open_or_create(&domain, &side.own("service"))
                .and_then(|service| service.server())
                .expect("a server"),
            client: service()
                .open_or_create(&domain, &other.own("service"))
                .and_then(|service| service.client())
                .expect("a client"),
            pool: pool.open_or_create(&domain, "pool").expect("a pool"),
            events: Event::options()
                .reset(Reset::Manual)
                .open_or_create(&domain, "events")
                .expect("an event"),
            domain,
        }
    }

    /// What the other one holds while it lives is not taken over.
    fn living_owners(&self, step: &mut Steps) {
        let own = self.own_lock.lock_timeout(PATIENCE).expect("nobody has it").expect("in time");
        step.together();
        match self.other_lock.lock_timeout(A_WHILE) {
            Ok(None) => {}
            other => {
                panic!("the other side lives and holds it, yet: {:?}", other.map(|_| "locked"))
            }
        }
        step.together();
        drop(own);
        let other = self.other_lock.lock_timeout(PATIENCE);
        drop(other.expect("given back by one that lives"));
        step.together();
    }

    fn messages(&mut self, step: &mut Steps) {
        for number in 0..50u64 {
            let message = vec![number as u8; 16 + number as usize * 60];
            self.sender.send_timeout(&message, PATIENCE).expect("there is room");
            assert_eq!(
                self.receiver.recv_timeout(PATIENCE).expect("readable").expect("sent"),
                message
            );
        }
        step.together();
        for (number, len) in [16, 150, 4000, LARGE].into_iter().enumerate() {
            let message = vec![number as u8 + 1; len];
            self.publisher.publish_timeout(&message, PATIENCE).expect("there is room");
            let got = self.subscriber.recv_timeout(PATIENCE).expect("no error").expect("published");
            assert!(*got == *message, "message {number}");
        }
        step.together();
    }

    fn values(&mut self, step: &mut Steps) {
        let mut version = self.state.version();
        let from = self.state.get().expect("a value")[0];
        step.together();
        for number in from + 1..from + 20 {
            self.writer.set(&[number; 100]).expect("ours");
            while self.state.get().expect("a value")[0] < number {
                let change = self.state.wait_changed_timeout(version, PATIENCE).expect("set");
                assert!(change.is_some(), "nothing was set");
                version = self.state.version();
            }
            step.together();
        }
    }

    fn calls(&mut self, step: &mut Steps) {
        for serving in [Side::Inside, Side::Outside] {
            for number in 0..10u64 {
                let len = if number == 9 { 20_000 } else { 8 + number as usize };
                let payload = vec![number as u8; len];
                if self.side == serving {
                    let request =
                        self.server.next_timeout(PATIENCE).expect("served").expect("asked");
                    assert_eq!(*request, *payload);
                    request.reply(&payload).expect("it waits");
                } else {
                    assert_eq!(
                        *self.client.call_timeout(&payload, PATIENCE).expect("answered"),
                        *payload
                    );
                }
            }
            step.together();
        }
    }

    fn objects(&mut self, step: &mut Steps) {
        for number in 0..10u8 {
            let mut object = self.pool.alloc(5_000).expect("there is room");
            object.fill(number);
            let offset = object.into_offset().expect("ours").as_u64();
            self.sender.send_timeout(&offset.to_le_bytes(), PATIENCE).expect("there is room");
            let got = self.receiver.recv_timeout(PATIENCE).expect("readable").expect("sent");
            let offset = u64::from_le_bytes(got.try_into().expect("8 bytes"));
            let object = self.pool.claim(offset.into()).expect("offered");
            assert!(object.iter().all(|byte| *byte == number), "object {number}");
        }
        step.together();
    }

    fn signals(&self, step: &mut Steps) {
        let (own, other) = if self.side == Side::Inside { (1, 2) } else { (2, 1) };
        self.events.set(own);
        self.events.wait_all_timeout(own | other, PATIENCE).expect("waits").expect("set");
        step.together();
        self.events.clear(own);
        step.together();
        // One has the permit, and the other one waits for it.
        if self.side == Side::Inside {
            let permit = self.permits.acquire_timeout(PATIENCE).expect("waits").expect("free");
            step.together();
            std::thread::sleep(Duration::from_millis(100));
            drop(permit);
        } else {
            step.together();
            drop(self.permits.acquire_timeout(PATIENCE).expect("waits").expect("given back"));
        }
        step.together();
    }

    fn exchange(&mut self, step: &mut Steps) {
        step.together();
        self.living_owners(step);
        self.messages(step);
        self.values(step);
        self.calls(step);
        self.objects(step);
        self.signals(step);
    }
}

/// Its owner was killed: the next one is told, and finds what the dead one wrote.
fn takes_over(lock: &Mutex<u64>) {
    match lock.lock_timeout(PATIENCE) {
        Err(LockError::OwnerDied(mut guard)) => {
            assert_eq!(*guard, 7, "what the dead one wrote");
            *guard = 0;
            guard.mark_consistent();
        }
        other => panic!("its owner was killed, yet: {:?}", other.map(|_| "locked")),
    }
    drop(lock.lock_timeout(PATIENCE).expect("it was made consistent").expect("in time"));
}

/// The two go step by step.
struct Steps {
    board: Board,
    side: Side,
    at: u64,
}

impl Steps {
    fn new(board: Board, side: Side) -> Steps {
        Steps { board, side, at: 0 }
    }

    /// Both have come so far.
    fn together(&mut self) {
        self.at += 1;
        let (own, other) =
            if self.side == Side::Inside { (INSIDE, OUTSIDE) } else { (OUTSIDE, INSIDE) };
        self.board.set(own, self.at);
        self.board.reach(other, self.at);
    }
}

/// A child inside.
pub fn start_inside(environment: &Environment<'_>, body: impl FnOnce()) -> Child {
    Child::start(|| {
        (environment.enter)();
        if environment.forks { Child::start(body).finish() } else { body() }
    })
}

/// A life that ends with locks in hand: the process writes into what they guard, puts its token on
/// the board, and waits to be killed.
fn hold_until_killed(open: &dyn Fn() -> Domain, what: &str, board: Board, word: usize) {
    let domain = open();
    for side in [Side::Inside, Side::Outside] {
        let lock =
            Mutex::<u64>::options(0).open_or_create(&domain, &side.own(what)).expect("a lock");
        let mut guard = lock.lock_timeout(PATIENCE).expect("nobody has it").expect("in time");
        *guard = 7;
        std::mem::forget(guard);
        std::mem::forget(lock);
    }
    board.set(word, u64::from(domain.token().expect("a token").as_u32()));
    loop {
        std::thread::park();
    }
}

fn token(domain: &Domain, board: Board, word: usize) -> TokenId {
    let bits = board.reach(word, 1);
    let tokens = domain.tokens();
    tokens.iter().find(|token| u64::from(token.id.as_u32()) == bits).expect("in the registry").id
}

/// Everything, before the environment's limits are used up and afterwards. The check itself is the
/// partner outside.
pub fn run(environment: &Environment<'_>) {
    let (board, open) = (Board::new(), environment.open);
    let mut dying_inside =
        start_inside(environment, || hold_until_killed(open, "held-inside", board, DYING_INSIDE));
    let mut dying_outside =
        Child::start(|| hold_until_killed(open, "held-outside", board, DYING_OUTSIDE));
    let inside = start_inside(environment, || {
        let mut things = Things::open(open(), Side::Inside);
        let mut step = Steps::new(board, Side::Inside);
        let ids =
            [DYING_INSIDE, DYING_OUTSIDE, PARTNER].map(|word| token(&things.domain, board, word));
        // Once with all that it wants: what a process needs of the system only at its first sleep,
        // or its first large message.
        assert!(
            things.domain.wait_any_dead_timeout(&ids, Duration::from_millis(1)) == Ok(None),
            "all three live"
        );
        things.exchange(&mut step);
        (environment.use_up)();
        things.exchange(&mut step);
        let dead = things.domain.wait_any_dead_timeout(&ids[1..], PATIENCE).expect("told");
        assert_eq!(dead, Some(ids[1]), "who was killed outside");
        let dead = things.domain.wait_any_dead_timeout(&ids[..1], PATIENCE).expect("told");
        assert_eq!(dead, Some(ids[0]), "who was killed inside");
        takes_over(&things.held_outside);
        takes_over(&things.held_inside);
    });
    let domain = open();
    board.set(PARTNER, u64::from(domain.token().expect("a token").as_u32()));
    let mut things = Things::open(domain, Side::Outside);
    let mut step = Steps::new(board, Side::Outside);
    things.exchange(&mut step);
    things.exchange(&mut step);
    dying_outside.kill();
    std::thread::sleep(Duration::from_millis(50));
    dying_inside.signal(libc::SIGKILL);
    dying_inside.wait();
    takes_over(&things.held_inside);
    takes_over(&things.held_outside);
    inside.finish();
}

/// The same, and first whether the environment can be entered at all: a child that tries says so.
pub fn run_if_permitted(world: &World, what: &str, environment: &Environment<'_>) {
    skip_unless(world, what, || {
        (environment.enter)();
        if environment.forks {
            Child::start(|| {}).finish();
        }
    });
    run(environment);
}

/// Skips the check unless a child can do that.
pub fn skip_unless(world: &World, what: &str, can: impl FnOnce()) {
    if Child::start(can).wait() != crate::child::End::Code(0) {
        world.skip(&format!("{what} cannot be had here"));
    }
}
