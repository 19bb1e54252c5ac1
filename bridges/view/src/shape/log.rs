//! Lines of a log: structs with a level and a text, as ROS's `rosgraph_msgs/Log` and `rcl_interfaces/Log`.

use foxglove::messages::log::Level;
use foxglove::messages::{Log, Timestamp};
use outlive::describe::Description;

use super::fields::Fields;

/// Reads one; `None` if it is none.
pub fn log(description: &Description, bytes: &[u8], time: Timestamp) -> Option<Log> {
    let fields = Fields::of(description, bytes)?;
    let message = fields.text(&["message", "msg", "text"])?;
    let level = match fields.whole(&["level", "severity"]) {
        Some(number) => level_of(number),
        None => level_named(&fields.text(&["level", "severity"])?),
    };
    let text = |names: &[&str]| fields.text(names).unwrap_or_default();
    Some(Log {
        timestamp: Some(time),
        level: level as i32,
        message,
        name: text(&["name", "logger"]),
        file: text(&["file"]),
        line: fields.whole(&["line"]).unwrap_or(0),
    })
}

/// ROS 2's numbers are tens; ROS 1's are powers of two, which differ from Foxglove's own from 4 on.
fn level_of(number: u32) -> Level {
    match number {
        1 | 10 => Level::Debug,
        2 | 20 => Level::Info,
        4 | 3 | 30 => Level::Warning,
        8 | 40 => Level::Error,
        5 | 16 | 50 => Level::Fatal,
        _ => Level::Unknown,
    }
}

fn level_named(name: &str) -> Level {
    match name.to_ascii_lowercase().as_str() {
        "trace" | "debug" => Level::Debug,
        "info" => Level::Info,
        "warn" | "warning" => Level::Warning,
        "error" => Level::Error,
        "fatal" | "critical" => Level::Fatal,
        _ => Level::Unknown,
    }
}
