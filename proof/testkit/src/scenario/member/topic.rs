//! Orders about topics. Every message bears a stamp (`crate::message`), so that its receiver can
//! check it.

use std::collections::BTreeMap;

use outlive::topic::{Durability, Publisher, Sample, Subscriber, Topic};
use outlive::wait::WaitSet;
use outlive::{Detail, Domain, WaitStrategy};

use super::number;
use crate::message::Stamp;

/// How many messages of each publisher are kept.
pub const DEPTH: u64 = 4;
/// The same of a topic with little memory, that memory, and what fills it soon.
pub const SMALL_DEPTH: u64 = 32;
const SMALL: u64 = 128 << 10;
/// See [`small_topic`].
pub const LARGE: usize = 9_000;

/// What the names of topics begin with that are not persistent, and of those with stamps.
pub const VOLATILE: &str = "volatile";
pub const LIVING: &str = "living";
pub const STAMPED: &str = "stamped";

/// The topic of that name, as all scenarios have it. By their names, some are not persistent.
///
/// # Errors
/// What opening says.
pub fn topic(domain: &Domain, name: &str) -> Result<Topic, String> {
    let durability = match name {
        name if name.starts_with(VOLATILE) => Durability::Volatile,
        name if name.starts_with(LIVING) => Durability::TransientLocal,
        _ => Durability::Persistent,
    };
    let options = Topic::options()
        .depth(DEPTH as u32)
        .max_bytes(1 << 20)
        .stamps(name.starts_with(STAMPED))
        .reliable(true)
        .durability(durability)
        .wait_strategy(WaitStrategy::Block);
    options.open_or_create(domain, name).map_err(|error| error.to_string())
}

/// The same with so little memory that messages of [`LARGE`] bytes fill it before its slots are.
///
/// # Errors
/// What opening says.
pub fn small_topic(domain: &Domain, name: &str) -> Result<Topic, String> {
    let options = Topic::options()
        .depth(SMALL_DEPTH as u32)
        .max_bytes(SMALL)
        .stamps(false)
        .reliable(true)
        .durability(Durability::Persistent)
        .wait_strategy(WaitStrategy::Block);
    options.open_or_create(domain, name).map_err(|error| error.to_string())
}

/// Publishes messages of [`LARGE`] bytes, from number 1 on, until one of them has had to be given
/// up: how many.
///
/// # Errors
/// What publishing says.
pub fn fill(domain: &Domain, name: &str, publisher: &Publisher) -> Result<u64, String> {
    for number in 1..SMALL_DEPTH {
        let message = Stamp { sender: 1, number }.message(LARGE);
        publisher.publish(&message).map_err(|error| error.to_string())?;
        let Detail::Topic(usage) = domain.entry(name).map_err(|error| error.to_string())?.detail
        else {
            return Err("no topic".to_owned());
        };
        if usage.rings.iter().map(|ring| u64::from(ring.kept)).sum::<u64>() < number {
            return Ok(number);
        }
    }
    Err("there is memory for all slots".to_owned())
}

/// A subscriber of it.
///
/// # Errors
/// What joining says.
pub fn subscriber(topic: &Topic, reliable: bool, history: u32) -> Result<Subscriber, String> {
    let options = Subscriber::options().reliable(reliable).history(history);
    topic.subscriber_with(options).map_err(|error| error.to_string())
}

/// A subscriber of that name, whose place is kept, and which acknowledges.
///
/// # Errors
/// What joining says.
pub fn named_subscriber(topic: &Topic) -> Result<Subscriber, String> {
    let options = Subscriber::options().reliable(true).acknowledging(true).kept(NAME, PATIENCE);
    topic.subscriber_with(options).map_err(|error| error.to_string())
}

/// The name of that subscriber.
pub const NAME: &str = "recorder";
/// Longer than any round.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(3600);

/// What a survivor has of one topic.
struct Open {
    topic: Topic,
    publisher: Option<Publisher>,
    subscriber: Option<Subscriber>,
    samples: Vec<(Sample, Stamp)>,
    crowd: (Vec<Publisher>, Vec<Subscriber>),
}

impl Open {
    fn new(topic: Topic) -> Open {
        Open {
            topic,
            publisher: None,
            subscriber: None,
            samples: Vec::new(),
            crowd: Default::default(),
        }
    }

    fn publisher(&self) -> Result<&Publisher, String> {
        self.publisher.as_ref().ok_or_else(|| "no publisher".to_owned())
    }

    fn subscriber(&mut self) -> Result<&mut Subscriber, String> {
        self.subscriber.as_mut().ok_or_else(|| "no subscriber".to_owned())
    }
}

/// The topics that a survivor has open.
#[derive(Default)]
pub struct Topics {
    open: BTreeMap<String, Open>,
}

fn show(stamp: Stamp) -> String {
    format!("{}:{}", stamp.sender, stamp.number)
}

impl Topics {
    fn named(&mut self, domain: &Domain, name: &str) -> Result<&mut Open, String> {
        if !self.open.contains_key(name) {
            self.open.insert(name.to_owned(), Open::new(topic(domain, name)?));
        }
        self.open.get_mut(name).ok_or_else(|| "no such topic".to_owned())
    }

    /// Carries out an order; see the match for which there are.
    pub fn obey(&mut self, domain: &Domain, order: &[&str]) -> Result<String, String> {
        let [order, name, rest @ ..] = order else { return Err("unknown order".to_owned()) };
        if *order == "token" {
            domain
                .token()
                .and_then(|_| domain.process_token())
                .map_err(|error| error.to_string())?;
            return Ok(String::new());
        }
        if *order == "close" {
            // Samples first: so the slot goes with its subscriber.
            if let Some(mut open) = self.open.remove(*name) {
                open.samples.clear();
            }
            return Ok(String::new());
        }
        // Receives what is there, if it subscribes.
        if *order == "catch-up" {
            let open = self.open.get_mut(*name).and_then(|open| open.subscriber.as_mut());
            let Some(subscriber) = open else { return Ok(String::new()) };
            while subscriber.try_recv().map_err(|error| error.to_string())?.is_some() {}
            return Ok(String::new());
        }
        if *order == "small" {
            self.open.insert((*name).to_owned(), Open::new(small_topic(domain, name)?));
            return Ok(String::new());
        }
        // Without opening it. Rings, messages that are kept, objects; subscribers, samples held.
        if *order == "usage" {
            let Detail::Topic(usage) =
                domain.entry(name).map_err(|error| error.to_string())?.detail
            else {
                return Err("no topic".to_owned());
            };
            let kept: u32 = usage.rings.iter().map(|ring| ring.kept).sum();
            let objects: u32 = usage.rings.iter().map(|ring| ring.objects).sum();
            let held: u32 = usage.subscribers.iter().map(|subscriber| subscriber.held).sum();
            return Ok(format!(
                "{} {kept} {objects} {} {held}",
                usage.rings.len(),
                usage.subscribers.len()
            ));
        }
        // Subscribers' processes, and how many messages each has still to take.
        if *order == "lags" {
            let Detail::Topic(usage) =
                domain.entry(name).map_err(|error| error.to_string())?.detail
            else {
                return Err("no topic".to_owned());
            };
            let here = usage.subscribers.iter().filter(|one| !one.leaving);
            return Ok(here
                .map(|one| format!("{}:{}", one.who.pid, one.lag))
                .collect::<Vec<_>>()
                .join(" "));
        }
        let open = self.named(domain, name)?;
        match (*order, rest) {
            ("publisher", []) => {
                open.publisher = Some(open.topic.publisher().map_err(|error| error.to_string())?);
                Ok(String::new())
            }
            ("leave-publisher", []) => {
                open.publisher = None;
                Ok(String::new())
            }
            ("subscriber", [kind, history]) => {
                open.subscriber =
                    Some(subscriber(&open.topic, *kind == "reliable", number(history)?)?);
                Ok(String::new())
            }
            ("named-subscriber", []) => {
                open.subscriber = Some(named_subscriber(&open.topic)?);
                Ok(String::new())
            }
            ("acknowledge", []) => {
                open.subscriber()?.acknowledge().map_err(|error| error.to_string())?;
                Ok(String::new())
            }
            ("leave-subscriber", []) => {
                open.subscriber = None;
                Ok(String::new())
            }
            // Publishes COUNT messages of LENGTH bytes, numbered from FIRST, waiting where it must.
            ("publish", [sender, first, count, length]) => {
                let (sender, first, count): (u64, u64, u64) =
                    (number(sender)?, number(first)?, number(count)?);
                let length = number(length)?;
                let publisher = open.publisher()?;
                for number in first..first + count {
                    let message = Stamp { sender, number }.message(length);
                    publisher.publish(&message).map_err(|error| error.to_string())?;
                }
                Ok("published".to_owned())
            }
            // Publishes one, or says that there is no memory for it.
            ("publish-one", [sender, number, length]) => {
                let stamp =
                    Stamp { sender: super::number(sender)?, number: super::number(number)? };
                match open.publisher()?.publish(&stamp.message(super::number(length)?)) {
                    Ok(_) => Ok("published".to_owned()),
                    Err(outlive::SendError::NoSpace { .. }) => Ok("no-space".to_owned()),
                    Err(error) => Err(error.to_string()),
                }
            }
            // The same by a wait set.
            ("publish-by-way", [sender, first, count, length]) => {
                let (sender, first, count): (u64, u64, u64) =
                    (number(sender)?, number(first)?, number(count)?);
                let length = number(length)?;
                let publisher = open.publisher()?;
                let mut set = WaitSet::new(domain);
                set.set_wait_strategy(WaitStrategy::Block);
                set.add(&publisher.writable()).map_err(|error| error.to_string())?;
                for number in first..first + count {
                    let message = Stamp { sender, number }.message(length);
                    while let Err(error) = publisher.try_publish(&message) {
                        if !matches!(error, outlive::SendError::Full { .. }) {
                            return Err(error.to_string());
                        }
                        set.wait().map_err(|error| error.to_string())?;
                    }
                }
                Ok("published".to_owned())
            }
            // Receives one, waiting for it. Answers its stamp.
            ("recv", []) => {
                let sample = open.subscriber()?.recv().map_err(|error| error.to_string())?;
                Stamp::of(&sample).map(show)
            }
            // The same in a wait set, beside another process's end.
            ("recv-in-set", []) => {
                let mut set = WaitSet::new(domain);
                set.set_wait_strategy(WaitStrategy::Block);
                let own = domain.process_token().map_err(|error| error.to_string())?;
                let subscriber = open.subscriber()?;
                set.add(subscriber)
                    .and_then(|_| set.add(&domain.peer(own)))
                    .map_err(|error| error.to_string())?;
                loop {
                    set.wait().map_err(|error| error.to_string())?;
                    if let Some(sample) =
                        subscriber.try_recv().map_err(|error| error.to_string())?
                    {
                        return Stamp::of(&sample).map(show);
                    }
                }
            }
            // So many more of them, for as long as the topic is open.
            ("crowd", ["publishers", count]) => {
                for _ in 0..number::<u32>(count)? {
                    open.crowd.0.push(open.topic.publisher().map_err(|error| error.to_string())?);
                }
                Ok(String::new())
            }
            ("crowd", ["subscribers", count]) => {
                for _ in 0..number::<u32>(count)? {
                    open.crowd.1.push(subscriber(&open.topic, false, 0)?);
                }
                Ok(String::new())
            }
            // Receives what is there. Answers the stamps.
            ("drain", []) => {
                let subscriber = open.subscriber()?;
                let mut stamps = Vec::new();
                while let Some(sample) = subscriber.try_recv().map_err(|error| error.to_string())? {
                    stamps.push(show(Stamp::of(&sample)?));
                }
                if subscriber.lost() > 0 {
                    stamps.push(format!("0:{}", subscriber.lost()));
                }
                Ok(stamps.join(" "))
            }
            // Receives COUNT and keeps them. Answers the stamps.
            ("hold", [count]) => {
                let mut stamps = Vec::new();
                for _ in 0..number::<u64>(count)? {
                    let sample = open.subscriber()?.recv().map_err(|error| error.to_string())?;
                    let stamp = Stamp::of(&sample)?;
                    stamps.push(show(stamp));
                    open.samples.push((sample, stamp));
                }
                Ok(stamps.join(" "))
            }
            ("latest", []) => {
                let sample = open.subscriber()?.latest().map_err(|error| error.to_string())?;
                sample
                    .map_or_else(|| Ok("nothing".to_owned()), |sample| Stamp::of(&sample).map(show))
            }
            // Whether what it keeps is as it was.
            ("check", []) => {
                let whole =
                    open.samples.iter().all(|(sample, stamp)| Stamp::of(sample) == Ok(*stamp));
                Ok(if whole { "whole" } else { "somebody wrote into them" }.to_owned())
            }
            ("drop", []) => {
                open.samples.clear();
                Ok(String::new())
            }
            // Living publishers, living subscribers.
            ("count", []) => {
                Ok(format!("{} {}", open.topic.publishers().len(), open.topic.subscribers().len()))
            }
            _ => Err("unknown order".to_owned()),
        }
    }
}
