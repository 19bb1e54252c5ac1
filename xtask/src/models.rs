//! `cargo xtask models`: the Promela models of proof/models, and their mutations, each with the
//! error that it must show.
//!
//! `proof/models/runs.txt` lists the runs. A run has a folder of its own in `target/models`.
//! `--full` writes into `proof/models/seen.txt` which runs had their expected results. It does not
//! repeat such a run as long as the model, with the run's switches carried out, and the bounds are
//! the same: a full set takes hours, and goes on where it was cut short. `--seconds N` leaves the
//! runs that take longer to a later call.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::count::Count;
use crate::crash::finish;
use crate::install::{self, CC, SPIN, TCC, is_there};
use crate::paths::{self, root};

const USAGE: &str =
    "usage: cargo xtask models [--brief | --full] [--jobs N] [--seconds N] [--again] [--no-install] [NAME...]
  --brief   each model at least once: part of `cargo xtask test`
  (neither) all runs that take seconds, mutations among them: part of `cargo xtask proof`
  --full    all runs, for hours; those that have come out as they must are not repeated
  --jobs N  runs N at a time; by default as many as there are processors, and as fit into memory
  --seconds N  leaves runs that want more than N seconds of processor time to a later call: they count as skipped
  --again   repeats runs that have come out as they must
  --no-install  installs nothing: fails if spin or gcc is missing
  NAME...   of all runs those whose name contains one of these";

/// Megabytes that one run may take, and seconds of processor time (a busy machine is no fault):
/// quick, full. A run of the full set may want a machine of its own.
const MEMORY: (u32, u32) = (2600, 10_000);
const SECONDS: (u32, u32) = (600, 3600);

/// A set of runs; each holds those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Set {
    /// What the test command has time for.
    Brief,
    #[default]
    Quick,
    Full,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    name: String,
    pub(crate) model: String,
    set: Set,
    passes: bool,
    pub(crate) switches: Vec<String>,
}

/// What a run may take.
#[derive(Clone, Copy, Hash)]
struct Bounds {
    megabytes: u32,
    seconds: u32,
}

impl Run {
    fn is_large(&self) -> bool {
        self.set == Set::Full
    }

    fn bounds(&self) -> Bounds {
        if self.is_large() {
            Bounds { megabytes: MEMORY.1, seconds: SECONDS.1 }
        } else {
            Bounds { megabytes: MEMORY.0, seconds: SECONDS.0 }
        }
    }

    /// Returns the model with the run's switches carried out and without its comments, or `None`
    /// where there is no `cpp`; no model can be run there either.
    pub(crate) fn preprocessed(&self, models: &Path) -> Option<Vec<u8>> {
        let mut cpp = Command::new("cpp");
        cpp.args(["-P", "-w"]).args(&self.switches).arg(&self.model).stdin(Stdio::null());
        let made = cpp.current_dir(models).output().ok().filter(|made| made.status.success())?;
        Some(made.stdout)
    }

    /// Differs as soon as anything that the verdict depends on does: the model with the run's
    /// switches carried out, and without its comments, what it must show, and the bounds.
    fn fingerprint(&self, models: &Path) -> Option<String> {
        let made = self.preprocessed(models)?;
        let Bounds { megabytes, seconds } = self.bounds();
        let rest = format!("{} {megabytes} {seconds}", self.passes);
        Some(format!("{:016x}", fnv_1a(&[&made, rest.as_bytes()])))
    }
}

/// Returns the FNV-1a hash, the same in every version of the compiler.
fn fnv_1a(parts: &[&[u8]]) -> u64 {
    parts.iter().copied().flatten().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// What came of a run.
enum Verdict {
    /// Every state was visited; how many.
    Complete(u64),
    /// An error was found.
    Error,
    /// It was not at its end when its time was.
    OutOfTime,
    /// It could not begin, or memory or depth ran out.
    Unfinished(String),
}

/// A run that came out as it must.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Seen {
    fingerprint: String,
    states: u64,
    took: Duration,
    day: String,
}

/// From so many states on, what a better compiler saves is more than it takes.
const MANY: u64 = 2_000_000;

/// All that came out as they must, by their names: `proof/models/seen.txt`.
struct Record {
    path: PathBuf,
    seen: Mutex<BTreeMap<String, Seen>>,
}

const RECORD: &str = "# What `cargo xtask models --full` has seen to come out as it must: run | model's fingerprint | states | seconds | day.
# Written by it. A run is repeated when its model differs with the run's switches, not when a comment does.
";

impl Record {
    fn read(path: PathBuf) -> Record {
        let seen = fs::read_to_string(&path).map(|text| Record::parse(&text)).unwrap_or_default();
        Record { path, seen: Mutex::new(seen) }
    }

    /// Ignores lines that are not valid: their runs are repeated.
    fn parse(text: &str) -> BTreeMap<String, Seen> {
        text.lines()
            .filter_map(|line| {
                let fields: Vec<&str> = line.split('|').map(str::trim).collect();
                let [name, fingerprint, states, seconds, day] = fields[..] else { return None };
                let took = Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?;
                let seen = Seen {
                    fingerprint: fingerprint.to_owned(),
                    states: states.parse().ok()?,
                    took,
                    day: day.to_owned(),
                };
                Some((name.to_owned(), seen))
            })
            .collect()
    }

    fn recall(&self, run: &Run, fingerprint: &str) -> Option<Seen> {
        self.seen
            .lock()
            .ok()?
            .get(&run.name)
            .filter(|seen| seen.fingerprint == fingerprint)
            .cloned()
    }

    /// Returns how many states a run had when it was last seen, also of a model that has changed
    /// since.
    fn states(&self, run: &Run) -> u64 {
        self.seen
            .lock()
            .ok()
            .and_then(|all| all.get(&run.name).map(|seen| seen.states))
            .unwrap_or(0)
    }

    /// Notes a run, and writes it at once: a set that is cut short has lost nothing.
    fn note(&self, run: &Run, seen: &Seen) {
        let Ok(mut all) = self.seen.lock() else { return };
        all.insert(run.name.clone(), seen.clone());
        self.write(&all);
    }

    /// Forgets a run that has failed since, whichever set it was in.
    fn forget(&self, run: &Run) {
        let Ok(mut all) = self.seen.lock() else { return };
        if all.remove(&run.name).is_some() {
            self.write(&all);
        }
    }

    fn write(&self, all: &BTreeMap<String, Seen>) {
        let mut text = RECORD.to_owned();
        for (name, Seen { fingerprint, states, took, day }) in all.iter() {
            text +=
                &format!("{name} | {fingerprint} | {states} | {:.1} | {day}\n", took.as_secs_f64());
        }
        // It only spares time: without it the run is repeated.
        let _ = fs::write(&self.path, text);
    }

    /// Forgets runs that are no longer in the list.
    fn keep(&self, runs: &[Run]) {
        if let Ok(mut all) = self.seen.lock() {
            all.retain(|name, _| runs.iter().any(|run| run.name == *name));
        }
    }
}

/// What the arguments ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Asked {
    set: Set,
    again: bool,
    no_install: bool,
    jobs: Option<usize>,
    seconds: Option<u32>,
    /// Parts of names; none: the whole set.
    parts: Vec<String>,
}

impl Asked {
    /// Returns whether runs that come out as they must are noted in the record.
    fn notes(&self) -> bool {
        self.set == Set::Full
    }

    /// Returns whether runs that the record has are not repeated.
    fn recalls(&self) -> bool {
        self.notes() && !self.again
    }
}

fn asked(args: &[String]) -> Option<Asked> {
    let mut asked = Asked::default();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--brief" if asked.set == Set::Quick => asked.set = Set::Brief,
            "--full" if asked.set == Set::Quick => asked.set = Set::Full,
            "--again" => asked.again = true,
            "--no-install" => asked.no_install = true,
            "--jobs" => asked.jobs = Some(args.next()?.parse().ok().filter(|jobs| *jobs > 0)?),
            "--seconds" => {
                asked.seconds = Some(args.next()?.parse().ok().filter(|seconds| *seconds > 0)?)
            }
            part if !part.starts_with('-') => asked.parts.push(part.to_owned()),
            _ => return None,
        }
    }
    Some(asked)
}

pub(crate) fn run(args: &[String]) -> ExitCode {
    let Some(asked) = asked(args) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    // Without tcc, gcc compiles all models.
    install::install(&[&SPIN, &CC, &TCC], !asked.no_install);
    if let Some(why) = install::lacking(&[&SPIN, &CC]) {
        println!("models: {why}");
        return finish(Count::FAILED);
    }
    let folder = paths::at(paths::MODELS);
    let runs = match fs::read_to_string(folder.join("runs.txt"))
        .map_err(|e| e.to_string())
        .and_then(|t| parse(&t))
    {
        Ok(runs) => runs,
        Err(error) => {
            println!("proof/models/runs.txt: {error}");
            return finish(Count::FAILED);
        }
    };
    let wanted = |run: &Run| match &asked.parts[..] {
        [] => run.set <= asked.set,
        parts => parts.iter().any(|part| run.name.contains(part.as_str())),
    };
    let record = Record::read(paths::at(paths::MODELS_SEEN));
    record.keep(&runs);
    let mut waiting: Vec<Run> = runs.into_iter().filter(wanted).collect();
    if asked.set == Set::Full {
        // A full set is cut short as a rule: first what is soon done, and counts as seen from then
        // on.
        waiting.sort_by_key(|run| run.passes && run.is_large());
    }
    waiting.reverse();
    let begun = Instant::now();
    let queue = Queue { waiting: Mutex::new((waiting, 0)), memory: memory_at_hand() };
    let total = Mutex::new((Count::default(), Seen::default(), 0));
    let jobs =
        asked.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(2, usize::from));
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(run) = queue.next() {
                    let (count, seen, repeated) = judge(&run, &folder, &record, &asked);
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
    /// Waits until there is memory for one of the waiting runs beside those that are running, and
    /// returns that run. If none is running, the next one always begins.
    fn next(&self) -> Option<Run> {
        loop {
            if let Ok(mut state) = self.waiting.lock() {
                let (waiting, used) = &mut *state;
                if waiting.is_empty() {
                    return None;
                }
                let fits = |run: &Run| *used == 0 || *used + run.bounds().megabytes <= self.memory;
                if let Some(at) = waiting.iter().rposition(fits) {
                    let run = waiting.remove(at);
                    *used += run.bounds().megabytes;
                    return Some(run);
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
fn judge(run: &Run, models: &Path, record: &Record, asked: &Asked) -> (Count, Seen, bool) {
    let fingerprint = run.fingerprint(models).unwrap_or_default();
    if let Some(seen) = record.recall(run, &fingerprint).filter(|_| asked.recalls()) {
        println!("ok   {:22} seen before, {} states", run.name, seen.states);
        return (Count::PASSED, seen, false);
    }
    let begun = Instant::now();
    let Bounds { megabytes, seconds } = run.bounds();
    let bounds =
        Bounds { megabytes, seconds: asked.seconds.map_or(seconds, |most| most.min(seconds)) };
    let verdict = check(run, models, bounds, record.states(run) > MANY);
    if matches!(verdict, Verdict::OutOfTime) && bounds.seconds < seconds {
        println!(
            "left {:22} not at its end after {} s of processor time",
            run.name, bounds.seconds
        );
        return (Count::SKIPPED, Seen::default(), true);
    }
    let mut seen = Seen { fingerprint, took: begun.elapsed(), ..Seen::default() };
    let (right, text) = match verdict {
        Verdict::Complete(states) => {
            seen.states = states;
            (run.passes, format!("{states} states, no error"))
        }
        Verdict::Error => (!run.passes, "an error".to_owned()),
        Verdict::OutOfTime => (false, "unfinished: time ran out".to_owned()),
        Verdict::Unfinished(why) => (false, format!("unfinished: {why}")),
    };
    let wanted = if run.passes { "" } else { ", as it must: a mutation" };
    let mark = if right { "ok  " } else { "FAIL" };
    let seconds = seen.took.as_secs_f64();
    println!("{mark} {:22} {text}{} ({seconds:.1} s)", run.name, if right { wanted } else { "" });
    if !right {
        record.forget(run);
    } else if asked.notes() && !seen.fingerprint.is_empty() {
        seen.day = today();
        record.note(run, &seen);
    }
    (if right { Count::PASSED } else { Count::FAILED }, seen, true)
}

fn today() -> String {
    let said = Command::new("date").arg("-I").output().map(|done| done.stdout).unwrap_or_default();
    String::from_utf8_lossy(&said).trim().to_owned()
}

fn folder_of(run: &Run) -> PathBuf {
    root().join("target/models").join(&run.name)
}

/// Checks a run. `many`: it has many states, as far as is known.
fn check(run: &Run, models: &Path, bounds: Bounds, many: bool) -> Verdict {
    let Bounds { megabytes, seconds } = bounds;
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
    // A mutation's error is found soon, and a quick run is, as a rule: most of their time would be
    // the compiler's.
    let (compiler, effort) = match (run.passes, run.is_large()) {
        (true, true) => ("gcc", "-O2"),
        (true, false) if many => ("gcc", "-O1"),
        (_, false) if is_there("tcc") => ("tcc", "-O0"),
        _ => ("gcc", "-O0"),
    };
    let mut compile = Command::new(compiler);
    compile.args([effort, "-w", "-DSAFETY", "-DCOLLAPSE", "-DVECTORSZ=2048", "-o", "pan", "pan.c"]);
    compile.arg(format!("-DMEMLIM={megabytes}"));
    if output(compile, &folder).is_none() {
        return unfinished("the compiler refuses what spin made");
    }
    let mut pan = Command::new("sh");
    // A run of 100 million states wants a table that fits them.
    let table = if run.is_large() { "-w27" } else { "-w24" };
    pan.args([
        "-c",
        "ulimit -t \"$1\" && exec ./pan -m200000 \"$2\"",
        "pan",
        &seconds.to_string(),
        table,
    ]);
    let text = output(pan, &folder).unwrap_or_default();
    // Kept for a person to read: it lists the steps of the model that were never taken.
    let _ = fs::write(folder.join("pan.txt"), &text);
    let states = text.lines().find(|line| line.contains("states, stored"));
    let states = states.and_then(|line| line.split_ascii_whitespace().next()?.parse::<f64>().ok());
    if text.lines().any(|line| line.contains("errors: ") && !line.ends_with("errors: 0")) {
        Verdict::Error
    } else if text.contains("reached -DMEMLIM") {
        unfinished("memory ran out")
    } else if text.contains("max search depth") {
        unfinished("depth ran out")
    } else if !text.contains("errors: 0") || text.contains("Search not completed") {
        Verdict::OutOfTime
    } else {
        // From 10 million on spin prints 1.2345e+07.
        Verdict::Complete(states.unwrap_or(0.0) as u64)
    }
}

/// Returns what a program printed, if it could be run in that folder. Only `pan`'s exit code says
/// nothing.
fn output(mut command: Command, folder: &Path) -> Option<String> {
    let done =
        command.current_dir(folder).stdin(Stdio::null()).stderr(Stdio::piped()).output().ok()?;
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    (done.status.success() || text.contains("errors:")).then_some(text)
}

pub(crate) fn parse(text: &str) -> Result<Vec<Run>, String> {
    let lines =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let fields: Vec<&str> = line.split('|').map(str::trim).collect();
            let [name, model, set, expectation, switches] = fields[..] else {
                return Err(format!("'{line}'"));
            };
            let set = match set {
                "brief" => Set::Brief,
                "quick" => Set::Quick,
                "full" => Set::Full,
                other => return Err(format!("'{other}' in '{line}'")),
            };
            let passes = match expectation {
                "pass" => true,
                "fail" => false,
                other => return Err(format!("'{other}' in '{line}'")),
            };
            Ok(Run {
                name: name.to_owned(),
                model: model.to_owned(),
                set,
                passes,
                switches: switches.split_ascii_whitespace().map(str::to_owned).collect(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_the_tree() -> (PathBuf, Vec<Run>) {
        let folder = paths::at(paths::MODELS);
        let text = fs::read_to_string(folder.join("runs.txt")).expect("readable");
        (folder, parse(&text).expect("well-formed"))
    }

    #[test]
    fn a_line_is_a_run_and_a_bad_one_is_named() {
        let runs =
            parse("# a comment\n\na | m.pml | quick | fail | -DX -DD=1\n").expect("well-formed");
        assert_eq!(runs.len(), 1);
        assert_eq!((runs[0].set, runs[0].passes), (Set::Quick, false));
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
    fn each_model_has_a_run_in_the_test_command_and_no_mutation_is_among_these() {
        let (folder, runs) = in_the_tree();
        for entry in fs::read_dir(folder).expect("readable") {
            let name = entry.expect("readable").file_name().into_string().expect("plain names");
            let is_run = runs.iter().any(|run| run.model == name && run.set == Set::Brief);
            assert!(!name.ends_with(".pml") || is_run, "{name}: the test command would not run it");
        }
        assert!(runs.iter().all(|run| run.passes || run.set != Set::Brief));
    }

    #[test]
    fn what_was_seen_is_recalled_for_the_very_same_run_alone() {
        let folder = std::env::temp_dir().join(format!("outlive-models-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("seen.txt");
        let run = &parse("a | m.pml | full | pass | -DX\n").expect("well-formed")[0];
        let seen = Seen {
            fingerprint: "abc".to_owned(),
            states: 12,
            took: Duration::from_millis(3400),
            day: "2026-11-22".to_owned(),
        };
        Record::read(path.clone()).note(run, &seen);
        let record = Record::read(path.clone());
        assert_eq!(record.recall(run, "abc"), Some(seen));
        assert_eq!(record.recall(run, "abd"), None, "another model");
        record.forget(run);
        assert_eq!(Record::read(path.clone()).recall(run, "abc"), None, "it has failed since");
        record.note(run, &Seen { fingerprint: "abc".to_owned(), ..Seen::default() });
        record.keep(&[]);
        assert_eq!(record.recall(run, "abc"), None, "no longer in the list");
        fs::write(&path, "a | abc | 12\n").expect("written");
        assert_eq!(Record::read(path).recall(run, "abc"), None, "cut short");
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn a_fingerprint_is_of_the_model_with_its_switches_carried_out() {
        let folder =
            std::env::temp_dir().join(format!("outlive-fingerprints-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let of = |model: &str, switches: &str| {
            fs::write(folder.join("m.pml"), model).expect("written");
            let line = format!("a | m.pml | full | pass | {switches}\n");
            parse(&line).expect("well-formed")[0].fingerprint(&folder)
        };
        let plain = of("int x = 1;\n", "");
        if plain.is_none() {
            // No C compiler here: then no model is run either.
            return;
        }
        let switched = "int x = 1; /* why */\n#ifdef STOP\nint y = 1;\n#endif\n";
        assert_eq!(of(switched, ""), plain, "a comment, and a switch that this run does not have");
        assert_ne!(of(switched, "-DSTOP"), plain);
        assert_ne!(of("int x = 2;\n", ""), plain);
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn arguments_are_read_and_nonsense_is_refused() {
        let of = |line: &str| {
            asked(&line.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>())
        };
        let full = of("--full rpc --jobs 3 span").expect("fits");
        assert_eq!((full.set, full.jobs), (Set::Full, Some(3)));
        assert_eq!(full.parts, ["rpc", "span"]);
        assert_eq!((full.notes(), full.recalls()), (true, true));
        let again = of("--full --again --no-install").expect("fits");
        assert_eq!((again.notes(), again.recalls(), again.no_install), (true, false, true));
        let brief = of("--brief").expect("fits");
        assert_eq!((brief.notes(), brief.recalls(), brief.no_install), (false, false, false));
        assert_eq!(of("--full --seconds 60").expect("fits").seconds, Some(60));
        for nonsense in [
            "--jobs",
            "--jobs 0",
            "--seconds",
            "--seconds 0",
            "--jobs x",
            "--brief --full",
            "--loud",
        ] {
            assert_eq!(of(nonsense), None, "{nonsense}");
        }
    }
}
