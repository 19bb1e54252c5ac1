//! `cargo xtask models`: the Promela models of doc/models, and their mutations, each with the error that it must show.
//!
//! Which runs there are stands in `doc/models/runs.txt`. A run has a folder of its own in `target/models`, and leaves its verdict there. A run that came out
//! as it must is not repeated by `--full` as long as its model, its switches and its bounds are the same: a full set takes hours, and goes on where it was cut short.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::count::Count;
use crate::crash::finish;
use crate::install::is_there;
use crate::root;

const USAGE: &str = "usage: cargo xtask models [--sound | --full] [--jobs N] [--again] [NAME]
  --sound   only the quick runs that must find no error: part of `cargo xtask test`
  (neither) these, and the quick mutations: part of `cargo xtask proof`
  --full    all runs, for hours; those that have come out as they must are not repeated
  --jobs N  so many at a time; as many as there are processors, and as the memory bears, unless it is said
  --again   repeats what has been seen";

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

/// What a run may take.
#[derive(Clone, Copy, Hash)]
struct Bounds {
    megabytes: u32,
    seconds: u32,
}

impl Run {
    fn bounds(&self) -> Bounds {
        if self.quick {
            Bounds { megabytes: MEMORY.0, seconds: SECONDS.0 }
        } else {
            Bounds { megabytes: MEMORY.1, seconds: SECONDS.1 }
        }
    }

    /// Differs as soon as anything that the verdict depends on does.
    fn fingerprint(&self, models: &Path) -> Option<String> {
        let mut hasher = DefaultHasher::new();
        fs::read(models.join(&self.model)).ok()?.hash(&mut hasher);
        (&self.switches, self.passes, self.bounds()).hash(&mut hasher);
        Some(format!("{:016x}", hasher.finish()))
    }
}

/// What came of a run.
enum Verdict {
    /// Every state was visited; how many.
    Complete(u64),
    /// An error was found.
    Error,
    /// It did not come to an end, or could not begin.
    Unfinished(String),
}

/// A run that came out as it must.
#[derive(Clone, Copy, Default)]
struct Seen {
    states: u64,
    took: Duration,
}

/// What the arguments ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Asked {
    sound: bool,
    full: bool,
    again: bool,
    jobs: Option<usize>,
    part: Option<String>,
}

fn asked(args: &[String]) -> Option<Asked> {
    let mut asked = Asked::default();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--sound" => asked.sound = true,
            "--full" => asked.full = true,
            "--again" => asked.again = true,
            "--jobs" => asked.jobs = Some(args.next()?.parse().ok().filter(|jobs| *jobs > 0)?),
            name if !name.starts_with('-') && asked.part.is_none() => asked.part = Some(name.to_owned()),
            _ => return None,
        }
    }
    (!(asked.sound && asked.full)).then_some(asked)
}

pub(crate) fn run(args: &[String]) -> ExitCode {
    let Some(asked) = asked(args) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let folder = root().join("doc/models");
    let runs = match fs::read_to_string(folder.join("runs.txt")).map_err(|e| e.to_string()).and_then(|t| parse(&t)) {
        Ok(runs) => runs,
        Err(error) => {
            println!("doc/models/runs.txt: {error}");
            return finish(Count::FAILED);
        }
    };
    let named = |run: &Run| asked.part.as_ref().is_none_or(|part| run.name.contains(part.as_str()));
    let in_set = |run: &Run| asked.full || asked.part.is_some() || run.quick;
    let mut waiting: Vec<Run> =
        runs.into_iter().filter(|run| named(run) && in_set(run) && (run.passes || !asked.sound)).collect();
    waiting.reverse();
    let begun = Instant::now();
    let queue = Queue { waiting: Mutex::new((waiting, 0)), memory: memory_at_hand() };
    let total = Mutex::new((Count::default(), Seen::default(), 0));
    let jobs = asked.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(2, usize::from));
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(run) = queue.next() {
                    let (count, seen, repeated) = judge(&run, &folder, asked.full && !asked.again);
                    queue.done(&run);
                    if let Ok(mut total) = total.lock() {
                        total.0.add(count);
                        total.1.states += seen.states;
                        total.1.took += seen.took;
                        total.2 += u64::from(!repeated);
                    }
                }
            });
        }
    });
    let (count, seen, earlier) = total.into_inner().unwrap_or((Count::FAILED, Seen::default(), 0));
    let hours = |span: Duration| span.as_secs_f64() / 3600.0;
    println!(
        "{} states in {:.2} h of runs, {earlier} of them of earlier calls; this call took {:.2} h",
        seen.states,
        hours(seen.took),
        hours(begun.elapsed())
    );
    println!("{count}");
    if count.passed == 0 { ExitCode::FAILURE } else { finish(count) }
}

/// The runs that have not begun, and the megabytes that those under way may take.
struct Queue {
    waiting: Mutex<(Vec<Run>, u32)>,
    memory: u32,
}

impl Queue {
    /// The next run, as soon as there is memory for it beside the others. Alone, a run always begins.
    fn next(&self) -> Option<Run> {
        loop {
            if let Ok(mut state) = self.waiting.lock() {
                let (waiting, used) = &mut *state;
                let megabytes = waiting.last()?.bounds().megabytes;
                if *used == 0 || *used + megabytes <= self.memory {
                    *used += megabytes;
                    return waiting.pop();
                }
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn done(&self, run: &Run) {
        if let Ok(mut state) = self.waiting.lock() {
            state.1 -= run.bounds().megabytes;
        }
    }
}

/// Megabytes that programs can have without taking them from others.
fn memory_at_hand() -> u32 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kilobytes = line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse::<u64>().ok());
    u32::try_from(kilobytes.unwrap_or(0) / 1024).unwrap_or(u32::MAX)
}

/// Runs it and says whether it came out as it must, what it visited, and whether it was run now.
fn judge(run: &Run, models: &Path, may_recall: bool) -> (Count, Seen, bool) {
    let record = folder_of(run).join("seen");
    let fingerprint = run.fingerprint(models);
    if may_recall && let Some(seen) = recall(&record, fingerprint.as_deref()) {
        println!("ok   {:22} seen before, {} states", run.name, seen.states);
        return (Count::PASSED, seen, false);
    }
    // A verdict of before says nothing about the run that begins here.
    let _ = fs::remove_file(&record);
    let begun = Instant::now();
    let verdict = check(run, models);
    let mut seen = Seen { states: 0, took: begun.elapsed() };
    let (right, text) = match verdict {
        Verdict::Complete(states) => {
            seen.states = states;
            (run.passes, format!("{states} states, no error"))
        }
        Verdict::Error => (!run.passes, "an error".to_owned()),
        Verdict::Unfinished(why) => (false, format!("unfinished: {why}")),
    };
    let wanted = if run.passes { "" } else { ", as it must: a mutation" };
    let mark = if right { "ok  " } else { "FAIL" };
    let seconds = seen.took.as_secs_f64();
    println!("{mark} {:22} {text}{} ({seconds:.1} s)", run.name, if right { wanted } else { "" });
    if right && let Some(fingerprint) = fingerprint {
        // It only spares time: without it the run is repeated.
        let _ = fs::write(&record, format!("{fingerprint} {} {}\n", seen.states, seen.took.as_millis()));
    }
    (if right { Count::PASSED } else { Count::FAILED }, seen, true)
}

/// What is recorded of the very same run.
fn recall(record: &Path, fingerprint: Option<&str>) -> Option<Seen> {
    let text = fs::read_to_string(record).ok()?;
    let mut fields = text.split_ascii_whitespace();
    (fields.next() == fingerprint).then_some(())?;
    let states = fields.next()?.parse().ok()?;
    let took = Duration::from_millis(fields.next()?.parse().ok()?);
    Some(Seen { states, took })
}

fn folder_of(run: &Run) -> PathBuf {
    root().join("target/models").join(&run.name)
}

fn check(run: &Run, models: &Path) -> Verdict {
    let Bounds { megabytes, seconds } = run.bounds();
    let folder = folder_of(run);
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
    compile.arg(format!("-DMEMLIM={megabytes}"));
    if output(compile, &folder).is_none() {
        return unfinished("the compiler refuses what spin made");
    }
    let mut pan = Command::new("sh");
    pan.args(["-c", "ulimit -t \"$1\" && exec ./pan -m200000 -w24", "pan", &seconds.to_string()]);
    let text = output(pan, &folder).unwrap_or_default();
    let states = text.lines().find(|line| line.contains("states, stored"));
    let states = states.and_then(|line| line.split_ascii_whitespace().next()?.parse::<f64>().ok());
    if text.lines().any(|line| line.contains("errors: ") && !line.ends_with("errors: 0")) {
        Verdict::Error
    } else if !text.contains("errors: 0") || text.contains("Search not completed") || text.contains("max search depth")
    {
        unfinished("time, memory or depth ran out")
    } else {
        // From 10 million on spin prints 1.2345e+07.
        Verdict::Complete(states.unwrap_or(0.0) as u64)
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

    fn in_the_tree() -> (PathBuf, Vec<Run>) {
        let folder = root().join("doc/models");
        let text = fs::read_to_string(folder.join("runs.txt")).expect("readable");
        (folder, parse(&text).expect("well-formed"))
    }

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
        let (folder, mut runs) = in_the_tree();
        assert!(runs.iter().all(|run| folder.join(&run.model).is_file()));
        let all = runs.len();
        runs.sort_by(|a, b| a.name.cmp(&b.name));
        runs.dedup_by(|a, b| a.name == b.name);
        assert_eq!(runs.len(), all);
    }

    #[test]
    fn each_model_has_a_quick_run_that_finds_no_error() {
        let (folder, runs) = in_the_tree();
        for entry in fs::read_dir(folder).expect("readable") {
            let name = entry.expect("readable").file_name().into_string().expect("plain names");
            let is_run = runs.iter().any(|run| run.model == name && run.quick && run.passes);
            assert!(!name.ends_with(".pml") || is_run, "{name}: the test command would not run it");
        }
    }

    #[test]
    fn a_verdict_is_recalled_for_the_very_same_run_alone() {
        let folder = std::env::temp_dir().join(format!("outlive-models-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let record = folder.join("seen");
        fs::write(&record, "abc 12 3400\n").expect("written");
        let seen = recall(&record, Some("abc")).expect("the same");
        assert_eq!((seen.states, seen.took), (12, Duration::from_millis(3400)));
        assert!(recall(&record, Some("abd")).is_none() && recall(&folder.join("none"), Some("abc")).is_none());
        fs::write(&record, "abc 12\n").expect("written");
        assert!(recall(&record, Some("abc")).is_none(), "cut short");
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn arguments_are_read_and_nonsense_is_refused() {
        let of = |line: &str| asked(&line.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>());
        let full = of("--full --jobs 3 rpc").expect("fits");
        assert_eq!((full.full, full.jobs, full.part.as_deref()), (true, Some(3), Some("rpc")));
        for nonsense in ["--jobs", "--jobs 0", "--jobs x", "--sound --full", "--loud", "a b"] {
            assert_eq!(of(nonsense), None, "{nonsense}");
        }
    }
}
