//! Requests and replies as msgpack, for any type that serde can serialize: on top of the calls with
//! bytes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::client::Client;
use super::error::CallError;
use super::pending::Pending;
use super::reply::Reply;
use super::request::Request;
use super::stream::Stream;
use crate::msgpack::packed;
use crate::{Deadline, SendError};

impl Client {
    /// Sends a value as msgpack, with its fields by name, and waits for the reply, which
    /// [`Reply::msgpack`] reads.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-call-msgpack-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// let service = outlive::rpc::Service::open_or_create(&domain, "greeter")?;
    /// let mut server = service.server()?;
    /// let serving = std::thread::spawn(move || {
    ///     let request = server.next().unwrap();
    ///     let (name, age): (String, u32) = request.msgpack().unwrap();
    ///     request.reply_msgpack(&format!("{name} will be {}", age + 1)).unwrap();
    /// });
    /// let client = service.client()?;
    /// let reply = client.call_msgpack(&("Ada", 36))?;
    /// assert_eq!(reply.msgpack::<&str>()?, "Ada will be 37");
    /// serving.join().unwrap();
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`CallError::Encoding`] when the value cannot be serialized; else the errors of
    /// [`Client::call`].
    ///
    /// # If a process dies
    /// The same as with [`Client::call`].
    pub fn call_msgpack<Q: Serialize + ?Sized>(&self, question: &Q) -> Result<Reply, CallError> {
        self.call_msgpack_until(question, Deadline::NEVER)
    }

    /// Sends a value as msgpack and waits for the reply as long as `span`; then it cancels the call.
    ///
    /// # Errors
    /// The errors of [`Client::call_msgpack`], and [`CallError::TimedOut`].
    ///
    /// # If a process dies
    /// The same as with [`Client::call`].
    pub fn call_msgpack_timeout<Q: Serialize + ?Sized>(
        &self,
        question: &Q,
        span: Duration,
    ) -> Result<Reply, CallError> {
        self.call_msgpack_until(question, Deadline::after(span))
    }

    /// Sends a value as msgpack and waits for the reply until the deadline; then it cancels the
    /// call.
    ///
    /// # Errors
    /// The errors of [`Client::call_msgpack`], and [`CallError::TimedOut`].
    ///
    /// # If a process dies
    /// The same as with [`Client::call`].
    pub fn call_msgpack_until<Q: Serialize + ?Sized>(
        &self,
        question: &Q,
        deadline: Deadline,
    ) -> Result<Reply, CallError> {
        self.call_until(&packed(question).map_err(CallError::Encoding)?, deadline)
    }

    /// Sends a value as msgpack and returns at once, as [`Client::begin`] does.
    ///
    /// # Errors
    /// [`CallError::Encoding`] when the value cannot be serialized; else the errors of
    /// [`Client::begin`].
    ///
    /// # If a process dies
    /// The same as with [`Client::begin`].
    pub fn begin_msgpack<Q: Serialize + ?Sized>(
        &self,
        question: &Q,
    ) -> Result<Pending<'_>, CallError> {
        self.begin(&packed(question).map_err(CallError::Encoding)?)
    }
}

impl Reply {
    /// Deserializes the reply from msgpack.
    ///
    /// # Errors
    /// The decoder's error when the bytes are no such value.
    pub fn msgpack<'a, T: Deserialize<'a>>(&'a self) -> Result<T, rmp_serde::decode::Error> {
        rmp_serde::from_slice(self)
    }
}

impl Request {
    /// Deserializes the request from msgpack.
    ///
    /// # Errors
    /// The decoder's error when the bytes are no such value.
    pub fn msgpack<'a, T: Deserialize<'a>>(&'a self) -> Result<T, rmp_serde::decode::Error> {
        rmp_serde::from_slice(self)
    }

    /// Replies with a value as msgpack, with its fields by name.
    ///
    /// # Errors
    /// [`SendError::Encoding`] when the value cannot be serialized (the client gets
    /// [`CallError::Dropped`]); else the errors of [`Request::reply`].
    ///
    /// # If a process dies
    /// The same as with [`Request::reply`].
    pub fn reply_msgpack<A: Serialize + ?Sized>(self, answer: &A) -> Result<(), SendError> {
        let packed = packed(answer).map_err(SendError::Encoding)?;
        self.reply(&packed)
    }
}

impl Stream {
    /// Sends a value as msgpack, with its fields by name, waiting as [`Stream::send`] does.
    ///
    /// # Errors
    /// [`SendError::Encoding`] when the value cannot be serialized (the stream goes on); the
    /// others as of [`Stream::send`].
    ///
    /// # If a process dies
    /// The same as with [`Stream::send`].
    pub fn send_msgpack<A: Serialize + ?Sized>(&mut self, reply: &A) -> Result<(), SendError> {
        let packed = packed(reply).map_err(SendError::Encoding)?;
        self.send(&packed)
    }
}
