//! Places in which Linux programs run that allow less than a plain login does: each check runs the
//! main operations inside one, beside a partner outside (operations.rs), and has a verdict. What
//! this machine does not permit is skipped, by name.
//!
//! A main of its own, as of the processes' tests, whose runner, children and board these are.

#[allow(dead_code, reason = "the other program uses all of it")]
#[path = "../processes/asleep.rs"]
mod asleep;
#[allow(dead_code, reason = "the other program uses all of it")]
#[path = "../processes/board.rs"]
mod board;
mod cgroups;
#[allow(dead_code, reason = "the other program uses all of it")]
#[path = "../processes/child.rs"]
mod child;
mod docker;
mod filter;
mod limits;
mod names;
mod operations;
#[allow(dead_code, reason = "the other program uses all of it")]
#[path = "../processes/runner.rs"]
mod runner;
mod systemd;
mod users;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let all = [
        docker::CHECKS,
        names::CHECKS,
        users::CHECKS,
        limits::CHECKS,
        cgroups::CHECKS,
        systemd::CHECKS,
    ];
    std::process::exit(runner::run(&all, &arguments));
}
