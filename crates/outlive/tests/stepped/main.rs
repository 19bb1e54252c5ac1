//! Operations that stand still at each of their instructions, while others go on: what `cargo xtask
//! crash` is for deaths, for two that meet.
//!
//! A main of its own, as of the processes' tests, whose runner, children and board these are: each
//! check runs in a process of one thread, which forks the one that it moves on.

mod barriers;
#[allow(dead_code, reason = "the other program uses all of it")]
#[path = "../processes/board.rs"]
mod board;
mod calls;
#[allow(dead_code, reason = "the other program uses all of it")]
#[path = "../processes/child.rs"]
mod child;
mod creating;
mod joining;
mod latest;
mod long_gone;
mod overwritten;
mod rings;
#[allow(dead_code, reason = "the other program uses all of it")]
#[path = "../processes/runner.rs"]
mod runner;
mod runs;
#[path = "../processes/services.rs"]
mod services;
mod steps;
mod sweeps;
mod taps;
mod tries;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let checks = [
        joining::CHECKS,
        latest::CHECKS,
        overwritten::CHECKS,
        creating::CHECKS,
        rings::CHECKS,
        long_gone::CHECKS,
        barriers::CHECKS,
        calls::CHECKS,
        runs::CHECKS,
        sweeps::CHECKS,
        taps::CHECKS,
        tries::CHECKS,
    ];
    std::process::exit(runner::run(&checks, &arguments));
}
