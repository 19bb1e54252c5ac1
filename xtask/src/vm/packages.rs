//! Debian's packages of other processors and other releases, unpacked into the target folder.
//!
//! Nothing of them is installed: apt gets an index, a list of sources and a state of its own, and
//! `dpkg -x` unpacks what it has downloaded. So the system's sources and architectures stay as they
//! are, and no root is needed. What has been unpacked once is not downloaded again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::install::is_there;

/// Where each package that is used here comes from: Linux 5.10 is of an older release of Debian's,
/// and the newest kernels are made for a newer one.
const SOURCES: [&str; 4] = [
    "http://deb.debian.org/debian bookworm main",
    "http://deb.debian.org/debian-security bookworm-security main",
    "http://deb.debian.org/debian-security bullseye-security main",
    "http://deb.debian.org/debian trixie-backports main",
];
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// In the place of a series: the newest kernel that Debian has.
pub(crate) const NEWEST: &str = "newest";

/// An index that is younger than this is not fetched again.
const FRESH: Duration = Duration::from_secs(24 * 60 * 60);

/// An index of packages, and the folder in which they are unpacked.
pub(crate) struct Packages {
    folder: PathBuf,
    may_download: bool,
}

impl Packages {
    /// Makes the index, or takes the one that is there; says why there is none.
    pub(crate) fn open(folder: &Path, may_download: bool) -> Result<Packages, String> {
        for program in ["apt-get", "dpkg"] {
            if !is_there(program) {
                return Err(format!("there is no {program} here: Debian's packages are needed"));
            }
        }
        let packages = Packages { folder: folder.to_path_buf(), may_download };
        packages.lay_out().map_err(|error| format!("{}: {error}", folder.display()))?;
        if may_download && !packages.is_fresh() {
            println!("Debian's lists of packages");
            let fetched = packages.apt("apt-get").args(["-qq", "update"]).status();
            if fetched.is_ok_and(|status| status.success()) {
                // Its time is when the lists were fetched.
                let noted = fs::write(packages.stamp(), "");
                noted.map_err(|error| format!("{}: {error}", folder.display()))?;
            } else if !packages.stamp().exists() {
                return Err("Debian's lists of packages cannot be fetched".to_owned());
            }
        }
        Ok(packages)
    }

    fn stamp(&self) -> PathBuf {
        self.folder.join("apt/fetched")
    }

    fn is_fresh(&self) -> bool {
        let fetched = fs::metadata(self.stamp()).and_then(|stamp| stamp.modified());
        fetched.is_ok_and(|at| at.elapsed().is_ok_and(|age| age < FRESH))
    }

    /// Makes apt's folders and its list of sources.
    fn lay_out(&self) -> io::Result<()> {
        let apt = self.folder.join("apt");
        for part in ["lists/partial", "cache/archives/partial", "none"] {
            fs::create_dir_all(apt.join(part))?;
        }
        let line = |source| format!("deb [signed-by={KEYS}] {source}\n");
        let sources = SOURCES.map(line).concat();
        // Nothing counts as installed.
        fs::write(apt.join("status"), "")?;
        if fs::read_to_string(apt.join("sources.list")).ok().as_ref() != Some(&sources) {
            fs::write(apt.join("sources.list"), sources)?;
            let _ = fs::remove_file(self.stamp());
        }
        Ok(())
    }

    /// Returns a command of apt's over this index.
    fn apt(&self, program: &str) -> Command {
        let apt = self.folder.join("apt");
        let mut command = Command::new(program);
        for (option, part) in [
            ("Dir::Etc::sourcelist", "sources.list"),
            ("Dir::Etc::sourceparts", "none"),
            ("Dir::Etc::preferencesparts", "none"),
            ("Dir::State", "."),
            ("Dir::State::lists", "lists"),
            ("Dir::State::status", "status"),
            ("Dir::Cache", "cache"),
            // Containers switch these off, and each call would read the lists anew.
            ("Dir::Cache::pkgcache", "cache/pkgcache.bin"),
            ("Dir::Cache::srcpkgcache", "cache/srcpkgcache.bin"),
        ] {
            command.arg("-o").arg(format!("{option}={}", apt.join(part).display()));
        }
        for option in [
            "APT::Architectures::=amd64",
            "APT::Architectures::=arm64",
            "Acquire::Languages=none",
            // The user that apt downloads as cannot write into this folder.
            "APT::Sandbox::User=",
        ] {
            command.args(["-o", option]);
        }
        command.stdin(Stdio::null());
        command
    }

    /// Returns the names of all packages that begin so.
    fn names(&self, begin: &str) -> Vec<String> {
        let listed = self.apt("apt-cache").args(["pkgnames", begin]).output();
        let listed = listed.map(|listed| listed.stdout).unwrap_or_default();
        String::from_utf8_lossy(&listed).lines().map(str::to_owned).collect()
    }

    /// Returns those packages that this one needs.
    fn needs(&self, package: &str) -> Vec<String> {
        let listed = self.apt("apt-cache").args(["depends", package]).output();
        let listed = listed.map(|listed| listed.stdout).unwrap_or_default();
        let listed = String::from_utf8_lossy(&listed).into_owned();
        let needed = |line: &str| Some(line.trim().strip_prefix("Depends: ")?.to_owned());
        listed.lines().filter_map(needed).collect()
    }

    /// Returns the folder in which a package of that architecture is unpacked; downloads it if it
    /// is not there.
    fn unpack(&self, package: &str, architecture: &str, into: &str) -> Result<PathBuf, String> {
        let folder = self.folder.join(into);
        let stamp = self.folder.join("unpacked").join(format!("{package}.{architecture}"));
        let wrong = |error: io::Error| format!("{package}: {error}");
        if stamp.exists() {
            return Ok(folder);
        }
        if !self.may_download {
            return Err(format!(
                "{package}:{architecture} is not there, and may not be downloaded"
            ));
        }
        println!("Debian's {package} for {architecture}");
        let here = self.folder.join("apt/cache").join(format!("{package}.{architecture}"));
        let _ = fs::remove_dir_all(&here);
        fs::create_dir_all(&here).map_err(wrong)?;
        let mut download = self.apt("apt-get");
        download.args(["-qq", "download", &format!("{package}:{architecture}")]);
        let fetched = download.current_dir(&here).status().map_err(wrong)?;
        let file = fs::read_dir(&here).map_err(wrong)?.flatten().map(|entry| entry.path()).next();
        let Some(file) = file.filter(|_| fetched.success()) else {
            return Err(format!("{package}:{architecture} cannot be downloaded"));
        };
        fs::create_dir_all(&folder).map_err(wrong)?;
        let mut unpack = Command::new("dpkg");
        let unpacked = unpack.arg("-x").arg(file).arg(&folder).status().map_err(wrong)?;
        if !unpacked.success() {
            return Err(format!("{package}:{architecture} cannot be unpacked"));
        }
        fs::remove_dir_all(&here).map_err(wrong)?;
        fs::create_dir_all(self.folder.join("unpacked")).map_err(wrong)?;
        fs::write(stamp, "").map_err(wrong)?;
        Ok(folder)
    }

    /// Returns the newest kernel of a series, or of all ([`NEWEST`]), and its release's name.
    pub(crate) fn kernel(&self, series: &str, debian: &str) -> Result<Kernel, String> {
        let names = match series {
            NEWEST => self.names("linux-image-"),
            series => self.names(&format!("linux-image-{series}.")),
        };
        let Some(package) = newest(&names, debian) else {
            return Err(format!("Debian has no cloud kernel of Linux {series} for {debian} now"));
        };
        let folder = self.unpack(package, debian, &format!("kernels/{package}"))?;
        let release = package.trim_start_matches("linux-image-").to_owned();
        let mut image = folder.join("boot").join(format!("vmlinuz-{release}"));
        if !image.is_file() {
            // Of newer kernels it has a package and a place of its own.
            self.unpack(&format!("linux-binary-{release}"), debian, &format!("kernels/{package}"))?;
            image = folder.join("usr/lib/modules").join(&release).join("vmlinuz");
        }
        if image.is_file() {
            Ok(Kernel { release, image })
        } else {
            Err(format!("{package} has no {}", image.display()))
        }
    }

    /// Returns the program that has all of a shell and its commands in one file.
    pub(crate) fn busybox(&self, debian: &str) -> Result<PathBuf, String> {
        let folder = self.unpack("busybox-static", debian, &format!("busybox/{debian}"))?;
        Ok(folder.join("bin/busybox"))
    }

    /// Returns the folder of a Rust compiler for this machine that also has the standard library of
    /// another processor. The two go together: the libraries of one compiler cannot be used by
    /// another.
    pub(crate) fn rust(&self, host: &str, debian: &str) -> Result<PathBuf, String> {
        let own = ["rustc-web", "libstd-rust-web-dev"];
        let mut packages: Vec<String> = own.map(str::to_owned).to_vec();
        let mut next = 0;
        // What of it bears the versions in its names.
        let is_part =
            |name: &String| name.starts_with("libstd-rust-web-") || name.starts_with("libllvm");
        while let Some(package) = packages.get(next) {
            for needed in self.needs(package).into_iter().filter(is_part) {
                if !packages.contains(&needed) {
                    packages.push(needed);
                }
            }
            next += 1;
        }
        let into = "rust";
        for package in &packages {
            self.unpack(package, host, into)?;
        }
        self.unpack("libstd-rust-web-dev", debian, into)
    }
}

/// A kernel that can be booted.
pub(crate) struct Kernel {
    /// As `uname -r` says it.
    pub(crate) release: String,
    pub(crate) image: PathBuf,
}

/// Returns the newest of those packages that is a cloud kernel, by the numbers in its name.
fn newest<'a>(names: &'a [String], debian: &str) -> Option<&'a str> {
    let ending = format!("-cloud-{debian}");
    let release = |name: &str| {
        let release = name.strip_prefix("linux-image-")?.strip_suffix(&ending)?;
        let numbers = release.split(|letter: char| !letter.is_ascii_digit());
        Some(numbers.filter_map(|number| number.parse::<u64>().ok()).collect::<Vec<_>>())
    };
    let numbered = names.iter().filter_map(|name| Some((release(name)?, name.as_str())));
    numbered.max().map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_kernel_is_found_by_its_numbers() {
        let names = [
            "linux-image-6.1.0-9-cloud-amd64",
            "linux-image-6.1.0-56-cloud-amd64",
            "linux-image-6.1.0-57-cloud-amd64-dbg",
            "linux-image-6.1.0-58-cloud-arm64",
            "linux-image-6.1.0-59-amd64",
            "linux-image-cloud-amd64",
        ];
        let names = names.map(str::to_owned);
        assert_eq!(newest(&names, "amd64"), Some("linux-image-6.1.0-56-cloud-amd64"));
        assert_eq!(newest(&names, "arm64"), Some("linux-image-6.1.0-58-cloud-arm64"));
        assert_eq!(newest(&names, "riscv64"), None);
        let patched =
            ["linux-image-6.12.99+deb12-cloud-amd64", "linux-image-6.12.117+deb12-cloud-amd64"];
        assert_eq!(newest(&patched.map(str::to_owned), "amd64"), Some(patched[1]));
    }
}
