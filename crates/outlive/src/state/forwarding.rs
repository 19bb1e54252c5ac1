//! What a gateway asks for, which carries a state's values to another machine and writes there in the
//! name of a writer elsewhere. Hidden: its users are the bridges of this repository.
//!
//! | a gateway dies, or is stopped | what others see | repaired by |
//! | --- | --- | --- |
//! | anywhere in `set_foreign` | as in a set (write.rs): the mark is in the buffer with the value | |
//! | in `disown`, between `inside` = 0 and `holder` = died | its process is dead: its readers are told that. Stopped: it still writes | |
//! | in `instance` | the number is there, or not: the next gateway gives one | |

use std::cell::Cell;

use super::layout::FOREIGN;
use super::state::{State, Writer};
use crate::claim::RoleState;
use crate::shim::Ordering;
use crate::sys::robust::WakeRelay;
use crate::{Deadline, Error, SendError, TokenId};

/// What has become of a state's writer.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriterIs {
    /// None has come, or the last one has left in order.
    Nobody,
    /// That process writes.
    Living(TokenId),
    /// It died, and none has taken its place.
    Dead,
}

/// A state at some moment: what its writer has set by then, and what has become of that.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The version of the latest value.
    pub version: u64,
    /// Its writer.
    pub writer: WriterIs,
}

impl Writer<[u8]> {
    /// Sets the value in the name of a writer elsewhere, and returns its version.
    ///
    /// # Errors
    /// The errors of [`Writer::set`].
    #[doc(hidden)]
    pub fn set_foreign(&mut self, bytes: &[u8]) -> Result<u64, SendError> {
        if let Some(wanted) = self.raw.inner.buffers.wanted_length(bytes.len()) {
            let (len, wanted) = (bytes.len() as u64, wanted as u64);
            return Err(SendError::OtherLength { len, wanted });
        }
        self.raw.set_marked(bytes, FOREIGN)
    }

    /// Leaves as this process's death would: waiters are told
    /// [`Change::WriterDied`](super::Change::WriterDied). For a writer that stood for one elsewhere,
    /// which has died or is out of reach.
    #[doc(hidden)]
    pub fn disown(self) {
        self.raw.disown();
    }
}

impl State<[u8]> {
    /// Returns the state's number, which no other one has, nor a later one of its name; it is
    /// `fresh`, a random number other than 0, if the state has none yet.
    #[doc(hidden)]
    #[must_use]
    pub fn instance(&self, fresh: u64) -> u64 {
        let word = &self.inner.buffers.head().instance;
        // Relaxed: the number stands for itself. Two that give one: the first counts for both.
        match word.compare_exchange(0, fresh, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => fresh,
            Err(there) => there,
        }
    }

    /// Returns the latest value, its version, and whether a gateway has set it.
    ///
    /// # Errors
    /// The errors of [`State::get`].
    #[doc(hidden)]
    pub fn get_marked(&self) -> Result<(Vec<u8>, u64, bool), Error> {
        let mut value = Vec::with_capacity(self.inner.buffers.capacity());
        let (version, len, is_foreign) = self.read_marked(value.as_mut_ptr(), usize::MAX)?;
        // SAFETY: `read_marked` has written `len` bytes, for which there is room.
        unsafe { value.set_len(len) };
        Ok((value, version, is_foreign))
    }

    /// Returns the latest value's version, and whether a gateway has set it.
    ///
    /// # Errors
    /// The errors of [`State::get`].
    #[doc(hidden)]
    pub fn latest_mark(&self) -> Result<(u64, bool), Error> {
        let mut none = [0_u8; 0];
        let (version, _, is_foreign) = self.read_marked(none.as_mut_ptr(), 0)?;
        Ok((version, is_foreign))
    }

    /// Copies the latest value to `to`, if `most` is not 0, where there has to be room for the capacity.
    fn read_marked(&self, to: *mut u8, most: usize) -> Result<(u64, usize, bool), Error> {
        let capacity = self.inner.buffers.capacity().min(most);
        let mark = Cell::new(false);
        // Both from the buffer whose stamp is compared behind them: of one value.
        let len_of = |buffer: super::buffers::Buffer<'_>| {
            mark.set(buffer.len.load(Ordering::Relaxed) & FOREIGN != 0);
            if most == 0 { Some(0) } else { Some(buffer.len()).filter(|len| *len <= capacity) }
        };
        // SAFETY: the two callers have room for as many bytes as `len_of` returns: the capacity, or none.
        let (version, len) = unsafe { self.inner.read(to, len_of)? };
        Ok((version, len, mark.get()))
    }

    /// Waits until the state is another than `seen`, or the deadline has passed; returns how it is.
    ///
    /// # Errors
    /// [`Error::NoToken`] and errors of the system.
    #[doc(hidden)]
    pub fn other_than(&self, seen: Option<Seen>, deadline: Deadline) -> Result<Seen, Error> {
        let inner = &*self.inner;
        let me = inner.registry.me()?;
        let changes = &inner.buffers.head().changes;
        let relay = WakeRelay::begin(me.list());
        loop {
            let ticket = changes.prepare_wait();
            // The writer first: what a dead one has set is in the version.
            let standing = inner.role().standing();
            let version = inner.version();
            let writer = match standing.state {
                RoleState::Nobody => WriterIs::Nobody,
                RoleState::Dead => WriterIs::Dead,
                // A dead process's last thread still may write.
                RoleState::Living(owner) => {
                    WriterIs::Living(inner.role().holder().unwrap_or(owner))
                }
            };
            let now = Seen { version, writer };
            if Some(now) != seen || deadline.has_passed() {
                return Ok(now);
            }
            let watch = [changes.watch(ticket)];
            let slept = inner.role().sleep(&relay, &watch, standing, ticket.until(deadline));
            slept.map_err(|errno| Error::from_errno("wait in", inner.registry.path(), errno))?;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Domain;
    use crate::state::Change;

    const LONG: Duration = Duration::from_secs(60);

    fn with_state(name: &str, test: impl FnOnce(&Domain, &State)) {
        let folder = std::env::temp_dir().join(format!("outlive-{name}-{}", std::process::id()));
        let domain = Domain::open_or_create_at(&folder).expect("opens");
        let options = State::<[u8]>::options().capacity(100);
        test(&domain, &options.open_or_create(&domain, "s").expect("made"));
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn a_value_says_whether_a_gateway_has_set_it() {
        with_state("state-marked", |domain, state| {
            assert_eq!(state.latest_mark(), Ok((1, false)));
            let mut writer = state.writer().expect("none");
            writer.set_foreign(b"there").expect("set");
            assert_eq!(state.get_marked(), Ok((b"there".to_vec(), 2, true)));
            assert_eq!((state.latest_mark(), state.get()), (Ok((2, true)), Ok(b"there".to_vec())));
            writer.set(b"here").expect("set");
            assert_eq!(state.get_marked(), Ok((b"here".to_vec(), 3, false)));
            writer.set_foreign(b"").expect("set");
            assert_eq!(state.get_marked(), Ok((Vec::new(), 4, true)));
            assert!(writer.set_foreign(&[0; 101]).is_err());
            // Of a fixed size.
            let level = State::<u64>::open_or_create(domain, "level").expect("made");
            let bytes = State::open_as_bytes(domain, "level").expect("there");
            let mut writer = bytes.writer().expect("none");
            assert!(writer.set_foreign(&[0; 7]).is_err());
            writer.set_foreign(&7_u64.to_ne_bytes()).expect("set");
            assert_eq!((level.get(), bytes.latest_mark()), (Ok(7), Ok((2, true))));
        });
    }

    #[test]
    fn readers_of_a_disowned_state_are_told_that_its_writer_died() {
        with_state("state-disowned", |_, state| {
            let mut watch = state.watch();
            let mut writer = state.writer().expect("none");
            let version = writer.set_foreign(b"last").expect("set");
            std::thread::scope(|scope| {
                let told = scope.spawn(|| {
                    assert_eq!(watch.changed_timeout(LONG), Ok(Some(Change::Value { version })));
                    watch.changed_timeout(LONG)
                });
                std::thread::sleep(Duration::from_millis(50));
                writer.disown();
                assert_eq!(
                    told.join().expect("returned"),
                    Ok(Some(Change::WriterDied { version }))
                );
            });
            // The place is free, and its next writer's values are told.
            let mut next = state.try_wait_to_write().expect("free").expect("free");
            let version = next.set(b"next").expect("set");
            assert_eq!(watch.changed_timeout(LONG), Ok(Some(Change::Value { version })));
            drop(next);
            assert_eq!(watch.try_changed(), Ok(None));
        });
    }

    #[test]
    fn a_gateway_is_told_of_values_and_of_writers_that_come_leave_and_die() {
        with_state("state-other", |_, state| {
            let look = |seen| state.other_than(Some(seen), Deadline::after(LONG)).expect("looks");
            let at_first = state.other_than(None, Deadline::NEVER).expect("looks");
            assert_eq!(at_first, Seen { version: 1, writer: WriterIs::Nobody });
            let soon = Deadline::after(Duration::from_millis(20));
            assert_eq!(state.other_than(Some(at_first), soon).expect("looks"), at_first);
            let (send, mut writers) = std::sync::mpsc::channel();
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    std::thread::sleep(Duration::from_millis(50));
                    send.send(state.writer().expect("none")).expect("read");
                });
                let came = look(at_first);
                assert!(matches!(came.writer, WriterIs::Living(_)));
                let mut writer = writers.recv().expect("sent");
                let (send, next) = std::sync::mpsc::channel();
                writers = next;
                scope.spawn(move || {
                    std::thread::sleep(Duration::from_millis(50));
                    writer.set(b"2").expect("set");
                    send.send(writer).expect("read");
                });
                let set = look(came);
                assert_eq!((set.version, set.writer), (2, came.writer));
                let writer = writers.recv().expect("sent");
                scope.spawn(move || {
                    std::thread::sleep(Duration::from_millis(50));
                    writer.disown();
                });
                assert_eq!(look(set), Seen { version: 2, writer: WriterIs::Dead });
            });
        });
    }

    #[test]
    fn a_state_has_one_number_for_good() {
        with_state("state-number", |domain, state| {
            assert_eq!((state.instance(7), state.instance(8)), (7, 7));
            let again = State::open_as_bytes(domain, "s").expect("there");
            assert_eq!(again.instance(9), 7);
        });
    }
}
