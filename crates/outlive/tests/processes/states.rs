//! The latest value: whole whichever process is killed or stopped where. `state_waits` has the
//! waits, `state_words` what lies in shared memory.

use std::time::Duration;

use outlive::state::{Change, State, StateOptions, Writer};
use outlive::{Detail, Error, SendError};

use crate::board::Board;
use crate::child::{Child, wait_until};
use crate::random::Random;
use crate::runner::World;

crate::checks!(
    values_of_all_sizes_come_back,
    a_name_of_another_type_is_refused,
    values_of_other_languages_are_of_every_type_of_their_size,
    options_that_contradict_are_refused,
    a_second_writer_is_refused,
    a_forked_childs_writer_is_none,
    a_writer_moves_between_threads,
    killed_writers_leave_whole_values: 60,
    a_stopped_writer_keeps_nobody_from_reading,
    killed_and_stopped_readers_hold_up_nobody: 60,
    seen_from_outside,
);

/// Large enough to be killed in the middle of.
pub(crate) type Value = [u64; 513];

pub(crate) fn value(number: u64) -> Value {
    let mut value = [number; 513];
    value[512] = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    value
}

fn number(value: &Value) -> u64 {
    assert_eq!(*value, self::value(value[0]), "parts of several values");
    value[0]
}

pub(crate) fn opened(world: &World) -> State<Value> {
    State::options().initial(&value(1)).open_or_create(&world.domain(), "s").expect("opens")
}

/// Sets value after value; each is its version.
pub(crate) fn write_on(writer: &mut Writer<Value>, mut version: u64) -> ! {
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
pub(crate) fn idle_writer(state: &State<Value>) -> Child {
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

/// A state whose values have so many bytes at most.
fn of_bytes(capacity: usize) -> StateOptions {
    State::<[u8]>::options().capacity(capacity)
}

/// A state whose values all have so many bytes.
fn fixed(size: usize) -> StateOptions {
    State::<[u8]>::options().fixed_size(size)
}

fn values_of_all_sizes_come_back(world: &World) {
    let domain = world.domain();
    let empty = State::<[u8; 0]>::open_or_create(&domain, "empty").expect("opens");
    empty.writer().expect("free").set(&[]).expect("set");
    assert_eq!((empty.get().expect("got"), empty.version()), ([], 2));
    let odd = State::<[u8; 13]>::options()
        .initial(b"thirteen byte")
        .create_new(&domain, "odd")
        .expect("made");
    assert_eq!(&odd.get().expect("got"), b"thirteen byte");
    for most in [0, 1, 7, 8, 48, 49, 4096, 1 << 20, 5 << 20] {
        let name = format!("b{most}");
        let bytes = of_bytes(most).create_new(&domain, &name).expect("made");
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
            Err(SendError::TooLarge { len, max: most as u64 })
        );
        assert_eq!(State::<[u8]>::open(&domain, &name).expect("there").config().capacity, most);
    }
    assert!(matches!(of_bytes(1 << 40).create_new(&domain, "huge"), Err(Error::NoSpace { .. })));
    assert!(matches!(
        of_bytes(2).initial(b"abc").create_new(&domain, "long"),
        Err(Error::NoSpace { .. })
    ));
}

fn a_name_of_another_type_is_refused(world: &World) {
    let domain = world.domain();
    let state = State::<u64>::options().initial(&7).create_new(&domain, "s").expect("made");
    assert!(matches!(State::<i64>::open_or_create(&domain, "s"), Err(Error::OtherType { .. })));
    assert!(matches!(of_bytes(8).open_or_create(&domain, "s"), Err(Error::OtherType { .. })));
    assert!(matches!(
        outlive::queue::Queue::<[u8]>::open(&domain, "s"),
        Err(Error::OtherKind { .. })
    ));
    // As bytes the state is open to all, for processes that only look; a value that is set has the
    // type's size.
    let bytes = State::open_as_bytes(&domain, "s").expect("there");
    assert_eq!(bytes.get().expect("got"), 7u64.to_ne_bytes());
    assert_eq!(
        bytes.writer().expect("free").set(b"x"),
        Err(SendError::OtherLength { len: 1, wanted: 8 })
    );
    assert_eq!(state.get(), Ok(7));
    assert_eq!(
        State::<u64>::options().initial(&9).open_or_create(&domain, "s").expect("opens").get(),
        Ok(7),
        "it keeps what it has"
    );
}

fn values_of_other_languages_are_of_every_type_of_their_size(world: &World) {
    let domain = world.domain();
    let bytes = fixed(8).initial(&7u64.to_ne_bytes()).create_new(&domain, "theirs").expect("made");
    let ours = State::<u64>::open(&domain, "theirs").expect("opens");
    assert_eq!(ours.writer().expect("free").set(&8), Ok(2));
    assert_eq!(bytes.get().expect("got"), 8u64.to_ne_bytes());
    assert_eq!(
        bytes.writer().expect("free").set(b"x"),
        Err(SendError::OtherLength { len: 1, wanted: 8 })
    );
    assert!(matches!(State::<u32>::open(&domain, "theirs"), Err(Error::OtherType { .. })));
    assert!(matches!(fixed(7).open_or_create(&domain, "theirs"), Err(Error::OtherType { .. })));
    assert!(matches!(of_bytes(8).open_or_create(&domain, "theirs"), Err(Error::OtherType { .. })));
    let zeroes = fixed(8).create_new(&domain, "zeroes").expect("made");
    assert_eq!((zeroes.get(), zeroes.config().is_fixed_size), (Ok(vec![0; 8]), true));
    assert!(matches!(
        fixed(1).initial(b"two").open_or_create(&domain, "small"),
        Err(Error::NoSpace { .. })
    ));
    assert!(matches!(
        fixed(usize::MAX).open_or_create(&domain, "large"),
        Err(Error::NoSpace { .. })
    ));
    // And the other way round.
    drop(State::<u64>::options().initial(&9).create_new(&domain, "ours").expect("opens"));
    let bytes = fixed(8).open_or_create(&domain, "ours").expect("opens");
    assert_eq!(bytes.get().expect("got"), 9u64.to_ne_bytes());
    drop(of_bytes(8).initial(&[0; 8]).create_new(&domain, "bytes").expect("made"));
    assert!(matches!(fixed(8).open_or_create(&domain, "bytes"), Err(Error::OtherType { .. })));
}

fn options_that_contradict_are_refused(world: &World) {
    let domain = world.domain();
    assert!(matches!(State::<u64>::open(&domain, "s"), Err(Error::NotFound { .. })));
    let state = of_bytes(64).initial(b"first").create_new(&domain, "s").expect("made");
    assert!(matches!(of_bytes(64).create_new(&domain, "s"), Err(Error::AlreadyExists { .. })));
    let path = domain.path().join("s");
    let (found, wanted) = ("64".into(), "65".into());
    let error = Error::OtherOptions { path: path.into(), what: "capacity", found, wanted };
    assert_eq!(of_bytes(65).open(&domain, "s").err(), Some(error.clone()));
    assert_eq!(of_bytes(65).open_or_create(&domain, "s").err(), Some(error));
    // What is not set takes what is there, and the value stays.
    for opened in [
        State::<[u8]>::open(&domain, "s"),
        State::open_or_create(&domain, "s"),
        of_bytes(64).initial(b"second").open(&domain, "s"),
    ] {
        let opened = opened.expect("opens");
        assert_eq!((opened.config(), opened.get()), (state.config(), Ok(b"first".to_vec())));
    }
    // Slices of other values have a type too.
    let row = State::<[u32]>::options().capacity(12).initial(&[1, 2]);
    let row = row.create_new(&domain, "row").expect("made");
    assert_eq!(row.get(), Ok(vec![1, 2]));
    assert_eq!(row.writer().expect("free").set(&[3, 4, 5]), Ok(2));
    let mut values = Vec::new();
    assert_eq!((row.get_into(&mut values), values), (Ok(2), vec![3, 4, 5]));
    assert!(matches!(State::<[u8]>::open(&domain, "row"), Err(Error::OtherType { .. })));
    // Bytes that are no such slice.
    let mut writer = State::open_as_bytes(&domain, "row").expect("there").writer().expect("free");
    assert_eq!(writer.set(b"x"), Err(SendError::OtherLength { len: 1, wanted: 4 }));
    assert_eq!(row.get(), Ok(vec![3, 4, 5]));
}

fn a_second_writer_is_refused(world: &World) {
    let state = opened(world);
    let path = world.domain().path().join("s");
    let mut child = idle_writer(&state);
    let error = state.writer().err().expect("taken");
    assert_eq!(
        error,
        Error::Taken { role: "writer", path: path.clone(), pid: Some(child.pid() as u32) }
    );
    assert!(error.to_string().contains(&child.pid().to_string()), "{error}");
    assert_eq!(
        state.current_writer().map(|who| (who.pid, who.alive)),
        Some((child.pid() as u32, true))
    );
    child.kill();
    assert!(state.current_writer().is_some_and(|who| !who.alive));
    let own = state.writer().expect("free");
    assert!(
        matches!(state.writer(), Err(Error::Taken { pid, .. }) if pid == Some(std::process::id()))
    );
    drop(own);
    drop(state.writer().expect("free"));
    assert!(state.current_writer().is_none());
}

fn a_forked_childs_writer_is_none(world: &World) {
    let state = opened(world);
    let mut writer = state.writer().expect("free");
    Child::start(|| {
        assert_eq!(writer.set(&value(2)), Err(SendError::NotOwner));
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
        assert!(matches!(state.writer(), Err(Error::Taken { .. })));
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
        assert_eq!(state.wait_changed_timeout(version, Duration::from_millis(1)), Ok(None));
        assert!(matches!(state.writer(), Err(Error::Taken { .. })));
        writer.go_on();
    }
    writer.kill();
    let mut next = state.writer().expect("free");
    let version = state.version();
    assert_eq!(next.set(&value(version + 1)), Ok(version + 1));
}

fn killed_and_stopped_readers_hold_up_nobody(world: &World) {
    let domain = world.domain();
    let bytes = of_bytes(100_000).initial(&[1; 100_000]).create_new(&domain, "s").expect("made");
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
    assert_eq!(state.wait_changed_timeout(1, Duration::from_millis(1)), Ok(None));
    domain.remove("s").expect("removed");
    assert!(state.is_removed());
}
