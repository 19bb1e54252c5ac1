//! Domains of a group, and domains with a budget. Only root can play several users, or mount.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::{UnmountFlags, unmount};

use crate::stage::{Ended, Running, Stage, skip, until};

const GROUP: u32 = 2_345_678;
const MEMBER: u32 = 3_456_789;
const STRANGER: u32 = 3_456_790;

/// Returns the program as a copy that any user may run, or says that the test is skipped.
fn for_every_user(stage: &Stage) -> Option<PathBuf> {
    if !rustix::process::geteuid().is_root() {
        skip("only root can play several users");
        return None;
    }
    let copy = stage.path("outlive");
    fs::copy(env!("CARGO_BIN_EXE_outlive"), &copy).expect("copied");
    for path in [&copy, &stage.path("")] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("set");
    }
    Some(copy)
}

/// Runs that program as a user with these groups.
fn run_as(program: &Path, user: u32, groups: &[u32], args: &[&str]) -> Ended {
    let groups = groups.to_vec();
    let mut command = Command::new(program);
    command.args(args).current_dir("/").env_remove("TERM");
    // SAFETY: system calls alone, with a list that was made before the fork.
    unsafe {
        command.pre_exec(move || {
            let done = libc::setgroups(groups.len(), groups.as_ptr()) == 0
                && libc::setgid(user) == 0
                && libc::setuid(user) == 0;
            if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        });
    }
    Running::new(command).end()
}

#[test]
fn members_of_a_group_share_a_domain_and_others_are_kept_out() {
    let stage = Stage::new();
    let Some(program) = for_every_user(&stage) else { return };
    let group = GROUP.to_string();
    let folder = stage.path("robot").display().to_string();
    let shared = ["--domain", &folder, "--group", &group];
    let create = [&["domain", "create", "--json"][..], &shared].concat();
    let told = stage.run(&create).expect(0).json();
    assert_eq!((&told["made"], &told["group"]), (&true.into(), &GROUP.into()));
    assert_eq!(stage.run(&create).expect(0).json()["made"], false);
    let facts = fs::metadata(&folder).expect("there");
    assert_eq!((facts.mode() & 0o7777, facts.gid()), (0o770, GROUP));

    // Each side uses what the other has made. (Behind a command, options would be the command's.)
    let of_member = |args: &[&str]| run_as(&program, MEMBER, &[GROUP], &[&shared, args].concat());
    stage.run(&[&["state", "set", "mode", "driving"][..], &shared].concat()).expect(0);
    assert_eq!(of_member(&["state", "get", "mode"]).expect(0).text(), "driving\n");
    of_member(&["state", "set", "speed", "3"]).expect(0);
    let got = stage.run(&[&["state", "get", "speed"][..], &shared].concat()).expect(0);
    assert_eq!(got.text(), "3\n");
    assert_eq!(fs::metadata(Path::new(&folder).join("speed")).expect("there").gid(), GROUP);
    of_member(&["lock", "run", "L", "true"]).expect(0);
    of_member(&["ls"]).expect(0);
    let mut command = stage.command(["state", "get", "mode"]);
    command.env("OUTLIVE_DOMAIN", &folder).env("OUTLIVE_GROUP", &group);
    Running::new(command).end().expect(0);

    // Without the group's number the folder is another user's; outside of the group it is closed.
    let alone = ["state", "get", "mode", "--domain", &folder];
    run_as(&program, MEMBER, &[GROUP], &alone).expect(9).says("belongs to user 0");
    let stranger = run_as(&program, STRANGER, &[], &[&["ls"][..], &shared].concat());
    stranger.expect(9).says("no permission");
}

/// A topic whose mode keeps other members from writing is its owner's to remove.
#[test]
fn another_members_topic_is_not_removed_and_it_is_said_why() {
    let stage = Stage::new();
    let Some(program) = for_every_user(&stage) else { return };
    let group = GROUP.to_string();
    let folder = stage.path("robot").display().to_string();
    let shared = ["--domain", &folder, "--group", &group];
    stage.run(&[&["domain", "create"][..], &shared].concat()).expect(0);
    let of = |user: u32, args: &[&str]| run_as(&program, user, &[GROUP], &[&shared, args].concat());
    for mode in ["640", "600"] {
        let name = format!("t{mode}");
        of(MEMBER, &["pub", &name, "--mode", mode]).expect(0);
        for force in [&[][..], &["--force"]] {
            let why =
                format!("'{name}' belongs to user {MEMBER}, and by its mode, 0{mode}, no other");
            of(STRANGER, &[&["rm", &name], force].concat()).expect(9).says(&why);
        }
        assert!(Path::new(&folder).join(&name).exists());
        of(MEMBER, &["rm", &name]).expect(0);
    }
    of(MEMBER, &["pub", "t660"]).expect(0);
    of(STRANGER, &["rm", "t660"]).expect(0);
}

#[test]
fn a_group_has_a_number_or_a_name() {
    let stage = Stage::new();
    let own = rustix::process::getegid().as_raw().to_string();
    stage.run(&["state", "set", "s", "x", "--group", &own]).expect(0);
    assert_eq!(fs::metadata(stage.domain()).expect("there").mode() & 0o7777, 0o770);
    for wrong in ["no such group", "-1", "4294967296"] {
        let group = format!("--group={wrong}");
        stage.run(&["ls", &group]).expect(2).says("/etc/group");
    }
    let list = fs::read_to_string("/etc/group").unwrap_or_default();
    let named = list.lines().find(|line| line.split(':').nth(2) == Some(&own));
    match named.and_then(|line| line.split(':').next()) {
        Some(name) => drop(stage.run(&["state", "get", "s", "--group", name]).expect(0)),
        None => skip("/etc/group has no name for this user's group"),
    }
    let mut command = stage.command(["state", "get", "s"]);
    command.env("OUTLIVE_GROUP", "");
    Running::new(command).end().expect(0);
}

/// Takes a mounted file system away.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

#[test]
fn a_budget_is_the_most_that_a_domain_takes() {
    let stage = Stage::new();
    let group = rustix::process::getegid().as_raw().to_string();
    let create = |budget: &str| {
        stage.run(&["domain", "create", "--group", &group, "--budget", budget, "--json"])
    };
    let first = create("8M");
    let mounted = Mounted(stage.domain());
    if first.code() == 9 {
        assert!(first.err.contains("only root can mount"), "{}", first.err);
        assert!(!mounted.0.exists(), "nothing is left of it");
        skip("mounting is not permitted here");
        return;
    }
    let told = first.expect(0).json();
    assert_eq!((&told["made"], &told["budget"]), (&true.into(), &(8 << 20).into()));
    let facts = fs::metadata(stage.domain()).expect("there");
    assert_eq!((facts.mode() & 0o7777, facts.gid().to_string()), (0o770, group.clone()));
    let line = "a line of some length, so that few of them fill it\n".repeat(300_000);
    let send = ["send", "q", "--max-bytes", "1G", "--timeout", "0.1", "--group", &group];
    stage.feed(&send, line.as_bytes()).expect(5).says("still no room");
    // It may grow while it is used; it does not shrink below what is in it.
    assert_eq!(create("64M").expect(0).json()["made"], false);
    stage.feed(&send, line.as_bytes()).expect(0);
    create("1M").expect(10).says("holds more than 1.0 MiB");
    create("0").expect(2);
    drop(mounted);
    // A domain that shares its file system gets no budget after the fact.
    let shared = stage.path("shared").display().to_string();
    stage.run(&["state", "set", "s", "x", "--domain", &shared]).expect(0);
    let late = ["domain", "create", "--domain", &shared, "--budget", "8M"];
    stage.run(&late).expect(12).says("choose another name");
}

/// No rights of root's are needed, and the domain may be there already.
#[test]
fn a_limit_is_kept_by_the_domains_processes() {
    let stage = Stage::new();
    stage.run(&["state", "set", "s", "x"]).expect(0);
    let create = |most: &str| stage.run(&["domain", "create", "--max-bytes", most, "--json"]);
    let told = create("8M").expect(0).json();
    assert_eq!((&told["made"], &told["max_bytes"]), (&false.into(), &(8 << 20).into()));
    let line = "a line of some length, so that few of them fill it\n".repeat(300_000);
    let send = ["send", "q", "--max-bytes", "1G", "--timeout", "0.1"];
    stage.feed(&send, line.as_bytes()).expect(5).says("still no room");
    let text = stage.run(&["doctor"]).out;
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains("  budget  ") && text.contains("of 8.0 MiB taken"), "{text}");
    create("4K").expect(10).says("already, more than 4.0 KiB");
    for wrong in ["0", "much"] {
        create(wrong).expect(2);
    }
    stage.run(&["domain", "create", "--max-bytes", "8M", "--budget", "8M"]).expect(2);
    assert_eq!(create("none").expect(0).json()["max_bytes"], serde_json::Value::Null);
    stage.feed(&send, line.as_bytes()).expect(0);
}

/// Runs the program in a mount namespace of its own, and returns what is mounted there then as its
/// output; `None` where that is not permitted.
fn run_with_own_mounts(stage: &Stage, args: &[&str]) -> Option<Ended> {
    let script = r#""$0" "$@" > /dev/null; code=$?; cat /proc/self/mountinfo; exit $code"#;
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_outlive")]).args(args);
    command.current_dir(stage.path("")).env_remove("TERM");
    // SAFETY: two system calls.
    unsafe {
        command.pre_exec(|| {
            let private = libc::MS_REC | libc::MS_PRIVATE;
            let (root, none) = (c"/".as_ptr(), core::ptr::null());
            let done = libc::unshare(libc::CLONE_NEWNS) == 0
                && libc::mount(none, root, none, private, none.cast()) == 0;
            if done { Ok(()) } else { libc::_exit(77) }
        });
    }
    let ended = Running::new(command).end();
    (ended.code() != 77).then_some(ended)
}

/// A folder that is removed in the end.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A member may make what it likes in the group's folder, and root's mount must not end up elsewhere.
#[test]
fn a_budget_is_mounted_on_no_folder_of_others() {
    let stage = Stage::new();
    if !rustix::process::geteuid().is_root() {
        skip("only root can play several users");
        return;
    }
    let number = 4_000_000 + std::process::id();
    let group = number.to_string();
    let base = Removed(PathBuf::from(format!("/dev/shm/outlive-group-{group}")));
    let create = ["domain", "create", "--group", &group, "-d", "arm", "--budget", "8M"];
    let target = stage.path("target");
    fs::create_dir_all(target.join("arm")).expect("made");
    let arm = base.0.join("arm");
    let group_id = Some(number);
    let make_base = |owner: u32| {
        fs::create_dir(&base.0).expect("made");
        chown(&base.0, Some(owner), group_id).expect("given");
        fs::set_permissions(&base.0, fs::Permissions::from_mode(0o770)).expect("set");
    };
    let is_refused = |code: i32, why: &str| {
        let Some(ended) = run_with_own_mounts(&stage, &create) else { return false };
        let ended = ended.expect(code).says(why);
        assert!(!ended.text().contains(&format!("gid={group}")), "{}", ended.text());
        true
    };

    // A link to an empty folder of root's.
    make_base(0);
    symlink(target.join("arm"), &arm).expect("laid");
    if !is_refused(8, "not a folder") {
        skip("mounting is not permitted here");
        return;
    }
    fs::remove_file(&arm).expect("removed");
    // A member's own folder.
    fs::create_dir(&arm).expect("made");
    chown(&arm, Some(MEMBER), group_id).expect("given");
    is_refused(9, "belongs to user");
    fs::remove_dir_all(&base.0).expect("removed");
    // The group's folder itself is a member's, or a link.
    make_base(MEMBER);
    is_refused(9, "belongs to user");
    fs::remove_dir(&base.0).expect("removed");
    symlink(&target, &base.0).expect("laid");
    is_refused(8, "not a folder");
    fs::remove_file(&base.0).expect("removed");

    // No process had made the base; or its maker died just after it had made the folders.
    for died in [false, true] {
        if died {
            fs::remove_dir_all(&base.0).expect("removed");
            make_base(0);
            fs::create_dir(&arm).expect("made");
        }
        let ended = run_with_own_mounts(&stage, &create).expect("as before").expect(0);
        let line = format!(" {} ", arm.display());
        assert!(ended.text().contains(&line), "{}", ended.text());
    }
}

/// A folder's mode is mended for the group that it has, and for no other.
#[test]
fn doctor_opens_a_domain_to_its_own_group_alone() {
    let stage = Stage::new();
    if !rustix::process::geteuid().is_root() {
        skip("only root can play several users");
        return;
    }
    stage.run(&["state", "set", "s", "x"]).expect(0);
    let group = GROUP.to_string();
    let repair = ["doctor", "--repair", "--group", &group];
    let mode = || fs::metadata(stage.domain()).expect("there").mode() & 0o7777;
    for wrong in [0o700, 0o755] {
        fs::set_permissions(stage.domain(), fs::Permissions::from_mode(wrong)).expect("set");
        let text = stage.run(&repair).expect(1).text();
        assert!(text.contains("FAULT   domain") && text.contains("has group"), "{text}");
        assert_eq!(mode(), wrong);
    }
    chown(stage.domain(), None, Some(GROUP)).expect("given");
    fs::set_permissions(stage.domain(), fs::Permissions::from_mode(0o777)).expect("set");
    let text = stage.run(&repair).expect(0).text();
    assert!(text.contains("mended  domain"), "{text}");
    assert_eq!(mode(), 0o770);
}

/// An older build did not make it sticky, and a member may have made it by hand.
#[test]
fn doctor_says_that_a_groups_folder_is_not_sticky() {
    let stage = Stage::new();
    if !rustix::process::geteuid().is_root() {
        skip("only root can play several users");
        return;
    }
    let number = 5_000_000 + std::process::id();
    let (group, base) = (number.to_string(), format!("/dev/shm/outlive-group-{number}"));
    let base = Removed(PathBuf::from(base));
    fs::create_dir(&base.0).expect("made");
    chown(&base.0, Some(MEMBER), Some(number)).expect("given");
    fs::set_permissions(&base.0, fs::Permissions::from_mode(0o770)).expect("set");
    let mode = || fs::metadata(&base.0).expect("there").mode() & 0o7777;
    let doctor = ["doctor", "-d", "arm", "--group", &group];
    let text = stage.run(&doctor).expect(1).text();
    assert!(text.contains("FAULT   group's folder"), "{text}");
    assert!(text.contains("mode 0770") && text.contains("chmod +t"), "{text}");
    assert_eq!(mode(), 0o770);
    let text = stage.run(&[&doctor[..], &["--repair"]].concat()).expect(0).text();
    assert!(text.contains("mended  group's folder"), "{text}");
    assert_eq!(mode(), 0o1770);
    let text = stage.run(&doctor).expect(0).text();
    assert!(text.contains("group's folder"), "{text}");
}

#[test]
fn what_one_member_leaves_another_takes_over() {
    let stage = Stage::new();
    let Some(program) = for_every_user(&stage) else { return };
    let group = GROUP.to_string();
    let folder = stage.path("robot").display().to_string();
    let shared = ["--domain", &folder, "--group", &group];
    let holder = stage.start(&[&["lock", "run", "L"][..], &shared, &["sleep", "1000"]].concat());
    let listing =
        || run_as(&program, MEMBER, &[GROUP], &[&["lock", "info", "L"][..], &shared].concat());
    until("the member sees it held", || listing().text().contains("holder"));
    holder.kill();
    holder.end();
    let next = [&["lock", "run", "L"][..], &shared, &["true"]].concat();
    run_as(&program, MEMBER, &[GROUP], &next).expect(0).says("the last holder died");
}
