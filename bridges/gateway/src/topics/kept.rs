//! What a sender keeps, for whom, and of which sessions: until each receiver has it, and no longer.
//!
//! Nothing of it outlives the sender: its successor learns all of it from the ring and from the receivers.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use outlive::TokenId;
use outlive::topic::{Sample, Session, Subscriber};
use zenoh::liveliness::LivelinessToken;

use super::stream::Ending;
use crate::wire::Origin;

/// Of so many ended sessions it is known how they ended.
const MOST_ENDED: usize = 1024;

/// A session's messages in a ring.
pub(super) struct Segment {
    pub(super) session: u32,
    pub(super) from: u64,
    /// Behind the last one that was put.
    pub(super) sent: u64,
    pub(super) publisher: Option<TokenId>,
    /// No gateway sends it on.
    pub(super) is_foreign: bool,
    /// How it has ended.
    pub(super) over: Option<Ending>,
}

/// What is known of a message's session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Noted {
    Known,
    Stranger,
    /// It was over: another thread of a process that is dead has got so far. No receiver waits for that.
    Late,
}

/// A receiver that messages are kept for.
#[derive(Default)]
pub(super) struct Receiver {
    /// By session: its next number.
    pub(super) has: HashMap<u32, u64>,
    /// How many tokens it has: a successor's may come before its predecessor's is gone.
    pub(super) tokens: usize,
    /// Since when it has none.
    pub(super) gone: Option<Instant>,
    /// Since when it lacks something and has acknowledged nothing new, as a reminder found it.
    pub(super) lacks_since: Option<Instant>,
    /// That has lasted for too long: nothing is kept for it until it acknowledges something new.
    pub(super) is_slow: bool,
    /// It has had a whole answer since its token came: what of this sender's predecessor it lacked, it
    /// has been sent.
    pub(super) is_answered: bool,
}

impl Receiver {
    /// Whether it lacks something that was put.
    pub(super) fn lacks(&self, rings: &BTreeMap<u32, VecDeque<Segment>>) -> bool {
        let mut segments = rings.values().flatten().filter(|segment| !segment.is_foreign);
        segments.any(|segment| self.has.get(&segment.session).is_none_or(|has| *has < segment.sent))
    }
}

/// What is kept, for whom, and of which sessions.
pub(super) struct Kept {
    pub(super) keeper: Option<Subscriber>,
    pub(super) receivers: HashMap<Origin, Receiver>,
    /// By ring, the oldest first.
    pub(super) rings: BTreeMap<u32, VecDeque<Segment>>,
    /// Until then nothing is passed: receivers of a predecessor are about to ask.
    pub(super) grace: Option<Instant>,
    /// Publishers that others know of.
    pub(super) tokens: HashMap<u32, LivelinessToken>,
    pub(super) ended: VecDeque<(u32, u64, Ending)>,
    /// A reminder is on its way.
    pub(super) reminds: bool,
    /// There were more receivers than a topic has: told once.
    pub(super) has_refused: bool,
}

impl Kept {
    /// A message was taken.
    pub(super) fn note(&mut self, sample: &Sample) -> Noted {
        let (session, number) = (sample.session(), sample.sequence());
        let segments = self.rings.entry(sample.ring()).or_default();
        if let Some(known) = segments.iter_mut().rev().find(|known| known.session == session) {
            if known.over.is_some() && number >= known.sent {
                return Noted::Late;
            }
            known.sent = known.sent.max(number + 1);
            return Noted::Known;
        }
        segments.push_back(Segment {
            session,
            from: number,
            sent: number + 1,
            publisher: sample.publisher(),
            is_foreign: sample.is_foreign(),
            over: None,
        });
        Noted::Stranger
    }

    /// A publisher is there.
    pub(super) fn begin(&mut self, living: &Session) {
        let segments = self.rings.entry(living.ring).or_default();
        if segments.iter().all(|segment| segment.session != living.session) {
            // It may have left since, and its ring have another one.
            let at = segments.partition_point(|segment| segment.sent <= living.from);
            let segment = Segment {
                session: living.session,
                from: living.from,
                sent: living.published,
                publisher: Some(living.publisher),
                is_foreign: false,
                over: None,
            };
            segments.insert(at, segment);
        }
    }

    /// Returns the sessions that have not ended.
    pub(super) fn going_on(&self) -> HashSet<u32> {
        let segments = self.rings.values().flatten().filter(|segment| segment.over.is_none());
        segments.map(|segment| segment.session).collect()
    }

    /// Of the sessions that were known before that look at the living, those that are not among them have
    /// ended. Returns them, each with the number behind its last message.
    pub(super) fn end(
        &mut self,
        living: &HashMap<u32, Session>,
        known: &HashSet<u32>,
        how: impl Fn(u32, &Segment) -> Ending,
    ) -> Vec<(u32, u64, Ending)> {
        let mut over = Vec::new();
        for (&ring, segments) in &mut self.rings {
            for at in 0..segments.len() {
                let next = segments.get(at + 1).map(|next| next.from);
                let segment = &mut segments[at];
                let session = segment.session;
                let lives = living.get(&session).is_some_and(|living| living.ring == ring);
                if segment.over.is_some() || lives || !known.contains(&session) {
                    continue;
                }
                let ending = how(ring, segment);
                segment.over = Some(ending);
                // What the ring has overwritten before the reader came to it: receivers find it missing.
                segment.sent = segment.sent.max(next.unwrap_or(0));
                if !segment.is_foreign {
                    over.push((session, segment.sent, ending));
                }
            }
        }
        let before = (self.ended.len() + over.len()).saturating_sub(MOST_ENDED);
        self.ended.extend(over.iter().copied());
        self.ended.drain(..before.min(self.ended.len()));
        over
    }

    /// Lets go of sessions that are over, and of which the ring has nothing: as many stay as a ring has
    /// messages.
    pub(super) fn prune(&mut self, depth: u32) {
        for segments in self.rings.values_mut() {
            let newest = segments.back().map_or(0, |newest| newest.sent);
            segments.retain(|segment| {
                let is_there =
                    segment.sent > segment.from && segment.sent + u64::from(depth) > newest;
                let stays = segment.over.is_none() || is_there;
                if !stays {
                    for receiver in self.receivers.values_mut() {
                        receiver.has.remove(&segment.session);
                    }
                }
                stays
            });
        }
    }

    pub(super) fn in_grace(&self) -> bool {
        self.grace.is_some_and(|until| Instant::now() < until)
    }

    /// Whether messages are kept for anyone.
    pub(super) fn is_waited_for(&self) -> bool {
        !self.receivers.is_empty() || self.in_grace()
    }

    /// Whether a receiver lacks something that was put.
    pub(super) fn is_lacking(&self) -> bool {
        self.receivers.values().any(|receiver| receiver.lacks(&self.rings))
    }

    /// Notes which receivers lack something; returns those that have acknowledged nothing new for so
    /// long. They are waited for no more.
    pub(super) fn find_slow(&mut self, hold: Duration) -> Vec<Origin> {
        let mut slow = Vec::new();
        for (who, receiver) in &mut self.receivers {
            if receiver.is_slow {
                continue;
            }
            if !receiver.lacks(&self.rings) {
                receiver.lacks_since = None;
                continue;
            }
            let since = receiver.lacks_since.get_or_insert_with(Instant::now);
            if since.elapsed() >= hold {
                receiver.is_slow = true;
                slow.push(*who);
            }
        }
        slow
    }

    /// Lets the ring's publisher go on behind what all receivers have.
    pub(super) fn pass(&mut self, ring: u32) {
        // Messages of sessions that this sender has never seen may be asked for.
        let mut waited_for = self.receivers.values().filter(|receiver| !receiver.is_slow);
        if self.in_grace() || waited_for.any(|receiver| !receiver.is_answered) {
            return;
        }
        let Some(segments) = self.rings.get_mut(&ring) else { return };
        let mut to = None;
        while let Some(segment) = segments.front() {
            let has = |receiver: &Receiver| {
                receiver.has.get(&segment.session).copied().unwrap_or(segment.from)
            };
            let waited_for = self.receivers.values().filter(|receiver| !receiver.is_slow);
            let needed = waited_for.map(has).min().filter(|_| !segment.is_foreign);
            let until = needed.unwrap_or(segment.sent).min(segment.sent);
            to = Some(until);
            if until < segment.sent || segment.over.is_none() || segments.len() == 1 {
                break;
            }
            for receiver in self.receivers.values_mut() {
                receiver.has.remove(&segment.session);
            }
            segments.pop_front();
        }
        if let Some((to, keeper)) = to.zip(self.keeper.as_mut()) {
            // A keeper that cannot pass holds the publisher until its gateway is gone: it is told by the
            // reader, which has the same trouble.
            let _ = keeper.pass(ring, to);
        }
    }
}

#[cfg(test)]
mod tests {
    use outlive::Domain;
    use outlive::topic::Topic;

    use super::*;

    /// A topic, its reader, and what is kept of what that has read.
    struct World {
        topic: Topic<u64>,
        reader: Subscriber,
        kept: Kept,
        domain: Domain,
        folder: std::path::PathBuf,
    }

    impl World {
        fn new(name: &str) -> World {
            let folder =
                std::env::temp_dir().join(format!("outlive-{name}-{}", std::process::id()));
            let domain = Domain::open_or_create_at(&folder).expect("opens");
            let options = Topic::<u64>::options().depth(4).max_publishers(1);
            let topic = options.open_or_create(&domain, "n").expect("made");
            let bytes = Topic::open_as_bytes(&domain, "n").expect("made");
            let reader = bytes.subscriber().expect("joins");
            let kept = Kept {
                keeper: None,
                receivers: HashMap::new(),
                rings: BTreeMap::new(),
                grace: None,
                tokens: HashMap::new(),
                ended: VecDeque::new(),
                reminds: false,
                has_refused: false,
            };
            World { topic, reader, kept, domain, folder }
        }

        fn publish(&self, count: u64) -> u32 {
            let publisher = self.topic.publisher().expect("publishes");
            (0..count).for_each(|number| drop(publisher.publish(&number).map(drop)));
            publisher.session()
        }

        fn read(&mut self) {
            loop {
                match self.reader.try_recv() {
                    Ok(Some(sample)) => drop(self.kept.note(&sample)),
                    Ok(None) => return,
                    Err(_) => {}
                }
            }
        }

        fn look(&mut self, meanwhile: impl FnOnce(&World)) -> Vec<(u32, u64, Ending)> {
            let known = self.kept.going_on();
            let (living, _) = self.topic.sessions();
            meanwhile(self);
            self.read();
            living.iter().for_each(|session| self.kept.begin(session));
            let living = living.into_iter().map(|session| (session.session, session)).collect();
            self.kept.end(&living, &known, |_, _| Ending::Left)
        }
    }

    impl Drop for World {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }

    #[test]
    fn one_that_begins_during_a_look_has_not_ended() {
        let mut world = World::new("look");
        let first = world.publish(1);
        world.read();
        let begun = std::cell::RefCell::new(None);
        let over = world.look(|world| {
            let publisher = world.topic.publisher().expect("publishes");
            publisher.publish(&0).expect("room");
            *begun.borrow_mut() = Some(publisher);
        });
        assert_eq!(over, [(first, 1, Ending::Left)]);
        let second = begun.take().expect("begun");
        let session = second.session();
        second.publish(&1).expect("room");
        drop(second);
        world.read();
        assert_eq!(world.look(|_| {}), [(session, 3, Ending::Left)]);
        // A thread of a dead process gets that far: behind the end that was told.
        let bytes = Topic::open_as_bytes(&world.domain, "n").expect("made");
        let options = Subscriber::options().history(4).unvouched(true);
        let mut history = bytes.subscriber_with(options).expect("joins");
        while let Ok(Some(sample)) = history.try_recv() {
            let segment = world.kept.rings.get_mut(&0).and_then(VecDeque::back_mut);
            segment.expect("its").sent = 2;
            let is_late = sample.session() == session && sample.sequence() >= 2;
            assert_eq!(world.kept.note(&sample) == Noted::Late, is_late);
        }
    }

    #[test]
    fn what_was_overwritten_before_it_was_read_is_missing_at_the_end_of_its_session() {
        let mut world = World::new("overwritten");
        let publisher = world.topic.publisher().expect("publishes");
        let first = publisher.session();
        publisher.publish(&0).expect("room");
        world.read();
        (0..3).for_each(|number| drop(publisher.publish(&number).map(drop)));
        drop(publisher);
        let second = world.publish(4);
        world.read();
        assert_eq!(world.look(|_| {}), [(first, 4, Ending::Left), (second, 8, Ending::Left)]);
    }

    #[test]
    fn a_session_is_kept_once_and_in_the_order_of_the_ring() {
        let mut world = World::new("once");
        let silent = world.topic.publisher().expect("publishes");
        let session = silent.session();
        let mut silent = Some(silent);
        let (living, _) = world.topic.sessions();
        drop(silent.take());
        let second = world.publish(1);
        world.read();
        living.iter().for_each(|session| world.kept.begin(session));
        world.publish(0);
        let of = |kept: &Kept| kept.rings[&0].iter().map(|one| one.session).collect::<Vec<_>>();
        assert_eq!(of(&world.kept), [session, second]);
        assert_eq!(world.look(|_| {}), [(session, 0, Ending::Left), (second, 1, Ending::Left)]);
        // Nothing of the silent one is there to be kept.
        world.kept.prune(4);
        assert_eq!(of(&world.kept), [second]);
        for _ in 0..100 {
            world.publish(1);
            world.read();
        }
        world.look(|_| {});
        world.kept.prune(4);
        assert_eq!(of(&world.kept).len(), 4);
    }
}
