//! What `Lock` and `RLock` have in common: a mutex of the core, and the guards that one thread has
//! of it, one for each time that the thread acquired it.

use std::cell::Cell;
use std::sync::{Arc, PoisonError};

use outlive::sync::{
    AcquireError, BegunCondvarWait, Condvar, Holder, LockError, Mutex, OwnedMutexGuard,
    OwnedReentrantMutexGuard, ReentrantMutex,
};
use outlive::{Deadline, WaitError};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::errors::{Raised, raise};
use crate::held::{Held, this_thread};
use crate::named::{Named, Reduced};
use crate::open::Left;
use crate::waiting::{Until, sleep_out, wait};

/// What locking returns that does not wait for ever.
pub(crate) type MaybeGot<G> = Result<Option<G>, LockError<G>>;

/// The end of a part of a wait: the guard, unless another thread has the mutex, and whether the wait
/// was notified.
type PartOfWait<G> = Result<Option<(G, bool)>, LockError<G>>;

/// A mutex of the core that guards a number, and its guards, which keep its handle.
pub(crate) trait Core: Sized + Send + Sync + 'static {
    type Guard;

    fn try_lock(mutex: &Arc<Self>) -> MaybeGot<Self::Guard>;
    fn lock_until(mutex: &Arc<Self>, deadline: Deadline) -> MaybeGot<Self::Guard>;
    /// Takes it in whatever state it is, stores the number and unlocks. `None`: not in time.
    fn reset(mutex: &Arc<Self>, value: u64, deadline: Deadline)
    -> Option<Result<(), AcquireError>>;
    fn holder(mutex: &Arc<Self>) -> Option<Holder>;
    /// Returns how often the calling thread, which holds it, has acquired it by whatever handle.
    fn depth(mutex: &Arc<Self>) -> usize;
    fn owner_died(guard: &Self::Guard) -> bool;
    fn mark_consistent(guard: &mut Self::Guard);
    fn mark_not_recoverable(guard: Self::Guard);
    fn value(guard: &Self::Guard) -> u64;
    fn set_value(guard: &mut Self::Guard, value: u64);

    /// Waits on a condition variable for one part of a wait that began there. It gives up all levels.
    fn wait(
        condvar: &Condvar,
        guard: Self::Guard,
        begun: &BegunCondvarWait<'_>,
        deadlines: (Deadline, Deadline),
    ) -> PartOfWait<Self::Guard>;
}

macro_rules! core {
    (
        $mutex:ty, $guard:ty,
        $held:ident => $get:expr, $value:ident => $set:expr, $of:ident => $depth:expr
    ) => {
        impl Core for $mutex {
            type Guard = $guard;

            fn try_lock(mutex: &Arc<Self>) -> MaybeGot<Self::Guard> {
                mutex.try_lock_owned()
            }

            fn lock_until(mutex: &Arc<Self>, deadline: Deadline) -> MaybeGot<Self::Guard> {
                mutex.lock_owned_until(deadline)
            }

            fn reset(
                mutex: &Arc<Self>,
                value: u64,
                deadline: Deadline,
            ) -> Option<Result<(), AcquireError>> {
                match mutex.lock_to_reset_until(deadline) {
                    Ok(guard) => guard.map(|mut guard| {
                        let ($held, $value) = (&mut guard, value);
                        $set;
                        guard.mark_consistent();
                        Ok(())
                    }),
                    Err(error) => Some(Err(error)),
                }
            }

            fn holder(mutex: &Arc<Self>) -> Option<Holder> {
                mutex.holder()
            }

            fn depth($of: &Arc<Self>) -> usize {
                $depth
            }

            fn owner_died(guard: &Self::Guard) -> bool {
                guard.owner_died()
            }

            fn mark_consistent(guard: &mut Self::Guard) {
                guard.mark_consistent();
            }

            fn mark_not_recoverable(guard: Self::Guard) {
                guard.mark_not_recoverable();
            }

            fn value($held: &Self::Guard) -> u64 {
                $get
            }

            fn set_value($held: &mut Self::Guard, $value: u64) {
                $set;
            }

            fn wait(
                condvar: &Condvar,
                guard: Self::Guard,
                begun: &BegunCondvarWait<'_>,
                (slice, next): (Deadline, Deadline),
            ) -> Result<Option<(Self::Guard, bool)>, LockError<Self::Guard>> {
                // SAFETY: no guard in here has given a reference that is still used; the thread has
                // no guards but those of one `Levels` (`Inner::sleep`), which drops its other ones
                // before it locks again.
                unsafe { condvar.continue_wait(guard, begun, slice, next) }
            }
        }
    };
}

core!(Mutex<u64>, OwnedMutexGuard<u64>, held => **held, value => **held = value, _mutex => 1);
core!(
    ReentrantMutex<Cell<u64>>,
    OwnedReentrantMutexGuard<Cell<u64>>,
    held => held.get(),
    value => held.set(value),
    mutex => mutex.depth() as usize
);

/// The guards that a thread has of one lock.
pub(crate) struct Levels<G> {
    /// The last one; after a wait, the one that waited.
    last: G,
    others: Vec<G>,
}

/// A lock as a Python object has it.
pub(crate) struct Inner<L: Core> {
    held: Held<Levels<L::Guard>>,
    /// The threads that marked the lock not recoverable inside a ``with`` block, once for each level:
    /// the end of that block must not raise. There can be several, since another thread may reset the lock, acquire
    /// it and mark it so before the first thread's block ends. A thread takes its number out when
    /// its block ends or when it acquires the lock again; one that ends before leaves its number.
    marked_by: std::sync::Mutex<Vec<u32>>,
    mutex: Arc<L>,
    pub(crate) named: Named,
}

impl<L: Core> Inner<L> {
    pub(crate) fn of((mutex, named): (L, Named)) -> Inner<L> {
        let marked_by = std::sync::Mutex::default();
        Inner { held: Held::nothing(), marked_by, mutex: Arc::new(mutex), named }
    }

    pub(crate) fn this_thread(&self, py: Python<'_>) -> PyResult<u32> {
        this_thread(&self.named.domain).raised(py)
    }

    pub(crate) fn take(&self, py: Python<'_>, until: Option<Until>) -> PyResult<bool> {
        self.named.check()?;
        match L::try_lock(&self.mutex) {
            Ok(None) => {}
            Err(LockError::Failed(AcquireError::Deadlock)) => match until {
                None => return Ok(false),
                // As with `threading.Lock`: no other thread releases it in time.
                Some(until) if until.is_limited() => return sleep_out(py, until),
                Some(_) => return Err(AcquireError::Deadlock).raised(py),
            },
            Ok(Some(guard)) => return self.settle(py, Ok(guard)),
            Err(error) => return self.settle(py, Err(error)),
        }
        let Some(until) = until else { return Ok(false) };
        let got = wait(py, until, |deadline| match L::lock_until(&self.mutex, deadline) {
            Ok(guard) => guard.map(Ok),
            Err(error) => Some(Err(error)),
        })?;
        match got {
            None => Ok(false),
            Some(got) => self.settle(py, got),
        }
    }

    fn settle(&self, py: Python<'_>, got: Result<L::Guard, LockError<L::Guard>>) -> PyResult<bool> {
        let guard = match got {
            // Of a death the guard tells.
            Ok(guard) | Err(LockError::OwnerDied(guard)) => guard,
            Err(other) => return Err(other).raised(py),
        };
        let thread = self.this_thread(py)?;
        match self.held.take(thread) {
            // Once more.
            Some(Levels { last, mut others }) => {
                others.push(guard);
                self.held.put(thread, Levels { last, others });
            }
            None => self.begin(thread, Levels { last: guard, others: Vec::new() }),
        }
        Ok(true)
    }

    fn begin(&self, thread: u32, levels: Levels<L::Guard>) {
        self.marked_by().retain(|&one| one != thread);
        self.held.put(thread, levels);
    }

    fn marked_by(&self) -> std::sync::MutexGuard<'_, Vec<u32>> {
        self.marked_by.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the thread's number out of the list, once. Returns whether it was there: whether the
    /// thread marked the lock not recoverable, has not acquired it since, and has ended fewer blocks
    /// since than it had levels.
    fn forget_marking(&self, thread: u32) -> bool {
        let mut marked_by = self.marked_by();
        let at = marked_by.iter().position(|&one| one == thread);
        at.map(|at| marked_by.swap_remove(at)).is_some()
    }

    /// Gives one level back. Returns whether the thread had one.
    fn give_one_back(&self, thread: u32) -> bool {
        let Some(Levels { last, mut others }) = self.held.take(thread) else { return false };
        if let Some(one) = others.pop() {
            drop(one);
            self.held.put(thread, Levels { last, others });
        }
        true
    }

    pub(crate) fn release(&self, py: Python<'_>) -> PyResult<()> {
        if self.give_one_back(self.this_thread(py)?) { Ok(()) } else { Err(not_held()) }
    }

    /// Ends a `with` block. One that an exception ends may have lost the lock: in a wait that did
    /// not get it back.
    pub(crate) fn leave(&self, py: Python<'_>, exc_type: Left<'_, '_>) -> PyResult<()> {
        let thread = self.this_thread(py)?;
        let is_left = self.give_one_back(thread)
            || self.forget_marking(thread)
            || exc_type.is_some()
            // Closed in the block.
            || self.named.check().is_err();
        if is_left { Ok(()) } else { Err(not_held()) }
    }

    /// Closes it: a lock that the thread holds by it is released, however often it was acquired.
    pub(crate) fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.named.close();
        drop(self.held.take(self.this_thread(py)?));
        Ok(())
    }

    pub(crate) fn is_held_by(&self, thread: u32) -> bool {
        self.held.is_of(thread)
    }

    fn with<R>(&self, py: Python<'_>, with: impl FnOnce(&mut L::Guard) -> R) -> PyResult<R> {
        let thread = self.this_thread(py)?;
        self.held
            .with(thread, |levels| with(&mut levels.last))
            .ok_or_else(|| PyRuntimeError::new_err("this thread does not hold the lock"))
    }

    pub(crate) fn locked(&self) -> bool {
        L::holder(&self.mutex).is_some_and(|holder| holder.alive)
    }

    pub(crate) fn holder_pid(&self) -> Option<u32> {
        L::holder(&self.mutex).map(|holder| holder.pid)
    }

    pub(crate) fn owner_died(&self, py: Python<'_>) -> PyResult<bool> {
        let thread = self.this_thread(py)?;
        Ok(self.held.with(thread, |levels| L::owner_died(&levels.last)).unwrap_or(false))
    }

    pub(crate) fn mark_consistent(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, L::mark_consistent)
    }

    pub(crate) fn mark_not_recoverable(&self, py: Python<'_>) -> PyResult<()> {
        let thread = self.this_thread(py)?;
        let Levels { last, others } = self.held.take(thread).ok_or_else(not_held)?;
        // The number is not there yet: the thread's acquisition took it out.
        self.marked_by().extend(core::iter::repeat_n(thread, 1 + others.len()));
        L::mark_not_recoverable(last);
        drop(others);
        Ok(())
    }

    pub(crate) fn check(&self, py: Python<'_>) -> PyResult<()> {
        if self.owner_died(py)? {
            return Err(raise(
                py,
                "OwnerDied",
                "the last owner died holding the lock; what it guards may be half-written",
            ));
        }
        Ok(())
    }

    pub(crate) fn reset(&self, py: Python<'_>, value: u64, timeout: Option<f64>) -> PyResult<()> {
        let until = Until::timeout(timeout)?;
        let done = wait(py, until, |deadline| L::reset(&self.mutex, value, deadline))?;
        done.map_or_else(|| Err(WaitError::TimedOut).raised(py), |done| done.raised(py))
    }

    pub(crate) fn value(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |guard| L::value(guard))
    }

    pub(crate) fn set_value(&self, py: Python<'_>, value: u64) -> PyResult<()> {
        self.with(py, |guard| L::set_value(guard, value))
    }

    /// Returns the pickle of `thing`, which is this lock.
    pub(crate) fn reduce<'py>(&self, thing: &Bound<'py, PyAny>) -> PyResult<Reduced<'py>> {
        self.named.reduce(thing, &[])
    }

    /// Returns how Python shows it, under the name of its class.
    pub(crate) fn repr(&self, class: &str) -> String {
        let state = match L::holder(&self.mutex) {
            Some(holder) if holder.alive => format!("locked by process {}", holder.pid),
            Some(holder) => format!("process {} died holding it", holder.pid),
            None => "unlocked".to_owned(),
        };
        self.named.repr(class, self.named.check().map(|()| state))
    }

    /// Waits on a condition variable for one part of a wait that began there: `sleep` makes the call
    /// with a guard and returns what it returned. All levels are given up, and restored. Returns
    /// whether a notification ended the wait, or the death of a holder, of which the lock tells. If
    /// another thread keeps the lock, it returns as an error how many levels more than one the thread
    /// had: [`Inner::take_again`] takes them.
    pub(crate) fn sleep(
        &self,
        py: Python<'_>,
        sleep: impl FnOnce(L::Guard) -> Result<Option<(L::Guard, bool)>, LockError<L::Guard>>,
    ) -> PyResult<Result<bool, usize>> {
        let thread = self.this_thread(py)?;
        let levels = self
            .held
            .with(thread, |levels| 1 + levels.others.len())
            .ok_or_else(|| not_held_to("wait on"))?;
        // The wait would give those up, too. But a thread that uses the other object meanwhile
        // puts its own guards there, and nothing here could restore them.
        if L::depth(&self.mutex) > levels {
            return Err(PyRuntimeError::new_err(
                "cannot wait on a lock that this thread holds by another object of its name as well",
            ));
        }
        let Levels { last, others } =
            self.held.take(thread).ok_or_else(|| not_held_to("wait on"))?;
        match sleep(last) {
            Ok(Some((last, notified))) => {
                self.begin(thread, Levels { last, others });
                Ok(Ok(notified))
            }
            Err(LockError::OwnerDied(last)) => {
                self.begin(thread, Levels { last, others });
                Ok(Ok(true))
            }
            // The other guards go: the lock is not this thread's, so they release nothing.
            Ok(None) => Ok(Err(others.len())),
            Err(other) => {
                drop(others);
                Err(other).raised(py)
            }
        }
    }

    /// Takes the lock again after a wait that released it and did not get it back, with so many
    /// levels more than one.
    #[cold]
    pub(crate) fn take_again(&self, py: Python<'_>, more: usize, until: Until) -> PyResult<()> {
        if self.take(py, Some(until))? {
            for _ in 0..more {
                self.take(py, Some(Until::NEVER))?;
            }
            return Ok(());
        }
        let who = L::holder(&self.mutex).map_or_else(
            || "another thread".to_owned(),
            |holder| format!("process {}", holder.pid),
        );
        Err(raise(
            py,
            "Timeout",
            format!(
                "the wait is over, but {who} keeps the lock: this thread does not hold it any more"
            ),
        ))
    }
}

fn not_held() -> PyErr {
    PyRuntimeError::new_err("cannot release a lock that this thread has not acquired")
}

pub(crate) fn not_held_to(verb: &str) -> PyErr {
    PyRuntimeError::new_err(format!("cannot {verb} a lock that this thread does not hold"))
}
