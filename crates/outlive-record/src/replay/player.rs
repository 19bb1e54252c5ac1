//! The player: takes one message after the other out of the files, and publishes each when it is due.
//!
//! | state | next |
//! | --- | --- |
//! | nothing is pending | the next message is copied to where its subscribers will read it |
//! | a message is pending | it is published when it is due; a seek gives its memory back |
//! | the end | with `repeats` it begins again |
//!
//! The copy is made before the message is due, so that only the publishing itself is late. A player that is
//! killed leaves what it has published; its topics are as after the death of any publisher.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use outlive::Domain;
use outlive::topic::{Publisher, Topic};
use outlive_mcap::{Channel, MessageHeader, Outline};
use outlive_program::figures::counted;

use super::input::{Data, Input, Next};
use super::sink::{Payload, Prepared, Sinks};
use super::timetable::{Rate, Timetable};
use super::wanted::{Asked, Wanted};
use crate::error::Error;

/// Which of a message's times counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// When it was recorded.
    Log,
    /// When it was published.
    Publish,
}

/// A time of a recording, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// After the first message.
    After(u64),
    /// Since 1970.
    At(u64),
}

/// How a recording is played.
pub struct Options {
    /// Which topics. A name or pattern that matches none of the files is [`Error::NoTopic`] or [`Error::NoneLike`].
    pub wanted: Wanted,
    /// Names here, by those in the files, all of which are there.
    pub rename: HashMap<String, String>,
    /// How fast.
    pub rate: Rate,
    /// By which time.
    pub by: By,
    /// From this time on.
    pub start: Option<When>,
    /// Messages before this time.
    pub end: Option<When>,
    /// Whether it begins again at the end.
    pub repeats: bool,
    /// Whether it begins when it is told to.
    pub is_paused: bool,
    /// Whether it waits for reliable subscribers, however long. At [`Rate::Max`] it does.
    pub reliable: bool,
    /// The topic on which it tells the time of the recording.
    pub clock: Option<String>,
    /// Whether messages have the stamps that they had.
    pub original_stamps: bool,
    /// How many messages the rings of topics hold that are made; `None`: as many as they did.
    pub depth: Option<u32>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            wanted: Wanted::default(),
            rename: HashMap::new(),
            rate: Rate::Times(1.0),
            by: By::Log,
            start: None,
            end: None,
            repeats: false,
            is_paused: false,
            reliable: false,
            clock: None,
            original_stamps: false,
            depth: None,
        }
    }
}

/// What a player has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that were published.
    pub messages: u64,
    /// Their bytes in the files.
    pub bytes: u64,
    /// Topics.
    pub topics: usize,
    /// Messages that could not be published.
    pub refused: u64,
    /// Damaged parts of the files.
    pub faults: u64,
    /// How often it was more than a second late, and moved the timetable.
    pub stalls: u64,
}

/// When the next message is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Then.
    At(Instant),
    /// When it goes on.
    Paused,
    /// It was not found within a while: the next call looks on.
    Unknown,
    /// There is none.
    End,
}

struct Pending {
    sink: usize,
    payload: Payload,
    bytes: usize,
    time: u64,
    published: u64,
}

/// The time of the recording, told on a topic.
struct Clock {
    publisher: Publisher<u64>,
    /// When it is told next; `None`: the time has come to its end.
    next: Option<u64>,
}

/// See the head of this file.
pub struct Player {
    input: Input,
    sinks: Sinks,
    timetable: Timetable,
    options: Options,
    /// The first time that is played, and the first that is not any more.
    from: u64,
    to: Option<u64>,
    last: u64,
    /// Older messages are passed over: of the chunk that was sought.
    passed: u64,
    pending: Option<Pending>,
    clock: Option<Clock>,
    is_anchored: bool,
    /// Whether this round has had a message.
    had_any: bool,
    has_repeated: bool,
    is_over: bool,
    counts: Counts,
    late: Histogram<u64>,
}

/// A player that is later than this does not catch up.
const STALL: Duration = Duration::from_secs(1);
/// The next message is looked for as long, by one call.
const LOOK: Duration = Duration::from_millis(50);
/// A silence that is longer is a clock that was set, or a lie: it is passed over.
const SILENCE: Duration = Duration::from_secs(86_400);
/// So many bytes one call publishes at the greatest rate.
const MUCH: u64 = 16 << 20;
/// How often the time is told, in nanoseconds.
const TICK: u64 = 10_000_000;
/// How far behind the end messages from before it may stand in a file, in nanoseconds.
const DISORDER: u64 = 5_000_000_000;

impl Player {
    /// Opens the files, and opens or makes their topics.
    ///
    /// # Errors
    /// What opening a file or a topic says; two topics would have the same name; a name was asked for that no file
    /// has; no message lies between the start and the end. Files that do not say beforehand which topics they have tell of it at their end: [`Player::unmet`].
    ///
    /// # If a process dies
    /// Topics that were made stay, as those of any publisher.
    pub fn open(domain: &Domain, files: &[PathBuf], mut options: Options) -> Result<Player, Error> {
        let mut input = Input::open(files)?;
        let (first, last) = input.times();
        let at = |when| match when {
            When::After(time) => first.saturating_add(time),
            When::At(time) => time,
        };
        let (from, to) = (options.start.map_or(0, at), options.end.map(at));
        let reliable = options.reliable || options.rate == Rate::Max;
        let clock = options.clock.clone();
        let (wanted, rename) =
            (std::mem::take(&mut options.wanted), std::mem::take(&mut options.rename));
        let mut asked = Asked::new(wanted, rename);
        for channel in input.outlines().flat_map(Outline::channels) {
            asked.meet(channel);
        }
        let are_all_known =
            input.outlines().all(|one| one.statistics.is_some() && one.has_all_channels());
        if let (true, Some(error)) = (are_all_known, asked.unmet()) {
            // Before any topic is made.
            return Err(error);
        }
        let is_bounded = options.start.is_some() || options.end.is_some();
        let is_behind = from > last || to.is_some_and(|to| to <= from.max(first));
        if is_bounded && is_behind && are_all_known && options.by == By::Log {
            return Err(Error::NothingThen { first, last });
        }
        let mut sinks = Sinks::new(domain, asked, clock.clone(), reliable, options.depth);
        sinks.notices.append(&mut input.notices);
        sinks.check(input.outlines().flat_map(|outline| {
            let schema = |channel: &Channel| outline.schema(channel.schema_id);
            outline.channels().map(move |channel| (channel, schema(channel)))
        }))?;
        if let Some(name) = &clock {
            Clock::check(domain, name)?;
        }
        for (file, outline) in input.outlines().enumerate() {
            for channel in outline.channels() {
                sinks.add(file, channel, outline.schema(channel.schema_id))?;
            }
        }
        let clock = clock.map(|name| Clock::open(domain, &name)).transpose()?;
        let timetable = Timetable::new(options.rate, options.is_paused);
        let mut player = Player {
            input,
            sinks,
            timetable,
            options,
            from,
            to,
            last,
            passed: from,
            pending: None,
            clock,
            is_anchored: false,
            had_any: false,
            has_repeated: false,
            is_over: false,
            counts: Counts::default(),
            // An hour at most, with three digits.
            late: Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("sound bounds"),
        };
        if from > first {
            player.input.seek(from)?;
        }
        Ok(player)
    }

    /// Copies the next message to shared memory if none is pending, and returns when it is due.
    ///
    /// # Errors
    /// The first error of a file that is no damage, and of a topic.
    pub fn due(&mut self) -> Result<Due, Error> {
        let mut until = None;
        let mut count = 0_u32;
        while self.pending.is_none() && !self.is_over {
            self.fetch()?;
            count += 1;
            if count.is_multiple_of(64) {
                let now = Instant::now();
                if now > *until.get_or_insert(now + LOOK) {
                    return Ok(Due::Unknown);
                }
            }
        }
        let Some(pending) = &self.pending else { return Ok(Due::End) };
        if !self.is_anchored {
            // With a start the silence before the first message is played, too.
            let begin = if self.options.start.is_some() { self.from } else { pending.time };
            self.anchor(begin.min(pending.time));
        }
        if self.timetable.is_paused() {
            return Ok(Due::Paused);
        }
        let time = self.pending.as_ref().map_or(0, |pending| pending.time);
        let silence = self.timetable.due(time).saturating_duration_since(Instant::now());
        if silence > SILENCE {
            let days = silence.as_secs() / SILENCE.as_secs();
            let told = format!("a silence of {} is passed over", counted(days, "day"));
            self.sinks.notices.push(told);
            self.anchor(time);
        }
        Ok(Due::At(self.timetable.due(self.tick().unwrap_or(time))))
    }

    fn anchor(&mut self, time: u64) {
        self.timetable.set(Instant::now(), time);
        self.is_anchored = true;
        if let Some(clock) = &mut self.clock {
            clock.next = Some(time);
        }
    }

    /// Returns when the time is to be told, if that is before the pending message.
    fn tick(&self) -> Option<u64> {
        let (clock, pending) = (self.clock.as_ref()?, self.pending.as_ref()?);
        clock.next.filter(|next| *next <= pending.time)
    }

    /// Publishes what is due. Returns false if a subscriber was in the way for a while; then it is still due.
    ///
    /// # Errors
    /// Those of the topic.
    pub fn publish(&mut self) -> Result<bool, Error> {
        if self.timetable.is_paused() {
            return Ok(true);
        }
        if self.tick().is_some() {
            self.tell_time()?;
            // The message has a time of its own.
            if self.tick().is_some() && self.timetable.rate() != Rate::Max {
                return Ok(true);
            }
        }
        let due = self.pending.as_ref().map(|pending| self.timetable.due(pending.time));
        if due.is_some_and(|due| due > Instant::now()) {
            return Ok(true);
        }
        self.publish_pending()
    }

    /// At the greatest rate: publishes up to so many messages, without a look at the clock. Returns as
    /// [`Player::publish`].
    ///
    /// # Errors
    /// As [`Player::due`] and [`Player::publish`].
    pub fn publish_some(&mut self, most: u32) -> Result<bool, Error> {
        let enough = self.counts.bytes + MUCH;
        for _ in 0..most {
            if self.pending.is_none() {
                // It begins again: `due` says when.
                if self.is_over || !self.is_anchored {
                    break;
                }
                self.fetch()?;
                if self.pending.is_none() {
                    continue;
                }
            }
            if self.tick().is_some() {
                self.tell_time()?;
            }
            if !self.publish_pending()? {
                return Ok(false);
            }
            if self.counts.bytes >= enough {
                break;
            }
        }
        Ok(true)
    }

    /// Tells the time of the recording, and notes when it is told next.
    fn tell_time(&mut self) -> Result<(), Error> {
        let (Some(clock), Some(pending)) = (&mut self.clock, &self.pending) else { return Ok(()) };
        let (now, step) = match self.timetable.rate() {
            Rate::Max => (pending.time, TICK),
            Rate::Times(rate) => {
                let now = self.timetable.time(Instant::now()).min(pending.time);
                (now, ((TICK as f64 * rate) as u64).max(1))
            }
        };
        clock.tell(now)?;
        clock.next = now.checked_add(step);
        Ok(())
    }

    fn publish_pending(&mut self) -> Result<bool, Error> {
        let Some(Pending { sink, payload, bytes, time, published }) = self.pending.take() else {
            return Ok(true);
        };
        let stamp = self.options.original_stamps.then_some(published);
        if let Some(payload) = self.sinks.get(sink).publish(payload, stamp)? {
            self.pending = Some(Pending { sink, payload, bytes, time, published });
            return Ok(false);
        }
        self.counts.messages += 1;
        self.counts.bytes += bytes as u64;
        if let (Rate::Times(_), false) = (self.timetable.rate(), self.timetable.is_paused()) {
            let now = Instant::now();
            let late = now.saturating_duration_since(self.timetable.due(time));
            self.late.saturating_record(late.as_nanos() as u64);
            if late > STALL {
                self.counts.stalls += 1;
                self.timetable.move_to(now, time);
            }
        }
        self.timetable.note(time);
        Ok(true)
    }

    /// Takes the next message out of the files.
    fn fetch(&mut self) -> Result<(), Error> {
        let (sinks, by, passed, to) = (&mut self.sinks, self.options.by, self.passed, self.to);
        let mut notice = None;
        let mut take = |file, channel: &Arc<Channel>, header: &MessageHeader, data: Data<'_>| {
            let published = header.publish_time;
            let time = match by {
                By::Log => header.log_time,
                By::Publish => published,
            };
            if to.is_some_and(|to| time >= to) {
                return Ok(match to.is_some_and(|to| time >= to.saturating_add(DISORDER)) {
                    true => Taken::Behind,
                    false => Taken::PassedOver,
                });
            }
            let sink = sinks.of(file, header.channel_id).filter(|_| time >= passed);
            let Some(sink) = sink else { return Ok(Taken::PassedOver) };
            let bytes = data.len();
            Ok(match sinks.get(sink).prepare(channel, data)? {
                Prepared::Payload(payload) => {
                    Taken::Pending(Pending { sink, payload, bytes, time, published })
                }
                Prepared::Refused(why) => {
                    notice = why;
                    Taken::Refused
                }
            })
        };
        let taken = self.input.next(&mut take)?;
        self.sinks.notices.extend(notice);
        match taken {
            Next::Message(Taken::Pending(pending)) => {
                self.pending = Some(pending);
                self.had_any = true;
            }
            Next::Message(Taken::Refused) => self.counts.refused += 1,
            Next::Message(Taken::PassedOver) => {}
            Next::Channel(file, channel) => {
                // Its topic is open already, by what the index says.
                if let Some(error) = self.input.contradiction(file, &channel) {
                    return Err(error);
                }
                let schema = self.input.schema(channel.schema_id);
                self.sinks.add(file, &channel, schema)?;
            }
            // A writer that died, as one does.
            Next::Fault(error @ Error::Fault { error: outlive_mcap::Error::Cut { .. }, .. }) => {
                self.sinks.notices.push(error.to_string());
            }
            Next::Fault(error) => {
                self.counts.faults += 1;
                if self.counts.faults <= 10 {
                    self.sinks.notices.push(error.to_string());
                }
            }
            Next::Message(Taken::Behind) | Next::End => {
                if self.options.repeats && self.had_any {
                    // It has no end at which that could be told.
                    if !std::mem::replace(&mut self.has_repeated, true) {
                        self.sinks.notices.extend(self.sinks.unmet().map(|why| why.to_string()));
                    }
                    self.input.seek(self.from)?;
                    (self.passed, self.is_anchored, self.had_any) = (self.from, false, false);
                } else {
                    self.is_over = true;
                }
            }
        }
        Ok(())
    }

    /// Goes on, or stands still.
    pub fn toggle(&mut self) {
        match self.timetable.is_paused() {
            true => self.timetable.go_on(Instant::now()),
            false => self.timetable.pause(Instant::now()),
        }
    }

    /// Stops it, and publishes one message.
    ///
    /// # Errors
    /// As [`Player::due`] and [`Player::publish`].
    pub fn step(&mut self) -> Result<(), Error> {
        if !self.timetable.is_paused() {
            self.timetable.pause(Instant::now());
        }
        self.due()?;
        self.publish_pending()?;
        Ok(())
    }

    /// Goes so many nanoseconds forward, or back.
    ///
    /// # Errors
    /// The file cannot be opened again.
    pub fn seek_by(&mut self, nanoseconds: i64) -> Result<(), Error> {
        let now = self.timetable.time(Instant::now());
        let first = self.from.max(self.input.times().0);
        let time = now.saturating_add_signed(nanoseconds).min(self.end()).max(first);
        self.input.seek(time)?;
        (self.pending, self.passed, self.is_over, self.had_any) = (None, time, false, true);
        self.anchor(time);
        Ok(())
    }

    /// Returns the last time that is played.
    fn end(&self) -> u64 {
        self.to.map_or(self.last, |to| to.min(self.last))
    }

    /// Plays that many times as fast; at the greatest rate nothing changes.
    pub fn speed_by(&mut self, factor: f64) {
        if let Rate::Times(rate) = self.timetable.rate() {
            let rate = (rate * factor).clamp(1.0 / 1024.0, 1024.0);
            self.timetable.set_rate(Instant::now(), Rate::Times(rate));
        }
    }

    /// Returns how fast it plays, and whether it is paused.
    pub fn rate(&self) -> (Rate, bool) {
        (self.timetable.rate(), self.timetable.is_paused())
    }

    /// Returns how far it is in the recording, and how long that is, in nanoseconds.
    pub fn progress(&self) -> (u64, u64) {
        let first = self.from.max(self.input.times().0);
        let (at, last) = (self.timetable.time(Instant::now()), self.end());
        (at.clamp(first, last.max(first)) - first, last.saturating_sub(first))
    }

    /// Returns what has been done.
    pub fn counts(&self) -> Counts {
        Counts { topics: self.sinks.len(), ..self.counts }
    }

    /// Returns how late messages were, in nanoseconds: the medium, the 99th of 100, and the latest.
    pub fn late(&self) -> Option<[u64; 3]> {
        let late = &self.late;
        (!late.is_empty())
            .then(|| [late.value_at_quantile(0.5), late.value_at_quantile(0.99), late.max()])
    }

    /// Returns what was asked for by a name or a pattern, and was met in no file so far. At the end of files that
    /// do not say beforehand which topics they have, it was mistyped. So is a start or an end between which there was
    /// nothing.
    pub fn unmet(&self) -> Option<Error> {
        let is_bounded = self.options.start.is_some() || self.options.end.is_some();
        let Counts { messages, refused, .. } = self.counts;
        let nothing = || {
            let (first, last) = self.input.times();
            let is_nothing = is_bounded && messages == 0 && refused == 0;
            is_nothing.then_some(Error::NothingThen { first, last })
        };
        self.sinks.unmet().or_else(nothing)
    }

    /// Returns how many subscribers its topics have together.
    pub fn subscribers(&self) -> u64 {
        self.sinks.subscribers()
    }

    /// Returns what the user should know, once.
    pub fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.sinks.notices)
    }
}

/// What became of a message that was met.
enum Taken {
    Pending(Pending),
    Refused,
    PassedOver,
    /// Behind the last one that is played.
    Behind,
}

impl Clock {
    /// Fails if a topic of that name is none for it, or none can have that name; makes none.
    fn check(domain: &Domain, name: &str) -> Result<(), Error> {
        match Topic::<u64>::options().described().as_is().open(domain, name) {
            Ok(_) | Err(outlive::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(Error::Topic { topic: name.to_owned(), error }),
        }
    }

    fn open(domain: &Domain, name: &str) -> Result<Clock, Error> {
        let topic = Topic::<u64>::options().described().as_is();
        let failed = |error| Error::Topic { topic: name.to_owned(), error };
        let topic = topic.open_or_create(domain, name).map_err(failed)?;
        let options = Publisher::options().max_blocking(Duration::ZERO);
        Ok(Clock { publisher: topic.publisher_with(options).map_err(failed)?, next: Some(0) })
    }

    fn tell(&self, time: u64) -> Result<(), Error> {
        let told = self.publisher.publish(&time);
        told.map(drop).map_err(|error| Error::Publish { topic: "clock".to_owned(), error })
    }
}
