//! A client in Python: PyPI's `websockets`, and nothing of this crate's. `cargo xtask bridges` installs it.

use std::path::Path;
use std::process::{Command, Stdio};

use outlive::topic::Topic;
use outlive_testnet::{Child, eventually, skip};

use crate::support::{LONG, Shown};

#[test]
fn a_client_in_python_reads_what_was_published() {
    let test = "a_client_in_python_reads_what_was_published";
    let target = Path::new(env!("CARGO_BIN_EXE_outlive-view")).ancestors().nth(2);
    let python = target.expect("a folder").join("python-websockets/bin/python");
    let mut imports = Command::new(&python);
    imports.args(["-c", "import websockets"]).stdout(Stdio::null()).stderr(Stdio::null());
    if !imports.status().is_ok_and(|status| status.success()) {
        skip(test, "websockets is not there: `cargo xtask bridges` gets it from PyPI");
        return;
    }
    let shown = Shown::start("python", &[]);
    let topic = Topic::<[i32; 3]>::options().described().open_or_create(&shown.domain, "numbers");
    let topic = topic.expect("made");
    let publisher = topic.publisher().expect("publishes");
    let mut command = Command::new(python);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/view/client.py"));
    let mut client = Child::start({
        command.arg(shown.port.to_string());
        command
    })
    .expect("starts");
    assert!(eventually(LONG, || {
        publisher.publish(&[1, -2, 3]).expect("published");
        !client.is_running()
    }));
    assert_eq!(client.status().and_then(|status| status.code()), Some(0));
}
