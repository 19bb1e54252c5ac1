//! Requests to etcd by its HTTP/JSON gateway: one after another server, until one answers.
//!
//! A request whose answer did not come may have been done: what is sent here may be sent twice, and
//! the callers are made for that.

use std::io::{BufRead, BufReader};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{env, fs};

use serde_json::{Value, json};
use ureq::Agent;
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

use crate::address::Address;
use crate::clock::Moment;
use crate::error::Error;

#[derive(Debug)]
pub(crate) struct Client {
    agent: Agent,
    scheme: &'static str,
    servers: Vec<String>,
    /// The server that answered last.
    current: AtomicUsize,
    user: Option<(String, String)>,
    /// What the cluster gave for user and password.
    token: Mutex<Option<String>>,
    /// How long one server may take for an answer.
    each: Duration,
}

/// How one try ended.
enum Tried {
    Answered(Value),
    /// Another server, or the same one later, may answer.
    Silent(String),
    /// The token is too old.
    Unknown(String),
    Failed(Error),
}

/// gRPC's numbers for what went wrong.
const DEADLINE_EXCEEDED: u64 = 4;
pub(crate) const NOT_FOUND: u64 = 5;
const PERMISSION_DENIED: u64 = 7;
const UNAVAILABLE: u64 = 14;
const UNAUTHENTICATED: u64 = 16;

impl Client {
    pub(crate) fn new(address: &Address) -> Result<Client, Error> {
        let mut config = Agent::config_builder()
            // A lock's traffic goes where its address says.
            .proxy(None)
            .max_redirects(0)
            .http_status_as_error(false);
        if let Some(path) = &address.ca {
            let wrong = |why: String| Error::Address(format!("ca={}: {why}", path.display()));
            let pem = fs::read(path).map_err(|error| wrong(error.to_string()))?;
            let mut certificates = Vec::new();
            for item in parse_pem(&pem) {
                if let PemItem::Certificate(found) =
                    item.map_err(|error| wrong(error.to_string()))?
                {
                    certificates.push(found);
                }
            }
            if certificates.is_empty() {
                return Err(wrong("no certificate is in it".to_owned()));
            }
            let roots = RootCerts::new_with_certs(&certificates);
            config = config.tls_config(TlsConfig::builder().root_certs(roots).build());
        }
        let user = match &address.user {
            None => None,
            Some(user) => Some((user.clone(), password(address)?)),
        };
        Ok(Client {
            agent: config.build().new_agent(),
            scheme: if address.tls { "https" } else { "http" },
            servers: address.servers.clone(),
            current: AtomicUsize::new(0),
            user,
            token: Mutex::new(None),
            // Several of them fit into a lease's life.
            each: (address.ttl / 6).min(Duration::from_secs(5)),
        })
    }

    /// Asks each server, again and again, until one answers or the time is over. At least one is
    /// asked once.
    pub(crate) fn ask(&self, path: &str, body: &Value, until: Moment) -> Result<Value, Error> {
        self.ask_counting(path, body, until, &mut 0)
    }

    /// Does the same, and counts how often it was sent: behind the first time it may have been done
    /// before.
    pub(crate) fn ask_counting(
        &self,
        path: &str,
        body: &Value,
        until: Moment,
        sent: &mut u32,
    ) -> Result<Value, Error> {
        let mut pause = Duration::from_millis(20);
        loop {
            match self.ask_each(path, body, until, sent) {
                Err(Error::Unreachable { last }) => {
                    if until.has_passed() {
                        return Err(Error::Unreachable { last });
                    }
                    std::thread::sleep(pause.min(until.remaining()));
                    pause = (pause * 2).min(Duration::from_millis(300));
                }
                ended => return ended,
            }
        }
    }

    /// Asks the server that answered last, once: nothing is sent twice.
    pub(crate) fn ask_once(&self, path: &str, body: &Value, until: Moment) -> Result<Value, Error> {
        let which = self.current.load(Ordering::Relaxed);
        match self.ask_server(which, path, body, until)? {
            Ok(answer) => Ok(answer),
            Err(last) => Err(Error::Unreachable { last }),
        }
    }

    /// Asks each server once, the one that answered last first.
    fn ask_each(
        &self,
        path: &str,
        body: &Value,
        until: Moment,
        sent: &mut u32,
    ) -> Result<Value, Error> {
        let first = self.current.load(Ordering::Relaxed);
        let mut last = String::new();
        for step in 0..self.servers.len() {
            let which = (first + step) % self.servers.len();
            if step > 0 && until.has_passed() {
                break;
            }
            *sent += 1;
            match self.ask_server(which, path, body, until)? {
                Ok(answer) => {
                    // Relaxed: a hint.
                    self.current.store(which, Ordering::Relaxed);
                    return Ok(answer);
                }
                Err(why) => last = why,
            }
        }
        Err(Error::Unreachable { last })
    }

    /// Asks one server, with a new token if it wants one. `Ok(Err(…))`: no answer came, and why.
    fn ask_server(
        &self,
        which: usize,
        path: &str,
        body: &Value,
        until: Moment,
    ) -> Result<Result<Value, String>, Error> {
        let mut tried = self.try_one(which, path, body, until);
        if let Tried::Unknown(_) = tried {
            tried = match self.authenticate(which, until) {
                Ok(()) => self.try_one(which, path, body, until),
                Err(Error::Unreachable { last }) => Tried::Silent(last),
                Err(error) => Tried::Failed(error),
            };
        }
        match tried {
            Tried::Answered(answer) => Ok(Ok(answer)),
            Tried::Silent(why) => Ok(Err(format!("{}: {why}", self.servers[which]))),
            Tried::Failed(error) => Err(error),
            Tried::Unknown(why) => Err(Error::Denied(why)),
        }
    }

    fn try_one(&self, which: usize, path: &str, body: &Value, until: Moment) -> Tried {
        let limit = until.remaining().clamp(Duration::from_millis(50), self.each);
        let mut answer = match self.send(which, path, body, limit) {
            Ok(answer) => answer,
            Err(error) => return Tried::Silent(error.to_string()),
        };
        let status = answer.status();
        let text = match answer.body_mut().read_to_string() {
            Ok(text) => text,
            Err(error) => return Tried::Silent(error.to_string()),
        };
        let Ok(value) = serde_json::from_str::<Value>(&text) else {
            let start: String = text.chars().take(60).collect();
            return Tried::Failed(Error::Refused(format!(
                "{status}: {start:?} is not etcd's JSON"
            )));
        };
        // A stream's error comes in a member of its own.
        let error = value.get("error").filter(|error| error.is_object()).unwrap_or(&value);
        if status.is_success() && value.get("error").is_none() {
            return Tried::Answered(value);
        }
        let code = ["code", "grpc_code"].iter().find_map(|name| error[*name].as_u64()).unwrap_or(0);
        let said = ["message", "error"].iter().find_map(|name| error[*name].as_str());
        let said = said.unwrap_or("no reason given").to_owned();
        match code {
            UNAVAILABLE | DEADLINE_EXCEEDED => Tried::Silent(said),
            UNAUTHENTICATED if self.user.is_some() => Tried::Unknown(said),
            UNAUTHENTICATED | PERMISSION_DENIED => Tried::Failed(Error::Denied(said)),
            // A caller that can do with it looks for it.
            NOT_FOUND => Tried::Answered(json!({ "code": NOT_FOUND })),
            // etcd says so by words alone, with the code of a wrong argument.
            _ if said.contains("user name is empty") && self.user.is_some() => Tried::Unknown(said),
            _ if said.contains("auth token") && self.user.is_some() => Tried::Unknown(said),
            _ if ["user name is empty", "auth token", "authentication failed"]
                .iter()
                .any(|words| said.contains(words)) =>
            {
                Tried::Failed(Error::Denied(said))
            }
            _ => Tried::Failed(Error::Refused(said)),
        }
    }

    fn send(
        &self,
        which: usize,
        path: &str,
        body: &Value,
        limit: Duration,
    ) -> Result<ureq::http::Response<ureq::Body>, ureq::Error> {
        let url = format!("{}://{}{path}", self.scheme, self.servers[which]);
        let mut request = self.agent.post(&url);
        if let Some(token) = &*self.token() {
            request = request.header("Authorization", token);
        }
        request.config().timeout_global(Some(limit)).build().send_json(body)
    }

    fn token(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn authenticate(&self, which: usize, until: Moment) -> Result<(), Error> {
        let Some((name, password)) = &self.user else { return Ok(()) };
        *self.token() = None;
        let body = json!({ "name": name, "password": password });
        match self.try_one(which, "/v3/auth/authenticate", &body, until) {
            Tried::Answered(answer) => match answer["token"].as_str() {
                Some(token) => {
                    *self.token() = Some(token.to_owned());
                    Ok(())
                }
                None => Err(Error::Denied("no token came for the user".to_owned())),
            },
            Tried::Silent(last) => Err(Error::Unreachable { last }),
            Tried::Unknown(why) => Err(Error::Denied(why)),
            Tried::Failed(Error::Refused(why)) => Err(Error::Denied(why)),
            Tried::Failed(error) => Err(error),
        }
    }

    /// Waits until something is deleted between two keys, after that revision; at most so long. It
    /// may return sooner, and for no reason: the caller looks.
    pub(crate) fn wait_deleted(&self, key: &str, end: &str, after: i64, limit: Duration) {
        let body = json!({ "create_request": {
            "key": super::etcd::encode(key), "range_end": super::etcd::encode(end),
            "start_revision": (after + 1).to_string(), "filters": ["NOPUT"],
        }});
        let which = self.current.load(Ordering::Relaxed);
        let Ok(answer) = self.send(which, "/v3/watch", &body, limit) else {
            // A server that refuses at once must not be asked without a pause.
            std::thread::sleep(limit.min(Duration::from_millis(50)));
            return;
        };
        let mut first = true;
        for line in BufReader::new(answer.into_body().into_reader()).lines() {
            // The time is over, or the server has gone.
            let Ok(line) = line else { return };
            let said = serde_json::from_str::<Value>(&line).unwrap_or(Value::Null);
            if said["result"]["events"].is_array() {
                return;
            }
            // The first one says that the watch exists.
            if !first || said["result"]["created"] != json!(true) {
                // Refused, or too old: looked at again, but not at once again and again.
                std::thread::sleep(limit.min(Duration::from_millis(200)));
                return;
            }
            first = false;
        }
    }
}

fn password(address: &Address) -> Result<String, Error> {
    if let Some(path) = &address.password_file {
        let read = fs::read_to_string(path);
        let wrong = |error| Error::Address(format!("password-file={}: {error}", path.display()));
        return Ok(read.map_err(wrong)?.trim_end_matches(['\n', '\r']).to_owned());
    }
    env::var("OUTLIVE_CLUSTER_PASSWORD").map_err(|_| {
        Error::Address(
            "a user needs a password: by OUTLIVE_CLUSTER_PASSWORD or ?password-file=".to_owned(),
        )
    })
}
