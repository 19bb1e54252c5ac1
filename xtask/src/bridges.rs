//! `cargo xtask bridges`: what carries Outlive beyond one machine, in a workspace of its own.
//!
//! It is no part of the test command: it compiles some 400 crates, and its servers come from Debian.
//! CI runs both, by `cargo xtask test --bridges`.

use std::process::{Command, ExitCode};

use crate::count::Count;
use crate::install::{self, Need};
use crate::paths::root;
use crate::stage::{self, Counts};
use crate::test::cargo;

/// What the tests start; a test whose program is not there says so and is skipped.
const NEEDS: [Need; 5] = [
    Need {
        program: "nats-server",
        package: "nats-server",
        why: "durable queues are bridged to it",
    },
    Need {
        program: "etcd",
        package: "etcd-server",
        why: "locks of several machines are kept by it",
    },
    Need { program: "etcdctl", package: "etcd-client", why: "makes the users of a test's etcd" },
    Need { program: "nft", package: "nftables", why: "loses packets between two namespaces" },
    Need { program: "ip", package: "iproute2", why: "makes the namespaces" },
];

/// Runs `cargo xtask bridges [--no-install] [NAME]`.
pub(crate) fn run(args: &[String]) -> ExitCode {
    let (flags, names): (Vec<_>, Vec<_>) = args.iter().partition(|arg| arg.starts_with('-'));
    let may_install = match flags[..] {
        [] => true,
        [flag] if flag == "--no-install" => false,
        _ => return usage(),
    };
    let name = match names[..] {
        [] => None,
        [name] => Some(name.as_str()),
        _ => return usage(),
    };
    let count = all(may_install, name);
    println!("{count}");
    if count.failed == 0 && count.passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn usage() -> ExitCode {
    eprintln!("usage: cargo xtask bridges [--no-install] [NAME]");
    ExitCode::from(2)
}

/// Runs all stages, or of the tests those whose name contains `name`.
pub(crate) fn all(may_install: bool, name: Option<&str>) -> Count {
    for program in install::install(&NEEDS.each_ref(), may_install) {
        println!("{program} is not there: the tests that start it are skipped");
    }
    let mut total = Count::default();
    if name.is_none() {
        total.add(stage::run(
            "format of the bridges",
            cargo_there(&["fmt", "--all", "--", "--check"]),
            Counts::ByExit,
        ));
        let clippy = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
        total.add(stage::run("clippy of the bridges", cargo_there(&clippy), Counts::ByExit));
    }
    let mut tests = cargo_there(&["test", "--workspace", "--no-fail-fast"]);
    tests.args(name);
    total.add(stage::run("bridges", tests, Counts::ByLines));
    total
}

/// Returns cargo's command in the bridges' workspace.
fn cargo_there(args: &[&str]) -> Command {
    let mut command = cargo(args);
    command.current_dir(root().join("bridges"));
    command
}
