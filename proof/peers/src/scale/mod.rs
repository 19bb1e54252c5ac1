//! What publishing costs as a domain grows, and how long it takes to find a topic: one line for
//! each contender (`--svg`).
//!
//! | `--over` | a row's figure |
//! | --- | --- |
//! | `subscribers` | one message of 64 B published, none taken meanwhile: each subscriber keeps its newest |
//! | `publishers` | one message published and taken, in one process, while the topic has so many publishers |
//! | `topics` | one message published, the topics of one process in turn |
//! | `discovery` | from the beginning of opening a topic until its first message is there, among so many topics |
//!
//! All in one process, so that the figures are what the library's own work costs. For `discovery`
//! the publisher is a process of its own, which publishes all the time. `--instructions` counts
//! those of publishing, or of publishing and taking, instead of time. `--together` compares the steps
//! with each other, each a row of its own (`outlive 1`, `outlive 64`), beside the first.

pub(crate) mod instructions;

use crate::peers::{Iceoryx2, Outlive, Publish, Shape, Subscribe, Topic, Wait, write_number};
use clap::{Args, ValueEnum};
use outlive_bench::harness::report::{Absent, Title};
use outlive_bench::harness::round::{Contender, Figure, Group, Setting, Stage};
use outlive_bench::harness::shared::{Board, Shared};
use outlive_bench::harness::statistics::median;
use outlive_bench::harness::{Common, Prepared, clock, crew::Crew};
use outlive_bench::{self, Error};
use std::marker::PhantomData;
use std::process::ExitCode;

const BYTES: usize = 64;
const SUBSCRIBERS: [usize; 7] = [1, 2, 4, 8, 16, 32, 60];
const PUBLISHERS: [usize; 6] = [1, 2, 4, 8, 16, 30];
const TOPICS: [usize; 7] = [1, 4, 16, 64, 256, 1024, 4096];
/// Openings in a turn of `discovery`.
const OPENINGS: u64 = 8;

/// The arguments of `scale`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ScaleArgs {
    /// What grows
    #[arg(long, value_enum, default_value_t = Over::Subscribers)]
    over: Over,

    /// As many as these instead, separated by commas
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=4096))]
    steps: Vec<u64>,

    /// Count instructions, by single steps, instead of time
    #[arg(long, conflicts_with = "together")]
    instructions: bool,

    /// Compare the steps with each other, without other libraries
    #[arg(long)]
    together: bool,

    #[command(flatten)]
    pub common: Common,
}

/// What grows.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// 1 to 60 subscribers
    Subscribers,
    /// 1 to 30 publishers
    Publishers,
    /// 1 to 4,096 topics
    Topics,
    /// 1 to 4,096 topics, one of which is opened
    Discovery,
}

impl Over {
    fn meaning(self) -> &'static str {
        match self {
            Self::Subscribers => "a message of 64 B published, by the topic's subscribers",
            Self::Publishers => "a message of 64 B published and taken, by the topic's publishers",
            Self::Topics => "a message of 64 B published, by the topics of the process",
            Self::Discovery => {
                "from opening a topic until its first message is there, by the topics there are"
            }
        }
    }

    fn steps(self) -> &'static [usize] {
        match self {
            Self::Subscribers => &SUBSCRIBERS,
            Self::Publishers => &PUBLISHERS,
            Self::Topics | Self::Discovery => &TOPICS,
        }
    }

    fn setting(self, step: usize) -> Setting {
        match self {
            Self::Subscribers => Setting::Subscribers(step),
            Self::Publishers => Setting::Publishers(step),
            Self::Topics | Self::Discovery => Setting::Topics(step),
        }
    }

    fn mode(self) -> &'static str {
        match self {
            Self::Subscribers => "subscribers",
            Self::Publishers => "publishers",
            Self::Topics => "topics",
            Self::Discovery => "discovery",
        }
    }
}

/// A library that can have several topics in one place.
pub(crate) trait Domain: Topic {
    /// What a process has once.
    type Session<'a>;
    /// Files that a process has open for a topic on which it publishes and subscribes. Counted by
    /// looking; no document says it.
    const FILES: u64;

    /// Joins the domain.
    fn session(place: &Self::Place) -> Result<Self::Session<'_>, Error>;
    /// Makes a publisher of topic number so many.
    fn publisher_of(session: &Self::Session<'_>, topic: usize) -> Result<Self::Publisher, Error>;
    /// Makes a subscriber of it.
    fn subscriber_of(session: &Self::Session<'_>, topic: usize) -> Result<Self::Subscriber, Error>;
    /// Returns why there cannot be so many, if there cannot.
    fn limit(_: Over, _: usize) -> Option<String> {
        None
    }
}

struct Row<D> {
    name: &'static str,
    over: Over,
    step: usize,
    domain: PhantomData<D>,
}

impl<D: Domain> Contender for Row<D> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn fixed_operations(&self) -> Option<u64> {
        Some(match self.over {
            Over::Discovery => OPENINGS,
            // All topics, and a second time.
            _ => 20_000u64.max(2 * self.step as u64),
        })
    }

    fn turn(&mut self, stage: &Stage, operations: u64) -> Result<Figure, Error> {
        let (subscribers, publishers) = match self.over {
            Over::Subscribers => (self.step, 1),
            Over::Publishers => (1, self.step),
            Over::Topics => (1, 1),
            // One after another, and an old one may still be counted when the next comes.
            Over::Discovery => (4, 1),
        };
        let shape =
            Shape { subscribers, publishers, lossless: false, ..Shape::pair(BYTES, Wait::Busy) };
        let place = D::place(stage, "there", shape)?;
        let board = Shared::<Board>::new()?;
        let mut crew = Crew::new()?;
        match self.over {
            Over::Discovery => self.discover(stage, &place, &board, &mut crew, operations)?,
            _ => {
                crew.start("publisher", stage.first_core(), || {
                    self.publish(&place, &board, operations)
                })?;
            }
        }
        board.figure(crew.finish(stage.turn_limit)?)
    }
}

impl<D: Domain> Row<D> {
    fn boxed(name: &'static str, over: Over, step: usize) -> Box<dyn Contender> {
        Box::new(Self { name, over, step, domain: PhantomData })
    }

    fn publish(&self, place: &D::Place, board: &Board, operations: u64) -> Result<(), Error> {
        let topics = if self.over == Over::Topics { self.step } else { 1 };
        let ports =
            |count: usize, wanted: Over| if self.over == wanted { self.step } else { count };
        let session = D::session(place)?;
        let mut subscribers = Vec::new();
        let mut publishers = Vec::new();
        for topic in 0..topics {
            for _ in 0..ports(1, Over::Subscribers) {
                subscribers.push(D::subscriber_of(&session, topic)?);
            }
            for _ in 0..ports(1, Over::Publishers) {
                publishers.push(D::publisher_of(&session, topic)?);
            }
        }
        // One publishes, whose topic has others; or all in turn, one in each topic.
        let active = if self.over == Over::Topics { publishers.len() } else { 1 };
        let takes = self.over == Over::Publishers;
        let mut step = |number: u64| -> Result<(), Error> {
            let publisher = &mut publishers[number as usize % active];
            publisher.publish(BYTES, |message| write_number(message, number))?;
            if takes { subscribers[0].receive(|_| ()) } else { Ok(()) }
        };
        (0..operations / 8 + active as u64).try_for_each(&mut step)?;
        let begun = clock::now();
        (0..operations).try_for_each(&mut step)?;
        board.leave_mean(clock::now() - begun, operations);
        Ok(())
    }

    fn discover(
        &self,
        stage: &Stage,
        place: &D::Place,
        board: &Board,
        crew: &mut Crew,
        operations: u64,
    ) -> Result<(), Error> {
        crew.start("publisher", stage.second_core(), || {
            let session = D::session(place)?;
            let others: Result<Vec<_>, Error> =
                (1..self.step).map(|topic| D::publisher_of(&session, topic)).collect();
            let _others = others?;
            let mut publisher = D::publisher_of(&session, 0)?;
            board.meet(2);
            // Acquire pairs with the opener's Release.
            while board.done.0.load(std::sync::atomic::Ordering::Acquire) == 0 {
                publisher.publish(BYTES, |message| write_number(message, 0))?;
            }
            Ok(())
        })?;
        crew.start("opener", stage.first_core(), || {
            board.meet(2);
            let mut took = Vec::new();
            let all = clock::now();
            for _ in 0..operations {
                let begun = clock::now();
                let session = D::session(place)?;
                let mut subscriber = D::subscriber_of(&session, 0)?;
                subscriber.receive(|_| ())?;
                took.push((clock::now() - begun) as f64);
            }
            board.leave_figure(median(&took).unwrap_or(0.0), clock::now() - all);
            board.done.0.store(1, std::sync::atomic::Ordering::Release);
            Ok(())
        })?;
        Ok(())
    }
}

/// Raises the limit of open files: several thousand topics are several files each.
fn raise_file_limit() -> Result<u64, Error> {
    // SAFETY: a valid place for both calls.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        let mut done = libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        limit.rlim_cur = limit.rlim_max;
        done |= libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        if done == 0 {
            Ok(limit.rlim_cur)
        } else {
            Err(Error::last("raising the limit of open files"))
        }
    }
}

struct Field {
    over: Over,
    steps: Vec<usize>,
    /// That a process may have open.
    files: u64,
    groups: Vec<Group>,
    absent: Vec<Absent>,
}

impl Field {
    fn add<D: Domain>(&mut self) {
        for (group, &step) in self.groups.iter_mut().zip(&self.steps) {
            match impediment::<D>(self.over, step, self.files) {
                Some(why) => self.absent.push(Absent { name: D::NAME, why }),
                None => group.rows.push(Row::<D>::boxed(D::NAME, self.over, step)),
            }
        }
    }
}

/// Returns why there cannot be so many, in a process that may have so many files open; if there
/// cannot.
fn impediment<D: Domain>(over: Over, step: usize, most: u64) -> Option<String> {
    let wanted = match over {
        Over::Topics | Over::Discovery => step as u64 * D::FILES,
        Over::Subscribers | Over::Publishers => 0,
    };
    let too_many =
        || format!("{step} topics are {wanted} open files, and a process may have {most} here");
    D::limit(over, step).or_else(|| (wanted > most).then(too_many))
}

/// Runs it.
pub(crate) fn run(args: &ScaleArgs) -> Result<ExitCode, Error> {
    let files = raise_file_limit()?;
    if args.instructions {
        return instructions::run(args);
    }
    let over = args.over;
    let mut steps = over.steps().to_vec();
    if !args.steps.is_empty() {
        steps = args.steps.iter().map(|&step| step as usize).collect();
    } else if args.common.quick {
        steps.retain(|&step| step <= 64);
    }
    let title = Title {
        bench: "scale",
        mode: over.mode(),
        meaning: over.meaning(),
        ours: &["outlive"],
        rate_of: None,
    };
    if args.together {
        return together(args, title, &steps);
    }
    let groups = steps
        .iter()
        .map(|&step| Group {
            setting: Some(over.setting(step)),
            rows: Vec::new(),
            baseline: match impediment::<Iceoryx2>(over, step, files) {
                None => <Iceoryx2 as Topic>::NAME,
                Some(_) => <Outlive as Topic>::NAME,
            },
            kinds_differ: over == Over::Discovery,
        })
        .collect();
    let mut field = Field { over, steps, files, groups, absent: Vec::new() };
    field.add::<Outlive>();
    field.add::<Iceoryx2>();
    let prepared = Prepared::of(title, Vec::new(), "").without(field.absent);
    measure(args, Prepared { groups: field.groups, ..prepared })
}

/// Measures all steps in one group.
fn together(args: &ScaleArgs, title: Title, steps: &[usize]) -> Result<ExitCode, Error> {
    let limits = steps.iter().find_map(|&step| Outlive::limit(args.over, step));
    if let Some(why) = limits {
        return Err(Error::Refused(why));
    }
    // As many names as there are steps, once in the program's life.
    let names: &'static [&'static str] = steps
        .iter()
        .map(|step| &*format!("{} {step}", <Outlive as Topic>::NAME).leak())
        .collect::<Vec<_>>()
        .leak();
    let rows = names.iter().zip(steps);
    let rows = rows.map(|(name, &step)| Row::<Outlive>::boxed(name, args.over, step)).collect();
    let first = names.first().ok_or_else(|| Error::Refused("no step is wanted".into()))?;
    let mut prepared = Prepared::of(Title { ours: names, ..title }, rows, first);
    for group in &mut prepared.groups {
        group.kinds_differ = args.over == Over::Discovery;
    }
    measure(args, prepared)
}

fn measure(args: &ScaleArgs, prepared: Prepared) -> Result<ExitCode, Error> {
    let _signals = outlive_bench::harness::begin(args.common.limit, args.common.nice)?;
    outlive_bench::harness::tell(
        &outlive_bench::harness::measure(prepared, &args.common)?,
        &args.common,
    )
}
