//! `outlive doctor`: what this machine can do, what is missing, what dead processes left.
//!
//! It looks, and changes something only with `--repair`. Each finding says what it means; each
//! fault, what to do.

mod folder;
mod kernel;
mod limits;
pub mod locks;
mod logind;
mod memory;

use clap::Args;
use serde::Serialize;

use crate::cli::Common;
use crate::exit::{Code, Failure};
use crate::output::{self, counted, talk};

/// Look for what is missing or amiss on this machine
///
/// The exit code is 1 if something does not work. doctor changes nothing, unless --repair is given.
#[derive(Args, Debug)]
#[command(after_long_help = "Example:\n  \
    outlive doctor")]
pub struct DoctorArgs {
    /// Mend what can be mended: permissions of the domain's folder, leftovers of the dead
    #[arg(long, visible_alias = "fix")]
    repair: bool,
}

/// How a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be.
    Good,
    /// Worth knowing; things work.
    Note,
    /// Something does not work, or will not.
    Fault,
    /// Was a fault or a leftover, and has been mended.
    Mended,
}

/// Something that was looked at.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// What was looked at.
    name: &'static str,
    state: State,
    /// What was found.
    found: String,
    /// What it means, or what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

impl Finding {
    /// Says that all is well.
    pub fn good(name: &'static str, found: impl Into<String>) -> Finding {
        Finding { name, state: State::Good, found: found.into(), advice: None }
    }

    /// Says something that is worth knowing.
    pub fn note(
        name: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Finding {
        Finding { name, state: State::Note, found: found.into(), advice: Some(advice.into()) }
    }

    /// Says that something is wrong.
    pub fn fault(
        name: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Finding {
        Finding { name, state: State::Fault, found: found.into(), advice: Some(advice.into()) }
    }

    /// Says that something was mended.
    pub fn mended(name: &'static str, found: impl Into<String>) -> Finding {
        Finding { name, state: State::Mended, found: found.into(), advice: None }
    }
}

#[derive(Serialize)]
struct Report {
    ok: bool,
    domain: String,
    findings: Vec<Finding>,
}

/// Runs the verb.
pub fn run(args: &DoctorArgs, common: &Common) -> Result<(), Failure> {
    let path = common.domain.path();
    let mut findings = kernel::look(&path);
    findings.extend(limits::look(&path));
    findings.push(memory::group());
    findings.extend(folder::look(&common.domain, args.repair));
    findings.extend(logind::look(&path));
    let faults = findings.iter().filter(|finding| finding.state == State::Fault).count() as u64;
    if common.json {
        output::print_json(&Report {
            ok: faults == 0,
            domain: path.display().to_string(),
            findings,
        })?;
    } else {
        output::print(findings.iter().map(told).collect::<String>())?;
    }
    if faults == 0 {
        return Ok(());
    }
    talk(format_args!("{} found", counted(faults, "fault")));
    Err(Failure::Silent(Code::CheckFailed as u8))
}

fn told(finding: &Finding) -> String {
    let mark = match finding.state {
        State::Good => "ok",
        State::Note => "note",
        State::Fault => "FAULT",
        State::Mended => "mended",
    };
    let mut text = format!("{mark:<6}  {:<18}  {}\n", finding.name, finding.found);
    if let Some(advice) = &finding.advice {
        text.push_str(&format!("{:28}{advice}\n", ""));
    }
    text
}
