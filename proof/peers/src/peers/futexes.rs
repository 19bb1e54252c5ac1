//! Bare futexes, to several subscribers: a floor. A message is its number, and nothing else; as
//! many as the shape's buffer wait for the slowest subscriber. It looks after no death.
//!
//! Each side makes a system call only where another process sleeps. `asleep` and `room_wanted` are
//! counted up before the last look that comes before a sleep, so one of the two sides sees the
//! other (store buffering; all of it is sequentially consistent).

use super::{Publish, Shape, Subscribe, Topic};
use outlive_bench::Error;
use outlive_bench::harness::round::Stage;
use outlive_bench::harness::shared::{Line, MOST_WORKERS, Shared, ZeroShared};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// The row.
pub(crate) struct Futexes;

/// What all processes share.
#[repr(C)]
pub(crate) struct Words {
    /// Messages published; subscribers sleep on it.
    published: Line<AtomicU32>,
    /// Subscribers that sleep, or are about to.
    asleep: Line<AtomicU32>,
    /// The publisher sleeps, or is about to.
    room_wanted: Line<AtomicU32>,
    /// Changes with each take that the publisher waits for; the publisher sleeps on it.
    room: Line<AtomicU32>,
    /// How many subscribers have come.
    joined: Line<AtomicU32>,
    /// What each has taken.
    taken: [Line<AtomicU32>; MOST_WORKERS],
}

// SAFETY: atomics only; zero is a valid value of each, and none points anywhere.
unsafe impl ZeroShared for Words {}

/// The words, and how many messages may wait.
pub(crate) struct Place {
    words: Shared<Words>,
    subscribers: usize,
    buffer: u32,
}

impl Place {
    /// Returns the words of a place that outlives the turn's processes.
    fn words(&self) -> &'static Words {
        let words: *const Words = &*self.words;
        // SAFETY: the mapping is dropped by the parent only, after the processes that call this
        // have ended.
        unsafe { &*words }
    }
}

/// Sleeps while the word has that value.
fn sleep(word: &AtomicU32, value: u32) {
    // SAFETY: a live word, no timeout. EAGAIN and EINTR are ordinary: the caller looks again.
    unsafe {
        libc::syscall(libc::SYS_futex, ptr::from_ref(word), libc::FUTEX_WAIT, value, 0, 0, 0);
    }
}

fn wake(word: &AtomicU32) {
    // SAFETY: a live word; waking touches no memory of ours.
    unsafe {
        libc::syscall(libc::SYS_futex, ptr::from_ref(word), libc::FUTEX_WAKE, i32::MAX, 0, 0, 0);
    }
}

/// The publishing end.
pub(crate) struct Publisher {
    words: &'static Words,
    subscribers: usize,
    buffer: u32,
    published: u32,
}

/// A subscribing end.
pub(crate) struct Subscriber {
    words: &'static Words,
    index: usize,
    taken: u32,
    buffer: u32,
}

impl Topic for Futexes {
    const NAME: &'static str = "futex";
    const IS_FLOOR: bool = true;
    type Place = Place;
    type Publisher = Publisher;
    type Subscriber = Subscriber;

    fn refuses(shape: &Shape) -> Option<String> {
        (shape.subscribers > MOST_WORKERS).then(|| format!("it has room for {MOST_WORKERS}"))
    }

    fn place(_: &Stage, _: &str, shape: Shape) -> Result<Place, Error> {
        let (subscribers, buffer) = (shape.subscribers, shape.buffer as u32);
        Ok(Place { words: Shared::new()?, subscribers, buffer })
    }

    fn publisher(place: &Place) -> Result<Publisher, Error> {
        let Place { subscribers, buffer, .. } = *place;
        Ok(Publisher { words: place.words(), subscribers, buffer, published: 0 })
    }

    fn subscriber(place: &Place) -> Result<Subscriber, Error> {
        let words = place.words();
        let index = words.joined.0.fetch_add(1, SeqCst) as usize;
        Ok(Subscriber { words, index, taken: 0, buffer: place.buffer })
    }
}

impl Publisher {
    fn has_room(&self) -> bool {
        let behind = |taken: &Line<AtomicU32>| self.published.wrapping_sub(taken.0.load(SeqCst));
        self.words.taken[..self.subscribers].iter().all(|taken| behind(taken) < self.buffer)
    }
}

impl Publish for Publisher {
    fn publish(&mut self, _: usize, write: impl FnOnce(&mut [u8])) -> Result<(), Error> {
        while !self.has_room() {
            let room = self.words.room.0.load(SeqCst);
            self.words.room_wanted.0.store(1, SeqCst);
            if !self.has_room() {
                sleep(&self.words.room.0, room);
            }
            self.words.room_wanted.0.store(0, SeqCst);
        }
        write(&mut [0; 8]);
        self.published = self.published.wrapping_add(1);
        self.words.published.0.store(self.published, SeqCst);
        if self.words.asleep.0.load(SeqCst) > 0 {
            wake(&self.words.published.0);
        }
        Ok(())
    }
}

impl Subscribe for Subscriber {
    fn receive<R>(&mut self, read: impl FnOnce(&[u8]) -> R) -> Result<R, Error> {
        let Words { published, asleep, room_wanted, room, taken, .. } = self.words;
        while published.0.load(SeqCst) == self.taken {
            asleep.0.fetch_add(1, SeqCst);
            sleep(&published.0, self.taken);
            asleep.0.fetch_sub(1, SeqCst);
        }
        let read = read(&[0; 8]);
        self.taken = self.taken.wrapping_add(1);
        taken[self.index].0.store(self.taken, SeqCst);
        // Only one that was in the way: a lap behind.
        let behind = published.0.load(SeqCst).wrapping_sub(self.taken);
        if behind + 1 >= self.buffer && room_wanted.0.load(SeqCst) != 0 {
            room.0.fetch_add(1, SeqCst);
            wake(&room.0);
        }
        Ok(read)
    }
}
