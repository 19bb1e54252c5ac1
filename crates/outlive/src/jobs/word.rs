//! The word of a slot: what state it is in, and which thread or process may change that.
//!
//! ```text
//!  63       54 53        32 31         0
//! +-----------+------------+------------+
//! | attempts  | turn       | state      |
//! +-----------+------------+------------+
//! ```
//! *attempts* counts how often the job has been taken. *turn* counts how often the slot has been
//! claimed and its job retried: a process that read the word of an earlier job, or of a job before
//! it was retried, does not take it for a later one.

use crate::liveness::{TokenId, WAITERS};

const WAITING: u32 = 1;
const ASIDE: u32 = 2;
/// With a thread's id: that thread writes a job. The bit asks for a wake-up elsewhere; here the
/// eventcounts wake.
const WRITING: u32 = WAITERS;

const TURN_AT: u32 = 32;
const TURNS: u64 = (1 << 22) - 1;
const ATTEMPTS_AT: u32 = 54;
/// The most attempts that are counted.
pub(super) const MOST_ATTEMPTS: u32 = (1 << 10) - 1;

/// See the file's head. 0: free, and never used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word(pub(super) u64);

/// What a word says. `None` for an owner: the bits name none (a stray write), which counts as dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Free,
    /// That thread writes a job.
    Writing(Option<TokenId>),
    Waiting,
    /// That process has the job.
    Taken(Option<TokenId>),
    Aside,
}

impl Word {
    #[inline]
    pub(super) fn state(self) -> State {
        match self.0 as u32 {
            0 => State::Free,
            WAITING => State::Waiting,
            ASIDE => State::Aside,
            bits if bits & WRITING != 0 => State::Writing(TokenId::from_word(bits)),
            bits => State::Taken(TokenId::from_word(bits)),
        }
    }

    /// Returns whether a process, living or dead, has the job.
    pub(super) fn is_taken(self) -> bool {
        matches!(self.state(), State::Taken(_))
    }

    /// Returns how often the job has been taken.
    #[inline]
    pub(super) fn attempts(self) -> u32 {
        (self.0 >> ATTEMPTS_AT) as u32
    }

    fn with(self, attempts: u32, state: u32) -> Word {
        let turn = self.0 & TURNS << TURN_AT;
        Word(u64::from(attempts.min(MOST_ATTEMPTS)) << ATTEMPTS_AT | turn | u64::from(state))
    }

    /// Returns the word of the slot's next turn.
    fn next_turn(self, state: u32) -> Word {
        let turn = (self.0 >> TURN_AT).wrapping_add(1) & TURNS;
        Word(turn << TURN_AT).with(0, state)
    }

    /// Returns the word of the slot's next turn, in which that thread writes a job.
    pub(super) fn claimed(self, thread: TokenId) -> Word {
        self.next_turn(thread.as_u32() | WRITING)
    }

    pub(super) fn waiting(self) -> Word {
        self.with(self.attempts(), WAITING)
    }

    /// Returns the word of the job as if it had never been taken, in the next turn: were the job
    /// taken and set aside again, a join that read the word before would find it unchanged.
    pub(super) fn anew(self) -> Word {
        self.next_turn(WAITING)
    }

    pub(super) fn taken(self, process: TokenId) -> Word {
        self.with(self.attempts() + 1, process.as_u32())
    }

    pub(super) fn aside(self) -> Word {
        self.with(self.attempts(), ASIDE)
    }

    pub(super) fn free(self) -> Word {
        self.with(0, 0)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_word_goes_through_a_job_s_life() {
        let (thread, process) = (TokenId::new(65_535, 8_191), TokenId::new(7, 1));
        let written = Word(0).claimed(thread);
        assert_eq!(written.state(), State::Writing(Some(thread)));
        let waiting = written.waiting();
        assert_eq!((waiting.state(), waiting.attempts()), (State::Waiting, 0));
        let taken = waiting.taken(process).waiting().taken(process);
        assert_eq!((taken.state(), taken.attempts()), (State::Taken(Some(process)), 2));
        assert_eq!((taken.aside().state(), taken.aside().attempts()), (State::Aside, 2));
        let anew = taken.aside().anew();
        assert_eq!((anew.state(), anew.attempts()), (State::Waiting, 0));
        assert_ne!(anew.taken(process).aside(), waiting.taken(process).aside(), "another turn");
        assert_eq!(taken.free().state(), State::Free);
        assert_ne!(taken.free().claimed(thread), written, "another turn");
        assert_eq!(Word(u64::MAX).claimed(thread).free(), Word(0), "turns begin again");
    }

    #[test]
    fn attempts_stay_at_the_most_and_garbage_names_no_owner() {
        let process = TokenId::new(7, 1);
        let often = (0..2000).fold(Word(0), |word, _| word.taken(process));
        assert_eq!((often.attempts(), often.waiting().attempts()), (MOST_ATTEMPTS, MOST_ATTEMPTS));
        assert_eq!(Word(3).state(), State::Taken(None));
        assert_eq!(Word(0x8000_0001).state(), State::Writing(None));
    }
}
