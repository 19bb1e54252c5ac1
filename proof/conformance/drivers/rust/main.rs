//! Rust's driver: does what each line of its input says, by the library's public interface alone,
//! and answers with a line. doc/conformance.md has the commands; the drivers of the other languages
//! do the same, each with its own means.

mod answer;
mod jobs;
mod locks;
mod nodes;
mod notifiers;
mod openings;
mod pools;
mod queues;
mod realtime;
mod records;
mod rw_locks;
mod services;
mod states;
mod sync;
mod topics;
mod waits;

use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::time::Duration;

use answer::{Answer, Refusal, done, refused, said};
use outlive::Domain;

/// All that this process has open, by name. What guards borrow from is leaked: the process is there
/// for one scenario.
struct Driver {
    domain: Domain,
    locks: locks::Locks,
    rw_locks: rw_locks::RwLocks,
    sync: sync::Sync,
    real_time: realtime::RealTime,
    records: records::Records,
    pools: pools::Pools,
    queues: HashMap<String, queues::Queue>,
    jobs: HashMap<String, jobs::Jobs>,
    topics: topics::Topics,
    states: states::States,
    notifiers: notifiers::Notifiers,
    services: services::Services,
    nodes: nodes::Nodes,
    sets: HashMap<String, waits::Set>,
}

fn main() -> io::Result<()> {
    let folder = std::env::args()
        .nth(1)
        .ok_or_else(|| io::Error::other("usage: conformance-driver FOLDER"))?;
    let domain = Domain::open_or_create_at(folder).map_err(io::Error::other)?;
    let mut driver = Driver {
        domain,
        locks: locks::Locks::default(),
        rw_locks: rw_locks::RwLocks::default(),
        sync: sync::Sync::default(),
        real_time: realtime::RealTime::default(),
        records: records::Records::default(),
        pools: pools::Pools::default(),
        queues: HashMap::new(),
        jobs: HashMap::new(),
        topics: topics::Topics::default(),
        states: states::States::default(),
        notifiers: notifiers::Notifiers::default(),
        services: services::Services::default(),
        nodes: nodes::Nodes::default(),
        sets: HashMap::new(),
    };
    tell("ready")?;
    driver.serve(None)
}

fn tell(answer: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{answer}")?;
    out.flush()
}

impl Driver {
    /// Answers until the input ends, or until that line.
    fn serve(&mut self, last: Option<&str>) -> io::Result<()> {
        let mut line = String::new();
        loop {
            line.clear();
            if io::stdin().lock().read_line(&mut line)? == 0 {
                return Ok(());
            }
            let words: Vec<&str> = line.trim_end().split(' ').collect();
            if last == Some(line.trim_end()) {
                return Ok(());
            }
            let answer = match words.split_first() {
                Some((command, args)) => self.act(command, args),
                None => refused("Usage", "an empty line"),
            };
            match answer {
                Ok(words) if words.is_empty() => tell("ok")?,
                Ok(words) => tell(&words)?,
                Err(Refusal { name, message }) => tell(&format!("error {name} {message}"))?,
            }
        }
    }

    fn act(&mut self, command: &str, args: &[&str]) -> Answer {
        let (thing, verb) = command.split_once('.').unwrap_or((command, ""));
        match (thing, verb, args) {
            ("lock", "within", [name]) => self.within(name),
            ("lock", ..) => self.locks.act(&self.domain, verb, args),
            ("rw", ..) => self.rw_locks.act(&self.domain, verb, args),
            ("sem" | "event" | "cond" | "barrier" | "latch", ..) => {
                self.sync.act(&self.domain, &mut self.locks, command, args)
            }
            ("pi" | "ceiling" | "reentrant", ..) => {
                self.real_time.act(&self.domain, &self.sync, thing, verb, args)
            }
            ("record", ..) => {
                self.records.act(&self.domain, &mut self.locks, &mut self.sync, verb, args)
            }
            ("once", "within", [name, span]) => self.within_once(name, span),
            ("once", ..) => self.records.once(&self.domain, verb, args),
            ("pool", ..) => self.pools.act(&self.domain, verb, args),
            ("queue", ..) => queues::act(&self.domain, &mut self.queues, verb, args),
            ("jobs", ..) => jobs::act(&self.domain, &mut self.jobs, verb, args),
            ("topic" | "sample", ..) => self.topics.act(&self.domain, command, args),
            ("state" | "bytes", ..) => self.states.act(&self.domain, command, args),
            ("notifier" | "listener", ..) => self.notifiers.act(&self.domain, command, args),
            ("client" | "server", ..) => self.services.act(&self.domain, command, args),
            ("node" | "watch" | "config", ..) => self.nodes.act(&self.domain, command, args),
            ("set", ..) => self.wait_sets(verb, args),
            ("open", ..) => openings::act(&self.domain, verb, args),
            ("domain", "find", [path]) => {
                Domain::options().open_at(path)?;
                done()
            }
            ("domain", "create", [name]) => {
                Domain::create_new_at(self.domain.path().join(name))?;
                done()
            }
            ("token", "", []) => said(self.domain.token()?.as_u32()),
            ("process_token", "", []) => said(self.domain.process_token()?.as_u32()),
            ("peer", "alive", [token]) => {
                said(if self.peer(token)?.is_alive() { "yes" } else { "no" })
            }
            ("peer", "wait_dead", [token, span]) => {
                self.peer(token)?.wait_dead_timeout(answer::span(span)?)?;
                done()
            }
            // What the types keep out, or what has no such form.
            ("misuse", "name" | "message" | "handle" | "number" | "timeout" | "unlock", []) => {
                Ok("impossible".to_owned())
            }
            ("exit", "", []) => std::process::exit(0),
            ("crash", "", []) => std::process::abort(),
            ("hang", "", []) => {
                std::thread::sleep(Duration::from_secs(60));
                done()
            }
            _ => answer::unknown(command, args),
        }
    }

    fn peer(&self, token: &str) -> Result<outlive::Peer, Refusal> {
        let id = outlive::TokenId::from_u32(answer::number(token)?);
        Ok(self.domain.peer(id.ok_or_else(|| Refusal::new("Usage", "no token"))?))
    }

    /// Does what is done once; the next lines come in the middle of it.
    fn within_once(&mut self, name: &str, span: &str) -> Answer {
        let once = self.records.once_of(name)?;
        let mut served = Ok(());
        let mut was_done = true;
        let span = answer::span(span)?;
        let made = once.get_or_init_timeout(span, |state| {
            was_done = false;
            served = tell(&format!("ok {}", records::how(state)))
                .and_then(|()| self.serve(Some(&format!("once.leave {name}"))));
        })?;
        served?;
        answer::got(made, Some(span))?;
        if was_done { said("done") } else { done() }
    }

    /// A guard in a scope, which the next lines are in.
    fn within(&mut self, name: &str) -> Answer {
        let mut scope = self.locks.enter(name)?;
        let said = scope.said();
        self.locks.put(name, &mut scope);
        tell(&said)?;
        self.serve(Some(&format!("lock.leave {name}")))?;
        self.locks.take(name, &mut scope);
        drop(scope);
        done()
    }
}
