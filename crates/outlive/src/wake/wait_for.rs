//! A wait for what one of several owners may bring, or take with it into death: a job, a slot for
//! one, the last job to be done; a notifier's notice.
//!
//! | step | in between |
//! | --- | --- |
//! | the ticket | what comes from here on changes the eventcount |
//! | the look, which also says whose end would change that it found nothing | an owner that dies after it ends the sleep |
//! | the sleep, on the eventcount and on these owners | |

use super::event_count::EventCount;
use super::sleep::{Asleep, MOST_OWNERS, Sleep};
use super::strategy::SpinWait;
use crate::liveness::{Me, TokenId};
use crate::sys::robust::WakeRelay;
use crate::{Deadline, Error};

/// The outcome of a look.
#[derive(Debug)]
pub(crate) enum Look<T> {
    Got(T),
    /// Nothing; the end of one of these living owners would change that.
    Nothing(Vec<TokenId>),
}

/// Waits until `look` finds something; `None`: the deadline has passed. `has_come` is called while
/// spinning; with `spin_wait` `None`, there is no spin.
pub(crate) fn wait_for<T, E: From<Error>>(
    me: Me,
    spin_wait: Option<&SpinWait>,
    count: &EventCount,
    deadline: Deadline,
    has_come: impl Fn() -> bool,
    look: impl Fn() -> Result<Look<T>, E>,
) -> Result<Option<T>, E> {
    if let Look::Got(found) = look()? {
        return Ok(Some(found));
    }
    if deadline.has_passed() {
        return Ok(None);
    }
    // What the spin has seen is taken before a wait is prepared, because preparing may interrupt
    // all other processors.
    if spin_wait.is_some_and(|spin_wait| spin_wait.spin(|| has_come() || deadline.has_passed()))
        && let Look::Got(found) = look()?
    {
        return Ok(Some(found));
    }
    let relay = WakeRelay::begin(me.list());
    let mut turn = 0;
    let mut last_try = false;
    loop {
        let ticket = count.prepare_wait();
        let owners = match look()? {
            Look::Got(found) => {
                count.cancel_wait(ticket);
                return Ok(Some(found));
            }
            Look::Nothing(owners) => owners,
        };
        if last_try {
            count.cancel_wait(ticket);
            return Ok(None);
        }
        let watch = [count.watch(ticket)];
        let sleep = Sleep::on(me.registry, &watch).behind(&relay, &owners).beginning_at(turn);
        // One notification wakes two sleepers. The others find the changed sequence at their
        // recheck, which is a rescue only if what they wait for is there.
        match sleep.until_it_comes(ticket.until(deadline), &has_come) {
            Ok(Asleep::TimedOut) => last_try = deadline.has_passed(),
            Ok(Asleep::LookAgain) => {}
            Err(errno) => {
                return Err(Error::from_errno("wait in", me.registry.path(), errno).into());
            }
        }
        // Woken: looks again, first without preparing another wait.
        if let Look::Got(found) = look()? {
            return Ok(Some(found));
        }
        turn += MOST_OWNERS;
    }
}
