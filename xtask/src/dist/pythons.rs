//! The wheel of this machine in a bare environment of each Python that the machine has: installed
//! without an index, and used.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use super::{files, said, workshop};
use crate::count::Count;
use crate::stage;

/// The stable interface that the package is compiled for begins with 3.11.
const OLDEST: u32 = 11;
const NEWEST: u32 = 20;

/// What a user's first program does, in two processes.
const PROGRAM: &str = r#"
import importlib.metadata, os, pathlib, shutil, subprocess, sys, tempfile
import outlive, outlive.bag
version = sys.argv[1]
assert outlive.__version__ == importlib.metadata.version("outlive") == version
with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
    os.environ["OUTLIVE_DOMAIN"] = folder
    queue = outlive.Queue("jobs")
    code = "import outlive; outlive.Queue('jobs').put({'n': 3})"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert queue.get() == {"n": 3}
package = pathlib.Path(outlive.__file__).parent
assert (package / "py.typed").exists() and (package / "_outlive.pyi").exists()
program = str(pathlib.Path(sys.executable).with_name("outlive"))
for command in ([sys.executable, "-m", "outlive"], [program]):
    said = subprocess.run([*command, "--version"], check=True, capture_output=True, text=True).stdout
    assert said.strip() == f"outlive {version}", said
failed = subprocess.run([sys.executable, "-m", "outlive", "no-such-verb"], capture_output=True)
assert failed.returncode == 2, failed
"#;

pub(super) fn check(folder: &Path) -> io::Result<Count> {
    let ending = format!("_{}.whl", std::env::consts::ARCH);
    let wheels = files(folder, &ending)?;
    let Some(wheel) = wheels.first() else {
        println!("there is no wheel for this machine");
        return Ok(Count::FAILED);
    };
    let mut count = Count::default();
    for python in (OLDEST..=NEWEST).map(|minor| format!("python3.{minor}")) {
        // Its shim may be there without it.
        if said(Command::new(&python).args(["-c", "import ensurepip, venv"])).is_err() {
            continue;
        }
        match used(&python, wheel) {
            Ok(()) => {
                println!("{python}: installed and used");
                count.add(Count::PASSED);
            }
            Err(error) => {
                println!("{python}: {error}");
                count.add(Count::FAILED);
            }
        }
    }
    if count == Count::default() {
        return Ok(stage::skip("the wheel", "there is no Python from 3.11 on here, with venv"));
    }
    Ok(count)
}

fn used(python: &str, wheel: &Path) -> io::Result<()> {
    let environment = workshop().join(python);
    said(Command::new(python).args(["-m", "venv", "--clear"]).arg(&environment))?;
    let inside = || {
        let mut command = Command::new(environment.join("bin/python"));
        command.env_remove("PYTHONPATH").env_remove("OUTLIVE_DOMAIN").current_dir(workshop());
        command
    };
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"];
    said(inside().args(pip).arg(wheel))?;
    said(inside().args(["-c", PROGRAM, env!("CARGO_PKG_VERSION")]))?;
    fs::remove_dir_all(&environment)
}
