//! The channel `/outlive/events`: what comes and goes in the domain, and which publishers have died.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use foxglove::messages::log::Level;
use foxglove::messages::{Log, Timestamp};
use foxglove::{Channel, ChannelBuilder, Context};
use outlive::topic::{Session, Topic};
use outlive::{Domain, TokenId};

/// The channel's name.
pub const CHANNEL: &str = "/outlive/events";

/// See the head of this file.
pub struct Events {
    channel: Channel<Log>,
}

impl Events {
    /// Advertises the channel.
    pub fn new(context: &Arc<Context>) -> Events {
        Events { channel: ChannelBuilder::new(CHANNEL).context(context).build() }
    }

    /// Logs a line. `name`: the thing that it is about.
    pub fn log(&self, level: Level, name: &str, message: String) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let seconds = u32::try_from(now.as_secs()).unwrap_or(u32::MAX);
        self.channel.log(&Log {
            timestamp: Some(Timestamp::new(seconds, now.subsec_nanos())),
            level: level as i32,
            message,
            name: name.to_owned(),
            file: String::new(),
            line: 0,
        });
    }
}

/// A publisher, as it was when it came.
struct Known {
    ring: u32,
    publisher: TokenId,
    /// What people call its process.
    process: String,
}

/// The publishers of one topic.
#[derive(Default)]
pub struct Publishers {
    known: HashMap<u32, Known>,
    is_begun: bool,
}

impl Publishers {
    /// Compares the publishers of a topic with those that are known, logs the differences, and returns a
    /// line for each that has died.
    pub fn look(
        &mut self,
        domain: &Domain,
        name: &str,
        topic: &Topic,
        events: &Events,
    ) -> Vec<String> {
        let (sessions, _) = topic.sessions();
        let mut deaths = Vec::new();
        self.known.retain(|session, known| {
            if sessions.iter().any(|one| one.session == *session) {
                return true;
            }
            let lives = domain.peer(known.publisher).is_alive();
            if topic.has_left(known.ring, *session) == Some(false) && !lives {
                let message = format!("a publisher has died: {}", known.process);
                deaths.push(format!("{name}: {message}"));
                events.log(Level::Error, name, message);
            } else {
                events.log(Level::Info, name, format!("a publisher has left: {}", known.process));
            }
            false
        });
        for Session { ring, session, publisher, .. } in sessions {
            if self.known.contains_key(&session) {
                continue;
            }
            let process = process(domain, publisher);
            if self.is_begun {
                events.log(Level::Info, name, format!("a publisher has come: {process}"));
            }
            self.known.insert(session, Known { ring, publisher, process });
        }
        self.is_begun = true;
        deaths
    }
}

/// Returns what people call a process: its node's name, and its number.
fn process(domain: &Domain, token: TokenId) -> String {
    let pid = domain.tokens().into_iter().find(|info| info.id == token).map(|info| info.pid);
    let pid = pid.map_or_else(|| "process ?".to_owned(), |pid| format!("process {pid}"));
    match domain.node_of(token) {
        Ok(Some(node)) => format!("{} ({pid})", node.name),
        _ => pid,
    }
}
