//! What it came to: figures for the person, and zeroes that a program may rely on.

use std::time::Duration;

use serde::Serialize;

use super::robot::Outcome;
use super::table::milliseconds;
use crate::exit::Failure;
use crate::output::{self, bytes, count, counted};

/// The result of a demo.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// Whether everything that must be zero is.
    pub ok: bool,
    /// Ended early by a person.
    pub interrupted: bool,
    /// The seed of the killer's dice.
    pub seed: u64,
    /// Producers at a time.
    pub producers: u32,
    /// How long producers sent.
    pub seconds: f64,
    /// Records acknowledged, each compared.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Records a second.
    pub messages_per_second: f64,
    /// How many processes were killed.
    pub killed: Killed,
    /// Times the lock was taken over from a dead owner.
    pub owner_deaths: u64,
    /// Sends cut short by a death.
    pub abandoned: u64,
    /// Messages handed out again after a consumer's death, marked.
    pub redelivered: u64,
    /// Records that a replacement sent again because its predecessor died before it was told.
    pub sent_again: u64,
    /// How often the queue grew.
    pub grown: u64,
    /// The longest time without a message.
    pub longest_stall_ms: f64,
    /// What the robot did.
    #[serde(flatten)]
    pub robot: Option<Outcome>,
    /// Acknowledged and not received. Must be 0, as all below.
    pub lost: u64,
    /// Received with another length or checksum than they were sent with.
    pub corrupted: u64,
    /// Received twice without being marked.
    pub duplicates_not_marked: u64,
    /// Received before an earlier one of their source.
    pub out_of_order: u64,
    /// By how much the total under the lock is wrong, and how often it was found half-written.
    pub total_wrong: u64,
    /// Processes that hung, or did not end when asked to.
    pub hung: u64,
}

/// How many processes were killed.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Killed {
    /// Producers.
    pub producers: u64,
    /// Consumers.
    pub consumers: u64,
}

impl Verdict {
    /// Returns what must be zero, by the name under which it is printed.
    pub fn zeroes(&self) -> Vec<(&'static str, u64)> {
        let own = [
            ("acknowledged and lost", self.lost),
            ("corrupted", self.corrupted),
            ("duplicates not marked", self.duplicates_not_marked),
            ("out of order", self.out_of_order),
            ("wrong total under the lock", self.total_wrong),
        ];
        let robots = self.robot.iter().flat_map(Outcome::zeroes);
        own.into_iter().chain(robots).chain([("hung", self.hung)]).collect()
    }

    /// Prints it.
    pub fn print(&self, json: bool) -> Result<(), Failure> {
        if json {
            return output::print_json(self);
        }
        let mut text = format!(
            "{} acknowledged in {:.1} s{}, {}; every checksum compared\n",
            counted(self.messages, "message"),
            self.seconds,
            if self.interrupted { " (ended early)" } else { "" },
            bytes(self.bytes)
        );
        text.push_str(&format!(
            "{} and {} killed; longest stall {}\n",
            counted(self.killed.producers, "producer"),
            counted(self.killed.consumers, "consumer"),
            milliseconds(Duration::from_secs_f64(self.longest_stall_ms / 1e3)),
        ));
        text.push_str(&format!(
            "{} recovered, {} abandoned, {} redelivered\n",
            counted(self.owner_deaths, "owner death"),
            counted(self.abandoned, "send"),
            count(self.redelivered),
        ));
        if let Some(robot) = &self.robot {
            text.push_str(&format!(
                "robot: {} published, {}; {} checked, {} passed over, {}, {} killed\n",
                counted(robot.frames, "frame"),
                bytes(robot.frame_bytes),
                count(robot.looks),
                count(robot.passed_over),
                counted(robot.log_lines, "log line"),
                count(robot.robot_killed),
            ));
        }
        for (name, figure) in self.zeroes() {
            text.push_str(&format!("{name}: {}\n", count(figure)));
        }
        output::print(text)
    }
}
