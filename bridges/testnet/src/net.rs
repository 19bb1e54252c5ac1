//! Network namespaces of one machine: hosts at one switch.
//!
//! ```text
//!  namespace A        namespace of the switch         namespace B
//!  eth0 ============= port 1 -- bridge -- port 2 ============= eth0
//!  nft: loss, deaf    down = cable pulled
//! ```
//! Addresses are 10.77.0.1, .2, … in each net: nets do not see each other, nor the machine's network.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::{fs, thread};

use crate::run;

/// Where `ip netns` keeps namespaces.
const KEPT: &str = "/run/netns";

/// A switch, to which hosts are connected.
#[derive(Debug)]
pub struct Net {
    switch: Arc<Namespace>,
    hosts: AtomicU8,
}

/// A host: a network namespace with one interface. Clones are the same host; the last one removes it,
/// and kills what still runs there.
#[derive(Clone, Debug)]
pub struct Host {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    // Removed before the switch is.
    namespace: Namespace,
    switch: Arc<Namespace>,
    /// The interface at the switch.
    port: String,
    ip: Ipv4Addr,
    filter: Mutex<Filter>,
}

/// What a host's packets suffer.
#[derive(Debug, Default)]
struct Filter {
    loss_percent: u32,
    deaf_to: BTreeSet<Ipv4Addr>,
}

impl Net {
    /// Makes a net without hosts.
    ///
    /// # Errors
    /// Why that is not possible here: this process is not root, may not make namespaces, or `ip` or
    /// `nft` are not there. Then the test [skips](run::skip) itself.
    pub fn new() -> Result<Net, String> {
        static LEFTOVERS: Once = Once::new();
        // SAFETY: always.
        if unsafe { libc::geteuid() } != 0 {
            return Err("only root makes network namespaces".to_owned());
        }
        for program in ["ip", "tc", "nft"] {
            if let Some(why) = run::missing(program) {
                return Err(why);
            }
        }
        LEFTOVERS.call_once(remove_leftovers);
        let switch = Arc::new(Namespace::new("switch")?);
        switch.ip("link add bridge type bridge")?;
        switch.ip("link set bridge up")?;
        // The rules of hosts need the kernel's part of nftables.
        switch.nft("add table inet net\n")?;
        Ok(Net { switch, hosts: AtomicU8::new(0) })
    }

    /// Connects a new host, with that word in its namespace's name.
    ///
    /// # Panics
    /// If that fails where [`new`](Net::new) did not.
    pub fn host(&self, what: &str) -> Host {
        self.connect(what).unwrap_or_else(|error| panic!("host {what}: {error}"))
    }

    fn connect(&self, what: &str) -> Result<Host, String> {
        let number = self.hosts.fetch_add(1, Ordering::Relaxed) + 1;
        let ip = Ipv4Addr::new(10, 77, 0, number);
        let port = format!("port{number}");
        let namespace = Namespace::new(what)?;
        let (switch, host) = (&self.switch, &namespace.name);
        switch.ip(&format!("link add {port} type veth peer name eth0 netns {host}"))?;
        switch.ip(&format!("link set {port} master bridge"))?;
        switch.ip(&format!("link set {port} up"))?;
        namespace.ip(&format!("address add {ip}/24 dev eth0"))?;
        namespace.ip("link set eth0 up")?;
        let inner = Inner {
            namespace,
            switch: Arc::clone(switch),
            port,
            ip,
            filter: Mutex::new(Filter::default()),
        };
        Ok(Host { inner: Arc::new(inner) })
    }
}

impl Host {
    /// Returns its address.
    pub fn ip(&self) -> Ipv4Addr {
        self.inner.ip
    }

    /// Returns a port at its address. Ports of a host are its own: any one is free.
    pub fn address(&self, port: u16) -> SocketAddr {
        (self.inner.ip, port).into()
    }

    /// Returns its namespace's name, for `ip netns`.
    pub fn name(&self) -> &str {
        &self.inner.namespace.name
    }

    /// Returns a command that will run there.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        self.inner.namespace.command(program)
    }

    /// Calls `f` in a thread there: sockets that it makes, and those of threads that it starts, are
    /// the host's.
    pub fn within<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                self.inner.namespace.enter().expect("root enters it");
                f()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Pulls the cable: nothing comes, nothing goes, and no process is told.
    pub fn down(&self) {
        self.set_port("down");
    }

    /// Plugs the cable in again.
    pub fn up(&self) {
        self.set_port("up");
    }

    fn set_port(&self, state: &str) {
        let Inner { switch, port, .. } = &*self.inner;
        switch.ip(&format!("link set {port} {state}")).expect("the switch has that port");
    }

    /// Limits both directions to so many megabits a second.
    pub fn rate(&self, megabits: u32) {
        let Inner { switch, namespace, port, .. } = &*self.inner;
        for (place, device) in [(namespace, "eth0"), (&**switch, port.as_str())] {
            let rate = format!("rate {megabits}mbit burst 128k latency 50ms");
            place.tc(&format!("qdisc replace dev {device} root tbf {rate}")).expect("tbf is there");
        }
    }

    /// Takes the limit away.
    pub fn full_rate(&self) {
        let Inner { switch, namespace, port, .. } = &*self.inner;
        for (place, device) in [(namespace, "eth0"), (&**switch, port.as_str())] {
            // There may be none.
            let _ = place.tc(&format!("qdisc del dev {device} root"));
        }
    }

    /// Loses so many percent of the packets that come, and of those that go, at random.
    pub fn lose(&self, percent: u32) {
        self.filter(|filter| filter.loss_percent = percent);
    }

    /// From now on it hears nothing of `other`, which still hears it: a partition in one direction.
    pub fn deafen(&self, other: &Host) {
        self.filter(|filter| {
            filter.deaf_to.insert(other.ip());
        });
    }

    /// Neither hears the other: a partition of two hosts among others.
    pub fn part(&self, other: &Host) {
        self.deafen(other);
        other.deafen(self);
    }

    /// It loses nothing more and hears all others.
    pub fn heal(&self) {
        self.filter(|filter| *filter = Filter::default());
    }

    fn filter(&self, change: impl FnOnce(&mut Filter)) {
        let mut filter = self.inner.filter.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut filter);
        // As a whole and at once: no packet meets half of the rules.
        let mut rules =
            String::from("add table inet net\ndelete table inet net\ntable inet net {\n");
        for hook in ["input", "output"] {
            rules.push_str(&format!("chain {hook} {{ type filter hook {hook} priority 0;\n"));
            if filter.loss_percent > 0 {
                let loss = filter.loss_percent;
                let device = if hook == "input" { "iifname" } else { "oifname" };
                rules.push_str(&format!("{device} != lo numgen random mod 100 < {loss} drop\n"));
            }
            if hook == "input" {
                for ip in &filter.deaf_to {
                    rules.push_str(&format!("ip saddr {ip} drop\n"));
                }
            }
            rules.push_str("}\n");
        }
        rules.push_str("}\n");
        self.inner.namespace.nft(&rules).expect("the rules are right");
    }
}

/// A namespace by name, removed on drop.
#[derive(Debug)]
struct Namespace {
    name: String,
    /// Open: it can be entered also by a child between `fork` and `exec`.
    descriptor: Arc<OwnedFd>,
}

impl Namespace {
    fn new(what: &str) -> Result<Namespace, String> {
        let name = run::name(what);
        run::run(Command::new("ip").args(["netns", "add", &name]))?;
        let opened = fs::File::open(format!("{KEPT}/{name}"));
        let descriptor = opened.map_err(|error| {
            remove(&name);
            format!("{KEPT}/{name}: {error}")
        })?;
        let namespace = Namespace { name, descriptor: Arc::new(descriptor.into()) };
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    /// Makes the calling thread one of it.
    fn enter(&self) -> io::Result<()> {
        enter(&self.descriptor)
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        let descriptor = Arc::clone(&self.descriptor);
        // SAFETY: the closure calls one system call with a descriptor that it keeps open.
        unsafe { command.pre_exec(move || enter(&descriptor)) };
        command
    }

    /// Runs `ip` with these words, there.
    fn ip(&self, words: &str) -> Result<(), String> {
        run::run(Command::new("ip").args(["-n", &self.name]).args(words.split(' ')))
    }

    fn tc(&self, words: &str) -> Result<(), String> {
        run::run(Command::new("tc").args(["-n", &self.name]).args(words.split(' ')))
    }

    fn nft(&self, rules: &str) -> Result<(), String> {
        let mut nft = self
            .command("nft")
            .args(["-f", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("nft cannot be started: {error}"))?;
        if let Some(mut stdin) = nft.stdin.take() {
            // An nft that does not read says why on its standard error.
            let _ = stdin.write_all(rules.as_bytes());
        }
        let output = nft.wait_with_output().map_err(|error| error.to_string())?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("nft: {}\n{rules}", String::from_utf8_lossy(&output.stderr).trim()))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

fn enter(namespace: &OwnedFd) -> io::Result<()> {
    // SAFETY: the descriptor is open; the call changes the calling thread alone.
    match unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Kills what runs in a namespace and removes it. A process that we entered it with is not killed:
/// only its threads are there.
fn remove(name: &str) {
    let own = std::process::id().to_string();
    if let Ok(listed) = Command::new("ip").args(["netns", "pids", name]).output() {
        for pid in String::from_utf8_lossy(&listed.stdout).split_ascii_whitespace() {
            if pid != own
                && let Ok(pid) = pid.parse()
            {
                // SAFETY: no memory is passed. It is in a namespace that is ours, or of a run that
                // is over.
                unsafe { libc::kill(pid, libc::SIGKILL) };
            }
        }
    }
    // Another run may be removing the same leftover.
    let _ = run::run(Command::new("ip").args(["netns", "del", name]));
}

fn remove_leftovers() {
    for entry in fs::read_dir(KEPT).into_iter().flatten().flatten() {
        if let Some(name) = entry.file_name().to_str()
            && run::is_leftover(name)
        {
            remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Child, eventually, skip};
    use std::io::Read;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::time::{Duration, Instant};

    fn net(test: &str) -> Option<Net> {
        Net::new().map_err(|why| skip(test, &why)).ok()
    }

    /// Returns whether one of the datagrams of one host arrives at the other within that time.
    fn hears_within(limit: Duration, ear: &Host, mouth: &Host) -> bool {
        let socket = ear.within(|| UdpSocket::bind(ear.address(0))).expect("free");
        socket.set_read_timeout(Some(Duration::from_millis(100))).expect("set");
        let to = socket.local_addr().expect("bound");
        let sender = mouth.within(|| UdpSocket::bind(mouth.address(0))).expect("free");
        eventually(limit, || {
            // A host without a route is one that is not heard.
            let _ = sender.send_to(b"x", to);
            socket.recv_from(&mut [0]).is_ok()
        })
    }

    /// The kernel looks for a lost neighbour once a second only.
    fn hears(ear: &Host, mouth: &Host) -> bool {
        hears_within(Duration::from_secs(60), ear, mouth)
    }

    fn is_deaf(ear: &Host, mouth: &Host) -> bool {
        !hears_within(Duration::from_millis(500), ear, mouth)
    }

    #[test]
    fn hosts_hear_each_other_until_a_cable_is_pulled() {
        let Some(net) = net("hosts_hear_each_other_until_a_cable_is_pulled") else { return };
        let (a, b) = (net.host("a"), net.host("b"));
        assert!(hears(&a, &b) && hears(&b, &a));
        b.down();
        assert!(is_deaf(&a, &b) && is_deaf(&b, &a));
        b.up();
        assert!(hears(&a, &b) && hears(&b, &a));
    }

    #[test]
    fn a_partition_has_directions() {
        let Some(net) = net("a_partition_has_directions") else { return };
        let (a, b, c) = (net.host("a"), net.host("b"), net.host("c"));
        assert!(hears(&a, &b) && hears(&b, &a));
        a.deafen(&b);
        assert!(is_deaf(&a, &b) && hears(&b, &a) && hears(&a, &c));
        b.deafen(&a);
        assert!(is_deaf(&b, &a));
        a.heal();
        b.heal();
        assert!(hears(&a, &b) && hears(&b, &a));
    }

    #[test]
    fn some_packets_are_lost() {
        let Some(net) = net("some_packets_are_lost") else { return };
        let (a, b) = (net.host("a"), net.host("b"));
        assert!(hears(&a, &b));
        a.lose(50);
        let socket = a.within(|| UdpSocket::bind(a.address(7000))).expect("free");
        socket.set_read_timeout(Some(Duration::from_millis(200))).expect("set");
        let sender = b.within(|| UdpSocket::bind(b.address(0))).expect("free");
        for _ in 0..400 {
            sender.send_to(b"x", a.address(7000)).expect("is sent");
        }
        let mut came = 0;
        while socket.recv_from(&mut [0]).is_ok() {
            came += 1;
        }
        assert!((50..350).contains(&came), "{came} of 400 came");
    }

    #[test]
    fn a_limited_host_is_slow() {
        let Some(net) = net("a_limited_host_is_slow") else { return };
        let (a, b) = (net.host("a"), net.host("b"));
        b.rate(8);
        let listener = a.within(|| TcpListener::bind(a.address(7000))).expect("free");
        let sending = thread::spawn(move || {
            b.within(|| {
                let mut stream = TcpStream::connect(("10.77.0.1", 7000)).expect("is accepted");
                stream.write_all(&vec![0; 1_000_000]).expect("is sent");
            });
        });
        let begun = Instant::now();
        let (mut stream, _) = listener.accept().expect("it comes");
        let read = stream.read_to_end(&mut Vec::new()).expect("is read");
        assert_eq!(read, 1_000_000);
        // A second, less the burst.
        assert!(begun.elapsed() > Duration::from_millis(600));
        sending.join().expect("no panic");
    }

    #[test]
    fn nothing_stays_after_a_panic() {
        let test = "nothing_stays_after_a_panic";
        let Some(net) = net(test) else { return };
        let (name, pid) = (Mutex::new(String::new()), Mutex::new(0));
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let host = net.host("a");
            *name.lock().expect("one thread") = host.name().to_owned();
            let mut command = host.command("sleep");
            command.arg("100");
            let mut child = Child::start(command).expect("starts");
            assert!(child.is_running());
            *pid.lock().expect("one thread") = child.pid();
            let inside = fs::read_link(format!("/proc/{}/ns/net", child.pid())).expect("it runs");
            assert_ne!(inside, fs::read_link("/proc/self/ns/net").expect("it runs"));
            panic!("on purpose");
        }))
        .expect_err("it panics");
        let name = name.into_inner().expect("one thread");
        assert!(!fs::exists(format!("{KEPT}/{name}")).expect("can be looked for"));
        let pid = pid.into_inner().expect("one thread");
        assert!(!fs::exists(format!("/proc/{pid}")).expect("can be looked for"));
    }

    #[test]
    fn leftovers_of_runs_that_are_over_are_removed() {
        let test = "leftovers_of_runs_that_are_over_are_removed";
        let Some(_net) = net(test) else { return };
        // As a run of this process's number, started at another time, would have left it.
        let name = format!("outlive-test-{}-1-0-x", std::process::id());
        run::run(Command::new("ip").args(["netns", "add", &name])).expect("is made");
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &name, "sleep", "100"]);
        let mut left = Child::start(command).expect("starts");
        let soon = Duration::from_secs(60);
        assert!(eventually(soon, || {
            let listed = Command::new("ip").args(["netns", "pids", &name]).output().expect("runs");
            !listed.stdout.is_empty()
        }));
        remove_leftovers();
        assert!(!fs::exists(format!("{KEPT}/{name}")).expect("can be looked for"));
        assert!(left.wait(soon).is_some());
    }
}
