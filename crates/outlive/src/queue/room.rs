//! A full queue: how a sender waits for a slot or for memory; and which thread wakes which.
//!
//! A queue has two eventcounts (wake/event_count.rs).
//!
//! | eventcount | waiters | notifiers |
//! | --- | --- | --- |
//! | `messages` | the receiver, and wait sets for it | a sender, after READY or when it finds the queue full |
//! | `room` | senders that find the queue full | the receiver, after it gave something back; other threads that made memory free |
//!
//! A waiter also watches the end of the thread that ought to wake it, where there is one: a waiting
//! sender watches its counterpart, which is the receiver, or a service's servers; a receiver watches a
//! sender that is writing. Where there is none,
//! the waiter polls from time to time: a sender may be stopped between READY and the notification.
//!
//! A waiting sender reads the receiver's role first and looks for room then. A receiver may give a
//! slot back and die before it notifies `room`. Once the role reads dead, the look sees all that was
//! given back; a role that read living wakes the sender at its end. Where messages are kept for the
//! next receiver, a sender that looked first would sleep beside room until that one comes.
//! proof/models/queue.pml (KEEP).

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::Inner;
use super::ring::Ring;
use super::sweep::collect_objects;
use crate::claim::Standing;
use crate::liveness::Me;
use crate::pool::{HeapHost, ObjectRef};
use crate::sys::futex::Watch;
use crate::sys::probe::{self, AtEnd, probe};
use crate::sys::robust::WakeRelay;
use crate::wake::Asleep;
use crate::{Deadline, Error, SendError};

/// What a waiting sender finds when it looks.
pub(super) enum Space {
    Some,
    /// No memory until the receiver frees some.
    None,
    /// No memory, but another thread holds some; it may let go of it or die, perhaps without a
    /// notification, so the sender looks again from time to time.
    InHand,
}

/// After so long a sender looks again for memory that another thread holds.
const BRIEF_LOOK: Duration = Duration::from_millis(10);

/// The processes that make room for a waiting sender: a queue's receiver; for a client of a service,
/// the servers that live, or the one that has its call.
pub(crate) trait Counterpart {
    type Error: From<SendError>;

    /// Prepares a wait on the words that tell of them, and then judges whether they go on making room;
    /// if not, the error ends the wait. Comes before the look for room: see the file's head. Returns
    /// whether one of them has died since it was asked last.
    fn judge(&mut self) -> Result<bool, Self::Error>;

    /// Sleeps until `room` changes, or what `judge` has found, or the deadline passes.
    fn sleep(
        &mut self,
        relay: &WakeRelay,
        room: Watch<'_>,
        deadline: Deadline,
    ) -> Result<Asleep, Self::Error>;
}

/// A queue's receiver.
pub(super) struct Receiver<'a> {
    inner: &'a Inner,
    standing: Option<Standing>,
    seen_dead: Option<u32>,
}

impl<'a> Receiver<'a> {
    pub(super) fn of(inner: &'a Inner) -> Receiver<'a> {
        Receiver { inner, standing: None, seen_dead: None }
    }
}

impl Counterpart for Receiver<'_> {
    type Error = SendError;

    fn judge(&mut self) -> Result<bool, SendError> {
        let receiver = self.inner.receiver()?;
        let dead = receiver.is_dead().then_some(receiver.holder());
        let after_a_death = dead.is_some() && dead != self.seen_dead;
        self.seen_dead = dead;
        self.standing = Some(receiver);
        Ok(after_a_death)
    }

    fn sleep(
        &mut self,
        relay: &WakeRelay,
        room: Watch<'_>,
        deadline: Deadline,
    ) -> Result<Asleep, SendError> {
        let Some(standing) = self.standing else { return Ok(Asleep::LookAgain) };
        let registry = self.inner.registry;
        let slept = self.inner.role().sleep(relay, &[room], standing, deadline);
        slept.map_err(|errno| Error::from_errno("wait in", registry.path(), errno).into())
    }
}

/// The pool has no object and no room: waits for the receiver to free one, or for a sender that
/// will not send what it holds. `worth_a_look` is called while spinning.
#[cold]
pub(super) fn wait_for_memory<C: Counterpart>(
    inner: &Inner,
    me: Me,
    len: u64,
    deadline: Option<Deadline>,
    worth_a_look: &dyn Fn() -> bool,
    counterpart: &mut C,
) -> Result<ObjectRef, C::Error> {
    let looks = Looks::new(&inner.ring, len);
    wait_for_room(inner, me, deadline, worth_a_look, counterpart, &|after_a_death| {
        if after_a_death {
            looks.next_scan.set(None);
        }
        looks.look(me)
    })?;
    looks
        .object
        .take()
        .ok_or_else(|| SendError::from(inner.ring.segment.damaged("the pool")).into())
}

/// A waiting sender's search for memory, and what it remembers from one look to the next.
struct Looks<'a> {
    ring: &'a Ring,
    len: u64,
    /// Another thread held some at the last look.
    in_hand: Cell<bool>,
    object: Cell<Option<ObjectRef>>,
    /// No scan of all tags before this, so that scans take a ninth of the time at most. `None`:
    /// there was none yet.
    next_scan: Cell<Option<Instant>>,
}

impl<'a> Looks<'a> {
    fn new(ring: &'a Ring, len: u64) -> Looks<'a> {
        let (in_hand, object, next_scan) = Default::default();
        Looks { ring, len, in_hand, object, next_scan }
    }

    fn allocate(&self, me: Me) -> Result<bool, SendError> {
        match self.ring.pool.allocate(&self.ring.segment, me, self.len, self) {
            Ok(taken) => {
                self.object.set(Some(taken));
                Ok(true)
            }
            Err(Error::NoSpace { .. }) => Ok(false),
            Err(other) => Err(SendError::from(other)),
        }
    }

    fn look(&self, me: Me) -> Result<Space, SendError> {
        let Looks { ring, in_hand, next_scan, .. } = self;
        in_hand.set(false);
        if self.allocate(me)? {
            return Ok(Space::Some);
        }
        // Perhaps only what dead threads left is missing. They had it when this sender came, or
        // held it when it looked; and in that case the sender looks again from time to time anyway.
        let begun = Instant::now();
        if next_scan.get().is_none_or(|next| in_hand.get() && begun >= next) {
            let found = collect_objects(ring, me, false)?;
            let ended = Instant::now();
            next_scan.set(Some(ended + (ended - begun) * 8));
            if found.count() > 0 && self.allocate(me)? {
                return Ok(Space::Some);
            }
            in_hand.set(in_hand.get() || found.in_hand > 0);
        }
        // The rings have grown since the sender began to wait, and keep what they have.
        let most = ring.most_message_bytes();
        if self.len > most {
            return Err(SendError::TooLarge { len: self.len, max: most });
        }
        Ok(if in_hand.get() { Space::InHand } else { Space::None })
    }
}

impl HeapHost for Looks<'_> {
    fn allows(&self, more: u64) -> bool {
        self.ring.allows(more)
    }

    fn met_in_hand(&self) {
        self.in_hand.set(true);
    }

    fn freed(&self) {
        self.ring.freed();
    }
}

impl HeapHost for Ring {
    fn allows(&self, more: u64) -> bool {
        Ring::allows(self, more)
    }

    /// Called by a sender before it sleeps; then it looks by [`Looks`].
    fn met_in_hand(&self) {}

    fn freed(&self) {
        self.head().room.notify_all();
    }
}

/// Waits until `look` finds room, or the counterpart's death is an error. `None` for a deadline means
/// "do not wait". `worth_a_look` is called while spinning. `look` is told whether a counterpart has
/// died since it looked last.
#[cold]
pub(super) fn wait_for_room<C: Counterpart>(
    inner: &Inner,
    me: Me,
    deadline: Option<Deadline>,
    worth_a_look: &dyn Fn() -> bool,
    counterpart: &mut C,
    look: &dyn Fn(bool) -> Result<Space, SendError>,
) -> Result<(), C::Error> {
    let head = inner.ring.head();
    if !inner.spin(deadline, worth_a_look) {
        // The sender whose message the receiver should be awake for may have died before it could
        // wake it.
        inner.notify_receiver();
    }
    if let Space::Some = look(false)? {
        return Ok(());
    }
    // One look, as a try's, where there is no time.
    let deadline = match deadline {
        Some(deadline) if !deadline.has_passed() => deadline,
        Some(_) => return Err(SendError::TimedOut { slowest: None }.into()),
        None => return Err(SendError::Full { slowest: None }.into()),
    };
    let path = inner.ring.segment.path();
    probe!(queue_wait, path, probe::FOR_ROOM);
    let _end = AtEnd(|| probe!(queue_waited, path, probe::FOR_ROOM));
    let relay = WakeRelay::begin(me.list());
    let mut out_of_time = false;
    loop {
        let ticket = head.room.prepare_wait();
        inner.notify_receiver();
        let after_a_death = counterpart.judge()?;
        let slice = match look(after_a_death)? {
            Space::Some => return Ok(()),
            _ if out_of_time => return Err(SendError::TimedOut { slowest: None }.into()),
            Space::None => ticket.until(deadline),
            Space::InHand => deadline.earlier(Deadline::after(BRIEF_LOOK)),
        };
        match counterpart.sleep(&relay, head.room.watch(ticket), slice)? {
            // Looks before the next wait is prepared, which costs a membarrier.
            Asleep::LookAgain => {
                if let Space::Some = look(false)? {
                    return Ok(());
                }
            }
            Asleep::TimedOut => {}
        }
        // Also where it did not sleep: damaged words may demand another look for ever.
        out_of_time = deadline.has_passed();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::pool::Tag;
    use crate::queue::Queue;

    /// Looks again without a sleep, as long as it may: damaged words can demand that.
    struct Restless {
        until: Instant,
    }

    impl Counterpart for Restless {
        type Error = SendError;

        fn judge(&mut self) -> Result<bool, SendError> {
            match Instant::now() < self.until {
                true => Ok(false),
                false => Err(SendError::NoReceiver),
            }
        }

        fn sleep(&mut self, _: &WakeRelay, _: Watch<'_>, _: Deadline) -> Result<Asleep, SendError> {
            Ok(Asleep::LookAgain)
        }
    }

    #[test]
    fn a_wait_that_never_sleeps_ends_at_its_deadline() {
        let folder = std::env::temp_dir().join(format!("outlive-restless-{}", std::process::id()));
        let domain = crate::Domain::open_or_create_at(&folder).expect("opens");
        let queue = Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
        let sender = queue.sender().expect("a sender");
        let me = domain.me().expect("a token");
        let mut restless = Restless { until: Instant::now() + Duration::from_secs(20) };
        let deadline = Some(Deadline::after(Duration::from_millis(20)));
        let none = |_| Ok(Space::None);
        let inner = &sender.raw.inner;
        let waited = wait_for_room(inner, me, deadline, &|| false, &mut restless, &none);
        assert_eq!(waited, Err(SendError::TimedOut { slowest: None }));
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    /// A waiting sender scans all tags once, and later only when another thread holds memory. So
    /// what a dead receiver left is found by the next sender that begins to wait, not at each
    /// wake-up; what a dead sender held is found after a while.
    #[test]
    fn a_wake_does_not_look_at_all_tags() {
        const LEN: u64 = 100_000;
        let folder = std::env::temp_dir().join(format!("outlive-looks-{}", std::process::id()));
        let domain = crate::Domain::open_or_create_at(&folder).expect("opens");
        let queue =
            Queue::<[u8]>::options().max_bytes(1 << 20).open_or_create(&domain, "q").expect("made");
        let (sender, mut receiver) =
            (queue.sender().expect("a sender"), queue.receiver().expect("none yet"));
        let (ring, me) = (&sender.raw.inner.ring, domain.me().expect("a token"));
        // So that the first slot has been given back and does not lie just before the head.
        for message in [b"1", b"2"] {
            sender.send(message).expect("room");
            assert!(receiver.try_recv().expect("readable").is_some());
        }
        while sender.try_send(&[1; LEN as usize]).is_ok() {}
        let looks = Looks::new(ring, LEN);
        assert!(matches!(looks.look(me), Ok(Space::None)), "messages have all memory");
        // What a receiver leaves that dies between giving the slot back and freeing the object.
        let object = ring
            .pool
            .find_object(&ring.segment, 0)
            .expect("readable")
            .expect("the first message's");
        let Tag::Queued { region, position } =
            ring.pool.tag_of(&ring.segment, &object).expect("readable")
        else {
            panic!("a message's");
        };
        ring.pool.free_queued(&ring.segment, &object, region, position).expect("its message's");
        let object = ring.pool.allocate(&ring.segment, me, LEN, ring).expect("free");
        ring.pool.enqueue(&ring.segment, &object, me, 0, 0).expect("ours");
        for _ in 0..20 {
            assert!(matches!(looks.look(me), Ok(Space::None)), "a wake-up looked at all tags");
        }
        let another = Looks::new(ring, LEN);
        assert!(
            matches!(another.look(me), Ok(Space::Some)),
            "a sender that begins to wait looks at all tags"
        );
        assert_eq!(another.object.take(), Some(object));
        ring.pool.free_held(&ring.segment, &object, me, ring).expect("ours");
        std::thread::scope(|scope| {
            let dying = scope.spawn(|| {
                let me = domain.me().expect("a token");
                ring.pool.allocate(&ring.segment, me, LEN, ring).expect("free")
            });
            assert_eq!(dying.join().expect("no panic"), object);
        });
        let ends = Instant::now() + Duration::from_secs(60);
        while !matches!(looks.look(me), Ok(Space::Some)) {
            assert!(Instant::now() < ends, "what the dead sender held was not found");
        }
        assert_eq!(looks.object.take(), Some(object));
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
