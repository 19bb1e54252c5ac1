//! What the robot's processes tell each other and the parent.

use std::sync::atomic::{AtomicU64, Ordering};

use outlive::Domain;
use outlive::sync::Record;

use super::{SENSORS, WATCHERS};
use crate::exit::Failure;
use crate::verbs::demo::Role;

outlive::record! {
    /// Counters, each written by one side.
    pub struct Board {
        // Written by each sensor.
        /// Frames whose publishing has returned.
        pub published: [AtomicU64; 4],
        /// Bytes of them, all sensors together.
        pub published_bytes: AtomicU64,
        // Written by watchers.
        /// The frame that the watcher which lives now expects; `NONE`: any.
        pub next: [AtomicU64; 4],
        /// Frames looked at.
        pub looks: AtomicU64,
        /// Frames whose checksum was wrong, on arrival or later.
        pub changed: AtomicU64,
        /// Frames missing between two that the reliable watcher got.
        pub lost_for_reliable: AtomicU64,
        /// Frames that came too late.
        pub out_of_order: AtomicU64,
        /// Frames that other watchers passed over.
        pub passed_over: AtomicU64,
        /// Lines of the log whose sending has returned, by watcher.
        pub logged: [AtomicU64; 4],
        // Written by the logger.
        /// The line that is expected next, by watcher.
        pub log_next: [AtomicU64; 4],
        /// Lines missing between two that came.
        pub log_lost: AtomicU64,
        // Written by each member, in a place of its own.
        /// How much it has done.
        pub done: [AtomicU64; 8],
    }
}

const _: () =
    assert!(SENSORS.len() <= 4 && WATCHERS.len() <= 4 && SENSORS.len() + WATCHERS.len() < 8);

/// Nothing is expected: a new watcher takes what comes.
pub const NONE: u64 = u64::MAX;

impl Board {
    /// Returns the demo's one.
    pub fn open(domain: &Domain) -> Result<Record<Board>, Failure> {
        let nothing = |board: &mut Board| {
            board.next.iter().for_each(|next| next.store(NONE, Ordering::Relaxed))
        };
        Ok(Record::<Board>::options().init(nothing).open_or_create(domain, "robot.board")?)
    }

    /// Counts something that a member did.
    pub fn note(&self, role: Role, index: u32) {
        self.done[place(role, index)].fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns a member's place among all of them.
pub fn place(role: Role, index: u32) -> usize {
    match role {
        Role::Sensor => index as usize,
        Role::Watcher => SENSORS.len() + index as usize,
        _ => SENSORS.len() + WATCHERS.len(),
    }
}
