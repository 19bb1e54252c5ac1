//! What the person who watches has chosen, and what its keys and clicks do.
//!
//! | where | keys |
//! | --- | --- |
//! | the list | select, sort, filter, pause, open a page |
//! | a thing's page | scroll, go back |
//! | the filter's line | type, keep it, give it up |

use std::ops::Range;

use ratatui::crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

use super::scene::Scene;
use super::thing::{Section, Thing};

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
    /// Things of one section by one of its columns, all others by name.
    Column(Section, usize),
}

impl Sort {
    /// As it is called on the screen.
    pub fn name(self) -> &'static str {
        match self {
            Sort::Name => "name",
            Sort::Activity => "activity",
            Sort::Size => "size",
            Sort::Column(section, column) => section.headings()[column],
        }
    }

    fn next(self) -> Sort {
        match self {
            Sort::Name => Sort::Activity,
            Sort::Activity => Sort::Size,
            Sort::Size | Sort::Column(..) => Sort::Name,
        }
    }
}

/// What stands on a line of the list.
#[derive(Clone, Debug)]
pub enum Hit {
    /// Headings, and in which columns of the screen each stands.
    Headings(Section, Vec<Range<u16>>),
    /// A thing.
    Thing(Section, String),
    /// Nothing.
    Nothing,
}

/// The choices, and how far the list has been scrolled.
#[derive(Clone, Debug, Default)]
pub struct State {
    sort: Sort,
    /// Whether the order is turned round.
    reverse: bool,
    paused: bool,
    done: bool,
    /// By name, so that it stays selected when others come and go.
    selected: Option<(Section, String)>,
    /// Whether the page of the selected thing is shown.
    open: bool,
    /// Only things with this in their rows are listed, whatever its case.
    filter: String,
    /// Whether the filter is being typed.
    typing: bool,
    /// The first line of the list that is shown.
    pub scroll: usize,
    /// The first line of the page that is shown.
    pub page_scroll: usize,
    /// Where the list was drawn last, and what stands on its lines.
    pub list: (u16, Vec<Hit>),
}

impl State {
    /// Returns the order.
    pub fn sort(&self) -> Sort {
        self.sort
    }

    /// Returns whether the order is turned round.
    pub fn is_reverse(&self) -> bool {
        self.reverse
    }

    /// Returns whether the picture is paused.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Returns whether the person wants to end.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Returns the filter, and whether it is being typed; `None`: there is none.
    pub fn filter(&self) -> Option<(&str, bool)> {
        (self.typing || !self.filter.is_empty()).then_some((self.filter.as_str(), self.typing))
    }

    /// Returns the thing whose page is shown, if it is there.
    pub fn page<'s>(&self, scene: &'s Scene) -> Option<&'s Thing> {
        let (section, name) = self.selected.as_ref().filter(|_| self.open)?;
        scene.things.iter().find(|thing| thing.section == *section && thing.name == *name)
    }

    /// Returns the things that are listed, in the order chosen.
    pub fn in_order<'s>(&self, scene: &'s Scene) -> Vec<&'s Thing> {
        let filter = self.filter.to_lowercase();
        let has = |thing: &&Thing| {
            thing.cells.iter().any(|cell| cell.text.to_lowercase().contains(&filter))
        };
        let mut things: Vec<&Thing> = scene.things.iter().filter(has).collect();
        things.sort_by(|a, b| {
            let chosen = match self.sort {
                Sort::Name => a.name.cmp(&b.name),
                Sort::Activity => b.activity.total_cmp(&a.activity),
                Sort::Size => b.bytes.cmp(&a.bytes),
                Sort::Column(section, column) if section == a.section => {
                    let [a, b] = [a, b].map(|thing| thing.cells.get(column));
                    match (a, b) {
                        (Some(a), Some(b)) => a.compare(b),
                        _ => std::cmp::Ordering::Equal,
                    }
                }
                Sort::Column(..) => a.name.cmp(&b.name),
            };
            let chosen = if self.reverse { chosen.reverse() } else { chosen };
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

    /// Something was done at the terminal.
    pub fn event(&mut self, event: &Event, scene: &Scene) {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.key(*key, scene),
            Event::Mouse(mouse) => self.mouse(mouse, scene),
            _ => {}
        }
    }

    fn key(&mut self, key: KeyEvent, scene: &Scene) {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c' | 'd') if is_control => self.done = true,
            _ if self.typing => self.type_filter(key.code, is_control),
            KeyCode::Char('q') => self.done = true,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            _ if self.page(scene).is_some() => self.key_on_page(key.code),
            _ => self.key_on_list(key.code, scene),
        }
    }

    fn type_filter(&mut self, code: KeyCode, is_control: bool) {
        match code {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.filter.clear();
            }
            KeyCode::Char('u') if is_control => self.filter.clear(),
            KeyCode::Char(letter) if !is_control => self.filter.push(letter),
            KeyCode::Backspace if self.filter.pop().is_none() => self.typing = false,
            _ => {}
        }
    }

    fn key_on_page(&mut self, code: KeyCode) {
        let at = self.page_scroll;
        // The view does not scroll beyond the end.
        self.page_scroll = match code {
            KeyCode::Esc | KeyCode::Enter | KeyCode::Backspace | KeyCode::Left => {
                return self.open = false;
            }
            KeyCode::Down | KeyCode::Char('j') => at + 1,
            KeyCode::Up | KeyCode::Char('k') => at.saturating_sub(1),
            KeyCode::PageDown => at + 10,
            KeyCode::PageUp => at.saturating_sub(10),
            KeyCode::Home | KeyCode::Char('g') => 0,
            KeyCode::End | KeyCode::Char('G') => usize::MAX / 2,
            _ => at,
        };
    }

    fn key_on_list(&mut self, code: KeyCode, scene: &Scene) {
        let things = self.in_order(scene);
        let (at, last) = (self.position(&things), things.len().saturating_sub(1));
        let to = match code {
            KeyCode::Esc if !self.filter.is_empty() => return self.filter.clear(),
            KeyCode::Esc => return self.done = true,
            KeyCode::Char('s') => {
                (self.sort, self.reverse) = (self.sort.next(), false);
                return;
            }
            KeyCode::Char('r') => return self.reverse = !self.reverse,
            KeyCode::Char('/') => return self.typing = true,
            KeyCode::Enter | KeyCode::Right => {
                (self.open, self.page_scroll) = (true, 0);
                at
            }
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

    fn mouse(&mut self, mouse: &MouseEvent, scene: &Scene) {
        let times = |state: &mut State, code| {
            for _ in 0..3 {
                state.key(KeyEvent::new(code, KeyModifiers::NONE), scene);
            }
        };
        match mouse.kind {
            MouseEventKind::ScrollDown if !self.typing => times(self, KeyCode::Down),
            MouseEventKind::ScrollUp if !self.typing => times(self, KeyCode::Up),
            MouseEventKind::Down(MouseButton::Left) if self.page(scene).is_none() => {
                let line = mouse.row.checked_sub(self.list.0).map(usize::from);
                if let Some(hit) = line.and_then(|line| self.list.1.get(line)).cloned() {
                    self.click(hit, mouse.column);
                }
            }
            MouseEventKind::Down(MouseButton::Right) => self.open = false,
            _ => {}
        }
    }

    fn click(&mut self, hit: Hit, x: u16) {
        match hit {
            Hit::Headings(section, columns) => {
                let Some(column) = columns.iter().position(|column| column.contains(&x)) else {
                    return;
                };
                let sort = Sort::Column(section, column);
                self.reverse = self.sort == sort && !self.reverse;
                self.sort = sort;
            }
            // The second click opens its page.
            Hit::Thing(section, name) => {
                let thing = Some((section, name));
                if self.selected == thing {
                    (self.open, self.page_scroll) = (true, 0);
                }
                self.selected = thing;
            }
            Hit::Nothing => {}
        }
    }
}
