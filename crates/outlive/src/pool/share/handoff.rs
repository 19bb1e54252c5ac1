//! Handing over: an object that is offered to one process or to any, and claimed.
//!
//! | tag | meaning | a death here |
//! | --- | --- | --- |
//! | owned(P) | process P is about to offer it, or has claimed it | free once P has ended |
//! | offered(any, n) | any process that has the offset may claim it | stays offered |
//! | offered(Q, n) | only Q may claim it | free once Q has ended |
//!
//! owned(P) → offered is one exchange, offered → owned(Q) another: at each moment the tag names one
//! owner or one offer. The number n, which the offset carries, keeps an old offset from claiming
//! what the object is later.

use crate::pool::cache::Cache;
use crate::pool::debug::{Modes, Note, REDZONE};
use crate::pool::error::PoolError;
use crate::pool::heap::{NUMBER_BITS, Tag};
use crate::pool::object::{CHECKED, Object, magazine_of};
use crate::pool::pool::Pool;
use crate::shim::Ordering;
use crate::{Error, Peer, TokenId};

/// Names an object that is handed over or shared, as a number that a process may send to another by
/// any means.
///
/// ```
/// # use outlive::pool::Offset;
/// let number: u64 = 1 << 40 | 77;                  // as it came in a message
/// assert_eq!(Offset::from(number).as_u64(), number);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Offset(u64);

const REFERENCE_BITS: u32 = 29;
/// In an offset: the object is shared.
const SHARED: u64 = 1 << (REFERENCE_BITS + NUMBER_BITS);
/// In an offset: it is a value's, see value.rs.
const VALUE: u64 = SHARED << 1;

/// An object that is handed over and not claimed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Offer {
    /// The offset by which it may be claimed.
    pub offset: Offset,
    /// The receiver; `None`: any process.
    pub to: Option<TokenId>,
    /// Bytes of the object.
    pub bytes: u64,
}

impl Offset {
    pub(super) fn new(reference: u32, number: u32) -> Offset {
        Offset(u64::from(number) << REFERENCE_BITS | u64::from(reference))
    }

    /// Returns the object's reference and the offer's number; `None` for a number that is no offset
    /// of an offer.
    fn parts(self) -> Option<(u32, u32)> {
        let number = self.0 >> REFERENCE_BITS;
        (number < 1 << NUMBER_BITS)
            .then_some((self.0 as u32 & ((1 << REFERENCE_BITS) - 1), number as u32))
    }

    pub(super) fn of_shared(reference: u32, number: u32) -> Offset {
        Offset(Offset::new(reference, number).0 | SHARED)
    }

    /// Returns the same for a shared object.
    pub(super) fn shared_parts(self) -> Option<(u32, u32)> {
        self.is_shared().then(|| Offset(self.0 & !SHARED).parts()).flatten()
    }

    pub(in crate::pool) fn of_value(self) -> Offset {
        Offset(self.0 | VALUE)
    }

    fn is_value(self) -> bool {
        self.0 & VALUE != 0
    }

    /// Returns the offset without the mark of a value.
    fn bare(self) -> Offset {
        Offset(self.0 & !VALUE)
    }

    /// Returns whether the object is shared, for [`Pool::join`], or handed over, for
    /// [`Pool::claim`].
    #[must_use]
    pub fn is_shared(self) -> bool {
        self.0 & SHARED != 0
    }

    /// Returns the offset as a number.
    #[must_use]
    pub fn as_u64(self) -> u64 {
        self.0
    }
}

impl From<u64> for Offset {
    fn from(number: u64) -> Offset {
        Offset(number)
    }
}

impl From<Offset> for u64 {
    fn from(offset: Offset) -> u64 {
        offset.0
    }
}

impl Object<'_> {
    /// Hands the object over to the process that claims it: [`Pool::claim`].
    ///
    /// No death frees it: a process that gets the offset and does not want the object claims and
    /// drops it. If the offset is lost, [`Pool::offers`] returns it.
    ///
    /// # Errors
    /// The errors of [`Object::free`].
    ///
    /// # If a process dies
    /// If this process dies during the call, the object is offered, or it is free once the process
    /// has ended. If it dies later, the object stays offered.
    pub fn into_offset(self) -> Result<Offset, PoolError> {
        self.offer(None)
    }

    /// Hands the object over to that process (its process token's peer), or thread: no other can
    /// claim it.
    ///
    /// # Errors
    /// The errors of [`Object::free`].
    ///
    /// # If a process dies
    /// If the receiver dies before it has claimed it, the object is free. If this process dies
    /// during the call: the same as with [`Object::into_offset`].
    pub fn into_offset_for(self, to: &Peer) -> Result<Offset, PoolError> {
        self.offer(Some(to.id()))
    }

    /// Returns a number that no other offer or sharing has.
    pub(super) fn next_number(&self) -> u32 {
        let inner = self.inner();
        // SAFETY: the reference ends with this statement, before other code can ask for the cache.
        match unsafe { Cache::find(inner) } {
            Some(cache) => cache.next_number(),
            None => {
                inner.file.header().numbers.fetch_add(1, Ordering::Relaxed)
                    & ((1 << NUMBER_BITS) - 1)
            }
        }
    }

    pub(super) fn offer(self, to: Option<TokenId>) -> Result<Offset, PoolError> {
        self.check_owned()?;
        if let Some(fault) = self.overrun() {
            self.free_checked();
            self.forget();
            return Err(PoolError::Fault(fault));
        }
        let inner = self.inner();
        let number = self.next_number();
        let record = self.ptr().record();
        // Relaxed: seen with the tag. A redzone already has the length.
        if !self.has_redzone() {
            record.note.store(self.len() as u32, Ordering::Relaxed);
        }
        if self.handle().magazine & CHECKED != 0 && inner.now().modes.contains(Modes::UAF) {
            // If this process died just after, the tag says owned(P), and its mappings end with it.
            self.hide();
        }
        let offered = Tag::Offered { to, number }.encode();
        // Release pairs with `claim`. A death just before: owned(P). Just after: offered, perhaps
        // by an offset that no process knows.
        let offered = record.tag.compare_exchange(
            self.owned(),
            offered,
            Ordering::Release,
            Ordering::Relaxed,
        );
        let damaged = || inner.file.segment.damaged("an object's tag");
        let reference = self.forget().reference;
        offered.map_err(|_| damaged())?;
        Ok(Offset::new(reference, number))
    }
}

impl Pool {
    /// Takes over an object that another process has handed over. Its length is the one that was
    /// asked for when it was allocated.
    ///
    /// # Errors
    /// [`PoolError::Stale`] when another process has claimed it first, or the offset names no offer
    /// any more; [`PoolError::NotForUs`]; [`PoolError::OtherType`] for the offset of a value;
    /// [`PoolError::System`]; with [`Modes::TAG`], [`PoolError::Fault`] when bytes behind it were
    /// overwritten: then it is freed.
    ///
    /// # If a process dies
    /// If this process dies during the call, the object is still offered (free, if it was offered
    /// to the dead process), or it is free once the process has ended.
    pub fn claim(&self, offset: Offset) -> Result<Object<'_>, PoolError> {
        if offset.is_value() && offset.bare().parts().is_some() {
            return Err(PoolError::OtherType);
        }
        Ok(self.claim_any(offset)?.0)
    }

    /// Claims bytes or a value; also returns the tag by which it was offered.
    pub(in crate::pool) fn claim_any(
        &self,
        offset: Offset,
    ) -> Result<(Object<'_>, u64), PoolError> {
        let inner = &self.inner;
        let (file, heap) = (&inner.file, &inner.file.heap);
        let me = inner.registry.me()?;
        let process = inner.registry.process_token()?;
        let (reference, number) = offset.bare().parts().ok_or(PoolError::Stale)?;
        let object = heap.find_object(&file.segment, reference)?.ok_or(PoolError::Stale)?;
        let tag = &file.record(&object)?.tag;
        let seen = tag.load(Ordering::Acquire);
        match Tag::decode(seen) {
            Tag::Offered { to, number: offered } if offered == number => {
                if let Some(to) = to.filter(|&to| to != process && to != me.id) {
                    return Err(PoolError::NotForUs { to });
                }
            }
            _ => return Err(PoolError::Stale),
        }
        let owned = Tag::Owned(process).encode();
        // Acquire pairs with `offer`. A death just after: owned(P).
        tag.compare_exchange(seen, owned, Ordering::Acquire, Ordering::Relaxed)
            .map_err(|_| PoolError::Stale)?;
        // Its place is looked up again, now that no thread can take its span apart.
        let found = heap.find_object(&file.segment, reference).and_then(|object| {
            let object = object.ok_or_else(|| file.segment.damaged("an object's place"))?;
            Ok((inner.ptr_to(&object)?, object))
        });
        let (ptr, object) = match found {
            Ok(found) => found,
            Err(error) => {
                // Offered as it was: the next claim may find it. Release pairs with that claim's
                // Acquire.
                let _ = tag.compare_exchange(owned, seen, Ordering::Release, Ordering::Relaxed);
                return Err(error.into());
            }
        };
        let (len, redzone) = match Note::decode(ptr.record().note.load(Ordering::Relaxed)) {
            Note::Redzone(len) => (len, REDZONE as u32),
            Note::Length(len) => (len, 0),
            Note::Filled { .. } => (u32::MAX, 0),
        };
        if u64::from(len) + u64::from(redzone) > u64::from(ptr.capacity) {
            // A death here: still owned(P).
            ptr.set(0);
            return Err(file.segment.damaged("an object's length").into());
        }
        let object = Object::new(inner, ptr, magazine_of(object.capacity), len as usize, owned);
        if redzone > 0 || inner.has_modes() {
            return Ok((object.claimed_checked(redzone > 0)?, seen));
        }
        Ok((object, seen))
    }
}

impl Object<'_> {
    /// Offers it again as it was before the claim, with that tag.
    pub(in crate::pool) fn offer_again(self, tag: u64) {
        if self.handle().magazine & CHECKED != 0 && self.inner().now().modes.contains(Modes::UAF) {
            self.hide();
        }
        // A death just before: owned(P).
        self.ptr().set(tag);
        self.forget();
    }
}

impl Pool {
    /// Returns all objects that are handed over and not claimed yet. The caller may claim and free
    /// those that no process will claim any more, because the one that knew the offset died.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::NoSpace`].
    ///
    /// # If a process dies
    /// An offer to a dead process is listed until a process collects it.
    pub fn offers(&self) -> Result<Vec<Offer>, Error> {
        let (file, mut offers) = (&self.inner.file, Vec::new());
        file.heap.scan_all(&file.segment, &mut |_, _, object, tag| {
            if let Tag::Offered { to, number } = tag {
                offers.push(Offer {
                    offset: Offset::new(object.reference, number),
                    to,
                    bytes: object.capacity,
                });
            }
        })?;
        Ok(offers)
    }
}
