//! Memory that a publisher has lent for a message.
//!
//! A loan is one pointer, to its description: so moving a loan costs nothing, and a short message
//! is written where it is copied from. A publisher has one description of its own, since it seldom
//! has two loans at a time; further ones are allocated for their loans. Both lie behind the
//! publisher's [`Lender`], which stays as long as the publisher or a loan exists. A publisher that
//! is dropped leaves its ring to the last of its loans: as long as this process may write into the
//! ring's memory, no other publisher takes it.
//!
//! | `state` of the publisher's own description | meaning | next |
//! | --- | --- | --- |
//! | `FREE` | no loan has it | `OUT`, when the publisher lends |
//! | `OUT` | a loan has it | `FREE`, when the loan is published, by a thread that has both; `RETURNED`, when it is dropped; `LEFT`, when the publisher is dropped |
//! | `RETURNED` | its loan was dropped; the object waits for the publisher | `FREE`, when the publisher lends |
//! | `LEFT` | a loan has it, and counts among the lender's users | |
//!
//! This is private memory: if the process dies, the ring's next owner finds all objects that are in
//! no slot.

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use std::sync::{Arc, PoisonError};

use super::header::Header;
use super::mapping::Inner;
use super::ring::Ring;
use super::slot::INLINE_WORDS;
use crate::Payload;
use crate::pool::ObjectRef;
use crate::shim::{AtomicU32, Mutex, Ordering};

/// Memory for one message, written in place and published by
/// [`Publisher::publish`](super::Publisher::publish).
///
/// A loan that is dropped gives its memory back to the publisher. A loan may move to other threads,
/// and outlive its publisher; then it can only be dropped. The publisher counts among the topic's
/// publishers until its last loan is gone.
#[must_use = "a loan that is dropped is not published"]
pub struct Loan<M: Payload + ?Sized = [u8]> {
    lent: NonNull<Lent>,
    _message: PhantomData<*const M>,
}

// SAFETY: the memory is this loan's alone; its drop changes what others have by atomics and mutexes.
unsafe impl<M: Payload + ?Sized> Send for Loan<M> {}
// SAFETY: a shared loan only gives its bytes to read, which have no interior mutability.
unsafe impl<M: Payload + ?Sized> Sync for Loan<M> {}

/// The description of a loan.
pub(super) struct Lent {
    /// See the head of this file; of a description that was allocated for its loan: `OUT`.
    state: AtomicU32,
    /// Allocated for its loan, and freed with it.
    is_alone: bool,
    lender: NonNull<Lender>,
    /// The loan's; in the states `FREE` and `RETURNED` the publisher's own.
    place: UnsafeCell<Place>,
}

/// Where the message is written.
struct Place {
    /// Where the object is written; null: the bytes lie in `inline`, to be copied into the slot.
    at: *mut u8,
    len: usize,
    object: Option<ObjectRef>,
    header: Option<Header>,
    inline: [u64; INLINE_WORDS],
}

const FREE: u32 = 0;
const OUT: u32 = 1;
const RETURNED: u32 = 2;
const LEFT: u32 = 3;

/// What a publisher and its loans have in common.
pub(super) struct Lender {
    own: Lent,
    /// How many there are of: the publisher, loans with a description allocated for them, and the
    /// publisher's own description in the state `LEFT`. The last one frees the lender.
    users: AtomicU32,
    /// Whether there are any of these, as far as is known.
    has_returned: AtomicU32,
    /// The objects of loans that were dropped unpublished, other than of `own`.
    returned: Mutex<Vec<ObjectRef>>,
    /// What a publisher that was dropped has left.
    left: Mutex<Option<Left>>,
}

/// The ring of a publisher that was dropped.
pub(super) struct Left {
    pub(super) inner: Arc<Inner>,
    pub(super) ring: Ring,
}

/// A publisher's pointer to its lender.
pub(super) struct LenderOfPublisher(NonNull<Lender>);

impl Lent {
    fn new(lender: NonNull<Lender>, state: u32, is_alone: bool) -> Lent {
        let place = Place {
            at: core::ptr::null_mut(),
            len: 0,
            object: None,
            header: None,
            inline: [0; INLINE_WORDS],
        };
        Lent { state: AtomicU32::new(state), is_alone, lender, place: UnsafeCell::new(place) }
    }
}

impl Place {
    #[inline]
    fn as_ptr(&self) -> *const u8 {
        if self.at.is_null() { self.inline.as_ptr().cast() } else { self.at }
    }

    #[inline]
    fn as_mut_ptr(&mut self) -> *mut u8 {
        if self.at.is_null() { self.inline.as_mut_ptr().cast() } else { self.at }
    }
}

impl LenderOfPublisher {
    pub(super) fn new() -> LenderOfPublisher {
        let lender = NonNull::from(Box::leak(Box::<Lender>::new_uninit())).cast::<Lender>();
        // SAFETY: just allocated, for a lender.
        unsafe {
            lender.write(Lender {
                own: Lent::new(lender, FREE, false),
                users: AtomicU32::new(1),
                has_returned: AtomicU32::new(0),
                returned: Mutex::default(),
                left: Mutex::default(),
            });
        }
        LenderOfPublisher(lender)
    }

    #[inline]
    fn lender(&self) -> &Lender {
        // SAFETY: the publisher is one of the lender's users until `leave`.
        unsafe { self.0.as_ref() }
    }

    /// Returns a description that no loan has, for the next loan; `put_back` gets an object that
    /// its last loan gave back.
    #[inline]
    pub(super) fn begin(&self, put_back: impl FnMut(ObjectRef)) -> NonNull<Lent> {
        let own = &self.lender().own;
        // Acquire pairs with the drop of a loan: it has finished with the description.
        if own.state.load(Ordering::Acquire) != FREE {
            return self.begin_slow(put_back);
        }
        // Relaxed: the loan, and the publisher's drop, come after this.
        own.state.store(OUT, Ordering::Relaxed);
        NonNull::from(own)
    }

    #[cold]
    fn begin_slow(&self, put_back: impl FnMut(ObjectRef)) -> NonNull<Lent> {
        self.take_back(put_back);
        let own = &self.lender().own;
        if own.state.load(Ordering::Relaxed) != FREE {
            return self.one_alone();
        }
        own.state.store(OUT, Ordering::Relaxed);
        NonNull::from(own)
    }

    fn one_alone(&self) -> NonNull<Lent> {
        // Relaxed: the publisher is a user meanwhile.
        self.lender().users.fetch_add(1, Ordering::Relaxed);
        NonNull::from(Box::leak(Box::new(Lent::new(self.0, OUT, true))))
    }

    /// Returns whether a loan was dropped unpublished since `take_back`, as far as can be seen.
    #[inline]
    pub(super) fn has_returned(&self) -> bool {
        let lender = self.lender();
        lender.own.state.load(Ordering::Relaxed) == RETURNED
            || lender.has_returned.load(Ordering::Relaxed) != 0
    }

    /// Takes the objects that dropped loans have given back.
    #[cold]
    pub(super) fn take_back(&self, mut put_back: impl FnMut(ObjectRef)) {
        let lender = self.lender();
        // Acquire pairs with the drop of a loan.
        if lender.own.state.load(Ordering::Acquire) == RETURNED {
            // SAFETY: in this state it is the publisher's, and the calling thread has the publisher.
            let object = unsafe { (*lender.own.place.get()).object.take() };
            lender.own.state.store(FREE, Ordering::Relaxed);
            object.into_iter().for_each(&mut put_back);
        }
        // Relaxed: objects that are missed are found the next time.
        if lender.has_returned.load(Ordering::Relaxed) != 0 {
            let mut returned = lender.returned.lock().unwrap_or_else(PoisonError::into_inner);
            lender.has_returned.store(0, Ordering::Relaxed);
            returned.drain(..).for_each(put_back);
        }
    }

    /// The publisher is dropped: the ring is left now, or by the last loan.
    pub(super) fn leave(&self, left: Left) {
        let lender = self.lender();
        *lender.left.lock().unwrap_or_else(PoisonError::into_inner) = Some(left);
        // Counted before the loan can find the state: a loan dropped just after would be the last.
        lender.users.fetch_add(1, Ordering::Relaxed);
        let state = &lender.own.state;
        if state.compare_exchange(OUT, LEFT, Ordering::AcqRel, Ordering::Acquire).is_err() {
            lender.users.fetch_sub(1, Ordering::Relaxed);
        }
        // SAFETY: the publisher is a user, and is dropped once.
        unsafe { release(self.0) };
    }
}

/// One user less; the last one leaves the ring, and frees the lender.
///
/// # Safety
/// The caller is one of the users, and uses the lender no more.
unsafe fn release(lender: NonNull<Lender>) {
    // SAFETY: the caller is one of the users until this.
    let users = unsafe { &lender.as_ref().users };
    // AcqRel: the last user sees what all others have done.
    if users.fetch_sub(1, Ordering::AcqRel) != 1 {
        return;
    }
    // SAFETY: `new` allocated it, and this was the last user.
    let lender = *unsafe { Box::from_raw(lender.as_ptr()) };
    let Lender { own, returned, left, .. } = lender;
    let Some(Left { inner, mut ring }) = left.into_inner().unwrap_or_else(PoisonError::into_inner)
    else {
        return;
    };
    let returned = returned.into_inner().unwrap_or_else(PoisonError::into_inner);
    let objects = own.place.into_inner().object.into_iter().chain(returned);
    objects.for_each(|object| ring.free_list.put_back(object));
    // In a forked child the ring is its parent's.
    if inner.registry.process_token_if_any() == Some(ring.process) {
        ring.leave(&inner);
        inner.note_publisher_change();
    }
}

impl<M: Payload + ?Sized> Loan<M> {
    /// Makes a loan of so many bytes in a description that `begin` returned: they lie in a slot
    /// later, or where `lies_in` says.
    #[inline]
    pub(super) fn new(lent: NonNull<Lent>, len: usize) -> Loan<M> {
        let mut loan: Loan<M> = Loan { lent, _message: PhantomData };
        let place = loan.place_mut();
        place.at = core::ptr::null_mut();
        place.len = len;
        place.object = None;
        place.header = None;
        loan
    }

    /// The bytes lie in an object of the publisher's, which is written at `at`.
    #[inline]
    pub(super) fn lies_in(&mut self, object: ObjectRef, at: *mut u8) {
        let place = self.place_mut();
        place.at = at;
        place.object = Some(object);
    }

    fn lent(&self) -> &Lent {
        // SAFETY: the description is this loan's, and stays until the loan is dropped or published.
        unsafe { self.lent.as_ref() }
    }

    #[inline]
    fn place(&self) -> &Place {
        // SAFETY: the description is this loan's until the loan is dropped or published.
        unsafe { &*self.lent().place.get() }
    }

    #[inline]
    fn place_mut(&mut self) -> &mut Place {
        // SAFETY: the description is this loan's; `&mut self` borrows it for this call alone.
        unsafe { &mut *self.lent().place.get() }
    }

    /// Sets the header that is published with the message: see [`Header`].
    pub fn set_header(&mut self, header: Header) {
        self.place_mut().header = Some(header);
    }

    #[inline]
    pub(super) fn header(&self) -> Option<Header> {
        self.place().header
    }

    /// Shortens the loan to at most so many bytes.
    #[cfg(feature = "msgpack")]
    pub(super) fn cut(&mut self, len: usize) {
        let place = self.place_mut();
        place.len = place.len.min(len);
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        let place = self.place();
        // SAFETY: the memory has at least `len` bytes, and is this loan's alone.
        unsafe { core::slice::from_raw_parts(place.as_ptr(), place.len) }
    }

    /// Returns whether that publisher has lent it.
    #[inline]
    pub(super) fn is_of(&self, publisher: &LenderOfPublisher) -> bool {
        self.lent().lender == publisher.0
    }

    /// Takes the object out of the loan, if it has one.
    #[inline]
    pub(super) fn take_object(&mut self) -> Option<(ObjectRef, usize)> {
        let place = self.place_mut();
        place.object.take().map(|block| (block, place.len))
    }

    /// Ends the loan, which its publisher has just published: the calling thread has both.
    #[inline]
    pub(super) fn end_published(self) {
        let lent = self.lent();
        if lent.is_alone {
            return;
        }
        // Release pairs with `begin`. No drop is under way: this thread has the loan and the
        // publisher.
        lent.state.store(FREE, Ordering::Release);
        core::mem::forget(self);
    }

    /// Returns whether the bytes lie in the loan itself: they are copied when it is published, and
    /// are the loan's until then. For bindings.
    #[doc(hidden)]
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.place().at.is_null()
    }

    /// Turns the loan into one pointer: for bindings, whose handle it is.
    #[doc(hidden)]
    #[must_use]
    #[inline]
    pub fn into_raw(self) -> NonNull<c_void> {
        let lent = self.lent.cast();
        core::mem::forget(self);
        lent
    }

    /// Turns such a pointer into the loan again.
    ///
    /// # Safety
    /// The pointer comes from [`Loan::into_raw`] of a loan of this type. There may be several
    /// copies, of which one is used at a time, and at most one is dropped or published, as the last.
    #[doc(hidden)]
    #[inline]
    pub unsafe fn from_raw(raw: NonNull<c_void>) -> Loan<M> {
        Loan { lent: raw.cast(), _message: PhantomData }
    }
}

impl<M: Payload + ?Sized> Deref for Loan<M> {
    type Target = M;

    #[inline]
    fn deref(&self) -> &M {
        let place = self.place();
        // SAFETY: `lend` allocated memory aligned for `M` and of the length that was asked for.
        unsafe { M::at(place.as_ptr(), place.len).unwrap_unchecked() }
    }
}

impl<M: Payload + ?Sized> DerefMut for Loan<M> {
    #[inline]
    fn deref_mut(&mut self) -> &mut M {
        let place = self.place_mut();
        // SAFETY: `lend` allocated memory aligned for `M`; `&mut self` makes this the only
        // reference.
        unsafe { M::at_mut(place.as_mut_ptr(), place.len).unwrap_unchecked() }
    }
}

impl<M: Payload + ?Sized> Drop for Loan<M> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the loan owns its description, and is dropped once.
        unsafe { give_back(self.lent) };
    }
}

/// A loan was dropped: gives its description, and the object if it was not published, back.
///
/// # Safety
/// The caller had the loan, and uses it no more.
#[cold]
#[inline(never)]
unsafe fn give_back(lent: NonNull<Lent>) {
    // SAFETY: the caller has the loan.
    let (state, is_alone, lender) =
        unsafe { (&lent.as_ref().state, lent.as_ref().is_alone, lent.as_ref().lender) };
    if is_alone {
        // SAFETY: `one_alone` allocated it, for this loan alone.
        let lent = *unsafe { Box::from_raw(lent.as_ptr()) };
        if let Some(object) = lent.place.into_inner().object {
            // SAFETY: such a loan is one of the lender's users.
            let lender = unsafe { lender.as_ref() };
            lender.returned.lock().unwrap_or_else(PoisonError::into_inner).push(object);
            lender.has_returned.store(1, Ordering::Relaxed);
        }
        // SAFETY: such a loan is one of the lender's users.
        unsafe { release(lender) };
    } else if state.compare_exchange(OUT, RETURNED, Ordering::Release, Ordering::Acquire).is_err() {
        // Acquire: the count of users that the dropped publisher has raised for this loan.
        // SAFETY: the publisher was dropped, and counted this loan as a user. Its object lies in
        // the lender.
        unsafe { release(lender) };
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::cell::UnsafeCell;
    use loom::thread;

    use super::*;
    use crate::liveness::TokenId;
    use crate::shim::explore_all;
    use crate::topic::mapping::Registry;
    use crate::topic::ring::FreeList;

    /// An object's bytes, which the thread that has the loan writes, and then the publisher.
    struct Bytes(UnsafeCell<u64>);

    // SAFETY: loom checks the accesses; the test shows that they never overlap.
    unsafe impl Send for Bytes {}
    // SAFETY: loom checks the accesses; the test shows that they never overlap.
    unsafe impl Sync for Bytes {}

    impl Bytes {
        fn write(&self, value: u64) {
            // SAFETY: loom reports an access at the same time.
            self.0.with_mut(|bytes| unsafe { *bytes = value });
        }
    }

    /// The publisher lends an object again only after the thread that dropped its loan has written
    /// its last byte there.
    fn comes_back(loans: u32) {
        explore_all(move || {
            let bytes: Arc<Vec<Bytes>> =
                Arc::new((0..loans).map(|_| Bytes(UnsafeCell::new(0))).collect());
            let publisher = LenderOfPublisher::new();
            // The second one has a description of its own.
            let lent: Vec<Loan> = (0..loans)
                .map(|reference| {
                    let mut loan: Loan = Loan::new(publisher.begin(|_| unreachable!()), 16);
                    let object = ObjectRef { reference, offset: 0, capacity: 16 };
                    loan.lies_in(object, NonNull::dangling().as_ptr());
                    loan
                })
                .collect();
            let writing = {
                let bytes = Arc::clone(&bytes);
                thread::spawn(move || {
                    for (loan, bytes) in lent.into_iter().zip(&*bytes) {
                        bytes.write(1);
                        drop(loan);
                    }
                })
            };
            if publisher.has_returned() {
                publisher.take_back(|object| bytes[object.reference as usize].write(2));
            }
            writing.join().unwrap();
            let (process, free_list) = (TokenId::new(0, 0), FreeList);
            let inner = Arc::new(Inner { registry: Registry });
            publisher.leave(Left { inner, ring: Ring { process, free_list } });
        });
    }

    #[test]
    fn loom_topic_a_loan_that_is_dropped_comes_back_written() {
        comes_back(1);
    }

    #[test]
    fn loom_topic_two_loans_that_are_dropped_come_back_written() {
        comes_back(2);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::topic::{Publisher, Subscriber, Topic};
    use crate::{Domain, SendError};

    fn with_topic(name: &str, test: impl FnOnce(&Topic)) {
        let folder = std::env::temp_dir().join(format!("outlive-{name}-{}", std::process::id()));
        let domain = Domain::open_or_create_at(&folder).expect("opens");
        test(
            &Topic::options()
                .depth(2)
                .max_bytes(1 << 20)
                .open_or_create(&domain, "t")
                .expect("made"),
        );
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    fn address(publisher: &Publisher, len: usize) -> usize {
        publisher.loan(len).expect("lent").as_ptr().addr()
    }

    #[test]
    fn what_was_not_published_is_lent_again() {
        with_topic("loans-again", |topic| {
            let publisher = topic.publisher().expect("a ring");
            let first = address(&publisher, 5000);
            assert_eq!(address(&publisher, 5000), first);
            // The second of two at a time has a description of its own.
            let (one, two) =
                (publisher.loan(5000).expect("lent"), publisher.loan(5000).expect("lent"));
            let mut both = [one.as_ptr().addr(), two.as_ptr().addr()];
            both.sort_unstable();
            std::thread::spawn(move || drop((two, one))).join().expect("no panic");
            let (one, two) =
                (publisher.loan(5000).expect("lent"), publisher.loan(5000).expect("lent"));
            let mut again = [one.as_ptr().addr(), two.as_ptr().addr()];
            again.sort_unstable();
            assert_eq!(again, both);
        });
    }

    #[test]
    fn a_message_that_is_larger_than_the_topics_memory_is_told_so() {
        with_topic("loans-too-large", |topic| {
            let publisher = topic.publisher().expect("a ring");
            publisher.publish(&[7; 5000]).expect("published");
            let refused = publisher.loan(5 << 20).map(drop);
            let Err(SendError::TooLarge { len: 5_242_880, max: most }) = refused else {
                panic!("{refused:?}")
            };
            let text = SendError::TooLarge { len: 5 << 20, max: most }.to_string();
            assert!(text.contains("5242880 bytes") && text.contains(&most.to_string()), "{text}");
            // Nothing was given up for it.
            let mut late = topic.subscriber_with(Subscriber::options().history(1)).expect("joined");
            assert_eq!(*late.try_recv().expect("there").expect("kept"), [7; 5000]);
            drop(late);
            // One subscriber's slot has been taken since. The small message before has pages of its
            // own, so not all of the rest is for one message; one byte more is too large in any case.
            let most = publisher.inner.largest_payload() as usize;
            drop(publisher.loan(most / 2).expect("as much fits"));
            let refused = publisher.loan(most + 1).map(drop);
            assert!(matches!(refused, Err(SendError::TooLarge { .. })), "{refused:?}");
        });
    }

    #[test]
    fn a_loan_keeps_the_ring_of_a_publisher_that_is_gone() {
        with_topic("loans-left", |topic| {
            for count in [1, 3] {
                let publisher = topic.publisher().expect("a ring");
                let mut loans: Vec<_> =
                    (0..count).map(|_| publisher.loan(5000).expect("lent")).collect();
                drop(publisher);
                assert_eq!(topic.publishers().len(), 1, "its ring is nobody else's yet");
                let other = topic.publisher().expect("another ring");
                loans[0].fill(1);
                let refused = other.publish(loans.remove(0)).map(drop);
                assert_eq!(refused, Err(SendError::NotOwner));
                assert_eq!(topic.publishers().len(), 1 + usize::from(count > 1));
                std::thread::spawn(move || drop(loans)).join().expect("no panic");
                assert_eq!(topic.publishers().len(), 1);
                drop(other);
                assert_eq!(topic.publishers().len(), 0);
            }
        });
    }

    #[test]
    fn publisher_and_loan_may_go_at_the_same_time() {
        with_topic("loans-race", |topic| {
            for round in 0..300 {
                let publisher = topic.publisher().expect("a ring");
                let loans: Vec<_> =
                    (0..1 + round % 3).map(|_| publisher.loan(3000).expect("lent")).collect();
                let there = std::sync::Barrier::new(2);
                std::thread::scope(|scope| {
                    scope.spawn(|| {
                        there.wait();
                        drop(publisher);
                    });
                    there.wait();
                    drop(loans);
                });
                assert_eq!(topic.publishers().len(), 0);
            }
        });
    }
}
