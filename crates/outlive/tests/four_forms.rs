//! A verb that waits has four forms: `verb` waits for ever, `try_verb` never waits, `verb_timeout`
//! takes a duration and `verb_until` a deadline. Read from the names of the public functions.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Verbs that lack a form, and why they do.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("call", "try_call", "an answer takes time: `try_begin`, and `Call::try_next`"),
    ("wait", "try_wait", "of `Call`: `try_next`; of a condition variable: as `wait_while`"),
    ("wait_while", "try_wait_while", "a wait that does not wait is a look at the value"),
    ("wait_or_end", "try_wait_or_end", "as `wait_while`"),
    ("into_object", "", "`try_into_object` takes the object if it is the last holder: no wait"),
    ("wait_and_relock", "", "for the bindings, which have the forms themselves"),
];

/// Returns all sources of the library.
fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("readable") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            into.push(path);
        }
    }
}

/// Returns the names of a source's public functions.
fn public_functions(source: &str) -> BTreeSet<&str> {
    let names = source.lines().filter_map(|line| {
        let rest = line.trim_start().strip_prefix("pub ")?;
        let rest = rest.strip_prefix("const ").unwrap_or(rest);
        let rest = rest.strip_prefix("unsafe ").unwrap_or(rest).strip_prefix("fn ")?;
        rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()
    });
    names.collect()
}

/// Returns the verb of which that name is a form with a prefix or a suffix.
fn verb_of(name: &str) -> Option<&str> {
    name.strip_prefix("try_")
        .or_else(|| name.strip_suffix("_timeout"))
        .or_else(|| name.strip_suffix("_until"))
}

/// Returns the forms that verbs of the source lack.
fn lacking(source: &str) -> BTreeSet<(String, String)> {
    let names = public_functions(source);
    let mut lacking = BTreeSet::new();
    for verb in names.iter().filter_map(|name| verb_of(name)) {
        let forms = [
            verb.to_owned(),
            format!("try_{verb}"),
            format!("{verb}_timeout"),
            format!("{verb}_until"),
        ];
        let absent = forms.into_iter().filter(|form| !names.contains(form.as_str()));
        lacking.extend(absent.map(|form| (verb.to_owned(), form)));
    }
    lacking
}

#[test]
fn each_verb_that_waits_has_four_forms() {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    let (mut wrong, mut used, mut seen) = (Vec::new(), BTreeSet::new(), 0);
    for file in files {
        let source = fs::read_to_string(&file).expect("readable");
        seen += public_functions(&source).iter().filter(|name| verb_of(name).is_some()).count();
        for (verb, form) in lacking(&source) {
            let known = EXCEPTIONS.iter().position(|(of, missing, _)| {
                *of == verb && (missing.is_empty() || *missing == form)
            });
            match known {
                Some(at) => _ = used.insert(at),
                None => wrong.push(format!("{}: {verb} has no {form}", file.display())),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(used.len(), EXCEPTIONS.len(), "an exception that no verb needs: {used:?}");
    assert!(seen > 100, "{seen} forms");
}

#[test]
fn a_missing_form_is_found() {
    let source =
        "    pub fn recv(&self) {\n    pub fn try_recv(&self) {\n    pub fn recv_until(&self";
    let found: Vec<_> = lacking(source).into_iter().collect();
    assert_eq!(found, [("recv".to_owned(), "recv_timeout".to_owned())]);
    assert!(lacking("pub fn send(&self)\npub(crate) fn try_send(&self)").is_empty());
}
