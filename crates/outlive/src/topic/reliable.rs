//! Waiting for reliable subscribers.
//!
//! The publisher needs every reliable line's cursor beyond the message that it is about to overwrite. It sleeps on its ring's `space` and on the end
//! of the slowest one: whose death it is told as it would be of a message taken. `awaited` names that one's line, and the others do not notify it:
//! of many subscribers only one wakes it, until the next in the way is named.

use super::error::PublishError;
use super::file::Shared;
use super::layout::{Awaited, Claim, State};
use crate::claim::Holder;
use crate::liveness::Me;
use crate::shim::{Ordering, fence};
use crate::sys::robust::WakeRelay;
use crate::wake::{Asleep, Sleep};
use crate::{Deadline, Error, TokenId};

/// A reliable line.
#[derive(Clone, Copy)]
pub(super) struct InTheWay {
    line: u32,
    pub(super) process: TokenId,
    cursor: u64,
}

/// Up to which message there is room for ring `index`, whose next one is `position`. `Err`: the slowest of those that leave none.
pub(super) fn look(shared: &Shared, index: u32, position: u64) -> Result<u64, InTheWay> {
    let depth = u64::from(shared.plan.depth);
    if shared.head().reliable.load(Ordering::Acquire) == 0 {
        // One that joins from now on begins at this position or later.
        return Ok(position + depth);
    }
    let until = |line: InTheWay| line.cursor.saturating_add(depth);
    match slowest(shared, index) {
        Some(line) if until(line) <= position => Err(line),
        Some(line) => Ok(until(line).min(position + depth)),
        None => Ok(position + depth),
    }
}

/// Who of the reliable ones that live is most behind in that ring; of several the first.
fn slowest(shared: &Shared, index: u32) -> Option<InTheWay> {
    // What was published before, and then who has joined: pairs with the fence in `Subscriber::new`.
    fence(Ordering::SeqCst);
    let reliable = shared.lines().zip(0..).filter_map(|(words, line)| {
        // Acquire pairs with `subscriber_slot::join`: its cursors are written.
        let claim = Claim::of(words.claim.load(Ordering::Acquire))?;
        let counts = claim.state == State::Reliable && shared.registry.is_alive(claim.process);
        // Acquire: it has done with the slot.
        let cursor = || words.cursors[index as usize].load(Ordering::Acquire);
        counts.then(|| InTheWay { line, process: claim.process, cursor: cursor() })
    });
    reliable.min_by_key(|line| line.cursor)
}

/// The first message that a reliable line has still to take.
pub(super) fn needed_from(shared: &Shared, index: u32) -> u64 {
    slowest(shared, index).map_or(u64::MAX, |line| line.cursor)
}

/// Waits until there is room; up to which message.
pub(super) fn wait(
    shared: &Shared,
    me: Me,
    index: u32,
    position: u64,
    deadline: Deadline,
) -> Result<u64, PublishError> {
    let mut until = 0;
    let mut is_clear = || look(shared, index, position).map(|clear| until = clear).is_ok();
    if is_clear() || !deadline.has_passed() && shared.spin_wait.spin(&mut is_clear) {
        return Ok(until);
    }
    let words = shared.ring(index);
    let pass = WakeRelay::begin(me.list());
    let mut slowest = match look(shared, index, position) {
        Ok(until) => return Ok(until),
        Err(slowest) => slowest,
    };
    loop {
        // Named before the fence, as the number is: who takes after that fence finds itself named, and the look below finds the
        // cursor of one who took before. Not another's fence: that was before the name.
        words.wait_for(Awaited::line(slowest.line));
        let ticket = words.space.prepare_wait_with_fence();
        let named = slowest;
        slowest = match look(shared, index, position) {
            Ok(until) => return Ok(until),
            Err(slowest) => slowest,
        };
        if deadline.has_passed() {
            return Err(PublishError::TimedOut { slowest: Holder::of(shared.registry, slowest.process) });
        }
        if (slowest.line, slowest.process) != (named.line, named.process) {
            // It took, or died: nobody notifies for the one that is the slowest now.
            continue;
        }
        let end = Some(slowest.process);
        let slept = Sleep::on(shared.registry, &[words.space.watch(ticket)])
            .behind(&pass, end.as_slice())
            .until(ticket.until(deadline));
        // Timed out: looked at once more.
        let (Asleep::LookAgain | Asleep::TimedOut) =
            slept.map_err(|errno| PublishError::System(Error::from_errno("wait in", shared.segment.path(), errno)))?;
    }
}
