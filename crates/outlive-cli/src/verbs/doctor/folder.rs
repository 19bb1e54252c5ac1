//! The domain: which users may enter it, and what dead processes left in it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use outlive::{Detail, Domain, Entry, Error};
use rustix::fs::{Mode, OFlags};

use super::{Finding, locks, memory};
use crate::domain::DomainArgs;
use crate::output::counted;
#[cfg(feature = "demo")]
use crate::verbs::demo;
use crate::verbs::gc;
use crate::verbs::topic::shown;

/// How a folder is opened that must not be a link.
const PLAIN_FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Looks at the domain, and mends it if asked.
pub fn look(args: &DomainArgs, repair: bool) -> Vec<Finding> {
    let mut findings = vec![base_folder()];
    findings.extend(groups_folder(args, repair));
    match open(args, repair) {
        Ok(None) => findings.push(Finding::good(
            "domain",
            format!("{} is made at first use", args.path().display()),
        )),
        Ok(Some((domain, finding))) => {
            findings.push(finding);
            findings.extend(memory::budget(&domain));
            findings.extend(things(&domain, repair));
            findings.push(locks::deadlocks(&domain));
            findings.push(locks::orders(&domain, repair));
        }
        Err(finding) => findings.push(finding),
    }
    #[cfg(feature = "demo")]
    findings.push(demos(repair));
    findings
}

/// Checks the folder in which domains lie that have a name: a folder for all users, in which none
/// may remove another's files.
fn base_folder() -> Finding {
    match fs::metadata("/dev/shm") {
        Err(error) => Finding::fault(
            "/dev/shm",
            error.to_string(),
            "mount a tmpfs there, or set OUTLIVE_DOMAIN to a path",
        ),
        Ok(facts) if facts.mode() & 0o1002 == 0o0002 => Finding::fault(
            "/dev/shm",
            format!("mode {:04o}: every user may remove the others' files", facts.mode() & 0o7777),
            "as root: chmod 1777 /dev/shm",
        ),
        Ok(facts) => Finding::good("/dev/shm", format!("mode {:04o}", facts.mode() & 0o7777)),
    }
}

/// Checks the folder in which a group's domains lie that have a name: it is sticky, so that no
/// member takes another one's domain away. `None`: the domain is no group's, or has no such folder.
fn groups_folder(args: &DomainArgs, repair: bool) -> Option<Finding> {
    args.group_id().ok().flatten().filter(|_| !args.is_path())?;
    let path = args.path();
    let folder = rustix::fs::open(path.parent()?, PLAIN_FOLDER, Mode::empty()).ok()?;
    let (facts, path) = (rustix::fs::fstat(&folder).ok()?, path.parent()?.display());
    let mode = facts.st_mode & 0o7777;
    if mode & 0o1000 != 0 {
        return Some(Finding::good("group's folder", format!("{path}, mode {mode:04o}")));
    }
    let right = Mode::from_raw_mode(mode | 0o1000);
    if repair && rustix::fs::fchmod(&folder, right).is_ok() {
        let text = format!("{path}: mode {mode:04o} is {:04o} now", right.as_raw_mode());
        return Some(Finding::mended("group's folder", text));
    }
    Some(Finding::fault(
        "group's folder",
        format!("{path} has mode {mode:04o}: each member may rename or remove the others' domains"),
        format!("as user {} or root: outlive doctor --repair, or chmod +t {path}", facts.st_uid),
    ))
}

/// Returns the domain, if there is one, opened; its permissions mended if asked.
fn open(args: &DomainArgs, repair: bool) -> Result<Option<(Domain, Finding)>, Finding> {
    let good = |domain: Domain| {
        let mode = fs::metadata(domain.path()).map_or(0, |facts| facts.mode() & 0o7777);
        let finding =
            Finding::good("domain", format!("{}, mode {mode:04o}, yours", domain.path().display()));
        Some((domain, finding))
    };
    match args.open_existing() {
        Ok(domain) => Ok(good(domain)),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(Error::Untrusted { path, mode, owner, user })
            if repair && owner == user && is_domain(&path) =>
        {
            let right = mend_mode(args, &path)?;
            let mended = args
                .open_existing()
                .map_err(|error| Finding::fault("domain", error.to_string(), "see above"))?;
            let finding = Finding::mended(
                "domain",
                format!("{}: mode {mode:04o} is {right:04o} now", path.display()),
            );
            Ok(Some((mended, finding)))
        }
        Err(ref error @ Error::Untrusted { owner, user, ref path, .. })
            if owner == user && is_domain(path) =>
        {
            let advice = "'outlive doctor --repair' sets its mode";
            Err(Finding::fault("domain", error.to_string(), advice))
        }
        Err(error @ Error::NotADomain { .. }) => {
            let advice = "choose another folder by --domain or OUTLIVE_DOMAIN";
            Err(Finding::fault("domain", error.to_string(), advice))
        }
        Err(error) => {
            Err(Finding::fault("domain", error.to_string(), "nothing in it can be used as it is"))
        }
    }
}

/// Gives a domain's folder the mode that it should have, and returns that. A folder that has another
/// group than the domain is to have stays as it is: a mode for a group would let that one in.
fn mend_mode(args: &DomainArgs, path: &Path) -> Result<u32, Finding> {
    let by_hand = "mend its permissions by hand";
    let failed = |errno: rustix::io::Errno| Finding::fault("domain", errno.to_string(), by_hand);
    // One folder is looked at and mended, whatever becomes of its name.
    let folder = rustix::fs::open(path, PLAIN_FOLDER, Mode::empty()).map_err(failed)?;
    let own = rustix::fs::fstat(&folder).map_err(failed)?.st_gid;
    let right = match args.group_id() {
        Ok(Some(group)) if group != own => {
            let text = format!("{} has group {own}, not {group}", path.display());
            let advice = "name the domain's own group, or none; or give the folder and its files to the group";
            return Err(Finding::fault("domain", text, advice));
        }
        Ok(Some(_)) => 0o770,
        _ => 0o700,
    };
    rustix::fs::fchmod(&folder, Mode::from_raw_mode(right)).map_err(failed)?;
    Ok(right)
}

/// Returns whether there is a domain in the folder: permissions of any other are its owner's
/// business.
fn is_domain(folder: &Path) -> bool {
    folder.join(".tokens").symlink_metadata().is_ok()
}

fn things(domain: &Domain, repair: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    let entries = match domain.entries() {
        Ok(entries) => entries,
        Err(error) => {
            return vec![Finding::fault(
                "things",
                error.to_string(),
                "check the folder's permissions",
            )];
        }
    };
    let broken = entries.iter().filter_map(|entry| entry.kind.as_ref().err());
    findings.extend(
        broken.map(|error| Finding::fault("things", error.to_string(), "it is of no use as it is")),
    );
    let tokens = domain.tokens();
    let alive = tokens.iter().filter(|token| token.alive).count() as u64;
    findings.push(Finding::good(
        "things",
        format!("{}, {}", counted(entries.len() as u64, "name"), counted(alive, "living token")),
    ));
    if tokens.iter().any(|token| token.alive && !token.same_namespace) {
        findings.push(Finding::note(
            "namespaces",
            "some users live in another pid namespace",
            "everything works; their pids mean nothing here",
        ));
    }
    findings.push(dead(domain, repair));
    findings.extend(kept(&entries));
    let stats = domain.stats();
    if stats.rescues > 0 {
        findings.push(Finding::note(
            "lost wake-ups",
            format!("{} had to be rescued by the coarse recheck", counted(stats.rescues, "sleeper")),
            "the kernel's marks were lost (the OOM reaper does that), or a process was stopped; nothing was harmed",
        ));
    }
    findings
}

/// Names of dead subscribers for which publishers wait.
fn kept(entries: &[Entry]) -> Option<Finding> {
    let places = entries.iter().filter_map(|entry| match &entry.detail {
        Detail::Topic(usage) => Some((entry, usage)),
        _ => None,
    });
    let told: Vec<String> = places
        .flat_map(|(entry, usage)| {
            let name = entry.name.escape_debug();
            shown::stopping(usage)
                .map(move |one| format!("topic '{name}' waits for '{}'", one.name.escape_debug()))
        })
        .collect();
    (!told.is_empty()).then(|| {
        Finding::note(
            "publishers",
            format!("{}, which died", told.join("; ")),
            "start it again, or give its place up by 'outlive topic forget TOPIC NAME'",
        )
    })
}

fn dead(domain: &Domain, repair: bool) -> Finding {
    match domain.sweep(!repair) {
        Ok(report) if report.is_clean() => Finding::good("leftovers", "none"),
        Ok(report) if !report.failed.is_empty() => {
            let (name, why) = &report.failed[0];
            Finding::fault(
                "leftovers",
                format!("'{name}' cannot be swept: {why}"),
                "see 'outlive gc'",
            )
        }
        Ok(report) if repair => Finding::mended("leftovers", gc::told(&report, false)),
        Ok(report) => Finding::note(
            "leftovers",
            gc::told(&report, true),
            "they delay no process; 'outlive gc' gives them back",
        ),
        Err(error) => Finding::fault("leftovers", error.to_string(), "see 'outlive gc'"),
    }
}

/// Folders of demos that were killed.
#[cfg(feature = "demo")]
fn demos(repair: bool) -> Finding {
    let left = demo::leftovers();
    if left.is_empty() {
        return Finding::good("demos", "none left behind");
    }
    let told = format!("{} of killed demos", counted(left.len() as u64, "folder"));
    if repair {
        let failed = left.iter().find_map(|folder| fs::remove_dir_all(folder).err());
        return match failed {
            None => Finding::mended("demos", format!("{told} removed")),
            Some(error) => {
                Finding::fault("demos", format!("{told}: {error}"), "remove them by hand")
            }
        };
    }
    Finding::note("demos", told, "the next demo removes them, or 'outlive doctor --repair'")
}
