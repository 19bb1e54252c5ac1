//! `--watch`: the live view on the demo's own domain, in a process of its own.

use std::io::{IsTerminal, stdin, stdout};
use std::path::Path;
use std::process::{Child, Command};

use rustix::process::{Pid, Signal, kill_process};

use super::DemoArgs;
use crate::exit::{Code, Failure};

/// Refuses a view where it cannot be shown, before anything has begun.
pub fn check(args: &DemoArgs) -> Result<(), Failure> {
    if args.watch && !(stdin().is_terminal() && stdout().is_terminal()) {
        return Err(Failure::new(Code::Usage, "--watch needs a terminal"));
    }
    Ok(())
}

/// The view, while it is open. It ends with this process by itself, and gives the terminal back
/// then.
pub struct View(Child);

impl View {
    /// Opens it.
    pub fn open(domain: &Path) -> Result<View, Failure> {
        let mut command = Command::new("/proc/self/exe");
        command.arg("top").arg("--interval").arg("0.5").arg("--domain").arg(domain);
        command.arg("--with").arg(std::process::id().to_string());
        command.spawn().map(View).map_err(|error| Failure::system("open the live view", &error))
    }

    /// Returns whether the person has had enough of it.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for View {
    fn drop(&mut self) {
        if !self.has_ended() {
            // Not yet waited for, so the pid is its own.
            let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
            let _ = self.0.wait();
        }
    }
}
