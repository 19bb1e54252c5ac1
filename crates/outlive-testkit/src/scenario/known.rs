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
const NOTICE: &str = "the kernel gives the notice of a death to one sleeper, and that one stands still";

/// Scenario, mode, and why it fails.
const STOPPED: &[(&str, In, &str)] = &[
    ("pthread-robust-unlock", Both, C_LIBRARY),
    ("peer-wait-dead", Off, NOTICE),
    ("peer-wait-dead-in-set", Off, NOTICE),
    ("mutex-owner-death", Off, NOTICE),
    ("ceiling-owner-death", Off, NOTICE),
    ("rwlock-reader-death", Off, NOTICE),
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
