//! What is asked of etcd: leases, and one key's life by transactions.
//!
//! A lock is two keys. `…/owner` belongs to the holder's lease: it vanishes with it. `…/held` belongs
//! to none: it stays until a holder unlocks in order.
//!
//! | owner | held | meaning |
//! | --- | --- | --- |
//! | none | none | free |
//! | there | there | held; `died` in the owner's value: its holder was told of a death |
//! | none | there | the holder's lease has ended, or it unlocked without a repair: the next is told |
//! | there | none | cannot be: both are written, and deleted, in one transaction |
//!
//! `…/broken` is there while the lock is not recoverable.
//!
//! The fence is the revision at which the owner's key was created: revisions only grow.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::client::Client;
use crate::clock::Moment;
use crate::error::Error;

pub(crate) fn encode(text: impl AsRef<[u8]>) -> String {
    STANDARD.encode(text)
}

/// Numbers of 64 bits come as texts.
fn number(value: &Value) -> Option<i64> {
    value.as_str().and_then(|text| text.parse().ok()).or_else(|| value.as_i64())
}

fn text(value: &Value) -> Option<String> {
    String::from_utf8(STANDARD.decode(value.as_str()?).ok()?).ok()
}

/// A lease, as this machine knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) id: i64,
    /// It cannot have ended at the server before: its life counts from before the request was sent.
    pub(crate) until: Moment,
}

impl Client {
    /// Makes a lease.
    pub(crate) fn grant(&self, ttl: Duration, until: Moment) -> Result<Lease, Error> {
        let before = Moment::now();
        let answer = self.ask("/v3/lease/grant", &json!({ "TTL": ttl.as_secs() }), until)?;
        match (number(&answer["ID"]), number(&answer["TTL"])) {
            // The server may give more, and counts that; less would be used up too early.
            (Some(id), Some(given)) if given > 0 => {
                Ok(Lease { id, until: before.after(ttl.min(Duration::from_secs(given as u64))) })
            }
            _ => Err(Error::Damaged("a lease without a number".to_owned())),
        }
    }

    /// Renews a lease. `None`: it is no more.
    pub(crate) fn renew(
        &self,
        id: i64,
        ttl: Duration,
        until: Moment,
    ) -> Result<Option<Lease>, Error> {
        loop {
            // Of this very try: an answer to an earlier one is never looked at.
            let before = Moment::now();
            let limit = before.after(ttl / 6).min(until);
            match self.ask("/v3/lease/keepalive", &json!({ "ID": id.to_string() }), limit) {
                Ok(answer) => {
                    let given = number(&answer["result"]["TTL"]).unwrap_or(0);
                    let given = Duration::from_secs(given.max(0) as u64).min(ttl);
                    return Ok((!given.is_zero()).then(|| Lease { id, until: before.after(given) }));
                }
                Err(Error::Unreachable { last }) if until.has_passed() => {
                    return Err(Error::Unreachable { last });
                }
                Err(Error::Unreachable { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Ends a lease, and with it the keys that belong to it.
    pub(crate) fn revoke(&self, id: i64, until: Moment) -> Result<(), Error> {
        self.ask("/v3/lease/revoke", &json!({ "ID": id.to_string() }), until).map(drop)
    }
}

/// The keys of one lock, or of one permit.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    prefix: String,
}

/// What a try to take a slot came to.
#[derive(Debug)]
pub(crate) enum Got {
    /// It is ours. `died`: what the owner that left it half done had said of itself.
    Held { fence: i64, died: Option<String> },
    /// Another one has it, at that revision.
    Busy { revision: i64 },
    /// No client may have it.
    Broken,
    /// The lease is no more.
    NoLease,
}

/// What the slot's keys say.
struct Seen {
    owner: Option<(i64, i64, Value)>,
    held: Option<(i64, String)>,
    broken: bool,
    revision: i64,
}

impl Slot {
    pub(crate) fn new(prefix: String) -> Slot {
        Slot { prefix }
    }

    fn key(&self, which: &str) -> String {
        encode(format!("{}/{which}", self.prefix))
    }

    /// The owner's key, to wait until it vanishes.
    pub(crate) fn owner_key(&self) -> String {
        format!("{}/owner", self.prefix)
    }

    fn absent(&self, which: &str) -> Value {
        json!({ "key": self.key(which), "target": "CREATE", "result": "EQUAL", "create_revision": "0" })
    }

    fn get(&self, which: &str) -> Value {
        json!({ "request_range": { "key": self.key(which) } })
    }

    /// Takes the slot, if it is free. Each request is sent once: where no answer comes, it may still
    /// be on its way, and take the slot whenever it arrives, until the lease is ended.
    pub(crate) fn take(
        &self,
        client: &Client,
        lease: Lease,
        tag: &str,
        who: &str,
        until: Moment,
    ) -> Result<Got, Error> {
        let value = |died: Option<&str>| {
            encode(json!({ "tag": tag, "who": who, "died": died }).to_string())
        };
        let put_owner = |died: Option<&str>| json!({ "request_put": { "key": self.key("owner"), "value": value(died), "lease": lease.id.to_string() } });
        let put_held = json!({ "request_put": { "key": self.key("held"), "value": encode(who) } });
        let look = [self.get("owner"), self.get("held"), self.get("broken")];
        let mut body = json!({
            "compare": [self.absent("owner"), self.absent("held"), self.absent("broken")],
            "success": [put_owner(None), put_held],
            "failure": look,
        });
        let mut told = None;
        // A holder that died between two looks changes what is compared: a few times, not for ever.
        loop {
            let answer = client.ask_once("/v3/kv/txn", &body, until)?;
            if number(&answer["code"]) == Some(crate::client::NOT_FOUND as i64) {
                return Ok(Got::NoLease);
            }
            let revision = number(&answer["header"]["revision"])
                .ok_or_else(|| Error::Damaged("an answer without a revision".to_owned()))?;
            if answer["succeeded"] == json!(true) {
                return Ok(Got::Held { fence: revision, died: told });
            }
            let seen = self.seen(&answer, revision)?;
            if let Some((fence, lease_there, owner)) = seen.owner {
                if lease_there == lease.id && owner["tag"] == json!(tag) {
                    // Ours: the network delivered the request twice.
                    let died = owner["died"].as_str().map(str::to_owned);
                    return Ok(Got::Held { fence, died });
                }
                return Ok(Got::Busy { revision: seen.revision });
            }
            if seen.broken {
                return Ok(Got::Broken);
            }
            let Some((changed, who_died)) = seen.held else {
                // Free by now.
                body["compare"] =
                    json!([self.absent("owner"), self.absent("held"), self.absent("broken")]);
                body["success"][0] = put_owner(None);
                told = None;
                continue;
            };
            // Its last owner left it. It is taken only as it was seen, so that what is told is true.
            let as_seen = json!({ "key": self.key("held"), "target": "MOD", "result": "EQUAL", "mod_revision": changed.to_string() });
            body["compare"] = json!([self.absent("owner"), as_seen, self.absent("broken")]);
            body["success"][0] = put_owner(Some(&who_died));
            told = Some(who_died);
        }
    }

    /// Returns which process has the slot, in words.
    pub(crate) fn holder(&self, client: &Client, until: Moment) -> Result<Option<String>, Error> {
        let answer = client.ask("/v3/kv/range", &json!({ "key": self.key("owner") }), until)?;
        let value = text(&answer["kvs"][0]["value"]);
        let value = value.and_then(|text| serde_json::from_str::<Value>(&text).ok());
        Ok(value.and_then(|value| Some(value["who"].as_str()?.to_owned())))
    }

    fn seen(&self, answer: &Value, revision: i64) -> Result<Seen, Error> {
        let kv = |which: usize| {
            let found = &answer["responses"][which]["response_range"]["kvs"][0];
            (!found.is_null()).then_some(found)
        };
        let damaged = |what: &str| Error::Damaged(format!("{}/{what}", self.prefix));
        let owner = kv(0).map(|kv| {
            let fence = number(&kv["create_revision"]).ok_or_else(|| damaged("owner"))?;
            let lease = number(&kv["lease"]).unwrap_or(0);
            let value = text(&kv["value"]).and_then(|text| serde_json::from_str(&text).ok());
            Ok::<_, Error>((fence, lease, value.unwrap_or(Value::Null)))
        });
        let held = kv(1).map(|kv| {
            let changed = number(&kv["mod_revision"]).ok_or_else(|| damaged("held"))?;
            Ok::<_, Error>((changed, text(&kv["value"]).unwrap_or_default()))
        });
        Ok(Seen {
            owner: owner.transpose()?,
            held: held.transpose()?,
            broken: kv(2).is_some(),
            revision,
        })
    }

    /// Gives the slot back, if it is still that holder's; whether it was, as far as can be told: where
    /// it was sent twice, the first time may have done it, before the lease's end nothing else does.
    /// With `clean`, the next
    /// holder is told of no death; with `broken`, there is no next one.
    pub(crate) fn give_back(
        &self,
        client: &Client,
        fence: i64,
        clean: bool,
        broken: bool,
        until: Moment,
    ) -> Result<bool, Error> {
        let delete = |which: &str| json!({ "request_delete_range": { "key": self.key(which) } });
        let mut success = vec![delete("owner")];
        if clean {
            success.push(delete("held"));
        }
        if broken {
            let put = json!({ "request_put": { "key": self.key("broken"), "value": encode("") } });
            success.push(put);
        }
        let ours = json!({ "key": self.key("owner"), "target": "CREATE", "result": "EQUAL", "create_revision": fence.to_string() });
        let body = json!({ "compare": [ours], "success": success, "failure": [] });
        let mut sent = 0;
        let answer = client.ask_counting("/v3/kv/txn", &body, until, &mut sent)?;
        Ok(answer["succeeded"] == json!(true) || sent > 1)
    }

    /// Makes a slot usable again that no client could have.
    pub(crate) fn unbreak(&self, client: &Client, until: Moment) -> Result<(), Error> {
        let delete = |which: &str| json!({ "request_delete_range": { "key": self.key(which) } });
        let body = json!({
            "compare": [self.absent("owner")],
            "success": [delete("broken"), delete("held")], "failure": [],
        });
        client.ask("/v3/kv/txn", &body, until).map(drop)
    }
}

/// What is taken of a semaphore.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) indexes: Vec<u32>,
    pub(crate) revision: i64,
}

/// Says how many permits a semaphore has, the first time; returns how many it has.
pub(crate) fn permits(
    client: &Client,
    prefix: &str,
    wanted: Option<u32>,
    until: Moment,
) -> Result<Option<u32>, Error> {
    let key = encode(format!("{prefix}/permits"));
    let get = json!({ "request_range": { "key": key } });
    let mut body = json!({
        "compare": [{ "key": key, "target": "CREATE", "result": "EQUAL", "create_revision": "0" }],
        "success": [], "failure": [get],
    });
    if let Some(wanted) = wanted {
        body["success"] =
            json!([{ "request_put": { "key": key, "value": encode(wanted.to_string()) } }]);
    }
    let answer = client.ask("/v3/kv/txn", &body, until)?;
    if answer["succeeded"] == json!(true) {
        return Ok(wanted);
    }
    let value = &answer["responses"][0]["response_range"]["kvs"][0]["value"];
    let permits = text(value).and_then(|text| text.parse().ok());
    permits.map(Some).ok_or_else(|| Error::Damaged(format!("{prefix}/permits")))
}

/// Returns which permits are taken.
pub(crate) fn taken(client: &Client, prefix: &str, until: Moment) -> Result<Taken, Error> {
    let from = format!("{prefix}/permit/");
    let body =
        json!({ "key": encode(&from), "range_end": encode(end_of(&from)), "keys_only": true });
    let answer = client.ask("/v3/kv/range", &body, until)?;
    let keys = answer["kvs"].as_array().map(Vec::as_slice).unwrap_or_default();
    let index = |kv: &Value| {
        let key = text(&kv["key"])?;
        key.strip_prefix(&from)?.strip_suffix("/owner")?.parse().ok()
    };
    let revision = number(&answer["header"]["revision"]).unwrap_or(0);
    Ok(Taken { indexes: keys.iter().filter_map(index).collect(), revision })
}

/// Returns the first key behind all that begin so.
pub(crate) fn end_of(prefix: &str) -> String {
    let mut end = prefix.to_owned();
    // Our prefixes end in '/' or a letter.
    if let Some(last) = end.pop() {
        end.push(char::from_u32(last as u32 + 1).unwrap_or(last));
    }
    end
}
