//! The program `outlive-gateway`, which `outlive gateway` starts.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use outlive::Domain;
use outlive::wait::WaitSet;
use outlive_program::{block_ending_signals, open_domain};
use outlive_zenoh::gateway::Gateway;
use outlive_zenoh::rules::{Direction, Rule, Rules};
use outlive_zenoh::settings::{Mode, Settings};
use outlive_zenoh::told::Told;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Carry topics and services of a domain to other machines over zenoh, and bring theirs
///
/// Nothing leaves and nothing comes in unless a rule allows it. A topic 'camera.front' has the key
/// 'camera/front' there; other zenoh programs may read and write these keys, too. A service that has a
/// server here can be called there, and the other way round. A line is printed for
/// each publisher elsewhere that comes, dies or leaves, for each sender that cannot be reached, and for
/// all that is lost or refused.
///
/// A second gateway of the same name in a domain waits, and takes over when the first one dies. The
/// gateway ends, with exit code 0, when it is interrupted.
#[derive(Parser, Debug)]
#[command(
    name = "outlive-gateway",
    version,
    max_term_width = 100,
    after_long_help = "Examples:\n  \
    outlive gateway --listen tcp/0.0.0.0:7447 --allow-out 'camera/**'\n  \
    outlive gateway --connect tcp/192.0.2.7:7447 --allow-in 'camera/**'\n  \
    outlive gateway --config gateway.toml --json"
)]
struct Args {
    /// Settings and rules, in TOML
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Connect to this endpoint; may be given several times
    #[arg(long, value_name = "ENDPOINT")]
    connect: Vec<String>,
    /// Listen at this endpoint; may be given several times
    #[arg(long, value_name = "ENDPOINT")]
    listen: Vec<String>,
    /// How to take part in the network [default: peer]
    #[arg(long, value_enum)]
    mode: Option<Mode>,
    /// Let these keys pass both ways; may be given several times
    #[arg(long, value_name = "KEYS")]
    allow: Vec<String>,
    /// Let these keys come in
    #[arg(long, value_name = "KEYS")]
    allow_in: Vec<String>,
    /// Let these keys leave
    #[arg(long, value_name = "KEYS")]
    allow_out: Vec<String>,
    /// Gateways of one name in one domain take turns [default: default]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// After so many milliseconds without a sign a peer is gone [default: 1000]
    #[arg(long, value_name = "MS")]
    lease_ms: Option<u64>,
    /// Look for other gateways and routers by multicast
    #[arg(long)]
    scouting: bool,
    /// zenoh's own configuration (JSON5): TLS, users
    #[arg(long, value_name = "FILE")]
    zenoh: Option<String>,
    /// The domain to work in: a name, or a folder's path, which has a '/' in it
    #[arg(long, short = 'd', value_name = "NAME|PATH", env = "OUTLIVE_DOMAIN")]
    domain: Option<String>,
    /// The group that shares the domain: a name or a number
    #[arg(long, value_name = "GROUP", env = "OUTLIVE_GROUP")]
    group: Option<String>,
    /// Print lines as JSON
    #[arg(long)]
    json: bool,
}

/// Exit codes of `outlive` that fit.
const USAGE: u8 = 2;
const SYSTEM: u8 = 15;
const BAD_INPUT: u8 = 16;

/// How often the gateway looks whether topics were removed.
const SECOND: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

fn main() -> ExitCode {
    let args = Args::parse();
    let signals = match block_ending_signals() {
        Ok(signals) => File::from(signals),
        Err(error) => return failed(SYSTEM, &format!("take over signals: {error}")),
    };
    let settings = match settings(&args) {
        Ok(settings) => settings,
        Err(why) => return failed(BAD_INPUT, &why),
    };
    if settings.rules.is_empty() {
        return failed(
            USAGE,
            "nothing may pass: give --allow, --allow-in, --allow-out or a --config with rules",
        );
    }
    if let Err(why) =
        Rules::new(&settings.rules).map(drop).and_then(|()| settings.zenoh().map(drop))
    {
        return failed(BAD_INPUT, &why);
    }
    let (domain, group) = (args.domain.as_deref(), args.group.as_deref());
    let domain = match open_domain(domain, group, true) {
        Ok(domain) => domain,
        Err(error) => return failed(SYSTEM, &error.to_string()),
    };
    match run(&domain, &settings, args.json, signals) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => failed(SYSTEM, &why),
    }
}

fn failed(code: u8, why: &str) -> ExitCode {
    eprintln!("outlive gateway: {why}");
    ExitCode::from(code)
}

fn settings(args: &Args) -> Result<Settings, String> {
    let mut settings = match &args.config {
        Some(path) => Settings::read(path)?,
        None => Settings::default(),
    };
    settings.connect.extend(args.connect.iter().cloned());
    settings.listen.extend(args.listen.iter().cloned());
    settings.mode = args.mode.or(settings.mode);
    settings.name = args.name.clone().or(settings.name);
    settings.lease_ms = args.lease_ms.or(settings.lease_ms);
    settings.scouting |= args.scouting;
    settings.zenoh = args.zenoh.clone().or(settings.zenoh);
    for (keys, direction) in [
        (&args.allow, Direction::Both),
        (&args.allow_in, Direction::In),
        (&args.allow_out, Direction::Out),
    ] {
        settings.rules.extend(keys.iter().map(|keys| Rule::allowing(keys, direction)));
    }
    Ok(settings)
}

fn run(domain: &Domain, settings: &Settings, json: bool, mut signals: File) -> Result<(), String> {
    let told = Told::new(json, Box::new(std::io::stdout()));
    let gateway = Gateway::start(domain, settings, told)?;
    let text = |error: outlive::Error| error.to_string();
    let mut watch = domain.watch();
    let mut set = WaitSet::new(domain);
    set.add(&watch).map_err(text)?;
    let mut names = Vec::new();
    loop {
        while set.try_wait().map_err(|error| error.to_string())?.next().is_some() {
            if let Some(contents) = watch.try_changed().map_err(text)? {
                names = contents.names;
                gateway.look(&names);
            }
        }
        let changes = set.as_fd().map_err(text)?;
        let mut polled = [
            PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(changes, PollFlags::IN),
        ];
        match poll(&mut polled, Some(&SECOND)) {
            // A topic that was removed and made anew has the same name: no change that is reported.
            Ok(0) if gateway.has_removed() => gateway.look(&names),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.to_string()),
        }
        let mut bytes = [0; size_of::<libc::signalfd_siginfo>()];
        if matches!(signals.read(&mut bytes), Ok(len) if len > 0) {
            gateway.close();
            return Ok(());
        }
    }
}
