//! How many instructions a message takes, by the topic's subscribers or publishers: Outlive's alone,
//! whose process may be killed where its loop ends. With `--over publishers`, published and taken: by
//! one of them, while the others are silent, and by all in turn.

use super::{BYTES, Domain, Over, PUBLISHERS, SUBSCRIBERS, ScaleArgs};
use crate::peers::{Outlive, OutliveStamped, Publish, Shape, Subscribe, Wait, write_number};
use crate::steps::{self, Loop, Row};
use clap::{Args, ValueEnum};
use outlive_bench::harness::round;
use outlive_bench::harness::scratch::Scratch;
use outlive_bench::{self, Error};
use outlive_testkit::engine::victim::Stage;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Messages before the first that counts.
const WARM: u64 = 256;

/// What the loop does.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    /// Publishes to so many subscribers.
    Subscribers,
    /// Publishes and takes, among so many publishers.
    Publishers,
    /// The same, each of them in turn.
    InTurn,
    /// The same with stamps.
    Stamped,
}

impl Case {
    fn of(over: Over) -> Option<&'static [Case]> {
        match over {
            Over::Subscribers => Some(&[Case::Subscribers]),
            Over::Publishers => Some(&[Case::Publishers, Case::InTurn, Case::Stamped]),
            Over::Topics | Over::Discovery => None,
        }
    }

    /// Returns the row's name.
    fn name(self, step: usize) -> String {
        match self {
            Case::Subscribers => format!("outlive, {step} subscribers"),
            Case::Publishers => format!("outlive, {step} publishers"),
            Case::InTurn => format!("outlive, {step} in turn"),
            Case::Stamped => format!("outlive stamped, {step} in turn"),
        }
    }

    fn word(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// The arguments of the program that publishes.
#[derive(Args, Clone, Debug)]
pub(crate) struct PublisherArgs {
    control: PathBuf,
    #[arg(value_enum)]
    case: Case,
    step: usize,
    count: u64,
}

/// Counts all, and tells.
pub(super) fn run(args: &ScaleArgs) -> Result<ExitCode, Error> {
    let cases = Case::of(args.over).ok_or_else(|| {
        Error::Refused("--instructions goes with --over subscribers and --over publishers".into())
    })?;
    let steps: Vec<usize> = match (&args.steps[..], args.over) {
        ([], Over::Publishers) => PUBLISHERS.to_vec(),
        ([], _) => SUBSCRIBERS.to_vec(),
        (asked, _) => asked.iter().map(|&step| step as usize).collect(),
    };
    let scratch = Scratch::new()?;
    let path = std::env::current_exe()
        .map_err(|source| Error::System { doing: "finding this program", source })?;
    steps::begin();
    let (mut rows, mut base) = (Vec::new(), None);
    for (case, &step) in cases.iter().flat_map(|&case| steps.iter().map(move |step| (case, step))) {
        let name = case.name(step);
        let counted = Loop { name: &name, path: &path, scratch: &scratch }.once(|turn| {
            let control = turn.control.to_string_lossy().into_owned();
            let (step, count) = (step.to_string(), turn.count.to_string());
            vec!["scale-publisher".to_owned(), control, case.word(), step, count]
        })?;
        rows.push(Row::new(name, counted, base));
        base.get_or_insert(counted);
    }
    let meaning = match args.over {
        Over::Publishers => "of a message of 64 B published and taken",
        _ => "of a message of 64 B published",
    };
    steps::tell("scale", meaning, &rows, args.common.json)
}

/// Runs in a process of its own, which has all the publishers and subscribers.
pub(crate) fn publish(args: &PublisherArgs) -> Result<ExitCode, Error> {
    match args.case {
        Case::Stamped => publish_by::<OutliveStamped>(args),
        _ => publish_by::<Outlive>(args),
    }
}

fn publish_by<D: Domain>(args: &PublisherArgs) -> Result<ExitCode, Error> {
    let stage = Stage::enter(&args.control, None)
        .map_err(|error| Error::told("beginning to be stepped", error))?;
    // Beside the control page, since nothing is dropped here.
    let scratch = Scratch::under(args.control.parent().unwrap_or(Path::new("/dev/shm")))?;
    let turn = round::Stage {
        scratch,
        ..outlive_bench::harness::stage(None, outlive::WaitStrategy::Spin)?
    };
    let (subscribers, publishers) = match args.case {
        Case::Subscribers => (args.step, 1),
        _ => (1, args.step),
    };
    let shape =
        Shape { subscribers, publishers, lossless: false, ..Shape::pair(BYTES, Wait::Busy) };
    let place = D::place(&turn, "there", shape)?;
    let session = D::session(&place)?;
    let mut subscribers = (0..subscribers)
        .map(|_| D::subscriber_of(&session, 0))
        .collect::<Result<Vec<_>, Error>>()?;
    let mut publishers =
        (0..publishers).map(|_| D::publisher_of(&session, 0)).collect::<Result<Vec<_>, Error>>()?;
    let active = if args.case == Case::Publishers { 1 } else { publishers.len() };
    let takes = args.case != Case::Subscribers;
    let mut step = |number: u64| -> Result<(), Error> {
        let publisher = &mut publishers[number as usize % active];
        publisher.publish(BYTES, |message| write_number(message, number))?;
        if takes { subscribers[0].receive(|_| ()) } else { Ok(()) }
    };
    (0..WARM).try_for_each(&mut step)?;
    stage.begin();
    (0..args.count).try_for_each(&mut step)?;
    stage.end();
    Ok(ExitCode::SUCCESS)
}
