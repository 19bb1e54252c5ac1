//! Figures beside bare zenoh, between two network namespaces of this machine: doc/performance.md.
//!
//! `cargo run --release --example figures [ROUNDS] [small] [large] [idle]`, as root, after `cargo build
//! --release`: one way of 64 B, 6 MB messages a second, and what two gateways with ten topics cost that do
//! nothing; or only those parts. The contenders take turns within each round.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use outlive::Domain;
use outlive::topic::{Subscriber, Topic};
use outlive_testnet::{Child, Folder, Host, Net, eventually};
use outlive_zenoh::runtime;
use outlive_zenoh::settings::FOR_LARGE;
use rustix::time::{ClockId, clock_gettime};
use zenoh::Wait;
use zenoh::bytes::ZBytes;
use zenoh::qos::CongestionControl;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const SMALL: usize = 64;
const LARGE: usize = 6_000_000;
/// Between two small messages: both ends sleep.
const PAUSE: Duration = Duration::from_millis(1);
/// As many of them are measured, after as many that warm up.
const SAMPLES: usize = 1500;
const WARM: usize = 200;
/// How long large messages are counted.
const SPAN: Duration = Duration::from_secs(3);
const IDLE: Duration = Duration::from_secs(30);
const LONG: Duration = Duration::from_secs(120);
/// What can be measured.
const PARTS: [&str; 3] = ["small", "large", "idle"];
/// How zenoh is set: by itself, and as a gateway sets it (settings.rs, runtime.rs).
const UNSET: &str = "by-itself";
const SET: &str = "as-a-gateway";
/// Where the program of bridges/peers/iceoryx2 is, if it is to be measured.
const PEER: &str = "OUTLIVE_PEER_ICEORYX2";

/// Nanoseconds of the clock that all processes of a machine share, whatever their network.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    if words.last() == Some(&SET) {
        // SAFETY: no other thread has been started, and nothing of zenoh used.
        unsafe { runtime::join() };
    }
    let done = match words[..] {
        [] => all(5, &PARTS),
        ["zenoh-put", endpoint, len, set] => zenoh_put(endpoint, len, set),
        ["zenoh-get", endpoint, len, how, set] => zenoh_get(endpoint, len, how, set),
        ["zenoh-idle", mode, endpoint] => zenoh_idle(mode, endpoint),
        ["put", domain, len] => put(domain, len),
        ["get", domain, len] => get(domain, len),
        [rounds] => rounds.parse().map_err(Into::into).and_then(|rounds| all(rounds, &PARTS)),
        [rounds, ref parts @ ..] if parts.iter().all(|part| PARTS.contains(part)) => {
            rounds.parse().map_err(Into::into).and_then(|rounds| all(rounds, parts))
        }
        _ => Err("usage: figures [ROUNDS] [small] [large] [idle]".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("figures: {why}");
            ExitCode::FAILURE
        }
    }
}

// ----- The processes that are measured -----

/// What a reader has measured: half of the small ones took less, or as many large ones came in a second.
struct Reader {
    times: Vec<u64>,
    skipped: usize,
    begun: Option<Instant>,
    large: usize,
    len: usize,
}

impl Reader {
    fn new(len: usize) -> Reader {
        Reader { times: Vec::with_capacity(SAMPLES), skipped: 0, begun: None, large: 0, len }
    }

    /// A message has come that was sent at that time; returns the figure, if that was the last one.
    fn came(&mut self, sent: u64) -> Option<f64> {
        let took = now().saturating_sub(sent);
        if self.len == LARGE {
            let begun = *self.begun.get_or_insert_with(Instant::now);
            self.large += 1;
            let span = begun.elapsed();
            // The first one begins the count.
            return (span >= SPAN).then(|| (self.large - 1) as f64 / span.as_secs_f64());
        }
        if self.skipped < WARM {
            self.skipped += 1;
            return None;
        }
        self.times.push(took);
        if self.times.len() < SAMPLES {
            return None;
        }
        self.times.sort_unstable();
        Some(self.times[SAMPLES / 2] as f64 / 1000.0)
    }
}

fn session(mode: &str, endpoint: &str, set: &str) -> Result<zenoh::Session> {
    let mut config = zenoh::Config::default();
    let (place, other) =
        if mode == "listen" { ("listen", "connect") } else { ("connect", "listen") };
    for (key, value) in [
        ("mode", "\"peer\"".to_owned()),
        (&*format!("{place}/endpoints"), format!("[\"{endpoint}\"]")),
        (&*format!("{other}/endpoints"), "[]".to_owned()),
        ("scouting/multicast/enabled", "false".to_owned()),
        // As the gateway's.
        ("transport/link/tx/lease", "1000".to_owned()),
    ] {
        config.insert_json5(key, &value).map_err(|error| format!("{key}: {error}"))?;
    }
    if set == SET {
        for (key, value) in FOR_LARGE {
            config.insert_json5(key, value).map_err(|error| format!("{key}: {error}"))?;
        }
    }
    Ok(zenoh::open(config).wait().map_err(|error| error.to_string())?)
}

fn zenoh_put(endpoint: &str, len: &str, set: &str) -> Result<()> {
    let session = session("listen", endpoint, set)?;
    let publisher = session
        .declare_publisher("figures/bare")
        .congestion_control(CongestionControl::Block)
        .wait()
        .map_err(|error| error.to_string())?;
    let put = |payload: ZBytes| publisher.put(payload).wait().map_err(|error| error.to_string());
    if len.parse::<usize>()? == SMALL {
        loop {
            let mut bytes = vec![0_u8; SMALL];
            bytes[..8].copy_from_slice(&now().to_le_bytes());
            put(bytes.into())?;
            thread::sleep(PAUSE);
        }
    }
    // One buffer, which all messages share: zenoh has no copy to make.
    let large = ZBytes::from(vec![1_u8; LARGE]);
    loop {
        put(large.clone())?;
    }
}

fn zenoh_get(endpoint: &str, len: &str, how: &str, set: &str) -> Result<()> {
    let len = len.parse()?;
    let session = session("connect", endpoint, set)?;
    let (sender, figure) = mpsc::channel();
    let gathers = how == "gathered";
    let mut reader = Reader::new(len);
    let take = move |payload: &ZBytes| {
        if len == LARGE && !gathers {
            return reader.came(0);
        }
        let bytes = payload.to_bytes();
        reader.came(u64::from_le_bytes(bytes[..8].try_into().unwrap_or_default()))
    };
    let mut take = take;
    if how == "channel" {
        let subscriber =
            session.declare_subscriber("figures/bare").wait().map_err(|error| error.to_string())?;
        loop {
            let sample = subscriber.recv().map_err(|error| error.to_string())?;
            if let Some(figure) = take(sample.payload()) {
                println!("{figure}");
                return Ok(());
            }
        }
    }
    let _subscriber = session
        .declare_subscriber("figures/bare")
        .callback_mut(move |sample| {
            if let Some(figure) = take(sample.payload()) {
                let _ = sender.send(figure);
            }
        })
        .wait()
        .map_err(|error| error.to_string())?;
    println!("{}", figure.recv_timeout(LONG)?);
    Ok(())
}

fn zenoh_idle(mode: &str, endpoint: &str) -> Result<()> {
    let _session = session(mode, endpoint, UNSET)?;
    loop {
        thread::park();
    }
}

fn topic(domain: &Path, len: usize) -> Result<Topic> {
    let domain = Domain::open_or_create_at(domain)?;
    let (name, depth, bytes) =
        if len == SMALL { ("figures.small", 64, 1 << 20) } else { ("figures.large", 4, 256 << 20) };
    let options = Topic::<[u8]>::options().depth(depth).max_bytes(bytes).reliable(true);
    Ok(options.open_or_create(&domain, name)?)
}

fn put(domain: &str, len: &str) -> Result<()> {
    let len = len.parse()?;
    let publisher = topic(Path::new(domain), len)?.publisher()?;
    loop {
        if len == SMALL {
            let mut bytes = [0_u8; SMALL];
            bytes[..8].copy_from_slice(&now().to_le_bytes());
            publisher.publish(&bytes[..])?;
            thread::sleep(PAUSE);
        } else {
            publisher.wait_writable()?;
            let mut loan = publisher.loan(len)?;
            loan[..8].copy_from_slice(&now().to_le_bytes());
            publisher.publish(loan)?;
        }
    }
}

fn get(domain: &str, len: &str) -> Result<()> {
    let len = len.parse()?;
    let options = Subscriber::options().reliable(true);
    let mut subscriber = topic(Path::new(domain), len)?.subscriber_with(options)?;
    let mut reader = Reader::new(len);
    loop {
        let sample = subscriber.recv()?;
        let sent = u64::from_le_bytes(sample[..8].try_into()?);
        drop(sample);
        if let Some(figure) = reader.came(sent) {
            println!("{figure}");
            return Ok(());
        }
    }
}

// ----- The run -----

struct Run {
    here: Host,
    there: Host,
    folder: Folder,
    own: PathBuf,
    ports: u16,
}

impl Run {
    fn child(&self, host: &Host, program: &Path, args: &[&str]) -> Result<Child> {
        let mut command = host.command(program);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::null());
        Ok(Child::start(command)?)
    }

    fn domain(&self, of: &str) -> String {
        self.folder.join(of).to_string_lossy().into_owned()
    }

    /// Starts two gateways that reach each other.
    fn gateways(&mut self, rule: &str) -> Result<[Child; 2]> {
        // An example lies in a folder below the program's.
        let gateway = self.own.with_file_name("../outlive-gateway");
        let endpoint = self.endpoint();
        let (a, b) = (self.domain("a"), self.domain("b"));
        let from = self.child(
            &self.here,
            &gateway,
            &["--domain", &a, "--listen", &endpoint, "--allow-out", rule],
        )?;
        let to = self.child(
            &self.there,
            &gateway,
            &["--domain", &b, "--connect", &endpoint, "--allow-in", rule],
        )?;
        Ok([from, to])
    }

    fn endpoint(&mut self) -> String {
        self.ports += 1;
        format!("tcp/{}", self.here.address(self.ports))
    }

    fn measure(&self, writer: &[&str], reader: &[&str]) -> Result<f64> {
        self.measure_with(&self.own, writer, reader)
    }

    /// Has a writer write in the one namespace until a reader in the other one has its figure.
    fn measure_with(&self, program: &Path, writer: &[&str], reader: &[&str]) -> Result<f64> {
        let mut writing = self.child(&self.here, program, writer)?;
        let mut command: Command = self.there.command(program);
        command.args(reader).stdin(Stdio::null());
        let output = command.output()?;
        writing.kill();
        if !output.status.success() {
            return Err(format!("{reader:?} has failed").into());
        }
        Ok(String::from_utf8(output.stdout)?.trim().parse()?)
    }

    /// By iceoryx2 and its tunnel over zenoh. The tunnels are there for this one figure: they never sleep.
    fn peer(&mut self, peer: &Path, len: usize) -> Result<f64> {
        let (endpoint, len) = (self.endpoint(), len.to_string());
        // Each has files of its own in the machine's folders, which these names tell from all others.
        let host = |of: &str| format!("figures_{}_{of}_", std::process::id());
        let (a, b) = (host("a"), host("b"));
        let _tunnels = [
            self.child(&self.here, peer, &["tunnel", &a, "listen", &endpoint])?,
            self.child(&self.there, peer, &["tunnel", &b, "connect", &endpoint])?,
        ];
        self.measure_with(peer, &["put", &a, &len], &["get", &b, &len])
    }

    fn bare(&mut self, len: usize, how: &str, set: &str) -> Result<f64> {
        let (endpoint, len) = (self.endpoint(), len.to_string());
        self.measure(
            &["zenoh-put", &endpoint, &len, set],
            &["zenoh-get", &endpoint, &len, how, set],
        )
    }

    /// From domain `a` to that one, which may be the same.
    fn outlive(&self, to: &str, len: usize) -> Result<f64> {
        let (a, to, len) = (self.domain("a"), self.domain(to), len.to_string());
        self.measure(&["put", &a, &len], &["get", &to, &len])
    }
}

/// What threads have done so far: nanoseconds that they ran, and how often they were woken.
#[derive(Clone, Copy, Default)]
struct Work {
    nanos: u64,
    wakes: u64,
}

impl Work {
    fn since(self, before: Work) -> Work {
        Work { nanos: self.nanos - before.nanos, wakes: self.wakes - before.wakes }
    }
}

/// What a process's own threads have done, and zenoh's.
fn work(pid: u32) -> Result<[Work; 2]> {
    let mut works = [Work::default(); 2];
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let task = task?.path();
        let read = |name: &str| std::fs::read_to_string(task.join(name));
        let name = read("comm")?;
        // Its runtimes' threads: tx-0, rx-1 and so on.
        let is_zenoh = ["app-", "acc-", "tx-", "rx-", "net-"].iter().any(|of| name.starts_with(of));
        let work = &mut works[usize::from(is_zenoh)];
        work.nanos +=
            read("schedstat")?.split_ascii_whitespace().next().unwrap_or("0").parse::<u64>()?;
        let status = read("status")?;
        let wakes = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        work.wakes += wakes.unwrap_or("0").trim().parse::<u64>()?;
    }
    Ok(works)
}

fn row(what: &str, unit: &str, figures: &[f64], beside: Option<&[f64]>) {
    let three = |mut figures: Vec<f64>| {
        figures.sort_by(f64::total_cmp);
        (figures[0], figures[figures.len() / 2], figures[figures.len() - 1])
    };
    let (min, median, max) = three(figures.to_vec());
    print!("{what:44} {median:9.1} {unit}  ({min:.1} to {max:.1})");
    if let Some(beside) = beside {
        let (min, ratio, max) =
            three(figures.iter().zip(beside).map(|(own, other)| own / other).collect());
        print!("  ratio {ratio:.2} ({min:.2} to {max:.2})");
    }
    println!();
}

fn peer_row(what: &str, unit: &str, figures: &[f64], beside: &[f64], absent: &str) {
    match figures.len() {
        0 => println!("{what:44} {absent}"),
        len => row(what, unit, figures, (len == beside.len()).then_some(beside)),
    }
}

fn all(rounds: usize, parts: &[&str]) -> Result<()> {
    let (smalls, larges) = (parts.contains(&"small"), parts.contains(&"large"));
    let net = Net::new()?;
    let (here, there) = (net.host("a"), net.host("b"));
    let own = std::env::current_exe()?;
    let mut run = Run { here, there, folder: Folder::new("figures"), own, ports: 7500 };
    for of in ["a", "b"] {
        for len in [SMALL, LARGE] {
            topic(&run.folder.join(of), len)?;
        }
    }
    let gateways = run.gateways("figures/**")?;
    let peer = std::env::var_os(PEER).map(PathBuf::from);
    let mut small: [Vec<f64>; 6] = Default::default();
    let mut large: [Vec<f64>; 6] = Default::default();
    // A peer that fails has no figure in that round.
    let failed = |figure: Result<f64>, of: &mut Vec<f64>| match figure {
        Ok(figure) => of.push(figure),
        Err(why) => eprintln!("iceoryx2's tunnel: {why}"),
    };
    for round in 1..=rounds {
        if smalls {
            small[0].push(run.bare(SMALL, "callback", UNSET)?);
            small[1].push(run.bare(SMALL, "channel", UNSET)?);
            small[2].push(run.bare(SMALL, "callback", SET)?);
            small[3].push(run.outlive("b", SMALL)?);
            small[4].push(run.outlive("a", SMALL)?);
            peer.iter().for_each(|peer| failed(run.peer(peer, SMALL), &mut small[5]));
        }
        if larges {
            large[0].push(run.bare(LARGE, "slices", UNSET)?);
            large[1].push(run.bare(LARGE, "gathered", UNSET)?);
            large[2].push(run.bare(LARGE, "slices", SET)?);
            large[3].push(run.bare(LARGE, "gathered", SET)?);
            large[4].push(run.outlive("b", LARGE)?);
            peer.iter().for_each(|peer| failed(run.peer(peer, LARGE), &mut large[5]));
        }
        eprintln!("round {round} of {rounds}");
    }
    drop(gateways);
    println!("medians of {SAMPLES} messages, one each {PAUSE:?}; of {rounds} rounds:");
    let absent = match peer {
        Some(_) => "has failed",
        None => "not installed: see bridges/peers/iceoryx2/README.md",
    };
    if smalls {
        row("64 B, bare zenoh, in its callback", "µs", &small[0], None);
        row("64 B, bare zenoh, by its channel", "µs", &small[1], Some(&small[0]));
        row("64 B, bare zenoh, set as a gateway sets it", "µs", &small[2], Some(&small[0]));
        row("64 B, through two gateways", "µs", &small[3], Some(&small[0]));
        row("  beside the channel", "µs", &small[3], Some(&small[1]));
        row("  beside bare zenoh so set", "µs", &small[3], Some(&small[2]));
        row("64 B, within the sender's domain", "µs", &small[4], Some(&small[0]));
        peer_row("64 B, iceoryx2's tunnel, polled", "µs", &small[5], &small[0], absent);
    }
    if larges {
        row("6 MB, bare zenoh, in slices", "/s", &large[0], None);
        row("6 MB, bare zenoh, gathered", "/s", &large[1], Some(&large[0]));
        row("6 MB, bare zenoh, set so, in slices", "/s", &large[2], Some(&large[0]));
        row("6 MB, bare zenoh, set so, gathered", "/s", &large[3], Some(&large[0]));
        row("6 MB, through two gateways", "/s", &large[4], Some(&large[0]));
        row("  beside the gathered one", "/s", &large[4], Some(&large[1]));
        row("  beside the one set so, in slices", "/s", &large[4], Some(&large[2]));
        row("  beside the one set so, gathered", "/s", &large[4], Some(&large[3]));
        peer_row("6 MB, iceoryx2's tunnel, polled", "/s", &large[5], &large[0], absent);
    }
    if parts.contains(&"idle") { idle(&mut run) } else { Ok(()) }
}

/// What ten topics cost while nothing is published.
fn idle(run: &mut Run) -> Result<()> {
    let domain = Domain::open_or_create_at(run.domain("a"))?;
    let topics: Vec<Topic> = (0..10)
        .map(|at| {
            Topic::<[u8]>::options().reliable(true).open_or_create(&domain, &format!("idle.t{at}"))
        })
        .collect::<std::result::Result<_, _>>()?;
    let _publishers =
        topics.iter().map(Topic::publisher).collect::<std::result::Result<Vec<_>, _>>()?;
    let gateways = run.gateways("idle/**")?;
    let there = Domain::open_or_create_at(run.domain("b"))?;
    let are_there = || {
        (0..10).all(|at| {
            Topic::open_as_bytes(&there, &format!("idle.t{at}"))
                .is_ok_and(|topic| topic.sessions().0.len() == 1)
        })
    };
    if !eventually(LONG, are_there) {
        return Err("the topics have not come".into());
    }
    let endpoint = run.endpoint();
    let own = run.own.clone();
    let bare = [
        run.child(&run.here, &own, &["zenoh-idle", "listen", &endpoint])?,
        run.child(&run.there, &own, &["zenoh-idle", "connect", &endpoint])?,
    ];
    thread::sleep(Duration::from_secs(3));
    let pids: Vec<u32> = gateways.iter().chain(&bare).map(Child::pid).collect();
    let before = pids.iter().map(|pid| work(*pid)).collect::<Result<Vec<_>>>()?;
    thread::sleep(IDLE);
    for ((pid, before), what) in
        pids.iter().zip(before).zip(["sender", "receiver", "bare zenoh", "bare zenoh"])
    {
        let [own, zenoh] = work(*pid)?;
        let (own, zenoh) = (own.since(before[0]), zenoh.since(before[1]));
        let millis = |work: Work| work.nanos as f64 / 1e6;
        println!(
            "idle for {IDLE:?}, {what:10}: own threads {:.1} ms, {} wakes; zenoh's {:.1} ms, {} wakes",
            millis(own),
            own.wakes,
            millis(zenoh),
            zenoh.wakes
        );
    }
    Ok(())
}
