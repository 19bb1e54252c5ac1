//! Survivors: real processes that wait, send, receive, open and sweep around the victim, and are
//! asked afterwards.
//!
//! A survivor is the program `victim` in another role. It obeys orders, one line each, from its
//! standard input, and answers each with one line: `ok …` or `err …`. An order that waits (take a
//! lock, receive) is given with [`Survivor::tell`], so that the survivor sleeps on the thing while
//! the victim dies, and its answer is fetched later, with a deadline: no answer by then is a hang.

use std::fs::File;
use std::io::{self, BufRead, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

use crate::engine::trace;
use crate::failure::Failure;

/// How long an order that should not wait may take, and how long a waiting one may need until it is
/// asleep.
const PROMPTLY: Duration = Duration::from_secs(5);

/// A process of the pool.
pub struct Survivor {
    name: String,
    child: Child,
    orders: File,
    answers: File,
    unread: Vec<u8>,
    outstanding: Option<String>,
}

impl Survivor {
    /// Starts a survivor named `name`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(
        name: &str,
        program: &Path,
        arguments: &[&str],
        log: &Path,
    ) -> Result<Survivor, Failure> {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(log)?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log);
        // SAFETY: one system call on numbers between fork and exec: survivors end with the process
        // that started them.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            })
        };
        let mut child = command.spawn()?;
        let take = |end: Option<OwnedFd>| {
            end.map(File::from).ok_or(io::Error::from(io::ErrorKind::BrokenPipe))
        };
        let orders = take(child.stdin.take().map(OwnedFd::from))?;
        let answers = take(child.stdout.take().map(OwnedFd::from))?;
        Ok(Survivor {
            name: name.to_owned(),
            child,
            orders,
            answers,
            unread: Vec::new(),
            outstanding: None,
        })
    }

    /// The process's number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Gives an order without waiting for its answer.
    ///
    /// # Errors
    /// When the survivor is gone or still busy with an earlier order.
    pub fn tell(&mut self, order: &str) -> Result<(), Failure> {
        if let Some(earlier) = &self.outstanding {
            return Err(Failure::broken(format!(
                "{} was told `{order}` while busy with `{earlier}`",
                self.name
            )));
        }
        self.orders.write_all(format!("{order}\n").as_bytes()).map_err(|error| {
            Failure::wrong(format!("{} is gone when told `{order}`: {error}", self.name))
        })?;
        self.outstanding = Some(order.to_owned());
        Ok(())
    }

    /// Fetches the answer to the outstanding order.
    ///
    /// # Errors
    /// A hang when there is none at the deadline; what the survivor reports as an error; its own
    /// unexpected end.
    pub fn answer(&mut self, deadline: Instant) -> Result<String, Failure> {
        let order = self
            .outstanding
            .take()
            .ok_or_else(|| Failure::broken(format!("{} has no order", self.name)))?;
        loop {
            if let Some(end) = self.unread.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line).trim_end().to_owned();
                return match line.split_once(' ').unwrap_or((&line, "")) {
                    ("ok", rest) => Ok(rest.to_owned()),
                    (_, rest) => {
                        Err(Failure::wrong(format!("{}: `{order}` failed: {rest}", self.name)))
                    }
                };
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let wait = rustix::event::Timespec::try_from(left).ok();
            let mut ends = [PollFd::new(&self.answers, PollFlags::IN)];
            match poll(&mut ends, wait.as_ref()) {
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(io::Error::from(error).into()),
                Ok(0) => {
                    self.outstanding = Some(order.clone());
                    let asleep = trace::sleeping_in(self.pid() as i32)
                        .map_or(String::new(), |call| format!(", asleep in system call {call}"));
                    return Err(Failure::Hang(format!("{} hangs in `{order}`{asleep}", self.name)));
                }
                Ok(_) => {}
            }
            let mut chunk = [0; 4096];
            match self.answers.read(&mut chunk)? {
                0 => {
                    let end = self.child.wait()?;
                    return Err(Failure::wrong(format!(
                        "{} ended ({end}) in `{order}`",
                        self.name
                    )));
                }
                bytes => self.unread.extend_from_slice(&chunk[..bytes]),
            }
        }
    }

    /// The outstanding order.
    #[must_use]
    pub fn order(&self) -> Option<&str> {
        self.outstanding.as_deref()
    }

    /// Returns whether the answer to the outstanding order has come, or comes within that time. It
    /// is not taken: that is for [`Survivor::answer`]. A survivor that has ended counts as one that
    /// has answered, and is told of there.
    ///
    /// # Errors
    /// What reading reports.
    pub fn has_answered(&mut self, within: Duration) -> Result<bool, Failure> {
        let deadline = Instant::now() + within;
        while !self.unread.contains(&b'\n') {
            let left = deadline.saturating_duration_since(Instant::now());
            let wait = rustix::event::Timespec::try_from(left).ok();
            let mut ends = [PollFd::new(&self.answers, PollFlags::IN)];
            match poll(&mut ends, wait.as_ref()) {
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(io::Error::from(error).into()),
                Ok(0) => return Ok(false),
                Ok(_) => {}
            }
            let mut chunk = [0; 4096];
            match self.answers.read(&mut chunk)? {
                0 => return Ok(true),
                bytes => self.unread.extend_from_slice(&chunk[..bytes]),
            }
        }
        Ok(true)
    }

    /// What the survivor is at, for reports; `None` when it has no order to answer.
    #[must_use]
    pub fn situation(&mut self) -> Option<String> {
        let order = self.outstanding.clone()?;
        match self.answer(Instant::now()) {
            Ok(answer) => return Some(format!("{} answered `{answer}` to `{order}`", self.name)),
            Err(Failure::Wrong(problem)) => return Some(problem),
            Err(_) => {}
        }
        let doing = match trace::sleeping_in(self.pid() as i32) {
            Some(call) => format!("asleep in system call {call}"),
            None => "awake or gone".to_owned(),
        };
        Some(format!("{} is in `{order}`, {doing}", self.name))
    }

    /// Gives an order that does not wait, and fetches its answer.
    ///
    /// # Errors
    /// As [`Survivor::answer`], with a deadline five seconds away.
    pub fn ask(&mut self, order: &str) -> Result<String, Failure> {
        self.tell(order)?;
        self.answer(Instant::now() + super::load::stretched(PROMPTLY))
    }

    /// Gives an order and returns when the survivor sleeps on a futex for it.
    ///
    /// # Errors
    /// When it is not asleep within five seconds.
    pub fn tell_and_see_asleep(&mut self, order: &str) -> Result<(), Failure> {
        self.tell(order)?;
        self.see_asleep()
    }

    /// Returns when the survivor sleeps on a futex.
    ///
    /// # Errors
    /// When it is not asleep within five seconds.
    pub fn see_asleep(&mut self) -> Result<(), Failure> {
        let deadline = Instant::now() + super::load::stretched(PROMPTLY);
        let on_words = |call| matches!(call, libc::SYS_futex | libc::SYS_futex_waitv);
        while !trace::sleeping_in(self.pid() as i32).is_some_and(on_words) {
            if Instant::now() >= deadline {
                let order = self.outstanding.as_deref().unwrap_or("nothing");
                return Err(Failure::broken(format!(
                    "{} does not fall asleep in `{order}`",
                    self.name
                )));
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        Ok(())
    }
}

impl Drop for Survivor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a survivor process does with its orders.
pub trait Obeys {
    /// Carries out one order; the words are those of its line.
    ///
    /// # Errors
    /// A text that says what went wrong; it fails the round.
    fn obey(&mut self, order: &[&str]) -> Result<String, String>;
}

/// The survivor's own side: obeys orders from standard input until it is closed.
///
/// # Errors
/// What reading or writing reports.
pub fn serve(member: &mut dyn Obeys) -> io::Result<()> {
    super::affinity::roam();
    let (orders, mut answers) = (io::stdin().lock(), io::stdout().lock());
    for order in orders.lines() {
        let order = order?;
        let words: Vec<&str> = order.split_whitespace().collect();
        let line = match member.obey(&words) {
            Ok(answer) => format!("ok {answer}\n"),
            Err(problem) => format!("err {}\n", problem.replace('\n', " ")),
        };
        answers.write_all(line.as_bytes())?;
        answers.flush()?;
    }
    Ok(())
}
