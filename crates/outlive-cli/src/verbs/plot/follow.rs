//! Following a topic or a state, on a thread of its own: what comes becomes points of its curves.
//!
//! | the thing | the thread |
//! | --- | --- |
//! | is not there, or is removed | looks for it again and again |
//! | cannot be opened, or lacks a field | says so, and looks again, as the next of its name may differ |
//! | is a topic | subscribes, not reliably: publishers never wait for it, and what is lost is counted |
//! | is a state | draws each value that it sees |

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use outlive::describe::Description;
use outlive::state::{Change, State};
use outlive::topic::{Sample, Subscriber, Topic};
use outlive::{Deadline, Domain, Error, RecvError};

use super::curve::Curve;
use super::source::{Source, What};
use crate::array::Array;
use crate::described::pick::Pick;
use crate::domain::DomainArgs;
use crate::signals::SLICE;

/// The most marks that are kept.
const MOST_MARKS: usize = 64;
/// A lease that no publisher misses: only its death is told.
const ONLY_DEATHS: Duration = Duration::from_secs(1 << 30);

/// A thing that is followed, and its curves.
#[derive(Clone, Debug)]
pub struct Followed {
    /// What is drawn of it, each with its curve.
    pub curves: Vec<(Source, Curve)>,
    /// Whether a value holds until the next one comes.
    pub is_state: bool,
    /// Messages that were overwritten before they were taken.
    pub lost: u64,
    /// What happened to it, and when.
    pub marks: VecDeque<(f64, String)>,
    /// Why nothing comes, if that is known.
    pub trouble: Option<Trouble>,
    /// What the first message without a wanted number has instead, if that can be said.
    pub instead: Option<String>,
}

/// Why nothing comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It is not there yet.
    Absent,
    /// It cannot be drawn.
    Wrong(String),
}

/// What the thread and the picture share.
pub type Shared = Arc<Mutex<Followed>>;

/// Returns what is behind the lock. A thread that panicked has left whole points.
pub fn locked(shared: &Shared) -> MutexGuard<'_, Followed> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The threads, which end when this is dropped.
pub struct Followers {
    /// What they follow.
    pub things: Vec<Shared>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Followers {
    /// Starts a thread for each thing that the sources name.
    pub fn start(
        sources: Vec<Source>,
        window: Duration,
        begun: Instant,
        domain: &DomainArgs,
    ) -> Followers {
        let mut things: Vec<(String, Followed)> = Vec::new();
        for source in sources {
            let curve = Curve::new(window.as_secs_f64());
            match things.iter_mut().find(|(name, _)| *name == source.name) {
                Some((_, thing)) => thing.curves.push((source, curve)),
                None => things.push((
                    source.name.clone(),
                    Followed {
                        curves: vec![(source, curve)],
                        is_state: false,
                        lost: 0,
                        marks: VecDeque::new(),
                        trouble: Some(Trouble::Absent),
                        instead: None,
                    },
                )),
            }
        }
        let stop = Arc::new(AtomicBool::new(false));
        let mut followers =
            Followers { things: Vec::new(), stop: Arc::clone(&stop), threads: Vec::new() };
        for (name, thing) in things {
            let shared = Arc::new(Mutex::new(thing));
            followers.things.push(Arc::clone(&shared));
            let beat = window.div_f64(60.0).clamp(Duration::from_millis(200), MOST_BEAT);
            let (domain, stop) = (domain.clone(), Arc::clone(&stop));
            let follower = Follower { name, domain, shared, stop, begun, beat };
            followers.threads.push(thread::spawn(move || follower.run()));
        }
        followers
    }
}

impl Followers {
    /// Returns what messages have instead of the numbers that were asked for.
    pub fn instead(&self) -> Option<String> {
        self.things.iter().find_map(|thing| locked(thing).instead.clone())
    }

    /// Returns the names of things that are not there.
    pub fn absent(&self) -> Vec<String> {
        let names = self.things.iter().filter_map(|thing| {
            let thing = locked(thing);
            let (source, _) = thing.curves.first()?;
            (thing.trouble == Some(Trouble::Absent)).then(|| source.name.clone())
        });
        names.collect()
    }
}

impl Drop for Followers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A rate is of no longer a time.
const MOST_BEAT: Duration = Duration::from_secs(60);

struct Follower {
    name: String,
    domain: DomainArgs,
    shared: Shared,
    stop: Arc<AtomicBool>,
    begun: Instant,
    /// How long messages are counted for a rate.
    beat: Duration,
}

/// What has that name, open.
enum Here {
    Topic(Topic<[u8]>),
    State(State<[u8]>),
}

/// Why nothing is open.
enum Unopened {
    Failed(Error),
    /// What has that name is neither a topic nor a state.
    OtherKind(String),
}

impl From<Error> for Unopened {
    fn from(error: Error) -> Unopened {
        Unopened::Failed(error)
    }
}

impl Here {
    fn open(domain: &DomainArgs, name: &str) -> Result<Here, Unopened> {
        let domain: Domain = domain.open_existing()?;
        match Topic::open_as_bytes(&domain, name) {
            Err(Error::OtherKind { .. }) => {}
            topic => return Ok(topic.map(Here::Topic)?),
        }
        match State::open_as_bytes(&domain, name) {
            Err(Error::OtherKind { found, .. }) => {
                let name = name.escape_debug();
                let text = format!("'{name}' is a {found}: plot draws topics and states");
                Err(Unopened::OtherKind(text))
            }
            state => Ok(state.map(Here::State)?),
        }
    }

    fn description(&self) -> Result<Option<Description>, Error> {
        match self {
            Here::Topic(topic) => topic.description(),
            Here::State(state) => state.description(),
        }
    }
}

/// Returns why a source cannot be drawn of what has that name now; nothing if it is not there.
pub fn flaw(source: &Source, domain: &DomainArgs) -> Result<Option<String>, Error> {
    let here = match Here::open(domain, &source.name) {
        Ok(here) => here,
        Err(Unopened::Failed(Error::NotFound { .. })) => return Ok(None),
        Err(Unopened::Failed(error)) => return Err(error),
        Err(Unopened::OtherKind(why)) => return Ok(Some(why)),
    };
    Ok(pick(source, here.description()?.as_ref()).err())
}

/// Returns where a source's numbers are.
fn pick(source: &Source, description: Option<&Description>) -> Result<Option<Pick>, String> {
    match &source.what {
        What::Number(path) => Pick::new(description, path)
            .map(Some)
            .map_err(|why| format!("{}: {why}", source.name.escape_debug())),
        _ => Ok(None),
    }
}

impl Follower {
    fn run(&self) {
        while !self.is_over() {
            let wrong = match Here::open(&self.domain, &self.name) {
                Ok(here) => self.follow(&here).err(),
                Err(Unopened::Failed(Error::NotFound { .. })) => None,
                Err(Unopened::Failed(error)) => Some(error.to_string()),
                Err(Unopened::OtherKind(why)) => Some(why),
            };
            let mut shared = locked(&self.shared);
            shared.trouble = Some(wrong.map_or(Trouble::Absent, Trouble::Wrong));
            let now = self.now();
            shared.curves.iter_mut().for_each(|(_, curve)| curve.cut(now));
            drop(shared);
            thread::sleep(SLICE);
        }
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn now(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    fn mark(&self, text: String) {
        let mut shared = locked(&self.shared);
        if shared.marks.len() == MOST_MARKS {
            shared.marks.pop_front();
        }
        shared.marks.push_back((self.now(), text));
    }

    /// Draws it until it is removed, or something is wrong with it.
    fn follow(&self, here: &Here) -> Result<(), String> {
        let told = |error: Error| error.to_string();
        let description = here.description().map_err(told)?;
        let sources: Vec<Source> =
            locked(&self.shared).curves.iter().map(|(source, _)| source.clone()).collect();
        let picks: Result<Vec<_>, String> =
            sources.iter().map(|source| pick(source, description.as_ref())).collect();
        let picks = picks?;
        let mut shared = locked(&self.shared);
        shared.trouble = None;
        shared.is_state = matches!(here, Here::State(_));
        drop(shared);
        let mut count = Count { since: Instant::now(), messages: 0, lost: 0 };
        match here {
            Here::Topic(topic) => self.topic(topic, &picks, &mut count),
            Here::State(state) => self.state(state, &picks, &mut count).map_err(told),
        }
    }

    fn topic(
        &self,
        topic: &Topic<[u8]>,
        picks: &[Option<Pick>],
        count: &mut Count,
    ) -> Result<(), String> {
        let options = Subscriber::options().liveliness(ONLY_DEATHS);
        let mut subscriber = topic.subscriber_with(options).map_err(|error| error.to_string())?;
        let before = locked(&self.shared).lost;
        while !self.is_over() {
            match subscriber.recv_until(Deadline::at(Instant::now() + SLICE)) {
                Ok(Some(sample)) => {
                    count.messages += 1;
                    self.message(&sample, picks);
                }
                Ok(None) if topic.is_removed() => {
                    self.mark(format!("'{}' was removed", self.name.escape_debug()));
                    return Ok(());
                }
                Err(RecvError::PublisherDied { publisher, .. }) => self.mark(format!(
                    "{}: publisher {} ({}) died",
                    self.name.escape_debug(),
                    publisher.pid,
                    publisher.program.escape_debug()
                )),
                Ok(None) | Err(RecvError::NotLively { .. } | RecvError::Lively { .. }) => {}
                Err(error) => return Err(error.to_string()),
            }
            self.beat(count, subscriber.lost(), before);
        }
        Ok(())
    }

    fn message(&self, sample: &Sample<[u8]>, picks: &[Option<Pick>]) {
        let (bytes, header) = (sample.bytes(), sample.header());
        let age = || match SystemTime::now().duration_since(header.time()?) {
            Ok(age) => Some(age.as_secs_f64()),
            Err(ahead) => Some(-ahead.duration().as_secs_f64()),
        };
        let array = Array::of(&header.own, bytes.len());
        let number = |source: &What, pick: &Pick| match (&array, source) {
            (Some(array), What::Number(path)) => array.number(bytes, path),
            _ => pick.number(bytes),
        };
        self.push(picks, bytes, age, number, |pick| match &array {
            Some(array) => array.hint(),
            None => pick.fields(bytes),
        });
    }

    fn state(
        &self,
        state: &State<[u8]>,
        picks: &[Option<Pick>],
        count: &mut Count,
    ) -> Result<(), Error> {
        let mut watch = state.watch();
        let (mut value, mut last) = (Vec::new(), 0);
        while !self.is_over() {
            match watch.changed_timeout(SLICE)? {
                Some(Change::Value { .. }) => {
                    let version = state.get_into(&mut value)?;
                    if version != last {
                        // Those between the two were never seen, and were values all the same.
                        count.messages += if last == 0 { 1 } else { version.saturating_sub(last) };
                        last = version;
                        let (number, instead) = (
                            |_: &What, pick: &Pick| pick.number(&value),
                            |pick: &Pick| pick.fields(&value),
                        );
                        self.push(picks, &value, || None, number, instead);
                    }
                }
                Some(_) => self.mark(format!("{}: its writer died", self.name.escape_debug())),
                None if state.is_removed() => {
                    self.mark(format!("'{}' was removed", self.name.escape_debug()));
                    return Ok(());
                }
                None => {}
            }
            self.beat(count, 0, 0);
        }
        Ok(())
    }

    /// A message or value has come.
    fn push(
        &self,
        picks: &[Option<Pick>],
        bytes: &[u8],
        age: impl Fn() -> Option<f64>,
        number: impl Fn(&What, &Pick) -> Option<f64>,
        has_instead: impl Fn(&Pick) -> Option<String>,
    ) {
        let now = self.now();
        let mut shared = locked(&self.shared);
        let Followed { curves, instead, .. } = &mut *shared;
        for ((source, curve), pick) in curves.iter_mut().zip(picks) {
            let value = match (&source.what, pick) {
                (What::Rate, _) => continue,
                (What::Age, _) => age(),
                (What::Bytes, _) => Some(bytes.len() as f64),
                (what, Some(pick)) => {
                    let found = number(what, pick);
                    if found.is_none() && instead.is_none() {
                        *instead = has_instead(pick);
                    }
                    found
                }
                (What::Number(_), None) => None,
            };
            curve.push(now, value.unwrap_or(f64::NAN));
        }
    }

    /// Counts what was lost, and draws rates when their time has come.
    fn beat(&self, count: &mut Count, lost: u64, before: u64) {
        let span = count.since.elapsed();
        if span < self.beat && lost == count.lost {
            return;
        }
        let mut shared = locked(&self.shared);
        shared.lost = before + lost;
        count.messages += lost.saturating_sub(count.lost);
        count.lost = lost;
        if span >= self.beat {
            let (now, rate) = (self.now(), count.messages as f64 / span.as_secs_f64());
            let rates = shared.curves.iter_mut().filter(|(source, _)| source.what == What::Rate);
            rates.for_each(|(_, curve)| curve.push(now, rate));
            (count.since, count.messages) = (Instant::now(), 0);
        }
    }
}

/// What has come since a moment.
struct Count {
    since: Instant,
    /// Those that were lost included.
    messages: u64,
    /// Since the topic was opened.
    lost: u64,
}
