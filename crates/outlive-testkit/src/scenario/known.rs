//! What is known not to keep the promise yet while a victim stands still, with the reason: run, shown and counted apart.
//!
//! A line goes when its scenario holds; `crash --stop` says so when one does.

use crate::world::Recheck;

/// In which mode a scenario fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum In {
    /// Also with the re-check, which comes too late: the promise is not kept.
    Both,
    /// Without it. With it the sleeper is rescued within what is promised.
    Off,
}

use In::{Both, Off};

const C_LIBRARY: &str = "the C library frees its word and wakes in two steps: not ours, and it checks the machine";
const TWO_STEPS: &str = "the change and the wake-up are two steps, and nobody but the re-check sees to what lies between";
const NOTICE: &str = "the kernel gives the notice of a death to one sleeper, and that one stands still";
const REQUEST: &str = "a request that is half written stands in the way of all that come after it";

/// Scenario, mode, and why it fails.
const STOPPED: &[(&str, In, &str)] = &[
    ("pthread-robust-unlock", Both, C_LIBRARY),
    ("peer-wait-dead", Off, NOTICE),
    ("peer-wait-dead-in-set", Off, NOTICE),
    ("mutex-unlock", Off, TWO_STEPS),
    ("mutex-owner-death", Off, NOTICE),
    ("ceiling-unlock", Off, TWO_STEPS),
    ("ceiling-owner-death", Both, NOTICE),
    ("rwlock-write-wait", Off, TWO_STEPS),
    ("rwlock-reader-death", Off, NOTICE),
    ("rwlock-leave", Both, TWO_STEPS),
    ("rwlock-unlock", Off, TWO_STEPS),
    ("rwlock-upgrade", Off, TWO_STEPS),
    ("rwlock-downgrade", Off, TWO_STEPS),
    ("event-set", Both, TWO_STEPS),
    ("event-set-to-set-first", Both, TWO_STEPS),
    ("event-set-to-set-last", Both, TWO_STEPS),
    ("latch-arrive", Both, TWO_STEPS),
    ("once-make-needed", Off, TWO_STEPS),
    ("semaphore-release", Off, TWO_STEPS),
    ("semaphore-hand-over", Both, TWO_STEPS),
    ("semaphore-add", Both, TWO_STEPS),
    ("barrier-arrive-last", Both, TWO_STEPS),
    ("barrier-arrive-last-counted", Both, TWO_STEPS),
    ("barrier-leave", Both, TWO_STEPS),
    ("queue-send-small", Both, TWO_STEPS),
    ("queue-send-large", Both, TWO_STEPS),
    ("queue-send-batch", Both, TWO_STEPS),
    ("queue-send-last", Both, TWO_STEPS),
    ("queue-send-to-set", Both, TWO_STEPS),
    ("queue-recv", Both, TWO_STEPS),
    ("queue-peek-commit", Both, TWO_STEPS),
    ("state-set", Both, TWO_STEPS),
    ("state-grow", Both, TWO_STEPS),
    ("rpc-call", Both, REQUEST),
    ("rpc-call-in-set", Both, REQUEST),
    ("rpc-call-long", Both, REQUEST),
    ("rpc-cancel", Both, REQUEST),
    ("topic-receive-small", Both, TWO_STEPS),
    ("topic-receive-large", Both, TWO_STEPS),
    ("topic-give-up", Both, TWO_STEPS),
    ("topic-leave", Both, TWO_STEPS),
    ("topic-leave-holding", Both, TWO_STEPS),
    ("state-leave", Off, TWO_STEPS),
    ("topic-publish-small", Off, TWO_STEPS),
    ("topic-publish-large", Off, TWO_STEPS),
    ("topic-loan-and-publish", Off, TWO_STEPS),
    ("topic-publish-by-device", Off, TWO_STEPS),
    ("topic-company-publisher-comes", Off, TWO_STEPS),
    ("topic-company-publisher-goes", Off, TWO_STEPS),
    ("topic-company-subscriber-comes", Off, TWO_STEPS),
    ("topic-company-subscriber-goes", Off, TWO_STEPS),
];

/// Why that scenario is known to fail in that mode while its victim stands still.
#[must_use]
pub fn to_fail_stopped(scenario: &str, recheck: Recheck) -> Option<&'static str> {
    // Others' locks know no re-check, and are run as if there were none.
    let is_in = |mode: In| mode == Both || recheck == Recheck::Off;
    STOPPED.iter().find(|(name, mode, _)| *name == scenario && is_in(*mode)).map(|(.., why)| *why)
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_known_is_of_scenarios_that_there_are() {
        for (name, ..) in super::STOPPED {
            assert!(crate::scenario::find(name).is_some(), "{name}");
        }
    }
}
