//! What a queue was made with.

/// Says what the death of its receiver does to a [`Queue`](super::Queue), until another process
/// becomes the receiver.
///
/// A receiver that is dropped leaves in order: then a queue of either kind goes on taking messages.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-keep-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::queue::{OnReceiverDeath, Queue};
///
/// let options = Queue::<[u8]>::options().on_receiver_death(OnReceiverDeath::Keep);
/// let queue = options.open_or_create(&domain, "log")?;
/// queue.sender()?.send(b"a line")?;               // whether a receiver lives, died, or never came
/// assert_eq!(queue.receiver()?.recv()?, b"a line");
/// assert_eq!(queue.config().on_receiver_death, OnReceiverDeath::Keep);
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnReceiverDeath {
    /// It makes each send fail with [`SendError::ReceiverDied`](crate::SendError::ReceiverDied),
    /// also one that waits for room: the sender is told at once.
    #[default]
    Fail,
    /// It is no error: the queue goes on taking messages until it is full, and the next receiver
    /// gets them. A send into a full queue waits for the next receiver, or says that it is full.
    Keep,
}

impl OnReceiverDeath {
    pub(super) fn name(self) -> &'static str {
        match self {
            OnReceiverDeath::Fail => "fail",
            OnReceiverDeath::Keep => "keep",
        }
    }
}

/// What a queue was made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueConfig {
    /// The most bytes that the queue may take, messages included.
    pub max_bytes: u64,
    /// The most unread messages that it holds; `None`: bytes alone bound it.
    pub max_messages: Option<u32>,
    /// The number of slots that it began with.
    pub slots: u32,
    /// The bytes of a slot.
    pub slot_bytes: u32,
    /// Whether a send fails while the queue has no receiver.
    pub need_receiver: bool,
    /// What a send does while the receiver is dead.
    pub on_receiver_death: OnReceiverDeath,
}
