//! The picture: drawn from a scene and the person's choices, and from nothing else.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Widget};

use super::scene::{Alarm, Scene, Section, Thing};
use super::state::State;

const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);
/// The most that text columns at the end are cut to before the name is.
const LEAST_NAME: usize = 12;

/// Draws a frame.
pub fn draw(frame: &mut Frame<'_>, scene: &Scene, state: &mut State) {
    let area = frame.area();
    paint(area, frame.buffer_mut(), scene, state);
}

fn paint(area: Rect, buffer: &mut Buffer, scene: &Scene, state: &mut State) {
    let things = state.in_order(scene);
    let at = state.position(&things);
    let about = things.get(at).filter(|_| state.open).map(|thing| &thing.about);
    let about_rows =
        about.map_or(0, |about| (about.len() + 1).min(usize::from(area.height / 2))) as u16;
    let [head, list, pane, foot] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Min(1),
        Constraint::Length(about_rows),
        Constraint::Length(1),
    ])
    .areas(area);
    Paragraph::new(title(scene, state)).render(head, buffer);

    let (lines, chosen) = lines(scene, &things, Some(at), usize::from(area.width));
    let rows = usize::from(list.height);
    // The heading above the first one comes into sight with it.
    let top = if at == 0 { 0 } else { chosen };
    let last = lines.len().saturating_sub(rows);
    state.scroll = state.scroll.min(top).max((chosen + 1).saturating_sub(rows)).min(last);
    let shown: Vec<Line<'_>> = lines.into_iter().skip(state.scroll).take(rows).collect();
    Paragraph::new(shown).render(list, buffer);

    if let Some(about) = about {
        let width = usize::from(area.width);
        let rule = Line::styled("─".repeat(width), DIM);
        let told = about.iter().map(|(name, text)| {
            Line::from(vec![Span::styled(format!("{name:<11}  "), DIM), Span::raw(text.as_str())])
        });
        Paragraph::new([rule].into_iter().chain(told).collect::<Vec<_>>()).render(pane, buffer);
    }
    let keys = format!(
        " q quit  ↑↓ select  Enter details  Tab next kind  s sort: {}  p pause",
        state.sort().name()
    );
    Paragraph::new(Line::styled(keys, DIM)).render(foot, buffer);
}

fn title<'s>(scene: &'s Scene, state: &State) -> Vec<Line<'s>> {
    let mut first = vec![Span::styled("outlive top  ", BOLD), Span::raw(scene.domain.as_str())];
    if state.is_paused() {
        first.push(Span::styled(
            "  paused",
            Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD),
        ));
    }
    vec![Line::from(first), Line::styled(scene.summary.as_str(), DIM)]
}

/// Returns all lines of the list, and which of them is the chosen one.
fn lines<'s>(
    scene: &'s Scene,
    things: &[&'s Thing],
    chosen: Option<usize>,
    width: usize,
) -> (Vec<Line<'s>>, usize) {
    let mut lines = Vec::new();
    let mut chosen_line = 0;
    let mut section: Option<(Section, Vec<usize>)> = None;
    for (at, thing) in things.iter().enumerate() {
        if section.as_ref().is_none_or(|(section, _)| *section != thing.section) {
            if section.is_some() {
                lines.push(Line::default());
            }
            let widths = widths(thing.section, things, width);
            let headings = thing.section.headings().iter().map(|heading| (*heading).to_owned());
            let heading = row(&headings.collect::<Vec<_>>(), &widths, thing.section);
            let mut heading = vec![Span::styled(heading.trim_end().to_owned(), BOLD)];
            if thing.section == Section::Dead && !scene.sweep.is_empty() {
                heading.push(Span::styled(format!("  ('outlive gc' {})", scene.sweep), DIM));
            }
            lines.push(Line::from(heading));
            section = Some((thing.section, widths));
        }
        let style = match thing.alarm {
            Alarm::None => Style::new(),
            Alarm::Note => Style::new().fg(Color::Yellow),
            Alarm::Bad => Style::new().fg(Color::Red),
        };
        let widths = section.as_ref().map_or(&[][..], |(_, widths)| widths);
        let mut text = row(&thing.cells, widths, thing.section);
        let style = if chosen == Some(at) {
            chosen_line = lines.len();
            text = format!("{text:<width$}");
            style.patch(CHOSEN)
        } else {
            style
        };
        lines.push(Line::styled(text, style));
    }
    if things.is_empty() {
        lines.push(Line::styled("nothing here yet", DIM));
    }
    (lines, chosen_line)
}

/// How wide the columns of a section are: as wide as they need to be, but all together no wider
/// than the screen.
fn widths(section: Section, things: &[&Thing], width: usize) -> Vec<usize> {
    let headings = section.headings();
    let of = |column: usize| {
        let cells = things
            .iter()
            .filter(|thing| thing.section == section)
            .filter_map(|thing| thing.cells.get(column));
        let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
        widest.max(headings[column].chars().count())
    };
    let mut widths: Vec<usize> = (0..headings.len()).map(of).collect();
    let last = widths.len() - 1;
    let gaps = 2 * last;
    let over = |widths: &[usize]| (widths.iter().sum::<usize>() + gaps).saturating_sub(width);
    if section.ends_with_text() {
        // The name first, as long as enough of it is left; then the text.
        let spare = widths[0].saturating_sub(LEAST_NAME * 2);
        widths[0] -= over(&widths).min(spare);
        let spare = widths[last].saturating_sub(8);
        widths[last] -= over(&widths).min(spare);
    } else {
        // Columns of the same kind keep their places from frame to frame.
        let room = width.saturating_sub(gaps + widths[1..].iter().sum::<usize>());
        widths[0] = widths[0].max(room);
    }
    widths[0] -= over(&widths).min(widths[0].saturating_sub(LEAST_NAME));
    widths
}

/// Cells side by side: the first to the left, and the last one if it is text; figures to the right.
fn row(cells: &[String], widths: &[usize], section: Section) -> String {
    let mut text = String::new();
    for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
        let is_text = column == 0 || section.ends_with_text() && column + 1 == widths.len();
        let cell = cut(cell, *width);
        let space = if column == 0 { "" } else { "  " };
        if is_text {
            text.push_str(&format!("{space}{cell:<width$}"));
        } else {
            text.push_str(&format!("{space}{cell:>width$}"));
        }
    }
    text
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// One picture, as long as it has to be, as text.
pub fn as_text(scene: &Scene, columns: u16) -> String {
    let state = State::default();
    let (lines, _) = lines(scene, &state.in_order(scene), None, usize::from(columns));
    let all = title(scene, &state).into_iter().chain([Line::default()]).chain(lines);
    all.map(|line| format!("{}\n", cut(&line.to_string(), usize::from(columns)).trim_end()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::scene::tests::{scene, thing};
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    /// Returns what is on a screen of that size.
    fn screen(columns: u16, rows: u16, scene: &Scene, state: &mut State) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).expect("a terminal");
        terminal.draw(|frame| draw(frame, scene, state)).expect("drawn");
        let buffer = terminal.backend().buffer();
        let line = |y| {
            (0..columns).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned()
        };
        (0..rows).map(line).collect()
    }

    fn press(state: &mut State, code: KeyCode, scene: &Scene) {
        state.key(KeyEvent::new(code, KeyModifiers::NONE), scene);
    }

    #[test]
    fn all_of_it_stands_on_eighty_by_twenty_four() {
        let scene = scene(vec![
            thing(Section::Topics, "camera", &["30.0", "1", "3", "2", "0", "4", "64.0 MiB", ""]),
            thing(Section::Queues, "jobs", &["1,200", "7", "2", "96.0 KiB", "77 (worker)"]),
            thing(
                Section::Locks,
                "a lock with a name that is far longer than any screen is wide, and then some more",
                &["2", "1.5 s", "held by 4711 (backup), 2 waiting"],
            ),
            thing(Section::Pools, "frames", &["3", "4", "5", "0", "2.0 MiB"]),
            thing(Section::Dead, "gone", &["99", "publisher of camera"]),
        ]);
        let lines = screen(80, 24, &scene, &mut State::default());
        let line = |part: &str| {
            lines
                .iter()
                .find(|line| line.contains(part))
                .unwrap_or_else(|| panic!("{part}: {lines:#?}"))
        };
        assert!(line("camera  ").ends_with("64.0 MiB"));
        assert!(line("jobs").ends_with("77 (worker)"));
        assert!(line("a lock with").contains('…') && line("a lock with").contains("held by 4711"));
        assert!(line("DEAD").contains("'outlive gc' would sweep 3 claims"));
        assert!(lines[23].contains("q quit"));
        for columns in [1, 10, 40, 79, 200] {
            for rows in [1, 2, 3, 4, 10, 60] {
                screen(columns, rows, &scene, &mut State::default());
            }
        }
    }

    #[test]
    fn the_selected_one_is_always_in_sight() {
        let names: Vec<String> = (0..100).map(|number| format!("topic{number:02}")).collect();
        let cells = ["1", "1", "1", "1", "0", "0", "1 B", ""];
        let scene = scene(names.iter().map(|name| thing(Section::Topics, name, &cells)).collect());
        let mut state = State::default();
        for steps in [1, 5, 30, 99, 200] {
            for _ in 0..steps {
                press(&mut state, KeyCode::Down, &scene);
            }
            let at = state.position(&state.in_order(&scene));
            let lines = screen(80, 24, &scene, &mut state);
            assert!(lines.iter().any(|line| line.starts_with(&names[at])), "{at}: {lines:#?}");
        }
        press(&mut state, KeyCode::Enter, &scene);
        let lines = screen(80, 24, &scene, &mut state);
        assert!(lines.iter().any(|line| line.starts_with("about        topic99")), "{lines:#?}");
        assert!(lines.iter().any(|line| line.starts_with("topic99")), "{lines:#?}");
        press(&mut state, KeyCode::Home, &scene);
        assert!(screen(80, 24, &scene, &mut state)[2].starts_with("TOPIC"));
        // A larger screen shows as much as it can.
        press(&mut state, KeyCode::End, &scene);
        screen(80, 24, &scene, &mut state);
        assert!(screen(80, 200, &scene, &mut state)[2].starts_with("TOPIC"));
    }

    #[test]
    fn keys_sort_pause_and_quit() {
        let mut quick = thing(Section::Topics, "quick", &["9", "1", "1", "1", "0", "0", "1 B", ""]);
        quick.activity = 9.0;
        let mut large =
            thing(Section::Topics, "large", &["0", "1", "1", "1", "0", "0", "9 GiB", ""]);
        large.bytes = 9 << 30;
        let scene = scene(vec![thing(Section::Topics, "another", &["0"; 8]), large, quick]);
        let mut state = State::default();
        let first = |state: &State| state.in_order(&scene)[0].name.clone();
        assert_eq!(first(&state), "another");
        press(&mut state, KeyCode::Char('s'), &scene);
        assert_eq!(first(&state), "quick");
        press(&mut state, KeyCode::Char('s'), &scene);
        assert_eq!(first(&state), "large");
        press(&mut state, KeyCode::Char('p'), &scene);
        assert!(state.is_paused() && screen(80, 24, &scene, &mut state)[0].ends_with("paused"));
        press(&mut state, KeyCode::Char('q'), &scene);
        assert!(state.is_done());
        // Selected, it stays so in another order, and is let go when it is gone.
        let mut state = State::default();
        press(&mut state, KeyCode::End, &scene);
        press(&mut state, KeyCode::Char('s'), &scene);
        let things = state.in_order(&scene);
        assert_eq!(things[state.position(&things)].name, "quick");
    }
}
