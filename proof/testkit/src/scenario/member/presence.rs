//! Orders about the participants that come to a topic and leave it: two threads follow them, one
//! plainly, one in a wait set, and note what they are told.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use outlive::topic::{Participants, Presence, Topic};
use outlive::wait::WaitSet;
use outlive::{Domain, WaitStrategy};

use super::topic::{subscriber, topic};

/// A thread that follows, and what it was told last.
struct Follower {
    told: Arc<Mutex<String>>,
    thread: JoinHandle<Result<(), String>>,
}

struct Following {
    topic: Topic,
    over: Arc<AtomicBool>,
    followers: Vec<Follower>,
}

/// The topics that a survivor follows.
#[derive(Default)]
pub struct Followers {
    by_name: BTreeMap<String, Following>,
}

fn show(present: &Participants) -> String {
    format!("{} {}", present.publishers.len(), present.subscribers.len())
}

/// Follows until it is over, which the next coming tells.
fn follow(mut presence: Presence, over: &AtomicBool, told: &Mutex<String>) -> Result<(), String> {
    loop {
        let present = presence.changed().map_err(|error| error.to_string())?;
        if over.load(Ordering::SeqCst) {
            return Ok(());
        }
        *told.lock().unwrap_or_else(PoisonError::into_inner) = show(&present);
    }
}

fn follow_in_set(
    domain: &Domain,
    mut presence: Presence,
    over: &AtomicBool,
    told: &Mutex<String>,
) -> Result<(), String> {
    let mut set = WaitSet::new(domain);
    set.set_wait_strategy(WaitStrategy::Block);
    set.add(&presence).map_err(|error| error.to_string())?;
    loop {
        set.wait().map_err(|error| error.to_string())?;
        if over.load(Ordering::SeqCst) {
            return Ok(());
        }
        if let Some(present) = presence.try_changed().map_err(|error| error.to_string())? {
            *told.lock().unwrap_or_else(PoisonError::into_inner) = show(&present);
        }
    }
}

impl Following {
    fn begin(domain: &Domain, topic: Topic) -> Following {
        let over = Arc::new(AtomicBool::new(false));
        let start = |in_set: bool| {
            let told = Arc::new(Mutex::new(String::new()));
            let (domain, presence, over, note) =
                (domain.clone(), topic.watch(), Arc::clone(&over), Arc::clone(&told));
            let thread = std::thread::spawn(move || {
                if in_set {
                    follow_in_set(&domain, presence, &over, &note)
                } else {
                    follow(presence, &over, &note)
                }
            });
            Follower { told, thread }
        };
        let followers = vec![start(false), start(true)];
        Following { topic, over, followers }
    }

    fn end(self) -> Result<(), String> {
        self.over.store(true, Ordering::SeqCst);
        let news = subscriber(&self.topic, false, 0)?;
        for follower in self.followers {
            follower.thread.join().map_err(|_| "a follower panicked".to_owned())??;
        }
        drop(news);
        Ok(())
    }
}

impl Followers {
    /// Carries out an order; see the match for which there are.
    pub fn obey(&mut self, domain: &Domain, order: &[&str]) -> Result<String, String> {
        match order {
            ["follow", name] => {
                let following = Following::begin(domain, topic(domain, name)?);
                self.by_name.insert((*name).to_owned(), following);
                Ok(String::new())
            }
            // Publishers and subscribers, as either was told last.
            ["told", name] => {
                let following = self.by_name.get(*name).ok_or("nobody follows it")?;
                let told = following.followers.iter();
                let told = told.map(|follower| {
                    follower.told.lock().unwrap_or_else(PoisonError::into_inner).clone()
                });
                Ok(told.collect::<Vec<_>>().join(", "))
            }
            ["end", name] => {
                let following = self.by_name.remove(*name).ok_or("nobody follows it")?;
                following.end().map(|()| String::new())
            }
            _ => Err("unknown order".to_owned()),
        }
    }
}
