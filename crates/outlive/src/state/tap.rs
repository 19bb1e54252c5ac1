//! A tap: it reads each value that was set, by another process than the readers, and leaves no trace.
//! Hidden: its user is the recorder of this repository.
//!
//! A state has more buffers than one, written in turn, and a buffer's stamp names the version that lies
//! there. So the values before the latest one are there until their buffers are written again.
//!
//! 1. `latest`: versions up to it have been stamped before.
//! 2. All stamps: the lowest version that is not read yet, up to the latest.
//! 3. Copies that buffer, and compares its stamp, as a reader does (read.rs). Another one: from 1.
//!
//! A version up to the latest that no stamp names has been overwritten: it counts as lost. A stamp beyond the
//! latest is of a value that is not set, or not yet. Of a writer that died before `latest` it stays until there
//! is another writer, which takes it out before it gives another value that version (write.rs).
//!
//! The tap makes no store, and never waits. If it dies or is stopped, no process notices. Model:
//! state_tap.pml.

use std::sync::Arc;

use super::buffers::Buffer;
use super::inner::Inner;
use super::layout::{Latest, MOST_BUFFERS};
use super::state::State;
use crate::Error;
use crate::segment::copy_out;
use crate::shim::{Ordering, fence};

/// How often a copy may be overtaken in one look.
const MOST_TRIES: u32 = 64;

/// See the head of this file.
#[doc(hidden)]
pub struct Tap {
    inner: Arc<Inner>,
    /// The lowest version that is not read yet.
    next: u64,
}

/// A value that a tap has read.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tapped {
    /// Its version.
    pub version: u64,
    /// How many values before it were overwritten unread.
    pub lost: u64,
}

impl State<[u8]> {
    /// Returns a tap that begins with the value of that version.
    #[doc(hidden)]
    #[must_use]
    pub fn tap(&self, next: u64) -> Tap {
        // 0 is none.
        Tap { inner: Arc::clone(&self.inner), next: next.max(1) }
    }
}

impl Tap {
    /// Copies the next value into `value`; `None`: none is there that was not read, or the writer is faster
    /// than each of so many copies.
    ///
    /// # Errors
    /// [`Error::Damaged`]: the next value is passed over. [`Error::NoAddressSpace`].
    pub fn next(&mut self, value: &mut Vec<u8>) -> Result<Option<Tapped>, Error> {
        let buffers = &self.inner.buffers;
        value.clear();
        for _ in 0..MOST_TRIES {
            // Acquire pairs with the Release in `publish`: the stamps up to it, or later ones.
            let latest = Latest(buffers.head().latest.load(Ordering::Acquire));
            let Some((version, buffer)) = self.lowest(latest)? else { return Ok(None) };
            let len = buffer.len();
            let fits = len <= buffers.capacity();
            if fits {
                value.reserve(len);
                // SAFETY: there is room for `len` bytes, which are no more than the buffer holds.
                unsafe { copy_out(buffer.words, value.as_mut_ptr(), len) };
            }
            // Acquire pairs with the Release fence in `fill`: a tap that has read one word of a later
            // value now sees its stamp.
            fence(Ordering::Acquire);
            if buffer.stamp.load(Ordering::Relaxed) != version {
                continue;
            }
            let lost = version - self.next;
            self.next = version + 1;
            if !fits {
                return Err(buffers.segment.damaged("a value's length"));
            }
            // SAFETY: `copy_out` has written `len` bytes, for which there is room.
            unsafe { value.set_len(len) };
            return Ok(Some(Tapped { version, lost }));
        }
        Ok(None)
    }

    /// Does step 2.
    fn lowest(&self, latest: Latest) -> Result<Option<(u64, Buffer<'_>)>, Error> {
        let buffers = &self.inner.buffers;
        if latest.version() < self.next {
            return Ok(None);
        }
        let mut lowest = (latest.version(), buffers.get(latest.buffer())?);
        // Acquire: the buffers exist. The limit keeps a stray write from leading outside.
        let count = buffers.head().count.load(Ordering::Acquire).min(MOST_BUFFERS);
        for index in 0..count {
            let buffer = buffers.get(index)?;
            // Acquire pairs with the Release in `fill`: the value of that stamp, or a later one.
            let stamp = buffer.stamp.load(Ordering::Acquire);
            if (self.next..lowest.0).contains(&stamp) {
                lowest = (stamp, buffer);
            }
        }
        Ok(Some(lowest))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering as StdOrdering};

    use super::*;
    use crate::Domain;

    fn state(name: &str) -> (std::path::PathBuf, State<[u8]>) {
        let folder =
            std::env::temp_dir().join(format!("outlive-tap-{name}-{}", std::process::id()));
        let domain = Domain::open_or_create_at(&folder).expect("opens");
        let state = State::<[u8]>::options().capacity(900).open_or_create(&domain, "state");
        (folder, state.expect("made"))
    }

    #[test]
    fn values_that_are_still_there_are_read_and_the_others_counted() {
        let (folder, state) = state("few");
        let (mut tap, mut value) = (state.tap(0), Vec::new());
        assert_eq!(
            tap.next(&mut value),
            Ok(Some(Tapped { version: 1, lost: 0 })),
            "its first value"
        );
        assert_eq!((value.len(), tap.next(&mut value)), (0, Ok(None)));
        let mut writer = state.writer().expect("none yet");
        let kept = u64::from(state.inner.buffers.head().count.load(Ordering::Relaxed));
        for number in 2..=kept + 6 {
            writer.set(&vec![number as u8; number as usize]).expect("set");
        }
        for version in 7..=kept + 6 {
            let lost = if version == 7 { 5 } else { 0 };
            assert_eq!(tap.next(&mut value), Ok(Some(Tapped { version, lost })));
            assert_eq!(value, vec![version as u8; version as usize]);
        }
        assert_eq!(tap.next(&mut value), Ok(None));
        let mut later = state.tap(kept + 4);
        assert_eq!(later.next(&mut value), Ok(Some(Tapped { version: kept + 4, lost: 0 })));
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    /// The dead writer skipped two buffers that readers had pinned, and died before `latest`. By now the pins
    /// are gone, so that its successor's first two sets take these buffers, and not the dead one's.
    #[test]
    fn a_value_that_was_never_set_is_not_read() {
        let (folder, state) = state("dead");
        let buffers = &state.inner.buffers;
        let mut writer = state.writer().expect("none yet");
        let latest = || Latest(buffers.head().latest.load(Ordering::Relaxed));
        // The pinned ones are the last and the first, so the dead one's has a lower number than its successor's.
        let count = buffers.head().count.load(Ordering::Relaxed);
        while latest().buffer() != count - 2 {
            writer.set(b"before").expect("set");
        }
        let next = latest().next_version();
        state.inner.fill(1, next, b"never set", 0).expect("there");
        drop(writer);
        let mut writer = state.writer().expect("the last one is gone");
        writer.set(b"first").expect("set");
        writer.set(b"second").expect("set");
        let (mut tap, mut value) = (state.tap(next), Vec::new());
        for (version, wanted) in (next..).zip([&b"first"[..], b"second"]) {
            assert_eq!(tap.next(&mut value), Ok(Some(Tapped { version, lost: 0 })));
            assert_eq!(value, wanted);
        }
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn no_value_is_torn_and_all_are_accounted_for() {
        let (folder, state) = state("torn");
        let is_over = AtomicBool::new(false);
        const SETS: u64 = 200_000;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut writer = state.writer().expect("none yet");
                for number in 2..=SETS {
                    writer.set(&[number as u8; 900][..(number % 900) as usize]).expect("set");
                }
                is_over.store(true, StdOrdering::Release);
            });
            let (mut tap, mut value) = (state.tap(0), Vec::new());
            let (mut found, mut lost) = (0, 0);
            loop {
                let ends = is_over.load(StdOrdering::Acquire);
                while let Some(tapped) = tap.next(&mut value).expect("readable") {
                    found += 1;
                    lost += tapped.lost;
                    assert_eq!(tapped.version, found + lost);
                    let len = if tapped.version == 1 { 0 } else { tapped.version % 900 };
                    assert_eq!(value, vec![tapped.version as u8; len as usize]);
                }
                if ends {
                    break;
                }
            }
            assert_eq!(found + lost, SETS);
            assert!(found > 0);
        });
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    /// What a stray write may leave: other versions, lengths, counts.
    #[test]
    fn any_words_lead_to_an_end() {
        let (folder, state) = state("words");
        let mut writer = state.writer().expect("none yet");
        for _ in 0..9 {
            writer.set(&[1; 900]).expect("set");
        }
        let buffers = &state.inner.buffers;
        let mut seed = 1_u64;
        let mut random = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            [0, 1, 7, 9, 900, 901, u64::MAX, 1 << 55, seed, seed >> 40][(seed >> 33) as usize % 10]
        };
        let (mut tap, mut value) = (state.tap(0), Vec::new());
        for _ in 0..20_000 {
            let buffer = buffers.get((random() % 4) as u32).expect("there");
            buffer.stamp.store(random(), Ordering::Relaxed);
            buffer.len.store(random(), Ordering::Relaxed);
            buffers.head().latest.store(random(), Ordering::Relaxed);
            buffers.head().count.store(random() as u32, Ordering::Relaxed);
            for _ in 0..4 {
                let _ = tap.next(&mut value);
                assert!(value.capacity() <= 4096);
            }
            tap = state.tap(random());
        }
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
