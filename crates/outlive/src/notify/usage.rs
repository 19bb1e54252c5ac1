//! A notifier seen from outside: its notifiers, its listeners, and what the dead have left.

use super::config::NotifierConfig;
use super::inner::Inner;
use super::notices::Notices;
use crate::claim::Holder;
use crate::liveness::{Me, Registry};
use crate::segment::Segment;
use crate::{Error, Kind};

/// Holds what the inspection shows of a notifier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotifierUsage {
    /// What it was made with.
    pub config: NotifierConfig,
    /// The processes that notify, one for each notifier: dead ones, too, that have not been cleared
    /// away.
    pub notifiers: Vec<Holder>,
    /// The listeners, including dead ones that have not been cleared away.
    pub listeners: Vec<ListenerUsage>,
    /// How many notifiers have died.
    pub deaths: u64,
}

/// Describes a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListenerUsage {
    /// The listener, dead or alive.
    pub who: Holder,
    /// The notices that it has not taken; deaths of notifiers are not among them.
    pub pending: Notices,
}

/// What a sweep found in a notifier.
pub(crate) struct Swept {
    pub(crate) claims: u32,
    /// Whether names of processes remain that are dead and have not ended.
    pub(crate) names_left: bool,
}

fn open(segment: Segment, registry: &'static Registry) -> Result<Inner, Error> {
    segment.expect(Kind::Notifier)?;
    Inner::new(segment, registry)
}

pub(crate) fn usage(segment: Segment, registry: &'static Registry) -> Result<NotifierUsage, Error> {
    let inner = open(segment, registry)?;
    let mut usage = NotifierUsage { config: inner.config(), ..NotifierUsage::default() };
    for slot in inner.notifiers() {
        let seen = slot.peek();
        let owner = seen.owner.map(|owner| Holder::of(registry, owner));
        let is_dead = owner.as_ref().is_some_and(|owner| !owner.alive);
        usage.deaths += u64::from(seen.deaths) + u64::from(is_dead);
        usage.notifiers.extend(owner);
    }
    for slot in inner.listeners() {
        let listener = slot.owner().map(|owner| ListenerUsage {
            who: Holder::of(registry, owner),
            pending: slot.pending_notices(),
        });
        usage.listeners.extend(listener);
    }
    Ok(usage)
}

/// Takes the names of the dead out; `dry_run` only counts them.
pub(crate) fn sweep(segment: Segment, me: Me, dry_run: bool) -> Result<Swept, Error> {
    let inner = open(segment, me.registry)?;
    let ends = inner.ends();
    let mut swept = Swept { claims: 0, names_left: false };
    for slot in inner.notifiers() {
        let is_dead = slot.peek().owner.is_some_and(|owner| !me.is_alive(owner));
        swept.claims += u32::from(is_dead);
        if !dry_run {
            slot.look(me.registry);
        }
    }
    for slot in inner.listeners() {
        let Some(owner) = slot.owner().filter(|owner| !me.is_alive(*owner)) else { continue };
        // A thread of its process may still take notices.
        if !ends.has_ended(owner) {
            swept.names_left = true;
            continue;
        }
        swept.claims += 1;
        if !dry_run {
            slot.clear(owner);
        }
    }
    Ok(swept)
}
