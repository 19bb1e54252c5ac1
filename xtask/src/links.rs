//! Links in the project's pages lead somewhere, and so do the paths that pages and comments name.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::paths::root;

/// Returns the project's files with that ending, from its root.
fn files(endings: &[&str]) -> Vec<PathBuf> {
    let listed =
        Command::new("git").args(["ls-files", "--"]).args(endings).current_dir(root()).output();
    let text = String::from_utf8(listed.expect("git").stdout).expect("names");
    text.lines().map(PathBuf::from).filter(|path| root().join(path).exists()).collect()
}

/// Returns the page without what stands between fences: programs are full of brackets.
fn without_programs(page: &str) -> String {
    page.split("```").step_by(2).collect()
}

/// Returns where the page's links lead to, save addresses on the net and places within the page.
fn links(page: &str) -> impl Iterator<Item = &str> {
    page.split("](").skip(1).filter_map(|rest| {
        let link = rest.split([')', '#', ' ']).next()?;
        (!link.is_empty() && !link.contains(':')).then_some(link)
    })
}

/// Returns what in a text looks like the path of one of the project's documents or models.
fn documents(text: &str) -> impl Iterator<Item = &str> {
    let is_of_a_path = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    text.split(move |c: char| !is_of_a_path(c)).filter_map(|word| {
        let path = word.trim_end_matches('.');
        let begins = ["doc/", "proof/"].iter().any(|folder| path.starts_with(folder));
        let ends = [".md", ".pml", ".txt"].iter().any(|ending| path.ends_with(ending));
        (begins && ends).then_some(path)
    })
}

#[test]
fn every_link_leads_somewhere() {
    let mut broken = Vec::new();
    for file in files(&["*.md"]) {
        let page = without_programs(&fs::read_to_string(root().join(&file)).expect("readable"));
        let folder = root().join(file.parent().unwrap_or(Path::new("")));
        broken.extend(
            links(&page)
                .filter(|link| !folder.join(link).exists())
                .map(|link| format!("{file:?}: {link}")),
        );
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn every_document_that_is_named_is_there() {
    let mut missing = Vec::new();
    for file in files(&["*.rs", "*.md", "*.pml", "*.h", "*.hpp", "*.py", "*.pyi"]) {
        let text = fs::read_to_string(root().join(&file)).expect("readable");
        let named = documents(&text).filter(|path| !root().join(path).exists());
        missing.extend(named.map(|path| format!("{file:?}: {path}")));
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn a_broken_link_is_found() {
    let page =
        "[a](b.md), [net](https://x.org/y), [within](#here) and ```\n[x](no.md)\n``` [c](d/e.md#f)";
    assert_eq!(links(&without_programs(page)).collect::<Vec<_>>(), ["b.md", "d/e.md"]);
    let named = ["doc/README.md", concat!("proof", "/none.pml")];
    let text = format!("see {}. Or `{}`, not src/doc/README.md", named[0], named[1]);
    assert_eq!(documents(&text).collect::<Vec<_>>(), named);
}
