//! Names that cannot be, and files that are not what was asked for: each a clear error that says
//! what to do.

use std::fs;
use std::os::unix::fs::symlink;

use outlive::queue::Queue;
use outlive::sync::{AcquireError, Mutex, Record};
use outlive::topic::Topic;
use outlive::{Domain, Error, Kind, RecvError};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::forge::{BODY, Bytes, KIND, MAGIC, VERSION};
use crate::runner::World;

crate::checks!(
    names_that_cannot_be,
    what_is_not_there,
    another_layout_version,
    another_kind,
    another_type,
    another_type_with_a_long_name,
    files_that_are_no_segments,
    things_that_are_no_files,
    files_cut_short,
    a_registry_cut_short,
    a_registry_of_another_version,
    a_configuration_that_makes_no_sense,
    words_that_make_no_sense,
    a_message_longer_than_any_that_is_sent,
);

outlive::record! {
    struct Ticks { ticks: std::sync::atomic::AtomicU64 }
}

/// Tries to open a name in every way that there is.
fn open_all(domain: &Domain, name: &str) -> Vec<Error> {
    let errors = [
        Mutex::<u64>::options(0).open_or_create(domain, name).err(),
        Record::<Ticks>::open_or_create(domain, name).err(),
        Queue::<[u8]>::open_or_create(domain, name).err(),
        Queue::<[u8]>::open(domain, name).err(),
        domain.entry(name).err(),
    ];
    errors.into_iter().flatten().collect()
}

fn names_that_cannot_be(world: &World) {
    let domain = world.domain();
    let long = "x".repeat(300);
    for (name, why) in [
        ("", "empty"),
        ("a/b", "'/'"),
        ("/", "'/'"),
        ("../up", "'/'"),
        (".", "starts with '.'"),
        ("..", "starts with '.'"),
        (".tokens", "starts with '.'"),
        ("nul\0nul", "NUL"),
        (long.as_str(), "longer than 200"),
    ] {
        let mut errors = open_all(&domain, name);
        assert_eq!(errors.len(), 5, "{name:?}");
        errors.extend(domain.remove(name).err());
        errors.extend(Domain::open_or_create(name).err());
        assert_eq!(errors.len(), 7, "{name:?}");
        for error in errors {
            let text = error.to_string();
            assert!(matches!(error, Error::InvalidName { .. }), "{text}");
            assert!(text.contains(why) && text.contains("use 1 to 200 bytes"), "{text}");
            assert!(!text.contains('\0') && text.len() < 300, "{text:?}");
        }
    }
    for name in ["a b", "größe", &"x".repeat(200), "-", "gps.fix"] {
        Mutex::<u64>::options(0).open_or_create(&domain, name).expect("a good name");
    }
}

fn what_is_not_there(world: &World) {
    let domain = world.domain();
    let path = domain.path().join("q");
    let errors = [
        Queue::<[u8]>::open(&domain, "q").err(),
        domain.entry("q").err(),
        domain.remove("q").err(),
    ];
    for error in errors {
        let error = error.expect("not there");
        assert_eq!(error, Error::NotFound { path: path.clone() });
        assert!(error.to_string().contains("create it first"), "{error}");
    }
}

fn another_layout_version(world: &World) {
    let domain = world.domain();
    Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
    let bytes = Bytes::of(&domain, "q");
    let (version, mark) = (bytes.word(VERSION), bytes.word(VERSION + 4));
    for (found_version, found_mark) in [(version + 1, mark), (0, mark), (version, mark ^ 1)] {
        bytes.set_word(VERSION, found_version);
        bytes.set_word(VERSION + 4, found_mark);
        for error in open_all(&domain, "q") {
            let path = domain.path().join("q");
            let (found, ours) = ((found_version, found_mark), (version, mark));
            assert_eq!(error, Error::OtherVersion { path, found, ours });
            let text = error.to_string();
            assert!(text.contains(&format!("layout {found_version}")), "{text}");
            assert!(text.contains("remove it when no process uses it"), "{text}");
        }
    }
    assert!(domain.entries().expect("listed")[0].kind.is_err(), "listed with the reason");
    // An earlier layout had a shorter header: the file tells its version, not that it is too short.
    bytes.set_len(8_192);
    bytes.set_word(VERSION + 4, mark);
    bytes.set_word(VERSION, version - 1);
    for error in open_all(&domain, "q") {
        assert!(matches!(error, Error::OtherVersion { .. }), "{error:?}");
    }
    domain.remove("q").expect("what is of no use may go");
}

fn another_kind(world: &World) {
    let domain = world.domain();
    Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
    Mutex::<u64>::options(0).open_or_create(&domain, "m").expect("opens");
    let error = Mutex::<u64>::options(0).open_or_create(&domain, "q").err().expect("a queue");
    let path = domain.path().join("q");
    let (found, wanted) = (Kind::Queue, Kind::Mutex);
    assert_eq!(error, Error::OtherKind { path, found, wanted });
    assert!(error.to_string().contains("is a queue, not a mutex; choose another name"), "{error}");
    for error in
        [Queue::<[u8]>::open(&domain, "m").err(), Queue::<[u8]>::open_or_create(&domain, "m").err()]
    {
        let error = error.expect("a mutex");
        assert!(error.to_string().contains("is a mutex, not a queue"), "{error}");
    }
    let error = Record::<Ticks>::open_or_create(&domain, "m").err().expect("a mutex");
    assert!(error.to_string().contains("is a mutex, not a record"), "{error}");
}

fn another_type(world: &World) {
    let domain = world.domain();
    Mutex::<[u32; 2]>::options([0; 2]).open_or_create(&domain, "m").expect("opens");
    let error = Mutex::<u64>::options(0).open_or_create(&domain, "m").err().expect("another type");
    let text = error.to_string();
    assert!(matches!(error, Error::OtherType { .. }), "{text}");
    for part in [
        "'[u32; 2]'",
        "'u64'",
        "8 bytes, alignment 4",
        "8 bytes, alignment 8",
        "choose another name",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

/// Of each of two types: its name is longer than the header has room for, and only its end tells
/// the two apart.
macro_rules! long_names {
    ($($name:ident)*) => { $(
        #[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(C)]
        struct $name(u64);
    )* };
}

long_names!(
    ATypeWhoseNameIsMuchLongerThanWhatFitsIntoTheHeaderOfAFileSoThatOfTwoSuchNamesOnlyTheBeginningWasComparedAndTheyWereTakenForOneMetres
    ATypeWhoseNameIsMuchLongerThanWhatFitsIntoTheHeaderOfAFileSoThatOfTwoSuchNamesOnlyTheBeginningWasComparedAndTheyWereTakenForOneFeet
);

fn another_type_with_a_long_name(world: &World) {
    use ATypeWhoseNameIsMuchLongerThanWhatFitsIntoTheHeaderOfAFileSoThatOfTwoSuchNamesOnlyTheBeginningWasComparedAndTheyWereTakenForOneFeet as Feet;
    use ATypeWhoseNameIsMuchLongerThanWhatFitsIntoTheHeaderOfAFileSoThatOfTwoSuchNamesOnlyTheBeginningWasComparedAndTheyWereTakenForOneMetres as Metres;
    let domain = world.domain();
    let metres = Topic::<Metres>::open_or_create(&domain, "t").expect("opens");
    drop(Topic::<Metres>::open_or_create(&domain, "t").expect("the same type"));
    let error = Topic::<Feet>::open_or_create(&domain, "t").err().expect("another type");
    assert!(matches!(error, Error::OtherType { .. }), "{error}");
    assert!(error.to_string().contains("TakenForOneFeet"), "{error}");
    let error = Topic::<[Metres]>::open_or_create(&domain, "t").err().expect("another type");
    assert!(matches!(error, Error::OtherType { .. }), "{error}");
    drop(metres);
}

fn see_no_segment(domain: &Domain, name: &str, why: &str) {
    let errors = open_all(domain, name);
    assert_eq!(errors.len(), 5, "{name}: {errors:?}");
    for error in errors {
        let text = error.to_string();
        assert!(matches!(error, Error::NotASegment { .. }), "{name}: {error:?}");
        assert!(text.contains(why) && text.contains("was not made by Outlive"), "{text}");
    }
    let listed = domain.entries().expect("listed");
    let entry = listed.iter().find(|entry| entry.name == name).expect("listed");
    assert!(matches!(entry.kind, Err(Error::NotASegment { .. })));
    let error = domain.remove(name).expect_err("not ours to remove");
    assert!(matches!(error, Error::NotASegment { .. }), "{error}");
    let report = domain.sweep(false).expect("sweeps past it");
    assert!(report.is_clean(), "{report:?}");
}

fn files_that_are_no_segments(world: &World) {
    let domain = world.domain();
    let put =
        |name: &str, bytes: &[u8]| fs::write(domain.path().join(name), bytes).expect("written");
    put("empty", b"");
    see_no_segment(&domain, "empty", "too short");
    put("text", b"a shopping list");
    see_no_segment(&domain, "text", "too short");
    let mut random = crate::random::Random::new();
    let garbage: Vec<u8> = (0..100_000).map(|_| random.next() as u8).collect();
    put("garbage", &garbage);
    see_no_segment(&domain, "garbage", "magic");
    put("zeroes", &[0; 50_000]);
    see_no_segment(&domain, "zeroes", "magic");
    Queue::<[u8]>::open_or_create(&domain, "kind").expect("made");
    Bytes::of(&domain, "kind").set_word(KIND, 99);
    see_no_segment(&domain, "kind", "unknown kind");
    Queue::<[u8]>::open_or_create(&domain, "magic").expect("made");
    Bytes::of(&domain, "magic").set(MAGIC, b"outlive\0");
    see_no_segment(&domain, "magic", "magic");
}

fn things_that_are_no_files(world: &World) {
    let domain = world.domain();
    fs::create_dir(domain.path().join("folder")).expect("made");
    see_no_segment(&domain, "folder", "no ordinary file");
    let pipe = domain.path().join("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .expect("made");
    see_no_segment(&domain, "pipe", "no ordinary file");
    let _socket =
        std::os::unix::net::UnixListener::bind(domain.path().join("socket")).expect("made");
    see_no_segment(&domain, "socket", "no ordinary file");
    Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
    symlink(domain.path().join("q"), domain.path().join("link")).expect("made");
    see_no_segment(&domain, "link", "symbolic link");
}

/// Whatever is left of a file: an error or a working thing, never a signal.
fn files_cut_short(world: &World) {
    let domain = world.domain();
    let whole = {
        Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
        Bytes::of(&domain, "q").len()
    };
    for len in [
        1,
        4_095,
        4_096,
        8_192,
        12_287,
        12_288,
        12_289,
        13_000,
        16_384,
        24_576,
        28_672,
        28_673,
        36_864,
        whole / 2,
        whole - 1,
    ] {
        let name = format!("q{len}");
        Queue::<[u8]>::open_or_create(&domain, &name).expect("made");
        Bytes::of(&domain, &name).set_len(len);
        let opened = Queue::<[u8]>::open(&domain, &name);
        match opened {
            Err(error) => {
                assert!(
                    matches!(error, Error::NotASegment { .. } | Error::Damaged { .. }),
                    "{len}: {error:?}"
                )
            }
            Ok(queue) => {
                // Enough was left; what is missing is missed when it is needed.
                let sender = queue.sender().expect("a sender");
                let _ = sender.try_send(&[1; 10]);
                let _ = sender.try_send(&[1; 10_000]);
                let _ = queue.counters();
            }
        }
        let _ = domain.entry(&name);
    }
    domain.sweep(false).expect("sweeps what it can");
    Mutex::<[u64; 1_000]>::options([0; 1_000]).open_or_create(&domain, "m").expect("opens");
    Bytes::of(&domain, "m").set_len(12_288 + 100);
    let error =
        Mutex::<[u64; 1_000]>::options([0; 1_000]).open_or_create(&domain, "m").err().expect("cut");
    let text = error.to_string();
    assert!(matches!(error, Error::Damaged { .. }), "{text}");
    assert!(text.contains("is damaged") && text.contains("remove it"), "{text}");
}

fn a_registry_cut_short(world: &World) {
    for len in [0, 4_096, 5_000, 12_288, 13_000, 16_384, 16_385, 28_000] {
        let name = format!("d{len}");
        let first = world.domain_named(&name);
        let path = first.path().to_owned();
        Bytes::of(&first, ".tokens").set_len(len);
        // In a process that has not mapped it yet; this one would fault, having been told of more.
        crate::child::Child::start(move || {
            // Without what the parent knows: by another path, the registry is looked up anew.
            let moved = path.with_file_name(format!("moved{len}"));
            fs::create_dir(&moved).expect("made");
            fs::set_permissions(&moved, std::os::unix::fs::PermissionsExt::from_mode(0o700))
                .expect("set");
            fs::copy(path.join(".tokens"), moved.join(".tokens")).expect("copied");
            match Domain::open_or_create_at(&moved) {
                Err(error) => {
                    assert!(
                        matches!(error, Error::NotASegment { .. } | Error::Damaged { .. }),
                        "{len}: {error:?}"
                    )
                }
                Ok(domain) => {
                    let _ = domain.token();
                    let _ = domain.tokens();
                    let _ = domain.sweep(false);
                }
            }
        })
        .finish();
    }
}

fn a_registry_of_another_version(world: &World) {
    let path = world.folder().join("domain");
    crate::child::Child::start(|| {
        world.domain();
    })
    .finish();
    let file = path.join(".tokens");
    let mut bytes = fs::read(&file).expect("there");
    bytes[VERSION as usize] += 1;
    fs::write(&file, &bytes).expect("written");
    let error = Domain::open_or_create_at(&path).expect_err("another version");
    assert!(matches!(error, Error::OtherVersion { .. }), "{error}");
    fs::write(&file, b"something else").expect("written");
    let error = Domain::open_or_create_at(&path).expect_err("no registry");
    assert!(matches!(error, Error::NotASegment { .. }), "{error}");
}

/// A queue's first words say how it is laid out.
fn a_configuration_that_makes_no_sense(world: &World) {
    let domain = world.domain();
    for word in 0..9u64 {
        for value in [0, 1, 77, 1 << 20, 1 << 31, u32::MAX] {
            let name = format!("q{word}-{value}");
            Queue::<[u8]>::options()
                .max_bytes(1 << 20)
                .open_or_create(&domain, &name)
                .expect("made");
            let bytes = Bytes::of(&domain, &name);
            if bytes.word(BODY + 4 * word) == value {
                continue;
            }
            bytes.set_word(BODY + 4 * word, value);
            match Queue::<[u8]>::open(&domain, &name).and_then(|queue| queue.sender()) {
                Err(error) => {
                    assert!(matches!(error, Error::Damaged { .. }), "{name}: {error:?}");
                    assert!(error.to_string().contains("is damaged"), "{error}");
                }
                // Another size that would do as well.
                Ok(sender) => {
                    let _ = sender.try_send(&[1; 10]);
                    let _ = sender.try_send(&[1; 10_000]);
                }
            }
        }
    }
}

fn words_that_make_no_sense(world: &World) {
    let domain = world.domain();
    let mutex = Mutex::<u64>::options(0).open_or_create(&domain, "m").expect("opens");
    let bytes = Bytes::of(&domain, "m");
    for word in [1, 1 << 30, 0x1fff_ffff, 0x4000_0001, 0x8000_0000] {
        bytes.set_word(BODY, word);
        for error in [mutex.lock().err(), mutex.try_lock().err()] {
            let error = error.expect("damaged");
            assert!(
                matches!(error, outlive::sync::LockError::Failed(AcquireError::Damaged)),
                "{word:#x}: {error:?}"
            );
            assert!(error.to_string().contains("stray write"), "{error}");
        }
        assert!(mutex.holder().is_none());
    }
    bytes.set_word(BODY, 0);
    drop(mutex.lock().expect("free"));
}

/// The run is as long as the message says, and so is the file; only the length itself is wrong. A
/// receiver of the message would make room for it.
fn a_message_longer_than_any_that_is_sent(world: &World) {
    // Of a queue: the spans' number and where they begin; of its control table: the first span's
    // pages and how many spans its run has.
    const SPANS: u64 = 12_288 + 32;
    const SPANS_AT: u64 = 12_288 + 24;
    const FIRST_SPAN: u64 = 28_672 + 1_024;
    let domain = world.domain();
    let queue =
        Queue::<[u8]>::options().max_bytes(6 << 30).open_or_create(&domain, "q").expect("made");
    let (sender, mut receiver) =
        (queue.sender().expect("a sender"), queue.receiver().expect("none yet"));
    sender.send(&vec![7; 3 << 20]).expect("room");
    sender.send(b"behind it").expect("room");
    let bytes = Bytes::of(&domain, "q");
    let rings_at = (FIRST_SPAN + 32 * u64::from(bytes.word(SPANS))).next_multiple_of(4096);
    assert_eq!(
        (bytes.word(FIRST_SPAN + 8), bytes.word(FIRST_SPAN + 16)),
        ((3 << 20) / 4096, 2),
        "pages, spans"
    );
    assert_eq!(bytes.word(rings_at + 8), 3 << 20, "the length");
    bytes.set_word(FIRST_SPAN + 8, (2 << 30) / 4096);
    bytes.set_word(FIRST_SPAN + 16, 1024);
    let spans_at = u64::from(bytes.word(SPANS_AT)) | u64::from(bytes.word(SPANS_AT + 4)) << 32;
    bytes.set_len(bytes.len().max(spans_at + (3 << 30)));
    bytes.set_word(rings_at + 8, (1 << 30) + 1);
    assert!(matches!(receiver.try_recv(), Err(RecvError::Damaged(_))));
    assert_eq!(receiver.try_recv(), Ok(Some(b"behind it".to_vec())));
}
