//! Calls from C beside Rust's own: the same loops in both languages (`calls.c`, `calls.rs`), each
//! in a program of its own.
//!
//! | row | what it is |
//! | --- | --- |
//! | `lock rust` | Rust's own calls, inlined where they are |
//! | `lock static` | C, linked with `liboutlive.a` |
//! | `lock shared` | C, linked with `liboutlive.so.0`, every symbol bound when the program starts |
//!
//! By time, or with `--instructions` by the machine's instructions (`steps.rs`).

pub(crate) mod calls;
mod count;

use clap::Args;
use outlive_bench::harness::crew::Crew;
use outlive_bench::harness::report::Title;
use outlive_bench::harness::round::{Contender, Figure, Group, Stage};
use outlive_bench::harness::scratch::Scratch;
use outlive_bench::harness::{Common, Prepared};
use outlive_bench::{self, Error};
use outlive_testkit::engine::control::Control;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;
use std::{env, fs};

const OPERATIONS: [&str; 6] = ["lock", "send", "recv", "publish", "publish_copy", "take"];

/// The arguments of `c`.
#[derive(Args, Clone, Debug)]
pub(crate) struct CArgs {
    /// Count instructions, by single steps, instead of time
    #[arg(long)]
    instructions: bool,

    /// Where `cargo xtask install` has put the C library already, instead of building it now
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,

    #[command(flatten)]
    pub common: Common,
}

/// A program that makes the calls.
#[derive(Clone, Debug)]
struct Program {
    /// In the rows' names.
    language: &'static str,
    path: PathBuf,
    /// Before the arguments that both languages have.
    first: Option<&'static str>,
}

impl Program {
    fn arguments(
        &self,
        operation: &str,
        domain: &Path,
        control: &Path,
        how: &str,
        count: u64,
    ) -> Vec<String> {
        let [domain, control] = [domain, control].map(|path| path.to_string_lossy().into_owned());
        let first = self.first.map(str::to_owned);
        first
            .into_iter()
            .chain([operation.into(), domain, control, how.into(), count.to_string()])
            .collect()
    }
}

struct Row {
    name: &'static str,
    operation: &'static str,
    program: Program,
}

impl Contender for Row {
    fn name(&self) -> &'static str {
        self.name
    }

    fn turn(&mut self, stage: &Stage, operations: u64) -> Result<Figure, Error> {
        let place = stage.scratch.inner("calls")?;
        let system = |doing| move |source| Error::System { doing, source };
        let [domain, page] = ["domain", "control"].map(|name| place.path().join(name));
        let control = Control::open(&page).map_err(system("making a page for a program"))?;
        let arguments = self.program.arguments(self.operation, &domain, &page, "time", operations);
        let mut crew = Crew::new()?;
        crew.start("caller", stage.first_core(), || {
            let error = Command::new(&self.program.path).args(&arguments).exec();
            Err(Error::System { doing: "starting a program that calls", source: error })
        })?;
        let preempted = crew.finish(stage.turn_limit)?;
        let span = control.note(0);
        Ok(Figure {
            ns: span as f64 / control.note(1).max(1) as f64,
            span: Duration::from_nanos(span),
            preempted,
            tail: [None; 2],
        })
    }
}

/// Runs it.
pub(crate) fn run(args: &CArgs) -> Result<ExitCode, Error> {
    let built = Scratch::under(&env::temp_dir())?;
    let programs = build(built.path(), args.prefix.as_deref())?;
    if args.instructions {
        return count::run(&programs, &built, args.common.json);
    }
    let named = |operation, program: &Program| -> &'static str {
        format!("{operation} {}", program.language).leak()
    };
    let group = |operation| Group {
        setting: None,
        rows: programs
            .iter()
            .map(|program| {
                let name = named(operation, program);
                Box::new(Row { name, operation, program: program.clone() }) as Box<dyn Contender>
            })
            .collect(),
        baseline: named(operation, &programs[0]),
        kinds_differ: false,
    };
    let title = Title {
        bench: "c",
        mode: "time",
        meaning: "one call, or lock and unlock",
        ours: &[],
        rate_of: None,
    };
    let groups = OPERATIONS.into_iter().map(group).collect();
    let prepared = Prepared { groups, ..Prepared::of(title, Vec::new(), "").alone() };
    let _signals = outlive_bench::harness::begin(args.common.limit, args.common.nice)?;
    outlive_bench::harness::tell(
        &outlive_bench::harness::measure(prepared, &args.common)?,
        &args.common,
    )
}

/// Returns the programs; the first is Rust's.
fn build(folder: &Path, prefix: Option<&Path>) -> Result<[Program; 3], Error> {
    let source = |source| Error::System { doing: "building the programs that call", source };
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    if prefix.is_none() {
        let mut install = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        install
            .args(["run", "--quiet", "-p", "xtask", "--", "install", "--prefix"])
            .arg(folder)
            .current_dir(root);
        succeed(&mut install, "the C library could not be built")?;
    }
    let prefix = prefix.unwrap_or(folder);
    for (name, text) in [
        ("calls.c", include_str!("calls.c")),
        ("stage.h", include_str!("../../../testkit/c/stage.h")),
    ] {
        fs::write(folder.join(name), text).map_err(source)?;
    }
    let lib = prefix.join("lib");
    let compile = |language: &'static str, with: &[&str]| {
        let path = folder.join(language);
        let mut compile = Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()));
        compile
            .args(["-O2", "-Wall", "-Werror", "-Wl,-z,now"])
            .arg("-I")
            .arg(prefix.join("include"));
        compile
            .arg("-I")
            .arg(folder)
            .arg(folder.join("calls.c"))
            .arg("-L")
            .arg(&lib)
            .arg(format!("-Wl,-rpath,{}", lib.display()));
        compile.args(with).arg("-o").arg(&path);
        succeed(&mut compile, "no C compiler, or it could not compile and link calls.c")?;
        Ok(Program { language, path, first: None })
    };
    let rust = Program {
        language: "rust",
        path: env::current_exe().map_err(source)?,
        first: Some("c-caller"),
    };
    let by_hand = ["-l:liboutlive.a", "-lpthread", "-ldl", "-lm"];
    Ok([rust, compile("static", &by_hand)?, compile("shared", &["-loutlive"])?])
}

fn succeed(command: &mut Command, otherwise: &str) -> Result<(), Error> {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
    let status = status.map_err(|source| Error::System { doing: "starting a compiler", source })?;
    if status.success() { Ok(()) } else { Err(Error::Refused(otherwise.to_owned())) }
}
