//! How a client waits for its call's next reply.
//!
//! 1. `ready` says this number: a reply, or the end.
//! 2. Spin; then a wait is prepared on `replies` (wake/event_count.rs), and 1 again.
//! 3. Find the call's owner, by its claim: not begun: all servers that live; TAKEN: that process;
//!    WRITING: that thread. If it is dead: 1 once more, then from that very claim → CANCELLED, and
//!    the caller is told.
//! 4. Sleep on {`replies`, `relay`, the claim, the owners' tokens}.
//!
//! | the server dies | the client |
//! | --- | --- |
//! | before it took the call | sees the claim one behind: told "not begun", or waits for the next server |
//! | with the call TAKEN, or WRITING | told "begun" |
//! | after `ready` | has the reply |
//! | leaves in good order | is woken by it, and told `NoServer` if the call was not begun |
//!
//! proof/models/rpc.pml, proof/models/rpc_servers.pml.

use super::call::{Claim, Ready, State, next};
use super::client_call::Call;
use super::error::CallError;
use super::readiness::half_of;
use super::reply::Reply;
use crate::claim::{RoleState, Standing};
use crate::liveness::{Me, TokenId};
use crate::shim::{Ordering, fence};
use crate::sys::futex::Watch;
use crate::sys::robust::WakeRelay;
use crate::wake::{Asleep, Sleep, Ticket};
use crate::{Deadline, Payload};

/// What to do about a call that has no reply yet.
pub(super) enum Next {
    LookAgain,
    Watch(TokenId),
    WaitForServer(Standing),
    Over(CallError),
}

impl<R: Payload + ?Sized> Call<'_, R> {
    /// Does steps 2 to 4. Without a deadline it does not wait.
    #[cold]
    pub(super) fn wait_slow(
        &mut self,
        deadline: Option<Deadline>,
    ) -> Result<Option<Reply<R>>, CallError> {
        let me = self.client.me_of_owner()?;
        let words = self.slot.words;
        if let Some(deadline) = deadline {
            let (number, taken) = (self.number, self.taken);
            let is_there = || {
                let ready = Ready(words.ready.load(Ordering::Relaxed));
                ready.number() == number && (ready.beyond(taken) > 0 || ready.is_end())
            };
            if self.client.service.queue.spin_wait().spin_until(deadline, is_there)
                && let Some(found) = self.look()?
            {
                return Ok(found);
            }
        }
        let relay = WakeRelay::begin(me.list());
        let mut out_of_time = deadline.is_none();
        let deadline = deadline.unwrap_or(Deadline::NEVER);
        loop {
            let ticket = self.prepare_wait();
            let result = self.look_and_sleep(me, &relay, ticket, out_of_time, deadline);
            words.replies.cancel_wait(ticket);
            if let Some(found) = result? {
                return Ok(found);
            }
            if let Some(found) = self.look()? {
                return Ok(found);
            }
            if deadline.has_passed() {
                out_of_time = true;
            }
        }
    }

    /// Prepares a sleep on the call's words.
    #[cold]
    pub(super) fn prepare_wait(&self) -> Ticket {
        let words = self.slot.words;
        // A stray write: the word's only value is 0.
        if words.x.load(Ordering::Relaxed) != 0 {
            words.x.store(0, Ordering::Relaxed);
        }
        words.replies.prepare_wait()
    }

    /// Sleeps once, prepared. `None`: look again.
    fn look_and_sleep(
        &mut self,
        me: Me,
        relay: &WakeRelay,
        ticket: Ticket,
        out_of_time: bool,
        deadline: Deadline,
    ) -> Result<Option<Option<Reply<R>>>, CallError> {
        if let Some(found) = self.look()? {
            return Ok(Some(found));
        }
        let words = self.slot.words;
        let seen = words.claim();
        let next = self.judge(me, seen)?;
        if let Next::Over(error) = next {
            return Err(error);
        }
        if out_of_time {
            return Err(CallError::TimedOut { begun: seen.number() == self.number });
        }
        self.sleep(relay, None, ticket, seen, next, deadline).map(|_| None)
    }

    /// Sleeps behind what `next` names, prepared; with `also`, on that word as well.
    pub(super) fn sleep(
        &self,
        relay: &WakeRelay,
        also: Option<Watch<'_>>,
        ticket: Ticket,
        seen: Claim,
        next: Next,
        deadline: Deadline,
    ) -> Result<Asleep, CallError> {
        let words = self.slot.words;
        let slice = ticket.until(deadline);
        let queue = &self.client.service.queue;
        let replies = words.replies.watch(ticket);
        // What the sleep is about comes first.
        let both = [also.unwrap_or(replies), replies];
        let both = &both[usize::from(also.is_none())..];
        let slept = match next {
            Next::Watch(owner) => {
                let x = Watch { word: &words.x, expected: 0 };
                let set = [both[0], replies, x, half_of(words, seen)];
                let set = &set[usize::from(also.is_none())..];
                let service = &self.client.service;
                let all;
                let owners = match seen.number() == self.number || service.servers() == 1 {
                    true => core::slice::from_ref(&owner),
                    false => {
                        all = service.living_servers();
                        &all[..]
                    }
                };
                // None lives any more: the sleep has nothing to wait for.
                match owners.is_empty() {
                    true => Ok(Asleep::LookAgain),
                    false => Sleep::on(queue.registry(), set).behind(relay, owners).until(slice),
                }
            }
            Next::WaitForServer(seen) => queue.server_role().sleep(relay, both, seen, slice),
            Next::LookAgain | Next::Over(_) => Ok(Asleep::LookAgain),
        };
        slept.map_err(|errno| self.client.refused(errno))
    }

    /// Does step 3.
    pub(super) fn judge(&mut self, me: Me, seen: Claim) -> Result<Next, CallError> {
        if next(seen.number()) == self.number {
            return self.judge_not_begun(seen);
        }
        if seen.number() != self.number {
            return Err(self.damaged());
        }
        match seen.state() {
            State::Taken | State::Writing => match seen.owner() {
                Some(owner) if me.is_alive(owner) => Ok(Next::Watch(owner)),
                // Bits that name no process count as dead.
                _ => self.judge_dead(seen),
            },
            // Replies that had arrived before are returned first.
            State::Cancelled if self.is_anything_ready() => Ok(Next::LookAgain),
            // A sweep cancelled it, which found its server dead; or its server has given it up.
            State::Cancelled => {
                self.free_rest(&mut self.client.inside(self.slot.slot)?);
                Ok(Next::Over(CallError::ServerDied { begun: !seen.is_undone() }))
            }
            // A sweep took a dead thread's id out after END.
            State::Over if self.is_anything_ready() => Ok(Next::LookAgain),
            State::Over => Err(self.damaged()),
        }
    }

    fn judge_not_begun(&mut self, seen: Claim) -> Result<Next, CallError> {
        let service = &self.client.service;
        let first = service.queue.server()?;
        let server = if first.is_living() { first } else { service.server()? };
        let error = match server.state {
            RoleState::Living(process) => return Ok(Next::Watch(process)),
            // A server at another place wakes it by `replies`.
            _ if self.client.waits_for_server() => return Ok(Next::WaitForServer(first)),
            RoleState::Nobody => CallError::NoServer,
            RoleState::Dead => CallError::ServerDied { begun: false },
        };
        // From that very word: a new server may have taken it. The caller is told only when no
        // server will.
        let mut turn = self.client.inside(self.slot.slot)?;
        if !self.slot.words.cancel(seen, self.number) {
            return Ok(Next::LookAgain);
        }
        self.take_back(&mut turn);
        Ok(Next::Over(error))
    }

    fn judge_dead(&mut self, seen: Claim) -> Result<Next, CallError> {
        let mut turn = self.client.inside(self.slot.slot)?;
        // It may have gone on until its death.
        fence(Ordering::Acquire);
        if self.is_anything_ready() || !self.slot.words.cancel(seen, self.number) {
            return Ok(Next::LookAgain);
        }
        self.free_rest(&mut turn);
        Ok(Next::Over(CallError::ServerDied { begun: true }))
    }

    pub(super) fn is_anything_ready(&self) -> bool {
        let ready = self.slot.words.ready();
        ready.number() == self.number && (ready.beyond(self.taken) > 0 || ready.is_end())
    }
}
