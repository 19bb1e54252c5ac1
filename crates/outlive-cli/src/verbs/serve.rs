//! `outlive serve NAME COMMAND`: answers each request by running a command with the request on its
//! standard input.
//!
//! Killed at any moment, it is a dead server: its clients are told at once, and the next one takes
//! over. So it needs no handling of signals.

use std::ffi::OsString;
use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;

use clap::Args;
use outlive::rpc::{Request, Service};
use outlive::{Error, SendError};

use crate::cli::Common;
use crate::exit::{Code, Failure};
use crate::output::talk;

/// Answer the requests of a service, running a command for each
///
/// serve answers one request after the other. When a command fails, its client is told with which
/// exit status, in place of a reply. The command finds the pid of its client in OUTLIVE_CLIENT_PID. When serve is
/// killed, its clients are told that the server died, and another server may take over at once; a
/// command that serve had started is not killed with it.
///
/// What follows the first word of the command belongs to the command, options too; options of
/// serve come before it.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive service serve upper tr a-z A-Z\n  \
    outlive service serve --count 1 resize convert - -resize 50% -")]
pub struct ServeArgs {
    /// The service's name; it is made when it is not there
    name: String,
    /// End after N requests
    #[arg(long, short = 'n', value_name = "N")]
    count: Option<u64>,
    /// The command that answers: it reads a request from standard input and writes the reply to
    /// standard output
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD", value_hint = clap::ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

/// Runs the verb.
pub fn run(args: &ServeArgs, common: &Common) -> Result<(), Failure> {
    let domain = common.domain.open()?;
    if common.domain.no_create {
        domain.entry(&args.name)?;
    }
    // An existing service takes bytes, whatever types its Rust programs give them.
    let service = match Service::open_as_bytes(&domain, &args.name) {
        Err(Error::NotFound { .. }) => Service::open_or_create(&domain, &args.name)?,
        other => other?,
    };
    let mut server = service.server()?;
    for _ in 0..args.count.unwrap_or(u64::MAX) {
        let request =
            server.next().map_err(|error| Failure::new(Code::System, error.to_string()))?;
        answer(args, request)?;
    }
    Ok(())
}

/// Without an answer, the client is told why.
fn answer(args: &ServeArgs, request: Request) -> Result<(), Failure> {
    let (program, arguments) =
        args.command.split_first().ok_or_else(|| Failure::new(Code::Usage, "no command"))?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    if let Some(client) = request.client() {
        command.env("OUTLIVE_CLIENT_PID", client.pid.to_string());
    }
    let doing = format!("run {}", program.display());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            // The client may have gone.
            let _ = request.fail(&format!("cannot {doing}: {error}"));
            return Err(Failure::system(&doing, &error));
        }
    };
    let input = child.stdin.take();
    let payload = request.to_vec();
    // Beside the reading of its output: it may write before it has read all.
    let writing = thread::spawn(move || {
        // A command that does not want its input may leave it.
        let _ = input.map(|mut input| input.write_all(&payload));
    });
    let output = child.wait_with_output().map_err(|error| Failure::system(&doing, &error))?;
    let _ = writing.join();
    if !output.status.success() {
        talk("serve", format_args!("{} ended by {}: no answer", program.display(), output.status));
    }
    let answered = if output.status.success() {
        request.reply(&output.stdout)
    } else {
        request.fail(&format!("{}: {}", program.display(), output.status))
    };
    match answered {
        Ok(()) => Ok(()),
        Err(error @ (SendError::Damaged(_) | SendError::System(_))) => {
            Err(Failure::new(Code::System, error.to_string()))
        }
        // The client has gone, or there is no room: the next one may do better.
        Err(error) => {
            talk("serve", error);
            Ok(())
        }
    }
}
