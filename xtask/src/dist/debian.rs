//! Debian's packages, by debhelper: packaging/debian says what each has and needs. `cargo xtask
//! install` puts all files below a folder, and dh_install takes them from there.
//!
//! What lies in packaging/systemd and packaging/tmpfiles goes into the package of the programs.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{commit_time, empty, files, ran, said, workshop};
use crate::count::Count;
use crate::install::{self, Need};
use crate::paths::{self, root};
use crate::prefix::{self, Installation, Profile, put};
use crate::stage;
use crate::test::cargo;

const DEBHELPER: Need = Need {
    program: "dh",
    package: "debhelper dh-python dpkg-dev fakeroot",
    why: "makes Debian's packages",
};
const DH_PYTHON: Need = Need {
    program: "dh_python3",
    package: "dh-python",
    why: "knows where Debian's Python has its modules",
};
const LINTIAN: Need =
    Need { program: "lintian", package: "lintian", why: "checks Debian's packages" };

/// What the packages are called that must come of it.
pub(super) const PACKAGES: [&str; 5] =
    ["liboutlive-dev", "liboutlive-pthread", "liboutlive0", "outlive", "python3-outlive"];

const UNITS: [&str; 7] = [".service", ".timer", ".socket", ".path", ".slice", ".target", ".mount"];

/// The files of systemd's that go into the package of the programs: a folder of the project, where
/// its files go, and the endings of their names.
const FOR_SYSTEMD: [(&str, &str, &[&str]); 3] = [
    ("packaging/systemd", "lib/systemd/system", &UNITS),
    ("packaging/systemd/user", "usr/lib/systemd/user", &UNITS),
    ("packaging/tmpfiles", "usr/lib/tmpfiles.d", &[".conf"]),
];

/// Makes the packages, and puts them into a folder.
pub(super) fn build(to: &Path, profile: Profile, may_install: bool) -> io::Result<Count> {
    let needs = [&DEBHELPER, &DH_PYTHON, &install::CC];
    install::install(&needs, may_install);
    if let Some(why) = install::lacking(&needs) {
        return Ok(stage::skip("Debian's packages", &why));
    }
    let version = env!("CARGO_PKG_VERSION");
    let here = workshop().join("debian");
    empty(&here)?;
    let source = here.join(format!("outlive-{version}"));
    fs::create_dir_all(source.join("debian"))?;
    let installed = source.join("installed");
    install_files(&installed, profile)?;
    install_python(&installed, profile)?;
    describe(&source, &install_for_systemd(&installed)?)?;
    fs::copy(root().join("CHANGELOG.md"), source.join("CHANGELOG.md"))?;
    let mut make = Command::new("dpkg-buildpackage");
    // Rust is not Debian's here (-d), and there is nothing to clean up before (-nc).
    make.args(["--build=binary", "--no-sign", "-d", "-nc"]).current_dir(&source);
    make.env("SOURCE_DATE_EPOCH", commit_time()?).env("DEB_BUILD_OPTIONS", "nocheck");
    said(&mut make)?;
    let made = files(&here, ".deb")?;
    for package in &made {
        let name = package.file_name().unwrap_or_default();
        put(package, &to.join(name))?;
        println!("{}", name.to_string_lossy());
    }
    let is_made = |package: &&str| {
        let begins = format!("{package}_{version}-");
        made.iter().any(|file| {
            file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&begins))
        })
    };
    let missing: Vec<&str> = PACKAGES.into_iter().filter(|package| !is_made(package)).collect();
    if missing.is_empty() {
        return Ok(Count::PASSED);
    }
    println!("there is no {}", missing.join(" and no "));
    Ok(Count::FAILED)
}

/// Installs libraries, headers and programs, each where Debian has it.
fn install_files(installed: &Path, profile: Profile) -> io::Result<()> {
    let triplet = said(Command::new("dpkg-architecture").arg("-qDEB_HOST_MULTIARCH"))?;
    let installation = Installation {
        prefix: installed.join("usr"),
        libdir: Path::new("lib").join(triplet.trim()),
        profile,
        // dh_strip does it, and makes the packages of what debuggers read.
        strips: false,
        has_program: true,
    };
    installation.run()?;
    // Not a library that the linker is to find, but one that is preloaded by its path.
    let (lib, shim) = (installation.lib(), "liboutlive_pthread.so");
    fs::create_dir_all(lib.join("outlive"))?;
    fs::rename(lib.join(shim), lib.join("outlive").join(shim))?;
    let zsh = installed.join("usr/share/zsh");
    fs::rename(zsh.join("site-functions"), zsh.join("vendor-completions"))
}

/// Installs the Python package as pip would, where Debian's Python looks for packages.
fn install_python(installed: &Path, profile: Profile) -> io::Result<()> {
    let folder = if profile == Profile::Dist { "dist" } else { "debug" };
    if profile == Profile::Dist {
        ran(&mut cargo(&["build", "--quiet", "--profile", "dist", "-p", "outlive-py"]))?;
    }
    let packages = installed.join("usr/lib/python3/dist-packages");
    let mut list = Command::new("git");
    list.args(["ls-files", "outlive"]).current_dir(paths::at(paths::PYTHON));
    for file in said(&mut list)?.lines() {
        let to = packages.join(file);
        fs::create_dir_all(to.parent().unwrap_or(&packages))?;
        put(&paths::at(paths::PYTHON).join(file), &to)?;
        fs::set_permissions(&to, fs::Permissions::from_mode(0o644))?;
    }
    let module = packages.join("outlive/_outlive.abi3.so");
    put(&root().join(prefix::target()).join(folder).join("lib_outlive.so"), &module)?;
    let version = env!("CARGO_PKG_VERSION");
    let about = packages.join(format!("outlive-{version}.dist-info"));
    fs::create_dir_all(&about)?;
    fs::write(
        about.join("METADATA"),
        format!("Metadata-Version: 2.1\nName: outlive\nVersion: {version}\n"),
    )?;
    fs::write(about.join("INSTALLER"), "debian\n")
}

/// Installs the files for systemd that the project has, and returns where they lie.
fn install_for_systemd(installed: &Path) -> io::Result<Vec<String>> {
    let mut places = Vec::new();
    for (ours, place, endings) in FOR_SYSTEMD {
        if !paths::at(ours).is_dir() {
            continue;
        }
        for file in files(&paths::at(ours), "")? {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if endings.iter().any(|ending| name.ends_with(ending)) {
                fs::create_dir_all(installed.join(place))?;
                put(&file, &installed.join(place).join(&name))?;
                places.push(format!("{place}/{name}"));
            }
        }
    }
    Ok(places)
}

/// Puts the folder debian/ into the source: what the project has of it, the changelog, and the
/// files that are there today.
fn describe(source: &Path, for_systemd: &[String]) -> io::Result<()> {
    let (ours, debian) = (paths::at(paths::DEBIAN), source.join("debian"));
    fs::create_dir_all(debian.join("source"))?;
    for folder in ["", "source"] {
        for file in files(&ours.join(folder), "")? {
            put(&file, &debian.join(folder).join(file.file_name().unwrap_or_default()))?;
        }
    }
    let list = debian.join("outlive.install");
    let mut text = fs::read_to_string(&list)?;
    for place in for_systemd {
        writeln!(text, "{place}").map_err(io::Error::other)?;
    }
    fs::write(list, text)?;
    let control = fs::read_to_string(debian.join("control"))?;
    let maintainer = control
        .lines()
        .find_map(|line| line.strip_prefix("Maintainer: "))
        .ok_or_else(|| io::Error::other("packaging/debian/control has no maintainer"))?;
    let date =
        said(Command::new("date").args(["-R", "-u", "-d", &format!("@{}", commit_time()?)]))?;
    fs::write(debian.join("changelog"), changelog(maintainer, date.trim()))
}

/// Returns Debian's changelog: its one entry names the release, whose changes are in CHANGELOG.md.
fn changelog(maintainer: &str, date: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "outlive ({version}-1) unstable; urgency=medium\n\n  * Release {version}.\n\n -- {maintainer}  {date}\n"
    )
}

/// Runs lintian over the packages: a warning fails, too.
pub(super) fn lint(folder: &Path, may_install: bool) -> Count {
    install::install(&[&LINTIAN], may_install);
    if let Some(why) = install::lacking(&[&LINTIAN]) {
        return stage::skip("lintian", &why);
    }
    // What debuggers read is made by debhelper: nothing of it is ours.
    let packages: Vec<PathBuf> = files(folder, ".deb")
        .unwrap_or_default()
        .into_iter()
        .filter(|file| !file.to_string_lossy().contains("-dbgsym_"))
        .collect();
    let mut lintian = Command::new("lintian");
    lintian.args(["--allow-root", "--fail-on", "error,warning"]);
    // Debian's own first upload would close a request for the package.
    lintian.args(["--suppress-tags", "initial-upload-closes-no-bugs"]).args(packages);
    stage::run_long("lintian", lintian, stage::Counts::ByExit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_package_is_described_and_has_a_list_of_files() {
        let control = fs::read_to_string(paths::at(paths::DEBIAN).join("control")).expect("there");
        let mut named: Vec<&str> =
            control.lines().filter_map(|line| line.strip_prefix("Package: ")).collect();
        named.sort_unstable();
        assert_eq!(named, PACKAGES);
        for package in PACKAGES {
            let list = paths::at(paths::DEBIAN).join(format!("{package}.install"));
            assert!(fs::read_to_string(&list).is_ok_and(|text| text.ends_with('\n')), "{package}");
        }
    }

    #[test]
    fn the_changelog_names_the_release() {
        let text = changelog("A <a@b.invalid>", "Sat, 28 Nov 2026 03:00:00 +0000");
        let version = env!("CARGO_PKG_VERSION");
        assert!(text.starts_with(&format!("outlive ({version}-1) ")), "{text}");
        assert!(text.ends_with(" -- A <a@b.invalid>  Sat, 28 Nov 2026 03:00:00 +0000\n"), "{text}");
    }
}
