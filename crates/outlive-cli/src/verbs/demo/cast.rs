//! The demo's processes: started, killed, replaced; none outlives the demo.
//!
//! Each is this program again, under a hidden verb, and asks the kernel to be killed when its
//! parent ends. They are started from the main thread, since the kernel means the thread that
//! started them.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use super::robot::Robot;
use super::{DemoArgs, Role};
use crate::exit::{Code, Failure};

/// One place in the demo, and the process that has it now.
pub struct Member {
    /// What it does.
    pub role: Role,
    /// Which of those that do the same.
    pub index: u32,
    life: u32,
    child: Option<Child>,
    /// How much it had done at its last progress, and how long ago that was.
    seen: u64,
    still: Duration,
}

/// All of them.
pub struct Cast {
    folder: PathBuf,
    sources: u32,
    fault: Option<&'static str>,
    /// The producers, in order, the consumer, and the robot's.
    pub members: Vec<Member>,
}

impl Cast {
    /// Starts the robot's processes, the consumer and the producers: receivers before senders.
    pub fn start(args: &DemoArgs, folder: &Path) -> Result<Cast, Failure> {
        let mut cast = Cast {
            folder: folder.to_path_buf(),
            sources: args.producers,
            fault: args.fault.map(super::Fault::name),
            members: Vec::new(),
        };
        for index in 0..args.producers {
            cast.members.push(Member::new(Role::Producer, index));
        }
        cast.members.push(Member::new(Role::Consumer, 0));
        if !args.no_robot {
            cast.members.extend(Robot::members().map(|(role, index)| Member::new(role, index)));
        }
        for at in (0..cast.members.len()).rev() {
            cast.start_member(at)?;
        }
        Ok(cast)
    }

    fn start_member(&mut self, at: usize) -> Result<(), Failure> {
        let failed = |error: io::Error| Failure::system("start a process of the demo", &error);
        let log = File::options().create(true).append(true).open(self.log()).map_err(failed)?;
        let member = &mut self.members[at];
        let mut command = Command::new("/proc/self/exe");
        command.arg("%member").arg(member.role.name()).arg(member.index.to_string());
        command
            .arg(member.life.to_string())
            .arg(self.sources.to_string())
            .arg(std::process::id().to_string());
        command.arg(&self.folder);
        if let Some(fault) = self.fault {
            command.arg("--fault").arg(fault);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        member.child = Some(command.spawn().map_err(failed)?);
        member.still = Duration::ZERO;
        Ok(())
    }

    /// Kills a member, this instant, and puts another in its place. Tells which process it was;
    /// `None`: it had ended already.
    pub fn kill_and_replace(&mut self, at: usize) -> Result<Option<u32>, Failure> {
        let pid = self.members[at].child.as_ref().map(Child::id);
        let killed = pid.filter(|_| self.members[at].kill());
        self.members[at].life += 1;
        self.start_member(at)?;
        Ok(killed)
    }

    /// Members that ended without having been asked to, and with what they said.
    pub fn check(&mut self) -> Result<(), Failure> {
        for at in 0..self.members.len() {
            if let Some(status) = self.members[at].ended() {
                return Err(self.failed(at, status));
            }
        }
        Ok(())
    }

    /// Waits a moment for members of that role to end. True: none is left.
    pub fn all_ended(&mut self, role: Role) -> Result<bool, Failure> {
        for at in 0..self.members.len() {
            if self.members[at].role == role
                && let Some(status) = self.members[at].ended()
            {
                if !status.success() {
                    return Err(self.failed(at, status));
                }
                self.members[at].child = None;
            }
        }
        Ok(self.members.iter().all(|member| member.role != role || member.child.is_none()))
    }

    fn failed(&self, at: usize, status: ExitStatus) -> Failure {
        let said = fs::read_to_string(self.log()).unwrap_or_default();
        let how = match (status.code(), status.signal()) {
            (Some(code), _) => format!("ended with exit code {code}"),
            (None, signal) => {
                format!("was killed by signal {}, not by the demo", signal.unwrap_or(0))
            }
        };
        let member = &self.members[at];
        let text = format!("{} {} {how}\n{}", member.role.name(), member.index, said.trim_end());
        Failure::new(Code::CheckFailed, text.trim_end())
    }

    fn log(&self) -> PathBuf {
        self.folder.join("said")
    }
}

impl Member {
    fn new(role: Role, index: u32) -> Member {
        Member { role, index, life: 0, child: None, seen: 0, still: Duration::ZERO }
    }

    /// Kills it and waits until it is gone. False: there was no process to kill.
    pub fn kill(&mut self) -> bool {
        let Some(mut child) = self.child.take() else { return false };
        let living = matches!(child.try_wait(), Ok(None));
        // Not yet waited for, so the pid is its own.
        let _ = child.kill();
        let _ = child.wait();
        living
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        self.child.as_mut()?.try_wait().ok().flatten()
    }

    /// Tells how long it has been still: alive, and doing nothing. `done` is how much it has done
    /// so far.
    pub fn still(&mut self, done: u64, passed: Duration) -> Duration {
        if done != self.seen || self.child.is_none() {
            self.seen = done;
            self.still = Duration::ZERO;
        } else {
            // A pause of the whole machine does not count as a member's.
            self.still += passed.min(Duration::from_millis(500));
        }
        self.still
    }
}

impl Drop for Cast {
    fn drop(&mut self) {
        for member in &mut self.members {
            member.kill();
        }
    }
}
