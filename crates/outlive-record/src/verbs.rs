//! `outlive record start|stop|status|trigger|split`: telling a recorder what to do.
//!
//! A trigger that finds no living recorder, or one that does not answer, writes the file itself.

use std::time::{Duration, Instant};

use outlive::rpc::{CallError, Service};
use outlive::sync::Holder;
use outlive::{Domain, Kind};
use outlive_program::exit::{Code, Failure};
use outlive_program::figures::{self, count, counted};
use outlive_program::open_domain;
use outlive_record::Error;
use outlive_record::control::{PREFIX, ask, service_name};
use outlive_record::left::{self, Released};
use serde_json::{Value, json};

use crate::args::{Args, Verb, Which};
use crate::failure;
use crate::telling::{say_json, snapshot as told_snapshot};

/// Carries a verb out.
pub fn run(args: &Args, verb: &Verb) -> Result<(), Failure> {
    if args.is_recording_asked() {
        let text = "start, stop, status, trigger and split are commands; a topic of that name is named behind \
                    '--': outlive record -- trigger";
        return Err(Failure::new(Code::Usage, text));
    }
    let domain = open_domain(args.domain.as_deref(), args.group.as_deref(), false)?;
    let (which, request) = match verb {
        Verb::Trigger { which, reason, output } => {
            return trigger(args, &domain, which, reason.as_deref(), output.as_deref());
        }
        Verb::Start(which) => (which, json!({"do": "start"})),
        Verb::Stop(which) => (which, json!({"do": "stop"})),
        Verb::Status(which) => (which, json!({"do": "status"})),
        Verb::Split(which) => (which, json!({"do": "split"})),
    };
    let name = named(&domain, which)?;
    match (asked(&domain, &name, &request, which.timeout)?, verb) {
        (Ok(status), _) => say(args, &status, status_text(&status)),
        (
            Err(None | Some(CallError::NoServer | CallError::ServerDied { begun: false })),
            Verb::Stop(_),
        ) => match left::release(&domain, &name).map_err(failure)? {
            Some(Released { topics, window, snapshots }) => {
                for event in &snapshots {
                    crate::telling::say(&told_snapshot(event));
                }
                let told = json!({"state": "removed", "topics": topics, "window": window,
                    "snapshots": snapshots.len()});
                let seconds = if window { "its last seconds are removed, and " } else { "" };
                let text = format!(
                    "the recorder '{}' had been killed: {seconds}its place is given up in {}, whose publishers wait for \
                     no next recorder of this name",
                    name.escape_debug(),
                    counted(topics, "topic"),
                );
                say(args, &told, text);
            }
            None => return Err(no_recorder(&name)),
        },
        (Err(Some(CallError::NoServer)), _) if server_of(&domain, &name).is_some() => {
            return Err(dead(&domain, &name));
        }
        (Err(None | Some(CallError::NoServer)), _) => return Err(no_recorder(&name)),
        (Err(Some(CallError::ServerDied { begun: false })), _) => return Err(dead(&domain, &name)),
        (Err(Some(error)), _) => return Err(refusal(&error)),
    }
    Ok(())
}

fn trigger(
    args: &Args,
    domain: &Domain,
    which: &Which,
    reason: Option<&str>,
    output: Option<&str>,
) -> Result<(), Failure> {
    let name = named(domain, which)?;
    let mut request = json!({"do": "trigger"});
    for (key, value) in [("reason", reason), ("file", output)] {
        if let Some(value) = value {
            request[key] = value.into();
        }
    }
    // A time that is too long for a clock is longer than any recorder lives.
    let end = Instant::now() + which.timeout.min(LONGEST);
    let busy = Error::Busy.to_string();
    let answer = loop {
        let rest = end.saturating_duration_since(Instant::now());
        match asked(domain, &name, &request, rest)? {
            // One that begins, perhaps in the place of a dead one, will serve.
            Err(None | Some(CallError::NoServer | CallError::ServerDied { begun: false }))
                if !rest.is_zero() && left::is_kept(domain, &name).map_err(failure)? =>
            {
                std::thread::sleep(AGAIN);
            }
            // It writes one that was asked for before.
            Err(Some(CallError::Failed(why))) if !rest.is_zero() && why == busy => {
                std::thread::sleep(AGAIN);
            }
            answer => break answer,
        }
    };
    let events = match answer {
        Ok(event) => vec![event],
        // None lives, it died with the trigger, or it is stopped: what it has kept is there.
        Err(
            None
            | Some(CallError::NoServer | CallError::ServerDied { .. } | CallError::TimedOut { .. }),
        ) => {
            let own = format!("asked for by outlive record trigger ({})", std::process::id());
            let reason = reason.unwrap_or(&own);
            left::without_recorder(domain, &name, reason, output).map_err(failure)?
        }
        Err(Some(error)) => return Err(refusal(&error)),
    };
    for event in &events {
        say(args, event, told_snapshot(event));
    }
    Ok(())
}

/// How soon a trigger asks again.
const AGAIN: Duration = Duration::from_millis(10);
/// The longest wait for an answer.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Returns the recorder that is meant. One that was killed, and has left its name here, is meant if none runs.
fn named(domain: &Domain, which: &Which) -> Result<String, Failure> {
    if let Some(name) = &which.name {
        return Ok(name.clone());
    }
    let names = domain.contents()?.names.into_iter();
    let recorders = names.filter_map(|service| {
        let name = service.strip_prefix(PREFIX)?;
        domain.kind_of(&service).is_ok_and(|kind| kind == Kind::Service).then(|| name.to_owned())
    });
    let (living, dead): (Vec<_>, Vec<_>) = recorders
        .map(|name| (server_of(domain, &name), name))
        .partition(|(server, _)| server.as_ref().is_some_and(|server| server.alive));
    let listed = |some: &[(Option<Holder>, String)]| {
        let shown = some.iter().map(|(server, name)| match server {
            Some(server) => format!("{} (process {})", name.escape_debug(), server.pid),
            None => name.escape_debug().to_string(),
        });
        shown.collect::<Vec<_>>().join(", ")
    };
    match (&living[..], &dead[..]) {
        ([(_, one)], _) | ([], [(_, one)]) => Ok(one.clone()),
        ([], []) => {
            let text = "no recorder with a name runs here; one gets its name by --as";
            Err(Failure::new(Code::NotFound, text))
        }
        ([], dead) => {
            let dead = listed(dead);
            let text = format!(
                "no recorder runs here; of those that were killed, name one by --as: {dead}"
            );
            Err(Failure::new(Code::Usage, text))
        }
        (living, _) => {
            let text = format!("which recorder? Name one by --as: {}", listed(living));
            Err(Failure::new(Code::Usage, text))
        }
    }
}

/// Returns the process that has served as that recorder last, dead or alive.
fn server_of(domain: &Domain, name: &str) -> Option<Holder> {
    Service::open_as_bytes(domain, &service_name(name)).ok()?.current_server()
}

/// Asks the recorder; `Err(None)`: there is no service.
fn asked(
    domain: &Domain,
    name: &str,
    request: &Value,
    span: Duration,
) -> Result<Result<Value, Option<CallError>>, Failure> {
    match ask(domain, name, request, span) {
        Ok(answer) => Ok(answer.map_err(Some)),
        Err(outlive::Error::NotFound { .. }) => Ok(Err(None)),
        Err(error) => Err(error.into()),
    }
}

fn no_recorder(name: &str) -> Failure {
    Failure::new(Code::NotFound, format!("no recorder '{}' runs here", name.escape_debug()))
}

fn dead(domain: &Domain, name: &str) -> Failure {
    let process = match server_of(domain, name) {
        Some(server) if server.pid > 0 => format!(" (process {})", server.pid),
        _ => String::new(),
    };
    let name = name.escape_debug();
    let text = format!(
        "the recorder '{name}'{process} was killed. Start it again by the same command line, and it goes on where it was; \
         'outlive record stop --as {name}' gives that up, so that no publisher waits for it; 'trigger' writes the last \
         seconds of one with --snapshot"
    );
    Failure::new(Code::ReceiverDied, text)
}

fn refusal(error: &CallError) -> Failure {
    let code = match error {
        CallError::Failed(_) => Code::CheckFailed,
        CallError::ServerDied { .. } => Code::ReceiverDied,
        CallError::TimedOut { .. } => Code::TimedOut,
        _ => Code::System,
    };
    Failure::new(code, error)
}

fn say(args: &Args, value: &Value, text: String) {
    match args.json {
        true => say_json(value),
        // Its reader may have gone.
        false => drop(std::io::Write::write_fmt(&mut std::io::stdout(), format_args!("{text}\n"))),
    }
}

fn status_text(status: &Value) -> String {
    let number = |key: &str| status[key].as_u64().unwrap_or(0);
    let place = match (&status["window"], status["file"].as_str()) {
        (Value::Object(window), _) => {
            let bytes = |key: &str| figures::bytes(window[key].as_u64().unwrap_or(0));
            let span = window["span_s"].as_f64().unwrap_or(0.0);
            format!("the last {span} s, {} of {}", bytes("bytes"), bytes("max_bytes"))
        }
        // The counts are of all files.
        (_, Some(file)) => format!("last file {file}"),
        _ => String::new(),
    };
    let state = status["state"].as_str().unwrap_or_default();
    let mut kinds = counted(number("topics"), "topic");
    for (key, word) in [("queues", "queue"), ("states", "state"), ("services", "service")] {
        if number(key) > 0 {
            kinds += &format!(", {}", counted(number(key), word));
        }
    }
    // One that is stopped records nothing now.
    let kinds = if state == "stopped" { String::new() } else { format!(" of {kinds}") };
    let (messages, lost) = (counted(number("messages"), "message"), count(number("lost")));
    let skipped = match number("skipped") {
        0 => String::new(),
        skipped => format!(", {} skipped", count(skipped)),
    };
    format!("{state}: {messages}{kinds}, {lost} lost{skipped}; {place}")
}
