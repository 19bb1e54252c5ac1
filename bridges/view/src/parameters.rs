//! States as parameters: their values by their descriptions, set where that is allowed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foxglove::websocket::{
    AnyClient, GetParametersResponder, Parameter, ParameterHandler, ParameterType, ParameterValue,
    SetParametersResponder,
};
use outlive::describe::{Description, Encoding};
use outlive::state::State;
use outlive::{Domain, Error, SendError};
use serde_json::Value;

use crate::clients::{Clients, Parameters};
use crate::described::{self, Blobs};
use crate::msgpack;

/// As many names may be asked for that are none of a state: what a client names takes memory.
const MOST_WATCHED: usize = 4096;

struct Opened {
    state: State,
    description: Option<Description>,
    /// The version that clients were told last.
    told: u64,
}

impl Opened {
    /// Returns the value; `None` while there is none that can be told.
    fn get(&self, name: &str) -> Option<(Parameter, u64)> {
        let (bytes, version) = self.state.get_with_version().ok()?;
        Some((parameter(name, self.description.as_ref(), &bytes)?, version))
    }

    /// Sets the value.
    fn set(&self, name: &str, value: &ParameterValue) -> Result<(), String> {
        let json = serde_json::to_vec(value).map_err(|error| error.to_string())?;
        let bytes = match (&self.description, value) {
            (Some(one), _) if matches!(one.encoding(), Encoding::Raw | Encoding::Msgpack) => {
                described::parsed(one, &json)?
            }
            (Some(one), _) if one.encoding() == Encoding::Json => json,
            (_, ParameterValue::String(text)) => text.clone().into_bytes(),
            _ => return Err(format!("'{name}' has no description: it takes texts")),
        };
        let busy = |error: Error| match error {
            Error::Taken { .. } => format!("'{name}' has a writer, which alone sets it: {error}"),
            other => other.to_string(),
        };
        // The writer's claim ends here, whatever becomes of the value.
        let mut writer = self.state.writer().map_err(busy)?;
        writer.set(&bytes).map(drop).map_err(|error: SendError| error.to_string())
    }
}

/// Returns a state's value as a parameter; `None`: it is none that can be told.
pub fn parameter(name: &str, is: Option<&Description>, bytes: &[u8]) -> Option<Parameter> {
    let value = match is {
        Some(one) if one.encoding() == Encoding::Raw => {
            let mut json = Vec::new();
            described::write(one, bytes, Blobs::Numbers, &mut json).ok()?;
            unwrapped(one, serde_json::from_slice(&json).ok()?)
        }
        Some(one) if one.encoding() == Encoding::Msgpack => msgpack::to_json(bytes).ok()?,
        Some(one) if one.encoding() == Encoding::Json => serde_json::from_slice(bytes).ok()?,
        _ => str::from_utf8(bytes).ok()?.into(),
    };
    let value = parameter_of(value)?;
    // A whole number of a float is to stay one, when a client sets it again.
    let is_float = matches!(value, ParameterValue::Float64(_));
    let kind = is_float.then_some(ParameterType::Float64);
    Some(Parameter { name: name.to_owned(), r#type: kind, value: Some(value) })
}

/// Returns the value itself of what is no struct.
fn unwrapped(description: &Description, mut value: Value) -> Value {
    let key = match (description.is_slice(), description.single()) {
        (true, _) => "values",
        (false, Some(_)) => "value",
        (false, None) => return value,
    };
    value.get_mut(key).map(Value::take).unwrap_or_default()
}

fn parameter_of(value: Value) -> Option<ParameterValue> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(flag) => ParameterValue::Bool(flag),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => ParameterValue::Integer(whole),
            None => ParameterValue::Float64(number.as_f64()?),
        },
        Value::String(text) => ParameterValue::String(text),
        // What has no value there is left out of an object, and nothing is left of an array with it.
        Value::Array(all) => {
            ParameterValue::Array(all.into_iter().map(parameter_of).collect::<Option<_>>()?)
        }
        Value::Object(all) => {
            let pairs =
                all.into_iter().filter_map(|(key, value)| Some((key, parameter_of(value)?)));
            ParameterValue::Dict(pairs.collect())
        }
    })
}

/// The states of a domain.
pub struct States {
    domain: Domain,
    may_set: bool,
    all: Mutex<BTreeMap<String, Opened>>,
    /// Names of which clients want to know the changes.
    watched: Mutex<BTreeSet<String>>,
}

impl States {
    /// Those of a domain, in which there are none yet.
    pub fn new(domain: &Domain, may_set: bool) -> Arc<States> {
        Arc::new(States {
            domain: domain.clone(),
            may_set,
            all: Mutex::default(),
            watched: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Opened>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watched(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens those that have come, and forgets those that have gone.
    ///
    /// # Errors
    /// The first that cannot be opened, and why.
    pub fn look(&self, names: &BTreeSet<&String>) -> Result<(), (String, String)> {
        let mut all = self.lock();
        all.retain(|name, opened| names.contains(name) && !opened.state.is_removed());
        let mut refused = Ok(());
        for name in names {
            if all.contains_key(*name) {
                continue;
            }
            match self.open(name) {
                Ok(opened) => drop(all.insert((*name).clone(), opened)),
                Err(Error::NotFound { .. }) => {}
                Err(error) => refused = refused.and(Err(((*name).clone(), error.to_string()))),
            }
        }
        refused
    }

    fn open(&self, name: &str) -> Result<Opened, Error> {
        let state = State::open_as_bytes(&self.domain, name)?;
        let description = state.description()?;
        Ok(Opened { state, description, told: 0 })
    }

    /// Tells clients the values that have changed since they were told.
    pub fn tell(&self, clients: &Clients) {
        let watched = self.watched().clone();
        let mut changed = Vec::new();
        for (name, opened) in self.lock().iter_mut().filter(|(name, _)| watched.contains(*name)) {
            // A version is a load; only a value that has changed is read.
            if opened.state.version() != opened.told
                && let Some((parameter, version)) = opened.get(name)
            {
                opened.told = version;
                changed.push(parameter);
            }
        }
        if !changed.is_empty() {
            clients.tell_parameters(changed);
        }
    }

    fn values(&self, names: &[String]) -> Vec<Parameter> {
        let all = self.lock();
        let wanted = |name: &String| names.is_empty() || names.contains(name);
        let wanted = all.iter().filter(|(name, _)| wanted(name));
        wanted.filter_map(|(name, opened)| Some(opened.get(name)?.0)).collect()
    }
}

/// What the server calls.
struct Handler(Arc<States>);

impl ParameterHandler for Handler {
    fn get(
        &self,
        _: AnyClient,
        names: Vec<String>,
        _: Option<String>,
        responder: GetParametersResponder,
    ) {
        let states = Arc::clone(&self.0);
        tokio::task::spawn_blocking(move || responder.respond(states.values(&names)));
    }

    fn set(
        &self,
        client: AnyClient,
        parameters: Vec<Parameter>,
        _: Option<String>,
        responder: SetParametersResponder,
    ) {
        let states = Arc::clone(&self.0);
        tokio::task::spawn_blocking(move || {
            for Parameter { name, value, .. } in &parameters {
                let set = match (states.may_set, value, states.lock().get(name)) {
                    (false, ..) => Err("no state may be set: --allow-set allows it".to_owned()),
                    (true, _, None) => Err(format!("there is no state '{name}'")),
                    (true, None, _) => Err(format!("'{name}': a state has always a value")),
                    (true, Some(value), Some(opened)) => opened.set(name, value),
                };
                if let Err(why) = set {
                    client.send_error(why);
                }
            }
            // What they are now, whether they were set or not.
            let names: Vec<String> = parameters.into_iter().map(|one| one.name).collect();
            let values = if names.is_empty() { Vec::new() } else { states.values(&names) };
            responder.respond(values);
        });
    }
}

/// The states and what they are to the server.
pub struct StateParameters(pub Arc<States>);

impl Parameters for StateParameters {
    fn handler(&self) -> Arc<dyn ParameterHandler> {
        Arc::new(Handler(Arc::clone(&self.0)))
    }

    fn subscribe(&self, names: Vec<String>) {
        let mut watched = self.0.watched();
        let room = MOST_WATCHED.saturating_sub(watched.len());
        watched.extend(names.into_iter().take(room));
    }

    fn unsubscribe(&self, names: &[String]) {
        let mut watched = self.0.watched();
        for name in names {
            watched.remove(name);
        }
    }
}
