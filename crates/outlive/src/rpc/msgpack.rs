//! Questions and answers as msgpack, for any type that serde knows: on top of the calls with bytes.

use serde::{Deserialize, Serialize};

use super::client::Client;
use super::error::{CallError, ReplyError};
use super::pending::Pending;
use super::reply::Reply;
use super::request::Request;
use super::stream::Stream;
use crate::Deadline;

impl Client {
    /// Asks with a value as msgpack, fields by their names, and waits for the answer: [`Reply::msgpack`] reads it.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-call-msgpack-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_at(&folder)?;
    /// use outlive::rpc::{Client, Server};
    ///
    /// let mut server = Server::open(&domain, "greeter")?;
    /// let serving = std::thread::spawn(move || {
    ///     let request = server.next().unwrap();
    ///     let (name, age): (String, u32) = request.msgpack().unwrap();
    ///     request.reply_msgpack(&format!("{name} will be {}", age + 1)).unwrap();
    /// });
    /// let client = Client::open(&domain, "greeter")?;
    /// let reply = client.call_msgpack(&("Ada", 36))?;
    /// assert_eq!(reply.msgpack::<&str>()?, "Ada will be 37");
    /// serving.join().unwrap();
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`CallError::Encoding`], and as [`Client::call`].
    ///
    /// # If a process dies
    /// As with [`Client::call`].
    pub fn call_msgpack<Q: Serialize + ?Sized>(&self, question: &Q) -> Result<Reply, CallError> {
        self.call_msgpack_until(question, Deadline::NEVER)
    }

    /// The same, until the deadline: then the call is cancelled.
    ///
    /// # Errors
    /// As [`Client::call_msgpack`], and [`CallError::TimedOut`].
    ///
    /// # If a process dies
    /// As with [`Client::call`].
    pub fn call_msgpack_until<Q: Serialize + ?Sized>(
        &self,
        question: &Q,
        deadline: impl Into<Deadline>,
    ) -> Result<Reply, CallError> {
        self.call_until(&packed(question).map_err(CallError::Encoding)?, deadline)
    }

    /// Asks with a value as msgpack, and goes on, as [`Client::begin`] does.
    ///
    /// # Errors
    /// [`CallError::Encoding`], and as [`Client::begin`].
    ///
    /// # If a process dies
    /// As with [`Client::begin`].
    pub fn begin_msgpack<Q: Serialize + ?Sized>(&self, question: &Q) -> Result<Pending<'_>, CallError> {
        self.begin(&packed(question).map_err(CallError::Encoding)?)
    }
}

impl Reply {
    /// The value, read from msgpack.
    ///
    /// # Errors
    /// What the bytes have instead.
    pub fn msgpack<'a, T: Deserialize<'a>>(&'a self) -> Result<T, rmp_serde::decode::Error> {
        rmp_serde::from_slice(self)
    }
}

impl Request {
    /// The value that was asked with, read from msgpack.
    ///
    /// # Errors
    /// What the bytes have instead.
    pub fn msgpack<'a, T: Deserialize<'a>>(&'a self) -> Result<T, rmp_serde::decode::Error> {
        rmp_serde::from_slice(self)
    }

    /// Answers with a value as msgpack, fields by their names.
    ///
    /// # Errors
    /// [`ReplyError::Encoding`], of which the client is told [`CallError::Dropped`], and as [`Request::reply`].
    ///
    /// # If a process dies
    /// As with [`Request::reply`].
    pub fn reply_msgpack<A: Serialize + ?Sized>(self, answer: &A) -> Result<(), ReplyError> {
        let packed = packed(answer).map_err(ReplyError::Encoding)?;
        self.reply(&packed)
    }
}

impl Stream {
    /// Sends a value as msgpack, fields by their names, waiting as [`Stream::send`] does.
    ///
    /// # Errors
    /// [`ReplyError::Encoding`], after which the stream goes on, and as [`Stream::send`].
    ///
    /// # If a process dies
    /// As with [`Stream::send`].
    pub fn send_msgpack<A: Serialize + ?Sized>(&mut self, reply: &A) -> Result<(), ReplyError> {
        let packed = packed(reply).map_err(ReplyError::Encoding)?;
        self.send(&packed)
    }
}

fn packed<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, String> {
    rmp_serde::to_vec_named(value).map_err(|error| error.to_string())
}
