//! Where things lie: the one table of the project's paths, below its root. doc/README.md says what
//! each folder holds.

use std::path::{Path, PathBuf};

/// The C library: header, CMake and pkg-config files, its tests.
pub(crate) const C: &str = "crates/outlive-c";
/// What Debian's packages have and need.
pub(crate) const DEBIAN: &str = "packaging/debian";
/// The C interface of the last release, as abidw writes it.
pub(crate) const ABI: &str = "packaging/abi/liboutlive.abi.gz";
/// What may change in the C interface, as abidiff reads it.
pub(crate) const ABI_MAY_CHANGE: &str = "packaging/abi/may_change.abignore";
/// The Python package.
pub(crate) const PYTHON: &str = "crates/outlive-py";
/// The Go package.
pub(crate) const GO: &str = "bindings/go";
/// The Java package.
pub(crate) const JAVA: &str = "bindings/java";
/// The program that one script is played through in each language.
pub(crate) const CONFORMANCE_DRIVERS: &str = "proof/conformance/drivers";
/// The Promela models, the list of their runs and the record of those seen.
pub(crate) const MODELS: &str = "proof/models";
/// The runs that were seen, by their fingerprints.
pub(crate) const MODELS_SEEN: &str = "proof/models/seen.txt";
/// Comparisons with other libraries: a workspace of its own.
pub(crate) const PEERS: &str = "proof/peers/Cargo.toml";
/// What C programs under the engine that steps through instructions include.
pub(crate) const TESTKIT_C: &str = "proof/testkit/c";
/// What the benchmarks must reach.
pub(crate) const TARGETS: &str = "doc/targets.txt";
/// All errors, as each language tells them.
pub(crate) const ERRORS: &str = "doc/errors.md";
/// The last run of each stage of the proof.
pub(crate) const PROOF: &str = "doc/proof.md";
/// The last run on each processor and kernel.
pub(crate) const PLATFORMS: &str = "doc/platforms.md";

/// Adapters for other projects' test suites.
pub(crate) const SUITES_FOLDER: &str = "proof/suites";
/// What of those suites does not pass, and why.
pub(crate) const SUITES: &str = "doc/suites.md";

/// Returns a path of this table as the file system knows it.
pub(crate) fn at(path: &str) -> PathBuf {
    root().join(path)
}

/// Returns the workspace's root folder.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}
