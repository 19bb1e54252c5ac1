//! A process that is about to subscribe: it takes a slot, or that of a dead one of its name, and finds
//! the messages with which it begins. It counts once its claim says so: subscriber_slot.rs, kept.rs.

use std::sync::Arc;

use super::control::OwnSlot;
use super::durability::vouched_from;
use super::mapping::Inner;
use super::subscriber_options::SubscriberOptions;
use super::watched::in_memory;
use super::{kept, subscriber_slot};
use crate::durability::Durability;
use crate::liveness::Me;
use crate::shim::Ordering;
use crate::sys::identity;
use crate::{Error, TokenId};

/// A subscriber that has a slot and does not count yet.
pub(super) struct Joining {
    pub(super) me: Me,
    pub(super) process: TokenId,
    pub(super) owner: u64,
    pub(super) slot: Arc<OwnSlot>,
    pub(super) cursors: Vec<u64>,
    /// Whether it has the slot of a dead one of its name.
    pub(super) is_successor: bool,
}

impl Joining {
    /// Takes a slot, and writes the cursors of all rings that there are.
    pub(super) fn begin(inner: &Inner, options: &SubscriberOptions) -> Result<Joining, Error> {
        check(inner, options)?;
        let durability = options.durability.unwrap_or(inner.durability());
        let me = inner.registry.me()?;
        let process = inner.registry.process_token()?;
        let owner = identity::this_process()
            .map_err(|errno| Error::from_errno("subscribe to", inner.segment.path(), errno))?;
        let slot = match &options.kept {
            None => subscriber_slot::take(inner, me, process, options.reliable)?,
            Some(kept) => loop {
                if let Some(slot) = kept::take_over(inner, me, process, &kept.name)? {
                    let words = inner.own_words(&slot);
                    words.kept.set_patience(kept.patience);
                    return Joining::succeed(inner, me, process, owner, Arc::clone(&slot))
                        // The place stays for the next one, which may be this process: it may live long.
                        .inspect_err(|_| kept::abandon(inner, words, process));
                }
                let slot = subscriber_slot::take(inner, me, process, options.reliable)?;
                match kept::announce(inner, me, &slot, process, kept) {
                    Ok(true) => break slot,
                    other => {
                        // The slot is this process's, which may live long.
                        subscriber_slot::let_go_if_unused(inner.own_words(&slot));
                        other?;
                    }
                }
            },
        };
        let words = inner.own_words(&slot);
        let depth = u64::from(inner.plan.depth);
        let history = u64::from(options.history).min(depth);
        let mut cursors = in_memory(words.cursors.len() as u32, 0);
        for ring in 0..inner.rings() {
            if let Err(error) = inner.slots(ring) {
                // The slot is this process's, which may live long.
                subscriber_slot::let_go_if_unused(words);
                return Err(error);
            }
            // One that its publisher did not count, as it died, is old as well.
            let published = inner.all_published(ring);
            let oldest = match durability {
                _ if options.unvouched => 0,
                Durability::Persistent => 0,
                Durability::TransientLocal => vouched_from(inner, ring).unwrap_or(published),
                Durability::Volatile => published,
            };
            cursors.push(published.saturating_sub(history).max(oldest).min(published));
        }
        for (ring, cursor) in words.cursors.iter().enumerate() {
            cursor.store(cursors.get(ring).copied().unwrap_or(0), Ordering::Relaxed);
        }
        Ok(Joining { me, process, owner, slot, cursors, is_successor: false })
    }

    /// Goes on at the cursors of a dead one of its name.
    fn succeed(
        inner: &Inner,
        me: Me,
        process: TokenId,
        owner: u64,
        slot: Arc<OwnSlot>,
    ) -> Result<Joining, Error> {
        let words = inner.own_words(&slot);
        let mut cursors = in_memory(words.cursors.len() as u32, 0);
        // Of rings that have come since: 0, as the dead one has left it.
        for ring in 0..inner.rings() {
            inner.slots(ring)?;
            let cursor = words.cursors[ring as usize].load(Ordering::Relaxed);
            // A damaged one would pass over what is published.
            let sound = cursor.min(inner.all_published(ring));
            if sound != cursor {
                words.cursors[ring as usize].store(sound, Ordering::Release);
            }
            cursors.push(sound);
        }
        Ok(Joining { me, process, owner, slot, cursors, is_successor: true })
    }
}

/// Checks that the topic offers what is asked for, and that it makes sense.
fn check(inner: &Inner, options: &SubscriberOptions) -> Result<(), Error> {
    if options.reliable && !inner.offers_reliable() {
        return Err(Error::OtherOptions {
            path: inner.segment.path().into(),
            what: "reliability",
            found: "best effort (its makers did not offer reliable delivery)".into(),
            wanted: "reliable".into(),
        });
    }
    let offered = inner.durability();
    let wanted = options.wanted_durability();
    if wanted > offered && !options.unvouched {
        return Err(Error::OtherOptions {
            path: inner.segment.path().into(),
            what: "durability",
            found: offered.to_string().into(),
            wanted: match options.history {
                0 => wanted.to_string().into(),
                history => format!("{wanted}, for a history of {history}").into(),
            },
        });
    }
    if options.history > 0 && options.durability == Some(Durability::Volatile) {
        return Err(Error::InvalidOption {
            what: "a subscriber's history",
            wanted: options.history.to_string().into(),
            why: "0, or another durability than volatile",
        });
    }
    if let Some(kept) = &options.kept {
        kept.check()?;
    }
    if options.keep_last == Some(0) {
        return Err(Error::InvalidOption {
            what: "a subscriber's keep_last",
            wanted: "0".into(),
            why: "1 message or more",
        });
    }
    if options.max_age.is_some() && !inner.has_stamps() {
        return Err(Error::OtherOptions {
            path: inner.segment.path().into(),
            what: "option stamps",
            found: "false".into(),
            wanted: "true (without stamps no message has an age)".into(),
        });
    }
    Ok(())
}
