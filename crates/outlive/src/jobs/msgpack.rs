//! Jobs as msgpack, in job queues of bytes.

use serde::Deserialize;

use super::job::Job;
use crate::{RecvError, msgpack};

impl Job {
    /// Deserializes the job from msgpack, as [`Msgpack::to_vec`](crate::Msgpack::to_vec) writes it.
    ///
    /// # Errors
    /// [`RecvError::Encoding`] when the bytes are no such value.
    pub fn msgpack<'a, T: Deserialize<'a>>(&'a self) -> Result<T, RecvError> {
        msgpack::read(self).map_err(RecvError::Encoding)
    }
}
