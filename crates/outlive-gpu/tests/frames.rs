//! The example that is worth showing, as its users start it: three processes, one of them killed in
//! the middle.

mod fake;

use std::path::PathBuf;
use std::process::{Command, Output};

/// Returns the example, which Cargo builds with the tests of this package.
fn example() -> Command {
    let beside = std::env::current_exe().expect("a test has a path");
    let example = beside.with_file_name("../examples/gpu_frames");
    assert!(
        example.exists(),
        "{} is not there; run `cargo test -p outlive-gpu`",
        example.display()
    );
    Command::new(example)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Removed also after a failure.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

#[test]
fn the_filter_is_killed_and_nobody_else_stops() {
    let out = Folder(std::env::temp_dir().join(format!("outlive-gpu-film-{}", std::process::id())));
    let mut program = example();
    program.arg("--driver").arg(fake::library()).arg("--out").arg(&out.0).args(["--frames", "60"]);
    let Output { status, stdout, stderr } = program.output().expect("starts");
    let (said, talk) = (text(&stdout), text(&stderr));
    assert!(status.success(), "{said}{talk}");
    assert!(said.contains("camera: 60 frames made"), "{said}");
    assert!(talk.contains("is killed") && talk.contains("started again"), "{talk}");
    for picture in ["frame-0000.png", "film.png"] {
        let bytes = std::fs::read(out.0.join(picture)).expect("a picture");
        assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 1000, "{picture}");
    }
}

#[test]
fn without_a_driver_it_is_said_so() {
    let Output { status, stderr, .. } =
        example().args(["--driver", "/nonexistent/libcuda.so.1"]).output().expect("starts");
    assert!(
        !status.success() && text(&stderr).contains("no GPU can be used here"),
        "{}",
        text(&stderr)
    );
}
