//! What does it cost to wake up from a wait for many sources, of which one becomes ready?
//!
//! `outlive N` is a wait set of N queues, each with a sender in the other process. `epoll N` is an
//! epoll of N eventfds, the system's own: they carry a count instead of a message, and nothing is
//! told of a sender's death. Each time another source becomes ready, while the waiting process
//! sleeps. The cost is the time from before the send until the waiting process has the message; or,
//! with `--computed`, what the waiting process computes for that and until it sleeps again, in all
//! its threads.

use crate::harness::asleep::Sleeper;
use crate::harness::clock;
use crate::harness::crew::Crew;
use crate::harness::error::{Error, check, told};
use crate::harness::report::Title;
use crate::harness::round::{Contender, Figure, Stage};
use crate::harness::scratch::Scratch;
use crate::harness::shared::{Board, Shared};
use crate::harness::statistics::median;
use crate::harness::{Common, Prepared};
use clap::Args;
use outlive::Domain;
use outlive::queue::{Queue, Receiver, Sender};
use outlive::wait::{Key, WaitSet};
use std::collections::HashMap;
use std::hint;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::Ordering;

/// The most sources: more are more open files than a process may have as a rule.
const MOST_SOURCES: usize = 16_384;
/// How far from each other two sources are that become ready one after the other: a prime.
const STRIDE: usize = 1_009;
/// Of a queue's memory: each has a few pages of messages.
const QUEUE_BYTES: u64 = 64 << 10;

/// What is added to an eventfd's count.
static ONE: u64 = 1;

/// The arguments of `outlive bench sets`.
#[derive(Args, Clone, Debug)]
pub struct SetsArgs {
    /// Sources in the set; several numbers are separated by commas
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [16, 4096])]
    sources: Vec<usize>,

    /// Measure what the waiting process computes for each message instead of the time that passes
    #[arg(long)]
    computed: bool,

    #[command(flatten)]
    pub(super) common: Common,
}

/// Makes it ready.
pub(super) fn prepare(args: &SetsArgs) -> Result<Prepared, Error> {
    let mut sizes = args.sources.clone();
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.first() == Some(&0) || sizes.last().is_none_or(|&most| most > MOST_SOURCES) {
        return Err(Error::Refused(format!("--sources takes numbers from 1 to {MOST_SOURCES}")));
    }
    let (mode, meaning) = if args.computed {
        ("computed", "what a process that waits for N sources computes for a message of one")
    } else {
        ("wake", "from a send until a process has it that slept in a wait for N sources")
    };
    let title = Title { bench: "sets", mode, meaning, ours: &["outlive"], rate_of: None };
    let computed = args.computed;
    let rows: Vec<Box<dyn Contender>> = sizes
        .iter()
        .flat_map(|&sources| [row::<Queues>(sources, computed), row::<Epoll>(sources, computed)])
        .collect();
    // The epoll of the fewest sources.
    let baseline = rows[1].name();
    Ok(Prepared::of(title, rows, baseline))
}

fn row<M: Many>(sources: usize, computed: bool) -> Box<dyn Contender> {
    // A row of which there is one in a run, for as long as the program runs.
    let name = Box::leak(format!("{} {sources}", M::NAME).into_boxed_str());
    Box::new(Row::<M> { name, sources, computed, many: PhantomData })
}

/// Many sources, for which one process waits.
trait Many: Sized + 'static {
    const NAME: &'static str;
    type Place;
    type Sender;

    /// Makes the sources, before the fork.
    fn place(stage: &Stage, sources: usize) -> Result<Self::Place, Error>;
    fn waiter(place: &Self::Place, sources: usize) -> Result<Self, Error>;
    fn sender(place: &Self::Place, sources: usize) -> Result<Self::Sender, Error>;
    /// Makes one ready.
    fn send(sender: &mut Self::Sender, source: usize) -> Result<(), Error>;
    /// Waits until one is ready, takes what is there, and returns which it was.
    fn wait(&mut self) -> Result<usize, Error>;
}

struct Row<M> {
    name: &'static str,
    sources: usize,
    computed: bool,
    many: PhantomData<M>,
}

impl<M: Many> Contender for Row<M> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn turn(&mut self, stage: &Stage, operations: u64) -> Result<Figure, Error> {
        let (sources, computed) = (self.sources, self.computed);
        let place = M::place(stage, sources)?;
        let board = Shared::<Board>::new()?;
        let source_of = |step: u32| step as usize * STRIDE % sources;
        let mut crew = Crew::new()?;
        let pid = crew.start("waiting process", stage.second_core(), || {
            let mut waiter = M::waiter(&place, sources)?;
            let mut took = Vec::with_capacity(operations as usize);
            board.meet(2);
            let mut before = 0;
            let begun = clock::now();
            // The first one is a warm-up: threads are started, pages are touched.
            for step in 0..=operations as u32 {
                let which = waiter.wait()?;
                let had = clock::now();
                if which != source_of(step) {
                    return Err(Error::Wrong(format!("source {which} of {}", source_of(step))));
                }
                if step == 1 && computed {
                    before = clock::computed();
                }
                if step > 0 && !computed {
                    // Relaxed: written before the send, which orders it.
                    took.push(had.saturating_sub(board.sent_at.0.load(Ordering::Relaxed)) as f64);
                }
                // Release pairs with the sender's Acquire.
                board.done.0.store(step + 1, Ordering::Release);
            }
            let span = clock::now() - begun;
            match computed {
                true => {
                    let each = (clock::computed() - before) as f64 / (operations - 1) as f64;
                    board.leave_figure(each, span);
                }
                false => board.leave_figure(median(&took).unwrap_or(0.0), span),
            }
            Ok(())
        })?;
        crew.start("sender", stage.first_core(), || {
            let mut sender = M::sender(&place, sources)?;
            let sleeper = Sleeper::new(pid as u32)?;
            board.meet(2);
            for step in 0..=operations as u32 {
                // It sleeps nowhere but in its wait.
                sleeper.wait_asleep()?;
                board.sent_at.0.store(clock::now(), Ordering::Relaxed);
                M::send(&mut sender, source_of(step))?;
                while board.done.0.load(Ordering::Acquire) != step + 1 {
                    hint::spin_loop();
                }
            }
            Ok(())
        })?;
        board.figure(crew.finish(stage.turn_limit)?)
    }
}

/// A wait set of queues.
struct Queues {
    set: WaitSet,
    receivers: Vec<Receiver>,
    by_key: HashMap<Key, usize>,
}

fn open(place: &Scratch, number: usize) -> Result<Queue, Error> {
    let domain = told(Domain::open_or_create_at(place.path()), "opening a domain")?;
    let options = Queue::<[u8]>::options().slots(4).max_bytes(QUEUE_BYTES);
    told(options.open_or_create(&domain, &format!("queue-{number}")), "opening a queue")
}

impl Many for Queues {
    const NAME: &'static str = "outlive";
    type Place = Scratch;
    type Sender = Vec<Sender>;

    fn place(stage: &Stage, _: usize) -> Result<Scratch, Error> {
        stage.scratch.inner("queues")
    }

    fn waiter(place: &Scratch, sources: usize) -> Result<Self, Error> {
        let domain = told(Domain::open_or_create_at(place.path()), "opening a domain")?;
        let mut set = WaitSet::new(&domain);
        let mut receivers = Vec::with_capacity(sources);
        let mut by_key = HashMap::with_capacity(sources);
        for number in 0..sources {
            let receiver = told(open(place, number)?.receiver(), "opening a receiver")?;
            by_key.insert(told(set.add(&receiver), "adding a receiver to a set")?, number);
            receivers.push(receiver);
        }
        Ok(Self { set, receivers, by_key })
    }

    fn sender(place: &Scratch, sources: usize) -> Result<Vec<Sender>, Error> {
        (0..sources).map(|number| told(open(place, number)?.sender(), "opening a sender")).collect()
    }

    fn send(senders: &mut Vec<Sender>, source: usize) -> Result<(), Error> {
        told(senders[source].send(&[7; 8]), "sending")
    }

    fn wait(&mut self) -> Result<usize, Error> {
        let mut ready = told(self.set.wait(), "waiting for the set")?;
        let which = ready.next().and_then(|(key, _)| self.by_key.get(&key).copied());
        let which = which.ok_or_else(|| Error::Wrong("nothing is ready".into()))?;
        match told(self.receivers[which].try_recv(), "receiving")? {
            Some(_) => Ok(which),
            None => Err(Error::Wrong("a queue said to be ready is empty".into())),
        }
    }
}

/// An epoll of eventfds.
struct Epoll {
    epoll: OwnedFd,
    counts: Vec<i32>,
}

impl Many for Epoll {
    const NAME: &'static str = "epoll";
    type Place = Vec<OwnedFd>;
    type Sender = Vec<i32>;

    fn place(_: &Stage, sources: usize) -> Result<Vec<OwnedFd>, Error> {
        (0..sources)
            .map(|_| {
                // SAFETY: it takes numbers alone.
                let count = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
                let count = check(count, "making an eventfd")?;
                // SAFETY: a descriptor that the kernel has just made for this call alone.
                Ok(unsafe { OwnedFd::from_raw_fd(count) })
            })
            .collect()
    }

    fn waiter(place: &Vec<OwnedFd>, _: usize) -> Result<Self, Error> {
        // SAFETY: it takes a number alone.
        let epoll = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }, "making an epoll")?;
        // SAFETY: a descriptor that the kernel has just made for this call alone.
        let epoll = unsafe { OwnedFd::from_raw_fd(epoll) };
        for (number, count) in place.iter().enumerate() {
            let mut what = libc::epoll_event { events: libc::EPOLLIN as u32, u64: number as u64 };
            // SAFETY: both descriptors are open, and the event is read before the call returns.
            let added = unsafe {
                libc::epoll_ctl(
                    epoll.as_raw_fd(),
                    libc::EPOLL_CTL_ADD,
                    count.as_raw_fd(),
                    &mut what,
                )
            };
            check(added, "adding an eventfd to an epoll")?;
        }
        Ok(Self { epoll, counts: place.iter().map(AsRawFd::as_raw_fd).collect() })
    }

    fn sender(place: &Vec<OwnedFd>, _: usize) -> Result<Vec<i32>, Error> {
        Ok(place.iter().map(AsRawFd::as_raw_fd).collect())
    }

    fn send(counts: &mut Vec<i32>, source: usize) -> Result<(), Error> {
        // SAFETY: the descriptor was inherited, and the bytes are read before the call returns.
        let wrote =
            unsafe { libc::write(counts[source], (&raw const ONE).cast(), size_of::<u64>()) };
        check(wrote as i32, "raising an eventfd").map(drop)
    }

    fn wait(&mut self) -> Result<usize, Error> {
        let mut ready = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: room for one event.
        let found = unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), &mut ready, 1, -1) };
        check(found, "waiting for an epoll")?;
        let which = ready.u64 as usize;
        let mut count = 0_u64;
        // SAFETY: room for the eight bytes of a count.
        let read =
            unsafe { libc::read(self.counts[which], (&raw mut count).cast(), size_of::<u64>()) };
        check(read as i32, "reading an eventfd").map(|_| which)
    }
}
