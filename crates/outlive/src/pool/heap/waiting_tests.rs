//! A thread that looks for memory while another holds it, and finds none, looks again: told, or
//! after a while.
//!
//! A [`HeapHost`] is asked in the middle of an allocation, while memory is held: there another
//! thread looks.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;

use super::host::{HeapHost, Message};
use super::span::{SPAN, Shape};
use super::{Heap, INDEX_BITS, ObjectRef};
use crate::liveness::Me;
use crate::segment::{Opening, Segment, Spec};
use crate::{Domain, Error, Kind};

pub(super) const CONTROL: u64 = 4096;
pub(super) const LARGE: u64 = 3 << 20;

/// A heap of so many spans in a file of its own.
pub(in crate::pool) struct World {
    folder: PathBuf,
    pub(in crate::pool) domain: Domain,
    pub(super) segment: Segment,
    pub(super) pool: Heap,
}

impl World {
    pub(in crate::pool) fn new(name: &str, spans: u32) -> World {
        let folder = std::env::temp_dir().join(format!("outlive-{name}-{}", std::process::id()));
        let domain = Domain::open_or_create_at(&folder).expect("opens");
        let tags = CONTROL + Heap::control_bytes(spans);
        let first_span = (tags + Shape::QUEUE.tag_bytes(spans)).next_multiple_of(SPAN);
        let spec = Spec {
            kind: Kind::Queue,
            type_name: String::new(),
            type_size: 0,
            type_align: 1,
            reserve: first_span + u64::from(spans) * SPAN,
            max_bytes: 1 << 30,
            initial: CONTROL + Heap::FIRST_CONTROL,
            description: None,
        };
        let segment = domain.open_as("pool", Opening::CreateNew, &spec, |_| Ok(())).expect("made");
        World {
            folder,
            domain,
            segment,
            pool: Heap::new(Shape::QUEUE, CONTROL, tags, first_span, spans),
        }
    }

    pub(super) fn me(&self) -> Me {
        self.domain.me().expect("a token")
    }

    pub(super) fn allocate(&self, len: u64, host: &dyn HeapHost) -> Result<ObjectRef, Error> {
        self.pool.allocate(&self.segment, self.me(), len, host)
    }

    pub(super) fn free(&self, object: &ObjectRef, host: &dyn HeapHost) {
        self.pool.free_held(&self.segment, object, self.me(), host).expect("ours");
    }

    /// What another thread's scan for memory returns: whether it found something, or met something
    /// in other hands.
    fn scan_of_another(&self, len: u64) -> (bool, bool) {
        std::thread::scope(|scope| {
            let looking = scope.spawn(|| {
                let host = Plenty::default();
                let found = self.allocate(len, &host);
                if let Ok(object) = &found {
                    self.free(object, &host);
                }
                (found.is_ok(), host.met.get())
            });
            looking.join().expect("no panic")
        })
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A host with room for everything.
#[derive(Default)]
pub(super) struct Plenty {
    met: Cell<bool>,
    freed: Cell<u32>,
}

impl HeapHost for Plenty {
    fn allows(&self, _: u64) -> bool {
        true
    }

    fn met_in_hand(&self) {
        self.met.set(true);
    }

    fn freed(&self) {
        self.freed.set(self.freed.get() + 1);
    }
}

/// A host with room for so many questions; while a later one is open, another thread looks.
struct Scarce<'w> {
    world: &'w World,
    len: u64,
    yes: Cell<u32>,
    looks: RefCell<Vec<(bool, bool)>>,
    freed: Cell<u32>,
}

impl<'w> Scarce<'w> {
    fn new(world: &'w World, len: u64, yes: u32) -> Scarce<'w> {
        Scarce { world, len, yes: Cell::new(yes), looks: RefCell::default(), freed: Cell::new(0) }
    }
}

impl HeapHost for Scarce<'_> {
    fn allows(&self, _: u64) -> bool {
        let left = self.yes.get();
        self.yes.set(left.saturating_sub(1));
        if left == 0 {
            self.looks.borrow_mut().push(self.world.scan_of_another(self.len));
        }
        left > 0
    }

    fn met_in_hand(&self) {}

    fn freed(&self) {
        self.freed.set(self.freed.get() + 1);
    }
}

/// A host at which a thread that asks once too often ends where it is.
struct Deadly {
    yes: Cell<u32>,
}

impl HeapHost for Deadly {
    fn allows(&self, _: u64) -> bool {
        if self.yes.get() == 0 {
            std::panic::resume_unwind(Box::new("the end"));
        }
        self.yes.set(self.yes.get() - 1);
        true
    }

    fn met_in_hand(&self) {}

    fn freed(&self) {}
}

/// The bytes that are looked up may be no reference at all, and on a full file system the system
/// could not make a page.
#[test]
fn a_look_up_makes_no_page() {
    const SPANS: u32 = 4000;
    let world = World::new("look-up", SPANS);
    let host = Plenty::default();
    // Spans that were used and are holes now, and behind them one that is in use.
    let gone = [300, 1 << 20, LARGE].map(|len| world.allocate(len, &host).expect("room"));
    let mine = world.allocate(LARGE, &host).expect("room");
    gone.iter().for_each(|object| world.free(object, &host));
    assert!(world.pool.reclaim(&world.segment, world.me(), &host).expect("nobody has any"));
    let before = world.segment.facts().expect("known").allocated;
    let places = [0, 1, 2, (1 << INDEX_BITS) - 1];
    let references =
        (0..1 << (32 - INDEX_BITS)).flat_map(|span| places.map(|at| span << INDEX_BITS | at));
    for reference in references {
        let found = world.pool.find_object(&world.segment, reference).expect("readable");
        assert_eq!(found, (reference == mine.reference).then_some(mine), "{reference:#x}");
    }
    assert_eq!(world.segment.facts().expect("known").allocated, before, "a look-up made pages");
}

#[test]
fn a_look_meets_what_a_thread_holds_and_not_what_a_message_has() {
    for len in [100, 1 << 20, LARGE] {
        let world = World::new("held", 2);
        let host = Plenty::default();
        let mut held = Vec::new();
        while let Ok(object) = world.allocate(len, &host) {
            held.push(object);
        }
        assert_eq!(world.scan_of_another(len), (false, true), "{len}: all are held");
        for (position, object) in held.iter().enumerate() {
            world
                .pool
                .enqueue(&world.segment, object, world.me(), 0, position as u64)
                .expect("ours");
        }
        assert_eq!(world.scan_of_another(len), (false, false), "{len}: all are messages");
        let (position, last) = (held.len() as u64 - 1, held.last().expect("some"));
        world.pool.free_queued(&world.segment, last, 0, position).expect("its message's");
        assert_eq!(world.scan_of_another(len), (true, false), "{len}: one is free");
    }
}

#[test]
fn a_look_meets_spans_that_a_thread_takes() {
    for len in [100, 1 << 20, LARGE] {
        let world = World::new("taking", 2);
        let taken = world.pool.take_spans(&world.segment, world.me(), 0, 2).expect("there");
        assert_eq!(taken, None, "all of them");
        assert_eq!(world.scan_of_another(len), (false, true), "{len}");
    }
}

#[test]
fn who_lets_go_tells() {
    let world = World::new("tells", 2);
    let host = Plenty::default();
    let object = world.allocate(100, &host).expect("room");
    assert_eq!(host.freed.get(), 0);
    world.free(&object, &host);
    assert_eq!(host.freed.get(), 1);
    world.free(&object, &host);
    assert_eq!(host.freed.get(), 1, "not ours any more");
}

/// A sender takes a run for which there is no room after all; a thread that looked meanwhile must
/// not sleep on when it lets go.
#[test]
fn what_does_not_fit_in_the_end_was_met_by_who_looked_meanwhile() {
    for yes in 0..3 {
        let world = World::new("fits", 2);
        let host = Scarce::new(&world, LARGE, yes);
        let object = world.allocate(LARGE, &host);
        for (found, met) in host.looks.borrow().iter() {
            assert!(found | met, "{yes}: neither found nor noticed");
        }
        if let Ok(object) = &object {
            world.free(object, &host);
        }
        assert_eq!(world.scan_of_another(LARGE), (true, false), "{yes}: nothing is lost");
    }
}

/// Two that wait on a full file system must not wake one another for ever.
#[test]
fn a_look_that_fails_again_tells_nobody() {
    for len in [100, 1 << 20, LARGE] {
        for yes in 0..3 {
            let world = World::new("again", 4);
            let host = Plenty::default();
            // Some of everything, free: a run too short of pages, a span of another class.
            for some in [300, 2 * SPAN + 4096] {
                let object = world.allocate(some, &host).expect("room");
                world.free(&object, &host);
            }
            let look = || {
                let host =
                    Scarce { looks: RefCell::default(), ..Scarce::new(&world, 1 << 40, yes) };
                let found = world.allocate(len, &host);
                if let Ok(object) = &found {
                    world.pool.enqueue(&world.segment, object, world.me(), 0, 0).expect("ours");
                }
                (found.is_ok(), host.freed.get())
            };
            // The first looks may find something to take apart.
            let looks = [look(), look(), look()];
            if looks.iter().all(|(found, _)| !found) {
                assert_eq!(looks[2], (false, 0), "{len}, {yes}");
            }
        }
    }
}

/// Killed, or refused, before the first page: what was to become a run is found again.
#[test]
fn a_run_without_pages_is_not_lost() {
    let world = World::new("pages", 2);
    let host = Scarce::new(&world, 1 << 40, 1);
    assert!(world.allocate(LARGE, &host).is_err(), "room for a run, none for its pages");
    assert_eq!(world.scan_of_another(LARGE), (true, false));
    let world = World::new("pages-dead", 2);
    std::thread::scope(|scope| {
        let dying =
            scope.spawn(|| world.allocate(LARGE, &Deadly { yes: Cell::new(1) }).map(|_| ()));
        assert!(dying.join().is_err());
    });
    let gone = |_| Message::Gone;
    let found = world.pool.collect(&world.segment, world.me(), false, &gone).expect("collects");
    assert_eq!((found.held, found.in_hand), (1, 0));
    assert_eq!(world.scan_of_another(LARGE), (true, false));
}
