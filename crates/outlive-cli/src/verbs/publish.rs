//! `outlive pub`: from a pipe or files into a topic.

use std::fs::{self, File};
use std::io::stdin;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use outlive::config::{Config, Profile};
use outlive::describe::Description;
use outlive::topic::{
    Durability, Header, LARGEST_PAYLOAD, Outgoing, Publisher, Topic, TopicOptions,
};
use outlive::{Deadline, Domain, Error, SendError};
use serde::Serialize;

use crate::cli::Common;
use crate::described;
use crate::duration;
use crate::exit::{Code, Failure};
use crate::framing::{Framing, Splitter};
use crate::msgpack;
use crate::output::{self, talk};
use crate::progress::Progress;
use crate::signals::{SLICE, Signals, wait_readable};
use crate::size;
use crate::verbs::attributes::AttributeArgs;

/// The heading of the options of which a new topic is made, and which one that is there must have.
const TOPIC: &str = "Options of the topic, to make it or to insist on";

/// Publish messages on a topic, for every subscriber
///
/// Each line of standard input is a message; or each FILE is one, whole. Where the topic has a
/// description of its messages' fields, or one that names msgpack, a message is given as JSON,
/// unless an option says where messages end. pub does not wait for subscribers: one that is slow
/// loses the oldest of the messages that it has not taken. Only a subscriber that asks for it
/// ('outlive topic echo --reliable'), of a topic that was made with --reliable, makes pub wait
/// until it has taken them, or is killed.
///
/// pub ends with its input, so a topic that it makes is persistent, unless --durability says
/// otherwise: its last messages stay, as many as the topic keeps of each publisher (--depth), for
/// programs that come later, too. 'outlive topic echo --history N' prints them.
///
/// A topic that is there already is used, if it was made with what the options here ask for; else pub
/// ends with exit code 7, and says what differs. --as-is takes it whatever it is.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    ffmpeg -i cam.mp4 -f rawvideo - | outlive topic pub camera --frame 6220800\n  \
    outlive topic pub camera --rate 30 --repeat *.jpg\n  \
    echo '{\"speed\": 1.5}' | outlive topic pub drive --msgpack\n  \
    date | outlive topic pub now --wait-for 1")]
pub struct PublishArgs {
    /// The topic's name; a topic that is not there is made
    topic: String,
    /// Publish these files instead of standard input: each whole, as one message, unless an option
    /// says where messages end
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    form: FormArgs,
    /// Publish HZ messages a second, rather than as fast as they come
    #[arg(long, value_name = "HZ", value_parser = parse_rate)]
    rate: Option<f64>,
    /// End after N messages
    #[arg(long, short = 'n', value_name = "N")]
    count: Option<u64>,
    /// Begin again with the first file after the last one
    #[arg(long, requires = "files")]
    repeat: bool,
    /// Give the messages this key, a number by which subscribers can choose [default: 0]
    #[arg(long, value_name = "KEY")]
    key: Option<u64>,
    /// Begin when there are N subscribers
    #[arg(long, value_name = "N")]
    wait_for: Option<u32>,
    /// Give up with exit code 5 after waiting this long for a reliable subscriber, or for those of
    /// --wait-for [default: wait for ever]
    #[arg(long, short = 'w', value_name = "TIME", value_parser = duration::seconds)]
    timeout: Option<Duration>,
    /// Wait this long for a reliable subscriber with each message, then publish without it; 'never':
    /// do not wait [default: forever, or what a profile of the configuration file says]
    #[arg(long, value_name = "TIME", value_parser = duration::never_or_forever)]
    max_blocking: Option<Duration>,
    /// Messages count for this time, by their stamps: subscribers pass over older ones. Fails if the
    /// topic has no stamps [default: forever, or what a profile of the configuration file says]
    #[arg(long, value_name = "TIME", value_parser = duration::or_forever)]
    lifespan: Option<Duration>,
    /// Say on standard error when no message was published for this time, at most once a second, and
    /// at the end how often
    #[arg(long, value_name = "TIME", value_parser = duration::more_than_none)]
    period: Option<Duration>,
    /// How many messages of each publisher the topic keeps [default: 16, or what a profile of the
    /// configuration file says]
    #[arg(long, value_name = "N", help_heading = TOPIC)]
    depth: Option<u32>,
    /// What later subscribers get: nothing, what living publishers have published, or also what pub
    /// leaves when it has ended [default: persistent, or what a profile of the configuration file
    /// says]
    #[arg(long, value_name = "WHAT", value_enum, help_heading = TOPIC)]
    durability: Option<Kept>,
    /// The topic offers reliable delivery: its publishers wait for subscribers that ask for it
    #[arg(long, help_heading = TOPIC)]
    reliable: bool,
    /// The most memory it may take, as in 64M [default: a quarter of the file system, 4G at most, or
    /// what a profile of the configuration file says]
    #[arg(long, value_name = "SIZE", value_parser = size::parse, help_heading = TOPIC)]
    max_bytes: Option<u64>,
    /// The most publishers at a time, up to 1024 [default: 62, or what a profile of the configuration
    /// file says]
    #[arg(long, value_name = "N", help_heading = TOPIC)]
    max_publishers: Option<u32>,
    /// The most subscribers at a time, up to 1024 [default: 64, or what a profile of the
    /// configuration file says]
    #[arg(long, value_name = "N", help_heading = TOPIC)]
    max_subscribers: Option<u32>,
    /// The most longer messages that a subscriber holds at a time, up to 65536 [default: 256, or what
    /// a profile of the configuration file says]
    #[arg(long, value_name = "N", help_heading = TOPIC)]
    max_samples: Option<u32>,
    /// Of a topic in a group's domain: 660, 640 (members other than this user subscribe alone) or 600
    /// (they cannot open it) [default: 660; in a domain of one user 600]
    #[arg(long, value_name = "MODE", value_parser = octal, help_heading = TOPIC)]
    mode: Option<u32>,
    /// Take a topic that is there as it is, whatever the options here ask for
    #[arg(long, help_heading = TOPIC)]
    as_is: bool,
    #[command(flatten)]
    attributes: AttributeArgs,
}

/// What a topic keeps for later subscribers. A publisher in a shell ends with its input, so here it is
/// the most by default.
#[derive(ValueEnum, Debug, Clone, Copy)]
enum Kept {
    Volatile,
    #[value(name = "transient_local")]
    TransientLocal,
    Persistent,
}

impl From<Kept> for Durability {
    fn from(kept: Kept) -> Durability {
        match kept {
            Kept::Volatile => Durability::Volatile,
            Kept::TransientLocal => Durability::TransientLocal,
            Kept::Persistent => Durability::Persistent,
        }
    }
}

/// Where one message ends and the next begins. By default each line of standard input is one, and
/// each file.
#[derive(Args, Debug, Clone, Copy)]
#[group(multiple = false)]
struct FormArgs {
    /// Each message has this many bytes, as in 6220800 or 64K
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    frame: Option<u64>,
    /// Messages are lines
    #[arg(long)]
    lines: bool,
    /// Messages end with a NUL
    #[arg(long, short = '0')]
    null: bool,
    /// Messages follow their length in 4 little-endian bytes
    #[arg(long, short = 'p')]
    length_prefixed: bool,
    /// Messages are lines of JSON, and are published as msgpack
    #[arg(long)]
    msgpack: bool,
}

impl FormArgs {
    /// `None`: none was asked for.
    fn framing(self) -> Result<Option<Framing>, Failure> {
        if let Some(frame) = self.frame {
            if !(1..=LARGEST_PAYLOAD as u64).contains(&frame) {
                return Err(Failure::new(
                    Code::Usage,
                    format!("--frame: 1 to {LARGEST_PAYLOAD} bytes"),
                ));
            }
            return Ok(Some(Framing::Fixed(frame as usize)));
        }
        Ok(match self {
            FormArgs { null: true, .. } => Some(Framing::Null),
            FormArgs { length_prefixed: true, .. } => Some(Framing::LengthPrefixed),
            FormArgs { lines: true, .. } | FormArgs { msgpack: true, .. } => Some(Framing::Lines),
            _ => None,
        })
    }
}

fn parse_rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| "a number is needed, as in 30 or 0.5".to_owned())?;
    if rate > 0.0 && rate <= 1e9 {
        Ok(rate)
    } else {
        Err("more than 0, and no more than a thousand million".to_owned())
    }
}

/// What was published.
#[derive(Debug, Default, Serialize)]
struct Sum {
    messages: u64,
    bytes: u64,
    /// Living ones, when the last message was published.
    subscribers: u32,
    /// How many periods passed without a message, with --period.
    #[serde(skip_serializing_if = "Option::is_none")]
    missed: Option<u64>,
}

/// Runs the verb.
pub fn run(args: &PublishArgs, common: &Common) -> Result<(), Failure> {
    let framing = args.form.framing()?;
    let signals = Signals::that_end()?;
    let domain = common.domain.open()?;
    let config = Config::load()?;
    let profile = config.profile_for(&args.topic);
    let topic = open(args, profile, &domain, !common.domain.no_create)?;
    let mut options = Publisher::options();
    // The command line comes before the profile.
    if let Some(profile) = profile {
        options = options.profile(profile);
    }
    if let Some(span) = args.max_blocking {
        options = options.max_blocking(span);
    }
    if let Some(lifespan) = args.lifespan {
        options = options.lifespan(lifespan);
    }
    let period = args.period.or(profile.and_then(|profile| profile.publisher_period));
    if let Some(period) = period {
        options = options.period(period);
    }
    let publisher = topic.publisher_with(options)?;
    let description = match framing {
        None => topic.description()?.filter(described::is_json),
        Some(_) => None,
    };
    let sum = Sum::default();
    let periods = period.map(Periods::new);
    let mut publishing =
        Publishing { args, description, signals, publisher: &publisher, next: None, periods, sum };
    let result = publishing.wait_for_subscribers(&topic).and_then(|()| publishing.all(framing));
    publishing.sum.subscribers = publisher.subscriber_count();
    if period.is_some() {
        // Also those since the last message.
        publisher.due().take();
        publishing.sum.missed = Some(publisher.missed());
    }
    let sum = publishing.sum;
    if let Some(missed @ 1..) = sum.missed {
        let periods = output::counted(missed, "period");
        output::talk(format_args!("{periods} passed without a message"));
    }
    if common.json {
        output::print_json(&sum)?;
    } else if output::is_watched() && sum.messages > 0 && sum.subscribers == 0 {
        output::talk(
            "no subscriber was there: 'outlive topic echo' shows what is published from now on",
        );
    }
    match result {
        Ok(()) | Err(Stop::Over) => Ok(()),
        Err(Stop::Failed(Failure::Told { code, message })) => {
            let published = output::counted(sum.messages, "message");
            Err(Failure::Told {
                code,
                message: format!("{message} ({published} published before)"),
            })
        }
        Err(Stop::Failed(other)) => Err(other),
    }
}

/// Reads a file's mode.
fn octal(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 8).map_err(|_| "a mode is an octal number, as 640".to_owned())
}

/// Returns what the options ask of a topic, whether it is there or made.
fn asked(args: &PublishArgs, mut options: TopicOptions<[u8]>) -> TopicOptions<[u8]> {
    if args.reliable {
        options = options.reliable(true);
    }
    if let Some(kept) = args.durability {
        options = options.durability(kept.into());
    }
    if let Some(depth) = args.depth {
        options = options.depth(depth);
    }
    if let Some(bytes) = args.max_bytes {
        options = options.max_bytes(bytes);
    }
    if let Some(publishers) = args.max_publishers {
        options = options.max_publishers(publishers);
    }
    if let Some(subscribers) = args.max_subscribers {
        options = options.max_subscribers(subscribers);
    }
    if let Some(samples) = args.max_samples {
        options = options.max_samples(samples);
    }
    if let Some(mode) = args.mode {
        options = options.mode(mode);
    }
    if args.as_is {
        options = options.as_is();
    }
    options
}

/// Opens the topic, or makes it. One that is there says itself what its messages are, and needs to be
/// only what the command line asks for: a profile is for the making.
fn open(
    args: &PublishArgs,
    profile: Option<&Profile>,
    domain: &Domain,
    create: bool,
) -> Result<Topic<[u8]>, Failure> {
    let marked = args.attributes.on(domain.clone());
    // With --as-is whatever attributes it has.
    let there = if args.as_is { domain } else { &marked };
    let taken = asked(args, Topic::options());
    match taken.clone().open_as_bytes(there, &args.topic) {
        Err(Error::NotFound { .. }) if create => {}
        other => return Ok(other?),
    }
    let mut options = Topic::options().durability(Durability::Persistent);
    if let Some(profile) = profile {
        options = options.profile(profile);
    }
    match asked(args, options).create_new(&marked, &args.topic) {
        // Made by another process just now.
        Err(Error::AlreadyExists { .. }) => Ok(taken.open_as_bytes(there, &args.topic)?),
        other => Ok(other?),
    }
}

/// Why nothing more is published.
enum Stop {
    /// A signal came, or there were as many messages as were asked for.
    Over,
    Failed(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Failed(failure)
    }
}

struct Publishing<'a> {
    args: &'a PublishArgs,
    /// Of the topic's messages, which are given as JSON.
    description: Option<Description>,
    signals: Signals,
    publisher: &'a Publisher<[u8]>,
    /// When the next message is due, with --rate.
    next: Option<Instant>,
    /// With --period.
    periods: Option<Periods>,
    sum: Sum,
}

/// How long at least lies between two lines of [`Periods`].
const BETWEEN_LINES: Duration = Duration::from_secs(1);

/// What has been said of periods without a message.
struct Periods {
    period: Duration,
    /// When the last message was published, or pub began.
    since: Instant,
    /// By when the next one is expected.
    due: Instant,
    /// How many were missed when that was told last, and when.
    told: u64,
    told_at: Option<Instant>,
}

impl Periods {
    fn new(period: Duration) -> Periods {
        let now = Instant::now();
        // A period of years is not missed.
        let period = period.min(Duration::from_secs(1 << 30));
        Periods { period, since: now, due: now + period, told: 0, told_at: None }
    }

    /// A message was published.
    fn published(&mut self) {
        self.since = Instant::now();
        self.due = self.since + self.period;
    }

    /// Says that no message has been published in time, if so.
    fn look(&mut self, publisher: &Publisher<[u8]>) {
        let now = Instant::now();
        if now < self.due {
            return;
        }
        // Also of periods of a microsecond a person reads, and may keep, each line.
        if let Some(next) = self.told_at.map(|at| at + BETWEEN_LINES).filter(|next| now < *next) {
            self.due = next;
            return;
        }
        publisher.due().take();
        let missed = publisher.missed();
        if missed > self.told {
            (self.told, self.told_at) = (missed, Some(now));
            let since = self.since.elapsed().as_secs_f64();
            let missed = output::counted(missed, "period");
            talk(format_args!(
                "no message was published for {since:.3} s; {missed} passed without one so far"
            ));
        }
        self.due = Instant::now() + self.period;
    }
}

/// Sleeps until one of the descriptors can be read, or that moment; says meanwhile which periods pass
/// without a message.
fn wait(
    fds: &[BorrowedFd<'_>],
    until: Option<Instant>,
    periods: &mut Option<Periods>,
    publisher: &Publisher<[u8]>,
) -> Result<Vec<bool>, Stop> {
    loop {
        let due = periods.as_ref().map(|periods| periods.due);
        let moment = [until, due].into_iter().flatten().min();
        let span = moment.map(|moment| moment.saturating_duration_since(Instant::now()));
        let ready = wait_readable(fds, span)
            .map_err(|error| Failure::system("wait for the input", &error))?;
        if let Some(periods) = periods {
            periods.look(publisher);
        }
        let is_time = until.is_some_and(|until| Instant::now() >= until);
        if is_time || ready.contains(&true) {
            return Ok(ready);
        }
    }
}

impl Publishing<'_> {
    fn all(&mut self, framing: Option<Framing>) -> Result<(), Stop> {
        if self.args.files.is_empty() {
            // Not `Stdin`, which has a buffer of its own: what is ready must be seen at once.
            let input = stdin().as_fd().try_clone_to_owned().map(File::from);
            let input = input.map_err(|error| Failure::system("read standard input", &error))?;
            return self.stream(input, framing.unwrap_or(Framing::Lines));
        }
        loop {
            let before = self.sum.messages;
            for path in &self.args.files {
                let reading = |error: std::io::Error| {
                    Failure::system(format_args!("read {}", path.display()), &error)
                };
                match framing {
                    Some(framing) => self.stream(File::open(path).map_err(reading)?, framing)?,
                    None => {
                        let contents = fs::read(path).map_err(reading)?;
                        self.encoded(&contents)?;
                    }
                }
            }
            if !self.args.repeat {
                return Ok(());
            }
            if self.sum.messages == before {
                return Err(Failure::new(
                    Code::BadInput,
                    "the files are empty: there is nothing to repeat",
                )
                .into());
            }
        }
    }

    fn stream(&mut self, mut input: File, framing: Framing) -> Result<(), Stop> {
        let total = input.metadata().ok().filter(fs::Metadata::is_file).map(|facts| facts.len());
        let mut progress = Progress::new(total, self.args.rate.is_none() && !self.args.repeat);
        let mut splitter = Splitter::new(framing);
        let mut places = Vec::new();
        loop {
            let fds = [self.signals.as_fd(), input.as_fd()];
            let ready = wait(&fds, None, &mut self.periods, self.publisher)?;
            self.heed_signals(ready[0])?;
            if !ready[1] {
                continue;
            }
            let count = splitter.fill(&mut input)?;
            // What is complete goes out even if what follows it is not valid.
            let made_sense = splitter.complete(&mut places);
            for place in &places {
                self.encoded(&splitter.bytes()[place.clone()])?;
            }
            made_sense?;
            if count == 0 {
                break;
            }
            progress.add(count as u64);
        }
        if let Some(place) = splitter.rest()? {
            self.encoded(&splitter.bytes()[place])?;
        }
        Ok(())
    }

    /// A message as it is in the input.
    fn encoded(&mut self, message: &[u8]) -> Result<(), Stop> {
        if !self.args.form.msgpack && self.description.is_none() {
            return self.one(message);
        }
        if message.trim_ascii().is_empty() {
            return Ok(());
        }
        if let Some(description) = &self.description {
            return self.one(&described::message(description, message)?);
        }
        let told = |why| Failure::new(Code::BadInput, format!("a line is no JSON: {why}"));
        self.one(&msgpack::of_json(message).map_err(told)?)
    }

    /// Publishes a message when it is due.
    fn one(&mut self, message: &[u8]) -> Result<(), Stop> {
        if self.args.count.is_some_and(|count| self.sum.messages >= count) {
            return Err(Stop::Over);
        }
        self.wait_until_due()?;
        let begun = Instant::now();
        let mut told = false;
        loop {
            let error = match self.publish(message, Instant::now() + SLICE) {
                Ok(()) => break,
                Err(error) => error,
            };
            let SendError::TimedOut { slowest } = &error else {
                return Err(Failure::from(error).into());
            };
            if !told && let Some(slowest) = slowest {
                told = true;
                let pid = slowest.pid;
                talk(format_args!(
                    "waiting for process {pid}, a reliable subscriber, to take older messages"
                ));
            }
            self.heed_signals(true)?;
            if let Some(periods) = &mut self.periods {
                periods.look(self.publisher);
            }
            if self.args.timeout.is_some_and(|timeout| begun.elapsed() >= timeout) {
                return Err(Failure::from(error).into());
            }
        }
        if let Some(periods) = &mut self.periods {
            periods.published();
        }
        self.sum.messages += 1;
        self.sum.bytes += message.len() as u64;
        Ok(())
    }

    fn publish(&self, message: &[u8], until: Instant) -> Result<(), SendError> {
        let deadline = Deadline::at(until);
        let Some(key) = self.args.key else {
            return self.publisher.publish_until(message, deadline).map(drop);
        };
        let message = Outgoing::new(message).header(Header { key, ..Header::default() });
        self.publisher.publish_until(message, deadline).map(drop)
    }

    fn wait_until_due(&mut self) -> Result<(), Stop> {
        // Asking costs a system call.
        let now_and_then = self.sum.messages.is_multiple_of(256);
        let Some(rate) = self.args.rate else { return self.heed_signals(now_and_then) };
        let period = Duration::from_secs_f64(1.0 / rate);
        loop {
            let now = Instant::now();
            let due = *self.next.get_or_insert(now);
            if now >= due {
                // What came late is made up for, but not more than a second of it.
                let behind = now - due > Duration::from_secs(1);
                self.next = Some(if behind { now } else { due } + period);
                return self.heed_signals(now_and_then);
            }
            let fds = [self.signals.as_fd()];
            let ready = wait(&fds, Some(due), &mut self.periods, self.publisher)?;
            self.heed_signals(ready[0])?;
        }
    }

    fn wait_for_subscribers(&mut self, topic: &Topic<[u8]>) -> Result<(), Stop> {
        let Some(wanted) = self.args.wait_for else { return Ok(()) };
        let begun = Instant::now();
        let mut presence = topic.watch();
        while self.publisher.subscriber_count() < wanted {
            presence.changed_timeout(SLICE).map_err(Failure::from)?;
            self.heed_signals(true)?;
            if self.args.timeout.is_some_and(|timeout| begun.elapsed() >= timeout) {
                let there = self.publisher.subscriber_count();
                let text = format!("there are {there} of {wanted} subscribers");
                return Err(Failure::new(Code::TimedOut, text).into());
            }
        }
        Ok(())
    }

    fn heed_signals(&mut self, some_may_have_come: bool) -> Result<(), Stop> {
        if !some_may_have_come {
            return Ok(());
        }
        match self.signals.next().map_err(|error| Failure::system("read a signal", &error))? {
            Some(_) => Err(Stop::Over),
            None => Ok(()),
        }
    }
}
