//! Access lists (acl(5)) and the set-group-ID bit: a folder that inherits lists from its parent is as
//! private as any other, and an administrator may let single users into a group's domain.

use std::ffi::{CStr, CString};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use outlive::queue::Queue;
use outlive::sync::Mutex;
use outlive::{Domain, Error};

use crate::child::Child;
use crate::runner::World;

crate::checks!(
    a_parents_list_lets_no_one_in: 60,
    a_parents_list_keeps_no_member_out: 60,
    a_list_of_the_domains_own_lets_a_user_in: 60,
    a_folder_with_the_set_group_id_bit_is_the_groups: 60,
);

/// Numbers that no machine has given out.
const GROUP: u32 = 61_241;
const MEMBER: u32 = 61_242;
const GUEST: u32 = 61_243;

const ACCESS: &CStr = c"system.posix_acl_access";
const DEFAULT: &CStr = c"system.posix_acl_default";

/// Gives a folder a list: a user's rights, and those of the folder's group.
fn set_list(world: &World, folder: &Path, which: &CStr, user: (u32, u16), group: u16) {
    const NO_ONE: u32 = u32::MAX;
    // Tags of the kernel's posix_acl.h: owner, user, group, mask, others.
    let entries = [
        (1, 7, NO_ONE),
        (2, user.1, user.0),
        (4, group, NO_ONE),
        (0x10, 7, NO_ONE),
        (0x20, 0, NO_ONE),
    ];
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        bytes.extend(u16::to_le_bytes(tag));
        bytes.extend(u16::to_le_bytes(rights));
        bytes.extend(u32::to_le_bytes(id));
    }
    let path = CString::new(folder.to_str().expect("a plain path")).expect("no NUL");
    // SAFETY: strings and bytes that live until the call returns.
    let done = unsafe {
        libc::setxattr(path.as_ptr(), which.as_ptr(), bytes.as_ptr().cast(), bytes.len(), 0)
    };
    if done != 0 {
        world.skip("this file system has no access lists");
    }
}

fn skip_unless_root(world: &World) {
    // SAFETY: always.
    if unsafe { libc::geteuid() } != 0 {
        world.skip("only root can play several users");
    }
    for folder in [world.folder().parent(), Some(world.folder())].into_iter().flatten() {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("ours");
    }
}

/// Does something as that user, with that group alone.
fn as_user(user: u32, group: u32, body: impl FnOnce()) {
    Child::start(|| {
        // SAFETY: no pointers but an empty list are passed.
        unsafe {
            assert_eq!(libc::setgroups(0, core::ptr::null()), 0);
            assert_eq!(libc::setgid(group), 0);
            assert_eq!(libc::setuid(user), 0);
        }
        body();
    })
    .finish();
}

fn shared(path: &Path) -> Result<Domain, Error> {
    Domain::options().group(Some(GROUP)).open_or_create_at(path)
}

/// Uses what is there, and makes something new.
fn use_it(path: &Path, new: &str) {
    let domain = shared(path).expect("opens");
    let mutex = Mutex::<u64>::options(0).open_or_create(&domain, "m").expect("opens");
    *mutex.lock().expect("free") += 1;
    let queue = Queue::<[u8]>::open_or_create(&domain, new).expect("made");
    queue.sender().expect("a sender").send(b"x").expect("room");
}

/// The guest is not in the group: it gets in by no file's rights.
fn a_parents_list_lets_no_one_in(world: &World) {
    skip_unless_root(world);
    set_list(world, world.folder(), DEFAULT, (GUEST, 7), 5);
    let (own, groups) = (world.folder().join("own"), world.folder().join("groups"));
    Domain::open_or_create_at(&own).expect("opens");
    use_it(&groups, "by root");
    for (path, mode) in [(&own, 0o700), (&groups, 0o770)] {
        assert_eq!(fs::metadata(path).expect("there").mode() & 0o7777, mode);
        as_user(GUEST, GUEST, || {
            let error = fs::read_dir(path).expect_err("closed");
            assert_eq!(error.raw_os_error(), Some(libc::EACCES));
        });
    }
}

fn a_parents_list_keeps_no_member_out(world: &World) {
    skip_unless_root(world);
    // Nothing for the folder's group, and the mask would not show it.
    set_list(world, world.folder(), DEFAULT, (GUEST, 7), 0);
    let path = world.folder().join("domain");
    use_it(&path, "by root");
    as_user(MEMBER, GROUP, || use_it(&path, "by a member"));
    assert_eq!(
        *Mutex::<u64>::open(&shared(&path).expect("opens"), "m")
            .expect("there")
            .lock()
            .expect("free"),
        2
    );
}

/// With the set-group-ID bit, what the guest makes is the group's, of which it is not.
fn a_list_of_the_domains_own_lets_a_user_in(world: &World) {
    skip_unless_root(world);
    let path = world.folder().join("domain");
    use_it(&path, "by root");
    as_user(GUEST, GUEST, || {
        let error = shared(&path).expect_err("closed");
        assert!(matches!(error, Error::Permission { .. }), "{error}");
    });
    set_list(world, &path, ACCESS, (GUEST, 7), 7);
    set_list(world, &path, DEFAULT, (GUEST, 7), 7);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o2770)).expect("ours");
    // Files that were there before have no list of their own.
    for name in ["m", ".tokens"] {
        set_list(world, &path.join(name), ACCESS, (GUEST, 6), 6);
    }
    as_user(GUEST, GUEST, || use_it(&path, "by the guest"));
    as_user(MEMBER, GROUP, || {
        use_it(&path, "by a member");
        let domain = shared(&path).expect("opens");
        let queue = Queue::<[u8]>::open(&domain, "by the guest").expect("there");
        let got = queue.receiver().expect("the first").try_recv().expect("readable");
        assert_eq!(got.as_deref(), Some(&b"x"[..]));
    });
    as_user(GUEST, GUEST, || use_it(&path, "by a member"));
}

fn a_folder_with_the_set_group_id_bit_is_the_groups(world: &World) {
    skip_unless_root(world);
    // As an administrator makes one, or `systemd-tmpfiles`.
    let path = world.folder().join("domain");
    fs::create_dir(&path).expect("made");
    std::os::unix::fs::chown(&path, None, Some(GROUP)).expect("given");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o2770)).expect("ours");
    use_it(&path, "by root");
    as_user(MEMBER, GROUP, || use_it(&path, "by a member"));
    let facts = fs::metadata(path.join("by a member")).expect("there");
    assert_eq!((facts.uid(), facts.gid(), facts.mode() & 0o7777), (MEMBER, GROUP, 0o660));
    assert_eq!(fs::metadata(&path).expect("there").mode() & 0o7777, 0o2770);
}
