//! Running a command under a hold: what `lock` and `sem` share.
//!
//! This process has the lock or permit and starts the command, and an entry of a table in shared
//! memory names it: see `running`.
//!
//! | killed | then |
//! | --- | --- |
//! | this process, waiting for the hold | no other process notices |
//! | this process, before it starts the command | the next holder finds no command, and goes on |
//! | this process, between starting the command and naming it | the command waits for its go-ahead on a pipe, sees that closed and ends without having run |
//! | this process, while the command runs | the kernel kills the command (PR_SET_PDEATHSIG); a process whose command may not run beside it first waits until it is gone |
//! | the command | this process gives the hold back and says so by its exit code |
//!
//! The command is this program again, under a hidden verb, until it has its go-ahead: then it
//! becomes cmd. So the pid is known before cmd's first instruction, and nothing needs to be done
//! between a fork and an exec.

use std::ffi::OsString;
use std::fmt::Display;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use clap::Args;
use outlive::{Deadline, Domain};
use rustix::io::FdFlags;
use rustix::pipe::{PipeFlags, pipe_with};

use super::running::{self, Entry, Named};
use crate::domain::DomainArgs;
use crate::duration;
use crate::exit::{Code, Failure};
use crate::external::{Program, become_program};
use crate::output::{self, talk};
use crate::process::{self, Process};
use crate::signals::{Signals, wait_readable};

/// What to run, and how long to wait for the hold.
#[derive(Args, Debug)]
pub struct UnderArgs {
    /// Give up after waiting this long for the lock or permit [default: wait for ever]
    #[arg(long, short = 'w', value_name = "TIME", value_parser = duration::seconds)]
    timeout: Option<Duration>,
    /// Give up at once when the lock or permit is not free
    #[arg(long, conflicts_with = "timeout")]
    nonblock: bool,
    /// Exit with this code after giving up by --timeout or --nonblock
    #[arg(long, short = 'E', value_name = "CODE", default_value_t = Code::LockTimedOut as u8)]
    conflict_exit_code: u8,
    /// The command to run, and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD", value_hint = clap::ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

/// Which machines the hold is of.
#[derive(Args, Debug)]
pub struct ClusterArgs {
    /// Hold it on all machines that name this cluster: etcd://[USER@]HOST:PORT[,HOST:PORT…], etcds://
    /// for TLS; runs the command by another program, which 'cargo install --path bridges/cluster'
    /// installs
    ///
    /// Options stand behind the address, as in etcd://10.0.0.1:2379?ttl=5: ttl=SECONDS (how long it
    /// stays with a machine that is not heard of any more; 10 unless said), ca=FILE, password-file=FILE;
    /// or a user's password is in OUTLIVE_CLUSTER_PASSWORD. The command finds its fencing token in
    /// OUTLIVE_FENCE, and is ended when the lease cannot be kept. 'outlive-lock-cluster --help' says
    /// more.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "attribute")]
    pub cluster: Option<String>,
}

impl ClusterArgs {
    /// Becomes the program that holds it on several machines; returns if there is no cluster. `words`
    /// are the verb's own options, then the name.
    pub fn become_program(
        &self,
        program: &'static str,
        domain: &DomainArgs,
        under: &UnderArgs,
        words: &[OsString],
    ) -> Result<(), Failure> {
        let Some(cluster) = &self.cluster else { return Ok(()) };
        if domain.no_create {
            // Says so when it is not there.
            domain.existing().map_err(|failure| failure.with_code(Code::LockFailed))?;
        }
        let mut args: Vec<OsString> = vec!["--cluster".into(), cluster.into()];
        args.extend(["--speaker".into(), format!("outlive {}", output::speaker()).into()]);
        args.extend(domain.words());
        if let Some(timeout) = under.timeout {
            args.extend(["--timeout".into(), format!("{}", timeout.as_secs_f64()).into()]);
        }
        args.extend(under.nonblock.then(|| "--nonblock".into()));
        args.extend(["-E".into(), under.conflict_exit_code.to_string().into()]);
        // What follows is no option, whatever it begins with.
        args.push("--".into());
        args.extend(words.iter().cloned());
        args.extend(under.command.iter().cloned());
        let program = Program::new(program, "cargo install --path bridges/cluster");
        let failure = become_program(&program, &args, &[]);
        Err(failure.with_code(Code::LockFailed))
    }
}

/// Arguments of the hidden verb that becomes the command.
#[derive(Args, Debug)]
pub struct BecomeArgs {
    /// What was typed for the verb that started it
    pub verb: String,
    /// The process that has the hold
    holder: u32,
    /// The descriptor by which the go-ahead comes
    go_ahead: i32,
    #[arg(required = true, last = true)]
    command: Vec<OsString>,
}

/// One run of a verb, from waiting for the hold to the command's end.
pub struct Under<'a> {
    name: &'a str,
    args: &'a UnderArgs,
    /// When to give up waiting.
    pub until: Option<Instant>,
    /// The domain, once it is open: for the names of nodes.
    pub domain: Option<Domain>,
}

impl<'a> Under<'a> {
    /// The time runs from now.
    pub fn new(name: &'a str, args: &'a UnderArgs) -> Under<'a> {
        let span = if args.nonblock { Some(Duration::ZERO) } else { args.timeout };
        let until = span.map(|span| Instant::now() + span);
        Under { name, args, until, domain: None }
    }

    /// Returns whether it is not to wait at all.
    pub fn is_nonblocking(&self) -> bool {
        self.args.nonblock
    }

    /// Returns the same moment, for the library.
    pub fn deadline(&self) -> Deadline {
        self.until.map_or(Deadline::NEVER, Deadline::at)
    }

    /// Says something about the thing.
    pub fn say(&self, text: impl Display) {
        talk(format_args!("'{}': {text}", self.name));
    }

    /// Returns the message and exit code for giving up.
    pub fn gave_up(&self, text: impl Display) -> Failure {
        self.say(text);
        Failure::Silent(self.args.conflict_exit_code)
    }

    /// Returns the command that an entry still names after its holder's death, if it still runs.
    /// The entry of one that is gone is cleared.
    pub fn left_over(&self, running: &[Entry], entry: usize) -> Result<Option<LeftOver>, Failure> {
        let Some((named, of_our_namespace)) = running::named(running, entry) else {
            return Ok(None);
        };
        if !of_our_namespace {
            // Its kernel kills it all the same; only we cannot watch it.
            self.say("a dead holder's command ran in another pid namespace; whether it has ended cannot be seen here");
        } else if let Some(process) =
            named.find().map_err(failed("look for the dead holder's command"))?
        {
            return Ok(Some(LeftOver { process, named, entry }));
        }
        running::clear(running, entry, named);
        Ok(None)
    }

    /// Says for which process this one waits.
    pub fn say_waiting(&self, left_over: &LeftOver) {
        let pid = left_over.named.pid();
        self.say(format_args!("waiting for the dead holder's command, process {pid}, to be gone"));
    }

    /// Returns the failure when it was not gone in time. Its entry stays: the next holder waits for
    /// it as well.
    pub fn still_runs(&self, left_over: &LeftOver) -> Failure {
        let pid = left_over.named.pid();
        self.gave_up(format_args!("the dead holder's command, process {pid}, still runs"))
    }

    /// Starts the command, names it in these entries, which are this process's, and waits for its
    /// end.
    pub fn run(&self, running: &[Entry], entries: &[usize]) -> Result<ExitStatus, Failure> {
        let status = self.run_named(running, entries)?;
        // Not after a failure: the command may run until this process ends.
        for &entry in entries {
            if let Some((named, _)) = running::named(running, entry) {
                running::clear(running, entry, named);
            }
        }
        Ok(status)
    }

    fn run_named(&self, running: &[Entry], entries: &[usize]) -> Result<ExitStatus, Failure> {
        let (read, write) =
            pipe_with(PipeFlags::CLOEXEC).map_err(|errno| failed("make a pipe")(errno.into()))?;
        let mut child = self.start(read).map_err(failed("start the command"))?;
        // Not before the start: the command would inherit that they are blocked. Killed by one just
        // here, the command does not get its go-ahead.
        let mut signals = Signals::take(&PASSED_ON).map_err(failed("take over signals"))?;
        // In memory before the write below, which is a system call. Killed between two: the command
        // has no go-ahead yet.
        let named = Named::of(child.id());
        entries.iter().for_each(|&entry| running::name(running, entry, named));
        let mut write = File::from(write);
        // A child that has ended already says so by its status.
        let _ = write.write_all(b"!");
        drop(write);
        wait_for(&mut child, &mut signals).map_err(failed("wait for the command"))
    }

    fn start(&self, go_ahead: OwnedFd) -> std::io::Result<Child> {
        // Inherited by this one child: it is this process's only one.
        rustix::io::fcntl_setfd(&go_ahead, FdFlags::empty())?;
        Command::new("/proc/self/exe")
            .arg0("outlive")
            .arg("%under")
            .arg(output::speaker())
            .arg(std::process::id().to_string())
            .arg(go_ahead.as_raw_fd().to_string())
            .arg("--")
            .args(&self.args.command)
            .spawn()
    }
}

/// A dead holder's command that still runs.
pub struct LeftOver {
    process: Process,
    named: Named,
    entry: usize,
}

impl LeftOver {
    /// Waits for its end and clears its entry. False: the time was over first.
    pub fn outwait(&self, running: &[Entry], until: Option<Instant>) -> Result<bool, Failure> {
        let gone =
            self.process.wait(until).map_err(failed("wait for the dead holder's command"))?;
        if gone {
            running::clear(running, self.entry, self.named);
        }
        Ok(gone)
    }
}

/// Returns what the system said while something was done for a command that did not run.
pub fn failed(doing: &'static str) -> impl Fn(std::io::Error) -> Failure {
    move |error| Failure::system(doing, &error).with_code(Code::LockFailed)
}

/// Ends as the command did.
pub fn exit_as(status: ExitStatus) -> Result<(), Failure> {
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(code), _) => Err(Failure::Silent(code as u8)),
        (None, signal) => Err(Failure::Silent(128 + signal.unwrap_or(0) as u8)),
    }
}

/// What a supervisor sends to the process that it started is meant for the command.
const PASSED_ON: [i32; 7] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGCONT,
];

fn wait_for(child: &mut Child, signals: &mut Signals) -> std::io::Result<ExitStatus> {
    let Some(command) = Process::find(child.id(), None)? else { return child.wait() };
    loop {
        let ready = wait_readable(&[command.as_fd(), signals.as_fd()], None)?;
        while let Some(came) = signals.next()? {
            // What the terminal sent went to the command as well.
            if came.sent_by_process {
                // SAFETY: no memory is touched; the child is not yet waited for, so its pid is its
                // own.
                unsafe { libc::kill(child.id() as i32, came.signal) };
            }
        }
        if ready[0] {
            return child.wait();
        }
    }
}

/// Runs the hidden verb: waits for the go-ahead, then becomes the command.
pub fn become_command(args: &BecomeArgs) -> Result<(), Failure> {
    if !process::die_with_parent(args.holder).map_err(failed("start the command"))? {
        return Err(Failure::Silent(Code::LockFailed as u8));
    }
    // SAFETY: the holder left this descriptor open for this program; nothing else in it owns it.
    let mut go_ahead = File::from(unsafe { OwnedFd::from_raw_fd(args.go_ahead) });
    let mut byte = [0];
    // Closed without a byte: the holder is dead, and no entry names this process.
    go_ahead.read_exact(&mut byte).map_err(|_| Failure::Silent(Code::LockFailed as u8))?;
    drop(go_ahead);
    let (program, arguments) =
        args.command.split_first().ok_or(Failure::Silent(Code::LockFailed as u8))?;
    let error = Command::new(program).args(arguments).exec();
    let code = match error.kind() {
        ErrorKind::NotFound => Code::CommandNotFound,
        _ => Code::NotExecutable,
    };
    talk(format_args!("could not run '{}': {error}", program.to_string_lossy()));
    Err(Failure::Silent(code as u8))
}
