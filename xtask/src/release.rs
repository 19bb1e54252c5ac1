//! `cargo xtask release VERSION [--dry-run]`: makes a release of the last commit: the version
//! in all its places, the date in CHANGELOG.md, the record of the ABI, a commit and a tag.
//!
//! It uploads nothing. What comes before and after it is in doc/packages.md.

use std::fs;
use std::io;
use std::process::{Command, ExitCode, Stdio};

use crate::abi;
use crate::paths::{self, root};
use crate::proof::today;

const USAGE: &str = "\
usage: cargo xtask release VERSION [--dry-run]

  VERSION    as in 0.2.0
  --dry-run  say what would be written, and write nothing";

const CHANGELOG: &str = "CHANGELOG.md";

/// Where the version stands: a file, and the text around the version in it. All of them get the new
/// one.
const PLACES: &[(&str, &str)] = &[
    ("Cargo.toml", "\nversion = \"@\"\n"),
    ("Cargo.toml", ", version = \"@\" }"),
    ("bridges/Cargo.toml", "\nversion = \"@\"\n"),
    ("proof/peers/Cargo.toml", "\nversion = \"@\"\n"),
    ("crates/outlive-bag/Cargo.toml", ", version = \"@\", "),
    ("crates/outlive-c/src/code.rs", "as text: `@`."),
    ("crates/outlive-c/include/outlive.h", "as text: `@`."),
    ("doc/c-abi.md", "`liboutlive.so.@.debug`"),
];

/// Where a version stands that stays as it is, whatever is released: in which files.
const STAYS: &[&str] = &[
    // Its entries are history.
    CHANGELOG,
    // Examples.
    "doc/versioning.md",
    "doc/packages.md",
    "xtask/src/crates.rs",
    "xtask/src/dist/wheels.rs",
    "xtask/src/release.rs",
    // A program of measurements, which has nothing of ours in it.
    "bridges/peers/iceoryx2/Cargo.toml",
    // The release that first had these symbols.
    "packaging/debian/liboutlive0.symbols",
];

/// Cargo writes these.
const LOCKS: [&str; 3] = ["Cargo.lock", "bridges/Cargo.lock", "proof/peers/Cargo.lock"];

/// Three numbers, compared as Semantic Versioning does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version([u64; 3]);

impl Version {
    fn of(text: &str) -> Option<Version> {
        let numbers: Option<Vec<u64>> = text
            .split('.')
            .map(|part| {
                let number: u64 = part.parse().ok()?;
                (number.to_string() == part).then_some(number)
            })
            .collect();
        Some(Version(numbers?.try_into().ok()?))
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [major, minor, patch] = self.0;
        write!(f, "{major}.{minor}.{patch}")
    }
}

pub(crate) fn run(args: &[String]) -> ExitCode {
    let (mut version, mut is_dry_run) = (None, false);
    for arg in args {
        match arg.as_str() {
            "--dry-run" => is_dry_run = true,
            text if version.is_none() => match Version::of(text) {
                Some(read) => version = Some(read),
                None => return usage(),
            },
            _ => return usage(),
        }
    }
    let Some(version) = version else {
        return usage();
    };
    match release(version, is_dry_run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cargo xtask release: {error}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

fn release(version: Version, is_dry_run: bool) -> io::Result<()> {
    let wrong = |why: String| Err(io::Error::other(why));
    let current = env!("CARGO_PKG_VERSION");
    let is_later = Version::of(current).is_some_and(|current| version > current);
    // A version that stands everywhere, and was never released, is released as it is.
    let tag = format!("v{version}");
    let is_first = version.to_string() == current && git(&["tag", "--list", &tag])?.is_empty();
    if !is_later && !is_first {
        return wrong(format!("{version} does not come after {current}, or has been released"));
    }
    let changed = git(&["status", "--porcelain"])?;
    if !changed.is_empty() {
        return wrong(format!("what is released has to be committed; this is not:\n{changed}"));
    }
    let unknown = unknown_places(current)?;
    if !unknown.is_empty() {
        return wrong(format!(
            "{current} also stands in {}: xtask/src/release.rs has to know whether it changes there",
            unknown.join(", ")
        ));
    }
    let untrue = untrue_sentences()?;
    if !untrue.is_empty() {
        return wrong(format!("a release makes these sentences untrue:\n{}", untrue.join("\n")));
    }
    let mut written = Vec::new();
    for (file, around) in PLACES {
        let text = read(&mut written, file)?;
        let (new, count) = in_place(&text, around, current, &version.to_string());
        if count == 0 {
            return wrong(format!("{file} has no '{}'", around.replace('@', current).trim()));
        }
        println!("{file}: '{}' {count} times", around.replace('@', &version.to_string()).trim());
        write(&mut written, file, new);
    }
    let text = read(&mut written, CHANGELOG)?;
    let dated = with_date(&text, &version.to_string(), &today()).ok_or_else(|| {
        io::Error::other(format!(
            "{CHANGELOG} has no heading '## {version}, not released yet': what is new has to be said"
        ))
    })?;
    println!("{CHANGELOG}: '## {version}, {}'", today());
    write(&mut written, CHANGELOG, dated);
    if is_dry_run {
        println!("{}, {} and the tag {tag}: not in a dry run", LOCKS.join(", "), paths::ABI);
        return Ok(());
    }
    for (file, text) in &written {
        fs::write(root().join(file), text)?;
    }
    for lock in LOCKS {
        lock_again(lock)?;
        println!("{lock}: by cargo");
    }
    abi::record()?;
    println!("{}: by abidw", paths::ABI);
    git(&["commit", "--all", "--quiet", "--message", &format!("Release {version}")])?;
    git(&["tag", "--annotate", &tag, "--message", &format!("Outlive {version}")])?;
    println!("committed, and tagged {tag}; 'cargo xtask dist --check' makes all that is published");
    Ok(())
}

/// Has cargo write the versions of our own crates into a file of locked versions, and leave all
/// others as they are.
fn lock_again(lock: &str) -> io::Result<()> {
    let folder = root().join(lock.trim_end_matches("Cargo.lock"));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let update = |more: &[&str]| {
        let mut update = Command::new(&cargo);
        update.args(["update", "--workspace", "--quiet"]).args(more).current_dir(&folder);
        update.stdin(Stdio::null()).output()
    };
    // Without the net, if cargo has all that it needs for it.
    if update(&["--offline"])?.status.success() {
        return Ok(());
    }
    let output = update(&[])?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{lock}: {why}")))
}

/// Returns a file as it will be written, or as it is.
fn read(written: &mut [(String, String)], file: &str) -> io::Result<String> {
    match written.iter().find(|one| one.0 == file) {
        Some((_, text)) => Ok(text.clone()),
        None => fs::read_to_string(root().join(file))
            .map_err(|error| io::Error::other(format!("{file}: {error}"))),
    }
}

fn write(written: &mut Vec<(String, String)>, file: &str, text: String) {
    match written.iter_mut().find(|one| one.0 == file) {
        Some(one) => one.1 = text,
        None => written.push((file.to_owned(), text)),
    }
}

/// Returns a text with the new version in one of the [`PLACES`], and how often that is in it.
fn in_place(text: &str, around: &str, from: &str, to: &str) -> (String, usize) {
    let old = around.replace('@', from);
    (text.replace(&old, &around.replace('@', to)), text.matches(&old).count())
}

/// Returns the changelog with the day in the place of "not released yet".
fn with_date(changelog: &str, version: &str, day: &str) -> Option<String> {
    let heading = format!("\n## {version}, not released yet\n");
    changelog
        .contains(&heading)
        .then(|| changelog.replace(&heading, &format!("\n## {version}, {day}\n")))
}

/// Returns the files in which the version stands elsewhere than in [`PLACES`] and [`STAYS`].
fn unknown_places(version: &str) -> io::Result<Vec<String>> {
    let listed = git(&["grep", "-l", "--fixed-strings", version, "--", ":!*Cargo.lock"])?;
    let mut unknown = Vec::new();
    for file in listed.lines().filter(|file| !STAYS.contains(file)) {
        let mut text = fs::read_to_string(root().join(file))?;
        for (_, around) in PLACES.iter().filter(|place| place.0 == file) {
            text = in_place(&text, around, version, "").0;
        }
        if stands_in(&text, version) {
            unknown.push(file.to_owned());
        }
    }
    Ok(unknown)
}

/// Returns the lines of the pages which say that there is no release.
fn untrue_sentences() -> io::Result<Vec<String>> {
    let pages = ["--", "*.md", ":!doc/packages.md"];
    let listed =
        git(&[&["grep", "-n", "-i", "-E", "(is|not) released|until it is out"], &pages[..]]
            .concat())?;
    Ok(listed.lines().filter(|line| denies_a_release(line)).map(str::to_owned).collect())
}

/// Returns whether a line says that there is no release. A heading of the changelog may: it gets a day.
fn denies_a_release(line: &str) -> bool {
    let line = line.to_lowercase();
    let sentences = ["nothing is released", "not released yet", "until it is out"];
    !line.contains(":## ") && sentences.iter().any(|sentence| line.contains(sentence))
}

/// Returns whether a text has the version, and not only as a part of other numbers.
fn stands_in(text: &str, version: &str) -> bool {
    let is_digit = |letter: char| letter.is_ascii_digit();
    let mut at = 0;
    while let Some(found) = text[at..].find(version) {
        let (begin, end) = (at + found, at + found + version.len());
        let mut behind = text[end..].chars();
        let goes_on = match behind.next() {
            // The end of a sentence.
            Some('.') => behind.next().is_some_and(is_digit),
            Some(letter) => is_digit(letter),
            None => false,
        };
        let before = &text[..begin];
        let before = before.strip_suffix('.').unwrap_or(before);
        if !before.ends_with(is_digit) && !goes_on {
            return true;
        }
        at = end;
    }
    false
}

fn git(args: &[&str]) -> io::Result<String> {
    let output = Command::new("git").args(args).current_dir(root()).output()?;
    // grep: nothing was found.
    if output.status.success() || args.first() == Some(&"grep") {
        return Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned());
    }
    let why = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("git {}: {why}", args.join(" "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_of_the_version_is_known() {
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(unknown_places(version).expect("git runs"), Vec::<String>::new());
        for (file, around) in PLACES {
            let text = fs::read_to_string(root().join(file)).expect(file);
            assert!(in_place(&text, around, version, "").1 > 0, "{file}: {around}");
        }
        for file in STAYS {
            assert!(root().join(file).is_file(), "{file}");
        }
        for file in LOCKS {
            assert!(root().join(file).is_file(), "{file}");
        }
    }

    #[test]
    fn a_version_is_found_where_it_stands_alone() {
        for text in ["0.1.0", "v0.1.0 ", "is 0.1.0.", "so.0.1.0.debug", "0.1.0-1", "^0.1.0"] {
            assert!(stands_in(text, "0.1.0"), "{text}");
        }
        for text in ["10.1.0", "127.0.1.0", "0.1.00", "0.1.0.2", "0.1"] {
            assert!(!stands_in(text, "0.1.0"), "{text}");
        }
    }

    #[test]
    fn versions_are_three_numbers_and_compared_as_such() {
        let of = |text| Version::of(text);
        assert!(of("0.10.0") > of("0.9.12") && of("1.0.0") > of("0.99.99"));
        for wrong in ["", "1", "0.2", "0.2.0.1", "0.2.x", "v0.2.0", "0.02.0", "0.2.0-rc1"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
        assert_eq!(of("0.2.0").map(|version| version.to_string()).as_deref(), Some("0.2.0"));
    }

    #[test]
    fn sentences_that_a_release_makes_untrue_are_found() {
        for line in [
            "doc/faq.md:21:It is not released yet: names",
            "SECURITY.md:29:Nothing is released yet, so",
        ] {
            assert!(denies_a_release(line), "{line}");
        }
        for line in
            ["CHANGELOG.md:7:## 0.1.0, not released yet", "doc/go.md:119:is never released, not"]
        {
            assert!(!denies_a_release(line), "{line}");
        }
    }

    #[test]
    fn the_changelog_gets_the_day() {
        let text = "# Changes\n\n## 0.2.0, not released yet\nNew.\n\n## 0.1.0, 2026-11-30\n";
        let dated = with_date(text, "0.2.0", "2026-12-24").expect("it has the heading");
        assert_eq!(dated, text.replace("0.2.0, not released yet", "0.2.0, 2026-12-24"));
        assert_eq!(with_date(text, "0.1.0", "2026-12-24"), None);
    }
}
