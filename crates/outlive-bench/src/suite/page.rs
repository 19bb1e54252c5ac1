//! All reports on one page: tables and plots, for a screen in the light or in the dark, and for
//! paper. The page is one file, asks nothing of a network and runs nothing.

use super::all::{Entry, Told};
use crate::harness::chart;
use crate::harness::error::Error;
use crate::harness::machine::Machine;
use crate::harness::report::{Part, Report, Row, figure, ratio};
use std::fmt::{self, Display, Formatter, Write};

const STYLE: &str = include_str!("page.css");

/// Writes it.
pub(super) fn write(entries: &[Entry], quick: bool) -> Result<String, Error> {
    let mut page = String::new();
    let title = "What Outlive costs, beside its alternatives";
    // Writing to a String cannot fail; so with all below.
    let _ = write!(
        page,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n<header>\n<h1>{title}</h1>\n"
    );
    if let Some(machine) =
        entries.iter().find_map(|entry| Some(entry.outcome.as_ref().ok()?.machine()))
    {
        let Machine { cpu, cores, kernel, profile, .. } = machine;
        let _ = writeln!(
            page,
            "<p>{}, {cores} cores, Linux {}; outlive {}, built with the profile {profile}.</p>",
            Text(cpu),
            Text(kernel),
            env!("CARGO_PKG_VERSION")
        );
    }
    page.push_str(
        "<p>Costs in nanoseconds: less is better. Contenders took turns within one run; given is the median of the turns, \
         with the least and the greatest, and the median of the rounds’ ratios to the baseline. The crossing is how long \
         a cache line takes from one core to the other, one way; only turns with the cores equally far apart, of one \
         core complex or of two, are compared. Ratios carry over to other machines, absolute times do not.</p>\n",
    );
    if quick {
        page.push_str("<p class=\"note\">A quick run: few rounds of short turns. A first look, not a result.</p>\n");
    }
    contents(&mut page, entries);
    page.push_str("</header>\n<main>\n");
    for (place, entry) in entries.iter().enumerate() {
        section(&mut page, place, entry)?;
    }
    page.push_str("</main>\n</body>\n</html>\n");
    Ok(page)
}

/// Writes what is on the page; and for each, how Outlive's first row compares.
fn contents(page: &mut String, entries: &[Entry]) {
    page.push_str("<nav><ol>\n");
    for (place, Entry { typed, outcome }) in entries.iter().enumerate() {
        let said = match outcome {
            Ok(Told::Compared(report)) => first_of_ours(report).unwrap_or_default(),
            Ok(Told::Inversion(_)) => String::new(),
            Err(_) => "did not run".into(),
        };
        let _ = writeln!(
            page,
            "<li><a href=\"#b{place}\">{}</a> <span>{}</span></li>",
            Text(typed),
            Text(&said)
        );
    }
    page.push_str("</ol></nav>\n");
}

fn first_of_ours(report: &Report) -> Option<String> {
    let part = report.parts.first()?;
    let ours = part.rows.iter().find(|row| report.title.ours.contains(&row.name))?;
    let baseline = part.rows.iter().find(|row| row.baseline)?;
    Some(format!("{}: {} × {}", ours.name, ratio(ours.ratio), baseline.name))
}

fn section(page: &mut String, place: usize, Entry { typed, outcome }: &Entry) -> Result<(), Error> {
    let _ = writeln!(
        page,
        "<section id=\"b{place}\">\n<h2><code>outlive bench {}</code></h2>",
        Text(typed)
    );
    match outcome {
        Ok(Told::Inversion(report)) => {
            let _ = writeln!(
                page,
                "<figure>{}</figure>\n<pre>{}</pre>",
                report.svg()?,
                Text(&report.table())
            );
        }
        Ok(Told::Compared(report)) => {
            let _ = writeln!(page, "<p>{}.</p>", Text(&report.subtitle()));
            let label = format!(
                "Costs measured by outlive bench {typed}; the same figures stand in the table below"
            );
            let svg = chart::svg(report, false)?;
            // The name for screen readers; the drawing library has no place for one.
            let named = svg.replacen(
                "<svg ",
                &format!("<svg role=\"img\" aria-label=\"{}\" ", Text(&label)),
                1,
            );
            let _ = writeln!(page, "<figure>{named}</figure>");
            match &report.parts[..] {
                [part] => table_of_one(page, report, part),
                parts => table_of_many(page, report, parts),
            }
            notes(page, report);
        }
        Err(error) => {
            let _ =
                writeln!(page, "<p class=\"note\">Did not run: {}.</p>", Text(&error.to_string()));
        }
    }
    page.push_str("</section>\n");
    Ok(())
}

fn table_of_one(page: &mut String, report: &Report, part: &Part) {
    page.push_str(
        "<table>\n<thead><tr><th></th><th>median ns</th><th>min</th><th>max</th><th>ratio</th></tr></thead>\n<tbody>\n",
    );
    for row in &part.rows {
        let _ = writeln!(
            page,
            "<tr{}><th>{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            class_of(report, row.name),
            row.name,
            figure(row.median),
            figure(row.min),
            figure(row.max),
            compared(row)
        );
    }
    page.push_str("</tbody>\n</table>\n");
}

/// Writes a column for each group; in a cell the median, and under it min and max, and the ratio.
fn table_of_many(page: &mut String, report: &Report, parts: &[Part]) {
    page.push_str(
        "<table>\n<thead><tr><th>median ns<small>min to max</small><small>ratio</small></th>",
    );
    for setting in parts.iter().filter_map(|part| part.setting) {
        let _ = write!(page, "<th>{}</th>", setting.label());
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    let Some(first) = parts.first() else { return };
    for name in first.rows.iter().map(|row| row.name) {
        let _ = write!(page, "<tr{}><th>{name}</th>", class_of(report, name));
        for part in parts {
            match part.rows.iter().find(|row| row.name == name) {
                Some(row) => {
                    let (median, min, max) = (figure(row.median), figure(row.min), figure(row.max));
                    let _ = write!(
                        page,
                        "<td>{median}<small>{min} to {max}</small><small>{}</small></td>",
                        compared(row)
                    );
                }
                None => page.push_str("<td>–</td>"),
            }
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table>\n");
}

fn class_of(report: &Report, row: &str) -> &'static str {
    if report.title.ours.contains(&row) { " class=\"ours\"" } else { "" }
}

fn compared(row: &Row) -> String {
    if row.baseline { "baseline".into() } else { format!("{} ×", ratio(row.ratio)) }
}

/// Writes the note under a table: the crossing, the rounds, the missing contenders.
fn notes(page: &mut String, report: &Report) {
    let _ = write!(page, "<p class=\"small\">{}", Text(&report.machine.crossing()));
    for part in &report.parts {
        let setting =
            part.setting.map(|setting| format!("{}: ", setting.label())).unwrap_or_default();
        let _ = write!(page, "; {}{}", Text(&setting), Text(&part.counted()));
    }
    page.push_str(".</p>\n");
    for absent in &report.absent {
        let _ = writeln!(
            page,
            "<p class=\"small\">{} did not take part: {}.</p>",
            absent.name,
            Text(&absent.why)
        );
    }
}

/// Text as HTML shows it.
struct Text<'a>(&'a str);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_no_markup() {
        assert_eq!(Text("a < b & \"c\"").to_string(), "a &lt; b &amp; &quot;c&quot;");
    }
}
