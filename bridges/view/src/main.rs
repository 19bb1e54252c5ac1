//! The program `outlive-view`, which `outlive view` starts: a server of Foxglove's protocol.

mod clients;
mod described;
mod events;
mod filed;
mod live;
#[path = "../../../crates/outlive-cli/src/msgpack.rs"]
mod msgpack;
mod parameters;
mod past;
mod playback;
mod recorded;
mod services;
mod shape;
mod told;
mod topics;

/// What `described/read.rs` and its like name so.
mod exit {
    pub use outlive_program::exit::{Code, Failure};
}

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use clap::Parser;
use outlive_program::exit::{Code, Failure};
use outlive_program::{block_ending_signals, open_domain};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use clients::{Clients, Offers};
use live::Live;
use parameters::{StateParameters, States};
use past::{Handler, PastStates};
use playback::{Controls, Playback};
use recorded::{Recorded, failure};
use told::{Event, Told};
use topics::Topics;

/// Show a domain in Foxglove or Lichtblick, as it is
///
/// A program that speaks Foxglove's WebSocket protocol connects to the address that is printed. Each topic
/// is a channel: pictures, points, scans, transforms and logs are Foxglove's own types, other messages with
/// fields JSON with a schema. States are parameters. A topic is read only while a client wants it, and
/// publishers never wait for that.
///
/// With FILE, recordings (MCAP) are played instead, several together by their times; clients stop them, seek in
/// them and set their rate.
///
/// The program ends, with exit code 0, when it is interrupted.
#[derive(Parser, Debug)]
#[command(
    name = "outlive-view",
    bin_name = "outlive view",
    version,
    max_term_width = 100,
    after_long_help = "Examples:\n  \
    outlive view\n  \
    outlive view --port 8766 --allow-set --allow-call\n  \
    outlive view --listen 0.0.0.0\n  \
    outlive view run.mcap --paused\n\n\
    Exit codes are those of outlive: 0 asked to end; 2 usage; 6 no such file; 9 no permission; 12 the port is in use; \
    15 the system refused; 16 the file is no recording."
)]
struct Args {
    /// Recordings to play, in place of a domain. run.mcap stands for all files of its recording: run_0.mcap,
    /// run_1.mcap and so on
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Play the named files, and not the further ones of their recording
    #[arg(long, requires = "files", overrides_with = "exact")]
    exact: bool,
    /// Play the recording at this rate, 0.01 to 1000
    #[arg(
        long,
        value_name = "X",
        default_value_t = 1.0,
        requires = "files",
        overrides_with = "rate",
        value_parser = rate
    )]
    rate: f32,
    /// Begin to play when a client says so
    #[arg(long, requires = "files", overrides_with = "paused")]
    paused: bool,
    /// Begin again at the end
    #[arg(long = "loop", requires = "files", overrides_with = "loops")]
    loops: bool,
    /// The port to listen at; 0 takes a free one
    #[arg(long, short, value_name = "PORT", default_value_t = 8765, overrides_with = "port")]
    port: u16,
    /// The address to listen at; any but this machine's own lets others see and do what is allowed here
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1", overrides_with = "listen")]
    listen: String,
    /// Let clients set states
    #[arg(long, overrides_with = "allow_set", conflicts_with = "files")]
    allow_set: bool,
    /// Let clients call services
    #[arg(long, overrides_with = "allow_call", conflicts_with = "files")]
    allow_call: bool,
    /// A call of a service may take so many seconds
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 30.0,
        overrides_with = "call_timeout",
        value_parser = seconds
    )]
    call_timeout: f64,
    /// As many messages wait for a client; the oldest are dropped
    #[arg(
        long,
        value_name = "N",
        default_value_t = 64,
        overrides_with = "backlog",
        value_parser = clap::value_parser!(u32).range(16..=65_536)
    )]
    backlog: u32,
    /// The domain to work in: a name, or a folder's path, which has a '/' in it [env: OUTLIVE_DOMAIN]
    #[arg(long, short = 'd', value_name = "NAME|PATH", overrides_with = "domain")]
    domain: Option<String>,
    /// The group that shares the domain: a name or a number [env: OUTLIVE_GROUP]
    #[arg(long, value_name = "GROUP", overrides_with = "group")]
    group: Option<String>,
    /// Print lines as JSON
    #[arg(long, overrides_with = "json")]
    json: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "a number of seconds is needed".to_owned())?;
    (0.0..=86_400.0).contains(&number).then_some(number).ok_or_else(|| "0 to 86400".to_owned())
}

fn rate(text: &str) -> Result<f32, String> {
    let number: f32 = text.parse().map_err(|_| "a number is needed".to_owned())?;
    (0.01..=1000.0).contains(&number).then_some(number).ok_or_else(|| "0.01 to 1000".to_owned())
}

/// How often the program looks what has changed in the domain.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("outlive view: {}", failure.message);
            ExitCode::from(failure.code as u8)
        }
    }
}

fn run(args: &Args) -> Result<(), Failure> {
    let signals = block_ending_signals().map_err(|error| {
        Failure::new(Code::System, format!("could not take over signals: {error}"))
    })?;
    end_at_the_latest(&signals)?;
    let told = Told::new(args.json);
    match args.files.is_empty() {
        false => show_files(args, told, &signals),
        true => show_domain(args, told, &signals),
    }
}

fn show_files(args: &Args, told: Told, signals: &OwnedFd) -> Result<(), Failure> {
    let files = match args.exact {
        true => args.files.clone(),
        false => outlive_mcap::files_of(&args.files).map_err(|error| failure(Path::new(""), error))?,
    };
    let recorded = Recorded::open(&files)?;
    let controls = Arc::new(Controls::new(recorded.span, args.rate, !args.paused));
    let (from, to) = recorded.span;
    let states = Arc::<PastStates>::default();
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let clients = Arc::new(Clients::start(Offers {
        parameters: Some(Arc::new(Handler(Arc::clone(&states)))),
        playback: Some((from, to, Arc::clone(&controls) as _)),
        ..offers(args, format!("outlive {}", names.join(" ")))
    })?);
    told.tell(&Event { event: "listens", name: None, url: Some(&clients.url()), why: None });
    let told = Arc::new(told);
    let mut playback =
        Playback::new(recorded, &controls, &clients, &states, Arc::clone(&told), args.loops);
    let player = thread::Builder::new().name("view-player".into());
    let player = player.spawn(move || playback.play()).map_err(no_thread)?;
    let ended = loop {
        if clients.look() {
            told.refused("clients", "the server had ended, and was started again");
        }
        if player.is_finished() {
            break Ok(());
        }
        match is_asked_to_end(signals, &LOOK) {
            Ok(false) => {}
            Ok(true) => break Ok(()),
            Err(failure) => break Err(failure),
        }
    };
    controls.end();
    let played = player.join().unwrap_or_else(|_| Err("the player has panicked".to_owned()));
    clients.end();
    ended.and(played.map_err(|why| Failure::new(Code::BadInput, why)))
}

fn no_thread(error: std::io::Error) -> Failure {
    Failure::new(Code::System, format!("could not start a thread: {error}"))
}

fn offers(args: &Args, name: String) -> Offers {
    // Before a port, brackets enclose an address that has colons.
    let host = match args.listen.contains(':') && !args.listen.starts_with('[') {
        true => format!("[{}]", args.listen),
        false => args.listen.clone(),
    };
    Offers {
        name,
        host,
        port: args.port,
        backlog: args.backlog as usize,
        parameters: None,
        calls: false,
        playback: None,
    }
}

fn show_domain(args: &Args, told: Told, signals: &OwnedFd) -> Result<(), Failure> {
    let domain = open_domain(args.domain.as_deref(), args.group.as_deref(), true)?;
    let states = States::new(&domain, args.allow_set);
    let name = format!("outlive {}", domain.path().display());
    let clients = Arc::new(Clients::start(Offers {
        parameters: Some(Arc::new(StateParameters(Arc::clone(&states)))),
        calls: args.allow_call,
        ..offers(args, name)
    })?);
    told.tell(&Event { event: "listens", name: None, url: Some(&clients.url()), why: None });
    let topics = Arc::<Topics>::default();
    let (theirs, shown) = (Arc::clone(&topics), Arc::clone(&clients));
    let reader = thread::Builder::new().name("view-reader".into());
    let reader = reader.spawn(move || theirs.read_all(&shown)).map_err(no_thread)?;
    let calls = args.allow_call.then(|| Duration::from_secs_f64(args.call_timeout));
    let mut live = Live::new(&domain, &clients, &topics, &states, calls, told);
    let ended = loop {
        if let Err(error) = live.look() {
            break Err(error.into());
        }
        match is_asked_to_end(signals, &LOOK) {
            Ok(false) => {}
            Ok(true) => break Ok(()),
            Err(failure) => break Err(failure),
        }
    };
    topics.end();
    // It looks at least every 20 ms, and has nothing to lose.
    let _ = reader.join();
    clients.end();
    ended
}

/// Ends the program some time after it was asked to, if its threads have not: it has nothing to lose, and
/// the one that asked waits.
fn end_at_the_latest(signals: &OwnedFd) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::new(Code::System, error);
    let signals = signals.try_clone().map_err(failed)?;
    let watch = move || {
        // The signal stays there for the thread that ends in order.
        let mut fds = [PollFd::new(&signals, PollFlags::IN)];
        while poll(&mut fds, None) == Err(rustix::io::Errno::INTR) {}
        thread::sleep(GRACE);
        std::process::exit(0);
    };
    thread::Builder::new().name("view-end".into()).spawn(watch).map_err(failed)?;
    Ok(())
}

/// How long the threads have.
const GRACE: Duration = Duration::from_secs(5);

/// Waits for a signal that asks the program to end, as long as `span` at most.
fn is_asked_to_end(signals: &OwnedFd, span: &Timespec) -> Result<bool, Failure> {
    let mut fds = [PollFd::new(signals, PollFlags::IN)];
    match poll(&mut fds, Some(span)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => {
            Err(Failure::new(Code::System, format!("could not wait for signals: {error}")))
        }
    }
}
