//! The receivers of states and notifiers that leave, and what each has acknowledged: what only the latest of
//! counts is told again until all have it.

use std::collections::HashMap;
use std::sync::Mutex;

use zenoh::sample::{Sample, SampleKind};

use crate::context::lock;
use crate::keys;
use crate::states::wire::{Has, Turn};
use crate::wire::Origin;

/// As many receivers of one are waited for.
const MOST_RECEIVERS: usize = 1024;
/// As many states, and as many notifiers, have receivers.
const MOST_SENT: usize = 1 << 14;

/// A receiver of one.
#[derive(Default)]
struct Receiver {
    /// A successor's may come before its predecessor's is gone.
    tokens: usize,
    has: (u64, Turn),
}

/// See the head of this file: by state, or notifier, of this domain.
#[derive(Default)]
pub struct Receivers(Mutex<HashMap<u64, HashMap<Origin, Receiver>>>);

impl Receivers {
    /// A receiver's token has come, or gone.
    pub fn token(&self, instance: u64, who: Origin, came: bool) {
        let mut all = lock(&self.0);
        if came && all.len() >= MOST_SENT {
            return;
        }
        let receivers = all.entry(instance).or_default();
        if receivers.len() < MOST_RECEIVERS || receivers.contains_key(&who) {
            let receiver = receivers.entry(who).or_default();
            receiver.tokens =
                if came { receiver.tokens + 1 } else { receiver.tokens.saturating_sub(1) };
        }
        receivers.retain(|_, receiver| receiver.tokens > 0);
        if receivers.is_empty() {
            all.remove(&instance);
        }
    }

    /// A receiver says what it has.
    pub fn has(&self, instance: u64, has: Has) {
        let mut all = lock(&self.0);
        let receiver = all.get_mut(&instance).and_then(|of| of.get_mut(&has.who));
        if let Some(receiver) = receiver {
            receiver.has = (has.version, has.turn);
        }
    }

    /// Whether one lacks that version, or that word of the writer.
    pub fn lack(&self, instance: u64, version: u64, turn: Turn) -> bool {
        let all = lock(&self.0);
        let mut receivers = all.get(&instance).into_iter().flat_map(HashMap::values);
        receivers.any(|receiver| receiver.has.0 < version || receiver.has.1 < turn)
    }
    /// A token whose key begins so has come, or gone.
    pub fn token_of(&self, kind: &str, sample: &Sample) {
        if let Some((sent, who)) = keys::parse_received(kind, sample.key_expr().as_str()) {
            self.token(sent.instance, who, sample.kind() == SampleKind::Put);
        }
    }

    /// A message whose key begins so says what a receiver has.
    pub fn acknowledged(&self, kind: &str, sample: &Sample) {
        let sent = keys::parse(kind, sample.key_expr().as_str());
        let has = Has::from_bytes(&sample.payload().to_bytes());
        if let Some((sent, has)) = sent.zip(has) {
            self.has(sent.instance, has);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receivers_lack_what_they_have_not_acknowledged() {
        let receivers = Receivers::default();
        let turn = Turn { start: 2, changes: 1 };
        assert!(!receivers.lack(1, 5, turn));
        receivers.token(1, Origin(1), true);
        assert!(receivers.lack(1, 5, turn) && !receivers.lack(2, 5, turn));
        receivers.has(1, Has { who: Origin(1), version: 5, turn });
        // None that has no token.
        receivers.has(1, Has { who: Origin(2), version: 1, turn });
        assert!(!receivers.lack(1, 5, turn));
        assert!(receivers.lack(1, 5, Turn { start: 2, changes: 2 }) && receivers.lack(1, 6, turn));
        receivers.token(1, Origin(1), true);
        receivers.token(1, Origin(1), false);
        assert!(receivers.lack(1, 6, turn));
        receivers.token(1, Origin(1), false);
        assert!(!receivers.lack(1, 6, turn));
        for who in 0..2 * MOST_RECEIVERS as u128 {
            receivers.token(1, Origin(who), true);
        }
        assert_eq!(lock(&receivers.0)[&1].len(), MOST_RECEIVERS);
    }
}
