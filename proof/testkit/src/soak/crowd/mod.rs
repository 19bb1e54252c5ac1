//! Topics, a state and a service, used by many processes that are killed and stopped at random,
//! round after round.
//!
//! - A keeper, one for each topic, is never killed. It subscribes reliably, takes all there is and
//!   holds some of it. Nothing published is lost for it, nothing comes twice, and no sample that it
//!   holds changes.
//! - A publisher comes, publishes by copies and in place, waits for the reliable subscribers,
//!   plainly and in a wait set, and goes. What is acknowledged arrives.
//! - A passer-by comes, takes what it can get of some topics, plainly or by a wait set, holds some
//!   of it, and goes. What comes is whole and in order.
//! - Setters take turns at writing a state, and getters read it. Values are whole, and never older
//!   than one seen before.
//! - Servers take turns at serving, and clients ask. An answer is the answer to that question.
//! - A sweeper sweeps.
//!
//! The others start when all keepers have subscribed. After each round all but the keepers are
//! killed; these take what is there, and let go of it. Then the books must agree, nothing of the
//! dead may be left, and what memory is in use is noted: it must not grow from round to round.

pub mod book;
pub mod supervisor;
mod users;
pub mod worker;

use outlive::topic::{Durability, Topic};
use outlive::{Domain, Error};

/// How many topics there are, each with a keeper: the first workers.
pub const TOPICS: usize = 4;
/// The most processes at a time, and how many there are unless said otherwise.
pub const MOST: usize = 64;
/// See [`MOST`].
pub const USUAL: usize = 30;

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Of the topic of that number.
    Keeper(usize),
    /// See the folder's head.
    Publisher,
    /// See the folder's head.
    PasserBy,
    /// See the folder's head.
    Setter,
    /// See the folder's head.
    Getter,
    /// See the folder's head.
    Server,
    /// See the folder's head.
    Client,
    /// See the folder's head.
    Sweeper,
}

/// After the keepers, again and again.
const PARTS: [Role; 26] = {
    use Role::{Client, Getter, PasserBy, Publisher, Server, Setter, Sweeper};
    [
        Publisher, Publisher, PasserBy, Server, Client, Setter, PasserBy, Publisher, Getter,
        Sweeper, Client, Publisher, Server, PasserBy, Publisher, Setter, Publisher, PasserBy,
        Getter, Publisher, Client, Publisher, PasserBy, Publisher, PasserBy, Publisher,
    ]
};

impl Role {
    /// What the worker of that number does.
    #[must_use]
    pub fn of(number: usize) -> Role {
        if number < TOPICS { Role::Keeper(number) } else { PARTS[(number - TOPICS) % PARTS.len()] }
    }
}

/// A topic's name.
#[must_use]
pub fn topic_name(topic: usize) -> String {
    format!("topic-{topic}")
}

/// The topic of that number. From two to 64 messages are kept, and memory runs out now and then.
///
/// # Errors
/// What opening says.
pub fn open_topic(domain: &Domain, topic: usize) -> Result<Topic, Error> {
    let depth = [2, 4, 16, 64][topic % TOPICS];
    let options = Topic::options().depth(depth).max_bytes(24 << 20).reliable(true);
    let options = options.durability(Durability::Persistent);
    options.open_or_create(domain, &topic_name(topic))
}
