//! Orders about topics whose subscribers ask for more than messages: two threads read, one plainly,
//! one in a wait set, and note all that they are told, in order.
//!
//! | word | what was told |
//! | --- | --- |
//! | `1:3@7+` | message 3 of sender 1, of session 7, whose publisher lives (`-`: does not) |
//! | `N7` | session 7 begins |
//! | `Z7`, `L7`, `D7` | its publisher is not lively, is lively again, has died |

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use outlive::topic::{Header, Outgoing, Publisher, Sample, Subscriber, SubscriberOptions, Topic};
use outlive::wait::WaitSet;
use outlive::{Domain, RecvError, WaitStrategy};

use super::number;
use super::topic::topic;
use crate::message::Stamp;

/// The sender of the message that ends readers.
const LAST: u64 = 99;

/// The stamp of messages that are older than any lifespan: nanoseconds in 1970.
const OF_1970: u64 = 1;

/// How long messages count where they do not count for ever. Those with [`OF_1970`] are older.
pub const LIFESPAN: Duration = Duration::from_secs(1000);

/// A message of a time long gone.
///
/// # Errors
/// What publishing says.
pub fn publish_old(publisher: &Publisher, stamp: Stamp) -> Result<(), String> {
    let header = Header { stamp: OF_1970, ..Header::default() };
    let message = stamp.message(48);
    let published = publisher.publish(Outgoing::new(&message).header(header));
    published.map(drop).map_err(|error| error.to_string())
}

/// A publisher whose messages count for [`LIFESPAN`].
///
/// # Errors
/// What joining says.
pub fn lasting_publisher(topic: &Topic) -> Result<Publisher, String> {
    let options = Publisher::options().lifespan(LIFESPAN);
    topic.publisher_with(options).map_err(|error| error.to_string())
}

/// A message as a word.
fn show(sample: &Sample) -> Result<String, String> {
    let Stamp { sender, number } = Stamp::of(sample)?;
    let lives = if sample.publisher_alive() { '+' } else { '-' };
    Ok(format!("{sender}:{number}@{}{lives}", sample.session()))
}

/// What was told instead of a message, as a word.
fn show_told(told: RecvError) -> Result<String, String> {
    match told {
        RecvError::NewSession { session } => Ok(format!("N{session}")),
        RecvError::NotLively { session, .. } => Ok(format!("Z{session}")),
        RecvError::Lively { session, .. } => Ok(format!("L{session}")),
        RecvError::PublisherDied { session, .. } => Ok(format!("D{session}")),
        other => Err(other.to_string()),
    }
}

/// What a thread has been told.
type Log = Arc<Mutex<Vec<String>>>;

fn note(log: &Log, word: String) {
    log.lock().unwrap_or_else(PoisonError::into_inner).push(word);
}

fn is_last(sample: &Sample) -> bool {
    Stamp::of(sample).is_ok_and(|stamp| stamp.sender == LAST)
}

fn read(mut subscriber: Subscriber, log: &Log) -> Result<(), String> {
    loop {
        match subscriber.recv() {
            Ok(sample) if is_last(&sample) => return Ok(()),
            Ok(sample) => note(log, show(&sample)?),
            Err(told) => note(log, show_told(told)?),
        }
    }
}

fn read_in_set(domain: &Domain, mut subscriber: Subscriber, log: &Log) -> Result<(), String> {
    let mut set = WaitSet::new(domain);
    set.set_wait_strategy(WaitStrategy::Block);
    set.add(&subscriber).map_err(|error| error.to_string())?;
    loop {
        match subscriber.try_recv() {
            Ok(None) => _ = set.wait().map_err(|error| error.to_string())?,
            Ok(Some(sample)) if is_last(&sample) => return Ok(()),
            Ok(Some(sample)) => note(log, show(&sample)?),
            Err(told) => note(log, show_told(told)?),
        }
    }
}

struct Reading {
    topic: Topic,
    threads: Vec<(Log, JoinHandle<Result<(), String>>)>,
}

impl Reading {
    fn begin(
        domain: &Domain,
        topic: Topic,
        options: &SubscriberOptions,
    ) -> Result<Reading, String> {
        let mut threads = Vec::new();
        for in_set in [false, true] {
            let subscriber = topic.subscriber_with(options.clone());
            let subscriber = subscriber.map_err(|error| error.to_string())?;
            let log = Log::default();
            let (domain, own) = (domain.clone(), Arc::clone(&log));
            let thread = std::thread::spawn(move || {
                let end = if in_set {
                    read_in_set(&domain, subscriber, &own)
                } else {
                    read(subscriber, &own)
                };
                // Seen by the test at once, and not only when it has waited in vain.
                end.inspect_err(|error| note(&own, format!("failed:{}", error.replace(' ', "_"))))
            });
            threads.push((log, thread));
        }
        Ok(Reading { topic, threads })
    }

    /// What each thread was told.
    fn logs(&self) -> String {
        let words = |log: &Log| log.lock().unwrap_or_else(PoisonError::into_inner).join(" ");
        self.threads.iter().map(|(log, _)| words(log)).collect::<Vec<_>>().join("|")
    }

    fn end(self) -> Result<(), String> {
        let publisher = self.topic.publisher().map_err(|error| error.to_string())?;
        let last = Stamp { sender: LAST, number: 1 }.message(48);
        publisher.publish(&last).map_err(|error| error.to_string())?;
        for (_, thread) in self.threads {
            thread.join().map_err(|_| "a reader panicked".to_owned())??;
        }
        Ok(())
    }
}

/// What a subscriber that joins now is given, and what is the newest message for it.
fn look(topic: &Topic, history: u32) -> Result<String, String> {
    let text = |error: outlive::Error| error.to_string();
    let options = Subscriber::options().sessions(true).history(history);
    let mut subscriber = topic.subscriber_with(options).map_err(text)?;
    let mut words = Vec::new();
    loop {
        match subscriber.try_recv() {
            Ok(Some(sample)) => words.push(show(&sample)?),
            Ok(None) => break,
            Err(told) => words.push(show_told(told)?),
        }
    }
    let mut another = topic.subscriber().map_err(text)?;
    let newest = another.latest().map_err(|error| error.to_string())?;
    let newest = newest.map_or_else(|| Ok("nothing".to_owned()), |sample| show(&sample))?;
    Ok(format!("{}|{newest}", words.join(" ")))
}

/// The topics that a survivor reads.
#[derive(Default)]
pub struct Readers {
    by_name: BTreeMap<String, Reading>,
    publishers: BTreeMap<String, Publisher>,
}

impl Readers {
    /// Carries out an order; see the match for which there are.
    ///
    /// # Errors
    /// What went wrong, as text.
    pub fn obey(&mut self, domain: &Domain, order: &[&str]) -> Result<String, String> {
        match order {
            // Asks for sessions.
            ["begin", name] => {
                let options = Subscriber::options().sessions(true);
                let reading = Reading::begin(domain, topic(domain, name)?, &options)?;
                self.by_name.insert((*name).to_owned(), reading);
                Ok(String::new())
            }
            // Asks for liveliness, with a lease of so many milliseconds.
            ["begin-with-lease", name, millis] => {
                let lease = Duration::from_millis(number(millis)?);
                let options = Subscriber::options().liveliness(lease);
                let reading = Reading::begin(domain, topic(domain, name)?, &options)?;
                self.by_name.insert((*name).to_owned(), reading);
                Ok(String::new())
            }
            ["log", name] => Ok(self.by_name.get(*name).ok_or("nobody reads it")?.logs()),
            ["end", name] => {
                let reading = self.by_name.remove(*name).ok_or("nobody reads it")?;
                reading.end().map(|()| String::new())
            }
            ["look", name, history] => look(&topic(domain, name)?, number(history)?),
            // Becomes a publisher, of messages that count for ever or not.
            ["publisher", name, kind] => {
                let topic = topic(domain, name)?;
                let publisher = match *kind {
                    "lasting" => lasting_publisher(&topic)?,
                    _ => topic.publisher().map_err(|error| error.to_string())?,
                };
                self.publishers.insert((*name).to_owned(), publisher);
                Ok(String::new())
            }
            ["leave-publisher", name] => {
                self.publishers.remove(*name);
                Ok(String::new())
            }
            ["assert", name] => {
                self.publishers.get(*name).ok_or("no publisher")?.assert_liveliness();
                Ok(String::new())
            }
            // Publishes COUNT messages of a time long gone, numbered from FIRST.
            ["publish-old", name, sender, first, count] => {
                let (sender, first, count): (u64, u64, u64) =
                    (number(sender)?, number(first)?, number(count)?);
                let publisher = self.publishers.get(*name).ok_or("no publisher")?;
                for number in first..first + count {
                    publish_old(publisher, Stamp { sender, number })?;
                }
                Ok(String::new())
            }
            _ => Err("unknown order".to_owned()),
        }
    }
}
