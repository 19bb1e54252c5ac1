//! A domain in a state as it may be found: claims of the living and of the dead, queues full,
//! orphaned and fresh.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use outlive::Domain;
use outlive::pool::Pool;
use outlive::queue::{Queue, QueueOptions};
use outlive::sync::{EmbeddedMutex, Mutex, Record};
use outlive::topic::Topic;

use crate::board::Board;
use crate::locks::{self, Locks};
use crate::pools;
use crate::snapshot::Snapshot;
use crate::topics;
use crate::watch::Child;

outlive::record! {
    /// A struct with three locks inside.
    pub struct Shared {
        /// An atomic.
        pub ticks: AtomicU64,
        /// Locks: one free, one held by the living, one by the dead.
        pub locks: [EmbeddedMutex<u64>; 3],
    }
}

/// The mutexes, by their holders.
pub const MUTEXES: [&str; 3] = ["free", "held", "dead"];
/// The queues: never used; full, its receiver alive elsewhere; its receiver and a sender dead.
pub const QUEUES: [&str; 3] = ["fresh", "full", "orphan"];
/// A queue of values instead of bytes, with some in it.
pub const VALUES: &str = "values";
/// The record.
pub const RECORD: &str = "record";

/// A domain, everything in it open, and all its bytes as they were at first.
pub struct World {
    folder: PathBuf,
    pub domain: Domain,
    pub mutexes: Vec<Mutex<u64>>,
    pub record: Record<Shared>,
    pub queues: Vec<Queue>,
    pub values: Queue<[u8; 24]>,
    pub locks: Locks,
    pub pool: Pool,
    pub topic: Topic,
    pub files: Vec<Snapshot>,
    /// Ids that occur in it, of the living and of the dead.
    pub ids: Vec<u32>,
    /// Holds what the living hold. Its token is in every snapshot.
    _resident: Child,
}

fn base(pid: u32) -> PathBuf {
    PathBuf::from(format!("/dev/shm/outlive-fuzz-{pid}"))
}

/// Folders of runs that were killed themselves.
pub fn clear_ended_runs() {
    for entry in fs::read_dir("/dev/shm").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix("outlive-fuzz-"));
        if let Some(pid) = pid.and_then(|pid| pid.parse::<u32>().ok())
            && !Path::new(&format!("/proc/{pid}")).exists()
        {
            let _ = fs::remove_dir_all(base(pid));
        }
    }
}

impl World {
    /// Makes it, in a folder of this process's own. The calling process claims nothing.
    pub fn new() -> World {
        let folder = base(std::process::id());
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).expect("a folder in /dev/shm can be made");
        let open = || {
            // The recheck reads /proc, which no fuzzer scribbles over; it comes often, so that it
            // is exercised.
            let often = Some(Duration::from_millis(3));
            Domain::options()
                .recheck(often)
                .open_or_create_at(folder.join("domain"))
                .expect("opens")
        };
        // Children make everything, so that no token of this process is in the registry.
        Child::start(|| {
            let domain = open();
            let values = make_values(&domain).sender().expect("a sender");
            values.send_batch(&[[8; 24]; 3]).expect("room");
            values.send(&[9; 24]).expect("room");
            drop((
                make(&domain),
                locks::make(&domain),
                pools::make(&domain),
                topics::make(&domain),
            ));
        })
        .wait_well();
        let board = Board::new();
        let dead = Child::start(|| {
            let domain = open();
            let (mutexes, record, queues) = make(&domain);
            std::mem::forget(mutexes[2].lock());
            std::mem::forget(record.lock(|record| &record.locks[2]));
            let mut receiver = queues[2].receiver().expect("the first");
            let sender = queues[2].sender().expect("a sender");
            // In the slot, in objects of two classes and in a run of spans; singly and in batches.
            for number in 0..30u8 {
                let len = [20, 60, 300, 20_000][usize::from(number % 4)];
                sender.send(&vec![number; len]).expect("room");
            }
            sender.send_batch(&[[1u8; 20]; 6]).expect("room");
            sender.send_batch(&[[1u8; 3]; 4]).expect("room");
            for _ in 0..11 {
                receiver.recv().expect("sent");
            }
            // Not committed: the next receiver gets it again.
            receiver.peek().expect("sent");
            std::mem::forget((receiver, sender));
            locks::claim_as_the_dying(&domain);
            pools::claim_as_the_dying(&domain);
            topics::claim_as_the_dying(&domain);
            board.set_stop(true);
            loop {
                std::thread::park();
            }
        });
        while !board.must_stop() {
            std::thread::sleep(Duration::from_micros(100));
        }
        drop(dead);
        board.set_stop(false);
        let resident = Child::start(|| {
            let domain = open();
            let (mutexes, record, queues) = make(&domain);
            let _mutex = mutexes[1].lock().expect("free");
            let _lock = record.lock(|record| &record.locks[1]).expect("free");
            let _receiver = queues[1].receiver().expect("the first");
            let senders: Vec<_> =
                queues.iter().map(|queue| queue.sender().expect("a sender")).collect();
            for len in [60, 3_000] {
                while senders[1].try_send(&vec![5; len]).is_ok() {}
            }
            locks::claim_as_the_living(&domain);
            pools::claim_as_the_living(&domain);
            topics::claim_as_the_living(&domain);
            board.set_stop(true);
            loop {
                std::thread::park();
            }
        });
        while !board.must_stop() {
            std::thread::sleep(Duration::from_micros(100));
        }
        let domain = open();
        let (mutexes, record, queues) = make(&domain);
        let values = make_values(&domain);
        let locks = locks::make(&domain);
        let pool = pools::make(&domain);
        let topic = topics::make(&domain);
        let names = [".tokens", RECORD]
            .into_iter()
            .chain(MUTEXES)
            .chain(QUEUES)
            .chain(locks::NAMES)
            .chain([VALUES, pools::NAME, topics::NAME])
            .map(str::to_owned)
            .chain(topics::control_file(domain.path()));
        let files =
            names.map(|name| Snapshot::take(domain.path(), &name).expect("readable")).collect();
        let ids = domain.tokens().iter().map(|token| token.id.as_u32()).collect();
        World {
            folder,
            domain,
            mutexes,
            record,
            queues,
            values,
            locks,
            pool,
            topic,
            files,
            ids,
            _resident: resident,
        }
    }

    /// Everything as it was at first.
    pub fn restore(&self) {
        for file in &self.files {
            file.restore().expect("written");
        }
    }

    pub fn file(&self, name: &str) -> Option<&Snapshot> {
        self.files.iter().find(|file| file.name == name)
    }

    /// Returns a folder beside the domain, for copies.
    pub fn beside(&self) -> PathBuf {
        self.folder.join("copy")
    }

    /// Returns bytes of memory that the files take.
    pub fn bytes(&self) -> u64 {
        use std::os::unix::fs::MetadataExt;
        let entries = fs::read_dir(self.domain.path()).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.metadata().ok()).map(|facts| facts.blocks() * 512).sum()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn options() -> QueueOptions {
    Queue::<[u8]>::options().max_bytes(1 << 20).slots(4)
}

/// Opens everything, made when it is not there.
pub fn make(domain: &Domain) -> (Vec<Mutex<u64>>, Record<Shared>, Vec<Queue>) {
    let mutexes =
        MUTEXES.map(|name| Mutex::options(1).open_or_create(domain, name).expect("opens"));
    let record = Record::open_or_create(domain, RECORD).expect("opens");
    let queues = QUEUES.map(|name| options().open_or_create(domain, name).expect("made"));
    (mutexes.into(), record, queues.into())
}

fn make_values(domain: &Domain) -> Queue<[u8; 24]> {
    Queue::options().max_bytes(1 << 20).slots(4).open_or_create(domain, VALUES).expect("made")
}
