//! What the program says on standard output: a line for each event.

use std::io::Write;
use std::sync::Mutex;
use std::sync::PoisonError;

use serde::Serialize;

/// An event.
#[derive(Serialize)]
pub struct Event<'a> {
    /// `listens`, `refused`, `died`, `damaged`.
    pub event: &'static str,
    /// The name of the thing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<&'a str>,
    /// Where clients connect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<&'a str>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<&'a str>,
}

/// Prints events.
pub struct Told {
    json: bool,
    /// Lines of several threads stay whole.
    out: Mutex<()>,
}

impl Told {
    /// Prints lines for people, or as JSON.
    pub fn new(json: bool) -> Told {
        Told { json, out: Mutex::new(()) }
    }

    /// Prints one. A reader that has gone is no reason to end.
    pub fn tell(&self, event: &Event<'_>) {
        let line = match self.json {
            true => serde_json::to_string(event).unwrap_or_default(),
            false => [event.event]
                .into_iter()
                .chain(event.name)
                .chain(event.url)
                .chain(event.why)
                .map(|part| part.escape_debug().to_string())
                .collect::<Vec<_>>()
                .join("  "),
        };
        let _whole = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }

    /// Prints that a thing cannot be seen, and why.
    pub fn refused(&self, name: &str, why: &str) {
        self.tell(&Event { event: "refused", name: Some(name), url: None, why: Some(why) });
    }
}
