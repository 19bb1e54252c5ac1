//! Tells the crate by which of cargo's profiles it is built: `cfg` does not tell it, and figures
//! depend on it.

use std::ffi::OsStr;
use std::path::{Component, Path};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let out = std::env::var_os("OUT_DIR").unwrap_or_default();
    println!("cargo::rustc-env=OUTLIVE_PROFILE={}", profile(Path::new(&out)).unwrap_or("unknown"));
}

/// Returns the profile whose folder this is in: `…/PROFILE/build/…`. Cargo's variable `PROFILE` says
/// of a profile only which of the two own ones of cargo's it inherits.
fn profile(out: &Path) -> Option<&str> {
    let parts: Vec<Component> = out.components().collect();
    let build = parts.iter().rposition(|part| part.as_os_str() == OsStr::new("build"))?;
    // The folder of `dev` has another name.
    match parts.get(build.checked_sub(1)?)?.as_os_str().to_str()? {
        "debug" => Some("dev"),
        profile => Some(profile),
    }
}
