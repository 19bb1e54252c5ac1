//! loom's litmus tests of spans that change hands. The words, the generations and the counts are
//! the code of heap/span.rs; each test repeats the steps of the function that it names.
//! proof/models/weak-memory.md has the table.
//!
//! The main thread makes the changes and starts the thread that looks. The other way round, loom
//! would not try all orders: it remembers only the last access to each word, and a thread that
//! changes a span's word has just loaded the word.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

use super::span::{Span, Use};
use crate::shim::explore_all;

const ME: u32 = 3;
const CLASS: u32 = 12;
const LATER: u32 = 20;

/// Two spans of a pool.
#[derive(Default)]
struct World {
    spans: [Span; 2],
    used: AtomicU32,
    /// The first span's tag.
    tag: AtomicU32,
    /// The first object's page: written by the thread that makes the page, read by a thread that
    /// finds the object.
    page: UnsafeCell<u32>,
}

// SAFETY: loom checks the accesses to `page`; the tests show that no two of them race.
unsafe impl Sync for World {}
// SAFETY: loom checks the accesses to `page`, as for `Sync`; the rest is atomics.
unsafe impl Send for World {}

impl World {
    /// `Heap::extend` of a new span: `prepare`, then its first objects.
    fn extend(&self) {
        let span = &self.spans[0];
        let Some(mine) = span.change(span.word(), Use::Taking(ME)) else { return };
        // `grow_tags`
        self.used.fetch_max(1, Ordering::Release);
        span.begin(mine);
        let Some(word) = span.change(mine, Use::Class(CLASS)) else { return };
        let Some(frontier) = span.frontier(word) else { return };
        // SAFETY: loom checks it.
        self.page.with_mut(|page| unsafe { *page = 1 });
        span.advance(frontier, 4);
    }
}

fn beside(
    world: &Arc<World>,
    other: impl FnOnce(&World) + Send + 'static,
) -> thread::JoinHandle<()> {
    let world = Arc::clone(world);
    thread::spawn(move || other(&world))
}

/// `Heap::scan` beside `Heap::extend`: a thread that reads a count of objects of the same
/// generation as the span's word sees the objects' pages.
#[test]
fn loom_span_who_counts_objects_finds_their_pages() {
    explore_all(|| {
        let world = Arc::new(World::default());
        let looking = beside(&world, |world| {
            let span = &world.spans[0];
            let word = span.word();
            if word.what() == Use::Class(CLASS)
                && span.frontier(word).is_some_and(|frontier| frontier.count() > 0)
            {
                // SAFETY: loom checks it.
                assert_eq!(world.page.with(|page| unsafe { *page }), 1);
            }
        });
        world.extend();
        looking.join().unwrap();
    });
}

/// `used_spans`: a span that is counted has been taken.
#[test]
fn loom_span_what_is_counted_has_been_taken() {
    explore_all(|| {
        let world = Arc::new(World::default());
        let looking = beside(&world, |world| {
            if world.used.load(Ordering::Acquire) == 1 {
                assert_ne!(world.spans[0].what(), Use::Free);
            }
        });
        world.extend();
        looking.join().unwrap();
    });
}

/// A thread in `Heap::extend` or `Heap::reclaim` is stopped between its look and its exchange,
/// while another thread takes the span apart and prepares it for another class: the first thread
/// changes nothing of the span's later generation.
#[test]
fn loom_span_a_look_at_an_earlier_generation_changes_nothing() {
    explore_all(|| {
        let world = Arc::new(World::default());
        world.extend();
        let growing = beside(&world, |world| {
            let span = &world.spans[0];
            let word = span.word();
            if word.what() == Use::Class(CLASS)
                && let Some(frontier) = span.frontier(word)
                && span.advance(frontier, 1)
            {
                assert_eq!(frontier.count(), 4, "of the generation that was seen");
            }
        });
        let span = &world.spans[0];
        let word = span.word();
        let frontier = span.frontier(word).expect("of this generation");
        if span.shut(frontier) {
            let mine = span.change(word, Use::Taking(ME)).expect("shut by us");
            span.begin(mine);
            span.change(mine, Use::Class(LATER)).expect("taken by us");
        }
        growing.join().unwrap();
    });
}

/// `Heap::found_run`: a thread that sees the word of one of the run's spans sees the run's length
/// and its object's owner.
#[test]
fn loom_span_who_sees_a_run_sees_its_length_and_its_owner() {
    explore_all(|| {
        let world = Arc::new(World::default());
        let looking = beside(&world, |world| {
            let [first, second] = &world.spans;
            let word = first.word();
            if word.what() == Use::Run(0) {
                assert_eq!(first.spans.load(Ordering::Relaxed), 2);
                assert_eq!(second.what(), Use::Run(0));
            }
            if word.what() == Use::Run(0) || second.what() == Use::Run(0) {
                assert_eq!(
                    world.tag.load(Ordering::Relaxed),
                    ME,
                    "from the first word on, the run is its object's"
                );
            }
        });
        let [first, second] = &world.spans;
        let mine =
            [first, second].map(|span| span.change(span.word(), Use::Taking(ME)).expect("free"));
        first.spans.store(2, Ordering::Release);
        first.begin(mine[0]);
        world.tag.store(ME, Ordering::Release);
        world.used.fetch_max(2, Ordering::Release);
        second.change(mine[1], Use::Run(0)).expect("ours");
        first.change(mine[0], Use::Run(0)).expect("ours");
        looking.join().unwrap();
    });
}
