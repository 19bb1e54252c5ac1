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
mod options;
mod sources;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use outlive::node::DomainWatch;
use outlive::wait::WaitSet;
use outlive::{Deadline, Domain, Kind, RecvError, WaitError};
use outlive_mcap::{MessageHeader, Positions, Writer};
use serde_json::{Value, json};

use crate::account::{Account, Missing, Phase, Start};
use crate::error::Error;
use crate::output::{Opened, Output, Owner, Purpose, Resume};
use crate::pace::Pace;
use crate::snapshot::{FAR, Snapshots};
use crate::source::{Found, Payload, Source};

pub use options::{Counts, Options};

/// See the head of this file.
pub struct Recorder {
    domain: Domain,
    options: Options,
    /// The file that it began with.
    first_file: PathBuf,
    output: Output,
    snapshots: Option<Snapshots>,
    account: Account,
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
    /// Of what is missing: that of things that are gone.
    counts: Counts,
    /// Whether there was something at the last look.
    is_busy: bool,
    /// When polling last found a message.
    polled: Option<Instant>,
    /// It goes on behind another recorder.
    is_resumed: bool,
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
        Recorder::start_as(domain, options, Start::default())
    }

    /// The same, of a recorder that is told what to do.
    pub(crate) fn start_as(
        domain: &Domain,
        options: Options,
        start: Start,
    ) -> Result<Recorder, Error> {
        let file = outlive_mcap::Options {
            // rosbags reads no file without it.
            profile: "ros2".to_owned(),
            library: concat!("outlive ", env!("CARGO_PKG_VERSION")).to_owned(),
            compression: options.compression,
            sync: options.sync,
            ..outlive_mcap::Options::default()
        };
        let resume = match (options.resume, start.is_told, &options.name) {
            (_, true, _) => Resume::Next,
            (true, ..) => Resume::Yes,
            // Its predecessor has died.
            (false, false, Some(_)) => Resume::Unfinished,
            (false, false, None) => Resume::No,
        };
        let mut options = options;
        options.flush = options.flush.min(FAR);
        let mut dropped = None;
        let (opened, snapshots) = match (options.snapshot, &options.name) {
            (Some(wanted), Some(name)) => {
                let mut snapshots =
                    Snapshots::open(domain, name, wanted, &options.output, file.clone())?;
                options.group_bytes = options.group_bytes.min(snapshots.group_bytes());
                let (opened, why) = snapshots.open_segment(file)?;
                dropped = why;
                (opened, Some(snapshots))
            }
            (Some(_), None) => return Err(Error::NoSnapshots),
            (None, _) => {
                let (path, split) = (&options.output, options.split);
                let owner = Owner { name: options.name.as_deref(), is_heir: start.is_heir };
                (Output::open(path, split, file, resume, Purpose::Recording, owner)?, None)
            }
        };
        let Opened { output, positions, phase } = opened;
        let (name, selection) = (options.name.as_deref(), &options.selection[..]);
        let account = Account::begin(positions, phase, start.stopped, name, selection);
        let watch = domain.watch();
        let mut set = WaitSet::new(domain);
        set.add(&watch)?;
        let mut recorder = Recorder {
            domain: domain.clone(),
            options,
            first_file: output.current(),
            output,
            snapshots,
            account,
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
            is_busy: true,
            polled: None,
            is_resumed: false,
        };
        if let Err(error) = recorder.begin(dropped) {
            recorder.output.give_up();
            return Err(error);
        }
        Ok(recorder)
    }

    /// Looks for what there is, and writes the first group: the account is this recorder's then. Without it, a
    /// successor begins as this one did.
    fn begin(&mut self, dropped: Option<String>) -> Result<(), Error> {
        self.events = events_channel(&mut self.output.writer)?;
        let mut left = Vec::new();
        if let Err(error) = self.write_first(dropped, &mut left) {
            left.into_iter().for_each(|source| source.abandon());
            return Err(error);
        }
        self.account.has_begun();
        // Their places are given up only now: the group says that no recorder goes on there.
        left.into_iter().try_for_each(|mut source| source.acknowledge())
    }

    fn write_first(
        &mut self,
        dropped: Option<String>,
        left: &mut Vec<Box<dyn Source>>,
    ) -> Result<(), Error> {
        self.leave_unwanted(left)?;
        self.look_for_topics()?;
        let is_resumed = self.account.is_resumed();
        self.is_resumed = is_resumed;
        self.tell(&json!({"event": "started", "resumed": is_resumed, "pid": std::process::id()}))?;
        for at in 0..self.sources.len() {
            self.tell_missing(at)?;
        }
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
            self.look_for_topics()?;
        }
        self.is_busy = false;
        let now = now();
        for at in 0..self.sources.len() {
            self.take_some(at, now, TURN)?;
            self.tell_missing(at)?;
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
        let most = self.sources[at].lag().saturating_mul(2).saturating_add(TURN);
        self.take_some(at, now(), most)?;
        self.tell_missing(at)
    }

    /// Writes the open group, and tells publishers; begins the next file if it is time.
    ///
    /// # Errors
    /// Those of the file. Nothing is acknowledged then.
    pub fn flush(&mut self) -> Result<(), Error> {
        for source in &mut self.sources {
            source.note_positions(&mut self.account.positions);
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

    /// Adds the channels of those of which nothing came.
    fn complete_channels(&mut self) -> Result<(), Error> {
        for source in &mut self.sources {
            source.complete(&mut self.output.writer)?;
        }
        Ok(())
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
    pub fn finish(self) -> Result<Counts, Error> {
        self.end(false).map(|(counts, ..)| counts)
    }

    /// The same. `is_stopped`: a request says so, and another one may begin the next file. Returns how far it is, too,
    /// and the last file: the end may have begun one.
    pub(crate) fn end(mut self, is_stopped: bool) -> Result<(Counts, Positions, PathBuf), Error> {
        // What came since the last look was to be recorded, too.
        self.look_for_topics()?;
        for at in 0..self.sources.len() {
            self.take_rest(at)?;
        }
        self.complete_channels()?;
        self.tell(&json!({"event": "ended"}))?;
        self.account.end(if is_stopped { Phase::Stopped } else { Phase::Ended });
        self.close_refused();
        // What comes behind this group is skipped. If it dies before the file has its index, a successor writes that.
        self.flush()?;
        let (counts, last) = (self.counts(), self.current_file());
        if let Some(mut snapshots) = self.snapshots.take() {
            snapshots.closed(self.output.number(), self.file_len());
            self.sources.clear();
            snapshots.end(&*self.options.told)?;
            return Ok((counts, std::mem::take(&mut self.account.positions), last));
        }
        // First: a finished file with places in topics would be one that no successor goes on in.
        self.sources.clear();
        self.output.writer.finish(&self.account.positions)?;
        Ok((counts, std::mem::take(&mut self.account.positions), last))
    }

    /// Returns what has been done.
    pub fn counts(&self) -> Counts {
        let sum = |before, of: fn(&Missing) -> u64| {
            let all = self.sources.iter().map(|source| of(source.missing()));
            all.fold(before, u64::saturating_add)
        };
        let lost = sum(self.counts.lost, Missing::lost);
        let skipped = sum(self.counts.skipped, Missing::skipped);
        let of = |kind| self.sources.iter().filter(|source| source.kind() == kind).count();
        let (topics, queues) = (of(Kind::Topic), of(Kind::Queue));
        let (states, services) = (of(Kind::State), of(Kind::Service));
        let refused = self.refused.len();
        Counts { lost, skipped, topics, queues, states, services, refused, ..self.counts }
    }

    /// Returns whether it went on behind a recorder that had died or ended: what that one recorded is not among the
    /// counts.
    pub fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// Returns the file that it began with: it may have begun others since.
    pub(crate) fn first_file(&self) -> PathBuf {
        self.first_file.clone()
    }

    /// Returns the file that is written now.
    pub fn current_file(&self) -> PathBuf {
        self.output.current()
    }

    /// Returns how long it is.
    pub fn file_len(&self) -> u64 {
        self.output.writer.file_len()
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

    /// Puts a line of JSON into the open group, or into the next one if that is full.
    fn tell(&mut self, event: &Value) -> Result<(), Error> {
        self.make_room_for_event()?;
        self.put_event(event)
    }

    /// Writes the open group if it is full. The first one ends with all that is there: it takes the account over.
    fn make_room_for_event(&mut self) -> Result<(), Error> {
        let is_full = self.output.writer.open_len() >= self.options.group_bytes;
        match is_full && !self.account.is_beginning() {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn put_event(&mut self, event: &Value) -> Result<(), Error> {
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
