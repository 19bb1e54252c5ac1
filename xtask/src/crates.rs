//! `cargo xtask crates [--dry-run]`: what every crate that is published must have, and, with the
//! option, whether all of them can be published together from a clean clone.
//!
//! A package holds only what lies in its folder. So each crate has a first page and the licences'
//! texts of its own, and no file of a package includes a file that is outside of it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use serde::Deserialize;

use crate::count::Count;
use crate::crash::finish;
use crate::paths::root;
use crate::prefix;
use crate::stage::{self, Counts};
use crate::test::cargo;

/// The crates that are published: libraries, and what `cargo install` installs. All others say
/// `publish = false`: the C library, the shim and the Python module are installed as what they are
/// there, and the rest is this project's own.
const PUBLISHED: [&str; 10] = [
    "outlive",
    "outlive-bag",
    "outlive-bench",
    "outlive-cli",
    "outlive-derive",
    "outlive-described",
    "outlive-gpu",
    "outlive-mcap",
    "outlive-program",
    "outlive-record",
];

/// Files outside of their package that a file includes only with the feature `testing` of the
/// library, which no package's tests have.
const INCLUDED_BY_TESTING: [(&str, &str); 2] = [
    ("crates/outlive/src/lib.rs", "../../../README.md"),
    ("crates/outlive/src/pool/debug/modes.rs", "../../../../../doc/protocols/pool-modes.md"),
];

const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

const USAGE: &str = "usage: cargo xtask crates [--dry-run]";

/// What `cargo metadata` says.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Clone, Deserialize)]
struct Package {
    name: String,
    description: Option<String>,
    license: Option<String>,
    documentation: Option<String>,
    readme: Option<String>,
    rust_version: Option<String>,
    #[serde(default)]
    keywords: Vec<String>,
    #[serde(default)]
    categories: Vec<String>,
    /// `None`: to whichever registry; an empty list: to none.
    publish: Option<Vec<String>>,
    features: std::collections::BTreeMap<String, Vec<String>>,
    dependencies: Vec<Dependency>,
    manifest_path: PathBuf,
}

#[derive(Clone, Deserialize)]
struct Dependency {
    name: String,
    req: String,
    /// `None`: of the program itself; else `dev` or `build`.
    kind: Option<String>,
    path: Option<PathBuf>,
}

impl Package {
    fn is_published(&self) -> bool {
        self.publish.as_ref().is_none_or(|registries| !registries.is_empty())
    }

    fn folder(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(&self.manifest_path)
    }

    /// Returns what is missing or wrong in the manifest; `page` is the crate's first page.
    fn faults(&self, page: &str) -> Vec<String> {
        let mut faults = Vec::new();
        for (field, is_there) in [
            ("description", self.description.is_some()),
            ("license", self.license.is_some()),
            ("documentation", self.documentation.is_some()),
            ("readme", self.readme.as_deref() == Some("README.md")),
            ("rust-version", self.rust_version.is_some()),
            ("keywords", !self.keywords.is_empty()),
            ("categories", !self.categories.is_empty()),
        ] {
            if !is_there {
                faults.push(format!("Cargo.toml has no {field}"));
            }
        }
        // crates.io's limits.
        if self.keywords.len() > 5 || self.keywords.iter().any(|keyword| keyword.len() > 20) {
            faults.push("more than 5 keywords, or one of more than 20 letters".to_owned());
        }
        if self.categories.len() > 5 {
            faults.push("more than 5 categories".to_owned());
        }
        for dependency in &self.dependencies {
            let is_for_tests = dependency.kind.as_deref() == Some("dev");
            // Cargo leaves a test's dependency without a version out when it publishes.
            if dependency.path.is_none() || is_for_tests && dependency.req == "*" {
                continue;
            }
            if !PUBLISHED.contains(&dependency.name.as_str()) {
                faults.push(format!("{} is not published", dependency.name));
            } else if dependency.req == "*" {
                faults.push(format!("{} has a path and no version", dependency.name));
            }
        }
        for feature in self.features.keys().filter(|feature| *feature != "default") {
            if !page.contains(&format!("| `{feature}` |")) {
                faults.push(format!("README.md does not tell the feature '{feature}'"));
            }
        }
        // On crates.io and docs.rs a path leads nowhere.
        let links = page.split("](").skip(1);
        for link in links.filter(|link| !link.starts_with("https://") && !link.starts_with('#')) {
            let link = link.split(')').next().unwrap_or_default();
            faults.push(format!("README.md links '{link}', which is not in the package"));
        }
        faults
    }

    /// Returns what is missing in the package, or must not be in it; `files` are its files.
    fn faults_of_files(&self, files: &[String]) -> Vec<String> {
        let has = |name: &str| files.iter().any(|file| file == name);
        let mut faults = Vec::new();
        for name in LICENCES.iter().chain(&["README.md", "Cargo.toml"]) {
            if !has(name) {
                faults.push(format!("there is no {name} in the package"));
            }
        }
        for name in LICENCES {
            let same = |path: &Path| fs::read(path.join(name)).ok();
            if same(self.folder()) != same(&root()) {
                faults.push(format!("{name} is not the project's"));
            }
        }
        for file in files {
            if file.starts_with("tests/") {
                faults.push(format!("{file} would go along"));
            }
            if !file.ends_with(".rs") {
                continue;
            }
            let path = self.folder().join(file);
            let text = fs::read_to_string(&path).unwrap_or_default();
            for included in included(&text) {
                let from = Path::new(file).parent().unwrap_or(Path::new(""));
                let is_packed = within(&from.join(included)).is_some_and(|path| has(&path));
                let ours = path.strip_prefix(root()).unwrap_or(&path);
                let is_known = INCLUDED_BY_TESTING
                    .iter()
                    .any(|known| (Path::new(known.0), known.1) == (ours, included));
                if !is_packed && !is_known {
                    faults.push(format!("{file} includes {included}, which is not in the package"));
                }
            }
        }
        faults
    }
}

/// Returns the files that a source file includes as text or bytes.
fn included(text: &str) -> Vec<&str> {
    ["include_str!(\"", "include_bytes!(\""]
        .iter()
        .flat_map(|call| text.split(call).skip(1))
        .filter_map(|rest| Some(rest.split_once('"')?.0))
        .collect()
}

/// Returns a path without `..`, or `None` if it leads out of the folder.
fn within(path: &Path) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.iter() {
        match part.to_str()? {
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

pub(crate) fn run(args: &[String]) -> ExitCode {
    let is_dry_run = match args {
        [] => false,
        [flag] if flag == "--dry-run" => true,
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    let mut total = match look() {
        Ok(count) => count,
        Err(error) => {
            println!("{error}");
            Count::FAILED
        }
    };
    if is_dry_run {
        total.add(dry_run().unwrap_or_else(|error| {
            println!("{error}");
            Count::FAILED
        }));
    }
    println!("{total}");
    finish(total)
}

fn metadata() -> io::Result<Metadata> {
    let said = said(&mut cargo(&["metadata", "--no-deps", "--format-version", "1"]))?;
    serde_json::from_str(&said).map_err(io::Error::other)
}

/// Looks at each crate's manifest, and at the list of files that its package would have.
fn look() -> io::Result<Count> {
    let packages = metadata()?.packages;
    let mut count = Count::default();
    let mut published: Vec<&str> = packages
        .iter()
        .filter(|package| package.is_published())
        .map(|package| package.name.as_str())
        .collect();
    published.sort_unstable();
    if published != PUBLISHED {
        println!("these crates would be published: {published:?}; the others say publish = false");
        count.add(Count::FAILED);
    }
    for package in packages.iter().filter(|package| package.is_published()) {
        let page = fs::read_to_string(package.folder().join("README.md")).unwrap_or_default();
        let mut faults = package.faults(&page);
        // What is not committed yet is packed, too: it will be.
        let list = ["package", "--list", "--allow-dirty", "--quiet", "-p", &package.name];
        let files: Vec<String> = said(&mut cargo(&list))?.lines().map(str::to_owned).collect();
        faults.extend(package.faults_of_files(&files));
        for fault in &faults {
            println!("{}: {fault}", package.name);
        }
        count.add(if faults.is_empty() { Count::PASSED } else { Count::FAILED });
    }
    Ok(count)
}

/// Does the same as the dry run, and puts the packages into a folder.
pub(crate) fn packed_into(to: &Path) -> io::Result<Count> {
    let mut count = dry_run()?;
    let version = env!("CARGO_PKG_VERSION");
    for name in PUBLISHED {
        let package = format!("{name}-{version}.crate");
        match fs::copy(workshop().join("target/package").join(&package), to.join(&package)) {
            Ok(_) => println!("{package}"),
            Err(error) => {
                println!("{package}: {error}");
                count.add(Count::FAILED);
            }
        }
    }
    Ok(count)
}

/// Returns the folder in which the crates are packed and compiled.
fn workshop() -> PathBuf {
    root().join(prefix::target()).join("crates")
}

/// Packs all crates in a clone of what is committed, compiles each as its package has it, and does
/// all of publishing but the upload; by the oldest compiler that the project promises.
fn dry_run() -> io::Result<Count> {
    let here = workshop();
    let clone = here.join("clone");
    let _ = fs::remove_dir_all(&clone);
    fs::create_dir_all(&here)?;
    said(Command::new("git").args(["clone", "--quiet", "--local"]).arg(root()).arg(&clone))?;
    let library = metadata()?.packages.into_iter().find(|package| package.name == PUBLISHED[0]);
    let oldest = library
        .and_then(|library| library.rust_version)
        .ok_or_else(|| io::Error::other("the library's Cargo.toml has no rust-version"))?;
    let mut count = Count::default();
    let mut publish = match by_compiler(&oldest) {
        Some(command) => command,
        None => {
            println!("by the oldest compiler: skipped, Rust {oldest} is not here");
            count.add(Count::SKIPPED);
            cargo(&[])
        }
    };
    publish
        .args(["publish", "--dry-run", "--workspace", "--quiet"])
        .current_dir(&clone)
        .env("CARGO_TARGET_DIR", here.join("target"));
    let name = format!("{} crates published, but for the upload", PUBLISHED.len());
    count.add(stage::run_long(&name, publish, Counts::ByExit));
    Ok(count)
}

/// Returns cargo with the compiler of that version (`1.95`), if it is here: as the one that
/// everything is built with, or as another one of rustup's.
fn by_compiler(version: &str) -> Option<Command> {
    let of = |command: &mut Command| {
        let wanted = format!("rustc {version}.");
        said(command.arg("--version")).is_ok_and(|said| said.starts_with(&wanted))
    };
    if of(&mut Command::new("rustc")) {
        return Some(cargo(&[]));
    }
    let toolchain = format!("+{version}.0");
    let mut rustc = Command::new("rustc");
    // Rustup would fetch what is not here.
    if of(rustc.arg(&toolchain).env("RUSTUP_AUTO_INSTALL", "0")) {
        // Not the cargo that runs this program: it knows no such argument.
        let mut command = Command::new("cargo");
        command.arg(&toolchain).env_remove("RUSTC").env_remove("RUSTUP_TOOLCHAIN");
        return Some(command);
    }
    None
}

/// Returns what a program writes, or why it failed.
fn said(command: &mut Command) -> io::Result<String> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let why = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{command:?}: {}\n{why}", output.status)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package() -> Package {
        serde_json::from_value(serde_json::json!({
            "name": "outlive-cli", "description": "d", "license": "MIT", "readme": "README.md",
            "documentation": "https://docs.rs/outlive", "rust_version": "1.95",
            "keywords": ["ipc"], "categories": ["concurrency"], "publish": null,
            "features": { "default": ["top"], "top": [] },
            "dependencies": [
                { "name": "outlive", "req": "^0.1.0", "kind": null, "path": "/p/outlive" },
                { "name": "outlive-testkit", "req": "*", "kind": "dev", "path": "/p/testkit" },
                { "name": "libc", "req": "^0.2", "kind": null },
            ],
            "manifest_path": "/p/outlive-cli/Cargo.toml",
        }))
        .expect("as cargo metadata writes it")
    }

    const PAGE: &str =
        "# outlive-cli\n\n| `top` | live |\n[x](https://docs.rs/outlive), [y](#here)\n";

    #[test]
    fn what_a_manifest_lacks_is_told() {
        assert_eq!(package().faults(PAGE), Vec::<String>::new());
        let told = |change: &dyn Fn(&mut Package), page: &str| {
            let mut package = package();
            change(&mut package);
            package.faults(page).join("; ")
        };
        assert!(told(&|package| package.description = None, PAGE).contains("description"));
        assert!(told(&|package| package.keywords.clear(), PAGE).contains("keywords"));
        assert!(told(&|package| package.keywords = vec!["k".repeat(21)], PAGE).contains("20"));
        assert!(told(&|_| (), "# outlive-cli").contains("feature 'top'"));
        assert!(told(&|_| (), &format!("{PAGE}[z](../doc/a.md)")).contains("'../doc/a.md'"));
        let without_version = |package: &mut Package| package.dependencies[0].req = "*".to_owned();
        assert!(told(&without_version, PAGE).contains("no version"));
        let of_the_program = |package: &mut Package| package.dependencies[1].kind = None;
        assert!(told(&of_the_program, PAGE).contains("outlive-testkit is not published"));
    }

    #[test]
    fn only_an_empty_list_of_registries_keeps_a_crate_here() {
        let mut package = package();
        assert!(package.is_published());
        package.publish = Some(Vec::new());
        assert!(!package.is_published());
    }

    #[test]
    fn what_a_file_includes_is_found_and_has_to_be_in_the_package() {
        let text =
            concat!("const A: &str = include_", "str!(\"../a.css\"); include_", "bytes!(\"b\")");
        assert_eq!(included(text), ["../a.css", "b"]);
        assert_eq!(within(Path::new("src/suite/../a.css")).as_deref(), Some("src/a.css"));
        assert_eq!(within(Path::new("src/../../doc/a.md")), None);
    }
}
