//! What the program says: events, and on a terminal a line that is written over.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use outlive_program::figures::{self, counted};
use outlive_record::control::Ended;
use outlive_record::{Counts, Recorder, Session};
use serde_json::{Value, json};

/// Prints an event of the recorder, unless it is for the file alone.
pub fn tell_event(event: &Value, json: bool) {
    let kind = event["event"].as_str().unwrap_or_default();
    if json {
        // These are told with what has been done.
        if !matches!(kind, "started" | "ended") {
            say_json(event);
        }
        return;
    }
    let topic = event["topic"].as_str().unwrap_or_default().escape_debug();
    let text = |key: &str| event[key].as_str().unwrap_or_default();
    let why = text("why");
    match kind {
        "missing" => match event["did_you_mean"].as_str() {
            Some(verb) => say(&mistyped(topic.to_string().as_str(), verb)),
            None => {
                let near = event["nearest"].as_str().map(|near| near.escape_debug());
                let meant = near.map(|near| format!(" (is '{near}' meant?)")).unwrap_or_default();
                say(&format!("waiting for a process to make '{topic}'{meant}"));
            }
        },
        "refused" => say(&format!("'{topic}' is not recorded: {why}")),
        "snapshot" => say(&snapshot(event)),
        "snapshot_failed" => {
            say(&format!("no snapshot ({}): {why}", text("reason").escape_debug()))
        }
        "window_dropped" => say(&format!("the last seconds are lost, because {why}")),
        _ => {}
    }
}

/// Says that a topic's name may be a command's.
pub fn mistyped(topic: &str, verb: &str) -> String {
    format!(
        "waiting for a process to make '{topic}' (is the command 'outlive record {verb}' meant? For a topic of this \
         name write 'outlive record -- {topic}')"
    )
}

/// What is missing, behind a comma.
fn missing(counts: &Counts) -> String {
    let all = [(counts.lost, "lost"), (counts.skipped, "skipped")];
    let some = all.iter().filter(|(count, _)| *count > 0);
    some.map(|(count, how)| format!(", {count} {how}")).collect()
}

/// Says which snapshot was written.
pub fn snapshot(event: &Value) -> String {
    let file = event["file"].as_str().unwrap_or_default();
    let number = |key: &str| event[key].as_u64();
    let count = match (number("messages"), number("events")) {
        (None, _) => String::new(),
        (Some(messages), events) => {
            let events = counted(events.unwrap_or(0), "event");
            format!("{} and {events} in ", counted(messages, "message"))
        }
    };
    // On one line, whatever is in it.
    let reason = event["reason"].as_str().unwrap_or_default().escape_debug();
    format!("{count}{file} ({reason})")
}

/// Writes a line to standard error. If its reader has gone, the recording goes on.
pub fn say(text: &str) {
    let mut out = std::io::stderr().lock();
    // The line that is written over.
    let start = if out.is_terminal() { "\r\x1b[K" } else { "" };
    let _ = writeln!(out, "{start}{text}");
}

/// Writes a line to standard output. If its reader has gone, the recording goes on.
pub fn say_json(line: &Value) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}");
}

/// Says what a recording came to.
pub fn ended_text(ended: &Ended, is_window: bool) -> String {
    let Ended { counts, files, has_removed, is_resumed } = ended;
    let place = match &files[..] {
        [] if is_window => String::new(),
        [] => return format!("nothing was there to record: no file is left{}", refused(counts)),
        [file] if *has_removed => format!(" in {} (older ones are removed)", file.display()),
        [file] => format!(" in {}", file.display()),
        [first, .., last] => {
            let removed = if *has_removed { "; older ones are removed" } else { "" };
            let files = counted(files.len() as u64, "file");
            format!(" in {files} ({} to {}{removed})", first.display(), last.display())
        }
    };
    let Counts { topics, queues, states, services, .. } = *counts;
    // One that was stopped before it ended records nothing any more.
    let things = match topics + queues + states + services {
        0 => String::new(),
        _ => format!(" of {}", things(counts)),
    };
    // The file has those of the recorders before it, too.
    let messages = counted(counts.messages, if *is_resumed { "more message" } else { "message" });
    format!("{messages}{things}{place}{}{}", missing(counts), refused(counts))
}

/// The same for a program.
pub fn ended_line(ended: &Ended) -> Value {
    let mut line = line("ended", &ended.counts, None);
    line["files"] = ended.files.iter().map(|file| file.to_string_lossy().into_owned()).collect();
    line
}

fn refused(counts: &Counts) -> String {
    match counts.refused {
        0 => String::new(),
        count => format!(", {count} could not be opened"),
    }
}

/// What is recorded, as "2 topics, 1 queue".
fn things(counts: &Counts) -> String {
    let Counts { topics, queues, states, services, .. } = *counts;
    let all = [(topics, "topic"), (queues, "queue"), (states, "state"), (services, "service")];
    let none = queues + states + services == 0;
    let there = all.iter().filter(|(count, kind)| *count > 0 || none && *kind == "topic");
    let shown = there.map(|(count, kind)| counted(*count as u64, kind));
    shown.collect::<Vec<_>>().join(", ")
}

fn line(event: &str, counts: &Counts, more: Option<(u64, Option<u64>)>) -> serde_json::Value {
    let Counts { messages, bytes, lost, skipped, refused, deaths, .. } = counts;
    let Counts { topics, queues, states, services, .. } = counts;
    let mut line = json!({
        "event": event, "messages": messages, "bytes": bytes, "lost": lost, "skipped": skipped, "topics": topics,
        "queues": queues, "states": states, "services": services, "refused": refused, "deaths": deaths,
    });
    if let (Some((file, left)), Some(object)) = (more, line.as_object_mut()) {
        object.insert("file_bytes".to_owned(), file.into());
        object.insert("disk_left".to_owned(), left.into());
    }
    line
}

/// What is told while it runs: on a terminal a line that is written over.
pub struct Telling {
    json: bool,
    is_seen: bool,
    told: Instant,
    before: Counts,
    has_line: bool,
}

impl Telling {
    pub fn new(json: bool) -> Telling {
        let is_seen = json || std::io::stderr().is_terminal();
        Telling { json, is_seen, told: Instant::now(), before: Counts::default(), has_line: false }
    }

    pub fn begin(&self, session: &Session) {
        if self.json {
            say_json(&json!({"event": "records", "file": session.file().to_string_lossy(),
                "topics": session.counts().topics}));
        }
    }

    pub fn tell(&mut self, session: &Session) {
        let span = self.told.elapsed();
        if !self.is_seen || span < Duration::from_secs(1) {
            return;
        }
        let now = session.counts();
        let seconds = span.as_secs_f64();
        let left = disk_left(&session.file());
        let file_len = session.recorder().map_or(0, Recorder::file_len);
        if self.json {
            say_json(&line("progress", &now, Some((file_len, left))));
        } else {
            let messages = (now.messages - self.before.messages) as f64 / seconds;
            let bytes = (now.bytes - self.before.bytes) as f64 / seconds;
            let left =
                left.map_or_else(String::new, |left| format!(", {} left", figures::bytes(left)));
            let lost = if now.lost == 0 { String::new() } else { format!(", {} LOST", now.lost) };
            let refused = refused(&now);
            let mut out = std::io::stderr().lock();
            let _ = write!(
                out,
                "\r\x1b[K{}  {messages:.0} msg/s  {}/s  {} written{lost}{refused}{left}",
                things(&now),
                figures::bytes(bytes as u64),
                figures::bytes(file_len),
            );
            let _ = out.flush();
            self.has_line = true;
        }
        (self.told, self.before) = (Instant::now(), now);
    }

    pub fn end_line(&mut self) {
        if std::mem::take(&mut self.has_line) {
            let _ = writeln!(std::io::stderr().lock());
        }
    }
}

fn disk_left(file: &Path) -> Option<u64> {
    let told = rustix::fs::statvfs(file).ok()?;
    Some(told.f_bavail.saturating_mul(told.f_frsize))
}
