//! `cargo xtask gpu`: all checks and benchmarks that need a GPU, and their figures in a file.
//!
//! The checks with the fake driver are those of `cargo test -p outlive-gpu`. On a machine with a
//! GPU those that need no fake run on it, too, and then the benchmark. With `--fake` the fake
//! driver takes the GPU's place throughout: so the command itself is tried on an ordinary machine.
//!
//! A machine with a GPU often has no Rust, and sometimes no network. For it `--pack FOLDER` puts
//! the same programs, the Python package and a script `run` into a folder, which is copied there.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use serde::Deserialize;

use crate::count::Count;
use crate::paths::{self, root};
use crate::prefix;
use crate::stage::{self, Counts};
use crate::test::cargo;

const USAGE: &str = "usage: cargo xtask gpu [--fake] [--out FILE] | --pack FOLDER";

/// The tests that need no fake driver.
const ON_ANY_DRIVER: [&str; 4] = ["device", "kernels", "deaths", "block_deaths"];
/// Loaded by every test, also where another driver is tested.
const FAKE: &str = "liboutlive_gpu_fake.so";

enum What {
    Check { is_fake: bool, out: PathBuf },
    Pack { folder: PathBuf },
}

pub(crate) fn run(args: &[String]) -> ExitCode {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let out = |file: &str| PathBuf::from(file);
    let what = match words[..] {
        [] => What::Check { is_fake: false, out: target().join("gpu.md") },
        ["--fake"] => What::Check { is_fake: true, out: target().join("gpu.md") },
        ["--out", file] => What::Check { is_fake: false, out: out(file) },
        ["--fake", "--out", file] | ["--out", file, "--fake"] => {
            What::Check { is_fake: true, out: out(file) }
        }
        ["--pack", folder] if !folder.starts_with('-') => What::Pack { folder: folder.into() },
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match what {
        What::Check { is_fake, out } => check(is_fake, &out),
        What::Pack { folder } => match pack(&folder) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{}: {error}", folder.display());
                ExitCode::FAILURE
            }
        },
    }
}

fn check(is_fake: bool, out: &Path) -> ExitCode {
    let mut total = Count::default();
    total.add(stage::run_long(
        "with the fake driver",
        cargo(&["test", "-p", "outlive-gpu"]),
        Counts::ByLines,
    ));
    let mut program = example("gpu_roads");
    if is_fake {
        program.arg("--driver").arg(target().join("dist/deps").join(FAKE));
    } else {
        let mut probe = example("gpu_roads");
        println!("\n== which GPU");
        if !probe.arg("--probe").status().is_ok_and(|status| status.success()) {
            println!(
                "\nThere is no GPU that can be used here: the fake driver's checks are all that ran, nothing was measured."
            );
            println!(
                "On a machine with one: cargo xtask gpu. For a machine without Rust: cargo xtask gpu --pack FOLDER. \
                 To try this command without: cargo xtask gpu --fake."
            );
            println!("{total}");
            return ExitCode::FAILURE;
        }
        let tests = ON_ANY_DRIVER.iter().flat_map(|name| ["--test", name]);
        let mut on_gpu = cargo(&["test", "-p", "outlive-gpu", "--no-fail-fast"]);
        on_gpu.args(tests).env("OUTLIVE_GPU_DRIVER", "libcuda.so.1");
        total.add(stage::run_long("on the GPU", on_gpu, Counts::ByLines));
    }
    program.arg("--out").arg(out);
    total.add(stage::run_long("from GPU to GPU", program, Counts::ByExit));
    if let Ok(page) = fs::read_to_string(out) {
        println!("\n{page}\nwritten to {}", out.display());
    }
    println!("{total}");
    if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn example(name: &str) -> Command {
    cargo(&["run", "--profile", "dist", "--quiet", "-p", "outlive-gpu", "--example", name, "--"])
}

/// A line of `cargo --message-format=json`, as far as it is asked for here.
#[derive(Deserialize)]
struct Message {
    target: Option<Target>,
    executable: Option<PathBuf>,
    #[serde(default)]
    filenames: Vec<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

fn pack(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let package = folder.join("outlive");
    fs::create_dir_all(&package)?;
    let optimized = |arguments: &[&str]| {
        let mut build = cargo(&["build", "--profile", "dist"]);
        build.args(arguments);
        build
    };
    let mut with_tests = cargo(&["test", "--no-run", "-p", "outlive-gpu"]);
    with_tests.args(ON_ANY_DRIVER.iter().flat_map(|name| ["--test", name]));
    // What to build, and which of its targets are packed: with the target's name, or with that one.
    let builds = [
        (with_tests, "test", None),
        (
            optimized(&["-p", "outlive-gpu", "--example", "gpu_roads", "--example", "gpu_frames"]),
            "example",
            None,
        ),
        (optimized(&["-p", "outlive-py", "--lib"]), "cdylib", Some("outlive/_outlive.abi3.so")),
        (optimized(&["-p", "outlive-c", "--lib"]), "cdylib", Some(prefix::SONAME)),
    ];
    for (mut build, kind, name) in builds {
        for (target, file) in built(&mut build)? {
            if target.kind.iter().any(|one| one == kind) {
                put(&file, &folder.join(name.unwrap_or(&target.name)))?;
            } else if kind == "test" && file.ends_with(FAKE) {
                put(&file, &folder.join(FAKE))?;
            }
        }
    }
    for entry in fs::read_dir(paths::at(paths::PYTHON).join("outlive"))?.flatten() {
        let name = entry.file_name();
        if name.to_string_lossy().ends_with(".py") {
            fs::copy(entry.path(), package.join(name))?;
        }
    }
    let of_c = paths::at(paths::C);
    for header in ["outlive.h", "outlive_gpu.h"] {
        fs::copy(of_c.join("include").join(header), folder.join(header))?;
    }
    fs::copy(of_c.join("tests/cuda/test_cuda.cu"), folder.join("test_cuda.cu"))?;
    for file in ["conftest.py", "test_gpu_frameworks.py"] {
        fs::copy(paths::at(paths::PYTHON).join("tests").join(file), folder.join(file))?;
    }
    let script = folder.join("run");
    let text = SCRIPT.replace("TESTS", &ON_ANY_DRIVER.join(" ")).replace("SONAME", prefix::SONAME);
    fs::write(&script, text)?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    println!(
        "copy {} to the machine with the GPU, and start {}/run there",
        folder.display(),
        folder.display()
    );
    Ok(())
}

/// What a packed folder runs; its last line counts as the other commands' do.
const SCRIPT: &str = r#"#!/bin/sh
# Made by `cargo xtask gpu --pack`. Runs what needs a GPU: the tests that need no fake driver, the
# Python package with the frameworks that are installed, a program of CUDA C++ where nvcc is, the
# film, and the benchmark.
# usage: run [FOLDER]; figures and pictures go there, or to this folder.
cd "$(dirname "$0")" || exit 1
out=${1:-$PWD}
failed=0 passed=0
# One more of those; its name, and then what runs.
stage() {
    echo "== $1"
    shift
    if timeout 300 "$@" 2>&1; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED: $*"; fi
}
for test in TESTS; do
    stage "$test" env OUTLIVE_GPU_DRIVER=libcuda.so.1 "./$test"
done
if python3 -c 'import pytest' 2>/dev/null; then
    stage "Python with frameworks" env PYTHONPATH="$PWD" python3 -m pytest -q -rs -p no:cacheprovider test_gpu_frameworks.py
fi
if nvcc --version >/dev/null 2>&1; then
    ln -sf "$PWD/SONAME" "$out/liboutlive.so"
    if nvcc -I. -o "$out/test_cuda" test_cuda.cu -L"$out" -loutlive -Xlinker -rpath="$PWD"; then
        stage "CUDA C++" "$out/test_cuda"
        rm "$out/test_cuda" "$out/liboutlive.so"
    else
        failed=$((failed + 1))
    fi
fi
stage "the film" ./gpu_frames --out "$out/film"
stage "from GPU to GPU" ./gpu_roads --out "$out/gpu.md"
cat "$out/gpu.md"
echo "$passed passed, $failed failed"
test "$failed" = 0
"#;

/// Returns what cargo has built.
fn built(command: &mut Command) -> io::Result<Vec<(Target, PathBuf)>> {
    let command = command.args(["--quiet", "--message-format=json"]).stderr(Stdio::inherit());
    let output = command.output()?;
    if !output.status.success() {
        return Err(io::Error::other("its programs could not be built"));
    }
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    let messages = lines.lines().filter_map(|line| serde_json::from_str::<Message>(line).ok());
    Ok(messages
        .filter_map(|message| {
            let file = message.executable.or_else(|| {
                let mut files = message.filenames.into_iter();
                files.find(|file| file.extension().is_some_and(|end| end == "so"))
            })?;
            Some((message.target?, file))
        })
        .collect())
}

/// Copies a program without what only a debugger reads.
fn put(from: &Path, to: &Path) -> io::Result<()> {
    let stripped = Command::new("strip").arg("--strip-debug").arg("-o").arg(to).arg(from).status();
    if stripped.is_ok_and(|status| status.success()) {
        Ok(())
    } else {
        fs::copy(from, to).map(drop)
    }
}

fn target() -> PathBuf {
    root().join(prefix::target())
}
