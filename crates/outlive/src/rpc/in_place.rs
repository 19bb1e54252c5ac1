//! An object of the service's pool that this process owns: a long request or reply, written or read
//! where it lies.
//!
//! | its tag | the object is | next; after a death here |
//! | --- | --- | --- |
//! | held(thread) | just allocated by that thread | owned, or the slot's; `collect` frees it |
//! | owned(process) | that process's: any of its threads writes a loan there, or reads a request or a reply | the slot's, when a loan is sent; kept for the next message (queue/spare.rs) or free, when it is dropped; `collect` frees it once the last thread of the process has ended |
//! | queued(63, {slot, place}) | the slot's: on its way | owned, by the side that takes it; freed by the process that makes the call CANCELLED, or settles the slot |
//!
//! doc/protocols/rpc.md, proof/models/rpc_objects.pml.

use core::mem::ManuallyDrop;
use core::ops::Deref;

use super::layout::ServiceFile;
use crate::Error;
use crate::liveness::{Me, TokenId};
use crate::pool::ObjectRef;
use crate::sys::map::prefetch_for_write;

/// See the file's head. Dropped, it keeps the object for the next message (queue/spare.rs), or frees it.
pub(super) struct InPlace {
    service: ServiceFile,
    object: ObjectRef,
    process: TokenId,
    len: usize,
}

impl InPlace {
    /// Takes the object of `len` bytes that lies at that place of a slot. Its tag stays as it is
    /// after an error.
    pub(super) fn take(
        service: &ServiceFile,
        object: ObjectRef,
        len: usize,
        place: u64,
        process: TokenId,
    ) -> Result<InPlace, Error> {
        debug_assert!(len as u64 <= object.capacity);
        // For writing: this process reads the message and then, in most cases, writes its next one there.
        // The line comes while the tag is changed.
        // SAFETY: an `ObjectRef` has been checked against the file and the mapping.
        prefetch_for_write(unsafe { service.segment().address(object.offset) });
        service.queue.take_put(&object, place, process)?;
        Ok(InPlace { service: service.clone(), object, process, len })
    }

    /// Makes an object that the calling thread holds the process's.
    pub(super) fn own(
        service: &ServiceFile,
        me: Me,
        object: ObjectRef,
        len: usize,
        process: TokenId,
    ) -> Result<InPlace, Error> {
        debug_assert!(len as u64 <= object.capacity);
        service.queue.own(me, &object, process)?;
        Ok(InPlace { service: service.clone(), object, process, len })
    }

    /// Takes the memory that this process has kept, if there is some that suits `len` bytes.
    #[inline]
    pub(super) fn again(service: &ServiceFile, len: usize, process: TokenId) -> Option<InPlace> {
        let object = service.queue.take_kept(len, process)?;
        Some(InPlace { service: service.clone(), object, process, len })
    }

    /// Gives the object to that place of a slot, after its reference has been written there; then
    /// [`InPlace::sent`] must be called. After an error it is still the process's.
    pub(super) fn put(&self, place: u64) -> Result<(), Error> {
        self.service.queue.put_owned(&self.object, self.process, place)
    }

    /// Forgets an object that is the slot's by now.
    pub(super) fn sent(self) {
        // Only the handle of the service is dropped.
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is not dropped, and its service is read once.
        drop(unsafe { core::ptr::read(&raw const this.service) });
    }

    /// Checks that it is of that service and that process: another service's object is nothing to its
    /// slots, and to a parent's object, which a forked child inherits, the parent still writes.
    pub(super) fn check_of(&self, service: &ServiceFile, process: TokenId) -> Result<(), Error> {
        if !core::ptr::eq(self.service.segment(), service.segment()) {
            return Err(service.segment().damaged("a loan of another service"));
        }
        match self.process == process {
            true => Ok(()),
            false => Err(service.segment().damaged("a loan of another process")),
        }
    }

    pub(super) fn object(&self) -> &ObjectRef {
        &self.object
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Sets how many of its bytes are the message.
    pub(super) fn set_len(&mut self, len: usize) {
        debug_assert!(len as u64 <= self.object.capacity);
        self.len = len;
    }

    /// Writes the whole message.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.len, "the message has the length that it was lent for");
        // SAFETY: the object is this process's, and this its only handle; it has room for `len`
        // bytes, and the pages exist.
        unsafe { core::ptr::copy(bytes.as_ptr(), self.address(), bytes.len()) };
    }

    #[inline]
    pub(super) fn address(&self) -> *mut u8 {
        // SAFETY: an `ObjectRef` has been checked against the file and the mapping, which stays as
        // long as `service`.
        unsafe { self.service.segment().address(self.object.offset) }
    }
}

impl Deref for InPlace {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the object is this process's (its tag says so), and this its only handle; it has
        // room for `len` bytes, whose pages exist.
        unsafe { core::slice::from_raw_parts(self.address(), self.len) }
    }
}

impl Drop for InPlace {
    fn drop(&mut self) {
        let queue = &self.service.queue;
        // In a forked child it is its parent's.
        if queue.registry().process_token_if_any() == Some(self.process) {
            // Damaged: there is nothing to free.
            let _ = queue.keep_owned(&self.object, self.process);
        }
    }
}
