//! Commands under a hold, for the tests of `lock` and `sem`.

use std::fs;

use crate::stage::{Running, Stage, until};

/// Returns a command that tells whether a process is there. A zombie is not: it runs nothing any
/// more.
pub fn check(pid: u32) -> String {
    format!(
        "state=$(sed -n 's/^State:[[:space:]]*\\(.\\).*/\\1/p' /proc/{pid}/status 2>/dev/null); \
         case \"$state\" in ''|Z|X) echo alone ;; *) echo beside ;; esac"
    )
}

/// Returns the pid that a command writes into that file when it runs.
pub fn written_pid(stage: &Stage, pid_file: &str) -> u32 {
    let mut pid = None;
    until("the command runs", || {
        let text = fs::read_to_string(stage.path(pid_file)).unwrap_or_default();
        pid = text.strip_suffix('\n').and_then(|text| text.parse().ok());
        pid.is_some()
    });
    pid.expect("as seen")
}

/// Sees it asleep on a futex.
pub fn see_waiting(waiting: &Running) {
    until("it waits", || {
        let wait = fs::read_to_string(format!("/proc/{}/wchan", waiting.pid())).unwrap_or_default();
        wait.contains("futex")
    });
}

/// Returns a command that the kernel does not kill with its parent: it writes its pid, and runs
/// until there is a file `go`.
pub fn survivor(go: &std::path::Path, pid_file: &str) -> String {
    // Its streams are its own: those of the holder are read to their end. It ends by itself, should
    // the test fail.
    let script = format!(
        "echo $$ > {pid_file}; for i in $(seq 6000); do [ -e {} ] && exit; sleep 0.01; done > /dev/null 2>&1",
        go.display()
    );
    format!("exec setpriv --pdeathsig clear sh -c '{script}' > /dev/null 2>&1")
}

pub fn lacks_setpriv() -> bool {
    let lacks = std::process::Command::new("setpriv").arg("--version").output().is_err();
    if lacks {
        crate::stage::skip(
            "no setpriv here, which starts what the kernel does not kill with its parent",
        );
    }
    lacks
}
