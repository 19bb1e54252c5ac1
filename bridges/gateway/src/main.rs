//! The program `outlive-gateway`, which `outlive gateway` starts.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::{Duration, Instant};

use clap::Parser;
use outlive::Domain;
use outlive_program::exit::{Code, Failure};
use outlive_program::{Supervisor, block_ending_signals, open_domain};
use outlive_zenoh::gateway::Gateway;
use outlive_zenoh::rules::{Direction, Rule, Rules};
use outlive_zenoh::runtime;
use outlive_zenoh::settings::{Mode, Settings};
use outlive_zenoh::told::Told;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;

/// Carry topics, services, states and notices of a domain to other machines over zenoh, and bring theirs
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
    bin_name = "outlive gateway",
    version,
    max_term_width = 100,
    after_long_help = "Examples:\n  \
    outlive gateway --listen tcp/0.0.0.0:7447 --allow-out 'camera/**'\n  \
    outlive gateway --connect tcp/192.0.2.7:7447 --allow-in 'camera/**'\n  \
    outlive gateway --config gateway.toml --json\n\n\
    Exit codes are those of outlive: 0 asked to end; 2 usage; 6 no such file; 9 no permission; 15 zenoh or the system \
    refused; 16 a file or a rule is not valid."
)]
struct Args {
    /// Settings and rules, in TOML
    #[arg(long, value_name = "FILE", overrides_with = "config")]
    config: Option<PathBuf>,
    /// Connect to this endpoint; may be given several times
    #[arg(long, value_name = "ENDPOINT")]
    connect: Vec<String>,
    /// Listen at this endpoint; may be given several times
    #[arg(long, value_name = "ENDPOINT")]
    listen: Vec<String>,
    /// How to take part in the network [default: peer]
    #[arg(long, value_enum, overrides_with = "mode")]
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
    #[arg(long, value_name = "NAME", overrides_with = "name")]
    name: Option<String>,
    /// After so many milliseconds without a sign a peer is gone [default: 1000]
    #[arg(long, value_name = "MS", overrides_with = "lease_ms")]
    lease_ms: Option<u64>,
    /// For so many milliseconds a message may wait for room in a link, before that is closed and connected
    /// again [default: 5000]
    #[arg(long, value_name = "MS", overrides_with = "block_ms")]
    block_ms: Option<u64>,
    /// Look for other gateways and routers by multicast
    #[arg(long, overrides_with = "scouting")]
    scouting: bool,
    /// zenoh's own configuration (JSON5): TLS, users
    #[arg(long, value_name = "FILE", overrides_with = "zenoh")]
    zenoh: Option<String>,
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

/// How often the gateway looks which topics there are, where the kernel does not tell it.
const SECOND: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    // SAFETY: no other thread has been started, and nothing of zenoh used.
    unsafe { runtime::join() };
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("outlive gateway: {}", failure.message);
            ExitCode::from(failure.code as u8)
        }
    }
}

fn run(args: &Args) -> Result<(), Failure> {
    let signals = block_ending_signals().map_err(|error| {
        Failure::new(Code::System, format!("could not take over signals: {error}"))
    })?;
    let settings = settings(args)?;
    if settings.rules.is_empty() {
        let why =
            "nothing may pass: give --allow, --allow-in, --allow-out or a --config with rules";
        return Err(Failure::new(Code::Usage, why));
    }
    let is_invalid = |why| Failure::new(Code::BadInput, why);
    Rules::new(&settings.rules).map_err(is_invalid)?;
    settings.zenoh().map_err(is_invalid)?;
    let domain = open_domain(args.domain.as_deref(), args.group.as_deref(), true)?;
    act(&domain, &settings, args.json, File::from(signals))
        .map_err(|why| Failure::new(Code::System, why))
}

/// Returns that file's text, and what it is about where it cannot be read.
fn text_of(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| {
        let code = match error.kind() {
            ErrorKind::NotFound => Code::NotFound,
            ErrorKind::PermissionDenied => Code::Permission,
            ErrorKind::InvalidData => Code::BadInput,
            _ => Code::System,
        };
        Failure::new(code, format!("{}: {error}", path.display()))
    })
}

fn settings(args: &Args) -> Result<Settings, Failure> {
    let mut settings = match &args.config {
        Some(path) => Settings::of(&text_of(path)?)
            .map_err(|why| Failure::new(Code::BadInput, format!("{}: {why}", path.display())))?,
        None => Settings::default(),
    };
    settings.connect.extend(args.connect.iter().cloned());
    settings.listen.extend(args.listen.iter().cloned());
    settings.mode = args.mode.or(settings.mode);
    settings.name = args.name.clone().or(settings.name);
    settings.lease_ms = args.lease_ms.or(settings.lease_ms);
    settings.block_ms = args.block_ms.or(settings.block_ms);
    settings.scouting |= args.scouting;
    settings.zenoh = args.zenoh.clone().or(settings.zenoh);
    if let Some(path) = &settings.zenoh {
        // zenoh reads it itself, and does not say apart why it could not.
        text_of(Path::new(path))?;
    }
    for (keys, direction) in [
        (&args.allow, Direction::Both),
        (&args.allow_in, Direction::In),
        (&args.allow_out, Direction::Out),
    ] {
        settings.rules.extend(keys.iter().map(|keys| Rule::allowing(keys, direction)));
    }
    Ok(settings)
}

/// Sees to it that a signal ends the program also while the start waits: for another gateway of that name,
/// or, as a client, for its router. Nothing is shared by then but what the kernel gives back.
fn end_unless(started: &Arc<AtomicBool>, signals: &File) -> std::io::Result<()> {
    let (started, signals) = (Arc::clone(started), signals.try_clone()?);
    let wait = move || {
        let mut polled = [PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN)];
        while poll(&mut polled, None) == Err(rustix::io::Errno::INTR) {}
        if !started.load(Acquire) {
            std::process::exit(0);
        }
    };
    std::thread::Builder::new().name("gateway-signals".into()).spawn(wait).map(drop)
}

/// Returns what becomes readable when a name comes or goes in the domain's folder: the kernel says so at that
/// moment, whatever becomes of the process that did it.
fn names_change(domain: &Domain) -> rustix::io::Result<OwnedFd> {
    let changes = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
    let which = inotify::WatchFlags::CREATE
        | inotify::WatchFlags::DELETE
        | inotify::WatchFlags::MOVE
        | inotify::WatchFlags::DELETE_SELF
        | inotify::WatchFlags::MOVE_SELF;
    inotify::add_watch(&changes, domain.path(), which)?;
    Ok(changes)
}

fn act(domain: &Domain, settings: &Settings, json: bool, mut signals: File) -> Result<(), String> {
    let told = Told::new(json, Box::new(std::io::stdout()));
    let started = Arc::new(AtomicBool::new(false));
    end_unless(&started, &signals).map_err(|error| error.to_string())?;
    let gateway = Gateway::start(domain, settings, told)?;
    started.store(true, Release);
    let text = |error: outlive::Error| error.to_string();
    // None: the user has as many of these as the system lets one have. Then the gateway looks each second.
    let changes = names_change(domain).ok();
    let mut watch = domain.watch();
    let mut names = Vec::new();
    let mut supervisor = Supervisor::of_environment();
    supervisor.ready();
    loop {
        supervisor.goes_on();
        if let Some(changes) = &changes {
            // Before the look: what comes behind it is told again.
            let mut events = [0; 4096];
            while matches!(rustix::io::read(changes, &mut events), Ok(len) if len > 0) {}
        }
        if let Some(contents) = watch.try_changed().map_err(text)? {
            names = contents.names;
            gateway.look(&names);
        } else if gateway.has_removed() {
            // A topic that was removed and made anew has the same name: no change that is reported.
            gateway.look(&names);
        }
        let mut polled = vec![PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN)];
        polled.extend(changes.as_ref().map(|fd| PollFd::new(fd, PollFlags::IN)));
        let look = changes.is_none().then_some(SECOND);
        let alive = supervisor.next().map(|next| next.saturating_duration_since(Instant::now()));
        let span = [look, alive].into_iter().flatten().min().map(|span| Timespec {
            tv_sec: span.as_secs() as i64,
            tv_nsec: i64::from(span.subsec_nanos()),
        });
        match poll(&mut polled, span.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.to_string()),
        }
        let mut bytes = [0; size_of::<libc::signalfd_siginfo>()];
        if matches!(signals.read(&mut bytes), Ok(len) if len > 0) {
            supervisor.stopping();
            gateway.close();
            return Ok(());
        }
    }
}
