//! The terminal, taken for a while: it is given back as it was when the verb ends, when it panics
//! and while it is stopped, save by SIGKILL and SIGSTOP, of which a process learns nothing.
//!
//! | what happens | what the screen does |
//! | --- | --- |
//! | SIGTERM, SIGINT, SIGHUP, the terminal is gone | the verb ends |
//! | Ctrl-Z, SIGTSTP | the terminal is given back, and the process stops |
//! | SIGCONT | the terminal is taken again, and drawn anew, as it may show anything |

use std::io::{self, stdin, stdout};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Once;
use std::time::Instant;

use ratatui::backend::CrosstermBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::style::Print;
use ratatui::crossterm::terminal::{Clear, ClearType, EnterAlternateScreen, enable_raw_mode};
use ratatui::style::Color;
use ratatui::{DefaultTerminal, Frame, Terminal};
use rustix::termios::tcgetwinsize;

use crate::exit::Failure;
use crate::signals::{Signals, wait_readable};

/// The signals that a screen heeds: to be taken over before any thread is started.
pub fn signals() -> Result<Signals, Failure> {
    let all = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGTSTP, libc::SIGCONT];
    Signals::take(&all).map_err(|error| Failure::system("take over signals", &error))
}

/// Asks for clicks and the wheel, in the form without limits. Crossterm's own asks for each movement
/// of the mouse, too, and would wake the verb for all of them.
const MOUSE: Print<&str> = Print("\x1b[?1000h\x1b[?1006h");
const NO_MOUSE: Print<&str> = Print("\x1b[?1006l\x1b[?1000l");

/// The terminal, while it is ours.
pub struct Screen {
    terminal: DefaultTerminal,
    signals: Signals,
    look: Look,
    taken_anew: bool,
}

impl Screen {
    /// Takes it: a screen of our own, keys and the mouse as they come, no cursor. A panic gives it
    /// back before it speaks.
    pub fn take(signals: Signals) -> Result<Screen, Failure> {
        static HOOK: Once = Once::new();
        let terminal = ratatui::try_init().inspect_err(|_| {
            let _ = ratatui::try_restore();
        });
        HOOK.call_once(|| {
            let hook = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                let _ = execute!(stdout(), NO_MOUSE);
                hook(info);
            }));
        });
        let terminal = terminal.map_err(failed)?;
        let screen = Screen { terminal, signals, look: Look::of_environment(), taken_anew: false };
        execute!(stdout(), MOUSE).map_err(failed)?;
        Ok(screen)
    }

    /// Returns what the terminal can show.
    #[cfg(any(feature = "image", feature = "plot"))]
    pub fn look(&self) -> Look {
        self.look
    }

    /// Returns whether the terminal was taken again since this was asked last: what was written
    /// beside the drawing is gone.
    #[cfg(feature = "image")]
    pub fn is_taken_anew(&mut self) -> bool {
        std::mem::take(&mut self.taken_anew)
    }

    /// Draws all of it.
    pub fn draw(&mut self, view: impl FnOnce(&mut Frame<'_>)) -> Result<(), Failure> {
        let look = self.look;
        let drawn = self.terminal.draw(|frame| {
            view(frame);
            look.keep_to(frame.buffer_mut());
        });
        drawn.map(drop).map_err(failed)
    }

    /// Sleeps until something happens or that moment has come, and returns what was done at the
    /// terminal; `None`: the verb is to end, as it is when `with` can be read.
    pub fn events(
        &mut self,
        with: Option<BorrowedFd<'_>>,
        until: Instant,
    ) -> Result<Option<Vec<Event>>, Failure> {
        let input = stdin();
        let mut fds = vec![input.as_fd(), self.signals.as_fd()];
        fds.extend(with);
        let left = until.saturating_duration_since(Instant::now());
        let ready = wait_readable(&fds, Some(left)).map_err(failed)?;
        if ready.get(2) == Some(&true) {
            return Ok(None);
        }
        while let Some(came) = self.signals.next().map_err(failed)? {
            match came.signal {
                libc::SIGTSTP => self.stop()?,
                libc::SIGCONT => self.take_again()?,
                _ => return Ok(None),
            }
        }
        // A terminal that is gone can always be read, and has nothing to say: it would be asked for
        // events for ever.
        if ready[0] && tcgetwinsize(&input).is_err() {
            return Ok(None);
        }
        let mut events = Vec::new();
        while event::poll(std::time::Duration::ZERO).map_err(failed)? {
            match event::read().map_err(failed)? {
                Event::Key(key)
                    if key.code == KeyCode::Char('z')
                        && key.modifiers.contains(KeyModifiers::CONTROL) =>
                {
                    self.stop()?;
                }
                event => events.push(event),
            }
        }
        Ok(Some(events))
    }

    /// Stops the process, with the terminal given back; goes on when it is continued.
    fn stop(&mut self) -> Result<(), Failure> {
        self.give_back();
        self.signals.stop().map_err(failed)?;
        self.take_again()
    }

    /// Takes the terminal again: also what is ours already, as a process that was stopped by
    /// SIGSTOP finds it as others have left it.
    fn take_again(&mut self) -> Result<(), Failure> {
        let taken = enable_raw_mode()
            .and_then(|()| execute!(stdout(), EnterAlternateScreen, MOUSE, Clear(ClearType::All)))
            // One that knows nothing of what is there draws all of it. (Its `clear` asks the
            // terminal where the cursor is, and not each answers.)
            .and_then(|()| Terminal::new(CrosstermBackend::new(stdout())));
        self.terminal = taken.map_err(failed)?;
        self.taken_anew = true;
        Ok(())
    }

    fn give_back(&mut self) {
        // Gone with its window, it needs nothing any more.
        let _ = execute!(stdout(), NO_MOUSE);
        let _ = self.terminal.show_cursor();
        let _ = ratatui::try_restore();
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A panic has given it back before it spoke. Once more, the cursor would go back, too, to
        // where it was before, and what is written next would stand over what the panic said.
        if !std::thread::panicking() {
            self.give_back();
        }
    }
}

fn failed(error: io::Error) -> Failure {
    Failure::system("use the terminal", &error)
}

/// What a terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// More characters than those of ASCII.
    pub has_unicode: bool,
    /// Colours, unless `NO_COLOR` is set.
    pub has_colors: bool,
}

impl Look {
    /// Returns what the environment says of the terminal.
    pub fn of_environment() -> Look {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        // The first that is set decides. Where none is, as in containers, terminals know UTF-8.
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
        let is_utf8 = |name: &str| {
            let name = name.to_ascii_lowercase();
            name.contains("utf-8") || name.contains("utf8")
        };
        Look {
            has_unicode: locale.is_none_or(|name| name.to_str().is_some_and(is_utf8)),
            has_colors: set("NO_COLOR").is_none(),
        }
    }

    /// Takes out of a picture what the terminal cannot show.
    pub fn keep_to(self, buffer: &mut Buffer) {
        for cell in &mut buffer.content {
            if !self.has_colors {
                (cell.fg, cell.bg) = (Color::Reset, Color::Reset);
            }
            if !self.has_unicode && !cell.symbol().is_ascii() {
                let symbol = cell.symbol().chars().next().map_or(' ', in_ascii);
                cell.set_char(symbol);
            }
        }
    }
}

/// Returns the character of ASCII that looks most like one of those that the verbs draw with.
fn in_ascii(symbol: char) -> char {
    match symbol {
        '─' | '━' | '—' => '-',
        '│' | '┃' | '╎' => '|',
        '┌' | '┐' | '└' | '┘' | '├' | '┤' | '┬' | '┴' | '┼' => '+',
        '…' => '.',
        '↑' => '^',
        '↓' => 'v',
        '←' => '<',
        '→' => '>',
        '▲' => '^',
        '▼' => 'v',
        ' ' => ' ',
        '▁' | '▂' => '_',
        '▃' | '▄' | '▅' => '=',
        '▆' | '▇' | '█' | '▀' | '•' => '#',
        // Braille: two columns and four rows of dots.
        '\u{2800}'..='\u{28ff}' => {
            let dots = symbol as u32 - 0x2800;
            let rows = [0x09, 0x12, 0x24, 0xc0].map(|row| dots & row != 0);
            match rows {
                [false, false, false, false] => ' ',
                [_, _, false, false] => '\'',
                [false, false, _, _] => '.',
                [false, _, _, false] => '-',
                _ => ':',
            }
        }
        _ => '?',
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    #[test]
    fn a_picture_keeps_to_what_the_terminal_can_show() {
        let text = "─│ö⣀⠉⠛⠶⣿█";
        let picture = |has_unicode, has_colors| {
            let mut buffer = Buffer::empty(Rect::new(0, 0, 9, 1));
            buffer.set_string(0, 0, text, Style::new().fg(Color::Red));
            Look { has_unicode, has_colors }.keep_to(&mut buffer);
            let symbols: String = buffer.content.iter().map(|cell| cell.symbol()).collect();
            (symbols, buffer.content[0].fg)
        };
        assert_eq!(picture(true, true), (text.to_owned(), Color::Red));
        assert_eq!(picture(false, false), ("-|?.''-:#".to_owned(), Color::Reset));
    }
}
