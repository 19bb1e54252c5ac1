//! What the bridge says: talk on standard error; with `--json`, counts and events on standard output.

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::io::Write;
use std::time::{Duration, Instant};

use serde::Serialize;

/// What has happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Messages that the other side has, once and for all.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Messages that were found to be on the other side already, and were not sent twice.
    pub duplicates: u64,
    /// Messages marked as redelivered, or of which a predecessor may have sent one already.
    pub redelivered: u64,
    /// Messages that the other side refuses, put aside.
    pub set_aside: u64,
    /// How often the bridge began anew: with the connection, or behind a publish without an answer.
    pub again: u64,
}

#[derive(Serialize)]
struct Line<'a> {
    event: &'a str,
    #[serde(flatten)]
    counts: Counts,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
}

/// Says what happens.
pub struct Teller {
    json: bool,
    /// What happened so far.
    pub counts: Cell<Counts>,
    last: Cell<Option<(Instant, Counts)>>,
    /// The last trouble that was told: the same is told once.
    trouble: RefCell<String>,
}

const BETWEEN: Duration = Duration::from_secs(1);

impl Teller {
    /// Makes one.
    pub fn new(json: bool) -> Teller {
        Teller { json, counts: Cell::default(), last: Cell::new(None), trouble: RefCell::default() }
    }

    /// Says a thing to the person.
    pub fn talk(&self, text: impl Display) {
        // A closed standard error is no reason to stop carrying messages.
        let _ = writeln!(std::io::stderr().lock(), "outlive queue bridge: {text}");
    }

    /// Says that something is in the way, once until it is gone.
    pub fn trouble(&self, text: impl Display) {
        let text = text.to_string();
        if *self.trouble.borrow() == text {
            return;
        }
        self.talk(&text);
        self.event("trouble", Some(&text));
        *self.trouble.borrow_mut() = text;
    }

    /// Says that nothing is in the way any more, if something was.
    pub fn well(&self) {
        if !self.trouble.borrow().is_empty() {
            self.trouble.borrow_mut().clear();
            self.talk("goes on");
            self.event("goes_on", None);
        }
    }

    /// Counts.
    pub fn count(&self, add: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.get();
        add(&mut counts);
        self.counts.set(counts);
        if self.json {
            let due =
                self.last.get().is_none_or(|(at, told)| at.elapsed() >= BETWEEN && told != counts);
            if due {
                self.last.set(Some((Instant::now(), counts)));
                self.event("progress", None);
            }
        }
    }

    /// Prints a line of JSON, with `--json`.
    pub fn event(&self, event: &str, text: Option<&str>) {
        if !self.json {
            return;
        }
        let line = Line { event, counts: self.counts.get(), text };
        let mut out = std::io::stdout().lock();
        let _ = serde_json::to_writer(&mut out, &line);
        let _ = out.write_all(b"\n").and_then(|()| out.flush());
    }
}
