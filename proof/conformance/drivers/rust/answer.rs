//! Answers, and how messages are written in commands and answers.

use std::fmt::{Debug, Display};
use std::str::FromStr;
use std::time::{Duration, Instant};

/// What is said after a command: the line, or why it failed.
pub(crate) type Answer = Result<String, Refusal>;

pub(crate) struct Refusal {
    pub(crate) name: String,
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn new(name: &str, message: impl Display) -> Refusal {
        Refusal { name: name.to_owned(), message: message.to_string() }
    }
}

/// By its variant's name; of a variant that only carries another error, by that one's.
impl<E: Debug + Display> From<E> for Refusal {
    fn from(error: E) -> Refusal {
        let debug = format!("{error:?}");
        // A failure with an error inside; a service's has a text.
        let inside = debug.strip_prefix("Failed(").filter(|inside| !inside.starts_with('"'));
        let debug = inside.unwrap_or(&debug);
        let inner = debug
            .strip_prefix("System(")
            .or_else(|| debug.strip_prefix("Damaged("))
            .unwrap_or(debug);
        let end = inner.find(|c: char| !c.is_alphanumeric()).unwrap_or(inner.len());
        let begun = if inner.contains("begun: true") { "-begun" } else { "" };
        Refusal { name: inner[..end].to_owned() + begun, message: error.to_string() }
    }
}

pub(crate) fn done() -> Answer {
    Ok(String::new())
}

pub(crate) fn said(what: impl Display) -> Answer {
    Ok(format!("ok {what}"))
}

pub(crate) fn refused(name: &str, message: &str) -> Answer {
    Err(Refusal::new(name, message))
}

pub(crate) fn unknown(command: &str, args: &[&str]) -> Answer {
    refused("Usage", &format!("no command {command} with {} words", args.len()))
}

pub(crate) fn number<N: FromStr>(word: &str) -> Result<N, Refusal> {
    word.parse().map_err(|_| Refusal::new("Usage", format!("{word} is no number that fits")))
}

/// Milliseconds.
pub(crate) fn span(word: &str) -> Result<Duration, Refusal> {
    number(word).map(Duration::from_millis)
}

/// Milliseconds; `None` for `try`.
pub(crate) fn patience(word: &str) -> Result<Option<Duration>, Refusal> {
    if word == "try" { Ok(None) } else { span(word).map(Some) }
}

/// Returns what a call with that patience found; `None` if it found nothing in time.
pub(crate) fn got<T>(found: Option<T>, patience: Option<Duration>) -> Result<T, Refusal> {
    found.ok_or_else(|| match patience {
        None => Refusal::new("WouldBlock", "not to be had just now"),
        Some(_) => outlive::WaitError::TimedOut.into(),
    })
}

pub(crate) fn until(word: &str) -> Result<Instant, Refusal> {
    Ok(Instant::now() + span(word)?)
}

/// `KEY=NUMBER` among the options.
pub(crate) fn option<N: FromStr>(options: &[&str], key: &str) -> Result<Option<N>, Refusal> {
    let value = options.iter().find_map(|option| option.strip_prefix(key)?.strip_prefix('='));
    value.map(number).transpose()
}

/// For what guards borrow from.
pub(crate) fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

pub(crate) fn find<'a, V>(
    things: &'a mut std::collections::HashMap<String, V>,
    name: &str,
) -> Result<&'a mut V, Refusal> {
    things.get_mut(name).ok_or_else(|| Refusal::new("Usage", format!("nothing is called {name}")))
}

/// `SIZE*SEED`: byte i is (SEED + i) % 251.
pub(crate) fn pattern(size: usize, seed: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size);
    let mut byte = (seed % 251) as u8;
    for _ in 0..size {
        bytes.push(byte);
        byte = (byte + 1) % 251;
    }
    bytes
}

/// Returns a message as a command says it: `SIZE*SEED`, or the word itself.
pub(crate) fn message(word: &str) -> Result<Vec<u8>, Refusal> {
    match word.split_once('*') {
        Some((size, seed)) => Ok(pattern(number(size)?, number(seed)?)),
        None => Ok(word.as_bytes().to_vec()),
    }
}

/// Returns a message as an answer says it: up to 16 letters as they are, others by their pattern.
pub(crate) fn show(bytes: &[u8]) -> String {
    if (1..=16).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic) {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let seed = bytes.first().copied().unwrap_or(0);
    let mark =
        if is_pattern(bytes, u64::from(seed)) { seed.to_string() } else { "broken".to_owned() };
    format!("{}*{mark}", bytes.len())
}

pub(crate) fn is_pattern(bytes: &[u8], seed: u64) -> bool {
    let mut byte = (seed % 251) as u8;
    bytes.iter().all(|found| {
        let fits = *found == byte;
        byte = (byte + 1) % 251;
        fits
    })
}
