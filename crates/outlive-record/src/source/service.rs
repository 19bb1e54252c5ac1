//! One service that is recorded: which calls were made, by whom, how they ended, and how long they took. What
//! was asked and answered is not in the file (crates/outlive/src/rpc/tap.rs says why).
//!
//! A call is told twice: when it is seen first, and when it is over. Calls are looked at from time to time, so
//! most that take less time are seen when they are over, and of several in one slot the last one alone; the
//! others are counted as lost. The positions have how many calls are accounted for, how many of these were lost or
//! skipped and are not told, and which of them are not over, for a successor.

use std::collections::BTreeMap;
use std::time::Instant;

use outlive::rpc::{Phase, Seen};
use outlive::{Domain, Kind};
use outlive_mcap::{MessageHeader, Positions, Writer};
use serde_json::json;

use super::{Found, Payload, Source};
use crate::account::{Entry, Missing};
use crate::error::Error;
use crate::form::KIND;

/// A call that is known.
struct Known {
    number: u64,
    is_over: bool,
    /// When it was seen first; `None`: before this recorder.
    since: Option<Instant>,
}

/// A call of which something is to be told.
struct News {
    call: Seen,
    since: Option<Instant>,
    /// It is told for the first time.
    is_first: bool,
    /// The same, and it was made since the recorder began.
    counts: bool,
}

/// See the head of this file.
pub struct Service {
    name: String,
    channel: String,
    service: outlive::rpc::Service,
    id: u16,
    metadata: BTreeMap<String, String>,
    calls: BTreeMap<u32, Known>,
    /// What is to be told, the last one first. It is accounted for when it is told.
    news: Vec<News>,
    /// Calls that were accounted for when it began, those seen since, and how many had been made at the
    /// last look.
    base: u64,
    seen: u64,
    made: u64,
    /// Of these, those that had been made at the look before: they have been asked by now, so each is seen, or gone.
    settled: u64,
    /// Calls since `base` that were lost.
    lost: u64,
    missing: Missing,
    /// It has not looked yet. With a predecessor: its positions are `base` and `calls`.
    is_new: bool,
    has_predecessor: bool,
    is_over: bool,
}

impl Service {
    /// Opens a service. `None`: it is a recorder's own.
    pub fn open(domain: &Domain, name: &str, entry: &Entry<'_>) -> Result<Option<Service>, Error> {
        // Of any recorder: what is asked of it is in its own file's events.
        if name.starts_with(crate::control::PREFIX) {
            return Ok(None);
        }
        let service = outlive::rpc::Service::open_as_bytes(domain, name)?;
        if service.current_server().is_some_and(|server| server.pid == std::process::id()) {
            return Ok(None);
        }
        let beginning = entry.beginning(service.id());
        let mut metadata = BTreeMap::from([
            (KIND.to_owned(), Kind::Service.to_string()),
            ("outlive.max_bytes".to_owned(), service.config().max_bytes.to_string()),
            ("outlive.max_servers".to_owned(), service.config().max_servers.to_string()),
        ]);
        for (key, value) in service.attributes()?.iter() {
            metadata.insert(format!("{}{key}", crate::form::ATTRIBUTE), value.to_string());
        }
        let mut own = Service {
            name: name.to_owned(),
            channel: format!("{}/{name}", Kind::Service),
            id: 0,
            metadata,
            calls: BTreeMap::new(),
            news: Vec::new(),
            base: 0,
            seen: 0,
            made: 0,
            settled: 0,
            lost: 0,
            missing: Missing::default(),
            is_new: !beginning.is_new || beginning.is_skipped,
            has_predecessor: false,
            is_over: false,
            service,
        };
        let position = entry.positions().get(&own.key());
        let is_skipping = beginning.is_skipped && (beginning.is_new || position.is_some());
        if let Some(position) = position {
            let mut words = position.split(' ');
            let mut number = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
            own.base = number();
            own.missing = Missing::of_predecessor(number(), number());
            // What was skipped is as what was before a first recorder, but for its number.
            (own.is_new, own.has_predecessor) = (true, !beginning.is_skipped);
            for call in words {
                let Some((slot, number)) = call.split_once(':') else { continue };
                if let (Ok(slot), Ok(number)) = (slot.parse(), number.parse()) {
                    own.calls.insert(slot, Known { number, is_over: false, since: None });
                }
            }
        }
        let accounted = own.base;
        (own.made, own.settled) = (accounted, accounted);
        // Now: calls that are over at the first turn count, too.
        own.look()?;
        if is_skipping {
            // Those that are under way are told, though they were asked before it began.
            let told = own.news.iter().filter(|news| news.is_first).count() as u64;
            own.missing.skip(own.base.saturating_sub(accounted).saturating_sub(told));
        }
        Ok(Some(own))
    }

    fn key(&self) -> String {
        format!("{:016x}.service", self.service.id())
    }

    /// Looks at all slots, and notes what is new there.
    fn look(&mut self) -> Result<(), outlive::Error> {
        let (calls, news, now) = (&mut self.calls, &mut self.news, Instant::now());
        let is_new = std::mem::take(&mut self.is_new);
        // What was made before the recorder began does not count.
        let counts = !is_new || self.has_predecessor;
        let made = self.service.look_at_calls(|call| {
            let is_over = call.phase.is_over();
            let known = calls.get(&call.slot).filter(|known| known.number == call.number);
            match known {
                Some(known) if known.is_over || !is_over => {}
                Some(known) => {
                    let since = known.since;
                    news.push(News { call, since, is_first: false, counts: false });
                }
                // It was over before: a predecessor has told of it, or it is lost.
                None if is_new && is_over => {
                    let known = Known { number: call.number, is_over, since: None };
                    calls.insert(call.slot, known);
                }
                None => {
                    let since = (!is_over).then_some(now);
                    news.push(News { call, since, is_first: true, counts });
                }
            }
        })?;
        news.reverse();
        self.settled = self.made;
        self.made = self.made.max(made);
        if !counts {
            (self.base, self.settled) = (made, made);
        }
        Ok(())
    }

    /// All that a look has found is told.
    fn settle(&mut self) {
        let lost = self.settled.saturating_sub(self.base.saturating_add(self.seen));
        self.missing.lose(lost.saturating_sub(self.lost));
        self.lost = self.lost.max(lost);
    }
}

impl Source for Service {
    fn kind(&self) -> Kind {
        Kind::Service
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn channel(&self) -> &str {
        &self.channel
    }

    fn is_removed(&self) -> bool {
        self.service.is_removed()
    }

    fn add_channel(&mut self, writer: &mut Writer<Payload>) -> Result<(), Error> {
        self.id = writer.add_channel(0, &self.channel, "json", &self.metadata)?;
        Ok(())
    }

    fn lag(&self) -> u64 {
        self.calls.len() as u64
    }

    fn take(&mut self, writer: &mut Writer<Payload>, now: u64) -> Result<Found, Error> {
        if self.is_over {
            return Ok(Found::Nothing);
        }
        if self.news.is_empty()
            && let Err(error) = self.look()
        {
            self.is_over = true;
            return Ok(Found::PassedOver(format!("it is not recorded any more: {error}")));
        }
        let Some(News { call, since, counts, .. }) = self.news.pop() else {
            self.settle();
            return Ok(Found::Nothing);
        };
        let sides = self.service.sides(call.slot).unwrap_or_default();
        let is_over = call.phase.is_over();
        let line = json!({
            "call": format!("{}.{}", call.slot, call.number),
            "is": call.phase.name(),
            "client": sides.client.map(|who| json!({"pid": who.pid, "program": who.program})),
            // Of a call that has not begun, the claim names the server of the call before.
            "server": sides.server.filter(|_| call.phase != Phase::Waiting)
                .map(|who| json!({"pid": who.pid, "program": who.program})),
            "request_bytes": call.request_len,
            "replies": call.replies,
            "seconds": since.filter(|_| is_over).map(|since| since.elapsed().as_secs_f64()),
        });
        let line = line.to_string();
        let header = MessageHeader {
            channel_id: self.id,
            sequence: call.number as u32,
            log_time: now,
            publish_time: now,
        };
        writer.put(&header, line.as_bytes())?;
        self.calls.insert(call.slot, Known { number: call.number, is_over, since });
        self.seen += u64::from(counts);
        if self.news.is_empty() {
            self.settle();
        }
        Ok(Found::Message { bytes: line.len(), written: 1 })
    }

    fn missing(&self) -> &Missing {
        &self.missing
    }

    fn missing_mut(&mut self) -> &mut Missing {
        &mut self.missing
    }

    fn leave(&mut self, is_skipped: bool) -> Result<(), Error> {
        let accounted = self.base.saturating_add(self.seen).saturating_add(self.lost);
        let made = self.service.calls_made();
        let count = made.saturating_sub(accounted);
        self.missing.miss(count, if is_skipped { count } else { 0 });
        (self.base, self.seen, self.lost) = (accounted.saturating_add(count), 0, 0);
        Ok(())
    }

    fn instance(&self) -> u64 {
        self.service.id()
    }

    fn note_positions(&mut self, positions: &mut Positions) {
        let accounted = self.base.saturating_add(self.seen).saturating_add(self.lost);
        let (lost, skipped) = (self.missing.untold_lost(), self.missing.untold_skipped());
        let mut position = format!("{accounted} {lost} {skipped}");
        for (slot, known) in self.calls.iter().filter(|(_, known)| !known.is_over) {
            position.push_str(&format!(" {slot}:{}", known.number));
        }
        positions.insert(self.key(), position);
    }
}
