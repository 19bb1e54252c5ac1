//! Plays the scenarios of `scenarios/` with drivers of several languages: each scenario in one
//! language, and in every pair, both ways round. `cargo xtask conformance` builds the drivers and
//! starts this; doc/conformance.md says more.

mod play;
mod process;
mod report;
mod scenario;
mod words;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use play::{Outcome, Said, play};
use process::Program;
use scenario::{Act, Scenario};
use words::{Language, Words};

const USAGE: &str = "usage: conformance [--one-pair] [--rust|--c|--cpp|--python|--go|--java 'PROGRAM ARGS']... [NAME]
Plays all scenarios, or those whose name contains NAME, in each of these languages and in every pair of them;
with --one-pair each scenario in one pair only, the next one in the next.";

/// What the arguments ask for.
struct Asked {
    programs: Vec<Program>,
    only: Option<String>,
    one_pair: bool,
}

/// A run: a scenario, and the languages of roles a and c, and of b.
pub(crate) struct Run {
    pub(crate) scenario: usize,
    pub(crate) first: Language,
    pub(crate) second: Language,
    pub(crate) outcome: Outcome,
    pub(crate) said: Vec<Said>,
}

fn main() -> ExitCode {
    match run() {
        Ok(all_well) if all_well => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(why) => {
            println!("conformance: {why}\n0 passed, 1 failed");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<bool, String> {
    let Asked { programs, only, one_pair } = arguments()?;
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: PathBuf| {
        fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let words = Words::parse(&read(here.join("errors.txt"))?)?;
    let mut scenarios = Vec::new();
    // First what waits in vain until a deadline, so that others are played meanwhile.
    for file in [
        "seeded",
        "locks",
        "realtime",
        "records",
        "queues",
        "jobs",
        "topics",
        "states",
        "notifiers",
        "services",
        "waits",
        "pools",
        "openings",
        "arguments",
        "nodes",
        "config",
    ] {
        let name = format!("{file}.txt");
        scenarios.extend(scenario::parse(&name, &read(here.join("scenarios").join(&name))?)?);
    }
    check_words(&scenarios, &words)?;
    scenarios.retain(|scenario| only.as_ref().is_none_or(|only| scenario.name.contains(only)));
    if scenarios.is_empty() {
        return Err("no scenario has that name".to_owned());
    }
    let base = Base::new().map_err(|error| error.to_string())?;
    let runs = play_all(&scenarios, &plan(&scenarios, &programs, one_pair), &words, &base.0);
    let languages: Vec<Language> = programs.iter().map(|program| program.language).collect();
    Ok(report::print(&scenarios, &languages, &runs))
}

fn arguments() -> Result<Asked, String> {
    let mut programs = Vec::new();
    let mut only = None;
    let mut one_pair = false;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let language = match arg.as_str() {
            "--rust" => Language::Rust,
            "--c" => Language::C,
            "--cpp" => Language::Cpp,
            "--python" => Language::Python,
            "--go" => Language::Go,
            "--java" => Language::Java,
            "--one-pair" => {
                one_pair = true;
                continue;
            }
            name if !name.starts_with('-') && only.is_none() => {
                only = Some(name.to_owned());
                continue;
            }
            _ => return Err(USAGE.to_owned()),
        };
        let words = args.next().ok_or(USAGE)?.split_ascii_whitespace().map(str::to_owned).collect();
        programs.push(Program { language, words });
    }
    if programs.is_empty() { Err(USAGE.to_owned()) } else { Ok(Asked { programs, only, one_pair }) }
}

/// A misspelt kind of error is no reason to fail in all runs.
fn check_words(scenarios: &[Scenario], words: &Words) -> Result<(), String> {
    for step in scenarios.iter().flat_map(|scenario| &scenario.steps) {
        if let Act::Do(_, expected) | Act::Answers(expected) = &step.act
            && let Some(word) = words.lacks(expected)
        {
            return Err(format!("errors.txt lacks '{word}': {}", step.text));
        }
    }
    Ok(())
}

/// The folder of all runs' domains.
struct Base(PathBuf);

impl Base {
    fn new() -> io::Result<Base> {
        let base = PathBuf::from(format!("/dev/shm/outlive-conformance-{}", std::process::id()));
        fs::create_dir(&base)?;
        Ok(Base(base))
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        // No process uses it any more.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A scenario, the program of roles a and c, and that of b.
type Planned<'a> = (usize, &'a Program, &'a Program);

/// Returns which runs there are: each scenario in each language alone, and in all pairs of two or
/// in one.
fn plan<'a>(scenarios: &[Scenario], programs: &'a [Program], one_pair: bool) -> Vec<Planned<'a>> {
    let mut plan = Vec::new();
    // How many scenarios before this one could be played by two languages.
    let mut paired = 0;
    for (at, scenario) in scenarios.iter().enumerate() {
        // With one role, or where a fault is seeded, pairs would say nothing new.
        let alone = scenario.roles == 1 || scenario.fails_at.is_some();
        let pairs: Vec<(&Program, &Program)> = programs
            .iter()
            .flat_map(|first| programs.iter().map(move |second| (first, second)))
            .filter(|(first, second)| first.language != second.language)
            .collect();
        plan.extend(programs.iter().map(|program| (at, program, program)));
        if !alone && !pairs.is_empty() {
            let chosen = if one_pair { &pairs[paired % pairs.len()..][..1] } else { &pairs[..] };
            plan.extend(chosen.iter().map(|(first, second)| (at, *first, *second)));
            paired += 1;
        }
    }
    plan
}

/// Plays all runs, several at a time; they wait far more than they work.
fn play_all(scenarios: &[Scenario], plan: &[Planned<'_>], words: &Words, base: &Path) -> Vec<Run> {
    let next = AtomicUsize::new(0);
    let runs = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(2, usize::from) * 3;
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some((at, first, second)) = plan.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let folder = base.join(format!(
                        "{}-{}{}",
                        scenarios[*at].name,
                        first.language.letter(),
                        second.language.letter()
                    ));
                    let (outcome, said) =
                        play(&scenarios[*at], &[first, second, first], words, &folder);
                    let run = Run {
                        scenario: *at,
                        first: first.language,
                        second: second.language,
                        outcome,
                        said,
                    };
                    runs.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(run);
                }
            });
        }
    });
    let mut runs = runs.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    runs.sort_by_key(|run| (run.scenario, run.first, run.second));
    runs
}
