//! Plays the roles of crash tests: the victim of one operation, or a survivor that obeys orders.
//!
//! `victim SCENARIO victim DOMAIN RECHECK NAME CONTROL CPU` and `victim SCENARIO survivor DOMAIN
//! RECHECK NAME`, as the engine starts them. Exit code 1 when the operation fails, 2 for arguments
//! that make no sense.

use std::path::Path;
use std::process::ExitCode;

use outlive_testkit::engine::victim::Stage;
use outlive_testkit::scenario::{self, Place};
use outlive_testkit::world::{Recheck, survivor};

fn play(arguments: &[String]) -> Result<(), String> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [name, role, domain, recheck, own_name, rest @ ..] = words.as_slice() else {
        return Err(
            "usage: victim SCENARIO victim|survivor DOMAIN RECHECK NAME [CONTROL CPU]".to_owned()
        );
    };
    let scenario = scenario::find(name).ok_or_else(|| format!("no scenario is named {name}"))?;
    let recheck = Recheck::from_word(recheck).ok_or("RECHECK is off or on")?;
    let place = Place { domain: Path::new(domain), recheck, name: own_name };
    match (*role, rest) {
        ("victim", [control, cpu]) => {
            let stage = Stage::enter(Path::new(control), cpu.parse().ok())
                .map_err(|error| error.to_string())?;
            let performed = scenario.perform(&place, &stage);
            if let Err(problem) = &performed
                && stage.has_begun()
            {
                eprintln!("victim {name}: {problem}");
                // Told and lives on: what it had is still its own, until it is ended.
                stage.end_with_an_error(&problem);
            }
            performed
        }
        ("survivor", []) => {
            let mut member = scenario.member(&place)?;
            survivor::serve(member.as_mut()).map_err(|error| error.to_string())
        }
        _ => Err(format!("role {role} with {} more arguments makes no sense", rest.len())),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match play(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("victim {}: {problem}", arguments.join(" "));
            ExitCode::from(if arguments.len() < 5 { 2 } else { 1 })
        }
    }
}
