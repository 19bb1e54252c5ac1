//! What a gateway tells people, and programs that read its lines: which publishers came, left or died,
//! which senders cannot be reached, and what was refused or lost.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;

use crate::wire::Origin;

/// A line.
#[derive(Debug, Serialize)]
pub struct Event<'e> {
    /// What happened: `sends`, `receives`, `came`, `died`, `left`, `unreachable`, `lost`, `uncertain`,
    /// `slow`, `refused`, `waits`, `acts`, `alone`; of services `offers`, `withdraws`, `serves`, `leaves`,
    /// `yields`.
    pub event: &'static str,
    /// The topic, the service, or the key.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub name: &'e str,
    /// The other domain, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// The publisher's session there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<u32>,
    /// How many messages, or calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<u64>,
    /// Why.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub why: &'e str,
}

impl<'e> Event<'e> {
    /// Returns an event about that topic or key.
    pub fn of(event: &'static str, name: &'e str) -> Event<'e> {
        Event { event, name, origin: None, session: None, messages: None, why: "" }
    }

    /// Names the other domain.
    pub fn from(mut self, origin: Origin) -> Event<'e> {
        self.origin = Some(format!("{:032x}", origin.0));
        self
    }

    /// Names the session.
    pub fn session(mut self, session: u32) -> Event<'e> {
        self.session = Some(session);
        self
    }

    /// Says how many.
    pub fn messages(mut self, messages: u64) -> Event<'e> {
        self.messages = Some(messages);
        self
    }

    /// Says why.
    pub fn because(mut self, why: &'e str) -> Event<'e> {
        self.why = why;
        self
    }
}

/// Returns what an error of zenoh's says, without the place in its source.
#[must_use]
pub fn said(error: &zenoh::Error) -> String {
    let text = error.to_string();
    text.split(" at /").next().unwrap_or_default().to_owned()
}

/// Where the lines go.
#[derive(Clone)]
pub struct Told {
    json: bool,
    to: Arc<Mutex<Box<dyn Write + Send>>>,
}

impl Told {
    /// Lines of text, or of JSON, to that place.
    pub fn new(json: bool, to: Box<dyn Write + Send>) -> Told {
        Told { json, to: Arc::new(Mutex::new(to)) }
    }

    /// Writes one. A reader that has gone is no reason to stop.
    pub fn tell(&self, event: &Event<'_>) {
        let line =
            if self.json { serde_json::to_string(event).unwrap_or_default() } else { text(event) };
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = writeln!(to, "{line}").and_then(|()| to.flush());
    }
}

fn text(event: &Event<'_>) -> String {
    // A key from the network may hold anything.
    let mut line = format!("{}  {}", event.event, event.name.escape_debug());
    if let Some(session) = event.session {
        line += &format!("  session {session}");
    }
    if let Some(origin) = &event.origin {
        line += &format!("  of {}", &origin[..8]);
    }
    if let Some(messages) = event.messages {
        line += &format!("  {messages} messages");
    }
    if !event.why.is_empty() {
        line += &format!(": {}", event.why);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_is_known() {
        let event =
            Event::of("lost", "a\nb").session(3).messages(2).because("the ring had no more");
        assert_eq!(text(&event), "lost  a\\nb  session 3  2 messages: the ring had no more");
        let json = serde_json::to_string(&Event::of("came", "a").from(Origin(1))).expect("JSON");
        assert!(json.starts_with("{\"event\":\"came\",\"name\":\"a\",\"origin\":\"000"), "{json}");
    }
}
