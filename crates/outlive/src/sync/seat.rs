//! A participant's seat at a barrier, and its turns.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::barrier::Barrier;
use super::error::AcquireError;
use super::raw::barrier::{Passed, Stuck};
use crate::Deadline;
use crate::liveness::Me;

impl Barrier {
    /// Takes a seat for the calling thread. From its return on, the others wait for this thread and
    /// notice its death. If the seat belonged to a participant that left, they wait from one of the
    /// next two phases on.
    ///
    /// # Errors
    /// [`AcquireError::Full`], [`AcquireError::Broken`], [`AcquireError::System`].
    ///
    /// # If a process dies
    /// During this call: as if it had never come, or as if it had joined.
    pub fn join(&self) -> Result<Seat<'_>, AcquireError> {
        let (me, index) = self.take_seat()?;
        Ok(Seat::taken(self, me, index))
    }

    /// Takes a seat as [`Barrier::join`] does, which keeps this handle.
    ///
    /// # Errors
    /// As [`Barrier::join`].
    ///
    /// # If a process dies
    /// As with [`Barrier::join`].
    pub fn join_owned(self: &Arc<Self>) -> Result<OwnedSeat, AcquireError> {
        let (me, index) = self.take_seat()?;
        Ok(Seat::taken(Arc::clone(self), me, index))
    }

    fn take_seat(&self) -> Result<(Me, usize), AcquireError> {
        let me = self.me()?;
        let index = self.raw().join(me, &self.handle.site().spin_wait);
        Ok((me, index.map_err(|stuck| self.error(stuck))?))
    }
}

/// Says that a phase has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierWaitResult {
    leader: bool,
    index: usize,
}

impl BarrierWaitResult {
    /// Returns whether this participant is the one of its phase that does what is to be done once.
    pub fn is_leader(self) -> bool {
        self.leader
    }

    /// Returns this participant's number, from 0 to [`Barrier::parties`] − 1, which no other
    /// participant of the phase has. It is the number of its seat, so it stays the same in each
    /// phase as long as the seat is kept.
    ///
    /// # If a process dies
    /// Its number is that of no other participant until another thread takes the seat.
    pub fn index(self) -> usize {
        self.index
    }
}

/// Holds a participant's place. Dropping it leaves the barrier: the others go on without this
/// participant, and another thread may take the place.
///
/// A seat stays with the thread that it names. In a forked child, a seat of the parent's has no
/// effect.
pub struct Seat<'a, B: Deref<Target = Barrier> = &'a Barrier> {
    barrier: B,
    me: Me,
    index: usize,
    /// The phase in which this participant has arrived and has not passed yet.
    arrived: Option<u32>,
    /// Neither Send nor Sync.
    _thread: PhantomData<(*mut (), &'a ())>,
}

/// Holds a place as a [`Seat`] does, and keeps the barrier's handle by an [`Arc`], so that it
/// borrows nothing: [`Barrier::join_owned`] returns it.
///
/// # If a process dies
/// As with [`Seat`]: see [`Barrier`].
pub type OwnedSeat = Seat<'static, Arc<Barrier>>;

impl OwnedSeat {
    /// Returns the barrier to which it belongs.
    #[must_use]
    pub fn barrier(&self) -> &Arc<Barrier> {
        &self.barrier
    }
}

impl<'a, B: Deref<Target = Barrier>> Seat<'a, B> {
    pub(super) fn taken(barrier: B, me: Me, index: usize) -> Seat<'a, B> {
        Seat { barrier, me, index, arrived: None, _thread: PhantomData }
    }

    /// Arrives, and waits until all participants have arrived.
    ///
    /// # Errors
    /// [`AcquireError::Broken`] after a death, an abort or a reset; [`AcquireError::NotHeld`] when
    /// the seat is no longer this thread's; [`AcquireError::System`].
    ///
    /// # If a process dies
    /// The death of an absent participant ends this wait at once: see [`Barrier`].
    pub fn wait(&mut self) -> Result<BarrierWaitResult, AcquireError> {
        Deadline::never(|deadline| self.finish(Some(deadline)))
    }

    /// Arrives, and waits until all participants have arrived, for so long at most. `None`: some
    /// were still absent. The arrival counts, and waiting again continues it; [`Seat::abort`]
    /// breaks the barrier instead. (While a process that resets the barrier is stopped in the
    /// middle of that, `None` as well, and waiting again arrives.)
    ///
    /// # Errors
    /// As [`Seat::wait`].
    pub fn wait_timeout(
        &mut self,
        timeout: Duration,
    ) -> Result<Option<BarrierWaitResult>, AcquireError> {
        self.wait_until(Deadline::after(timeout))
    }

    /// Arrives, and waits until all participants have arrived, or until the deadline. `None` as
    /// from [`Seat::wait_timeout`].
    ///
    /// # Errors
    /// As [`Seat::wait`].
    pub fn wait_until(
        &mut self,
        deadline: Deadline,
    ) -> Result<Option<BarrierWaitResult>, AcquireError> {
        self.finish(Some(deadline))
    }

    /// Arrives without waiting; returns `None` while others are absent, as [`Seat::wait_timeout`]
    /// does. The arrival counts.
    ///
    /// # Errors
    /// As [`Seat::wait`].
    pub fn try_wait(&mut self) -> Result<Option<BarrierWaitResult>, AcquireError> {
        self.finish(None)
    }

    /// Breaks the phase in which this participant has arrived and has not passed: the other
    /// participants get [`AcquireError::Broken`] as after [`Barrier::abort`], and this one does. If
    /// all have arrived meanwhile, nothing is broken, and this participant passes as they do.
    /// Without such an arrival, it is [`Barrier::abort`].
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-seat-abort-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use std::time::Duration;
    ///
    /// use outlive::sync::{AcquireError, Barrier};
    ///
    /// let step = Barrier::options(2).open_or_create(&domain, "step")?;
    /// let mut seat = step.join()?;
    /// // A deadline that breaks the barrier, as in Python's `threading`.
    /// let turn = match seat.wait_timeout(Duration::from_millis(1))? {
    ///     Some(turn) => Ok(turn),
    ///     None => seat.abort(),
    /// };
    /// assert_eq!(turn, Err(AcquireError::Broken));
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`AcquireError::Broken`] when it is broken now; [`AcquireError::NotHeld`] when the seat is
    /// no longer this thread's.
    ///
    /// # If a process dies
    /// During this call: as with [`Barrier::abort`].
    pub fn abort(&mut self) -> Result<BarrierWaitResult, AcquireError> {
        let barrier = &*self.barrier;
        if barrier.handle.registry().current_bits() != self.me.id.as_u32() {
            return Err(AcquireError::NotHeld);
        }
        let Some(phase) = self.arrived.take() else {
            barrier.raw().abort();
            return Err(AcquireError::Broken);
        };
        let end = barrier.raw().abort_phase(phase);
        end.map(|passed| self.turn(passed)).map_err(|stuck| self.barrier.error(stuck))
    }

    /// Ends this without giving the place up: the others go on waiting for its thread, and learn of
    /// that thread's end as of a death. Unlike [`std::mem::forget`], this lets go of the [`Arc`] in
    /// an owned seat.
    pub fn abandon(self) {
        let seat = ManuallyDrop::new(self);
        // SAFETY: `seat` is not dropped, so this is dropped once.
        drop(unsafe { core::ptr::read(&raw const seat.barrier) });
    }

    /// Arrives, if it has not yet, and waits until the deadline, or never, for the others.
    fn finish(
        &mut self,
        deadline: Option<Deadline>,
    ) -> Result<Option<BarrierWaitResult>, AcquireError> {
        let barrier = &*self.barrier;
        if barrier.handle.registry().current_bits() != self.me.id.as_u32() {
            return Err(AcquireError::NotHeld);
        }
        let (raw, spin_wait) = (barrier.raw(), &barrier.handle.site().spin_wait);
        let deadline = deadline.filter(|deadline| !deadline.has_passed());
        let phase = match self.arrived {
            Some(phase) => phase,
            None => match raw.arrive(self.me, self.index, spin_wait, deadline) {
                Ok(phase) => phase,
                Err(Stuck::TimedOut) => return Ok(None),
                Err(stuck) => return Err(barrier.error(stuck)),
            },
        };
        let end = raw.wait(self.me, self.index, phase, spin_wait, deadline);
        self.arrived = (end == Err(Stuck::TimedOut)).then_some(phase);
        match end {
            Ok(passed) => Ok(Some(self.turn(passed))),
            Err(Stuck::TimedOut) => Ok(None),
            Err(stuck) => Err(self.barrier.error(stuck)),
        }
    }

    fn turn(&self, passed: Passed) -> BarrierWaitResult {
        BarrierWaitResult { leader: passed == Passed::Leader, index: self.index }
    }
}

impl<B: Deref<Target = Barrier>> Drop for Seat<'_, B> {
    fn drop(&mut self) {
        if self.barrier.handle.registry().current_bits() == self.me.id.as_u32() {
            self.barrier.raw().leave(self.me, self.index);
        }
    }
}

impl<B: Deref<Target = Barrier>> fmt::Debug for Seat<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat")
            .field("participant", &self.me.id)
            .field("index", &self.index)
            .finish()
    }
}
