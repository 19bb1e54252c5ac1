//! How many instructions publishing one message takes, by the topic's subscribers: Outlive's alone,
//! whose process may be killed where its loop ends.

use super::{BYTES, Domain, Over, SUBSCRIBERS, ScaleArgs};
use crate::peers::{Outlive, Publish, Shape, Topic, Wait, write_number};
use crate::steps::{self, Loop, Row};
use clap::Args;
use outlive_bench::harness::round;
use outlive_bench::harness::scratch::Scratch;
use outlive_bench::{self, Error};
use outlive_testkit::engine::victim::Stage;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Messages before the first that counts.
const WARM: u64 = 256;

/// The arguments of the program that publishes.
#[derive(Args, Clone, Debug)]
pub(crate) struct PublisherArgs {
    control: PathBuf,
    subscribers: usize,
    count: u64,
}

/// Counts all, and tells.
pub(super) fn run(args: &ScaleArgs) -> Result<ExitCode, Error> {
    if args.over != Over::Subscribers {
        return Err(Error::Refused("--instructions goes with --over subscribers".into()));
    }
    let steps: Vec<usize> = match &args.steps[..] {
        [] => SUBSCRIBERS.to_vec(),
        asked => asked.iter().map(|&step| step as usize).collect(),
    };
    let scratch = Scratch::new()?;
    let path = std::env::current_exe()
        .map_err(|source| Error::System { doing: "finding this program", source })?;
    steps::begin();
    let (mut rows, mut base) = (Vec::new(), None);
    for subscribers in steps {
        let name = format!("outlive, {subscribers} subscribers");
        let counted = Loop { name: &name, path: &path, scratch: &scratch }.once(|turn| {
            let control = turn.control.to_string_lossy();
            let words =
                ["scale-publisher", &control, &subscribers.to_string(), &turn.count.to_string()];
            words.map(str::to_owned).to_vec()
        })?;
        rows.push(Row::new(name, counted, base));
        base.get_or_insert(counted);
    }
    steps::tell("scale", "of a message of 64 B published", &rows, args.common.json)
}

/// Runs in a process of its own, which publishes and has all the subscribers.
pub(crate) fn publish(args: &PublisherArgs) -> Result<ExitCode, Error> {
    let stage = Stage::enter(&args.control, None)
        .map_err(|error| Error::told("beginning to be stepped", error))?;
    // Beside the control page, since nothing is dropped here.
    let scratch = Scratch::under(args.control.parent().unwrap_or(Path::new("/dev/shm")))?;
    let turn = round::Stage {
        scratch,
        ..outlive_bench::harness::stage(None, outlive::WaitStrategy::Spin)?
    };
    let shape =
        Shape { subscribers: args.subscribers, lossless: false, ..Shape::pair(BYTES, Wait::Busy) };
    let place = Outlive::place(&turn, "there", shape)?;
    let session = Outlive::session(&place)?;
    let subscriber = |_| Outlive::subscriber_of(&session, 0);
    let subscribers = (0..args.subscribers).map(subscriber).collect::<Result<Vec<_>, Error>>()?;
    let mut publisher = Outlive::publisher_of(&session, 0)?;
    let mut publish =
        |number: u64| publisher.publish(BYTES, |message| write_number(message, number));
    (0..WARM).try_for_each(&mut publish)?;
    stage.begin();
    (0..args.count).try_for_each(&mut publish)?;
    stage.end();
    drop(subscribers);
    Ok(ExitCode::SUCCESS)
}
