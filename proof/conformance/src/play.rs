//! One run: a scenario, and a language for each role.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;

use crate::process::{Process, Program};
use crate::scenario::{Act, Expected, Scenario, Step};
use crate::words::{Language, Words};

/// How long an answer may take: a hang must fail. Longer than any wait that a scenario asks for.
const PATIENCE: Duration = Duration::from_secs(60);
/// In scenarios that must fail: long enough for what does not hang, on a busy machine as well.
const SEEDED_PATIENCE: Duration = Duration::from_secs(3);

/// What came of a run.
#[derive(Debug)]
pub(crate) enum Outcome {
    Passed,
    /// A driver's language has no such call.
    Gap {
        language: Language,
        command: String,
    },
    Failed(Failure),
}

#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) step: Option<usize>,
    pub(crate) role: usize,
    pub(crate) expected: String,
    pub(crate) got: String,
    pub(crate) stderr: String,
}

/// A domain's folder of its own, gone with the run.
struct Folder(PathBuf);

impl Folder {
    fn new(at: &Path) -> io::Result<Folder> {
        fs::create_dir(at)?;
        Ok(Folder(at.to_owned()))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left over goes with the whole run's folder.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What a driver said of an error, for comparing the languages' texts.
pub(crate) struct Said {
    pub(crate) line: usize,
    pub(crate) language: Language,
    pub(crate) message: String,
}

pub(crate) fn play(
    scenario: &Scenario,
    cast: &[&Program],
    words: &Words,
    folder: &Path,
) -> (Outcome, Vec<Said>) {
    let mut said = Vec::new();
    let outcome = match Folder::new(folder) {
        Ok(folder) => perform(scenario, cast, words, &folder.0, &mut said),
        Err(error) => Outcome::Failed(Failure::of_run(&format!("{}: {error}", folder.display()))),
    };
    (judged(scenario, outcome), said)
}

/// A scenario that must fail has passed when it failed where it should.
fn judged(scenario: &Scenario, outcome: Outcome) -> Outcome {
    match (scenario.fails_at, outcome) {
        (None, outcome) => outcome,
        (Some(at), Outcome::Failed(failure)) if failure.step == Some(at) => Outcome::Passed,
        (Some(_), Outcome::Failed(failure)) => Outcome::Failed(failure),
        // What a language lacks, it cannot get wrong.
        (Some(_), gap @ Outcome::Gap { .. }) => gap,
        (Some(at), other) => {
            let mut failure = Failure::of_run(&format!("{other:?}: the fault was not seen"));
            failure.step = Some(at);
            failure.expected = "a failure".to_owned();
            Outcome::Failed(failure)
        }
    }
}

impl Failure {
    fn of_run(got: &str) -> Failure {
        Failure {
            step: None,
            role: 0,
            expected: String::new(),
            got: got.to_owned(),
            stderr: String::new(),
        }
    }
}

struct Stage<'a> {
    words: &'a Words,
    processes: Vec<Option<Process>>,
    languages: Vec<Language>,
    /// The values of `$x`.
    names: HashMap<String, String>,
    patience: Duration,
}

/// How a step went wrong: expected and got; or a gap.
enum Wrong {
    Differs(String, String),
    Gap(String),
}

fn perform(
    scenario: &Scenario,
    cast: &[&Program],
    words: &Words,
    folder: &Path,
    said: &mut Vec<Said>,
) -> Outcome {
    let patience = if scenario.fails_at.is_some() { SEEDED_PATIENCE } else { PATIENCE };
    let mut stage = Stage {
        words,
        processes: Vec::new(),
        languages: Vec::new(),
        names: HashMap::new(),
        patience,
    };
    // All at once: they start beside one another.
    let domain = folder.join("domain");
    for (role, program) in (0..scenario.roles).zip(cast) {
        match Process::start(program, &domain, folder.join(format!("stderr-{role}"))) {
            Ok(process) => stage.processes.push(Some(process)),
            Err(error) => return Outcome::Failed(Failure::of_run(&error.to_string())),
        }
        stage.languages.push(program.language);
    }
    for role in 0..scenario.roles {
        let Some(Some(process)) = stage.processes.get_mut(role) else { continue };
        let pid = process.pid().to_string();
        match process.answer(PATIENCE) {
            Ok(line) if process.is_ready(&line) => {}
            Ok(other) | Err(other) => {
                return Outcome::Failed(stage.failure(None, role, "ready", &other));
            }
        }
        stage.names.insert(format!("{}.pid", ['a', 'b', 'c'][role]), pid);
    }
    for (at, step) in scenario.steps.iter().enumerate() {
        match stage.step(step, said) {
            Ok(()) => {}
            Err(Wrong::Gap(command)) => {
                return Outcome::Gap { language: stage.languages[step.role], command };
            }
            Err(Wrong::Differs(expected, got)) => {
                return Outcome::Failed(stage.failure(Some(at), step.role, &expected, &got));
            }
        }
    }
    // The processes that are left leave in order.
    for process in stage.processes.iter_mut().flatten() {
        process.close();
    }
    for role in 0..scenario.roles {
        let Some(Some(process)) = stage.processes.get_mut(role) else { continue };
        match process.ended(PATIENCE) {
            Ok(status) if status.success() => {}
            Ok(status) => {
                return Outcome::Failed(stage.failure(
                    None,
                    role,
                    "a good end",
                    &status.to_string(),
                ));
            }
            Err(why) => return Outcome::Failed(stage.failure(None, role, "an end", &why)),
        }
    }
    Outcome::Passed
}

impl Stage<'_> {
    fn failure(&mut self, step: Option<usize>, role: usize, expected: &str, got: &str) -> Failure {
        let process = self.processes.get(role).and_then(Option::as_ref);
        Failure {
            step,
            role,
            expected: expected.to_owned(),
            got: got.to_owned(),
            stderr: process.map(Process::said_on_stderr).unwrap_or_default(),
        }
    }

    fn step(&mut self, step: &Step, said: &mut Vec<Said>) -> Result<(), Wrong> {
        let patience = self.patience;
        let place = &mut self.processes[step.role];
        let process = place.as_mut().ok_or_else(|| differs("a living process", "it is dead"))?;
        match &step.act {
            Act::Do(command, expected) => {
                let command = with_values(command, &self.names);
                process.tell(&command).map_err(|why| differs("to take a command", &why))?;
                let answer = process.answer(patience);
                self.compare(step, &command, expected, answer, said)
            }
            Act::Begin(command) => {
                let command = with_values(command, &self.names);
                process.tell(&command).map_err(|why| differs("to take a command", &why))
            }
            Act::Answers(expected) => {
                let answer = process.answer(patience);
                self.compare(step, "", expected, answer, said)
            }
            Act::Sleeps => match process.sleeps(patience) {
                Err(why) if why.contains("'error Unsupported") => Err(Wrong::Gap(why)),
                slept => slept.map_err(|why| differs("sleeping", &why)),
            },
            Act::Killed => {
                // What it had begun is not answered any more; that it has no such call is.
                if let Ok(answer) = process.answer(Duration::ZERO)
                    && answer.starts_with("error Unsupported")
                {
                    return Err(Wrong::Gap(answer));
                }
                let killed = process.kill().map_err(|why| differs("killed", &why));
                *place = None;
                killed
            }
            Act::Exits => {
                process.tell("exit").map_err(|why| differs("to take a command", &why))?;
                let ended = process.ended(patience).map_err(|why| differs("an end", &why));
                *place = None;
                ended.map(drop)
            }
            Act::Stopped => process.stop().map_err(|why| differs("stopped", &why)),
            Act::Continued => {
                process.signal(Signal::CONT).map_err(|why| differs("continued", &why))
            }
        }
    }

    fn compare(
        &mut self,
        step: &Step,
        command: &str,
        expected: &Expected,
        answer: Result<String, String>,
        said: &mut Vec<Said>,
    ) -> Result<(), Wrong> {
        let language = self.languages[step.role];
        let answer = answer.map_err(|why| differs(&in_words(expected), &why))?;
        if let Some(what) = answer.strip_prefix("error Unsupported") {
            let said = [what.trim(), command, &step.text].into_iter().find(|said| !said.is_empty());
            return Err(Wrong::Gap(said.unwrap_or_default().to_owned()));
        }
        if let Some((_, message)) =
            answer.strip_prefix("error ").and_then(|rest| rest.split_once(' '))
            && !message.is_empty()
        {
            said.push(Said { line: step.line, language, message: message.to_owned() });
        }
        if self.words.fits(language, expected, &answer, &mut self.names) {
            Ok(())
        } else {
            Err(differs(&in_words(expected), &answer))
        }
    }
}

fn differs(expected: &str, got: &str) -> Wrong {
    Wrong::Differs(expected.to_owned(), got.to_owned())
}

fn in_words(expected: &Expected) -> String {
    expected.iter().map(|one| one.join(" ")).collect::<Vec<_>>().join(" | ")
}

/// Returns a command with `$x` replaced.
fn with_values(command: &str, names: &HashMap<String, String>) -> String {
    let value = |word: &str| word.strip_prefix('$').and_then(|name| names.get(name)).cloned();
    command
        .split(' ')
        .map(|word| value(word).unwrap_or_else(|| word.to_owned()))
        .collect::<Vec<_>>()
        .join(" ")
}
