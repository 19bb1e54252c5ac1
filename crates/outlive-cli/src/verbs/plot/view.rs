//! The plot on a terminal: drawn from a sheet and the person's choices, and from nothing else.

use ratatui::Frame;
use ratatui::layout::{Constraint, HorizontalAlignment, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Chart, Dataset, GraphType, Paragraph};

use super::follow::Trouble;
use super::sheet::{self, Sheet};
use super::state::State;
use crate::output::count;
use crate::screen::Look;

const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
/// Of the curves, in turn; red is for what goes wrong.
const COLORS: [Color; 6] =
    [Color::Cyan, Color::Yellow, Color::Green, Color::Magenta, Color::Blue, Color::White];
/// Of the curves where there are no colours.
const MARKERS: [(Marker, &str); 4] = [
    (Marker::Braille, "⠒⠒"),
    (Marker::Dot, "••"),
    (Marker::Block, "██"),
    (Marker::HalfBlock, "▀▀"),
];

/// Draws a frame.
pub fn draw(frame: &mut Frame<'_>, sheet: &Sheet, state: &State, domain: &str, look: Look) {
    let area = frame.area();
    let legend = legend(sheet, look);
    // A short screen has the curves, and as much of the legend as has room.
    let rows = legend.len().min(usize::from(area.height / 3)) as u16;
    let [head, chart, below, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(3),
        Constraint::Length(rows),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(title(sheet, state, domain)), head);
    draw_chart(frame, chart, sheet, look);
    let left = legend.len() - usize::from(rows);
    let mut legend: Vec<Line<'_>> = legend.into_iter().take(rows.into()).collect();
    if let (Some(last), 1..) = (legend.last_mut(), left) {
        *last = Line::styled(format!("   … {} more", left + 1), DIM);
    }
    frame.render_widget(Paragraph::new(legend), below);
    let keys = " q quit  space pause  ←→ scroll  +- time  ↑↓ values  a all  1-9 hide";
    frame.render_widget(Paragraph::new(Line::styled(keys, DIM)), foot);
}

fn title(sheet: &Sheet, state: &State, domain: &str) -> Line<'static> {
    let mut spans = vec![Span::styled("outlive plot", BOLD)];
    if state.is_paused() {
        spans.push(Span::styled("  paused", BOLD.fg(Color::Yellow)));
    }
    if let Some((at, text)) = sheet.marks.last() {
        let ago = sheet.time.1 - at;
        spans.push(Span::styled(format!("  {text}, {ago:.1} s before"), BOLD.fg(Color::Red)));
    }
    spans.push(Span::raw(format!("  {domain}")));
    Line::from(spans)
}

fn draw_chart(frame: &mut Frame<'_>, area: Rect, sheet: &Sheet, look: Look) {
    let (least, largest) = (sheet.values.least, sheet.values.largest);
    let marks: Vec<[(f64, f64); 2]> =
        sheet.marks.iter().map(|(at, _)| [(*at, least), (*at, largest)]).collect();
    let mut sets: Vec<Dataset<'_>> = marks
        .iter()
        .map(|mark| {
            let style = Style::new().fg(Color::Red);
            let set = Dataset::default().data(mark).style(style);
            set.marker(Marker::Dot).graph_type(GraphType::Line)
        })
        .collect();
    for (at, line) in sheet.lines.iter().enumerate() {
        let marker = if look.has_colors { Marker::Braille } else { MARKERS[at % MARKERS.len()].0 };
        sets.extend(line.pieces.iter().map(|piece| {
            // A line of one point is none.
            let kind = if piece.len() > 1 { GraphType::Line } else { GraphType::Scatter };
            let set = Dataset::default().data(piece).style(color(at));
            set.marker(marker).graph_type(kind)
        }));
    }
    let (from, to) = sheet.time;
    let labels = (0..=2).map(|half| {
        let before = (to - from) * f64::from(2 - half) / 2.0;
        if before == 0.0 { "0 s".to_owned() } else { format!("-{} s", sheet::value(before)) }
    });
    let time = Axis::default().bounds([from, to]).style(DIM).labels(labels.collect::<Vec<_>>());
    let numbers = sheet.values.numbers();
    let numbers = if area.height < 8 { vec![least, largest] } else { numbers };
    let labels = numbers.into_iter().map(|number| sheet.values.label(number));
    let values =
        Axis::default().bounds([least, largest]).style(DIM).labels(labels.collect::<Vec<_>>());
    let values = values.labels_alignment(HorizontalAlignment::Right);
    frame.render_widget(Chart::new(sets).x_axis(time).y_axis(values), area);
}

fn color(at: usize) -> Style {
    Style::new().fg(COLORS[at % COLORS.len()])
}

/// Returns a line for each curve, with its figures below each other.
fn legend(sheet: &Sheet, look: Look) -> Vec<Line<'static>> {
    let width = sheet.lines.iter().map(|line| line.label.chars().count()).max().unwrap_or(0);
    let row = |(at, line): (usize, &sheet::Line)| {
        let sign = if look.has_colors { "━━" } else { MARKERS[at % MARKERS.len()].1 };
        let sign = if line.is_hidden { "  " } else { sign };
        let mut spans = vec![
            Span::styled(format!("{sign} "), color(at)),
            Span::styled(
                format!("{:<width$}", line.label),
                if line.is_hidden { DIM } else { BOLD },
            ),
        ];
        if let Some(last) = line.last {
            spans.push(Span::raw(format!("  {:>10}", sheet::value(last))));
        }
        if let Some((least, largest)) = line.range {
            let (least, largest) = (sheet::value(least), sheet::value(largest));
            spans.push(Span::styled(format!("  min {least:>10}  max {largest:>10}"), DIM));
        }
        for (number, what) in [(line.lost, "lost"), (line.gaps, "without a number")] {
            if number > 0 {
                let text = format!("  {} {what}", count(number));
                spans.push(Span::styled(text, Style::new().fg(Color::Red)));
            }
        }
        match &line.trouble {
            Some(Trouble::Absent) => spans.push(Span::styled("  is not there yet: waiting", DIM)),
            Some(Trouble::Wrong(why)) => {
                let why = why.escape_debug();
                spans.push(Span::styled(format!("  {why}"), Style::new().fg(Color::Red)));
            }
            None if line.last.is_none() && line.gaps == 0 => {
                spans.push(Span::styled("  nothing yet", DIM));
            }
            None => {}
        }
        Line::from(spans)
    };
    sheet.lines.iter().enumerate().map(row).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::sheet::tests::sheet;
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    const ALL: Look = Look { has_unicode: true, has_colors: true };

    fn screen(columns: u16, rows: u16, sheet: &Sheet, look: Look) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).expect("a terminal");
        let state = State::new(Duration::from_secs(10), sheet.lines.len());
        let drawn = terminal.draw(|frame| {
            draw(frame, sheet, &state, "/domain", look);
            look.keep_to(frame.buffer_mut());
        });
        drawn.expect("drawn");
        let buffer = terminal.backend().buffer();
        let line = |y| {
            (0..columns).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned()
        };
        (0..rows).map(line).collect()
    }

    #[test]
    fn curves_stand_between_their_axes_and_above_their_legend() {
        let rising: Vec<(f64, f64)> =
            (0..=100).map(|at| (f64::from(at) / 10.0, at.into())).collect();
        let sheet = sheet(&[("pose.x", &rising), ("later.y", &[])]);
        let lines = screen(80, 20, &sheet, ALL);
        assert!(
            lines[0].starts_with("outlive plot  pose: publisher 77 (arm) died, 5.0 s before  /d")
        );
        assert!(
            lines[1].starts_with(" 100│") && lines[1].ends_with(['⠔', '⠊', '⠁', '⡠']),
            "{lines:#?}"
        );
        assert!(lines.iter().any(|line| line.starts_with("  60│")), "{lines:#?}");
        assert!(lines[16].contains("-10 s") && lines[16].ends_with("0 s"), "{lines:#?}");
        assert_eq!(lines[17], "━━ pose.x          100  min          0  max        100");
        assert_eq!(lines[18], "━━ later.y  is not there yet: waiting");
        assert!(lines[19].contains("q quit"));
        // The mark of a death.
        assert!(lines[3].contains('•'), "{lines:#?}");
        let plain = screen(80, 20, &sheet, Look { has_unicode: false, has_colors: false });
        assert!(plain.iter().all(|line| line.is_ascii()), "{plain:#?}");
        assert!(plain[18].starts_with("## later.y"), "{plain:#?}");
    }

    #[test]
    fn any_size_of_screen_and_any_number_are_drawn() {
        let odd = [(0.0, -1e300), (1.0, 1e300), (2.0, 5e-324), (3.0, 0.0), (4.0, -0.0)];
        let many: Vec<(&str, &[(f64, f64)])> = (0..30).map(|_| ("a", &odd[..])).collect();
        let sheet = sheet(&many);
        for columns in [1, 2, 10, 40, 79, 200] {
            for rows in [1, 2, 3, 4, 5, 10, 60] {
                screen(columns, rows, &sheet, ALL);
            }
        }
        assert!(screen(80, 24, &sheet, ALL).iter().any(|line| line.contains("… 23 more")));
    }
}
