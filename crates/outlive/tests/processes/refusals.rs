//! Calls that the library must refuse, or answer with nothing: each tells its caller why, and
//! changes nothing that others have.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use outlive::pool::Pool;
use outlive::queue::Queue;
use outlive::rpc::Service;
use outlive::state::State;
use outlive::sync::{
    Barrier, Condvar, EmbeddedMutex, EmbeddedRwLock, Event, Latch, Mutex, OnceLock, PiMutex,
    Record, RwLock, Semaphore,
};
use outlive::topic::Topic;
use outlive::{Deadline, Domain, Error};

use crate::board::Board;
use crate::child::{Child, PATIENCE};
use crate::forge::{BODY, Bytes, KIND, VERSION};
use crate::limits::set_limit;
use crate::runner::World;

crate::checks!(
    without_a_descriptor_a_fresh_name_is_not_taken,
    a_name_of_any_kind_is_taken,
    fields_of_another_place_are_refused,
    a_value_that_publishes_while_it_is_published,
    values_that_no_state_of_the_type_has,
    a_dead_writers_last_thread_makes_nobody_wait: 60,
);

/// Tries to make a new thing of that name, and returns the error.
type Make = fn(&Domain, &str) -> Option<Error>;

/// Every kind whose options have a `create_new`, by a name for its thing.
const MAKERS: &[(&str, Make)] = &[
    ("mutex", |domain, name| Mutex::<u64>::options(1).create_new(domain, name).err()),
    ("pi mutex", |domain, name| PiMutex::<u64>::options(1).create_new(domain, name).err()),
    ("rwlock", |domain, name| RwLock::<u64>::options(1).create_new(domain, name).err()),
    ("condvar", |domain, name| Condvar::options().create_new(domain, name).err()),
    ("event", |domain, name| Event::options().create_new(domain, name).err()),
    ("latch", |domain, name| Latch::options(1).create_new(domain, name).err()),
    ("once", |domain, name| OnceLock::<u64>::options().create_new(domain, name).err()),
    ("semaphore", |domain, name| Semaphore::options(1).create_new(domain, name).err()),
    ("barrier", |domain, name| Barrier::options(2).create_new(domain, name).err()),
    ("pool", |domain, name| Pool::options().max_bytes(8 << 20).create_new(domain, name).err()),
    ("queue", |domain, name| Queue::<[u8]>::options().create_new(domain, name).err()),
    ("topic", |domain, name| Topic::<[u8]>::options().create_new(domain, name).err()),
    ("state", |domain, name| State::<u64>::options().create_new(domain, name).err()),
    ("service", |domain, name| Service::<[u8], [u8]>::options().create_new(domain, name).err()),
];

/// A process that can open nothing more does not know whether the name is taken; it must not be
/// told that it is.
fn without_a_descriptor_a_fresh_name_is_not_taken(world: &World) {
    let domain = world.domain();
    assert_eq!(Mutex::<u64>::options(1).create_new(&domain, "there").err(), None);
    Child::start(|| {
        set_limit(libc::RLIMIT_NOFILE, 0);
        for (kind, make) in MAKERS {
            let error = make(&domain, kind).expect("no descriptor is left");
            assert!(
                matches!(error, Error::System { errno: libc::EMFILE, .. }),
                "a new {kind}: {error}"
            );
            // A name that is taken may be found without opening the file.
            let error = make(&domain, "there").expect("no descriptor is left");
            assert!(
                matches!(
                    error,
                    Error::AlreadyExists { .. } | Error::System { errno: libc::EMFILE, .. }
                ),
                "a {kind} in a mutex's place: {error}"
            );
        }
    })
    .finish();
    // The child has left no file behind, and this process makes them all.
    for (kind, make) in MAKERS {
        assert_eq!(make(&domain, kind), None, "a new {kind}");
    }
    assert_eq!(*Mutex::<u64>::open(&domain, "there").expect("there").lock().expect("free"), 1);
}

/// A thing of any kind keeps its name from others; so does a file that the library did not make,
/// and so does a folder, a link or a fifo.
fn a_name_of_any_kind_is_taken(world: &World) {
    let domain = world.domain();
    for (kind, make) in MAKERS {
        assert_eq!(make(&domain, kind), None, "a new {kind}");
    }
    let mut names: Vec<&str> = MAKERS.iter().map(|(kind, _)| *kind).collect();
    let path = |name: &str| domain.path().join(name);
    let mut stranger = |name: &'static str, make: &dyn Fn()| {
        make();
        names.push(name);
    };
    stranger("empty", &|| fs::write(path("empty"), b"").expect("written"));
    stranger("no segment", &|| fs::write(path("no segment"), [0xa5; 9000]).expect("written"));
    stranger("another version", &|| {
        assert_eq!(Mutex::<u64>::options(1).create_new(&domain, "another version").err(), None);
        Bytes::of(&domain, "another version").set_word(VERSION, 999);
    });
    stranger("folder", &|| fs::create_dir(path("folder")).expect("made"));
    stranger("link", &|| symlink("mutex", path("link")).expect("made"));
    stranger("link to nothing", &|| {
        symlink("nothing", path("link to nothing")).expect("made");
    });
    stranger("unknown kind", &|| {
        assert_eq!(Mutex::<u64>::options(1).create_new(&domain, "unknown kind").err(), None);
        Bytes::of(&domain, "unknown kind").set_word(KIND, 999);
    });
    // Its mode keeps out every user but root; root's processes find no segment in it.
    stranger("closed", &|| {
        fs::write(path("closed"), [0xa5; 9000]).expect("written");
        fs::set_permissions(path("closed"), fs::Permissions::from_mode(0o0)).expect("ours");
    });
    stranger("fifo", &|| {
        let path = std::ffi::CString::new(path("fifo").to_str().expect("plain")).expect("plain");
        // SAFETY: a string that ends with null.
        assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
    });
    for name in names {
        for (kind, make) in MAKERS {
            match make(&domain, name) {
                Some(Error::AlreadyExists { path: found }) => assert_eq!(found, path(name)),
                other => panic!("a new {kind} in the place of {name}: {other:?}"),
            }
        }
    }
    assert!(!path("nothing").exists(), "no file was made behind a link");
}

outlive::record! {
    struct Arm {
        joints: [EmbeddedMutex<u64>; 6],
        gate: EmbeddedRwLock<u64>,
    }
}

/// Runs `body`, which must panic and say that the field is not of this record.
fn refuses_the_field(call: &str, body: impl FnOnce()) {
    let payload = catch_unwind(AssertUnwindSafe(body)).expect_err(call);
    let text = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        _ => String::new(),
    };
    assert!(text.contains("not of this record"), "{call}: {text}");
}

/// The compiler accepts a field that lives for ever, wherever it lies. A handle keeps only its own
/// record mapped, so each of these calls has to look where the field lies.
fn fields_of_another_place_are_refused(world: &World) {
    let domain = world.domain();
    let open = |name: &str| Record::<Arm>::open_or_create(&domain, name).expect("opens");
    let arm = open("arm");
    let other: &'static Record<Arm> = Box::leak(Box::new(open("other")));
    // The same file, but in another mapping: nothing of `arm` keeps that one.
    let again: &'static Record<Arm> = Box::leak(Box::new(open("arm")));
    assert!(!core::ptr::eq::<Arm>(&*arm, &**again));
    // SAFETY: all zeroes are unlocked locks around zeroed values.
    let private: &'static Arm = Box::leak(Box::new(unsafe { core::mem::zeroed::<Arm>() }));
    let places: [(&str, &'static Arm); 3] =
        [("another record's", other), ("another mapping's", again), ("private memory's", private)];
    for (whose, place) in places {
        for joint in [&place.joints[0], &place.joints[2], &place.joints[5]] {
            let call = |function| format!("{function} of {whose} joint");
            refuses_the_field(&call("handle"), || drop(arm.handle(|_| joint)));
            refuses_the_field(&call("lock"), || drop(arm.lock(|_| joint)));
            refuses_the_field(&call("try_lock"), || drop(arm.try_lock(|_| joint)));
            refuses_the_field(&call("lock_timeout"), || {
                drop(arm.lock_timeout(|_| joint, Duration::from_millis(1)));
            });
            refuses_the_field(&call("lock_until"), || {
                drop(arm.lock_until(|_| joint, Deadline::at_nanos(0)));
            });
        }
        let gate = &place.gate;
        refuses_the_field(&format!("handle of {whose} gate"), || drop(arm.handle(|_| gate)));
    }
    // The refused calls have taken nothing, and the record's own fields are as usual.
    for record in [&arm, other, again] {
        for n in 0..6 {
            let guard = record.try_lock(|arm| &arm.joints[n]).expect("whole").expect("free");
            drop(guard);
        }
    }
    let (first, last) = (arm.handle(|arm| &arm.joints[0]), arm.handle(|arm| &arm.joints[5]));
    let gate = arm.handle(|arm| &arm.gate);
    *first.lock().expect("free") += 1;
    *last.lock().expect("free") += 2;
    *gate.write().expect("free") += 3;
    drop(arm);
    let seen = |n: usize| *again.lock(|arm| &arm.joints[n]).expect("free");
    assert_eq!((seen(0), seen(5), *gate.read().expect("free")), (1, 2, 3));
}

/// A value's own code runs while the value is published, and may publish too: by then the room that
/// was there is gone.
fn a_value_that_publishes_while_it_is_published(world: &World) {
    use crate::topics;
    use outlive::topic::Publisher;
    use outlive::{Msgpack, SendError};

    /// Publishes a line of its own whenever it is serialized, and is the number 7.
    struct Talkative<'p>(&'p Publisher<[u8]>);
    impl serde::Serialize for Talkative<'_> {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            self.0.try_publish(b"line").expect("there is room for the line");
            serializer.serialize_u8(7)
        }
    }

    let domain = world.domain();
    let topic = topics::open(&domain, 1);
    let mut subscriber = topic.subscriber_with(topics::reliable()).expect("a line");
    let publisher = topic.publisher().expect("a ring");
    let value = Talkative(&publisher);
    // Many rounds: a value that was refused leaves nothing behind that hinders the next one.
    for round in 0..100 {
        if round % 10 == 0 {
            let told = publisher.publish_timeout(Msgpack(&value), Duration::from_millis(1));
            assert!(matches!(told, Err(SendError::TimedOut { .. })), "{told:?}");
        } else {
            let told = publisher.try_publish(Msgpack(&value));
            assert!(matches!(told, Err(SendError::Full { .. })), "{told:?}");
        }
        let sample = subscriber.try_recv().expect("ours").expect("the line was published");
        assert_eq!((&*sample, sample.sequence()), (&b"line"[..], round));
        drop(sample);
        assert!(subscriber.try_recv().expect("ours").is_none(), "the value was refused");
        assert_eq!(subscriber.lost(), 0);
    }
    // Where there is no room, the value's code does not run at all.
    struct Silent;
    impl serde::Serialize for Silent {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            panic!("serialized without room");
        }
    }
    publisher.try_publish(b"line").expect("room for one");
    let told = publisher.try_publish(Msgpack(&Silent));
    assert!(matches!(told, Err(SendError::Full { .. })), "{told:?}");
    // Where there is room for both, the value comes behind its line.
    let roomy = topics::options(2).open_or_create(&domain, "roomy").expect("opens");
    let mut subscriber = roomy.subscriber_with(topics::reliable()).expect("a line");
    let publisher = roomy.publisher().expect("a ring");
    publisher.try_publish(Msgpack(&Talkative(&publisher))).expect("room for both");
    assert_eq!(*subscriber.try_recv().expect("ours").expect("the line"), *b"line");
    assert_eq!(*subscriber.try_recv().expect("ours").expect("the value"), [7]);
    assert_eq!(subscriber.lost(), 0);
}

/// A state's values have a type, also for a writer that writes bytes; options that contradict are
/// refused, and so is a state of other values.
fn values_that_no_state_of_the_type_has(world: &World) {
    use outlive::SendError;
    let domain = world.domain();
    let steps = State::<[u32]>::options().open_or_create(&domain, "steps").expect("made");
    let bytes = State::open_as_bytes(&domain, "steps").expect("there");
    let mut writer = bytes.writer().expect("free");
    for len in [1, 3, 5] {
        let told = writer.set(&vec![0; len]);
        let wanted = len.next_multiple_of(4) as u64;
        assert_eq!(told, Err(SendError::OtherLength { len: len as u64, wanted }));
    }
    writer.set(&[1; 8]).expect("two values");
    assert_eq!(steps.get().expect("whole"), [0x0101_0101; 2]);
    writer.set(&[]).expect("no value");
    assert_eq!(steps.get().expect("whole"), []);

    let any = State::<[u8]>::options().open_or_create(&domain, "any").expect("made");
    any.writer().expect("free").set(&[1; 3]).expect("bytes have any length");
    let told = State::<[u8]>::options().fixed_size(0).open(&domain, "any").map(drop);
    assert!(matches!(told, Err(Error::OtherType { .. })), "{told:?}");
    State::<[u8]>::options().fixed_size(0).create_new(&domain, "none").expect("made");
    let told = State::<[u8]>::open(&domain, "none").map(drop);
    assert!(matches!(told, Err(Error::OtherType { .. })), "{told:?}");

    let told = State::<[u8]>::options().capacity(8).fixed_size(4).create_new(&domain, "two");
    assert!(matches!(told, Err(Error::InvalidOption { .. })), "{:?}", told.map(drop));
    let told = State::<[u8]>::options().capacity(8).fixed_size(8).create_new(&domain, "two");
    assert!(told.expect("no contradiction").config().is_fixed_size);
}

/// The writer is dead, but one of its threads has not ended: the place is not free, and calls that
/// do not wait, or not for long, return `None`.
fn a_dead_writers_last_thread_makes_nobody_wait(world: &World) {
    /// Where the words of a state's writer stand: see doc/memory-layout.md.
    const HOLDER: u64 = BODY + 192;
    const INSIDE: u64 = HOLDER + 4;
    /// What a sweep leaves in the place of a dead writer's name.
    const ROLE_DIED: u32 = 1;
    let domain = world.domain();
    let board = Board::new();
    let with_token = |word: usize| {
        let child = Child::start(|| {
            board.set(word, u64::from(domain.token().expect("a token").as_u32()));
            loop {
                std::thread::park();
            }
        });
        (board.reach(word, 1) as u32, child)
    };
    let (dead, mut child) = with_token(0);
    let inside = [with_token(1), with_token(2)];
    child.kill();
    for (holder, (living, mut child)) in [ROLE_DIED, dead].into_iter().zip(inside) {
        let name = format!("held by {holder:#x}");
        let state = State::<u64>::open_or_create(&domain, &name).expect("opens");
        let words = Bytes::of(&domain, &name);
        words.set_word(INSIDE, living);
        words.set_word(HOLDER, holder);
        // Twice: the first calls leave the words so that the next ones are told the same.
        for _ in 0..2 {
            let told = state.try_wait_to_write().map(|writer| writer.is_some());
            assert_eq!(told, Ok(false), "without waiting");
            let told = state.wait_to_write_timeout(Duration::from_millis(1));
            assert_eq!(told.map(|writer| writer.is_some()), Ok(false), "after a millisecond");
            let told = state.wait_to_write_until(Deadline::at_nanos(0));
            assert_eq!(told.map(|writer| writer.is_some()), Ok(false), "behind its deadline");
        }
        assert_eq!(words.word(INSIDE), living, "none has come in");
        child.kill();
        let writer = state.wait_to_write_timeout(PATIENCE).expect("whole");
        let mut writer = writer.expect("the thread has ended");
        writer.set(&5).expect("set");
        assert_eq!(state.get(), Ok(5));
    }
}
