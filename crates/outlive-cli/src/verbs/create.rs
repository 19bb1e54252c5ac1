//! `outlive domain create`: a domain, before any program uses it.
//!
//! Programs make their domain at first use, so this is for a domain that must be there before: for
//! a group, whose members all start with it, or with a budget, which only root can give.
//!
//! A budget is a file system of the domain's own (a tmpfs), mounted on its folder: the kernel
//! refuses what does not fit, as on a full file system.
//!
//! | died | then |
//! | --- | --- |
//! | behind the making of the folder | it is empty, and the next run mounts on it |
//! | behind the mount | the next run finds a file system of its own, and makes the domain in it |

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use clap::Args;
use outlive::Error;
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount, mount_remount};
use serde::Serialize;

use crate::cli::Common;
use crate::exit::{Code, Failure};
use crate::output::{self, bytes, talk};
use crate::size;

/// Make a domain before programs use it: for a group, or with a budget
///
/// Programs make their domain when they first use it, so a domain of one user needs no create.
/// With --group, all members of the group may use the domain; they name it with the same --group,
/// or by OUTLIVE_GROUP. With --budget, all that is in the domain takes at most that much memory: the
/// domain gets a file system of its own, which only root can mount. On a domain that has one, create
/// changes the budget. create prints the domain's folder; a domain that is there already is no
/// error.
///
/// To take a domain with a budget away when no process uses it: umount FOLDER, then rmdir FOLDER.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive domain create --group robots --domain arm\n  \
    sudo outlive domain create --group robots --domain arm --budget 2G")]
pub struct CreateArgs {
    /// The most memory that all things of the domain take together, as in 2G
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    budget: Option<u64>,
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
}

/// Runs the verb.
pub fn run(args: &CreateArgs, common: &Common) -> Result<(), Failure> {
    let group = common.domain.group_id()?;
    let path = common.domain.path();
    let path = std::path::absolute(&path).unwrap_or(path);
    if let Some(budget) = args.budget {
        set_budget(&path, budget, common)?;
    }
    let made = match common.domain.open_existing() {
        Ok(_) => false,
        Err(Error::NotFound { .. }) => {
            common.domain.open()?;
            true
        }
        Err(error) => return Err(error.into()),
    };
    if common.json {
        let domain = path.display().to_string();
        return output::print_json(&Created { domain, made, group, budget: args.budget });
    }
    let words = if made { "made" } else { "there already" };
    let shared = group.map_or_else(String::new, |group| format!(", shared by group {group}"));
    let budget =
        args.budget.map_or_else(String::new, |budget| format!(", {} at most", bytes(budget)));
    talk("domain create", format_args!("{words}{shared}{budget}"));
    output::print(format_args!("{}\n", path.display()))
}

/// Gives the domain's folder a file system of that size, or gives the one that it has that size.
fn set_budget(path: &Path, budget: u64, common: &Common) -> Result<(), Failure> {
    if budget == 0 {
        // For the kernel, that means no limit at all.
        return Err(Failure::new(Code::Usage, "--budget: more than 0 bytes"));
    }
    let group = common.domain.group_id()?;
    let size = format!("size={budget}");
    if is_mounted(path) {
        return mount_remount(path, FLAGS, size.as_str()).map_err(|errno| match errno {
            Errno::INVAL => Failure::new(
                Code::NoSpace,
                format!("{} holds more than {} already", path.display(), bytes(budget)),
            ),
            errno => refused(path, errno),
        });
    }
    let made = match fs::read_dir(path).map(|mut entries| entries.next().is_none()) {
        Ok(true) => false,
        Ok(false) => {
            let text = format!(
                "{} is there already, in a file system that it shares; remove it, or choose another name",
                path.display()
            );
            return Err(Failure::new(Code::Busy, text));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && !common.domain.no_create => {
            make_folders(path, common)?;
            true
        }
        Err(error) => return Err(failed(path)(error)),
    };
    let mode = if group.is_some() { "0770" } else { "0700" };
    let mut options = format!("{size},mode={mode},uid={}", rustix::process::geteuid().as_raw());
    if let Some(group) = group {
        options.push_str(&format!(",gid={group}"));
    }
    let options = std::ffi::CString::new(options).unwrap_or_default();
    mount("outlive", path, "tmpfs", FLAGS, options.as_c_str()).map_err(|errno| {
        if made {
            let _ = fs::remove_dir(path);
        }
        refused(path, errno)
    })
}

/// Nothing in a domain is a program, a device or another user's.
const FLAGS: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC);

/// Returns whether the folder is the root of a file system of its own.
fn is_mounted(path: &Path) -> bool {
    let device = |path: &Path| fs::symlink_metadata(path).map(|facts| facts.dev());
    match (device(path), path.parent().map(device)) {
        (Ok(own), Some(Ok(parent))) => own != parent,
        _ => false,
    }
}

/// Makes the folder to mount on, and the folder of the user's or group's domains if that is not
/// there.
fn make_folders(path: &Path, common: &Common) -> Result<(), Failure> {
    if !common.domain.is_path()
        && let Some(base) = path.parent()
        && !base.is_dir()
    {
        fs::create_dir(base).map_err(failed(base))?;
        let mode = match common.domain.group_id()? {
            Some(group) => {
                chown(base, None, Some(group)).map_err(failed(base))?;
                0o770
            }
            None => 0o700,
        };
        fs::set_permissions(base, Permissions::from_mode(mode)).map_err(failed(base))?;
    }
    fs::create_dir(path).map_err(failed(path))
}

fn failed(path: &Path) -> impl Fn(io::Error) -> Failure {
    move |error| Failure::system(format_args!("make {}", path.display()), &error)
}

fn refused(path: &Path, errno: Errno) -> Failure {
    if matches!(errno, Errno::PERM | Errno::ACCESS) {
        let text = "a budget is a file system of the domain's own, which only root can mount; run it as root, \
                    or leave --budget out";
        return Failure::new(Code::Permission, text);
    }
    Failure::system(format_args!("mount a file system on {}", path.display()), &errno.into())
}
