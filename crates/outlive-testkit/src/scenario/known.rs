//! What is known not to keep the promise yet while a victim stands still, with the reason: run, shown and counted apart.
//!
//! A line goes when its scenario holds; `crash --stop --all` and `crash --stop --recheck off` say so when one does. The usual
//! run leaves those out that fail without the re-check alone, and names them: with it they have to hold.

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
const NOTICE: &str = "the kernel gives the notice of a death to one sleeper, and that one stands still";

const EVENTCOUNT: &str =
    "a change and the wake-up of an eventcount are two steps: a second change wakes, or the re-check does";

/// Scenario, mode, and why it fails.
const STOPPED: &[(&str, In, &str)] = &[
    ("pthread-robust-unlock", Both, C_LIBRARY),
    ("peer-wait-dead", Off, NOTICE),
    ("peer-wait-dead-in-set", Off, NOTICE),
    ("mutex-owner-death", Off, NOTICE),
    ("ceiling-owner-death", Off, NOTICE),
    ("rwlock-leave", Off, EVENTCOUNT),
    ("semaphore-release", Off, EVENTCOUNT),
    ("semaphore-hand-over", Off, EVENTCOUNT),
    ("semaphore-add", Off, EVENTCOUNT),
    ("barrier-arrive-last", Off, EVENTCOUNT),
    ("barrier-arrive-last-counted", Off, EVENTCOUNT),
    ("barrier-leave", Off, EVENTCOUNT),
    ("queue-send-small", Off, EVENTCOUNT),
    ("queue-send-large", Off, EVENTCOUNT),
    ("queue-send-batch", Off, EVENTCOUNT),
    ("queue-send-last", Off, EVENTCOUNT),
    ("queue-send-to-set", Off, EVENTCOUNT),
    ("queue-recv", Off, EVENTCOUNT),
    ("queue-peek-commit", Off, EVENTCOUNT),
    ("queue-receiver-comes", Off, EVENTCOUNT),
    ("state-set", Off, EVENTCOUNT),
    ("state-grow", Off, EVENTCOUNT),
    ("state-leave", Off, EVENTCOUNT),
    ("topic-receive-small", Off, EVENTCOUNT),
    ("topic-receive-large", Off, EVENTCOUNT),
    ("topic-give-up", Off, EVENTCOUNT),
    ("topic-leave", Off, EVENTCOUNT),
    ("topic-leave-holding", Off, EVENTCOUNT),
    ("topic-publish-small", Off, EVENTCOUNT),
    ("topic-publish-large", Off, EVENTCOUNT),
    ("topic-loan-and-publish", Off, EVENTCOUNT),
    ("topic-publish-by-device", Off, EVENTCOUNT),
    ("topic-company-publisher-comes", Off, EVENTCOUNT),
    ("topic-company-publisher-goes", Off, EVENTCOUNT),
    ("topic-company-subscriber-comes", Off, EVENTCOUNT),
    ("topic-company-subscriber-goes", Off, EVENTCOUNT),
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
