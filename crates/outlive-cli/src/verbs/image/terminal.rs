//! What the terminal can show: by its environment, and by what it answers within a moment.

use std::io::{IsTerminal, Write, stdin, stdout};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use ratatui::crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use rustix::termios::tcgetwinsize;

use crate::signals::wait_readable;

/// How pictures are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum As {
    /// As sixels: xterm -ti vt340, foot, mlterm, Windows Terminal, tmux 3.4
    Sixel,
    /// By kitty's protocol: kitty, Ghostty, WezTerm, Konsole
    Kitty,
    /// As half blocks in colours: every terminal
    Blocks,
}

/// A terminal answers in less, also far away, or never.
const LIMIT: Duration = Duration::from_millis(300);

impl As {
    /// Finds out what the terminal can.
    pub fn found() -> As {
        let set = |name: &str| std::env::var(name).unwrap_or_default();
        let program = set("TERM_PROGRAM").to_ascii_lowercase();
        // A multiplexer inherits the variables of a terminal, and not what that can.
        let is_within = !set("TMUX").is_empty() || set("TERM").starts_with("screen");
        let is_kitty = set("TERM") == "xterm-kitty"
            || !set("KITTY_WINDOW_ID").is_empty()
            || matches!(program.as_str(), "ghostty" | "wezterm");
        if is_kitty && !is_within {
            return As::Kitty;
        }
        if !(stdin().is_terminal() && stdout().is_terminal()) {
            return As::Blocks;
        }
        As::of_answer(&answer().unwrap_or_default())
    }

    /// Returns what a terminal can that has answered so: to kitty's question, and to the one of what
    /// kind it is, where 4 among the numbers is sixel.
    fn of_answer(answer: &[u8]) -> As {
        let answer = String::from_utf8_lossy(answer);
        if answer.contains("\x1b_Gi=31;OK") {
            return As::Kitty;
        }
        let kind = answer.split("\x1b[?").nth(1).and_then(|rest| rest.split_once('c'));
        match kind {
            Some((numbers, _)) if numbers.split(';').skip(1).any(|number| number == "4") => {
                As::Sixel
            }
            _ => As::Blocks,
        }
    }
}

/// Asks the terminal, and returns what it answers until the limit.
fn answer() -> std::io::Result<Vec<u8>> {
    enable_raw_mode()?;
    let asked = ask();
    disable_raw_mode()?;
    asked
}

fn ask() -> std::io::Result<Vec<u8>> {
    let mut out = stdout().lock();
    // All terminals answer the second question.
    out.write_all(b"\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\\x1b[c")?;
    out.flush()?;
    let (end, input) = (Instant::now() + LIMIT, stdin());
    let mut answer = Vec::new();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || !wait_readable(&[input.as_fd()], Some(left))?[0] {
            return Ok(answer);
        }
        let mut bytes = [0; 256];
        // Not by `stdin`, which would keep what the person types meanwhile to itself.
        let count = rustix::io::read(&input, &mut bytes)?;
        answer.extend_from_slice(&bytes[..count]);
        let kind = answer.windows(3).position(|window| window == b"\x1b[?");
        if count == 0 || kind.is_some_and(|at| answer[at..].contains(&b'c')) {
            return Ok(answer);
        }
    }
}

/// The size of a terminal, in cells, and of a cell in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Cells in a row.
    pub columns: u16,
    /// Rows.
    pub rows: u16,
    cell: (u16, u16),
}

/// A picture has no more pixels than these on a terminal: a second of them is some ten megabytes.
const MOST_PIXELS: usize = 640_000;

impl Size {
    /// Asks for it; `None`: standard output is no terminal.
    pub fn of_terminal() -> Option<Size> {
        let size = tcgetwinsize(stdout()).ok()?;
        let (columns, rows) = (size.ws_col.max(1), size.ws_row.max(1));
        let cell = match (size.ws_xpixel / columns, size.ws_ypixel / rows) {
            // Many do not say, and some say what cannot be: letters are higher than wide.
            (across, down) if across > 0 && down > across && down / across < 4 => (across, down),
            _ => (8, 16),
        };
        Some(Size { columns, rows, cell })
    }

    /// Returns a size of so many cells.
    pub fn of_cells(columns: u16, rows: u16) -> Size {
        Size { columns, rows, cell: (8, 16) }
    }

    /// Returns in how many cells a picture of that many pixels stands, as large as fits without
    /// changing its shape.
    pub fn cells(&self, (width, height): (usize, usize)) -> (u16, u16) {
        let (across, down) = (f64::from(self.cell.0), f64::from(self.cell.1));
        let (width, height) = (width.max(1) as f64 / across, height.max(1) as f64 / down);
        let times = (f64::from(self.columns) / width).min(f64::from(self.rows) / height);
        let cells = |side: f64, most: u16| ((side * times).round() as u16).clamp(1, most.max(1));
        (cells(width, self.columns), cells(height, self.rows))
    }

    /// Returns how many pixels stand in so many cells, for a picture that has so many: no more than
    /// it has, where the terminal can enlarge it.
    pub fn pixels(
        &self,
        (columns, rows): (u16, u16),
        (width, height): (usize, usize),
        can_enlarge: bool,
    ) -> (usize, usize) {
        let across = usize::from(columns) * usize::from(self.cell.0);
        let down = usize::from(rows) * usize::from(self.cell.1);
        let (across, down) =
            if can_enlarge { (across.min(width), down.min(height)) } else { (across, down) };
        let over = (across * down) as f64 / MOST_PIXELS as f64;
        let smaller = |side: usize| match over > 1.0 {
            true => ((side as f64 / over.sqrt()) as usize).max(1),
            false => side.max(1),
        };
        (smaller(across), smaller(down))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_say_what_a_terminal_can() {
        for (answer, found) in [
            (&b"\x1b_Gi=31;OK\x1b\\\x1b[?62;c"[..], As::Kitty),
            (b"\x1b[?62;4;22c", As::Sixel),
            (b"\x1b[?4;22c", As::Blocks),
            (b"\x1b[?64;1;2;6;22c", As::Blocks),
            (b"\x1b[?62;4", As::Blocks),
            (b"q\x1b[?65;4c", As::Sixel),
            (b"", As::Blocks),
            (b"\xff\xff", As::Blocks),
        ] {
            assert_eq!(As::of_answer(answer), found, "{answer:?}");
        }
    }

    #[test]
    fn pictures_keep_their_shape() {
        let size = Size::of_cells(80, 24);
        assert_eq!(size.cells((1600, 900)), (80, 23));
        assert_eq!(size.cells((640, 384)), (80, 24));
        assert_eq!(size.cells((100, 1600)), (3, 24));
        assert_eq!(size.cells((16_000, 1)), (80, 1));
        assert_eq!(size.cells((1, 16_000)), (1, 24));
        assert_eq!(size.pixels((80, 22), (1600, 900), true), (640, 352));
        assert_eq!(size.pixels((80, 22), (64, 36), true), (64, 36));
        assert_eq!(size.pixels((80, 22), (64, 36), false), (640, 352));
        let (across, down) = Size::of_cells(1000, 500).pixels((1000, 500), (9000, 9000), true);
        assert!(across * down <= MOST_PIXELS && across * down > MOST_PIXELS * 9 / 10);
        assert_eq!(Size::of_cells(1, 1).cells((5, 5)), (1, 1));
    }
}
