//! `cargo xtask gpu`: all checks and benchmarks that need a GPU, and their figures in a file.
//!
//! The checks with the fake driver are those of `cargo test -p outlive-gpu`. On a machine with a
//! GPU those that need no fake run on it, too, and then the benchmark. With `--fake` the fake
//! driver takes the GPU's place throughout: so the command itself is tried on an ordinary machine.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::count::Count;
use crate::paths::root;
use crate::stage::{self, Counts};
use crate::test::cargo;

const USAGE: &str = "usage: cargo xtask gpu [--fake] [--out FILE]";

pub(crate) fn run(args: &[String]) -> ExitCode {
    let (mut is_fake, mut out) = (false, target().join("gpu.md"));
    let mut words = args.iter();
    while let Some(word) = words.next() {
        match (word.as_str(), words.as_slice().first()) {
            ("--fake", _) => is_fake = true,
            ("--out", Some(file)) => {
                out = PathBuf::from(file);
                words.next();
            }
            _ => {
                eprintln!("{USAGE}");
                return ExitCode::from(2);
            }
        }
    }
    let mut total = Count::default();
    total.add(stage::run_long(
        "with the fake driver",
        cargo(&["test", "-p", "outlive-gpu"]),
        Counts::ByLines,
    ));
    let fake = target().join("release/deps/liboutlive_gpu_fake.so");
    let mut program = cargo(&[
        "run",
        "--release",
        "--quiet",
        "-p",
        "outlive-gpu",
        "--example",
        "gpu_roads",
        "--",
    ]);
    if is_fake {
        program.arg("--driver").arg(fake);
    } else {
        let probe = cargo(&[
            "run",
            "--release",
            "--quiet",
            "-p",
            "outlive-gpu",
            "--example",
            "gpu_roads",
            "--",
            "--probe",
        ]);
        if !is_there(probe) {
            println!(
                "\nThere is no GPU that can be used here: the fake driver's checks are all that ran, nothing was measured."
            );
            println!(
                "On a machine with one: cargo xtask gpu. To try this command without: cargo xtask gpu --fake."
            );
            println!("{total}");
            return ExitCode::FAILURE;
        }
        let mut on_gpu = cargo(&[
            "test",
            "-p",
            "outlive-gpu",
            "--test",
            "device",
            "--test",
            "deaths",
            "--test",
            "block_deaths",
        ]);
        on_gpu.env("OUTLIVE_GPU_DRIVER", "libcuda.so.1");
        total.add(stage::run_long("on the GPU", on_gpu, Counts::ByLines));
    }
    program.arg("--out").arg(&out);
    total.add(stage::run_long("from GPU to GPU", program, Counts::ByExit));
    if let Ok(page) = std::fs::read_to_string(&out) {
        println!("\n{page}\nwritten to {}", out.display());
    }
    println!("{total}");
    if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn is_there(mut probe: Command) -> bool {
    println!("\n== which GPU");
    probe.status().is_ok_and(|status| status.success())
}

fn target() -> PathBuf {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    root().join(target)
}
