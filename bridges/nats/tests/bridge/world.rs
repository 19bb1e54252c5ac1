//! A server, a domain and bridges of a test's own.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use async_nats::jetstream::{self, stream};
use outlive::Domain;
use outlive_testnet::free_port;

pub const LONG: Duration = Duration::from_secs(60);

/// Waits until something is so; a hang fails.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < end, "not within {LONG:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub fn signal(child: &Child, signal: i32) {
    // SAFETY: kill(2) of a child that has not been waited for.
    unsafe { libc::kill(child.id() as i32, signal) };
}

/// A process that is killed when the test is over.
pub struct Process(pub Child);

impl Process {
    pub fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    /// Waits for its end; returns its exit code.
    pub fn code(&mut self) -> Option<i32> {
        let mut code = None;
        until("the process ends", || {
            code = self.0.try_wait().expect("a child");
            code.is_some()
        });
        code.and_then(|code| code.code())
    }

    /// Returns the processor time that it has used, in milliseconds.
    pub fn processor_ms(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).expect("it lives");
        let fields: Vec<&str> =
            stat.rsplit(')').next().expect("a name").split_whitespace().collect();
        let ticks: u64 = fields[11].parse::<u64>().expect("a number")
            + fields[12].parse::<u64>().expect("a number");
        ticks * 10
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

pub struct World {
    pub folder: PathBuf,
    pub port: u16,
    server: Option<Process>,
    runtime: tokio::runtime::Runtime,
}

static WORLDS: AtomicU32 = AtomicU32::new(0);

impl World {
    /// Makes a world, with a server that has these lines in its configuration besides. `None`: there
    /// is no server here, and the test is skipped by name.
    pub fn new(name: &str, lines: &str) -> Option<World> {
        if Command::new("nats-server").arg("--version").output().is_err() {
            println!("SKIPPED {name}: nats-server is not installed (apt-get install nats-server)");
            return None;
        }
        let number = WORLDS.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir()
            .join(format!("outlive-nats-{name}-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).expect("made");
        let port = free_port();
        let text = format!(
            "host: 127.0.0.1\nport: {port}\njetstream {{ store_dir: \"{}\" }}\n{lines}\n",
            folder.join("js").display()
        );
        fs::write(folder.join("server.conf"), text).expect("written");
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let mut world = World { folder, port, server: None, runtime };
        world.start_server();
        Some(world)
    }

    pub fn start_server(&mut self) {
        let log = File::options().create(true).append(true).open(self.folder.join("server.log"));
        let log = log.expect("a log");
        let child = Command::new("nats-server")
            .args(["-c", &self.folder.join("server.conf").display().to_string()])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("started");
        self.server = Some(Process(child));
        until("the server listens", || {
            std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok()
        });
    }

    pub fn kill_server(&mut self) {
        self.server = None;
    }

    pub fn signal_server(&self, number: i32) {
        signal(&self.server.as_ref().expect("it runs").0, number);
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    pub fn domain_path(&self) -> PathBuf {
        self.folder.join("domain")
    }

    pub fn domain(&self) -> Domain {
        Domain::open_or_create_at(self.domain_path()).expect("a domain")
    }

    /// Starts a bridge; what it says goes to the test's folder.
    pub fn bridge(&self, arguments: &[&str]) -> Process {
        self.bridge_with(arguments, &[])
    }

    pub fn bridge_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Process {
        let file = |name: &str| {
            let path = self.folder.join(name);
            File::options().create(true).append(true).open(path).expect("a file")
        };
        let child = Command::new(env!("CARGO_BIN_EXE_outlive-queue-bridge"))
            .args(arguments)
            .args(["--nats", &self.url()])
            .args(["--domain", &self.domain_path().display().to_string()])
            .env_remove("NATS_URL")
            .envs(variables.iter().copied())
            .stdout(file("out.txt"))
            .stderr(file("talk.txt"))
            .stdin(Stdio::null())
            .spawn()
            .expect("started");
        Process(child)
    }

    /// Returns what bridges have said on standard error so far.
    pub fn talk(&self) -> String {
        read(&self.folder.join("talk.txt"))
    }

    /// Returns the last value of a count that bridges have printed with `--json`, summed over lines
    /// of that event.
    pub fn counted(&self, event: &str, count: &str) -> u64 {
        let lines = read(&self.folder.join("out.txt"));
        let values = lines.lines().filter_map(|line| {
            let value: serde_json::Value = serde_json::from_str(line).ok()?;
            (value["event"] == event).then(|| value[count].as_u64().unwrap_or(0))
        });
        values.sum()
    }

    /// Does something with the server, as another client.
    pub fn client<T>(&self, act: impl AsyncFnOnce(jetstream::Context) -> T) -> T {
        self.runtime.block_on(async {
            // The library's own patience is five seconds for each.
            let options = async_nats::ConnectOptions::new().connection_timeout(LONG);
            let client = options.connect(self.url()).await.expect("connected");
            let mut jetstream = jetstream::new(client);
            jetstream.set_timeout(LONG);
            let done = tokio::time::timeout(LONG * 2, act(jetstream)).await;
            done.expect("the server answers")
        })
    }

    pub fn make_stream(&self, name: &str) {
        self.client(async |js| {
            let config = stream::Config {
                name: name.to_owned(),
                subjects: vec![format!("{name}.>")],
                ..stream::Config::default()
            };
            js.create_stream(config).await.expect("made");
        });
    }

    pub fn messages_in(&self, stream: &str) -> u64 {
        self.client(async |js| {
            js.get_stream(stream).await.map_or(0, |stream| stream.cached_info().state.messages)
        })
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

impl Drop for World {
    fn drop(&mut self) {
        self.server = None;
        if std::thread::panicking() {
            let lines = self.talk();
            let from = lines.len().saturating_sub(3000);
            eprintln!("bridges said:\n{}", lines.get(from..).unwrap_or_default());
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Numbers that are as good as random ones, by a seed that is printed.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}
