//! Requests and replies as msgpack, in services of bytes.

use serde::Deserialize;

use super::reply::Reply;
use super::request::Request;
use crate::{Payload, RecvError, msgpack};

impl Reply {
    /// Deserializes the reply from msgpack. [`Msgpack::to_vec`](crate::Msgpack::to_vec) has an
    /// example.
    ///
    /// # Errors
    /// [`RecvError::Encoding`] when the bytes are no such value.
    pub fn msgpack<'a, T: Deserialize<'a>>(&'a self) -> Result<T, RecvError> {
        msgpack::read(self).map_err(RecvError::Encoding)
    }
}

impl<R: Payload + ?Sized> Request<[u8], R> {
    /// Deserializes the request from msgpack.
    ///
    /// # Errors
    /// [`RecvError::Encoding`] when the bytes are no such value.
    pub fn msgpack<'a, T: Deserialize<'a>>(&'a self) -> Result<T, RecvError> {
        msgpack::read(self).map_err(RecvError::Encoding)
    }
}
