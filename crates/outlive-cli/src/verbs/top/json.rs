//! One look as JSON, for programs that watch a domain: the rows of the screen, with names for columns.

use serde::Serialize;
use serde_json::{Map, Value};

use super::scene::{Scene, Totals};
use super::thing::{Alarm, Cell, Section, Thing};

#[derive(Serialize)]
pub struct Look<'a> {
    domain: &'a str,
    /// Over which the rates are.
    seconds: f64,
    #[serde(flatten)]
    totals: Totals,
    topics: Vec<Value>,
    queues: Vec<Value>,
    locks: Vec<Value>,
    pools: Vec<Value>,
    others: Vec<Value>,
    dead: Vec<Value>,
}

impl Look<'_> {
    /// Returns what there is, by name.
    pub fn of(scene: &Scene, seconds: f64) -> Look<'_> {
        let rows = |section| {
            let mut rows: Vec<&Thing> =
                scene.things.iter().filter(|one| one.section == section).collect();
            rows.sort_by(|one, other| one.name.cmp(&other.name));
            rows.into_iter().map(row).collect()
        };
        Look {
            domain: &scene.domain,
            seconds,
            totals: scene.totals,
            topics: rows(Section::Topics),
            queues: rows(Section::Queues),
            locks: rows(Section::Locks),
            pools: rows(Section::Pools),
            others: rows(Section::Others),
            dead: rows(Section::Dead),
        }
    }
}

/// Returns what the columns are called, in their order on the screen.
fn members(section: Section) -> &'static [&'static str] {
    match section {
        Section::Topics => &[
            "name",
            "messages_per_second",
            "publishers",
            "subscribers",
            "lag",
            "lost_per_second",
            "held",
            "bytes",
            "waits_for",
        ],
        Section::Queues => {
            &["name", "messages_per_second", "waiting", "senders", "bytes", "receiver"]
        }
        Section::Locks => &["name", "waiting", "longest_seconds", "state"],
        Section::Pools => &["name", "used", "cached", "free", "failed", "bytes"],
        Section::Others => &["name", "bytes", "state"],
        Section::Dead => &["program", "pid", "left"],
    }
}

fn row(thing: &Thing) -> Value {
    let alarm = match thing.alarm {
        Alarm::None => "none",
        Alarm::Note => "note",
        Alarm::Bad => "bad",
    };
    let cells = members(thing.section).iter().zip(&thing.cells);
    let mut row: Map<String, Value> =
        cells.map(|(member, cell)| ((*member).to_owned(), value(cell))).collect();
    row.insert("alarm".to_owned(), alarm.into());
    Value::Object(row)
}

/// Returns a figure as a number, whole where it counts something; no text as null.
fn value(cell: &Cell) -> Value {
    match cell.figure {
        Some(figure) if figure.fract() == 0.0 && figure.abs() < 9e15 => (figure as i64).into(),
        Some(figure) => figure.into(),
        None if cell.text.is_empty() => Value::Null,
        None => cell.text.clone().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_has_a_name() {
        for section in [
            Section::Topics,
            Section::Queues,
            Section::Locks,
            Section::Pools,
            Section::Others,
            Section::Dead,
        ] {
            assert_eq!(members(section).len(), section.headings().len(), "{section:?}");
        }
        assert_eq!(value(&Cell::count(7)), Value::from(7));
        assert_eq!(value(&Cell::rate(1.5)), Value::from(1.5));
        assert_eq!(value(&Cell::from(String::new())), Value::Null);
        assert_eq!(value(&Cell::from("free".to_owned())), Value::from("free"));
    }
}
