//! Futures of services: requests and replies, the calls themselves, and standing by.
//!
//! A request that cannot be sent yet is tried again when a server comes, or when memory is freed. The
//! task prepares that wait before its last try, so no change falls between the two.

use std::sync::Arc;
use std::task::Poll;

use super::futures::{UntilReady, opened, worth_a_try};
use crate::rpc::{
    Call, CallError, Client, ClientEvent, ClientWatch, Part, PartRoom, Reply, ReplyRoom, Request,
    RequestLoan, RequestStream, Server, Service, Stream,
};
use crate::{Error, Payload, Plain, RecvError, SendError, WaitError};

/// Repeats a begin that does not wait until it need not.
async fn begun<Q: Payload + ?Sized, R: Payload + ?Sized, T>(
    client: &Client<Q, R>,
    mut begin: impl FnMut() -> Result<T, CallError>,
) -> Result<T, CallError> {
    let mut prepared = None;
    loop {
        match begin() {
            Err(CallError::TimedOut { .. }) => {}
            other => return other,
        }
        match prepared.take() {
            None => prepared = Some(client.begin_readiness()?),
            Some(readiness) => UntilReady::of(client.registry(), vec![readiness]).await?,
        }
    }
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Client<Q, R> {
    /// Sends a request and waits for the reply like [`Client::call`], for `async`: see
    /// [`Receiver::recv_async`](crate::queue::Receiver::recv_async). No step of it blocks the
    /// executor's thread. A future that is dropped before it is ready cancels the call.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-call-async2-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// let service = outlive::rpc::Service::<[u8]>::open_or_create(&domain, "double")?;
    /// let client = service.client()?;
    /// client.set_wait_for_server(true);
    /// std::thread::spawn(move || {                        // in another process, as a rule
    ///     let mut server = service.server().unwrap();
    ///     server.next().unwrap().reply(b"4")
    /// });
    /// # runtime.block_on(async {
    /// assert_eq!(*client.call_async(b"2").await?, *b"4");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Client::call`], also when no thread can be started.
    ///
    /// # If a process dies
    /// The same as with [`Client::call`].
    pub async fn call_async(&self, request: &Q) -> Result<Reply<R>, CallError> {
        self.begin_async(request).await?.wait_async().await
    }

    /// Sends a request like [`Client::begin`], for `async`: it waits for memory for a long request,
    /// and, with [`Client::set_wait_for_server`], for a server. A future that is dropped before it is
    /// ready has sent nothing.
    ///
    /// # Errors
    /// The errors of [`Client::begin`], also when no thread can be started.
    ///
    /// # If a process dies
    /// The same as with [`Client::begin`].
    pub async fn begin_async(&self, request: &Q) -> Result<Call<'_, R>, CallError> {
        begun(self, || self.try_begin(request)).await
    }

    /// Sends a request like [`Client::begin_owned`], for `async`: see [`Client::begin_async`].
    ///
    /// # Errors
    /// The errors of [`Client::begin`], also when no thread can be started.
    ///
    /// # If a process dies
    /// The same as with [`Client::begin`].
    pub async fn begin_owned_async(
        self: &Arc<Self>,
        request: &Q,
    ) -> Result<Call<'static, R>, CallError>
    where
        Q: 'static,
        R: 'static,
    {
        begun(self, || self.try_begin_owned(request)).await
    }

    /// Sends a request of several parts like [`Client::stream`], for `async`: see
    /// [`Client::begin_async`].
    ///
    /// # Errors
    /// The errors of [`Client::begin`], also when no thread can be started.
    ///
    /// # If a process dies
    /// The same as with [`Client::begin`].
    pub async fn stream_async(&self, request: &Q) -> Result<RequestStream<'_, Q, R>, CallError> {
        begun(self, || self.try_stream(request)).await
    }

    /// Sends a request of several parts like [`Client::stream_owned`], for `async`: see
    /// [`Client::begin_async`].
    ///
    /// # Errors
    /// The errors of [`Client::begin`], also when no thread can be started.
    ///
    /// # If a process dies
    /// The same as with [`Client::begin`].
    pub async fn stream_owned_async(
        self: &Arc<Self>,
        request: &Q,
    ) -> Result<RequestStream<'static, Q, R>, CallError>
    where
        Q: 'static,
        R: 'static,
    {
        begun(self, || self.try_stream_owned(request)).await
    }

    /// Waits for a living server like [`Client::wait_for_server`], for `async`.
    ///
    /// # Errors
    /// The errors of [`Client::wait_for_server`], also when no thread can be started.
    ///
    /// # If a process dies
    /// The same as with [`Client::wait_for_server`].
    pub async fn wait_for_server_async(&self) -> Result<(), CallError> {
        loop {
            match self.try_wait_for_server() {
                Err(CallError::NoServer) => {}
                other => return other,
            }
            UntilReady::of(self.registry(), vec![self.server_readiness()]).await?;
        }
    }
}

impl<T: Plain, R: Payload + ?Sized> Client<[T], R> {
    /// Lends memory for a request like [`Client::loan`], for `async`. A future that is dropped before
    /// it is ready has taken none.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-loan-async-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// let service = outlive::rpc::Service::<[f32], f32>::open_or_create(&domain, "sum")?;
    /// let (mut server, client) = (service.server()?, service.client()?);
    /// std::thread::spawn(move || {                        // in another process, as a rule
    ///     let request = server.next().unwrap();
    ///     let sum = request.value().iter().sum();
    ///     request.reply(&sum)
    /// });
    /// # runtime.block_on(async {
    /// let mut image = client.loan_async(100_000).await?;
    /// image.fill(0.5);
    /// assert_eq!(image.call_async().await?.value(), 50_000.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Client::loan`], also when no thread can be started.
    ///
    /// # If a process dies
    /// See [`RequestLoan`].
    pub async fn loan_async(&self, count: usize) -> Result<RequestLoan<'_, [T], R>, CallError> {
        begun(self, || self.try_loan(count)).await
    }
}

impl<'c, Q: Payload + ?Sized, R: Payload + ?Sized> RequestLoan<'c, Q, R> {
    /// Sends the request and waits for the reply like [`RequestLoan::call`], for `async`: see
    /// [`Client::call_async`].
    ///
    /// # Errors
    /// The errors of [`Client::call`], also when no thread can be started.
    ///
    /// # If a process dies
    /// The same as with [`Client::call`].
    pub async fn call_async(self) -> Result<Reply<R>, CallError> {
        self.begin_async().await?.wait_async().await
    }

    /// Sends the request like [`RequestLoan::begin`], for `async`: it waits for a server, with
    /// [`Client::set_wait_for_server`]. A future that is dropped before it is ready has sent nothing.
    ///
    /// # Errors
    /// The errors of [`Client::begin`], also when no thread can be started.
    ///
    /// # If a process dies
    /// The same as with [`Client::begin`].
    pub async fn begin_async(mut self) -> Result<Call<'c, R>, CallError> {
        let past = crate::Deadline::at_nanos(0);
        let call = begun(self.client(), || self.begin_or_keep(past)).await?;
        Ok(self.hand_on(call))
    }
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> RequestStream<'_, Q, R> {
    /// Sends a part like [`RequestStream::send`], for `async`: it waits while eight parts are under
    /// way, or while the service's memory is in use. A future that is dropped before it is ready has
    /// sent nothing, and the stream goes on.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-parts-async-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// let service = outlive::rpc::Service::<[u8], u64>::open_or_create(&domain, "store")?;
    /// let (mut server, client) = (service.server()?, service.client()?);
    /// # runtime.block_on(async {
    /// let serving = tokio::spawn(async move {             // in another process, as a rule
    ///     let mut request = server.next_async().await.unwrap();
    ///     let mut len = 0;
    ///     while let Some(part) = request.next_part_async().await.unwrap() {
    ///         len += part.len() as u64;
    ///     }
    ///     request.reply(&len)
    /// });
    /// let mut upload = client.stream_async(b"holiday.mp4").await?;
    /// for _ in 0..20 {
    ///     upload.send_async(&[7; 1_000]).await?;
    /// }
    /// let reply = upload.finish()?.wait_async().await?;
    /// assert_eq!(reply.value(), 20_000);
    /// serving.await??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`RequestStream::send`], also when no thread can be started.
    ///
    /// # If a process dies
    /// The same as with [`RequestStream::send`].
    pub async fn send_async(&mut self, part: &Q) -> Result<(), CallError> {
        let registry = self.client().registry();
        let mut room = None;
        loop {
            match self.try_send(part) {
                Err(CallError::TimedOut { .. }) => {}
                other => return other,
            }
            match &room {
                Some(room) => UntilReady::of_one(room, registry)?.await?,
                // The next try tells it of memory that is missing.
                None => room = Some(self.room()),
            }
        }
    }

    /// Receives a reply like [`RequestStream::next_reply`], for `async`: see [`Call::next_async`].
    ///
    /// # Errors
    /// The errors of [`Call::next_async`].
    ///
    /// # If a process dies
    /// As with [`Call::next`].
    pub async fn next_reply_async(&mut self) -> Result<Option<Reply<R>>, CallError> {
        loop {
            if let Poll::Ready(found) = self.try_next_reply()? {
                return Ok(found);
            }
            let readiness = self.call().readiness();
            UntilReady::of(readiness.registry(), vec![Arc::new(readiness)]).await?;
        }
    }
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Stream<Q, R> {
    /// Sends a reply like [`Stream::send`], for `async`: it waits while eight are under way. A future
    /// that is dropped before it is ready has sent nothing, and the stream goes on.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-send-async-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// let service = outlive::rpc::Service::<u64, u64>::open_or_create(&domain, "count")?;
    /// let (mut server, client) = (service.server()?, service.client()?);
    /// # runtime.block_on(async {
    /// let serving = tokio::spawn(async move {             // in another process, as a rule
    ///     let request = server.next_async().await.unwrap();
    ///     let last = request.value();
    ///     let mut stream = request.stream();
    ///     for number in 1..=last {
    ///         stream.send_async(&number).await?;
    ///     }
    ///     stream.finish()
    /// });
    /// let mut call = client.begin_async(&100).await?;
    /// let mut sum = 0;
    /// while let Some(number) = call.next_async().await? {
    ///     sum += number.value();
    /// }
    /// assert_eq!(sum, 5_050);
    /// serving.await??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Stream::send`], also when no thread can be started.
    ///
    /// # If a process dies
    /// The same as with [`Stream::send`].
    pub async fn send_async(&mut self, reply: &R) -> Result<(), SendError> {
        loop {
            match self.try_send(reply) {
                Err(SendError::Full { .. }) => {}
                other => return other,
            }
            UntilReady::of_one(&self.room_once(), self.request().registry())?.await?;
        }
    }

    /// Receives a part of the request like [`Stream::next_part`], for `async`: see
    /// [`Request::next_part_async`].
    ///
    /// # Errors
    /// The errors of [`Request::next_part`], also when no thread can be started.
    ///
    /// # If a process dies
    /// The same as with [`Request::next_part`].
    pub async fn next_part_async(&mut self) -> Result<Option<Part<Q>>, RecvError> {
        loop {
            if let Poll::Ready(part) = self.try_next_part()? {
                return Ok(part);
            }
            UntilReady::of_one(&self.request().parts_once(), self.request().registry())?.await?;
        }
    }
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Service<Q, R> {
    /// Makes this process the server like [`Service::wait_to_serve`], for `async`: see
    /// [`Queue::wait_to_receive_async`](crate::queue::Queue::wait_to_receive_async).
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-serve-async-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// let service = outlive::rpc::Service::<[u8]>::open_or_create(&domain, "sum")?;
    /// let server = service.server()?;                     // in another process, as a rule
    /// std::thread::spawn(move || drop(server));
    /// # runtime.block_on(async {
    /// let mut next = service.wait_to_serve_async().await?;
    /// assert!(next.try_next()?.is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Service::wait_to_serve`], also when no thread can be started.
    ///
    /// # If a process dies
    /// The same as with [`Service::wait_to_serve`].
    pub async fn wait_to_serve_async(&self) -> Result<Server<Q, R>, Error> {
        loop {
            if let Some(server) = self.try_wait_to_serve()? {
                return Ok(server);
            }
            worth_a_try(&self.stand_by()).await?;
        }
    }

    /// Waits, as a stand-in, until another process serves, or wants to.
    ///
    /// # Errors
    /// Those of the system.
    #[doc(hidden)]
    pub async fn called_away_async(&self, serving: u32) -> Result<(), Error> {
        worth_a_try(&self.called_away(serving)).await
    }

    /// Waits until no server lives.
    ///
    /// # Errors
    /// Those of the system.
    #[doc(hidden)]
    pub async fn unserved_async(&self) -> Result<(), Error> {
        worth_a_try(&self.unserved()).await
    }
}

impl PartRoom {
    /// Waits until another try to send a part is worth it.
    ///
    /// # Errors
    /// Those of the system.
    #[doc(hidden)]
    pub async fn worth_a_try_async(&self) -> Result<(), Error> {
        worth_a_try(self).await
    }
}

impl ReplyRoom {
    /// Waits until another try to send a reply is worth it.
    ///
    /// # Errors
    /// Those of the system.
    #[doc(hidden)]
    pub async fn worth_a_try_async(&self) -> Result<(), Error> {
        worth_a_try(self).await
    }
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Server<Q, R> {
    /// Receives a request like [`Server::next`], for `async`: see
    /// [`Receiver::recv_async`](crate::queue::Receiver::recv_async).
    ///
    /// # Errors
    /// As [`Server::next`]; [`RecvError::System`](crate::RecvError::System) also when no thread can
    /// be started.
    ///
    /// # If a process dies
    /// As with [`Server::next`].
    pub async fn next_async(&mut self) -> Result<Request<Q, R>, RecvError> {
        loop {
            if let Some(request) = self.try_next()? {
                return Ok(request);
            }
            UntilReady::of_one(self, self.readiness().registry())?.await?;
        }
    }
}

impl<Q: Payload + ?Sized, R: Payload + ?Sized> Request<Q, R> {
    /// Waits like [`Request::wait_cancelled`], for `async`: see
    /// [`Receiver::recv_async`](crate::queue::Receiver::recv_async). Beside the work on a request,
    /// it ends that work when no client wants it any more.
    ///
    /// # Errors
    /// As [`Request::wait_cancelled`], also when no thread can be started.
    ///
    /// # If a process dies
    /// As with [`Request::wait_cancelled`].
    pub async fn wait_cancelled_async(&self) -> Result<(), WaitError> {
        while !self.is_cancelled() {
            opened(self).await?;
        }
        Ok(())
    }

    /// Receives a part like [`Request::next_part`], for `async`: see
    /// [`Receiver::recv_async`](crate::queue::Receiver::recv_async). A future that is dropped before
    /// it is ready has taken nothing.
    ///
    /// # Errors
    /// The errors of [`Request::next_part`], also when no thread can be started.
    ///
    /// # If a process dies
    /// The same as with [`Request::next_part`].
    pub async fn next_part_async(&mut self) -> Result<Option<Part<Q>>, RecvError> {
        loop {
            if let Poll::Ready(part) = self.try_next_part()? {
                return Ok(part);
            }
            UntilReady::of_one(&self.parts_once(), self.registry())?.await?;
        }
    }
}

impl<R: Payload + ?Sized> Call<'_, R> {
    /// Receives a reply like [`Call::next`], for `async`: see
    /// [`Receiver::recv_async`](crate::queue::Receiver::recv_async). A future that is dropped
    /// before it is ready has taken nothing, and the call goes on.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-call-async-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// let service = outlive::rpc::Service::<[u8], [u8]>::open_or_create(&domain, "double")?;
    /// let mut server = service.server()?;
    /// std::thread::spawn(move || server.next().unwrap().reply(b"4"));
    /// let client = service.client()?;
    /// # runtime.block_on(async {
    /// let mut call = client.begin(b"2")?;
    /// assert_eq!(*call.next_async().await?.unwrap(), *b"4");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Call::next`]; [`CallError::System`] also when no thread can be started.
    ///
    /// # If a process dies
    /// As with [`Call::next`].
    pub async fn next_async(&mut self) -> Result<Option<Reply<R>>, CallError> {
        loop {
            if let Poll::Ready(found) = self.try_next()? {
                return Ok(found);
            }
            UntilReady::of_one(self, self.readiness().registry())?.await?;
        }
    }

    /// Waits for the reply like [`Call::wait`], for `async`: see [`Call::next_async`]. A future that
    /// is dropped before it is ready cancels the call.
    ///
    /// # Errors
    /// As [`Call::wait`]; [`CallError::System`] also when no thread can be started.
    ///
    /// # If a process dies
    /// As with [`Call::wait`].
    pub async fn wait_async(mut self) -> Result<Reply<R>, CallError> {
        self.next_async().await?.ok_or(CallError::Dropped)
    }
}

impl ClientWatch {
    /// Waits like [`ClientWatch::next`], for `async`: see
    /// [`Receiver::recv_async`](crate::queue::Receiver::recv_async).
    ///
    /// # Errors
    /// The errors of [`ClientWatch::next`], also when no thread can be started.
    ///
    /// # If a process dies
    /// The same as with [`ClientWatch::next`].
    pub async fn next_async(&mut self) -> Result<ClientEvent, Error> {
        loop {
            if let Some(event) = self.try_next()? {
                return Ok(event);
            }
            UntilReady::of_one(self, self.registry())?.await?;
        }
    }
}
