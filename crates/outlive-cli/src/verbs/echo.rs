//! `outlive echo`: what is published on a topic, on standard output.

use std::time::Duration;

use clap::Args;
use outlive::TokenId;
use outlive::describe::{Description, Encoding};
use outlive::sync::Holder;
use outlive::topic::{Durability, Sample, Subscriber, Topic};
use serde::Serialize;
use serde_json::Value;

use crate::array::Array;
use crate::cli::Common;
use crate::described::{self, Shown};
use crate::duration;
use crate::exit::{Code, Failure};
use crate::framing::{Framing, write_record};
use crate::msgpack;
use crate::output;
use crate::payload::{Output, OutputArgs, Stdout, is_text};
use crate::verbs::subscribing::{Came, Subscribing};

/// Print the messages that are published on a topic
///
/// echo goes on until it is interrupted (exit code 0), or as its options say. Publishers may come,
/// die and come back meanwhile. echo counts on standard error the messages that were overwritten
/// before it had taken them.
///
/// On a terminal and in a pipe each message is a line: text as it is, an array from Python as its
/// type, shape and first items, a message of a described type as JSON, its first 256 numbers,
/// msgpack as JSON where the topic's description names it, anything else as hexadecimal, its first
/// 64 bytes. In a file to which standard output is redirected, text is a line, a message of a
/// described type is JSON with all of its numbers, a line, and any other message is its bytes and
/// nothing else. With --output or --raw every message is its bytes and nothing else.
///
/// What --sessions, --period and --liveliness have echo say stands on standard error; with --json it
/// is a line of standard output, in its place among the messages: an object whose member 'news' is
/// new_session, missed, not_lively, lively or publisher_died, beside topic, session, seconds,
/// publisher (its pid) and program.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive topic echo drive --msgpack\n  \
    outlive topic echo camera --count 1 --output picture.jpg\n  \
    outlive topic echo camera --raw | ffplay -f rawvideo -\n  \
    outlive topic echo poses --reliable --json | jq .stamp")]
pub struct EchoArgs {
    /// The topic's name; echo waits for a topic that is not there, and prints it from its first
    /// message on
    topic: String,
    #[command(flatten)]
    form: FormArgs,
    #[command(flatten)]
    output: OutputArgs,
    /// End after N messages
    #[arg(long, short = 'n', value_name = "N")]
    count: Option<u64>,
    /// Begin with the last N messages of each publisher, as far as the topic still has them: those
    /// of publishers that are gone only if it is persistent
    #[arg(long, value_name = "N", default_value_t = 0)]
    history: u32,
    /// Skip the older ones when more than N messages of a publisher wait to be printed
    #[arg(long, value_name = "N")]
    keep_last: Option<u32>,
    /// Make publishers wait for echo, rather than overwrite messages that it has not taken. Fails
    /// if the topic does not offer that ('outlive topic pub --reliable' does)
    #[arg(long)]
    reliable: bool,
    /// Skip messages that are older than this, by their stamps, and say how many there were. Fails if
    /// the topic has no stamps [default: forever]
    #[arg(long, value_name = "TIME", value_parser = duration::or_forever)]
    max_age: Option<Duration>,
    /// Say before the first message of each start of a publisher that it is one
    #[arg(long)]
    sessions: bool,
    /// Say whenever no message has come for this time
    #[arg(long, value_name = "TIME", value_parser = duration::seconds)]
    period: Option<Duration>,
    /// Say when a publisher lives and does nothing for this time, when it does something again, and
    /// when one dies
    #[arg(long, value_name = "TIME", value_parser = duration::seconds)]
    liveliness: Option<Duration>,
    /// Print only messages with this key, a number; may be given several times
    #[arg(long, value_name = "KEY")]
    key: Vec<u64>,
    /// Give up with exit code 5 when no message has come for this time [default: wait for ever]
    #[arg(long, short = 'w', value_name = "TIME", value_parser = duration::seconds)]
    timeout: Option<Duration>,
}

/// In what form messages are written. What is written without one of these: see `payload`.
#[derive(Args, Debug, Clone, Copy)]
#[group(multiple = false)]
struct FormArgs {
    /// Write the bytes of the messages one after the other, with nothing in between
    #[arg(long, short)]
    raw: bool,
    /// Write a newline behind each message
    #[arg(long)]
    lines: bool,
    /// Write a NUL behind each message
    #[arg(long, short = '0')]
    null: bool,
    /// Write each message's length before it, in 4 little-endian bytes
    #[arg(long, short = 'p')]
    length_prefixed: bool,
    /// Write each message whole as hexadecimal, a line each
    #[arg(long, short = 'x')]
    hex: bool,
    /// Read messages as msgpack, and write them as JSON, a line each
    #[arg(long)]
    msgpack: bool,
    /// Write messages of a described type as JSON with all of their numbers, a line each; --json
    /// does so, too
    #[arg(long, conflicts_with = "output")]
    full: bool,
}

enum Form {
    /// For a person.
    Shown,
    /// For a file: text a line each, values of a described type as JSON, anything else its bytes alone.
    Kept,
    /// For a person who wants to see all of it.
    Full,
    Hex,
    Msgpack,
    Framed(Framing),
}

impl FormArgs {
    fn form(self, output: &OutputArgs) -> Form {
        match self {
            FormArgs { raw: true, .. } => Form::Framed(Framing::Raw),
            FormArgs { lines: true, .. } => Form::Framed(Framing::Lines),
            FormArgs { null: true, .. } => Form::Framed(Framing::Null),
            FormArgs { length_prefixed: true, .. } => Form::Framed(Framing::LengthPrefixed),
            FormArgs { hex: true, .. } => Form::Hex,
            FormArgs { msgpack: true, .. } => Form::Msgpack,
            FormArgs { full: true, .. } => Form::Full,
            _ if output.is_file() => Form::Framed(Framing::Raw),
            _ if Stdout::look() == Stdout::File => Form::Kept,
            _ => Form::Shown,
        }
    }
}

/// A message, with --json.
#[derive(Serialize)]
struct Told<'a> {
    sequence: u64,
    /// The process that published it, while that is known.
    publisher: Option<u32>,
    /// Nanoseconds since 1970, if its publisher said so.
    stamp: Option<u64>,
    /// Which start of a publisher it is of.
    session: u32,
    publisher_alive: bool,
    key: u64,
    frame: u64,
    bytes: usize,
    /// Of an array, as numpy calls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    dtype: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shape: Option<Vec<u32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    /// What is no UTF-8, two digits a byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
    /// With --msgpack, or by the description that the topic has of its messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Meaning<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Meaning<'a> {
    Value(Value),
    Shown(Shown<'a>),
}

/// Runs the verb.
pub fn run(args: &EchoArgs, common: &Common) -> Result<(), Failure> {
    let FormArgs { raw, lines, null, length_prefixed, .. } = args.form;
    common.refuse_json_beside(&[
        ("--raw", raw),
        ("--lines", lines),
        ("--null", null),
        ("--length-prefixed", length_prefixed),
        ("--output", args.output.is_file()),
    ])?;
    let mut options = Subscriber::options()
        .reliable(args.reliable)
        .history(args.history)
        .keys(&args.key)
        .sessions(args.sessions);
    if let Some(age) = args.max_age {
        options = options.max_age(age);
    }
    if let Some(period) = args.period {
        options = options.period(period);
    }
    if let Some(lease) = args.liveliness {
        options = options.liveliness(lease);
    }
    if let Some(keep_last) = args.keep_last {
        options = options.keep_last(keep_last);
    }
    let mut subscribing = Subscribing::begin(&args.topic, options, args.timeout, common)?;
    if args.history > 0
        && let Some(topic) = subscribing.topic()
        && let Some(why) = without_history(topic)
    {
        output::talk(format_args!("nothing is kept of '{}': {why}", args.topic.escape_debug()));
    }
    let has_no_publisher = |topic: &Topic<[u8]>| args.history == 0 && topic.publishers().is_empty();
    if output::is_watched() && subscribing.topic().is_some_and(has_no_publisher) {
        let topic = args.topic.escape_debug();
        output::talk(format_args!("'{topic}' has no publisher; waiting for one"));
    }
    let form = args.form.form(&args.output);
    let output = args.output.open()?;
    let mut publishers = Publishers::default();
    let mut shown = 0;
    let mut result = Ok(());
    while shown < args.count.unwrap_or(u64::MAX) {
        match subscribing.next(None) {
            Ok(Came::Sample(sample)) => {
                let publisher =
                    if common.json { publishers.pid(&subscribing, &sample) } else { None };
                let description = subscribing.description();
                let json = common.json.then_some(publisher);
                result = write(&sample, description, &form, &output, json);
            }
            Ok(Came::News(news)) => {
                news.tell(common)?;
                continue;
            }
            Ok(Came::Moment) => continue,
            Ok(Came::End) => break,
            Err(failure) => result = Err(failure),
        }
        if result.is_err() {
            break;
        }
        shown += 1;
    }
    subscribing.tell_passed(true);
    result
}

/// Returns why a subscriber that comes now gets nothing of what was published before, if so.
fn without_history(topic: &Topic<[u8]>) -> Option<&'static str> {
    match topic.config().durability {
        Durability::Persistent => None,
        Durability::Volatile => Some("it is volatile; waiting for what is published from now on"),
        _ if !topic.publishers().is_empty() => None,
        _ => Some(
            "its publishers are gone, and it is transient_local; waiting for what is published from \
             now on (a topic made with '--durability persistent' keeps messages)",
        ),
    }
}

/// `json`: as JSON, with the process that published it.
fn write(
    sample: &Sample<[u8]>,
    description: Option<&Description>,
    form: &Form,
    output: &Output,
    json: Option<Option<u32>>,
) -> Result<(), Failure> {
    let bytes = sample.bytes();
    let value = || {
        msgpack::to_json(bytes).map_err(|why| {
            Failure::new(
                Code::BadInput,
                format!("message {} is no msgpack: {why}", sample.sequence()),
            )
        })
    };
    // A program and a file get all of it, and so does a person that asks for it.
    let is_whole = json.is_some() || matches!(form, Form::Full | Form::Kept);
    let most = if is_whole { usize::MAX } else { described::SHOWN };
    let fields = match form {
        Form::Shown | Form::Kept | Form::Full => {
            description.and_then(|one| Shown::new(one, bytes, most))
        }
        _ => None,
    };
    let is_json_text = description.is_some_and(|one| one.encoding() == Encoding::Json);
    if let Some(publisher) = json {
        let value = match form {
            Form::Msgpack => Some(Meaning::Value(value()?)),
            Form::Shown | Form::Kept | Form::Full if is_json_text => {
                serde_json::from_slice(bytes).ok().map(Meaning::Value)
            }
            _ => fields.map(Meaning::Shown),
        };
        let text = std::str::from_utf8(bytes)
            .ok()
            .filter(|_| value.is_none() && !matches!(form, Form::Hex));
        let hex = (text.is_none() && value.is_none()).then(|| hex(bytes));
        let header = sample.header();
        let array = Array::of(&header.own, bytes.len());
        let told = Told {
            sequence: sample.sequence(),
            publisher,
            stamp: (header.stamp != 0).then_some(header.stamp),
            session: sample.session(),
            publisher_alive: sample.publisher_alive(),
            key: header.key,
            frame: header.frame,
            bytes: bytes.len(),
            dtype: array.as_ref().map(|array| array.dtype),
            shape: array.map(|array| array.shape),
            text,
            hex,
            value,
        };
        return output::print_json(&told);
    }
    let line = |text: &str| output.with(|out| write_record(out, Framing::Lines, text.as_bytes()));
    match (form, fields) {
        (Form::Full | Form::Kept, Some(fields)) => return output::print_json(&fields),
        (Form::Shown, Some(fields)) => {
            let text = serde_json::to_string(&fields).map_err(std::io::Error::from);
            return line(&text.map_err(|error| Failure::system("write a message", &error))?);
        }
        // One that has several lines; one line is shown as it is.
        (Form::Shown | Form::Full, None) if is_json_text && bytes.contains(&b'\n') => {
            if let Ok(value) = serde_json::from_slice::<Value>(bytes) {
                return line(&value.to_string());
            }
        }
        _ => {}
    }
    match form {
        Form::Framed(framing) => output.with(|out| write_record(out, *framing, bytes)),
        Form::Kept if is_text(bytes) => output.with(|out| write_record(out, Framing::Lines, bytes)),
        Form::Kept => output.with(|out| write_record(out, Framing::Raw, bytes)),
        Form::Hex => line(&hex(bytes)),
        Form::Msgpack => line(&value()?.to_string()),
        Form::Shown | Form::Full => line(&match Array::of(&sample.header().own, bytes.len()) {
            Some(array) => array.shown(bytes),
            None => shown(bytes),
        }),
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Bytes of a message that a person is shown when it is no text.
const SHOWN: usize = 64;

/// Returns a message on a line: text that a terminal takes as it is, or the beginning in
/// hexadecimal.
pub fn shown(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if text.chars().all(|c| c == '\t' || !c.is_control()) => text.to_owned(),
        _ if bytes.len() <= SHOWN => hex(bytes),
        _ => format!("{}… {} bytes", hex(&bytes[..SHOWN]), output::count(bytes.len() as u64)),
    }
}

/// Whose tokens are whose: asked once for each publisher.
#[derive(Default)]
struct Publishers(Vec<Holder>);

impl Publishers {
    fn pid(&mut self, subscribing: &Subscribing, sample: &Sample<[u8]>) -> Option<u32> {
        let token = sample.publisher()?;
        let known = |all: &[Holder], token: TokenId| {
            all.iter().find(|one| one.token == token).map(|one| one.pid)
        };
        known(&self.0, token).or_else(|| {
            self.0 = subscribing.topic()?.publishers();
            known(&self.0, token)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_shown_as_it_is_and_nothing_reaches_a_terminal_that_it_would_obey() {
        assert_eq!(shown("größe\t1".as_bytes()), "größe\t1");
        assert_eq!(shown(b""), "");
        assert_eq!(shown(b"\x1b[2J"), "1b5b324a");
        assert_eq!(shown(&[0xff; 64]), "ff".repeat(64));
        assert_eq!(shown(&[0xff; 1234]), format!("{}… 1,234 bytes", "ff".repeat(64)));
    }
}
