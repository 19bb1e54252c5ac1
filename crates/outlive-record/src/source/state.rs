//! One state that is recorded, by a tap: each value that its buffers still have.
//!
//! The positions have the version of the first value that is not in the file, and how many were lost or skipped
//! and not told. A recorder that is the first one, or was told to stop and to start again, begins with the value that
//! holds then.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

use outlive::state::Tap;
use outlive::{Domain, Kind};
use outlive_mcap::{Positions, Writer};

use super::polled::{Copied, is_full, numbers};
use super::{Found, Payload, Source};
use crate::account::{Entry, Missing};
use crate::error::Error;
use crate::recorder::Options;

/// See the head of this file.
pub struct State {
    name: String,
    state: outlive::state::State<[u8]>,
    instance: u64,
    tap: Tap,
    copied: Copied,
    missing: Missing,
    /// Values of versions before that one were set while no recorder was to record.
    skipped_to: u64,
    /// The version of the first value that is not in the file, nor in the open group.
    next: u64,
    value: Vec<u8>,
    /// Of the value that the tap has read last, and that has no room in the open group.
    pending: Option<u64>,
    is_over: bool,
}

impl State {
    /// Opens a state.
    pub fn open(
        domain: &Domain,
        name: &str,
        options: &Options,
        entry: &Entry<'_>,
    ) -> Result<State, Error> {
        let state = outlive::state::State::open_as_bytes(domain, name)?;
        let config = state.config();
        let metadata = BTreeMap::from([
            ("outlive.capacity".to_owned(), config.capacity.to_string()),
            ("outlive.fixed_size".to_owned(), config.is_fixed_size.to_string()),
        ]);
        let (description, attributes) = (state.description()?, state.attributes()?);
        let copied = Copied::new(Kind::State, name, description, &attributes, metadata, options);
        // A random number, by which a successor knows the state again. Gateways give states one, too.
        let instance = state.instance(RandomState::new().hash_one(std::process::id()).max(1));
        let beginning = entry.beginning(instance);
        let (version, mut missing) = (state.version(), Missing::default());
        let next = match numbers(entry.positions().get(&key(instance))) {
            Some([next, lost, skipped]) => {
                missing = Missing::of_predecessor(lost, skipped);
                next
            }
            None if beginning.is_new => 1,
            None => version,
        };
        let (next, skipped_to) = match (beginning.is_skipped, beginning.is_all_wanted) {
            (true, true) => (next, version.saturating_add(1)),
            (true, false) => {
                missing.skip(version.saturating_sub(next));
                (version, 0)
            }
            (false, _) => (next, 0),
        };
        Ok(State {
            name: name.to_owned(),
            tap: state.tap(next),
            state,
            instance,
            copied,
            missing,
            skipped_to,
            next,
            value: Vec::new(),
            pending: None,
            is_over: false,
        })
    }
}

fn key(instance: u64) -> String {
    format!("{instance:016x}.state")
}

/// A state has no more buffers.
const MOST: u64 = 66;

impl Source for State {
    fn kind(&self) -> Kind {
        Kind::State
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn channel(&self) -> &str {
        &self.copied.channel
    }

    fn is_removed(&self) -> bool {
        self.state.is_removed()
    }

    fn add_channel(&mut self, writer: &mut Writer<Payload>) -> Result<(), Error> {
        self.copied.add_channel(writer)
    }

    fn lag(&self) -> u64 {
        MOST
    }

    fn take(&mut self, writer: &mut Writer<Payload>, now: u64) -> Result<Found, Error> {
        if self.is_over {
            return Ok(Found::Nothing);
        }
        let version = match self.pending.take() {
            Some(version) => version,
            None => match self.tap.next(&mut self.value) {
                Ok(None) => return Ok(Found::Nothing),
                Ok(Some(tapped)) => {
                    let first = tapped.version.saturating_sub(tapped.lost);
                    self.missing.miss(tapped.lost, self.skipped_to.saturating_sub(first));
                    // Those before it are accounted for; if it has no room yet, it is not.
                    self.next = tapped.version;
                    tapped.version
                }
                Err(error) => {
                    self.is_over = true;
                    return Ok(Found::PassedOver(format!("it is not recorded any more: {error}")));
                }
            },
        };
        if is_full(writer, self.value.len()) {
            self.pending = Some(version);
            return Ok(Found::Full);
        }
        self.next = version.saturating_add(1);
        match self.copied.put(writer, &self.value, version, now) {
            Ok(true) => Ok(Found::Message { bytes: self.value.len(), written: 1 }),
            Ok(false) => Ok(Found::Message { bytes: 0, written: 0 }),
            Err(error @ outlive_mcap::Error::TooLarge { .. }) => {
                Ok(Found::PassedOver(error.to_string()))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn missing(&self) -> &Missing {
        &self.missing
    }

    fn missing_mut(&mut self) -> &mut Missing {
        &mut self.missing
    }

    /// The value that holds now is not counted: it may be the one with which a recorder begins.
    fn leave(&mut self, is_skipped: bool) -> Result<(), Error> {
        let version = self.state.version();
        let count = version.saturating_sub(self.next);
        self.missing.miss(count, if is_skipped { count } else { 0 });
        self.next = self.next.max(version);
        Ok(())
    }

    fn instance(&self) -> u64 {
        self.instance
    }

    fn note_positions(&mut self, positions: &mut Positions) {
        let (lost, skipped) = (self.missing.untold_lost(), self.missing.untold_skipped());
        positions.insert(key(self.instance), format!("{} {lost} {skipped}", self.next));
    }
}
