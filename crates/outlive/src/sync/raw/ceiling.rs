//! A thread's priority while it holds mutexes with ceilings: the highest of those ceilings;
//! afterwards its own again.
//!
//! | ceilings held | the thread runs with |
//! | --- | --- |
//! | none | its own schedule |
//! | some | `SCHED_FIFO` at the highest of them, in whatever order they came and go |
//!
//! All of this belongs to the thread and ends with it: it shares nothing, and a death leaves
//! nothing.
//!
//! The thread, or an administrator, may change its priority meanwhile. So each step asks the kernel
//! first: a schedule other than the one set last becomes the thread's own schedule.

use std::cell::Cell;

use crate::sys::Errno;
use crate::sys::schedule::Schedule;

/// The highest real-time priority.
pub(crate) const MOST: u32 = 99;

struct Thread {
    /// The thread's own schedule, while it is raised.
    own: Cell<Schedule>,
    /// What we set last, while it is raised.
    set: Cell<Schedule>,
    /// How many mutexes of each ceiling the thread holds or waits for.
    held: [Cell<u32>; MOST as usize + 1],
}

thread_local! {
    // Without a destructor, so that destructors that lock can still use it.
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

    /// Asks the kernel for the present schedule and returns it; an unexpected one becomes the
    /// thread's own.
    fn look(&self) -> Result<Schedule, Errno> {
        let now = Schedule::own()?;
        if self.highest().is_none() || now != self.set.get() {
            self.own.set(now);
        }
        Ok(now)
    }

    /// Sets the right schedule: `ceiling`, unless the thread's own priority is as high.
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

/// Raises the calling thread to a ceiling, until [`lower`]. `ceiling` is 1 to 99.
pub(crate) fn raise(ceiling: u32) -> Result<(), NotRaised> {
    THREAD.with(|thread| {
        let now = thread.look().map_err(NotRaised::System)?;
        if thread.own.get().rank() > ceiling {
            return Err(NotRaised::Above);
        }
        let highest = thread.highest().unwrap_or(0).max(ceiling);
        thread.set(Some(highest), now).map_err(NotRaised::System)?;
        let held = &thread.held[ceiling as usize];
        held.set(held.get() + 1);
        Ok(())
    })
}

/// Ends what one [`raise`] to that ceiling began, in the same thread or in its forked child.
pub(crate) fn lower(ceiling: u32) {
    THREAD.with(|thread| {
        let now = thread.look();
        let held = &thread.held[ceiling as usize];
        held.set(held.get().saturating_sub(1));
        let restored = now.and_then(|now| thread.set(thread.highest(), now));
        if restored.is_err() && thread.highest().is_none() {
            // The thread gave up its rights in between. Too low a priority is better than too
            // high a one for ever.
            let _ = thread.own.get().ordinary().apply();
        }
    });
}
