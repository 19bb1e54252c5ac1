//! What a thread holds and C has no handle of: locks, permits, seats. Each keeps what it is of by
//! an `Arc`, also when that has been closed.

use std::cell::RefCell;
use std::sync::Arc;
use std::thread::LocalKey;

use outlive::sync::LockError;

use crate::code::Failure;
use crate::deadline::{in_time, outlive_deadline_t};

/// A thread's hold of something: dropping it gives it back.
pub(crate) trait Hold: Sized + 'static {
    /// This process's part of what is held.
    type Of;
    /// Returns what it is a hold of.
    fn of(&self) -> &Arc<Self::Of>;
    /// Ends it without giving anything back: the thread holds it until it ends.
    fn leave(self);
    /// The calling thread's holds, which `held_by_thread!` makes.
    fn held() -> &'static LocalKey<RefCell<HeldByThread<Self>>>;
}

/// The last one taken is the last.
pub(crate) struct HeldByThread<H: Hold>(Vec<H>);

impl<H: Hold> HeldByThread<H> {
    pub(crate) const fn new() -> HeldByThread<H> {
        HeldByThread(Vec::new())
    }
}

impl<H: Hold> Drop for HeldByThread<H> {
    /// The thread ends, and its token with it: other threads see that as a death.
    fn drop(&mut self) {
        self.0.drain(..).for_each(Hold::leave);
    }
}

/// Implements `Hold` for a type with an `abandon`.
macro_rules! held_by_thread {
    ($hold:ty, $of:ty, $which:expr) => {
        impl $crate::held::Hold for $hold {
            type Of = $of;
            fn of(&self) -> &std::sync::Arc<$of> {
                $which(self)
            }
            fn leave(self) {
                self.abandon();
            }
            fn held()
            -> &'static std::thread::LocalKey<std::cell::RefCell<$crate::held::HeldByThread<Self>>>
            {
                thread_local! {
                    static HELD: std::cell::RefCell<$crate::held::HeldByThread<$hold>> =
                        const { std::cell::RefCell::new($crate::held::HeldByThread::new()) };
                }
                &HELD
            }
        }
    };
}
pub(crate) use held_by_thread;

/// Keeps a hold for the calling thread.
pub(crate) fn keep<H: Hold>(hold: H) {
    H::held().with(|held| held.borrow_mut().0.push(hold));
}

/// Returns the calling thread's last hold of that, which it has no more then.
pub(crate) fn take<H: Hold>(of: &Arc<H::Of>) -> Result<H, Failure> {
    let taken = H::held().with(|held| {
        let holds = &mut held.borrow_mut().0;
        let at = holds.iter().rposition(|hold| Arc::ptr_eq(hold.of(), of))?;
        Some(holds.remove(at))
    });
    taken.ok_or_else(|| {
        let why = "the calling thread does not hold it, or took it by another opening";
        Failure::new(libc::EPERM, why)
    })
}

/// Ends those of the calling thread's holds that are not of what it still has.
pub(crate) fn retain<H: Hold>(has: impl Fn(&H) -> bool) {
    let gone = H::held().with(|held| {
        let holds = &mut held.borrow_mut().0;
        let (kept, gone) =
            core::mem::take(holds).into_iter().partition::<Vec<H>, _>(|one| has(one));
        *holds = kept;
        gone
    });
    // Once the list is not borrowed any more.
    drop(gone);
}

/// Keeps the guard of a lock that the thread has got until that deadline, also when it got
/// EOWNERDEAD with it.
pub(crate) fn settle<H: Hold>(
    got: Result<Option<H>, LockError<H>>,
    deadline: outlive_deadline_t,
) -> Result<(), Failure> {
    let (guard, told) = match got {
        Ok(guard) => (in_time(guard, deadline, libc::EBUSY)?, Ok(())),
        Err(LockError::OwnerDied(guard)) => (guard, Err(LockError::OwnerDied(()).into())),
        Err(other) => return Err(other.into()),
    };
    keep(guard);
    told
}
