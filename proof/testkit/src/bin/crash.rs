//! Kills processes at every instruction of outlive's operations, or leaves them standing there, and
//! checks the survivors.
//!
//! `crash --quick` kills where something differs for the survivors or the kernel, `crash --all` at
//! every instruction. `crash --stop` leaves the victim standing still at those instructions:
//! survivors get past everything that it does not hold; then it goes on, or is killed. One scenario
//! in one mode is one test; the last line is `N passed, N failed`, the exit code 1 when one failed.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use clap::Parser;
use outlive_testkit::campaign::{self, Fate, Orders, Part, Report};
use outlive_testkit::engine::plan::Thoroughness;
use outlive_testkit::scenario::{self, Scenario, known};
use outlive_testkit::world::{Recheck, affinity, scratch};

#[derive(Parser)]
#[command(version, about = "Kill, or stop, at every instruction, then ask the survivors")]
struct Arguments {
    /// Kill where something differs for survivors or kernel, and beside it (the default).
    #[arg(long, conflicts_with = "all")]
    quick: bool,
    /// Kill, or stop, where something differs, and not beside it.
    #[arg(long, conflicts_with_all = ["all", "quick"])]
    brief: bool,
    /// With --stop: at all instructions where something differs and one before each, not thinned
    /// out, with both ends.
    #[arg(long, conflicts_with_all = ["all", "quick", "brief"], requires = "stop")]
    telling: bool,
    /// Kill at every instruction.
    #[arg(long)]
    all: bool,
    /// Leave the victim standing still instead; then it goes on, or is killed.
    #[arg(long)]
    stop: bool,
    /// Have each system call fail instead, by each error that it may give.
    #[arg(long, conflicts_with = "stop")]
    fault: bool,
    /// Only scenarios whose name begins so (may be given several times).
    #[arg(long, value_name = "SCENARIO")]
    only: Vec<String>,
    /// The first point to kill at.
    #[arg(long, default_value_t = 0, value_name = "N")]
    from: u64,
    /// The last point to kill at.
    #[arg(long, default_value_t = u64::MAX, value_name = "N")]
    to: u64,
    /// Only each N-th point of each scenario, from the K-th on. All N parts together are the whole
    /// campaign.
    #[arg(long, default_value_t = Part::WHOLE, value_name = "K/N")]
    part: Part,
    /// Only with the coarse recheck `off` or `on`.
    #[arg(long, value_name = "off|on", value_parser = ["off", "on"])]
    recheck: Option<String>,
    /// How many tests run beside each other; unless said otherwise as many as there are processors,
    /// or with --stop twice as many.
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Victims are played by this program, in another language: the scenarios that it names when it
    /// is asked for nothing.
    #[arg(long, value_name = "PROGRAM")]
    victim: Option<PathBuf>,
    /// List the scenarios and end.
    #[arg(long)]
    list: bool,
    /// Run exactly one test, in this process, on this processor.
    #[arg(long, hide = true, value_name = "CPU")]
    here: Option<usize>,
}

impl Arguments {
    fn tests(&self) -> Vec<(Box<dyn Scenario>, Recheck)> {
        let mut tests = Vec::new();
        let known = self.victim.as_ref().map(|program| known_to(program));
        for recheck in [Recheck::Off, Recheck::On] {
            for scenario in scenario::all() {
                let named = self.only.is_empty()
                    || self.only.iter().any(|name| {
                        if self.here.is_some() {
                            scenario.name() == name
                        } else {
                            scenario.name().starts_with(name)
                        }
                    });
                // Stops run in both modes where a process sleeps: the promise holds with the
                // recheck at the latest, and in most places without it. Faults run in the mode that
                // users have.
                let usual = match self.fate() {
                    Fate::Killed => true,
                    Fate::Stopped => {
                        recheck == Recheck::On
                            || scenario.has_sleepers()
                            || !scenario.uses_recheck()
                    }
                    Fate::Failing => recheck == Recheck::On,
                };
                let moded = self.recheck.as_ref().map_or(usual, |word| word == recheck.word());
                let applies = recheck == Recheck::Off || scenario.uses_recheck();
                let known = known
                    .as_ref()
                    .is_none_or(|known| known.iter().any(|name| name == scenario.name()));
                // Faults are outlive's: others' locks and things broken on purpose have nothing to
                // say of them.
                let ours = !self.fault || scenario.uses_recheck();
                if named && moded && applies && known && ours {
                    tests.push((scenario, recheck));
                }
            }
        }
        tests
    }

    /// Returns whether those are left out that are known to fail without the recheck.
    fn leaves_known_out(&self) -> bool {
        self.stop && !self.all && self.recheck.is_none() && self.only.is_empty()
    }

    fn fate(&self) -> Fate {
        match (self.stop, self.fault) {
            (true, _) => Fate::Stopped,
            (_, true) => Fate::Failing,
            _ => Fate::Killed,
        }
    }

    fn thoroughness(&self) -> Thoroughness {
        match (self.all, self.brief, self.telling) {
            (true, ..) => Thoroughness::Every,
            (_, true, _) => Thoroughness::Brief,
            (.., true) => Thoroughness::AllTelling,
            _ => Thoroughness::Telling,
        }
    }
}

/// Plays survivors, and victims unless another program does.
fn our_program() -> std::io::Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("victim"))
}

/// The scenarios that a program plays victims of; none if it does not run.
fn known_to(program: &Path) -> Vec<String> {
    let told = Command::new(program)
        .stdin(Stdio::null())
        .output()
        .map(|output| output.stdout)
        .unwrap_or_default();
    String::from_utf8_lossy(&told).lines().map(str::to_owned).collect()
}

fn title(scenario: &dyn Scenario, recheck: Recheck) -> String {
    if scenario.uses_recheck() {
        format!("{} (recheck {})", scenario.name(), recheck.word())
    } else {
        scenario.name().to_owned()
    }
}

/// What a test came to, as the exit code of its process.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Passed = 0,
    Failed = 1,
    /// It failed, as is known of it.
    Known = 3,
}

fn tell(scenario: &dyn Scenario, recheck: Recheck, report: &Report) -> Verdict {
    // A sleeper that hangs beside a stopped victim is reported as late.
    let is_hang = |failure: &String| failure.starts_with("HANG") || failure.starts_with("LATE");
    let is_found = report.failures.iter().any(|(_, failure)| is_hang(failure));
    let passed = if scenario.must_fail() { is_found } else { report.failures.is_empty() };
    let known = known::to_fail_stopped(scenario.name(), recheck)
        .filter(|_| report.fate == Some(Fate::Stopped));
    let (verdict, mark) = match (passed, known) {
        (true, _) => (Verdict::Passed, "ok    "),
        (false, Some(_)) => (Verdict::Known, "known "),
        (false, None) => (Verdict::Failed, "FAILED"),
    };
    println!("{mark} {}: {report}", title(scenario, recheck));
    match (passed, known) {
        (true, Some(_)) => {
            println!("       known to fail, and holds: take it off the list (scenario/known.rs)")
        }
        (false, Some(why)) => println!("       known to fail: {why}"),
        _ => {}
    }
    for (point, failure) in &report.failures {
        if scenario.must_fail() {
            println!("       as it must, at point {point}: {failure}");
        } else {
            println!("       point {point}: {failure}");
        }
    }
    verdict
}

/// Runs one test in this process. The last line on stdout is for the parent: its kill points.
fn run_here(arguments: &Arguments, cpu: usize) -> std::io::Result<Verdict> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let [(scenario, recheck)] = &arguments.tests()[..] else {
        return Err(std::io::Error::other("--here runs exactly one test"));
    };
    let orders = Orders {
        fate: arguments.fate(),
        thoroughness: arguments.thoroughness(),
        from: arguments.from,
        to: arguments.to,
        part: arguments.part,
        cpu: Some(cpu),
        program: our_program()?,
        victim: arguments.victim.clone().map_or_else(our_program, Ok)?,
    };
    Ok(match campaign::run(scenario.as_ref(), *recheck, &orders) {
        Ok(report) => {
            let verdict = tell(scenario.as_ref(), *recheck, &report);
            println!("{} {} {}", report.rounds, report.slowest.as_millis(), report.calls);
            verdict
        }
        Err(failure) => {
            println!("FAILED {}: {failure}\n0 0 0", title(scenario.as_ref(), *recheck));
            Verdict::Failed
        }
    })
}

#[derive(Default)]
struct Totals {
    passed: u64,
    failed: u64,
    known: u64,
    rounds: u64,
    slowest_ms: u64,
    calls: u64,
}

/// Runs one test in a process of its own: an engine has one thread, and its victims die with it.
fn run_apart(
    arguments: &Arguments,
    scenario: &str,
    recheck: Recheck,
    cpu: usize,
    totals: &Mutex<Totals>,
) {
    let mut command = Command::new(std::env::current_exe().unwrap_or_else(|_| "crash".into()));
    command.args(["--only", scenario, "--recheck", recheck.word(), "--here", &cpu.to_string()]);
    command.args(["--from", &arguments.from.to_string(), "--to", &arguments.to.to_string()]);
    command.args(["--part", &arguments.part.to_string()]);
    if let Some(victim) = &arguments.victim {
        command.arg("--victim").arg(victim);
    }
    match arguments.fate() {
        Fate::Killed => {}
        Fate::Stopped => drop(command.arg("--stop")),
        Fate::Failing => drop(command.arg("--fault")),
    }
    command.arg(match arguments.thoroughness() {
        Thoroughness::Every => "--all",
        Thoroughness::Telling => "--quick",
        Thoroughness::AllTelling => "--telling",
        Thoroughness::Brief => "--brief",
    });
    command.stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output();
    let mut totals = totals.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    match output {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            let (told, figures) = text.trim_end().rsplit_once('\n').unwrap_or((&text, ""));
            println!("{told}");
            let mut figures = figures.split(' ').map(|figure| figure.parse::<u64>().unwrap_or(0));
            totals.rounds += figures.next().unwrap_or(0);
            totals.slowest_ms = totals.slowest_ms.max(figures.next().unwrap_or(0));
            totals.calls += figures.next().unwrap_or(0);
            match output.status.code() {
                Some(code) if code == Verdict::Passed as i32 => totals.passed += 1,
                Some(code) if code == Verdict::Known as i32 => totals.known += 1,
                _ => totals.failed += 1,
            }
        }
        Err(error) => {
            println!("FAILED {scenario}: {error}");
            totals.failed += 1;
        }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(cpu) = arguments.here {
        return match run_here(&arguments, cpu) {
            Ok(verdict) => ExitCode::from(verdict as u8),
            Err(error) => {
                eprintln!("crash: {error}");
                ExitCode::FAILURE
            }
        };
    }
    if arguments.list {
        for scenario in scenario::all() {
            println!("{:30} {}", scenario.name(), scenario.about());
        }
        return ExitCode::SUCCESS;
    }
    scratch::clear_ended_runs();
    let began = Instant::now();
    let cpus = affinity::available();
    let mut tests = arguments.tests();
    let mut totals = Totals::default();
    if arguments.leaves_known_out() {
        tests.retain(|(scenario, recheck)| {
            let why = known::to_fail_stopped(scenario.name(), *recheck);
            let Some(why) = why.filter(|_| *recheck == Recheck::Off && scenario.uses_recheck())
            else {
                return true;
            };
            println!("known  {}, not run: {why}", title(scenario.as_ref(), *recheck));
            totals.known += 1;
            false
        });
    }
    let (tests, totals) = (Mutex::new(tests), Mutex::new(totals));
    if tests.lock().is_ok_and(|tests| tests.is_empty()) {
        eprintln!("crash: no scenario is named so; --list shows them");
        return ExitCode::FAILURE;
    }
    // Beside a stopped victim others wait for their looks half of the time: two tests share a
    // processor.
    let at_once = if arguments.stop { 2 * cpus.len() } else { cpus.len() };
    let jobs = arguments.jobs.unwrap_or(at_once).max(1);
    std::thread::scope(|scope| {
        for job in 0..jobs {
            let cpu = cpus[job % cpus.len()];
            let (tests, totals, arguments) = (&tests, &totals, &arguments);
            scope.spawn(move || {
                loop {
                    let next = tests
                        .lock()
                        .map_or(None, |mut tests| (!tests.is_empty()).then(|| tests.remove(0)));
                    let Some((scenario, recheck)) = next else {
                        break;
                    };
                    run_apart(arguments, scenario.name(), recheck, cpu, totals);
                }
            });
        }
    });
    let totals = totals.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let took: Duration = began.elapsed();
    let seconds = took.as_secs_f64();
    match arguments.fate() {
        Fate::Killed => println!("{} kill points in {seconds:.0} s", totals.rounds),
        Fate::Stopped => println!("{} stops in {seconds:.0} s", totals.rounds),
        Fate::Failing => {
            println!("{} calls, {} faults in {seconds:.0} s", totals.calls, totals.rounds)
        }
    }
    if arguments.stop {
        println!(
            "nobody was kept waiting for longer than {} ms, save by what is held",
            totals.slowest_ms
        );
        println!("{} known to fail", totals.known);
    }
    println!("{} passed, {} failed, {} skipped", totals.passed, totals.failed, totals.known);
    if totals.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
