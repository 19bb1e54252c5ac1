//! A thread's priority while it holds mutexes with ceilings: the highest of those ceilings, and its own again afterwards.
//!
//! | ceilings held | the thread runs with |
//! | --- | --- |
//! | none | its own schedule |
//! | some | `SCHED_FIFO` at the highest of them, in whatever order they came and go |
//!
//! All of it belongs to the thread and ends with it: nothing here is shared, and no death leaves anything.
//!
//! The thread, or an administrator, may change its priority meanwhile. So before each step the kernel is asked: what is
//! not as we set it last is somebody's wish, and becomes the thread's own schedule.

use std::cell::Cell;
use std::marker::PhantomData;

use crate::sys::Errno;
use crate::sys::schedule::Schedule;

/// The highest priority that there is.
pub(crate) const MOST: u32 = 99;

struct Thread {
    /// The thread's own schedule, while it is raised.
    own: Cell<Schedule>,
    /// What we set last, while it is raised.
    set: Cell<Schedule>,
    /// How many mutexes of each ceiling it holds or waits for.
    held: [Cell<u32>; MOST as usize + 1],
}

thread_local! {
    // Without a destructor, so that it is there for destructors that lock.
    static THREAD: Thread = const {
        Thread {
            own: Cell::new(Schedule::NONE),
            set: Cell::new(Schedule::NONE),
            held: [const { Cell::new(0) }; MOST as usize + 1],
        }
    };
}

impl Thread {
    fn highest(&self) -> Option<u32> {
        (1..=MOST).rev().find(|ceiling| self.held[*ceiling as usize].get() > 0)
    }

    /// Asks the kernel, and takes what it does not expect for the thread's own schedule. Gives what is set just now.
    fn look(&self) -> Result<Schedule, Errno> {
        let now = Schedule::own()?;
        if self.highest().is_none() || now != self.set.get() {
            self.own.set(now);
        }
        Ok(now)
    }

    /// Sets what should be: `ceiling`, unless the thread's own is as high.
    fn set(&self, ceiling: Option<u32>, now: Schedule) -> Result<(), Errno> {
        let own = self.own.get();
        let wanted = match ceiling {
            Some(ceiling) if ceiling > own.rank() => own.raised_to(ceiling),
            _ => own,
        };
        if wanted != now {
            wanted.apply()?;
        }
        self.set.set(wanted);
        Ok(())
    }
}

/// Why a thread was not raised.
pub(crate) enum NotRaised {
    /// Its own priority is higher than the ceiling.
    Above,
    /// The system refused.
    System(Errno),
}

/// The calling thread is raised to a ceiling, until this is dropped.
pub(crate) struct Raised {
    ceiling: u32,
    /// Stays with its thread.
    _thread: PhantomData<*mut ()>,
}

impl Raised {
    /// Raises the calling thread. `ceiling` is 1 to 99.
    pub(crate) fn to(ceiling: u32) -> Result<Raised, NotRaised> {
        THREAD.with(|thread| {
            let now = thread.look().map_err(NotRaised::System)?;
            if thread.own.get().rank() > ceiling {
                return Err(NotRaised::Above);
            }
            let highest = thread.highest().unwrap_or(0).max(ceiling);
            thread.set(Some(highest), now).map_err(NotRaised::System)?;
            let held = &thread.held[ceiling as usize];
            held.set(held.get() + 1);
            Ok(Raised { ceiling, _thread: PhantomData })
        })
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        THREAD.with(|thread| {
            let now = thread.look();
            let held = &thread.held[self.ceiling as usize];
            held.set(held.get().saturating_sub(1));
            let restored = now.and_then(|now| thread.set(thread.highest(), now));
            if restored.is_err() && thread.highest().is_none() {
                // Rights were given up in between. Better too low than too high for ever.
                let _ = thread.own.get().ordinary().apply();
            }
        });
    }
}
