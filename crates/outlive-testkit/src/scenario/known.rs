//! What is known not to keep the promise yet while a victim stands still, with the reason: run, shown and counted apart.
//!
//! A line goes when its scenario holds; `crash --stop` says so when one does.

/// Scenario, and why it fails.
const STOPPED: &[(&str, &str)] = &[(
    "pthread-robust-unlock",
    "the C library frees its word and wakes in two steps: not ours, and it checks the machine",
)];

/// Why that scenario is known to fail while its victim stands still.
#[must_use]
pub fn to_fail_stopped(scenario: &str) -> Option<&'static str> {
    STOPPED.iter().find(|(name, _)| *name == scenario).map(|(_, why)| *why)
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_known_is_of_scenarios_that_there_are() {
        for (name, _) in super::STOPPED {
            assert!(crate::scenario::find(name).is_some(), "{name}");
        }
    }
}
