//! One traced life: from the marker on, instruction by instruction, to the death that was planned
//! for it.
//!
//! The victim runs natively until it says that its operation begins ([`Stage::begin`] in the
//! victim: it offers itself for tracing and stops). From then on every instruction is one step; a
//! system call is one step too. A call that sleeps is a point of its own (*asleep*: killed there,
//! the kernel still has it queued), and the step is completed only when another process has woken
//! it.
//!
//! To come to a point deep in a long operation the victim need not be stepped all the way: it runs
//! natively until it arrives at some instruction for the n-th time ([`Goal`]), by a breakpoint in
//! the debug registers on machines that offer them.
//!
//! ```text
//! point 0      the operation's first instruction is the next one
//! point n      n steps later; asleep in a call, and returned from it, are two points
//! last point   the operation has returned (phase ENDED), or the thread has ended
//! ```

use std::fmt::Display;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use libc::{c_int, pid_t};

use super::control::{self, Control};
use super::plan::Call;
use super::trace::{self, Event};
use crate::world::load;

/// How long a victim may take to come from its start to the marker, and a step that does not sleep
/// to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a victim may run without a stop and without a sleep. Operations take far less than a
/// second.
const LONGEST_LIFE: Duration = Duration::from_secs(30);

/// Where a victim is after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stand {
    /// In the middle of the operation.
    Within,
    /// Asleep in a system call; not stopped, so it cannot be stepped until another process wakes
    /// it.
    Asleep,
    /// The operation has returned.
    Ended,
    /// The traced thread is gone by itself, as operations that end a thread intend.
    Gone,
}

/// Where to run to: the n-th arrival at an instruction, or the operation's end if that comes first.
#[derive(Clone, Copy, Debug)]
pub struct Goal {
    /// The instruction.
    pub address: u64,
    /// How many more arrivals there.
    pub arrivals: u64,
    /// The instruction before which the operation counts as ended; 0 if there is none.
    pub end: u64,
}

/// A victim, stopped at the operation's beginning or later.
pub struct Victim {
    pid: pid_t,
    tid: pid_t,
    pending_signal: c_int,
    address: u64,
    repeating: bool,
    entered_kernel: bool,
    running: bool,
    reaped: bool,
    process_reaped: bool,
}

impl Victim {
    /// Starts `program` with `arguments` and waits until it has reached its marker.
    ///
    /// # Errors
    /// When it cannot be started, ends before the marker, or does not reach it in ten seconds.
    pub fn start(
        program: &Path,
        arguments: &[&str],
        control: &Control,
        log: &Path,
    ) -> io::Result<Victim> {
        control.clear();
        let log = std::fs::OpenOptions::new().create(true).append(true).open(log)?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        // SAFETY: between fork and exec only two system calls are made, on numbers. The same
        // addresses in every life make the N-th instruction the same one each time.
        unsafe {
            command.pre_exec(|| {
                libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            })
        };
        let pid = command.spawn()?.id() as pid_t;
        let mut victim = Victim {
            pid,
            tid: pid,
            pending_signal: 0,
            address: 0,
            repeating: false,
            entered_kernel: false,
            running: false,
            reaped: false,
            process_reaped: false,
        };
        victim.await_marker(control)?;
        Ok(victim)
    }

    fn await_marker(&mut self, control: &Control) -> io::Result<()> {
        let deadline = Instant::now() + load::stretched(PATIENCE);
        loop {
            // The engine waits for the traced thread alone; the control page says which one that
            // is.
            let announced = control.tid() as pid_t;
            let event = if announced != 0 && announced != self.pid {
                self.tid = announced;
                trace::look(self.tid).unwrap_or(Event::Nothing)
            } else {
                Event::Nothing
            };
            match if event == Event::Nothing { trace::look(self.pid)? } else { event } {
                // Announced before the stop, perhaps after we looked.
                Event::Stopped(libc::SIGSTOP) if control.tid() as pid_t == self.tid => break,
                Event::Stopped(signal) => {
                    return Err(io::Error::other(format!("stopped by signal {signal}")));
                }
                Event::Exited(code) => {
                    (self.reaped, self.process_reaped) = (true, true);
                    return Err(io::Error::other(format!(
                        "ended before its operation, code {code}; see victim.log"
                    )));
                }
                Event::Killed(signal) => {
                    (self.reaped, self.process_reaped) = (true, true);
                    return Err(io::Error::other(format!(
                        "killed before its operation by signal {signal}"
                    )));
                }
                Event::Nothing if Instant::now() >= deadline => {
                    return Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        "did not reach its operation",
                    ));
                }
                Event::Nothing => std::thread::sleep(Duration::from_micros(50)),
            }
        }
        trace::tie_to_tracer(self.tid)?;
        self.address = trace::instruction_pointer(self.tid)?;
        while control.phase() == control::SETTING_UP {
            if self.step(control)? != Stand::Within {
                break;
            }
        }
        Ok(())
    }

    /// Moves on by one instruction. Asked again while [`Stand::Asleep`], it looks whether the
    /// sleeper has returned.
    ///
    /// # Errors
    /// When the victim is killed by a signal of its own (a crash), or tracing fails.
    pub fn step(&mut self, control: &Control) -> io::Result<Stand> {
        self.entered_kernel = trace::is_system_call(self.tid, self.address)?;
        trace::single_step(self.tid, std::mem::take(&mut self.pending_signal))?;
        let event = if self.entered_kernel {
            let event = self.wait_unless_asleep()?;
            if event == Event::Nothing {
                return Ok(Stand::Asleep);
            }
            event
        } else {
            trace::wait(self.tid)?
        };
        self.arrive(event, control)
    }

    /// Runs natively until the goal is reached, counting its arrivals down. On [`Stand::Asleep`]
    /// the victim goes on by itself as soon as another process wakes it; ask again then, with a
    /// deadline for that.
    ///
    /// # Errors
    /// `TimedOut` when it still sleeps at the deadline; otherwise as [`Victim::step`].
    pub fn run(
        &mut self,
        control: &Control,
        goal: &mut Goal,
        deadline: Option<Instant>,
    ) -> io::Result<Stand> {
        let mut by_steps = false;
        if !self.running {
            // Standing at the very instruction, a breakpoint there would not let it leave.
            if self.address == goal.address {
                match self.step(control)? {
                    Stand::Within if self.address == goal.address && !self.repeating => {
                        goal.arrivals -= 1
                    }
                    Stand::Within => {}
                    stand => return Ok(stand),
                }
            }
            by_steps = !trace::set_breakpoints(self.tid, [goal.address, goal.end]);
        }
        while goal.arrivals > 0 {
            let stand = if by_steps { self.step(control)? } else { self.leap(control, deadline)? };
            if stand != Stand::Within {
                return Ok(stand);
            }
            if self.address == goal.address && !self.repeating {
                goal.arrivals -= 1;
            }
        }
        let _ = trace::set_breakpoints(self.tid, [0; trace::BREAKPOINTS]);
        Ok(Stand::Within)
    }

    /// To the next breakpoint.
    fn leap(&mut self, control: &Control, deadline: Option<Instant>) -> io::Result<Stand> {
        if !std::mem::replace(&mut self.running, true) {
            trace::run_on(self.tid, std::mem::take(&mut self.pending_signal))?;
        }
        let event = match deadline {
            Some(deadline) => trace::wait_until(self.tid, deadline)?,
            None => self.wait_unless_asleep()?,
        };
        match (event, deadline) {
            (Event::Nothing, None) => return Ok(Stand::Asleep),
            (Event::Nothing, Some(_)) => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the victim still sleeps"));
            }
            _ => {}
        }
        self.running = false;
        // An arrival by a leap is never a round of a repeating instruction.
        self.address = 0;
        self.arrive(event, control)
    }

    /// # Errors
    /// `TimedOut` when it neither stops nor sleeps: an operation that does not end.
    fn wait_unless_asleep(&self) -> io::Result<Event> {
        let (pid, tid) = (self.pid, self.tid);
        let deadline = Instant::now() + load::stretched(LONGEST_LIFE);
        let (mut seen_asleep, mut is_late) = (0, false);
        let event = trace::wait_unless(tid, || {
            // Asleep in two looks in a row: a lock in the kernel may put it to sleep for a moment.
            seen_asleep =
                if trace::state_letter(pid, tid) == Some('S') { seen_asleep + 1 } else { 0 };
            is_late = Instant::now() > deadline;
            seen_asleep >= 2 || is_late
        })?;
        match event {
            Event::Nothing if seen_asleep < 2 => {
                Err(io::Error::new(io::ErrorKind::TimedOut, "the victim does not stop"))
            }
            event => Ok(event),
        }
    }

    /// After [`Stand::Asleep`]: waits until the call has returned.
    ///
    /// # Errors
    /// `TimedOut` when it still sleeps at the deadline: a hang of the victim itself; otherwise as
    /// [`Victim::step`].
    pub fn awaken(&mut self, control: &Control, deadline: Instant) -> io::Result<Stand> {
        match trace::wait_until(self.tid, deadline)? {
            Event::Nothing => {
                Err(io::Error::new(io::ErrorKind::TimedOut, "the victim still sleeps"))
            }
            event => {
                self.running = false;
                self.arrive(event, control)
            }
        }
    }

    /// After [`Stand::Asleep`]: stops the sleeper as SIGSTOP does, which takes it out of the queue
    /// in which it sleeps.
    ///
    /// # Errors
    /// `TimedOut` when it does not come to stand still; what tracing reports.
    pub fn suspend(&mut self, control: &Control) -> io::Result<Stand> {
        trace::signal_stop(self.pid, self.tid)?;
        match trace::wait_until(self.tid, Instant::now() + load::stretched(PATIENCE))? {
            // Not delivered when it goes on: the call that it slept in is begun anew.
            Event::Stopped(libc::SIGSTOP) => {
                self.address = trace::instruction_pointer(self.tid)?;
                Ok(Stand::Within)
            }
            Event::Nothing => {
                Err(io::Error::new(io::ErrorKind::TimedOut, "SIGSTOP does not stop the victim"))
            }
            event => self.arrive(event, control),
        }
    }

    fn arrive(&mut self, event: Event, control: &Control) -> io::Result<Stand> {
        match event {
            Event::Stopped(signal) => {
                if signal != libc::SIGTRAP {
                    if matches!(
                        signal,
                        libc::SIGSEGV | libc::SIGBUS | libc::SIGILL | libc::SIGABRT | libc::SIGFPE
                    ) {
                        return Err(io::Error::other(format!(
                            "the victim crashed with signal {signal}"
                        )));
                    }
                    // Ours, of a sleeper that was awake again before it arrived.
                    self.pending_signal = if signal == libc::SIGSTOP { 0 } else { signal };
                }
                let address = trace::instruction_pointer(self.tid)?;
                self.repeating = address == self.address && !self.entered_kernel;
                self.address = address;
                Ok(if control.phase() == control::ENDED { Stand::Ended } else { Stand::Within })
            }
            Event::Exited(code) => {
                self.reaped = true;
                self.process_reaped = self.tid == self.pid;
                if code == 0 {
                    Ok(Stand::Gone)
                } else {
                    Err(io::Error::other(format!("the victim ended, code {code}")))
                }
            }
            Event::Killed(signal) => {
                self.reaped = true;
                self.process_reaped = self.tid == self.pid;
                Err(io::Error::other(format!("the victim was killed by signal {signal}")))
            }
            Event::Nothing => Err(io::Error::other("no event")),
        }
    }

    /// The system call that comes next, if it is one.
    ///
    /// # Errors
    /// What tracing reports.
    pub fn next_call(&self) -> io::Result<Option<Call>> {
        if !trace::is_system_call(self.tid, self.address)? {
            return Ok(None);
        }
        let (number, arguments, caller) = trace::call(self.tid)?;
        Ok(Some(Call { number, arguments, caller }))
    }

    /// The system call that comes next fails so, without being carried out.
    ///
    /// # Errors
    /// What tracing reports.
    pub fn fail_call(&mut self, errno: c_int) -> io::Result<()> {
        trace::fail_call(self.tid, errno)?;
        self.address = trace::instruction_pointer(self.tid)?;
        Ok(())
    }

    /// Address of the next instruction.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Returns whether the last step was one round of an instruction that repeats itself, as
    /// `rep movsb` does.
    #[must_use]
    pub fn repeating(&self) -> bool {
        self.repeating
    }

    /// Returns whether the last step was a system call.
    #[must_use]
    pub fn entered_kernel(&self) -> bool {
        self.entered_kernel
    }

    /// The process's number.
    #[must_use]
    pub fn pid(&self) -> pid_t {
        self.pid
    }

    /// The traced thread's number.
    #[must_use]
    pub fn tid(&self) -> pid_t {
        self.tid
    }

    /// SIGKILLs the process at the point that it has reached and returns when the kernel has
    /// cleaned up after it: its robust lists are walked before its parent may reap it.
    ///
    /// # Errors
    /// What waiting for the end reports.
    pub fn kill(&mut self) -> io::Result<()> {
        if self.process_reaped {
            return Ok(());
        }
        trace::kill(self.pid);
        let deadline = Instant::now() + load::stretched(PATIENCE);
        while !self.reaped {
            match trace::wait_until(self.tid, deadline)? {
                Event::Stopped(_) => {}
                Event::Nothing => {
                    return Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        "SIGKILL did not end the victim",
                    ));
                }
                Event::Exited(_) | Event::Killed(_) => self.reaped = true,
            }
        }
        // A thread was stepped: its process is another thing to wait for.
        while !self.process_reaped && self.tid != self.pid {
            match trace::wait_until(self.pid, deadline)? {
                Event::Stopped(_) => {}
                Event::Nothing => {
                    return Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        "SIGKILL did not end the victim",
                    ));
                }
                Event::Exited(_) | Event::Killed(_) => self.process_reaped = true,
            }
        }
        self.process_reaped = true;
        Ok(())
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// The victim's own side: says when its operation begins and ends.
pub struct Stage {
    control: Control,
    cpu: Option<usize>,
}

impl Stage {
    /// Takes up the control page of this life; `cpu` is the processor on which engine and victim
    /// take turns.
    ///
    /// # Errors
    /// What mapping the page reports.
    pub fn enter(control: &Path, cpu: Option<usize>) -> io::Result<Stage> {
        Ok(Stage { control: Control::open(control)?, cpu })
    }

    /// The page shared with the engine.
    #[must_use]
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// The calling thread's next instruction is the operation's first. Stops until the engine takes
    /// over.
    pub fn begin(&self) {
        if let Some(cpu) = self.cpu {
            crate::world::affinity::stay_on(cpu);
        }
        self.control.set_end(Stage::end as *const () as u64);
        self.control.set_tid(rustix::thread::gettid().as_raw_nonzero().get() as u32);
        trace::offer_to_parent();
        self.control.set_phase(control::BEGUN);
    }

    /// Returns whether this process stood still in the operation, so that others may have done
    /// meanwhile what it found undone.
    #[must_use]
    pub fn is_overtaken(&self) -> bool {
        self.control.is_overtaken()
    }

    /// So many more things are acknowledged to the victim.
    pub fn acknowledge(&self, things: u64) {
        self.control.acknowledge(things);
    }

    /// Returns whether the operation has begun and not ended.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.control.phase() == control::BEGUN
    }

    /// The operation has returned an error.
    pub fn end_with_an_error(&self, error: &dyn Display) {
        self.control.set_failed(error);
        self.end();
    }

    /// The operation has returned this.
    pub fn end_of<T, E: Display>(&self, returned: &Result<T, E>) {
        if let Err(error) = returned {
            self.control.set_failed(error);
        }
        self.end();
    }

    /// The operation under test, from [`Stage::begin`] to [`Stage::end_of`]. What it makes and then
    /// gives up because of an error is dropped inside; what it returns, and what was set up before
    /// it, is there at its end. So the engine sees by what the process holds then whether a call
    /// that failed has left something behind.
    ///
    /// # Errors
    /// What the operation returns.
    pub fn perform<T, E: Display>(&self, operation: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.begin();
        let returned = operation();
        self.end_of(&returned);
        returned
    }

    /// The operation has returned. One place in the program for all operations: a victim that was
    /// stopped runs to it.
    #[inline(never)]
    pub fn end(&self) {
        self.control.set_phase(control::ENDED);
    }
}
