//! Two users of one group; one of them does not see the processes of the other.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use outlive::Domain;

use crate::names::mount;
use crate::operations::{Environment, options, run_if_permitted};
use crate::runner::World;

crate::checks!(
    two_users_of_one_group: 60,
    hidepid_between_two_users_of_one_group: 60,
);

/// Numbers that no machine has given out.
pub const USER: u32 = 61_234;
pub const GROUP: u32 = 61_235;

/// A domain that the group shares.
pub fn shared(world: &World) -> Domain {
    options()
        .group(Some(GROUP))
        .open_or_create_at(world.folder().join("domain"))
        .expect("the group's domain opens")
}

/// From now on the other user, and of the group.
pub fn become_another() {
    let groups = [GROUP];
    // SAFETY: no pointers but to one number that lives.
    let done = unsafe {
        libc::setgroups(1, groups.as_ptr()) == 0
            && libc::setresgid(GROUP, GROUP, GROUP) == 0
            && libc::setresuid(USER, USER, USER) == 0
            // Otherwise a process that has changed its user is not dumpable, and ends alone when
            // its parent does.
            && libc::prctl(libc::PR_SET_DUMPABLE, 1) == 0
            && libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) == 0
    };
    assert!(done, "the user can be changed: {}", std::io::Error::last_os_error());
}

/// The folders above the domain can be passed through, and the domain is there.
pub fn prepare(world: &World) {
    for folder in [world.folder().parent(), Some(world.folder())].into_iter().flatten() {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("ours");
    }
    // SAFETY: no pointers are passed.
    if unsafe { libc::geteuid() } != 0 {
        world.skip("another user cannot be had without root");
    }
    drop(shared(world));
}

fn two_users_of_one_group(world: &World) {
    prepare(world);
    let environment = Environment {
        open: &|| shared(world),
        enter: &become_another,
        forks: false,
        use_up: &|| {},
    };
    run_if_permitted(world, "another user", &environment);
}

fn hidepid_between_two_users_of_one_group(world: &World) {
    prepare(world);
    let enter = || {
        mount("proc", "/proc", "hidepid=2");
        become_another();
        // SAFETY: no pointers are passed.
        let parent = unsafe { libc::getppid() };
        assert!(fs::metadata(format!("/proc/{parent}/stat")).is_err(), "the partner is hidden");
    };
    let environment =
        Environment { open: &|| shared(world), enter: &enter, forks: false, use_up: &|| {} };
    run_if_permitted(world, "/proc with hidepid", &environment);
}
