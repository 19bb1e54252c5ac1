//! The latest value: whole whoever is killed or stopped where, and who waits is told.

use std::time::Duration;

use outlive::state::{Change, SetError, State, StateBytes, StateWatch, StateWriter};
use outlive::wait::{Readiness, WaitSet};
use outlive::{Detail, Domain, Error, Peer, WaitError, WaitStrategy};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::{Child, wait_until};
use crate::forge::{BODY, Bytes};
use crate::random::Random;
use crate::runner::World;
use crate::wait_bridges::block_on;
use crate::wait_sets::{AS_IT_IS, NO_WAITV};
use crate::waiting::owner;

crate::checks!(
    values_of_all_sizes_come_back,
    a_name_of_another_type_is_refused,
    values_of_other_languages_are_of_every_type_of_their_size,
    a_second_writer_is_refused,
    a_forked_childs_writer_is_none,
    a_writer_moves_between_threads,
    killed_writers_leave_whole_values: 60,
    a_stopped_writer_keeps_nobody_from_reading,
    killed_and_stopped_readers_hold_up_nobody: 60,
    who_waits_is_told_of_values_and_deaths,
    who_waits_is_told_without_futex_waitv,
    who_waits_in_a_set_is_told,
    who_waits_in_a_set_without_futex_waitv_is_told,
    who_awaits_is_told,
    sets_are_told_of_many_states: 60,
    who_waits_sees_one_that_comes_and_dies,
    the_next_writer_waits_for_the_end,
    pins_of_the_dead_are_cleared,
    pins_of_the_living_are_respected,
    scribbled_words_are_errors,
    seen_from_outside,
);

/// Large enough to be killed in the middle of.
type Value = [u64; 513];

fn value(number: u64) -> Value {
    let mut value = [number; 513];
    value[512] = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    value
}

fn number(value: &Value) -> u64 {
    assert_eq!(*value, self::value(value[0]), "parts of several values");
    value[0]
}

fn opened(world: &World) -> State<Value> {
    State::open(&world.domain(), "s", value(1)).expect("opens")
}

/// Sets value after value; each is its version.
fn write_on(writer: &mut StateWriter<Value>, mut version: u64) -> ! {
    loop {
        version += 1;
        assert_eq!(writer.set(&value(version)), Ok(version));
    }
}

/// A child that writes until it is killed.
fn writing(state: &State<Value>) -> Child {
    let board = Board::new();
    let child = Child::start(|| {
        let mut writer = state.writer().expect("none lives");
        board.set(0, 1);
        write_on(&mut writer, state.version());
    });
    board.reach(0, 1);
    child
}

/// A child that is the writer, and does nothing, until it is killed.
fn idle_writer(state: &State<Value>) -> Child {
    let board = Board::new();
    let child = Child::start(|| {
        let _writer = state.writer().expect("none lives");
        board.set(0, 1);
        loop {
            std::thread::park();
        }
    });
    board.reach(0, 1);
    child
}

/// A child that reads until it is killed: each value is whole, of its version, and none older than
/// the one before.
fn reading(state: &State<Value>, board: &'static Board, index: usize) -> Child {
    Child::start(|| {
        let mut last = 0;
        loop {
            let (value, version) = state.get_with_version().expect("readable");
            assert_eq!(number(&value), version);
            assert!(version >= last, "back in time");
            last = version;
            board.add(index, 1);
        }
    })
}

fn values_of_all_sizes_come_back(world: &World) {
    let domain = world.domain();
    let empty = State::<[u8; 0]>::open(&domain, "empty", []).expect("opens");
    empty.writer().expect("free").set(&[]).expect("set");
    assert_eq!((empty.get().expect("got"), empty.version()), ([], 2));
    let odd = State::<[u8; 13]>::open(&domain, "odd", *b"thirteen byte").expect("opens");
    assert_eq!(&odd.get().expect("got"), b"thirteen byte");
    for most in [0, 1, 7, 8, 48, 49, 4096, 1 << 20, 5 << 20] {
        let name = format!("b{most}");
        let bytes = StateBytes::create(&domain, &name, most, &[]).expect("made");
        let mut writer = bytes.writer().expect("free");
        assert_eq!(bytes.get(), Ok(Vec::new()));
        for len in [0, 1, most / 2, most] {
            let value: Vec<u8> = (0..len.min(most)).map(|n| (n * 7 + len) as u8).collect();
            let version = writer.set(&value).expect("set");
            assert_eq!(bytes.get().expect("got"), value);
            assert_eq!(bytes.get_as_if_overtaken().expect("got"), (value, version));
        }
        let len = most as u64 + 1;
        assert_eq!(
            writer.set(&vec![0; most + 1]),
            Err(SetError::TooLarge { len, most: most as u64 })
        );
        assert_eq!(StateBytes::open(&domain, &name).expect("there").capacity(), most);
    }
    assert!(matches!(
        StateBytes::create(&domain, "huge", 1 << 40, &[]),
        Err(Error::NoSpace { .. })
    ));
    assert!(matches!(StateBytes::create(&domain, "long", 2, b"abc"), Err(Error::NoSpace { .. })));
}

fn a_name_of_another_type_is_refused(world: &World) {
    let domain = world.domain();
    let state = State::<u64>::open(&domain, "s", 7).expect("opens");
    assert!(matches!(State::<i64>::open(&domain, "s", 7), Err(Error::OtherType { .. })));
    assert!(matches!(StateBytes::create(&domain, "s", 8, &[]), Err(Error::OtherType { .. })));
    assert!(matches!(outlive::queue::Queue::open(&domain, "s"), Err(Error::OtherKind { .. })));
    // As bytes it is open to all, for those who only look; what is set has the type's size.
    let bytes = StateBytes::open(&domain, "s").expect("there");
    assert_eq!(bytes.get().expect("got"), 7u64.to_ne_bytes());
    assert_eq!(
        bytes.writer().expect("free").set(b"x"),
        Err(SetError::OtherLength { len: 1, wanted: 8 })
    );
    assert_eq!(state.get(), Ok(7));
    assert_eq!(
        State::<u64>::open(&domain, "s", 9).expect("opens").get(),
        Ok(7),
        "it keeps what it has"
    );
}

fn values_of_other_languages_are_of_every_type_of_their_size(world: &World) {
    let domain = world.domain();
    let bytes = StateBytes::create_fixed(&domain, "theirs", 8, &7u64.to_ne_bytes()).expect("made");
    let ours = State::<u64>::open(&domain, "theirs", 0).expect("opens");
    assert_eq!(ours.writer().expect("free").set(&8), Ok(2));
    assert_eq!(bytes.get().expect("got"), 8u64.to_ne_bytes());
    assert_eq!(
        bytes.writer().expect("free").set(b"x"),
        Err(SetError::OtherLength { len: 1, wanted: 8 })
    );
    assert!(matches!(State::<u32>::open(&domain, "theirs", 0), Err(Error::OtherType { .. })));
    assert!(matches!(
        StateBytes::create_fixed(&domain, "theirs", 7, b""),
        Err(Error::OtherType { .. })
    ));
    assert!(matches!(StateBytes::create(&domain, "theirs", 8, b""), Err(Error::OtherType { .. })));
    let zeroes = StateBytes::create_fixed(&domain, "zeroes", 8, b"").expect("made");
    assert_eq!((zeroes.get(), zeroes.is_fixed_size()), (Ok(vec![0; 8]), true));
    assert!(matches!(
        StateBytes::create_fixed(&domain, "small", 1, b"two"),
        Err(Error::NoSpace { .. })
    ));
    assert!(matches!(
        StateBytes::create_fixed(&domain, "large", usize::MAX, b""),
        Err(Error::NoSpace { .. })
    ));
    // And the other way round.
    drop(State::<u64>::open(&domain, "ours", 9).expect("opens"));
    let bytes = StateBytes::create_fixed(&domain, "ours", 8, b"").expect("opens");
    assert_eq!(bytes.get().expect("got"), 9u64.to_ne_bytes());
    drop(StateBytes::create(&domain, "bytes", 8, &[0; 8]).expect("made"));
    assert!(matches!(
        StateBytes::create_fixed(&domain, "bytes", 8, &[0; 8]),
        Err(Error::OtherType { .. })
    ));
}

fn a_second_writer_is_refused(world: &World) {
    let state = opened(world);
    let path = world.domain().path().join("s");
    let mut child = idle_writer(&state);
    let error = state.writer().err().expect("taken");
    assert_eq!(error, Error::WriterTaken { path: path.clone(), pid: child.pid() as u32 });
    assert!(error.to_string().contains(&child.pid().to_string()), "{error}");
    assert_eq!(
        state.writer_now().map(|who| (who.pid, who.alive)),
        Some((child.pid() as u32, true))
    );
    child.kill();
    assert!(state.writer_now().is_some_and(|who| !who.alive));
    let own = state.writer().expect("free");
    assert!(
        matches!(state.writer(), Err(Error::WriterTaken { pid, .. }) if pid == std::process::id())
    );
    drop(own);
    drop(state.writer().expect("free"));
    assert!(state.writer_now().is_none());
}

fn a_forked_childs_writer_is_none(world: &World) {
    let state = opened(world);
    let mut writer = state.writer().expect("free");
    Child::start(|| {
        assert_eq!(writer.set(&value(2)), Err(SetError::NotWriter));
        // Dropping the copy takes nothing from the parent.
    })
    .finish();
    assert_eq!(writer.set(&value(2)), Ok(2));
    assert_eq!(state.get(), Ok(value(2)));
}

fn a_writer_moves_between_threads(world: &World) {
    let state = opened(world);
    let mut writer = state.writer().expect("free");
    for version in 2..20 {
        writer = std::thread::spawn(move || {
            assert_eq!(writer.set(&value(version)), Ok(version));
            writer
        })
        .join()
        .expect("set");
        // The thread has ended; its process has the writer still.
        assert!(matches!(state.writer(), Err(Error::WriterTaken { .. })));
    }
    drop(writer);
    assert_eq!(state.writer().expect("free").set(&value(20)), Ok(20));
}

fn killed_writers_leave_whole_values(world: &World) {
    let state = opened(world);
    let board: &'static Board = Box::leak(Box::new(Board::new()));
    let mut random = Random::new();
    let mut readers = [0, 1].map(|index| reading(&state, board, index));
    let mut last = 1;
    for _ in 0..150 {
        let mut writer = writing(&state);
        std::thread::sleep(Duration::from_micros(random.below(2000)));
        writer.kill();
        let (value, version) = state.get_with_version().expect("readable");
        assert_eq!(number(&value), version);
        assert!(version >= last, "what was set is set");
        last = version;
    }
    assert!(last > 1000, "the writers wrote");
    let seen = board.get(0);
    board.reach(0, seen + 100);
    board.reach(1, 100);
    readers.iter_mut().for_each(|reader| {
        assert!(!reader.has_ended(), "a reader failed");
        reader.kill();
    });
}

fn a_stopped_writer_keeps_nobody_from_reading(world: &World) {
    let state = opened(world);
    let mut random = Random::new();
    let mut writer = writing(&state);
    for _ in 0..30 {
        let before = state.version();
        wait_until("the writer goes on", || state.version() > before);
        std::thread::sleep(Duration::from_micros(random.below(500)));
        writer.stop();
        let (_, version) = state.get_with_version().expect("readable");
        for _ in 0..100 {
            assert_eq!(number(&state.get().expect("readable")), version, "it stands still");
        }
        // Stopped is not dead.
        assert_eq!(
            state.wait_changed_until(version, Duration::from_millis(1)),
            Err(WaitError::TimedOut)
        );
        assert!(matches!(state.writer(), Err(Error::WriterTaken { .. })));
        writer.go_on();
    }
    writer.kill();
    let mut next = state.writer().expect("free");
    let version = state.version();
    assert_eq!(next.set(&value(version + 1)), Ok(version + 1));
}

fn killed_and_stopped_readers_hold_up_nobody(world: &World) {
    let domain = world.domain();
    let bytes = StateBytes::create(&domain, "s", 100_000, &[1; 100_000]).expect("made");
    let board: &'static Board = Box::leak(Box::new(Board::new()));
    let start = |index: usize| {
        Child::start(|| {
            loop {
                // The path with a pin: the other leaves nothing behind.
                let (value, version) = bytes.get_as_if_overtaken().expect("readable");
                assert!(value.iter().all(|&byte| byte == version as u8), "parts of several values");
                board.add(index, 1);
            }
        })
    };
    let mut readers: Vec<Child> = (0..4).map(start).collect();
    let mut writer = bytes.writer().expect("free");
    let mut random = Random::new();
    let mut version = 1u64;
    for round in 0..60 {
        let index = random.below(4) as usize;
        readers[index].stop();
        for _ in 0..20 {
            version += 1;
            assert_eq!(writer.set(&vec![version as u8; 100_000]), Ok(version));
        }
        if round % 3 == 0 {
            readers[index].kill();
            readers[index] = start(index);
        } else {
            readers[index].go_on();
        }
        assert!(readers.iter_mut().all(|reader| !reader.has_ended()), "a reader failed");
    }
    for index in 0..4 {
        let before = board.get(index);
        board.reach(index, before + 3);
    }
    readers.iter_mut().for_each(Child::kill);
    assert!(domain.sweep(false).expect("swept").failed.is_empty());
    let detail = domain.entry("s").expect("there").detail;
    assert!(matches!(detail, Detail::State { pins: 0, buffers: 4..=9, .. }), "{detail:?}");
}

/// How one waits.
#[derive(Clone, Copy)]
enum How {
    Plainly,
    InASet,
    /// With an owner in the set beside the state, so that its thread's end passes on another
    /// wake-up.
    BesideAnOwner(Peer),
    Awaited,
}

fn change(watch: &mut StateWatch, set: &mut WaitSet, how: How) -> Change {
    match how {
        How::Plainly => watch.changed().expect("told"),
        How::InASet | How::BesideAnOwner(_) => loop {
            if let Some(change) = watch.try_changed() {
                return change;
            }
            let told: Vec<_> = set.wait().expect("ready").map(|(_, what)| what).collect();
            assert!(matches!(told[..], [Readiness::Changed | Readiness::Ended]), "{told:?}");
        },
        How::Awaited => block_on(watch.changed_async()).expect("told"),
    }
}

/// Three that wait; each tells what came by the board.
fn waiting(
    domain: &Domain,
    state: &State<Value>,
    board: &'static Board,
    prepare: fn(),
    hows: [How; 3],
) -> Vec<Child> {
    let children: Vec<Child> = (0..3)
        .map(|index| {
            Child::start(move || {
                prepare();
                let mut watch = state.watch();
                let mut set = WaitSet::new(domain);
                set.set_wait(WaitStrategy::Block);
                set.add(&watch).expect("added");
                if let How::BesideAnOwner(peer) = hows[index] {
                    set.add(&peer).expect("added");
                }
                assert_eq!(watch.changed(), Ok(Change::Value { version: 1 }));
                board.set(index, 1);
                loop {
                    match change(&mut watch, &mut set, hows[index]) {
                        Change::Value { version } => board.set(index, version),
                        Change::WriterDied { .. } => board.set(index, 1000 + board.get(index)),
                        other => panic!("{other:?}"),
                    }
                }
            })
        })
        .collect();
    (0..3).for_each(|index| {
        board.reach(index, 1);
    });
    children.iter().for_each(|child| wait_asleep(child.pid()));
    children
}

fn told(board: &Board, what: u64) {
    wait_until("all three are told", || (0..3).all(|index| board.get(index) == what));
}

fn tell(world: &World, prepare: fn(), hows: [How; 3]) {
    let state = opened(world);
    let board: &'static Board = Box::leak(Box::new(Board::new()));
    // First nobody writes: they wait for one that comes.
    let mut waiters = waiting(&world.domain(), &state, board, prepare, hows);
    let asleep = |waiters: &[Child]| waiters.iter().for_each(|child| wait_asleep(child.pid()));
    let go = Board::new();
    let mut writer = Child::start(|| {
        let mut writer = state.writer().expect("none lives");
        for version in 2..=3 {
            go.reach(0, version);
            assert_eq!(writer.set(&value(version)), Ok(version));
        }
        loop {
            std::thread::park();
        }
    });
    for version in 2..=3 {
        go.set(0, version);
        told(board, version);
        asleep(&waiters);
    }
    writer.kill();
    told(board, 1003);
    asleep(&waiters);
    // One that leaves in order is no news.
    let mut own = state.writer().expect("free");
    assert_eq!(own.set(&value(4)), Ok(4));
    told(board, 4);
    asleep(&waiters);
    drop(own);
    asleep(&waiters);
    told(board, 4);
    let mut last = idle_writer(&state);
    asleep(&waiters);
    last.kill();
    told(board, 1004);
    assert!(waiters.iter_mut().all(|child| !child.has_ended()));
    waiters.iter_mut().for_each(Child::kill);
}

fn who_waits_is_told_of_values_and_deaths(world: &World) {
    tell(world, AS_IT_IS, [How::Plainly; 3]);
}

fn who_waits_is_told_without_futex_waitv(world: &World) {
    tell(world, NO_WAITV, [How::Plainly; 3]);
}

fn who_waits_in_a_set_is_told(world: &World) {
    let (_other, peer) = owner(&world.domain(), Board::new());
    tell(world, AS_IT_IS, [How::InASet, How::BesideAnOwner(peer), How::InASet]);
}

fn who_waits_in_a_set_without_futex_waitv_is_told(world: &World) {
    let (_other, peer) = owner(&world.domain(), Board::new());
    tell(world, NO_WAITV, [How::InASet, How::BesideAnOwner(peer), How::InASet]);
}

fn who_awaits_is_told(world: &World) {
    tell(world, AS_IT_IS, [How::Awaited; 3]);
}

/// Three hundred states in one set, their writers killed and replaced: each last value is told, and
/// each death.
fn sets_are_told_of_many_states(world: &World) {
    const STATES: usize = 300;
    let domain = world.domain();
    let open = |at: usize| State::open(&domain, &format!("s{at}"), 0u64).expect("opens");
    let states: Vec<_> = (0..STATES).map(open).collect();
    let board = Board::new();
    let (shared, all) = (&domain, &states);
    let mut waiter = Child::start(move || {
        let mut set = WaitSet::new(shared);
        let mut watches: Vec<_> = all.iter().map(State::watch).collect();
        let keys: Vec<_> = watches.iter().map(|watch| set.add(watch).expect("added")).collect();
        loop {
            let ready: Vec<_> = set.wait().expect("ready").collect();
            for (key, _) in ready {
                let at = keys.binary_search(&key).expect("one of them");
                match watches[at].try_changed() {
                    Some(Change::Value { version }) => board.set(at, 2 * version),
                    Some(Change::WriterDied { version }) => board.set(at, 2 * version + 1),
                    // The death of one who had set nothing, which is not waited for below: the next
                    // writer has come.
                    None => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    });
    (0..STATES).for_each(|at| {
        board.reach(at, 1);
    });
    let mut random = Random::new();
    for _ in 0..40 {
        let seed = random.next();
        let mut writer = Child::start(|| {
            let mut random = Random::from_seed(seed);
            let mut writers: Vec<_> =
                states.iter().map(|state| state.writer().expect("free")).collect();
            loop {
                writers[random.below(STATES as u64) as usize].set(&1).expect("set");
            }
        });
        random.pause(4000);
        writer.kill();
        for (at, state) in states.iter().enumerate() {
            let is_dead = u64::from(state.writer_now().is_some());
            wait_until("the last value and the death are told", || {
                // Who did not come to be the writer is no news.
                board.get(at) / 2 == state.version() && (is_dead == 0 || board.get(at) & 1 == 1)
            });
        }
    }
    waiter.kill();

    assert_eq!(domain.stats().rescues, 0);
}

fn who_waits_sees_one_that_comes_and_dies(world: &World) {
    let state = opened(world);
    let board: &'static Board = Box::leak(Box::new(Board::new()));
    let (_other, peer) = owner(&world.domain(), Board::new());
    let hows = [How::Plainly, How::BesideAnOwner(peer), How::Awaited];
    let mut waiters = waiting(&world.domain(), &state, board, AS_IT_IS, hows);
    let mut random = Random::new();
    for _ in 0..200 {
        let before = state.version();
        let mut writer = Child::start(|| {
            let mut writer = state.writer().expect("none lives");
            write_on(&mut writer, before);
        });
        std::thread::sleep(Duration::from_micros(random.below(700)));
        writer.kill();
        let version = state.version();
        let has_come = state.writer_now().is_some();
        let news = if has_come { 1000 + version } else { version };
        wait_until("all are told", || (0..3).all(|index| board.get(index) == news));
        state.writer().expect("free").set(&value(version + 1)).expect("set");
        wait_until("all are told", || (0..3).all(|index| board.get(index) == version + 1));
    }
    waiters.iter_mut().for_each(Child::kill);
    assert_eq!(world.domain().stats().rescues, 0);
}

fn the_next_writer_waits_for_the_end(world: &World) {
    let state = opened(world);
    let board: &'static Board = Box::leak(Box::new(Board::new()));
    let mut first = idle_writer(&state);
    let error = state.writer_until(Duration::from_millis(5)).err().expect("taken");
    assert!(matches!(error, Error::WriterTaken { pid, .. } if pid == first.pid() as u32));
    let mut next: Vec<Child> = (0..3)
        .map(|_| {
            Child::start(|| {
                let mut writer = state.writer_until(outlive::Deadline::NEVER).expect("my turn");
                let version = state.version() + 1;
                assert_eq!(writer.set(&value(version)), Ok(version));
                board.add(0, 1);
                // Leaves in good order.
            })
        })
        .collect();
    next.iter().for_each(|child| wait_asleep(child.pid()));
    first.kill();
    assert_eq!(board.reach(0, 3), 3);
    next.drain(..).for_each(Child::finish);
    assert_eq!(state.get(), Ok(value(4)));
}

/// Where the words stand: see doc/memory-layout.md.
const LATEST: u64 = BODY + 64;
const USED: u64 = BODY + 136;
const COUNT: u64 = BODY + 140;
const ROLE: u64 = BODY + 192;
const CELLS: u64 = BODY + 256;
const BUFFERS: u64 = BODY + 1024;
const BUFFER: u64 = (16 + 513 * 8u64).next_multiple_of(64);

fn pins_of_the_dead_are_cleared(world: &World) {
    let state = opened(world);
    let domain = world.domain();
    let board = Board::new();
    let mut child = Child::start(|| {
        board.set(0, u64::from(domain.token().expect("a token").as_u32()));
        loop {
            std::thread::park();
        }
    });
    let dead = board.reach(0, 1);
    child.kill();
    let words = Bytes::of(&domain, "s");
    for cell in 0..64 {
        words.set(CELLS + 8 * cell, &(dead | (cell % 5 + 1) << 32).to_ne_bytes());
    }
    words.set_word(USED, 64);
    assert_eq!(domain.entry("s").expect("there").dead_claims, 64);
    // A reader takes a dead one's cell; a set clears the others.
    let bytes = StateBytes::open(&domain, "s").expect("there");
    assert_eq!(bytes.get_as_if_overtaken().expect("got").1, 1);
    assert_eq!(domain.entry("s").expect("there").dead_claims, 63);
    let mut writer = state.writer().expect("free");
    assert_eq!(writer.set(&value(2)), Ok(2));
    let entry = domain.entry("s").expect("there");
    assert_eq!(entry.dead_claims, 0);
    assert!(
        matches!(entry.detail, Detail::State { buffers: 4, pins: 0, .. }),
        "{:?}",
        entry.detail
    );
}

fn pins_of_the_living_are_respected(world: &World) {
    let state = opened(world);
    let domain = world.domain();
    let mut writer = state.writer().expect("free");
    let words = Bytes::of(&domain, "s");
    let me = u64::from(domain.token().expect("a token").as_u32());
    // As if 64 threads stood in the middle of a get, one after the other.
    for cell in 0..64 {
        let pinned = u64::from(words.word(LATEST) & 0xff);
        words.set(CELLS + 8 * cell, &(me | (pinned + 2) << 32).to_ne_bytes());
        words.set_word(USED, cell as u32 + 1);
        let at = BUFFERS + pinned * BUFFER;
        let stamp = words.word(at);
        for _ in 0..5 {
            let version = state.version() + 1;
            assert_eq!(writer.set(&value(version)), Ok(version));
            assert_eq!(words.word(at), stamp, "a pinned buffer was written");
            assert_eq!(state.get(), Ok(value(version)));
        }
    }
    assert_eq!(words.word(COUNT), 66);
    // No cell is left: the optimistic way goes on.
    let bytes = StateBytes::open(&domain, "s").expect("there");
    assert_eq!(bytes.get_as_if_overtaken().expect("got").1, state.version());
    // One that asks gets the latest.
    words.set(CELLS, &(me | 1 << 32).to_ne_bytes());
    let latest = u64::from(words.word(LATEST) & 0xff);
    let version = state.version() + 1;
    assert_eq!(writer.set(&value(version)), Ok(version));
    assert_eq!(u64::from(words.word(CELLS + 4)), latest + 2);
}

fn scribbled_words_are_errors(world: &World) {
    let domain = world.domain();
    let mut random = Random::new();
    for round in 0..400u64 {
        let name = format!("s{}", round % 40);
        let state = State::<Value>::open(&domain, &name, value(1));
        let Ok(state) = state else { continue };
        let words = Bytes::of(&domain, &name);
        let kept: Vec<u32> = (0..256).map(|n| words.word(BODY + 4 * n)).collect();
        for _ in 0..=random.below(4) {
            // Not the constant words, which are read once, when it is opened: round 0 of each name
            // is for those.
            let first = if round < 40 { 0 } else { 16 };
            let at = BODY + 4 * (first + random.below(256 - first));
            let what = [
                0,
                1,
                2,
                3,
                0xff,
                0x2345_0001,
                0x8000_0000,
                u32::MAX,
                random.below(1 << 32) as u32,
            ];
            words.set_word(at, what[random.below(9) as usize]);
        }
        let short = Duration::from_millis(1);
        let _ = state.get();
        let _ = state.wait_changed_until(state.version(), short);
        if let Ok(bytes) = StateBytes::open(&domain, &name) {
            let _ = (bytes.get(), bytes.get_as_if_overtaken());
        }
        if let Ok(mut writer) = state.writer() {
            for _ in 0..70 {
                let _ = writer.set(&value(2));
            }
        }
        // Not each time: it looks at all processes of the machine.
        if round % 20 == 0 {
            let _ = domain.entry(&name).map(|entry| format!("{entry:?}"));
        }
        let _ = domain.sweep(true);
        for (n, word) in kept.iter().enumerate() {
            words.set_word(BODY + 4 * n as u64, *word);
        }
    }
    assert!(domain.sweep(false).is_ok());
    // A stamp that does not fit a latest that stands still.
    let state = State::<Value>::open(&domain, "stamp", value(1)).expect("made");
    let words = Bytes::of(&domain, "stamp");
    words.set_word(BUFFERS, 0);
    assert!(matches!(state.get(), Err(Error::Damaged { .. })));
    words.set_word(LATEST, 200 | 1 << 8);
    assert!(matches!(state.get(), Err(Error::Damaged { .. })), "a buffer that cannot be");
    words.set_word(ROLE, 0x77);
    assert!(matches!(state.writer(), Err(Error::Damaged { .. })));
}

fn seen_from_outside(world: &World) {
    let state = opened(world);
    let domain = world.domain();
    let mut writer = idle_writer(&state);
    let entry = domain.entry("s").expect("there");
    assert_eq!((entry.kind, entry.dead_claims), (Ok(outlive::Kind::State), 0));
    let Detail::State { version, capacity, is_fixed_size, writer: who, buffers, pins, .. } =
        entry.detail
    else {
        panic!("a state's detail");
    };
    assert_eq!((version, capacity, is_fixed_size, buffers, pins), (1, 513 * 8, true, 4, 0));
    assert_eq!(who.map(|who| who.pid), Some(writer.pid() as u32));
    writer.kill();
    assert_eq!(domain.entry("s").expect("there").dead_claims, 2, "the role, and who was inside");
    assert_eq!(domain.sweep(true).expect("looked").claims, 2);
    assert_eq!(domain.sweep(false).expect("swept").claims, 2);
    assert!(domain.sweep(true).expect("looked").claims == 0);
    // A sweep does not hide the death.
    assert_eq!(state.wait_changed(1), Ok(Change::WriterDied { version: 1 }));
    drop(state.writer().expect("free"));
    assert_eq!(state.wait_changed_until(1, Duration::from_millis(1)), Err(WaitError::TimedOut));
    domain.remove("s").expect("removed");
    assert!(state.is_removed());
}
