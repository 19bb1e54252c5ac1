//! One stage of the test command: a program whose output goes through to the reader while it is
//! counted.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use crate::count::Count;
use crate::failures::{self, Failures};

/// How a stage's result is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counts {
    /// From its closing lines.
    ByLines,
    /// By its exit code: one test.
    ByExit,
    /// By its exit code, and no test: it makes what other stages run.
    Not,
}

/// After this a stage of the test command is taken to hang. The longest takes a few minutes.
const LONGEST: Duration = Duration::from_secs(20 * 60);

/// A stage: its name, what it runs, and how its result is known.
pub(crate) struct Stage {
    name: String,
    command: Command,
    counts: Counts,
}

impl Stage {
    pub(crate) fn new(name: &str, command: Command, counts: Counts) -> Stage {
        Stage { name: name.to_owned(), command, counts }
    }

    /// Runs it; each line goes to `say` as it comes.
    fn run(mut self, limit: Option<Duration>, say: &mut dyn FnMut(&str)) -> Count {
        say(&format!("\n== {}", self.name));
        let begun = Instant::now();
        let mut computed = Duration::ZERO;
        let mut failures = Failures::default();
        let mut heard = |line: &str| {
            failures.hear(line);
            say(line);
        };
        let count = match counted(&mut self.command, self.counts, limit, &mut computed, &mut heard)
        {
            Ok(count) => count,
            Err(error) => {
                say(&format!("{}: {error}", self.command.get_program().to_string_lossy()));
                Count::FAILED
            }
        };
        // What a stage computes tells whether another one could run beside it.
        let (took, computed) = (begun.elapsed().as_secs_f64(), computed.as_secs_f64());
        say(&format!(
            "== {}: {count} in {took:.1} s ({computed:.0} s of processor time)",
            self.name
        ));
        if count.failed > 0 {
            failures::keep(&self.name, failures);
        }
        count
    }
}

/// Runs a stage; a program that fails without having counted a failure counts as one. A stage that
/// hangs is killed with all that it started, and has failed.
pub(crate) fn run(name: &str, command: Command, counts: Counts) -> Count {
    Stage::new(name, command, counts).run(Some(LONGEST), &mut |line| println!("{line}"))
}

/// Runs the same for as long as it takes: for verbs that a person asked for.
pub(crate) fn run_long(name: &str, command: Command, counts: Counts) -> Count {
    Stage::new(name, command, counts).run(None, &mut |line| println!("{line}"))
}

/// Runs several rows of stages: the rows run beside each other, and the stages of a row one
/// after another. So one that sleeps leaves the processors to one that computes. What a stage
/// prints comes whole, when it has ended.
pub(crate) fn run_beside(rows: Vec<Vec<Stage>>) -> Count {
    let names = |row: &Vec<Stage>| {
        row.iter().map(|stage| stage.name.as_str()).collect::<Vec<_>>().join(", then ")
    };
    println!("\n== beside each other: {}", rows.iter().map(names).collect::<Vec<_>>().join("; "));
    let total = Mutex::new(Count::default());
    let run = |row: Vec<Stage>| {
        for stage in row {
            let mut said = String::new();
            let count = stage.run(Some(LONGEST), &mut |line| {
                said.push_str(line);
                said.push('\n');
            });
            let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
            print!("{said}");
            total.add(count);
        }
    };
    std::thread::scope(|scope| {
        for row in rows {
            scope.spawn(|| run(row));
        }
    });
    total.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn counted(
    command: &mut Command,
    counts: Counts,
    limit: Option<Duration>,
    computed: &mut Duration,
    say: &mut dyn FnMut(&str),
) -> std::io::Result<Count> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let pid = child.id();
    // Dropping `ended` is the news.
    let (ended, waiting) = mpsc::channel::<()>();
    let watchdog = limit.map(|limit| {
        std::thread::spawn(move || {
            if waiting.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
                println!("== hangs: killed after {}", minutes(limit));
                kill_with_descendants(pid);
            }
        })
    });
    let mut count = Count::default();
    let (mut lines, mut skips) = (0, 0);
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).split(b'\n') {
            let line = String::from_utf8_lossy(&line?).into_owned();
            say(&line);
            if counts == Counts::ByLines
                && let Some(found) = Count::of_line(&line)
            {
                lines += 1;
                count.add(found);
            }
            skips += u64::from(counts == Counts::ByLines && is_skip(&line));
        }
    }
    *computed = processor_time(pid);
    let status = child.wait()?;
    // libtest knows no tests that skip themselves, and has counted them as passed.
    count.passed = count.passed.saturating_sub(skips);
    count.skipped += skips;
    drop(ended);
    if let Some(watchdog) = watchdog {
        // It only sleeps and prints: nothing to learn from how it ended.
        let _ = watchdog.join();
    }
    Ok(match (status.success(), counts) {
        (true, Counts::ByExit) => Count::PASSED,
        (true, Counts::Not) => Count::default(),
        (false, Counts::ByExit | Counts::Not) => Count::FAILED,
        // It said that all is well and counted nothing: then nothing was tested.
        (true, Counts::ByLines) if lines == 0 => Count::FAILED,
        (false, Counts::ByLines) if count.failed == 0 => {
            count.add(Count::FAILED);
            count
        }
        _ => count,
    })
}

/// Returns whether a test says in that line that it is skipped: on a line of its own, or behind its
/// name, as libtest prints it where tests run one at a time.
pub(crate) fn is_skip(line: &str) -> bool {
    line.starts_with("skipped: ") || line.contains(" ... skipped: ")
}

/// Kills a process that we started and all that descend from it, children last known first: cargo
/// alone would leave the tests running.
pub(crate) fn kill_with_descendants(root: u32) {
    let mut doomed = vec![root];
    let mut next = 0;
    while let Some(&parent) = doomed.get(next) {
        doomed.extend(children(parent));
        next += 1;
    }
    let mut kill = Command::new("kill");
    kill.arg("-KILL").args(doomed.iter().map(u32::to_string));
    // Those that ended meanwhile are no error.
    let _ = kill.stderr(Stdio::null()).status();
}

/// Returns how long a process that was not waited for has computed, and all those that it has waited
/// for.
fn processor_time(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    // Its own time and its children's, each in user and in kernel mode; a tick is 10 ms.
    let ticks = fields.split_ascii_whitespace().skip(11).take(4);
    Duration::from_millis(ticks.filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>() * 10)
}

/// Returns the processes whose parent this is, by /proc.
fn children(parent: u32) -> Vec<u32> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    processes
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            // Behind the name, which may hold anything: state, parent.
            let fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
            fields.split_ascii_whitespace().nth(1) == Some(&parent.to_string())
        })
        .collect()
}

/// Says that a stage was left out, and why.
pub(crate) fn skip(name: &str, why: &str) -> Count {
    println!("\n== {name}: skipped, {why}");
    Count::SKIPPED
}

/// Returns a span for people.
pub(crate) fn minutes(span: Duration) -> String {
    format!("{} min {:02} s", span.as_secs() / 60, span.as_secs() % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn of(script: &str, counts: Counts) -> Count {
        let mut computed = Duration::ZERO;
        counted(&mut shell(script), counts, None, &mut computed, &mut |_| ()).expect("sh runs")
    }

    #[test]
    fn counts_are_added_and_silence_or_a_bad_end_is_a_failure() {
        let lines = Counts::ByLines;
        let two = of("echo 2 passed, 1 failed; echo 3 passed, 0 failed, 1 skipped; exit 1", lines);
        assert_eq!(two, Count { passed: 5, failed: 1, skipped: 1 });
        assert_eq!(of("echo all is well", lines), Count::FAILED);
        assert_eq!(
            of("echo 2 passed, 0 failed; kill -9 $$", lines),
            Count { passed: 2, failed: 1, skipped: 0 }
        );
        assert_eq!(of("echo 2 passed, 1 failed", Counts::ByExit), Count::PASSED);
        assert_eq!(of("exit 3", Counts::ByExit), Count::FAILED);
        assert_eq!(
            (of("true", Counts::Not), of("exit 3", Counts::Not)),
            (Count::default(), Count::FAILED)
        );
    }

    #[test]
    fn stages_beside_each_other_are_all_counted() {
        let of = |script: &str| Stage::new(script, shell(script), Counts::ByLines);
        // Each waits for the other: one after another they would not end.
        let folder = std::env::temp_dir().join(format!("outlive-beside-{}", std::process::id()));
        let wait = |mine: &str, other: &str| {
            let (mine, other) = (folder.join(mine), folder.join(other));
            format!(
                "touch {}; while ! test -e {}; do sleep 0.01; done; echo 1 passed, 0 failed",
                mine.display(),
                other.display()
            )
        };
        fs::create_dir_all(&folder).expect("a folder");
        let count = run_beside(vec![
            vec![of(&wait("a", "b")), of("echo 0 passed, 1 failed; exit 1")],
            vec![of(&wait("b", "a")), of("echo 3 passed, 0 failed, 1 skipped")],
        ]);
        assert_eq!(count, Count { passed: 5, failed: 1, skipped: 1 });
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn who_hangs_is_killed_with_its_children() {
        // The sleeper holds the pipe: were it left alone, this would not come back for ten minutes.
        let mut hanging = shell("sleep 600 & wait");
        let limit = Some(Duration::from_millis(200));
        let mut computed = Duration::ZERO;
        let count = counted(&mut hanging, Counts::ByLines, limit, &mut computed, &mut |_| ());
        assert_eq!(count.expect("sh runs"), Count::FAILED);
    }
}
