//! The program `outlive-record`, which `outlive record` becomes.

mod args;
mod telling;
mod verbs;

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use outlive::{Domain, Kind};
use outlive_program::exit::{Code, Failure, code_of_io};
use outlive_program::names::nearest;
use outlive_program::{Supervisor, block_signals, open_domain};
use outlive_record::{Error, Options, Session};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};

use crate::args::Args;
use crate::telling::{Telling, ended_line, ended_text, mistyped, say, say_json, tell_event};

/// How soon a signal is noticed.
const SLICE: Duration = Duration::from_millis(100);

fn main() -> ExitCode {
    let args = Args::of_process();
    // A limit on a file's size is an error of the write, as a full disk is.
    // SAFETY: no handler is set, and no other thread runs yet.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let ran = match &args.verb {
        Some(verb) => verbs::run(&args, verb),
        None => run(&args),
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            say(&format!("outlive record: {}", failure.message));
            ExitCode::from(failure.code as u8)
        }
    }
}

fn run(args: &Args) -> Result<(), Failure> {
    let system =
        |error| Failure::new(Code::System, format!("could not take over signals: {error}"));
    let mut all = vec![libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
    // Elsewhere it ends the program, as it always has.
    all.extend(args.is_window().then_some(libc::SIGUSR1));
    let mut signals = File::from(block_signals(&all).map_err(system)?);
    raise_limit();
    let options = args.options();
    if options.snapshot.is_none() {
        // Before it waits for a domain.
        has_folder(&options.output)?;
    }
    let begun = Instant::now();
    // One that the clock cannot name does not come.
    let end = args.duration.and_then(|span| begun.checked_add(span));
    let Some(domain) = wait_for_domain(args, &mut signals, end)? else { return Ok(()) };
    check_names(args, &domain)?;
    let (json, own) = (args.json, args.clone());
    let options = Box::new(move || {
        let told = Box::new(move |event: &Value| tell_event(event, json));
        Options { told, ..own.options() }
    });
    let mut session = Session::begin(&domain, options, args.paused).map_err(failure)?;
    let mut telling = Telling::new(args.json);
    telling.begin(&session);
    let mut is_snapshot_asked = false;
    let mut supervisor = Supervisor::of_environment();
    supervisor.ready();
    while end.is_none_or(|end| Instant::now() < end) {
        supervisor.goes_on();
        match read_signal(&mut signals) {
            Some(libc::SIGUSR1) => is_snapshot_asked = true,
            Some(_) => break,
            None => {}
        }
        if is_snapshot_asked {
            match session.trigger("SIGUSR1") {
                // When the one before is written.
                Err(Error::Busy) => {}
                told => {
                    is_snapshot_asked = false;
                    told.unwrap_or_else(|error| say(&format!("outlive record: {error}")));
                }
            }
        }
        let slice = Instant::now() + SLICE;
        if let Err(error) = session.step(supervisor.next().map_or(slice, |next| slice.min(next))) {
            telling.end_line();
            return Err(ended_by(error, args));
        }
        telling.tell(&session);
    }
    supervisor.stopping();
    telling.end_line();
    let is_window = args.is_window();
    let ended = session.end().map_err(|error| ended_by(error, args))?;
    if args.json {
        say_json(&ended_line(&ended));
    } else {
        say(&ended_text(&ended, is_window));
    }
    Ok(())
}

/// Refuses a file whose folder is not there.
fn has_folder(output: &Path) -> Result<(), Failure> {
    let folder = output.parent().filter(|folder| *folder != Path::new(""));
    match folder.unwrap_or(Path::new(".")).metadata() {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(no_folder(output, std::io::ErrorKind::NotADirectory.into())),
        Err(error) => Err(no_folder(output, error)),
    }
}

fn no_folder(output: &Path, error: std::io::Error) -> Failure {
    failure(Error::Io { doing: "make", path: output.to_owned(), error })
}

/// Returns the signal that has come, if one has.
fn read_signal(signals: &mut File) -> Option<i32> {
    let mut read = [0; 128];
    signals.read_exact(&mut read).ok()?;
    Some(i32::from_le_bytes([read[0], read[1], read[2], read[3]]))
}

/// Opens the domain, once it is there: its maker knows what it is to be. `None`: told to end before.
fn wait_for_domain(
    args: &Args,
    signals: &mut File,
    end: Option<Instant>,
) -> Result<Option<Domain>, Failure> {
    let mut is_told = false;
    loop {
        match open_domain(args.domain.as_deref(), args.group.as_deref(), false) {
            Err(outlive::Error::NotFound { path }) => {
                if !std::mem::replace(&mut is_told, true) {
                    say(&format!("waiting for a process to make the domain {}", path.display()));
                    if let ([name], Some(verb)) = (args.topics(), args.mistyped_verb()) {
                        say(&mistyped(&name.escape_debug().to_string(), verb));
                    }
                }
                // One that asks for a snapshot asks for nothing yet.
                let is_asked_to_end =
                    read_signal(signals).is_some_and(|signal| signal != libc::SIGUSR1);
                if is_asked_to_end || end.is_some_and(|end| Instant::now() >= end) {
                    return Ok(None);
                }
                std::thread::sleep(SLICE);
            }
            other => return Ok(Some(other?)),
        }
    }
}

/// Refuses names that no topic can have, or that other things have; tells which topics are not there yet.
fn check_names(args: &Args, domain: &Domain) -> Result<(), Failure> {
    for name in args.topics() {
        match domain.kind_of(name) {
            Ok(kind) if args.kinds().has(kind) => {}
            Ok(kind) => {
                let option = match kind {
                    Kind::Queue | Kind::State | Kind::Service => {
                        format!(": --{kind}s records it, too")
                    }
                    _ => String::new(),
                };
                let text = format!("'{}' is a {kind} and no topic{option}", name.escape_debug());
                return Err(Failure::new(Code::Mismatch, text));
            }
            Err(outlive::Error::NotFound { .. }) => {
                let mut event = json!({"event": "missing", "topic": name});
                if let Some(verb) = args.mistyped_verb() {
                    event["did_you_mean"] = verb.into();
                } else if let Some(near) = nearest(name, recorded(args, domain)) {
                    event["nearest"] = near.into();
                }
                tell_event(&event, args.json);
            }
            // It is told as refused.
            Err(error) if !matches!(error, outlive::Error::InvalidName { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Returns the names of what is there and would be recorded, if it were asked for.
fn recorded(args: &Args, domain: &Domain) -> impl Iterator<Item = String> {
    let names = domain.contents().map(|contents| contents.names).unwrap_or_default();
    let (kinds, domain) = (args.kinds(), domain.clone());
    let is_recorded = move |name: &String| domain.kind_of(name).is_ok_and(|kind| kinds.has(kind));
    names.into_iter().filter(is_recorded)
}

/// Each topic takes open files. The soft limit is for programs that use select; if it cannot be raised,
/// topics are refused, and that is told.
fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Returns why the recording ends; of a full disk, what is to be done with the file that is whole up to there.
fn ended_by(error: Error, args: &Args) -> Failure {
    let is_full = matches!(error, Error::File(outlive_mcap::Error::NoSpace { .. }));
    let mut failure = failure(error);
    if is_full && !args.is_window() {
        failure.message +=
            "; '--resume' goes on in this file, and 'outlive bag recover --in-place' ends it";
    }
    failure
}

/// Returns why it ends, with the code that other programs have for that.
pub(crate) fn failure(error: Error) -> Failure {
    match error {
        Error::Outlive(error) => error.into(),
        Error::Receive { error, .. } => error.into(),
        error => {
            let code = match &error {
                Error::NoWindow(_) => Code::NotFound,
                Error::NoName(_) => Code::BadName,
                Error::Exists(_)
                | Error::NameTaken(_)
                | Error::Running { .. }
                | Error::File(outlive_mcap::Error::Locked { .. }) => Code::Busy,
                Error::File(outlive_mcap::Error::NoSpace { .. }) => Code::NoSpace,
                Error::Io { error, .. } | Error::File(outlive_mcap::Error::Io { error, .. }) => {
                    code_of_io(error)
                }
                Error::File(
                    outlive_mcap::Error::NotMcap { .. }
                    | outlive_mcap::Error::NotResumable { .. }
                    | outlive_mcap::Error::OtherVersion { .. }
                    | outlive_mcap::Error::Damaged { .. }
                    | outlive_mcap::Error::TwoChannels { .. },
                ) => Code::BadInput,
                _ => Code::System,
            };
            Failure::new(code, error)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    #[test]
    fn what_the_system_refuses_has_the_code_that_other_verbs_have() {
        for (kind, code) in [
            (ErrorKind::PermissionDenied, Code::Permission),
            (ErrorKind::NotFound, Code::NotFound),
            (ErrorKind::StorageFull, Code::NoSpace),
            (ErrorKind::Interrupted, Code::System),
        ] {
            let own = Error::Io { doing: "make", path: "f".into(), error: kind.into() };
            let of_file =
                outlive_mcap::Error::Io { doing: "make", path: "f".into(), error: kind.into() };
            for error in [own, Error::File(of_file)] {
                assert_eq!(failure(error).code, code, "{kind}");
            }
        }
    }
}
