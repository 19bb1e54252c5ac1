//! A listener's counts, and a notifier's slot.

mod ids {
    /// Numbers of notices.
    pub(super) const IDS: usize = 2;
}
#[path = "../../../crates/outlive/src/notify/listener_slot.rs"]
mod listener_slot;
#[path = "../../../crates/outlive/src/notify/notices.rs"]
mod notices;
#[path = "../../../crates/outlive/src/notify/notifier_slot.rs"]
mod notifier_slot;
