//! Machines for the tests: a domain each, with a gateway that is killed and started again.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use outlive::topic::{Publisher, Subscriber, Topic};
use outlive::zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
use outlive::{Domain, Payload};
use outlive_testnet::{Child, Folder, eventually, free_port};
use serde_json::Value;
use zenoh::Wait;

/// What a test waits for at most.
pub const LONG: Duration = Duration::from_secs(60);

/// A lease that does not pass where a busy machine leaves a gateway no time for some seconds. Tests of
/// what happens when it passes say a shorter one behind it.
pub const LONG_LEASE: [&str; 2] = ["--lease-ms", "10000"];

/// The lease that gateways have where nothing is said.
pub const SHORT_LEASE: [&str; 2] = ["--lease-ms", "1000"];

/// A domain and its gateway.
pub struct Machine {
    pub folder: Folder,
    pub domain: Domain,
    pub gateway: Option<Child>,
    args: Vec<String>,
}

impl Machine {
    /// A machine whose gateway, when it is started, has these arguments.
    pub fn new(what: &str, args: &[&str]) -> Machine {
        let folder = Folder::new(what);
        let domain = Domain::open_or_create_at(folder.join("domain")).expect("opens");
        Machine {
            folder,
            domain,
            gateway: None,
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        }
    }

    /// Starts a machine's gateway.
    pub fn started(what: &str, args: &[&str]) -> Machine {
        let mut machine = Machine::new(what, args);
        machine.start();
        machine
    }

    /// Returns the domain's folder.
    pub fn path(&self) -> PathBuf {
        self.folder.join("domain")
    }

    /// The command of its gateway.
    pub fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_outlive-gateway"));
        self.arguments(&mut command);
        command
    }

    /// Completes the command of its gateway.
    pub fn arguments(&self, command: &mut Command) {
        let log =
            File::options().create(true).append(true).open(self.folder.join("log")).expect("made");
        let err = log.try_clone().expect("a descriptor");
        command.arg("--domain").arg(self.path()).arg("--json").args(&self.args);
        command.stdin(Stdio::null()).stdout(log).stderr(err);
    }

    /// Starts its gateway, and waits until it acts.
    pub fn start(&mut self) {
        let before = self.events("acts").len();
        self.gateway = Some(Child::start(self.command()).expect("starts"));
        assert!(eventually(LONG, || self.events("acts").len() > before), "{}", self.log());
    }

    /// Kills its gateway.
    pub fn kill(&mut self) {
        self.gateway.as_mut().expect("started").kill();
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Returns the events of that kind that its gateways have told.
    pub fn events(&self, event: &str) -> Vec<Value> {
        let log = self.log();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|line| line["event"] == event).collect()
    }

    /// Waits until so many events of that kind were told.
    pub fn expect(&self, event: &str, count: usize) {
        assert!(
            eventually(LONG, || self.events(event).len() >= count),
            "{count} × {event}:\n{}",
            self.log()
        );
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}:\n{}", self.folder.display(), self.log());
        }
    }
}

/// A file of rules for a gateway.
pub fn rules(text: &str) -> (Folder, String) {
    let folder = Folder::new("rules");
    let file = folder.join("gateway.toml");
    fs::write(&file, text).expect("written");
    let path = file.to_str().expect("text").to_owned();
    (folder, path)
}

/// Starts an example of this crate.
pub fn example(name: &str, domain: &Path, args: &[&str]) -> Child {
    let gateway = Path::new(env!("CARGO_BIN_EXE_outlive-gateway"));
    let mut command = Command::new(gateway.with_file_name("examples").join(name));
    command.arg(domain).args(args);
    Child::start(command).expect("starts")
}

/// Starts the example that publishes numbers.
pub fn numbers(domain: &Path, topic: &str, count: u64, pause: Duration) -> Child {
    let pause = pause.as_micros().to_string();
    example("numbers", domain, &[topic, &count.to_string(), &pause])
}

/// Two machines whose gateways reach each other, with these rules.
pub fn pair(here: &[&str], there: &[&str]) -> (Machine, Machine) {
    let endpoint = format!("tcp/127.0.0.1:{}", free_port());
    let a = Machine::started("a", &[&LONG_LEASE, &["--listen", &endpoint], here].concat());
    let b = Machine::started("b", &[&LONG_LEASE, &["--connect", &endpoint], there].concat());
    (a, b)
}

/// A zenoh session that is connected there.
pub fn session(endpoint: &str) -> zenoh::Session {
    let mut config = zenoh::Config::default();
    for (key, value) in [
        ("mode", "\"client\"".to_owned()),
        ("connect/endpoints", format!("[\"{endpoint}\"]")),
        ("scouting/multicast/enabled", "false".to_owned()),
    ] {
        config.insert_json5(key, &value).expect("valid");
    }
    zenoh::open(config).wait().expect("connects")
}

/// Returns once the router there knows what that session has declared. A declaration returns before
/// the router has it, and what is put until then goes to no subscriber.
pub fn settle(client: &zenoh::Session, endpoint: &str) {
    let key = format!("settled/{}", client.zid());
    // It follows the declarations on the session's one link.
    let _token = client.liveliness().declare_token(&key).wait().expect("declared");
    let other = session(endpoint);
    let is_known = || {
        let tokens = other.liveliness().get(&key).wait().expect("asked");
        tokens.iter().any(|token| token.result().is_ok())
    };
    assert!(outlive_testnet::eventually(LONG, is_known), "the router does not know it");
}

/// A machine that is a router for clients.
pub fn router(rules: &[&str]) -> (Machine, String) {
    let endpoint = format!("tcp/127.0.0.1:{}", free_port());
    let args = [&LONG_LEASE, &["--mode", "router", "--listen", &endpoint][..], rules].concat();
    (Machine::started("router", &args), endpoint)
}

/// Opens a topic of numbers in that machine's domain, or makes it with that depth. It offers reliable delivery.
pub fn topic(machine: &Machine, name: &str, depth: u32) -> Topic<u64> {
    let options = Topic::<u64>::options().depth(depth).reliable(true).described().as_is();
    options.open_or_create(&machine.domain, name).expect("made")
}

/// So many messages, as long as they take, and what comes within half a second behind them: fewer are those
/// of which the next has not come within [`LONG`], and more is too much.
pub fn all(subscriber: &mut Subscriber<u64>, count: usize) -> Vec<u64> {
    let mut got = Vec::new();
    let patience = |got: usize| if got < count { LONG } else { Duration::from_millis(500) };
    while let Ok(Some(sample)) = subscriber.recv_timeout(patience(got.len())) {
        got.push(*sample);
    }
    got
}

/// So many machines, of which each is connected with each, and all may pass.
pub fn ring(count: usize) -> Vec<Machine> {
    let endpoints: Vec<String> =
        (0..count).map(|_| format!("tcp/127.0.0.1:{}", free_port())).collect();
    let machine = |at: usize| {
        let mut args = LONG_LEASE.to_vec();
        args.extend(["--listen", &endpoints[at], "--allow", "**"]);
        endpoints[..at].iter().for_each(|other| args.extend(["--connect", other.as_str()]));
        Machine::started("ring", &args)
    };
    (0..count).map(machine).collect()
}

/// A publisher to the topic `n` of the first machine, which the second one knows, and a reliable
/// subscriber there.
pub fn through(a: &Machine, b: &Machine, depth: u32) -> (Publisher<u64>, Subscriber<u64>) {
    let (here, there) = (topic(a, "n", depth), topic(b, "n", depth));
    let subscriber = there.subscriber_with(Subscriber::options().reliable(true)).expect("joins");
    let publisher = here.publisher().expect("publishes");
    b.expect("came", 1);
    (publisher, subscriber)
}

/// A struct that is described, as numpy has it in clients.py.
#[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout, Payload)]
#[zerocopy(crate = "outlive::zerocopy")]
#[repr(C)]
pub struct Pose {
    pub position: [f64; 3],
    pub heading: f32,
    pub gear: u32,
}

/// A number that looks random.
pub fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// The key on which the only service that leaves is called: what its token says.
pub fn call_key(session: &zenoh::Session) -> String {
    let tokens = || {
        let found = session.liveliness().get("@outlive/1/service/**").timeout(LONG).wait();
        let keys = found.expect("asked").into_iter().filter_map(|reply| {
            reply.result().ok().map(|sample| sample.key_expr().as_str().to_owned())
        });
        keys.collect::<Vec<String>>()
    };
    assert!(eventually(LONG, || tokens().len() == 1));
    let token = tokens().remove(0);
    // @outlive/1/service/ORIGIN/INSTANCE/EPOCH/SERVER/KEY
    let parts: Vec<&str> = token.split('/').collect();
    format!("@outlive/1/call/{}/{}/{}", parts[3], parts[4], parts[5])
}
