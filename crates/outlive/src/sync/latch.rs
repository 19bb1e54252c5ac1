//! A named latch: opens once, when enough have arrived, and stays open.

use super::await_error::AwaitError;
use super::gate::Gate;
use super::home::{Home, TypeOf};
use super::raw_event::{Opens, RawEvent, VALUE};
use super::record::{Embed, Place, SharedField};
use crate::wake::SpinWait;
use crate::{Deadline, Domain, Error, Kind, WaitStrategy};

/// A gate that opens for good once a number of arrivals has been counted.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-latch-{}", std::process::id()));
/// # let domain = outlive::Domain::open_at(&folder)?;
/// use outlive::sync::Latch;
///
/// let ready = Latch::open(&domain, "ready", 2)?;
/// std::thread::scope(|scope| {
///     scope.spawn(|| ready.arrive(1));
///     scope.spawn(|| ready.arrive(1));
///     ready.wait().unwrap();
/// });
/// assert!(ready.is_open());
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), outlive::Error>(())
/// ```
///
/// # If a process dies
/// In [`Latch::arrive`]: it has been counted, and if that was the last, all who wait are woken; or it has not; the same if it is stopped there. Waiting:
/// nobody notices. An arrival that has not come is not a claim and names nobody: a party that dies before it arrives is
/// waited for. So wait with a deadline, or let whoever watches the parties
/// ([`Peer::wait_dead`](crate::Peer::wait_dead)) arrive in the dead one's place, or call [`Latch::release`].
pub struct Latch {
    home: Home<RawEvent>,
    spin_wait: SpinWait,
}

impl Latch {
    /// Opens the latch of that name, or makes one that waits for so many arrivals, 2,147,483,647 at most. One that is there already keeps its
    /// own number.
    ///
    /// # Errors
    /// [`Error::OtherKind`] when the name is in use for something else, [`Error::NoSpace`], [`Error::InvalidName`], and
    /// what the system says.
    ///
    /// # If a process dies
    /// While it makes it: nothing is left of it.
    pub fn open(domain: &Domain, name: &str, arrivals: u32) -> Result<Latch, Error> {
        let init = |raw: &mut RawEvent| raw.prepare(arrivals.min(VALUE), 0);
        Ok(Latch::at(Home::open(domain, name, Kind::Latch, TypeOf::nothing(), init)?))
    }

    fn at(home: Home<RawEvent>) -> Latch {
        Latch { home, spin_wait: SpinWait::new() }
    }

    /// How waiting is done through this handle.
    pub fn set_wait(&self, wait: WaitStrategy) {
        self.spin_wait.set(wait);
    }

    /// Counts so many arrivals; more than were missing are as good as those that were. How many are missing now.
    ///
    /// # If a process dies
    /// Counted or not. The last one counted opens the latch for all who wait.
    pub fn arrive(&self, arrivals: u32) -> u32 {
        self.raw().count_down(arrivals)
    }

    /// Opens it, however many are missing.
    pub fn release(&self) {
        self.arrive(u32::MAX);
    }

    /// How many arrivals are missing.
    pub fn missing(&self) -> u32 {
        self.raw().value()
    }

    /// Whether it is open.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.raw().value() == 0
    }

    /// For a wait set.
    pub(crate) fn gate(&self) -> Gate {
        Gate::new(self.home.clone(), Opens::AtZero)
    }

    /// Waits until it is open.
    ///
    /// # Errors
    /// [`AwaitError::System`].
    #[inline]
    pub fn wait(&self) -> Result<(), AwaitError> {
        self.wait_until(Deadline::NEVER)
    }

    /// The same, until the deadline.
    ///
    /// # Errors
    /// As [`Latch::wait`], and [`AwaitError::TimedOut`].
    pub fn wait_until(&self, deadline: impl Into<Deadline>) -> Result<(), AwaitError> {
        if self.is_open() {
            return Ok(());
        }
        let registry = self.home.registry();
        // As in `Event`.
        self.home.me().map_err(AwaitError::System)?;
        let open = |raw: &RawEvent| (raw.value() == 0).then_some(());
        match self.raw().wait(registry, &self.spin_wait, deadline.into(), Opens::AtZero, open) {
            Ok(open) => open.ok_or(AwaitError::TimedOut),
            Err(errno) => Err(AwaitError::from_errno(registry, errno)),
        }
    }

    #[inline]
    fn raw(&self) -> &RawEvent {
        self.home.shared()
    }
}

/// A latch, for use as a field of a [`record!`](crate::record). 32 bytes; all zeroes are an open one.
/// [`Record::handle`](super::Record::handle) gives the [`Latch`] to use it by.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-latch-in-{}", std::process::id()));
/// # let domain = outlive::Domain::open_at(&folder)?;
/// use outlive::sync::{EmbeddedLatch, Record};
///
/// outlive::record! { pub struct Line { pub ready: EmbeddedLatch } }
/// let line = Record::<Line>::open(&domain, "line", |line| line.ready.expect_arrivals(3))?;
/// let ready = line.handle(|line| &line.ready);
/// assert_eq!(ready.arrive(2), 1);
/// ready.release();
/// ready.wait().unwrap();
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), outlive::Error>(())
/// ```
#[repr(C)]
pub struct EmbeddedLatch {
    raw: RawEvent,
}

impl EmbeddedLatch {
    /// How many it waits for, where nobody else can reach it: in [`Record::open`](super::Record::open)'s initialiser.
    pub fn expect_arrivals(&mut self, arrivals: u32) {
        self.raw.prepare(arrivals.min(VALUE), 0);
    }
}

// SAFETY: atomics; the primitive is at the start.
unsafe impl SharedField for EmbeddedLatch {
    const PRIMITIVES: usize = 1;
    fn primitive(_: usize) -> Place {
        Place { offset: 0, kind: Kind::Latch, number: 0 }
    }
}

impl Embed for EmbeddedLatch {
    type Handle = Latch;
    fn handle(home: Home<EmbeddedLatch>) -> Latch {
        Latch::at(home.part(|embedded| &embedded.raw))
    }
}
