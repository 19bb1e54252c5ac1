//! A domain of a test's own, and the program that shows it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use outlive::Domain;
use outlive_testnet::{Child, Folder};
use serde_json::Value;

use crate::client::Client;

/// Nothing takes so long that works.
pub const LONG: Duration = Duration::from_secs(60);

/// A domain and the program.
pub struct Shown {
    pub domain: Domain,
    pub child: Child,
    pub port: u16,
    pub lines: mpsc::Receiver<Value>,
    // Removed behind the processes that use it.
    pub folder: Folder,
}

/// Returns the program's command, in a test's own domain.
pub fn command(folder: &Folder, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outlive-view"));
    command.arg("--domain").arg(folder.join("domain")).args(args).stdin(Stdio::null());
    command.env_remove("OUTLIVE_DOMAIN").env_remove("OUTLIVE_GROUP");
    command
}

impl Shown {
    pub fn start(what: &str, args: &[&str]) -> Shown {
        let folder = Folder::new(what);
        let domain = Domain::open_or_create_at(folder.join("domain")).expect("made");
        let mut command = command(&folder, args);
        command.args(["--port", "0", "--json"]).stdout(Stdio::piped());
        let mut child = Child::start(command).expect("starts");
        let read = BufReader::new(child.stdout().expect("piped")).lines();
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            let json = |line: String| serde_json::from_str(&line).expect("JSON");
            read.map_while(Result::ok).map(json).try_for_each(|line| sender.send(line))
        });
        let first: Value = lines.recv_timeout(LONG).expect("a line");
        assert_eq!(first["event"], "listens");
        let url = first["url"].as_str().expect("an address");
        let port = url.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
        Shown { domain, child, port, lines, folder }
    }

    pub fn client(&self) -> Client {
        Client::connect(self.port).0
    }

    /// Starts the example robot.
    pub fn robot(&self, data: Option<&Path>) -> Child {
        let view = Path::new(env!("CARGO_BIN_EXE_outlive-view"));
        let mut command = Command::new(view.with_file_name("examples").join("robot"));
        command.arg(self.folder.join("domain")).args(data);
        Child::start(command).expect("starts")
    }
}
