//! A driver's process: lines in, lines out, each awaited until a deadline; killed by its pid.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::words::Language;

/// How to start a language's driver; the folder is added.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) language: Language,
    pub(crate) words: Vec<String>,
}

pub(crate) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    answers: Receiver<String>,
    /// What it said on stderr, for a failure's report.
    errors: PathBuf,
    /// Lines that were read and not handed out yet.
    early: Option<String>,
    /// The thread that does what it is told.
    tid: u32,
}

impl Process {
    pub(crate) fn start(program: &Program, domain: &Path, errors: PathBuf) -> io::Result<Process> {
        let (first, rest) =
            program.words.split_first().ok_or_else(|| io::Error::other("no program"))?;
        let mut command = Command::new(first);
        command
            .args(rest)
            .arg(domain)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&errors)?);
        let mut child =
            command.spawn().map_err(|error| io::Error::other(format!("{first}: {error}")))?;
        let output = child.stdout.take().ok_or_else(|| io::Error::other("no stdout"))?;
        let (lines, answers) = mpsc::channel();
        // Ends with the process's output, or when the receiver is dropped.
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let Ok(line) = line else { return };
                if lines.send(line).is_err() {
                    return;
                }
            }
        });
        let tid = child.id();
        Ok(Process { input: child.stdin.take(), child, answers, errors, early: None, tid })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns whether its first line says that it has begun: `ready`, and the thread that does what it
    /// is told, where that is not its first.
    pub(crate) fn is_ready(&mut self, line: &str) -> bool {
        let tid = match line.strip_prefix("ready") {
            Some("") => Some(self.tid),
            Some(tid) => tid.trim().parse().ok(),
            None => None,
        };
        self.tid = tid.unwrap_or(self.tid);
        tid.is_some()
    }

    pub(crate) fn tell(&mut self, line: &str) -> Result<(), String> {
        let input = self.input.as_mut().ok_or("its input is closed")?;
        writeln!(input, "{line}")
            .and_then(|()| input.flush())
            .map_err(|error| self.gone(&error.to_string()))
    }

    pub(crate) fn answer(&mut self, patience: Duration) -> Result<String, String> {
        if let Some(early) = self.early.take() {
            return Ok(early);
        }
        match self.answers.recv_timeout(patience) {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Timeout) => {
                Err(format!("no answer for {} s", patience.as_secs_f64()))
            }
            Err(RecvTimeoutError::Disconnected) => Err(self.gone("it ended without an answer")),
        }
    }

    fn gone(&mut self, what: &str) -> String {
        let status =
            self.ended(Duration::from_secs(1)).map_or_else(|why| why, |status| status.to_string());
        format!("{what} ({status})")
    }

    /// Waits until its thread sleeps over what it was told, in anything but reading the next line.
    pub(crate) fn sleeps(&mut self, patience: Duration) -> Result<(), String> {
        let end = Instant::now() + patience;
        let mut sightings = 0;
        while Instant::now() < end {
            if let Ok(early) = self.answers.recv_timeout(Duration::from_millis(1)) {
                let said = format!("it answered '{early}' instead of sleeping");
                self.early = Some(early);
                return Err(said);
            }
            sightings = if self.is_asleep() { sightings + 1 } else { 0 };
            if sightings == 3 {
                return Ok(());
            }
        }
        Err(format!("it did not sleep for {} s", patience.as_secs_f64()))
    }

    fn is_asleep(&self) -> bool {
        let of = |file: &str| {
            fs::read_to_string(format!("/proc/{}/task/{}/{file}", self.pid(), self.tid))
                .unwrap_or_default()
        };
        let stat = of("stat");
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        // `0 0x0 …`: it reads, on every architecture whose numbers begin so; aarch64's read is 63.
        let call = of("syscall");
        let reads = if cfg!(target_arch = "aarch64") { "63 0x0 " } else { "0 0x0 " };
        // It may have gone on since its state was read: `running`, or `-1 …`, in no call.
        let is_in_call = call.starts_with(|letter: char| letter.is_ascii_digit());
        state == Some('S') && is_in_call && !call.starts_with(reads) && !is_parked(&call)
    }

    pub(crate) fn signal(&mut self, signal: Signal) -> Result<(), String> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).map_err(|error| error.to_string())
    }

    /// SIGSTOP, until all its threads stand still. The signal goes to one of them, and until that one has a
    /// processor the others run on: a language's own threads do so.
    pub(crate) fn stop(&mut self) -> Result<(), String> {
        self.signal(Signal::STOP)?;
        let id = WaitId::Pid(Pid::from_child(&self.child));
        let news = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        match waitid(id, news) {
            Ok(Some(status)) if status.stopped() => Ok(()),
            Ok(_) => Err("it has ended".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// SIGKILL, and its end.
    pub(crate) fn kill(&mut self) -> Result<(), String> {
        self.signal(Signal::KILL)?;
        self.child.wait().map(drop).map_err(|error| error.to_string())
    }

    /// Waits for its end, by itself.
    pub(crate) fn ended(&mut self, patience: Duration) -> Result<ExitStatus, String> {
        let end = Instant::now() + patience;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(1)),
                Ok(None) => return Err("it did not end".to_owned()),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// Closes its input: it has to end well.
    pub(crate) fn close(&mut self) {
        self.input = None;
    }

    pub(crate) fn said_on_stderr(&self) -> String {
        let said = fs::read(&self.errors).unwrap_or_default();
        let from = said.len().saturating_sub(1500);
        String::from_utf8_lossy(&said[from..]).trim().to_owned()
    }
}

/// Returns whether that is a wait for a thread of the same process: a runtime's own, as when Go takes a
/// goroutine's processor away. A wait for another process is no private futex's.
fn is_parked(call: &str) -> bool {
    const PRIVATE: u32 = 0x80;
    let mut words = call.split(' ');
    let futex = if cfg!(target_arch = "aarch64") { "98" } else { "202" };
    words.next() == Some(futex)
        && words
            .nth(1)
            .and_then(|operation| operation.strip_prefix("0x"))
            .and_then(|operation| u32::from_str_radix(operation, 16).ok())
            .is_some_and(|operation| operation & PRIVATE != 0)
}

impl Drop for Process {
    fn drop(&mut self) {
        // Gone already: no error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::is_parked;

    #[test]
    #[cfg(not(target_arch = "aarch64"))]
    fn a_wait_for_a_thread_is_no_wait_for_a_process() {
        assert!(is_parked("202 0x1c9148 0x80 0x0 0x0 0x0 0x0 0x7ffd 0x47"));
        assert!(is_parked("202 0x1c9148 0x189 0x0 0x0 0x0 0xffffffff 0x7ffd 0x47"));
        assert!(!is_parked("202 0x1c9148 0x0 0x0 0x0 0x0 0x0 0x7ffd 0x47"));
        assert!(!is_parked("449 0x1c9148 0x80 0x0 0x0 0x0 0x0 0x7ffd 0x47"));
        assert!(!is_parked("running"));
        assert!(!is_parked(""));
    }
}
