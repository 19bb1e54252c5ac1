//! Programs that a test starts, kills, stops and starts again.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{self, Command, ExitStatus, Stdio};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use libc::c_int;

/// Waits until `is` says so, and returns whether it did before `limit`.
pub fn eventually(limit: Duration, mut is: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    loop {
        if is() {
            return true;
        }
        if begun.elapsed() >= limit {
            return false;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// A program that is killed, with all of its group, when this is dropped; and by the kernel, when the
/// test's process dies.
///
/// It leads a process group of its own. Standard input is closed unless the command says otherwise.
#[derive(Debug)]
pub struct Child {
    process: process::Child,
    ended: Option<ExitStatus>,
}

impl Child {
    /// Starts it.
    ///
    /// # Errors
    /// The program is not there, or the system has no more processes.
    pub fn start(mut command: Command) -> io::Result<Child> {
        command.process_group(0);
        // SAFETY: the closure calls one system call, with numbers, between `fork` and `exec`.
        unsafe {
            command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            });
        }
        Ok(Child { process: spawn_lastingly(command)?, ended: None })
    }

    /// Returns its process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Returns its standard output, once, if it was piped.
    pub fn stdout(&mut self) -> Option<process::ChildStdout> {
        self.process.stdout.take()
    }

    /// Returns its standard error, once, if it was piped.
    pub fn stderr(&mut self) -> Option<process::ChildStderr> {
        self.process.stderr.take()
    }

    /// Returns its standard input, once, if it was piped.
    pub fn stdin(&mut self) -> Option<process::ChildStdin> {
        self.process.stdin.take()
    }

    /// Returns whether it has not ended.
    pub fn is_running(&mut self) -> bool {
        self.status().is_none()
    }

    /// Returns how it ended, `None` while it runs.
    pub fn status(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.process.try_wait().expect("it is our child");
        }
        self.ended
    }

    /// Waits until it has ended, at most so long.
    pub fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        eventually(limit, || self.status().is_some());
        self.ended
    }

    /// Sends it a signal. One that has ended gets none.
    pub fn signal(&mut self, signal: c_int) {
        if self.is_running() {
            // SAFETY: the process is our child and was not waited for: the number is still its own.
            unsafe { libc::kill(self.pid() as libc::pid_t, signal) };
        }
    }

    /// Kills it, and waits until it is gone.
    pub fn kill(&mut self) {
        self.signal(libc::SIGKILL);
        if self.ended.is_none() {
            self.ended = self.process.wait().ok();
        }
    }

    /// Stops it (SIGSTOP), and waits until it is stopped.
    ///
    /// # Panics
    /// If it is not stopped within a minute.
    pub fn stop(&mut self) {
        self.signal(libc::SIGSTOP);
        let limit = Duration::from_secs(60);
        assert!(
            eventually(limit, || matches!(self.state(), None | Some('T'))),
            "it is not stopped"
        );
    }

    /// Lets it go on (SIGCONT).
    pub fn go_on(&mut self) {
        self.signal(libc::SIGCONT);
    }

    /// Asks it to end (SIGTERM), and waits until it has, at most so long.
    pub fn end(&mut self, limit: Duration) -> Option<ExitStatus> {
        self.signal(libc::SIGTERM);
        self.wait(limit)
    }

    /// Returns its state as the kernel shows it.
    fn state(&self) -> Option<char> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.ended.is_none() {
            // Those that it started and that still belong to its group, too.
            // SAFETY: the leader was not waited for: the group's number is still its own.
            unsafe { libc::kill(-(self.pid() as libc::pid_t), libc::SIGKILL) };
        }
        self.kill();
    }
}

/// Starts a child from a thread that lives as long as the process: the kernel sends a parent's death
/// signal when the *thread* that forked ends, and a test's thread ends with the test.
fn spawn_lastingly(command: Command) -> io::Result<process::Child> {
    type Order = (Command, mpsc::Sender<io::Result<process::Child>>);
    static STARTER: OnceLock<mpsc::Sender<Order>> = OnceLock::new();
    let starter = STARTER.get_or_init(|| {
        let (orders, coming) = mpsc::channel::<Order>();
        thread::spawn(move || {
            for (mut command, answer) in coming {
                // The asking thread waits for it.
                let _ = answer.send(command.spawn());
            }
        });
        orders
    });
    let (answer, coming) = mpsc::channel();
    starter.send((command, answer)).expect("its thread never ends");
    coming.recv().expect("its thread answers each")
}

/// A server: a [`Child`] that is known to answer, and that can be started again.
pub struct Server {
    command: Box<dyn FnMut() -> Command + Send>,
    answers: Box<dyn FnMut() -> bool + Send>,
    child: Option<Child>,
}

impl Server {
    /// How long a server may take until it answers.
    const UP: Duration = Duration::from_secs(60);

    /// Starts it, and waits until `answers` says that it does.
    ///
    /// # Panics
    /// If it cannot be started, ends at once, or does not answer within a minute.
    pub fn start(
        command: impl FnMut() -> Command + Send + 'static,
        answers: impl FnMut() -> bool + Send + 'static,
    ) -> Server {
        let mut server =
            Server { command: Box::new(command), answers: Box::new(answers), child: None };
        server.start_again();
        server
    }

    /// Starts one that answers when it accepts connections at this address.
    ///
    /// # Panics
    /// As [`start`](Server::start).
    pub fn listening(
        address: SocketAddr,
        command: impl FnMut() -> Command + Send + 'static,
    ) -> Server {
        Server::start(command, move || {
            TcpStream::connect_timeout(&address, Duration::from_millis(500)).is_ok()
        })
    }

    /// Starts it again after a [`kill`](Server::kill) or an [`end`](Server::end), and waits until it
    /// answers.
    ///
    /// # Panics
    /// As [`start`](Server::start).
    pub fn start_again(&mut self) {
        self.start_unasked();
        self.wait_up();
    }

    /// Starts it again, and does not wait.
    ///
    /// # Panics
    /// If it runs already, or cannot be started.
    pub fn start_unasked(&mut self) {
        assert!(!self.is_running(), "it still runs");
        let mut command = (self.command)();
        command.stdin(Stdio::null());
        let program = command.get_program().to_owned();
        let child = Child::start(command);
        self.child = Some(child.unwrap_or_else(|error| panic!("{program:?}: {error}")));
    }

    /// Waits until it answers.
    ///
    /// # Panics
    /// If it ended, or does not answer within a minute.
    pub fn wait_up(&mut self) {
        let begun = Instant::now();
        while !(self.answers)() {
            let ended = self.child().status();
            assert_eq!(ended, None, "the server ended");
            assert!(begun.elapsed() < Server::UP, "the server does not answer");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns its process.
    ///
    /// # Panics
    /// If it was killed.
    pub fn child(&mut self) -> &mut Child {
        self.child.as_mut().expect("it was killed")
    }

    /// Returns whether it runs (a stopped one does).
    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(Child::is_running)
    }

    /// Kills it with its group, and waits until it is gone.
    pub fn kill(&mut self) {
        self.child = None;
    }

    /// Asks it to end, kills it after ten seconds, and waits until it is gone.
    pub fn end(&mut self) {
        if let Some(child) = &mut self.child {
            child.end(Duration::from_secs(10));
        }
        self.child = None;
    }

    /// Stops it.
    ///
    /// # Panics
    /// If it was killed.
    pub fn stop(&mut self) {
        self.child().stop();
    }

    /// Lets it go on.
    ///
    /// # Panics
    /// If it was killed.
    pub fn go_on(&mut self) {
        self.child().go_on();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::free_port;
    use std::io::{Read, Write};

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn is_there(pid: u32) -> bool {
        std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .is_ok_and(|stat| !stat.contains(") Z "))
    }

    const SOON: Duration = Duration::from_secs(60);

    #[test]
    fn a_dropped_child_is_gone_with_what_it_started() {
        let mut command = shell("sleep 100 & echo $!; wait");
        command.stdout(Stdio::piped());
        let mut child = Child::start(command).expect("starts");
        let mut line = [0; 16];
        let read = child.stdout().expect("piped").read(&mut line).expect("is read");
        let pid: u32 =
            std::str::from_utf8(&line[..read]).expect("text").trim().parse().expect("pid");
        assert!(is_there(pid));
        let own = child.pid();
        drop(child);
        assert!(!is_there(own));
        assert!(eventually(SOON, || !is_there(pid)));
    }

    #[test]
    fn a_stopped_child_does_nothing_until_it_goes_on() {
        let mut command = shell("read line; exit 7");
        command.stdin(Stdio::piped());
        let mut child = Child::start(command).expect("starts");
        child.stop();
        child.stdin().expect("piped").write_all(b"end\n").expect("read later");
        assert_eq!(child.wait(Duration::from_millis(500)), None);
        child.go_on();
        assert_eq!(child.wait(SOON).and_then(|status| status.code()), Some(7));
        // One that has ended gets no signal and is no error.
        child.stop();
        child.kill();
    }

    #[test]
    fn a_child_lives_longer_than_the_thread_that_asked_for_it() {
        let mut child = thread::spawn(|| Child::start(shell("sleep 100")).expect("starts"))
            .join()
            .expect("no panic");
        thread::sleep(Duration::from_millis(100));
        assert!(child.is_running());
        child.kill();
        assert!(!child.is_running());
    }

    #[test]
    fn a_server_is_started_again_at_its_port() {
        // The test's own program is the server: it accepts until it is killed.
        let port = free_port();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut server = Server::listening(address, move || {
            let mut command = Command::new(std::env::current_exe().expect("it runs"));
            command.args(["--exact", "child::tests::server", "--ignored", "--nocapture"]);
            command.env("TESTNET_PORT", port.to_string()).stdout(Stdio::null());
            command
        });
        let first = server.child().pid();
        server.kill();
        assert!(TcpStream::connect(address).is_err());
        assert!(!server.is_running());
        server.start_again();
        assert_ne!(server.child().pid(), first);
        assert!(TcpStream::connect(address).is_ok());
        server.end();
        assert!(!server.is_running());
    }

    #[test]
    #[ignore = "it is the server of the test above"]
    fn server() {
        let Ok(port) = std::env::var("TESTNET_PORT") else { return };
        let listener = std::net::TcpListener::bind(("127.0.0.1", port.parse().expect("a port")));
        for stream in listener.expect("free").incoming() {
            drop(stream);
        }
    }
}
