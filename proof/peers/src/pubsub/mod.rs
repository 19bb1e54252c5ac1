//! Messages from one process to others, beside other libraries.
//!
//! | `--what` | a row's figure |
//! | --- | --- |
//! | `latency` | one way: half of a round trip between two processes, each timed by itself: the median, p99 and p99.9 |
//! | `rate` | a message of 8 B, one way at full rate |
//! | `s2-small` | the same for 7 B: Shadesmar's first table counts those of 1 ms |
//! | `s2-large` | 10,000,000 B to 8 subscribers that sleep, as msgpack and as bytes in place: Shadesmar's second table |
//! | `idle` | the processor time that a waiting subscriber takes in a second |
//!
//! A round trip's time holds one reading of the clock, some 20 ns, in every row alike. `sleeping`
//! rows block; the others ask again and again, except for those whose own threads bring the
//! messages, or whose calls only block (`zeromq`, `posix_mq`): they are among both as they are.
//! Two rows are floors, below which no message can go: `cacheline` is one flag to and fro, `futex`
//! a bare hand-over to a sleeper, or to eight; they carry no bytes. `outlive stamped` is Outlive with
//! the time of day in each message, as by default, and `outlive` without.

mod content;
pub(crate) mod flow;
mod idle;

use crate::peers::{
    self, Aeron, BoostQueue, CacheLine, Futex, Futexes, Iceoryx2, Outlive, OutliveStamped, PosixMq,
    Shape, Topic, Wait, ZeroMq,
};
use clap::{Args, ValueEnum};
use content::{Bytes, MsgPack};
use flow::Content;
use outlive_bench::harness::report::{Absent, Title};
use outlive_bench::harness::round::{Contender, Figure, Group, Setting, Stage};
use outlive_bench::harness::{Common, Prepared};
use outlive_bench::{self, Error};
use std::marker::PhantomData;
use std::process::ExitCode;

/// The sizes told of everywhere.
const SIZES: [usize; 5] = [64, 4 << 10, 64 << 10, 1 << 20, 10_000_000];
/// Shadesmar's second table.
const LARGE_BYTES: usize = 10_000_000;
const LARGE_SUBSCRIBERS: usize = 8;
/// Messages that may wait for a subscriber at full rate: small ones, large ones.
const MANY: usize = 1024;
const FEW: usize = 4;

/// The arguments of `pubsub`.
#[derive(Args, Clone, Debug)]
pub(crate) struct PubsubArgs {
    /// What is measured
    #[arg(long, value_enum, default_value_t = What::Latency)]
    what: What,

    /// Bytes in a message, as in 64, 4KiB, 10MB; several with commas [default:
    /// 64,4KiB,64KiB,1MiB,10MB]
    #[arg(long, value_name = "BYTES,…", value_delimiter = ',', value_parser = parse_size)]
    size: Vec<usize>,

    /// How receivers wait
    #[arg(long, value_enum, default_value_t = Waits::Both)]
    wait: Waits,

    /// What is written and read of a message
    #[arg(long, value_enum, default_value_t = Touch::Number)]
    touch: Touch,

    /// Only these contenders, with commas between them; the baselines are always measured
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    peer: Vec<String>,

    #[command(flatten)]
    pub common: Common,
}

/// What is measured.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// One-way latency
    Latency,
    /// 8 B at full rate
    Rate,
    /// 7 B at full rate: Shadesmar's first table
    S2Small,
    /// 10,000,000 B to 8 sleeping subscribers: Shadesmar's second table
    S2Large,
    /// Processor time of a waiting subscriber
    Idle,
}

/// How receivers wait.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// They ask again and again
    Busy,
    /// They sleep
    Block,
    /// One after the other
    Both,
}

impl Waits {
    /// Returns one or both.
    pub fn all(self) -> &'static [Wait] {
        match self {
            Self::Busy => &[Wait::Busy],
            Self::Block => &[Wait::Block],
            Self::Both => &[Wait::Busy, Wait::Block],
        }
    }
}

/// What is written and read of a message.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Touch {
    /// Its number only
    Number,
    /// Every byte, on either side
    Every,
    /// One after the other
    Both,
}

impl Touch {
    fn all(self) -> &'static [bool] {
        match self {
            Self::Number => &[false],
            Self::Every => &[true],
            Self::Both => &[false, true],
        }
    }
}

/// Reads a size: `4KiB`, `10MB`, `64B`, `64`.
pub(crate) fn parse_size(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let number: usize =
        digits.parse().map_err(|_| "a number, perhaps with B, KiB, MiB, kB or MB, is wanted")?;
    let unit = match &text[digits.len()..] {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "kB" => 1_000,
        "MB" => 1_000_000,
        other => return Err(format!("{other} is not one of B, KiB, MiB, kB and MB")),
    };
    let bytes = number.checked_mul(unit).filter(|&bytes| (8..=1 << 30).contains(&bytes));
    bytes.ok_or_else(|| "8 bytes, for a message's number, to 1 GiB".into())
}

/// Returns the name of a size in a row's name.
pub(crate) fn size_name(bytes: usize) -> String {
    match bytes {
        _ if bytes >= 1_000_000 && bytes.is_multiple_of(1_000_000) => {
            format!("{}MB", bytes / 1_000_000)
        }
        _ if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{}MiB", bytes >> 20),
        _ if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => format!("{}KiB", bytes >> 10),
        _ => format!("{bytes}B"),
    }
}

/// What a row does in its turn.
#[derive(Clone, Copy)]
enum Task<C> {
    Latency { every_byte: bool },
    Rate,
    Several(C),
}

struct Row<T, C> {
    name: &'static str,
    shape: Shape,
    task: Task<C>,
    topic: PhantomData<T>,
}

impl<T: Topic, C: Content> Contender for Row<T, C> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn least_operations(&self) -> u64 {
        match self.task {
            // Many times what may wait, or the publisher alone is measured.
            Task::Rate => 16 * self.shape.buffer as u64,
            _ if self.shape.bytes < 1 << 20 => 64,
            _ => 8,
        }
    }

    fn turn(&mut self, stage: &Stage, operations: u64) -> Result<Figure, Error> {
        match self.task {
            Task::Latency { every_byte } => {
                flow::latency::<T>(stage, self.shape, every_byte, operations)
            }
            // A floor holds one message at a time, so its full rate is one for each way.
            Task::Rate if T::IS_FLOOR => flow::latency::<T>(stage, self.shape, false, operations),
            Task::Rate => flow::rate::<T>(stage, self.shape, operations),
            Task::Several(content) => {
                flow::to_several::<T, C>(stage, self.shape, content, operations)
            }
        }
    }
}

/// The groups so far.
struct Field<'a> {
    only: &'a [String],
    groups: Vec<Group>,
    absent: Vec<Absent>,
}

/// Makes a row's name. Names live as long as the program, which makes some dozens.
fn name(name: &str, of: &str) -> &'static str {
    format!("{name} {of}").leak()
}

impl Field<'_> {
    fn wanted(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    fn begin(&mut self, setting: Option<Setting>, baseline: &'static str) {
        self.groups.push(Group { setting, rows: Vec::new(), baseline, kinds_differ: true });
    }

    fn push(&mut self, row: Box<dyn Contender>) {
        if let Some(group) = self.groups.last_mut() {
            group.rows.push(row);
        }
    }

    fn add<T: Topic, C: Content>(&mut self, of: &str, shape: Shape, task: Task<C>) {
        let is_baseline =
            self.groups.last().is_some_and(|group| group.baseline == format!("{} {of}", T::NAME));
        if !is_baseline && !self.wanted(T::NAME) {
            return;
        }
        match T::refuses(&shape) {
            Some(why) => self.absent.push(Absent { name: name(T::NAME, of), why }),
            None => self.push(Box::new(Row::<T, C> {
                name: name(T::NAME, of),
                shape,
                task,
                topic: PhantomData,
            })),
        }
    }

    /// Adds all contenders that have topics.
    fn add_all<C: Content>(&mut self, of: &str, shape: Shape, task: Task<C>) {
        self.add::<Outlive, C>(of, shape, task);
        self.add::<Iceoryx2, C>(of, shape, task);
        self.add::<ZeroMq, C>(of, shape, task);
        self.add::<BoostQueue, C>(of, shape, task);
        self.add::<PosixMq, C>(of, shape, task);
        #[cfg(feature = "zenoh")]
        self.add::<peers::Zenoh, C>(of, shape, task);
    }

    /// Adds Aeron, whose processes are Java's and measure themselves.
    fn add_aeron(&mut self, of: &str, shape: Shape, task: peers::AeronTask) {
        if !self.wanted(Aeron::NAME) {
            return;
        }
        match Aeron::new(name(Aeron::NAME, of), shape, task) {
            Ok(row) => self.push(Box::new(row)),
            Err(why) => self.absent.push(Absent { name: name(Aeron::NAME, of), why }),
        }
    }
}

/// Runs it.
pub(crate) fn run(args: &PubsubArgs) -> Result<ExitCode, Error> {
    if args.what == What::Idle {
        return idle::run(&args.peer, args.common.json, args.common.quick);
    }
    let prepared = prepare(args)?;
    let _signals = outlive_bench::harness::begin(args.common.limit, args.common.nice)?;
    outlive_bench::harness::tell(
        &outlive_bench::harness::measure(prepared, &args.common)?,
        &args.common,
    )
}

/// Runs `idle`, as short as can be.
pub(crate) fn idle() -> Result<ExitCode, Error> {
    idle::run(&[], false, true)
}

fn prepare(args: &PubsubArgs) -> Result<Prepared, Error> {
    let mut field = Field { only: &args.peer, groups: Vec::new(), absent: Vec::new() };
    let (mode, meaning, rate_of) = match args.what {
        What::Latency => ("latency", "a message, one way: half a round trip", None),
        What::Rate => ("rate", "a message of 8 B, one way at full rate", Some("messages")),
        What::S2Small => ("s2-small", "a message of 7 B, one way at full rate", Some("messages")),
        What::S2Large => {
            ("s2-large", "a message of 10,000,000 B to 8 subscribers that sleep", Some("messages"))
        }
        What::Idle => return Err(Error::Refused("it has a report of its own".into())),
    };
    match args.what {
        What::Latency => latency(args, &mut field),
        What::Rate => rate(&mut field, 8),
        What::S2Small => rate(&mut field, 7),
        What::S2Large | What::Idle => large(&mut field),
    }
    #[cfg(not(feature = "zenoh"))]
    if field.wanted("zenoh") {
        let why = "left out of this build: cargo run --profile dist --features zenoh".into();
        field.absent.push(Absent { name: "zenoh", why });
    }
    if args.common.svg.is_some() && field.groups.len() > 1 {
        return Err(Error::Refused(
            "a drawing has room for one --size, one --wait and one --touch".into(),
        ));
    }
    let rows = field.groups.iter().flat_map(|group| &group.rows).map(|row| row.name());
    // As many as there are rows, once in the program's life.
    let ours: &[&str] =
        rows.filter(|name| name.starts_with(Outlive::NAME)).collect::<Vec<_>>().leak();
    let title = Title { bench: "pubsub", mode, meaning, ours, rate_of };
    let prepared = Prepared::of(title, Vec::new(), "").without(field.absent);
    Ok(Prepared { groups: field.groups, ..prepared })
}

fn latency(args: &PubsubArgs, field: &mut Field) {
    let mut sizes = if args.size.is_empty() { SIZES.to_vec() } else { args.size.clone() };
    sizes.sort_unstable();
    sizes.dedup();
    for bytes in sizes {
        for &wait in args.wait.all() {
            for &every_byte in args.touch.all() {
                let how = match (wait, every_byte) {
                    (Wait::Busy, false) => "busy",
                    (Wait::Busy, true) => "busy, every byte",
                    (Wait::Block, false) => "sleeping",
                    (Wait::Block, true) => "sleeping, every byte",
                };
                // `64B`, `64B sleeping`, `64B every byte`: the plain name is the busy row's.
                let words =
                    how.trim_start_matches("busy").trim_start_matches(", ").replace(',', "");
                let of = format!("{} {words}", size_name(bytes)).trim_end().to_owned();
                let shape = Shape::pair(bytes, wait);
                let task = Task::<Bytes>::Latency { every_byte };
                let setting = Some(Setting::Messages { message_bytes: bytes, how });
                match wait {
                    Wait::Busy => {
                        field.begin(setting, name(CacheLine::NAME, &of));
                        field.add_all(&of, shape, task);
                        field.add::<OutliveStamped, _>(&of, shape, task);
                        field.add_aeron(&of, shape, peers::AeronTask::Latency { every_byte });
                        field.add::<CacheLine, _>(&of, shape, task);
                    }
                    Wait::Block => {
                        field.begin(setting, name(Futex::NAME, &of));
                        field.add_all(&of, shape, task);
                        field.add::<OutliveStamped, _>(&of, shape, task);
                        field.add_aeron(&of, shape, peers::AeronTask::Latency { every_byte });
                        field.add::<Futex, _>(&of, shape, task);
                    }
                }
            }
        }
    }
}

fn rate(field: &mut Field, bytes: usize) {
    let of = size_name(bytes);
    field.begin(None, name(CacheLine::NAME, &of));
    let task = Task::<Bytes>::Rate;
    let shape = flow::streaming(bytes, Wait::Busy, 1, MANY);
    field.add_all(&of, shape, task);
    field.add_aeron(&of, shape, peers::AeronTask::Rate);
    field.add::<CacheLine, _>(&of, shape, task);
}

fn large(field: &mut Field) {
    let packed = MsgPack::of(LARGE_BYTES);
    let plain = Bytes::of(LARGE_BYTES);
    field.begin(None, name(Futexes::NAME, "in place"));
    let shape = |bytes| flow::streaming(bytes, Wait::Block, LARGE_SUBSCRIBERS, FEW);
    field.add_all("msgpack", shape(packed.bytes()), Task::Several(packed));
    field.add_all("in place", shape(plain.bytes()), Task::Several(plain));
    field.add::<Futexes, _>("in place", shape(plain.bytes()), Task::Several(plain));
    if field.wanted(Aeron::NAME) {
        let why = "it is measured between two processes only".into();
        field.absent.push(Absent { name: Aeron::NAME, why });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_they_are_written() {
        for bytes in SIZES {
            assert_eq!(parse_size(&size_name(bytes)), Ok(bytes));
        }
        assert_eq!(parse_size("64"), Ok(64));
        for wrong in ["", "4Kib", "7", "2000MiB", "-1"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
