//! The programs on the project's pages: each is taken from its page, compiled as a user would
//! compile it, and run.
//!
//! A block of Rust, C, C++, Python, Go or Java on a page is a whole program, unless its fence says `fragment`
//! (`` ```cpp fragment ``). A block of a shell is run if its fence says `run`. A block that begins
//! with a comment of a file's name (`// sensor.rs`) belongs to several that run together:
//! `tutorial` plays those. `cargo xtask c` runs the programs in C and C++, `cargo xtask python`
//! those in Python, and `cargo xtask pages` those in Rust and in the shell, and the tutorial.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::count::Count;
use crate::go;
use crate::java::Java;
use crate::paths::{self, root};
use crate::prefix;
use crate::python;
use crate::stage::kill_with_descendants;
use crate::tutorial;

/// The pages whose programs are also killed at random, so many times each: started again in the
/// same domain, each works.
const SURVIVORS: &[&str] = &["README.md", "doc/how-to/send-without-loss.md"];
const KILLS: u32 = 20;

/// A program on a page that has not ended after this hangs.
const LONGEST: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    Rust,
    C,
    Cpp,
    Python,
    Go,
    Java,
    Shell,
}

/// A whole program on a page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) page: String,
    /// The line of its fence, from 1.
    pub(crate) line: usize,
    pub(crate) language: Language,
    /// The file's name that its first line gives it.
    pub(crate) file: Option<String>,
    pub(crate) text: String,
}

impl Program {
    fn place(&self) -> String {
        format!("{}:{}", self.page, self.line)
    }
}

/// What compiles and runs programs: where the C library is installed, and the interpreter that has
/// the package; and Java.
#[derive(Default)]
pub(crate) struct Tools {
    pub(crate) installed: Option<PathBuf>,
    pub(crate) python: Option<PathBuf>,
    pub(crate) java: Option<Java>,
}

/// Runs `cargo xtask pages [--no-install]`.
pub(crate) fn run(args: &[String]) -> ExitCode {
    let may_install = match args {
        [] => true,
        [flag] if flag == "--no-install" => false,
        _ => {
            eprintln!("usage: cargo xtask pages [--no-install]");
            return ExitCode::from(2);
        }
    };
    let mut total = Count::default();
    let python = match python::built(may_install, false) {
        Ok(Ok(python)) => Some(python),
        Ok(Err(why)) => {
            println!("the tutorial in Python: skipped, {why}");
            total.add(Count::SKIPPED);
            None
        }
        Err(error) => {
            println!("{error}\n0 passed, 1 failed");
            return ExitCode::FAILURE;
        }
    };
    // A machine without Python has not built the library yet.
    if python.is_none()
        && let Err(error) = prefix::build_all()
    {
        println!("{error}\n0 passed, 1 failed");
        return ExitCode::FAILURE;
    }
    total.add(all_in(&[Language::Rust, Language::Shell], &Tools::default()));
    total.add(tutorial::play(python.as_deref()));
    println!("{total}");
    if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs each program of these languages on the project's pages; no program at all is a failure.
pub(crate) fn all_in(languages: &[Language], tools: &Tools) -> Count {
    let here = scratch("programs");
    let mut count = Count::default();
    for program in on_pages() {
        if program.file.is_some() || !languages.contains(&program.language) {
            continue;
        }
        let ran = run_one(&program, tools, &here).and_then(|()| {
            let kills = if SURVIVORS.contains(&program.page.as_str()) { KILLS } else { 0 };
            survives(&program, tools, &here, kills)
        });
        match ran {
            Ok(()) => count.add(Count::PASSED),
            Err(said) => {
                println!("the program at {}: {said}", program.place());
                count.add(Count::FAILED);
            }
        }
    }
    if let Err(error) = fs::remove_dir_all(&here) {
        println!("{}: {error}", here.display());
    }
    if count == Count::default() {
        println!("no page has a program in {languages:?}");
        return Count::FAILED;
    }
    println!("programs on the pages, in {languages:?}: {count}");
    count
}

/// Returns a folder of this run's own, below the target folder.
pub(crate) fn scratch(name: &str) -> PathBuf {
    root().join(prefix::target()).join(format!("pages/{name}-{}", std::process::id()))
}

/// Returns the programs of all pages of the project. The pages of `proof` and of the protocols have
/// none: what is there in C is the library's own.
fn on_pages() -> Vec<Program> {
    let listed = Command::new("git").args(["ls-files", "--", "*.md"]).current_dir(root()).output();
    let listed = listed
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        .unwrap_or_default();
    let are_users =
        |page: &&str| !["proof/", "doc/protocols/"].iter().any(|folder| page.starts_with(folder));
    let mut found = Vec::new();
    for page in listed.lines().filter(are_users) {
        if let Ok(text) = fs::read_to_string(root().join(page)) {
            found.extend(programs(page, &text));
        }
    }
    found
}

/// Returns the whole programs of a page.
pub(crate) fn programs(page: &str, text: &str) -> Vec<Program> {
    let mut found: Vec<Program> = Vec::new();
    let mut open: Option<Option<Program>> = None;
    for (at, line) in text.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(fence)) => open = Some(begun(page, at + 1, fence)),
            (None, None) => {}
            (Some(_), Some(_)) => found.extend(open.take().flatten()),
            (Some(Some(program)), None) => {
                if program.text.is_empty() {
                    program.file = file_named_by(line);
                }
                program.text.push_str(line);
                program.text.push('\n');
            }
            (Some(None), None) => {}
        }
    }
    found
}

/// Returns the program that a fence begins, if what follows is one.
fn begun(page: &str, line: usize, fence: &str) -> Option<Program> {
    let mut words = fence.split([',', ' ']);
    let language = match words.next()? {
        "rust" => Language::Rust,
        "c" => Language::C,
        "cpp" => Language::Cpp,
        "python" => Language::Python,
        "go" => Language::Go,
        "java" => Language::Java,
        "sh" => Language::Shell,
        _ => return None,
    };
    let marks: Vec<&str> = words.collect();
    let is_whole = if language == Language::Shell {
        marks.contains(&"run")
    } else {
        !marks.contains(&"fragment")
    };
    is_whole.then(|| Program {
        page: page.to_owned(),
        line,
        language,
        file: None,
        text: String::new(),
    })
}

/// Returns the file that a line names, such as `// sensor.rs` or `# sensor.py`.
fn file_named_by(line: &str) -> Option<String> {
    let name = line.strip_prefix("// ").or_else(|| line.strip_prefix("# "))?;
    let is_name =
        [".rs", ".py"].iter().any(|ending| name.ends_with(ending)) && !name.contains(['/', ' ']);
    is_name.then(|| name.to_owned())
}

/// Compiles and runs one program in a domain of its own, which is removed afterwards; what was
/// wrong.
fn run_one(program: &Program, tools: &Tools, here: &Path) -> Result<(), String> {
    let domain = Domain::new();
    let mut command = compiled(program, tools, here)?;
    command.env("OUTLIVE_DOMAIN", &domain.path).current_dir(here);
    let (ended, said) = limited(&mut command, here, LONGEST).map_err(|error| error.to_string())?;
    match ended {
        None => Err(format!("hangs: killed after {} s\n{said}", LONGEST.as_secs())),
        Some(status) if !status.success() => Err(format!("{status}\n{said}")),
        Some(_) => Ok(()),
    }
}

/// Kills a program that many times, each at a random moment of its run, and runs it again in the
/// same domain, where it must work; what was wrong.
fn survives(program: &Program, tools: &Tools, here: &Path, kills: u32) -> Result<(), String> {
    if kills == 0 {
        return Ok(());
    }
    let domain = Domain::new();
    let mut command = compiled(program, tools, here)?;
    command.env("OUTLIVE_DOMAIN", &domain.path).current_dir(here);
    let mut takes = Duration::ZERO;
    for kill in 0..=kills {
        // A little longer than it takes, so that its end is among the moments.
        let after = takes.mul_f64(1.1 * random());
        if kill > 0 {
            let mut killed = || {
                command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
                let mut child = command.spawn()?;
                std::thread::sleep(after);
                child.kill()?;
                child.wait()
            };
            killed().map_err(|error| error.to_string())?;
            // What a shell has started.
            domain.kill_all()?;
        }
        let begun = Instant::now();
        let (ended, said) =
            limited(&mut command, here, LONGEST).map_err(|error| error.to_string())?;
        takes = begun.elapsed();
        match ended {
            Some(status) if status.success() => {}
            ended => {
                let how = ended.map_or("hangs".to_owned(), |status| status.to_string());
                return Err(format!("killed after {after:?} and started again, it {how}\n{said}"));
            }
        }
    }
    Ok(())
}

/// Returns a number from 0 to 1.
fn random() -> f64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(Instant::now()) as f64 / u64::MAX as f64
}

/// Compiles a program; returns what runs it, or what the compiler said.
pub(crate) fn compiled(program: &Program, tools: &Tools, here: &Path) -> Result<Command, String> {
    fs::create_dir_all(here).map_err(|error| format!("{}: {error}", here.display()))?;
    let ending = match program.language {
        Language::Rust => "rs",
        Language::C => "c",
        Language::Cpp => "cpp",
        Language::Python => "py",
        Language::Go => "go",
        Language::Java => "java",
        Language::Shell => "sh",
    };
    let stem = match &program.file {
        Some(name) => name.trim_end_matches(&format!(".{ending}")).to_owned(),
        None => format!("program-{}", program.line),
    };
    let source = here.join(format!("{stem}.{ending}"));
    let built = here.join(&stem);
    fs::write(&source, &program.text).map_err(|error| format!("{}: {error}", source.display()))?;
    let debug = root().join(prefix::target()).join("debug");
    let mut compile = match program.language {
        Language::Python => {
            let mut run = Command::new(tools.python.as_deref().ok_or("there is no Python")?);
            run.arg(source);
            return Ok(run);
        }
        Language::Shell => {
            let mut run = Command::new("sh");
            let mut path = vec![debug];
            path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
            run.args(["-eu"])
                .arg(source)
                .env("PATH", std::env::join_paths(path).unwrap_or_default());
            return Ok(run);
        }
        Language::Go => {
            let installed = tools.installed.as_deref().ok_or("the C library is not installed")?;
            let module = format!(
                "module page\n\ngo 1.24\n\nrequire outlive v0.0.0\n\nreplace outlive => {}\n",
                paths::at(paths::GO).display()
            );
            fs::write(here.join("go.mod"), module).map_err(|error| error.to_string())?;
            let mut build = go::go(installed, here);
            build.args(["build", "-o"]).arg(&built).arg(&source);
            let (ended, said) =
                limited(&mut build, here, 5 * LONGEST).map_err(|error| format!("go: {error}"))?;
            return if ended.is_some_and(|status| status.success()) {
                Ok(Command::new(built))
            } else {
                Err(format!("does not compile\n{said}"))
            };
        }
        Language::Java => {
            // Java compiles a source that it is to run.
            let java = tools.java.as_ref().ok_or("there is no Java")?;
            let classes = java.package().map_err(|error| error.to_string())?;
            let mut run = java.launcher(&[&classes]);
            run.arg(&source);
            return Ok(run);
        }
        Language::Rust => {
            let mut rustc =
                Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
            rustc.args(["--edition", "2024", "-D", "warnings", "--extern"]);
            rustc.arg(format!("outlive={}", debug.join("liboutlive.rlib").display()));
            rustc.arg("-L").arg(format!("dependency={}", debug.join("deps").display()));
            rustc
        }
        Language::C | Language::Cpp => {
            let installed = tools.installed.as_deref().ok_or("the C library is not installed")?;
            let (compiler, standard) = if program.language == Language::C {
                ("cc", "-std=c17")
            } else {
                ("c++", "-std=c++20")
            };
            let mut compile = Command::new(compiler);
            compile
                .args([standard, "-Wall", "-Wextra", "-Werror", "-I"])
                .arg(installed.join("include"));
            compile
        }
    };
    compile.arg(&source).arg("-o").arg(&built);
    if let Some(installed) = tools.installed.as_deref()
        && program.language != Language::Rust
    {
        let lib = installed.join("lib");
        compile.arg("-L").arg(&lib).arg(format!("-Wl,-rpath,{}", lib.display())).arg("-loutlive");
    }
    let (ended, said) = limited(&mut compile, here, 5 * LONGEST)
        .map_err(|error| format!("the compiler of {ending}: {error}"))?;
    if ended.is_some_and(|status| status.success()) {
        Ok(Command::new(built))
    } else {
        Err(format!("does not compile\n{said}"))
    }
}

/// Runs a command for so long at most; returns how it ended (`None`: it was killed), and what it
/// printed.
fn limited(
    command: &mut Command,
    here: &Path,
    limit: Duration,
) -> io::Result<(Option<ExitStatus>, String)> {
    let path = here.join("printed");
    let printed = File::create(&path)?;
    command.stdin(Stdio::null()).stdout(printed.try_clone()?).stderr(printed);
    let mut child = command.spawn()?;
    let ended = ended_within(&mut child, limit)?;
    if ended.is_none() {
        kill_with_descendants(child.id());
        child.wait()?;
    }
    Ok((ended, String::from_utf8_lossy(&fs::read(path)?).into_owned()))
}

/// Waits for a child for so long at most.
pub(crate) fn ended_within(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if begun.elapsed() > limit {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A domain's folder of one program's own, which is removed at the end.
pub(crate) struct Domain {
    pub(crate) path: PathBuf,
}

impl Domain {
    pub(crate) fn new() -> Domain {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Relaxed: the number alone has to differ from the others.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Domain {
            path: PathBuf::from(format!("/dev/shm/outlive-page-{}-{number}", std::process::id())),
        }
    }

    /// Kills every process that has this domain in its environment, and returns when none is left.
    pub(crate) fn kill_all(&self) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            let left = self.processes();
            if left.is_empty() {
                return Ok(());
            }
            if begun.elapsed() > LONGEST {
                return Err(format!("the processes {left:?} do not end"));
            }
            let mut kill = Command::new("kill");
            kill.arg("-KILL").args(left.iter().map(u32::to_string));
            // Those that ended meanwhile are no error.
            let _ = kill.stderr(Stdio::null()).status();
        }
    }

    fn processes(&self) -> Vec<u32> {
        let domain = format!("OUTLIVE_DOMAIN={}", self.path.display());
        let is_ours = |pid: &u32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|variable| variable == domain.as_bytes())
        };
        let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
        processes
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter(is_ours)
            .collect()
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // A program that opened no domain leaves none.
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_programs_are_found_and_fragments_are_not() {
        let page = "text\n```rust,no_run\nfn main() {}\n```\n```cpp fragment\nlock();\n```\n```sh\nrm -r x\n```\n\
                    ```sh run\ntrue\n```\n```python\n# sensor.py\nimport outlive\n```\n```text\nno\n```\n";
        let found = programs("a.md", page);
        let of = |program: &Program| {
            (program.line, program.language, program.file.clone(), program.text.clone())
        };
        assert_eq!(
            found.iter().map(of).collect::<Vec<_>>(),
            [
                (2, Language::Rust, None, "fn main() {}\n".to_owned()),
                (11, Language::Shell, None, "true\n".to_owned()),
                (
                    14,
                    Language::Python,
                    Some("sensor.py".to_owned()),
                    "# sensor.py\nimport outlive\n".to_owned()
                ),
            ]
        );
    }

    #[test]
    fn a_program_that_fails_or_hangs_is_told_and_its_domain_removed() {
        let here = scratch("faulty");
        let shell = |text: &str| Program {
            page: "a.md".to_owned(),
            line: 1,
            language: Language::Shell,
            file: None,
            text: text.to_owned(),
        };
        let run = |text| run_one(&shell(text), &Tools::default(), &here);
        assert_eq!(run("mkdir $OUTLIVE_DOMAIN; echo $OUTLIVE_DOMAIN > ../of-program"), Ok(()));
        let domain =
            fs::read_to_string(here.with_file_name("of-program")).expect("written by the program");
        assert!(
            domain.starts_with("/dev/shm/outlive-page-") && !Path::new(domain.trim()).exists(),
            "{domain}"
        );
        let said = run("echo before; false; echo behind").expect_err("it fails");
        assert!(said.contains("before") && !said.contains("behind"), "{said}");
        let mut hanging = Command::new("sh");
        hanging.args(["-c", "echo begun; sleep 600 & wait"]);
        let (ended, said) =
            limited(&mut hanging, &here, Duration::from_millis(200)).expect("sh runs");
        assert_eq!((ended, said.as_str()), (None, "begun\n"));
        fs::remove_dir_all(&here).expect("removed");
        fs::remove_file(here.with_file_name("of-program")).expect("removed");
    }

    #[test]
    fn a_program_that_a_kill_spoils_is_told() {
        let here = scratch("spoilt");
        let shell = |text: &str| Program {
            page: "a.md".to_owned(),
            line: 1,
            language: Language::Shell,
            file: None,
            text: text.to_owned(),
        };
        let tried = |text| survives(&shell(text), &Tools::default(), &here, 20);
        assert_eq!(tried("mkdir -p $OUTLIVE_DOMAIN; sleep 0.02"), Ok(()));
        // A lock that a killed owner leaves for ever; and a process that outlives its shell.
        let spoilt = "mkdir -p $OUTLIVE_DOMAIN; mkdir $OUTLIVE_DOMAIN/lock; sleep 0.05; rmdir $OUTLIVE_DOMAIN/lock";
        let said = tried(spoilt).expect_err("a kill between the two leaves the lock");
        assert!(said.contains("killed after") && said.contains("lock"), "{said}");
        fs::remove_dir_all(&here).expect("removed");
    }

    #[test]
    fn the_first_page_has_programs_in_each_language() {
        let text = fs::read_to_string(root().join("README.md")).expect("readable");
        let found = programs("README.md", &text);
        for language in
            [Language::Rust, Language::C, Language::Cpp, Language::Python, Language::Shell]
        {
            assert!(found.iter().any(|program| program.language == language), "{language:?}");
        }
    }
}
