//! Orders about what is watched beside topics: a service's clients, and a domain. Two threads watch,
//! one plainly, one in a wait set, and note what they are told, in order.
//!
//! | word | what was told |
//! | --- | --- |
//! | `Z7`, `L7`, `D7` | the client whose process is 7 is not lively, is lively again, has died |
//! | `a,b;n` | the domain has the things a and b, and the node n |

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use outlive::node::{DomainContents, DomainWatch};
use outlive::rpc::{Client, ClientEvent, ClientWatch, Service};
use outlive::wait::WaitSet;
use outlive::{Domain, WaitStrategy};

use super::number;
use super::rpc::{MAX_BYTES, client};

/// What a thread has been told.
type Log = Arc<Mutex<Vec<String>>>;

struct Watching {
    over: Arc<AtomicBool>,
    threads: Vec<(Log, JoinHandle<Result<(), String>>)>,
}

/// Something that tells.
trait Tells: Send + 'static {
    fn next(&mut self) -> Result<String, outlive::Error>;
    fn try_next(&mut self) -> Result<Option<String>, outlive::Error>;
    fn add_to(&self, set: &mut WaitSet) -> Result<(), String>;
}

fn show_client(event: &ClientEvent) -> String {
    let letter = match event {
        ClientEvent::NotLively(_) => 'Z',
        ClientEvent::Lively(_) => 'L',
        ClientEvent::Died(_) => 'D',
        _ => '?',
    };
    format!("{letter}{}", event.client().pid)
}

fn show_contents(contents: &DomainContents) -> String {
    let nodes: Vec<&str> = contents.nodes.iter().map(|node| node.name.as_str()).collect();
    format!("{};{}", contents.names.join(","), nodes.join(","))
}

impl Tells for ClientWatch {
    fn next(&mut self) -> Result<String, outlive::Error> {
        ClientWatch::next(self).map(|event| show_client(&event))
    }

    fn try_next(&mut self) -> Result<Option<String>, outlive::Error> {
        ClientWatch::try_next(self).map(|event| event.as_ref().map(show_client))
    }

    fn add_to(&self, set: &mut WaitSet) -> Result<(), String> {
        set.add(self).map(drop).map_err(|error| error.to_string())
    }
}

impl Tells for DomainWatch {
    fn next(&mut self) -> Result<String, outlive::Error> {
        self.changed().map(|contents| show_contents(&contents))
    }

    fn try_next(&mut self) -> Result<Option<String>, outlive::Error> {
        self.try_changed().map(|contents| contents.as_ref().map(show_contents))
    }

    fn add_to(&self, set: &mut WaitSet) -> Result<(), String> {
        set.add(self).map(drop).map_err(|error| error.to_string())
    }
}

fn note(log: &Log, word: String) {
    log.lock().unwrap_or_else(PoisonError::into_inner).push(word);
}

/// Notes what is told until it is over, which the next word tells.
fn follow(mut watch: impl Tells, over: &AtomicBool, log: &Log) -> Result<(), String> {
    loop {
        let word = watch.next().map_err(|error| error.to_string())?;
        if over.load(Ordering::SeqCst) {
            return Ok(());
        }
        note(log, word);
    }
}

fn follow_in_set(
    domain: &Domain,
    mut watch: impl Tells,
    over: &AtomicBool,
    log: &Log,
) -> Result<(), String> {
    let mut set = WaitSet::new(domain);
    set.set_wait_strategy(WaitStrategy::Block);
    watch.add_to(&mut set)?;
    loop {
        match watch.try_next().map_err(|error| error.to_string())? {
            Some(_) if over.load(Ordering::SeqCst) => return Ok(()),
            Some(word) => note(log, word),
            None => _ = set.wait().map_err(|error| error.to_string())?,
        }
    }
}

impl Watching {
    fn begin<W: Tells>(
        domain: &Domain,
        watch: impl Fn() -> Result<W, outlive::Error>,
    ) -> Result<Watching, String> {
        let over = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for in_set in [false, true] {
            let watch = watch().map_err(|error| error.to_string())?;
            let (log, domain, over) = (Log::default(), domain.clone(), Arc::clone(&over));
            let own = Arc::clone(&log);
            let thread = std::thread::spawn(move || {
                let end = match in_set {
                    false => follow(watch, &over, &own),
                    true => follow_in_set(&domain, watch, &over, &own),
                };
                // Seen by the test at once, and not only when it has waited in vain.
                end.inspect_err(|error| note(&own, format!("failed:{}", error.replace(' ', "_"))))
            });
            threads.push((log, thread));
        }
        Ok(Watching { over, threads })
    }

    fn logs(&self) -> String {
        let words = |log: &Log| log.lock().unwrap_or_else(PoisonError::into_inner).join(" ");
        self.threads.iter().map(|(log, _)| words(log)).collect::<Vec<_>>().join("|")
    }

    /// Ends, once `tell` has had something told.
    fn end<T>(self, tell: impl FnOnce() -> Result<T, String>) -> Result<(), String> {
        self.over.store(true, Ordering::SeqCst);
        let told = tell()?;
        for (_, thread) in self.threads {
            thread.join().map_err(|_| "a watcher panicked".to_owned())??;
        }
        drop(told);
        Ok(())
    }
}

/// What a survivor watches, by the service's name; the domain's is empty.
#[derive(Default)]
pub struct Watches {
    by_name: BTreeMap<String, Watching>,
    clients: BTreeMap<String, Client>,
}

impl Watches {
    /// Carries out an order; see the match for which there are.
    ///
    /// # Errors
    /// What went wrong, as text.
    pub fn obey(&mut self, domain: &Domain, order: &[&str]) -> Result<String, String> {
        match order {
            // With a lease of so many milliseconds.
            ["clients", name, millis] => {
                let lease = Duration::from_millis(number(millis)?);
                let options = Service::<[u8], [u8]>::options().max_bytes(MAX_BYTES);
                let service = options.wait_strategy(WaitStrategy::Block);
                let service = service.open_or_create(domain, name).map_err(|e| e.to_string())?;
                let watching = Watching::begin(domain, || service.watch_clients(lease))?;
                self.by_name.insert((*name).to_owned(), watching);
                Ok(String::new())
            }
            ["domain"] => {
                let watching = Watching::begin(domain, || Ok(domain.watch()))?;
                self.by_name.insert(String::new(), watching);
                Ok(String::new())
            }
            ["log", name @ ..] => {
                let name = name.first().copied().unwrap_or_default();
                Ok(self.by_name.get(name).ok_or("nobody watches it")?.logs())
            }
            // Becomes a client.
            ["join", name] => {
                self.clients.insert((*name).to_owned(), client(domain, name)?);
                Ok(std::process::id().to_string())
            }
            ["assert", name] => {
                self.clients.get(*name).ok_or("no client")?.assert_liveliness();
                Ok(String::new())
            }
            ["leave", name] => {
                self.clients.remove(*name);
                Ok(String::new())
            }
            // A client that does nothing is told.
            ["end-clients", name] => {
                let watching = self.by_name.remove(*name).ok_or("nobody watches it")?;
                watching.end(|| client(domain, name)).map(|()| String::new())
            }
            ["end-domain", name] => {
                let watching = self.by_name.remove("").ok_or("nobody watches it")?;
                let thing = || super::state::open(domain, name);
                watching.end(thing).map(|()| String::new())
            }
            _ => Err("unknown order".to_owned()),
        }
    }
}
