//! What a kind of lock says of itself: its words, what its handles keep, and how a thread takes and
//! leaves them. `lock.rs` makes handles of it, `guard.rs` guards.

use super::Holder;
use super::error::AcquireError;
pub(super) use super::primitive::Site;
use super::primitive::{Handle, Inspect, Primitive};
use super::raw::relock::Relock;
use super::raw::{Acquired, Refused};
use crate::liveness::{Me, Registry};
use crate::segment::Segment;
use crate::{Deadline, Error};

/// Why a thread did not take a lock.
#[derive(Debug)]
pub enum Refusal {
    /// A living thread has it just now, or still had it when the deadline passed.
    Busy,
    /// Waiting longer would not help.
    Failed(AcquireError),
}

impl Refusal {
    #[cold]
    pub(super) fn of(refused: Refused, me: Me) -> Refusal {
        AcquireError::from_refused(refused, me).map_or(Refusal::Busy, Refusal::Failed)
    }

    #[cold]
    pub(super) fn system(error: Error) -> Refusal {
        Refusal::Failed(AcquireError::System(error))
    }
}

/// The words of a lock that guards a value.
pub trait LockWords: Primitive + Inspect + Sync {
    /// What each handle keeps besides, in its process's own memory.
    type Local: Send + Sync + Default;

    /// Whether a waiter spins before it sleeps.
    const SPINS: bool = true;

    /// Refuses a number that no such lock has.
    ///
    /// # Errors
    /// [`Error::InvalidOption`].
    fn check(_number: u32) -> Result<(), Error> {
        Ok(())
    }

    /// Makes the handle's own part for a named lock.
    ///
    /// # Errors
    /// The error that keeps this process from using the lock.
    fn local(&self, _: &'static Registry, _: &Segment) -> Result<Self::Local, Error> {
        Ok(Self::Local::default())
    }

    /// Makes the handle's own part for a lock inside a record, whose type says that number.
    fn embedded_local(&self, _number: u32) -> Self::Local {
        Self::Local::default()
    }

    /// Keeps the file mapped as long as the lock needs it: as long as a handle exists.
    fn keep<S>(handle: Handle<S>) -> Handle<S> {
        handle
    }
}

/// Says that threads of any process may share a `T` under such a lock.
///
/// # Safety
/// Every bit pattern of as many bytes is a `T`, whose copy is a second, independent value; and what
/// the lock's guards give to several threads at once is `Sync`.
pub unsafe trait Guards<T>: LockWords {}

/// What a thread found on the fast path of a lock.
pub enum Fast<H> {
    /// The thread has the lock, and what it guards is whole.
    Clean(H),
    /// The thread has the lock, and next looks at its state, or waits for others to leave it.
    Look(H),
    /// The lock is taken, or the fast path does not know.
    Busy,
}

/// How a thread took a lock.
pub enum Taken<'a, R: RawLock> {
    /// What the lock guards is whole.
    Clean(R::Held<'a>),
    /// The last owner died or panicked, and the caller has the lock to repair what it left.
    OwnerDied(<R::Repairing as RawLock>::Held<'a>),
}

/// How a thread leaves a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// In good order.
    Finished,
    /// A panic has interrupted the holder's change: the next locker is told, as of a death.
    Unfinished,
    /// Every later locker is refused, until a process resets the lock.
    NotRecoverable,
}

/// A way to hold a lock's words. The readers' and the writers' way are two of these for the same
/// words.
///
/// # Safety
/// As long as a thread holds the words, from `try_fast` or `lock_slow` to `unlock`, no other thread
/// writes what they guard; and if the way is exclusive, no other thread reads it.
pub unsafe trait RawLock: Sized + 'static {
    /// The words.
    type Words: LockWords;
    /// The way in which a thread holds the lock that is told of a death: as the only one.
    type Repairing: RawLock<Words = Self::Words>;
    /// What unlocking needs to know.
    type Held<'a>: Copy;
    /// Whether the holder may change what the lock guards: then its panic counts as a death.
    const EXCLUSIVE: bool;

    /// Takes the lock if that needs no call. `me` need not have been asked for by a system call.
    fn try_fast<'a>(
        words: &'a Self::Words,
        local: &'a <Self::Words as LockWords>::Local,
        site: &'a Site,
        me: Me,
    ) -> Fast<Self::Held<'a>>;

    /// Goes on from what `try_fast` found, and waits until the deadline; with `None` it never
    /// waits.
    ///
    /// # Errors
    /// The reason why the caller does not have the lock.
    fn lock_slow<'a>(
        words: &'a Self::Words,
        local: &'a <Self::Words as LockWords>::Local,
        site: &'a Site,
        me: Me,
        seen: Fast<Self::Held<'a>>,
        wait: Option<Deadline>,
    ) -> Result<Taken<'a, Self>, Refusal>;

    /// Unlocks. The caller, which is `me`, holds the lock.
    fn unlock(words: &Self::Words, me: Me, held: Self::Held<'_>, how: Leaving);

    /// Ends what a forked child has of its parent's hold: not the lock, which is the parent's.
    fn forget(_: Self::Held<'_>) {}

    /// Returns whether `me` holds a lock that a thread may take several times: then it does not wait
    /// when it takes the lock once more.
    fn is_held_again(_: &Self::Words, _: Me) -> bool {
        false
    }
}

/// A way to hold a lock's words alone.
///
/// # Safety
/// As for [`RawLock`], and `EXCLUSIVE` is true.
pub unsafe trait ExclusiveLock: RawLock<Repairing = Self> {
    /// Returns whether what the lock guards is whole. The caller holds the lock.
    fn is_consistent(words: &Self::Words) -> bool;

    /// Notes that the holder has repaired what the lock guards.
    fn mark_consistent(words: &Self::Words);

    /// Takes the lock in whatever state it is, and waits until the deadline; with `None` it never
    /// waits. The caller repairs what it guards, marks it consistent and unlocks.
    ///
    /// # Errors
    /// The reason why the caller does not have the lock.
    fn take_to_reset<'a>(
        words: &'a Self::Words,
        local: &'a <Self::Words as LockWords>::Local,
        site: &'a Site,
        me: Me,
        wait: Option<Deadline>,
    ) -> Result<Self::Held<'a>, Refusal>;

    /// Returns the thread that holds the lock alone just now, dead or alive.
    fn holder(words: &Self::Words, registry: &'static Registry) -> Option<Holder>;
}

/// A way to hold a lock's words alone, by one guard at a time: so the guard gives `&mut` access.
///
/// # Safety
/// As for [`ExclusiveLock`], and a thread that holds the lock does not get it a second time.
pub unsafe trait UniqueLock: ExclusiveLock {}

/// A way to hold a lock's words under which a thread may wait for a condition variable.
pub trait CondvarLock: ExclusiveLock {
    /// Whether libc takes `list_op_pending` at each lock and unlock: see [`Relock::TAKES_LIST`].
    const TAKES_LIST: bool;

    /// What the condition variable gives up and takes again.
    type Relock<'a>: Relock;

    /// Returns whether the thread that holds the lock has other guards of it. A wait gives the lock
    /// up under them as well.
    fn has_outer_guards(_: &Self::Words) -> bool {
        false
    }

    /// Begins a wait of the thread that holds the lock.
    fn relock<'a>(words: &'a Self::Words, held: Self::Held<'a>) -> Self::Relock<'a>;
}

/// Turns how a thread took words, which need nothing to unlock, into what [`RawLock`] returns.
pub(super) fn taken<'a, R>(got: Acquired, held: R::Held<'a>) -> Taken<'a, R>
where
    R: RawLock<Repairing = R>,
{
    match got {
        Acquired::Clean => Taken::Clean(held),
        Acquired::OwnerDied => Taken::OwnerDied(held),
    }
}
