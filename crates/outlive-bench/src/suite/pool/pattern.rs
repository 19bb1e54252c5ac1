//! Which worker takes and gives back, and when.

use super::allocator::Heap;
use super::ring::Ring;
use super::{Pattern, Touch, Work};
use crate::harness::clock;
use crate::harness::crew;
use crate::harness::error::Error;
use crate::harness::shared::{Board, MOST_WORKERS, ZeroShared};
use std::hint;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Between the first bytes of two pages.
const PAGE: usize = 4096;
/// A worker tries before it times so much of what it will time: caches fill, and pages come.
const TRIED: u64 = 4;
/// How often `flush` is called beside the random mix; `gc` every tenth time.
const FLUSHED_EVERY: Duration = Duration::from_millis(1);

/// The rings between processes, a pair of workers each.
#[repr(C)]
pub(super) struct Rings([Ring<(u64, u8)>; MOST_WORKERS / 2]);

// SAFETY: so are the rings.
unsafe impl ZeroShared for Rings {}

/// What one process has to do in a turn.
#[derive(Clone, Copy)]
pub(super) struct Part<'turn> {
    pub(super) work: Work,
    /// Objects that each worker takes and gives back.
    pub(super) share: u64,
    pub(super) board: &'turn Board,
    pub(super) rings: &'turn Rings,
    /// The number of its first worker, and how many it has.
    pub(super) first: usize,
    pub(super) threads: usize,
}

/// What the threads of a process know of each other.
struct Ensemble {
    /// One has failed, so no worker may wait for it.
    stopped: AtomicBool,
    /// Why; the first to fail says.
    why: Mutex<Option<Error>>,
    /// All workers have ended.
    over: AtomicBool,
}

impl Ensemble {
    /// Spins, then lets others run: there may be more workers than cores.
    fn wait(&self, ready: impl Fn() -> bool) -> Result<(), Error> {
        let mut spun = 0;
        while !ready() {
            if self.stopped.load(Ordering::Relaxed) {
                return Err(Error::Child("another worker has failed".into()));
            }
            if spun < 64 {
                spun += 1;
                hint::spin_loop();
            } else {
                thread::yield_now();
            }
        }
        Ok(())
    }

    fn note(&self, ended: Result<(), Error>) {
        if let Err(error) = ended {
            let mut why = self.why.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            why.get_or_insert(error);
            self.stopped.store(true, Ordering::Relaxed);
        }
    }
}

impl Part<'_> {
    /// Does it, in threads of this process, one for each worker.
    pub(super) fn play<H: Heap>(
        &self,
        heap: &H,
        core: impl Fn(usize) -> Option<usize> + Send + Copy,
    ) -> Result<(), Error> {
        let together = Ensemble { stopped: false.into(), why: None.into(), over: false.into() };
        // Between threads the objects themselves are handed over.
        let near: Vec<Ring<(H::Object<'_>, u8)>> =
            (0..self.threads / 2).map(|_| Ring::new()).collect();
        thread::scope(|scope| {
            let workers: Vec<_> = (self.first..self.first + self.threads)
                .map(|number| {
                    let (together, ring) = (&together, near.get(number / 2));
                    scope.spawn(move || {
                        let pinned = core(number).map_or(Ok(()), crew::pin);
                        let worker = Worker { heap, part: self, number, ring, together };
                        together.note(pinned.and_then(|()| worker.run()));
                    })
                })
                .collect();
            if self.first == 0 && self.work.pattern == Pattern::Random {
                scope.spawn(|| together.note(tend(heap, &together)));
            }
            for worker in workers {
                let ended =
                    worker.join().map_err(|_| Error::Child("an allocating thread panicked".into()));
                together.note(ended);
            }
            together.over.store(true, Ordering::Relaxed);
        });
        let why = together.why.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        why.map_or(Ok(()), Err)
    }
}

/// Flushes and collects until the workers have ended.
fn tend(heap: &impl Heap, together: &Ensemble) -> Result<(), Error> {
    let mut times = 0_u32;
    while !together.over.load(Ordering::Relaxed) && !together.stopped.load(Ordering::Relaxed) {
        thread::sleep(FLUSHED_EVERY);
        heap.flush()?;
        times += 1;
        if times.is_multiple_of(10) {
            heap.gc()?;
        }
    }
    Ok(())
}

/// A worker, which takes and gives back.
struct Worker<'play, 'heap, H: Heap> {
    heap: &'heap H,
    part: &'play Part<'play>,
    number: usize,
    /// To or from the other one of its pair, if that is a thread of this process.
    ring: Option<&'play Ring<(H::Object<'heap>, u8)>>,
    together: &'play Ensemble,
}

/// An object in use, and what was written into it.
type Marked<'heap, H> = (<H as Heap>::Object<'heap>, u8);

impl<'heap, H: Heap> Worker<'_, 'heap, H> {
    fn run(&self) -> Result<(), Error> {
        let Part { work, share, board, .. } = *self.part;
        // As many objects as there will ever be: so all memory has been touched that will be used.
        let mut held = Vec::with_capacity(work.pattern.held());
        for number in 0..work.pattern.held() {
            held.push(self.take(number as u8)?);
        }
        self.meet(1)?;
        held.drain(..).try_for_each(|object| self.give_back(object))?;
        self.meet(2)?;
        self.operate(&mut held, work.share(share / TRIED * work.workers as u64))?;
        self.meet(3)?;
        let begun = clock::now();
        let done = self.operate(&mut held, share)?;
        board.leave(self.number, [done, begun, clock::now(), 0]);
        held.drain(..).try_for_each(|object| self.give_back(object))
    }

    /// Waits until all workers of all processes have come here.
    fn meet(&self, time: u32) -> Result<(), Error> {
        let (ready, all) = (&self.part.board.ready.0, self.part.work.workers as u32 * time);
        // AcqRel and Acquire: what each set up before is seen by all after.
        ready.fetch_add(1, Ordering::AcqRel);
        self.together.wait(|| ready.load(Ordering::Acquire) >= all)
    }

    /// Does a worker's share of the pattern; returns how many objects it accounts for.
    fn operate(&self, held: &mut Vec<Marked<'heap, H>>, share: u64) -> Result<u64, Error> {
        match self.part.work.pattern {
            Pattern::AllocFree => {
                for number in 0..share {
                    let object = self.take(number as u8)?;
                    self.give_back(object)?;
                }
            }
            Pattern::Batch => {
                let batch = self.part.work.pattern.held() as u64;
                for _ in 0..share / batch {
                    for number in 0..batch {
                        held.push(self.take(number as u8)?);
                    }
                    held.drain(..).try_for_each(|object| self.give_back(object))?;
                }
            }
            Pattern::Random => {
                while held.len() < self.part.work.pattern.held() {
                    held.push(self.take(held.len() as u8)?);
                }
                let mut random = 0x9e37_79b9_7f4a_7c15 ^ (self.number as u64 + 1);
                for number in 0..share {
                    // Marsaglia's xorshift: a few cycles, and no better is needed.
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    let place = (random >> 32) as usize % held.len();
                    self.give_back(held.swap_remove(place))?;
                    held.push(self.take(number as u8)?);
                }
            }
            // Both of a pair account for one half of the objects that pass between them.
            Pattern::HandOver => match self.ring {
                Some(ring) => self.hand_over(ring, share * 2, Ok, Ok)?,
                None => {
                    let ring = &self.part.rings.0[self.number / 2];
                    let offer =
                        |(object, mark): Marked<'heap, H>| Ok((self.heap.offer(object)?, mark));
                    let claim = |(word, mark): (u64, u8)| Ok((self.heap.claim(word)?, mark));
                    self.hand_over(ring, share * 2, offer, claim)?;
                }
            },
        }
        Ok(share)
    }

    /// Hands objects over: the even worker takes and sends; the odd one receives and gives back.
    fn hand_over<T: Send>(
        &self,
        ring: &Ring<T>,
        objects: u64,
        offer: impl Fn(Marked<'heap, H>) -> Result<T, Error>,
        claim: impl Fn(T) -> Result<Marked<'heap, H>, Error>,
    ) -> Result<(), Error> {
        for number in 0..objects {
            if self.number.is_multiple_of(2) {
                let item = offer(self.take(number as u8)?)?;
                self.together.wait(|| ring.has_room())?;
                // SAFETY: the pair's only sender, and there is room.
                unsafe { ring.send(item) };
            } else {
                self.together.wait(|| ring.has_one())?;
                // SAFETY: the pair's only receiver, and there is one.
                self.give_back(claim(unsafe { ring.receive() })?)?;
            }
        }
        Ok(())
    }

    #[inline]
    fn take(&self, mark: u8) -> Result<Marked<'heap, H>, Error> {
        let work = &self.part.work;
        let mut object = self.heap.alloc(work.bytes)?;
        let start = H::start(&mut object);
        let step = if work.touch == Touch::Pages { PAGE } else { work.bytes };
        // A worker's marks differ from its neighbours'.
        let mark = mark ^ ((self.number as u8) << 4);
        for at in (0..work.bytes).step_by(step) {
            // SAFETY: inside the object, which this worker has.
            unsafe { start.add(at).write_volatile(mark) };
        }
        Ok((object, mark))
    }

    #[inline]
    fn give_back(&self, (mut object, mark): Marked<'heap, H>) -> Result<(), Error> {
        // SAFETY: this worker has it, and `take` wrote its first byte.
        let found = unsafe { H::start(&mut object).read_volatile() };
        if found != mark {
            return Err(Error::Wrong(format!(
                "an object held {found} where {mark} was written: two had it at once"
            )));
        }
        self.heap.free(object)
    }
}
