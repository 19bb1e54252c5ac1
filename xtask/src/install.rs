//! What the tests need beside the compiler: installed from Debian's packages where that may be
//! done.

use std::process::{Command, Stdio};

/// A program that a stage needs, and the package that has it.
pub(crate) struct Need {
    pub(crate) program: &'static str,
    pub(crate) package: &'static str,
}

pub(crate) const SPIN: Need = Need { program: "spin", package: "spin" };
/// Compiles a model ten times as fast as gcc, and what it makes runs half as fast.
pub(crate) const TCC: Need = Need { program: "tcc", package: "tcc" };
pub(crate) const CC: Need = Need { program: "gcc", package: "gcc" };
pub(crate) const CMAKE: Need = Need { program: "cmake", package: "cmake" };
pub(crate) const MUSL: Need = Need { program: "musl-gcc", package: "musl-tools" };

/// Returns whether a program can be started.
pub(crate) fn is_there(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|folder| folder.join(program).is_file())
}

/// Installs what is missing of `needs`; says what still is.
pub(crate) fn install(needs: &[&Need], may_install: bool) -> Vec<&'static str> {
    let missing = |needs: &[&Need]| -> Vec<(&'static str, &'static str)> {
        needs
            .iter()
            .filter(|need| !is_there(need.program))
            .map(|need| (need.program, need.package))
            .collect()
    };
    let lacking = missing(needs);
    if lacking.is_empty() || !may_install {
        return lacking.into_iter().map(|(program, _)| program).collect();
    }
    let packages: Vec<&str> = lacking.iter().map(|(_, package)| *package).collect();
    println!("installing {} from the system's packages", packages.join(" "));
    if let Some(apt) = apt_get() {
        run(&apt, &["update", "-qq"]);
        let mut args = vec!["install", "-y", "-qq", "--no-install-recommends"];
        args.extend(&packages);
        run(&apt, &args);
    }
    missing(needs).into_iter().map(|(program, _)| program).collect()
}

/// Says in one line why a verb that needs all of these programs cannot begin; `None` if it can.
pub(crate) fn lacking(needs: &[&Need]) -> Option<String> {
    let missing: Vec<&str> =
        needs.iter().map(|need| need.program).filter(|program| !is_there(program)).collect();
    (!missing.is_empty())
        .then(|| format!("there is no {} here, and none was installed", missing.join(" and no ")))
}

/// Returns how to call `apt-get`: as root or by a sudo that asks nothing.
fn apt_get() -> Option<Vec<&'static str>> {
    if !is_there("apt-get") {
        return None;
    }
    let id = Command::new("id").arg("-u").output().ok()?;
    if id.stdout.trim_ascii() == b"0" {
        return Some(vec!["apt-get"]);
    }
    let sudo = Command::new("sudo").args(["-n", "true"]).stdin(Stdio::null()).status().ok()?;
    sudo.success().then(|| vec!["sudo", "-n", "apt-get"])
}

fn run(apt: &[&str], args: &[&str]) {
    let Some((program, first)) = apt.split_first() else {
        return;
    };
    let mut command = Command::new(program);
    command
        .args(first)
        .args(args)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    // Failed: seen by what is still missing afterwards.
    let _ = command.status();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_in_one_line() {
        let absent = |program| Need { program, package: "none" };
        let (first, second) = (absent("outlive-no-such-program"), absent("outlive-nor-this-one"));
        let there = Need { program: "sh", package: "dash" };
        assert_eq!(lacking(&[&there]), None);
        let why = lacking(&[&first, &there, &second]).expect("two are missing");
        assert_eq!(
            why,
            "there is no outlive-no-such-program and no outlive-nor-this-one here, and none was installed"
        );
    }
}
