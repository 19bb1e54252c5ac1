//! Lending memory for messages: from the publisher's own free list, else from the topic's heap,
//! else by freeing what is not needed any more.

use super::back_pressure;
use super::layout::LARGEST_PAYLOAD;
use super::loan::Loan;
use super::publisher::{Published, Publisher};
use super::ring::{self, Ring};
use super::subscriber_slot;
use crate::describe::{HasTail, WithTail};
use crate::liveness::Me;
use crate::pool::{Message as Still, ObjectRef, RingTag};
use crate::sys::probe::probe;
use crate::{Error, Payload, Plain, SendError};

impl<T: Plain> Publisher<[T]> {
    /// Lends memory for a message of so many values, to be written in place. Its contents are
    /// arbitrary: zeroes, or an earlier message.
    ///
    /// # Errors
    /// [`SendError::NoSpace`] when the topic's memory is at its largest, [`SendError::TooLarge`]
    /// when the message alone is larger than that, [`SendError::NotOwner`],
    /// [`SendError::Damaged`], [`SendError::System`].
    ///
    /// # If a process dies
    /// If this process dies, its loans' memory goes to the next publisher.
    pub fn loan(&self, count: usize) -> Result<Loan<[T]>, SendError> {
        let too_large = SendError::TooLarge { len: u64::MAX, max: LARGEST_PAYLOAD as u64 };
        self.lend(count.checked_mul(size_of::<T>()).ok_or(too_large)?)
    }
}

impl<T: Plain> Publisher<T> {
    /// Lends memory for a value, to be written in place. Its contents are arbitrary: zeroes, or an
    /// earlier message.
    ///
    /// # Errors
    /// The errors of `loan` for slices.
    ///
    /// # If a process dies
    /// If this process dies, its loans' memory goes to the next publisher.
    pub fn loan_value(&self) -> Result<Loan<T>, SendError> {
        self.lend(size_of::<T>())
    }
}

impl<H: HasTail> Publisher<WithTail<H>> {
    /// Lends memory for a message with so many items behind its head, to be written in place. Its
    /// contents are arbitrary: zeroes, or an earlier message.
    ///
    /// # Errors
    /// The errors of `loan` for slices.
    ///
    /// # If a process dies
    /// If this process dies, its loans' memory goes to the next publisher.
    pub fn loan_with_tail(&self, count: usize) -> Result<Loan<WithTail<H>>, SendError> {
        let too_large = SendError::TooLarge { len: u64::MAX, max: LARGEST_PAYLOAD as u64 };
        self.lend(WithTail::<H>::bytes_of(count).ok_or(too_large)?)
    }

    /// Publishes a head with these items behind it, copied once, as
    /// [`Publisher::publish`] does.
    ///
    /// # Errors
    /// The errors of [`Publisher::publish`].
    ///
    /// # If a process dies
    /// The same as with [`Publisher::publish`].
    pub fn publish_with_tail(
        &self,
        head: &H,
        items: &[H::Item],
    ) -> Result<Published<'_>, SendError> {
        let mut loan = self.loan_with_tail(items.len())?;
        loan.write(head, items);
        self.publish(loan)
    }
}

/// For values that describe something else which is reused together with them: device memory.
impl<T: Plain> Publisher<T> {
    /// Lends memory that this publisher has lent before and that no subscriber holds any more, if
    /// `fits` accepts one, by its address. If `fits` rejects all, it is called again after a scan
    /// of what is held. `fits` must not call this publisher.
    ///
    /// # Errors
    /// The errors of [`Publisher::loan_value`].
    #[doc(hidden)]
    pub fn loan_again(
        &self,
        mut fits: impl FnMut(*const T) -> bool,
    ) -> Result<Option<Loan<T>>, SendError> {
        let me = self.enter()?;
        let inner = &*self.inner;
        let at = |block: &ObjectRef| inner.writes_at(block);
        let len = size_of::<T>();
        let block = self.ring(|ring| {
            self.lender().take_back(|object| ring.free_list.put_back(object));
            let mut take = |ring: &mut Ring| {
                ring.free_list.take_that(len as u64, |block| fits(at(block).cast_const().cast()))
            };
            take(ring).or_else(|| {
                ring.free_list.look(inner, Some(me));
                take(ring)
            })
        });
        Ok(block.map(|block| {
            let mut loan = self.begin_loan(len);
            loan.lies_in(block, at(&block));
            loan
        }))
    }

    /// Lends memory that this publisher has not lent before, as long as there is any.
    ///
    /// # Errors
    /// The errors of [`Publisher::loan_value`].
    #[doc(hidden)]
    pub fn loan_new(&self) -> Result<Loan<T>, SendError> {
        let me = self.enter()?;
        let inner = &*self.inner;
        let len = size_of::<T>();
        let block = self.ring(|ring| {
            match inner.heap.allocate_for(&inner.segment, me, len as u64, ring.tag(), inner) {
                Err(Error::NoSpace { .. }) => self.find_memory(me, ring, len as u64),
                other => other.map_err(SendError::from),
            }
        })?;
        let at = inner.writes_at(&block);
        let mut loan = self.begin_loan(len);
        loan.lies_in(block, at);
        Ok(loan)
    }
}

impl<M: Payload + ?Sized> Publisher<M> {
    fn lend(&self, len: usize) -> Result<Loan<M>, SendError> {
        let me = self.enter()?;
        let is_short = len <= self.inline_most && M::METADATA.align <= 8;
        let mut loan = self.begin_loan(len);
        if !is_short {
            let (object, at) = self.take_object(me, len)?;
            loan.lies_in(object, at);
        }
        Ok(loan)
    }

    #[inline]
    fn begin_loan(&self, len: usize) -> Loan<M> {
        let put_back = |object| self.ring(|ring| ring.free_list.put_back(object));
        Loan::new(self.lender().begin(put_back), len)
    }

    /// Returns an object for so many bytes, and where to write them.
    pub(super) fn take_object(
        &self,
        me: Me,
        len: usize,
    ) -> Result<(ObjectRef, *mut u8), SendError> {
        if len > LARGEST_PAYLOAD {
            return Err(SendError::TooLarge { len: len as u64, max: LARGEST_PAYLOAD as u64 });
        }
        let inner = &*self.inner;
        let block = self.ring(|ring| {
            if let Some(block) = ring.free_list.take(len as u64) {
                return Ok(block);
            }
            if self.lender().has_returned() {
                self.lender().take_back(|object| ring.free_list.put_back(object));
                if let Some(block) = ring.free_list.take(len as u64) {
                    return Ok(block);
                }
            }
            if ring
                .free_list
                .is_due(inner.subscriber_slot_count(), inner.segment.header().max_bytes())
                && ring.free_list.look(inner, Some(me))
            {
                ring.free_list.trim(inner, ring.index, false);
                if let Some(block) = ring.free_list.take(len as u64) {
                    return Ok(block);
                }
            }
            match inner.heap.allocate_for(&inner.segment, me, len as u64, ring.tag(), inner) {
                Err(Error::NoSpace { .. }) => self.find_memory(me, ring, len as u64),
                other => other.map_err(SendError::from),
            }
        })?;
        let at = inner.writes_at(&block);
        Ok((block, at))
    }

    /// There is no room: frees what is not needed any more.
    #[cold]
    fn find_memory(&self, me: Me, ring: &mut Ring, len: u64) -> Result<ObjectRef, SendError> {
        let inner = &*self.inner;
        let index = ring.index;
        // Before anything is given up for it: a message that an empty topic has no room for.
        let most = inner.largest_payload();
        if len > most {
            return Err(SendError::TooLarge { len, max: most });
        }
        let try_again =
            || match inner.heap.allocate_for(&inner.segment, me, len, RingTag::of(index), inner) {
                Err(Error::NoSpace { .. }) => Ok(None),
                other => other.map(Some),
            };
        ring.free_list.look(inner, Some(me));
        if let Some(block) = ring.free_list.take(len) {
            return Ok(block);
        }
        ring.free_list.trim(inner, ring.index, true);
        let ends = inner.ends();
        subscriber_slot::sweep(inner, me, &ends, false);
        ring::sweep(inner, ring.process, &ends, false)?;
        inner.heap.collect(&inner.segment, me, false, &|_| Still::There)?;
        if let Some(block) = try_again()? {
            return Ok(block);
        }
        loop {
            if let Some(block) = ring.give_up_oldest(inner, 1, try_again)? {
                return Ok(block);
            }
            if let Some(block) = ring::give_up_left(inner, ring.process, &ends, try_again)? {
                return Ok(block);
            }
            // Else a reliable subscriber that is stopped would keep the memory for ever.
            let left = ring::left_rings(inner, &ends);
            let keeping = back_pressure::keeps_memory(inner, index, &left)?;
            let Some(subscriber) = keeping else { break };
            if !self.is_to_be_marked(ring.published, subscriber) {
                break;
            }
            back_pressure::mark(inner, index, subscriber);
        }
        probe!(no_space, inner.segment.path(), len);
        Err(SendError::NoSpace {
            wanted: len,
            held: subscriber_slot::holding(inner).map(|held| held.count()).sum(),
        })
    }
}
