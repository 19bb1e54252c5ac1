//! Programs that a test has started, and kills.

use std::process::Child;
use std::time::Duration;

/// Killed by its number when the test is over, too.
pub struct Member(pub Child);

impl Member {
    pub fn kill(&mut self) {
        self.0.kill().expect("ours");
        self.0.wait().expect("ours");
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: a plain system call, to a child that has not been waited for.
        assert_eq!(unsafe { libc::kill(self.0.id() as i32, signal) }, 0);
    }

    /// Stopped, all of it: until `SIGCONT`.
    pub fn stop(&self) {
        self.signal(libc::SIGSTOP);
        super::wait_for("its stopping", || {
            let status =
                std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap_or_default();
            status.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
        });
    }

    /// It ends by itself, and well.
    pub fn expect_success(&mut self) {
        super::wait_for("its end", || self.0.try_wait().expect("ours").is_some());
        assert!(self.0.wait().expect("ours").success());
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Not the same in each round, and the same each time that this is run.
pub fn moment(round: u64) -> Duration {
    Duration::from_micros(500 + round.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 9_000)
}

/// All tests whose name contains `part`, one after the other; what becomes of each.
pub fn run_all(part: &str, tests: &[(&str, fn())]) -> ! {
    let chosen: Vec<_> = tests.iter().filter(|(name, _)| name.contains(part)).collect();
    let mut passed = 0;
    for (name, test) in &chosen {
        let is_ok = std::panic::catch_unwind(test).is_ok();
        println!("test {name} ... {}", if is_ok { "ok" } else { "FAILED" });
        passed += usize::from(is_ok);
    }
    println!("{passed} passed, {} failed", chosen.len() - passed);
    std::process::exit(i32::from(passed < chosen.len()));
}
