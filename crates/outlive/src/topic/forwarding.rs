//! What a gateway asks for, which carries a topic's messages to another machine and publishes there
//! in the name of publishers elsewhere. Hidden: its users are the bridges of this repository.
//!
//! | a gateway dies, or is stopped | what others see | repaired by |
//! | --- | --- | --- |
//! | before `pass` | publishers do not wait for a dead subscriber. Stopped: they wait as for any other | |
//! | between `disowned` and `session` = 0 | its token is dead: its publishers have died. Stopped: they still publish | |

use super::publisher::Publisher;
use super::refusal;
use super::ring_owner;
use super::sample::Sample;
use super::slot::{INLINE, MessageState, SESSION_BITS};
use super::subscriber::Subscriber;
use super::topic::Topic;
use crate::Payload;
use crate::segment::control_file;
use crate::shim::{Ordering, fence};
use crate::{RecvError, SendError, TokenId};

impl<M: Payload + ?Sized> Subscriber<M> {
    /// Counts all messages of that ring before `position` as taken. Publishers that wait for this
    /// subscriber go on; a position that it has passed changes nothing.
    ///
    /// # Errors
    /// The errors of [`Subscriber::try_recv`] that are no news of publishers.
    #[doc(hidden)]
    pub fn pass(&mut self, ring: u32, position: u64) -> Result<(), RecvError> {
        self.enter()?;
        if self.watched.has_changed(&self.inner) {
            self.meet_rings()?;
        }
        let ring = ring as usize;
        // No further than there are messages: else it would not get the ones between.
        let position = match self.cursors.get(ring) {
            Some(_) => position.min(self.inner.all_published(ring as u32)),
            None => return Ok(()),
        };
        if position > self.cursors[ring] {
            self.advance(ring, position);
        }
        Ok(())
    }
}

/// A living publisher.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its ring.
    pub ring: u32,
    /// Its number.
    pub session: u32,
    /// The publisher's process.
    pub publisher: TokenId,
    /// Its first message.
    pub from: u64,
    /// Behind its last one so far.
    pub published: u64,
}

impl<M: Payload + ?Sized> Sample<M> {
    /// Returns whether its publisher stood for one elsewhere.
    #[doc(hidden)]
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        self.taken().is_foreign
    }
}

impl<M: Payload + ?Sized> Publisher<M> {
    /// Returns the ring in which it publishes: [`Sample::ring`](super::Sample::ring).
    #[doc(hidden)]
    #[must_use]
    pub fn ring_index(&self) -> u32 {
        self.ring(|ring| ring.index)
    }

    /// Returns the number of its session: [`Sample::session`](super::Sample::session).
    #[doc(hidden)]
    #[must_use]
    pub fn session(&self) -> u32 {
        self.ring(|ring| ring.origin.session())
    }

    /// Returns the number that its next message will have: [`Sample::sequence`](super::Sample::sequence).
    #[doc(hidden)]
    #[must_use]
    pub fn next_sequence(&self) -> u64 {
        self.ring(|ring| ring.published)
    }

    /// Publishes the reason why messages elsewhere are none here: a subscriber that comes to it gets
    /// [`RecvError::Encoding`](crate::RecvError::Encoding) with that text. What does not fit a slot is cut.
    ///
    /// # Errors
    /// The errors of [`Publisher::try_publish`]. [`SendError::NotOwner`] if it is not
    /// [`foreign`](super::PublisherOptions::foreign).
    #[doc(hidden)]
    pub fn publish_refusal(&self, why: &str) -> Result<(), SendError> {
        let me = self.enter()?;
        if !self.ring(|ring| ring.origin.is_foreign()) {
            return Err(SendError::NotOwner);
        }
        self.try_wait_writable()?;
        let bytes = &why.as_bytes()[..why.floor_char_boundary(INLINE)];
        let len = refusal::length(bytes.len());
        self.put(me, len, None, None, |slot| slot.write(bytes));
        Ok(())
    }

    /// Ends it as its death would: subscribers that ask for liveliness are told
    /// [`RecvError::PublisherDied`](crate::RecvError::PublisherDied). For a publisher that stood for one
    /// elsewhere, which has died.
    #[doc(hidden)]
    pub fn disown(self) {
        let words = self.inner.ring(self.ring_index());
        // Before `session` = 0, whose Release makes it visible. If this process died just before or
        // just after, its token is dead: the publisher has died either way.
        words.disowned.store(self.ring(|ring| ring.session_word()), Ordering::Relaxed);
        let inner = std::sync::Arc::clone(&self.inner);
        drop(self);
        // They sleep until a message comes, or a process ends.
        inner.shared().notifications.notify_all();
    }
}

impl<M: Payload + ?Sized> Topic<M> {
    /// Returns a number that no other topic has that has, or has had, this one's name.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged).
    #[doc(hidden)]
    pub fn instance(&self) -> Result<u64, crate::Error> {
        control_file::number(&self.inner.segment)
            .ok_or_else(|| self.inner.segment.damaged("its control file's number"))
    }

    /// Returns the living publishers, with their sessions, and whether there is one more that has taken its ring
    /// and not begun its session: a watch of publishers tells of it before that, and not again.
    #[doc(hidden)]
    #[must_use]
    pub fn sessions(&self) -> (Vec<Session>, bool) {
        let inner = &*self.inner;
        let mut is_beginning = false;
        let session = |ring: u32| {
            let words = inner.ring(ring);
            let publisher = ring_owner::publisher(words.owner.load(Ordering::Acquire))
                .filter(|id| inner.registry.is_alive(*id))?;
            // Acquire pairs with `durability::begin`: where it begins.
            let word = words.session.load(Ordering::Acquire);
            let from = words.session_from.load(Ordering::Acquire);
            let published = inner.all_published(ring);
            // If it is the same behind the others, they are its own: the next one writes `session` = 0
            // before them.
            fence(Ordering::Acquire);
            let is_still = words.session.load(Ordering::Relaxed) == word;
            let session = (word >> 32) as u32;
            let is_own = TokenId::from_word(word as u32) == Some(publisher) && is_still;
            is_beginning |= !is_own;
            is_own.then_some(Session { ring, session, publisher, from, published })
        };
        let sessions = (0..inner.rings()).filter_map(session).collect();
        (sessions, is_beginning)
    }

    /// Returns whether that session, which is over, has ended in order in that ring. `None`: it is not known
    /// any more, since a later one has.
    #[doc(hidden)]
    #[must_use]
    pub fn has_left(&self, ring: u32, session: u32) -> Option<bool> {
        if ring >= self.inner.rings() {
            return Some(false);
        }
        let left = self.inner.ring(ring).left.load(Ordering::Acquire);
        // Sessions are counted, and begin again: the nearer way round says which one is the later.
        let later = left.wrapping_sub(session) << (u32::BITS - SESSION_BITS);
        match later.cast_signed() {
            0 => Some(true),
            1.. if left != 0 => None,
            _ => Some(false),
        }
    }

    /// Returns whether the message of that session with that number was published in that ring; `None`:
    /// it is not known any more.
    #[doc(hidden)]
    #[must_use]
    pub fn has_published(&self, ring: u32, session: u32, sequence: u64) -> Option<bool> {
        if ring >= self.inner.rings() {
            return Some(false);
        }
        let slots = self.inner.slots(ring).ok()?;
        let slot = &slots[(sequence & (slots.len() as u64 - 1)) as usize];
        if slot.look(sequence) == MessageState::There {
            let origin = slot.metadata().origin;
            return slot.is_still(sequence).then_some(origin.session() == session);
        }
        match slot.position() {
            Some(position) if position > sequence => None,
            _ if self.inner.published(ring) > sequence => None,
            _ => Some(false),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::durability::Durability;
    use crate::topic::Topic;
    use crate::{Domain, RecvError};

    fn with_topic(name: &str, test: impl FnOnce(&Topic<u64>)) {
        let folder = std::env::temp_dir().join(format!("outlive-{name}-{}", std::process::id()));
        let domain = Domain::open_or_create_at(&folder).expect("opens");
        let options = Topic::<u64>::options().depth(4).reliable(true);
        test(&options.open_or_create(&domain, "t").expect("made"));
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn a_publisher_waits_for_what_was_not_passed() {
        with_topic("passed", |topic| {
            let mut keeper =
                topic.subscriber_with(Subscriber::options().reliable(true)).expect("joins");
            let publisher = topic.publisher().expect("publishes");
            let ring = publisher.ring_index();
            for number in 0..4 {
                publisher.publish(&number).expect("room");
            }
            assert!(publisher.try_publish(&4).is_err());
            keeper.pass(ring, 2).expect("passes");
            keeper.pass(ring, 1).expect("is behind, and changes nothing");
            publisher.try_publish(&4).expect("room");
            publisher.try_publish(&5).expect("room");
            assert!(publisher.try_publish(&6).is_err());
            // No further than there are messages.
            keeper.pass(ring, 100).expect("passes");
            publisher.publish(&6).expect("room");
            assert_eq!(*keeper.recv().expect("there"), 6);
        });
    }

    #[test]
    fn a_disowned_publisher_has_died_and_one_that_is_dropped_has_left() {
        with_topic("disowned", |topic| {
            let told = Subscriber::options().liveliness(Duration::from_secs(60));
            let mut subscriber = topic.subscriber_with(told).expect("joins");
            let (first, second) =
                (topic.publisher().expect("one"), topic.publisher().expect("two"));
            let number = first.session();
            first.publish(&1).expect("room");
            assert_eq!(*subscriber.recv().expect("there"), 1);
            drop(second);
            assert_eq!(subscriber.try_recv().map(|sample| sample.map(|value| *value)), Ok(None));
            std::thread::scope(|scope| {
                scope.spawn(|| first.disown());
                let told = subscriber.recv_timeout(Duration::from_secs(60)).map(drop);
                assert!(
                    matches!(told, Err(RecvError::PublisherDied { session, .. }) if session == number),
                    "{told:?}"
                );
            });
            // Its ring's next publisher has not died.
            drop(topic.publisher().expect("three"));
            assert_eq!(subscriber.try_recv().map(|sample| sample.map(|value| *value)), Ok(None));
        });
    }

    #[test]
    fn one_that_came_and_was_disowned_between_two_looks_has_died() {
        with_topic("disowned-unseen", |topic| {
            let told = Subscriber::options().liveliness(Duration::from_secs(3600));
            let mut subscriber = topic.subscriber_with(told).expect("joins");
            // A look; the next one is in a quarter of an hour unless there is no message.
            assert_eq!(subscriber.try_recv().map(|sample| sample.map(|value| *value)), Ok(None));
            for round in 0..3 {
                let publisher = topic.publisher().expect("publishes");
                let number = publisher.session();
                publisher.publish(&round).expect("room");
                publisher.disown();
                assert_eq!(*subscriber.recv().expect("there"), round);
                let told = subscriber.try_recv().map(drop);
                assert!(
                    matches!(told, Err(RecvError::PublisherDied { session, .. }) if session == number),
                    "{told:?}"
                );
                assert_eq!(
                    subscriber.try_recv().map(|sample| sample.map(|value| *value)),
                    Ok(None)
                );
            }
        });
    }

    #[test]
    fn a_message_says_for_good_that_its_publisher_stands_for_another() {
        with_topic("foreign", |topic| {
            let mut subscriber = topic.subscriber().expect("joins");
            let foreign = topic.publisher_with(Publisher::options().foreign(true)).expect("one");
            let own = topic.publisher().expect("two");
            foreign.publish(&1).expect("room");
            own.publish(&2).expect("room");
            drop(foreign);
            let told: Vec<(u64, bool)> = (0..2)
                .map(|_| subscriber.recv().expect("there"))
                .map(|sample| (*sample, sample.is_foreign()))
                .collect();
            assert_eq!(told, [(1, true), (2, false)]);
        });
    }

    #[test]
    fn a_subscriber_is_told_why_messages_elsewhere_are_none_here() {
        with_topic("refusal", |topic| {
            let mut subscriber = topic.subscriber().expect("joins");
            let own = topic.publisher().expect("publishes");
            assert_eq!(own.publish_refusal("no"), Err(SendError::NotOwner));
            let foreign = topic.publisher_with(Publisher::options().foreign(true)).expect("one");
            foreign.publish_refusal("here u64, there u32").expect("room");
            own.publish(&5).expect("room");
            let told = subscriber.try_recv().map(drop);
            assert_eq!(told, Err(RecvError::Encoding("here u64, there u32".into())));
            assert_eq!(*subscriber.recv().expect("the next one"), 5);
            foreign.publish_refusal(&"ü".repeat(200)).expect("room");
            let Err(RecvError::Encoding(why)) = subscriber.try_recv().map(drop) else {
                panic!("told")
            };
            assert_eq!(why, "ü".repeat(INLINE / 2));
            foreign.publish_refusal("").expect("room");
            assert_eq!(subscriber.latest().map(drop), Err(RecvError::Encoding(String::new())));
        });
    }

    #[test]
    fn it_is_known_which_messages_were_published() {
        with_topic("known", |topic| {
            let publisher = topic.publisher().expect("publishes");
            let (ring, session) = (publisher.ring_index(), publisher.session());
            assert_eq!(topic.has_published(ring, session, 0), Some(false));
            assert_eq!(publisher.next_sequence(), 0);
            for number in 0..5 {
                publisher.publish(&number).expect("room");
            }
            assert_eq!(publisher.next_sequence(), 5);
            let (sessions, is_beginning) = topic.sessions();
            let [living] = sessions[..] else { panic!("one") };
            assert!(!is_beginning);
            assert_eq!(
                (living.ring, living.session, living.from, living.published),
                (ring, session, 0, 5)
            );
            assert_eq!(topic.has_left(ring, session), Some(false));
            assert_eq!(topic.has_published(ring, session, 4), Some(true));
            assert_eq!(topic.has_published(ring, session + 1, 4), Some(false));
            assert_eq!(topic.has_published(ring, session, 5), Some(false));
            assert_eq!(topic.has_published(ring, session, 0), None);
            assert_eq!(topic.has_published(99, session, 0), Some(false));
            drop(publisher);
            assert!(topic.sessions().0.is_empty());
            assert_eq!(topic.has_left(ring, session), Some(true));
            // The one before it has died, or left; the one behind it has died.
            assert_eq!(topic.has_left(ring, session.wrapping_sub(1)), None);
            assert_eq!(topic.has_left(ring, session + 1), Some(false));
            assert_eq!(topic.has_left(99, session), Some(false));
        });
    }

    #[test]
    fn what_is_kept_is_there_without_a_publisher_that_vouches() {
        with_topic("unvouched", |topic| {
            assert_ne!(topic.config().durability, Durability::Persistent);
            let publisher = topic.publisher().expect("publishes");
            publisher.publish(&7).expect("room");
            let ring = publisher.ring_index();
            drop(publisher);
            let options = Subscriber::options().history(4);
            let mut usual = topic.subscriber_with(options.clone()).expect("joins");
            assert!(usual.try_recv().expect("none").is_none());
            let mut all = topic.subscriber_with(options.unvouched(true)).expect("joins");
            let sample = all.recv().expect("kept");
            assert_eq!((*sample, sample.ring(), sample.sequence()), (7, ring, 0));
        });
    }
}
