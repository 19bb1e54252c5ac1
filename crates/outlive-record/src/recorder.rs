//! The recorder: takes messages of many topics, writes them in groups, and then tells publishers.
//!
//! | step | died just after |
//! | --- | --- |
//! | a message is taken | its subscriber's place is kept, and its cursor has not moved: a successor takes it again |
//! | the group is in the file, with the positions | a successor takes the messages again, and knows by the positions that the file has them |
//! | the subscribers acknowledge | |
//!
//! So each message of a reliable topic is in the file once, whichever process is killed. A recorder without a
//! name has no successor: what was published after its last group is not in the file.
//!
//! A recorder with a name that fails, as where the disk is full, leaves its places as a killed one does.

mod flight;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use outlive::node::DomainWatch;
use outlive::wait::WaitSet;
use outlive::{Deadline, Domain, Kind, RecvError, WaitError, WaitStrategy};
use outlive_mcap::{Compression, MessageHeader, Positions, Sync, Writer};
use serde_json::{Value, json};

use crate::error::Error;
use crate::output::{Output, Purpose, Resume, Split};
use crate::pace::Pace;
use crate::positions::forget_gone;
use crate::snapshot::{Snapshot, Snapshots};
use crate::source::{self, Found, Kinds, Payload, Source};

/// How a recorder works.
pub struct Options {
    /// The file, or the beginning of the files' names.
    pub output: PathBuf,
    /// Which topics and other things, by name.
    pub wanted: Box<dyn Fn(&str) -> bool>,
    /// Of which kinds.
    pub kinds: Kinds,
    /// The recorder's name, under which a successor goes on.
    pub name: Option<String>,
    /// For how long publishers wait for a successor.
    pub patience: Duration,
    /// Publishers of topics that offer it wait for the recorder.
    pub reliable: bool,
    /// Continue the file if it is there. A recorder with a name continues an unfinished file in any case.
    pub resume: bool,
    /// Begin the next file if it is there.
    pub next: bool,
    /// When the next file begins.
    pub split: Split,
    /// Keep the last seconds in shared memory, and write them when told. The recorder needs a name.
    pub snapshot: Option<Snapshot>,
    /// How chunks are compressed.
    pub compression: Compression,
    /// When the disk has to have what was written.
    pub sync: Sync,
    /// How many bytes a group gathers.
    pub group_bytes: u64,
    /// For how long a message may wait in the open group.
    pub flush: Duration,
    /// One of so many messages of a topic is recorded.
    pub every: u64,
    /// The most messages of a topic in a second.
    pub max_rate: Option<f64>,
    /// Gets each event that the recorder writes into the file.
    pub told: Box<dyn Fn(&Value)>,
}

impl Options {
    /// Returns the options of a recording of all topics into that file.
    pub fn new(output: impl Into<PathBuf>) -> Options {
        Options {
            output: output.into(),
            wanted: Box::new(|_| true),
            kinds: Kinds::TOPICS,
            name: None,
            patience: Duration::from_secs(10),
            reliable: true,
            resume: false,
            next: false,
            snapshot: None,
            split: Split::default(),
            compression: Compression::None,
            sync: Sync::Never,
            group_bytes: 1 << 20,
            flush: Duration::from_secs(1),
            every: 1,
            max_rate: None,
            told: Box::new(|_| {}),
        }
    }
}

/// What a recorder has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that are in the file, or in the open group.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Messages that were overwritten before they were taken.
    pub lost: u64,
    /// Topics.
    pub topics: usize,
    /// Queues.
    pub queues: usize,
    /// States.
    pub states: usize,
    /// Services.
    pub services: usize,
    /// Topics and other things that could not be opened.
    pub refused: usize,
    /// Publishers that died.
    pub deaths: u64,
}

impl Counts {
    /// Adds what was done after a stop; topics are those of now.
    pub(crate) fn and(self, later: Counts) -> Counts {
        Counts {
            messages: self.messages + later.messages,
            bytes: self.bytes + later.bytes,
            lost: self.lost + later.lost,
            deaths: self.deaths + later.deaths,
            ..later
        }
    }
}

/// See the head of this file.
pub struct Recorder {
    domain: Domain,
    options: Options,
    output: Output,
    snapshots: Option<Snapshots>,
    positions: Positions,
    sources: Vec<Box<dyn Source>>,
    set: WaitSet,
    pace: Pace,
    watch: DomainWatch,
    /// Topics that could not be opened, and why: each reason is told once, and each topic tried again.
    refused: BTreeMap<String, String>,
    /// Topics from which nothing can be taken any more, and why.
    broken: Vec<(String, String)>,
    /// When they are tried again.
    look_at: Option<Instant>,
    /// When the open group has to be written.
    flush_at: Option<Instant>,
    /// The channel on which the recorder tells what is no message.
    events: u16,
    counts: Counts,
    /// Messages lost in topics that are gone.
    lost_before: u64,
    /// Whether there was something at the last look.
    is_busy: bool,
    /// When polling last found a message.
    polled: Option<Instant>,
}

/// So many messages of a topic are taken before the next one has its turn.
const TURN: u64 = 256;
/// How often topics are tried again that could not be opened.
const AGAIN: Duration = Duration::from_secs(1);
/// How often the recorder polls what does not wake it: while something comes, and otherwise.
const LOOK: Duration = Duration::from_millis(1);
const IDLE_LOOK: Duration = Duration::from_millis(10);
/// For so long after a message it counts as "something comes".
const OF_LATE: Duration = Duration::from_millis(500);

impl Recorder {
    /// Opens the file and the topics.
    ///
    /// # Errors
    /// [`Error::Exists`]; that another recorder of this name lives ([`outlive::Error::Taken`]); what opening
    /// the file or a topic says.
    ///
    /// # If a process dies
    /// The next one of this name goes on where this one was.
    pub fn start(domain: &Domain, options: Options) -> Result<Recorder, Error> {
        let file = outlive_mcap::Options {
            // rosbags reads no file without it.
            profile: "ros2".to_owned(),
            library: concat!("outlive ", env!("CARGO_PKG_VERSION")).to_owned(),
            compression: options.compression,
            sync: options.sync,
            ..outlive_mcap::Options::default()
        };
        let resume = match (options.resume, options.next, &options.name) {
            (true, ..) => Resume::Yes,
            (false, true, _) => Resume::Next,
            // Its predecessor has died.
            (false, false, Some(_)) => Resume::Unfinished,
            (false, false, None) => Resume::No,
        };
        let mut options = options;
        let mut dropped = None;
        let (output, positions, is_successor, snapshots) = match (options.snapshot, &options.name) {
            (Some(wanted), Some(name)) => {
                let mut snapshots =
                    Snapshots::open(domain, name, wanted, &options.output, file.clone())?;
                options.group_bytes = options.group_bytes.min(snapshots.group_bytes());
                let opened = snapshots.open_segment(file)?;
                dropped = opened.dropped;
                (opened.output, opened.positions, opened.is_successor, Some(snapshots))
            }
            (Some(_), None) => return Err(Error::NoSnapshots),
            (None, _) => {
                let (path, split) = (&options.output, options.split);
                let (output, positions, is_successor) =
                    Output::open(path, split, file, resume, Purpose::Recording)?;
                (output, positions, is_successor, None)
            }
        };
        let watch = domain.watch();
        let mut set = WaitSet::new(domain);
        set.add(&watch)?;
        let mut recorder = Recorder {
            domain: domain.clone(),
            options,
            output,
            snapshots,
            positions,
            sources: Vec::new(),
            set,
            pace: Pace::new(Instant::now()),
            watch,
            refused: BTreeMap::new(),
            broken: Vec::new(),
            look_at: None,
            flush_at: None,
            events: 0,
            counts: Counts::default(),
            lost_before: 0,
            is_busy: true,
            polled: None,
        };
        if let Err(error) = recorder.begin(is_successor, dropped) {
            recorder.output.give_up();
            return Err(error);
        }
        Ok(recorder)
    }

    fn begin(&mut self, is_successor: bool, dropped: Option<String>) -> Result<(), Error> {
        forget_gone(&self.domain, &mut self.positions);
        self.events = events_channel(&mut self.output.writer)?;
        // What a successor's topics have is its own already; those in which it has no place have come
        // since.
        self.look_for_topics(is_successor && self.options.name.is_some())?;
        let resumed =
            json!({"event": "started", "resumed": is_successor, "pid": std::process::id()});
        self.tell(&resumed)?;
        if let Some(why) = dropped {
            self.tell(&json!({"event": "window_dropped", "why": why}))?;
        }
        self.flush()
    }

    /// Records what comes, until that moment at most; returns sooner.
    ///
    /// # Errors
    /// The first error of the file or of the domain; whole groups stay in the file. An error of a topic becomes an
    /// event instead.
    pub fn step(&mut self, until: Instant) -> Result<(), Error> {
        if !self.is_busy {
            self.rest(until)?;
        }
        // A topic that was removed and made anew has the same name, so the watch does not tell.
        if self.watch.try_changed()?.is_some()
            || self.look_at.is_some_and(|moment| Instant::now() >= moment)
            || self.sources.iter().any(|source| source.is_removed())
        {
            self.look_for_topics(true)?;
        }
        self.is_busy = false;
        let now = now();
        for at in 0..self.sources.len() {
            self.take_some(at, now, TURN)?;
            self.tell_lost(at)?;
        }
        self.set_broken_aside()?;
        let has_found = self.sources.iter().any(|source| source.has_found());
        let fullest =
            || self.sources.iter_mut().map(|source| source.part_found()).fold(0.0, f64::max);
        self.pace.has_looked(Instant::now(), has_found, fullest);
        if self.flush_at.is_some_and(|moment| Instant::now() >= moment) {
            self.flush()?;
        }
        self.tend_snapshots()
    }

    /// Returns whether something is recorded that does not wake the recorder.
    fn is_polling(&self) -> bool {
        self.sources.iter().any(|source| source.is_polled())
    }

    /// Returns when it has to look at what does not wake it.
    fn next_poll(&self) -> Option<Instant> {
        if !self.is_polling() {
            return None;
        }
        let now = Instant::now();
        let is_busy = self.polled.is_some_and(|last| now - last < OF_LATE);
        Some(now + if is_busy { LOOK } else { IDLE_LOOK })
    }

    /// Sleeps until something may be there.
    fn rest(&mut self, until: Instant) -> Result<(), Error> {
        let snapshot = self.snapshots.as_ref().and_then(Snapshots::next_moment);
        let moments = [self.flush_at, self.look_at, self.next_poll(), snapshot, Some(until)];
        let deadline = moments.into_iter().flatten().min().unwrap_or(until);
        let now = Instant::now();
        if let Some(rest) = self.pace.rest(now) {
            std::thread::sleep(rest.min(deadline.saturating_duration_since(now)));
            return Ok(());
        }
        let ready = self.set.wait_until(Deadline::at(deadline));
        self.pace.is_woken(Instant::now());
        match ready {
            Ok(_) | Err(WaitError::TimedOut) => Ok(()),
            Err(WaitError::System(error)) => Err(error.into()),
            Err(other) => Err(Error::Wait(other)),
        }
    }

    /// Takes so many messages of a topic, if they are there.
    fn take_some(&mut self, at: usize, now: u64, most: u64) -> Result<(), Error> {
        for turn in 0..most {
            if self.output.writer.open_len() >= self.options.group_bytes {
                self.flush()?;
            }
            match self.sources[at].take(&mut self.output.writer, now)? {
                Found::Nothing => return Ok(()),
                Found::Full => self.flush()?,
                Found::Message { bytes, written } => {
                    self.counts.messages += written;
                    self.counts.bytes += bytes as u64;
                    if self.sources[at].is_polled() {
                        self.polled = Some(Instant::now());
                    }
                    let flush = self.options.flush;
                    self.flush_at.get_or_insert_with(|| Instant::now() + flush);
                }
                Found::News(told) => self.tell_news(at, told)?,
                Found::Broken(error) => {
                    self.broken.push((self.sources[at].name().to_owned(), error.to_string()));
                    return Ok(());
                }
                Found::PassedOver(why) => {
                    let topic = self.sources[at].channel();
                    let event = json!({"event": "error", "topic": topic, "why": why});
                    self.tell(&event)?;
                }
            }
            self.is_busy |= turn + 1 == most;
        }
        Ok(())
    }

    /// Takes what is there by now, and not what comes meanwhile: publishers may go on for ever.
    fn take_rest(&mut self, at: usize) -> Result<(), Error> {
        // News and full groups take turns, too.
        let most = 2 * self.sources[at].lag() + TURN;
        self.take_some(at, now(), most)?;
        self.tell_lost(at)
    }

    /// Writes the open group, and tells publishers; begins the next file if it is time.
    ///
    /// # Errors
    /// Those of the file. Nothing is acknowledged then.
    pub fn flush(&mut self) -> Result<(), Error> {
        for source in &mut self.sources {
            source.note_positions(&mut self.positions);
        }
        self.write_group()?;
        self.flush_at = None;
        for source in &mut self.sources {
            source.acknowledge()?;
        }
        if self.output.is_full() {
            self.begin_next_file()?;
        }
        match &mut self.snapshots {
            Some(snapshots) => snapshots.keep_bounds(self.output.writer.file_len()),
            None => Ok(()),
        }
    }

    fn add_channels(&mut self) -> Result<(), Error> {
        self.events = events_channel(&mut self.output.writer)?;
        for source in &mut self.sources {
            source.add_channel(&mut self.output.writer)?;
        }
        Ok(())
    }

    /// Takes what is there, writes it, and gives the file its index. The recorder's name is free then.
    ///
    /// # Errors
    /// Those of the file.
    pub fn finish(mut self) -> Result<Counts, Error> {
        for at in 0..self.sources.len() {
            self.take_rest(at)?;
        }
        self.tell(&json!({"event": "ended"}))?;
        self.flush()?;
        let counts = self.counts();
        if let Some(mut snapshots) = self.snapshots.take() {
            snapshots.closed(self.output.number(), self.file_len());
            self.sources.clear();
            snapshots.end(&*self.options.told)?;
            return Ok(counts);
        }
        // First: a finished file with places in topics would be one that no successor goes on in.
        self.sources.clear();
        self.output.writer.finish(&self.positions)?;
        Ok(counts)
    }

    /// Returns what has been done.
    pub fn counts(&self) -> Counts {
        let lost =
            self.lost_before + self.sources.iter().map(|source| source.lost().0).sum::<u64>();
        let of = |kind| self.sources.iter().filter(|source| source.kind() == kind).count();
        let (topics, queues) = (of(Kind::Topic), of(Kind::Queue));
        let (states, services) = (of(Kind::State), of(Kind::Service));
        let refused = self.refused.len();
        Counts { lost, topics, queues, states, services, refused, ..self.counts }
    }

    /// Returns the file that is written now.
    pub fn current_file(&self) -> PathBuf {
        self.output.current()
    }

    /// Returns how long it is.
    pub fn file_len(&self) -> u64 {
        self.output.writer.file_len()
    }

    /// Opens topics that have come, and lets go of those that have been removed.
    fn look_for_topics(&mut self, is_late: bool) -> Result<(), Error> {
        let mut gone = Vec::new();
        for (at, source) in self.sources.iter().enumerate() {
            if source.is_removed() {
                gone.push(at);
            }
        }
        for at in gone.into_iter().rev() {
            self.take_rest(at)?;
            self.flush()?;
            let mut source = self.sources.remove(at);
            // They mean nothing any more.
            let prefix = source.prefix();
            self.positions.retain(|key, _| !key.starts_with(&prefix));
            self.lost_before += source.lost().0;
            source.unwatch(&mut self.set);
            self.tell(&json!({"event": "removed", "topic": source.channel()}))?;
        }
        let mut refused = std::mem::take(&mut self.refused);
        for name in self.domain.contents()?.names {
            let is_known = self.sources.iter().any(|source| source.name() == name);
            if is_known || !(self.options.wanted)(&name) {
                continue;
            }
            let before = refused.remove(&name);
            // If its kind cannot be told, opening it says why.
            let kind = self.domain.kind_of(&name).unwrap_or(Kind::Topic);
            if !self.options.kinds.has(kind) {
                continue;
            }
            let (options, positions) = (&self.options, &self.positions);
            let opened = source::open(kind, &self.domain, &name, options, positions, is_late);
            let mut source = match opened {
                Ok(Some(source)) => source,
                Ok(None) => continue,
                Err(Error::Outlive(outlive::Error::NotFound { .. })) => continue,
                Err(
                    error @ Error::Outlive(
                        outlive::Error::Taken { .. } | outlive::Error::InvalidOption { .. },
                    ),
                ) => return Err(error),
                Err(error) => {
                    let why = error.to_string();
                    if before.as_ref() != Some(&why) {
                        self.tell(&json!({"event": "refused", "topic": name, "why": why}))?;
                    }
                    self.refused.insert(name, why);
                    continue;
                }
            };
            source.add_channel(&mut self.output.writer)?;
            source.watch(&mut self.set)?;
            self.is_busy = true;
            self.sources.push(source);
        }
        self.look_at = (!self.refused.is_empty()).then(|| Instant::now() + AGAIN);
        // Where it looks from time to time anyway, it does not spin before each sleep.
        self.set.set_wait_strategy(match self.is_polling() {
            true => WaitStrategy::Block,
            false => WaitStrategy::Adaptive,
        });
        Ok(())
    }

    /// A topic whose shared bytes are damaged, or that the system refuses: the others go on, and it is tried again
    /// after a while. A recorder with a name keeps its place there meanwhile.
    #[cold]
    fn set_broken_aside(&mut self) -> Result<(), Error> {
        for (name, why) in std::mem::take(&mut self.broken) {
            let Some(at) = self.sources.iter().position(|source| source.name() == name) else {
                continue;
            };
            // What was taken is in the file, and acknowledged.
            self.flush()?;
            let mut source = self.sources.remove(at);
            // In a place that is kept the count is, too.
            if self.options.name.is_none() {
                self.lost_before += source.lost().0;
            }
            source.unwatch(&mut self.set);
            source.abandon();
            self.tell(&json!({"event": "error", "topic": name, "why": why}))?;
            self.refused.insert(name, why);
            self.look_at = Some(Instant::now() + AGAIN);
        }
        Ok(())
    }

    /// Messages that were overwritten before they were taken, also by one that died before.
    fn tell_lost(&mut self, at: usize) -> Result<(), Error> {
        let source = &self.sources[at];
        let (_, lost) = source.lost();
        if lost == 0 {
            return Ok(());
        }
        let event = json!({"event": "lost", "topic": source.channel(), "count": lost});
        self.tell(&event)?;
        // Behind it: the positions say so in the event's group.
        self.sources[at].tell_lost(lost);
        Ok(())
    }

    fn tell_news(&mut self, at: usize, told: RecvError) -> Result<(), Error> {
        let topic = self.sources[at].channel();
        let mut died = None;
        let event = match told {
            // Among those that are counted.
            RecvError::Lagged { .. } => return Ok(()),
            RecvError::NewSession { session } => {
                json!({"event": "session", "topic": topic, "session": session})
            }
            RecvError::PublisherDied { session, publisher } => {
                self.counts.deaths += 1;
                died = Some(format!(
                    "a publisher of {topic} died: {} ({})",
                    publisher.program, publisher.pid
                ));
                json!({"event": "publisher_died", "topic": topic, "session": session,
                    "pid": publisher.pid, "program": publisher.program})
            }
            other => json!({"event": "error", "topic": topic, "why": other.to_string()}),
        };
        self.tell(&event)?;
        if let (Some(reason), Some(snapshots)) = (died, &mut self.snapshots)
            && let Err(error) = snapshots.died(&reason)
        {
            let why = error.to_string();
            self.tell(&json!({"event": "snapshot_failed", "reason": reason, "why": why}))?;
        }
        Ok(())
    }

    /// Puts a line of JSON into the open group.
    fn tell(&mut self, event: &Value) -> Result<(), Error> {
        if self.output.writer.open_len() >= self.options.group_bytes {
            self.flush()?;
        }
        let now = now();
        let header = MessageHeader {
            channel_id: self.events,
            sequence: 0,
            log_time: now,
            publish_time: now,
        };
        self.output.writer.put(&header, event.to_string().as_bytes())?;
        (self.options.told)(event);
        let flush = self.options.flush;
        self.flush_at.get_or_insert_with(|| Instant::now() + flush);
        Ok(())
    }
}

impl Drop for Recorder {
    /// It has not ended in order, else it has no sources any more.
    fn drop(&mut self) {
        self.output.writer.discard();
        self.sources.drain(..).for_each(|source| source.abandon());
    }
}

/// The topic of the events.
pub const EVENTS: &str = "outlive/events";

fn events_channel(writer: &mut Writer<Payload>) -> Result<u16, Error> {
    // Without a schema, because programs that read the profile "ros2" know none in JSON.
    Ok(writer.add_channel(0, EVENTS, "json", &BTreeMap::new())?)
}

/// The time of day, in nanoseconds.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
