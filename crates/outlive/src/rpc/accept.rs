//! How the server takes the requests that clients have made: in the order of their tickets.
//!
//! 1. The server reads the horizon, then the bits, word by word. For each slot whose bit is set: if
//!    the call is asked and its ticket lies below the horizon, the server notes it; if the ticket
//!    lies beyond, the server leaves it for the next look; if the call is not asked, it clears the
//!    bit (asked.rs).
//! 2. Of the noted calls it takes the one with the lowest ticket: the claim → WRITING(this thread).
//!    If that fails because a sweep has changed the claim of the call before, the server tries
//!    again from the new claim. If the client has let go of the call, the server goes on to the
//!    next one. It skips the call of a client that is dead, and clears its bit; it looks again
//!    then, since another client may have the slot by now.
//! 3. It clears the bit, and copies the request; the object of a long one it makes its own process's
//!    (in_place.rs), to read it there.
//! 4. → TAKEN(this process).
//!
//! For each call below the horizon, the server has seen all earlier calls of the same client: so it
//! takes a client's requests in the order in which the client made them, though their bits may
//! lie in several words.
//!
//! If a call cannot be looked at, the server forgets the calls of that client's process that it has
//! noted, and returns the error. It takes the other noted calls before it looks again.
//!
//! | the server dies after | its successor | the client |
//! | --- | --- | --- |
//! | 1 | sets all bits, and looks | waits, or is told "not begun" |
//! | 2, 3 | finds a call that is begun, and clears its bit | is told "begun", frees the object if it is still the slot's |

use super::asked::{Question, clear_unless, pending};
use super::call::{Claim, TRIES};
use super::in_place::InPlace;
use super::layout::{SLOTS, ServiceFile, SlotBytes};
use super::reply::Bytes;
use super::request::RawRequest;
use crate::Error;
use crate::liveness::{Me, TokenId};
use crate::sys::robust::WakeRelay;

/// How often the server looks again at calls beyond the horizon. After that it takes the tickets
/// for damaged, and takes the calls regardless of the horizon.
const LOOKS: u32 = 8;

/// The calls that have been found and not been taken. They are in private memory: the bits stay
/// set.
#[derive(Default)]
pub(super) struct Requests {
    /// The last one is taken next.
    found: Vec<AskedCall>,
}

struct AskedCall {
    ticket: u64,
    slot: u32,
    number: u64,
    asker: Option<TokenId>,
}

impl Requests {
    /// Takes the next request for that process, if there is one.
    #[inline]
    pub(super) fn next(
        &mut self,
        service: &ServiceFile,
        me: Me,
        process: TokenId,
    ) -> Result<Option<RawRequest>, Error> {
        loop {
            while let Some(found) = self.found.pop() {
                match service.take(me, process, found.slot, found.number) {
                    Ok(None) => {}
                    Ok(request) => return Ok(request),
                    Err(error) => {
                        // The next look finds it again, before the same client's later calls. The
                        // others' calls come first: a call that fails again and again holds up none
                        // of them.
                        self.found.retain(|other| other.asker != found.asker);
                        return Err(error);
                    }
                }
            }
            if !self.look(service)? {
                return Ok(None);
            }
        }
    }

    /// Does step 1; returns whether it found a call.
    #[inline]
    fn look(&mut self, service: &ServiceFile) -> Result<bool, Error> {
        for look in 0..LOOKS {
            let horizon = if look + 1 < LOOKS { service.asks().horizon() } else { u64::MAX };
            let beyond = self.look_below(service, horizon);
            if self.found.len() > 1 {
                self.found.sort_unstable_by_key(|found| core::cmp::Reverse(found.ticket));
            }
            let beyond = beyond?;
            if !self.found.is_empty() {
                return Ok(true);
            }
            if !beyond {
                break;
            }
        }
        Ok(false)
    }

    /// Returns whether a call is asked beyond the horizon. If slots cannot be looked at, the calls
    /// of their clients are not noted, and the first error is returned: the calls of other clients
    /// are noted then.
    #[inline]
    fn look_below(&mut self, service: &ServiceFile, horizon: u64) -> Result<bool, Error> {
        let asks = service.asks();
        let mut beyond = false;
        let mut result = Ok(());
        let mut unseen = Vec::new();
        for word in 0..(service.client_slots() * SLOTS).div_ceil(64) {
            let mut bits = asks.word(word);
            while bits != 0 {
                let slot = word * 64 + bits.trailing_zeros();
                bits &= bits - 1;
                let call = match service.call(slot) {
                    Ok(call) => call,
                    // The bit of a client slot that does not exist: a stray write.
                    Err(Error::Damaged { .. }) => {
                        asks.clear(slot);
                        continue;
                    }
                    // The system has not said whether it exists: its bit stays, for the next look.
                    Err(error) => {
                        unseen.push(service.who(slot / SLOTS).process());
                        result = result.and(Err(error));
                        continue;
                    }
                };
                match pending(call.words, call.question) {
                    Some((asked, _)) => {
                        let ticket = call.question.ticket();
                        if ticket < horizon {
                            let (number, asker) = (asked.number(), call.question.asker());
                            self.found.push(AskedCall { ticket, slot, number, asker });
                        } else {
                            beyond = true;
                        }
                    }
                    None => {
                        let is_asked = || pending(call.words, call.question).is_some();
                        service.clear_unless(slot, is_asked);
                    }
                }
            }
        }
        if !unseen.is_empty() {
            self.found.retain(|found| !unseen.contains(&found.asker));
        }
        result.map(|()| beyond)
    }
}

impl ServiceFile {
    /// Steps 2 to 4. Returns `None` when the client has let go of the call, or is dead.
    #[inline]
    fn take(
        &self,
        me: Me,
        process: TokenId,
        slot: u32,
        number: u64,
    ) -> Result<Option<RawRequest>, Error> {
        let call = self.call(slot)?;
        let Some((asked, seen)) =
            pending(call.words, call.question).filter(|(asked, _)| asked.number() == number)
        else {
            return Ok(None);
        };
        if !self.is_asker_alive(call.question) {
            // No client waits for it. Its remains are settled with its client slot.
            self.clear_unless(slot, || self.is_pending(slot));
            return Ok(None);
        }
        // If the system does not say whether its memory exists, it is not begun, and the next look
        // finds it.
        self.request(call, asked)?;
        let relay = WakeRelay::begin(me.list());
        let mut seen = seen;
        let mut tries = 1;
        while !call.words.begin_copying(&relay, seen, number, me.id) {
            // A sweep may have taken a dead server's id out of the claim of the call before. Then
            // this call is still asked, and must be taken before its client's later calls. There is
            // a limit because a hostile process could change the claim for ever.
            match pending(call.words, call.question) {
                Some((again, other)) if again == asked && tries < TRIES => seen = other,
                _ => return Ok(None),
            }
            tries += 1;
        }
        self.asks().clear(slot);
        let client = call.question.asker();
        // That it exists was found above.
        let payload = match self.request(call, asked).ok().flatten() {
            Some(SlotBytes { object: Some(object), len, .. }) => {
                let place = call.request_position();
                InPlace::take(self, object, len, place, process).map(Bytes::Object)
            }
            // SAFETY: `request` has checked that `len` bytes lie there; the client writes there
            // again only when the claim names neither this thread nor, after it, this process.
            Some(lies) => Ok(unsafe { Bytes::copy(lies.bytes, lies.len) }),
            None => Ok(Bytes::default()),
        };
        let (payload, taken) = match payload {
            Ok(payload) => (payload, Ok(())),
            Err(error) => (Bytes::default(), Err(error)),
        };
        call.words.copied(Claim::taken(number, process));
        drop(relay);
        // After an error the request is dropped, which tells its client.
        let request = RawRequest::new(self.clone(), slot, number, process, client, payload);
        taken?;
        if asked.len() > request.payload.len() {
            return Err(self.segment().damaged("a request"));
        }
        Ok(Some(request))
    }
}

impl ServiceFile {
    /// Clears the bit of a slot without a request. If the slot has one by now, the bit is set, and
    /// other servers look at it: this one may have another call to carry out first, or leave.
    #[cold]
    fn clear_unless(&self, slot: u32, is_pending: impl FnOnce() -> bool) {
        if clear_unless(self.asks(), slot, is_pending) && self.servers() > 1 {
            // A server that is stopped before, or dies: places.rs.
            self.queue.wake_server();
        }
    }

    /// Returns whether the process that has made the request in a slot is alive.
    #[inline]
    fn is_asker_alive(&self, question: &Question) -> bool {
        question.asker().is_some_and(|client| self.queue.registry().is_alive(client))
    }

    /// Returns whether a request is asked in any slot whose bit is set.
    pub(super) fn is_any_pending(&self) -> bool {
        (0..(self.client_slots() * SLOTS).div_ceil(64)).any(|word| {
            let bits = self.asks().word(word);
            let set = (0..64).filter(|bit| bits >> bit & 1 == 1);
            set.into_iter().any(|bit| self.is_pending(word * 64 + bit))
        })
    }

    /// Returns whether a slot holds a request of a living client that no server has begun.
    pub(super) fn is_pending(&self, slot: u32) -> bool {
        match self.call(slot) {
            // In this order: the asker made that request, or a later one.
            Ok(call) => {
                pending(call.words, call.question).is_some() && self.is_asker_alive(call.question)
            }
            // The system has not said whether it exists: a try is worth it, and tells.
            Err(error) => !matches!(error, Error::Damaged { .. }),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::Domain;
    use crate::rpc::Service;

    #[test]
    fn a_server_that_sets_a_bit_again_wakes_the_others() {
        let name = format!("outlive-unit-accept-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let domain = Domain::open_or_create_at(&folder).expect("opens");
        for servers in [1, 2] {
            let service = Service::<[u8]>::options().max_servers(servers);
            let service = service.create_new(&domain, &format!("of-{servers}")).expect("made");
            let messages = service.file.queue.messages().count();
            for is_asked in [false, true] {
                let ticket = messages.prepare_wait();
                service.file.clear_unless(0, || is_asked);
                assert_eq!(messages.is_notified(ticket), is_asked && servers > 1);
                messages.cancel_wait(ticket);
            }
        }
        let _ = std::fs::remove_dir_all(&folder);
    }
}
