//! What the kernel can do, and lets this process do.

use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use outlive::abilities;

use super::Finding;
use crate::process::{self, Process};

/// Asks the kernel. `domain` is where files would be made.
pub fn look(domain: &Path) -> Vec<Finding> {
    vec![
        release(),
        futex_waitv(),
        membarrier(),
        robust_lists(),
        pidfd(),
        unnamed_files(domain),
        pid_namespace(),
        huge_pages(),
    ]
}

fn release() -> Finding {
    let name = rustix::system::uname();
    Finding::good(
        "kernel",
        format!("{} on {}", name.release().to_string_lossy(), name.machine().to_string_lossy()),
    )
}

fn futex_waitv() -> Finding {
    if abilities::has_futex_waitv() {
        return Finding::good("futex_waitv", "works: a death wakes the waiters");
    }
    Finding::note(
        "futex_waitv",
        "not there, or denied (Linux before 5.16, or a container's filter)",
        "waits look around every 10 ms instead of being woken by a death; allow futex_waitv in the seccomp profile",
    )
}

fn membarrier() -> Finding {
    if abilities::has_membarrier() {
        return Finding::good("membarrier", "works: sending needs no fence");
    }
    Finding::note(
        "membarrier",
        "not there, or denied by a container's filter",
        "a sleeping receiver or sender looks around every 10 ms; allow membarrier in the seccomp profile",
    )
}

/// Checks huge pages, for pools that ask for them.
fn huge_pages() -> Finding {
    let folder = Path::new("/sys/kernel/mm/transparent_hugepage");
    let enabled = fs::read_to_string(folder.join("shmem_enabled")).unwrap_or_default();
    let advice = "pools that ask for huge pages do without";
    if enabled.is_empty() {
        return Finding::note("huge pages", "not in this kernel", advice);
    }
    if enabled.contains("[deny]") {
        return Finding::note(
            "huge pages",
            format!("{} says deny", folder.join("shmem_enabled").display()),
            format!(
                "{advice}; to allow them: echo never > {}",
                folder.join("shmem_enabled").display()
            ),
        );
    }
    if !abilities::can_make_huge_pages() {
        return Finding::note(
            "huge pages",
            "only where the file system is mounted with huge=advise (Linux before 6.1)",
            format!("{advice} elsewhere"),
        );
    }
    Finding::good("huge pages", "work, for pools that ask for them")
}

fn robust_lists() -> Finding {
    let (mut head, mut len) = (std::ptr::null_mut::<libc::c_void>(), 0usize);
    // SAFETY: two places of ours for the kernel to fill; 0 is this thread.
    let result =
        unsafe { libc::syscall(libc::SYS_get_robust_list, 0, &raw mut head, &raw mut len) };
    if result == 0 {
        return Finding::good("robust lists", "work: the kernel marks what the dead held");
    }
    Finding::fault(
        "robust lists",
        format!("get_robust_list failed: {}", std::io::Error::last_os_error()),
        "nothing here works without them; allow get_robust_list in the seccomp profile",
    )
}

fn pidfd() -> Finding {
    match Process::find(std::process::id(), None) {
        Ok(Some(_)) => Finding::good("pidfd", "works: 'wait' and 'lock' watch any process"),
        _ => Finding::fault(
            "pidfd",
            "pidfd_open fails (Linux before 5.3, or a container's filter)",
            "'outlive wait PID' and 'outlive lock' need it; allow pidfd_open in the seccomp profile",
        ),
    }
}

/// Checks for files without a name: creation needs them to leave no half-made thing behind.
fn unnamed_files(domain: &Path) -> Finding {
    let Some(folder) = domain.ancestors().find(|folder| folder.is_dir()) else {
        return Finding::fault(
            "O_TMPFILE",
            "there is no folder to try it in",
            "check the domain's path",
        );
    };
    match File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_TMPFILE)
        .mode(0o600)
        .open(folder)
    {
        Ok(_) => Finding::good("O_TMPFILE", format!("works in {}", folder.display())),
        Err(error) => Finding::fault(
            "O_TMPFILE",
            format!("fails in {}: {error}", folder.display()),
            "nothing can be made there; use a domain on a tmpfs (OUTLIVE_DOMAIN)",
        ),
    }
}

fn pid_namespace() -> Finding {
    let mine = process::pid_namespace();
    if mine == 0 {
        return Finding::fault(
            "/proc",
            "not mounted",
            "tokens of other pid namespaces cannot be told apart, nor lost marks be found; mount /proc",
        );
    }
    // The kernel's own number for the first namespace, PROC_PID_INIT_INO.
    const FIRST: u64 = 0xEFFF_FFFC;
    let container = mine != FIRST || fs::metadata("/.dockerenv").is_ok();
    if container {
        return Finding::note(
            "pid namespace",
            format!("{mine}, not the machine's first: this is a container"),
            "to share a domain with processes outside, share its folder (as with --ipc=host); pids shown then are theirs",
        );
    }
    Finding::good("pid namespace", "the machine's first")
}
