//! The program `outlive-replay`, which `outlive replay` becomes.

mod args;
mod keys;

use std::fs::File;
use std::io::{IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use clap::error::ErrorKind;
use outlive_program::exit::{Code, Failure, code_of_io};
use outlive_program::figures::{count, counted};
use outlive_program::names;
use outlive_program::{block_ending_signals, open_domain};
use outlive_record::Error;
use outlive_record::replay::{Due, Player, Rate};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::json;

use crate::args::Args;
use crate::keys::{Key, Keys};

/// How far the arrow keys go, in nanoseconds.
const SEEK: i64 = 5_000_000_000;
/// How often the line on a terminal is written anew.
const TOLD: Duration = Duration::from_millis(250);
/// At the greatest rate signals and keys are looked for after so many messages.
const TURN: u32 = 4096;
/// And as often where all that comes is late.
const LATE: u32 = 64;

fn main() -> ExitCode {
    let args = Args::try_parse().unwrap_or_else(|error| refuse(&error));
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            say(&format!("outlive replay: {}", failure.message));
            ExitCode::from(failure.code as u8)
        }
    }
}

/// Ends the program as the parser does, and says which mistake it may be.
fn refuse(error: &clap::Error) -> ! {
    let _ = error.print();
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    if let (ErrorKind::MissingRequiredArgument, Some(hint)) =
        (error.kind(), names::taken_files(&words, &["--topics"]))
    {
        say(&hint);
    }
    std::process::exit(error.exit_code())
}

fn run(args: &Args) -> Result<(), Failure> {
    if args.fifo.is_some() && args.is_max() {
        let text = "--fifo with --rate max would keep all others off the processor";
        return Err(Failure::new(Code::Usage, text));
    }
    let system =
        |error| Failure::new(Code::System, format!("could not take over signals: {error}"));
    let signals = File::from(block_ending_signals().map_err(system)?);
    let files = args.files().map_err(failure)?;
    let domain = open_domain(args.domain.as_deref(), args.group.as_deref(), true)?;
    let keys = Keys::take();
    if args.paused && keys.is_none() {
        let text = "--paused: there is no terminal whose keys could let it go on";
        return Err(Failure::new(Code::Usage, text));
    }
    let player = Player::open(&domain, &files, args.options()).map_err(failure)?;
    let mut telling = Telling::new(args.json);
    if let Some(text) = args.notice(&files) {
        telling.notice(&text);
    }
    let mut replay =
        Replay { player, signals, keys, telling, must_end: false, is_cut_short: false };
    replay.telling.begin(&mut replay.player);
    be_punctual(args.fifo, &mut replay.telling);
    let done = replay.wait_for_subscribers(args.wait).and_then(|()| {
        let end = args.duration.map(|span| Instant::now() + span);
        replay.play(end)
    });
    replay.keys = None;
    replay.telling.notices(&mut replay.player);
    replay.telling.end_line();
    done?;
    replay.telling.end(&replay.player);
    // All of it was read.
    if !replay.must_end
        && !replay.is_cut_short
        && let Some(error) = replay.player.unmet()
    {
        return Err(failure(error));
    }
    match replay.player.counts().faults {
        0 => Ok(()),
        faults => {
            let parts = counted(faults, "damaged part");
            let text = format!("{parts} of the files passed over; 'outlive bag check' tells which");
            Err(Failure::new(Code::Damaged, text))
        }
    }
}

/// The kernel wakes this thread when it is due, and not up to 50 µs later.
fn be_punctual(fifo: Option<i32>, telling: &mut Telling) {
    let slack = std::num::NonZeroU64::new(1);
    let _ = rustix::thread::set_current_timer_slack(slack);
    let Some(sched_priority) = fifo else { return };
    let parameter = libc::sched_param { sched_priority };
    // SAFETY: the parameter is this function's own; 0 is the calling thread.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameter) } != 0 {
        let error = std::io::Error::last_os_error();
        telling.notice(&format!("SCHED_FIFO is refused ({error}); it goes on without"));
    }
}

struct Replay {
    player: Player,
    signals: File,
    keys: Option<Keys>,
    telling: Telling,
    must_end: bool,
    /// Its time was over before the recording's end.
    is_cut_short: bool,
}

impl Replay {
    fn wait_for_subscribers(&mut self, wanted: u64) -> Result<(), Failure> {
        while !self.must_end && self.player.subscribers() < wanted {
            self.heed(Some(Instant::now() + Duration::from_millis(20)))?;
        }
        Ok(())
    }

    fn play(&mut self, end: Option<Instant>) -> Result<(), Failure> {
        let begun = Instant::now();
        let mut late = 0_u32;
        while !self.must_end && end.is_none_or(|end| Instant::now() < end) {
            let due = match self.player.due().map_err(failure)? {
                Due::End => return Ok(()),
                Due::Paused => {
                    self.heed(Some(self.telling.next().min_of(end)))?;
                    self.telling.tell(&mut self.player);
                    continue;
                }
                Due::Unknown => {
                    self.heed(Some(begun))?;
                    self.telling.tell(&mut self.player);
                    continue;
                }
                Due::At(due) => due,
            };
            if self.player.rate().0 == Rate::Max {
                self.player.publish_some(TURN).map_err(failure)?;
                self.heed(Some(begun))?;
                self.telling.tell(&mut self.player);
                continue;
            }
            if due > Instant::now() {
                self.heed(Some(due.min(self.telling.next()).min_of(end)))?;
                // A key changed what is due, or it is time to tell how far it is.
                if Instant::now() < due {
                    self.telling.tell(&mut self.player);
                    continue;
                }
            } else {
                late += 1;
                if late.is_multiple_of(LATE) {
                    self.heed(Some(due))?;
                    self.telling.tell(&mut self.player);
                }
            }
            if !self.player.publish().map_err(failure)? {
                self.heed(Some(due))?;
                self.telling.tell(&mut self.player);
            }
        }
        self.is_cut_short = true;
        Ok(())
    }

    /// Waits for a key or a signal until that moment, and does what it asks for.
    fn heed(&mut self, until: Option<Instant>) -> Result<(), Failure> {
        let span = until.map(|until| until.saturating_duration_since(Instant::now()));
        let span = span.map(|span| Timespec {
            tv_sec: span.as_secs() as i64,
            tv_nsec: span.subsec_nanos().into(),
        });
        let mut fds = vec![PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN)];
        fds.extend(
            self.keys.as_ref().map(|keys| PollFd::from_borrowed_fd(keys.fd(), PollFlags::IN)),
        );
        match poll(&mut fds, span.as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(()),
            Ok(_) => {}
            Err(error) => return Err(Failure::new(Code::System, format!("poll: {error}"))),
        }
        let has = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let (signal, key) = (has(&fds[0]), fds.get(1).is_some_and(has));
        if signal && (&self.signals).read(&mut [0; 128]).is_ok() {
            self.must_end = true;
        }
        if !key {
            return Ok(());
        }
        let Some(pressed) = self.keys.as_mut().and_then(Keys::read) else {
            self.keys = None;
            return Ok(());
        };
        for key in pressed {
            let player = &mut self.player;
            match key {
                Key::Toggle => player.toggle(),
                Key::Step => player.step().map_err(failure)?,
                Key::Back => player.seek_by(-SEEK).map_err(failure)?,
                Key::Forward => player.seek_by(SEEK).map_err(failure)?,
                Key::Faster => player.speed_by(2.0),
                Key::Slower => player.speed_by(0.5),
                Key::End => self.must_end = true,
            }
            self.telling.told = None;
            self.telling.tell(&mut self.player);
        }
        Ok(())
    }
}

trait MinOf {
    fn min_of(self, other: Option<Instant>) -> Instant;
}

impl MinOf for Instant {
    fn min_of(self, other: Option<Instant>) -> Instant {
        other.map_or(self, |other| self.min(other))
    }
}

fn failure(error: Error) -> Failure {
    use outlive_mcap::Error as File;
    match error {
        Error::Outlive(error) => error.into(),
        Error::Publish { topic, error } => {
            let failure = Failure::from(error);
            Failure::new(failure.code, format!("{}: {}", names::shown(&topic), failure.message))
        }
        Error::Topic { topic, error } => {
            let text = Error::Topic { topic, error: error.clone() }.to_string();
            Failure::new(Failure::from(error).code, text)
        }
        error => {
            let code = match &error {
                Error::Io { error, .. }
                | Error::File(File::Io { error, .. })
                | Error::Fault { error: File::Io { error, .. }, .. } => code_of_io(error),
                Error::TwoTopics { .. } => Code::Mismatch,
                Error::OtherChannel { .. } => Code::Damaged,
                Error::NoTopic { .. }
                | Error::NoneLike { .. }
                | Error::NothingThen { .. }
                | Error::File(File::NoRecording { .. }) => Code::NotFound,
                Error::File(inside) | Error::Fault { error: inside, .. } => match inside {
                    File::NotMcap { .. }
                    | File::OtherVersion { .. }
                    | File::UnknownCompression { .. } => Code::NotOurs,
                    File::Cut { .. }
                    | File::Damaged { .. }
                    | File::TwoChannels { .. }
                    | File::TooLarge { .. } => Code::Damaged,
                    _ => Code::System,
                },
                _ => Code::System,
            };
            Failure::new(code, error)
        }
    }
}

/// What the player tells while it runs: on a terminal a line that is written over.
struct Telling {
    json: bool,
    is_seen: bool,
    told: Option<Instant>,
    has_line: bool,
}

impl Telling {
    fn new(json: bool) -> Telling {
        let is_seen = json || std::io::stderr().is_terminal();
        Telling { json, is_seen, told: None, has_line: false }
    }

    fn begin(&mut self, player: &mut Player) {
        self.notices(player);
        if self.json {
            let (_, length) = player.progress();
            let topics = player.counts().topics;
            say_json(&json!({"event": "plays", "topics": topics, "seconds": seconds(length)}));
        }
    }

    fn notices(&mut self, player: &mut Player) {
        for notice in player.take_notices() {
            self.notice(&notice);
        }
    }

    fn notice(&mut self, text: &str) {
        self.end_line();
        match self.json {
            true => say_json(&json!({"event": "notice", "why": text})),
            false => say(&format!("outlive replay: {text}")),
        }
    }

    fn span(&self) -> Duration {
        if self.json { Duration::from_secs(1) } else { TOLD }
    }

    /// When it is time to tell again.
    fn next(&self) -> Instant {
        match self.told {
            Some(told) if self.is_seen => told + self.span(),
            None if self.is_seen => Instant::now(),
            _ => Instant::now() + Duration::from_secs(3600),
        }
    }

    fn tell(&mut self, player: &mut Player) {
        self.notices(player);
        if !self.is_seen || self.told.is_some_and(|told| told.elapsed() < self.span()) {
            return;
        }
        self.told = Some(Instant::now());
        let ((at, length), counts, (rate, is_paused)) =
            (player.progress(), player.counts(), player.rate());
        if self.json {
            say_json(
                &json!({"event": "progress", "seconds": seconds(at), "messages": counts.messages,
                    "bytes": counts.bytes, "paused": is_paused}),
            );
            return;
        }
        let rate = match rate {
            Rate::Max => "max".to_owned(),
            Rate::Times(rate) => format!("x{rate}"),
        };
        let state = if is_paused { "paused" } else { "plays" };
        let mut out = std::io::stderr().lock();
        let _ = write!(
            out,
            "\r\x1b[K{:.1} of {:.1} s  {rate}  {state}  {}",
            seconds(at),
            seconds(length),
            counted(counts.messages, "message")
        );
        let _ = out.flush();
        self.has_line = true;
    }

    fn end_line(&mut self) {
        if std::mem::take(&mut self.has_line) {
            say("");
        }
    }

    fn end(&mut self, player: &Player) {
        let (counts, late) = (player.counts(), player.late());
        if self.json {
            let [p50, p99, max] =
                late.map_or([None; 3], |late| late.map(|late| Some(late as f64 / 1e3)));
            say_json(&json!({"event": "ended", "messages": counts.messages, "bytes": counts.bytes,
                    "topics": counts.topics, "refused": counts.refused, "faults": counts.faults,
                    "stalls": counts.stalls, "late_p50_us": p50, "late_p99_us": p99, "late_max_us": max}));
            return;
        }
        let topics = counted(counts.topics as u64, "topic");
        let mut text = format!("{} of {topics}", counted(counts.messages, "message"));
        if let Some([p50, p99, max]) = late {
            let [p50, p99, max] = [p50, p99, max].map(shown);
            text += &format!("; late: median {p50}, 99th percentile {p99}, most {max}");
        }
        if counts.refused > 0 {
            text += &format!("; {} passed over", count(counts.refused));
        }
        if counts.stalls > 0 {
            text += &format!("; {}", counted(counts.stalls, "stall"));
        }
        say(&text);
    }
}

/// Writes a line to standard error. If its reader has gone, the replay goes on.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Writes a line to standard output. If its reader has gone, the replay goes on.
fn say_json(line: &serde_json::Value) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

fn seconds(nanoseconds: u64) -> f64 {
    (nanoseconds / 1_000_000) as f64 / 1e3
}

/// Returns a time as text.
fn shown(nanoseconds: u64) -> String {
    match nanoseconds {
        0..1_000_000 => format!("{:.1} µs", nanoseconds as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", nanoseconds as f64 / 1e6),
        _ => format!("{:.1} s", nanoseconds as f64 / 1e9),
    }
}
