//! `outlive bench` with more rows and more benchmarks: other libraries, which users of
//! Outlive should not have to build.
//!
//! | command | what is told |
//! | --- | --- |
//! | `pubsub` | messages from one process to others: latency, rate, Shadesmar's tables, processor time while idle |
//! | `rpc` | a request there and a reply back |
//! | `scale` | what publishing costs as subscribers, publishers and topics grow; discovery |
//! | `c` | calls from C beside Rust's own, by time or by instructions |
//! | `record` | recorders of messages: how fast |
//! | `death` | a process that others wait for is killed: when they go on |
//! | `smoke` | all of these, as short as can be: whether they run, not what they tell |
//! | `pool` and the others | those of `outlive bench`, whose very files these are; `pool` has `mimalloc` and `jemalloc` too |
//!
//! The peers are in `peers`, one file for each, behind a few traits. One that is not installed or
//! cannot do a case is named as left out.

mod c;
mod death;
mod jemalloc;
mod mimalloc;
mod peers;
mod pubsub;
mod record;
mod rpc;
mod scale;
mod smoke;
mod steps;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Outlive's benchmarks, beside other libraries
#[derive(Parser)]
#[command(name = "outlive-peers", version)]
struct Arguments {
    #[command(subcommand)]
    which: Which,
}

#[derive(Subcommand)]
enum Which {
    /// Messages between processes, beside iceoryx2, ZeroMQ, Boost, POSIX, Aeron, zenoh
    Pubsub(pubsub::PubsubArgs),
    /// A request and its reply, beside iceoryx2, ZeroMQ and a Unix socket
    Rpc(rpc::RpcArgs),
    /// What publishing costs as subscribers, publishers and topics grow
    Scale(scale::ScaleArgs),
    /// Recorders of messages, beside iceoryx2's
    Record(record::RecordArgs),
    /// A process that others wait for is killed: when they go on
    Death(death::DeathArgs),
    /// Calls from C beside Rust's own
    C(c::CArgs),
    /// What `c` starts for Rust's rows
    #[command(hide = true)]
    CCaller(c::calls::CallsArgs),
    /// What `scale --instructions` starts
    #[command(hide = true)]
    ScalePublisher(scale::instructions::PublisherArgs),
    /// All of these, as short as can be: that they run, not what they tell
    Smoke(smoke::SmokeArgs),
    #[command(flatten)]
    Alone(outlive_bench::suite::Which),
}

fn main() -> ExitCode {
    let ran = match Arguments::parse().which {
        Which::Pubsub(args) => pubsub::run(&args),
        Which::Rpc(args) => rpc::run(&args),
        Which::Scale(args) => scale::run(&args),
        Which::Record(args) => record::run(&args),
        Which::Death(args) => death::run(&args),
        Which::C(args) => c::run(&args),
        Which::CCaller(args) => c::calls::run(&args),
        Which::ScalePublisher(args) => scale::instructions::publish(&args),
        Which::Smoke(args) => smoke::run(&args),
        Which::Alone(which) => outlive_bench::run(&outlive_bench::BenchArgs { which }, |field| {
            field.add::<outlive_bench::suite::pool::Called<mimalloc::Mimalloc>>();
            field.add::<outlive_bench::suite::pool::Called<jemalloc::Jemalloc>>();
        }),
    };
    ran.unwrap_or_else(|error| {
        eprintln!("outlive-peers: {error}");
        ExitCode::FAILURE
    })
}
