//! The word `phase` of a barrier (`barrier.rs`): a number, and bits that say what is amiss.

/// A bit of `phase`: the barrier is being reset.
const RESETTING: u32 = 1 << RESETTING_AT;
pub(super) const RESETTING_AT: u8 = 29;
/// The lower bits of `phase`.
const NUMBER: u32 = RESETTING - 1;

/// A value of `phase`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Phase(pub(super) u32);

impl Phase {
    /// Returns the number, which is all that a participant keeps of the phase in which it arrives.
    pub(super) fn number(self) -> u32 {
        self.0 & NUMBER
    }

    /// Returns the place of the bit that says "broken" beside that number.
    pub(super) fn broken_at(number: u32) -> u8 {
        31 - (number & 1) as u8
    }

    pub(super) fn is_broken(self) -> bool {
        self.0 >> Phase::broken_at(self.0) & 1 != 0
    }

    /// Returns whether a reset has begun and not ended. An abort during a reset leaves the barrier
    /// broken.
    pub(super) fn is_resetting(self) -> bool {
        self.0 & RESETTING != 0 && !self.is_broken()
    }

    /// Returns whether participants can arrive and pass.
    pub(super) fn is_whole(self) -> bool {
        self.0 & RESETTING == 0 && !self.is_broken()
    }

    /// Returns whether it is the phase of that number, and whole.
    pub(super) fn is_still(self, number: u32) -> bool {
        self.number() == number && self.is_whole()
    }

    pub(super) fn broken(self) -> Phase {
        Phase(self.0 | 1 << Phase::broken_at(self.0))
    }

    /// Returns the phase so much further, with nothing amiss.
    pub(super) fn further(self, by: u32) -> Phase {
        Phase(self.0.wrapping_add(by) & NUMBER)
    }
}
