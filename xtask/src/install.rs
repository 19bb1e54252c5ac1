//! What the tests need beside the compiler: installed from Debian's packages where that may be
//! done.

use std::process::{Command, Stdio};

/// A program that a stage needs, the package that has it, and what it is needed for. Packages without a
/// program that it needs follow its package.
pub(crate) struct Need {
    pub(crate) program: &'static str,
    pub(crate) package: &'static str,
    pub(crate) why: &'static str,
}

const fn need(program: &'static str, package: &'static str, why: &'static str) -> Need {
    Need { program, package, why }
}

pub(crate) const SPIN: Need = need("spin", "spin", "checks the Promela models");
pub(crate) const TCC: Need =
    need("tcc", "tcc", "compiles a model ten times as fast as gcc, where it is run but briefly");
pub(crate) const CC: Need = need("gcc", "gcc", "compiles the models, and the tests in C and C++");
pub(crate) const CMAKE: Need = need("cmake", "cmake", "builds the tests in C and C++ as users do");
pub(crate) const MUSL: Need =
    need("musl-gcc", "musl-tools", "shows that robust lists work with musl, the other C library");

/// Returns whether a program can be started.
pub(crate) fn is_there(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|folder| folder.join(program).is_file())
}

/// Installs what is missing of `needs`, after it has said what that is and why; returns what still
/// is missing.
pub(crate) fn install(needs: &[&Need], may_install: bool) -> Vec<&'static str> {
    let missing = || needs.iter().filter(|need| !is_there(need.program));
    if missing().next().is_some()
        && may_install
        && let Some(apt) = apt_get()
    {
        let packages: Vec<&str> = missing().map(|need| need.package).collect();
        println!("these programs are missing, and '{} install' gets them:", apt.join(" "));
        missing().for_each(|need| println!("  {}", line(need)));
        run(&apt, &["update", "-qq"]);
        let mut args = vec!["install", "-y", "-qq", "--no-install-recommends"];
        args.extend(packages.iter().flat_map(|package| package.split(' ')));
        run(&apt, &args);
    }
    missing().map(|need| need.program).collect()
}

/// Returns what a package is for.
fn line(need: &Need) -> String {
    format!("{}: {}", need.package, need.why)
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
        let absent = |program| need(program, "none", "nothing");
        let (first, second) = (absent("outlive-no-such-program"), absent("outlive-nor-this-one"));
        let there = need("sh", "dash", "runs commands");
        assert_eq!(lacking(&[&there]), None);
        let why = lacking(&[&first, &there, &second]).expect("two are missing");
        assert_eq!(
            why,
            "there is no outlive-no-such-program and no outlive-nor-this-one here, and none was installed"
        );
    }

    #[test]
    fn each_package_says_what_it_is_for() {
        assert_eq!(line(&SPIN), "spin: checks the Promela models");
        let all = [&SPIN, &TCC, &CC, &CMAKE, &MUSL, &crate::python::PYTHON];
        assert!(all.iter().all(|need| need.why.split(' ').count() > 2));
        assert!(install(&[&need("sh", "dash", "runs commands")], true).is_empty());
    }
}
