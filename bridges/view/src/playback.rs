//! A recorded file as clients see it: played at a rate, stopped and sought by any of them, for all.
//!
//! | the player | it |
//! | --- | --- |
//! | plays | sends each message when its time has come, and tells the time ten times a second |
//! | stands | waits for a client to say otherwise |
//! | was told to seek | sends the last message before that time of each topic that a client wants, then goes on from there |
//! | is at the end | begins again with `--loop`; else it waits as if it was told to stop |
//!
//! A client of the protocol's playback control says these things; one without it sees the file played.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use foxglove::websocket::{
    PlaybackCommand, PlaybackControlRequest, PlaybackState, PlaybackStatus, Status,
};
use foxglove::{ChannelBuilder, PartialMetadata, RawChannel};

use crate::clients::{Clients, Player};
use crate::filed::Filed;
use crate::parameters::parameter;
use crate::past::PastStates;
use crate::recorded::{Key, Message, Messages, Recorded};
use crate::told::{Event, Told};

/// How often clients are told the time.
const TIME: Duration = Duration::from_millis(100);
/// How far before a time that was sought the last messages are looked for, in nanoseconds; those of a topic that
/// keeps its last one, and values of states, from the beginning on.
const BEFORE: u64 = 10_000_000_000;
/// How fast a client may have it played.
const RATES: std::ops::RangeInclusive<f32> = 0.01..=1000.0;

/// What the player is to do, and where it is.
struct Wanted {
    plays: bool,
    rate: f32,
    seek: Option<u64>,
    /// Where it is.
    at: u64,
    ends: bool,
}

/// What clients say to the player.
pub struct Controls {
    wanted: Mutex<Wanted>,
    changed: Condvar,
    span: (u64, u64),
}

impl Controls {
    /// Those of a file with messages between these times.
    pub fn new(span: (u64, u64), rate: f32, plays: bool) -> Controls {
        let wanted = Wanted { plays, rate, seek: None, at: span.0, ends: false };
        Controls { wanted: Mutex::new(wanted), changed: Condvar::new(), span }
    }

    fn lock(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the player.
    pub fn end(&self) {
        self.lock().ends = true;
        self.changed.notify_all();
    }

    fn state(&self, wanted: &Wanted, did_seek: bool) -> PlaybackState {
        let status = match (wanted.plays, wanted.at >= self.span.1) {
            (true, _) => PlaybackStatus::Playing,
            (false, true) => PlaybackStatus::Ended,
            (false, false) => PlaybackStatus::Paused,
        };
        let (current_time, playback_speed) = (wanted.at, wanted.rate);
        PlaybackState { status, current_time, playback_speed, did_seek, request_id: None }
    }
}

impl Player for Controls {
    fn control(&self, request: PlaybackControlRequest) -> PlaybackState {
        let mut wanted = self.lock();
        wanted.plays = request.playback_command == PlaybackCommand::Play;
        if RATES.contains(&request.playback_speed) {
            wanted.rate = request.playback_speed;
        }
        let mut seek = request.seek_time.map(|time| time.clamp(self.span.0, self.span.1));
        // Played at its end, it begins again.
        if wanted.plays && seek.is_none() && wanted.at >= self.span.1 {
            seek = Some(self.span.0);
        }
        if let Some(time) = seek {
            (wanted.seek, wanted.at) = (Some(time), time);
        }
        self.changed.notify_all();
        self.state(&wanted, seek.is_some())
    }
}

/// Plays files.
pub struct Playback {
    recorded: Recorded,
    channels: HashMap<Key, Shown>,
    controls: Arc<Controls>,
    clients: Arc<Clients>,
    states: Arc<PastStates>,
    told: Arc<Told>,
    loops: bool,
}

/// A channel of a file, as clients see it.
struct Shown {
    channel: Arc<RawChannel>,
    filed: Filed,
}

/// What the player has read, and how the file's time lies in the clock's.
struct Position {
    messages: Messages,
    next: Option<Message>,
    /// A time of the file, and when that was or is.
    anchor: (u64, Instant),
    rate: f32,
    plays: bool,
    /// When clients were told the time.
    told: Option<Instant>,
}

impl Playback {
    /// Advertises the files' channels.
    pub fn new(
        recorded: Recorded,
        controls: &Arc<Controls>,
        clients: &Arc<Clients>,
        states: &Arc<PastStates>,
        told: Arc<Told>,
        loops: bool,
    ) -> Playback {
        let (controls, clients) = (Arc::clone(controls), Arc::clone(clients));
        let (states, channels) = (Arc::clone(states), HashMap::new());
        let mut playback = Playback { recorded, channels, controls, clients, states, told, loops };
        playback.tell_news();
        playback
    }

    /// Advertises channels that were met, and tells what was found damaged.
    fn tell_news(&mut self) {
        for (key, channel, schema) in self.recorded.take_channels() {
            let filed = Filed::of(&channel, schema.as_deref());
            let (encoding, schema) = filed.schema();
            // Several files have a topic, and a file has it several times: its arrays of each layout.
            let is_same = |shown: &&Shown| {
                shown.filed.topic == filed.topic
                    && shown.channel.schema() == schema.as_ref()
                    && shown.channel.message_encoding() == encoding
            };
            let channel = match self.channels.values().find(is_same) {
                Some(shown) => Ok(Arc::clone(&shown.channel)),
                None => ChannelBuilder::new(&filed.topic)
                    .context(&self.clients.context)
                    .schema(schema)
                    .message_encoding(encoding)
                    .metadata(filed.metadata().clone())
                    .build_raw(),
            };
            if let Ok(channel) = channel {
                self.channels.insert(key, Shown { channel, filed });
            }
        }
        for why in self.recorded.take_faults() {
            self.told.tell(&Event { event: "damaged", name: None, url: None, why: Some(&why) });
            self.clients.say(Status::warning(why));
        }
    }

    fn next(&mut self, messages: &mut Messages) -> Result<Option<Message>, String> {
        let next = self.recorded.next(messages)?;
        self.tell_news();
        Ok(next)
    }

    /// Plays until it is ended.
    ///
    /// # Errors
    /// A file cannot be read any more.
    pub fn play(&mut self) -> Result<(), String> {
        let mut position = self.position(self.recorded.span.0)?;
        loop {
            let controls = Arc::clone(&self.controls);
            let mut wanted = controls.lock();
            if wanted.ends {
                return Ok(());
            }
            if let Some(time) = wanted.seek.take() {
                drop(wanted);
                self.show_before(time)?;
                position = self.position(time)?;
                continue;
            }
            let now = Instant::now();
            if (position.plays, position.rate) != (wanted.plays, wanted.rate) {
                // From here on at another rate.
                position.anchor = (wanted.at, now);
                (position.plays, position.rate) = (wanted.plays, wanted.rate);
            }
            if !wanted.plays {
                // A lost wake would be no harm: it looks again.
                let waited = controls.changed.wait_timeout(wanted, TIME);
                drop(waited.unwrap_or_else(PoisonError::into_inner));
                self.arrivals();
                continue;
            }
            let passed = now.saturating_duration_since(position.anchor.1).as_secs_f64();
            let passed = (passed * f64::from(position.rate) * 1e9) as u64;
            wanted.at = position.anchor.0.saturating_add(passed).min(self.recorded.span.1);
            let at = wanted.at;
            if position.next.is_none() {
                if self.loops {
                    (wanted.seek, wanted.at) = (Some(self.recorded.span.0), self.recorded.span.0);
                } else {
                    (wanted.plays, wanted.at) = (false, self.recorded.span.1);
                }
                let state = controls.state(&wanted, self.loops);
                drop(wanted);
                self.clients.tell_playback(state);
                continue;
            }
            drop(wanted);
            self.arrivals();
            while let Some(message) = position.next.take_if(|message| message.time <= at) {
                self.send(&message);
                position.next = self.next(&mut position.messages)?;
                // Told to do something else, or far behind its time.
                if now.elapsed() > TIME {
                    break;
                }
            }
            if position.told.is_none_or(|told| told.elapsed() >= TIME) {
                position.told = Some(now);
                self.clients.tell_time(at);
            }
            let until = position.next.as_ref().map_or(at, |message| message.time);
            let span = until.saturating_sub(at) as f64 / 1e9 / f64::from(position.rate);
            let span = Duration::from_secs_f64(span.min(TIME.as_secs_f64()));
            let wanted = controls.lock();
            if wanted.seek.is_none() && !wanted.ends {
                drop(controls.changed.wait_timeout(wanted, span));
            }
        }
    }

    fn position(&mut self, time: u64) -> Result<Position, String> {
        let mut messages = self.recorded.from(time)?;
        let next = self.next(&mut messages)?;
        // Not a rate: the next look takes the one that is wanted.
        let (anchor, told) = ((time, Instant::now()), None);
        Ok(Position { messages, next, anchor, rate: 0.0, plays: false, told })
    }

    fn send(&self, message: &Message) {
        let Some(Shown { channel, filed }) = self.channels.get(&message.channel) else { return };
        let data = message.data();
        if let Some(name) = filed.state()
            && let Ok(value) = filed.value(data, &mut Vec::new())
            && let Some(parameter) = parameter(name, filed.description(), value)
        {
            self.states.set(parameter, &self.clients);
        }
        if !channel.has_sinks() {
            return;
        }
        let metadata = PartialMetadata::with_log_time(message.time);
        let mut written = Vec::new();
        match filed.write(data, message.stamp, &mut written) {
            Ok(true) => channel.log_with_meta(&written, metadata),
            Ok(false) => channel.log_with_meta(data, metadata),
            Err(why) => {
                let name = channel.topic();
                let why = format!("{name}: a message is not shown: {why}");
                self.clients.say(Status::warning(why).with_id(name));
            }
        }
    }

    /// Clients that have come to a file that stands see what is there.
    fn arrivals(&mut self) {
        let arrivals = self.clients.arrivals.take();
        let (is_there, at) = {
            let wanted = self.controls.lock();
            (!arrivals.is_empty() && !wanted.plays, wanted.at)
        };
        if is_there && let Err(why) = self.show_before(at) {
            self.clients.say(Status::error(why));
        }
    }

    /// Sends what was last before that time, of each topic that a client wants, and of each state.
    fn show_before(&mut self, time: u64) -> Result<(), String> {
        let wanted = self
            .channels
            .iter()
            .filter(|(_, shown)| shown.channel.has_sinks() || shown.filed.state().is_some());
        let (kept, wanted): (Vec<_>, Vec<_>) = wanted.partition(|one| one.1.filed.is_kept());
        let keys = |all: Vec<(&Key, &Shown)>| all.into_iter().map(|one| *one.0).collect();
        let (kept, wanted): (HashSet<Key>, HashSet<Key>) = (keys(kept), keys(wanted));
        let mut shown = self.recorded.last_before(time, 0, &kept)?;
        shown.extend(self.recorded.last_before(time, time.saturating_sub(BEFORE), &wanted)?);
        self.tell_news();
        shown.sort_by_key(|message| message.time);
        shown.iter().for_each(|message| self.send(message));
        Ok(())
    }
}
