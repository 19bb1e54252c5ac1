//! Everything once, as short as can be: that it runs and is told of, not what it tells. For a test
//! command.

use crate::{death, pubsub, rpc, scale};
use clap::{Args, Parser, Subcommand};
use outlive_bench::{self, Error};
use std::process::ExitCode;

/// What is run, as it would be typed. No Aeron, whose programs take seconds to start.
const RUNS: [&[&str]; 9] = [
    &["pubsub", "--size", "64,1MiB", "--peer", "outlive,iceoryx2,zeromq,boost_mq,posix_mq"],
    &[
        "pubsub",
        "--size",
        "4KiB",
        "--wait",
        "busy",
        "--touch",
        "every",
        "--peer",
        "outlive,iceoryx2",
    ],
    &["pubsub", "--what", "rate", "--peer", "outlive,iceoryx2"],
    &["pubsub", "--what", "s2-large", "--peer", "outlive,iceoryx2"],
    &["rpc", "--size", "64"],
    &["scale", "--over", "subscribers", "--steps", "1,60"],
    &["scale", "--over", "publishers", "--steps", "1,30"],
    &["scale", "--over", "topics", "--steps", "1,16"],
    &["scale", "--over", "discovery", "--steps", "1,16"],
];
/// Two rounds of short turns.
const SHORT: [&str; 5] = ["--quick", "--rounds", "2", "--turn-ms", "2"];

/// One run's arguments.
#[derive(Parser)]
struct Run {
    #[command(subcommand)]
    which: Which,
}

#[derive(Subcommand)]
enum Which {
    Pubsub(pubsub::PubsubArgs),
    Rpc(rpc::RpcArgs),
    Scale(scale::ScaleArgs),
}

/// The arguments of `smoke`: none.
#[derive(Args, Clone, Debug)]
pub(crate) struct SmokeArgs {}

/// Runs it.
pub(crate) fn run(_: &SmokeArgs) -> Result<ExitCode, Error> {
    let mut passed = 0;
    for words in RUNS {
        let run = Run::try_parse_from(["outlive-peers"].iter().chain(words).chain(&SHORT));
        match run.map_err(|error| Error::Refused(error.to_string()))?.which {
            Which::Pubsub(args) => pubsub::run(&args)?,
            Which::Rpc(args) => rpc::run(&args)?,
            Which::Scale(args) => scale::run(&args)?,
        };
        passed += 1;
    }
    pubsub::idle()?;
    death::run(&death::DeathArgs::quick())?;
    passed += 2;
    outlive_bench::harness::print(&format!("{passed} passed, 0 failed\n"))
}
