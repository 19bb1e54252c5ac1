//! The word that says which process has a subscriber's slot, and in which state it is. What each state means, and
//! what a death in it leaves, `subscriber_slot.rs` and `kept.rs` say.

use crate::TokenId;

/// The process that has a subscriber's slot, and its state.
///
/// ```text
///  63    52 51     36   35   34     32 31       0
/// +--------+---------+------+---------+----------+
/// |   0    |  turn   | kept |  state  | token id |
/// +--------+---------+------+---------+----------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) process: TokenId,
    pub(super) state: State,
    /// Of one that has a name, whose slot stays if its process dies ([`Kept`]): which of the slot's
    /// owners it is, modulo 2^16.
    pub(super) turn: Option<u16>,
}

/// Bit of a claim: it has a turn.
const KEPT: u64 = 1 << 35;
/// Where the turn lies.
const TURN_AT: u32 = 36;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Its cursors are not written yet.
    Joining,
    /// It takes what is there; publishers do not wait for it.
    Subscribed,
    /// Publishers wait for it.
    Reliable,
    /// It asked to be reliable, and a publisher has stopped waiting for it: until it takes a message.
    Lagging,
    /// It takes nothing any more; samples of it are held.
    Leaving,
    /// Its owner was dead, and another process is clearing it.
    Sweeping,
}

/// Returns the word of a claim.
fn claim_word(token: u32, state: State, turn: Option<u16>) -> u64 {
    let state = match state {
        State::Joining => 1,
        State::Subscribed => 2,
        State::Reliable => 3,
        State::Leaving => 4,
        State::Sweeping => 5,
        State::Lagging => 6,
    };
    let turn = turn.map_or(0, |turn| KEPT | u64::from(turn) << TURN_AT);
    turn | state << 32 | u64::from(token)
}

/// Returns a claim's turn, and the number of its state; a larger one: the word is damaged.
#[inline]
fn turn_and_state(word: u64) -> (Option<u16>, u64) {
    match word & KEPT {
        0 => (None, word >> 32),
        _ => (Some((word >> TURN_AT) as u16), (word & !KEPT & !(0xffff << TURN_AT)) >> 32),
    }
}

impl Claim {
    pub(super) fn word(self) -> u64 {
        claim_word(self.process.as_u32(), self.state, self.turn)
    }

    /// Returns `None` when the slot is free, or the word is damaged.
    #[inline]
    pub(super) fn of(word: u64) -> Option<Claim> {
        let process = TokenId::from_word(word as u32)?;
        let (turn, state) = turn_and_state(word);
        let state = match state {
            1 => State::Joining,
            2 => State::Subscribed,
            3 => State::Reliable,
            4 => State::Leaving,
            6 => State::Lagging,
            _ => State::Sweeping,
        };
        Some(Claim { process, state, turn })
    }

    /// Returns whether the subscriber receives messages.
    pub(super) fn is_subscribed(self) -> bool {
        matches!(self.state, State::Subscribed | State::Reliable | State::Lagging)
    }
}

/// A slot that has a name, and whose subscriber has joined: as long as it has no living owner it is
/// kept for a successor of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    /// `None`: the owner has exited, and a sweep has taken its token out.
    pub(super) owner: Option<TokenId>,
    pub(super) state: State,
    /// See [`Claim::turn`].
    pub(super) turn: u16,
}

impl Kept {
    pub(super) fn word(self) -> u64 {
        claim_word(self.owner.map_or(0, TokenId::as_u32), self.state, Some(self.turn))
    }

    #[inline]
    pub(super) fn of(word: u64) -> Option<Kept> {
        let (turn, state) = turn_and_state(word);
        let (turn, state) = match (turn?, state) {
            (turn, 2) => (turn, State::Subscribed),
            (turn, 3) => (turn, State::Reliable),
            (turn, 6) => (turn, State::Lagging),
            _ => return None,
        };
        Some(Kept { owner: TokenId::from_word(word as u32), state, turn })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_keep_what_they_are_given() {
        for process in [TokenId::new(0, 0), TokenId::new(65_535, 8_191)] {
            for state in [
                State::Joining,
                State::Subscribed,
                State::Reliable,
                State::Leaving,
                State::Sweeping,
                State::Lagging,
            ] {
                for turn in [None, Some(0), Some(u16::MAX)] {
                    let claim = Claim { process, state, turn };
                    assert_eq!(Claim::of(claim.word()), Some(claim));
                    let kept = turn.filter(|_| claim.is_subscribed()).map(|turn| Kept {
                        owner: Some(process),
                        state,
                        turn,
                    });
                    assert_eq!(Kept::of(claim.word()), kept);
                    assert_eq!(kept.map_or(claim.word(), Kept::word), claim.word());
                    let left = kept.map(|kept| Kept { owner: None, ..kept });
                    assert_eq!(left.and_then(|left| Kept::of(left.word())), left);
                    let damaged = claim.word() | 1 << 63;
                    assert_eq!(Claim::of(damaged).map(|claim| claim.state), Some(State::Sweeping));
                    assert_eq!(Kept::of(damaged), None);
                }
            }
        }
        assert_eq!((Claim::of(0), Kept::of(0)), (None, None));
    }
}
