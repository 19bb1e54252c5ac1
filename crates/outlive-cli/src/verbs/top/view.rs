//! The picture: drawn from a scene and the person's choices, and from nothing else.

use std::ops::Range;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Sparkline};

use super::history::{History, bars};
use super::scene::Scene;
use super::state::{Hit, State};
use super::thing::{Alarm, Section, Thing};
use crate::output::counted;
use crate::verbs::measuring::rate;

const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);
/// The most that text columns at the end are cut to before the name is.
const LEAST_NAME: usize = 12;

/// How wide the names of what is known about a thing are on its page.
const NAME: usize = 11;
/// From this width on, rows end with what their figure has been.
const WIDTH_OF_BARS: u16 = 100;
/// So many looks a row shows.
const BARS: usize = 16;

/// Draws a frame.
pub fn draw(frame: &mut Frame<'_>, scene: &Scene, history: &History, state: &mut State) {
    let area = frame.area();
    let [head, middle, foot] =
        Layout::vertical([Constraint::Length(2), Constraint::Min(1), Constraint::Length(1)])
            .areas(area);
    frame.render_widget(Paragraph::new(title(scene, state)), head);
    let keys = match (state.page(scene), state.filter()) {
        (_, Some((filter, true))) => Line::from(format!("/{filter}▏")),
        (Some(thing), _) => {
            draw_page(frame, middle, thing, history, &mut state.page_scroll);
            Line::styled(" q quit  Esc back  ↑↓ scroll  p pause", DIM)
        }
        (None, filter) => {
            let order = if state.is_reverse() { "-" } else { "" };
            let (order, sort) = (order, state.sort().name().to_lowercase());
            let filter = filter.map_or(String::new(), |(filter, _)| format!(": {filter}"));
            let keys = format!(
                " q quit  ↑↓ select  Enter page  / filter{filter}  s sort: {order}{sort}  r reverse  \
                 Tab next kind  p pause"
            );
            Line::styled(keys, DIM)
        }
    };
    if state.page(scene).is_none() {
        draw_list(frame, middle, scene, history, state);
    }
    frame.render_widget(Paragraph::new(keys), foot);
}

fn draw_list(
    frame: &mut Frame<'_>,
    area: Rect,
    scene: &Scene,
    history: &History,
    state: &mut State,
) {
    let things = state.in_order(scene);
    let at = state.position(&things);
    let bars = (area.width >= WIDTH_OF_BARS).then_some(history);
    let (lines, chosen) = lines(scene, &things, Some(at), usize::from(area.width), bars);
    let rows = usize::from(area.height);
    // The heading above the first one comes into sight with it.
    let top = if at == 0 { 0 } else { chosen };
    let last = lines.len().saturating_sub(rows);
    state.scroll = state.scroll.min(top).max((chosen + 1).saturating_sub(rows)).min(last);
    let shown = lines.into_iter().skip(state.scroll).take(rows);
    let (lines, hits): (Vec<Line<'_>>, Vec<Hit>) = shown.unzip();
    frame.render_widget(Paragraph::new(lines), area);
    state.list = (area.y, hits);
}

/// Draws all about one thing: what its figures have been, and what is known.
fn draw_page(
    frame: &mut Frame<'_>,
    area: Rect,
    thing: &Thing,
    history: &History,
    scroll: &mut usize,
) {
    // Half of the page at most, and less on a low screen.
    let each = (area.height / 2 / thing.figures.len().max(1) as u16).min(6);
    let figures = if each >= 2 { &thing.figures[..] } else { &[] };
    let [curves, told] =
        Layout::vertical([Constraint::Length(each * figures.len() as u16), Constraint::Min(1)])
            .areas(area);
    for (at, (name, now)) in figures.iter().enumerate() {
        let place = Rect { y: curves.y + at as u16 * each, height: each, ..curves };
        let past = history.of(thing, at);
        let past = &past[past.len().saturating_sub(place.width.into())..];
        let largest = past.iter().copied().fold(0.0, f64::max);
        let [label, bars] =
            Layout::vertical([Constraint::Length(1), Constraint::Min(1)]).areas(place);
        let text = Line::from(vec![
            Span::styled(format!("{name}  "), DIM),
            Span::styled(rate(*now), BOLD),
            Span::styled(format!("  at most {} in {}", rate(largest), looks(past.len())), DIM),
        ]);
        frame.render_widget(Paragraph::new(text), label);
        // Bars are whole numbers of the largest one.
        let part = |figure: &f64| (figure / largest.max(f64::MIN_POSITIVE) * 1e6) as u64;
        let room = usize::from(bars.width).saturating_sub(past.len());
        let data: Vec<u64> = std::iter::repeat_n(0, room).chain(past.iter().map(part)).collect();
        let style = Style::new().fg(Color::Cyan);
        frame.render_widget(Sparkline::default().data(data).max(1_000_000).style(style), bars);
    }
    let width = usize::from(told.width);
    let rule = Line::styled("─".repeat(width), DIM);
    // What is longer than a line goes on below.
    let room = width.saturating_sub(NAME + 2).max(LEAST_NAME);
    let about = thing.about.iter().flat_map(|(name, text)| {
        let letters: Vec<char> = text.chars().collect();
        let pieces: Vec<String> =
            letters.chunks(room).map(|piece| piece.iter().collect()).collect();
        let pieces = if pieces.is_empty() { vec![String::new()] } else { pieces };
        pieces.into_iter().enumerate().map(move |(at, piece)| {
            let name = if at == 0 { name } else { "" };
            Line::from(vec![Span::styled(format!("{name:<NAME$}  "), DIM), Span::raw(piece)])
        })
    });
    let all: Vec<Line<'_>> = [rule].into_iter().chain(about).collect();
    *scroll = (*scroll).min(all.len().saturating_sub(told.height.into()));
    let shown: Vec<Line<'_>> = all.into_iter().skip(*scroll).take(told.height.into()).collect();
    frame.render_widget(Paragraph::new(shown), told);
}

fn looks(count: usize) -> String {
    counted(count as u64, "look")
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

/// Returns all lines of the list, with what stands on each, and which of them is the chosen one.
fn lines<'s>(
    scene: &'s Scene,
    things: &[&'s Thing],
    chosen: Option<usize>,
    width: usize,
    history: Option<&History>,
) -> (Vec<(Line<'s>, Hit)>, usize) {
    let mut lines = Vec::new();
    let mut chosen_line = 0;
    let mut section: Option<(Section, Vec<usize>)> = None;
    // At the end of the rows, behind two blanks.
    let width = if history.is_some() { width - BARS - 2 } else { width };
    for (at, thing) in things.iter().enumerate() {
        if section.as_ref().is_none_or(|(section, _)| *section != thing.section) {
            if section.is_some() {
                lines.push((Line::default(), Hit::Nothing));
            }
            let widths = widths(thing.section, things, width);
            let headings = thing.section.headings().iter().map(|heading| (*heading).to_owned());
            let heading = row(&headings.collect::<Vec<_>>(), &widths, thing.section);
            let mut heading = vec![Span::styled(heading.trim_end().to_owned(), BOLD)];
            if thing.section == Section::Dead && !scene.sweep.is_empty() {
                heading.push(Span::styled(format!("  ('outlive gc' {})", scene.sweep), DIM));
            }
            let hit = Hit::Headings(thing.section, places(&widths));
            lines.push((Line::from(heading), hit));
            section = Some((thing.section, widths));
        }
        let style = match thing.alarm {
            Alarm::None => Style::new(),
            Alarm::Note => Style::new().fg(Color::Yellow),
            Alarm::Bad => Style::new().fg(Color::Red),
        };
        let widths = section.as_ref().map_or(&[][..], |(_, widths)| widths);
        let cells: Vec<String> = thing.cells.iter().map(|cell| cell.text.clone()).collect();
        let mut text = row(&cells, widths, thing.section);
        if let (Some(history), false) = (history, thing.figures.is_empty()) {
            text = format!("{text:<width$}  {}", bars(&history.of(thing, 0), BARS));
        }
        let style = if chosen == Some(at) {
            chosen_line = lines.len();
            text = format!("{text:<width$}");
            style.patch(CHOSEN)
        } else {
            style
        };
        lines.push((Line::styled(text, style), Hit::Thing(thing.section, thing.name.clone())));
    }
    if things.is_empty() {
        let text = if scene.things.is_empty() { "nothing here yet" } else { "nothing has that" };
        lines.push((Line::styled(text, DIM), Hit::Nothing));
    }
    (lines, chosen_line)
}

/// Returns where the columns of these widths stand, with the blanks before them.
fn places(widths: &[usize]) -> Vec<Range<u16>> {
    let mut end = 0;
    let place = |(column, width): (usize, &usize)| {
        let begin = end;
        end += (width + if column == 0 { 0 } else { 2 }) as u16;
        begin..end
    };
    widths.iter().enumerate().map(place).collect()
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
        let widest = cells.map(|cell| cell.text.chars().count()).max().unwrap_or(0);
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
    let (lines, _) = lines(scene, &state.in_order(scene), None, usize::from(columns), None);
    let lines = lines.into_iter().map(|(line, _)| line);
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
    use ratatui::crossterm::event::{
        Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
    };

    /// Returns what is on a screen of that size.
    fn screen(columns: u16, rows: u16, scene: &Scene, state: &mut State) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).expect("a terminal");
        let mut history = History::default();
        history.add(scene);
        terminal.draw(|frame| draw(frame, scene, &history, state)).expect("drawn");
        let buffer = terminal.backend().buffer();
        let line = |y| {
            (0..columns).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned()
        };
        (0..rows).map(line).collect()
    }

    fn press(state: &mut State, code: KeyCode, scene: &Scene) {
        state.event(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)), scene);
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
        press(&mut state, KeyCode::Esc, &scene);
        let lines = screen(80, 24, &scene, &mut state);
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

    fn click(state: &mut State, column: u16, row: u16, scene: &Scene) {
        let kind = MouseEventKind::Down(MouseButton::Left);
        let mouse = MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE };
        state.event(&Event::Mouse(mouse), scene);
    }

    /// Three topics that differ in every column.
    fn three() -> Scene {
        let topic = |name: &str, rate: &str, lag: &str| {
            let cells = [rate, "1", "1", lag, "0", "0", "1", ""];
            let mut topic = thing(Section::Topics, name, &cells);
            topic.figures = vec![("messages a second", topic.cells[1].figure.unwrap_or(0.0))];
            topic
        };
        scene(vec![
            topic("camera", "30", "2"),
            topic("imu", "1000", "0"),
            topic("Lidar", "10", "7"),
            thing(Section::Locks, "door", &["0", "", "held by 77 (worker)"]),
        ])
    }

    #[test]
    fn clicks_on_headings_sort_and_clicks_on_rows_select_and_open() {
        let (scene, mut state) = (three(), State::default());
        let names = |state: &State| -> String {
            state.in_order(&scene).iter().map(|thing| &thing.name[..1]).collect()
        };
        assert_eq!(names(&state), "Lcid");
        let lines = screen(80, 24, &scene, &mut state);
        let at = |heading: &str| {
            let place = lines[2].find(heading).expect("a heading") + heading.len() - 1;
            place as u16
        };
        click(&mut state, at("MSG/S"), 2, &scene);
        assert_eq!(names(&state), "icLd");
        click(&mut state, at("MSG/S"), 2, &scene);
        assert_eq!(names(&state), "Lcid");
        click(&mut state, at("LAG"), 2, &scene);
        assert_eq!(names(&state), "Lcid");
        click(&mut state, 79, 2, &scene);
        click(&mut state, 0, 23, &scene);
        screen(80, 24, &scene, &mut state);
        // The third row; again, and its page is there.
        click(&mut state, 3, 5, &scene);
        let things = state.in_order(&scene);
        assert_eq!((state.position(&things), state.page(&scene).is_some()), (2, false));
        click(&mut state, 3, 5, &scene);
        assert!(state.page(&scene).is_some());
        let wheel = |kind| {
            let modifiers = KeyModifiers::NONE;
            Event::Mouse(MouseEvent { kind, column: 0, row: 0, modifiers })
        };
        press(&mut state, KeyCode::Esc, &scene);
        state.event(&wheel(MouseEventKind::ScrollUp), &scene);
        assert_eq!(state.position(&state.in_order(&scene)), 0);
        state.event(&wheel(MouseEventKind::ScrollDown), &scene);
        assert_eq!(state.position(&state.in_order(&scene)), 3);
    }

    #[test]
    fn a_filter_is_typed_kept_and_given_up() {
        let (scene, mut state) = (three(), State::default());
        for key in "/LIq".chars() {
            press(&mut state, KeyCode::Char(key), &scene);
        }
        assert!(!state.is_done() && screen(80, 24, &scene, &mut state)[23].starts_with("/LIq▏"));
        assert!(screen(80, 24, &scene, &mut state)[2].contains("nothing has that"));
        press(&mut state, KeyCode::Backspace, &scene);
        press(&mut state, KeyCode::Enter, &scene);
        let names: Vec<&str> =
            state.in_order(&scene).iter().map(|thing| thing.name.as_str()).collect();
        assert_eq!(names, ["Lidar"]);
        assert!(screen(80, 24, &scene, &mut state)[23].contains("filter: LI"));
        press(&mut state, KeyCode::Esc, &scene);
        assert!(!state.is_done() && state.in_order(&scene).len() == 4);
        // Holders are found, too.
        for key in "/worker".chars() {
            press(&mut state, KeyCode::Char(key), &scene);
        }
        assert_eq!(state.in_order(&scene).len(), 1);
    }

    #[test]
    fn a_page_shows_what_a_figure_has_been_and_wide_rows_do() {
        let (scene, mut state) = (three(), State::default());
        press(&mut state, KeyCode::Down, &scene);
        press(&mut state, KeyCode::Enter, &scene);
        let lines = screen(80, 24, &scene, &mut state);
        assert!(
            lines[2].starts_with("messages a second  30.0  at most 30.0 in 1 look"),
            "{lines:#?}"
        );
        assert!(lines[3..8].iter().all(|line| line.ends_with('█')), "{lines:#?}");
        assert!(lines.iter().any(|line| line.starts_with("about        camera")), "{lines:#?}");
        let mut long = scene.clone();
        let text: String = ('a'..='z').cycle().take(100).collect();
        long.things[0].about = vec![("field", text.clone()), ("user", String::new())];
        let lines = screen(60, 24, &long, &mut state);
        let at = lines.iter().position(|line| line.starts_with("field ")).expect("there");
        let shown: String = lines[at..at + 3].iter().filter_map(|line| line.get(13..)).collect();
        assert_eq!((shown, lines[at + 3].as_str()), (text, "user"), "{lines:#?}");
        press(&mut state, KeyCode::End, &scene);
        for columns in [1, 10, 80] {
            for rows in [1, 2, 5, 8, 60] {
                screen(columns, rows, &scene, &mut state);
            }
        }
        press(&mut state, KeyCode::Esc, &scene);
        let lines = screen(120, 24, &scene, &mut state);
        assert!(lines[3].starts_with("Lidar") && lines[3].ends_with('█'), "{lines:#?}");
        assert!(lines[3].chars().count() == 120, "{lines:#?}");
        let lines = screen(80, 24, &scene, &mut state);
        assert!(!lines[3].contains('█'), "no room for it");
    }
}
