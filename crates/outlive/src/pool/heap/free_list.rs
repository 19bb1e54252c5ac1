//! A list of free objects: one word, which names the thread that has the list locked, and the
//! list's first object.
//!
//! | word {thread, object} | meaning | a death here |
//! | --- | --- | --- |
//! | (0, o) | the list begins at o (0: it is empty) | |
//! | (T, o) | T reads o's link; the list is whole, and begins at o | the next thread takes it over: (T, o) → (me, o) |
//!
//! The old value is beside the locker's name, so there is nothing to repair: a take-over is one
//! compare-exchange, and no thread waits. If a living thread, which may be stopped, has it locked,
//! the next bucket is used.
//!
//! | a free object's link | meaning |
//! | --- | --- |
//! | of the pool's epoch | in a list, or on its way in or out; names the next object |
//! | of another epoch | in no list |
//!
//! Which thread may write a link? That of an object in no list: the holder of its tag. That of an
//! object marked as listed: the pushing thread until its compare-exchange of the word, then the
//! thread that has that list locked, then the one that popped it. A thread that was stopped in a
//! push or a pop while the epoch changed breaks that rule, and a list may lose its end or have a
//! piece of another: a list is a hint. An object's *tag* says whether it is free, and a scan of the
//! tags finds what is in no list.
//!
//! doc/protocols/pool.md, proof/models/head.pml.

use crate::liveness::{Me, TokenId};
use crate::shim::{AtomicU32, AtomicU64, Ordering, Pad64, fence};

/// The most objects that go into a list or out of it at once.
pub(crate) const CLUSTER: usize = 8;
/// Lists for each size.
pub(crate) const BUCKETS: usize = 4;

/// One list, a cache line.
#[derive(Default)]
#[repr(C, align(64))]
pub(crate) struct FreeList {
    /// Bits 0 to 31: the first object's reference plus one, or 0; 32 to 63: the thread that has it
    /// locked, or 0.
    word: AtomicU64,
    /// Counted by the threads that begin at this list, wherever they find and put objects.
    pub(crate) traffic: Traffic,
    reserved: [Pad64; 6],
}

/// How many objects were taken and given back, wrapping: a hint, see `demand.rs`.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Traffic {
    pub(crate) taken: AtomicU32,
    pub(crate) freed: AtomicU32,
}

impl Traffic {
    /// Returns how many are out, by this list's counts alone: other threads may have put back what
    /// was taken here.
    pub(crate) fn out(&self) -> u32 {
        self.taken.load(Ordering::Relaxed).wrapping_sub(self.freed.load(Ordering::Relaxed))
    }
}

crate::shim::assert_layout!(size_of::<FreeList>() == 64);
// SAFETY: all its fields are atomics, for which every bit pattern is valid.
unsafe impl crate::segment::SharedLayout for FreeList {}

/// Where the links of a pool's objects are, and which epoch marks those that are in a list.
pub(crate) trait Links {
    /// Returns an object's link; `None` for a reference that cannot be an object's.
    fn link(&self, reference: u32) -> Option<&AtomicU32>;
    /// From 1 to [`EPOCHS`].
    fn epoch(&self) -> u32;
}

/// Epochs wrap to 1; 0 is never the pool's.
pub(crate) const EPOCHS: u32 = 7;
const EPOCH: u32 = 29;
const NEXT: u32 = (1 << EPOCH) - 1;

fn is_listed(link: u32, epoch: u32) -> bool {
    link >> EPOCH == epoch
}

impl FreeList {
    /// Returns whether a living thread has it locked.
    fn is_locked(seen: u64, me: Me) -> bool {
        TokenId::from_word((seen >> 32) as u32).is_some_and(|id| me.is_alive(id))
    }

    /// Locks the list, if no living thread has it locked, and returns where it begins. It takes the
    /// lock over from a dead thread.
    fn lock(&self, me: Me, seen: u64) -> Option<u32> {
        if FreeList::is_locked(seen, me) {
            return None;
        }
        let mine = u64::from(me.id.as_u32()) << 32 | seen & u64::from(u32::MAX);
        // Acquire pairs with `unlock` and `push`: the links behind it are seen. A death just after:
        // (dead, o), as before.
        self.word.compare_exchange(seen, mine, Ordering::Acquire, Ordering::Relaxed).ok()?;
        Some(seen as u32)
    }

    /// Unlocks the list, which begins there now.
    fn unlock(&self, first: u32) {
        // Release pairs with `lock`. A death just before: the list still has what this thread read
        // out of it, which is still free.
        self.word.store(u64::from(first), Ordering::Release);
    }

    /// Takes objects out of the list, as many as `out` has room for; returns how many. The caller
    /// has yet to take their tags.
    pub(crate) fn pop(&self, me: Me, links: &dyn Links, out: &mut [u32]) -> usize {
        // Relaxed: `lock` looks again.
        let seen = self.word.load(Ordering::Relaxed);
        if seen as u32 == 0 {
            return 0;
        }
        let Some(mut next) = self.lock(me, seen) else { return 0 };
        let epoch = links.epoch();
        let mut passed = [None; CLUSTER];
        let mut popped = 0;
        while popped < out.len().min(CLUSTER) && next != 0 {
            let Some(link) = links.link(next - 1) else {
                // No object any more, or damaged: a scan of tags finds the rest.
                next = 0;
                break;
            };
            (out[popped], passed[popped]) = (next - 1, Some(link));
            popped += 1;
            // Relaxed: `lock` has acquired what was pushed.
            let link = link.load(Ordering::Relaxed);
            next = if is_listed(link, epoch) { link & NEXT } else { 0 };
        }
        self.unlock(next);
        // A death just after: free objects that are in no list and are marked as if they were. A
        // scan of tags finds them.
        for link in passed.iter().flatten() {
            // Relaxed: the fence orders it before the tags.
            link.store(0, Ordering::Relaxed);
        }
        if popped > 0 {
            // Pairs with the fence in `free_listed`: this thread unmarks and then tries the tag;
            // the tag's holder frees it and then looks at the mark (store buffering). One of the
            // two sees the other, and takes the object.
            fence(Ordering::SeqCst);
        }
        popped
    }

    /// Puts free objects before the list, which are linked to each other and marked; `last` is the
    /// last one's link.
    fn push(&self, me: Me, epoch: u32, first: u32, last: &AtomicU32) -> bool {
        let seen = self.word.load(Ordering::Relaxed);
        if FreeList::is_locked(seen, me) {
            return false;
        }
        last.store(epoch << EPOCH | seen as u32 & NEXT, Ordering::Relaxed);
        // Release pairs with `lock`: the links are seen. From the exact word: no thread has popped
        // or pushed since, or the same list is there again, which is as good. A death just before:
        // free objects, marked and in no list.
        let new = u64::from(first + 1);
        self.word.compare_exchange(seen, new, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Empties the list, unless a living thread has it locked. A scan of tags finds what was in it.
    pub(crate) fn empty(&self, me: Me) {
        let seen = self.word.load(Ordering::Relaxed);
        if seen != 0 && !FreeList::is_locked(seen, me) {
            let _ = self.word.compare_exchange(seen, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Removes a dead locker's name; returns whether there was one.
    pub(crate) fn sweep(&self, me: Me, dry_run: bool) -> bool {
        let seen = self.word.load(Ordering::Relaxed);
        if seen >> 32 == 0 || FreeList::is_locked(seen, me) {
            return false;
        }
        // Relaxed: links come with `lock`, from the thread that wrote them, as a chain of exchanges
        // on this word.
        dry_run
            || self
                .word
                .compare_exchange(
                    seen,
                    seen & u64::from(u32::MAX),
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                )
                .is_ok()
    }
}

/// Takes objects out of the first list, from `home` on, that has any and that no thread has locked.
pub(crate) fn pop_any(
    lists: &[FreeList; BUCKETS],
    home: usize,
    me: Me,
    links: &dyn Links,
    out: &mut [u32],
) -> usize {
    (0..BUCKETS)
        .map(|turn| lists[(home + turn) % BUCKETS].pop(me, links, out))
        .find(|&popped| popped > 0)
        .unwrap_or(0)
}

/// The tags of the objects of a push.
pub(crate) trait Tags {
    /// Frees the object.
    fn free(&mut self, reference: u32);
    /// Takes the object back from free to held by the calling thread; returns whether that
    /// succeeded.
    fn take_back(&mut self, reference: u32) -> bool;
}

/// How often an object is taken back, and found in a list again: each time other threads have had
/// it in between.
const TRIES: usize = 3;

/// Frees an object that is in a list already, because it was found by its tag, or was marked by a
/// thread that died. Returns `false` when it is in no list any more, and belongs to the caller
/// again: another thread has popped it, and skipped it because the caller had the tag.
#[cold]
fn free_listed(link: &AtomicU32, epoch: u32, reference: u32, tags: &mut dyn Tags) -> bool {
    for _ in 0..TRIES {
        tags.free(reference);
        // Pairs with the fence in `pop`. A death just after: free, and perhaps in no list, where a
        // scan finds it.
        fence(Ordering::SeqCst);
        if is_listed(link.load(Ordering::Relaxed), epoch) || !tags.take_back(reference) {
            return true;
        }
        // This thread has it again. Others may have had it in between, and have put it into a list.
        if !is_listed(link.load(Ordering::Relaxed), epoch) {
            return false;
        }
    }
    tags.free(reference);
    true
}

/// Puts free objects, at most [`CLUSTER`], into the first list, from `home` on, that no thread has
/// locked. The caller holds their tags.
pub(crate) fn push_all(
    lists: &[FreeList; BUCKETS],
    home: usize,
    me: Me,
    links: &dyn Links,
    references: &[u32],
    tags: &mut dyn Tags,
) {
    let epoch = links.epoch();
    let (mut first, mut last) = (0, None);
    let (mut pushed, mut count) = ([0; CLUSTER], 0);
    // Backwards, so that each one's next is known.
    for &reference in references.iter().rev() {
        let link = links.link(reference).filter(|_| count < CLUSTER);
        let Some(link) = link else {
            tags.free(reference);
            continue;
        };
        if is_listed(link.load(Ordering::Relaxed), epoch)
            && free_listed(link, epoch, reference, tags)
        {
            continue;
        }
        // The last one's link is written once its successor is known.
        link.store(epoch << EPOCH | first, Ordering::Relaxed);
        first = reference + 1;
        last = last.or(Some(link));
        pushed[count] = reference;
        count += 1;
    }
    // A death from here on: free objects, marked and in no list.
    for &reference in pushed[..count].iter().rev() {
        tags.free(reference);
    }
    let Some(last) = last else { return };
    for turn in 0..BUCKETS {
        if lists[(home + turn) % BUCKETS].push(me, epoch, first - 1, last) {
            return;
        }
    }
    // All lists are locked, by living threads: the objects stay in no list. This thread still has
    // to remove the marks.
    last.store(epoch << EPOCH, Ordering::Relaxed);
    let mut next = first;
    for _ in 0..count {
        let Some(link) = next.checked_sub(1).and_then(|reference| links.link(reference)) else {
            break;
        };
        next = link.load(Ordering::Relaxed) & NEXT;
        link.store(0, Ordering::Relaxed);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;
    use crate::liveness::{Registry, Slot};
    use crate::sys::robust::{ListHead, end_thread};

    /// Objects as tags and links; a tag is 0 or its holder's id.
    struct World {
        registry: Registry,
        lists: [FreeList; BUCKETS],
        links: Vec<AtomicU32>,
        tags: Vec<AtomicU32>,
        epoch: AtomicU32,
    }

    impl Links for World {
        fn link(&self, reference: u32) -> Option<&AtomicU32> {
            self.links.get(reference as usize)
        }

        fn epoch(&self) -> u32 {
            self.epoch.load(Ordering::Relaxed)
        }
    }

    struct ByThread<'w> {
        world: &'w World,
        thread: u32,
    }

    impl Tags for ByThread<'_> {
        fn free(&mut self, reference: u32) {
            let tag = &self.world.tags[reference as usize];
            assert_eq!(
                tag.load(Ordering::Relaxed),
                self.world.me(self.thread).id.as_u32(),
                "two have it"
            );
            tag.store(0, Ordering::Release);
        }

        fn take_back(&mut self, reference: u32) -> bool {
            self.world.take(self.thread, reference)
        }
    }

    impl World {
        fn me(&self, thread: u32) -> Me<'_> {
            Me {
                registry: &self.registry,
                id: TokenId::new(thread, 0),
                list: core::ptr::null_mut(),
            }
        }

        fn push(&self, thread: u32, references: &[u32]) {
            push_all(
                &self.lists,
                0,
                self.me(thread),
                self,
                references,
                &mut ByThread { world: self, thread },
            );
        }

        fn take(&self, thread: u32, reference: u32) -> bool {
            let mine = self.me(thread).id.as_u32();
            self.tags[reference as usize]
                .compare_exchange(0, mine, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        }

        /// Returns what a thread gets out of the lists.
        fn pop(&self, thread: u32) -> Vec<u32> {
            let mut out = [0; CLUSTER];
            let popped = pop_any(&self.lists, 0, self.me(thread), self, &mut out);
            out[..popped]
                .iter()
                .copied()
                .filter(|&reference| self.take(thread, reference))
                .collect()
        }

        fn die(&self, thread: u32) {
            end_thread(&self.registry.slots[thread as usize], &ListHead::new());
        }

        /// Settles the world by a living thread, while no other runs: each object is free, or a
        /// dead thread's; a list has each at most once. Returns how many are in lists.
        fn settle(&self, thread: u32, dead: &[u32]) -> usize {
            for tag in &self.tags {
                let tag = tag.load(Ordering::Relaxed);
                let id = TokenId::from_word(tag);
                assert!(
                    id.is_none_or(|id| dead.contains(&id.slot())),
                    "held by one who lives and does nothing"
                );
            }
            let mut seen = Vec::new();
            loop {
                let mut out = [0; CLUSTER];
                let popped = pop_any(&self.lists, 0, self.me(thread), self, &mut out);
                if popped == 0 {
                    break;
                }
                seen.extend_from_slice(&out[..popped]);
            }
            let listed = seen.len();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), listed, "twice in the lists");
            listed
        }
    }

    /// Objects `0..objects`, of which the first `listed` are in the first list.
    fn world(threads: u32, objects: u32, listed: u32) -> Arc<World> {
        let list =
            |first: u32| FreeList { word: AtomicU64::new(u64::from(first)), ..FreeList::default() };
        let link = |at: u32| match at {
            at if at + 1 < listed => 1 << EPOCH | (at + 2),
            at if at < listed => 1 << EPOCH,
            _ => 0,
        };
        Arc::new(World {
            registry: Registry::new((0..threads).map(|n| Slot::held_by(n + 100)).collect()),
            lists: [list(u32::from(listed > 0)), list(0), list(0), list(0)],
            links: (0..objects).map(|at| AtomicU32::new(link(at))).collect(),
            tags: (0..objects).map(|_| AtomicU32::new(0)).collect(),
            epoch: AtomicU32::new(1),
        })
    }

    fn explore(test: impl Fn() + Sync + Send + 'static) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(test);
    }

    #[test]
    fn loom_free_list_two_pop_and_push_and_nobody_has_what_another_has() {
        explore(|| {
            let world = world(3, 2, 2);
            let threads = [0, 1].map(|n| {
                let world = Arc::clone(&world);
                thread::spawn(move || {
                    let got = world.pop(n);
                    world.push(n, &got);
                })
            });
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(world.settle(2, &[]), 2, "both are in lists again");
        });
    }

    /// One thread takes by the tag, as a scan does, what the other has popped, or is about to.
    #[test]
    fn loom_free_list_a_look_beside_pop_and_push() {
        explore(|| {
            let world = world(3, 2, 2);
            let popping = {
                let world = Arc::clone(&world);
                thread::spawn(move || {
                    let got = world.pop(0);
                    world.push(0, &got);
                })
            };
            if world.take(1, 0) {
                world.push(1, &[0]);
            }
            popping.join().unwrap();
            assert_eq!(
                world.settle(2, &[]),
                2,
                "what the popper passed over, its holder has put back"
            );
        });
    }

    #[test]
    fn loom_free_list_a_dead_lockers_list_is_whole() {
        explore(|| {
            let world = world(3, 3, 2);
            let dying = {
                let world = Arc::clone(&world);
                thread::spawn(move || {
                    let seen = world.lists[0].word.load(Ordering::Relaxed);
                    world.lists[0].lock(world.me(0), seen);
                    world.die(0);
                })
            };
            assert!(world.take(1, 2));
            world.push(1, &[2]);
            let got = world.pop(1);
            world.push(1, &got);
            dying.join().unwrap();
            assert_eq!(world.settle(2, &[0]), 3, "nothing is lost with a locker");
        });
    }

    /// A pusher dies when its objects are free and in no list: they are marked, and a scan finds
    /// them.
    #[test]
    fn loom_free_list_what_a_dead_pusher_left_is_free() {
        explore(|| {
            let world = world(3, 2, 1);
            let dying = {
                let world = Arc::clone(&world);
                thread::spawn(move || {
                    if world.take(0, 1) {
                        world.links[1].store(1 << EPOCH, Ordering::Relaxed);
                        world.tags[1].store(0, Ordering::Release);
                    }
                    world.die(0);
                })
            };
            let mut got = world.pop(1);
            if world.take(1, 1) {
                got.push(1);
            }
            world.push(1, &got);
            dying.join().unwrap();
            assert!(world.settle(2, &[0]) >= 1);
            assert!(world.take(2, 1) && world.take(2, 0), "both are free");
        });
    }

    /// The epoch changes beside push and pop: lists may lose objects, and no tag lies.
    #[test]
    fn loom_free_list_an_epoch_ends_beside_pop_and_push() {
        explore(|| {
            let world = world(3, 2, 1);
            let ending = {
                let world = Arc::clone(&world);
                thread::spawn(move || {
                    world.epoch.store(2, Ordering::Relaxed);
                    world.lists.iter().for_each(|list| list.empty(world.me(0)));
                })
            };
            let mut got = world.pop(1);
            if world.take(1, 1) {
                got.push(1);
            }
            world.push(1, &got);
            ending.join().unwrap();
            for tag in &world.tags {
                assert_eq!(tag.load(Ordering::Relaxed), 0);
            }
        });
    }
}
