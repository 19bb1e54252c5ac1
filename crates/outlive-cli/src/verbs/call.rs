//! `outlive call SERVICE`: one request, from a shell; the answer to standard output.

use std::io::{Read, stdin};
use std::path::PathBuf;
use std::task::Poll;
use std::time::Duration;

use clap::Args;
use outlive::rpc::{CallError, Service};
use outlive::{Deadline, Error};
use serde::Serialize;

use crate::cli::Common;
use crate::duration;
use crate::exit::{Code, Failure};
use crate::framing::{Framing, write_record};
use crate::output;
use crate::payload::OutputArgs;

/// Send a request to a service, and print its reply
///
/// When the server dies, call ends at once with exit code 3, and says whether the server had
/// begun the call: if not, no server will carry it out any more. Without a server, call ends with
/// code 4, or waits for a server with --wait-for-server. When the server says that it could not do
/// what was asked, call prints why, and ends with code 1. The reply's bytes are written as they
/// are, without a newline behind them.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive service call upper hello\n  \
    outlive service call --timeout 2s resize < picture.png > small.png\n  \
    outlive service call --wait-for-server jobs next")]
pub struct CallArgs {
    /// The service's name
    service: String,
    /// The request; without it, standard input is, whole
    #[arg(conflicts_with = "file")]
    request: Option<String>,
    /// The request is what is in FILE
    #[arg(long, short, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Give up after this time
    #[arg(long, short = 'w', value_name = "TIME", value_parser = duration::seconds)]
    timeout: Option<Duration>,
    /// Wait for a server when there is none, or when it dies before it has begun the call
    #[arg(long)]
    wait_for_server: bool,
    /// Write a line end after each reply
    #[arg(long, short)]
    lines: bool,
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
}

/// Runs the verb.
pub fn run(args: &CallArgs, common: &Common) -> Result<(), Failure> {
    common.refuse_json_beside(&[("--lines", args.lines), ("--output", args.output.is_file())])?;
    let request = request(args)?;
    let output = args.output.open()?;
    let domain = common.domain.open()?;
    if common.domain.no_create {
        // Says so when it is not there; what it is, the opening below compares.
        domain.entry(&args.service)?;
    }
    // An existing service takes bytes, whatever types its Rust programs give them.
    let service = match Service::open_as_bytes(&domain, &args.service) {
        Err(Error::NotFound { .. }) => Service::open_or_create(&domain, &args.service)?,
        other => other?,
    };
    let client = service.client()?;
    client.set_wait_for_server(args.wait_for_server);
    let deadline = args.timeout.map_or(Deadline::NEVER, Deadline::after);
    let mut call = client.begin_until(&request, deadline).map_err(|error| failure(&error))?;
    loop {
        let reply = match call.next_until(deadline).map_err(|error| failure(&error))? {
            Poll::Ready(Some(reply)) => reply,
            Poll::Ready(None) => break,
            Poll::Pending => {
                return Err(failure(&CallError::TimedOut { begun: call.is_begun() }));
            }
        };
        if common.json {
            let text = str::from_utf8(&reply).ok();
            let hex =
                text.is_none().then(|| reply.iter().map(|byte| format!("{byte:02x}")).collect());
            output::print_json(&Told { bytes: reply.len(), text, hex })?;
            continue;
        }
        let framing = if args.lines { Framing::Lines } else { Framing::Raw };
        output.with(|out| write_record(out, framing, &reply))?;
    }
    Ok(())
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
