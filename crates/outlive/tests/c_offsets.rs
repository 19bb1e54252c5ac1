//! The C proof of how a lock word is found (`c/robust_offset.c`), compiled and run with each C
//! library there is.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Says that the calling test is skipped, and why: a line that reaches `cargo xtask test`, which
/// counts it. libtest keeps back what tests print, but not what they write.
fn skip(why: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stdout(), "skipped: {why}");
}

/// Compiles with that compiler and runs what comes out.
fn compile_and_run(compiler: &str, flags: &[&str]) {
    let there = Command::new(compiler)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !there.is_ok_and(|status| status.success()) {
        skip(&format!("{compiler} is not there"));
        return;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/robust_offset.c");
    let program: PathBuf =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("robust_offset-{compiler}"));
    let compiled = Command::new(compiler)
        .args(["-O1", "-Wall", "-Werror", "-pthread"])
        .args(flags)
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .output()
        .expect("it was there a moment ago");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let ran = Command::new(&program).output().expect("just compiled");
    let said = String::from_utf8_lossy(&ran.stdout);
    print!("{said}");
    let last = said.lines().last().unwrap_or_default();
    assert!(
        ran.status.success() && last.ends_with(" passed, 0 failed") && !last.starts_with("0 "),
        "{said}"
    );
}

#[test]
fn with_this_machines_libc() {
    compile_and_run("cc", &[]);
}

#[test]
fn with_musl() {
    compile_and_run("musl-gcc", &["-static"]);
}
