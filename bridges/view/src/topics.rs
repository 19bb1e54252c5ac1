//! Topics: one channel each, which is read only while a client wants it.
//!
//! | a topic | here |
//! | --- | --- |
//! | is there | it is open, and advertised with its schema: no subscriber |
//! | a client has subscribed | one subscriber for all clients, not reliable |
//! | the last client has gone | no subscriber |
//! | its name is removed, or made anew | its channel ends; a new one is advertised |
//!
//! The reader looks at its subscribers every two milliseconds and never sleeps on them, so publishers have
//! nothing to wake: they take no step more than without it. What a publisher overwrites within that
//! time is not seen; the topic's depth is how much that may be.
//!
//! Killed or stopped anywhere, this process holds no message: publishers go round a subscriber that is not
//! reliable.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use foxglove::websocket::Status;
use foxglove::{ChannelBuilder, ChannelId, Context, PartialMetadata, RawChannel, SinkId};
use outlive::topic::{Durability, Sample, Subscriber, Topic};
use outlive::{Domain, RecvError};
use outlive_described::array;

use crate::clients::Clients;
use crate::shape::Shape;

/// How often subscribers are looked at.
const LOOK: Duration = Duration::from_millis(2);
/// How often the reader looks whether there is a client, while there is none.
const IDLE: Duration = Duration::from_millis(20);
/// As many messages of a topic are read in a row, before the next topic's.
const MOST_IN_A_ROW: usize = 256;
/// After an error a topic is left alone for so long.
const PAUSE: Duration = Duration::from_secs(1);

/// One topic.
pub struct Viewed {
    /// What is open.
    pub topic: Topic,
    channel: Arc<RawChannel>,
    shape: Shape,
    subscriber: Option<Subscriber>,
    /// What its last message became, and when that was; 0: there was none.
    last: (Vec<u8>, u64),
    paused: Option<Instant>,
    has_told: bool,
}

impl Drop for Viewed {
    fn drop(&mut self) {
        self.channel.close();
    }
}

impl Viewed {
    /// Opens a topic, and advertises it.
    ///
    /// # Errors
    /// Why it cannot be opened.
    pub fn open(domain: &Domain, name: &str, context: &Arc<Context>) -> Result<Viewed, String> {
        let text = |error: outlive::Error| error.to_string();
        let topic = Topic::open_as_bytes(domain, name).map_err(text)?;
        let description = topic.description().map_err(text)?;
        let attributes = topic.attributes().map_err(text)?;
        let shape = Shape::of(name, description, &|key| attributes.get(key).map(str::to_owned));
        let (encoding, schema) = shape.schema();
        let mut channel = ChannelBuilder::new(name).context(context).message_encoding(encoding);
        channel = channel.schema(schema);
        for (key, value) in attributes.iter() {
            channel = channel.add_metadata(key, value);
        }
        let channel = channel.build_raw().map_err(|error| error.to_string())?;
        Ok(Viewed {
            topic,
            channel,
            shape,
            subscriber: None,
            last: (Vec::new(), 0),
            paused: None,
            has_told: false,
        })
    }

    /// Returns the value of the attribute `view.as`, if it is not known.
    pub fn unknown_hint(&self) -> Option<&str> {
        self.shape.unknown()
    }

    /// Reads what has come, if a client wants it. Returns whether one does.
    fn look(&mut self, arrivals: &[(ChannelId, SinkId)], clients: &Clients) -> bool {
        if !self.channel.has_sinks() {
            self.subscriber = None;
            self.last.1 = 0;
            return false;
        }
        if self.paused.is_some_and(|since| since.elapsed() < PAUSE) {
            return true;
        }
        if self.subscriber.is_some() && self.last.1 > 0 {
            let own = arrivals.iter().filter(|(channel, _)| *channel == self.channel.id());
            for (_, sink) in own {
                let metadata = PartialMetadata::with_log_time(self.last.1);
                self.channel.log_with_meta_to_sink(&self.last.0, metadata, Some(*sink));
            }
        }
        if let Err(why) = self.read(clients) {
            self.subscriber = None;
            self.paused = Some(Instant::now());
            self.tell(clients, &why);
        }
        true
    }

    fn read(&mut self, clients: &Clients) -> Result<(), String> {
        let mut subscriber = match self.subscriber.take() {
            Some(subscriber) => subscriber,
            None => self.subscribe()?,
        };
        for _ in 0..MOST_IN_A_ROW {
            match subscriber.try_recv() {
                Ok(Some(sample)) => self.forward(&sample, clients),
                Ok(None) => break,
                Err(error @ (RecvError::Damaged(_) | RecvError::System(_))) => {
                    return Err(error.to_string());
                }
                // News, of which the next call says no more.
                Err(_) => {}
            }
        }
        self.subscriber = Some(subscriber);
        Ok(())
    }

    fn subscribe(&self) -> Result<Subscriber, String> {
        let is_kept = self.topic.config().durability != Durability::Volatile;
        let options = Subscriber::<[u8]>::options().history(u32::from(is_kept));
        self.topic.subscriber_with(options).map_err(|error| error.to_string())
    }

    fn forward(&mut self, sample: &Sample, clients: &Clients) {
        let stamp = time_of(sample);
        let mut bytes = sample.bytes();
        let mut array = None;
        if self.shape.is_of_arrays()
            && let Some(found) = array::find(&sample.header().own, bytes)
        {
            bytes = &bytes[..found.len];
            array = found.array().description(found.len);
        }
        match self.shape.write(bytes, array.as_ref(), stamp, &mut self.last.0) {
            Ok(()) => {
                self.last.1 = stamp;
                self.channel.log_with_meta(&self.last.0, PartialMetadata::with_log_time(stamp));
            }
            Err(why) => {
                self.last.1 = 0;
                self.tell(clients, &format!("a message is not shown: {why}"));
            }
        }
    }

    /// Says what is wrong, the first time.
    fn tell(&mut self, clients: &Clients, why: &str) {
        if !std::mem::replace(&mut self.has_told, true) {
            let name = self.channel.topic();
            clients.say(Status::warning(format!("{name}: {why}")).with_id(name));
        }
    }
}

/// Returns the time of a message: its stamp, or now.
fn time_of(sample: &Sample) -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    match sample.header().stamp {
        0 => now.map_or(0, |span| span.as_nanos() as u64),
        stamp => stamp,
    }
}

/// All topics of the domain.
#[derive(Default)]
pub struct Topics {
    all: Mutex<BTreeMap<String, Viewed>>,
    ends: AtomicBool,
}

impl Topics {
    /// Returns them.
    pub fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Viewed>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads topics until it is ended.
    pub fn read_all(&self, clients: &Clients) {
        while !self.ends.load(Ordering::Relaxed) {
            let arrivals = clients.arrivals.take();
            let mut is_wanted = false;
            for viewed in self.lock().values_mut() {
                is_wanted |= viewed.look(&arrivals, clients);
            }
            std::thread::sleep(if is_wanted { LOOK } else { IDLE });
        }
    }

    /// Ends the reader.
    pub fn end(&self) {
        // Relaxed: it says nothing of other memory.
        self.ends.store(true, Ordering::Relaxed);
    }
}
