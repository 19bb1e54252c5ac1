//! `outlive call SERVICE`: one request, from a shell; the answer to standard output.

use std::io::{Read, stdin};
use std::path::PathBuf;
use std::task::Poll;
use std::time::{Duration, Instant};

use clap::Args;
use outlive::describe::Description;
use outlive::rpc::{CallError, Reply, Service};
use outlive::{Deadline, Domain};
use serde::Serialize;

use crate::cli::Common;
use crate::described::{self, Shown};
use crate::duration;
use crate::exit::{Code, Failure};
use crate::framing::{Framing, FramingArgs, write_record};
use crate::output;
use crate::payload::OutputArgs;
use crate::verbs::awaited::{Awaited, Found};
use crate::verbs::parts::{self, Ended};

/// Send a request to a service, and print its reply
///
/// The reply's bytes are written as they are, without a newline behind them. Where the service has
/// descriptions of its requests' and replies' types, the request is given as JSON, and each reply is
/// written as a line of JSON; with --raw both are the bytes.
///
/// With --parts the request has several parts: call sends each line of standard input as one, as it comes,
/// and writes each reply as a line, also before it has sent the last part. REQUEST comes first; without it,
/// the request itself is empty.
///
/// A service that does not exist ends call with exit code 6, and one that has no server with code
/// 4; with --wait-for-server, call waits for both. When the server dies, call ends at once with
/// code 3, and says whether the server had begun the call: if not, no server will carry it out any
/// more. When the server says that it could not do what was asked, call prints why, and ends with
/// code 1.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive service call upper hello\n  \
    outlive service call --timeout 2s resize < picture.png > small.png\n  \
    outlive service call --wait-for-server jobs next\n  \
    tail -f log | outlive service call --parts follow errors")]
pub struct CallArgs {
    /// The service's name
    service: String,
    /// The request; without it, call reads all of standard input, unless --parts does
    #[arg(conflicts_with = "file")]
    request: Option<String>,
    /// Send what is in FILE as the request
    #[arg(long, short, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Give up with exit code 5 after this time [default: wait for ever]
    #[arg(long, short = 'w', value_name = "TIME", value_parser = duration::seconds)]
    timeout: Option<Duration>,
    /// Wait for the service and its server when they are not there, and for the next server when
    /// one dies before it has begun the call
    #[arg(long)]
    wait_for_server: bool,
    /// The request and the replies are the bytes, also if the service has descriptions of their types
    #[arg(long, short)]
    raw: bool,
    /// Write a newline after each reply
    #[arg(long, short)]
    lines: bool,
    /// Send each line of standard input as a part of the request, and write replies as lines
    #[arg(long)]
    parts: bool,
    #[command(flatten)]
    framing: FramingArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// A reply, with --json.
#[derive(Serialize)]
struct Told<'a> {
    bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    /// What is no UTF-8, two digits a byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
    /// By the description that the service has of its replies.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Shown<'a>>,
}

/// Runs the verb.
pub fn run(args: &CallArgs, common: &Common) -> Result<(), Failure> {
    common.refuse_json_beside(&[("--lines", args.lines), ("--output", args.output.is_file())])?;
    parts::refuse_framing(args.parts, args.framing)?;
    let request = request(args)?;
    let until = args.timeout.map(|span| Instant::now() + span);
    let service = open(args, common, until)?;
    let description = service.description()?.filter(|_| !args.raw);
    let request_is = description.as_ref().map(Description::request);
    let request_is = request_is.filter(described::is_json);
    let made = |bytes: &[u8]| match &request_is {
        Some(one) => described::message(one, bytes),
        None => Ok(bytes.to_vec()),
    };
    let request = match request {
        // Before parts a request may say nothing.
        empty if args.parts && empty.is_empty() => empty,
        request => made(&request)?,
    };
    let reply_is = description.as_ref().and_then(Description::reply);
    let client = service.client()?;
    // What is in the file stays until the service has answered.
    let mut output = args.output.open_later()?;
    client.set_wait_for_server(args.wait_for_server);
    let deadline = until.map_or(Deadline::NEVER, Deadline::at);
    let framing = match args.parts {
        true => args.framing.framing(),
        false if args.lines => Framing::Lines,
        false => Framing::Raw,
    };
    let mut show = |reply: Reply| -> Result<(), Failure> {
        let value = reply_is.and_then(|one| Shown::new(one, &reply, usize::MAX));
        if common.json {
            let text = str::from_utf8(&reply).ok().filter(|_| value.is_none());
            let hex = (text.is_none() && value.is_none())
                .then(|| reply.iter().map(|byte| format!("{byte:02x}")).collect());
            return output::print_json(&Told { bytes: reply.len(), text, hex, value });
        }
        if let Some(value) = value.filter(|_| !args.output.is_file()) {
            return output::print_json(&value);
        }
        output.begin()?.with(|out| write_record(out, framing, &reply))
    };
    let mut call = if args.parts {
        let domain = common.domain.open()?;
        let sent = parts::send(&client, &domain, &request, framing, deadline, made, &mut show);
        sent.map_err(|ended| match ended {
            Ended::Failure(failure) => failure,
            Ended::Call(error) => failure(&error),
        })?
    } else {
        client.begin_until(&request, deadline).map_err(|error| failure(&error))?
    };
    loop {
        match call.next_until(deadline).map_err(|error| failure(&error))? {
            Poll::Ready(Some(reply)) => show(reply)?,
            Poll::Ready(None) => break,
            Poll::Pending => {
                return Err(failure(&CallError::TimedOut { begun: call.is_begun() }));
            }
        }
    }
    // An answer without a reply is an empty one.
    output.begin()?;
    Ok(())
}

/// Opens the service. Its server makes it: what call would make under a misspelt name, no process
/// would serve.
fn open(args: &CallArgs, common: &Common, until: Option<Instant>) -> Result<Service, Failure> {
    // It takes bytes, whatever types its Rust programs give them.
    let open = |domain: &Domain, name: &str| Service::open_as_bytes(domain, name);
    let mut awaited = Awaited::new("a server", &args.service, &common.domain);
    match awaited.open(open)? {
        Some(service) => Ok(service),
        None if !args.wait_for_server => Err(awaited.not_there("service")),
        None => match awaited.wait(None, until, open)? {
            Found::Thing(service) => Ok(service),
            Found::Late | Found::End => Err(failure(&CallError::TimedOut { begun: false })),
        },
    }
}

fn request(args: &CallArgs) -> Result<Vec<u8>, Failure> {
    if let Some(request) = &args.request {
        return Ok(request.clone().into_bytes());
    }
    if let Some(file) = &args.file {
        return std::fs::read(file)
            .map_err(|error| Failure::system(format_args!("read {}", file.display()), &error));
    }
    let mut request = Vec::new();
    if args.parts {
        return Ok(request);
    }
    stdin()
        .read_to_end(&mut request)
        .map_err(|error| Failure::system("read standard input", &error))?;
    Ok(request)
}

fn failure(error: &CallError) -> Failure {
    let code = match error {
        CallError::ServerDied { .. } => Code::ReceiverDied,
        CallError::NoServer => Code::NoReceiver,
        CallError::Dropped | CallError::Failed(_) => Code::CheckFailed,
        CallError::TimedOut { .. } => Code::TimedOut,
        CallError::TooLarge { .. } | CallError::TooMany => Code::NoSpace,
        CallError::Damaged(_) => Code::Damaged,
        CallError::System(inner) => crate::exit::code_of(inner),
        _ => Code::System,
    };
    let message = match error {
        CallError::Failed(text) => format!("the service failed: {text}"),
        other => other.to_string(),
    };
    Failure::new(code, message)
}
