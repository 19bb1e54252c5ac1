//! What came of it: a table of scenarios and languages, each failure with its step, gaps, and the
//! count.

use std::collections::{BTreeMap, BTreeSet};

use crate::Run;
use crate::play::{Failure, Outcome};
use crate::scenario::{Act, Scenario, Step};
use crate::words::Language;

/// Returns whether all is well.
pub(crate) fn print(scenarios: &[Scenario], languages: &[Language], runs: &[Run]) -> bool {
    table(scenarios, languages, runs);
    let mut count = [0; 3];
    for run in runs {
        match &run.outcome {
            Outcome::Passed => count[0] += 1,
            Outcome::Failed(failure) => {
                count[1] += 1;
                print_failure(&scenarios[run.scenario], run, failure);
            }
            Outcome::Gap { .. } => count[2] += 1,
        }
    }
    gaps(scenarios, runs);
    let disagreements = messages(scenarios, runs);
    count[1] += disagreements;
    let [passed, failed, skipped] = count;
    let skipped = if skipped > 0 { format!(", {skipped} skipped") } else { String::new() };
    println!("{passed} passed, {failed} failed{skipped}");
    failed == 0 && passed > 0
}

/// A line for each scenario, a letter for each pair.
fn table(scenarios: &[Scenario], languages: &[Language], runs: &[Run]) {
    let names: Vec<String> = languages
        .iter()
        .map(|language| format!("{} {}", language.letter(), language.name()))
        .collect();
    println!(
        "roles a and c above, b below: {}. '.' passed, 'F' failed, '-' a language has no such call",
        names.join(", ")
    );
    let pairs: Vec<(Language, Language)> = languages
        .iter()
        .flat_map(|first| languages.iter().map(|second| (*first, *second)))
        .collect();
    let head = |of: fn(&(Language, Language)) -> Language| {
        pairs.iter().map(|pair| of(pair).letter()).collect::<String>()
    };
    let width = scenarios.iter().map(|scenario| scenario.name.len()).max().unwrap_or(0);
    println!("{:width$} {}\n{:width$} {}", "", head(|pair| pair.0), "", head(|pair| pair.1));
    for (at, scenario) in scenarios.iter().enumerate() {
        let mark = |pair: &(Language, Language)| {
            let run = runs
                .iter()
                .find(|run| (run.scenario, run.first, run.second) == (at, pair.0, pair.1));
            match run.map(|run| &run.outcome) {
                None => ' ',
                Some(Outcome::Passed) => '.',
                Some(Outcome::Gap { .. }) => '-',
                Some(Outcome::Failed(_)) => 'F',
            }
        };
        println!(
            "{:width$} {}",
            scenario.name,
            pairs.iter().map(mark).collect::<String>().trim_end()
        );
    }
}

fn print_failure(scenario: &Scenario, run: &Run, failure: &Failure) {
    let actor = if failure.role == 1 { run.second } else { run.first };
    println!(
        "\nFAILED {} ({}): a {}, b {}",
        scenario.name,
        scenario.place,
        run.first.name(),
        run.second.name()
    );
    match failure.step.map(|at| &scenario.steps[at]) {
        Some(step) => println!("  line {}, {}: {}", step.line, actor.name(), step.text),
        None => println!("  at its start or end, {}", actor.name()),
    }
    println!("  expected: {}\n  got:      {}", failure.expected, failure.got);
    for line in failure.stderr.lines() {
        println!("  stderr:   {line}");
    }
}

/// What a language's package does not have.
fn gaps(scenarios: &[Scenario], runs: &[Run]) {
    let mut gaps: BTreeMap<Language, BTreeMap<&str, BTreeSet<&str>>> = BTreeMap::new();
    for run in runs {
        if let Outcome::Gap { language, command } = &run.outcome {
            let command = command.split(' ').find(|word| word.contains('.')).unwrap_or(command);
            gaps.entry(*language)
                .or_default()
                .entry(command)
                .or_default()
                .insert(&scenarios[run.scenario].name);
        }
    }
    for (language, commands) in gaps {
        for (command, names) in commands {
            let names: Vec<&str> = names.into_iter().collect();
            println!("gap: {} has no {command}: {}", language.name(), names.join(", "));
        }
    }
}

/// Everyday's answers, for which C++ gives the code's own words, and Python often no error at all;
/// what a language's own checks say of arguments; and of two structs Rust knows the names, too.
const OWN_WORDS: [&str; 11] = [
    "would-block",
    "in-use",
    "empty",
    "full",
    "timed-out",
    "send-timed-out",
    "call-timed-out",
    "wrong-type",
    "wrong-number",
    "not-held",
    "other-places",
];

/// Returns whether what a step's error says is to be the same in all languages.
fn is_compared(step: &Step) -> bool {
    let (Act::Do(_, expected) | Act::Answers(expected)) = &step.act else { return false };
    !expected.iter().flatten().any(|word| OWN_WORDS.iter().any(|own| word.starts_with(own)))
}

/// Returns where languages' messages for the same step differ; how many there are.
fn messages(scenarios: &[Scenario], runs: &[Run]) -> usize {
    let mut by_step: BTreeMap<(usize, usize), BTreeMap<Language, BTreeSet<String>>> =
        BTreeMap::new();
    for run in runs {
        let scenario = &scenarios[run.scenario];
        for said in &run.said {
            let step = scenario.steps.iter().find(|step| step.line == said.line);
            if scenario.fails_at.is_none() && step.is_some_and(is_compared) {
                let texts = by_step
                    .entry((run.scenario, said.line))
                    .or_default()
                    .entry(said.language)
                    .or_default();
                texts.insert(without_numbers(&said.message));
            }
        }
    }
    by_step.retain(|_, texts| texts.values().flatten().collect::<BTreeSet<_>>().len() > 1);
    for ((scenario, line), texts) in &by_step {
        println!("\nMESSAGES DIFFER {}, line {line}", scenarios[*scenario].name);
        for (language, texts) in texts {
            println!(
                "  {:6} {}",
                language.name(),
                texts.iter().map(String::as_str).collect::<Vec<_>>().join(" / ")
            );
        }
    }
    by_step.len()
}

/// Pids and their programs, folders and tokens differ from run to run, and text in quotes is the
/// languages' own: names of types.
fn without_numbers(message: &str) -> String {
    let mut plain = String::new();
    let mut rest = message;
    // A quote behind a blank or at the start begins one; any other is an apostrophe.
    while let Some((before, quoted)) = rest.split_once('\'') {
        plain.push_str(before);
        let begins = before.is_empty() || before.ends_with(' ');
        match quoted.split_once('\'') {
            Some((_, behind)) if begins => {
                plain.push_str("QUOTED");
                rest = behind;
            }
            _ => {
                plain.push('\'');
                rest = quoted;
            }
        }
    }
    plain.push_str(rest);
    let mut words = Vec::<String>::new();
    for word in plain.split(' ') {
        let is_program =
            word.starts_with('(') && words.ends_with(&["process".to_owned(), "#".to_owned()]);
        words.push(if word.contains('/') {
            "PATH".to_owned()
        } else if is_program {
            format!("(PROGRAM){}", word.rsplit_once(')').map_or("", |(_, behind)| behind))
        } else {
            let mut text: String =
                word.chars().map(|c| if c.is_ascii_digit() { '#' } else { c }).collect();
            while text.contains("##") {
                text = text.replace("##", "#");
            }
            text
        });
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::without_numbers;

    #[test]
    fn messages_are_compared_by_what_they_say() {
        assert_eq!(
            without_numbers("/a/b holds 'u8' (12 bytes), wants '[u8; 4]'"),
            "PATH holds QUOTED (# bytes), wants QUOTED"
        );
        assert_eq!(without_numbers("process 7 (python) has most"), "process # (PROGRAM) has most");
        assert_eq!(
            without_numbers("the queue's receiver, pid 7, died"),
            "the queue's receiver, pid #, died"
        );
        assert_ne!(without_numbers("it died"), without_numbers("it lives"));
    }
}
