//! Where things are said: results on standard output, talk on standard error.
//!
//! The reader of the output may close it early (`outlive ls | head -1`). That is no error: the
//! write then returns [`Failure::BrokenPipe`], and the program ends quietly.

use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::sync::OnceLock;

pub use outlive_program::figures::{bytes, count, counted};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

use crate::exit::Failure;

/// What was typed behind `outlive`, as in `topic echo`: one name for all that a run says.
static SPEAKER: OnceLock<String> = OnceLock::new();

/// Says under which name this process talks.
pub fn speak_as(verb: &str) {
    // A process has one verb.
    let _ = SPEAKER.set(verb.to_owned());
}

/// Returns that name.
pub fn speaker() -> &'static str {
    SPEAKER.get().map_or("", String::as_str)
}

/// Prints a line for the person, on standard error. It is no error when that is closed.
pub fn talk(text: impl Display) {
    let _ = writeln!(std::io::stderr().lock(), "outlive {}: {text}", speaker());
}

/// Returns whether the pipe that is standard output has no reader any more.
pub fn has_no_reader() -> bool {
    let out = std::io::stdout();
    let mut ends = [PollFd::new(&out, PollFlags::empty())];
    poll(&mut ends, Some(&Timespec::default())).is_ok()
        && ends[0].revents().contains(PollFlags::ERR)
}

/// Returns whether standard error is a terminal.
pub fn is_watched() -> bool {
    std::io::stderr().is_terminal()
}

/// Prints a result.
pub fn print(text: impl Display) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    write!(out, "{text}")
        .and_then(|()| out.flush())
        .map_err(|error| Failure::system("write to standard output", &error))
}

/// Prints a result as one line of JSON, for programs. It is written as it is made: the JSON of a
/// message may have many times its bytes.
pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let mut out = std::io::BufWriter::with_capacity(64 << 10, std::io::stdout().lock());
    serde_json::to_writer(&mut out, value)
        .map_err(std::io::Error::from)
        .and_then(|()| out.write_all(b"\n"))
        .and_then(|()| out.flush())
        .and_then(|()| out.get_mut().flush())
        .map_err(|error| Failure::system("write to standard output", &error))
}

/// Rows under their headings, each column as wide as it needs to be; `right` names the columns of
/// numbers.
pub fn table(headings: &[&str], right: &[usize], rows: &[Vec<String>]) -> String {
    let columns = headings.len();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.max().unwrap_or(0).max(headings[column].chars().count())
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut row = String::new();
        for (column, cell) in cells.enumerate() {
            let gap = " ".repeat(widths[column].saturating_sub(cell.chars().count()));
            let space = if column == 0 { "" } else { "  " };
            if right.contains(&column) {
                row.push_str(&format!("{space}{gap}{cell}"));
            } else {
                row.push_str(&format!("{space}{cell}{gap}"));
            }
        }
        text.push_str(row.trim_end());
        text.push('\n');
    };
    line(&mut headings.iter().copied());
    for row in rows {
        line(&mut row.iter().map(String::as_str));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows =
            [vec!["größe".to_owned(), "7".to_owned()], vec!["q".to_owned(), "12".to_owned()]];
        assert_eq!(table(&["NAME", "N"], &[1], &rows), "NAME    N\ngröße   7\nq      12\n");
    }
}
