//! Words that the project has replaced do not come back: in comments, documents and identifiers.
//!
//! The project uses the words of its field, and every sentence names its subject. [`WORDS`] has the
//! words that break that rule beyond doubt, each with what to write instead. A sentence can break
//! the rule without any of them; a reader has to find that.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::paths::root;

/// Old words, and what to write instead.
///
/// A word is found where neither a letter nor a digit touches it. A word that begins with a small
/// letter is also found with a capital one, and as a part of an identifier (`whoever_dies`). A
/// space stands for a run of spaces, and `#` for a digit.
const WORDS: &[(&str, &str)] = &[
    // Persons for processes.
    ("whoever", "the process: the next one to contend, the thread that holds it, …"),
    ("whomever", "the process"),
    ("whosoever", "the process"),
    ("one who", "a process that"),
    ("those who", "the processes that; the waiters"),
    ("somebody who", "a process that"),
    ("nobody who", "no process that"),
    ("everybody who", "every process that"),
    ("anybody who", "any process that"),
    ("everybody", "all, every process"),
    ("anybody", "any process"),
    ("he", "it: a process or thread is no person"),
    ("his", "its"),
    ("him", "it"),
    ("himself", "itself"),
    ("she", "it"),
    ("hers", "its"),
    ("herself", "itself"),
    // Types and modules that have other names.
    ("Patience", "WaitStrategy"),
    ("PassOn", "WakeRelay"),
    ("Outlook", "readiness source"),
    ("Inbox", "readiness source"),
    ("Crowd", "source list"),
    ("Roll", "RegistryHeader"),
    ("Bell", "EventCount"),
    ("RawSleepers", "EventCount"),
    ("Company", "Participants, Presence"),
    ("Bridge", "Reactor"),
    ("ReaderDied", "ReceiverDied"),
    ("NoReader", "NoReceiver"),
    ("ReaderTaken", "Taken"),
    ("wait::What", "wait::Readiness"),
    ("topic::Way", "topic::Writable"),
    ("GivenUp", "NotRecoverable"),
    ("set_patient", "set_wait_for_server"),
    ("loan_drop", "loan_release: what passes through ends by release"),
    ("reply_free", "reply_release"),
    // The wake protocol.
    ("is rung", "is notified, is woken"),
    ("are rung", "are notified, are woken"),
    ("was rung", "was notified, was woken"),
    ("pass_on", "relay"),
    ("passed_on", "relayed"),
    ("wake is passed on", "the kernel relays the wake"),
    ("wake-up is passed on", "the kernel relays the wake-up"),
    ("passes the wake on", "the kernel relays the wake"),
    ("passes the wake-up on", "the kernel relays the wake-up"),
    ("passes its wake-up on", "the kernel relays its wake-up"),
    ("looks by itself", "makes the recheck"),
    ("look by itself", "make the recheck"),
    ("looks by himself", "makes the recheck"),
    ("look by themselves", "make the recheck"),
    // Structure.
    ("floors", "layers"),
    ("upkeep", "gc"),
    ("dissolve", "reclaim (a span)"),
    ("dissolves", "reclaims (a span)"),
    // Private references.
    ("feature A#", "the behaviour itself: the list of features is not in the repository"),
    ("feature B#", "the behaviour itself"),
    ("feature C#", "the behaviour itself"),
    ("feature D#", "the behaviour itself"),
    ("S#", "the source's name in doc/background.md"),
    ("as the header asks", "the invariant that the header states"),
    ("SAFETY: as in", "the invariant itself, and the code that keeps it"),
    ("SAFETY: as above", "the invariant itself, and the code that keeps it"),
    ("SAFETY: as below", "the invariant itself, and the code that keeps it"),
];

/// Where a word means something else: a file or folder, the word, and the reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("xtask/src/words.rs", "", "the table itself"),
    ("crates/outlive-bench", "floors", "a floor of a benchmark is a cost that no row can undercut"),
    ("proof/peers", "floors", "a floor of a benchmark is a cost that no row can undercut"),
    ("crates/outlive-py/outlive/ros1", "Bridge", "the robotics field's word: between two systems"),
    ("crates/outlive-py/outlive/ros2", "Bridge", "the same"),
    ("doc/how-to/ros.md", "Bridge", "the same"),
    ("crates/outlive-cli/src/nouns.rs", "Bridge", "the verb's name: 'queue bridge', 'ros1 bridge'"),
    ("proof/models/run.pml", "dissolve", "a step's name: its change would repeat the model's runs"),
];

/// Endings of the files that are read.
const ENDINGS: &[&str] = &[
    "rs", "c", "h", "hpp", "cpp", "cu", "py", "pyi", "go", "java", "pml", "md", "txt", "toml",
    "css",
];

/// Returns whether `text` has the word at its beginning, and how many bytes it takes there.
fn begins(text: &str, word: &str) -> Option<usize> {
    let (mut rest, mut first) = (text, true);
    for wanted in word.chars() {
        let found = rest.chars().next()?;
        let same = match wanted {
            '#' => found.is_ascii_digit(),
            _ if first && wanted.is_ascii_lowercase() => found.eq_ignore_ascii_case(&wanted),
            _ => found == wanted,
        };
        if !same {
            return None;
        }
        rest = &rest[found.len_utf8()..];
        if wanted == ' ' {
            rest = rest.trim_start_matches(' ');
        }
        first = false;
    }
    Some(text.len() - rest.len())
}

/// Returns whether the line has that word, by the rule that [`WORDS`] tells.
fn has(line: &str, word: &str) -> bool {
    let in_identifiers = word.starts_with(|first: char| first.is_ascii_lowercase());
    let joins = |c: char| c.is_alphanumeric() || c == '_' && !in_identifiers;
    let mut before = None;
    for (at, c) in line.char_indices() {
        if !before.is_some_and(joins)
            && let Some(len) = begins(&line[at..], word)
            && !line[at + len..].starts_with(joins)
        {
            return true;
        }
        before = Some(c);
    }
    false
}

/// Returns whether that path is, or lies in, `place`.
fn lies_in(path: &str, place: &str) -> bool {
    path.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the old words of a text, each with its line: `path:line: word: what instead`.
fn old_words(path: &str, text: &str) -> Vec<String> {
    let is_excepted = |word: &str| {
        let of_this = |place: &str, of: &str| (of.is_empty() || of == word) && lies_in(path, place);
        EXCEPTIONS.iter().any(|(place, of, _)| of_this(place, of))
    };
    // What a text does not contain at all is not looked for line by line.
    let small = text.to_ascii_lowercase();
    let may_be_there = |word: &str| {
        let part = word.split([' ', '#']).max_by_key(|part| part.len()).unwrap_or(word);
        small.contains(&part.to_ascii_lowercase())
    };
    let is_looked_for = |word: &str| may_be_there(word) && !is_excepted(word);
    let words: Vec<_> = WORDS.iter().filter(|(word, _)| is_looked_for(word)).collect();
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for (word, instead) in words.iter().filter(|(word, _)| has(line, word)) {
            found.push(format!("{path}:{}: '{word}'; write: {instead}", number + 1));
        }
    }
    found
}

/// Returns the project's texts: their paths from its root, and what they say.
fn texts() -> Vec<(String, String)> {
    let listed = Command::new("git")
        .args(["ls-files", "--", "crates", "proof", "doc", "xtask", "README.md"])
        .current_dir(root())
        .output();
    let listed = String::from_utf8(listed.expect("git").stdout).expect("names");
    let is_read = |path: &&str| {
        let ending = Path::new(path).extension().and_then(|ending| ending.to_str());
        ending.is_some_and(|ending| ENDINGS.contains(&ending)) && root().join(path).exists()
    };
    let read = |path: &str| fs::read_to_string(root().join(path)).expect("readable");
    listed.lines().filter(is_read).map(|path| (path.to_owned(), read(path))).collect()
}

#[test]
fn no_old_word_comes_back() {
    let texts = texts();
    assert!(!texts.is_empty());
    let found: Vec<String> = texts.iter().flat_map(|(path, text)| old_words(path, text)).collect();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn each_exception_is_needed() {
    let texts = texts();
    for (place, word, _) in EXCEPTIONS.iter().filter(|(_, word, _)| !word.is_empty()) {
        let mut inside = texts.iter().filter(|(path, _)| lies_in(path, place));
        let is_used = inside.any(|(_, text)| text.lines().any(|line| has(line, word)));
        assert!(is_used, "{place} has no '{word}' any more: take the exception away");
    }
}

#[test]
fn an_old_word_is_found() {
    let found = |line: &str| old_words("README.md", line).len();
    assert_eq!(found("Whoever meets the claim"), 1);
    assert_eq!(found("fn whoever_dies_is_seen() {"), 1);
    assert_eq!(found("told what he holds, and his lock"), 2);
    assert_eq!(found("// SAFETY: as  above."), 1, "two spaces");
    assert_eq!(found("see feature A5 and S3"), 2);
    assert_eq!(found("struct PassOn;"), 1);
    assert_eq!(found("the helper has this; history; Scrolls; S30; a Rolling_Roll"), 0);
    assert_eq!(found("nobody else"), 0);
    assert_eq!(old_words("proof/peers/src/rpc.rs", "floors").len(), 0, "an exception");
    assert_eq!(old_words("xtask/src/c.rs", "a\nthe floors").len(), 1);
    assert!(lies_in("doc/faq.md", "doc") && !lies_in("doctor.md", "doc"));
}
