//! Boost.Interprocess under the shim: what it does for it, and what it cannot.

mod programs;

use std::path::Path;
use std::process::{Command, Stdio};

use programs::{Place, Running, compile, skip};

fn is_there() -> bool {
    let compiler =
        Command::new("g++").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let there = compiler.is_ok_and(|status| status.success())
        && Path::new("/usr/include/boost/interprocess/sync/interprocess_sharable_mutex.hpp")
            .exists();
    if !there {
        skip("g++ and Boost.Interprocess are not both there");
    }
    there
}

fn start(place: &Place, verb: &str) -> Running {
    let mut command = place.command(&compile("g++", "boost.cpp"));
    command.arg(place.path("locks")).arg(verb);
    Running::start(command, verb)
}

#[test]
fn an_interprocess_mutex_survives_its_holder() {
    if !is_there() {
        return;
    }
    for place in Place::without_and_with("boost") {
        start(&place, "init").all_lines();
        let holder = start(&place, "hold");
        holder.until("hold");
        let waiter = start(&place, "take");
        waiter.falls_asleep();
        holder.kill();
        if place.with_shim {
            assert_eq!(waiter.all_lines(), "take");
        } else {
            waiter.hangs();
        }
    }
}

/// It counts its readers in words of its own, which do not say which threads they are.
#[test]
fn an_interprocess_sharable_mutex_does_not_survive_a_reader_with_the_shim_either() {
    if !is_there() {
        return;
    }
    for place in Place::without_and_with("boost-sharable") {
        start(&place, "init").all_lines();
        let reader = start(&place, "share");
        reader.until("share");
        reader.kill();
        start(&place, "write").hangs();
    }
}
