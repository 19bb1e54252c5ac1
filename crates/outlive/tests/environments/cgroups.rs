//! Control groups: one whose memory runs out, so that the kernel kills; and freezers, of the second
//! version and of the first.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use outlive::Domain;
use outlive::queue::Queue;
use outlive::sync::{LockError, Mutex};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::{Child, End, PATIENCE, wait_until};
use crate::operations::{Environment, plain, run};
use crate::runner::World;

crate::checks!(
    in_a_control_group_and_then_it_kills: 90,
    a_domain_larger_than_the_groups_memory: 90,
    frozen: 60,
    frozen_by_the_first_version: 60,
    a_death_notice_that_a_frozen_sleeper_has: 60,
    a_death_notice_that_a_sleeper_frozen_by_the_first_version_has: 60,
);

/// A control group of the check's own; removed at the end.
struct Group {
    folder: PathBuf,
}

impl Group {
    /// A group that has this file, below the first of these hierarchies that permits one.
    fn make(world: &World, what: &str, hierarchies: &[&str], file: &str) -> Group {
        for hierarchy in hierarchies {
            let name = format!("outlive-test-{}-{what}", std::process::id());
            let folder = Path::new(hierarchy).join(name);
            if fs::create_dir(&folder).is_err() {
                continue;
            }
            let group = Group { folder };
            if group.folder.join(file).exists() {
                return group;
            }
        }
        world.skip(&format!("a control group with {file} cannot be had here"));
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.folder.join(file), text)
            .unwrap_or_else(|error| panic!("{file} of the group: {error}"));
    }

    /// Puts the calling process into it.
    fn enter(&self) {
        self.write("cgroup.procs", "0");
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.folder.join(file)).unwrap_or_default()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Frozen processes cannot be killed by the first version. Written only where it exists:
        // what is no control group but a plain folder would be full then, and stay.
        for (file, text) in [("freezer.state", "THAWED"), ("cgroup.freeze", "0")] {
            if let Ok(mut file) = fs::OpenOptions::new().write(true).open(self.folder.join(file)) {
                let _ = file.write_all(text.as_bytes());
            }
        }
        for pid in self.read("cgroup.procs").lines().filter_map(|pid| pid.parse().ok()) {
            // SAFETY: no pointers are passed; only processes that the check has started are in its
            // group.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        for _ in 0..1000 {
            if fs::remove_dir(&self.folder).is_ok() || !self.folder.exists() {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

const SECOND: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// A life that holds a lock, and then does what it is told.
fn holding(domain: &Domain, board: Board, name: &str, then: impl FnOnce()) {
    let lock = Mutex::<u64>::options(0).open_or_create(domain, name).expect("a lock");
    let guard = lock.lock_timeout(PATIENCE).expect("nobody has it").expect("in time");
    board.set(crate::operations::FREE, 1);
    then();
    drop(guard);
}

const MEMORY: u64 = 48 << 20;

/// A group whose processes may use that much memory, pages of a memory file system included.
fn of_little_memory(world: &World) -> Group {
    let old = "/sys/fs/cgroup/memory";
    if Path::new(old).join("memory.limit_in_bytes").exists() {
        let group = Group::make(world, "memory", &[old], "memory.limit_in_bytes");
        group.write("memory.limit_in_bytes", &MEMORY.to_string());
        group
    } else {
        let group = Group::make(world, "memory", &SECOND, "memory.max");
        group.write("memory.max", &MEMORY.to_string());
        let _ = fs::write(group.folder.join("memory.swap.max"), "0");
        group
    }
}

/// Shared memory counts as the group's whose process was the first to ask for it. A queue that may
/// become larger than the group's memory: the kernel kills the sender, or says that there is no room;
/// those outside go on. With a budget below the group's memory no process is killed.
fn a_domain_larger_than_the_groups_memory(world: &World) {
    let group = of_little_memory(world);
    let fill = |name: &str| {
        group.enter();
        let queue = Queue::<[u8]>::options().max_bytes(1 << 30);
        let queue = queue.open_or_create(&plain(world), name).expect("a queue");
        let sender = queue.sender().expect("a sender");
        while sender.try_send(&[1; 50_000]).is_ok() {}
    };
    let domain = plain(world);
    domain.set_max_bytes(Some(MEMORY / 3)).expect("set");
    Child::start(|| fill("with a budget")).finish();
    assert!(domain.allocated_bytes().expect("added up") <= MEMORY / 3);
    domain.remove("with a budget").expect("removed");
    domain.set_max_bytes(None).expect("taken away");
    let end = Child::start(|| fill("without")).wait_however_long();
    assert!(matches!(end, End::Signal(libc::SIGKILL) | End::Code(0)), "{end:?}");
    let queue = Queue::<[u8]>::open(&domain, "without").expect("there");
    let mut receiver = queue.receiver().expect("the first");
    while receiver.try_recv().expect("readable").is_some() {}
    queue.sender().expect("a sender").send_timeout(b"after it", PATIENCE).expect("there is room");
    assert_eq!(
        receiver.recv_timeout(PATIENCE).expect("readable").as_deref(),
        Some(&b"after it"[..])
    );
}

fn in_a_control_group_and_then_it_kills(world: &World) {
    let group = of_little_memory(world);
    let enter = || group.enter();
    run(&Environment { open: &|| plain(world), enter: &enter, forks: false, use_up: &|| {} });
    // The kernel takes the memory of a process that it kills before that process has ended, and the
    // process's marks may be lost. The waiters are told of the death all the same.
    let domain = plain(world);
    for round in 0..5 {
        let (board, name) = (Board::new(), format!("held-{round}"));
        let mut doomed = Child::start(|| {
            enter();
            let domain = plain(world);
            holding(&domain, board, &name, || {
                board.reach(crate::operations::FREE + 1, 1);
                let mut eaten: Vec<Vec<u8>> = Vec::new();
                loop {
                    eaten.push(vec![1; 1 << 20]);
                }
            });
        });
        board.reach(crate::operations::FREE, 1);
        let waiting = Child::start(|| {
            let lock = Mutex::<u64>::options(0).open_or_create(&domain, &name).expect("a lock");
            board.set(crate::operations::FREE + 1, 1);
            let got = lock.lock_timeout(PATIENCE);
            assert!(
                matches!(got, Err(LockError::OwnerDied(_))),
                "told of the death, not {:?}",
                got.map(|_| "locked")
            );
        });
        assert_eq!(doomed.wait(), End::Signal(libc::SIGKILL), "the group's memory runs out");
        waiting.finish();
    }
}

/// What a frozen process holds stays its own; what it does not hold goes on; and thawed it goes on
/// itself.
fn freeze(world: &World, group: &Group, freeze: impl Fn(bool)) {
    run(&Environment {
        open: &|| plain(world),
        enter: &|| group.enter(),
        forks: false,
        use_up: &|| {},
    });
    let domain = plain(world);
    let board = Board::new();
    let [holds, thawed] = [crate::operations::FREE, crate::operations::FREE + 1];
    let holder = Child::start(|| {
        group.enter();
        holding(&plain(world), board, "held", || _ = board.reach(thawed, 1));
    });
    // Sleepers that are frozen where they stand: one on a lock, one on a queue.
    let sleepers = ["lock", "queue"].map(|what| {
        Child::start(move || {
            group.enter();
            let domain = plain(world);
            board.add(holds + 2, 1);
            if what == "lock" {
                let lock =
                    Mutex::<u64>::options(0).open_or_create(&domain, "held").expect("a lock");
                drop(
                    lock.lock_timeout(PATIENCE)
                        .expect("given back by one that lives")
                        .expect("in time"),
                );
            } else {
                let queue = Queue::<[u8]>::open_or_create(&domain, "q").expect("a queue");
                let message = queue
                    .receiver()
                    .expect("the only one")
                    .recv_timeout(PATIENCE)
                    .expect("readable")
                    .expect("sent");
                assert_eq!(message, b"while it was frozen");
            }
        })
    });
    board.reach(holds, 1);
    board.reach(holds + 2, 2);
    std::thread::sleep(Duration::from_millis(200));
    freeze(true);
    let lock = Mutex::<u64>::options(0).open_or_create(&domain, "held").expect("a lock");
    let got = lock.lock_timeout(Duration::from_millis(1500));
    assert!(matches!(got, Ok(None)), "its owner is frozen, not dead: {:?}", got.map(|_| "locked"));
    drop(got);
    Queue::<[u8]>::open_or_create(&domain, "q")
        .expect("a queue")
        .sender()
        .expect("a sender")
        .send(b"while it was frozen")
        .expect("sent");
    // The others, beside all of these: in a domain of their own, since the names are taken.
    let other = || {
        crate::operations::options().open_or_create_at(world.folder().join("other")).expect("opens")
    };
    run(&Environment { open: &other, enter: &|| {}, forks: false, use_up: &|| {} });
    freeze(false);
    board.set(thawed, 1);
    holder.finish();
    sleepers.into_iter().for_each(Child::finish);
}

/// A freezer of the second version, and what freezes its group or lets it go on.
fn second_freezer(world: &World) -> Group {
    Group::make(world, "freezer", &SECOND, "cgroup.freeze")
}

fn freeze_by_second(group: &Group, on: bool) {
    group.write("cgroup.freeze", if on { "1" } else { "0" });
    let expected = if on { "frozen 1" } else { "frozen 0" };
    wait_until("the group is as it was told to be", || {
        group.read("cgroup.events").contains(expected)
    });
}

/// The same of the first version.
fn first_freezer(world: &World) -> Group {
    Group::make(world, "freezer", &["/sys/fs/cgroup/freezer"], "freezer.state")
}

fn freeze_by_first(group: &Group, on: bool) {
    let state = if on { "FROZEN" } else { "THAWED" };
    group.write("freezer.state", state);
    wait_until("the group is as it was told to be", || group.read("freezer.state").trim() == state);
}

fn frozen(world: &World) {
    let group = second_freezer(world);
    freeze(world, &group, |on| freeze_by_second(&group, on));
}

fn frozen_by_the_first_version(world: &World) {
    let group = first_freezer(world);
    freeze(world, &group, |on| freeze_by_first(&group, on));
}

/// Lets a frozen group go on, also when the check fails: until then its processes cannot be killed.
struct Frozen<F: Fn(bool)>(F);

impl<F: Fn(bool)> Frozen<F> {
    fn new(freeze: F) -> Frozen<F> {
        freeze(true);
        Frozen(freeze)
    }
}

impl<F: Fn(bool)> Drop for Frozen<F> {
    fn drop(&mut self) {
        (self.0)(false);
    }
}

/// The owner of a mutex dies while the first of its sleepers is frozen. Returns whether the other
/// sleepers are told before that one goes on. Where they are expected to be, the check fails if
/// they are not.
fn others_are_told(
    world: &World,
    group: &Group,
    freeze: impl Fn(bool),
    recheck: Option<Duration>,
    expected: bool,
) -> bool {
    let name = format!("recheck-{}", recheck.is_some());
    let plain = world.domain_named(&name);
    let domain = Domain::options().recheck(recheck).open_or_create_at(plain.path()).expect("opens");
    let board = Board::new();
    let [owns, told] = [crate::operations::FREE, crate::operations::FREE + 1];
    let mend = |domain: &Domain| {
        match Mutex::<u64>::options(0).open_or_create(domain, "m").expect("a lock").lock() {
            Ok(_) => {}
            Err(LockError::OwnerDied(mut guard)) => guard.mark_consistent(),
            Err(error) => panic!("{error}"),
        }
        board.add(told, 1);
    };
    let mut owner = Child::start(|| {
        let mutex = Mutex::<u64>::options(0).open_or_create(&plain, "m").expect("a lock");
        let _guard = mutex.lock().expect("nobody has it");
        board.set(owns, 1);
        loop {
            std::thread::park();
        }
    });
    board.reach(owns, 1);
    // Without a recheck of its own, so that it stays the first in the kernel's queue.
    let first = Child::start(|| {
        group.enter();
        mend(&plain);
    });
    wait_asleep(first.pid());
    let frozen = Frozen::new(freeze);
    let others: Vec<Child> = (0..3).map(|_| Child::start(|| mend(&domain))).collect();
    others.iter().for_each(|other| wait_asleep(other.pid()));
    owner.kill();
    if expected {
        board.reach(told, 3);
    } else {
        // Longer than any recheck, if there were one. How long does not matter to what must hold.
        std::thread::sleep(Duration::from_secs(3));
    }
    let are_told = board.get(told) > 0;
    drop(frozen);
    // What the frozen one has swallowed it passes on.
    first.finish();
    others.into_iter().for_each(Child::finish);
    are_told
}

const RECHECK: Option<Duration> = Some(Duration::from_secs(1));

/// This freezer interrupts what it freezes: whether the notice goes to the frozen sleeper is the
/// kernel's affair. The others are told in either case.
fn a_death_notice_that_a_frozen_sleeper_has(world: &World) {
    let group = second_freezer(world);
    others_are_told(world, &group, |on| freeze_by_second(&group, on), RECHECK, true);
}

/// This one freezes sleepers where they stand, in the queue on which the kernel tells the first
/// one of the death (since Linux 6.1; older kernels interrupt them). So the frozen sleeper has the
/// notice, and nothing but the recheck tells the others: that is seen without it.
fn a_death_notice_that_a_sleeper_frozen_by_the_first_version_has(world: &World) {
    let group = first_freezer(world);
    let freeze = |on| freeze_by_first(&group, on);
    others_are_told(world, &group, freeze, RECHECK, true);
    if kernel() >= (6, 1) {
        let are_told = others_are_told(world, &group, freeze, None, false);
        assert!(
            !are_told,
            "told without a recheck: the frozen sleeper did not have the notice, and this check says nothing"
        );
    }
}

/// The kernel's version.
fn kernel() -> (u32, u32) {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("readable");
    let mut numbers = release
        .split(|letter: char| !letter.is_ascii_digit())
        .filter_map(|number| number.parse().ok());
    (numbers.next().expect("a version"), numbers.next().expect("a version"))
}
