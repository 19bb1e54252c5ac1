//! What a domain contains.

use crate::claim::Holder;
use crate::describe::Description;
use crate::jobs::JobsUsage;
use crate::notify::NotifierUsage;
use crate::pool::Usage;
use crate::queue::{Counters, Queue, QueueConfig};
use crate::rpc::Overview;
use crate::segment::{Attributes, Segment, check_name, control_file};
use crate::state::State;
use crate::sync::{LockDetail, primitives};
use crate::sys::file::{self, Rights};
use crate::topic::TopicUsage;
use crate::{Domain, Error, Kind};

use super::users::Users;
use super::waits::{Waiter, Waits};

/// Describes a named thing in a domain, as seen from outside.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Its kind; or the error that kept it from being read.
    pub kind: Result<Kind, Error>,
    /// Bytes of memory that it uses.
    pub bytes: u64,
    /// The most bytes to which it may grow.
    pub max_bytes: u64,
    /// The type of the values in it, as its maker named it.
    pub type_name: String,
    /// What lies where in these values, if the maker said so.
    pub description: Option<Description>,
    /// The processes that have it open, as far as the caller may know.
    pub users: Vec<u32>,
    /// Claims in it whose owners are dead: the next user is told, or a sweep clears them.
    pub dead_claims: u32,
    /// Threads that sleep until something in it changes, the longest waiting first: as far as the
    /// caller may know, which is its own user's threads in its own pid namespace.
    pub waiters: Vec<Waiter>,
    /// The attributes that its maker gave it.
    pub attributes: Attributes,
    /// Metadata that only its kind has.
    pub detail: Detail,
}

/// Holds facts that only one kind of thing has.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Detail {
    /// None are known.
    None,
    /// A lock or another primitive of [`sync`](crate::sync).
    Lock(LockDetail),
    /// A record.
    Record {
        /// How many locks are inside.
        locks: u32,
        /// The threads that hold them.
        holders: Vec<Holder>,
    },
    /// A queue.
    Queue {
        /// What has happened to it.
        counters: Counters,
        /// The process that receives.
        receiver: Option<Holder>,
        /// The processes that send.
        senders: Vec<Holder>,
        /// What it was made with.
        config: QueueConfig,
    },
    /// A pool.
    Pool(Usage),
    /// A topic.
    Topic(TopicUsage),
    /// A state.
    State {
        /// The latest value's version: how often it was set, plus one.
        version: u64,
        /// The most bytes of a value.
        capacity: u64,
        /// Whether all values have that size.
        is_fixed_size: bool,
        /// The process that has the writer.
        writer: Option<Holder>,
        /// Buffers that exist: more than at first if readers stood still in the middle of a get.
        buffers: u32,
        /// Readers, dead or alive, that have one of the buffers pinned just now.
        pins: u32,
    },
    /// A service.
    Service(Overview),
    /// A job queue.
    Jobs(JobsUsage),
    /// A notifier.
    Notifier(NotifierUsage),
}

impl Domain {
    /// Lists everything in the domain, by name; for a thing that cannot be read, with the reason.
    ///
    /// # Errors
    /// The system's error when the folder cannot be read.
    pub fn entries(&self) -> Result<Vec<Entry>, Error> {
        let (users, waits) = (Users::now(), Waits::now(self.registry()));
        Ok(self.names()?.iter().map(|name| self.look(name, &users, &waits)).collect())
    }

    /// Describes one thing in the domain.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NotASegment`] and any other error that keeps it from being
    /// opened.
    pub fn entry(&self, name: &str) -> Result<Entry, Error> {
        check_name(name)?;
        let entry = self.look(name, &Users::now(), &Waits::now(self.registry()));
        match entry.kind {
            Ok(_) => Ok(entry),
            Err(error) => Err(error),
        }
    }

    /// Removes a name. Processes that have the thing open go on using it together; a process that
    /// opens the name from now on makes a new one. Its memory is freed when the last of the former
    /// ends.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NotASegment`] for a file that Outlive did not make, and errors
    /// of the system.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        check_name(name)?;
        let mut control = None;
        match Segment::open(self.folder(), name) {
            Ok(segment) => {
                segment.header().mark_removed();
                control = control_file::number(&segment);
            }
            // A file of Outlive's that this version cannot use: it may go.
            Err(Error::OtherVersion { .. } | Error::Damaged { .. }) => {}
            Err(other) => return Err(other),
        }
        file::unlink(self.folder().fd()?, name)
            .map_err(|errno| Error::from_errno("remove", &self.folder().file_path(name), errno))?;
        if let Some(control) = control {
            // If this process died just before, a sweep removes it.
            control_file::remove(self.folder(), control);
        }
        self.registry().note_change();
        Ok(())
    }

    /// Returns the names of things in the domain, without internal files.
    pub(super) fn names(&self) -> Result<Vec<String>, Error> {
        let names = file::names(self.folder().fd()?)
            .map_err(|errno| Error::from_errno("list", self.folder().path(), errno))?;
        Ok(names.into_iter().filter(|name| check_name(name).is_ok()).collect())
    }

    fn look(&self, name: &str, users: &Users, waits: &Waits) -> Entry {
        let mut entry = empty(name);
        if let Err(error) = self.fill(&mut entry, users, waits) {
            entry.kind = Err(error);
        }
        entry
    }

    fn fill(&self, entry: &mut Entry, users: &Users, waits: &Waits) -> Result<(), Error> {
        let segment = Segment::open_with(self.folder(), &entry.name, Rights::Read)?;
        let kind = segment.header().check(segment.path())?;
        // Of a topic a process with fewer rights may look at all there is.
        let segment = match kind {
            Kind::Topic => segment,
            _ => Segment::open(self.folder(), &entry.name)?,
        };
        let facts = segment.facts()?;
        let header = segment.header();
        entry.bytes = facts.allocated;
        entry.max_bytes = header.max_bytes();
        entry.type_name = header.type_name();
        entry.description = segment.description()?;
        entry.users = users.of(facts.identity());
        entry.attributes = segment.attributes()?;
        let waiters = |segment: &Segment, locks: &[(u64, LockDetail)]| {
            waits.of(self.registry(), segment, facts.identity(), locks)
        };
        let dead =
            |holders: &[Holder]| holders.iter().filter(|holder| !holder.alive).count() as u32;
        let mut locks: Vec<(u64, LockDetail)> = primitives(&segment, kind)?
            .into_iter()
            .map(|(at, one)| (at, one.look(self.registry())))
            .collect();
        match kind {
            Kind::Record => {
                let holders: Vec<Holder> =
                    locks.iter().flat_map(|(_, lock)| lock.holders.iter().cloned()).collect();
                entry.dead_claims = dead(&holders);
                entry.waiters = waiters(&segment, &locks);
                entry.detail = Detail::Record { locks: locks.len() as u32, holders };
            }
            Kind::Queue => {
                entry.waiters = waiters(&segment, &[]);
                let queue = Queue::finish(segment, self.registry())?;
                let (receiver, senders) = (queue.current_receiver(), queue.senders());
                let me = self.me()?;
                let (claims, found) =
                    crate::queue::sweep(queue.inner(), me, true, &mut Vec::new())?;
                entry.dead_claims = claims + found.count();
                let (counters, config) = (queue.counters()?, queue.config());
                entry.detail = Detail::Queue { counters, receiver, senders, config };
            }
            Kind::Pool => {
                let usage = crate::pool::usage_of(segment, self.registry())?;
                entry.dead_claims =
                    usage.holders.iter().filter(|holder| !holder.who.alive).count() as u32;
                entry.detail = Detail::Pool(usage);
            }
            Kind::Topic => {
                // Asleep in the one file or in the other.
                entry.waiters = waiters(&segment, &[]);
                let control = control_file::open(self.folder(), &segment)?;
                let facts = control.facts()?;
                entry.bytes += facts.allocated;
                let more = waits.of(self.registry(), &control, facts.identity(), &[]);
                entry.waiters.extend(more);
                entry.waiters.sort_by_key(|waiter| std::cmp::Reverse(waiter.waited));
                let usage = crate::topic::usage(segment, self.folder(), self.registry())?;
                let publishers = usage.rings.iter().filter_map(|ring| ring.publisher.as_ref());
                let subscribers = usage.subscribers.iter().map(|subscriber| &subscriber.who);
                entry.dead_claims =
                    publishers.chain(subscribers).filter(|who| !who.alive).count() as u32;
                entry.detail = Detail::Topic(usage);
            }
            Kind::State => {
                entry.waiters = waiters(&segment, &[]);
                let state = State::<[u8]>::finish(segment, self.registry())?;
                entry.dead_claims = state.inner().sweep(self.me()?, true, &mut Vec::new());
                let (buffers, pins) = state.inner().figures();
                let config = state.config();
                entry.detail = Detail::State {
                    version: state.version(),
                    capacity: config.capacity as u64,
                    is_fixed_size: config.is_fixed_size,
                    writer: state.current_writer(),
                    buffers,
                    pins,
                };
            }
            Kind::Service => {
                entry.waiters = waiters(&segment, &[]);
                let (overview, left) = crate::rpc::usage(segment, self.me()?)?;
                entry.dead_claims = left.claims + left.objects;
                entry.detail = Detail::Service(overview);
            }
            Kind::JobQueue => {
                entry.waiters = waiters(&segment, &[]);
                let (usage, dead) = crate::jobs::usage(segment, self.me()?)?;
                entry.dead_claims = dead;
                entry.detail = Detail::Jobs(usage);
            }
            Kind::Notifier => {
                entry.waiters = waiters(&segment, &[]);
                let usage = crate::notify::usage(segment, self.registry())?;
                let listeners = usage.listeners.iter().map(|listener| &listener.who);
                entry.dead_claims =
                    usage.notifiers.iter().chain(listeners).filter(|who| !who.alive).count() as u32;
                entry.detail = Detail::Notifier(usage);
            }
            Kind::Registry | Kind::LockOrder => {}
            _ => {
                entry.waiters = waiters(&segment, &locks);
                if let Some((_, lock)) = locks.pop() {
                    entry.dead_claims = dead(&lock.holders);
                    entry.detail = Detail::Lock(lock);
                }
            }
        }
        entry.kind = Ok(kind);
        Ok(())
    }
}

/// Makes an entry of which nothing is known yet.
pub(super) fn empty(name: &str) -> Entry {
    Entry {
        name: name.to_owned(),
        kind: Err(Error::NotFound { path: name.into() }),
        bytes: 0,
        max_bytes: 0,
        type_name: String::new(),
        description: None,
        users: Vec::new(),
        dead_claims: 0,
        waiters: Vec::new(),
        attributes: Attributes::default(),
        detail: Detail::None,
    }
}
