//! A set of things to wait for.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use super::descriptor::Descriptor;
use super::source_list::SourceList;
use crate::liveness::Registry;
use crate::sync::AwaitError;
use crate::sys::robust::WakeRelay;
use crate::wake::{Readiness, Source, SpinWait, Waited};
use crate::{Deadline, Domain, Error, WaitStrategy};

/// Which source of a set. Never given twice by one set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(pub(super) u64);

/// So many sources are looked at while spinning; a set of more sleeps at once.
const FEW: usize = 8;

/// Waits for any of many things at once: messages in queues and topics, requests and answers, values of states, who comes and goes on a topic, room for a
/// publisher, bits of events, latches, the ends of peers, moments.
///
/// Nothing is taken by waiting: what is ready is told, and told again as long as it is ready. Any number of sources; more than
/// the kernel watches at once (128 words: some 40 peers, or 120 queues) are watched by threads of this process as well,
/// one for each 127 words after the first. They are started then, are named `outlive-wait`, and sleep in between. A set is of one domain, and may move between threads.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-set-{}", std::process::id()));
/// # let domain = outlive::Domain::open_at(&folder)?;
/// use outlive::queue::Queue;
/// use outlive::wait::{Timer, WaitSet, Readiness};
/// use std::time::Duration;
///
/// let orders = Queue::create(&domain, "orders")?;
/// let bills = Queue::create(&domain, "bills")?;
/// let (mut from_orders, from_bills) = (orders.receiver()?, bills.receiver()?);
///
/// let mut set = WaitSet::new(&domain);
/// let an_order = set.add(&from_orders)?;
/// let a_bill = set.add(&from_bills)?;
/// let closing_time = set.add(&Timer::at(Duration::from_secs(3600)))?;
///
/// orders.sender()?.send(b"buy 10")?;
/// for (key, what) in set.wait(Duration::from_secs(9))? {
///     assert_eq!((key, what), (an_order, Readiness::Readable));
///     assert_eq!(from_orders.try_recv()?, b"buy 10");
/// }
/// assert_eq!(set.try_wait()?.count(), 0);
/// # let _ = (a_bill, closing_time);
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Use the `try_` forms on what is ready: that something is ready says that it is worth a try. What a sender that died had begun
/// makes its queue ready once, to be skipped; another thread may be quicker.
///
/// # If a process dies
/// Whose end is waited for: its source is ready, for all sets. A sender: what it had sent is told. One who waits in a set: nobody
/// notices. A topic's publisher killed between publishing and waking, *and* the set that the kernel woke for that, killed before it could wake
/// the others: they are woken by the next who publishes, or look by themselves within a second.
pub struct WaitSet {
    pub(super) registry: &'static Registry,
    source_list: SourceList,
    spin_wait: SpinWait,
    next: u64,
    found: VecDeque<(Key, Readiness)>,
    pub(super) descriptor: Option<Descriptor>,
}

/// What is ready: see [`WaitSet::wait`].
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
    /// An empty set, for sources of that domain.
    pub fn new(domain: &Domain) -> WaitSet {
        WaitSet {
            registry: domain.registry(),
            source_list: SourceList::default(),
            spin_wait: SpinWait::new(),
            next: 0,
            found: VecDeque::new(),
            descriptor: None,
        }
    }

    /// Adds a source. The same may be added twice, and is told twice.
    ///
    /// # Errors
    /// [`Error::OtherDomain`].
    pub fn add(&mut self, source: &impl Source) -> Result<Key, Error> {
        let watched = source.watched()?;
        if let Some(other) = watched.registry.filter(|other| !core::ptr::eq(*other, self.registry)) {
            let (path, wanted) = (other.path().to_path_buf(), self.registry.path().to_path_buf());
            return Err(Error::OtherDomain { path, wanted });
        }
        let key = Key(self.next);
        self.next += 1;
        self.source_list.add(key.0, watched.waited);
        self.watch_others();
        Ok(key)
    }

    /// Takes a source out. False: it was not in.
    pub fn remove(&mut self, key: Key) -> bool {
        self.found.retain(|(found, _)| *found != key);
        let was_in = self.source_list.remove(key.0);
        self.watch_others();
        was_in
    }

    /// How many sources there are.
    pub fn len(&self) -> usize {
        self.source_list.members().len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How waiting is done. A set of more than eight sources does not spin.
    pub fn set_wait(&self, wait: WaitStrategy) {
        self.spin_wait.set(wait);
    }

    /// What is ready now. Never waits.
    ///
    /// # Errors
    /// [`AwaitError::System`].
    pub fn try_wait(&mut self) -> Result<Ready<'_>, AwaitError> {
        if !self.look() {
            self.watch_again().map_err(AwaitError::System)?;
        }
        Ok(self.ready())
    }

    /// Waits until something is ready or the deadline passes: all that is ready then, each source once. Which of them comes
    /// first changes from call to call.
    ///
    /// # Errors
    /// [`AwaitError::TimedOut`] (an empty set has nothing else to come), [`AwaitError::System`].
    ///
    /// # If a process dies
    /// See [`WaitSet`].
    pub fn wait(&mut self, deadline: impl Into<Deadline>) -> Result<Ready<'_>, AwaitError> {
        let deadline = deadline.into();
        if !self.look() {
            self.wait_slow(deadline)?;
        }
        Ok(self.ready())
    }

    /// All that is waited for, for a reactor.
    pub(super) fn sources(&self) -> Vec<Arc<dyn Waited>> {
        self.source_list.members().iter().map(|member| Arc::clone(&member.waited)).collect()
    }

    /// What is ready now, kept for [`WaitSet::ready`].
    pub(super) fn look(&mut self) -> bool {
        let found = &mut self.found;
        found.clear();
        self.source_list.look(|key, what| found.push_back((Key(key), what)));
        !found.is_empty()
    }

    pub(super) fn ready(&mut self) -> Ready<'_> {
        Ready { found: &mut self.found }
    }

    #[cold]
    fn wait_slow(&mut self, deadline: Deadline) -> Result<(), AwaitError> {
        let few = self.source_list.members().len() <= FEW;
        if few && self.spin_wait.spin(|| self.source_list.is_any_ready()) && self.look() {
            return Ok(());
        }
        let me = self.registry.me().map_err(AwaitError::System)?;
        let relay = WakeRelay::begin(me.list());
        while !deadline.has_passed() {
            let slept = self.source_list.sleep(self.registry, &relay, None, deadline);
            slept.map_err(|errno| AwaitError::System(Error::from_errno("wait in", self.registry.path(), errno)))?;
            if self.look() {
                return Ok(());
            }
        }
        // What came at the last moment.
        if self.look() { Ok(()) } else { Err(AwaitError::TimedOut) }
    }
}
