//! The bills of materials: what crates each product contains, in CycloneDX's format, by
//! cargo-cyclonedx, which is installed into target/cyclonedx if it is missing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::{clone, ran};
use crate::count::Count;
use crate::paths::root;
use crate::prefix;
use crate::stage;
use crate::test::cargo;

/// The version whose output was looked at.
const VERSION: &str = "0.5.9";

/// The crates of which a product is made, each with what it is a part of.
const PRODUCTS: [(&str, &str); 7] = [
    ("outlive-c", "liboutlive0 and liboutlive-dev"),
    ("outlive-pthread", "liboutlive-pthread"),
    ("outlive-py", "python3-outlive and the wheels"),
    ("outlive-cli", "the program outlive"),
    ("outlive-record", "outlive-record and outlive-replay"),
    ("outlive-bag", "outlive-bag"),
    ("outlive-bench", "outlive-bench"),
];

pub(super) fn write(to: &Path, may_install: bool) -> io::Result<Count> {
    let Some(tool) = found(may_install)? else {
        return Ok(stage::skip("bills of materials", "there is no cargo-cyclonedx here"));
    };
    // It writes beside each Cargo.toml.
    let source = clone("sbom-source")?;
    let mut make = cargo(&[]);
    let cargo_itself = make.get_program().to_owned();
    make = Command::new(tool);
    make.args(["cyclonedx", "--format", "json", "--spec-version", "1.5", "--all"]);
    make.env("CARGO", cargo_itself).current_dir(&source);
    ran(&mut make)?;
    let mut count = Count::default();
    for (product, part) in PRODUCTS {
        let made = source.join("crates").join(product).join(format!("{product}.cdx.json"));
        let text = fs::read_to_string(&made)
            .map_err(|error| io::Error::other(format!("{}: {error}", made.display())))?;
        // It names crates by the folder that they were read in: one that every machine has alike.
        let text = text.replace(&format!("{}/", source.display()), "/outlive/");
        match crates_of(&text, product) {
            Ok(crates) => {
                println!("{product}.cdx.json: {part}; {crates} crates");
                fs::write(to.join(format!("{product}.cdx.json")), text)?;
                count.add(Count::PASSED);
            }
            Err(why) => {
                println!("{product}.cdx.json: {why}");
                count.add(Count::FAILED);
            }
        }
    }
    Ok(count)
}

/// Returns the tool, which is installed if it may be.
fn found(may_install: bool) -> io::Result<Option<PathBuf>> {
    let folder = root().join(prefix::target()).join("cyclonedx");
    let tool = folder.join("bin/cargo-cyclonedx");
    if !tool.is_file() && may_install {
        println!("cargo-cyclonedx {VERSION}: 'cargo install' gets it from crates.io");
        let mut install = cargo(&["install", "--quiet", "--locked", "--version", VERSION]);
        install.args(["cargo-cyclonedx", "--root"]).arg(&folder);
        // It runs for a second: what compiles it fastest is best.
        install.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0").env("CARGO_PROFILE_RELEASE_LTO", "off");
        install.env("CARGO_TARGET_DIR", folder.join("target"));
        ran(&mut install)?;
        fs::remove_dir_all(folder.join("target"))?;
    }
    Ok(tool.is_file().then_some(tool))
}

/// Returns how many crates a bill names; or why it is not the bill of this product.
fn crates_of(text: &str, product: &str) -> Result<usize, String> {
    let bill: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let about = &bill["metadata"]["component"];
    if bill["bomFormat"] != "CycloneDX" || about["name"] != product {
        return Err(format!("a bill of {}", about["name"]));
    }
    if about["version"] != env!("CARGO_PKG_VERSION") {
        return Err(format!("a bill of version {}", about["version"]));
    }
    let parts = bill["components"].as_array().map(Vec::as_slice).unwrap_or_default();
    let without: Vec<String> = parts
        .iter()
        .filter(|part| part["licenses"].as_array().is_none_or(Vec::is_empty))
        .map(|part| part["name"].to_string())
        .collect();
    if !without.is_empty() {
        return Err(format!("no licence is named for {}", without.join(", ")));
    }
    if text.contains(&*root().to_string_lossy()) {
        return Err("it names a folder of this machine".to_owned());
    }
    if !parts.iter().any(|part| part["name"] == "outlive") {
        return Err("outlive is not in it".to_owned());
    }
    Ok(parts.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bill_names_the_product_its_version_and_a_licence_for_each_crate() {
        let bill = |version: &str, licences: &str| {
            format!(
                r#"{{"bomFormat":"CycloneDX","metadata":{{"component":{{"name":"p","version":"{version}"}}}},
                "components":[{{"name":"outlive","licenses":[{licences}]}}]}}"#
            )
        };
        let version = env!("CARGO_PKG_VERSION");
        let licence = r#"{"expression":"MIT"}"#;
        assert_eq!(crates_of(&bill(version, licence), "p"), Ok(1));
        assert!(crates_of(&bill(version, licence), "q").is_err());
        assert!(crates_of(&bill("0.0.1", licence), "p").is_err());
        assert!(crates_of(&bill(version, ""), "p").is_err_and(|why| why.contains("outlive")));
        assert!(crates_of("{", "p").is_err());
    }
}
