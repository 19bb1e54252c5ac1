//! Each layer of the library uses those below it, never one above: read from the paths that its
//! sources name.
//!
//! The order is that of the table at the head of lib.rs. Names at the crate's root belong to the
//! layer that they come from. One call goes up and is known: `liveness` asks `inspect` for a sweep,
//! by `crate::sweep_quarantined`.
//!
//! The pool's folders have an order of their own, that of the table at the head of pool/mod.rs. No
//! two files of a folder import each other, but for those that are known, each with its reason.

use std::fs;
use std::path::{Path, PathBuf};

/// From the lowest to the highest.
const LAYERS: [&str; 20] = [
    "shim", "sys", "futex", "segment", "liveness", "wake", "claim", "config", "domain", "sync",
    "pool", "queue", "jobs", "notify", "topic", "state", "rpc", "node", "wait", "inspect",
];

/// Names at the crate's root, and the module of each. `Error` names a `Kind`, so it belongs to that
/// layer.
const AT_THE_ROOT: [(&str, &str); 28] = [
    ("WithAttributes", "domain"),
    ("Attributes", "segment"),
    ("Deadline", "sys"),
    ("Error", "segment"),
    ("error", "segment"),
    ("describe", "segment"),
    ("durability", "segment"),
    ("Kind", "segment"),
    ("kind", "segment"),
    ("Payload", "segment"),
    ("payload", "segment"),
    ("msgpack", "claim"),
    ("Msgpack", "claim"),
    ("Plain", "segment"),
    ("Shareable", "segment"),
    ("RecvError", "claim"),
    ("SendError", "claim"),
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

/// The rooms of the pool, from the lowest to the highest.
const ROOMS: [&str; 4] = ["heap", "cache", "debug", "share"];

/// Files of a folder that import each other, and why they do.
const CIRCLES: &[(&str, &str, &str)] = &[
    (
        "liveness/doorbell.rs",
        "liveness/registry.rs",
        "a registry has the doorbells, which ask it whether their owners live",
    ),
    (
        "liveness/process_token.rs",
        "liveness/registry.rs",
        "a registry knows its process's token, which is claimed from it",
    ),
    (
        "sync/ceiling_mutex.rs",
        "sync/primitive.rs",
        "a list of all kinds names each, and each is one of them",
    ),
    (
        "sync/embedded.rs",
        "sync/primitive.rs",
        "a record's handle is a primitive's; a list of all kinds looks into records",
    ),
    ("sync/primitive.rs", "sync/semaphore.rs", "as the mutex with a ceiling"),
    ("sync/barrier.rs", "sync/primitive.rs", "as the mutex with a ceiling"),
    (
        "sync/embedded.rs",
        "sync/lock.rs",
        "a lock's handle reaches an embedded lock, which is taken alike",
    ),
    ("sync/event.rs", "sync/readiness.rs", "an event makes its sources, which hold it"),
    (
        "pool/cache/magazine.rs",
        "pool/cache/mod.rs",
        "the page of the fast path names the rest of its thread's cache",
    ),
];

fn height(layer: &str) -> Option<usize> {
    LAYERS.iter().position(|known| *known == layer)
}

/// The layer of the first name in a path that begins at the root; the name itself if it is of none.
fn layer_of(name: &str) -> Result<usize, String> {
    let layer = AT_THE_ROOT.iter().find(|(root, _)| *root == name).map_or(name, |(_, layer)| layer);
    height(layer).ok_or_else(|| format!("`{name}` is of no layer that this test knows"))
}

/// The source without comments, so that a link in a doc comment is no use, and without tests.
fn without_comments(source: &str) -> String {
    let tests = "#[cfg(all(test, not(loom)))]\nmod tests {";
    let source = source.split(tests).next().unwrap_or_default();
    source
        .lines()
        .map(|line| line.split_once("//").map_or(line, |(code, _)| code))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The first name of every path in the code that begins at the crate's root; groups in braces give
/// one each.
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
        // There under loom only, in the place of the kernel or of a layer; they may name what the
        // kernel acts on. And tests, which may name all, as those inside of a file.
        let inside_name = inside.to_string_lossy();
        if inside_name.ends_with("_model.rs") || inside_name.ends_with("_tests.rs") {
            continue;
        }
        let mut parts =
            inside.components().map(|part| part.as_os_str().to_string_lossy().into_owned());
        let first = parts.next().expect("a name");
        // What is at the root is the map of all layers; an error has its own layer.
        let layer = match first.as_str() {
            "lib.rs" => continue,
            "durability.rs" | "error.rs" | "kind.rs" | "payload.rs" | "describe" => "segment",
            // Its error is that of sending.
            "msgpack.rs" => "claim",
            other => other.strip_suffix(".rs").unwrap_or(other),
        };
        assert!(height(layer).is_some(), "{}: which layer is {layer}?", inside.display());
        looked_at.push(layer.to_owned());
        let source = fs::read_to_string(&path).expect("readable");
        all.extend(
            complaints(layer, &source)
                .into_iter()
                .map(|text| format!("{}: {text}", inside.display())),
        );
    }
    for layer in LAYERS {
        assert!(looked_at.iter().any(|looked| looked == layer), "{layer} has no source");
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

/// The paths inside its own layer that a file names, from the layer's root: of
/// `crate::pool::heap::{Tag, span}` the two `["heap", "Tag"]` and `["heap", "span"]`. What `mod.rs`
/// hands on by `pub use` is no use.
fn names_in_layer(inside: &str, source: &str) -> Vec<Vec<String>> {
    let folder: Vec<&str> = inside.split('/').skip(1).collect();
    let folder = &folder[..folder.len() - 1];
    let code = without_comments(source);
    let code = code.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let code = code.split("#[cfg(all(test").next().unwrap_or_default();
    let is_mod = inside.ends_with("/mod.rs");
    let mut paths = Vec::new();
    let mut add = |base: &[&str], rest: &str| {
        let mut rest = rest;
        let mut path: Vec<String> = base.iter().map(|&name| name.to_owned()).collect();
        loop {
            if let Some(group) = rest.strip_prefix('{') {
                paths.extend(
                    first_names_of_group(group)
                        .into_iter()
                        .map(|name| [path.as_slice(), &[name]].concat()),
                );
                return;
            }
            let name = identifier(rest);
            if name.is_empty() {
                return;
            }
            path.push(name.to_owned());
            let Some(next) = rest[name.len()..].strip_prefix("::") else { break };
            rest = next;
        }
        paths.push(path);
    };
    let layer = format!("crate::{}::", inside.split('/').next().unwrap_or_default());
    for (at, prefix) in code.match_indices(&layer) {
        if !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':') {
            add(&[], &code[at + prefix.len()..]);
        }
    }
    for (at, prefix) in code.match_indices("super::") {
        // From the layer's root there is nothing above; of `super::super::` the second is met by
        // itself.
        let before = &code[..at];
        if before.ends_with("super::")
            || before.ends_with(|c: char| c.is_alphanumeric() || c == '_')
            || is_mod
        {
            continue;
        }
        add(folder, &code[at + prefix.len()..]);
    }
    if is_mod {
        for line in code.lines() {
            if let Some(rest) = line.strip_prefix("use ")
                && !["core", "std", "crate", "super", "rustix"].contains(&identifier(rest))
            {
                add(folder, rest);
            }
        }
    }
    paths
}

/// The room that a path inside the pool leads to; `None`: the pool's own files.
fn room_of(first: &str) -> Option<usize> {
    ROOMS.iter().position(|room| *room == first)
}

/// What is wrong with what a file of the pool names of the pool's rooms.
fn complaints_of_room(inside: &str, source: &str) -> Vec<String> {
    let room = inside.split('/').nth(1).unwrap_or_default();
    // The pool's own files hold its rooms together.
    let Some(own) = room_of(room) else { return Vec::new() };
    let mut complaints = Vec::new();
    for path in names_in_layer(inside, source) {
        let first = path.first().map_or("", String::as_str);
        match room_of(first) {
            Some(other) if other > own => {
                complaints.push(format!("{inside} names {}, above it", path.join("::")))
            }
            None if own == 0 => complaints
                .push(format!("{inside} names {}, of the pool's own files", path.join("::"))),
            _ => {}
        }
    }
    complaints
}

/// Every source file of that layer, without tests and models: its path, and its text.
fn files_of(layer: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let folder = root.join(layer);
    if !folder.is_dir() {
        return Vec::new();
    }
    let files = sources(&folder).into_iter().map(|path| {
        let inside = path.strip_prefix(&root).expect("inside").to_string_lossy().into_owned();
        (inside, fs::read_to_string(&path).expect("readable"))
    });
    files
        .filter(|(inside, _)| !inside.ends_with("_tests.rs") && !inside.ends_with("_model.rs"))
        .collect()
}

/// Which files of a folder of a layer import each other.
fn circles(files: &[(String, String)]) -> Vec<(String, String)> {
    let exists = |path: &str| files.iter().any(|(inside, _)| inside == path);
    let mut uses = Vec::new();
    for (inside, source) in files {
        let (folder, _) = inside.rsplit_once('/').expect("in a layer");
        let layer = inside.split('/').next().expect("in a layer");
        for path in names_in_layer(inside, source) {
            let path = format!("{layer}/{}", path.join("/"));
            let Some(rest) = path.strip_prefix(&format!("{folder}/")) else { continue };
            let name = rest.split('/').next().unwrap_or_default();
            let file = format!("{folder}/{name}.rs");
            let is_room = exists(&format!("{folder}/{name}/mod.rs"));
            // A name that is no file is one of `mod.rs`.
            let of = if exists(&file) { file } else { format!("{folder}/mod.rs") };
            if !is_room && of != *inside {
                uses.push((inside.clone(), of));
            }
        }
    }
    let mut all: Vec<_> = uses
        .iter()
        .filter(|(a, b)| a < b && uses.contains(&(b.clone(), a.clone())))
        .cloned()
        .collect();
    all.sort();
    all.dedup();
    all
}

#[test]
fn no_room_of_the_pool_names_one_above() {
    let files = files_of("pool");
    for room in ROOMS {
        assert!(
            files.iter().any(|(inside, _)| inside.starts_with(&format!("pool/{room}/"))),
            "{room} has no source"
        );
    }
    let all: Vec<_> =
        files.iter().flat_map(|(inside, source)| complaints_of_room(inside, source)).collect();
    assert!(all.is_empty(), "{}", all.join("\n"));
    let table = &files.iter().find(|(inside, _)| inside == "pool/mod.rs").expect("there").1;
    let rows = table.lines().filter_map(|line| line.strip_prefix("//! | `")?.split('`').next());
    assert_eq!(rows.collect::<Vec<_>>(), ROOMS);
}

#[test]
fn no_two_files_of_a_folder_import_each_other() {
    let known: Vec<_> =
        CIRCLES.iter().map(|(a, b, _)| ((*a).to_owned(), (*b).to_owned())).collect();
    let found: Vec<_> = LAYERS.iter().flat_map(|layer| circles(&files_of(layer))).collect();
    let new: Vec<_> = found.iter().filter(|circle| !known.contains(circle)).collect();
    assert!(new.is_empty(), "{new:#?}");
    for circle in known {
        assert!(found.contains(&circle), "{circle:?} is no circle any more");
    }
}

#[test]
fn a_name_of_a_room_above_is_found() {
    let upward = [
        ("pool/heap/tag.rs", "use crate::pool::share::Sharing;"),
        ("pool/heap/reclaim.rs", "use crate::pool::file::File;"),
        ("pool/heap/mod.rs", "fn f() { crate::pool::cache::release() }"),
        ("pool/cache/mod.rs", "use crate::pool::{debug::Modes, heap::Tag};"),
        ("pool/debug/checked.rs", "use crate::pool::share::{Offset, Offer};"),
    ];
    for (inside, source) in upward {
        assert!(!complaints_of_room(inside, source).is_empty(), "{source}");
    }
    let fine = [
        (
            "pool/heap/alloc.rs",
            "use super::tag::Tag;\nuse super::{Heap, grow};\nuse crate::pool::heap::span;",
        ),
        (
            "pool/share/mod.rs",
            "use crate::pool::{cache::Cache, debug::Modes, heap::Tag, pool::Inner};",
        ),
        ("pool/gc.rs", "use super::share::SharedObject;"),
        ("pool/heap/host.rs", "//! See crate::pool::share.\nuse crate::Error;"),
    ];
    for (inside, source) in fine {
        assert_eq!(complaints_of_room(inside, source), Vec::<String>::new(), "{source}");
    }
    let file = |inside: &str, source: &str| (inside.to_owned(), source.to_owned());
    let both = [
        file("pool/heap/mod.rs", "use tag::Tag;\npub(crate) use span::Span;"),
        file("pool/heap/tag.rs", "use super::Heap;"),
        file("pool/heap/span.rs", "use super::Heap;"),
    ];
    assert_eq!(circles(&both), [("pool/heap/mod.rs".to_owned(), "pool/heap/tag.rs".to_owned())]);
}

#[test]
fn the_order_is_that_of_the_table_in_lib() {
    let lib = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs"))
        .expect("readable");
    let mut in_table = Vec::new();
    let table = lib.lines().skip_while(|line| *line != "//! # The layers");
    let table = table.skip(1).take_while(|line| !line.starts_with("//! # "));
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
