//! The Python package's wheels and its source archive, by maturin; zig's C compiler links them, so
//! that they run with a C library that is older than this machine's.
//!
//! A wheel contains the program `outlive`, too: pip puts it where it puts programs, and `python -m
//! outlive` runs it. All is built in a clone of what is committed.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{clone, files, ran, said, workshop};
use crate::count::Count;
use crate::install::{self, Need};
use crate::paths;
use crate::python::PYTHON;
use crate::stage;
use crate::vm::packages::Packages;

/// From PyPI.
const TOOLS: [&str; 3] = ["maturin>=1.9,<2", "ziglang>=0.13,<1", "auditwheel>=6,<7"];

/// A kind of wheel: the compiler's target, and the C library that the program is linked for, as zig
/// names it with its version. maturin names the wheel by the same.
struct Platform {
    target: &'static str,
    zig: &'static str,
    compatibility: &'static str,
}

const PLATFORMS: [Platform; 2] = [
    Platform {
        target: "x86_64-unknown-linux-gnu",
        zig: "x86_64-linux-gnu.2.17",
        compatibility: "manylinux2014",
    },
    Platform {
        target: "aarch64-unknown-linux-gnu",
        zig: "aarch64-linux-gnu.2.17",
        compatibility: "manylinux2014",
    },
];

/// How Debian calls the second processor and the first.
const DEBIAN: [&str; 2] = ["amd64", "arm64"];

const ZIG: Need = Need {
    program: "apt-get",
    package: "apt",
    why: "downloads the compiler's parts for another processor",
};

/// Makes the wheels and the source archive, and puts them into a folder.
pub(super) fn build(to: &Path, may_install: bool) -> io::Result<Count> {
    install::install(&[&PYTHON], may_install);
    if let Some(why) = install::lacking(&[&PYTHON]) {
        return Ok(stage::skip("wheels", &why));
    }
    let Some(tools) = tools(may_install)? else {
        return Ok(stage::skip("wheels", "maturin and zig are not here, and may not be installed"));
    };
    let source = clone("wheels-source")?;
    let package = source.join(paths::PYTHON);
    let mut count = Count::default();
    let mut maturin = in_environment(&tools, "maturin");
    maturin.args(["sdist", "--out"]).arg(to).current_dir(&package);
    said(&mut maturin)?;
    name_data(&package.join("pyproject.toml"))?;
    for platform in &PLATFORMS {
        let compiler = if platform.target.starts_with(std::env::consts::ARCH) {
            Vec::new()
        } else {
            match other_processor(may_install) {
                Ok(compiler) => compiler,
                Err(why) => {
                    count.add(stage::skip(&format!("wheel for {}", platform.target), &why));
                    continue;
                }
            }
        };
        println!("a wheel for {}, {}", platform.target, platform.compatibility);
        platform.program(&tools, &source, &compiler)?;
        platform.wheel(&tools, &package, &compiler, to)?;
        count.add(Count::PASSED);
    }
    for file in files(to, "")? {
        println!("{}", file.file_name().unwrap_or_default().to_string_lossy());
    }
    Ok(count)
}

/// The folder of what a wheel has beside the package, in the form in which pip unpacks it.
const DATA: &str = "outlive.data";

/// Names that folder in the package's description: the repository has none.
fn name_data(description: &Path) -> io::Result<()> {
    let text = fs::read_to_string(description)?;
    let heading = "[tool.maturin]\n";
    if !text.contains(heading) {
        return Err(io::Error::other("pyproject.toml says nothing to maturin"));
    }
    fs::write(description, text.replace(heading, &format!("{heading}data = \"{DATA}\"\n")))
}

impl Platform {
    /// Builds the program, and puts it where maturin takes what a wheel has beside the package.
    fn program(
        &self,
        tools: &Path,
        source: &Path,
        compiler: &[(String, PathBuf)],
    ) -> io::Result<()> {
        let linker = workshop().join(format!("zig-{}", self.target));
        let zig = tools.join("bin/python");
        let script = format!(
            "#!/bin/sh\nexec {} -m ziglang cc -target {} \"$@\"\n",
            zig.display(),
            self.zig
        );
        fs::write(&linker, script)?;
        fs::set_permissions(&linker, fs::Permissions::from_mode(0o755))?;
        let variable = self.target.replace('-', "_");
        let mut build = crate::test::cargo(&["build", "--quiet", "--profile", "dist"]);
        build.args(["-p", "outlive-cli", "--target", self.target]).current_dir(source);
        build.env(format!("CARGO_TARGET_{}_LINKER", variable.to_uppercase()), &linker);
        build.env(format!("CC_{variable}"), &linker).env("CARGO_TARGET_DIR", built());
        build.env("CARGO_PROFILE_DIST_STRIP", "debuginfo");
        build.envs(compiler.iter().cloned());
        ran(&mut build)?;
        let scripts = source.join(paths::PYTHON).join(DATA).join("scripts");
        fs::create_dir_all(&scripts)?;
        fs::copy(built().join(self.target).join("dist/outlive"), scripts.join("outlive"))?;
        Ok(())
    }

    fn wheel(
        &self,
        tools: &Path,
        package: &Path,
        compiler: &[(String, PathBuf)],
        to: &Path,
    ) -> io::Result<()> {
        let mut maturin = in_environment(tools, "maturin");
        maturin.args(["build", "--quiet", "--zig", "--strip", "--target", self.target]);
        maturin.args(["--compatibility", self.compatibility, "--out"]).arg(to);
        // A linker that is named for cargo would be taken in the place of zig's.
        let linker =
            format!("CARGO_TARGET_{}_LINKER", self.target.replace('-', "_").to_uppercase());
        maturin.current_dir(package).env("CARGO_TARGET_DIR", built()).env_remove(linker);
        maturin.envs(compiler.iter().cloned());
        said(&mut maturin).map(drop)
    }
}

/// Returns cargo's folder for what wheels consist of.
fn built() -> PathBuf {
    workshop().join("wheels-target")
}

/// Returns the variables by which cargo takes a compiler that has the other processor's standard
/// library: Debian's, as `cargo xtask vm` takes it.
fn other_processor(may_install: bool) -> Result<Vec<(String, PathBuf)>, String> {
    if let Some(why) = install::lacking(&[&ZIG]) {
        return Err(why);
    }
    let folder = workshop().parent().unwrap_or(Path::new("")).join("vm");
    let packages = Packages::open(&folder, may_install)?;
    let (host, other) = match std::env::consts::ARCH {
        "x86_64" => (DEBIAN[0], DEBIAN[1]),
        _ => (DEBIAN[1], DEBIAN[0]),
    };
    let rust = packages.rust(host, other)?;
    let lib = rust.join(format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH));
    Ok(vec![("RUSTC".to_owned(), rust.join("usr/bin/rustc")), ("LD_LIBRARY_PATH".to_owned(), lib)])
}

/// Returns the environment that has the tools, which are installed if they may be.
fn tools(may_install: bool) -> io::Result<Option<PathBuf>> {
    let tools = workshop().join("tools");
    let is_complete = || {
        let mut ask = Command::new(tools.join("bin/python"));
        said(ask.args(["-c", "import auditwheel, maturin, ziglang"])).is_ok()
    };
    if !is_complete() && may_install {
        println!("{}: pip gets them from PyPI", TOOLS.join(", "));
        ran(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&tools))?;
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        ran(Command::new(tools.join("bin/python")).args(pip).args(TOOLS))?;
    }
    Ok(is_complete().then_some(tools))
}

/// Returns a program of the tools' environment, which finds the others there.
fn in_environment(tools: &Path, program: &str) -> Command {
    let bin = tools.join("bin");
    let mut path = vec![bin.clone()];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let mut command = Command::new(bin.join(program));
    command.env("VIRTUAL_ENV", tools).env("PATH", std::env::join_paths(path).unwrap_or_default());
    command.env_remove("PYTHONPATH");
    command
}

/// Has auditwheel look at each wheel: whether it needs no newer C library than its name says.
pub(super) fn audit(folder: &Path) -> io::Result<Count> {
    let tools = workshop().join("tools");
    let mut count = Count::default();
    for wheel in files(folder, ".whl")? {
        let said = said(in_environment(&tools, "auditwheel").arg("show").arg(&wheel))?;
        let name = wheel.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match audited(&name, &said) {
            Ok(tag) => {
                println!("auditwheel: {name} is {tag}");
                count.add(Count::PASSED);
            }
            Err(why) => {
                println!("auditwheel, {name}: {why}");
                count.add(Count::FAILED);
            }
        }
    }
    Ok(count)
}

/// Returns the platform that auditwheel says the wheel is for; or its words, if the name says
/// another.
fn audited<'a>(wheel: &str, said: &'a str) -> Result<&'a str, &'a str> {
    let tag = said
        .split_once("following platform tag:")
        .and_then(|(_, rest)| rest.split('"').nth(1))
        .ok_or(said)?;
    if wheel.trim_end_matches(".whl").split(['-', '.']).any(|part| part == tag) {
        Ok(tag)
    } else {
        Err(said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auditwheel_has_to_say_what_the_name_says() {
        let said = "x is consistent with the\nfollowing platform tag: \"manylinux_2_17_x86_64\".\n";
        let wheel = "outlive-0.1.0-cp311-abi3-manylinux2014_x86_64.manylinux_2_17_x86_64.whl";
        assert_eq!(audited(wheel, said), Ok("manylinux_2_17_x86_64"));
        assert!(audited(wheel, &said.replace("2_17", "2_34")).is_err());
        assert!(audited(wheel, "this is no wheel").is_err());
    }
}
