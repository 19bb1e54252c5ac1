//! Named subscribers: the topic keeps the slot of one that dies, until a successor of that name takes
//! it and goes on at its cursors. Hidden: its user is the recorder of this repository.
//!
//! | `claim` | meaning | a death here |
//! | --- | --- | --- |
//! | (P, joining) | P writes its name, and its cursors | as of any subscriber |
//! | (P, joining, kept) | the name is there, and P looks for another one of it | the same |
//! | (P, subscribed or reliable or lagging, kept) | P takes messages | publishers go on waiting, as for one that is stopped, for its *patience* at most |
//! | (dead P, the same) | for a successor, once P has exited | |
//! | (0, the same) | for a successor; a sweep has taken P's token out | |
//! | (S, the same) | the successor has it; its cursors are what they were | (dead S, the same) |
//!
//! A name has one living owner. A successor takes the slot by one exchange, so the slot counts all the
//! while. Two processes that come at once, with no such slot, each store their names first and look for the
//! other one's then. A publisher that has waited for the patience marks the subscriber as lagging
//! (back_pressure.rs), and waits no more until a successor has taken messages. Leaving in order gives
//! the slot up.
//!
//! The patience begins when a publisher first finds such a slot in its way. The publisher notes that moment in
//! all slots that have no living owner then, so that several of them cost no more than the longest patience.
//! The moment is noted with the owner's *turn*, which each successor raises in its claim: what was noted
//! of one owner says nothing of the next one, and no publisher that was stopped marks a later owner.
//!
//! A slot without a token holds no objects: no process needs what its dead owner held
//! (`subscriber_slot::holding`). proof/models/topic_kept.pml, topic_holding.pml.

use std::sync::Arc;
use std::time::Duration;

use super::claim::{Claim, Kept, State};
use super::control::OwnSlot;
use super::mapping::Inner;
use super::ring_owner;
use super::subscriber_slot;
use super::subscriber_words::{KeptWords, NAME, SubscriberWords};
use super::topic::Topic;
use crate::claim::Holder;
use crate::liveness::{LONGEST_CARE, Me};
use crate::shim::{Ordering, fence};
use crate::sys::clock;
use crate::sys::futex::Watch;
use crate::{Deadline, Error, Payload, TokenId};

/// What [`SubscriberOptions::kept`](super::SubscriberOptions::kept) asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeptAs {
    pub(super) name: String,
    pub(super) patience: Duration,
}

impl KeptAs {
    /// Checks the name.
    pub(super) fn check(&self) -> Result<(), Error> {
        let is_name = (1..=NAME).contains(&self.name.len()) && !self.name.contains('\0');
        is_name.then_some(()).ok_or_else(|| Error::InvalidOption {
            what: "a subscriber's name",
            wanted: self.name.clone().into(),
            why: "1 to 64 bytes, none of them 0",
        })
    }
}

impl KeptWords {
    /// Writes the words of one that begins under that name; returns its turn.
    fn write(&self, kept: &KeptAs) -> u16 {
        let mut bytes = [0; NAME];
        bytes[..kept.name.len()].copy_from_slice(kept.name.as_bytes());
        // Relaxed: before the claim that says kept, whose Release makes them visible.
        for (word, bytes) in self.name.iter().zip(bytes.as_chunks::<8>().0) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        self.set_patience(kept.patience);
        let turn = Ownerless::of(self.ownerless.load(Ordering::Relaxed)).turn.wrapping_add(1);
        self.begin_turn(turn);
        turn
    }

    /// The slot's owner has that turn: no publisher has seen it dead. If its process died just before, its
    /// claim has the turn and this word another one, which says the same.
    fn begin_turn(&self, turn: u16) {
        // Relaxed: publishers compare the turn with the claim's.
        self.ownerless.store(Ownerless { turn, since: 0 }.word(), Ordering::Relaxed);
    }

    /// Relaxed: one word, which nothing comes with. If this process died just before, that of the one
    /// before counts.
    pub(super) fn set_patience(&self, patience: Duration) {
        let nanos = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
        self.patience.store(nanos, Ordering::Relaxed);
    }

    /// Returns the name; damaged bytes are shown as such.
    pub(super) fn name(&self) -> String {
        let bytes: Vec<u8> = self
            .name
            .iter()
            .flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes())
            .take_while(|&byte| byte != 0)
            .collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub(super) fn patience(&self) -> Duration {
        Duration::from_nanos(self.patience.load(Ordering::Relaxed))
    }
}

/// What a process with a name has found.
enum Found {
    /// A slot that is its own now, with its predecessor's cursors.
    Taken(Arc<OwnSlot>),
    /// A process that may still write has it.
    Ending(TokenId),
    None,
}

/// Takes the slot that is kept for that name, if there is one.
///
/// # Errors
/// [`Error::Taken`]: its owner lives. [`Error::Ending`]: a thread of it has not exited for two seconds.
pub(super) fn take_over(
    inner: &Inner,
    me: Me,
    process: TokenId,
    name: &str,
) -> Result<Option<Arc<OwnSlot>>, Error> {
    let deadline = Deadline::after(LONGEST_CARE);
    let changes = &inner.shared().changes;
    loop {
        let news = Watch { word: changes, expected: changes.load(Ordering::Acquire) };
        match take_one(inner, process, name)? {
            Found::Taken(slot) => return Ok(Some(slot)),
            Found::None => return Ok(None),
            Found::Ending(owner) if deadline.has_passed() => return Err(ending(inner, owner)),
            Found::Ending(_) => {}
        }
        subscriber_slot::wait_for_change(inner, me, news, deadline)?;
    }
}

const ROLE: &str = "subscriber of that name";

fn pid_of(inner: &Inner, owner: TokenId) -> Option<u32> {
    Some(Holder::of(inner.registry, owner).pid).filter(|&pid| pid != 0)
}

fn ending(inner: &Inner, owner: TokenId) -> Error {
    Error::Ending { role: ROLE, path: inner.segment.path().into(), pid: pid_of(inner, owner) }
}

fn taken(inner: &Inner, owner: TokenId) -> Error {
    Error::Taken { role: ROLE, path: inner.segment.path().into(), pid: pid_of(inner, owner) }
}

fn take_one(inner: &Inner, process: TokenId, name: &str) -> Result<Found, Error> {
    let ends = inner.ends();
    let mut index = 0;
    while index < inner.subscriber_slot_count() {
        let words = inner.subscriber_slot(index)?;
        // Acquire: the name.
        let seen = words.claim.load(Ordering::Acquire);
        let Some(kept) = Kept::of(seen).filter(|_| words.kept.name() == name) else {
            index += 1;
            continue;
        };
        if let Some(owner) = kept.owner {
            if inner.registry.is_alive(owner) {
                return Err(taken(inner, owner));
            }
            // Dead is not enough: a thread of it may still move the cursors.
            if !ends.has_ended(owner) {
                return Ok(Found::Ending(owner));
            }
        }
        // Before the claim, which may not be taken in vain.
        let slot = inner.control.joiner()?.map(index, &inner.plan)?;
        let words = inner.own_words(&slot);
        let mine = Kept { owner: Some(process), turn: kept.turn.wrapping_add(1), ..kept };
        // Acquire: after all that its last owner did with it. If this process died just after, the slot
        // has a dead owner, as before. If a publisher has marked it meanwhile, or another successor
        // has taken it, it is looked at again.
        let taken =
            words.claim.compare_exchange(seen, mine.word(), Ordering::AcqRel, Ordering::Relaxed);
        if taken.is_ok() {
            words.kept.begin_turn(mine.turn);
            // Publishers that slept behind no living owner sleep behind this one from now on: if it died
            // later, between a cursor and its notification, its end would wake them. If it died just
            // before, it has moved no cursor, and its successor notifies.
            subscriber_slot::notify_publishers(inner);
            // The dead one's. If this process died just before, its successor clears them.
            words.hazard_pointers().reset();
            inner.note_change();
            return Ok(Found::Taken(slot));
        }
    }
    Ok(Found::None)
}

/// The process has a slot, whose claim says joining, and writes its name. Returns whether it may go on:
/// `false` if a kept slot of that name is there by now.
///
/// # Errors
/// [`Error::Taken`]: another process has the name, or is about to. [`Error::Ending`]: one that was about
/// to is dead, and a thread of it has not exited for two seconds.
pub(super) fn announce(
    inner: &Inner,
    me: Me,
    slot: &OwnSlot,
    process: TokenId,
    kept: &KeptAs,
) -> Result<bool, Error> {
    let words = inner.own_words(slot);
    let turn = words.kept.write(kept);
    // Release: the name. If this process died just after, its slot is free.
    let announced = Claim { process, state: State::Joining, turn: Some(turn) };
    words.claim.store(announced.word(), Ordering::Release);
    // Of two that come at once, at least one sees the other: each has stored its name, and looks then.
    fence(Ordering::SeqCst);
    let deadline = Deadline::after(LONGEST_CARE);
    let changes = &inner.shared().changes;
    loop {
        let news = Watch { word: changes, expected: changes.load(Ordering::Acquire) };
        let (mut later, ends) = (None, inner.ends());
        for (words, index) in inner.subscriber_slots().zip(0..) {
            let seen = words.claim.load(Ordering::Acquire);
            let Some(other) = named(seen, words, &kept.name).filter(|_| index != slot.index) else {
                continue;
            };
            match Claim::of(seen) {
                Some(claim) if inner.registry.is_alive(claim.process) => {
                    if claim.state != State::Joining || index < slot.index {
                        return Err(taken(inner, claim.process));
                    }
                    // It sees this one, and goes; or it has joined.
                    later = Some(claim.process);
                }
                _ if other.is_some() => return Ok(false),
                // Dead is not enough: a thread of it may still say that it has joined.
                Some(claim) if !ends.has_ended(claim.process) => later = Some(claim.process),
                _ => {}
            }
        }
        let Some(later) = later else { return Ok(true) };
        if deadline.has_passed() {
            let is_alive = inner.registry.is_alive(later);
            return Err(if is_alive { taken(inner, later) } else { ending(inner, later) });
        }
        subscriber_slot::wait_for_change(inner, me, news, deadline)?;
    }
}

/// Returns whether a slot with that claim has the name, and how it is kept if its subscriber has joined.
fn named(claim: u64, words: SubscriberWords<'_>, name: &str) -> Option<Option<Kept>> {
    let kept = Kept::of(claim);
    let is_named = kept.is_some()
        || Claim::of(claim)
            .is_some_and(|claim| claim.turn.is_some() && claim.state == State::Joining);
    (is_named && words.kept.name() == name).then_some(kept)
}

/// A slot's word about the death of an owner.
///
/// ```text
///  63     48 47                  0
/// +---------+---------------------+
/// |  turn   |  since when, in µs  |
/// +---------+---------------------+
/// ```
struct Ownerless {
    /// Which owner's death it is; see [`Claim::turn`].
    turn: u16,
    /// When a publisher first found the slot in its way without that owner, by the monotonic clock. 0: none
    /// has.
    since: u64,
}

impl Ownerless {
    const SINCE: u64 = (1 << 48) - 1;

    fn of(word: u64) -> Ownerless {
        Ownerless { turn: (word >> 48) as u16, since: word & Ownerless::SINCE }
    }

    fn word(&self) -> u64 {
        u64::from(self.turn) << 48 | self.since & Ownerless::SINCE
    }

    /// Returns for how long publishers have waited for one with that claim. `None`: none has yet, or the
    /// word is damaged.
    fn waited(&self, kept: Kept, now: u64) -> Option<Duration> {
        let is_its = self.turn == kept.turn && (1..=now).contains(&self.since);
        is_its.then(|| Duration::from_micros(now - self.since))
    }
}

/// Returns the moment, in µs of the monotonic clock.
fn moment() -> u64 {
    clock::monotonic_nanos() / 1000
}

/// Returns until when publishers wait for the subscriber with that claim, which is in the way of one and
/// has no living owner. The patience of all that have none runs from now on.
#[cold]
pub(super) fn wait_until(inner: &Inner, words: SubscriberWords<'_>, kept: Kept) -> Deadline {
    for words in inner.subscriber_slots() {
        // Before the claim, Acquire: of an earlier owner, if it is not of this one.
        let noted = words.kept.ownerless.load(Ordering::Acquire);
        let claim = Kept::of(words.claim.load(Ordering::Acquire));
        let Some(kept) = claim.filter(|kept| kept.state == State::Reliable) else { continue };
        let now = moment();
        if kept.owner.is_some_and(|owner| inner.registry.is_alive(owner))
            || Ownerless::of(noted).waited(kept, now).is_some()
        {
            continue;
        }
        let since = Ownerless { turn: kept.turn, since: now.max(1) };
        // If another publisher has noted it, or a successor has come, that stands. Relaxed: one word,
        // which nothing comes with. If this process died just before, the next publisher notes it.
        let _ = words.kept.ownerless.compare_exchange(
            noted,
            since.word(),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
    }
    let noted = Ownerless::of(words.kept.ownerless.load(Ordering::Relaxed));
    // `None`: a successor has come, and notifies.
    let waited = noted.waited(kept, moment()).unwrap_or_default();
    Deadline::after(words.kept.patience().saturating_sub(waited))
}

/// A subscriber with a name, such as that of `outlive record --as NAME`: if its process dies, the topic keeps
/// its place, and the next subscriber of that name takes the place over.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeptUsage {
    /// The name, as the subscriber's process has written it: it may have any characters. Bytes that are not
    /// UTF-8 are U+FFFD.
    pub name: String,
    /// The process that has the place, dead or alive; `None`: it has died, and was cleared away.
    pub owner: Option<Holder>,
    /// Whether the subscriber is reliable: publishers wait for it, unless it is `lagging`.
    pub reliable: bool,
    /// Whether publishers have stopped waiting for the subscriber. They wait again once its owner, or the next
    /// one, has taken a message.
    pub lagging: bool,
    /// How many messages are waiting for the subscriber.
    pub lag: u64,
    /// How many messages were overwritten before the subscriber took them.
    pub lost: u64,
    /// How many living publishers cannot publish their next message because of the subscriber.
    pub in_the_way: u32,
    /// How long publishers wait for the subscriber while it has no living owner.
    pub patience: Duration,
    /// How much of the patience has passed: the time since a publisher, held up by this or another such place,
    /// first saw that this one has no living owner. `None`: it has one, or no publisher has seen that yet.
    pub ownerless: Option<Duration>,
}

impl KeptUsage {
    /// Returns how much of the patience is left. `None`: it has not begun, or publishers do not wait for the
    /// subscriber.
    #[must_use]
    pub fn patience_left(&self) -> Option<Duration> {
        let ownerless = self.ownerless.filter(|_| self.reliable && !self.lagging)?;
        Some(self.patience.saturating_sub(ownerless))
    }
}

/// Returns the subscribers with names.
pub(super) fn list(inner: &Inner) -> Vec<KeptUsage> {
    let depth = u64::from(inner.plan.depth);
    let is_published = |ring: u32| {
        let owner = ring_owner::publisher(inner.ring(ring).owner.load(Ordering::Acquire));
        owner.is_some_and(|owner| inner.registry.is_alive(owner))
    };
    let kept = |words: SubscriberWords<'_>| {
        // Before the claim, as in `wait_until`.
        let noted = Ownerless::of(words.kept.ownerless.load(Ordering::Acquire));
        let kept = Kept::of(words.claim.load(Ordering::Acquire))?;
        let owner = kept.owner.map(|owner| Holder::of(inner.registry, owner));
        let has_living = owner.as_ref().is_some_and(|owner| owner.alive);
        let lags = (0..inner.rings()).map(|ring| {
            let cursor = words.cursors[ring as usize].load(Ordering::Relaxed);
            (ring, inner.published(ring).saturating_sub(cursor).min(depth))
        });
        let lags: Vec<_> = lags.collect();
        let stops = |&&(ring, lag): &&(u32, u64)| lag == depth && is_published(ring);
        let in_the_way = match kept.state {
            State::Reliable => lags.iter().filter(stops).count() as u32,
            _ => 0,
        };
        Some(KeptUsage {
            name: words.kept.name(),
            owner,
            reliable: kept.state != State::Subscribed,
            lagging: kept.state == State::Lagging,
            lag: lags.iter().map(|(_, lag)| lag).sum(),
            lost: words.lost.load(Ordering::Relaxed),
            in_the_way,
            patience: words.kept.patience(),
            ownerless: noted.waited(kept, moment()).filter(|_| !has_living),
        })
    };
    inner.subscriber_slots().filter_map(kept).collect()
}

impl<M: Payload + ?Sized> Topic<M> {
    /// Returns the subscribers with names.
    #[doc(hidden)]
    #[must_use]
    pub fn kept(&self) -> Vec<KeptUsage> {
        list(&self.inner)
    }

    /// Returns, by ring, the number of the next message, as for a subscriber that begins now.
    #[doc(hidden)]
    #[must_use]
    pub fn next_numbers(&self) -> Vec<u64> {
        (0..self.inner.rings()).map(|ring| self.inner.all_published(ring)).collect()
    }

    /// Gives up the slot that is kept for that name: publishers wait for it no more. Returns whether
    /// there was one.
    ///
    /// # Errors
    /// [`Error::Taken`]: its owner lives. [`Error::Ending`]. The errors of joining.
    #[doc(hidden)]
    pub fn forget(&self, name: &str) -> Result<bool, Error> {
        let inner = &*self.inner;
        let me = inner.registry.me()?;
        let process = inner.registry.process_token()?;
        let Some(slot) = take_over(inner, me, process, name)? else { return Ok(false) };
        // As one that leaves. If this process died just before, the slot is kept as it was.
        subscriber_slot::leave(inner, inner.own_words(&slot), process);
        Ok(true)
    }
}

/// Gives the slot to a successor, as if its living owner had exited. Nothing of it is held.
pub(super) fn abandon(inner: &Inner, words: SubscriberWords<'_>, process: TokenId) {
    loop {
        let seen = words.claim.load(Ordering::Acquire);
        let Some(kept) = Kept::of(seen).filter(|kept| kept.owner == Some(process)) else { break };
        // Release pairs with `take_one`: the cursors. If this process died just before, it has a dead
        // owner, which is the same. Again if a publisher has marked it meanwhile.
        let vacant = Kept { owner: None, ..kept }.word();
        if words.claim.compare_exchange(seen, vacant, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            break;
        }
    }
    // Their waits are behind this process, which lives.
    subscriber_slot::notify_publishers(inner);
    inner.note_change();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Domain;
    use crate::topic::{Publisher, Subscriber};

    fn options() -> crate::topic::SubscriberOptions {
        Subscriber::options().reliable(true).kept("recorder", Duration::from_secs(3600))
    }

    /// A topic with a kept slot whose owner has exited, as a sweep leaves it,
    /// and with that cursor.
    fn vacant(
        folder: &std::path::Path,
        subscribers: u32,
        cursor: u64,
    ) -> (Topic<u64>, Publisher<u64>) {
        let domain = Domain::open_or_create_at(folder).expect("opens");
        let topic = Topic::<u64>::options().depth(4).reliable(true).max_subscribers(subscribers);
        let topic = topic.open_or_create(&domain, "topic").expect("made");
        let publisher = topic.publisher().expect("a ring");
        publisher.publish(&0).map(drop).expect("room");
        let subscriber = topic.subscriber_with(options()).expect("a slot");
        let words = subscriber.words();
        let claim = words.claim.load(Ordering::Relaxed);
        words.cursors[0].store(cursor, Ordering::Relaxed);
        let kept = Kept::of(claim).expect("it has a name");
        words.claim.store(Kept { owner: None, ..kept }.word(), Ordering::Relaxed);
        // Its drop would give the slot up.
        core::mem::forget(subscriber);
        (topic, publisher)
    }

    #[test]
    fn cursors_that_are_damaged_are_no_way_into_the_future() {
        for (at, cursor) in [u64::MAX, u64::MAX - 1, 1 << 62, 7, 2].into_iter().enumerate() {
            let name = format!("outlive-cursors-{at}-{}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            let (topic, publisher) = vacant(&folder, 4, cursor);
            let mut successor = topic.subscriber_with(options()).expect("the place");
            let _ = (successor.lag(), successor.try_recv().map(drop));
            for number in 1..9 {
                publisher.publish(&number).map(drop).expect("room");
                let sample = successor.try_recv().expect("nothing is lost").expect("there");
                assert_eq!(*sample, number, "from {cursor}");
            }
            std::fs::remove_dir_all(&folder).expect("removed");
        }
    }

    /// A thread of it says so after its death was seen.
    #[test]
    fn a_process_that_is_dead_and_has_not_exited_may_still_join() {
        let folder = std::env::temp_dir().join(format!("outlive-dying-{}", std::process::id()));
        let domain = Domain::open_or_create_at(&folder).expect("opens");
        let topic = Topic::<u64>::options().depth(4).reliable(true);
        // No process has such a token: it is dead, and taken for one that exits within a second.
        for (round, dying) in (0..60).map(|round| (round, TokenId::new(65_000, round))) {
            let topic = topic.clone().open_or_create(&domain, &format!("topic-{round}"));
            let topic = topic.expect("made");
            let first = topic.subscriber().expect("a slot");
            let words = first.words();
            let named = KeptAs { name: "recorder".into(), patience: Duration::ZERO };
            let claim = |state, turn| Claim { process: dying, state, turn: Some(turn) }.word();
            let turn = words.kept.write(&named);
            words.claim.store(claim(State::Joining, turn), Ordering::Release);
            let begun = std::time::Instant::now();
            let (came, in_time) = std::thread::scope(|scope| {
                let comes = scope.spawn(|| topic.subscriber_with(options()));
                let is_there = || {
                    let slots = topic.inner.subscriber_slots();
                    let words = slots.map(|words| words.claim.load(Ordering::Acquire));
                    words.filter_map(Claim::of).filter(|claim| claim.turn.is_some()).count() == 2
                };
                while !is_there() && !comes.is_finished() {
                    std::thread::yield_now();
                }
                words.claim.store(claim(State::Reliable, turn), Ordering::Release);
                topic.inner.note_change();
                let in_time = begun.elapsed() < Duration::from_millis(500);
                (comes.join().expect("no panic").expect("a place"), in_time)
            });
            // Its words are the second one's now, or no process's.
            core::mem::forget(first);
            let kept = topic.kept().len();
            drop(came);
            // Else it had exited.
            if in_time {
                std::fs::remove_dir_all(&folder).expect("removed");
                assert_eq!(kept, 1);
                return;
            }
        }
        panic!("the machine is too busy");
    }

    /// Its process lives on, and tries again.
    #[test]
    fn a_successor_that_fails_leaves_the_place() {
        let folder = std::env::temp_dir().join(format!("outlive-left-{}", std::process::id()));
        let (topic, _publisher) = vacant(&folder, 4, 0);
        // As a stray write may leave it: rings for which the file is too short.
        let rings = &topic.inner.publishing().expect("mapped").head().rings;
        let there = rings.swap(u32::MAX, Ordering::Relaxed);
        let refused = topic.subscriber_with(options()).map(drop);
        rings.store(there, Ordering::Relaxed);
        let owners: Vec<_> = topic.kept().into_iter().map(|kept| kept.owner).collect();
        let came =
            topic.subscriber_with(options()).map(|mut one| *one.try_recv().unwrap().unwrap());
        std::fs::remove_dir_all(&folder).expect("removed");
        assert!(refused.is_err());
        assert_eq!((owners, came), (vec![None], Ok(0)));
    }

    /// No process gives it up by itself, so there is nothing to wait for.
    #[test]
    fn a_slot_that_is_kept_is_not_soon_free() {
        let folder = std::env::temp_dir().join(format!("outlive-vacant-{}", std::process::id()));
        let (topic, _publisher) = vacant(&folder, 1, 1);
        assert!(!subscriber_slot::is_one_soon_free(&topic.inner));
        let refused = topic.subscriber().map(drop);
        std::fs::remove_dir_all(&folder).expect("removed");
        assert!(matches!(refused, Err(Error::TooMany { .. })), "{refused:?}");
    }
}
