//! Services that clients may call, with requests and replies as JSON by their descriptions.
//!
//! A service without a description takes a text (`{"text": "…"}`) and answers one, or base64 if the reply
//! is none. A reply in several parts is an array of them, `{"replies": […]}`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use foxglove::Schema;
use foxglove::websocket::service::{Request, Service as Offered, ServiceSchema};
use outlive::describe::{Description, Encoding};
use outlive::rpc::Service;
use outlive::{Deadline, Domain, Error};
use serde_json::{Value, json};

use crate::clients::Clients;
use crate::described::{self, Blobs};
use crate::msgpack;

/// The most bytes of a call's replies.
const MOST: usize = 32 << 20;

struct Called {
    service: Service,
    description: Option<Description>,
    span: Duration,
}

/// The services of a domain that are offered.
#[derive(Default)]
pub struct Services(BTreeMap<String, Arc<Called>>);

impl Services {
    /// Offers those that have come, and takes back those that have gone.
    ///
    /// # Errors
    /// The first that cannot be offered, and why.
    pub fn look(
        &mut self,
        domain: &Domain,
        names: &BTreeSet<&String>,
        clients: &Clients,
        span: Duration,
    ) -> Result<(), (String, String)> {
        self.0.retain(|name, _| {
            let is_there = names.contains(name);
            if !is_there {
                clients.remove_service(name);
            }
            is_there
        });
        let (mut refused, mut offered) = (Ok(()), Vec::new());
        for name in names {
            if self.0.contains_key(*name) {
                continue;
            }
            match open(domain, name, span) {
                Ok(called) => {
                    let called = Arc::new(called);
                    offered.push(offer(name, &called));
                    self.0.insert((*name).clone(), called);
                }
                Err(Error::NotFound { .. }) => {}
                Err(error) => refused = refused.and(Err(((*name).clone(), error.to_string()))),
            }
        }
        if !offered.is_empty()
            && let Err(why) = clients.add_services(offered)
        {
            return Err(("services".to_owned(), why));
        }
        refused
    }

    /// The server has been started again, and has no services.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}

fn open(domain: &Domain, name: &str, span: Duration) -> Result<Called, Error> {
    let service = Service::open_as_bytes(domain, name)?;
    let description = service.description()?;
    Ok(Called { service, description, span })
}

fn offer(name: &str, called: &Arc<Called>) -> Offered {
    let request = called.description.as_ref().map(Description::request);
    let reply = called.description.as_ref().and_then(Description::reply);
    let schema = ServiceSchema::new(name)
        .with_request("json", schema(name, "request", request.as_ref()))
        .with_response("json", schema(name, "reply", reply));
    let called = Arc::clone(called);
    Offered::builder(name, schema).blocking_handler_fn(move |request| called.call(&request))
}

fn schema(name: &str, what: &str, description: Option<&Description>) -> Schema {
    let schema = match description {
        Some(one) if one.encoding() == Encoding::Raw => described::schema(one, Blobs::Numbers),
        Some(one) if one.encoding() == Encoding::Msgpack => json!({"type": "object"}),
        Some(one) if one.encoding() == Encoding::Json => json!({"type": "object"}),
        _ => json!({"type": "object", "properties": {"text": {"type": "string"}}}),
    };
    Schema::new(format!("{name}.{what}"), "jsonschema", schema.to_string().into_bytes())
}

impl Called {
    fn call(&self, request: &Request) -> Result<Vec<u8>, String> {
        let is = self.description.as_ref().map(Description::request);
        let request = bytes_of(is.as_ref(), request.payload())?;
        let client = self.service.client().map_err(|error| error.to_string())?;
        let deadline = Deadline::after(self.span);
        let text = |error: outlive::rpc::CallError| error.to_string();
        let mut call = client.begin_until(&request, deadline).map_err(text)?;
        let is = self.description.as_ref().and_then(Description::reply);
        let (mut replies, mut whole) = (Vec::new(), 0);
        loop {
            match call.next_until(deadline).map_err(text)? {
                std::task::Poll::Ready(Some(reply)) => {
                    whole += reply.len();
                    if whole > MOST {
                        call.cancel();
                        return Err("the replies have more than 32 MiB".to_owned());
                    }
                    replies.push(json_of(is, &reply)?);
                }
                std::task::Poll::Ready(None) => break,
                std::task::Poll::Pending => {
                    return Err(format!("no answer within {} seconds", self.span.as_secs_f64()));
                }
            }
        }
        let whole = match replies.len() {
            0 => json!({}),
            1 => replies.remove(0),
            _ => json!({"replies": replies}),
        };
        serde_json::to_vec(&whole).map_err(|error| error.to_string())
    }
}

/// Returns the request that JSON says.
fn bytes_of(is: Option<&Description>, json: &[u8]) -> Result<Vec<u8>, String> {
    let mut value: Value = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    match is {
        Some(one) if one.encoding() == Encoding::Raw => {
            let key = match (one.is_slice(), one.single()) {
                (true, _) => Some("values"),
                (false, Some(_)) => Some("value"),
                (false, None) => None,
            };
            // As the schema has it, or the value itself.
            let inner = key.and_then(|key| value.get_mut(key)).map(Value::take);
            described::parsed(one, inner.unwrap_or(value).to_string().as_bytes())
        }
        Some(one) if one.encoding() == Encoding::Msgpack => described::parsed(one, json),
        Some(one) if one.encoding() == Encoding::Json => Ok(json.to_vec()),
        _ => match (value.get("text").and_then(Value::as_str), value.as_str()) {
            (Some(text), _) | (None, Some(text)) => Ok(text.as_bytes().to_vec()),
            (None, None) => Err("the service has no description: {\"text\": \"…\"}".to_owned()),
        },
    }
}

fn json_of(is: Option<&Description>, bytes: &[u8]) -> Result<Value, String> {
    let text = |error: serde_json::Error| error.to_string();
    match is {
        Some(one) if one.encoding() == Encoding::Raw => {
            let mut json = Vec::new();
            described::write(one, bytes, Blobs::Numbers, &mut json)?;
            serde_json::from_slice(&json).map_err(text)
        }
        Some(one) if one.encoding() == Encoding::Msgpack => msgpack::to_json(bytes),
        Some(one) if one.encoding() == Encoding::Json => {
            serde_json::from_slice(bytes).map_err(text)
        }
        _ => Ok(match str::from_utf8(bytes) {
            Ok(text) => json!({"text": text}),
            Err(_) => json!({"bytes": STANDARD.encode(bytes)}),
        }),
    }
}
