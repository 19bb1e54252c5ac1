//! What the layer above uses of a queue: its ends, its server, its eventcounts, and its pool for
//! long requests and replies.

use super::inner::AnnexBytes;
use super::room::{Counterpart, wait_for_memory};
use super::sweep::collect_objects;
use super::{Inner, Queue};
use crate::claim::{Role, Standing};
use crate::liveness::{Me, Registry, TokenId};
use crate::pool::{ObjectRef, Tag};
use crate::segment::{Resident, Segment};
use crate::sys::barrier;
use crate::sys::resident::Residency;
use crate::wake::{EventCount, RungEventCount, SpinWait};
use crate::{Deadline, Error, SendError, WaitStrategy};

/// In tags: the number that stands for no region, but for objects of another layer.
const ANNEX: u32 = 63;

impl Queue {
    pub(crate) fn segment(&self) -> &Segment {
        &self.inner.ring.segment
    }

    pub(crate) fn registry(&self) -> &'static Registry {
        self.inner.registry
    }

    pub(crate) fn spin_wait(&self) -> &SpinWait {
        &self.inner.spin_wait
    }

    pub(crate) fn set_wait_strategy(&self, wait: WaitStrategy) {
        self.inner.spin_wait.set(wait);
    }

    /// Returns where the other layer's words lie: the first byte, and the one after the last.
    pub(crate) fn annex(&self) -> (u64, u64) {
        self.inner.ring.annex()
    }

    /// Returns the server's role.
    pub(crate) fn server_role(&self) -> Role<'_> {
        self.inner.role()
    }

    /// Returns which process serves at the moment.
    pub(crate) fn server(&self) -> Result<Standing, Error> {
        let standing = self.inner.role().standing_of_process();
        if standing.is_damaged() {
            return Err(self.segment().damaged("the receiver's word"));
        }
        Ok(standing)
    }

    /// Returns the eventcount that clients notify, for wait sets.
    pub(crate) fn messages(&self) -> &RungEventCount {
        &self.inner.ring.head().messages
    }

    /// Returns the eventcount that a thread notifies that frees memory, for wait sets.
    pub(crate) fn room(&self) -> &EventCount {
        &self.inner.ring.head().room
    }

    /// Checks that a process serves that can be asked.
    #[inline]
    pub(crate) fn check_server(&self) -> Result<(), SendError> {
        self.inner.check_receiver()
    }

    /// Tells the server that there is work.
    #[inline]
    pub(crate) fn wake_server(&self) {
        self.inner.notify_receiver();
    }

    /// Allocates an object that belongs to the calling thread, waiting for one to be freed, as long as
    /// the counterpart is there.
    #[cold]
    pub(crate) fn allocate_until<C: Counterpart>(
        &self,
        me: Me,
        len: u64,
        deadline: Deadline,
        counterpart: &mut C,
    ) -> Result<ObjectRef, C::Error> {
        match self.allocate(me, len) {
            Err(Error::NoSpace { .. }) => {
                let most = self.most_bytes();
                if len > most {
                    return Err(SendError::TooLarge { len, max: most }.into());
                }
                wait_for_memory(&self.inner, me, len, Some(deadline), &|| false, counterpart)
            }
            other => Ok(other.map_err(SendError::from)?),
        }
    }

    /// Allocates an object that belongs to the calling thread.
    pub(crate) fn allocate(&self, me: Me, len: u64) -> Result<ObjectRef, Error> {
        let ring = &self.inner.ring;
        ring.pool.allocate(&ring.segment, me, len, ring)
    }

    /// Makes so many objects of so many bytes, which are free afterwards, and brings all of the
    /// queue's memory in.
    pub(crate) fn prefault_objects(&self, objects: usize, bytes: usize) -> Result<(), SendError> {
        self.inner.make_objects(objects, bytes as u64)?;
        Ok(self.inner.make_resident(Residency::Prefault)?)
    }

    /// Says how much of the annex exists: for bringing it in with the rest.
    pub(crate) fn set_annex_bytes(&self, bytes: AnnexBytes) {
        // Set before, by another handle: to the same function.
        let _ = self.inner.annex_bytes.set(bytes);
    }

    /// Returns the most bytes that an object can have.
    pub(crate) fn most_bytes(&self) -> u64 {
        self.inner.ring.most_message_bytes().min(super::LARGEST_MESSAGE)
    }

    /// Frees what dead processes left in the pool, except objects that are in the annex.
    pub(crate) fn collect(&self, me: Me) -> Result<(), Error> {
        collect_objects(&self.inner.ring, me, false).map(drop)
    }

    pub(crate) fn free_held(&self, me: Me, object: &ObjectRef) -> Result<(), Error> {
        let ring = &self.inner.ring;
        ring.pool.free_held(&ring.segment, object, me, ring)
    }

    /// Gives an object of the calling thread to that place in the annex.
    pub(crate) fn put(&self, me: Me, object: &ObjectRef, place: u64) -> Result<(), Error> {
        let ring = &self.inner.ring;
        ring.pool.enqueue(&ring.segment, object, me, ANNEX, place)
    }

    /// Gives an object of the calling thread to its process: any of its threads may write to it and
    /// read it. If the process dies, `collect` frees the object once its last thread has ended.
    pub(crate) fn own(&self, me: Me, object: &ObjectRef, process: TokenId) -> Result<(), Error> {
        self.retag(object, Tag::Held(me.id), Tag::Owned(process))
    }

    /// Gives an object of that process to that place in the annex.
    pub(crate) fn put_owned(
        &self,
        object: &ObjectRef,
        process: TokenId,
        place: u64,
    ) -> Result<(), Error> {
        let put = Tag::Queued { region: ANNEX, position: place };
        self.retag(object, Tag::Owned(process), put)
    }

    /// Takes an object out of that place in the annex, for that process.
    pub(crate) fn take_put(
        &self,
        object: &ObjectRef,
        place: u64,
        process: TokenId,
    ) -> Result<(), Error> {
        let put = Tag::Queued { region: ANNEX, position: place };
        self.retag(object, put, Tag::Owned(process))
    }

    fn retag(&self, object: &ObjectRef, from: Tag, to: Tag) -> Result<(), Error> {
        let ring = &self.inner.ring;
        match ring.pool.retag(&ring.segment, object, from, to)? {
            true => Ok(()),
            false => Err(ring.segment.damaged("an object's tag")),
        }
    }

    /// Frees an object that is that process's.
    pub(crate) fn free_owned(&self, object: &ObjectRef, process: TokenId) -> Result<(), Error> {
        self.inner.free_owned(object, process)
    }

    /// Keeps an object of that process's for its next long message, or frees it.
    #[inline]
    pub(crate) fn keep_owned(&self, object: &ObjectRef, process: TokenId) -> Result<(), Error> {
        let inner = &*self.inner;
        let note = || inner.swap_tag(object, Tag::Owned(process), Tag::Cached(process));
        if !inner.spare.keep(*object, process, note) {
            return self.free_owned(object, process);
        }
        // The tag before the look: a process that this does not see waiting looks at the tags later,
        // and frees the object itself. One that looked earlier sleeps by now, and gets it from here.
        // Killed or stopped before the look: it finds the object when it looks again for memory.
        barrier::light();
        if inner.ring.head().room.look().0 { inner.free_spare(process) } else { Ok(()) }
    }

    /// Returns the object that has been kept, which is that process's again, if so many bytes suit it.
    #[inline]
    pub(crate) fn take_kept(&self, len: usize, process: TokenId) -> Option<ObjectRef> {
        let object = self.inner.spare.take(len, process)?;
        // Else a process that was short of memory has freed it.
        let is_ours = self.inner.swap_tag(&object, Tag::Cached(process), Tag::Owned(process));
        is_ours.then_some(object)
    }

    /// Returns the object of that reference, if there is one. Fails when the system does not say
    /// whether it exists.
    pub(crate) fn object(&self, reference: u32) -> Result<Option<ObjectRef>, Error> {
        self.inner.ring.pool.find_object(&self.inner.ring.segment, reference)
    }

    /// Returns whether the object's tag says that it lies at that place in the annex.
    pub(crate) fn is_put(&self, object: &ObjectRef, place: u64) -> Result<bool, Error> {
        let ring = &self.inner.ring;
        Ok(ring.pool.tag_of(&ring.segment, object)?
            == (Tag::Queued { region: ANNEX, position: place }))
    }

    /// Frees an object if it is at that place in the annex; returns whether it was.
    pub(crate) fn free_put(&self, object: &ObjectRef, place: u64) -> Result<bool, Error> {
        let ring = &self.inner.ring;
        let is_there = self.is_put(object, place)?;
        if is_there {
            ring.pool.free_queued(&ring.segment, object, ANNEX, place)?;
            // A sender may wait for that memory.
            ring.head().room.notify_all();
        }
        Ok(is_there)
    }
}

impl Inner {
    /// Changes an object's tag, if it is that one.
    #[inline]
    fn swap_tag(&self, object: &ObjectRef, from: Tag, to: Tag) -> bool {
        self.ring.pool.retag(&self.ring.segment, object, from, to) == Ok(true)
    }

    /// Frees an object that is that process's.
    pub(super) fn free_owned(&self, object: &ObjectRef, process: TokenId) -> Result<(), Error> {
        let ring = &self.ring;
        if ring.pool.free_owned(&ring.segment, object, process)? {
            // A sender may wait for that memory.
            ring.head().room.notify_all();
        }
        Ok(())
    }
}

impl Inner {
    /// Frees the object that this process keeps.
    #[cold]
    fn free_spare(&self, process: TokenId) -> Result<(), Error> {
        let Some(object) = self.spare.give_up(process) else { return Ok(()) };
        // Else a process that was short of memory has freed it; or its tag is damaged.
        match self.swap_tag(&object, Tag::Cached(process), Tag::Owned(process)) {
            true => self.free_owned(&object, process),
            false => Ok(()),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let Some(process) = self.registry.process_token_if_any() else { return };
        let _ = self.free_spare(process);
    }
}
