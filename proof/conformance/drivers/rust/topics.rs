//! `topic.` and `sample.`: the one that was taken last.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use outlive::describe::{
    Described, Description, Encoding, Flag, InlineString, InlineVec, Tail, WithTail, WithTailBuf,
};
use outlive::queue::Queue;
use outlive::rpc::Service;
use outlive::state::State;
use outlive::topic::{Durability, Header, Loan, Publisher, Sample, Subscriber, Topic, TopicConfig};
use outlive::zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
use outlive::{Deadline, Domain, Payload};
use serde::{Deserialize, Serialize};

use crate::answer::{self, Answer, Refusal, done, find, leak, refused, said};

#[derive(Default)]
pub(crate) struct Topics {
    topics: HashMap<String, Topic>,
    publishers: HashMap<String, &'static Publisher>,
    subscribers: HashMap<String, Subscriber>,
    /// How many messages of a flood were published: each is a pattern by its number.
    published: u64,
    loan: Option<Loan>,
    sample: Option<Sample>,
    /// Publishers and subscribers of which only the number counts.
    crowd: (Vec<Publisher>, Vec<Subscriber>),
}

/// What all languages describe.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Payload)]
#[zerocopy(crate = "outlive::zerocopy")]
#[repr(C)]
struct Point {
    x: f64,
    y: f64,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Payload)]
#[zerocopy(crate = "outlive::zerocopy")]
#[repr(C)]
struct Track {
    corners: [Point; 4],
    kind: u32,
    grid: [[f32; 3]; 2],
    _unused: [u8; 4],
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Payload)]
#[zerocopy(crate = "outlive::zerocopy")]
#[repr(C)]
struct Cloud {
    stamp: u64,
    points: Tail<Point>,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Payload)]
#[zerocopy(crate = "outlive::zerocopy")]
#[repr(C)]
struct Scan {
    kind: u8,
    _before: [u8; 3],
    name: InlineString<8>,
    is_last: Flag,
    _unused: [u8; 7],
    ranges: InlineVec<f32, 4>,
}

mod other {
    use super::{FromBytes, Immutable, IntoBytes, KnownLayout, Payload, Point};

    #[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Payload)]
    #[zerocopy(crate = "outlive::zerocopy")]
    #[repr(C)]
    pub(super) struct Track {
        corners: [Point; 4],
        kind: i32,
        grid: [[f32; 3]; 2],
        _unused: [u8; 4],
    }
}

/// What goes as msgpack.
#[derive(Serialize, Deserialize)]
struct Person {
    name: String,
    age: u32,
}

fn nothing_came() -> Refusal {
    Refusal::new("TimedOut", "")
}

impl Topics {
    pub(crate) fn act(&mut self, domain: &Domain, command: &str, args: &[&str]) -> Answer {
        let (thing, verb) = command.split_once('.').unwrap_or((command, ""));
        if thing == "sample" {
            return self.sample(verb, args);
        }
        match (verb, args) {
            ("open", [name, options @ ..]) => {
                let mut plan = Topic::<[u8]>::options();
                if let Some(messages) = answer::option(options, "depth")? {
                    plan = plan.depth(messages);
                }
                if let Some(bytes) = answer::option(options, "max")? {
                    plan = plan.max_bytes(bytes);
                }
                if let Some(most) = answer::option(options, "publishers")? {
                    plan = plan.max_publishers(most);
                }
                if let Some(most) = answer::option(options, "subscribers")? {
                    plan = plan.max_subscribers(most);
                }
                if let Some(most) = answer::option(options, "samples")? {
                    plan = plan.max_samples(most);
                }
                for (word, stamps) in [("stamps", true), ("no-stamps", false)] {
                    if options.contains(&word) {
                        plan = plan.stamps(stamps);
                    }
                }
                if let Some(mode) = answer::option::<u32>(options, "mode")? {
                    plan = plan.mode(mode);
                }
                if options.contains(&"track") {
                    plan = plan.description(Description::of::<Track>());
                }
                if options.contains(&"cloud") {
                    plan = plan.description(WithTail::<Cloud>::description());
                }
                if options.contains(&"scan") {
                    plan = plan.description(Description::of::<Scan>());
                }
                if options.contains(&"other") {
                    plan = plan.description(Description::of::<other::Track>());
                }
                if options.contains(&"reliable") {
                    plan = plan.reliable(true);
                }
                if options.contains(&"as-is") {
                    plan = plan.as_is();
                }
                for kept in [Durability::Volatile, Durability::Persistent] {
                    if options.contains(&&*kept.to_string()) {
                        plan = plan.durability(kept);
                    }
                }
                self.topics.insert((*name).to_owned(), plan.open_or_create(domain, name)?);
                done()
            }
            ("find", [name]) => {
                Topic::open_as_bytes(domain, name)?;
                done()
            }
            ("described", [kind, name, of]) => {
                let of = match *of {
                    "track" => Description::of::<Track>(),
                    "other" => Description::of::<other::Track>(),
                    "msgpack" => Description::encoded("Pose", Encoding::Msgpack)?,
                    "protobuf" => Description::encoded("Pose", Encoding::Protobuf)?,
                    "json" => Description::encoded("Pose", Encoding::Json)?,
                    "bytes" => Description::encoded("Pose", Encoding::Bytes)?,
                    _ => Description::encoded("geometry_msgs/msg/Pose", Encoding::Cdr)?,
                };
                match *kind {
                    "queue" => {
                        Queue::<[u8]>::options().description(of).open_or_create(domain, name)?;
                    }
                    "state" => {
                        State::<[u8]>::options().description(of).open_or_create(domain, name)?;
                    }
                    _ => {
                        let both = of.with_reply(Description::encoded("", Encoding::Bytes)?)?;
                        let options = Service::<[u8], [u8]>::options().description(both);
                        options.open_or_create(domain, name)?;
                    }
                }
                done()
            }
            ("payload", [name]) => match domain.description(name)? {
                Some(description) => said(description),
                None => Err(Refusal::new("NotFound", "")),
            },
            ("publisher", [name, options @ ..]) => {
                let mut how = Publisher::options();
                if let Some(span) = answer::option(options, "blocking")? {
                    how = how.max_blocking(Duration::from_millis(span));
                }
                if let Some(span) = answer::option(options, "lifespan")? {
                    how = how.lifespan(Duration::from_millis(span));
                }
                if let Some(period) = answer::option(options, "period")? {
                    how = how.period(Duration::from_millis(period));
                }
                let publisher = find(&mut self.topics, name)?.publisher_with(how)?;
                self.publishers.insert((*name).to_owned(), leak(publisher));
                done()
            }
            ("subscriber", [name, options @ ..]) => {
                let keys: Vec<u64> = options
                    .iter()
                    .filter_map(|option| option.strip_prefix("key=")?.parse().ok())
                    .collect();
                let mut how = Subscriber::options()
                    .reliable(options.contains(&"reliable"))
                    .history(answer::option(options, "history")?.unwrap_or(0))
                    .keys(&keys)
                    .sessions(options.contains(&"sessions"));
                for kept in [Durability::Volatile, Durability::Persistent] {
                    if options.contains(&&*kept.to_string()) {
                        how = how.durability(kept);
                    }
                }
                if let Some(age) = answer::option(options, "age")? {
                    how = how.max_age(Duration::from_millis(age));
                }
                if let Some(lease) = answer::option(options, "lease")? {
                    how = how.liveliness(Duration::from_millis(lease));
                }
                if let Some(keep) = answer::option(options, "keep")? {
                    how = how.keep_last(keep);
                }
                if let Some(period) = answer::option(options, "period")? {
                    how = how.period(Duration::from_millis(period));
                }
                let subscriber = find(&mut self.topics, name)?.subscriber_with(how)?;
                self.subscribers.insert((*name).to_owned(), subscriber);
                done()
            }
            ("unsubscribe", [name]) => {
                self.subscribers.remove(*name);
                done()
            }
            ("publish", [name, message, span, options @ ..]) => {
                let message = answer::message(message)?;
                let header = Header {
                    key: answer::option(options, "key")?.unwrap_or(0),
                    frame: answer::option(options, "frame")?.unwrap_or(0),
                    stamp: answer::option(options, "stamp")?.unwrap_or(0),
                    ..Header::default()
                };
                let publisher = self.publisher(name)?;
                let mut loan = publisher.loan(message.len())?;
                loan.copy_from_slice(&message);
                loan.set_header(header);
                said(publisher.publish_timeout(loan, answer::span(span)?)?.sequence())
            }
            ("publish_many", [name, count, size]) => {
                let (publisher, size) = (self.publisher(name)?, answer::number(size)?);
                for _ in 0..answer::number::<u64>(count)? {
                    self.publish_pattern(publisher, size)?;
                }
                done()
            }
            ("flood", [name, size, span]) => {
                let (publisher, size, end) =
                    (self.publisher(name)?, answer::number(size)?, answer::until(span)?);
                while Instant::now() < end {
                    self.publish_pattern(publisher, size)?;
                }
                done()
            }
            ("loan", [name, message]) => {
                let message = answer::message(message)?;
                let mut loan = self.publisher(name)?.loan(message.len())?;
                loan.copy_from_slice(&message);
                self.loan = Some(loan);
                done()
            }
            ("publish_loan", [name]) => {
                let loan = self.loan.take().ok_or_else(|| Refusal::new("Usage", "no loan"))?;
                said(self.publisher(name)?.publish(loan)?.sequence())
            }
            ("publish_msgpack", [name, who, age]) => {
                let person = Person { name: (*who).to_owned(), age: answer::number(age)? };
                said(self.publisher(name)?.publish(outlive::Msgpack(&person))?.sequence())
            }
            ("recv_msgpack", [name, span]) => {
                let sample = self
                    .subscriber(name)?
                    .recv_timeout(answer::span(span)?)?
                    .ok_or_else(nothing_came)?;
                let Person { name, age } = sample.msgpack()?;
                said(format!("{name} {age}"))
            }
            ("publish_track", [name, kind]) => {
                let kind: u32 = answer::number(kind)?;
                let mut corners = [Point { x: 0.0, y: 0.0 }; 4];
                corners[3].y = f64::from(kind) * 2.0;
                let track = Track { corners, kind, grid: [[0.0; 3]; 2], _unused: [0; 4] };
                said(self.publisher(name)?.publish(track.as_bytes())?.sequence())
            }
            ("recv_track", [name, span]) => {
                let sample = self
                    .subscriber(name)?
                    .recv_timeout(answer::span(span)?)?
                    .ok_or_else(nothing_came)?;
                let track = Track::read_from_bytes(&sample);
                let track = track.map_err(|_| Refusal::new("OtherType", "another length"))?;
                said(format!("{} {}", track.kind, track.corners[3].y))
            }
            ("publish_scan", [name, text, count]) => {
                let count: usize = answer::number(count)?;
                let ranges: Vec<f32> = (0..count).map(|at| at as f32).collect();
                let no_room = || Refusal::new("Usage", "no room");
                let scan = Scan {
                    kind: 7,
                    _before: [0; 3],
                    name: InlineString::new(text).ok_or_else(no_room)?,
                    is_last: (count > 0).into(),
                    _unused: [0; 7],
                    ranges: InlineVec::from_slice(&ranges).ok_or_else(no_room)?,
                };
                said(self.publisher(name)?.publish(scan.as_bytes())?.sequence())
            }
            ("recv_scan", [name, span]) => {
                let sample = self
                    .subscriber(name)?
                    .recv_timeout(answer::span(span)?)?
                    .ok_or_else(nothing_came)?;
                let scan = Scan::read_from_bytes(&sample);
                let scan = scan.map_err(|_| Refusal::new("OtherType", "another length"))?;
                let text = scan.name.to_str().unwrap_or("-");
                let (length, count) = (scan.name.as_bytes().len(), scan.ranges.len());
                said(format!("{length} {text} {count} {}", u8::from(bool::from(scan.is_last))))
            }
            ("publish_hex", [name, digits]) => {
                let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16);
                let bytes: Result<Vec<u8>, _> = (0..digits.len()).step_by(2).map(byte).collect();
                let bytes = bytes.map_err(|_| Refusal::new("Usage", "no digits"))?;
                said(self.publisher(name)?.publish(&*bytes)?.sequence())
            }
            ("config", [name]) => {
                let TopicConfig {
                    depth,
                    max_bytes,
                    stamps,
                    reliable,
                    durability,
                    max_publishers,
                    max_subscribers,
                    max_samples,
                    mode,
                    ..
                } = find(&mut self.topics, name)?.config();
                let (stamps, reliable) = (u8::from(stamps), u8::from(reliable));
                said(format!(
                    "{depth} {max_bytes} {stamps} {reliable} {durability} {max_publishers} \
                     {max_subscribers} {max_samples} {mode}"
                ))
            }
            ("slowest", [name]) => match self.publisher(name)?.slowest() {
                Some(slowest) => said(format!("{} {}", slowest.who.pid, slowest.lag)),
                None => said("none"),
            },
            ("prefault", [name, held, size]) => {
                let (held, size) = (answer::number(held)?, answer::number(size)?);
                self.publisher(name)?.prefault(held, size)?;
                done()
            }
            ("crowd", [name, publishers, subscribers]) => {
                let topic = find(&mut self.topics, name)?;
                for _ in 0..answer::number(publishers)? {
                    self.crowd.0.push(topic.publisher()?);
                }
                for _ in 0..answer::number(subscribers)? {
                    self.crowd.1.push(topic.subscriber()?);
                }
                done()
            }
            ("crowd_publish", [_, size]) => {
                let message = answer::pattern(answer::number(size)?, 0);
                for publisher in &self.crowd.0 {
                    publisher.publish(&*message)?;
                }
                done()
            }
            ("crowd_recv", [_]) => {
                let mut count = 0;
                for subscriber in &mut self.crowd.1 {
                    while let Some(sample) = subscriber.try_recv()? {
                        check(&sample)?;
                        count += 1;
                    }
                }
                said(count)
            }
            ("publish_cloud", [name, stamp, count]) => {
                let (stamp, points) = (answer::number(stamp)?, Tail::new());
                let count: u32 = answer::number(count)?;
                let all: Vec<Point> =
                    (0..count).map(|at| Point { x: at.into(), y: -1.0 }).collect();
                let cloud = WithTailBuf::new(&Cloud { stamp, points }, &all);
                said(self.publisher(name)?.publish(cloud.as_bytes())?.sequence())
            }
            ("recv_cloud", [name, span]) => {
                let sample = self
                    .subscriber(name)?
                    .recv_timeout(answer::span(span)?)?
                    .ok_or_else(nothing_came)?;
                let cloud = WithTail::<Cloud>::from_bytes(&sample)
                    .ok_or_else(|| Refusal::new("OtherType", "another length"))?;
                let last = cloud.tail().last().map_or(-1.0, |point| point.x);
                said(format!("{} {} {last}", cloud.stamp, cloud.tail().len()))
            }
            ("recv_hex", [name, span]) => {
                let sample = self
                    .subscriber(name)?
                    .recv_timeout(answer::span(span)?)?
                    .ok_or_else(nothing_came)?;
                said(sample.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
            }
            ("recv", [name, patience]) => {
                let subscriber = self.subscriber(name)?;
                let sample = match answer::patience(patience)? {
                    None => subscriber.try_recv()?.ok_or_else(|| Refusal::new("None", ""))?,
                    Some(span) => subscriber.recv_timeout(span)?.ok_or_else(nothing_came)?,
                };
                self.take(sample)
            }
            ("latest", [name]) => {
                let sample =
                    self.subscriber(name)?.latest()?.ok_or_else(|| Refusal::new("None", ""))?;
                self.take(sample)
            }
            ("drain", [name, count, span]) => {
                let (subscriber, end) = (self.subscriber(name)?, answer::until(span)?);
                for _ in 0..answer::number::<u64>(count)? {
                    check(&subscriber.recv_until(Deadline::at(end))?.ok_or_else(nothing_came)?)?;
                }
                done()
            }
            ("drain_all", [name]) => {
                let mut count = 0_u64;
                while let Some(sample) = self.subscriber(name)?.try_recv()? {
                    check(&sample)?;
                    count += 1;
                }
                said(count)
            }
            ("consume", [name, span]) => {
                let (subscriber, end) = (self.subscriber(name)?, answer::until(span)?);
                while Instant::now() < end {
                    drop(subscriber.recv_until(Deadline::at(end))?.ok_or_else(nothing_came)?);
                }
                done()
            }
            ("assert", [name]) => {
                self.publisher(name)?.assert_liveliness();
                done()
            }
            ("lapses", [name]) => said(self.subscriber(name)?.lapses()),
            ("missed", [name]) => said(u64::from(self.subscriber(name)?.missed() > 0)),
            ("late", [name]) => said(u64::from(self.publisher(name)?.missed() > 0)),
            ("expired", [name]) => said(self.subscriber(name)?.expired()),
            ("lost", [name]) => said(self.subscriber(name)?.lost()),
            ("lag", [name]) => said(self.subscriber(name)?.lag()),
            ("publishers", [name]) => said(self.subscriber(name)?.publisher_count()),
            ("subscribers", [name]) => said(self.publisher(name)?.subscriber_count()),
            _ => answer::unknown(verb, args),
        }
    }

    fn sample(&mut self, verb: &str, args: &[&str]) -> Answer {
        let Some(sample) = &self.sample else { return refused("Usage", "no sample") };
        match (verb, args) {
            ("show", []) => said(answer::show(sample)),
            ("sequence", []) => said(sample.sequence()),
            ("order", []) => said(sample.order()),
            ("key", []) => said(sample.header().key),
            ("frame", []) => said(sample.header().frame),
            ("stamp", []) => said(sample.header().stamp),
            ("age", []) => said(match sample.age() {
                Some(age) if age < Duration::from_secs(60) => "fresh",
                Some(_) => "old",
                None => "unknown",
            }),
            ("session", []) => said(sample.session()),
            ("alive", []) => said(u8::from(sample.publisher_alive())),
            ("publisher", []) => said(sample.publisher().map_or(0, |token| token.as_u32())),
            ("drop", []) => {
                self.sample = None;
                done()
            }
            _ => answer::unknown(verb, args),
        }
    }

    fn publish_pattern(
        &mut self,
        publisher: &'static Publisher,
        size: usize,
    ) -> Result<(), Refusal> {
        let mut loan = publisher.loan(size)?;
        loan.copy_from_slice(&answer::pattern(size, self.published));
        self.published += 1;
        publisher.publish(loan)?;
        Ok(())
    }

    fn take(&mut self, sample: Sample) -> Answer {
        let shown = answer::show(&sample);
        self.sample = Some(sample);
        said(shown)
    }

    fn publisher(&mut self, name: &str) -> Result<&'static Publisher, Refusal> {
        find(&mut self.publishers, name).map(|publisher| *publisher)
    }

    pub(crate) fn publisher_of(&mut self, name: &str) -> Result<&'static Publisher, Refusal> {
        self.publisher(name)
    }

    pub(crate) fn subscriber(&mut self, name: &str) -> Result<&mut Subscriber, Refusal> {
        find(&mut self.subscribers, name)
    }
}

/// Of a flood: by its number.
fn check(sample: &Sample) -> Result<(), Refusal> {
    if answer::is_pattern(sample, sample.sequence()) {
        Ok(())
    } else {
        Err(Refusal::new(
            "Torn",
            format!("message {} is {}", sample.sequence(), answer::show(sample)),
        ))
    }
}
