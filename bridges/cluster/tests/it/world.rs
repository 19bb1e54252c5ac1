//! etcd, machines, and programs that run a worker under a lock.

use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use outlive_testnet::{Child, Folder, Host, Server, free_port, missing, skip};

/// What a test waits for at most.
pub const SOON: Duration = Duration::from_secs(90);

/// The seconds of a lease that ends in a test: as short as it can be where a busy machine leaves a process
/// no time for some seconds, in which its holder must not lose it.
pub const SHORT: u32 = 10;

/// Those of one that must not end.
pub const LONG: u32 = 60;

/// One etcd, on this machine or in a namespace.
pub struct Etcd {
    pub server: Server,
    pub address: SocketAddr,
    _folder: Folder,
}

impl Etcd {
    /// Starts one; `None`: it is not there, and the test has said that it is skipped.
    pub fn start(test: &str) -> Option<Etcd> {
        Etcd::start_as(test, None, vec![])
    }

    pub fn start_as(test: &str, host: Option<&Host>, more: Vec<String>) -> Option<Etcd> {
        if let Some(why) = missing("etcd") {
            skip(test, &why);
            return None;
        }
        let folder = Folder::new("etcd");
        let (client, peer) = match host {
            Some(host) => (host.address(2379), host.address(2380)),
            None => (local(), local()),
        };
        let tls = more.iter().any(|arg| arg.starts_with("--cert-file"));
        let scheme = if tls { "https" } else { "http" };
        let (of_command, of_looks) = (host.cloned(), host.cloned());
        let data = folder.join("data");
        let command = move || {
            let mut command = match &of_command {
                Some(host) => host.command("etcd"),
                None => Command::new("etcd"),
            };
            command.arg("--data-dir").arg(&data);
            let client = format!("{scheme}://{client}");
            command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
            command.args(["--listen-peer-urls", &format!("http://{peer}")]);
            command.args(["--initial-advertise-peer-urls", &format!("http://{peer}")]);
            command.args(["--initial-cluster", &format!("default=http://{peer}")]);
            command.args(["--logger", "zap", "--log-level", "error"]).args(&more);
            command
        };
        let connects =
            move || TcpStream::connect_timeout(&client, Duration::from_millis(500)).is_ok();
        let server = Server::start(command, move || match &of_looks {
            Some(host) => host.within(connects),
            None => connects(),
        });
        Some(Etcd { server, address: client, _folder: folder })
    }

    pub fn url(&self, ttl: u32) -> String {
        format!("etcd://{}?ttl={ttl}", self.address)
    }

    /// Runs etcdctl and returns what it says.
    pub fn ctl(&self, args: &[&str]) -> String {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(["--endpoints", &self.address.to_string()]).args(args);
        let output = command.output().expect("etcdctl is there");
        String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr)
    }

    /// Returns how many leases there are.
    pub fn leases(&self) -> usize {
        let said = self.ctl(&["lease", "list"]);
        said.lines().filter(|line| line.chars().all(|c| c.is_ascii_hexdigit())).count()
    }
}

/// A machine: a domain of its own, and perhaps a network of its own.
pub struct Machine {
    pub folder: Folder,
    pub host: Option<Host>,
}

impl Machine {
    pub fn new() -> Machine {
        Machine { folder: Folder::new("machine"), host: None }
    }

    pub fn at(host: Host) -> Machine {
        Machine { folder: Folder::new("machine"), host: Some(host) }
    }

    pub fn domain(&self) -> outlive::Domain {
        outlive::Domain::open_or_create_at(self.folder.join("domain")).expect("opens")
    }

    /// A program of this machine with the options of all: `args` follow.
    pub fn program(&self, which: &str, url: &str, args: &[&str]) -> Command {
        let program = match which {
            "lock" => env!("CARGO_BIN_EXE_outlive-lock-cluster"),
            _ => env!("CARGO_BIN_EXE_outlive-semaphore-cluster"),
        };
        let mut command = match &self.host {
            Some(host) => host.command(program),
            None => Command::new(program),
        };
        command.args(["--cluster", url, "--domain"]).arg(self.folder.join("domain")).args(args);
        command
    }

    /// Starts a program whose command is the worker of `resource`.
    pub fn start(&self, which: &str, url: &str, args: &[&str], resource: SocketAddr) -> Running {
        let said = self.folder.join(format!("said-{}", free_port()));
        let mut command = self.program(which, url, args);
        let worker = std::env::current_exe().expect("it runs");
        command.arg(worker).args(["--exact", "resource::worker", "--ignored", "--nocapture"]);
        command.env("RESOURCE", resource.to_string());
        command.stderr(std::fs::File::create(&said).expect("is made"));
        command.stdout(std::process::Stdio::null());
        Running { child: Child::start(command).expect("starts"), said }
    }
}

/// A program that waits for a lock or has it.
pub struct Running {
    pub child: Child,
    said: PathBuf,
}

impl Running {
    /// Returns what it has written to standard error.
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.said).unwrap_or_default()
    }

    /// Returns its children: the command and the watchdog.
    pub fn children(&self) -> Vec<u32> {
        let pid = self.child.pid();
        let listed = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let listed = listed.unwrap_or_default();
        listed.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
    }

    /// Returns its watchdog.
    pub fn watchdog(&self) -> Option<u32> {
        self.children().into_iter().find(|pid| {
            let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.contains("%watch")
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A stopped watchdog would stay; the program's death is what it waits for.
        for pid in self.children() {
            signal(pid, libc::SIGKILL);
        }
    }
}

pub fn signal(pid: u32, signal: i32) {
    // SAFETY: no memory is touched; the process is a child of a program that we started and that
    // waits for it no sooner than it has ended.
    unsafe { libc::kill(pid as i32, signal) };
}

fn local() -> SocketAddr {
    ([127, 0, 0, 1], free_port()).into()
}
