//! One stage of the test command: a program whose output goes through to the reader while it is counted.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::count::Count;

/// How a stage's result is known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counts {
    /// From its closing lines.
    ByLines,
    /// By its exit code: one test.
    ByExit,
}

/// Runs a stage; a program that fails without having counted a failure counts as one.
pub(crate) fn run(name: &str, mut command: Command, counts: Counts) -> Count {
    println!("\n== {name}");
    let begun = Instant::now();
    let count = match counted(&mut command, counts) {
        Ok(count) => count,
        Err(error) => {
            println!("{}: {error}", command.get_program().to_string_lossy());
            Count::FAILED
        }
    };
    println!("== {name}: {count} in {:.1} s", begun.elapsed().as_secs_f64());
    count
}

fn counted(command: &mut Command, counts: Counts) -> std::io::Result<Count> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let mut count = Count::default();
    let mut lines = 0;
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).split(b'\n') {
            let line = String::from_utf8_lossy(&line?).into_owned();
            println!("{line}");
            if counts == Counts::ByLines
                && let Some(found) = Count::of_line(&line)
            {
                lines += 1;
                count.add(found);
            }
        }
    }
    let status = child.wait()?;
    Ok(match (status.success(), counts) {
        (true, Counts::ByExit) => Count::PASSED,
        (false, Counts::ByExit) => Count::FAILED,
        // It said that all is well and counted nothing: then nothing was tested.
        (true, Counts::ByLines) if lines == 0 => Count::FAILED,
        (false, Counts::ByLines) if count.failed == 0 => {
            count.add(Count::FAILED);
            count
        }
        _ => count,
    })
}

/// Says that a stage was left out, and why.
pub(crate) fn skip(name: &str, why: &str) -> Count {
    println!("\n== {name}: skipped, {why}");
    Count::SKIPPED
}

/// A span for people.
pub(crate) fn minutes(span: Duration) -> String {
    format!("{} min {:02} s", span.as_secs() / 60, span.as_secs() % 60)
}
