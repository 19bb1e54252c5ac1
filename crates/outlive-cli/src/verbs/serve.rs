//! `outlive serve NAME COMMAND`: answers each request by running a command with the request on its
//! standard input.
//!
//! Killed at any moment, it is a dead server: its clients are told at once, and the next one takes
//! over. Told to end by a signal, it takes no further request, and ends when the commands that run
//! have answered; a second signal ends it at once.
//!
//! Each command has a thread that feeds it, reads its answer and replies. The main thread takes
//! requests, as long as there is a thread for one, and heeds signals.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;

use clap::Args;
use outlive::describe::Description;
use outlive::rpc::{Request, Server, Service};
use outlive::{Domain, Error, SendError};

use crate::cli::Common;
use crate::described;
use crate::exit::{Code, Failure};
use crate::framing::{Framing, FramingArgs};
use crate::output::talk;
use crate::signals::{SLICE, Signals};
use crate::verbs::attributes::AttributeArgs;
use crate::verbs::{parts, role};

/// Answer the requests of a service, running a command for each
///
/// The command reads the request from standard input and writes the reply to standard output, each
/// as JSON where the service has a description of its type; with --raw they are the bytes. It finds the pid of the client in OUTLIVE_CLIENT_PID. When it fails, the client is told the exit
/// status in place of a reply.
///
/// With --parts the command gets a request of several parts while they come: it reads the request, unless
/// that is empty, and each part as a line, and each line that it writes is sent as a reply at once. When no
/// client waits any more, its standard input ends, and what it writes is not read.
///
/// serve goes on until it is interrupted (exit code 0). It takes no further request then, and ends
/// when the commands that run have answered; a second signal ends it at once. Each command has a
/// process group of its own, so Ctrl-C on a terminal does not reach it.
///
/// When serve is killed, its clients are told that the server died, and another server may take
/// over; a command that serve had started is not killed with it. A service has one server at a time,
/// or as many as --servers said when it was made. While others are its servers, as many as may be,
/// serve waits up to a second for one to end, then fails with exit code 12 and names one. With
/// --standby it waits as long as they serve, and takes over when one ends.
///
/// What follows the first word of the command belongs to the command, options too; options of serve
/// come before it.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive service serve upper tr a-z A-Z\n  \
    outlive service serve --jobs 4 resize convert - -resize 50% -\n  \
    outlive service serve --standby upper tr a-z A-Z\n  \
    outlive service serve --parts follow grep --line-buffered error")]
pub struct ServeArgs {
    /// The service's name; a service that is not there is made
    name: String,
    /// Requests and replies are the bytes, also if the service has descriptions of their types
    #[arg(long, short)]
    raw: bool,
    /// End after N requests
    #[arg(long, short = 'n', value_name = "N")]
    count: Option<u64>,
    /// Answer up to N requests at a time, each by a command of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: u16,
    /// Make the service for up to N servers at a time, which share the requests: start this command N
    /// times. A service that is there must be for as many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    servers: Option<u32>,
    /// While there are as many servers as may be, wait until one leaves or dies, and then take over
    #[arg(long)]
    standby: bool,
    /// Give the command each part of a request as a line, and send each line that it writes as a reply
    #[arg(long)]
    parts: bool,
    #[command(flatten)]
    framing: FramingArgs,
    /// The command that answers, and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD", value_hint = clap::ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
    #[command(flatten)]
    attributes: AttributeArgs,
}

/// Runs the verb.
pub fn run(args: &ServeArgs, common: &Common) -> Result<(), Failure> {
    parts::refuse_framing(args.parts, args.framing)?;
    let mut signals = Signals::that_end()?;
    let domain = args.attributes.on(common.domain.open()?);
    // An existing service takes bytes, whatever types its Rust programs give them.
    let options = || match args.servers {
        Some(servers) => Service::<[u8], [u8]>::options().max_servers(servers),
        None => Service::options(),
    };
    let service = match options().open_as_bytes(&domain, &args.name) {
        Err(Error::NotFound { .. }) if !common.domain.no_create => {
            options().open_or_create(&domain, &args.name)?
        }
        other => other?,
    };
    let description = service.description()?.filter(|_| !args.raw);
    let server = if args.standby {
        let waited = role::stand_by(&mut signals, |until| service.wait_to_serve_until(until))?;
        let Some(server) = waited else { return Ok(()) };
        server
    } else {
        role::take(|| service.server())?
    };
    let (done, ended) = channel();
    Serving {
        server,
        left: args.count.unwrap_or(u64::MAX),
        jobs: args.jobs.into(),
        command: Arc::new(args.command.clone()),
        description: description.map(Arc::new),
        parts: args.parts.then(|| (domain.clone(), args.framing.framing())),
        signals,
        told_to_end: 0,
        running: 0,
        done,
        ended,
    }
    .run()
}

/// What a command's thread comes to.
type Done = Result<(), Failure>;

struct Serving {
    server: Server,
    /// Requests that may still be taken.
    left: u64,
    /// Commands that may run at a time.
    jobs: usize,
    command: Arc<Vec<OsString>>,
    /// Of requests and replies, which the command has as JSON.
    description: Option<Arc<Description>>,
    /// Of requests of several parts: how the command tells them apart.
    parts: Option<(Domain, Framing)>,
    signals: Signals,
    /// By so many signals.
    told_to_end: u32,
    /// Commands that run.
    running: usize,
    done: Sender<Done>,
    ended: Receiver<Done>,
}

impl Serving {
    fn run(mut self) -> Result<(), Failure> {
        loop {
            self.heed_signals()?;
            while let Ok(done) = self.ended.try_recv() {
                self.running -= 1;
                done?;
            }
            let takes_more = self.left > 0 && self.told_to_end == 0;
            if takes_more && self.running < self.jobs {
                let request = self
                    .server
                    .next_timeout(SLICE)
                    .map_err(|error| Failure::new(Code::System, error.to_string()))?;
                if let Some(request) = request {
                    self.left -= 1;
                    self.start(request)?;
                }
            } else if self.running > 0 {
                match self.ended.recv_timeout(SLICE) {
                    Ok(done) => {
                        self.running -= 1;
                        done?;
                    }
                    Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
                }
            } else {
                return Ok(());
            }
        }
    }

    /// The first signal ends the taking of requests, the second one the program.
    fn heed_signals(&mut self) -> Result<(), Failure> {
        let failed = |error| Failure::system("read a signal", &error);
        while let Some(came) = self.signals.next().map_err(failed)? {
            self.told_to_end += 1;
            if self.told_to_end > 1 {
                return Err(Failure::Silent(128 + came.signal as u8));
            }
            if self.running > 0 {
                let text =
                    "ends when the running commands have answered; a second signal ends it now";
                talk(text);
            }
        }
        Ok(())
    }

    /// Starts a command for a request, and a thread that replies with what it says.
    fn start(&mut self, request: Request) -> Result<(), Failure> {
        let Some((program, arguments)) = self.command.split_first() else {
            return Err(Failure::new(Code::Usage, "no command"));
        };
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        if let Some(client) = request.client() {
            command.env("OUTLIVE_CLIENT_PID", client.pid.to_string());
        }
        self.signals.spare(&mut command);
        // A terminal sends Ctrl-C to the whole group in front: to us, but not to a command that may
        // finish and answer.
        command.process_group(0);
        // Started by this thread: a command that cannot be started ends the server.
        let child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                // The client may have gone.
                let _ = request.fail(&format!("cannot run {}: {error}", program.display()));
                return Err(failed(program, &error));
            }
        };
        let (words, done) = (Arc::clone(&self.command), self.done.clone());
        let (description, parts) = (self.description.clone(), self.parts.clone());
        thread::Builder::new()
            .spawn(move || {
                let description = description.as_deref();
                let answered = match parts {
                    None => answer(&words[0], child, request, description),
                    Some((domain, framing)) => {
                        let program = words[0].display().to_string();
                        parts::answer(&program, child, request, &domain, framing, description)
                    }
                };
                let _ = done.send(answered);
            })
            .map_err(|error| Failure::system("start a thread", &error))?;
        self.running += 1;
        Ok(())
    }
}

fn failed(program: &OsString, error: &std::io::Error) -> Failure {
    Failure::system(format_args!("run {}", program.display()), error)
}

/// Feeds the command, and replies with what it says. Without an answer, the client is told why.
fn answer(
    program: &OsString,
    mut child: std::process::Child,
    request: Request,
    description: Option<&Description>,
) -> Done {
    let input = child.stdin.take();
    let line = description.and_then(|both| described::line(&both.request(), &request));
    let payload = line.map_or_else(|| request.to_vec(), |line| format!("{line}\n").into_bytes());
    // Beside the reading of its output: it may write before it has read all.
    let writing = thread::spawn(move || {
        // A command that does not want its input may leave it.
        let _ = input.map(|mut input| input.write_all(&payload));
    });
    let output = child.wait_with_output().map_err(|error| failed(program, &error))?;
    let _ = writing.join();
    if !output.status.success() {
        talk(format_args!("{} ended by {}: no answer", program.display(), output.status));
    }
    let reply_is = description.and_then(Description::reply).filter(|one| described::is_json(one));
    let answered = if output.status.success() {
        match reply_is.map(|one| described::parsed(one, &output.stdout)) {
            None => request.reply(&output.stdout),
            Some(Ok(reply)) => request.reply(&reply),
            Some(Err(why)) => {
                talk(format_args!("{}: {why}", program.display()));
                request.fail(&format!("{}: {why}", program.display()))
            }
        }
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
            tell_unanswered(&error);
            Ok(())
        }
    }
}

/// Says why a client has no answer.
pub(super) fn tell_unanswered(error: &SendError) {
    match error {
        // To the library it is who would have received.
        SendError::ReceiverDied => talk("the client died before it had its answer"),
        other => talk(other),
    }
}
