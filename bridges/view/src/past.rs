//! States of a recording as parameters: each has the value that it had at the time that is played. Clients cannot
//! set them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foxglove::websocket::{
    AnyClient, GetParametersResponder, Parameter, ParameterHandler, SetParametersResponder,
};

use crate::clients::{Clients, Parameters};

/// As many names may be asked for: what a client names takes memory.
const MOST_WATCHED: usize = 4096;

/// See the head of this file.
#[derive(Default)]
pub struct PastStates {
    all: Mutex<BTreeMap<String, Parameter>>,
    /// Names of which clients want to know the changes.
    watched: Mutex<BTreeSet<String>>,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PastStates {
    /// A state has that value from here on.
    pub fn set(&self, parameter: Parameter, clients: &Clients) {
        let is_watched = lock(&self.watched).contains(&parameter.name);
        lock(&self.all).insert(parameter.name.clone(), parameter.clone());
        if is_watched {
            clients.tell_parameters(vec![parameter]);
        }
    }

    fn values(&self, names: &[String]) -> Vec<Parameter> {
        let wanted = |name: &String| names.is_empty() || names.contains(name);
        let all = lock(&self.all);
        all.iter().filter(|(name, _)| wanted(name)).map(|(_, value)| value.clone()).collect()
    }
}

/// What the server calls.
pub struct Handler(pub Arc<PastStates>);

impl ParameterHandler for Handler {
    fn get(
        &self,
        _: AnyClient,
        names: Vec<String>,
        _: Option<String>,
        responder: GetParametersResponder,
    ) {
        responder.respond(self.0.values(&names));
    }

    fn set(
        &self,
        client: AnyClient,
        parameters: Vec<Parameter>,
        _: Option<String>,
        responder: SetParametersResponder,
    ) {
        client.send_error("states of a recording cannot be set".to_owned());
        let names: Vec<String> = parameters.into_iter().map(|one| one.name).collect();
        responder.respond(if names.is_empty() { Vec::new() } else { self.0.values(&names) });
    }
}

impl Parameters for Handler {
    fn handler(&self) -> Arc<dyn ParameterHandler> {
        Arc::new(Handler(Arc::clone(&self.0)))
    }

    fn subscribe(&self, names: Vec<String>) {
        let mut watched = lock(&self.0.watched);
        let room = MOST_WATCHED.saturating_sub(watched.len());
        watched.extend(names.into_iter().take(room));
    }

    fn unsubscribe(&self, names: &[String]) {
        let mut watched = lock(&self.0.watched);
        for name in names {
            watched.remove(name);
        }
    }
}
