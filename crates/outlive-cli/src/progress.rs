//! A progress bar for long work, when a person looks.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output;

/// Work that takes longer than this is worth a bar.
const LONG: Duration = Duration::from_secs(1);

/// Bytes done of bytes to do. Shows nothing for short work, nor where nobody looks.
pub struct Progress {
    started: Instant,
    total: Option<u64>,
    done: u64,
    watched: bool,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Begins. `total` is how many bytes there are to do, if that is known.
    pub fn new(total: Option<u64>, shown: bool) -> Progress {
        Progress { started: Instant::now(), total, done: 0, watched: shown && output::is_watched(), bar: None }
    }

    /// So many bytes more are done.
    pub fn add(&mut self, bytes: u64) {
        if !self.watched {
            return;
        }
        self.done += bytes;
        match &self.bar {
            Some(bar) => bar.set_position(self.done),
            None if self.started.elapsed() >= LONG => self.bar = Some(self.begin()),
            None => {}
        }
    }

    fn begin(&self) -> ProgressBar {
        let bar = match self.total {
            Some(total) => ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr()),
            None => ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()),
        };
        let template = match self.total {
            Some(_) => "{wide_bar:.dim} {binary_bytes} of {binary_total_bytes}  {binary_bytes_per_sec}  {eta} left",
            None => "{spinner:.dim} {binary_bytes}  {binary_bytes_per_sec}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("━╸─"));
        }
        bar.with_elapsed(self.started.elapsed()).with_position(self.done)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
