//! `outlive domain create`: a domain, before any program uses it.
//!
//! Programs make their domain at first use, so this is for a domain that must be there before: for
//! a group, whose members all start with it, or with a budget.
//!
//! Of budgets there are two. One is a file system of the domain's own (a tmpfs), which only root can
//! mount on its folder: the kernel refuses what does not fit. The other is a number in the domain, which
//! the domain's processes keep to (`Domain::set_max_bytes`).
//!
//! | died | then |
//! | --- | --- |
//! | behind the making of the folder | it is empty, and the next run mounts on it |
//! | behind the mount | the next run finds a file system of its own, and makes the domain in it |

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use clap::Args;
use outlive::config::Config;
use outlive::{Domain, Error};
use rustix::fs::{self, AtFlags, Gid, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount, mount_remount};
use rustix::process::geteuid;
use serde::Serialize;

use crate::cli::Common;
use crate::exit::{Code, Failure};
use crate::output::{self, bytes, talk};
use crate::size;

/// Make a domain before programs use it: for a group, or with a budget
///
/// Programs make their domain when they first use it, so a domain of one user needs no create.
/// create prints the domain's folder. A domain that is there already is no error.
///
/// With --group, all members of the group may use the domain. They name it with the same --group,
/// or by OUTLIVE_GROUP.
///
/// With --budget, all that is in the domain takes at most that much memory: the domain gets a file
/// system of its own, which only root can mount. On a domain that has one, create changes the
/// budget. To take such a domain away when no process uses it: umount FOLDER, then rmdir FOLDER.
///
/// With --max-bytes, the domain's own processes keep to that much memory, which takes no rights of
/// root's: before a file grows, its process adds up what the domain's files take.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive domain create --group robots --domain arm\n  \
    sudo outlive domain create --group robots --domain arm --budget 2G\n  \
    outlive domain create --max-bytes 48M")]
pub struct CreateArgs {
    /// The most memory that all things of the domain take together, as in 2G [default: for the
    /// default domain, limits.budget of the configuration file; else as much as its file system has]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    budget: Option<u64>,
    /// The most memory that the domain's processes let its files take, as in 48M; 'none' takes the
    /// limit away
    #[arg(long, value_name = "SIZE", value_parser = most, conflicts_with = "budget")]
    max_bytes: Option<Most>,
}

/// A limit, or that there is to be none.
#[derive(Clone, Copy, Debug)]
struct Most(Option<u64>);

fn most(text: &str) -> Result<Most, String> {
    match text {
        "none" => Ok(Most(None)),
        text => match size::parse(text)? {
            0 => Err("more than 0 bytes, or none".to_owned()),
            most => Ok(Most(Some(most))),
        },
    }
}

#[derive(Serialize)]
struct Created {
    domain: String,
    /// Whether it was not there before.
    made: bool,
    /// The id of the group that shares it.
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<u32>,
    /// Bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    budget: Option<u64>,
    /// Bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_bytes: Option<u64>,
}

/// Runs the verb.
pub fn run(args: &CreateArgs, common: &Common) -> Result<(), Failure> {
    let group = common.domain.group_id()?;
    let path = common.domain.path();
    let path = std::path::absolute(&path).unwrap_or(path);
    let budget = match args.budget {
        None if common.domain.is_default() => Config::load()?.budget(),
        given => given,
    };
    if let Some(budget) = budget {
        set_budget(&path, budget, common)?;
    }
    let (domain, made) = match common.domain.open_existing() {
        Ok(domain) => (domain, false),
        Err(Error::NotFound { .. }) => (common.domain.open()?, true),
        Err(error) => return Err(error.into()),
    };
    if let Some(Most(most)) = args.max_bytes {
        limit(&domain, most)?;
    }
    let max_bytes = domain.max_bytes()?;
    if common.json {
        let domain = path.display().to_string();
        return output::print_json(&Created { domain, made, group, budget, max_bytes });
    }
    let words = if made { "made" } else { "there already" };
    let shared = group.map_or_else(String::new, |group| format!(", shared by group {group}"));
    let most = budget.into_iter().chain(max_bytes).min();
    let budget = most.map_or_else(String::new, |most| format!(", {} at most", bytes(most)));
    talk(format_args!("{words}{shared}{budget}"));
    output::print(format_args!("{}\n", path.display()))
}

/// Gives the domain that limit, unless it has more already.
fn limit(domain: &Domain, most: Option<u64>) -> Result<(), Failure> {
    let has = domain.allocated_bytes()?;
    if let Some(most) = most.filter(|&most| most < has) {
        let (path, most) = (domain.path().display(), bytes(most));
        let text = format!("{path} holds {} already, more than {most}", bytes(has));
        return Err(Failure::new(Code::NoSpace, text));
    }
    Ok(domain.set_max_bytes(most)?)
}

/// Gives the domain's folder a file system of that size, or gives the one that it has that size.
///
/// Members of a group may do as they like in the folder of the group's domains. So nothing is
/// mounted by a path, which any of them could make a link meanwhile: the folder is opened, checked,
/// and mounted on by its descriptor.
fn set_budget(path: &Path, budget: u64, common: &Common) -> Result<(), Failure> {
    if budget == 0 {
        // For the kernel, that means no limit at all.
        return Err(Failure::new(Code::Usage, "--budget: more than 0 bytes"));
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        let text = format!("--budget: {} is no folder to mount on", path.display());
        return Err(Failure::new(Code::Usage, text));
    };
    let group = common.domain.group_id()?;
    let size = format!("size={budget}");
    let parent = if common.domain.is_path() {
        fs::open(parent, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(not_opened(parent))?
    } else {
        open_base(parent, group, common)?
    };
    let open = || fs::openat(&parent, name, PLAIN_FOLDER, Mode::empty());
    let (folder, made) = match open() {
        Err(Errno::NOENT) if !common.domain.no_create => {
            fs::mkdirat(&parent, name, Mode::RWXU).map_err(failed(path))?;
            (open().map_err(not_opened(path))?, true)
        }
        other => (other.map_err(not_opened(path))?, false),
    };
    let facts = checked(&folder, path)?;
    // It stays this folder whatever becomes of its name.
    let at = format!("/proc/self/fd/{}", folder.as_raw_fd());
    let is_mounted = facts.st_dev != fs::fstat(&parent).map_err(failed(path))?.st_dev;
    let is_empty = is_empty(&folder).map_err(failed(path))?;
    if is_mounted {
        let is_domain = fs::statat(&folder, ".tokens", AtFlags::SYMLINK_NOFOLLOW).is_ok();
        if !is_empty && !is_domain {
            let text =
                format!("{} holds other things than a domain, and is left alone", path.display());
            return Err(Failure::new(Code::NotOurs, text));
        }
        return mount_remount(at, FLAGS, size.as_str()).map_err(|errno| match errno {
            Errno::INVAL => Failure::new(
                Code::NoSpace,
                format!("{} holds more than {} already", path.display(), bytes(budget)),
            ),
            errno => refused(path, errno),
        });
    }
    if !is_empty {
        let text = format!(
            "{} is there already, in a file system that it shares; remove it, or choose another name",
            path.display()
        );
        return Err(Failure::new(Code::Busy, text));
    }
    let mode = if group.is_some() { "0770" } else { "0700" };
    let mut options = format!("{size},mode={mode},uid={}", geteuid().as_raw());
    if let Some(group) = group {
        options.push_str(&format!(",gid={group}"));
    }
    let options = std::ffi::CString::new(options).unwrap_or_default();
    mount("outlive", at, "tmpfs", FLAGS, options.as_c_str()).map_err(|errno| {
        if made {
            let _ = fs::unlinkat(&parent, name, AtFlags::REMOVEDIR);
        }
        refused(path, errno)
    })
}

/// Nothing in a domain is a program, a device or another user's.
const FLAGS: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC);

/// How a folder is opened that must not be a link.
const PLAIN_FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens the folder of the user's or group's domains, and makes it if it is not there. Its owner
/// decides what its names mean, so only root or the caller may own it.
fn open_base(base: &Path, group: Option<u32>, common: &Common) -> Result<OwnedFd, Failure> {
    let open = || fs::open(base, PLAIN_FOLDER, Mode::empty());
    let folder = match open() {
        Err(Errno::NOENT) if !common.domain.no_create => {
            match fs::mkdir(base, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(failed(base)(errno)),
            }
            open().map_err(not_opened(base))?
        }
        other => other.map_err(not_opened(base))?,
    };
    let facts = checked(&folder, base)?;
    // Just made, by this run or by one that died here.
    let is_unfinished = facts.st_uid == geteuid().as_raw()
        && facts.st_mode & 0o077 == 0
        && is_empty(&folder).map_err(failed(base))?;
    // One that an older build made for the group is not sticky yet.
    let lacks_sticky = group == Some(facts.st_gid)
        && facts.st_uid == geteuid().as_raw()
        && facts.st_mode & 0o1077 == 0o070;
    let facts = if is_unfinished || lacks_sticky {
        let mode = match group {
            Some(group) => {
                fs::fchown(&folder, None, Some(Gid::from_raw(group))).map_err(failed(base))?;
                // Sticky, as the library makes it: no member removes another's domain.
                0o1770
            }
            None => 0o700,
        };
        fs::fchmod(&folder, Mode::from_raw_mode(mode)).map_err(failed(base))?;
        checked(&folder, base)?
    } else {
        facts
    };
    let is_right = match group {
        Some(group) => facts.st_gid == group && facts.st_mode & 0o077 == 0o070,
        None => facts.st_mode & 0o007 == 0,
    };
    if is_right {
        return Ok(folder);
    }
    let text = format!(
        "{} has group {} and mode {:04o}: others than the domain's users may enter it, or not all of them",
        base.display(),
        facts.st_gid,
        facts.st_mode & 0o7777
    );
    Err(Failure::new(Code::Permission, text))
}

/// Examines a folder, and refuses that of a user who is neither root nor the caller: its owner
/// could put anything there in its place.
fn checked(folder: &OwnedFd, path: &Path) -> Result<Stat, Failure> {
    let facts = fs::fstat(folder).map_err(failed(path))?;
    if facts.st_uid == 0 || facts.st_uid == geteuid().as_raw() {
        return Ok(facts);
    }
    let text = format!(
        "{} belongs to user {}; a budget needs a folder of root's: remove it, or give it to root",
        path.display(),
        facts.st_uid
    );
    Err(Failure::new(Code::Permission, text))
}

/// Returns whether a folder holds nothing, whatever the names in it.
fn is_empty(folder: &OwnedFd) -> Result<bool, Errno> {
    for entry in fs::Dir::read_from(folder)? {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

fn not_opened(path: &Path) -> impl Fn(Errno) -> Failure {
    move |errno| match errno {
        Errno::LOOP | Errno::NOTDIR => {
            Failure::new(Code::NotOurs, format!("{} is not a folder", path.display()))
        }
        errno => Failure::system(format_args!("open {}", path.display()), &errno.into()),
    }
}

fn failed(path: &Path) -> impl Fn(Errno) -> Failure {
    move |errno| Failure::system(format_args!("make {}", path.display()), &errno.into())
}

fn refused(path: &Path, errno: Errno) -> Failure {
    if matches!(errno, Errno::PERM | Errno::ACCESS) {
        let text = "a budget is a file system of the domain's own, which only root can mount; run it as root, \
                    or leave --budget out";
        return Failure::new(Code::Permission, text);
    }
    Failure::system(format_args!("mount a file system on {}", path.display()), &errno.into())
}
