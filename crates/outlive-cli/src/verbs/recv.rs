//! `outlive recv`: from a queue into a pipe or files.
//!
//! At least once: a message leaves the queue when it has been written. Killed in between, the next
//! receiver gets it again and says so.

use std::fs;
use std::io::stdout;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use outlive::describe::Description;
use outlive::queue::{Queue, Receiver};
use outlive::{Deadline, Domain, RecvError};
use serde::Serialize;

use crate::cli::Common;
use crate::described::{self, Shown};
use crate::duration;
use crate::exit::Failure;
use crate::framing::{Framing, FramingArgs, write_record};
use crate::output::{self, talk};
use crate::payload::{Output, OutputArgs, Stdout};
use crate::progress::Progress;
use crate::signals::{SLICE, Signals};
use crate::verbs::awaited::{Awaited, Found};
use crate::verbs::role;
use crate::verbs::send::MakeArgs;

/// Receive messages from a queue and write them to standard output, one a line
///
/// recv goes on until it is interrupted (exit code 0), or as its options say. A message leaves the
/// queue when recv has written it. If recv is killed before that, the next receiver gets the
/// message again, and says on standard error that it may have been written before.
///
/// A queue has one receiver at a time. While another process is the receiver, recv waits up to a
/// second for it to end, because a process that was just killed takes a moment to end; then recv
/// fails with exit code 12 and names it. With --standby it waits as long as that process receives,
/// and takes over when it ends. A queue that is not there is waited for, and its first sender makes
/// it. If an option says how a new queue is to be, recv makes it.
///
/// A newline follows each message, whatever is in the message. For the bytes alone, choose
/// --output, --raw or --file; if messages may hold newlines, choose --null, --length-prefixed or
/// --json.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive queue recv jobs | while read -r job; do echo \"$job\"; done\n  \
    outlive queue recv --until-idle 0 jobs > left-over.txt\n  \
    outlive queue recv --count 1 --output picture.jpg images\n  \
    outlive queue recv --json jobs | jq .text")]
pub struct RecvArgs {
    /// The queue's name; a queue that is not there is waited for
    queue: String,
    #[command(flatten)]
    framing: FramingArgs,
    /// Write the bytes of the messages one after the other, with nothing in between
    #[arg(long, short, conflicts_with_all = ["null", "length_prefixed"])]
    raw: bool,
    /// Write each message into the next FILE, and end after the last
    #[arg(long, short, num_args = 1.., value_name = "FILE", conflicts_with_all = ["null", "length_prefixed", "raw", "output"])]
    file: Vec<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
    /// End after N messages
    #[arg(long, short = 'n', value_name = "N")]
    count: Option<u64>,
    /// End when no message has come for this time (exit code 0, or 6 when there is no queue yet);
    /// 0 takes what is there
    #[arg(long, value_name = "TIME", value_parser = duration::seconds)]
    until_idle: Option<Duration>,
    /// End when there has been a sender, no sender is left, and all messages are received
    #[arg(long)]
    until_senders_gone: bool,
    /// While another process is the receiver, wait until it leaves or dies, and then take over
    #[arg(long)]
    standby: bool,
    #[command(flatten)]
    made: MakeArgs,
}

/// A message, with --json.
#[derive(Serialize)]
struct Told<'a> {
    bytes: usize,
    redelivered: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    /// What is no UTF-8, two digits a byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
    /// By the description that the queue has of its messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Shown<'a>>,
}

/// Runs the verb.
pub fn run(args: &RecvArgs, common: &Common) -> Result<(), Failure> {
    common.refuse_json_beside(&[
        ("--raw", args.raw),
        ("--null", args.framing.framing() == Framing::Null),
        ("--length-prefixed", args.framing.framing() == Framing::LengthPrefixed),
        ("--file", !args.file.is_empty()),
        ("--output", args.output.is_file()),
    ])?;
    let mut signals = Signals::that_end()?;
    let Some(queue) = open(args, common, &mut signals)? else { return Ok(()) };
    let mut receiver = if args.standby {
        let waited = role::stand_by(&mut signals, |until| queue.wait_to_receive_until(until))?;
        let Some(receiver) = waited else { return Ok(()) };
        receiver
    } else {
        role::take(|| queue.receiver())?
    };
    // Not before the queue is ours: the receiver that has it may be writing into the same file.
    let output = args.output.open()?;
    receiver.end_when_senders_gone(args.until_senders_gone);
    let most = match args.file.len() as u64 {
        0 => args.count.unwrap_or(u64::MAX),
        files => files.min(args.count.unwrap_or(u64::MAX)),
    };
    // A person who watches the messages needs no bar between them.
    let shown = !std::io::IsTerminal::is_terminal(&stdout());
    let mut progress = Progress::new(None, shown);
    // Said once: lines in a file cannot tell such a message's end.
    let mut warned =
        Stdout::look() != Stdout::File || common.json || args.framing.framing() != Framing::Lines;
    warned |= args.raw || args.output.is_file() || !args.file.is_empty();
    // With an option that says where messages end they are bytes.
    let is_lines = args.framing.framing() == Framing::Lines && !args.raw && !args.output.is_file();
    let description = queue.description()?.filter(|one| is_lines && described::is_json(one));
    warned |= description.is_some();
    let mut received = 0;
    let mut idle_since = Instant::now();
    let mut looked: Option<Instant> = None;
    while received < most {
        let now = Instant::now();
        // Not with every message of many: asking costs a system call.
        if looked.is_none_or(|looked| now - looked > SLICE / 4) {
            looked = Some(now);
            if signals.came()? {
                break;
            }
        }
        let idle_end = args.until_idle.map(|span| idle_since + span);
        let slice = now + SLICE;
        match take(
            &mut receiver,
            description.as_ref(),
            args,
            &output,
            common,
            &mut warned,
            received,
            idle_end.map_or(slice, |end| end.min(slice)),
        ) {
            Ok(Some(bytes)) => {
                received += 1;
                idle_since = Instant::now();
                progress.add(bytes);
            }
            Ok(None) => {
                if idle_end.is_some_and(|end| Instant::now() >= end) {
                    break;
                }
            }
            Err(Stop::Recv(RecvError::Closed)) => break,
            Err(Stop::Recv(error)) => return Err(error.into()),
            Err(Stop::Write(failure)) => return Err(failure),
        }
    }
    Ok(())
}

/// Opens the queue. One that is not there is waited for, unless it was said how to make it: only
/// its sender knows what its messages are to be, and a misspelt name would make one that no process
/// sends to. `None`: a signal came first.
fn open(args: &RecvArgs, common: &Common, signals: &mut Signals) -> Result<Option<Queue>, Failure> {
    if args.made.is_given() {
        let create = !common.domain.no_create;
        return args.made.open(&common.domain.open()?, &args.queue, create).map(Some);
    }
    let open = |domain: &Domain, name: &str| args.made.open_existing(domain, name);
    let mut awaited = Awaited::new("a sender", &args.queue, &common.domain);
    if let Some(queue) = awaited.open(open)? {
        return Ok(Some(queue));
    }
    let until = args.until_idle.map(|span| Instant::now() + span);
    match awaited.wait(Some(signals), until, open)? {
        Found::Thing(queue) => Ok(Some(queue)),
        Found::Late => Err(awaited.not_there("queue")),
        Found::End => Ok(None),
    }
}

enum Stop {
    Recv(RecvError),
    Write(Failure),
}

/// Looks at a message, writes it, takes it out of the queue. Returns its length, if one came.
#[expect(clippy::too_many_arguments, reason = "what one message is taken by")]
fn take(
    receiver: &mut Receiver,
    description: Option<&Description>,
    args: &RecvArgs,
    output: &Output,
    common: &Common,
    warned: &mut bool,
    number: u64,
    deadline: Instant,
) -> Result<Option<u64>, Stop> {
    let message = receiver.peek_until(Deadline::at(deadline)).map_err(Stop::Recv)?;
    let Some(message) = message else { return Ok(None) };
    if message.redelivered() {
        let text = format!(
            "message {} ({} bytes) is redelivered: a receiver that is gone may have written it before",
            number + 1,
            message.len()
        );
        talk(text);
    }
    if !*warned && (message.contains(&0) || message.contains(&b'\n')) {
        *warned = true;
        let text = "holds a NUL or a newline, and a newline is written behind it; --output or --raw writes only the bytes";
        talk(format_args!("message {} {text}", number + 1));
    }
    let written = match args.file.get(usize::try_from(number).unwrap_or(usize::MAX)) {
        Some(path) => write_file(path, &message),
        None if common.json => write_json(&message, description, message.redelivered()),
        None => {
            let framing = match args.framing.framing() {
                Framing::Lines if args.raw || args.output.is_file() => Framing::Raw,
                framing => framing,
            };
            match description.and_then(|one| described::line(one, &message)) {
                Some(line) => output.with(|out| write_record(out, framing, line.as_bytes())),
                None => output.with(|out| write_record(out, framing, &message)),
            }
        }
    };
    written.map_err(Stop::Write)?;
    let bytes = message.len() as u64;
    message.commit();
    Ok(Some(bytes))
}

/// Writes a file whole or not at all. What is no ordinary file (a pipe, a device) is written to as
/// it is.
fn write_file(path: &Path, message: &[u8]) -> Result<(), Failure> {
    if fs::metadata(path).is_ok_and(|facts| !facts.is_file()) {
        let writing = |error: &std::io::Error| {
            Failure::system(format_args!("write {}", path.display()), error)
        };
        return fs::write(path, message).map_err(|error| writing(&error));
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.part", std::process::id()));
    fs::write(&beside, message).and_then(|()| fs::rename(&beside, path)).map_err(|error| {
        let _ = fs::remove_file(&beside);
        Failure::system(format_args!("write {}", path.display()), &error)
    })
}

fn write_json(
    message: &[u8],
    description: Option<&Description>,
    redelivered: bool,
) -> Result<(), Failure> {
    let value = description.and_then(|one| Shown::new(one, message, usize::MAX));
    let text = std::str::from_utf8(message).ok().filter(|_| value.is_none());
    let hex = match (text, &value) {
        (Some(_), _) | (_, Some(_)) => None,
        _ => Some(message.iter().map(|byte| format!("{byte:02x}")).collect()),
    };
    output::print_json(&Told { bytes: message.len(), redelivered, text, hex, value })
}
