//! What the person who watches a plot has chosen.

use std::time::Duration;

use ratatui::crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers, MouseEventKind};

use super::curve::WINDOWS;
use super::sheet::Axis;

/// The choices.
#[derive(Clone, Debug)]
pub struct State {
    /// How much time was asked for, and is kept several times, in seconds.
    window: f64,
    /// How much is shown.
    span: f64,
    /// The moment at which the picture ends; none: now.
    end: Option<f64>,
    /// The values that are shown; none: all that there are.
    values: Option<(f64, f64)>,
    /// Of each curve whether it is put away.
    pub hidden: Vec<bool>,
    done: bool,
}

/// The shortest time that is shown, as a part of the window.
const SHORTEST: f64 = 1.0 / 64.0;

impl State {
    /// All of so many curves, live.
    pub fn new(window: Duration, curves: usize) -> State {
        let window = window.as_secs_f64();
        let hidden = vec![false; curves];
        State { window, span: window, end: None, values: None, hidden, done: false }
    }

    /// Returns the time that is shown when it is `now`.
    pub fn time(&self, now: f64) -> (f64, f64) {
        let end = self.end.unwrap_or(now);
        (end - self.span, end)
    }

    /// Returns the values that are shown; none: all.
    pub fn values(&self) -> Option<(f64, f64)> {
        self.values
    }

    /// Returns whether the picture stands still.
    pub fn is_paused(&self) -> bool {
        self.end.is_some()
    }

    /// Returns whether the person wants to end.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Something was done at the terminal, where `axis` is shown.
    pub fn event(&mut self, event: &Event, now: f64, axis: &Axis) {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => {
                self.key(key.code, key.modifiers, now, axis);
            }
            Event::Mouse(mouse) => match mouse.kind {
                MouseEventKind::ScrollUp => self.zoom(0.5),
                MouseEventKind::ScrollDown => self.zoom(2.0),
                MouseEventKind::ScrollLeft => self.scroll(-0.25, now),
                MouseEventKind::ScrollRight => self.scroll(0.25, now),
                _ => {}
            },
            _ => {}
        }
    }

    fn key(&mut self, code: KeyCode, modifiers: KeyModifiers, now: f64, axis: &Axis) {
        match code {
            KeyCode::Char('q') | KeyCode::Esc => self.done = true,
            KeyCode::Char('c' | 'd') if modifiers.contains(KeyModifiers::CONTROL) => {
                self.done = true;
            }
            KeyCode::Char('p' | ' ') => {
                self.end = if self.end.is_some() { None } else { Some(now) };
            }
            KeyCode::Char('+' | '=') => self.zoom(0.5),
            KeyCode::Char('-') => self.zoom(2.0),
            KeyCode::Left | KeyCode::Char('h') => self.scroll(-0.25, now),
            KeyCode::Right | KeyCode::Char('l') => self.scroll(0.25, now),
            KeyCode::End => self.end = None,
            KeyCode::Home => self.end = Some(self.oldest(now) + self.span),
            KeyCode::Up | KeyCode::Char('k') => self.zoom_values(0.5, axis),
            KeyCode::Down | KeyCode::Char('j') => self.zoom_values(2.0, axis),
            KeyCode::PageUp => self.move_values(0.25, axis),
            KeyCode::PageDown => self.move_values(-0.25, axis),
            KeyCode::Char('a') => {
                (self.values, self.span, self.end) = (None, self.window, None);
            }
            KeyCode::Char(digit @ '1'..='9') => {
                let at = digit as usize - '1' as usize;
                if let Some(hidden) = self.hidden.get_mut(at) {
                    *hidden = !*hidden;
                }
            }
            _ => {}
        }
    }

    fn oldest(&self, now: f64) -> f64 {
        (now - self.window * WINDOWS).max(0.0)
    }

    fn zoom(&mut self, times: f64) {
        self.span = (self.span * times).clamp(self.window * SHORTEST, self.window * WINDOWS);
    }

    fn scroll(&mut self, spans: f64, now: f64) {
        let end = self.end.unwrap_or(now) + spans * self.span;
        let least = (self.oldest(now) + self.span).min(now);
        // At the newest it follows again.
        self.end = (end < now).then_some(end.max(least));
    }

    fn zoom_values(&mut self, times: f64, axis: &Axis) {
        let (middle, half) =
            (axis.least / 2.0 + axis.largest / 2.0, (axis.largest - axis.least) / 2.0 * times);
        // Until numbers on it cannot be told apart, or are none.
        if half > middle.abs() * 1e-12 && half < 1e300 && half > 1e-300 {
            self.values = Some((middle - half, middle + half));
        }
    }

    fn move_values(&mut self, spans: f64, axis: &Axis) {
        let aside = (axis.largest - axis.least) * spans;
        if (axis.least + aside).abs() < 1e300 && (axis.largest + aside).abs() < 1e300 {
            self.values = Some((axis.least + aside, axis.largest + aside));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::crossterm::event::KeyEvent;

    const AXIS: Axis = Axis { least: 0.0, largest: 4.0, step: 1.0 };

    fn press(state: &mut State, code: KeyCode, now: f64) {
        state.event(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)), now, &AXIS);
    }

    #[test]
    fn time_is_paused_scrolled_and_zoomed() {
        let mut state = State::new(Duration::from_secs(10), 2);
        assert_eq!(state.time(100.0), (90.0, 100.0));
        press(&mut state, KeyCode::Char(' '), 100.0);
        assert_eq!((state.time(105.0), state.is_paused()), ((90.0, 100.0), true));
        press(&mut state, KeyCode::Left, 105.0);
        assert_eq!(state.time(106.0), (87.5, 97.5));
        press(&mut state, KeyCode::Char('+'), 106.0);
        assert_eq!(state.time(106.0), (92.5, 97.5));
        for _ in 0..100 {
            press(&mut state, KeyCode::Left, 106.0);
        }
        assert_eq!(state.time(106.0), (66.0, 71.0), "no farther back than what is kept");
        for _ in 0..100 {
            press(&mut state, KeyCode::Right, 106.0);
        }
        assert!(!state.is_paused(), "at the newest it is live again");
        for _ in 0..100 {
            press(&mut state, KeyCode::Char('-'), 106.0);
        }
        assert_eq!(state.time(106.0), (66.0, 106.0));
        press(&mut state, KeyCode::Left, 106.0);
        assert_eq!(state.time(106.0).1, 106.0, "there is nothing before it");
        for _ in 0..100 {
            press(&mut state, KeyCode::Char('='), 106.0);
        }
        assert_eq!(state.time(106.0), (106.0 - 10.0 / 64.0, 106.0));
        press(&mut state, KeyCode::Char('a'), 106.0);
        assert_eq!(state.time(106.0), (96.0, 106.0));
    }

    #[test]
    fn values_are_zoomed_about_their_middle_and_curves_put_away() {
        let mut state = State::new(Duration::from_secs(10), 2);
        press(&mut state, KeyCode::Up, 0.0);
        assert_eq!(state.values(), Some((1.0, 3.0)));
        press(&mut state, KeyCode::PageUp, 0.0);
        assert_eq!(state.values(), Some((1.0, 5.0)));
        press(&mut state, KeyCode::Char('a'), 0.0);
        assert_eq!(state.values(), None);
        let mut axis = AXIS;
        for code in [KeyCode::Up, KeyCode::Down] {
            for _ in 0..5_000 {
                let key = Event::Key(KeyEvent::new(code, KeyModifiers::NONE));
                state.event(&key, 0.0, &axis);
                let (least, largest) = state.values().expect("zoomed");
                assert!(least < largest && least.is_finite() && largest.is_finite());
                axis = Axis { least, largest, step: 1.0 };
            }
        }
        for digit in ['2', '9'] {
            press(&mut state, KeyCode::Char(digit), 0.0);
        }
        assert_eq!(state.hidden, [false, true]);
        press(&mut state, KeyCode::Char('q'), 0.0);
        assert!(state.is_done());
    }
}
