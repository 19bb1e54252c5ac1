//! Services as sources: requests to a server, answers to a call.

use std::sync::Arc;

use super::futures::UntilReady;
use super::source::{Announced, Look, Readiness, Source, Waited, Watched};
use crate::Error;
use crate::rpc::{CallError, CallNews, CallReadiness, Pending, Reply, Request, RequestReadiness, ServeError, Server};
use crate::wake::EventCount;
use crate::wake::WaitWords;

/// Ready when [`Server::try_next`] is worth a try.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-set-server-{}", std::process::id()));
/// # let domain = outlive::Domain::open_at(&folder)?;
/// use outlive::rpc::{Client, Server};
/// use outlive::wait::{WaitSet, Readiness};
///
/// let (mut one, mut two) = (Server::open(&domain, "one")?, Server::open(&domain, "two")?);
/// let client = Client::open(&domain, "two")?;            // in another process, as a rule
/// let mut set = WaitSet::new(&domain);
/// let (_ones, twos) = (set.add(&one)?, set.add(&two)?);
/// let mut call = client.begin(b"2 + 2")?;
/// assert_eq!(set.wait(outlive::Deadline::NEVER)?.collect::<Vec<_>>(), [(twos, Readiness::Readable)]);
///
/// let mut answers = WaitSet::new(&domain);
/// let answer = answers.add(&call)?;
/// assert_eq!(answers.try_wait()?.count(), 0);
/// two.try_next()?.reply(b"4")?;
/// assert_eq!(answers.wait(outlive::Deadline::NEVER)?.collect::<Vec<_>>(), [(answer, Readiness::Readable)]);
/// assert_eq!(*call.try_next()?.unwrap().unwrap(), *b"4");
/// assert!(one.try_next().is_err());
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl Source for Server {
    fn watched(&self) -> Result<Watched, Error> {
        let readiness = self.readiness();
        let registry = Some(readiness.registry());
        Ok(Watched { waited: Arc::new(readiness), registry })
    }
}

impl Waited for RequestReadiness {
    fn look(&self) -> Look {
        if self.is_any() { Look::Ready(Readiness::Readable) } else { Look::Nothing }
    }

    fn event_count(&self) -> Option<&EventCount> {
        Some(self.messages())
    }

    fn add_words<'a>(&'a self, announced: &mut Announced, words: &mut WaitWords<'a>) {
        words.add(&[self.messages().watch(announced.ticket)]);
    }

    fn needs_recheck(&self, _: &Announced) -> bool {
        true
    }
}

impl Server {
    /// [`Server::next`] for `async`: see [`Receiver::recv_async`](crate::queue::Receiver::recv_async).
    ///
    /// # Errors
    /// As [`Server::next`]; [`ServeError::System`] also when there is no thread to be had.
    ///
    /// # If a process dies
    /// As with [`Server::next`].
    pub async fn next_async(&mut self) -> Result<Request, ServeError> {
        loop {
            match self.try_next() {
                Err(ServeError::Empty) => {}
                taken => return taken,
            }
            UntilReady::of_one(self, self.readiness().registry())
                .map_err(ServeError::System)?
                .await
                .map_err(ServeError::System)?;
        }
    }
}

/// Ready when [`Pending::try_next`] has something to tell: a reply or the call's end ([`Readiness::Readable`]), or that there is no
/// server any more to answer it ([`Readiness::Ended`]); from the last of these on no more.
impl Source for Pending<'_> {
    fn watched(&self) -> Result<Watched, Error> {
        let readiness = self.readiness();
        let registry = Some(readiness.registry());
        Ok(Watched { waited: Arc::new(readiness), registry })
    }
}

impl Waited for CallReadiness {
    fn look(&self) -> Look {
        match CallReadiness::look(self) {
            CallNews::Something => Look::Ready(Readiness::Readable),
            CallNews::ServerGone => Look::Ready(Readiness::Ended),
            CallNews::Nothing(Some(owner)) => Look::Owner(owner),
            CallNews::Nothing(None) => Look::Nothing,
        }
    }

    fn event_count(&self) -> Option<&EventCount> {
        self.replies()
    }

    fn add_words<'a>(&'a self, announced: &mut Announced, words: &mut WaitWords<'a>) {
        let ticket = announced.ticket;
        announced.asked = self.replies().and_then(|replies| self.add_to(replies.watch(ticket), words));
    }

    fn needs_recheck(&self, announced: &Announced) -> bool {
        // Without a server: see queue/endpoint.rs.
        announced.asked.is_some()
    }

    fn woken(&self, announced: &Announced) {
        announced.asked.into_iter().for_each(|asked| CallReadiness::woken(self, asked));
    }
}

impl Pending<'_> {
    /// [`Pending::next`] for `async`: see [`Receiver::recv_async`](crate::queue::Receiver::recv_async). Dropped before it is
    /// ready, it has taken nothing, and the call goes on.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-call-async-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_at(&folder)?;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// use outlive::rpc::{Client, Server};
    /// let mut server = Server::open(&domain, "double")?;
    /// std::thread::spawn(move || server.next().unwrap().reply(b"4"));
    /// let client = Client::open(&domain, "double")?;
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
    /// As [`Pending::next`]; [`CallError::System`] also when there is no thread to be had.
    ///
    /// # If a process dies
    /// As with [`Pending::next`].
    pub async fn next_async(&mut self) -> Result<Option<Reply>, CallError> {
        loop {
            if let Some(found) = self.try_next()? {
                return Ok(found);
            }
            UntilReady::of_one(self, self.readiness().registry())?.await?;
        }
    }
}
