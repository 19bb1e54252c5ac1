//! The demo's robot: sensors publish frames, watchers of several kinds look at them, a logger
//! writes down what they say.
//!
//! ```text
//!   camera.front, 30 Hz ─┬▶ every frame ──────┐
//!                        └▶ slow, holds six ──┤  queue
//!   camera.back, 30 Hz ───▶ reliable ─────────┼────────▶ logger
//!   lidar, 10 Hz ─────────▶ the latest only ──┘
//! ```
//!
//! Any of them is killed at any moment. What must hold: a frame does not change while a watcher
//! holds it; the reliable watcher, as long as it lives, gets every frame; a killed process is
//! counted no more, at once; no line of the log is lost.

mod board;
mod frames;
mod logger;
mod sensor;
mod watcher;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use outlive::Domain;
use outlive::queue::Queue;
use outlive::sync::Record;
use outlive::topic::Topic;

use super::{DemoArgs, Role};
use crate::exit::Failure;
use board::{Board, NONE};
pub use logger::run as run_logger;
pub use sensor::run as run_sensor;
pub use watcher::run as run_watcher;

/// What a sensor sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sees {
    Pictures,
    Scans,
}

/// A sensor: its topic, what it sees, and how often.
struct Sensor {
    topic: &'static str,
    sees: Sees,
    hertz: u32,
}

const SENSORS: [Sensor; 3] = [
    Sensor { topic: "camera.front", sees: Sees::Pictures, hertz: 30 },
    Sensor { topic: "camera.back", sees: Sees::Pictures, hertz: 30 },
    Sensor { topic: "lidar", sees: Sees::Scans, hertz: 10 },
];

/// How a watcher takes frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watches {
    /// Each as it comes.
    Every,
    /// The newest one only.
    Latest,
    /// Each, and publishers wait for it.
    Reliable,
    /// Takes its time, and holds six at once.
    Slow,
}

/// A watcher, and the sensor that it watches.
const WATCHERS: [(Watches, usize); 4] =
    [(Watches::Every, 0), (Watches::Slow, 0), (Watches::Reliable, 1), (Watches::Latest, 2)];

/// The queue that the log goes through.
const LOG: &str = "robot.log";
/// Frames that a topic keeps of each publisher, and the memory that it may take.
const DEPTH: u32 = 8;
const TOPIC_BYTES: u64 = 512 << 20;

/// The parent's view of it.
pub struct Robot {
    board: Record<Board>,
    topics: Vec<Topic<[u8]>>,
    killed: u64,
    counts_wrong: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct Outcome {
    /// Frames published.
    pub frames: u64,
    /// Their bytes.
    pub frame_bytes: u64,
    /// Looks that watchers had at one.
    pub looks: u64,
    /// Frames that watchers which are not reliable passed over, as they may.
    pub passed_over: u64,
    /// Lines of the log.
    pub log_lines: u64,
    /// Sensors, watchers and loggers that were killed.
    pub robot_killed: u64,
    /// Frames that were changed when they came, or while they were held. Must be 0, as all below.
    pub samples_changed: u64,
    /// Frames that the reliable watcher did not get.
    pub lost_for_reliable: u64,
    /// Frames that came before an earlier one of their sensor.
    pub frames_out_of_order: u64,
    /// How often a killed process was still counted among publishers or subscribers.
    pub counts_wrong: u64,
    /// Lines of the log that were sent and not received.
    pub log_lost: u64,
}

impl Outcome {
    /// Returns what must be zero, by the name under which it is printed.
    pub fn zeroes(&self) -> [(&'static str, u64); 5] {
        [
            ("samples changed while held", self.samples_changed),
            ("lost for the reliable subscriber", self.lost_for_reliable),
            ("frames out of order", self.frames_out_of_order),
            ("counts wrong after a kill", self.counts_wrong),
            ("log lines lost", self.log_lost),
        ]
    }
}

impl Robot {
    /// Makes the topics, the queue and the board, before any process uses them.
    pub fn set(args: &DemoArgs, folder: &Path, domain: &Domain) -> Result<Robot, Failure> {
        frames::gather(folder, args.data.as_deref())?;
        Queue::<[u8]>::options().max_bytes(16 << 20).open_or_create(domain, LOG)?;
        let topic = |sensor: &Sensor| {
            Ok(Topic::<[u8]>::options()
                .depth(DEPTH)
                .max_bytes(TOPIC_BYTES)
                .reliable(true)
                .open_or_create(domain, sensor.topic)?)
        };
        let topics = SENSORS.iter().map(topic).collect::<Result<Vec<_>, Failure>>()?;
        Ok(Robot { board: Board::open(domain)?, topics, killed: 0, counts_wrong: 0 })
    }

    /// Returns its processes, in the order of their places.
    pub fn members() -> impl Iterator<Item = (Role, u32)> {
        let sensors = (0..SENSORS.len() as u32).map(|index| (Role::Sensor, index));
        let watchers = (0..WATCHERS.len() as u32).map(|index| (Role::Watcher, index));
        sensors.chain(watchers).chain([(Role::Logger, 0)])
    }

    /// Returns what a member has done so far.
    pub fn done(&self, role: Role, index: u32) -> u64 {
        self.board.done[board::place(role, index)].load(Ordering::Relaxed)
    }

    /// Frames published, and how many of the robot's processes were killed.
    pub fn figures(&self) -> (u64, u64) {
        (self.board.published.iter().map(|count| count.load(Ordering::Relaxed)).sum(), self.killed)
    }

    /// Checks that no process counts that one any more, which was killed a moment ago.
    pub fn was_killed(&mut self, pid: u32) {
        self.killed += 1;
        for (at, topic) in self.topics.iter().enumerate() {
            let (publishers, subscribers) = (topic.publishers(), topic.subscribers());
            let is_counted = publishers.iter().chain(&subscribers).any(|who| who.pid == pid);
            let watchers = WATCHERS.iter().filter(|(_, watched)| *watched == at).count();
            self.counts_wrong +=
                u64::from(is_counted || publishers.len() > 1 || subscribers.len() > watchers);
        }
    }

    /// Returns what it came to, now that all have ended.
    pub fn judge(&self) -> Outcome {
        let board = &self.board;
        let sum = |words: &[AtomicU64]| {
            words.iter().map(|word| word.load(Ordering::Acquire)).sum::<u64>()
        };
        let mut lost_for_reliable: u64 = board.lost_for_reliable.load(Ordering::Acquire);
        for (at, (watches, watched)) in WATCHERS.iter().enumerate() {
            let next = board.next[at].load(Ordering::Acquire);
            if *watches == Watches::Reliable && next != NONE {
                // What came after the last one that it saw.
                lost_for_reliable +=
                    board.published[*watched].load(Ordering::Acquire).saturating_sub(next);
            }
        }
        let logged = board.logged.iter().zip(&board.log_next);
        let missing = logged.map(|(sent, next)| {
            sent.load(Ordering::Acquire).saturating_sub(next.load(Ordering::Acquire))
        });
        Outcome {
            frames: sum(&board.published),
            frame_bytes: board.published_bytes.load(Ordering::Acquire),
            looks: board.looks.load(Ordering::Acquire),
            passed_over: board.passed_over.load(Ordering::Acquire),
            log_lines: sum(&board.log_next),
            robot_killed: self.killed,
            samples_changed: board.changed.load(Ordering::Acquire),
            lost_for_reliable,
            frames_out_of_order: board.out_of_order.load(Ordering::Acquire),
            counts_wrong: self.counts_wrong,
            log_lost: board.log_lost.load(Ordering::Acquire) + missing.sum::<u64>(),
        }
    }
}
