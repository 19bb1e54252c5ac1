//! A set of sources to wait for.

use std::collections::VecDeque;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::descriptor::Descriptor;
use super::sections::{MOST_IN_SECTION, Sections};
use super::source_list::SourceList;
use crate::liveness::Registry;
use crate::sys::futex;
use crate::sys::robust::WakeRelay;
use crate::wake::{Readiness, Source, SpinWait};
use crate::{Deadline, Domain, Error, WaitError, WaitStrategy};

/// Identifies a source in a set. One set never gives out a key twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(pub(super) u64);

/// A set spins over so many sources; a larger one sleeps at once.
const FEW: usize = 8;

/// After so long a large set tries again to start its threads: a try may start many before one is
/// refused.
const AFTER_REFUSAL: Duration = Duration::from_secs(1);

/// Waits for any of many sources at once: messages in queues and topics, jobs, requests and replies,
/// clients that want no reply any more, values of states, notices, publishers and subscribers that
/// come and go, room for a publisher, parts of requests, room for a part or a reply of a stream, things and nodes that come and go in a domain, bits of events,
/// latches, the ends of peers, moments.
///
/// Waiting takes nothing: the set reports what is ready, and reports it again as long as it is
/// ready. It may hold any number of sources. A set of more than 100 sleeps on one word for all of
/// its queues and services, if it is one of the first 24 such sets of the domain, and the first that
/// waits for them. Its other sources are watched by threads of this process, one for each 100; so is
/// a set that has more words than the kernel watches at once (128: some 40 peers). They are started
/// by the first wait, are named `outlive-wait`, and otherwise sleep. A set belongs to one domain, and
/// may move between threads.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-set-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::queue::Queue;
/// use outlive::wait::{Timer, WaitSet, Readiness};
/// use std::time::Duration;
///
/// let orders = Queue::<[u8]>::open_or_create(&domain, "orders")?;
/// let bills = Queue::<[u8]>::open_or_create(&domain, "bills")?;
/// let (mut from_orders, from_bills) = (orders.receiver()?, bills.receiver()?);
///
/// let mut set = WaitSet::new(&domain);
/// let an_order = set.add(&from_orders)?;
/// let a_bill = set.add(&from_bills)?;
/// let closing_time = set.add(&Timer::after(Duration::from_secs(3600)))?;
///
/// orders.sender()?.send(b"buy 10")?;
/// for (key, what) in set.wait_timeout(Duration::from_secs(9))? {
///     assert_eq!((key, what), (an_order, Readiness::Readable));
///     assert_eq!(from_orders.try_recv()?.unwrap(), b"buy 10");
/// }
/// assert_eq!(set.try_wait()?.count(), 0);
/// # let _ = (a_bill, closing_time);
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Use the `try_` forms on a ready source: ready means that a try is worth it. A message that a
/// dead sender had begun makes its queue ready once, to be skipped; and another thread may be
/// quicker.
///
/// # If a process dies
/// A process whose end is waited for: its source becomes ready, in all sets. A sender: what it had
/// sent is reported. A process that waits in a set: others are not affected. If a topic's publisher
/// is killed between publishing and waking, *and* then the waiter that the kernel has woken in its
/// place, before it could wake the others: the next publisher wakes these, or they look again by
/// themselves within a second.
pub struct WaitSet {
    pub(super) registry: &'static Registry,
    pub(super) source_list: SourceList,
    /// Of a large set that has waited.
    sections: Option<Sections>,
    /// When its threads could not be started.
    refused_at: Option<Instant>,
    spin_wait: SpinWait,
    next: u64,
    found: VecDeque<(Key, Readiness)>,
    descriptor: Option<Descriptor>,
}

/// Iterates over what is ready: see [`WaitSet::wait`].
pub struct Ready<'a> {
    found: &'a mut VecDeque<(Key, Readiness)>,
}

impl Iterator for Ready<'_> {
    type Item = (Key, Readiness);

    fn next(&mut self) -> Option<(Key, Readiness)> {
        self.found.pop_front()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.found.len(), Some(self.found.len()))
    }
}

impl ExactSizeIterator for Ready<'_> {}

impl fmt::Debug for Ready<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.found.iter()).finish()
    }
}

impl fmt::Debug for WaitSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitSet").field("sources", &self.len()).finish_non_exhaustive()
    }
}

impl WaitSet {
    /// Makes an empty set, for sources of that domain.
    pub fn new(domain: &Domain) -> WaitSet {
        WaitSet {
            registry: domain.registry(),
            source_list: SourceList::new(),
            sections: None,
            refused_at: None,
            spin_wait: domain.registry().spin_wait(),
            next: 0,
            found: VecDeque::new(),
            descriptor: None,
        }
    }

    /// Adds a source, and returns its key. A source that is added twice is reported twice.
    ///
    /// # Errors
    /// [`Error::OtherDomain`], and any error that keeps the source from being waited for.
    pub fn add(&mut self, source: &impl Source) -> Result<Key, Error> {
        let watched = source.watched()?;
        if let Some(other) = watched.registry.filter(|other| !core::ptr::eq(*other, self.registry))
        {
            let (path, wanted) = (other.path().to_path_buf(), self.registry.path().to_path_buf());
            return Err(Error::OtherDomain { path, wanted });
        }
        let key = Key(self.next);
        self.next += 1;
        self.leave_sections_of_the_parent();
        if let Some(sections) = &mut self.sections
            && sections.add(key.0, Arc::clone(&watched.waited)).is_err()
        {
            // No thread can be started. The next wait tries again.
            self.sections = None;
        }
        self.source_list.add(key.0, watched.waited);
        self.watch_others();
        Ok(key)
    }

    /// Removes a source. Returns false if it was not in the set.
    pub fn remove(&mut self, key: Key) -> bool {
        self.found.retain(|(found, _)| *found != key);
        self.leave_sections_of_the_parent();
        if let Some(sections) = &mut self.sections {
            sections.remove(key.0);
        }
        let was_in = !self.source_list.retain(|known| known != key.0).is_empty();
        self.watch_others();
        was_in
    }

    /// Returns the number of sources.
    pub fn len(&self) -> usize {
        self.source_list.len()
    }

    /// Returns whether the set has no source.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sets how this set waits. A set of more than eight sources does not spin.
    pub fn set_wait_strategy(&self, wait: WaitStrategy) {
        self.spin_wait.set(wait);
    }

    /// Waits until something is ready, and returns all that is ready then, each source once. Their
    /// order changes from call to call. Without a source it waits for ever.
    ///
    /// # Errors
    /// [`WaitError::System`].
    ///
    /// # If a process dies
    /// See [`WaitSet`].
    pub fn wait(&mut self) -> Result<Ready<'_>, WaitError> {
        while !self.look_until(Deadline::NEVER)? {}
        Ok(self.ready())
    }

    /// Returns what is ready now, perhaps nothing; never waits.
    ///
    /// # Errors
    /// [`WaitError::System`].
    pub fn try_wait(&mut self) -> Result<Ready<'_>, WaitError> {
        if !self.look() {
            self.watch_again().map_err(WaitError::System)?;
        }
        Ok(self.ready())
    }

    /// Waits as [`WaitSet::wait`] does, for so long at most; returns nothing when the time is over
    /// first.
    ///
    /// # Errors
    /// [`WaitError::System`].
    ///
    /// # If a process dies
    /// See [`WaitSet`].
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<Ready<'_>, WaitError> {
        self.wait_until(Deadline::after(timeout))
    }

    /// Waits as [`WaitSet::wait`] does, until the deadline; returns nothing when it passes first.
    ///
    /// # Errors
    /// [`WaitError::System`].
    ///
    /// # If a process dies
    /// See [`WaitSet`].
    pub fn wait_until(&mut self, deadline: Deadline) -> Result<Ready<'_>, WaitError> {
        self.look_until(deadline)?;
        Ok(self.ready())
    }

    /// Returns a descriptor for `epoll`, `poll` and the like that is readable when a source is
    /// ready, until a [`WaitSet::try_wait`] finds nothing. So call `try_wait` in a loop until it
    /// returns nothing, or come back when the descriptor is still readable. The descriptor belongs
    /// to the set: do not read from it.
    ///
    /// A thread of this process waits for it: one for all sets of a domain, started here and named
    /// `outlive-wait`.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-fd-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::{queue::Queue, wait::WaitSet};
    /// use rustix::event::{PollFd, PollFlags, poll};
    ///
    /// let queue = Queue::<[u8]>::open_or_create(&domain, "orders")?;
    /// let receiver = queue.receiver()?;
    /// let mut set = WaitSet::new(&domain);
    /// set.add(&receiver)?;
    /// queue.sender()?.send(b"buy 10")?;
    /// let mut polled = [PollFd::from_borrowed_fd(set.as_fd()?, PollFlags::IN)];
    /// poll(&mut polled, None)?;
    /// assert_eq!(set.try_wait()?.count(), 1);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::System`] when there are no free descriptors or no thread can be started,
    /// [`Error::NoToken`].
    ///
    /// # If a process dies
    /// As with [`WaitSet::wait`]. A forked child asks for a descriptor of its own.
    pub fn as_fd(&mut self) -> Result<BorrowedFd<'_>, Error> {
        if !self.descriptor.as_ref().is_some_and(Descriptor::is_ours) {
            self.descriptor = None;
        }
        let descriptor = match &mut self.descriptor {
            Some(known) => known,
            none => none.insert(Descriptor::new().map_err(|errno| {
                Error::from_errno("make a descriptor for", self.registry.path(), errno)
            })?),
        };
        descriptor.register(self.registry, &self.source_list)?;
        Ok(descriptor.fd())
    }

    /// Empties the descriptor and registers again, after a look has found nothing.
    fn watch_again(&mut self) -> Result<(), Error> {
        match &mut self.descriptor {
            Some(descriptor) if descriptor.is_ours() => {
                descriptor.empty();
                descriptor.register(self.registry, &self.source_list)
            }
            _ => Ok(()),
        }
    }

    /// Registers the new sources, after a change.
    fn watch_others(&mut self) {
        if let Some(descriptor) = &mut self.descriptor
            && descriptor.unregister()
        {
            // There is a reactor already. If this fails, the next `try_wait` says so.
            let _ = descriptor.register(self.registry, &self.source_list);
        }
    }

    /// Looks at all sources, and keeps what is ready for [`WaitSet::ready`].
    pub(super) fn look(&mut self) -> bool {
        let found = &mut self.found;
        found.clear();
        self.source_list.look_at_all(self.registry, |key, what| found.push_back((Key(key), what)));
        !found.is_empty()
    }

    pub(super) fn ready(&mut self) -> Ready<'_> {
        Ready { found: &mut self.found }
    }

    /// Looks at all sources, and sleeps until one is ready or the deadline passes. Returns whether
    /// one is.
    fn look_until(&mut self, deadline: Deadline) -> Result<bool, WaitError> {
        if self.source_list.len() > MOST_IN_SECTION && !deadline.has_passed() {
            return self.wait_in_sections(deadline);
        }
        if self.look() { Ok(true) } else { self.wait_slow(deadline) }
    }

    /// Waits as a large set does: without a look at sections in which nothing has changed.
    #[cold]
    fn wait_in_sections(&mut self, deadline: Deadline) -> Result<bool, WaitError> {
        let mut found = core::mem::take(&mut self.found);
        found.clear();
        let is_any = self
            .sections()
            .map(|sections| sections.wait(deadline, |key, what| found.push_back((Key(key), what))));
        self.found = found;
        match is_any.transpose().map_err(|errno| WaitError::from_errno(self.registry, errno))? {
            Some(true) => Ok(true),
            // For what came at the last moment.
            Some(false) => Ok(self.look()),
            None if self.look() => Ok(true),
            None => self.wait_slow(deadline),
        }
    }

    /// In a forked child the threads are not there, and one of them may have held a lock.
    fn leave_sections_of_the_parent(&mut self) {
        if self.sections.as_ref().is_some_and(|sections| !sections.serve()) {
            self.sections = None;
        }
    }

    /// Returns the sections of a large set, and makes them if they are not there. `None`: they
    /// cannot be made now, and the set waits as a small one does.
    fn sections(&mut self) -> Option<&mut Sections> {
        if !futex::has_waitv() {
            return None;
        }
        self.leave_sections_of_the_parent();
        let is_too_early = |at: Instant| at.elapsed() < AFTER_REFUSAL;
        if self.sections.is_none() && !self.refused_at.is_some_and(is_too_early) {
            self.sections = Sections::of(self.registry, self.source_list.members()).ok();
            self.refused_at = self.sections.is_none().then(Instant::now);
        }
        self.sections.as_mut()
    }

    #[cold]
    fn wait_slow(&mut self, deadline: Deadline) -> Result<bool, WaitError> {
        let few = self.source_list.len() <= FEW;
        if few
            && self.spin_wait.spin_until(deadline, || self.source_list.is_any_ready())
            && self.look()
        {
            return Ok(true);
        }
        let me = self.registry.me().map_err(WaitError::System)?;
        let relay = WakeRelay::begin(me.list());
        while !deadline.has_passed() {
            let slept = self.source_list.sleep(self.registry, &relay, None, deadline);
            slept.map_err(|errno| WaitError::from_errno(self.registry, errno))?;
            let found = &mut self.found;
            self.source_list.look_at_new(self.registry, false, |key, what| {
                found.push_back((Key(key), what));
            });
            if !self.found.is_empty() {
                return Ok(true);
            }
        }
        // For what came at the last moment.
        Ok(self.look())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::Event;
    use crate::wake::SPINS;

    #[test]
    fn a_deadline_that_has_passed_makes_nobody_spin() {
        let folder = std::env::temp_dir().join(format!("outlive-past-set-{}", std::process::id()));
        let domain = Domain::open_or_create_at(&folder).expect("opens");
        let event = Event::open_or_create(&domain, "event").expect("made");
        let mut set = WaitSet::new(&domain);
        set.add(&event.any_of(1)).expect("added");
        let spins = SPINS.get();
        assert_eq!(set.wait_timeout(Duration::ZERO).expect("well").count(), 0);
        assert_eq!(SPINS.get(), spins);
        event.set(1);
        assert_eq!(set.wait_timeout(Duration::ZERO).expect("well").count(), 1);
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
