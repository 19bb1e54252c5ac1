//! `membarrier(2)`: the sleeper pays for the fence, so that the one who may have to wake it does not.
//!
//! A sender that stores "ready" and then looks at the sleeper's flag needs a store-load fence between the two, which
//! costs more than all the rest of a send. `MEMBARRIER_CMD_GLOBAL_EXPEDITED` lets the sleeper put that fence into every
//! registered process, about 0.5 µs before a sleep that costs 20. A process that could not register fences for itself;
//! a sleeper that may not issue the barrier sleeps in short slices.

use std::sync::atomic::{AtomicU8, Ordering, compiler_fence, fence};

use rustix::thread::{MembarrierCommand, membarrier};

const UNKNOWN: u8 = 0;
const REGISTERED: u8 = 1;
const DENIED: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Registers this process to be reached by other processes' barriers. Idempotent; forked children inherit it.
pub(crate) fn register() -> bool {
    match STATE.load(Ordering::Relaxed) {
        REGISTERED => true,
        DENIED => false,
        _ => {
            let done = membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok();
            STATE.store(if done { REGISTERED } else { DENIED }, Ordering::Relaxed);
            done
        }
    }
}

/// The waker's half: between "it is done" and "does somebody sleep?".
///
/// Pairs with [`heavy`] in the sleeper.
#[inline]
pub(crate) fn light() {
    if STATE.load(Ordering::Relaxed) == REGISTERED {
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

/// The sleeper's half: between "I sleep" and "has it been done meanwhile?". False when the kernel denies it: then a
/// waker may overlook this sleeper, who must not sleep long.
pub(crate) fn heavy() -> bool {
    fence(Ordering::SeqCst);
    membarrier(MembarrierCommand::GlobalExpedited).is_ok()
}
