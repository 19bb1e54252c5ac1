//! What the settings of a systemd unit take from a service: system calls (`SystemCallFilter=`), the
//! view of other processes (`ProtectProc=`, `ProcSubset=`), other users (`PrivateUsers=`), places
//! (`PrivateTmp=`, `ProtectSystem=`).

use std::fs;
use std::os::unix::fs::MetadataExt;

use outlive::{Domain, Error};

use crate::child::Child;
use crate::docker::under;
use crate::filter::read;
use crate::names::{bind_read_only, mount, unshare};
use crate::operations::{Environment, options, plain, run_if_permitted, skip_unless};
use crate::runner::World;
use crate::users::{GROUP, USER, become_another, prepare, shared};

crate::checks!(
    the_filter_of_system_services: 60,
    a_proc_with_processes_alone: 60,
    private_users_of_one_group: 60,
    a_group_that_a_user_namespace_does_not_have: 60,
    private_tmp_and_a_read_only_system: 60,
);

/// The data: names and numbers, and where they are from.
const DENIED: &str = include_str!("systemd_seccomp.txt");

fn the_filter_of_system_services(world: &World) {
    // A call that systemd does not know is ENOSYS.
    under(world, &read(DENIED), (451, libc::ENOSYS as u32));
}

/// `ProcSubset=pid` and `ProtectProc=invisible`, of which root is free, and another user is not.
fn a_proc_with_processes_alone(world: &World) {
    prepare(world);
    let enter = || {
        mount("proc", "/proc", "subset=pid,hidepid=invisible");
        assert!(fs::metadata("/proc/sys").is_err(), "only processes are there");
        become_another();
    };
    let environment =
        Environment { open: &|| shared(world), enter: &enter, forks: false, use_up: &|| {} };
    run_if_permitted(world, "a /proc with options", &environment);
}

/// Goes into a user namespace that has one user and one group, and another number for each.
fn enter_namespace(user: u32, group: u32) {
    unshare(libc::CLONE_NEWUSER);
    fs::write("/proc/self/setgroups", "deny").expect("written");
    fs::write("/proc/self/uid_map", format!("0 {user} 1")).expect("written");
    fs::write("/proc/self/gid_map", format!("0 {group} 1")).expect("written");
}

/// Rootless Podman, and `PrivateUsers=`: inside, the user is 0 and so is the group, and all other
/// users are 65534. Whose the folder is does not matter there, but its group does.
fn private_users_of_one_group(world: &World) {
    prepare(world);
    let enter = || {
        become_another();
        enter_namespace(USER, GROUP);
    };
    let open = || match sees_group(world, GROUP) {
        true => shared(world),
        false => options().group(Some(0)).open_at(world.folder().join("domain")).expect("opens"),
    };
    let environment = Environment { open: &open, enter: &enter, forks: false, use_up: &|| {} };
    run_if_permitted(world, "a user namespace", &environment);
}

/// Returns whether the domain's folder has that group in the eyes of this process.
fn sees_group(world: &World, group: u32) -> bool {
    fs::metadata(world.folder().join("domain")).expect("there").gid() == group
}

/// The folder belongs to a group that has no number inside: it is refused, whatever it is called.
fn a_group_that_a_user_namespace_does_not_have(world: &World) {
    prepare(world);
    let enter = || {
        become_another();
        // The user's own number as a group: some other group than the domain's.
        // SAFETY: no pointers are passed.
        unsafe { libc::setresgid(GROUP, GROUP, GROUP) };
        unshare(libc::CLONE_NEWUSER);
        fs::write("/proc/self/uid_map", format!("0 {USER} 1")).expect("written");
    };
    skip_unless(world, "a user namespace", enter);
    Child::start(|| {
        enter();
        assert!(sees_group(world, 65_534), "it has no number here");
        for group in [None, Some(0), Some(GROUP)] {
            let options = Domain::options().group(group);
            let error = options.open_at(world.folder().join("domain")).expect_err("refused");
            assert!(matches!(error, Error::Untrusted { .. }), "{group:?}: {error}");
        }
    })
    .finish();
}

/// `PrivateTmp=` and `ProtectSystem=strict` leave `/dev/shm` and `/run` as they are.
fn private_tmp_and_a_read_only_system(world: &World) {
    let enter = || {
        mount("tmpfs", "/tmp", "size=1m");
        for folder in ["/usr", "/etc", "/var", "/boot", "/home"] {
            bind_read_only(folder);
        }
    };
    let environment =
        Environment { open: &|| plain(world), enter: &enter, forks: false, use_up: &|| {} };
    run_if_permitted(world, "a mount namespace", &environment);
}
