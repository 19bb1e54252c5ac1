//! Messages as msgpack: written straight into the memory that is published.

use serde::{Deserialize, Serialize};

use super::outgoing::{Entered, Publishable};
use super::publisher::Publisher;
use super::sample::Sample;
use crate::msgpack::{self, Msgpack};
use crate::{Payload, RecvError, SendError};

/// The length of the first loan, when nothing is known of a value's length.
const FIRST_GUESS: usize = 4096;

/// The value is written in place, into as much memory as the publisher's last one took; a longer
/// one is written twice. It is not serialized while there is no room for it.
/// [`SendError::Encoding`]: the value cannot be serialized.
impl<T: Serialize + ?Sized> Publishable<[u8]> for Msgpack<'_, T> {
    fn publish_by(
        self,
        publisher: &Publisher<[u8]>,
        room: impl Fn() -> Result<Entered, SendError>,
    ) -> Result<(), SendError> {
        // Without room there is no use in serializing, and waiting may free the memory for it. The
        // caller's code may publish itself, so the loan asks for room once more.
        room()?;
        let mut len = publisher.guess.get().max(FIRST_GUESS);
        loop {
            let mut loan = publisher.loan(len)?;
            let written = msgpack::write(&mut loan, self.0).map_err(SendError::Encoding)?;
            if written <= len {
                publisher.guess.set(written);
                loan.cut(written);
                return loan.publish_by(publisher, room);
            }
            // Otherwise a value whose length differs each time would be written for ever.
            len = written.max(len.saturating_mul(2));
        }
    }
}

impl<M: Payload + ?Sized> Sample<M> {
    /// Deserializes the value from msgpack.
    ///
    /// # Errors
    /// [`RecvError::Encoding`] when the bytes are no such value.
    pub fn msgpack<'a, T: Deserialize<'a>>(&'a self) -> Result<T, RecvError> {
        msgpack::read(self.bytes()).map_err(RecvError::Encoding)
    }
}
