//! `outlive image`: the pictures of a topic, on the terminal.
//!
//! | file | what it does |
//! | --- | --- |
//! | `picture.rs` | finds the picture in a message |
//! | `ros.rs` | reads ROS's own messages |
//! | `terminal.rs` | finds out what the terminal can show |
//! | `blocks.rs` | draws with characters |
//! | `graphics.rs` | draws with pixels: sixel and kitty |

mod blocks;
mod graphics;
mod picture;
mod ros;
mod terminal;

use std::io::{IsTerminal, Write, stdin, stdout};
use std::time::{Duration, Instant};

use clap::Args;
use outlive::describe::Description;
use outlive::topic::{Durability, Sample, Subscriber, Topic};
use outlive::{Deadline, Domain, Error, RecvError};
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::Rect;

use crate::cli::Common;
use crate::duration;
use crate::exit::{Code, Failure};
use crate::output;
use crate::screen::{self, Look, Screen};
use crate::signals::{SLICE, Signals};
use crate::verbs::awaited::{Awaited, Found};
use picture::{Picture, Raw};
use terminal::{As, Size};

/// Show the pictures of a topic on the terminal
///
/// Messages are pictures as ROS's sensor_msgs/Image or CompressedImage, from a bridge or as a
/// described type with its fields width, height and data, perhaps encoding, step and is_bigendian;
/// JPEG and PNG files; arrays from Python of rows, pixels and their parts; or bare pixels, with
/// --size. The encodings are rgb8, bgr8, rgba8, bgra8, mono8, mono16, 16UC1 and 32FC1, whose
/// distances are the brighter the nearer, and of bayer_* the brightness.
///
/// image shows the newest picture, as many a second as --rate says and the terminal takes, and
/// passes over the others: no publisher waits for it. Keys: the space bar or p pauses, q ends.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive image camera\n  \
    outlive image camera --once --as sixel\n  \
    outlive image frames --size 640x480 --encoding rgb8")]
pub struct ImageArgs {
    /// The topic's name; a topic that is not there is waited for
    topic: String,
    /// How to show pictures [default: what the terminal says that it can]
    #[arg(long = "as", value_name = "WAY")]
    way: Option<As>,
    /// Print one picture below the other text, the latest that the topic keeps, else the next one,
    /// and end
    #[arg(long)]
    once: bool,
    /// Show at most HZ pictures a second
    #[arg(long, value_name = "HZ", default_value_t = 10.0)]
    rate: f64,
    /// Messages are bare pixels, so many across and down, as in 640x480
    #[arg(long, value_name = "SIZE", value_parser = size)]
    size: Option<(u64, u64)>,
    /// With --size: what a pixel is [default: what its bytes say: mono8, rgb8 or rgba8]
    #[arg(long, value_name = "NAME", requires = "size")]
    encoding: Option<String>,
    /// With --once: give up with exit code 5 when no message has come for this time [default: wait
    /// for ever]
    #[arg(long, short = 'w', value_name = "TIME", value_parser = duration::seconds, requires = "once")]
    timeout: Option<Duration>,
}

fn size(text: &str) -> Result<(u64, u64), String> {
    let sides = text.split_once('x');
    let sides = sides.and_then(|(across, down)| Some((across.parse().ok()?, down.parse().ok()?)));
    sides.ok_or_else(|| "a size is written 640x480".to_owned())
}

/// The topic, our end of it, and the description of its messages.
type Here = (Topic<[u8]>, Subscriber<[u8]>, Option<Description>);

/// Opens the topic, with its latest message if it keeps one.
fn open(domain: &Domain, name: &str) -> Result<Here, Error> {
    let topic = Topic::open_as_bytes(domain, name)?;
    let history = u32::from(topic.config().durability > Durability::Volatile);
    let options = Subscriber::options().keep_last(1).history(history);
    let subscriber = topic.subscriber_with(options)?;
    let description = topic.description()?;
    Ok((topic, subscriber, description))
}

/// Runs the verb.
pub fn run(args: &ImageArgs, common: &Common) -> Result<(), Failure> {
    if !(args.rate > 0.0 && args.rate <= 1000.0) {
        return Err(Failure::new(Code::Usage, "--rate: more than 0 and at most 1000"));
    }
    let is_known = |name: &String| picture::Form::of_name(name).is_some();
    if let Some(name) = args.encoding.as_ref().filter(|name| !is_known(name)) {
        let text = format!("--encoding: '{}' is not known", name.escape_debug());
        return Err(Failure::new(Code::Usage, text));
    }
    if args.once {
        return once(args, common);
    }
    if !stdin().is_terminal() || !stdout().is_terminal() {
        let text = "image needs a terminal; use --once, or 'outlive topic echo --output FILE'";
        return Err(Failure::new(Code::Usage, text));
    }
    watch(args, common)
}

/// Returns the picture of a message.
fn picture<'a>(
    args: &ImageArgs,
    sample: &'a Sample<[u8]>,
    description: Option<&Description>,
) -> Result<Picture<'a>, String> {
    match args.size {
        Some((width, height)) => Picture::of_raw(&Raw {
            width,
            height,
            encoding: args.encoding.clone().unwrap_or_default(),
            data: sample.bytes(),
            ..Raw::default()
        }),
        None => Picture::of(sample.bytes(), &sample.header().own, description),
    }
}

/// Returns a picture as pixels of the terminal; `None`: as characters.
fn graphics(picture: &Picture<'_>, way: As, size: Size) -> Option<String> {
    let whole = (picture.width, picture.height);
    let cells = size.cells(whole);
    let (width, height) = size.pixels(cells, whole, way == As::Kitty);
    match way {
        As::Sixel => Some(graphics::sixel(&picture.scaled(width, height))),
        As::Kitty => Some(graphics::kitty(&picture.scaled(width, height), cells)),
        As::Blocks => None,
    }
}

/// Prints one picture.
fn once(args: &ImageArgs, common: &Common) -> Result<(), Failure> {
    let mut signals = Signals::that_end()?;
    let way = args.way.unwrap_or_else(As::found);
    let until = args.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let mut awaited = Awaited::new("a publisher", &args.topic, &common.domain);
    let late = || {
        let text = format!("no message on '{}'", args.topic.escape_debug());
        Failure::new(Code::TimedOut, text)
    };
    let (topic, mut subscriber, description) =
        match awaited.wait(Some(&mut signals), until, open)? {
            Found::Thing(here) => here,
            Found::Late => return Err(late()),
            Found::End => return Ok(()),
        };
    let sample = loop {
        let now = Instant::now();
        let slice = until.map_or(now + SLICE, |until| until.min(now + SLICE));
        if let Some(sample) = subscriber.recv_until(Deadline::at(slice))? {
            break sample;
        }
        if signals.came()? {
            return Ok(());
        }
        if until.is_some_and(|until| Instant::now() >= until) || topic.is_removed() {
            return Err(late());
        }
    };
    let picture = picture(args, &sample, description.as_ref())
        .map_err(|why| Failure::new(Code::BadInput, why))?;
    let mut size = Size::of_terminal().unwrap_or(Size::of_cells(80, 24));
    // The line of the command and the next prompt stay in sight.
    size.rows = size.rows.saturating_sub(2).max(1);
    if let Some(text) = graphics(&picture, way, size) {
        let down = size.cells((picture.width, picture.height)).1;
        // kitty leaves the cursor where it was.
        let below = if way == As::Kitty { "\n".repeat(down.into()) } else { "\n".to_owned() };
        return output::print(text + &below);
    }
    let (columns, rows) = size.cells((picture.width, picture.height));
    let mut buffer = Buffer::empty(Rect::new(0, 0, columns, rows));
    let pixels = picture.scaled(columns.into(), usize::from(rows) * 2);
    let look = Look::of_environment();
    blocks::draw(&pixels, buffer.area, &mut buffer, look, blocks::has_all_colors());
    output::print(blocks::text(&buffer))
}

/// What is shown above the picture, and what is drawn next.
#[derive(Default)]
struct Shown {
    pictures: u64,
    /// Why there is no picture.
    trouble: Option<String>,
    is_paused: bool,
    /// In how many cells the picture before stood.
    cells: (u16, u16),
}

/// Shows pictures until a key or a signal ends it.
fn watch(args: &ImageArgs, common: &Common) -> Result<(), Failure> {
    let signals = screen::signals()?;
    // What is there and cannot be opened is told on an ordinary screen.
    let look_for =
        || match common.domain.open_existing().and_then(|domain| open(&domain, &args.topic)) {
            Ok(here) => Ok(Some(here)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(Failure::from(error)),
        };
    let mut here = look_for()?;
    let way = args.way.unwrap_or_else(As::found);
    let mut screen = Screen::take(signals)?;
    let (look, all_colors) = (screen.look(), blocks::has_all_colors());
    let pause = Duration::from_secs_f64(1.0 / args.rate);
    let mut shown = Shown::default();
    // Of what is there: the picture stays when nothing comes, and is drawn anew when asked.
    let mut last: Option<Sample<[u8]>> = None;
    let mut is_new = true;
    let mut drawn_for = None;
    loop {
        if here.is_none() {
            here = look_for()?;
        }
        if let Some((topic, subscriber, _)) = here.as_mut().filter(|_| !shown.is_paused) {
            match subscriber.try_recv() {
                Ok(Some(sample)) => (last, is_new) = (Some(sample), true),
                Ok(None) if topic.is_removed() => (here, last, is_new) = (None, None, true),
                Ok(None) => {}
                // The topic allows one sample at a time: the next look takes the newer one.
                Err(RecvError::TooManyHeld) => last = None,
                Err(error) => return Err(error.into()),
            }
        }
        // Another size of the terminal is another picture.
        let size = Size::of_terminal();
        let begun = Instant::now();
        if is_new || size != drawn_for {
            (is_new, drawn_for) = (false, size);
            let description = here.as_ref().and_then(|(.., description)| description.as_ref());
            let found = last.as_ref().map(|sample| picture(args, sample, description));
            let found = found.transpose();
            shown.trouble = found.as_ref().err().cloned();
            let picture = found.ok().flatten();
            shown.pictures += u64::from(picture.is_some());
            draw(&mut screen, &mut shown, picture.as_ref(), args, way, (look, all_colors))?;
        }
        // A terminal that takes its time has as much of it for all else.
        let next = Instant::now() + pause.max(begun.elapsed());
        while Instant::now() < next {
            let Some(events) = screen.events(None, next)? else { return Ok(()) };
            for event in &events {
                match event {
                    Event::Key(key) if key.kind != KeyEventKind::Release => match key.code {
                        KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                        KeyCode::Char('c' | 'd')
                            if key.modifiers.contains(KeyModifiers::CONTROL) =>
                        {
                            return Ok(());
                        }
                        KeyCode::Char('p' | ' ') => {
                            (shown.is_paused, is_new) = (!shown.is_paused, true);
                        }
                        _ => {}
                    },
                    Event::Resize(..) => is_new = true,
                    _ => {}
                }
            }
            // After a stop the screen is empty.
            is_new |= screen.is_taken_anew();
            if is_new {
                break;
            }
        }
    }
}

fn draw(
    screen: &mut Screen,
    shown: &mut Shown,
    picture: Option<&Picture<'_>>,
    args: &ImageArgs,
    way: As,
    (look, all_colors): (Look, bool),
) -> Result<(), Failure> {
    let title = title(shown, picture, &args.topic);
    let (mut text, mut is_as_before) = (None, false);
    screen.draw(|frame| {
        let area = frame.area();
        let below = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
        frame.buffer_mut().set_stringn(
            0,
            0,
            &title,
            area.width.into(),
            ratatui::style::Style::new(),
        );
        let Some(picture) = picture.filter(|_| below.height > 0) else { return };
        let mut size = Size::of_terminal().unwrap_or(Size::of_cells(area.width, area.height));
        // Behind sixels the cursor is on the next row, which must be there: else all is scrolled.
        let rows = below.height - u16::from(way == As::Sixel && below.height > 1);
        (size.columns, size.rows) = (below.width, rows);
        text = graphics(picture, way, size);
        let cells = size.cells((picture.width, picture.height));
        is_as_before = std::mem::replace(&mut shown.cells, cells) == cells;
        if text.is_none() {
            let (columns, rows) = size.cells((picture.width, picture.height));
            let place = Rect { width: columns, height: rows, ..below };
            let pixels = picture.scaled(columns.into(), usize::from(rows) * 2);
            blocks::draw(&pixels, place, frame.buffer_mut(), look, all_colors);
        }
    })?;
    if let Some(text) = text {
        // Below the title, over the picture before.
        let mut out = stdout().lock();
        let erase = if is_as_before { "" } else { "\x1b[J" };
        write!(out, "\x1b[2;1H{erase}{text}")
            .and_then(|()| out.flush())
            .map_err(|error| Failure::system("use the terminal", &error))?;
    }
    Ok(())
}

fn title(shown: &Shown, picture: Option<&Picture<'_>>, topic: &str) -> String {
    let topic = topic.escape_debug();
    let what = match (picture, &shown.trouble) {
        (Some(picture), _) => format!("{} x {}", picture.width, picture.height),
        (None, Some(why)) => why.escape_debug().to_string(),
        (None, None) => "waiting for a picture".to_owned(),
    };
    let paused = if shown.is_paused { "  paused" } else { "" };
    format!(
        "outlive image  {topic}  {what}  {} shown{paused}  q quit",
        output::count(shown.pictures)
    )
}
