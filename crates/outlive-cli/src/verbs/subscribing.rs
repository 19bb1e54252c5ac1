//! Subscribing from a shell: what `echo`, `hz`, `bw` and `delay` share.
//!
//! A verb waits for a topic that is not there and does not make it, because only a publisher knows
//! what its messages are. It leaves a topic that is removed, and waits for the next of that name.
//! Publishers come, go and die; none of that ends the verb.

use std::fmt;
use std::time::{Duration, Instant};

use outlive::describe::Description;
use outlive::sync::Holder;
use outlive::topic::{Durability, Sample, Subscriber, SubscriberOptions, Topic};
use outlive::{Deadline, Domain, Error, RecvError};
use serde::Serialize;

use super::awaited::{Awaited, Found};
use crate::cli::Common;
use crate::exit::{Code, Failure};
use crate::output::{counted, print_json, talk};
use crate::signals::{SLICE, Signals};

/// A subscriber, and the signals that end it.
pub struct Subscribing {
    name: String,
    options: SubscriberOptions,
    timeout: Option<Duration>,
    awaited: Awaited,
    signals: Signals,
    here: Option<Here>,
    /// When signals were last looked at.
    looked: Option<Instant>,
    /// When there was a message last.
    since: Instant,
    /// Of subscribers that are gone.
    before: Passed,
    /// What has been told, and when.
    told: (Passed, Instant),
}

/// Messages that were published and did not come.
#[derive(Clone, Copy, Default)]
struct Passed {
    /// Overwritten before they were taken.
    lost: u64,
    /// Older than they may be.
    expired: u64,
}

/// The topic, while it is there, our end of it, and the description of its messages.
type Here = (Topic<[u8]>, Subscriber<[u8]>, Option<Description>);

/// What came.
pub enum Came {
    /// A message.
    Sample(Sample<[u8]>),
    /// What was asked for beside messages.
    News(News),
    /// The moment that was to be waited for at most.
    Moment,
    /// A signal.
    End,
}

impl Subscribing {
    /// Takes signals over and opens the topic, if it is there; [`Subscribing::next`] waits for it.
    pub fn begin(
        name: &str,
        options: SubscriberOptions,
        timeout: Option<Duration>,
        common: &Common,
    ) -> Result<Subscribing, Failure> {
        let signals = Signals::that_end()?;
        let mut awaited = Awaited::new("a publisher", name, &common.domain);
        let here = awaited.open(subscribe(&options, false))?;
        let now = Instant::now();
        Ok(Subscribing {
            name: name.to_owned(),
            options,
            timeout,
            awaited,
            signals,
            here,
            looked: None,
            since: now,
            before: Passed::default(),
            told: (Passed::default(), now),
        })
    }

    /// Returns the next message, waited for until that moment.
    pub fn next(&mut self, until: Option<Instant>) -> Result<Came, Failure> {
        loop {
            let now = Instant::now();
            // Not with every message of many: asking costs a system call.
            if self.looked.is_none_or(|looked| now - looked > SLICE / 4) {
                self.looked = Some(now);
                if self.signals.came()? {
                    return Ok(Came::End);
                }
                self.tell_passed(false);
            }
            if until.is_some_and(|until| now >= until) {
                return Ok(Came::Moment);
            }
            let Some((topic, subscriber, _)) = &mut self.here else {
                if !self.wait_for_topic(until)? {
                    return Ok(Came::End);
                }
                continue;
            };
            let slice = until.map_or(now + SLICE, |until| until.min(now + SLICE));
            match subscriber.recv_until(Deadline::at(slice)) {
                Ok(Some(sample)) => {
                    self.since = Instant::now();
                    return Ok(Came::Sample(sample));
                }
                Ok(None) if topic.is_removed() => {
                    self.before.lost += subscriber.lost();
                    self.before.expired += subscriber.expired();
                    self.here = None;
                    self.awaited.removed();
                }
                Ok(None) => self.give_up_in_time()?,
                // Among those that `tell_lost` counts.
                Err(RecvError::Lagged { .. }) => {}
                Err(error) => {
                    let news = self.news(error)?;
                    if let News::Missed { .. } = news {
                        self.give_up_in_time()?;
                    }
                    return Ok(Came::News(news));
                }
            }
        }
    }

    /// Returns how many messages were overwritten before they were taken.
    pub fn lost(&self) -> u64 {
        self.passed().lost
    }

    fn passed(&self) -> Passed {
        let Some((_, subscriber, _)) = &self.here else { return self.before };
        let Passed { lost, expired } = self.before;
        Passed { lost: lost + subscriber.lost(), expired: expired + subscriber.expired() }
    }

    /// Returns the topic, while it is there.
    pub fn topic(&self) -> Option<&Topic<[u8]>> {
        self.here.as_ref().map(|(topic, ..)| topic)
    }

    /// Returns the description of the topic's messages, if its maker gave one.
    pub fn description(&self) -> Option<&Description> {
        self.here.as_ref().and_then(|(.., description)| description.as_ref())
    }

    /// Says what was lost and what had expired, at most once a second unless it is the end.
    pub fn tell_passed(&mut self, at_the_end: bool) {
        let (told, when) = self.told;
        let passed = self.passed();
        let (lost, expired) = (passed.lost - told.lost, passed.expired - told.expired);
        if lost + expired == 0 || !at_the_end && when.elapsed() <= Duration::from_secs(1) {
            return;
        }
        self.told = (passed, Instant::now());
        if lost > 0 {
            let text = "overwritten before they were taken; see --reliable of pub and echo, --max-blocking of pub, or a larger --depth when the topic is made";
            talk(format_args!("{} lost: {text}", counted(lost, "message")));
        }
        if expired > 0 {
            let text = "older than --max-age, or than their publisher's lifespan";
            talk(format_args!("{} passed over: {text}", counted(expired, "message")));
        }
    }

    /// Returns what a receive has told that is no failure.
    fn news(&self, told: RecvError) -> Result<News, Failure> {
        let topic = self.name.clone();
        let of = |session, publisher: Holder| (session, publisher.pid, publisher.program);
        Ok(match told {
            RecvError::Missed => {
                News::Missed { topic, seconds: self.since.elapsed().as_secs_f64() }
            }
            RecvError::NewSession { session } => News::NewSession { topic, session },
            RecvError::NotLively { session, publisher } => {
                let (session, publisher, program) = of(session, publisher);
                News::NotLively { session, publisher, program }
            }
            RecvError::Lively { session, publisher } => {
                let (session, publisher, program) = of(session, publisher);
                News::Lively { session, publisher, program }
            }
            RecvError::PublisherDied { session, publisher } => {
                let (session, publisher, program) = of(session, publisher);
                News::PublisherDied { session, publisher, program }
            }
            error => return Err(error.into()),
        })
    }

    /// Sleeps until the topic is there, or that moment has come. False: a signal came.
    fn wait_for_topic(&mut self, until: Option<Instant>) -> Result<bool, Failure> {
        let end = self.timeout.map(|timeout| self.since + timeout);
        let moment = [until, end].into_iter().flatten().min();
        // One that was waited for is taken from its beginning.
        let open = subscribe(&self.options, true);
        match self.awaited.wait(Some(&mut self.signals), moment, open)? {
            Found::Thing(here) => self.here = Some(here),
            Found::Late => self.give_up_in_time()?,
            Found::End => return Ok(false),
        }
        Ok(true)
    }

    fn give_up_in_time(&self) -> Result<(), Failure> {
        match self.timeout {
            Some(timeout) if self.since.elapsed() >= timeout => {
                let text = format!(
                    "no message on '{}' for {} s",
                    self.name.escape_debug(),
                    timeout.as_secs_f64()
                );
                Err(Failure::new(Code::TimedOut, text))
            }
            _ => Ok(()),
        }
    }
}

/// What is told of a topic between its messages, if it was asked for.
#[derive(Serialize)]
#[serde(tag = "news", rename_all = "snake_case")]
pub enum News {
    /// No message has come for a period.
    Missed {
        topic: String,
        seconds: f64,
    },
    /// The next message is the first of a start of a publisher.
    NewSession {
        topic: String,
        session: u32,
    },
    NotLively {
        session: u32,
        publisher: u32,
        program: String,
    },
    Lively {
        session: u32,
        publisher: u32,
        program: String,
    },
    PublisherDied {
        session: u32,
        publisher: u32,
        program: String,
    },
}

impl fmt::Display for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut of = |publisher: &u32, program: &str, what| {
            write!(f, "the publisher with pid {publisher} ({}) {what}", program.escape_debug())
        };
        match self {
            News::NotLively { publisher, program, .. } => {
                of(publisher, program, "lives and does nothing")
            }
            News::Lively { publisher, program, .. } => {
                of(publisher, program, "does something again")
            }
            News::PublisherDied { publisher, program, .. } => of(publisher, program, "has died"),
            News::Missed { topic, seconds } => {
                write!(f, "no message on '{}' for {seconds:.3} s", topic.escape_debug())
            }
            News::NewSession { topic, session } => write!(
                f,
                "session {session} of '{}': a publisher has started, and its first message is next",
                topic.escape_debug()
            ),
        }
    }
}

impl News {
    /// Tells it: as a line of JSON among those of messages, or to the person.
    pub fn tell(&self, common: &Common) -> Result<(), Failure> {
        if common.json {
            return print_json(self);
        }
        talk(self);
        Ok(())
    }
}

/// Returns what opens a topic and our end of it, with all that was published before or without.
fn subscribe(
    options: &SubscriberOptions,
    from_beginning: bool,
) -> impl Fn(&Domain, &str) -> Result<Here, Error> {
    let options = options.clone();
    move |domain, name| {
        let topic = Topic::open_as_bytes(domain, name)?;
        let mut options = options.clone();
        if from_beginning && topic.config().durability > Durability::Volatile {
            options = options.history(u32::MAX);
        }
        let subscriber = topic.subscriber_with(options)?;
        let description = topic.description()?;
        Ok((topic, subscriber, description))
    }
}
