//! A call's words under loom: client and server, asleep and awake, with the server's death between calls.

use std::sync::Arc;

use loom::thread;

use super::words::{After, Claim, Ready, State, Words};
use crate::Deadline;
use crate::liveness::{Registry, Slot, TokenId, become_thread, sleep};
use crate::shim::{AtomicU32, Ordering};
use crate::sys::barrier;
use crate::sys::futex::Watch;
use crate::sys::robust::{ListHead, PassOn, end_thread};

/// Tokens 0 and 1 are threads, 2 and 3 their processes; the client is 0.
struct World {
    registry: &'static Registry,
    words: Words,
    /// What a reply says: plain in truth, an atomic so that loom sees it.
    payload: AtomicU32,
}

fn world() -> Arc<World> {
    let slots = (0..4).map(|n| Slot::held_by(n + 100)).collect();
    let registry: &'static Registry = Box::leak(Box::new(Registry::new(slots)));
    Arc::new(World { registry, words: Words::default(), payload: AtomicU32::new(0) })
}

fn be(n: u32) -> &'static ListHead {
    let list: &'static mut ListHead = Box::leak(Box::new(ListHead::new()));
    let pointer: *mut ListHead = list;
    become_thread(TokenId::new(n, 0), TokenId::new(n + 2, 0), pointer);
    // SAFETY: leaked; written through the pointer by this thread only, read after.
    unsafe { &*pointer }
}

fn explore(test: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.max_branches = 20_000;
    model.check(test);
}

const SERVER: u32 = 1;

fn process() -> TokenId {
    TokenId::new(SERVER + 2, 0)
}

fn reply(world: &World, number: u64, list: *mut ListHead) -> bool {
    let pass = PassOn::begin(list);
    if !world.words.begin_writing(&pass, number, process(), TokenId::new(SERVER, 0)) {
        return false;
    }
    world.payload.store(number as u32, Ordering::Relaxed);
    world.words.publish(Ready::new(number, 1, After::End), None);
    true
}

/// What the client sees in the end.
#[derive(Debug, PartialEq)]
enum Told {
    Reply,
    Died { begun: bool },
}

/// As `pending.rs` waits for call 1, whose server is the process above.
fn wait(world: &World) -> Told {
    let me = world.registry.me().unwrap();
    let pass = PassOn::begin(me.list());
    let words = &world.words;
    let is_there = || {
        let ready = words.ready();
        ready.number() == 1 && ready.is_end()
    };
    loop {
        let ticket = words.replies.prepare_wait();
        if is_there() {
            assert_eq!(world.payload.load(Ordering::Relaxed), 1, "the bytes are there");
            return Told::Reply;
        }
        let seen = words.claim();
        let owner = if seen.number() == 0 { process() } else { seen.owner().expect("begun") };
        if !me.is_alive(owner) {
            crate::shim::fence(Ordering::Acquire);
            if !is_there() && words.cancel(seen, 1) {
                return Told::Died { begun: seen.number() == 1 };
            }
            continue;
        }
        let set = [words.replies.watch(ticket), Watch { word: &words.x, expected: 0 }];
        sleep(world.registry, &pass, &set, Some(owner), Deadline::NEVER).unwrap();
        words.replies.cancel_wait(ticket);
    }
}

#[test]
fn loom_rpc_a_reply_is_seen_whole_and_wakes() {
    explore(|| {
        let world = world();
        let serving = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let list = be(SERVER);
                assert!(world.words.take(1, process()));
                assert!(reply(&world, 1, core::ptr::from_ref(list).cast_mut()));
            })
        };
        be(0);
        assert_eq!(wait(&world), Told::Reply);
        serving.join().unwrap();
    });
}

#[test]
fn loom_rpc_a_server_that_ends_between_taking_and_replying_is_told() {
    explore(|| {
        let world = world();
        let serving = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let list = be(SERVER);
                assert!(world.words.take(1, process()));
                end_thread(&world.registry.slots[SERVER as usize], list);
                end_thread(&world.registry.slots[SERVER as usize + 2], &ListHead::new());
            })
        };
        be(0);
        assert_eq!(wait(&world), Told::Died { begun: true });
        serving.join().unwrap();
    });
}

#[test]
fn loom_rpc_cancelled_or_begun_never_both() {
    explore(|| {
        let world = world();
        let serving = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let list = be(SERVER);
                let taken = world.words.take(1, process());
                (taken, taken && reply(&world, 1, core::ptr::from_ref(list).cast_mut()))
            })
        };
        be(0);
        let seen = world.words.claim();
        let cancelled = seen.state() != State::Writing && world.words.cancel(seen, 1);
        let (taken, replied) = serving.join().unwrap();
        if cancelled {
            assert!(!replied, "nobody writes for a cancelled call");
            assert_eq!(world.words.claim(), Claim::cancelled(1));
            assert_eq!(taken, seen.number() == 1, "told 'not begun', it was not begun");
        } else {
            assert!(replied);
        }
    });
}
