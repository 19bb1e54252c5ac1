//! A process that others wait for is killed, side by side: when do they go on?
//!
//! | case | the waiting process | the killed process (SIGKILL) |
//! | --- | --- | --- |
//! | `publisher` | a publisher that loses nothing, for room | its only subscriber, which never took a message |
//! | `lock` | the next to lock | the holder of the lock (Shadesmar's case) |
//! | `queue` | a sender, for room in a full queue | the reader |
//! | `server` | a client, for its reply | the server, which has the request |
//! | `stand-by` | a client, for its reply, which waits for any server | the server, which has not taken the request; a third process stands by and answers |
//!
//! The time is from just before the kill until the waiting call has returned: with an error that
//! tells of the death, or with what it wanted. A process that waits longer than the deadline is
//! ended, and counted as not released.

use crate::peers::{
    BoostMutex, BoostQueue, Call, Iceoryx2, Outlive, OutliveQueue, PosixMq, Publish, Serve,
    Service, Shape, Subscribe, Topic, UnixStream, Wait, ZeroMq, write_number,
};
use ::outlive::Domain;
use ::outlive::sync::{LockError, RwLock};
use clap::Args;
use outlive_bench::harness::crew::{Crew, stay};
use outlive_bench::harness::report::Absent;
use outlive_bench::harness::round::Stage;
use outlive_bench::harness::scratch::Scratch;
use outlive_bench::harness::shared::{Board, Shared};
use outlive_bench::harness::statistics::Summary;
use outlive_bench::harness::{clock, interrupt};
use outlive_bench::{self, Error};
use serde::Serialize;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

const BYTES: usize = 4096;
/// A process that has made no step for so long waits.
const STILL: Duration = Duration::from_millis(100);
const SET_UP_LIMIT: Duration = Duration::from_secs(20);
const LIMIT_SECONDS: u32 = 300;

/// The arguments of `death`.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct DeathArgs {
    /// How long a process may wait before it counts as not released, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(10..=600_000))]
    deadline_ms: u64,

    /// How often each is done; once for a process that is not released
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    times: u32,

    /// Once, and with a deadline of half a second
    #[arg(long)]
    quick: bool,

    /// Print one JSON document instead of a table
    #[arg(long)]
    json: bool,
}

impl DeathArgs {
    /// Makes it as short as can be.
    pub fn quick() -> Self {
        Self { quick: true, times: 1, deadline_ms: 500, json: false }
    }
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum End {
    /// With an error.
    Told,
    /// With what was waited for.
    WentOn,
    /// Not in its time.
    NotReleased,
}

impl End {
    fn words(self) -> &'static str {
        match self {
            Self::Told => "told of the death",
            Self::WentOn => "went on",
            Self::NotReleased => "not released",
        }
    }
}

#[derive(Serialize)]
struct Row {
    case: &'static str,
    name: &'static str,
    unit: &'static str,
    /// None for a process that was not released.
    median: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    times: usize,
    end: End,
}

#[derive(Serialize)]
struct Document<'a> {
    bench: &'static str,
    deadline_ms: u64,
    rows: &'a [Row],
    absent: &'a [Absent],
}

/// What the waiting process tells: its steps before it waits, and its release.
struct Waiter<'a>(&'a Board);

impl Waiter<'_> {
    /// Notes another step, done without waiting, or the last one before the process waits.
    fn step(&self) {
        self.0.step.0.fetch_add(1, Ordering::Release);
    }

    /// Returns whether a process has been killed.
    fn killed(&self) -> bool {
        self.0.sent_at.0.load(Ordering::Acquire) != 0
    }

    /// Notes that the process was released.
    fn released(&self, end: End) {
        self.0.leave(0, [clock::now(), u64::from(end == End::Told), 0, 0]);
        self.0.done.0.store(1, Ordering::Release);
    }
}

struct Field<'a> {
    stage: &'a Stage,
    deadline: Duration,
    times: u32,
    rows: Vec<Row>,
    absent: Vec<Absent>,
}

/// Runs it.
pub(crate) fn run(args: &DeathArgs) -> Result<ExitCode, Error> {
    let _signals = outlive_bench::harness::begin(LIMIT_SECONDS, None)?;
    let args =
        if args.quick { DeathArgs { json: args.json, ..DeathArgs::quick() } } else { args.clone() };
    let stage = outlive_bench::harness::stage(None, ::outlive::WaitStrategy::default())?;
    let deadline = Duration::from_millis(args.deadline_ms);
    let mut field =
        Field { stage: &stage, deadline, times: args.times, rows: Vec::new(), absent: Vec::new() };
    field.publishers()?;
    field.locks()?;
    field.queues()?;
    field.servers()?;
    field.standing_by()?;
    let Field { rows, absent, .. } = &field;
    if args.json {
        let document = Document { bench: "death", deadline_ms: args.deadline_ms, rows, absent };
        return outlive_bench::harness::print(&outlive_bench::harness::json_line(&document)?);
    }
    outlive_bench::harness::print(&table(rows, absent, deadline))
}

fn table(rows: &[Row], absent: &[Absent], deadline: Duration) -> String {
    let mut text = format!(
        "death: from a SIGKILL until who waits for the dead goes on; deadline {deadline:?}\n"
    );
    let mut case = "";
    for row in rows {
        // Writing to a String cannot fail; so below.
        if row.case != case {
            case = row.case;
            let _ =
                writeln!(text, "\n{case:28}  {:>10}  {:>10}  {:>10}", "median µs", "min", "max");
        }
        let told =
            |ns: Option<f64>| ns.map_or_else(|| "-".into(), |ns| format!("{:.0}", ns / 1_000.0));
        let (median, min, max) = (told(row.median), told(row.min), told(row.max));
        let _ = writeln!(
            text,
            "{:28}  {median:>10}  {min:>10}  {max:>10}  {}",
            row.name,
            row.end.words()
        );
    }
    for absent in absent {
        let _ = writeln!(text, "\n{} did not take part: {}", absent.name, absent.why);
    }
    text
}

impl Field<'_> {
    fn absent(&mut self, name: &'static str, why: impl Into<String>) {
        self.absent.push(Absent { name, why: why.into() });
    }

    /// Measures one row: as often as asked, or until a process is not released.
    fn row(
        &mut self,
        case: &'static str,
        name: &'static str,
        mut once: impl FnMut(&Stage, Duration) -> Result<(End, u64), Error>,
    ) -> Result<(), Error> {
        let mut took = Vec::new();
        let mut end = End::NotReleased;
        for _ in 0..self.times {
            let ns;
            (end, ns) = once(self.stage, self.deadline)?;
            if end == End::NotReleased {
                took.clear();
                break;
            }
            took.push(ns as f64);
        }
        let seen = Summary::of(&took);
        let (median, min, max) =
            (seen.map(|seen| seen.median), seen.map(|seen| seen.min), seen.map(|seen| seen.max));
        self.rows.push(Row { case, name, unit: "ns", median, min, max, times: took.len(), end });
        Ok(())
    }

    fn topic<T: Topic>(&mut self, case: &'static str, wait: Wait) -> Result<(), Error> {
        let shape = Shape::pair(BYTES, wait);
        match T::refuses(&shape) {
            Some(why) => self.absent(T::NAME, why),
            None => self.row(case, T::NAME, |stage, deadline| {
                let place = T::place(stage, "there", shape)?;
                full::<T>(&place, deadline, || Ok(()))
            })?,
        }
        Ok(())
    }

    fn publishers(&mut self) -> Result<(), Error> {
        const CASE: &str = "publisher";
        self.topic::<Outlive>(CASE, Wait::Block)?;
        self.topic::<Iceoryx2>(CASE, Wait::Busy)?;
        self.row(CASE, "iceoryx2, somebody sweeps", |stage, deadline| {
            let place = <Iceoryx2 as Topic>::place(stage, "there", Shape::pair(BYTES, Wait::Busy))?;
            full::<Iceoryx2>(&place, deadline, || {
                // What its documents offer: any living process may remove what dead ones left.
                let node = place.node()?;
                loop {
                    let _ = node.try_cleanup_dead_nodes();
                    thread::sleep(Duration::from_millis(1));
                }
            })
        })?;
        self.topic::<ZeroMq>(CASE, Wait::Block)
    }

    fn locks(&mut self) -> Result<(), Error> {
        const CASE: &str = "lock";
        self.row(CASE, "outlive RwLock", |stage, deadline| {
            let scratch = stage.scratch.inner("there")?;
            kill(
                deadline,
                |ready| {
                    let lock = open_lock(&scratch)?;
                    let _held =
                        lock.write().map_err(|_| Error::Child("a new lock is held".into()))?;
                    ready();
                    stay()
                },
                |waiter| {
                    let lock = open_lock(&scratch)?;
                    waiter.step();
                    let end = match lock.write() {
                        Ok(_) => End::WentOn,
                        Err(LockError::OwnerDied(mut guard)) => {
                            guard.mark_consistent();
                            End::Told
                        }
                        Err(error) => return Err(Error::Child(format!("the lock: {error}"))),
                    };
                    waiter.released(end);
                    Ok(())
                },
                || Ok(()),
            )
        })?;
        if let Some(why) = BoostQueue::refuses(&Shape::pair(BYTES, Wait::Block)) {
            self.absent("boost sharable mutex", why);
            return Ok(());
        }
        self.row(CASE, "boost sharable mutex", |_, deadline| {
            let mutex = BoostMutex::new()?;
            kill(
                deadline,
                |ready| {
                    mutex.lock();
                    ready();
                    stay()
                },
                |waiter| {
                    waiter.step();
                    mutex.lock();
                    waiter.released(End::WentOn);
                    Ok(())
                },
                || Ok(()),
            )
        })
    }

    fn queues(&mut self) -> Result<(), Error> {
        const CASE: &str = "queue";
        self.topic::<OutliveQueue>(CASE, Wait::Block)?;
        self.topic::<BoostQueue>(CASE, Wait::Block)?;
        self.topic::<PosixMq>(CASE, Wait::Block)
    }

    fn servers(&mut self) -> Result<(), Error> {
        const CASE: &str = "server";
        self.service::<Outlive>(CASE, Wait::Block)?;
        self.service::<Iceoryx2>(CASE, Wait::Busy)?;
        self.service::<ZeroMq>(CASE, Wait::Block)?;
        self.service::<UnixStream>(CASE, Wait::Block)
    }

    fn service<S: Service>(&mut self, case: &'static str, wait: Wait) -> Result<(), Error> {
        self.row(case, S::NAME, |stage, deadline| {
            let place = S::place(stage, BYTES, wait)?;
            kill(
                deadline,
                |ready| {
                    let mut server = S::server(&place)?;
                    ready();
                    // It has the request, and never answers.
                    server.serve(|_, _| stay())
                },
                |waiter| {
                    let mut client = S::client(&place)?;
                    waiter.step();
                    let end = match client.call(BYTES, |request| write_number(request, 1), |_| ()) {
                        Ok(()) => End::WentOn,
                        Err(_) => End::Told,
                    };
                    waiter.released(end);
                    Ok(())
                },
                || Ok(()),
            )
        })
    }
}

impl Field<'_> {
    /// From the kill of a server until the reply of the one that takes over. No other library has a
    /// process that stands by; the sleep of the client ends once more than in the row above.
    fn standing_by(&mut self) -> Result<(), Error> {
        const CASE: &str = "stand-by";
        for (name, by_task) in [("outlive", false), ("outlive, by a task", true)] {
            self.row(CASE, name, |stage, deadline| {
                let scratch = stage.scratch.inner("there")?;
                let open = || {
                    let domain = Domain::open_or_create_at(scratch.path());
                    domain
                        .and_then(|domain| {
                            ::outlive::rpc::Service::<[u8]>::options()
                                .wait_strategy(::outlive::WaitStrategy::Block)
                                .open_or_create(&domain, "service")
                        })
                        .map_err(|error| Error::told("opening a service", error))
                };
                kill(
                    deadline,
                    |ready| {
                        let _server = open()?
                            .server()
                            .map_err(|error| Error::told("becoming the server", error))?;
                        ready();
                        stay()
                    },
                    |waiter| {
                        let client = open()?
                            .client()
                            .map_err(|error| Error::told("becoming a client", error))?;
                        client.set_wait_for_server(true);
                        waiter.step();
                        let reply = client.call(&1_u64.to_ne_bytes());
                        let end = if reply.is_ok() { End::WentOn } else { End::Told };
                        waiter.released(end);
                        Ok(())
                    },
                    || {
                        let service = open()?;
                        let server = match by_task {
                            false => service.wait_to_serve(),
                            true => block_on(service.wait_to_serve_async()),
                        };
                        let mut server =
                            server.map_err(|error| Error::told("standing by", error))?;
                        let request =
                            server.next().map_err(|error| Error::told("serving", error))?;
                        request
                            .reply(&1_u64.to_ne_bytes())
                            .map_err(|error| Error::told("answering", error))?;
                        stay()
                    },
                )
            })?;
        }
        Ok(())
    }
}

/// Runs a future to its end in this thread.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::task::Waker::from(std::sync::Arc::new(Unpark(thread::current())));
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        if let std::task::Poll::Ready(done) = future.as_mut().poll(&mut context) {
            return done;
        }
        thread::park();
    }
}

fn open_lock(scratch: &Scratch) -> Result<RwLock<u64>, Error> {
    let domain =
        Domain::open_or_create_at(scratch.path()).map_err(|error| Error::told("opening a domain", error))?;
    RwLock::options(0).open_or_create(&domain, "lock").map_err(|error| Error::told("opening a lock", error))
}

/// Lets a publisher fill what its only subscriber does not empty, and wait.
fn full<T: Topic>(
    place: &T::Place,
    deadline: Duration,
    beside: impl FnOnce() -> Result<(), Error>,
) -> Result<(End, u64), Error> {
    kill(
        deadline,
        |ready| {
            let mut subscriber = T::subscriber(place)?;
            ready();
            // The publisher comes later.
            loop {
                subscriber.settle()?;
                thread::sleep(Duration::from_millis(1));
            }
        },
        |waiter| {
            let mut publisher = T::publisher(place)?;
            for number in 0.. {
                let published = publisher.publish(BYTES, |message| write_number(message, number));
                if published.is_err() || waiter.killed() {
                    waiter.released(if published.is_err() { End::Told } else { End::WentOn });
                    break;
                }
                waiter.step();
            }
            Ok(())
        },
        beside,
    )
}

/// Starts one that others wait for, then one that waits for it and one that is only there; when the
/// second makes no step any more, kills the first. How the wait ended, and after how many
/// nanoseconds.
fn kill(
    deadline: Duration,
    victim: impl FnOnce(&dyn Fn()) -> Result<(), Error>,
    waiting: impl FnOnce(&Waiter<'_>) -> Result<(), Error>,
    beside: impl FnOnce() -> Result<(), Error>,
) -> Result<(End, u64), Error> {
    let board = Shared::<Board>::new()?;
    let mut victims = Crew::new()?;
    victims.start("one that will be killed", None, || {
        victim(&|| {
            board.ready.0.fetch_add(1, Ordering::Release);
        })
    })?;
    until(SET_UP_LIMIT, &mut victims, || board.ready.0.load(Ordering::Acquire) > 0)?;
    let mut others = Crew::new()?;
    others.start("one that waits", None, || waiting(&Waiter(&board)))?;
    // One of its own: it may end at once.
    let mut onlookers = Crew::new()?;
    onlookers.start("one beside them", None, beside)?;
    let (mut seen, mut since) = (0, clock::now());
    until(SET_UP_LIMIT, &mut others, || {
        let steps = board.step.0.load(Ordering::Acquire);
        if steps != seen {
            (seen, since) = (steps, clock::now());
        }
        seen > 0 && clock::now() - since > STILL.as_nanos() as u64
    })?;
    let begun = clock::now();
    board.sent_at.0.store(begun, Ordering::Release);
    // Kills it, and waits for it: a process that is dead but not yet gone would keep others from
    // noticing.
    drop(victims);
    let released = || board.done.0.load(Ordering::Acquire) != 0;
    while !released() && clock::now() - begun < deadline.as_nanos() as u64 {
        interrupt::check()?;
        thread::sleep(Duration::from_micros(200));
    }
    if !released() {
        return Ok((End::NotReleased, 0));
    }
    let [at, told, ..] = board.left(0);
    Ok((if told == 1 { End::Told } else { End::WentOn }, at.saturating_sub(begun)))
}

fn until(limit: Duration, crew: &mut Crew, mut done: impl FnMut() -> bool) -> Result<(), Error> {
    let end = clock::now() + limit.as_nanos() as u64;
    while !done() {
        interrupt::check()?;
        if crew.any_ended()? {
            return Err(Error::Child("a process that should wait has ended".into()));
        }
        if clock::now() > end {
            return Err(Error::TimedOut("the set-up".into()));
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
