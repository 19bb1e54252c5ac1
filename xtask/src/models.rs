//! `cargo xtask models`: the Promela models of doc/models, each mutation with the error that it must show.
//!
//! Which runs there are stands in `doc/models/runs.txt`. A run is its own folder in `target/models`; two go on at a time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use crate::count::Count;
use crate::crash::finish;
use crate::install::is_there;
use crate::root;

/// Megabytes that one run may take, and seconds of processor time (a busy machine is no fault): quick, full. A run of the
/// full set may want a machine of its own.
const MEMORY: (u32, u32) = (2600, 10_000);
const SECONDS: (u32, u32) = (600, 3600);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Run {
    name: String,
    model: String,
    quick: bool,
    passes: bool,
    switches: Vec<String>,
}

/// What came of a run.
enum Verdict {
    /// Every state was visited; how many.
    Complete(String),
    /// An error was found.
    Error,
    /// It did not come to an end, or could not begin.
    Unfinished(String),
}

pub(crate) fn run(args: &[String]) -> ExitCode {
    let full = args.iter().any(|arg| arg == "--full");
    let part = args.iter().find(|arg| !arg.starts_with("--"));
    if args.len() > usize::from(full) + usize::from(part.is_some()) {
        eprintln!("usage: cargo xtask models [--full] [NAME]");
        return ExitCode::from(2);
    }
    let folder = root().join("doc/models");
    let runs = match fs::read_to_string(folder.join("runs.txt")).map_err(|e| e.to_string()).and_then(|t| parse(&t)) {
        Ok(runs) => runs,
        Err(error) => {
            println!("doc/models/runs.txt: {error}");
            return finish(Count::FAILED);
        }
    };
    let chosen = runs.into_iter().filter(|run| full || run.quick || part.is_some());
    let mut waiting: Vec<Run> = chosen.filter(|run| part.is_none_or(|part| run.name.contains(part.as_str()))).collect();
    waiting.reverse();
    let waiting = Mutex::new(waiting);
    let total = Mutex::new(Count::default());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(run) = waiting.lock().ok().and_then(|mut waiting| waiting.pop()) {
                    let count = judge(&run, &folder, full);
                    if let Ok(mut total) = total.lock() {
                        total.add(count);
                    }
                }
            });
        }
    });
    let total = total.into_inner().unwrap_or(Count::FAILED);
    println!("{total}");
    if total.passed == 0 { ExitCode::FAILURE } else { finish(total) }
}

/// Runs it and says whether it came out as it must.
fn judge(run: &Run, models: &Path, full: bool) -> Count {
    let begun = Instant::now();
    let bounds = if full { (MEMORY.1, SECONDS.1) } else { (MEMORY.0, SECONDS.0) };
    let verdict = check(run, models, bounds);
    let (right, text) = match verdict {
        Verdict::Complete(states) => (run.passes, format!("{states} states, no error")),
        Verdict::Error => (!run.passes, "an error".to_owned()),
        Verdict::Unfinished(why) => (false, format!("unfinished: {why}")),
    };
    let wanted = if run.passes { "" } else { ", as it must: a mutation" };
    let mark = if right { "ok  " } else { "FAIL" };
    let seconds = begun.elapsed().as_secs_f64();
    println!("{mark} {:22} {text}{} ({seconds:.1} s)", run.name, if right { wanted } else { "" });
    if right { Count::PASSED } else { Count::FAILED }
}

fn check(run: &Run, models: &Path, (memory, seconds): (u32, u32)) -> Verdict {
    let folder = root().join("target/models").join(&run.name);
    let unfinished = |what: &str| Verdict::Unfinished(what.to_owned());
    if fs::create_dir_all(&folder).is_err() {
        return unfinished("no folder for it");
    }
    let model: PathBuf = models.join(&run.model);
    let mut spin = Command::new("spin");
    spin.arg("-a").args(&run.switches).arg(&model);
    if output(spin, &folder).is_none() {
        return unfinished("spin refuses the model");
    }
    // A mutation's error is found soon, and a quick run is: most of their time would be the compiler's.
    let (compiler, effort) = match (run.passes, run.quick) {
        (false, true) if is_there("tcc") => ("tcc", "-O0"),
        (false, _) => ("gcc", "-O0"),
        (true, true) => ("gcc", "-O1"),
        (true, false) => ("gcc", "-O2"),
    };
    let mut compile = Command::new(compiler);
    compile.args([effort, "-w", "-DSAFETY", "-DCOLLAPSE", "-DVECTORSZ=2048", "-o", "pan", "pan.c"]);
    compile.arg(format!("-DMEMLIM={memory}"));
    if output(compile, &folder).is_none() {
        return unfinished("the compiler refuses what spin made");
    }
    let mut pan = Command::new("sh");
    pan.args(["-c", "ulimit -t \"$1\" && exec ./pan -m200000 -w24", "pan", &seconds.to_string()]);
    let text = output(pan, &folder).unwrap_or_default();
    let states = text.lines().find(|line| line.contains("states, stored"));
    let states = states.and_then(|line| line.split_ascii_whitespace().next()).unwrap_or("no");
    if text.lines().any(|line| line.contains("errors: ") && !line.ends_with("errors: 0")) {
        Verdict::Error
    } else if !text.contains("errors: 0") || text.contains("Search not completed") || text.contains("max search depth")
    {
        unfinished("time, memory or depth ran out")
    } else {
        Verdict::Complete(states.to_owned())
    }
}

/// What a program printed, if it could be run in that folder. Only `pan`'s exit code says nothing.
fn output(mut command: Command, folder: &Path) -> Option<String> {
    let done = command.current_dir(folder).stdin(Stdio::null()).stderr(Stdio::piped()).output().ok()?;
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    (done.status.success() || text.contains("errors:")).then_some(text)
}

fn parse(text: &str) -> Result<Vec<Run>, String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let fields: Vec<&str> = line.split('|').map(str::trim).collect();
            let [name, model, set, expectation, switches] = fields[..] else { return Err(format!("'{line}'")) };
            let either = |value: &str, yes: &str, no: &str| match value {
                value if value == yes => Ok(true),
                value if value == no => Ok(false),
                other => Err(format!("'{other}' in '{line}'")),
            };
            Ok(Run {
                name: name.to_owned(),
                model: model.to_owned(),
                quick: either(set, "quick", "full")?,
                passes: either(expectation, "pass", "fail")?,
                switches: switches.split_ascii_whitespace().map(str::to_owned).collect(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_run_and_a_bad_one_is_named() {
        let runs = parse("# a comment\n\na | m.pml | quick | fail | -DX -DD=1\n").expect("well-formed");
        assert_eq!(runs.len(), 1);
        assert_eq!((runs[0].quick, runs[0].passes), (true, false));
        assert_eq!(runs[0].switches, ["-DX", "-DD=1"]);
        assert!(parse("a | m.pml | sometimes | fail | ").is_err());
        assert!(parse("a | m.pml | quick").is_err());
    }

    #[test]
    fn the_list_in_the_tree_names_models_that_are_there_and_no_run_twice() {
        let folder = root().join("doc/models");
        let text = fs::read_to_string(folder.join("runs.txt")).expect("readable");
        let mut runs = parse(&text).expect("well-formed");
        assert!(runs.iter().all(|run| folder.join(&run.model).is_file()));
        let all = runs.len();
        runs.sort_by(|a, b| a.name.cmp(&b.name));
        runs.dedup_by(|a, b| a.name == b.name);
        assert_eq!(runs.len(), all);
    }
}
