//! Clients that live and do nothing, and clients that died: told to a process that asks for it.
//!
//! What a client does is seen in words that it alone writes: which calls it has made, what it has
//! taken of their replies, and how often it has asserted that it is there. The watcher adds them up,
//! by process, and remembers the sum, with *its own* moment of the look that first saw it:
//!
//! | a look finds | it tells |
//! | --- | --- |
//! | the process dead, and its name in a client slot | `Died`, once |
//! | another sum than before | `Lively`, if it had told `NotLively` |
//! | the same sum, and a lease between the two looks | `NotLively`, once |
//! | its name in no client slot any more | nothing, if the process lives, or if `left` of the slots that it had names it: it has left in order. Else `Died`: a sweep or a new client has taken its name out |
//!
//! So `NotLively` is never said of a client that did something within the lease. All the watcher's
//! words are its process's own: a death or a stop of it leaves nothing to repair.
//!
//! | the client dies, or is stopped | what the watcher tells |
//! | --- | --- |
//! | at any instruction | died: at once, since the watcher sleeps behind it. Stopped: `NotLively` after the lease, and `Lively` when it goes on |
//! | as it comes, before `clients` + 1 | the same, once a look has found it: within half a lease, or a second |
//! | between `left` and the client slot's 0, as it leaves | died, or stopped: the same |

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::layout::{SLOTS, ServiceFile};
use crate::claim::Holder;
use crate::liveness::{Registry, TokenId};
use crate::shim::Ordering;
use crate::sys::clock::monotonic_nanos;
use crate::sys::futex::{self, Watch};
use crate::sys::robust::WakeRelay;
use crate::sys::{Errno, identity};
use crate::wake::{
    PreparedWait, Readiness, Sleep, Source, SourceState, WaitWords, Waited, Watched,
};
use crate::{Deadline, Error};

/// The shortest lease, in nanoseconds: with none a watcher would compute all the time.
const SHORTEST: u64 = 1_000_000;

/// Says what has become of a client, a process that has one or more [`Client`](super::Client)s.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientEvent {
    /// The client lives, and has done nothing for a lease: it has made no call, sent no part of a
    /// request, taken no reply of a stream, and not asserted that it is there.
    NotLively(Holder),
    /// The client has done something since it was told as not lively.
    Lively(Holder),
    /// The client has ended without leaving in order.
    Died(Holder),
}

impl ClientEvent {
    /// Returns which client it is.
    #[must_use]
    pub fn client(&self) -> &Holder {
        match self {
            ClientEvent::NotLively(client)
            | ClientEvent::Lively(client)
            | ClientEvent::Died(client) => client,
        }
    }
}

/// Tells which clients of a service do nothing, and which have died:
/// [`Service::watch_clients`](super::Service::watch_clients) makes it.
///
/// A client that leaves in order is not told. Of a client that comes, dies, and is swept between two
/// looks, nothing is told either.
///
/// # If a process dies
/// A client's death is told at once. If the watcher dies, nothing is left of it.
pub struct ClientWatch(Followed);

/// What a [`ClientWatch`] follows, as it and its wait sets see it.
#[derive(Clone)]
struct Followed {
    service: ServiceFile,
    /// The process that follows: see [`Followed::looked`].
    of: u64,
    looked: Arc<Mutex<Looked>>,
}

struct Looked {
    /// Nanoseconds, not 0.
    lease: u64,
    clients: Vec<Seen>,
    /// What is to be told, oldest first.
    news: VecDeque<ClientEvent>,
    lapses: u64,
    deaths: u64,
    /// The watch has looked as it began: it tells nothing of the clients that were dead by then.
    has_looked: bool,
}

/// What the last look at a client has found.
struct Seen {
    process: TokenId,
    /// The holder, as of then: a sweep may forget that.
    who: Holder,
    /// The client slots with its name.
    slots: Vec<u32>,
    done: u64,
    /// When a look first saw that sum.
    since: u64,
    has_lapsed: bool,
    /// Its death has been told.
    is_over: bool,
    is_there: bool,
}

impl Looked {
    /// Looks, unless there is something to tell.
    fn has_news(&mut self, service: &ServiceFile) -> Result<bool, Error> {
        if self.news.is_empty() {
            self.look(service)?;
        }
        Ok(!self.news.is_empty())
    }

    /// Returns the clients whose ends call for another look, and the moment that does.
    fn behind(&self) -> (Vec<TokenId>, Deadline) {
        let living = self.clients.iter().filter(|seen| !seen.is_over);
        (living.map(|seen| seen.process).collect(), self.moment())
    }

    fn look(&mut self, service: &ServiceFile) -> Result<(), Error> {
        let registry = service.queue.registry();
        // Before the words: a lease that has passed by now has passed when they are read.
        let now = monotonic_nanos();
        // All that can fail comes before the change of what the last look has found.
        let mut found = Vec::new();
        for client_slot in 0..service.client_slots() {
            if let Some(process) = service.who(client_slot).process() {
                found.push((client_slot, process, service.done_in(client_slot)?));
            }
        }
        let before: Vec<Vec<u32>> =
            self.clients.iter_mut().map(|seen| std::mem::take(&mut seen.slots)).collect();
        let mut sums = vec![0_u64; self.clients.len()];
        for (client_slot, process, done) in found {
            let known = self.clients.iter().position(|seen| seen.process == process);
            let at = known.unwrap_or_else(|| {
                sums.push(0);
                self.clients.push(Seen::new(registry, process));
                self.clients.len() - 1
            });
            self.clients[at].slots.push(client_slot);
            sums[at] = sums[at].wrapping_add(done);
        }
        for (at, seen) in self.clients.iter_mut().enumerate() {
            let is_alive = registry.is_alive(seen.process);
            let named = |who: &Holder| Holder { alive: is_alive, ..who.clone() };
            let is_new = !std::mem::replace(&mut seen.is_there, true);
            let died = if seen.slots.is_empty() {
                // It has left, or its name was taken out of these.
                seen.is_there = false;
                !is_alive && before[at].iter().any(|&slot| !service.has_left(slot, seen.process))
            } else {
                !is_alive && (self.has_looked || !is_new)
            };
            if died && !seen.is_over {
                self.deaths += 1;
                self.news.push_back(ClientEvent::Died(named(&seen.who)));
            }
            seen.is_over |= !is_alive;
            if seen.is_over || !seen.is_there {
                continue;
            }
            if is_new || sums[at] != seen.done {
                if seen.has_lapsed {
                    self.news.push_back(ClientEvent::Lively(named(&seen.who)));
                }
                // After the words: they are as they were read, or changed, since then.
                (seen.done, seen.since, seen.has_lapsed) = (sums[at], monotonic_nanos(), false);
            } else if !seen.has_lapsed && now.saturating_sub(seen.since) >= self.lease {
                seen.has_lapsed = true;
                self.lapses += 1;
                self.news.push_back(ClientEvent::NotLively(named(&seen.who)));
            }
        }
        self.clients.retain(|seen| seen.is_there);
        self.has_looked = true;
        Ok(())
    }

    /// Returns when there may be something to tell that no process's end tells.
    fn moment(&self) -> Deadline {
        let living = self.clients.iter().filter(|seen| !seen.is_over);
        // A client that has lapsed notifies no process when it goes on.
        let next = |seen: &Seen| match seen.has_lapsed {
            false => seen.since.saturating_add(self.lease),
            true => monotonic_nanos().saturating_add(self.lease / 2),
        };
        living.map(next).min().map_or(Deadline::NEVER, Deadline::at_nanos)
    }
}

impl Seen {
    fn new(registry: &'static Registry, process: TokenId) -> Seen {
        Seen {
            process,
            who: Holder::of(registry, process),
            slots: Vec::new(),
            done: 0,
            since: 0,
            has_lapsed: false,
            is_over: false,
            is_there: false,
        }
    }
}

impl ServiceFile {
    /// Returns a number that changes whenever the client of that client slot does something.
    fn done_in(&self, client_slot: u32) -> Result<u64, Error> {
        let first = self.call(client_slot * SLOTS)?;
        // Relaxed: counts, nothing comes with them.
        let mut done = u64::from(first.words.asserted.load(Ordering::Relaxed));
        for slot in client_slot * SLOTS..(client_slot + 1) * SLOTS {
            let call = self.call(slot)?;
            // Both begin with the call's number, so each only grows.
            done = done.wrapping_add(call.question.done());
            done = done.wrapping_add(call.words.taken.load(Ordering::Relaxed));
            done = done.wrapping_add(call.words.parts().0);
        }
        Ok(done)
    }

    /// Tells those that watch clients that this process has taken a client slot.
    pub(super) fn tell_client(&self, client_slot: u32, process: TokenId) {
        // This process is there again: it has not left. Another one's name stays, whose leave a
        // watcher may not have seen. Relaxed: read once the client slot's word does not name this
        // process any more, which was written with Release.
        if let Ok(call) = self.call(client_slot * SLOTS) {
            let (own, relaxed) = (process.as_u32(), Ordering::Relaxed);
            let _ = call.words.left.compare_exchange(own, 0, relaxed, relaxed);
        }
        // Release pairs with the look of a watcher: it sees the client slot's word. If this process
        // dies or is stopped before, the watcher finds the client at its recheck.
        let clients = &self.head().clients;
        clients.fetch_add(1, Ordering::Release);
        futex::wake_all(clients);
    }

    /// Notes that this process leaves a client slot in order; its word becomes 0 next.
    pub(super) fn set_left(&self, client_slot: u32, process: TokenId) {
        if let Ok(call) = self.call(client_slot * SLOTS) {
            call.words.left.store(process.as_u32(), Ordering::Relaxed);
        }
    }

    /// Returns whether the last client to leave that client slot in order is that process.
    fn has_left(&self, client_slot: u32, process: TokenId) -> bool {
        // Relaxed: written before the client slot's word, which `who` has loaded with Acquire.
        self.call(client_slot * SLOTS)
            .is_ok_and(|call| call.words.left.load(Ordering::Relaxed) == process.as_u32())
    }
}

impl Followed {
    /// Refuses a forked child: a thread of the parent's, which the child does not have, may have had
    /// the lock at the fork.
    fn looked(&self) -> Result<MutexGuard<'_, Looked>, Error> {
        if identity::this_process() != Ok(self.of) {
            return Err(Error::System {
                doing: "use a forked child's copy of a client watch in",
                path: self.registry().path().to_path_buf(),
                errno: Errno::PERM.raw_os_error(),
            });
        }
        Ok(self.looked.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn registry(&self) -> &'static Registry {
        self.service.queue.registry()
    }

    /// Looks, unless there is something to tell.
    fn has_news(&self) -> Result<bool, Error> {
        self.looked()?.has_news(&self.service)
    }
}

impl ClientWatch {
    pub(super) fn new(service: ServiceFile, lease: Duration) -> Result<ClientWatch, Error> {
        let lease = u64::try_from(lease.as_nanos()).unwrap_or(u64::MAX).max(SHORTEST);
        let looked = Looked {
            lease,
            clients: Vec::new(),
            news: VecDeque::new(),
            lapses: 0,
            deaths: 0,
            has_looked: false,
        };
        let of = identity::this_process()
            .map_err(|errno| Error::from_errno("watch", service.queue.registry().path(), errno))?;
        let watch = Followed { service, of, looked: Arc::new(Mutex::new(looked)) };
        watch.has_news()?;
        Ok(ClientWatch(watch))
    }

    /// Waits until something has become of a client, and returns it.
    ///
    /// # Errors
    /// [`Error::NoToken`], [`Error::Damaged`] and errors of the system; [`Error::System`] in a forked
    /// child, which makes a watch of its own.
    ///
    /// # If a process dies
    /// See [`ClientWatch`].
    #[expect(clippy::should_implement_trait, reason = "it waits, and fails")]
    pub fn next(&mut self) -> Result<ClientEvent, Error> {
        Deadline::never(|deadline| self.next_until(deadline))
    }

    /// Returns what has become of a client; `None` when there is nothing to tell. Never waits.
    ///
    /// # Errors
    /// The errors of [`ClientWatch::next`].
    pub fn try_next(&mut self) -> Result<Option<ClientEvent>, Error> {
        self.0.has_news()?;
        Ok(self.0.looked()?.news.pop_front())
    }

    /// Waits until something has become of a client, as long as `span` at most; `None` when that has
    /// passed.
    ///
    /// # Errors
    /// The errors of [`ClientWatch::next`].
    ///
    /// # If a process dies
    /// See [`ClientWatch`].
    pub fn next_timeout(&mut self, span: Duration) -> Result<Option<ClientEvent>, Error> {
        self.next_until(Deadline::after(span))
    }

    /// Waits until something has become of a client, until the deadline at most; `None` when that
    /// has passed.
    ///
    /// # Errors
    /// The errors of [`ClientWatch::next`].
    ///
    /// # If a process dies
    /// See [`ClientWatch`].
    pub fn next_until(&mut self, deadline: Deadline) -> Result<Option<ClientEvent>, Error> {
        let registry = self.0.registry();
        let me = registry.me()?;
        let relay = WakeRelay::begin(me.list());
        let mut start = 0;
        loop {
            // Before the look: a client that comes behind it ends the sleep at once.
            let expected = self.0.service.head().clients.load(Ordering::Acquire);
            let (owners, moment) = {
                let mut looked = self.0.looked()?;
                if looked.has_news(&self.0.service)? {
                    return Ok(looked.news.pop_front());
                }
                looked.behind()
            };
            if deadline.has_passed() {
                return Ok(None);
            }
            let word = &self.0.service.head().clients;
            let words = [Watch { word, expected }];
            let mut until = deadline.earlier(moment);
            // A client may be stopped before it tells that it has come.
            if let Some(span) = registry.recheck() {
                until = until.earlier(Deadline::after(span));
            }
            let sleep = Sleep::on(registry, &words).behind(&relay, &owners).beginning_at(start);
            start = start.wrapping_add(1);
            sleep
                .until(until)
                .map_err(|errno| Error::from_errno("watch", registry.path(), errno))?;
        }
    }

    /// Returns the registry of the service's domain.
    pub(crate) fn registry(&self) -> &'static Registry {
        self.0.registry()
    }

    /// Returns the living clients that the last look found; none in a forked child. Each of the calls
    /// above looks, unless it has something to tell already.
    #[must_use]
    pub fn clients(&self) -> Vec<Holder> {
        let Ok(looked) = self.0.looked() else { return Vec::new() };
        looked.clients.iter().filter(|seen| !seen.is_over).map(|seen| seen.who.clone()).collect()
    }

    /// Returns how often a client's lease has passed; 0 in a forked child.
    #[must_use]
    pub fn lapses(&self) -> u64 {
        self.0.looked().map_or(0, |looked| looked.lapses)
    }

    /// Returns how many clients have died; 0 in a forked child.
    #[must_use]
    pub fn deaths(&self) -> u64 {
        self.0.looked().map_or(0, |looked| looked.deaths)
    }
}

impl Waited for Followed {
    fn look(&self) -> SourceState {
        let behind = self.looked().and_then(|mut looked| {
            Ok(if looked.has_news(&self.service)? { None } else { Some(looked.behind()) })
        });
        match behind {
            Ok(Some((owners, moment))) => SourceState::BehindOwners(owners, moment),
            // A failure is worth a try, which returns it.
            Ok(None) | Err(_) => SourceState::Ready(Readiness::Changed),
        }
    }

    /// A client may be stopped before it tells that it has come.
    fn needs_recheck(&self, _: &PreparedWait) -> bool {
        true
    }

    fn add_words<'a>(&'a self, _: &mut PreparedWait, words: &mut WaitWords<'a>) {
        // A client that comes raises it, and wakes whether any thread is asleep or not. Acquire: the
        // look that follows sees that client.
        let word = &self.service.head().clients;
        words.add(&[Watch { word, expected: word.load(Ordering::Acquire) }]);
    }
}

/// Ready when something has become of a client, until [`ClientWatch::try_next`] has returned it.
impl Source for ClientWatch {
    fn watched(&self) -> Result<Watched, Error> {
        Ok(Watched::of(self.0.clone(), self.0.registry()))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Domain;
    use crate::rpc::Service;

    #[test]
    fn a_look_that_fails_forgets_no_client() {
        let folder =
            std::env::temp_dir().join(format!("outlive-watch-fails-{}", std::process::id()));
        let domain = Domain::open_or_create_at(&folder).expect("opens");
        let service = Service::<[u8]>::open_or_create(&domain, "s").expect("made");
        let client = service.client().expect("room");
        let watch = service.watch_clients(Duration::from_secs(100)).expect("watches");
        let slots = || watch.0.looked().expect("ours").clients.first().map(|one| one.slots.clone());
        let before = slots();
        assert!(before.as_ref().is_some_and(|slots| !slots.is_empty()));
        // A stray write: a client slot behind the file's end.
        let (file, relaxed) = (&watch.0.service, Ordering::Relaxed);
        let (count, far) = (file.head().client_slots.load(relaxed), 200);
        file.client_slot(far).store(file.client_slot(0).load(relaxed), relaxed);
        file.head().client_slots.store(far + 1, relaxed);
        assert!(watch.0.has_news().is_err());
        assert_eq!(slots(), before);
        file.client_slot(far).store(0, relaxed);
        file.head().client_slots.store(count, relaxed);
        assert!(!watch.0.has_news().expect("well"));
        drop(client);
        let _ = std::fs::remove_dir_all(&folder);
    }
}
