//! `cargo xtask java`: the Java package of bindings/java: it is compiled with all warnings as errors,
//! its documentation is made, and its tests, its example and the programs in Java of the project's
//! pages run against the installed C library. A machine without Java 25 is told so, and the stage is
//! skipped.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use crate::count::Count;
use crate::install::is_there;
use crate::paths::{self, root};
use crate::prefix::{self, Profile};
use crate::programs::{self, Language, Tools};

/// The oldest Java that the package is for: the first long-lived one whose calls of foreign functions
/// are not a preview.
const OLDEST: u32 = 25;

pub(crate) fn run(args: &[String]) -> ExitCode {
    if !args.is_empty() {
        eprintln!("usage: cargo xtask java");
        return ExitCode::from(2);
    }
    let total = match Java::find() {
        Err(why) => {
            println!("Java: skipped, {why}");
            Count::SKIPPED
        }
        Ok(java) => all(&java).unwrap_or_else(|error| {
            println!("Java: {error}");
            Count::FAILED
        }),
    };
    println!("{total}");
    if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn all(java: &Java) -> io::Result<Count> {
    let classes = java.package()?;
    let mut total = Count::PASSED;
    let ours = paths::at(paths::JAVA);
    let mut document = java.tool("javadoc");
    document.args(["-quiet", "-Xdoclint:all", "-Werror", "-d"]);
    document.arg(classes.with_file_name("javadoc")).args(sources(&ours.join("src"))?);
    total.add(if document.status()?.success() { Count::PASSED } else { Count::FAILED });
    let tests = classes.with_file_name("java-tests");
    java.compile(&ours.join("test"), Some(&classes), &tests)?;
    let output = java.run(&[&classes, &tests], "OutliveTest").stderr(Stdio::inherit()).output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let count = said.lines().rev().find_map(Count::of_line).unwrap_or(Count::FAILED);
    println!("the package's tests: {count}");
    if !output.status.success() || count.failed > 0 {
        println!("{said}");
    }
    total.add(if !output.status.success() && count.failed == 0 { Count::FAILED } else { count });
    let examples = classes.with_file_name("java-examples");
    java.compile(&ours.join("examples"), Some(&classes), &examples)?;
    let domain = programs::Domain::new();
    let mut example = java.run(&[&classes, &examples], "Counter");
    example.env("OUTLIVE_DOMAIN", &domain.path);
    total.add(if example.status()?.success() { Count::PASSED } else { Count::FAILED });
    total.add(programs::all_in(
        &[Language::Java],
        &Tools { java: Some(java.clone()), ..Tools::default() },
    ));
    Ok(total)
}

/// A Java that is young enough, and the installed C library.
#[derive(Clone)]
pub(crate) struct Java {
    home: PathBuf,
    lib: PathBuf,
}

impl Java {
    /// Looks for a Java in JAVA_HOME, in PATH and where Debian has them; or says why there is none.
    pub(crate) fn find() -> Result<Java, String> {
        let mut homes: Vec<PathBuf> =
            std::env::var_os("JAVA_HOME").map(PathBuf::from).into_iter().collect();
        if is_there("javac")
            && let Ok(output) = Command::new("sh").args(["-c", "command -v javac"]).output()
            && let Ok(javac) = fs::canonicalize(String::from_utf8_lossy(&output.stdout).trim())
            && let Some(home) = javac.parent().and_then(Path::parent)
        {
            homes.push(home.to_owned());
        }
        if let Ok(entries) = fs::read_dir("/usr/lib/jvm") {
            homes.extend(entries.filter_map(|entry| Some(entry.ok()?.path())));
        }
        let home = homes.into_iter().find(|home| {
            home.join("bin/javac").is_file()
                && release_of(&fs::read_to_string(home.join("release")).unwrap_or_default())
                    .is_some_and(|release| release >= OLDEST)
        });
        let lib = root().join(prefix::target()).join("c/installed/lib");
        home.map(|home| Java { home, lib }).ok_or_else(|| format!("there is no Java {OLDEST}"))
    }

    fn tool(&self, name: &str) -> Command {
        let mut command = Command::new(self.home.join("bin").join(name));
        command.stdin(Stdio::null());
        command
    }

    /// Installs the C library, and compiles the package; returns the folder of its classes.
    pub(crate) fn package(&self) -> io::Result<PathBuf> {
        let installed = root().join(prefix::target()).join("c/installed");
        prefix::install(&installed, Profile::Dev)?;
        let classes = installed.with_file_name("java-classes");
        self.compile(&paths::at(paths::JAVA).join("src"), None, &classes)?;
        Ok(classes)
    }

    fn compile(&self, from: &Path, with: Option<&Path>, to: &Path) -> io::Result<()> {
        if to.exists() {
            fs::remove_dir_all(to)?;
        }
        let mut javac = self.tool("javac");
        // The package calls C, which is what "restricted" warns of; and a guard may be closed early ("try").
        javac.args(["-Xlint:all,-restricted,-try", "-Werror", "-d"]).arg(to).args(sources(from)?);
        if let Some(with) = with {
            javac.arg("-cp").arg(with);
        }
        if javac.status()?.success() {
            Ok(())
        } else {
            Err(io::Error::other(format!("javac could not compile {}", from.display())))
        }
    }

    /// Returns what runs a class.
    fn run(&self, classes: &[&Path], main: &str) -> Command {
        let mut command = self.launcher(classes);
        command.arg(main);
        command
    }

    /// Returns Java's command with those classes, to which a class or a source is added.
    pub(crate) fn launcher(&self, classes: &[&Path]) -> Command {
        let mut command = self.tool("java");
        let path = std::env::join_paths(classes).unwrap_or_default();
        command.args([
            "--enable-native-access=ALL-UNNAMED",
            "-Xshare:auto",
            "-XX:TieredStopAtLevel=1",
            "-cp",
        ]);
        command.arg(path).env("LD_LIBRARY_PATH", &self.lib);
        command
    }

    /// Builds the conformance driver; returns how to start it.
    pub(crate) fn driver(&self) -> io::Result<String> {
        let classes = self.package()?;
        let driver = classes.with_file_name("conformance-driver-java");
        let from = paths::at(paths::CONFORMANCE_DRIVERS).join("java");
        self.compile(&from, Some(&classes), &driver)?;
        let jar = driver.with_extension("jar");
        let mut pack = self.tool("jar");
        pack.args(["--create", "--file"]).arg(&jar).arg("-C").arg(&classes).arg(".");
        if !pack.arg("-C").arg(&driver).arg(".").status()?.success() {
            return Err(io::Error::other("jar could not pack the driver"));
        }
        let start = format!(
            "env LD_LIBRARY_PATH={} {} --enable-native-access=ALL-UNNAMED -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            self.lib.display(),
            self.home.join("bin/java").display()
        );
        let cache = self.cache(&start, &jar)?;
        Ok(format!("{start} {cache} -cp {} Driver", jar.display()))
    }

    /// Lets the driver act once, and keep what it has loaded and linked: hundreds of processes start by
    /// it, in half the time. Returns the option, or nothing where it could not be kept.
    fn cache(&self, start: &str, jar: &Path) -> io::Result<String> {
        let cache = jar.with_extension("aot");
        let script = jar.with_extension("script");
        fs::write(&script, TRAINING)?;
        let domain = programs::Domain::new();
        let mut words = start.split(' ');
        let mut train = Command::new(words.next().unwrap_or_default());
        train.args(words).arg(format!("-XX:AOTCacheOutput={}", cache.display()));
        train.arg("-cp").arg(jar).arg("Driver").arg(&domain.path);
        let output = train.stdin(fs::File::open(&script)?).output()?;
        let acted =
            String::from_utf8_lossy(&output.stdout).lines().filter(|line| *line != "ok").count();
        if output.status.success() && acted > 1 && cache.is_file() {
            Ok(format!("-XX:AOTCache={}", cache.display()))
        } else {
            println!("Java: the driver starts without a cache");
            Ok(String::new())
        }
    }
}

/// What the driver does once before it plays: something of each kind.
const TRAINING: &str = "\
lock.open m 7
lock.lock m 1000
lock.set m 8
lock.unlock m
rw.open r 7
rw.read r 1000
rw.unlock r
event.open e manual
event.set e 1
event.any e 1 10
queue.open q
queue.send q hello 1000
queue.recv q 1000
queue.recv q try
topic.open t
topic.publisher t
topic.subscriber t
topic.publish t hello 1000
topic.recv t 1000
state.open v 1
state.set v 2
state.get v
server.open s
client.open s
client.begin s hello 1000
server.next s 1000
server.reply x
client.next 1000
";

/// Reads `JAVA_VERSION="25.0.3"` in a home's file `release`.
fn release_of(text: &str) -> Option<u32> {
    let line = text.lines().find_map(|line| line.strip_prefix("JAVA_VERSION=\""))?;
    line.split(['.', '"', '-', '+']).next()?.parse().ok()
}

/// Returns the Java files of a folder and of those in it.
fn sources(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|is| is == "java") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read() {
        assert_eq!(release_of("IMPLEMENTOR=\"x\"\nJAVA_VERSION=\"25.0.3\"\n"), Some(25));
        assert_eq!(release_of("JAVA_VERSION=\"26\"\n"), Some(26));
        assert_eq!(release_of("JAVA_VERSION=\"1.8.0\"\n"), Some(1));
        assert_eq!(release_of(""), None);
    }
}
