//! The live table: in place on a terminal, a line now and then elsewhere.

use std::io::Write;
use std::time::{Duration, Instant};

use rustix::termios::tcgetwinsize;

use crate::output::{self, bytes, count};

/// What there is to see at a moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Since the demo began.
    pub elapsed: Duration,
    /// Records compared.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Producers killed.
    pub producers_killed: u64,
    /// Consumers killed.
    pub consumers_killed: u64,
    /// Frames that the robot's sensors have published; `None`: there is no robot.
    pub frames: Option<u64>,
    /// Processes of the robot killed.
    pub robots_killed: u64,
    /// Locks taken over from a dead owner.
    pub owner_deaths: u64,
    /// Sends cut short.
    pub abandoned: u64,
    /// Messages handed out again.
    pub redelivered: u64,
    /// The longest time without a message.
    pub longest_stall: Duration,
}

/// Where the figures are shown.
pub struct Table {
    how: How,
    title: [String; 2],
    length: Duration,
    last: Option<(Instant, u64, u64)>,
    rate: (f64, f64),
    history: Vec<f64>,
}

enum How {
    /// Rows that are written over each other; how many there are.
    InPlace { rows: usize, colour: bool },
    /// A line each time this much has passed.
    Lines { next: Duration },
}

/// How often a terminal is written to.
pub const TICK: Duration = Duration::from_millis(100);
const LINE_EVERY: Duration = Duration::from_secs(1);
const ROWS_NEEDED: u16 = 16;
const COLUMNS_NEEDED: u16 = 60;

impl Table {
    /// Begins the table; `title` says in two lines what is going on, `length` how long it will.
    pub fn new(title: [String; 2], length: Duration) -> Table {
        let plain = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let how = match size() {
            Some((columns, rows)) if !plain && columns >= COLUMNS_NEEDED && rows >= ROWS_NEEDED => {
                How::InPlace {
                    rows: 0,
                    colour: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
                }
            }
            _ => How::Lines { next: LINE_EVERY },
        };
        let table = Table { how, title, length, last: None, rate: (0.0, 0.0), history: Vec::new() };
        match table.how {
            How::InPlace { .. } => table.write("\x1b[?25l\n"),
            How::Lines { .. } => {
                let title = format!("{}; {}\n", table.title[0], table.title[1]);
                table.write(&title);
            }
        }
        table
    }

    /// Shows the figures of this moment.
    pub fn show(&mut self, figures: &Figures) {
        self.measure(figures);
        self.draw(figures);
    }

    /// Shows the figures of the whole, when it is over.
    pub fn show_last(&mut self, figures: &Figures) {
        let seconds = figures.elapsed.as_secs_f64().max(1e-9);
        self.rate = (figures.records as f64 / seconds, figures.bytes as f64 / seconds);
        if let How::Lines { next } = &mut self.how {
            *next = Duration::ZERO;
        }
        self.draw(figures);
    }

    fn draw(&mut self, figures: &Figures) {
        let text = match &mut self.how {
            How::Lines { next } if figures.elapsed < *next => return,
            How::Lines { next } => {
                // From now on, not from a moment that has long passed: a start may take long.
                *next = figures.elapsed.max(*next) + LINE_EVERY;
                self.line(figures)
            }
            How::InPlace { rows, colour } => {
                let (rows, colour) = (*rows, *colour);
                let columns = size().map_or(80, |(columns, _)| columns as usize);
                let frame = self.frame(figures, columns, colour);
                let mut text = String::new();
                if rows > 0 {
                    text.push_str(&format!("\x1b[{rows}A\r"));
                }
                for line in &frame {
                    text.push_str(line);
                    text.push_str("\x1b[K\n");
                }
                self.how = How::InPlace { rows: frame.len(), colour };
                text
            }
        };
        self.write(&text);
    }

    fn measure(&mut self, figures: &Figures) {
        let now = Instant::now();
        let Some((then, records, bytes)) = self.last else {
            self.last = Some((now, figures.records, figures.bytes));
            return;
        };
        let passed = (now - then).as_secs_f64();
        if passed < TICK.as_secs_f64() * 0.5 {
            return;
        }
        let records_now = (figures.records - records) as f64 / passed;
        let bytes_now = (figures.bytes - bytes) as f64 / passed;
        // Half of it is news: a figure that can be read, and still moves.
        let smooth = |old: f64, new: f64| if old == 0.0 { new } else { old * 0.5 + new * 0.5 };
        self.rate = (smooth(self.rate.0, records_now), smooth(self.rate.1, bytes_now));
        self.history.push(records_now);
        self.last = Some((now, figures.records, figures.bytes));
    }

    fn line(&self, figures: &Figures) -> String {
        format!(
            "{:>5.1} s  {:>9} msg/s  {:>9}/s  frames {}  killed {}+{}+{}  owner deaths {}  abandoned {}  redelivered {}  stall {}\n",
            figures.elapsed.as_secs_f64(),
            count(self.rate.0 as u64),
            bytes(self.rate.1 as u64),
            figures.frames.unwrap_or(0),
            figures.producers_killed,
            figures.consumers_killed,
            figures.robots_killed,
            figures.owner_deaths,
            figures.abandoned,
            figures.redelivered,
            milliseconds(figures.longest_stall),
        )
    }

    fn frame(&self, figures: &Figures, columns: usize, colour: bool) -> Vec<String> {
        let (bold, dim, plain) =
            if colour { ("\x1b[1m", "\x1b[2m", "\x1b[0m") } else { ("", "", "") };
        let room = columns.saturating_sub(34);
        let row = |name: &str, figure: String, what: String| {
            let what: String = what.chars().take(room).collect();
            format!("  {name:<13}  {bold}{figure:>13}{plain}  {dim}{what}{plain}")
        };
        let rate = format!("{:>9} a second  ", count(self.rate.0 as u64));
        let spark = sparkline(&self.history, room.saturating_sub(rate.chars().count()));
        let per_second = format!("{:>9} a second", bytes(self.rate.1 as u64));
        let killed = figures.producers_killed + figures.consumers_killed + figures.robots_killed;
        let who = format!(
            "{} and {} of the queue, {} of the robot",
            figures.producers_killed, figures.consumers_killed, figures.robots_killed
        );
        let [title, below] = self
            .title
            .each_ref()
            .map(|line| line.chars().take(columns.saturating_sub(3)).collect::<String>());
        let frames = figures.frames.map(|frames| {
            row("frames", count(frames), "from sensors; each checked while held".into())
        });
        let mut lines = vec![
            format!("  {bold}{title}{plain}"),
            format!("  {dim}{below}{plain}"),
            String::new(),
            format!(
                "  {}",
                bar(figures.elapsed, self.length, columns.saturating_sub(4), dim, plain)
            ),
            String::new(),
            row("messages", count(figures.records), rate + &spark),
            row("payload", bytes(figures.bytes), per_second),
            row("killed", count(killed), who),
            row(
                "owner deaths",
                count(figures.owner_deaths),
                "died holding the lock; repaired by the next".into(),
            ),
            row("abandoned", count(figures.abandoned), "died in the middle of a send".into()),
            row(
                "redelivered",
                count(figures.redelivered),
                "marked, after a consumer's death".into(),
            ),
            row("longest stall", milliseconds(figures.longest_stall), "without a message".into()),
            String::new(),
        ];
        if let Some(frames) = frames {
            lines.insert(7, frames);
        }
        lines
    }

    /// Says something to the person; a closed terminal is no reason to stop.
    fn write(&self, text: &str) {
        let mut out = std::io::stderr().lock();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if let How::InPlace { .. } = self.how {
            self.write("\x1b[?25h");
        }
    }
}

/// Columns and rows of the terminal, if a person looks at one.
fn size() -> Option<(u16, u16)> {
    if !output::is_watched() {
        return None;
    }
    tcgetwinsize(std::io::stderr()).ok().map(|size| (size.ws_col, size.ws_row))
}

fn bar(elapsed: Duration, length: Duration, columns: usize, dim: &str, plain: &str) -> String {
    let told = format!("  {:.1} of {:.1} s", elapsed.as_secs_f64(), length.as_secs_f64());
    let width = columns.saturating_sub(told.len());
    let part = if length.is_zero() {
        1.0
    } else {
        (elapsed.as_secs_f64() / length.as_secs_f64()).min(1.0)
    };
    let full = (part * width as f64) as usize;
    format!("{}{dim}{}{plain}{told}", "━".repeat(full), "─".repeat(width - full))
}

/// Returns the last values, as high as they are beside the highest of them.
fn sparkline(values: &[f64], width: usize) -> String {
    const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let shown = &values[values.len().saturating_sub(width)..];
    let highest = shown.iter().copied().fold(1.0, f64::max);
    shown.iter().map(|value| STEPS[((value / highest * 7.0).round() as usize).min(7)]).collect()
}

/// Returns a time for a person: `3.2 ms`, `1.25 s`.
pub fn milliseconds(span: Duration) -> String {
    if span < Duration::from_secs(1) {
        format!("{:.1} ms", span.as_secs_f64() * 1e3)
    } else {
        format!("{:.2} s", span.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_fits_its_columns() {
        let table = Table {
            how: How::Lines { next: Duration::ZERO },
            title: ["a title that is rather long ".repeat(8), "and its second line ".repeat(9)],
            length: Duration::from_secs(10),
            last: None,
            rate: (1_234_567.0, 9e9),
            history: vec![1.0; 500],
        };
        let figures = Figures {
            records: u64::MAX / 2,
            elapsed: Duration::from_secs(5),
            ..Figures::default()
        };
        for columns in [60, 80, 120, 200] {
            for line in table.frame(&Figures { records: 9_999_999_999, ..figures }, columns, false)
            {
                assert!(line.chars().count() <= columns, "{columns}: {line}");
            }
        }
    }

    #[test]
    fn bars_and_sparks_stay_in_bounds() {
        for seconds in [0, 5, 10, 20] {
            let bar = bar(Duration::from_secs(seconds), Duration::from_secs(10), 40, "", "");
            assert_eq!(bar.chars().count(), 40, "{bar}");
        }
        assert_eq!(sparkline(&[0.0, 0.5, 1.0], 2), "▅█");
        assert_eq!(sparkline(&[], 9), "");
    }
}
