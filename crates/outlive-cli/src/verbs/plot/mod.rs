//! `outlive plot`: numbers of topics and states as curves, live on the terminal or in a file.
//!
//! | file | what it does |
//! | --- | --- |
//! | `source.rs` | reads what a curve is of |
//! | `follow.rs` | follows a topic or a state, on a thread of its own |
//! | `curve.rs` | keeps the points |
//! | `sheet.rs` | what a picture shows at a moment |
//! | `state.rs` | what the person has chosen |
//! | `view.rs` | draws on the terminal |
//! | `picture.rs` | draws SVG and PNG |

mod curve;
mod follow;
mod picture;
mod sheet;
mod source;
mod state;
mod view;

use std::fs;
use std::io::{IsTerminal, stdin, stdout};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;

use crate::cli::Common;
use crate::duration;
use crate::exit::{Code, Failure};
use crate::names;
use crate::output::{counted, talk};
use crate::screen::{self, Screen};
use crate::signals::{Signals, wait_readable};
use follow::{Followers, Trouble};
use sheet::Sheet;
use source::Source;
use state::State;

/// Draw numbers of topics and states as curves, live on the terminal or as a picture
///
/// SOURCE is a topic's or a state's name and the path of a number in its messages, as in pose.x,
/// scan.ranges[3] or arm.joints[2].angle; the name alone is a message that is a number. Messages
/// with a described type, msgpack, JSON, numbers as text and arrays from Python have paths. Behind a
/// topic's name, @rate stands for its messages a second, @age for how old they are when they are
/// received, in seconds by their stamps, and @bytes for their lengths.
///
/// plot waits for what is not there yet. If no number has come at the end of a picture's time, it
/// writes no file; the exit code is 6 if a topic or state is not there, 7 if it has become another type,
/// and 5 otherwise. No publisher waits for plot: what it misses is counted. What is no number, or is not in a message, is a gap in
/// the curve; a publisher's death is a red line through all of them.
///
/// Keys: the space bar or p pauses, left and right scroll, + and - show less and more time, up and
/// down show fewer and more values, Page up and down shift them, a shows all again, 1 to 9 hide a
/// curve, End goes back to now, q ends.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive plot pose.x pose.y\n  \
    outlive plot scan.ranges[0] scan@rate --window 2m\n  \
    outlive plot battery.voltage --svg battery.svg --for 1m")]
pub struct PlotArgs {
    /// What to draw, a curve each
    #[arg(required = true, value_name = "SOURCE")]
    sources: Vec<String>,
    /// Show so much time; four times as much is kept
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration::more_than_none)]
    window: Duration,
    /// End after this time [default: on a terminal when q is pressed; else the window]
    #[arg(long = "for", visible_alias = "duration", value_name = "TIME")]
    #[arg(value_parser = duration::more_than_none)]
    lasts: Option<Duration>,
    /// Write the plot into FILE as SVG at the end, instead of drawing on the terminal
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write the plot into FILE as PNG at the end, instead of drawing on the terminal
    #[arg(long, value_name = "FILE")]
    png: Option<PathBuf>,
}

/// From one picture on the terminal to the next, at least.
const FRAME: Duration = Duration::from_millis(50);
/// Times are told apart by a clock of nanoseconds, and waited for by one of years.
const WINDOWS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(7 * 24 * 3600);
/// More curves than can be told apart.
const MOST_SOURCES: usize = 64;

/// Runs the verb.
pub fn run(args: &PlotArgs, common: &Common) -> Result<(), Failure> {
    if !WINDOWS.contains(&args.window) {
        return Err(Failure::new(Code::Usage, "--window: from 100ms to 7d"));
    }
    if args.sources.len() > MOST_SOURCES {
        let text = format!("at most {MOST_SOURCES} curves");
        return Err(Failure::new(Code::Usage, text));
    }
    let is_picture = args.svg.is_some() || args.png.is_some();
    let is_terminal = stdin().is_terminal() && stdout().is_terminal();
    if !is_picture && !is_terminal {
        let text = "plot needs a terminal; use --svg FILE or --png FILE, or 'outlive topic echo'";
        return Err(Failure::new(Code::Usage, text));
    }
    for path in [&args.svg, &args.png].into_iter().flatten() {
        has_folder(path)?;
    }
    let sources = sources(args, common)?;
    // Before any thread is started.
    let signals = if is_picture { Signals::that_end()? } else { screen::signals()? };
    let begun = Instant::now();
    let curves = sources.len();
    let followers = Followers::start(sources, args.window, begun, &common.domain);
    if is_picture {
        return write(args, &followers, signals, begun, common);
    }
    let domain = common.domain.path().display().to_string().escape_debug().to_string();
    let end = args.lasts.and_then(|lasts| begun.checked_add(lasts));
    watch(State::new(args.window, curves), &followers, signals, begun, end, &domain)
}

/// Reads the sources. What is there already, and has no such number, is told at once.
fn sources(args: &PlotArgs, common: &Common) -> Result<Vec<Source>, Failure> {
    let folder = common.domain.path();
    let is_there = |name: &str| {
        !name.is_empty() && folder.join(name).symlink_metadata().is_ok_and(|facts| facts.is_file())
    };
    let mut sources = Vec::new();
    for text in &args.sources {
        let source = Source::read(text, is_there).map_err(|why| Failure::new(Code::Usage, why))?;
        match follow::flaw(&source, &common.domain) {
            Ok(None) => {}
            Ok(Some(why)) => return Err(Failure::new(Code::Mismatch, why)),
            Err(error) => return Err(error.into()),
        }
        sources.push(source);
    }
    Ok(sources)
}

/// Draws on the terminal until the person or a signal ends it.
fn watch(
    mut state: State,
    followers: &Followers,
    signals: Signals,
    begun: Instant,
    end: Option<Instant>,
    domain: &str,
) -> Result<(), Failure> {
    let mut screen = Screen::take(signals)?;
    let look = screen.look();
    loop {
        let now = begun.elapsed().as_secs_f64();
        let sheet = Sheet::of(&followers.things, state.time(now), state.values(), &state.hidden);
        screen.draw(|frame| view::draw(frame, &sheet, &state, domain, look))?;
        let next = Instant::now() + FRAME;
        // Until it is time for a picture, or there is another one to draw.
        loop {
            let Some(events) = screen.events(None, next)? else { return Ok(()) };
            let is_new = !events.is_empty();
            for event in &events {
                state.event(event, begun.elapsed().as_secs_f64(), &sheet.values);
            }
            if state.is_done() || end.is_some_and(|end| Instant::now() >= end) {
                return Ok(());
            }
            if is_new || Instant::now() >= next {
                break;
            }
        }
    }
}

/// Draws into files, at the end of the time or when a signal comes. Where there is nothing to draw, no file is made.
fn write(
    args: &PlotArgs,
    followers: &Followers,
    mut signals: Signals,
    begun: Instant,
    common: &Common,
) -> Result<(), Failure> {
    let lasts = args.lasts.unwrap_or(args.window);
    while begun.elapsed() < lasts && !signals.came()? {
        let left = lasts.saturating_sub(begun.elapsed());
        let fd = std::os::fd::AsFd::as_fd(&signals);
        wait_readable(&[fd], Some(left)).map_err(|error| Failure::system("wait", &error))?;
    }
    let now = begun.elapsed().as_secs_f64();
    // All of a shorter time, or the last of a longer one; round where no signal cut it short.
    let shown = now.min(lasts.as_secs_f64()).min(args.window.as_secs_f64());
    let sheet = Sheet::of(&followers.things, (now - shown, now), None, &[]);
    let absent = followers.absent();
    if sheet.lines.iter().all(|line| line.last.is_none()) {
        return Err(nothing(&sheet, &absent, followers.instead(), common));
    }
    let drawn = |result: Result<Vec<u8>, String>| {
        result.map_err(|why| Failure::new(Code::System, format!("could not draw: {why}")))
    };
    if let Some(path) = &args.svg {
        save(path, &drawn(picture::svg(&sheet).map(String::into_bytes))?)?;
    }
    if let Some(path) = &args.png {
        save(path, &drawn(picture::png(&sheet))?)?;
    }
    for name in absent {
        talk(not_there(&name, common));
    }
    for line in sheet.lines.iter().filter(|line| line.last.is_none() && line.trouble.is_none()) {
        talk(format_args!("no number has come of {}", line.label));
    }
    Ok(())
}

/// Returns why there is nothing to draw.
fn nothing(sheet: &Sheet, absent: &[String], instead: Option<String>, common: &Common) -> Failure {
    if let Some(name) = absent.first() {
        return Failure::new(Code::NotFound, not_there(name, common));
    }
    if let Some(Trouble::Wrong(why)) = sheet.trouble() {
        return Failure::new(Code::Mismatch, why);
    }
    let text = match sheet.lines.iter().map(|line| line.gaps).max() {
        None | Some(0) => "no number has come".to_owned(),
        Some(gaps) => {
            let instead = instead.map(|all| format!("; it has {all}")).unwrap_or_default();
            format!("no number has come, but {} without one{instead}", counted(gaps, "message"))
        }
    };
    Failure::new(Code::TimedOut, text)
}

fn not_there(name: &str, common: &Common) -> String {
    let near = names::similar(&common.domain.path().join(name));
    let meant = near.map(|near| format!(" (is '{}' meant?)", near.escape_debug()));
    let (name, meant) = (name.escape_debug(), meant.unwrap_or_default());
    format!("there is no topic or state '{name}'{meant}")
}

/// Refuses a file in a folder that is not there before any time is spent on it.
fn has_folder(path: &Path) -> Result<(), Failure> {
    let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    match fs::metadata(folder) {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::system(format_args!("write {}", path.display()), &error)),
    }
}

fn save(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    fs::write(path, bytes)
        .map_err(|error| Failure::system(format_args!("write {}", path.display()), &error))
}
