//! Each layer of the library uses those below it, never one above: read from the paths that its sources name.
//!
//! The order is that of the table at the head of lib.rs. Names at the crate's root belong to the layer that they come
//! from. One call goes up and is known: `liveness` asks `inspect` for a sweep, by `crate::sweep_quarantined`.

use std::fs;
use std::path::{Path, PathBuf};

/// From the lowest to the highest.
const LAYERS: [&str; 16] = [
    "shim", "sys", "futex", "segment", "liveness", "wake", "claim", "domain", "sync", "pool", "queue", "topic",
    "state", "rpc", "wait", "inspect",
];

/// Names at the crate's root, and whose they are. `Error` names a `Kind`, so it stands on that layer.
const AT_THE_ROOT: [(&str, &str); 16] = [
    ("Deadline", "sys"),
    ("Error", "segment"),
    ("error", "segment"),
    ("Kind", "segment"),
    ("kind", "segment"),
    ("TokenId", "liveness"),
    ("TokenInfo", "liveness"),
    ("TokenKind", "liveness"),
    ("Peer", "liveness"),
    ("WaitStrategy", "wake"),
    ("WaitError", "wake"),
    ("Domain", "domain"),
    ("DomainOptions", "domain"),
    ("DomainStats", "domain"),
    ("Entry", "inspect"),
    ("Detail", "inspect"),
];

/// The one call upwards.
const KNOWN: (&str, &str) = ("liveness", "sweep_quarantined");

fn height(layer: &str) -> Option<usize> {
    LAYERS.iter().position(|known| *known == layer)
}

/// The layer of the first name in a path that begins at the root; the name itself if it is of none.
fn layer_of(name: &str) -> Result<usize, String> {
    let layer = AT_THE_ROOT.iter().find(|(root, _)| *root == name).map_or(name, |(_, layer)| layer);
    height(layer).ok_or_else(|| format!("`{name}` is of no layer that this test knows"))
}

/// The source without comments, so that a link in a doc comment is no use.
fn without_comments(source: &str) -> String {
    source.lines().map(|line| line.split_once("//").map_or(line, |(code, _)| code)).collect::<Vec<_>>().join("\n")
}

/// The first name of every path in the code that begins at the crate's root; groups in braces give one each.
fn names_from_root(source: &str) -> Vec<String> {
    let code = without_comments(source);
    let mut names = Vec::new();
    for root in ["crate::", "super::super::"] {
        for (at, _) in code.match_indices(root) {
            let before = code[..at].chars().next_back();
            let own = before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':');
            // `$crate` in a macro is this crate, seen from another.
            if own {
                continue;
            }
            let rest = &code[at + root.len()..];
            if let Some(group) = rest.strip_prefix('{') {
                names.extend(first_names_of_group(group));
            } else {
                names.push(identifier(rest).to_owned());
            }
        }
    }
    // A `super::super::` that stays on its layer is no path from the root.
    names
}

fn identifier(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

/// `a::{b, c}, D}` gives `a` and `D`.
fn first_names_of_group(group: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut depth = 0;
    let mut item = String::new();
    for c in group.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                names.push(identifier(item.trim()).to_owned());
                item.clear();
            }
            _ if depth == 0 => item.push(c),
            _ => {}
        }
    }
    names.push(identifier(item.trim()).to_owned());
    names.retain(|name| !name.is_empty());
    names
}

/// What is wrong with a source file of that layer.
fn complaints(layer: &str, source: &str) -> Vec<String> {
    let own = height(layer).expect("a layer");
    let mut complaints = Vec::new();
    for name in names_from_root(source) {
        if (layer, name.as_str()) == KNOWN {
            continue;
        }
        match layer_of(&name) {
            Ok(other) if other > own => {
                complaints.push(format!("{layer} names {name}, of {}, above it", LAYERS[other]))
            }
            Ok(_) => {}
            // Names within a layer, by `super::super::`.
            Err(_) if source.contains(&format!("super::super::{name}")) => {}
            Err(complaint) => complaints.push(complaint),
        }
    }
    complaints
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("readable") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

#[test]
fn no_layer_names_one_above() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut looked_at = Vec::new();
    let mut all = Vec::new();
    for path in sources(&root) {
        let inside = path.strip_prefix(&root).expect("inside");
        // There under loom only, in the place of the kernel or of a layer; they may name what the kernel acts on.
        if inside.to_string_lossy().ends_with("_model.rs") {
            continue;
        }
        let mut parts = inside.components().map(|part| part.as_os_str().to_string_lossy().into_owned());
        let first = parts.next().expect("a name");
        // What stands at the root is the map of all layers; an error is of its own.
        let layer = match first.as_str() {
            "lib.rs" => continue,
            "error.rs" | "kind.rs" => "segment",
            other => other.strip_suffix(".rs").unwrap_or(other),
        };
        assert!(height(layer).is_some(), "{}: which layer is {layer}?", inside.display());
        looked_at.push(layer.to_owned());
        let source = fs::read_to_string(&path).expect("readable");
        all.extend(complaints(layer, &source).into_iter().map(|text| format!("{}: {text}", inside.display())));
    }
    for layer in LAYERS {
        assert!(looked_at.iter().any(|looked| looked == layer), "{layer} has no source");
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[test]
fn the_order_is_that_of_the_table_in_lib() {
    let lib = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).expect("readable");
    let mut in_table = Vec::new();
    let table = lib.lines().skip_while(|line| *line != "//! # The layers");
    for line in table.filter_map(|line| line.strip_prefix("//! | ")) {
        let name = line.split('`').nth(1).unwrap_or_default();
        if height(name).is_some() {
            in_table.push(name.to_owned());
        }
    }
    assert_eq!(in_table, LAYERS);
}

#[test]
fn an_upward_name_is_found() {
    let upward = [
        ("sys", "use crate::segment::Segment;"),
        ("liveness", "use crate::{Error, sync::{MutexGuard, Mutex}};"),
        ("segment", "fn f() { crate::liveness::Peer::new() }"),
        ("pool", "use crate::{\n    queue::{self, Queue},\n    shim,\n};"),
        ("sync", "pub use super::super::inspect::Entry;"),
        ("shim", "use crate::Deadline;"),
        ("domain", "fn f() { crate::sweep_quarantined(p) }"),
        ("liveness", "use crate::Domain;"),
    ];
    for (layer, source) in upward {
        assert_eq!(complaints(layer, source).len(), 1, "{source}");
    }
    let fine = [
        ("sync", "use crate::{Error, liveness::{Me, Peer}, sys::futex};"),
        ("liveness", "crate::sweep_quarantined(self.path());"),
        ("segment", "/// See [`Queue`](crate::queue::Queue).\nuse crate::Kind;"),
        ("sync", "$crate::sync::EmbeddedMutex; mycrate::queue::x();"),
        ("inspect", "use crate::{queue::Queue, Domain};"),
        ("sys", "assert_eq!(super::super::process::thread_id(), 1);"),
    ];
    for (layer, source) in fine {
        assert_eq!(complaints(layer, source), Vec::<String>::new(), "{source}");
    }
}
