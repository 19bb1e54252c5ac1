//! This test run's name, in everything that it leaves where others see it.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process};

const MARK: &str = "outlive-test";

/// Returns a name that nothing else has: of this run, with a counter.
pub(crate) fn name(what: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let pid = process::id();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{MARK}-{pid}-{}-{number}-{what}", started(pid).unwrap_or(0))
}

/// Returns whether a name is of a test run that is over. Another program's name is not.
pub(crate) fn is_leftover(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(MARK) else { return false };
    let mut fields = rest.trim_start_matches('-').splitn(3, '-');
    let (Some(pid), Some(start), Some(_)) = (fields.next(), fields.next(), fields.next()) else {
        return false;
    };
    match (pid.parse(), start.parse::<u64>()) {
        (Ok(pid), Ok(start)) => started(pid) != Some(start),
        _ => false,
    }
}

/// Returns when a process was started, in the kernel's ticks; `None`: it is no more.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Behind the name, which may hold anything. The first field there is the third.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split_ascii_whitespace();
    if fields.next() == Some("Z") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// Says that a test is skipped, and why. It is written past libtest, which would keep it from the
/// reader of a test that passes; `cargo xtask` counts these lines.
pub fn skip(test: &str, why: &str) {
    // A closed standard output is no reason to fail.
    let _ = writeln!(std::io::stdout(), "skipped: {test}: {why}");
}

/// Returns why a program cannot be started, `None` if it is there.
pub fn missing(program: &str) -> Option<String> {
    let path = env::var_os("PATH").unwrap_or_default();
    // Debian keeps some of them where a user's PATH does not look.
    let there = env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .any(|folder| folder.join(program).is_file());
    (!there).then(|| format!("the program {program} is not there"))
}

/// Runs a program that ends by itself; its complaint is the error.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let shown = format!("{command:?}");
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{shown} cannot be started: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{shown}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_runs_that_are_over_are_leftovers() {
        assert!(!is_leftover(&name("x")));
        assert!(!is_leftover("somebody"));
        assert!(!is_leftover("outlive-test-x-y-z"));
        // The same process number, started at another time.
        assert!(is_leftover(&format!("outlive-test-{}-1-0-x", process::id())));
        let mut child = Command::new("true").spawn().expect("starts");
        let of_child = format!("outlive-test-{}-{}-0-x", child.id(), u64::MAX);
        child.wait().expect("ends");
        assert!(is_leftover(&of_child));
    }
}
