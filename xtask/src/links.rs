//! Links in the project's pages lead somewhere, and so do the paths that pages and comments name.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::book::{links, without_programs};
use crate::paths::root;

/// Returns the project's files with that ending, from its root.
fn files(endings: &[&str]) -> Vec<PathBuf> {
    let listed =
        Command::new("git").args(["ls-files", "--"]).args(endings).current_dir(root()).output();
    let text = String::from_utf8(listed.expect("git").stdout).expect("names");
    text.lines().map(PathBuf::from).filter(|path| root().join(path).exists()).collect()
}

/// Returns the names by which links know a page's headings: small letters, digits, and dashes for
/// spaces. The second heading of the same name has `-1` behind it, and so on.
fn headings(page: &str) -> Vec<String> {
    let texts = page.lines().filter_map(|line| {
        let text = line.trim_start_matches('#');
        (text.len() < line.len()).then(|| text.strip_prefix(' '))?
    });
    let mut names: Vec<String> = Vec::new();
    let mut seen: HashMap<String, usize> = HashMap::new();
    for text in texts {
        // Of a link, its words.
        let mut parts = text.split("](");
        let mut words = parts.next().unwrap_or_default().to_owned();
        parts.for_each(|part| words.push_str(part.split_once(')').map_or(part, |(_, end)| end)));
        let kept = words.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let name = kept.collect::<String>().to_lowercase().replace(' ', "-");
        let before = seen.entry(name.clone()).or_default();
        names.push(if *before == 0 { name } else { format!("{name}-{before}") });
        *before += 1;
    }
    names
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
        let has = |to: &Path, heading: &str| {
            let text = without_programs(&fs::read_to_string(to).expect("readable"));
            headings(&text).iter().any(|known| known == heading)
        };
        for (link, heading) in links(&page) {
            let to = if link.is_empty() { root().join(&file) } else { folder.join(link) };
            let is_there = to.exists() && heading.is_none_or(|heading| has(&to, heading));
            if !is_there {
                broken.push(format!("{file:?}: {link}#{}", heading.unwrap_or_default()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// A link whose text is code names something in the file that it leads to: a test, a scenario.
#[test]
fn every_test_that_a_page_shows_is_there() {
    let page = fs::read_to_string(root().join("doc/differences.md")).expect("readable");
    let mut shown = 0;
    for part in page.split("[`").skip(1) {
        let Some((name, rest)) = part.split_once("`](") else { continue };
        let file = rest.split(')').next().unwrap_or_default();
        let text = fs::read_to_string(root().join("doc").join(file)).expect("readable");
        assert!(text.contains(name), "{name} is not in {file}");
        shown += 1;
    }
    assert!(shown > 30, "{shown} tests are shown");
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
    assert_eq!(
        links(&without_programs(page)).collect::<Vec<_>>(),
        [("b.md", None), ("", Some("here")), ("d/e.md", Some("f"))]
    );
    let page = "# One, `two` & 3\ntext # none\n## (1) [Of it](x.md)\n### One, two & 3\n#none\n";
    assert_eq!(headings(page), ["one-two--3", "1-of-it", "one-two--3-1"]);
    let named = ["doc/README.md", concat!("proof", "/none.pml")];
    let text = format!("see {}. Or `{}`, not src/doc/README.md", named[0], named[1]);
    assert_eq!(documents(&text).collect::<Vec<_>>(), named);
}
