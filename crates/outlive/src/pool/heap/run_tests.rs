//! Runs, where a thread is slow or dies between two steps of another: those of proof/models/run.pml
//! that can be staged here.

use super::host::Message;
use super::span::{SPAN, Use};
use super::tag::Tag;
use super::waiting_tests::{CONTROL, LARGE, Plenty, World};
use super::{INDEX_BITS, ObjectRef};
use crate::Error;
use crate::shim::{AtomicU64, Ordering};

/// The spans' entries begin so far behind the control table's beginning.
const HEADER: u64 = 1024;

/// A thread saw a free run and took its tag, but only after the run had been taken apart; before it
/// looks again, another thread gathers the same spans into a run of the same length, and has it.
#[test]
fn a_run_is_not_also_a_slow_threads() {
    let world = World::new("slow", 2);
    let host = Plenty::default();
    let seen = world.allocate(LARGE, &host).expect("room");
    world.free(&seen, &host);
    assert!(world.pool.reclaim(&world.segment, world.me(), &host).expect("nobody has any"));
    let mine = Tag::Held(world.me().id).encode();
    let tag = world.pool.tag(&world.segment, &seen).expect("there");
    tag.compare_exchange(0, mine, Ordering::Acquire, Ordering::Relaxed).expect("nobody has it");
    std::thread::scope(|scope| {
        let (world, host) = (&world, Plenty::default());
        let another = scope.spawn(move || {
            let object =
                world.allocate(LARGE, &host).expect("a thread that is slow keeps nobody from it");
            assert_eq!(object, seen);
            let theirs = Tag::Held(world.me().id).encode();
            assert!(world.pool.is_still(&world.segment, &object, theirs).expect("readable"));
            world.pool.enqueue(&world.segment, &object, world.me(), 0, 7).expect("its own");
        });
        another.join().expect("no panic");
    });
    assert!(!world.pool.is_still(&world.segment, &seen, mine).expect("readable"), "two have it");
    // Letting go of it frees nothing of the other thread's.
    world.free(&seen, &host);
    let tag = world.pool.tag_of(&world.segment, &seen).expect("readable");
    assert_eq!(tag, Tag::Queued { region: 0, position: 7 });
}

/// A thread saw something free, and takes it only after the span is something else: `take` lets go
/// of it again, whether the span is free by then, or other threads have it for another use.
#[test]
fn what_was_taken_apart_since_it_was_seen_is_not_taken() {
    let world = World::new("stale", 2);
    let host = Plenty::default();
    let take_seen = |seen: &ObjectRef| {
        world.pool.take(&world.segment, seen, world.me(), &host).expect("readable")
    };
    let tag_of = |object: &ObjectRef| world.pool.tag_of(&world.segment, object).expect("readable");
    // A run, and an object of a class whose tag is no run's tag.
    for len in [LARGE, 1000] {
        let before = world.allocate(len, &host).expect("room");
        let seen = if len == LARGE { before } else { world.allocate(len, &host).expect("room") };
        assert!(len == LARGE || seen.tag_at != before.tag_at);
        world.free(&seen, &host);
        if seen != before {
            world.free(&before, &host);
        }
        assert!(take_seen(&seen), "as long as it is there");
        world.free(&seen, &host);
        assert!(world.pool.reclaim(&world.segment, world.me(), &host).expect("nobody has any"));
        assert!(!take_seen(&seen), "{len} bytes of a span that is free");
        assert_eq!(tag_of(&seen), Tag::Free, "and nobody is kept from it");
        // Another length, so that the spans are another object's.
        let other =
            world.allocate(if len == LARGE { 1000 } else { LARGE }, &host).expect("all is free");
        let others = tag_of(&other);
        assert!(!take_seen(&seen), "{len} bytes of what is now {other:?}");
        assert_eq!(tag_of(&other), others, "which is still its owner's");
        world.free(&other, &host);
        assert!(world.pool.reclaim(&world.segment, world.me(), &host).expect("nobody has any"));
    }
}

/// A thread that took a run apart died when its first span was no run any more; then the first span
/// alone becomes one.
#[test]
fn what_the_dead_left_of_a_longer_run_is_found() {
    let world = World::new("longer", 4);
    let host = Plenty::default();
    let whole = world.allocate(4 * SPAN, &host).expect("room");
    world.free(&whole, &host);
    let head = world.pool.span(&world.segment, whole.reference >> INDEX_BITS).expect("there");
    let take_head = || {
        let me = world.me();
        assert!(world.pool.take(&world.segment, &whole, me, &Plenty::default()).expect("readable"));
        head.change(head.word(), Use::Taking(me.id.as_u32())).expect("ours")
    };
    let in_another = |body: &(dyn Fn() + Sync)| {
        std::thread::scope(|scope| scope.spawn(body).join().expect("no panic"));
    };
    // Met before the first span is anything else.
    in_another(&|| {
        take_head();
    });
    let first = world.allocate(SPAN, &host).expect("the first span is free");
    assert_eq!(first.reference, whole.reference);
    let rest = world.allocate(3 * SPAN, &host).expect("the other three are free");
    [first, rest].iter().for_each(|object| world.free(object, &host));
    // Not met by any thread before.
    let again = world.allocate(4 * SPAN, &host).expect("both are taken apart");
    assert_eq!(again.reference, whole.reference);
    world.free(&again, &host);
    in_another(&|| {
        let mine = take_head();
        head.spans.store(1, Ordering::Release);
        head.begin(mine);
        head.change(mine, Use::Run(0)).expect("ours");
    });
    let found = world
        .pool
        .collect(&world.segment, world.me(), false, &|_| Message::There)
        .expect("collects");
    assert_eq!((found.held, found.spans), (1, 3));
    let first = world.allocate(SPAN, &host).expect("the first span is free");
    assert_eq!(first.reference, whole.reference);
    let rest = world.allocate(3 * SPAN, &host).expect("the other three are free");
    assert_eq!(rest.reference >> INDEX_BITS, 1);
    assert!(matches!(world.allocate(SPAN, &host), Err(Error::NoSpace { .. })));
}

/// A process that may not punch holes allocates all the same beside what a dead thread was taking,
/// and collects it.
#[test]
fn what_the_dead_left_is_free_where_no_holes_can_be_punched() {
    let world = World::new("holes", 4);
    let host = Plenty::default();
    let whole = world.allocate(4 * SPAN, &host).expect("room");
    world.free(&whole, &host);
    assert!(world.pool.reclaim(&world.segment, world.me(), &host).expect("nobody has any"));
    std::thread::scope(|scope| {
        let dying = scope.spawn(|| {
            for index in 0..4 {
                let span = world.pool.span(&world.segment, index).expect("there");
                span.change(span.word(), Use::Taking(world.me().id.as_u32())).expect("free");
            }
        });
        dying.join().expect("no panic");
    });
    let living = || {
        deny_holes();
        let host = Plenty::default();
        let small = world.allocate(1000, &host).expect("a span of the dead is free");
        world.free(&small, &host);
        let run = world.allocate(LARGE, &host).expect("spans of the dead are free");
        world.free(&run, &host);
        let found = world
            .pool
            .collect(&world.segment, world.me(), false, &|_| Message::There)
            .expect("collects");
        assert_eq!(found.spans, 1);
    };
    std::thread::scope(|scope| scope.spawn(living).join().expect("no panic"));
}

/// From now on this thread may allocate pages, and punch no holes.
fn deny_holes() {
    let statement = |code: u32, jt, jf, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let (load, equal) =
        (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K);
    let back = libc::BPF_RET | libc::BPF_K;
    // The call's number lies at 0. The lower half of its second argument, which says what is
    // wanted, lies at 24.
    let mut filter = [
        statement(load, 0, 0, 0),
        statement(equal, 0, 2, libc::SYS_fallocate as u32),
        statement(load, 0, 0, 24),
        statement(equal, 0, 1, 0),
        statement(back, 0, 0, libc::SECCOMP_RET_ALLOW),
        statement(back, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EOPNOTSUPP as u32),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program and its filter live until the call returns, which copies them.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program),
            0
        );
    }
}

/// A count of pages that leads behind the run's spans, and a file that is long enough.
#[test]
fn a_damaged_count_of_pages_is_cut_to_the_run() {
    let world = World::new("count", 8);
    let host = Plenty::default();
    let (run, behind) = (
        world.allocate(LARGE, &host).expect("room"),
        world.allocate(4 * SPAN, &host).expect("room"),
    );
    world.free(&run, &host);
    let frontier: &AtomicU64 = world.segment.at(CONTROL + HEADER + 8).expect("there");
    let before = frontier.load(Ordering::Relaxed);
    assert_eq!(before as u32 as u64 * 4096, LARGE, "where it stands");
    for pages in [1024, 1025, 4096, (1 << 20) - 1, u64::from(u32::MAX)] {
        frontier.store(before & !u64::from(u32::MAX) | pages, Ordering::Relaxed);
        match world.allocate(LARGE, &host) {
            Ok(again) => {
                assert!(
                    again.offset != run.offset || again.capacity <= 2 * SPAN,
                    "{pages}: {again:?} and {behind:?}"
                );
                world.free(&again, &host);
            }
            Err(error) => {
                assert!(matches!(error, Error::NoSpace { .. } | Error::Damaged { .. }), "{error}")
            }
        }
    }
}
