//! A progress bar for long work, on a terminal.

use std::time::{Duration, Instant};

use indicatif::{BinaryBytes, HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output;

/// Work that takes longer than this is worth a bar.
const LONG: Duration = Duration::from_secs(1);
/// How often it is drawn: seldom enough to cost nothing.
const TICK: Duration = Duration::from_millis(100);

/// Bytes done of bytes to do. Shows nothing for short work, nor when standard error is no terminal.
pub struct Progress {
    started: Instant,
    total: Option<u64>,
    done: u64,
    watched: bool,
    shown: Instant,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Begins a bar. `total` is how many bytes there are to do, if that is known.
    pub fn new(total: Option<u64>, shown: bool) -> Progress {
        let now = Instant::now();
        Progress {
            started: now,
            total,
            done: 0,
            watched: shown && output::is_watched(),
            shown: now,
            bar: None,
        }
    }

    /// Notes that so many bytes more are done.
    pub fn add(&mut self, bytes: u64) {
        if !self.watched {
            return;
        }
        self.done += bytes;
        if self.shown.elapsed() < TICK || self.started.elapsed() < LONG {
            return;
        }
        self.shown = Instant::now();
        let bar = self.bar.get_or_insert_with(|| begin(self.total));
        bar.set_message(told(self.started.elapsed(), self.done, self.total));
        bar.set_position(self.done);
    }
}

fn begin(total: Option<u64>) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
    let template = match total {
        Some(_) => "{wide_bar:.dim} {binary_bytes} of {binary_total_bytes}  {msg}",
        None => "{spinner:.dim} {binary_bytes}  {msg}",
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("━╸─"));
    }
    bar
}

/// Returns the rate since the beginning, and how long the rest takes at that rate.
fn told(elapsed: Duration, done: u64, total: Option<u64>) -> String {
    let rate = done as f64 / elapsed.as_secs_f64().max(1e-9);
    let left = total.map_or_else(String::new, |total| {
        let seconds = total.saturating_sub(done) as f64 / rate.max(1.0);
        format!(
            "  {} left",
            HumanDuration(Duration::try_from_secs_f64(seconds).unwrap_or_default())
        )
    });
    format!("{}/s{left}", BinaryBytes(rate as u64))
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
