//! How a call waits.

use outlive::WaitStrategy;

use crate::code::Failure;

/// Spin as long as that has paid recently, then sleep. The default; in options it is as the
/// configuration file says that the domain was opened by (`wait.strategy`), if it says so.
pub const OUTLIVE_WAIT_ADAPTIVE: u32 = 0;
/// Sleep at once: waiting takes no processor time.
pub const OUTLIVE_WAIT_BLOCK: u32 = 1;
/// Spin for long before sleeping: the lowest latency, at the price of a busy processor.
pub const OUTLIVE_WAIT_SPIN: u32 = 2;

/// Returns the number of a strategy.
pub(crate) fn wait_number(strategy: WaitStrategy) -> u32 {
    match strategy {
        WaitStrategy::Block => OUTLIVE_WAIT_BLOCK,
        WaitStrategy::Spin => OUTLIVE_WAIT_SPIN,
        _ => OUTLIVE_WAIT_ADAPTIVE,
    }
}

pub(crate) fn wait(number: u32) -> Result<WaitStrategy, Failure> {
    match number {
        OUTLIVE_WAIT_ADAPTIVE => Ok(WaitStrategy::Adaptive),
        OUTLIVE_WAIT_BLOCK => Ok(WaitStrategy::Block),
        OUTLIVE_WAIT_SPIN => Ok(WaitStrategy::Spin),
        _ => Err(Failure::new(libc::EINVAL, "none of the OUTLIVE_WAIT numbers")),
    }
}

/// Reads an option, where 0 leaves it to the domain.
pub(crate) fn wait_option(number: u32) -> Result<Option<WaitStrategy>, Failure> {
    match number {
        OUTLIVE_WAIT_ADAPTIVE => Ok(None),
        other => wait(other).map(Some),
    }
}
