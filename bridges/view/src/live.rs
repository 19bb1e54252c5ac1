//! A domain as it is: its topics, states and services are looked at, and clients told.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use foxglove::messages::log::Level;
use foxglove::websocket::Status;
use outlive::node::{DomainWatch, NodeInfo};
use outlive::{Domain, Kind};

use crate::clients::Clients;
use crate::events::{Events, Publishers};
use crate::parameters::States;
use crate::services::Services;
use crate::told::{Event, Told};
use crate::topics::{Topics, Viewed};

/// As many topics are advertised in one look: a client has only so much room for what it is told.
const MOST_AT_ONCE: usize = 16;

/// See the head of this file.
pub struct Live {
    domain: Domain,
    clients: Arc<Clients>,
    topics: Arc<Topics>,
    states: Arc<States>,
    services: Option<(Services, Duration)>,
    events: Events,
    told: Told,
    watch: DomainWatch,
    names: BTreeMap<String, Kind>,
    nodes: Vec<NodeInfo>,
    publishers: BTreeMap<String, Publishers>,
    /// What could not be opened: told once.
    refused: HashSet<String>,
    is_first: bool,
}

impl Live {
    /// Looks at a domain. `calls`: how long a call of a service may take, if services may be called.
    pub fn new(
        domain: &Domain,
        clients: &Arc<Clients>,
        topics: &Arc<Topics>,
        states: &Arc<States>,
        calls: Option<Duration>,
        told: Told,
    ) -> Live {
        Live {
            domain: domain.clone(),
            clients: Arc::clone(clients),
            topics: Arc::clone(topics),
            states: Arc::clone(states),
            services: calls.map(|span| (Services::default(), span)),
            events: Events::new(&clients.context),
            told,
            watch: domain.watch(),
            names: BTreeMap::new(),
            nodes: Vec::new(),
            publishers: BTreeMap::new(),
            refused: HashSet::new(),
            is_first: true,
        }
    }

    /// Looks what has come, gone and changed.
    ///
    /// # Errors
    /// The domain cannot be read any more.
    pub fn look(&mut self) -> Result<(), outlive::Error> {
        if let Some(contents) = self.watch.try_changed()? {
            self.see_names(&contents.names);
            self.see_nodes(contents.nodes);
        }
        self.look_at_topics();
        let of = |kind: Kind| {
            self.names.iter().filter(move |one| *one.1 == kind).map(|one| one.0).collect()
        };
        let states: BTreeSet<&String> = of(Kind::State);
        let mut refused = vec![self.states.look(&states)];
        if let Some((services, span)) = &mut self.services {
            refused.push(services.look(&self.domain, &of(Kind::Service), &self.clients, *span));
        }
        for (name, why) in refused.into_iter().filter_map(Result::err) {
            self.refuse(&name, &why);
        }
        self.states.tell(&self.clients);
        if self.clients.look() {
            self.told.refused("clients", "the server had ended, and was started again");
            if let Some((services, _)) = &mut self.services {
                services.forget();
            }
        }
        self.is_first = false;
        Ok(())
    }

    fn see_names(&mut self, names: &[String]) {
        let now: BTreeSet<&String> = names.iter().collect();
        let mut gone = Vec::new();
        self.names.retain(|name, kind| {
            let is_there = now.contains(name);
            if !is_there {
                gone.push((name.clone(), *kind));
            }
            is_there
        });
        for (name, kind) in gone {
            self.refused.remove(&name);
            self.events.log(Level::Info, &name, format!("removed: {kind}"));
        }
        for name in names {
            if self.names.contains_key(name) {
                continue;
            }
            // It may be gone already, or be no thing of Outlive's.
            let Ok(kind) = self.domain.kind_of(name) else { continue };
            self.names.insert(name.clone(), kind);
            if !self.is_first {
                self.events.log(Level::Info, name, format!("made: {kind}"));
            }
        }
    }

    fn see_nodes(&mut self, now: Vec<NodeInfo>) {
        let is_in =
            |all: &[NodeInfo], one: &NodeInfo| all.iter().any(|node| node.token == one.token);
        if !self.is_first {
            for node in now.iter().filter(|node| !is_in(&self.nodes, node)) {
                let message = format!("a node has come: process {}", node.pid);
                self.events.log(Level::Info, &node.name, message);
            }
            for node in self.nodes.iter().filter(|node| !is_in(&now, node)) {
                let message = format!("a node has gone: process {}", node.pid);
                self.events.log(Level::Warning, &node.name, message);
            }
        }
        self.nodes = now;
    }

    fn look_at_topics(&mut self) {
        let mut topics = self.topics.lock();
        let is_there = |name: &String| self.names.get(name) == Some(&Kind::Topic);
        topics.retain(|name, viewed| is_there(name) && !viewed.topic.is_removed());
        self.publishers.retain(|name, _| topics.contains_key(name));
        let new = self.names.iter().filter(|(_, kind)| **kind == Kind::Topic).map(|one| one.0);
        let new = new.filter(|name| !topics.contains_key(*name)).take(MOST_AT_ONCE);
        let mut refused = Vec::new();
        for name in new.cloned().collect::<Vec<_>>() {
            match Viewed::open(&self.domain, &name, &self.clients.context) {
                Ok(viewed) => {
                    if let Some(word) = viewed.unknown_hint() {
                        refused.push((name.clone(), format!("'{word}' is no value of view.as")));
                    }
                    topics.insert(name, viewed);
                }
                Err(why) => refused.push((name, why)),
            }
        }
        let mut deaths = Vec::new();
        for (name, viewed) in topics.iter() {
            let publishers = self.publishers.entry(name.clone()).or_default();
            let died = publishers.look(&self.domain, name, &viewed.topic, &self.events);
            deaths.extend(died.into_iter().map(|death| (name.clone(), death)));
        }
        drop(topics);
        for (name, death) in deaths {
            self.clients.say(Status::error(&death));
            let why = death.strip_prefix(&format!("{name}: ")).unwrap_or(&death);
            self.told.tell(&Event { event: "died", name: Some(&name), url: None, why: Some(why) });
        }
        for (name, why) in refused {
            self.refuse(&name, &why);
        }
    }

    fn refuse(&mut self, name: &str, why: &str) {
        if self.refused.insert(name.to_owned()) {
            self.told.refused(name, why);
            self.events.log(Level::Warning, name, why.to_owned());
        }
    }
}
