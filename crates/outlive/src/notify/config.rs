//! What a notifier was made with.

/// What a notifier was made with: returned by [`Notifier::config`](super::Notifier::config) and
/// [`Listener::config`](super::Listener::config).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotifierConfig {
    /// The number of the notice that a notifier has come.
    pub on_created: Option<u32>,
    /// The number of the notice that a notifier has left in order.
    pub on_left: Option<u32>,
    /// The number of the notice that a notifier's process has died.
    pub on_died: Option<u32>,
}
