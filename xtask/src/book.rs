//! `cargo xtask book`: makes a book of the pages in doc/, by mdBook, in target/book. Not a part of
//! the test command.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use crate::paths::root;
use crate::prefix;
use crate::test::cargo;

/// The version that the pages were read with. It compiles with Rust 1.88 or later.
const VERSION: &str = "0.5.4";

pub(crate) fn run(args: &[String]) -> ExitCode {
    let may_install = match args {
        [] => true,
        [flag] if flag == "--no-install" => false,
        _ => {
            eprintln!("usage: cargo xtask book [--no-install]");
            return ExitCode::from(2);
        }
    };
    let target = root().join(prefix::target());
    let Some(mdbook) = found(&target, may_install) else {
        return ExitCode::FAILURE;
    };
    let to = target.join("book");
    let mut build = Command::new(mdbook);
    build.arg("build").arg(root().join("doc")).arg("--dest-dir").arg(&to);
    if !build.stdin(Stdio::null()).status().is_ok_and(|status| status.success()) {
        println!("the book could not be made");
        return ExitCode::FAILURE;
    }
    println!("the book is {}", to.join("index.html").display());
    ExitCode::SUCCESS
}

/// Returns an mdBook of that version: the one in the target folder, or the system's, or one that is
/// installed now.
fn found(target: &Path, may_install: bool) -> Option<PathBuf> {
    let home = target.join("mdbook");
    let ours = home.join("bin/mdbook");
    for candidate in [ours.clone(), PathBuf::from("mdbook")] {
        let asked = Command::new(&candidate).arg("--version").stdin(Stdio::null()).output();
        if asked.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(VERSION)) {
            return Some(candidate);
        }
    }
    if !may_install {
        println!("there is no mdBook {VERSION} here, and none may be installed");
        return None;
    }
    println!(
        "mdBook makes the book of the pages, and is not here: 'cargo install' puts version {VERSION} of it, from"
    );
    println!(
        "crates.io, into {}. That takes some minutes, once. Nothing else of the system is changed.",
        home.display()
    );
    let version = format!("={VERSION}");
    // Without the server and the watcher: the book is read as files.
    let features = ["--no-default-features", "--features", "search"];
    let mut install = cargo(&["install", "mdbook", "--locked", "--version", &version]);
    install.args(features).arg("--root").arg(&home).env("CARGO_TARGET_DIR", home.join("build"));
    let is_there = install.stdin(Stdio::null()).status().is_ok_and(|status| status.success());
    // What compiling left behind: some 300 MiB.
    let _ = fs::remove_dir_all(home.join("build"));
    if !is_there {
        println!("mdBook could not be installed");
    }
    is_there.then_some(ours)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Returns the pages that a table of contents leads to.
    fn entries(summary: &str) -> Vec<&str> {
        let links = summary.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        links.filter(|link| link.ends_with(".md")).collect()
    }

    #[test]
    fn the_book_has_each_page_once_and_no_other() {
        let doc = root().join("doc");
        let listed =
            Command::new("git").args(["ls-files", "--", "doc/*.md"]).current_dir(root()).output();
        let listed = String::from_utf8(listed.expect("git").stdout).expect("names");
        let pages: BTreeSet<&str> =
            listed.lines().filter_map(|path| path.strip_prefix("doc/")).collect();
        let pages: BTreeSet<&str> = pages
            .into_iter()
            .filter(|page| *page != "SUMMARY.md" && doc.join(page).exists())
            .collect();
        let summary = fs::read_to_string(doc.join("SUMMARY.md")).expect("readable");
        let entries = entries(&summary);
        let once: BTreeSet<&str> = entries.iter().copied().collect();
        assert_eq!(entries.len(), once.len(), "a page stands twice in doc/SUMMARY.md");
        let missing: Vec<_> = pages.difference(&once).collect();
        let broken: Vec<_> = once.difference(&pages).collect();
        assert!(missing.is_empty(), "doc/SUMMARY.md lacks {missing:?}");
        assert!(broken.is_empty(), "doc/SUMMARY.md leads to {broken:?}, which git does not have");
    }

    #[test]
    fn entries_are_read() {
        assert_eq!(
            entries("# S\n- [A](a.md)\n  - [B](b/c.md#d)\n[x](https://y.org)"),
            ["a.md", "b/c.md"]
        );
    }
}
