//! `outlive demo`: the main job, to look at.
//!
//! ```text
//!   producer 0 ─┐                       ┌─ killed at random, replaced at once
//!   producer 1 ─┤  one lock  ┌───────┐  │
//!   producer 2 ─┼───────────▶│ queue │──┴▶ consumer
//!   producer 3 ─┘            └───────┘
//!        │                                    │
//!        ▼ acknowledged: length, checksum     ▼ received: length, checksum
//!     journals ─────────── audit ────────── journals
//! ```
//!
//! Beside it runs a robot, whose processes the parent kills, too: see `robot`.
//!
//! The parent is the killer and the auditor; it takes no part in the work, so its own figures do
//! not depend on what it checks. Each other member is a process of its own.

mod audit;
mod cast;
mod consumer;
mod dice;
mod direct;
mod journal;
mod ledger;
mod map;
mod material;
mod place;
mod producer;
mod record;
mod robot;
mod table;
mod verdict;
mod watch;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::cli::Common;
use crate::duration;
use crate::exit::{Code, Failure};
use crate::process;

pub use place::leftovers;

/// See it work: processes are killed at random, and nothing is lost
///
/// Producers send records, cut from real files, through one queue to a consumer, under one lock that
/// all of them take. Beside them runs a robot: two cameras and a LiDAR publish frames on topics,
/// four watchers take them (one each frame, one the newest only, one each frame reliably, one
/// slowly, holding six at once), and a logger takes what they say out of a queue. Processes of all
/// these kinds are killed at random moments, and replaced. At the end, each acknowledged record's
/// checksum is compared with what was received.
///
/// The exit code is 1 if a record was lost or changed, or came twice without being marked; if a
/// frame changed while it was held, or was lost for the reliable watcher; if a killed process was
/// still counted; or if a process hung. Ctrl-C ends the demo early, with the same comparison. The
/// demo has a domain of its own, which it removes at the end.
#[derive(Args, Debug)]
#[command(after_long_help = "Example:\n  \
    outlive demo --seconds 10s")]
pub struct DemoArgs {
    /// For how long to send and to kill
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::seconds)]
    pub seconds: Duration,
    /// How many producers run at a time
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u32).range(1..=ledger::MOST_SOURCES as i64))]
    pub producers: u32,
    /// Kill in the same order as a run that printed this seed
    #[arg(long)]
    pub seed: Option<u64>,
    /// Files to cut into records [default: this program and others found on the machine]
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Take the frames of the robot's cameras and LiDAR from the files of this folder: pictures,
    /// and scans (.bin, .pcd …) [default: made ones]
    #[arg(long, value_name = "DIR", conflicts_with = "no_robot")]
    pub data: Option<PathBuf>,
    /// Leave the robot out: only the queue and the lock
    #[arg(long)]
    pub no_robot: bool,
    /// Show the demo in the live view ('outlive top'), until one of the two ends
    #[arg(long)]
    pub watch: bool,
    /// Break a promise on purpose, to see that it is noticed
    #[arg(long, hide = true)]
    pub fault: Option<Fault>,
    /// How long a process may do nothing before it counts as hung
    #[arg(long, hide = true, value_name = "TIME", default_value = "10s", value_parser = duration::seconds)]
    pub patience: Duration,
}

/// Arguments of the hidden verb that the demo's processes run.
#[derive(Args, Debug)]
pub struct MemberArgs {
    role: Role,
    /// Which of the producers.
    index: u32,
    /// How many have been in its place before.
    life: u32,
    /// How many producers there are.
    sources: u32,
    /// The process to end with.
    parent: u32,
    /// The demo's folder.
    folder: PathBuf,
    #[arg(long)]
    fault: Option<Fault>,
}

/// What a process of the demo does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// Sends.
    Producer,
    /// Receives.
    Consumer,
    /// Of the robot: publishes.
    Sensor,
    /// Of the robot: subscribes.
    Watcher,
    /// Of the robot: writes the log.
    Logger,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Role::Producer => "producer",
            Role::Consumer => "consumer",
            Role::Sensor => "sensor",
            Role::Watcher => "watcher",
            Role::Logger => "logger",
        }
    }
}

/// A promise broken on purpose, once, by one producer or sensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Fault {
    /// A record is noted as acknowledged and not sent.
    Lose,
    /// A bit is changed on the way.
    Corrupt,
    /// A record is sent twice.
    Repeat,
    /// The total under the lock misses a record.
    Miscount,
    /// A producer does not end when asked to.
    Hang,
    /// A sensor changes a frame on the way.
    Scratch,
    /// A sensor leaves a frame out.
    Skip,
}

impl Fault {
    fn name(self) -> &'static str {
        match self {
            Fault::Lose => "lose",
            Fault::Corrupt => "corrupt",
            Fault::Repeat => "repeat",
            Fault::Miscount => "miscount",
            Fault::Hang => "hang",
            Fault::Scratch => "scratch",
            Fault::Skip => "skip",
        }
    }

    fn is_of_robot(self) -> bool {
        matches!(self, Fault::Scratch | Fault::Skip)
    }
}

/// Runs the verb.
pub fn run(args: &DemoArgs, common: &Common) -> Result<(), Failure> {
    watch::check(args)?;
    let verdict = direct::run(args)?;
    verdict.print(common.json)?;
    if verdict.ok { Ok(()) } else { Err(Failure::Silent(Code::CheckFailed as u8)) }
}

/// Runs the hidden verb.
pub fn run_member(args: &MemberArgs) -> Result<(), Failure> {
    // Ctrl-C goes to the whole foreground group, but when the demo ends is for the parent to say:
    // it has blocked the signals that it reads, and its children inherit that.
    let living = process::die_with_parent(args.parent)
        .map_err(|error| Failure::system("ask to end with the parent", &error))?;
    if !living {
        return Err(Failure::Silent(Code::System as u8));
    }
    // As its tokens, and so 'outlive top', name it.
    if let Ok(name) = std::ffi::CString::new(format!("demo-{}", args.role.name())) {
        let _ = rustix::thread::set_name(&name);
    }
    match args.role {
        Role::Producer => producer::run(args, &args.folder),
        Role::Consumer => consumer::run(args, &args.folder),
        Role::Sensor => robot::run_sensor(args, &args.folder),
        Role::Watcher => robot::run_watcher(args, &args.folder),
        Role::Logger => robot::run_logger(args, &args.folder),
    }
}
