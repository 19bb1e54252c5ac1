//! Sources, looked at and slept on together: what a set and a bridge have in common.
//!
//! 1. Look at all.
//! 2. Announce to all that have rung since.
//! 3. One fence.
//! 4. Look at all again.
//! 5. Sleep on all their words, and all owners whose end matters, until the earliest moment.
//! 6. What each source's protocol asks of who woke. From 1.
//!
//! The index that the kernel returns is not asked for. It keeps nothing in shared memory: a death here leaves nothing but a
//! wake-up for somebody's end, which `liveness/many.rs` passes on. doc/protocols/wait_set.md.

use std::sync::Arc;
use std::time::Duration;

use super::source::{Announced, Look, Waited, What};
use crate::Deadline;
use crate::liveness::{Asleep, Many, Net, Registry, TokenId, Words};
use crate::sys::Errno;
use crate::sys::barrier;
use crate::sys::futex::Watch;
use crate::sys::robust::PassOn;

/// How long one sleep lasts at most where the kernel denies the fence: a sender may overlook us.
const SHORT: Duration = Duration::from_millis(10);

/// A source among others.
pub(super) struct Member {
    pub(super) key: u64,
    pub(super) waited: Arc<dyn Waited>,
    announced: Announced,
}

/// See the file's head.
#[derive(Default)]
pub(super) struct Crowd {
    members: Vec<Member>,
    many: Many,
    /// Where the next look begins: who is told first changes from one to the next.
    turn: usize,
}

impl Crowd {
    pub(super) fn add(&mut self, key: u64, waited: Arc<dyn Waited>) {
        self.members.push(Member { key, waited, announced: Announced::default() });
    }

    pub(super) fn remove(&mut self, key: u64) -> bool {
        let before = self.members.len();
        self.members.retain(|member| member.key != key);
        self.members.len() < before
    }

    /// Lets go of those whose key is not wanted any more, into `gone`.
    pub(super) fn retain(&mut self, wanted: impl Fn(u64) -> bool, gone: &mut Vec<Member>) {
        gone.extend(self.members.extract_if(.., |member| !wanted(member.key)));
    }

    pub(super) fn members(&self) -> &[Member] {
        &self.members
    }

    /// Step 1: all that are ready.
    pub(super) fn look(&mut self, mut found: impl FnMut(u64, What)) {
        let len = self.members.len();
        if len == 0 {
            return;
        }
        self.turn = (self.turn + 1) % len;
        for member in self.members[self.turn..].iter().chain(&self.members[..self.turn]) {
            if let Look::Ready(what) = member.waited.look() {
                found(member.key, what);
            }
        }
    }

    /// Whether one is ready, for who spins.
    pub(super) fn is_any_ready(&self) -> bool {
        self.members.iter().any(|member| matches!(member.waited.look(), Look::Ready(_)))
    }

    /// Steps 2 to 6. The caller looks again after any return but an error; `extra` is a word of its own.
    pub(super) fn sleep(
        &mut self,
        registry: &'static Registry,
        pass: &PassOn,
        extra: Option<Watch<'_>>,
        deadline: Deadline,
    ) -> Result<Asleep, Errno> {
        for member in &mut self.members {
            member.waited.announce(&mut member.announced);
        }
        // Announced before the looks: pairs with the senders' `light`.
        let mut until = if barrier::heavy() { deadline } else { deadline.earlier(Deadline::after(SHORT)) };
        let mut words = Words::new();
        let mut owners: Vec<TokenId> = Vec::new();
        let mut asleep = Vec::with_capacity(self.members.len());
        extra.into_iter().for_each(|watch| words.add(&[watch]));
        for Member { waited, announced, .. } in &mut self.members {
            let waited: &Arc<dyn Waited> = waited;
            // The words first: what they are is what the look behind them has not found enough.
            waited.add_words(announced, &mut words);
            let announced: &Announced = announced;
            asleep.push((waited, announced));
            match waited.look() {
                Look::Ready(_) => return Ok(Asleep::LookAgain),
                Look::Nothing => {}
                Look::Owner(owner) => owners.push(owner),
                Look::Several => waited.owners(&mut owners),
                Look::At(moment) => until = until.earlier(moment),
            }
        }
        owners.sort_unstable_by_key(|owner| owner.as_u32());
        owners.dedup();
        let alone = owners.is_empty();
        // All of them, also behind one that has it spread.
        let nets = asleep.iter().map(|(waited, announced)| waited.net(announced, alone));
        let net = nets.fold(Net::Needless, |all, one| if one == Net::Spread { one } else { all });
        let slept = self.many.sleep(registry, pass, words, &owners, net, until);
        for member in &self.members {
            member.waited.woken(&member.announced);
        }
        match slept? {
            Asleep::TimedOut if !deadline.has_passed() => Ok(Asleep::LookAgain),
            ended => Ok(ended),
        }
    }
}
