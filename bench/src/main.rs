//! `outlive bench` with more rows: other libraries, which nobody who uses Outlive should have to build.
//!
//! The benchmarks are the files of `outlive bench` themselves, so rows, rounds and options are the same: `cargo run
//! --release -- pool --size 64`. Only `pool` has more rows here: `mimalloc` and `jemalloc`.

#[path = "../../crates/outlive-cli/src/bench/mod.rs"]
mod bench;
mod jemalloc;
mod mimalloc;

use clap::Parser;
use std::process::ExitCode;

/// Outlive's benchmarks, beside other libraries
#[derive(Parser)]
#[command(name = "outlive-bench", version)]
struct Arguments {
    #[command(flatten)]
    bench: bench::BenchArgs,
}

fn main() -> ExitCode {
    let ran = bench::run(&Arguments::parse().bench, |field| {
        field.add::<bench::pool::Called<mimalloc::Mimalloc>>();
        field.add::<bench::pool::Called<jemalloc::Jemalloc>>();
    });
    ran.unwrap_or_else(|error| {
        eprintln!("outlive-bench: {error}");
        ExitCode::FAILURE
    })
}
