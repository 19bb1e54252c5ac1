//! Errors of opening, making or using something in a domain.

use std::fmt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::Kind;

/// Says why a domain or something in it could not be opened, made or used.
///
/// Each message says what happened and what to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The name cannot be a file's, or is kept for internal use.
    InvalidName {
        /// The name as given.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Nothing of that name exists.
    NotFound {
        /// What was looked for.
        path: PathBuf,
    },
    /// The name is in use, and the caller wanted to make something new.
    AlreadyExists {
        /// What is there.
        path: PathBuf,
    },
    /// The folder belongs to another user, or its permissions let in other users than the domain is
    /// meant for: they could read and change everything in it. Or the permissions let too few in:
    /// the caller asked for a group's domain, and only the owner may enter.
    Untrusted {
        /// The folder.
        path: PathBuf,
        /// Its owner's user id.
        owner: u32,
        /// The caller's effective user id.
        user: u32,
        /// Its permission bits.
        mode: u32,
    },
    /// The path exists but is no folder, or is a symbolic link, which Outlive does not follow.
    NotAFolder {
        /// The path.
        path: PathBuf,
    },
    /// The folder holds other things and no domain: Outlive leaves it as it is.
    NotADomain {
        /// The folder.
        path: PathBuf,
    },
    /// The file was not made by Outlive, or was damaged before it could be opened.
    NotASegment {
        /// The file.
        path: PathBuf,
        /// What shows it.
        why: &'static str,
    },
    /// The file was made by a version of Outlive (or on a machine) with another memory layout.
    OtherVersion {
        /// The file.
        path: PathBuf,
        /// Layout version and architecture mark found.
        found: (u32, u32),
        /// Layout version and architecture mark of this program.
        ours: (u32, u32),
    },
    /// The name is in use for something of another kind.
    OtherKind {
        /// The file.
        path: PathBuf,
        /// The kind found.
        found: Kind,
        /// The kind asked for.
        wanted: Kind,
    },
    /// The name is in use for values of another type.
    OtherType {
        /// The file.
        path: PathBuf,
        /// Type name, size and alignment found.
        found: String,
        /// Type name, size and alignment asked for.
        wanted: String,
    },
    /// The file system, its quota or a limit has no room. What existed before stays usable.
    NoSpace {
        /// The file that should have grown.
        path: PathBuf,
        /// By how many bytes.
        wanted: u64,
    },
    /// The process's address space has no room: `RLIMIT_AS` forbids the mapping, or other processes
    /// have grown the file beyond what this one could map.
    NoAddressSpace {
        /// The file that should have been mapped.
        path: PathBuf,
        /// How many bytes of it.
        wanted: u64,
    },
    /// The caller lacks a permission.
    Permission {
        /// The file or folder.
        path: PathBuf,
        /// What the caller tried.
        doing: &'static str,
    },
    /// Shared bytes hold an impossible value: a stray write or a hostile process changed them.
    Damaged {
        /// The file.
        path: PathBuf,
        /// Which part.
        what: &'static str,
    },
    /// A living process has the role: a queue has one receiver, a service one server, a state one
    /// writer.
    Taken {
        /// The role: "receiver", "server" or "writer".
        role: &'static str,
        /// The queue, service or state.
        path: PathBuf,
        /// The process that has the role; `None` if the registry did not know it any more.
        pid: Option<u32>,
    },
    /// The process that had the role died, and one of its threads had not exited after two seconds.
    Ending {
        /// The role, as in [`Error::Taken`].
        role: &'static str,
        /// The queue, service or state.
        path: PathBuf,
        /// The process of that thread; `None` as in [`Error::Taken`].
        pid: Option<u32>,
    },
    /// There are as many as there can be: "publishers" or "subscribers" of a topic (a dead
    /// subscriber whose samples are still held counts, too), "clients" of a service, "notifiers" or
    /// "listeners" of a name, "processes with tasks" of a queue, or "domains" that one process opened
    /// in its life (it keeps its knowledge of each, because threads may still hold tokens of it).
    TooMany {
        /// Of what.
        what: &'static str,
        /// The topic, service or queue, or the domain that could not be opened.
        path: PathBuf,
        /// How many there can be.
        max: u32,
    },
    /// All 65,536 tokens of the domain belong to living threads, or are in quarantine until the
    /// next sweep.
    NoToken {
        /// The domain.
        path: PathBuf,
    },
    /// The lock has priority inheritance, and was first used in another pid namespace, where its
    /// word's thread numbers mean other threads, or by another C library, which lays out the lock's
    /// words otherwise.
    OtherEnvironment {
        /// The lock.
        path: PathBuf,
        /// What differs: "pid namespace" or "C library".
        what: &'static str,
    },
    /// The thing exists, and was made with other options than those asked for.
    OtherOptions {
        /// The file.
        path: Box<Path>,
        /// Which option; "options", if several differ: then each value has its option's name.
        what: &'static str,
        /// Its value there.
        found: Box<str>,
        /// The value asked for.
        wanted: Box<str>,
    },
    /// No such thing can have that option.
    InvalidOption {
        /// Which option.
        what: &'static str,
        /// The value asked for.
        wanted: Box<str>,
        /// Which values are possible.
        why: &'static str,
    },
    /// A configuration file is not valid.
    InvalidConfig {
        /// The file.
        path: Box<Path>,
        /// The line of the fault, from 1; 0 when it concerns the file as a whole.
        line: u32,
        /// The character in that line, from 1.
        column: u32,
        /// What is wrong, and what may stand there.
        why: Box<str>,
    },
    /// The calling thread may not run at that real-time priority.
    NoRealTime {
        /// The priority.
        priority: u32,
    },
    /// The set waits in one domain, and the source that was added belongs to another.
    OtherDomain {
        /// The source's domain.
        path: PathBuf,
        /// The set's.
        wanted: PathBuf,
    },
    /// The calling thread lives, but its token (or its process's) was declared dead: a stray write
    /// hit the registry, or the system told other processes that this process was gone. They may
    /// have taken over everything that it held.
    DeclaredDead {
        /// The domain.
        path: PathBuf,
    },
    /// The C library does not know the calling thread: a raw `clone` started it, or it runs between
    /// `vfork` and `exec`. No other process would learn of its end.
    ForeignThread {
        /// The domain.
        path: PathBuf,
    },
    /// The system refused for a reason of its own.
    System {
        /// What the caller tried.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error number.
        errno: i32,
    },
}

impl Error {
    /// Gives an errno the meaning it has when a file of a domain is opened or made.
    pub(crate) fn from_errno(doing: &'static str, path: &Path, errno: Errno) -> Error {
        let path = path.to_path_buf();
        match errno {
            Errno::NOENT => Error::NotFound { path },
            Errno::ACCESS | Errno::PERM | Errno::ROFS => Error::Permission { path, doing },
            Errno::NOTDIR | Errno::LOOP => Error::NotAFolder { path },
            errno => Error::System { doing, path, errno: errno.raw_os_error() },
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::InvalidName { name, why } => {
                let short: String = name.chars().take(40).flat_map(char::escape_debug).collect();
                let more = if name.chars().count() > 40 { "…" } else { "" };
                write!(f, "'{short}{more}' cannot be a name: {why}; ")?;
                if let Some(other) = name_without_slashes(name) {
                    write!(f, "'{}' can, ", other.escape_debug())?;
                }
                f.write_str("use 1 to 200 bytes without '/' and NUL, not starting with '.'")
            }
            Error::AlreadyExists { path } if is_node(path) => write!(
                f,
                "this process has a name in {} already; give that one up first: a process has one name",
                path.parent().unwrap_or(path).display()
            ),
            Error::AlreadyExists { path } => {
                write!(f, "{} exists already; open it, or choose another name", path.display())
            }
            Error::NotFound { path } => {
                write!(
                    f,
                    "{} does not exist; create it first, or check the name and OUTLIVE_DOMAIN",
                    path.display()
                )
            }
            Error::Untrusted { path, owner, user, .. } if owner != user => write!(
                f,
                "{} belongs to user {owner}, not to you (user {user}), who could change all that is in it; \
                 choose another folder by OUTLIVE_DOMAIN, or ask user {owner} for this one",
                path.display()
            ),
            Error::Untrusted { path, mode, .. } if mode & 0o077 == 0 => write!(
                f,
                "{} is its owner's alone (mode {mode:04o}), and a group's domain was asked for; give it to the group \
                 ('chgrp', 'chmod 0770'), or choose another folder",
                path.display()
            ),
            Error::Untrusted { path, mode, .. } if mode & 0o1000 != 0 => write!(
                f,
                "{} is a folder for all users' files (mode {mode:04o}); choose another one, which may lie in it",
                path.display()
            ),
            Error::Untrusted { path, mode, .. } => write!(
                f,
                "{} may be entered by others (mode {mode:04o}); choose another folder, or, if this one was made for a domain \
                 alone, run 'chmod 0700' on it, or open it as a group's domain",
                path.display()
            ),
            Error::NotAFolder { path } => {
                write!(
                    f,
                    "{} is not a folder (symbolic links are not followed); choose another one",
                    path.display()
                )
            }
            Error::NotADomain { path } => write!(
                f,
                "{} holds other things and is not a domain; name another folder, an empty one or one that does not exist",
                path.display()
            ),
            Error::NotASegment { path, why } => write!(
                f,
                "{} was not made by Outlive ({why}); move it out of the domain, or choose another name",
                path.display()
            ),
            Error::OtherVersion { path, found, ours } => write!(
                f,
                "{} has memory layout {} (architecture {:#x}), this program needs {} ({:#x}); \
                 remove it when no process uses it, or use programs of one version",
                path.display(),
                found.0,
                found.1,
                ours.0,
                ours.1
            ),
            Error::OtherKind { path, found, wanted } => {
                write!(f, "{} is a {found}, not a {wanted}; choose another name", path.display())
            }
            Error::OtherType { path, found, wanted } if wanted == NO_TYPE => write!(
                f,
                "{} holds {found}, and this program gave no type; give that one, or open it as bytes ('open' in C++ and \
                 Python, OUTLIVE_OPEN in C, 'open_as_bytes' in Rust)",
                path.display()
            ),
            Error::OtherType { path, found, wanted } => write!(
                f,
                "{} holds {found}, this program wants {wanted}; choose another name, or remove it when no process uses it",
                path.display()
            ),
            Error::NoSpace { path, wanted } => write!(
                f,
                "no room for {wanted} more bytes in {}; free some ('df', 'outlive gc'), or raise the limit; \
                 what was there stays usable",
                path.display()
            ),
            Error::NoAddressSpace { path, wanted } => write!(
                f,
                "no address space for {wanted} bytes of {}; raise RLIMIT_AS ('ulimit -v') or lower max_bytes",
                path.display()
            ),
            Error::Permission { path, doing: "share" } => write!(
                f,
                "no permission to give {} to that group; only its members may, and root: 'id' shows your groups, and a \
                 new one counts from the next login",
                path.display()
            ),
            Error::Permission { path, doing: doing @ "publish to" } => write!(
                f,
                "no permission to {doing} {}; its mode lets this user subscribe alone: 'outlive topic info' shows the \
                 mode, and who made a topic chooses it",
                path.display()
            ),
            Error::Permission { path, doing } => write!(
                f,
                "no permission to {doing} {}; it belongs to another user, or the file system is read-only",
                path.display()
            ),
            Error::Damaged { path, what } => write!(
                f,
                "{} is damaged ({what}); a process wrote over it: remove it and look for the stray write",
                path.display()
            ),
            Error::Taken { role, path, pid } => {
                write!(f, "{} has a living {role} already ", path.display())?;
                match pid {
                    Some(pid) => write!(f, "(process {pid})")?,
                    None => f.write_str("(a process that this one cannot see)")?,
                }
                f.write_str(", and can have one; wait for it to end, or ask that one")
            }
            Error::Ending { role, path, pid } => {
                write!(f, "the {role} of {} died, but a thread of its process ", path.display())?;
                if let Some(pid) = pid {
                    write!(f, "{pid} ")?;
                }
                write!(
                    f,
                    "is still ending (it may be writing a core dump, or wait for a device); try again, and if nothing \
                     changes, remove {}",
                    path.display()
                )
            }
            Error::TooMany { what: "domains", path, max } => write!(
                f,
                "this process opened too many domains, {max} before {}; share fewer of them",
                path.display()
            ),
            Error::TooMany { what, path, max } => {
                let noun = if *what == "clients" { "service" } else { "topic" };
                write!(
                    f,
                    "{} has {max} {what} already; end one, or use several {noun}s ('outlive {noun} info' says who they are)",
                    path.display()
                )
            }
            Error::NoToken { path } => write!(
                f,
                "all 65536 tokens of domain {} are in use; end some threads, run 'outlive gc', or use another domain",
                path.display()
            ),
            Error::OtherEnvironment { path, what } => write!(
                f,
                "{} is used from another {what}, and a lock with priority inheritance works within one; use a plain \
                 mutex, which works across, or remove it when no process there uses it",
                path.display()
            ),
            Error::OtherOptions { path, what, found, wanted } => write!(
                f,
                "the {what} of {} {} {found}, this program wants {wanted}; agree on one, or remove it when no process uses it",
                path.display(),
                if *what == "options" { "are" } else { "is" }
            ),
            Error::InvalidOption { what, wanted, why } => {
                write!(f, "{what} cannot be {wanted}; choose {why}")
            }
            Error::InvalidConfig { path, line: 0, why, .. } => {
                write!(f, "{} is no configuration: {why}", path.display())
            }
            Error::InvalidConfig { path, line, column, why } => {
                write!(f, "{}:{line}:{column}: {why}", path.display())
            }
            Error::NoRealTime { priority } => write!(
                f,
                "no right to run at real-time priority {priority}; give the program CAP_SYS_NICE, or raise RLIMIT_RTPRIO \
                 to it ('ulimit -r', LimitRTPRIO=), and see that its control group has a real-time budget"
            ),
            Error::OtherDomain { path, wanted } => write!(
                f,
                "it is of domain {}, the set waits in {}; make a set for each domain",
                path.display(),
                wanted.display()
            ),
            Error::DeclaredDead { path } => write!(
                f,
                "this thread lives, but its token in domain {} was declared dead, and others may have taken over what it held; \
                 end this process, and look for a stray write to .tokens",
                path.display()
            ),
            Error::ForeignThread { path } => write!(
                f,
                "the C library does not know this thread (a raw clone, or between vfork and exec), so no process would learn of its \
                 end in domain {}; use a thread that pthread_create has started",
                path.display()
            ),
            Error::System { doing, path, errno } => {
                let text = std::io::Error::from_raw_os_error(*errno);
                write!(f, "could not {doing} {}: {text}", path.display())
            }
        }
    }
}

impl std::error::Error for Error {}

/// What the header of a file says of values that have no type; a program that gives none wants it.
pub(crate) const NO_TYPE: &str = "bytes of no type";

/// Returns whether a file is that of a process's name (node/mod.rs).
fn is_node(path: &std::path::Path) -> bool {
    let name = path.file_name().and_then(std::ffi::OsStr::to_str);
    name.is_some_and(|name| name.starts_with(".node-"))
}

/// Returns the name that a name with slashes, as those of ROS, may have here.
fn name_without_slashes(name: &str) -> Option<String> {
    let parts: Vec<&str> = name.split('/').filter(|part| !part.is_empty()).collect();
    let other = parts.join(".");
    let is_name = name.contains('/')
        && !other.starts_with('.')
        && !other.contains('\0')
        && (1..=200).contains(&other.len());
    is_name.then_some(other)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_holder_without_a_pid_is_not_called_process_0() {
        let said = |error: Error| error.to_string();
        let path = || PathBuf::from("/queue");
        let taken = |pid| said(Error::Taken { role: "receiver", path: path(), pid });
        assert!(taken(Some(7)).contains("a living receiver already (process 7), and can have one"));
        assert!(taken(None).contains("already (a process that this one cannot see), and can"));
        let ending = |pid| said(Error::Ending { role: "writer", path: path(), pid });
        assert!(ending(Some(7)).contains("a thread of its process 7 is still ending"));
        assert!(ending(None).contains("a thread of its process is still ending"));
    }
}
