//! The terminal, taken for a while: it is given back as it was, however this ends, save by SIGKILL.

use std::io;

use ratatui::{DefaultTerminal, Frame};

/// The terminal, while it is ours.
pub struct Screen(DefaultTerminal);

impl Screen {
    /// Takes it: a screen of our own, keys as they are pressed, no cursor. A panic gives it back
    /// before it speaks.
    pub fn take() -> io::Result<Screen> {
        ratatui::try_init().map(Screen).inspect_err(|_| {
            let _ = ratatui::try_restore();
        })
    }

    /// Draws all of it.
    pub fn draw(&mut self, view: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.0.draw(view).map(drop)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.0.show_cursor();
        // Gone with its window, it needs nothing any more.
        let _ = ratatui::try_restore();
    }
}
