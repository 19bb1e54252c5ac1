//! Control groups: one whose memory runs out, so that the kernel kills; and freezers, of the second version and of the first.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use outlive::Domain;
use outlive::queue::Queue;
use outlive::sync::{LockError, Mutex};

use crate::board::Board;
use crate::child::{Child, End, PATIENCE, wait_until};
use crate::operations::{Environment, plain, run};
use crate::runner::World;

crate::checks!(
    in_a_control_group_and_then_it_kills: 90,
    frozen: 60,
    frozen_by_the_first_version: 60,
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
        fs::write(self.folder.join(file), text).unwrap_or_else(|error| panic!("{file} of the group: {error}"));
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
        // Frozen processes cannot be killed by the first version.
        let _ = fs::write(self.folder.join("freezer.state"), "THAWED");
        let _ = fs::write(self.folder.join("cgroup.freeze"), "0");
        for pid in self.read("cgroup.procs").lines().filter_map(|pid| pid.parse().ok()) {
            // SAFETY: no pointers are passed; only processes that the check has started are in its group.
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
    let lock = Mutex::<u64>::open(domain, name, 0).expect("a lock");
    let guard = lock.lock_until(PATIENCE).expect("nobody has it");
    board.set(crate::operations::FREE, 1);
    then();
    drop(guard);
}

fn in_a_control_group_and_then_it_kills(world: &World) {
    const MEMORY: u64 = 48 << 20;
    let old = "/sys/fs/cgroup/memory";
    let group = if Path::new(old).join("memory.limit_in_bytes").exists() {
        let group = Group::make(world, "memory", &[old], "memory.limit_in_bytes");
        group.write("memory.limit_in_bytes", &MEMORY.to_string());
        group
    } else {
        let group = Group::make(world, "memory", &SECOND, "memory.max");
        group.write("memory.max", &MEMORY.to_string());
        let _ = fs::write(group.folder.join("memory.swap.max"), "0");
        group
    };
    let enter = || group.enter();
    run(&Environment { open: &|| plain(world), enter: &enter, forks: false, use_up: &|| {} });
    // The kernel takes the memory of what it kills before that has ended, and may lose its marks: whoever waits is told all the same.
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
            let lock = Mutex::<u64>::open(&domain, &name, 0).expect("a lock");
            board.set(crate::operations::FREE + 1, 1);
            let got = lock.lock_until(PATIENCE);
            assert!(matches!(got, Err(LockError::OwnerDied(_))), "told of the death, not {:?}", got.map(|_| "locked"));
        });
        assert_eq!(doomed.wait(), End::Signal(libc::SIGKILL), "the group's memory runs out");
        waiting.finish();
    }
}

/// What a frozen process holds stays its own; what it does not hold goes on; and thawed it goes on itself.
fn freeze(world: &World, group: &Group, freeze: impl Fn(bool)) {
    run(&Environment { open: &|| plain(world), enter: &|| group.enter(), forks: false, use_up: &|| {} });
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
                let lock = Mutex::<u64>::open(&domain, "held", 0).expect("a lock");
                drop(lock.lock_until(PATIENCE).expect("given back by one that lives"));
            } else {
                let queue = Queue::create(&domain, "q").expect("a queue");
                let message = queue.receiver().expect("the only one").recv_until(PATIENCE).expect("sent");
                assert_eq!(message, b"while it was frozen");
            }
        })
    });
    board.reach(holds, 1);
    board.reach(holds + 2, 2);
    std::thread::sleep(Duration::from_millis(200));
    freeze(true);
    let lock = Mutex::<u64>::open(&domain, "held", 0).expect("a lock");
    let got = lock.lock_until(Duration::from_millis(1500));
    assert!(matches!(got, Err(LockError::TimedOut)), "its owner is frozen, not dead: {:?}", got.map(|_| "locked"));
    drop(got);
    Queue::create(&domain, "q")
        .expect("a queue")
        .sender()
        .expect("a sender")
        .send(b"while it was frozen")
        .expect("sent");
    // The others, beside all of these: in a domain of their own, since the names are taken.
    let other = || crate::operations::options().open_at(world.folder().join("other")).expect("opens");
    run(&Environment { open: &other, enter: &|| {}, forks: false, use_up: &|| {} });
    freeze(false);
    board.set(thawed, 1);
    holder.finish();
    sleepers.into_iter().for_each(Child::finish);
}

fn frozen(world: &World) {
    let group = Group::make(world, "freezer", &SECOND, "cgroup.freeze");
    freeze(world, &group, |on| {
        group.write("cgroup.freeze", if on { "1" } else { "0" });
        let expected = if on { "frozen 1" } else { "frozen 0" };
        wait_until("the group is as it was told to be", || group.read("cgroup.events").contains(expected));
    });
}

fn frozen_by_the_first_version(world: &World) {
    let group = Group::make(world, "freezer", &["/sys/fs/cgroup/freezer"], "freezer.state");
    freeze(world, &group, |on| {
        let state = if on { "FROZEN" } else { "THAWED" };
        group.write("freezer.state", state);
        wait_until("the group is as it was told to be", || group.read("freezer.state").trim() == state);
    });
}
