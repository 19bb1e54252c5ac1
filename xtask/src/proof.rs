//! `cargo xtask proof`: what takes long and seldom finds anything, and what came of it the last
//! time.
//!
//! The test command has every scenario, every model and every language once. This has the rest: the
//! models' mutations, all pairs of languages, both halves of the kill scenarios, longer random
//! stages; and, by their names alone, the tests beside a load and those in emulated machines. Each
//! stage writes its outcome into its row of doc/proof.md, so the page says for each when it was last
//! run.

use std::fs;
use std::process::{Command, ExitCode};
use std::time::Instant;

use crate::count::Count;
use crate::crash::finish;
use crate::install::{self, CC, MUSL, SPIN, TCC};
use crate::paths::{self, root};
use crate::stage::{self, Counts};

/// A stage: its name in the page, the verb with its arguments, and how its result is known.
struct Stage {
    name: &'static str,
    verb: &'static [&'static str],
    counts: Counts,
    /// Runs by its name alone: it takes long, and nothing else may run beside it; or it needs much
    /// that is downloaded.
    alone: bool,
}

const STAGES: [Stage; 14] = [
    Stage { name: "models", verb: &["models"], counts: Counts::ByLines, alone: false },
    Stage { name: "loom", verb: &["loom", "--all"], counts: Counts::ByLines, alone: false },
    Stage { name: "conformance", verb: &["conformance"], counts: Counts::ByLines, alone: false },
    Stage { name: "python", verb: &["python", "--maturin"], counts: Counts::ByLines, alone: false },
    Stage { name: "crash", verb: &["crash"], counts: Counts::ByLines, alone: false },
    Stage { name: "stops", verb: &["crash", "--stop"], counts: Counts::ByLines, alone: false },
    Stage { name: "faults", verb: &["faults"], counts: Counts::ByLines, alone: false },
    Stage { name: "soak", verb: &["soak", "--minutes", "2"], counts: Counts::ByExit, alone: false },
    Stage {
        name: "crowd",
        verb: &["soak", "--topics", "--minutes", "2"],
        counts: Counts::ByExit,
        alone: false,
    },
    Stage { name: "race", verb: &["race", "--minutes", "1"], counts: Counts::ByExit, alone: false },
    Stage {
        name: "fuzz",
        verb: &["fuzz", "--seconds", "120"],
        counts: Counts::ByLines,
        alone: false,
    },
    Stage { name: "crates", verb: &["crates", "--dry-run"], counts: Counts::ByLines, alone: false },
    Stage { name: "loaded", verb: &["loaded"], counts: Counts::ByLines, alone: true },
    Stage { name: "vm", verb: &["vm"], counts: Counts::ByLines, alone: true },
];

pub(crate) fn run(args: &[String]) -> ExitCode {
    let chosen: Vec<&Stage> = STAGES
        .iter()
        .filter(|stage| args.is_empty() && !stage.alone || args.iter().any(|arg| arg == stage.name))
        .collect();
    if !args.iter().all(|arg| STAGES.iter().any(|stage| stage.name == arg)) {
        let names: Vec<&str> = STAGES.iter().map(|stage| stage.name).collect();
        eprintln!("usage: cargo xtask proof [STAGE]...\nstages: {}", names.join(", "));
        return ExitCode::from(2);
    }
    install::install(&[&SPIN, &CC, &TCC, &MUSL], true);
    let mut total = Count::default();
    for stage in chosen {
        let begun = Instant::now();
        let mut command = Command::new(std::env::current_exe().unwrap_or_else(|_| "xtask".into()));
        command.args(stage.verb).current_dir(root());
        let count = stage::run_long(stage.name, command, stage.counts);
        total.add(count);
        if let Err(error) = record(stage, count, &stage::minutes(begun.elapsed())) {
            println!("doc/proof.md: {error}");
            total.add(Count::FAILED);
        }
    }
    println!("\n{total}");
    finish(total)
}

/// Writes the outcome into the stage's row, and leaves the others as they are.
fn record(stage: &Stage, count: Count, took: &str) -> std::io::Result<()> {
    let page = paths::at(paths::PROOF);
    let text = fs::read_to_string(&page)?;
    let row = format!(
        "| {} | `cargo xtask {}` | {} | {} | {count} | {took} |",
        stage.name,
        stage.verb.join(" "),
        today(),
        commit()
    );
    fs::write(page, with_row(&text, stage.name, &row))
}

/// Returns the commit that is checked out, and whether the files differ from it.
pub(crate) fn commit() -> String {
    let git = |args: &[&str]| said(Command::new("git").args(args).current_dir(root()));
    let changed = git(&[
        "status",
        "--porcelain",
        "--untracked-files=no",
        "--",
        ".",
        &format!(":!{}", paths::PROOF),
        &format!(":!{}", paths::PLATFORMS),
        &format!(":!{}", paths::MODELS_SEEN),
    ]);
    format!(
        "{}{}",
        git(&["rev-parse", "--short", "HEAD"]),
        if changed.is_empty() { "" } else { " with changes" }
    )
}

/// Returns the day, as in 2026-11-27.
pub(crate) fn today() -> String {
    said(Command::new("date").arg("-I"))
}

/// Returns what a program says on its one line, or nothing.
fn said(command: &mut Command) -> String {
    command.output().map_or_else(
        |_| String::new(),
        |done| String::from_utf8_lossy(&done.stdout).trim().to_owned(),
    )
}

/// Returns the page with this row in the place of the stage's last one; a stage that has none gets
/// it behind the table's last row.
pub(crate) fn with_row(page: &str, name: &str, row: &str) -> String {
    let mut lines: Vec<&str> = page.lines().collect();
    let begins = format!("| {name} |");
    if let Some(line) = lines.iter_mut().find(|line| line.starts_with(&begins)) {
        *line = row;
    } else {
        let behind = lines
            .iter()
            .rposition(|line| line.starts_with('|'))
            .map_or(lines.len(), |last| last + 1);
        lines.insert(behind, row);
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_replaces_its_predecessor_or_ends_the_table() {
        let page = "# Proof\n\n| stage | |\n| --- | --- |\n| a | old |\n\nbehind\n";
        let replaced = with_row(page, "a", "| a | new |");
        assert_eq!(replaced, page.replace("old", "new"));
        let added = with_row(page, "b", "| b | first |");
        assert_eq!(added, page.replace("old |\n", "old |\n| b | first |\n"));
    }

    #[test]
    fn the_page_has_a_row_for_each_stage() {
        let page = fs::read_to_string(paths::at(paths::PROOF)).expect("readable");
        for stage in &STAGES {
            assert!(
                page.lines().any(|line| line.starts_with(&format!("| {} |", stage.name))),
                "{}",
                stage.name
            );
        }
    }
}
