//! Room: the memory file system, and the limits of this process.

use std::path::Path;

use rustix::fs::{statfs, statvfs};
use rustix::process::{Resource, getrlimit};

use super::Finding;
use crate::output::bytes;

/// Files of a domain together take this much address space before anything is in them.
const RESERVED_FOR_ONE: u64 = 16 << 30;
const RAMFS: u64 = 0x8584_58f6;
const TMPFS: u64 = 0x0102_1994;
/// Below this there is little to share.
const LITTLE: u64 = 16 << 20;

/// Looks at the file system of the domain and at this process's limits.
pub fn look(domain: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(folder) = domain.ancestors().find(|folder| folder.is_dir()) {
        findings.extend(file_system(folder));
    }
    findings.push(address_space());
    findings.push(file_size());
    findings
}

fn file_system(folder: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    let shown = folder.display();
    match statfs(folder) {
        Ok(facts) if matches!(facts.f_type as u64, TMPFS | RAMFS) => {
            findings.push(Finding::good("file system", format!("{shown} is memory")));
        }
        Ok(_) => findings.push(Finding::note(
            "file system",
            format!("{shown} is not on a memory file system"),
            "everything works, but the kernel writes shared memory to the disk now and then; use /dev/shm",
        )),
        Err(errno) => {
            findings.push(Finding::fault("file system", format!("{shown}: {errno}"), "check the domain's path"));
        }
    }
    if let Ok(facts) = statvfs(folder) {
        let size = facts.f_blocks.saturating_mul(facts.f_frsize);
        let free = facts.f_bavail.saturating_mul(facts.f_frsize);
        let told = format!("{} free of {}", bytes(free), bytes(size));
        findings.push(if size > 0 && free < LITTLE {
            Finding::fault(
                "room",
                told,
                "new queues and growing ones get 'no room'; remove what is not needed ('outlive ls')",
            )
        } else if size > 0 && size <= 64 << 20 {
            Finding::note(
                "room",
                told,
                "containers get 64 MB by default; start them with --shm-size, or share /dev/shm",
            )
        } else {
            Finding::good("room", told)
        });
        if facts.f_files > 0 && facts.f_favail == 0 {
            findings.push(Finding::fault(
                "inodes",
                "none free",
                "no new name can be made; remove files there",
            ));
        }
    }
    findings
}

fn address_space() -> Finding {
    match getrlimit(Resource::As).current {
        None => Finding::good("RLIMIT_AS", "no limit"),
        Some(limit) if limit < 4 * RESERVED_FOR_ONE => Finding::note(
            "RLIMIT_AS",
            format!("{} of address space", bytes(limit)),
            "large queues reserve more than that: they get 'no address space'; raise it ('ulimit -v unlimited') or \
             make them with a smaller --max-bytes",
        ),
        Some(limit) => Finding::good("RLIMIT_AS", bytes(limit)),
    }
}

fn file_size() -> Finding {
    match getrlimit(Resource::Fsize).current {
        None => Finding::good("RLIMIT_FSIZE", "no limit"),
        Some(limit) if limit < 1 << 30 => Finding::note(
            "RLIMIT_FSIZE",
            format!("files may grow to {}", bytes(limit)),
            "so may queues: then they are full; raise it ('ulimit -f unlimited')",
        ),
        Some(limit) => Finding::good("RLIMIT_FSIZE", bytes(limit)),
    }
}
