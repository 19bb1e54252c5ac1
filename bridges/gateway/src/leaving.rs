//! What leaves, of one kind: as things come and go in the domain, those that a rule lets out are opened and
//! closed.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use crate::context::{Context, lock};
use crate::names::{self, OWN};
use crate::rules::{Rule, Rules, Thing};
use crate::told::Event;

/// A thing that leaves.
pub trait Leaves {
    /// Whether its name has been removed.
    fn is_removed(&self) -> bool;
    /// Whether it has ended by itself, and is opened again when the domain changes. Default: no.
    fn is_closed(&self) -> bool {
        false
    }
    /// Ends it.
    fn close(&self);
}

/// See the head of this file.
pub struct Leaving<T> {
    thing: Thing,
    /// By name.
    things: Mutex<HashMap<String, Arc<T>>>,
    /// Names that cannot leave: told once.
    refused: Mutex<HashSet<String>>,
}

impl<T: Leaves> Leaving<T> {
    /// Those of that kind.
    pub fn new(thing: Thing) -> Leaving<T> {
        Leaving { thing, things: Mutex::default(), refused: Mutex::default() }
    }

    /// Whether the name of one was removed.
    pub fn has_removed(&self) -> bool {
        lock(&self.things).values().any(|thing| thing.is_removed())
    }

    /// What is in the domain has changed. `open` is given a name, its key on the network, and its rule. Returns
    /// those that begin to leave.
    pub fn look(
        &self,
        context: &Context,
        rules: &Rules,
        names: &[String],
        open: impl Fn(&str, String, &Rule) -> Result<Arc<T>, String>,
    ) -> Vec<Arc<T>> {
        lock(&self.things).retain(|name, thing| {
            let stays = names.contains(name) && !thing.is_removed() && !thing.is_closed();
            if !stays {
                thing.close();
            }
            stays
        });
        let mut begin = Vec::new();
        for name in names.iter().filter(|name| !name.starts_with(OWN)) {
            if lock(&self.things).contains_key(name)
                || !context.domain.kind_of(name).is_ok_and(|kind| kind == self.thing.kind())
            {
                continue;
            }
            // Others' questions come at once, and wait for one to be opened, and not for all.
            let mut things = lock(&self.things);
            let opened = names::key_of(name).map_err(|why| why.to_string()).and_then(|key| {
                let outward = rules.outward(self.thing, &key);
                outward.map(|(rule, key)| open(name, key, rule)).transpose()
            });
            match opened {
                Ok(Some(thing)) => {
                    things.insert(name.clone(), Arc::clone(&thing));
                    begin.push(thing);
                }
                Ok(None) => {}
                Err(why) => {
                    if lock(&self.refused).insert(name.clone()) {
                        context.told.tell(&Event::of("refused", name).because(&why));
                    }
                }
            }
        }
        begin
    }

    /// Returns the one that is that.
    pub fn find(&self, is: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        lock(&self.things).values().find(|thing| is(thing)).cloned()
    }

    /// Ends all.
    pub fn close(&self) {
        lock(&self.things).drain().for_each(|(_, thing)| thing.close());
    }
}
