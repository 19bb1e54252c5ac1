//! `cargo xtask errors`: writes the table of doc/errors.md anew. It has all errors of the library,
//! with what C returns, what Python raises and what the program exits with, read from the sources
//! that decide it. A test compares the page with them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::process::ExitCode;

use crate::paths::{self, root};

/// The enums, each with its source.
const ENUMS: [(&str, &str); 9] = [
    ("Error", "crates/outlive/src/error.rs"),
    ("LockError", "crates/outlive/src/sync/error.rs"),
    ("AcquireError", "crates/outlive/src/sync/error.rs"),
    ("WaitError", "crates/outlive/src/wake/error.rs"),
    ("SendError", "crates/outlive/src/claim/transfer.rs"),
    ("RecvError", "crates/outlive/src/claim/transfer.rs"),
    ("CallError", "crates/outlive/src/rpc/error.rs"),
    ("PoolError", "crates/outlive/src/pool/error.rs"),
    ("GpuError", "crates/outlive-gpu/src/error.rs"),
];
/// Which code of C, which exception of Python, and which exit code of the program each error has.
const C: &str = "crates/outlive-c/src/code.rs";
const PYTHON: &str = "crates/outlive-py/src/errors.rs";
const EXIT: &str = "crates/outlive-cli/src/exit.rs";
const EXIT_OF_CALLS: &str = "crates/outlive-cli/src/verbs/call.rs";

/// The table stands behind this line, up to the page's end.
const BEGIN: &str = "<!-- written by `cargo xtask errors` -->\n";

/// Runs `cargo xtask errors`.
pub(crate) fn run() -> ExitCode {
    match page().and_then(|page| fs::write(paths::at(paths::ERRORS), page)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{}: {error}", paths::ERRORS);
            ExitCode::FAILURE
        }
    }
}

/// Returns the page as it should be.
fn page() -> io::Result<String> {
    let read = |path: &str| fs::read_to_string(root().join(path));
    let page = read(paths::ERRORS)?;
    let (head, _) = page.split_once(BEGIN).unwrap_or((&page, ""));
    let without_tests =
        |text: String| text.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
    let exit = without_tests(read(EXIT)?) + &without_tests(read(EXIT_OF_CALLS)?);
    let (c, python) = (without_tests(read(C)?), without_tests(read(PYTHON)?));
    let mut table = String::new();
    for (name, path) in ENUMS {
        table.push_str(&format!(
            "\n## {name}\n\n| `{name}` | when | C | Python | exit code |\n| --- | --- | --- | --- | --- |\n"
        ));
        let is_seen = exit.contains(&format!("{name}::"));
        let variants = variants(&read(path)?, name);
        if variants.is_empty() {
            return Err(io::Error::other(format!("{path} has no {name}")));
        }
        for (variant, when) in variants {
            let error = format!("{name}::{variant}");
            table.push_str(&format!(
                "| `{variant}` | {when} | {} | {} | {} |\n",
                in_c(&c, &error),
                in_python(&python, &error),
                if is_seen { exit_code(&exit, &error) } else { "–".to_owned() },
            ));
        }
    }
    Ok(format!("{head}{BEGIN}{table}"))
}

/// Returns the variants of an enum, each with the first sentence of its documentation.
fn variants(source: &str, name: &str) -> Vec<(String, String)> {
    let all = source.split_once(&format!("pub enum {name}")).map_or("", |(_, rest)| rest);
    let body = all.split_once("\n}").map_or(all, |(body, _)| body);
    let mut found = Vec::new();
    let mut said = String::new();
    for line in body.lines().skip(1) {
        // Variants are indented by four spaces; their fields by more.
        let Some(line) = line.strip_prefix("    ").filter(|line| !line.starts_with(' ')) else {
            continue;
        };
        if let Some(text) = line.strip_prefix("///") {
            said.push_str(text);
        } else if line.starts_with(|c: char| c.is_uppercase()) {
            let variant = line.chars().take_while(|c| c.is_alphanumeric()).collect();
            let first = said.split_once(". ").map_or(said.as_str(), |(first, _)| first);
            found.push((variant, without_links(first.trim().trim_end_matches('.'))));
            said.clear();
        }
    }
    found
}

/// Returns a sentence of rustdoc without its links, which lead nowhere on a page.
fn without_links(text: &str) -> String {
    let mut words = String::new();
    for (at, part) in text.split("](").enumerate() {
        words.push_str(if at == 0 {
            part
        } else {
            part.split_once(')').map_or("", |(_, end)| end)
        });
    }
    words.replace("[`", "`").replace("`]", "`").replace('|', "\\|").trim().to_owned()
}

/// Returns what stands behind the arrow of each arm that names this error: up to the next arrow.
fn arms<'a>(source: &'a str, error: &str) -> Vec<&'a str> {
    let is_of_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for (at, _) in source.match_indices(error) {
        let (before, after) = (&source[..at], &source[at + error.len()..]);
        if before.ends_with(is_of_name) || after.starts_with(is_of_name) {
            continue;
        }
        let Some((pattern, rest)) = after.split_once("=>") else { continue };
        // Not a pattern: the error is made here, or looked for.
        if pattern.contains([';', '?']) {
            continue;
        }
        found.push(rest.split("=>").next().unwrap_or(rest));
    }
    found
}

/// Joins what several arms say.
fn joined(all: BTreeSet<String>, otherwise: &str) -> String {
    if all.is_empty() {
        return otherwise.to_owned();
    }
    all.into_iter().collect::<Vec<_>>().join(" or ")
}

/// As an error within another one is told.
const INNER: &str = "as the error inside";

fn in_c(source: &str, error: &str) -> String {
    let told = arms(source, error).into_iter().filter_map(|arm| {
        let code = arm.trim_start();
        if code.starts_with("error.") {
            return Some(INNER.to_owned());
        }
        if code.starts_with("if ") {
            return Some("the system's errno".to_owned());
        }
        let code = code.trim_start_matches("libc::");
        let end = code.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(code.len());
        // Else it is no code: an arm of what tells more about the error.
        (code.starts_with(|c: char| c.is_ascii_uppercase()) && !code.starts_with("Some"))
            .then(|| format!("`{}`", &code[..end]))
    });
    joined(told.collect(), "`EINVAL`")
}

fn in_python(source: &str, error: &str) -> String {
    // What is not named falls into the last arm of its enum.
    let name = error.split(':').next().unwrap_or(error);
    let of_enum = source.split_once(&format!(" for {name} {{")).map_or("", |(_, rest)| rest);
    let of_enum = of_enum.split("\nimpl").next().unwrap_or(of_enum);
    let rest = ["other =>", "_ =>"].iter().find_map(|arm| of_enum.split_once(arm));
    let otherwise = rest.and_then(|(_, arm)| arm.split('"').nth(1)).unwrap_or("OutliveError");
    let told = arms(source, error).into_iter().map(|arm| {
        let is_inner = arm.find(".raise(py)").is_some_and(|at| !arm[..at].contains('"'));
        let own = arm.split_once("exceptions::").map(|(_, name)| name);
        match (arm.split('"').nth(1), own) {
            _ if is_inner => INNER.to_owned(),
            (_, Some(own)) => format!(
                "`{}`",
                own.split([':', ' ']).next().unwrap_or(own).trim_start_matches("Py")
            ),
            (Some(name), None) => format!("`{name}`"),
            (None, None) => format!("`{otherwise}`"),
        }
    });
    joined(told.collect(), &format!("`{otherwise}`"))
}

fn exit_code(source: &str, error: &str) -> String {
    let told = arms(source, error).into_iter().filter_map(|arm| match arm.split_once("Code::") {
        Some((before, name)) if !before.contains("code_of(") => {
            let end = name.find(|c: char| !c.is_alphanumeric()).unwrap_or(name.len());
            Some(number(source, &name[..end]))
        }
        _ if arm.contains("code_of(") || arm.contains("error.into()") => Some(INNER.to_owned()),
        _ => None,
    });
    joined(told.collect(), &number(source, "System"))
}

/// Returns the number of an exit code.
fn number(source: &str, code: &str) -> String {
    let line = source.lines().find_map(|line| line.trim().strip_prefix(&format!("{code} = ")));
    line.map_or("?".to_owned(), |number| number.trim_end_matches(',').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_says_what_the_sources_say() {
        let written = fs::read_to_string(paths::at(paths::ERRORS)).expect("readable");
        let expected = page().expect("made");
        assert!(!expected.contains(" ? |"), "an exit code without a number");
        let differs = written.lines().zip(expected.lines()).find(|(is, should)| is != should);
        assert_eq!(differs, None, "run `cargo xtask errors`");
        assert_eq!(written, expected, "run `cargo xtask errors`");
    }

    #[test]
    fn arms_are_read() {
        let source = "enum Code { System = 15, Busy = 12,\n    Busy = 12,\n    System = 15,\n}
            E::A | E::B(_) => libc::EBUSY,\n E::C(error) => error.code(), AnE::B => X,";
        assert_eq!(in_c(source, "E::A"), "`EBUSY`");
        assert_eq!(in_c(source, "E::B"), "`EBUSY`");
        assert_eq!(in_c(source, "E::C"), INNER);
        assert_eq!(in_c(source, "E::D"), "`EINVAL`");
        let source = "E::A { .. } | E::B => return raise(py, \"Full\", 17), E::C(e) => e.raise(py),
            E::D => { \"Gone\" }";
        assert_eq!(in_python(source, "E::B"), "`Full`");
        assert_eq!(in_python(source, "E::C"), INNER);
        assert_eq!(in_python(source, "E::D"), "`Gone`");
        assert_eq!(in_python("impl R for E { _ => \"Late\" }", "E::F"), "`Late`");
        let source =
            "    Busy = 12,\n    System = 15,\n E::A => Code::Busy, E::B(inner) => code_of(inner),";
        assert_eq!(exit_code(source, "E::A"), "12");
        assert_eq!(exit_code(source, "E::B"), INNER);
        assert_eq!(exit_code(source, "E::C"), "15");
        let source = "pub enum E {\n    /// [`A`](x) came. More.\n    A {\n        /// no\n        a: u8,\n    },\n    /// B\n    /// too.\n    B,\n}";
        let found = variants(source, "E");
        assert_eq!(found[0], ("A".to_owned(), "`A` came".to_owned()));
        assert_eq!(found[1], ("B".to_owned(), "B too".to_owned()));
    }
}
