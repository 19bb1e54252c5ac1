//! What the person who watches has chosen.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::scene::{Scene, Section, Thing};

/// In what order things are listed, kind by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// By name.
    #[default]
    Name,
    /// The busiest first.
    Activity,
    /// The largest first.
    Size,
}

impl Sort {
    /// As it is called on the screen.
    pub fn name(self) -> &'static str {
        match self {
            Sort::Name => "name",
            Sort::Activity => "activity",
            Sort::Size => "size",
        }
    }

    fn next(self) -> Sort {
        match self {
            Sort::Name => Sort::Activity,
            Sort::Activity => Sort::Size,
            Sort::Size => Sort::Name,
        }
    }
}

/// The choices, and how far the list has been scrolled.
#[derive(Clone, Debug, Default)]
pub struct State {
    sort: Sort,
    paused: bool,
    done: bool,
    /// By name, so that it stays selected when others come and go.
    selected: Option<(Section, String)>,
    /// Whether all about it is shown.
    pub open: bool,
    /// The first line of the list that is shown.
    pub scroll: usize,
}

impl State {
    /// Returns the order.
    pub fn sort(&self) -> Sort {
        self.sort
    }

    /// Returns whether the picture stands still.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Returns whether that is enough.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Everything in the order chosen.
    pub fn in_order<'s>(&self, scene: &'s Scene) -> Vec<&'s Thing> {
        let mut things: Vec<&Thing> = scene.things.iter().collect();
        things.sort_by(|a, b| {
            let chosen = match self.sort {
                Sort::Name => std::cmp::Ordering::Equal,
                Sort::Activity => b.activity.total_cmp(&a.activity),
                Sort::Size => b.bytes.cmp(&a.bytes),
            };
            a.section.cmp(&b.section).then(chosen).then_with(|| a.name.cmp(&b.name))
        });
        things
    }

    /// Returns where the selected thing is in the order; the first one, if it is gone or none was.
    pub fn position(&self, things: &[&Thing]) -> usize {
        let is_it = |thing: &&Thing| {
            self.selected
                .as_ref()
                .is_some_and(|(section, name)| (thing.section, &thing.name) == (*section, name))
        };
        things.iter().position(is_it).unwrap_or(0)
    }

    /// A key was pressed.
    pub fn key(&mut self, key: KeyEvent, scene: &Scene) {
        let things = self.in_order(scene);
        let (at, last) = (self.position(&things), things.len().saturating_sub(1));
        let to = match key.code {
            KeyCode::Char('q') => return self.done = true,
            KeyCode::Char('c' | 'd') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                return self.done = true;
            }
            KeyCode::Esc if self.open => return self.open = false,
            KeyCode::Esc => return self.done = true,
            KeyCode::Char('s') => return self.sort = self.sort.next(),
            KeyCode::Char('p' | ' ') => return self.paused = !self.paused,
            KeyCode::Enter => return self.open = !self.open,
            KeyCode::Down | KeyCode::Char('j') => at + 1,
            KeyCode::Up | KeyCode::Char('k') => at.saturating_sub(1),
            KeyCode::PageDown => at + 10,
            KeyCode::PageUp => at.saturating_sub(10),
            KeyCode::Home | KeyCode::Char('g') => 0,
            KeyCode::End | KeyCode::Char('G') => last,
            KeyCode::Tab => {
                let here = things.get(at).map(|thing| thing.section);
                let next = things.iter().skip(at).position(|thing| Some(thing.section) != here);
                next.map_or(0, |next| at + next)
            }
            _ => return,
        };
        self.selected = things.get(to.min(last)).map(|thing| (thing.section, thing.name.clone()));
    }
}
