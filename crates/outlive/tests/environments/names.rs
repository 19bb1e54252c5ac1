//! Other namespaces, no `/proc`, a name that is not UTF-8, a small file system.

use std::ffi::CString;
use std::fs;
use std::io::Error;

use crate::operations::{Environment, plain, run, run_if_permitted, skip_unless};
use crate::runner::World;

crate::checks!(
    without_proc: 60,
    a_pid_namespace: 60,
    a_pid_namespace_with_its_own_proc: 60,
    a_time_namespace: 60,
    a_mount_namespace: 60,
    a_user_namespace: 60,
    a_name_that_is_not_utf_8: 60,
    a_name_that_looks_like_stat: 60,
    sixteen_mebibytes_of_tmpfs: 60,
);

fn succeeds(what: &str, result: libc::c_int) {
    assert_eq!(result, 0, "{what}: {}", Error::last_os_error());
}

pub fn unshare(flags: libc::c_int) {
    // SAFETY: no pointers are passed.
    succeeds("unshare", unsafe { libc::unshare(flags) });
}

/// Mounts there, in a mount namespace of this process's own.
pub fn mount(kind: &str, target: &str, options: &str) {
    unshare(libc::CLONE_NEWNS);
    let [kind, target, options] =
        [kind, target, options].map(|text| CString::new(text).expect("no NUL"));
    let (none, private) = (core::ptr::null(), libc::MS_REC | libc::MS_PRIVATE);
    // SAFETY: strings that live until the call returns.
    succeeds("make private", unsafe {
        libc::mount(none, c"/".as_ptr(), none, private, core::ptr::null())
    });
    // SAFETY: the same.
    let mounted = unsafe {
        libc::mount(kind.as_ptr(), target.as_ptr(), kind.as_ptr(), 0, options.as_ptr().cast())
    };
    succeeds("mount", mounted);
}

/// Makes a folder read-only, in the mount namespace that [`mount`] has made.
pub fn bind_read_only(folder: &str) {
    let folder = CString::new(folder).expect("no NUL");
    let none = core::ptr::null();
    for flags in [libc::MS_BIND, libc::MS_BIND | libc::MS_REMOUNT | libc::MS_RDONLY] {
        // SAFETY: strings that live until the call returns.
        succeeds("bind", unsafe {
            libc::mount(folder.as_ptr(), folder.as_ptr(), none, flags, none.cast())
        });
    }
}

fn inside(world: &World, what: &str, forks: bool, enter: impl Fn()) {
    let environment = Environment { open: &|| plain(world), enter: &enter, forks, use_up: &|| {} };
    run_if_permitted(world, what, &environment);
}

fn without_proc(world: &World) {
    inside(world, "a mount namespace", false, || {
        mount("tmpfs", "/proc", "size=4k");
        assert!(fs::metadata("/proc/self").is_err(), "there is no /proc");
    });
}

fn a_pid_namespace(world: &World) {
    inside(world, "a pid namespace", true, || unshare(libc::CLONE_NEWPID));
}

fn a_pid_namespace_with_its_own_proc(world: &World) {
    // The process between mounts what its children see: their own namespace's.
    let enter = || {
        unshare(libc::CLONE_NEWPID);
        unshare(libc::CLONE_NEWNS);
    };
    let open = || {
        // SAFETY: no pointers are passed.
        if unsafe { libc::getpid() } < 10 {
            mount("proc", "/proc", "");
        }
        plain(world)
    };
    let environment = Environment { open: &open, enter: &enter, forks: true, use_up: &|| {} };
    run_if_permitted(world, "a pid namespace", &environment);
}

fn a_time_namespace(world: &World) {
    // Its clock is a day ahead, and so are the start times that it reads in /proc.
    inside(world, "a time namespace", true, || {
        unshare(libc::CLONE_NEWTIME);
        fs::write("/proc/self/timens_offsets", "boottime 86400 0\nmonotonic 86400 0\n")
            .expect("written");
    });
}

fn a_mount_namespace(world: &World) {
    inside(world, "a mount namespace", false, || mount("tmpfs", "/mnt", "size=4k"));
}

fn a_user_namespace(world: &World) {
    inside(world, "a user namespace", false, || {
        // SAFETY: no pointers are passed.
        let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
        unshare(libc::CLONE_NEWUSER);
        fs::write("/proc/self/setgroups", "deny").expect("written");
        fs::write("/proc/self/uid_map", format!("{user} {user} 1")).expect("written");
        fs::write("/proc/self/gid_map", format!("{group} {group} 1")).expect("written");
    });
}

fn named(world: &World, name: &'static core::ffi::CStr) {
    inside(world, "a name", false, move || {
        // SAFETY: a string of less than 16 bytes.
        succeeds("PR_SET_NAME", unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) });
    });
}

fn a_name_that_is_not_utf_8(world: &World) {
    // What the kernel keeps of `наблюдатель`: it cuts a letter in two.
    named(world, c"\xd0\xbd\xd0\xb0\xd0\xb1\xd0\xbb\xd1\x8e\xd0\xb4\xd0\xb0\xd1");
}

fn a_name_that_looks_like_stat(world: &World) {
    named(world, c"x) Z 1 1 (\n) 0");
}

fn sixteen_mebibytes_of_tmpfs(world: &World) {
    let folder = world.folder().to_str().expect("a plain path").to_owned();
    let here = || mount("tmpfs", &folder, "size=16m,mode=0700");
    skip_unless(world, "a mount namespace", here);
    // The partner is in it as well: both see the one file system.
    here();
    run(&Environment { open: &|| plain(world), enter: &|| {}, forks: false, use_up: &|| {} });
}
