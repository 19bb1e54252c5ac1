//! A call's words under loom: client and server, asleep and awake, with the server's death between
//! calls.

use std::sync::Arc;

use loom::thread;

use super::asked::{Asked, Asks, Question, clear_unless, pending};
use super::call::{After, CallWords, Claim, Ready, State};
use super::turns::Turns;
use crate::Deadline;
use crate::liveness::{Registry, Slot, TokenId, become_thread};
use crate::shim::explore;
use crate::shim::{AtomicU32, Ordering};
use crate::sys::barrier;
use crate::sys::futex::Watch;
use crate::sys::robust::{ListHead, WakeRelay, end_thread};
use crate::wake::Sleep;

/// Tokens 0 and 1 are threads, 2 and 3 their processes; the client is 0.
struct World {
    registry: &'static Registry,
    words: CallWords,
    question: Question,
    asks: Asks,
    /// What a request asks: plain in truth, an atomic so that loom sees it.
    request: AtomicU32,
    /// What a reply says: the same.
    payload: AtomicU32,
}

fn world() -> Arc<World> {
    let slots = (0..4).map(|n| Slot::held_by(n + 100)).collect();
    let registry: &'static Registry = Box::leak(Box::new(Registry::new(slots)));
    let words = (CallWords::default(), Question::default(), Asks::default());
    let (words, question, asks) = words;
    Arc::new(World {
        registry,
        words,
        question,
        asks,
        request: AtomicU32::new(0),
        payload: AtomicU32::new(0),
    })
}

fn be(n: u32) -> &'static ListHead {
    let list: &'static mut ListHead = Box::leak(Box::new(ListHead::new()));
    let pointer: *mut ListHead = list;
    become_thread(TokenId::new(n, 0), TokenId::new(n + 2, 0), pointer);
    // SAFETY: leaked; written through the pointer by this thread only, read after.
    unsafe { &*pointer }
}

const SERVER: u32 = 1;

fn process() -> TokenId {
    TokenId::new(SERVER + 2, 0)
}

/// The client asks for that number.
fn ask(world: &World, number: u64) {
    world.request.store(number as u32, Ordering::Relaxed);
    world.question.ask(Asked::new(number, 4), world.asks.draw(), TokenId::new(2, 0));
    world.asks.set(0);
}

/// The server takes what is asked, if its bit is set: the number, and what it has copied.
fn take(world: &World, list: *mut ListHead) -> Option<(u64, u32)> {
    if world.asks.word(0) & 1 == 0 {
        return None;
    }
    let Some((asked, seen)) = pending(&world.words, &world.question) else {
        clear_unless(&world.asks, 0, || pending(&world.words, &world.question).is_some());
        return None;
    };
    let pass = WakeRelay::begin(list);
    if !world.words.begin_copying(&pass, seen, asked.number(), TokenId::new(SERVER, 0)) {
        return None;
    }
    world.asks.clear(0);
    let copied = world.request.load(Ordering::Relaxed);
    world.words.copied(Claim::taken(asked.number(), process()));
    Some((asked.number(), copied))
}

fn take_call_1(world: &World, list: *mut ListHead) -> bool {
    take(world, list).is_some_and(|(number, copied)| {
        assert_eq!((number, copied), (1, 1), "the request is there");
        true
    })
}

fn reply(world: &World, number: u64, list: *mut ListHead) -> bool {
    let pass = WakeRelay::begin(list);
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

/// As `client_wait.rs` waits for call 1, whose server is the process above.
fn wait(world: &World) -> Told {
    let me = world.registry.me().unwrap();
    let pass = WakeRelay::begin(me.list());
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
        Sleep::on(world.registry, &set).behind(&pass, &[owner]).until(Deadline::NEVER).unwrap();
        words.replies.cancel_wait(ticket);
    }
}

#[test]
fn loom_rpc_a_reply_is_seen_whole_and_wakes() {
    explore(3, || {
        let world = world();
        ask(&world, 1);
        let serving = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let list = be(SERVER);
                let list = core::ptr::from_ref(list).cast_mut();
                assert!(take_call_1(&world, list));
                assert!(reply(&world, 1, list));
            })
        };
        be(0);
        assert_eq!(wait(&world), Told::Reply);
        serving.join().unwrap();
    });
}

#[test]
fn loom_rpc_a_server_that_ends_between_taking_and_replying_is_told() {
    explore(3, || {
        let world = world();
        ask(&world, 1);
        let serving = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let list = be(SERVER);
                assert!(take_call_1(&world, core::ptr::from_ref(list).cast_mut()));
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
    explore(3, || {
        let world = world();
        ask(&world, 1);
        let serving = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let list = be(SERVER);
                let list = core::ptr::from_ref(list).cast_mut();
                let taken = take_call_1(&world, list);
                (taken, taken && reply(&world, 1, list))
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

#[test]
fn loom_rpc_what_is_asked_is_found_whole() {
    explore(3, || {
        let world = world();
        let serving = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let list = core::ptr::from_ref(be(SERVER)).cast_mut();
                take_call_1(&world, list)
            })
        };
        be(0);
        ask(&world, 1);
        if !serving.join().unwrap() {
            assert_eq!(world.asks.word(0), 1, "not taken, it stands there");
            assert!(pending(&world.words, &world.question).is_some());
        }
    });
}

#[test]
fn loom_rpc_a_slot_asked_again_is_not_lost_and_not_mixed() {
    explore(3, || {
        let world = world();
        ask(&world, 1);
        let serving = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let list = core::ptr::from_ref(be(SERVER)).cast_mut();
                let taken = take(&world, list);
                assert!(
                    taken.is_none_or(|(number, copied)| number == u64::from(copied)),
                    "one call's bytes"
                );
                taken
            })
        };
        be(0);
        // Gives call 1 up, and asks again if no server has begun it.
        let seen = world.words.claim();
        if seen.number() == 0 && world.words.cancel(seen, 1) {
            ask(&world, 2);
            let taken = serving.join().unwrap();
            assert!(taken.is_none_or(|(number, _)| number == 2), "told 'not begun'");
            if taken.is_none() {
                assert_eq!(world.asks.word(0), 1, "not taken, it stands there");
                assert!(pending(&world.words, &world.question).is_some());
            }
        } else {
            assert_eq!(serving.join().unwrap(), Some((1, 1)));
        }
    });
}

/// Two words that are plain in truth: a turn that another thread shares leaves them different, or
/// loses a change.
type Counted = (AtomicU32, AtomicU32);

fn count_in_a_turn(turns: &Turns<Counted>, thread: u32) {
    let turn = turns.try_fast(thread).unwrap_or_else(|| turns.wait(thread));
    let (first, second) = (turn.0.load(Ordering::Relaxed), turn.1.load(Ordering::Relaxed));
    assert_eq!(first, second, "a turn is one thread's");
    turn.0.store(first + 1, Ordering::Relaxed);
    turn.1.store(second + 1, Ordering::Relaxed);
}

#[test]
fn loom_rpc_threads_of_a_client_take_turns() {
    explore(3, || {
        let turns = Arc::new(Turns::new(Counted::default()));
        // Thread 2 has been alone so far.
        count_in_a_turn(&turns, 2);
        let other = {
            let turns = Arc::clone(&turns);
            thread::spawn(move || count_in_a_turn(&turns, 3))
        };
        count_in_a_turn(&turns, 2);
        count_in_a_turn(&turns, 2);
        other.join().unwrap();
        let turn = turns.wait(2);
        assert_eq!(turn.0.load(Ordering::Relaxed), 4);
    });
}

/// Thread 2 was the owner and does not know yet that it is not, thread 3 has become it, thread 4
/// comes.
#[test]
fn loom_rpc_a_former_owner_of_turns_takes_no_turn_away() {
    explore(2, || {
        let turns = Arc::new(Turns::new(Counted::default()));
        count_in_a_turn(&turns, 2);
        let others = [3, 4].map(|thread| {
            let turns = Arc::clone(&turns);
            thread::spawn(move || {
                count_in_a_turn(&turns, thread);
                count_in_a_turn(&turns, thread);
            })
        });
        count_in_a_turn(&turns, 2);
        others.into_iter().for_each(|thread| thread.join().unwrap());
        let turn = turns.wait(2);
        assert_eq!(turn.0.load(Ordering::Relaxed), 6);
    });
}
