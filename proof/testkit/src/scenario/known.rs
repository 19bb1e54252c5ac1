//! What is known not to keep the promise yet while a victim stands still, with the reason: run,
//! shown and counted apart.
//!
//! A line goes when its scenario holds; `crash --stop --all` and `crash --stop --recheck off` say
//! so when one does. The usual run leaves those out that fail without the recheck alone, and names
//! them: with it they have to hold.

use crate::world::Recheck;

/// In which mode a scenario fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum In {
    /// Also with the recheck, which comes too late: the promise is not kept.
    Both,
    /// Without it. With it the sleeper is rescued within what is promised.
    Off,
}

use In::{Both, Off};

const C_LIBRARY: &str =
    "the C library frees its word and wakes in two steps: not ours, and it checks the machine";
const NOTICE: &str =
    "the kernel gives the notice of a death to one sleeper, and that one stands still";

const NOTIFIED: &str =
    "the change and the notification are two steps: a second change wakes, or the recheck does";

const IN_HAND: &str =
    "a stopped waiter keeps the wake-up: the next notification wakes another, or the recheck does";

/// Scenario, mode, and why it fails.
const STOPPED: &[(&str, In, &str)] = &[
    ("pthread-robust-unlock", Both, C_LIBRARY),
    ("peer-wait-dead", Off, NOTICE),
    ("peer-wait-dead-in-set", Off, NOTICE),
    ("peer-wait-dead-in-large-set", Off, NOTICE),
    ("mutex-owner-death", Off, NOTICE),
    ("reentrant-owner-death", Off, NOTICE),
    ("ceiling-owner-death", Off, NOTICE),
    ("rwlock-leave", Off, NOTIFIED),
    ("rwlock-downgrade", Off, NOTIFIED),
    // It ends as a reader that leaves.
    ("rwlock-back-to-upgradable", Off, NOTIFIED),
    ("condvar-wait-contended", Off, IN_HAND),
    ("semaphore-release", Off, NOTIFIED),
    ("semaphore-hand-over", Off, NOTIFIED),
    ("semaphore-add", Off, NOTIFIED),
    ("barrier-arrive-last", Off, NOTIFIED),
    ("barrier-arrive-last-counted", Off, NOTIFIED),
    ("barrier-leave", Off, NOTIFIED),
    ("queue-send-small", Off, NOTIFIED),
    ("queue-send-large", Off, NOTIFIED),
    ("queue-send-batch", Off, NOTIFIED),
    ("queue-send-last", Off, NOTIFIED),
    ("queue-send-to-set", Off, NOTIFIED),
    ("queue-send-to-large-set", Off, NOTIFIED),
    ("queue-recv", Off, NOTIFIED),
    ("queue-recv-bounded", Off, NOTIFIED),
    ("queue-join", Off, NOTIFIED),
    ("queue-peek-commit", Off, NOTIFIED),
    ("queue-in-flight", Off, NOTIFIED),
    // At one point, and not always: a sender that found the memory in the receiver's hand soon
    // looks again by itself.
    ("queue-peek-commit-large", Off, NOTIFIED),
    ("queue-receiver-comes", Off, NOTIFIED),
    ("queue-keep-receiver-comes", Off, NOTIFIED),
    ("queue-sender-leaves", Off, NOTIFIED),
    ("jobs-done", Off, NOTIFIED),
    ("jobs-release", Off, NOTIFIED),
    ("rpc-reply", Off, NOTIFIED),
    ("rpc-reply-long", Off, NOTIFIED),
    ("rpc-stream", Off, NOTIFIED),
    ("rpc-stream-lend", Off, NOTIFIED),
    ("rpc-fail", Off, NOTIFIED),
    ("rpc-stream-fail", Off, NOTIFIED),
    ("rpc-takeover", Off, NOTIFIED),
    // The victim stands by, and sleeps: the other one gets the role when the victim is killed.
    ("rpc-stand-by-in-set", Off, NOTICE),
    ("queue-stand-by", Off, NOTICE),
    ("queue-stand-by-in-set", Off, NOTICE),
    ("state-stand-by", Off, NOTICE),
    ("state-stand-by-in-set", Off, NOTICE),
    ("state-set", Off, NOTIFIED),
    ("state-grow", Off, NOTIFIED),
    ("state-leave", Off, NOTIFIED),
    ("topic-receive-small", Off, NOTIFIED),
    ("topic-receive-large", Off, NOTIFIED),
    ("topic-give-up", Off, NOTIFIED),
    ("topic-leave", Off, NOTIFIED),
    ("topic-leave-holding", Off, NOTIFIED),
    ("topic-publish-small", Off, NOTIFIED),
    ("topic-publish-large", Off, NOTIFIED),
    ("topic-loan-and-publish", Off, NOTIFIED),
    ("topic-publish-by-device", Off, NOTIFIED),
    ("topic-presence-publisher-comes", Off, NOTIFIED),
    ("topic-presence-publisher-goes", Off, NOTIFIED),
    ("topic-presence-subscriber-comes", Off, NOTIFIED),
    ("topic-presence-subscriber-goes", Off, NOTIFIED),
];

/// Why that scenario is known to fail in that mode while its victim stands still.
#[must_use]
pub fn to_fail_stopped(scenario: &str, recheck: Recheck) -> Option<&'static str> {
    // Others' locks know no recheck, and are run as if there were none.
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
