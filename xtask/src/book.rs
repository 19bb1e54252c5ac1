//! `cargo xtask book`: makes a book of the project's pages, by mdBook, in target/book. Not a part
//! of the test command.
//!
//! The pages link to each other as they lie in the repository, so the book has them in the same
//! folders: those of doc/, in the order of doc/SUMMARY.md, and then all others.

use std::collections::BTreeSet;
use std::fs;
use std::io;
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
    let (source, to) = (target.join("book-source"), target.join("book"));
    if let Err(error) = stage(&source) {
        println!("{}: {error}", source.display());
        return ExitCode::FAILURE;
    }
    let mut build = Command::new(mdbook);
    build.arg("build").arg(&source).arg("--dest-dir").arg(&to);
    if !build.stdin(Stdio::null()).status().is_ok_and(|status| status.success()) {
        println!("the book could not be made");
        return ExitCode::FAILURE;
    }
    println!("the book is {}", to.join("index.html").display());
    ExitCode::SUCCESS
}

/// Returns the project's files that git has and whose paths match.
fn tracked(patterns: &[&str]) -> Vec<String> {
    let listed =
        Command::new("git").args(["ls-files", "--"]).args(patterns).current_dir(root()).output();
    let text = listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let there = |path: &&str| root().join(path).exists();
    text.unwrap_or_default().lines().filter(there).map(str::to_owned).collect()
}

/// Puts the book's source into a folder: the pages with what they link to, and the contents.
fn stage(to: &Path) -> io::Result<()> {
    match fs::remove_dir_all(to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let pages = tracked(&["*.md"]);
    let mut files: BTreeSet<String> = tracked(&["doc/*"]).into_iter().collect();
    for page in &pages {
        let folder = Path::new(page).parent().unwrap_or(Path::new(""));
        let text = without_programs(&fs::read_to_string(root().join(page))?);
        let linked = links(&text).filter(|(link, _)| !link.is_empty());
        files.extend(linked.filter_map(|(link, _)| tidy(&folder.join(link))));
    }
    for file in files.iter().filter(|file| root().join(file).is_file()) {
        let copy = to.join(file);
        fs::create_dir_all(copy.parent().unwrap_or(to))?;
        fs::copy(root().join(file), copy)?;
    }
    for page in &pages {
        let text = fs::read_to_string(root().join(page))?;
        let folder = root().join(Path::new(page).parent().unwrap_or(Path::new("")));
        fs::create_dir_all(to.join(page).parent().unwrap_or(to))?;
        fs::write(to.join(page), without_folders(&text, &folder))?;
    }
    fs::copy(root().join("doc/book.toml"), to.join("book.toml"))?;
    let summary = fs::read_to_string(root().join("doc/SUMMARY.md"))?;
    fs::write(to.join("SUMMARY.md"), contents(&summary, &pages)?)
}

/// Returns the page without what is between fences: programs are full of brackets.
pub(crate) fn without_programs(page: &str) -> String {
    page.split("```").step_by(2).collect()
}

/// Returns where the page's links lead to, save addresses on the net: a file, which is empty for
/// the page itself, and a heading in it.
pub(crate) fn links(page: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    page.split("](").skip(1).filter_map(|rest| {
        let link = rest.split([')', ' ']).next()?;
        let (file, heading) = link.split_once('#').map_or((link, None), |(f, h)| (f, Some(h)));
        (!link.is_empty() && !link.contains(':')).then_some((file, heading))
    })
}

/// Returns a path from the project's root without `.` and `..`; `None` for one outside.
fn tidy(path: &Path) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.to_str()?.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Returns the page with each link to a folder as mere words: a book has no folders.
fn without_folders(page: &str, folder: &Path) -> String {
    let mut rest = page;
    let mut text = String::new();
    while let Some((before, after)) = rest.split_once("](") {
        let (link, end) = after.split_once(')').unwrap_or((after, ""));
        let is_folder = !link.is_empty() && folder.join(link).is_dir();
        match before.rfind('[').filter(|_| is_folder) {
            Some(opens) => {
                text.push_str(&before[..opens]);
                text.push_str(&before[opens + 1..]);
                rest = end;
            }
            None => {
                text.push_str(before);
                text.push_str("](");
                rest = after;
            }
        }
    }
    text + rest
}

/// Returns the book's table of contents: the first page is the project's, the pages of doc/ follow
/// as `summary` lists them, and then come all others.
fn contents(summary: &str, pages: &[String]) -> io::Result<String> {
    let summary = summary.replace("](", "](doc/");
    let (title, rest) = summary.split_once("\n\n").unwrap_or(("# Outlive", &summary));
    let mut text = format!("{title}\n\n[Outlive](README.md)\n{rest}\n# The project\n");
    for page in pages.iter().filter(|page| !page.starts_with("doc/") && *page != "README.md") {
        let first = fs::read_to_string(root().join(page))?;
        let heading = first.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or(page);
        text.push_str(&format!("- [{heading}]({page})\n"));
    }
    Ok(text)
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
    use super::*;

    /// Returns the pages that a table of contents leads to.
    fn entries(summary: &str) -> Vec<&str> {
        let links = summary.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        links.filter(|link| link.ends_with(".md")).collect()
    }

    #[test]
    fn the_book_has_each_page_once_and_no_other() {
        let doc = root().join("doc");
        let listed = tracked(&["doc/*.md"]);
        let pages = listed.iter().filter_map(|path| path.strip_prefix("doc/"));
        let pages: BTreeSet<&str> = pages.filter(|page| *page != "SUMMARY.md").collect();
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

    #[test]
    fn links_to_folders_become_words() {
        let page = "[a](b.md), [the `c`](../doc), ![d](images/d.svg), [e](../doc/faq.md#x)";
        let expected = "[a](b.md), the `c`, ![d](images/d.svg), [e](../doc/faq.md#x)";
        assert_eq!(without_folders(page, &root().join("xtask")), expected);
        assert_eq!(tidy(Path::new("doc/how-to/../../a/./b")).as_deref(), Some("a/b"));
        assert_eq!(tidy(Path::new("../a")), None);
    }

    #[test]
    fn the_contents_begin_with_the_project_and_end_with_its_other_pages() {
        let pages = ["README.md", "SECURITY.md", "doc/faq.md"].map(str::to_owned);
        assert_eq!(
            contents("# Outlive\n\n[About](README.md)\n\n# How to\n- [Q](faq.md)\n", &pages)
                .expect("read"),
            "# Outlive\n\n[Outlive](README.md)\n[About](doc/README.md)\n\n# How to\n- [Q](doc/faq.md)\n\n\
             # The project\n- [Security](SECURITY.md)\n"
        );
    }
}
