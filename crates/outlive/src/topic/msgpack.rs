//! Messages as msgpack: written straight into the memory that is published.

use serde::{Deserialize, Serialize};

use super::loan::Loan;
use super::outgoing::{Entered, Publishable};
use super::publisher::Publisher;
use super::sample::Sample;
use crate::msgpack::{self, Msgpack};
use crate::{Payload, RecvError, SendError};

/// The length of the first loan, when nothing is known of a value's length.
const FIRST_GUESS: usize = 4096;

/// The value is written in place, into as much memory as the publisher's last one took; a longer
/// one is written twice. [`SendError::Encoding`]: the value cannot be serialized.
impl<T: Serialize + ?Sized> Publishable<[u8]> for Msgpack<'_, T> {
    type Ready = Loan;

    fn make_ready(self, publisher: &Publisher<[u8]>) -> Result<Loan, SendError> {
        let mut len = publisher.guess.get().max(FIRST_GUESS);
        loop {
            let mut loan = publisher.loan(len)?;
            let written = msgpack::write(&mut loan, self.0).map_err(SendError::Encoding)?;
            if written <= len {
                publisher.guess.set(written);
                loan.cut(written);
                return Ok(loan);
            }
            // Otherwise a value whose length differs each time would be written for ever.
            len = written.max(len.saturating_mul(2));
        }
    }

    fn publish_by(self, publisher: &Publisher<[u8]>, entered: Entered) -> Result<(), SendError> {
        self.make_ready(publisher)?.publish_by(publisher, entered)
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
