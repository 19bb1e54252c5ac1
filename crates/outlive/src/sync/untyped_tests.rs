//! What another language sees of a file is what Rust sees of it.

use super::*;
use crate::sync::{
    AcquireError, EmbeddedCondvar, EmbeddedLatch, EmbeddedMutex, EmbeddedRwLock, EmbeddedSemaphore,
    Latch, LockError, Mutex, PiMutex, Record, RwLock,
};

fn in_a_domain(name: &str, test: impl FnOnce(&Domain)) {
    let folder =
        std::env::temp_dir().join(format!("outlive-untyped-{name}-{}", std::process::id()));
    test(&Domain::open_or_create_at(&folder).expect("a domain"));
    std::fs::remove_dir_all(&folder).expect("removed");
}

const OPENING: Opening = Opening::OpenOrCreate;
const LAYOUT: ValueType<'static> = ValueType { name: None, size: 48, align: 8 };

#[test]
fn a_named_lock_is_the_same_from_both_sides() {
    in_a_domain("named", |domain| {
        let eight = ValueType { name: None, size: 8, align: 8 };
        for kind in [Kind::Mutex, Kind::RwLock, Kind::PiMutex] {
            let name = kind.to_string();
            // SAFETY: the file has no name yet, so no other thread reaches it; eight aligned
            // bytes.
            let init = |at: *mut u8| unsafe { *at.cast::<u64>() = 77 };
            let there = Untyped::lock(
                domain,
                &name,
                OPENING,
                kind,
                ValueType { name: Some("u64"), ..eight },
                init,
            );
            let there = there.expect("made");
            // SAFETY: the value lies inside the file; no thread writes it.
            assert_eq!(unsafe { *there.as_ptr().add(there.value_offset()).cast::<u64>() }, 77);
            let seen = match kind {
                Kind::Mutex => *Mutex::<u64>::options(0)
                    .open_or_create(domain, &name)
                    .expect("open")
                    .lock()
                    .expect("free"),
                Kind::PiMutex => *PiMutex::<u64>::options(0)
                    .open_or_create(domain, &name)
                    .expect("open")
                    .lock()
                    .expect("free"),
                _ => *RwLock::<u64>::options(0)
                    .open_or_create(domain, &name)
                    .expect("open")
                    .read()
                    .expect("free"),
            };
            assert_eq!(seen, 77);
            let other =
                Untyped::lock(domain, &name, OPENING, kind, ValueType { size: 9, ..eight }, |_| ());
            assert!(matches!(other, Err(Error::OtherType { .. })));
            // Made without a name for its type, it opens for every type of that size.
            let nameless = format!("{kind} nameless");
            drop(
                Untyped::lock(
                    domain,
                    &nameless,
                    OPENING,
                    kind,
                    ValueType { align: 1, ..eight },
                    init,
                )
                .expect("made"),
            );
            let opened = |name: &str| match kind {
                Kind::Mutex => Mutex::<u64>::options(0).open_or_create(domain, name).map(drop),
                Kind::PiMutex => PiMutex::<u64>::options(0).open_or_create(domain, name).map(drop),
                _ => RwLock::<u64>::options(0).open_or_create(domain, name).map(drop),
            };
            assert_eq!(opened(&nameless), Ok(()));
            let smaller = format!("{kind} smaller");
            drop(
                Untyped::lock(
                    domain,
                    &smaller,
                    OPENING,
                    kind,
                    ValueType { size: 4, ..eight },
                    |_| (),
                )
                .expect("made"),
            );
            assert!(matches!(opened(&smaller), Err(Error::OtherType { .. })));
        }
    });
}

#[test]
fn places_that_cannot_be_are_refused() {
    in_a_domain("places", |domain| {
        let at = |offset, kind| Place { offset, kind, number: 0 };
        let wrong: [&[Place]; 5] = [
            &[at(44, Kind::Mutex)],
            &[at(2, Kind::Mutex)],
            &[at(0, Kind::Mutex), at(4, Kind::Mutex)],
            &[at(0, Kind::RwLock)],
            &[at(0, Kind::Queue)],
        ];
        for places in wrong {
            let made = Untyped::record(domain, "wrong", OPENING, LAYOUT, places, |_| ());
            assert!(matches!(made, Err(Error::InvalidName { .. })), "{places:?}");
        }
        let right = [at(0, Kind::Mutex), at(8, Kind::Condvar)];
        let record =
            Untyped::record(domain, "right", OPENING, LAYOUT, &right, |_| ()).expect("made");
        assert!(
            record.handle::<EmbeddedMutex<()>>(0).is_some()
                && record.handle::<EmbeddedCondvar>(8).is_some()
        );
        assert!(
            record.handle::<EmbeddedMutex<()>>(8).is_none()
                && record.handle::<EmbeddedRwLock<()>>(0).is_none()
        );
        assert!(
            record.handle::<EmbeddedMutex<u64>>(48).is_none()
                && record.handle::<EmbeddedMutex<[u8; 48]>>(0).is_none()
        );
        let other = Untyped::record(domain, "right", OPENING, LAYOUT, &right[..1], |_| ());
        assert!(matches!(other, Err(Error::OtherType { .. })));
    });
}

#[test]
fn a_semaphore_and_a_barrier_are_as_large_as_their_places_say() {
    use crate::sync::{EmbeddedBarrier, EmbeddedSemaphore, Record, RecordType, SharedField};
    #[repr(C)]
    struct Both<const PERMITS: usize> {
        slots: EmbeddedSemaphore<PERMITS>,
        step: EmbeddedBarrier<2>,
    }
    // SAFETY: repr(C); both fields are SharedFields, and `primitives` returns their places.
    unsafe impl<const PERMITS: usize> RecordType for Both<PERMITS> {
        fn primitives() -> Vec<Place> {
            let step = <EmbeddedBarrier<2>>::primitive(0)
                .after(core::mem::offset_of!(Both<PERMITS>, step));
            vec![<EmbeddedSemaphore<PERMITS>>::primitive(0), step]
        }
    }
    type Line = Both<3>;
    type Wider = Both<5>;
    in_a_domain("sized", |domain| {
        let size = size_of::<Line>();
        assert_eq!(
            size,
            size_of::<Wider>(),
            "the name of the type and its size do not tell them apart"
        );
        let layout = ValueType { name: None, size, align: 64 };
        let at = |offset, kind, number| Place { offset, kind, number };
        let right = [at(0, Kind::Semaphore, 3), at(128, Kind::Barrier, 2)];
        for wrong in
            [at(0, Kind::Semaphore, 0), at(0, Kind::Semaphore, 49), at(32, Kind::Barrier, 2)]
        {
            let made = Untyped::record(domain, "wrong", OPENING, layout, &[wrong], |_| ());
            assert!(matches!(made, Err(Error::InvalidName { .. })), "{wrong:?}");
        }
        // SAFETY: a new record's semaphore, zeroed, with room for three; the file has no name
        // yet.
        let init = |at: *mut u8| unsafe { Untyped::set_permits(at, 3, 1) };
        let made = Untyped::record(domain, "line", OPENING, layout, &right, init).expect("made");
        let semaphore = made.semaphore(0).expect("there");
        assert_eq!((semaphore.available_permits(), semaphore.max_permits()), (1, 3));
        assert!(
            made.semaphore(128).is_none()
                && made.barrier(0).is_none()
                && made.barrier(64).is_none()
        );
        // Rust opens the same record by its own type, though that type has another name.
        let line = Record::<Line>::open_or_create(domain, "line").expect("the same");
        let permit = semaphore.acquire().expect("free");
        assert_eq!(line.handle(|line| &line.slots).available_permits(), 0);
        drop(permit);
        let barrier = made.barrier(128).expect("there");
        let _seats =
            (barrier.join().expect("a seat"), line.handle(|line| &line.step).participants().len());
        assert!(matches!(
            Record::<Wider>::open_or_create(domain, "line"),
            Err(Error::OtherType { .. })
        ));
        let wider = [at(0, Kind::Semaphore, 5), right[1]];
        let other = Untyped::record(domain, "line", OPENING, layout, &wider, |_| ());
        assert!(matches!(other, Err(Error::OtherType { .. })));
        // And the other way round.
        drop(Record::<Line>::open_or_create(domain, "rusts").expect("made"));
        let rusts =
            Untyped::record(domain, "rusts", OPENING, layout, &right, |_| ()).expect("the same");
        assert_eq!(rusts.semaphore(0).expect("there").available_permits(), 3);
    });
}

#[test]
fn any_handle_leads_to_the_file_that_it_has_open() {
    #[derive(Clone, Copy, Debug, zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable)]
    #[repr(C, align(128))]
    struct Wide([u8; 128]);
    crate::record! {
        struct Line { count: std::sync::atomic::AtomicU64, slots: EmbeddedSemaphore<3>, lock: EmbeddedMutex<u64> }
    }
    in_a_domain("of", |domain| {
        let line = Record::<Line>::open_or_create(domain, "line").expect("made");
        let (slots, lock) = (line.handle(|line| &line.slots), line.handle(|line| &line.lock));
        let wide = Mutex::options(Wide([7; 128])).create_new(domain, "wide").expect("made");
        let latch = Latch::options(2).create_new(domain, "latch").expect("made");
        // By now the name stands for another thing, or for nothing.
        for name in ["line", "wide", "latch"] {
            domain.remove(name).expect("removed");
        }
        Latch::options(5).create_new(domain, "line").expect("made");

        let address = core::ptr::from_ref(&*line).cast::<u8>();
        let offset = |field: usize| field - address as usize;
        let at = offset(core::ptr::from_ref(&line.slots) as usize);
        for of in [Untyped::of(&line), Untyped::of(&slots), Untyped::of(&lock)] {
            let of = of.expect("well");
            assert_eq!((of.kind(), of.as_ptr().cast_const()), (Kind::Record, address));
            assert_eq!((of.len(), of.value_offset()), (size_of::<Line>(), 0));
            assert_eq!(
                of.kind_at(offset(core::ptr::from_ref(&line.lock) as usize)),
                Some(Kind::Mutex)
            );
            let there = of.semaphore(at).expect("there");
            let permit = there.acquire().expect("free");
            assert_eq!((permit.index() < 3, slots.available_permits()), (true, 2));
        }
        let of = Untyped::of(&wide).expect("well");
        assert_eq!((of.kind(), of.value_offset(), of.len()), (Kind::Mutex, 128, 256));
        let guard = wide.lock().expect("free");
        // SAFETY: this thread holds the lock, and the value lies there.
        assert_eq!(unsafe { of.as_ptr().add(128) }.cast_const(), guard.0.as_ptr());
        latch.arrive(1);
        let of = Untyped::of(&latch).expect("well");
        assert_eq!(of.handle::<EmbeddedLatch>(0).expect("there").missing(), 1);
    });
}

#[test]
fn a_named_semaphore_is_as_large_as_it_says() {
    in_a_domain("own-size", |domain| {
        for permits in [2, 70] {
            let name = format!("permits {permits}");
            let ours = Semaphore::options(permits).open_or_create(domain, &name).expect("made");
            let theirs = Untyped::of(&ours).expect("well").semaphore(0).expect("one");
            let _permits = [ours.acquire().expect("free"), ours.acquire().expect("free")];
            assert_eq!(
                (theirs.available_permits(), theirs.max_permits()),
                (permits as usize - 2, permits as usize)
            );
        }
        let ours = Barrier::options(3)
            .when_one_dies(WhenOneDies::Break)
            .open_or_create(domain, "barrier")
            .expect("made");
        let theirs = Untyped::of(&ours).expect("well").barrier(0).expect("one");
        let _seats = [ours.join(), theirs.join(), ours.join()].map(|seat| seat.expect("free"));
        assert!(theirs.join().is_err());
    });
}

#[test]
fn a_ceiling_mutex_is_the_same_from_both_sides() {
    in_a_domain("ceiling", |domain| {
        let eight = ValueType { name: None, size: 8, align: 1 };
        // SAFETY: the file has no name yet, so no other thread reaches it; eight aligned bytes.
        let init = |at: *mut u8| unsafe { *at.cast::<u64>() = 77 };
        let there = Untyped::ceiling_lock(domain, "ours", OPENING, 40, eight, init).expect("made");
        assert_eq!(there.ceiling_mutex(0).expect("one").ceiling(), 40);
        let theirs =
            CeilingMutex::<u64>::options(40, 0).open_or_create(domain, "ours").expect("the same");
        // Without the right to run at 40 this locks nothing; the value lies where Rust's does.
        if let Ok(value) = theirs.lock() {
            assert_eq!(*value, 77);
            assert!(there.ceiling_mutex(0).expect("one").holder().is_some());
        }
        // SAFETY: the value lies inside the file; no thread writes it.
        assert_eq!(unsafe { *there.as_ptr().add(there.value_offset()).cast::<u64>() }, 77);
        let other = Untyped::ceiling_lock(domain, "ours", OPENING, 41, eight, init);
        assert!(matches!(other, Err(Error::OtherOptions { .. })));
        for wrong in [0, 100] {
            let other = Untyped::ceiling_lock(domain, "ours", OPENING, wrong, eight, init);
            assert!(matches!(other, Err(Error::InvalidOption { .. })), "{wrong}");
        }
        let other = Untyped::ceiling_lock(
            domain,
            "ours",
            OPENING,
            40,
            ValueType { size: 9, ..eight },
            init,
        );
        assert!(matches!(other, Err(Error::OtherType { .. })));
        drop(
            CeilingMutex::<[u32; 2]>::options(7, [1, 2])
                .open_or_create(domain, "rusts")
                .expect("made"),
        );
        let rusts =
            Untyped::ceiling_lock(domain, "rusts", OPENING, 7, eight, init).expect("the same");
        assert!(rusts.semaphore(0).is_none() && rusts.ceiling_mutex(0).is_some());
    });
}

#[test]
fn what_is_not_recoverable_is_taken_to_be_reset() {
    in_a_domain("reset", |domain| {
        let mutex = Mutex::<u64>::options(0).open_or_create(domain, "mutex").expect("open");
        let holder = std::thread::spawn({
            let mutex = Mutex::<u64>::options(0).open_or_create(domain, "mutex").expect("open");
            move || mutex.lock().expect("free").into_raw()
        });
        holder.join().expect("ended");
        let Err(LockError::OwnerDied(guard)) = mutex.lock() else {
            panic!("its owner's thread ended")
        };
        guard.mark_not_recoverable();
        assert!(matches!(mutex.lock(), Err(LockError::Failed(AcquireError::NotRecoverable))));
        drop(mutex.lock_to_reset().expect("taken"));
        assert!(
            matches!(mutex.lock(), Err(LockError::Failed(AcquireError::NotRecoverable))),
            "nobody marked it consistent"
        );
        let mut guard = mutex.lock_to_reset().expect("taken");
        *guard = 5;
        guard.mark_consistent();
        drop(guard);
        assert_eq!(*mutex.lock().expect("whole again"), 5);
    });
}

#[test]
fn a_guard_goes_through_its_raw_form_and_no_other_thread_takes_it() {
    in_a_domain("raw", |domain| {
        let mutex = Mutex::<u64>::options(0).open_or_create(domain, "mutex").expect("open");
        let raw = mutex.lock().expect("free").into_raw();
        std::thread::scope(|scope| {
            // SAFETY: the number came from a guard of this mutex.
            scope.spawn(|| assert!(unsafe { mutex.guard_from_raw(raw) }.is_none()));
            // SAFETY: 0 is no guard's number. The thread has no token yet, and its number is 0
            // as well.
            scope.spawn(|| assert!(unsafe { mutex.guard_from_raw(0) }.is_none()));
        });
        assert!(mutex.holder().is_some());
        assert!(
            matches!(mutex.try_lock(), Err(LockError::Failed(AcquireError::Deadlock))),
            "it is held still"
        );
        // SAFETY: the number came from a guard of this mutex, and is used once.
        *unsafe { mutex.guard_from_raw(raw) }.expect("ours") += 1;
        assert_eq!((mutex.holder(), *mutex.lock().expect("free")), (None, 1));
    });
}
