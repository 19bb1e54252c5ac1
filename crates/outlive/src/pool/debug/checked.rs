//! Objects taken and freed while a debug mode is on.
//!
//! | step | died just after |
//! | --- | --- |
//! | taken: tag held(T), or cached(P) still | free as without modes; marked and whole, or not marked |
//! | compared with its pattern; note cleared | not marked, and nothing has been written yet |
//! | poisoned, redzone written; note: redzone | free as without modes; the next taker clears the note |
//! | tag owned(P) | in use |
//! | freed: redzone compared | owned(P) |
//! | filled; note: filled at change n | owned(P); marked and whole |
//! | put out of reach (of this process, with which that ends) | the same |
//! | tag cached(P), or 0 | |
//!
//! doc/protocols/pool-modes.md says why processes may see a change of modes at different moments.

use core::cell::Cell;
use core::hash::{BuildHasher, Hasher};
use core::panic::Location;

use super::fault::{Fault, FaultKind, report};
use super::guard_pages::GuardPages;
use super::modes::{Modes, Now};
use super::poison::{self, Difference, Note, REDZONE_LENGTHS};
use super::redzone::{self, REDZONE, TAIL};
use crate::Error;
use crate::liveness::Me;
use crate::pool::cache::{Cache, Entry, Handle, MAGAZINES, magazine_of_long, release};
use crate::pool::error::PoolError;
use crate::pool::file::ObjectPtr;
use crate::pool::heap::{CLASSES, HeapHost, ObjectRef};
use crate::pool::inner::{Inner, LARGEST_OBJECT, class_of_aligned};
use crate::pool::object::{CHECKED, Object, WITH_REDZONE};
use crate::pool::pool::Pool;
use crate::shim::{Ordering, compiler_fence};
use crate::sys::{map::PAGE, process};

impl Pool {
    /// Returns the debug modes that are on.
    #[must_use]
    pub fn modes(&self) -> Modes {
        self.inner.now().modes
    }

    /// Turns debug modes on and off, for all processes. Each process makes its allocations from now
    /// on in these modes; objects that were taken before are freed as they were taken.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-modes-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::pool::{Modes, Pool, PoolError};
    ///
    /// let pool = Pool::open_or_create(&domain, "frames")?;
    /// pool.set_modes(Modes::TAG | Modes::POISON);
    /// let mut object = pool.alloc(100)?;
    /// assert!(object.iter().all(|&byte| byte == 0x50));
    /// // SAFETY: none: it is the fault that is to be found, a byte too far, in the object's canary.
    /// unsafe { object.as_mut_ptr().add(100).write(1) };
    /// let Err(PoolError::Fault(fault)) = object.free() else { panic!("found") };
    /// assert_eq!((fault.offset, fault.len), (100, 100));
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # If a process dies
    /// If this process dies during the call, the modes are set, or they are as they were.
    pub fn set_modes(&self, modes: Modes) {
        let word = &self.inner.file.header().modes;
        // Relaxed: an object's record says with which modes it was freed
        // (doc/protocols/pool-modes.md).
        let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |seen| {
            let changed = (seen >> 32).wrapping_add(1) << 32 | u64::from(modes.bits());
            (seen as u32 != modes.bits()).then_some(changed)
        });
    }

    #[cold]
    #[inline(never)]
    pub(in crate::pool) fn alloc_checked(
        &self,
        len: usize,
        align: usize,
        at: &'static Location<'static>,
    ) -> Result<Entry, PoolError> {
        let inner = &self.inner;
        let me = inner.registry.me()?;
        let now = inner.now();
        if len > LARGEST_OBJECT {
            return Err(PoolError::TooLarge { wanted: len as u64 });
        }
        let has_redzone = now.wants_redzone() && len < REDZONE_LENGTHS as usize - REDZONE;
        let wanted = len + if has_redzone { REDZONE } else { 0 };
        let align = if now.modes.contains(Modes::UAF) { PAGE as usize } else { align };
        if now.fails() {
            let class = class_of_aligned(wanted, align).unwrap_or(CLASSES);
            inner.file.header().failed[class as usize].fetch_add(1, Ordering::Relaxed);
            return Err(PoolError::NoSpace {
                wanted: len as u64,
                most: inner.who_has_most().0,
                injected: true,
            });
        }
        let (ptr, magazine, owned) = match self.take_cached(now, wanted, align) {
            Some(hit) => hit,
            None => inner.take_slow(wanted, align)?,
        };
        // SAFETY: the tag says that this thread may change the object, which has `len` bytes and
        // its redzone.
        unsafe { inner.make_ready(&ptr, len, has_redzone.then_some((me, at)), now) };
        // A death just before: cached(P), or held by a dead thread.
        ptr.set(owned);
        let flags = CHECKED | if has_redzone { WITH_REDZONE } else { 0 };
        Ok(inner.handle(Handle::new(inner, ptr, magazine.unwrap_or(MAGAZINES) | flags, len, owned)))
    }

    fn take_cached(
        &self,
        now: Now,
        wanted: usize,
        align: usize,
    ) -> Option<(ObjectPtr, Option<u32>, u64)> {
        let magazine =
            class_of_aligned(wanted, align).or_else(|| magazine_of_long(wanted as u64))?;
        // SAFETY: the reference ends before this returns; no user code runs here.
        let cache = unsafe { Cache::find(&self.inner) }?;
        let ptr = if now.modes.contains(Modes::COLD_FIRST) {
            cache.pop_cold(magazine, wanted)
        } else {
            cache.pop_object(magazine, wanted)
        }?;
        Some((ptr, Some(magazine), cache.owned()))
    }
}

impl Now {
    fn wants_redzone(self) -> bool {
        self.modes.contains(Modes::TAG) || self.modes.contains(Modes::CALLER)
    }

    /// Returns whether this allocation has to fail.
    fn fails(self) -> bool {
        thread_local! {
            /// Allocations since this change, and the change; with a seed, each thread counts for
            /// itself.
            static COUNT: Cell<(u32, u64)> = const { Cell::new((0, 0)) };
        }
        if !self.modes.contains(Modes::fail(0)) {
            return false;
        }
        let (changes, count) = COUNT.get();
        let count = if changes == self.changes { count + 1 } else { 1 };
        COUNT.set((self.changes, count));
        let mut random = match self.modes.seed() {
            0 => std::hash::RandomState::new().build_hasher().finish(),
            seed => u64::from(seed) << 32,
        };
        random = random.wrapping_add(count).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        random = (random ^ random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        random = (random ^ random >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (random ^ random >> 31) % 100 < self.modes.percent()
    }
}

impl Inner {
    #[inline]
    pub(in crate::pool) fn now(&self) -> Now {
        Now::from_word(self.file.header().modes.load(Ordering::Relaxed))
    }

    /// Returns whether any debug mode is on.
    #[inline]
    pub(in crate::pool) fn has_modes(&self) -> bool {
        // Relaxed: see `modes.rs`.
        self.file.header().modes.load(Ordering::Relaxed) as u32 != 0
    }

    /// Makes an object ready whose tag this thread has just changed from 0. What its record says of
    /// a pattern stays if it belongs to the present change: the one that is present now that the
    /// tag has been acquired.
    pub(in crate::pool) fn taken(&self, object: &ObjectRef) -> Result<ObjectPtr, Error> {
        let ptr = self.ptr_to(object).inspect_err(|_| {
            // It could not be brought into reach, and this thread may live long.
            if let Ok(me) = self.registry.me() {
                let _ = self.file.heap.free_held(&self.file.segment, object, me, &self.file);
            }
        })?;
        let bits = ptr.record().note.load(Ordering::Relaxed);
        if bits != 0 && !Note::decode(bits).is_filled(self.now()) {
            ptr.forget_bytes();
        }
        Ok(ptr)
    }

    fn fault(
        &self,
        kind: FaultKind,
        ptr: &ObjectPtr,
        len: usize,
        difference: Option<Difference>,
    ) -> Fault {
        let difference =
            difference.unwrap_or(Difference { offset: 0, expected: 0, found: 0, bytes: 0 });
        Fault {
            kind,
            pool: self.file.segment.path().to_path_buf(),
            pid: process::process_id(),
            object: ptr.reference,
            address: ptr.data.as_ptr() as usize,
            len,
            offset: difference.offset,
            expected: difference.expected,
            found: difference.found,
            bytes: difference.bytes,
            caller: None,
        }
    }

    /// Compares a free object with its pattern, and gives it the contents that its user is to find.
    ///
    /// # Safety
    /// The caller may change the object's tag, and the object has `len` bytes, and [`REDZONE`] more
    /// if it gets one.
    unsafe fn make_ready(
        &self,
        ptr: &ObjectPtr,
        len: usize,
        redzone: Option<(Me, &'static Location<'static>)>,
        now: Now,
    ) {
        let capacity = ptr.capacity as usize;
        let record = ptr.record();
        let note = Note::decode(record.note.load(Ordering::Relaxed));
        if note.is_filled(now)
            && let Note::Filled { tail, .. } = note
        {
            let end = if tail { capacity.saturating_sub(TAIL) } else { capacity };
            // SAFETY: the caller guarantees that the object is its own; `end` is at most its bytes.
            let difference = unsafe { poison::compare(ptr.data, ptr.reference, 0, end) };
            // SAFETY: the caller guarantees that the object is its own; `tail` says that it has a
            // redzone.
            let caller = if tail { unsafe { redzone::caller(ptr) } } else { None };
            let of_tail = Difference { offset: end, expected: 0, found: 0, bytes: 0 };
            let difference = difference.or_else(|| (tail && caller.is_none()).then_some(of_tail));
            if difference.is_some() {
                report(&Fault {
                    caller,
                    ..self.fault(FaultKind::ChangedWhileFree, ptr, capacity, difference)
                });
            }
        }
        record.note.store(0, Ordering::Relaxed);
        // The mark is cleared before the first byte changes: after a death in between, others find
        // both as they were at one moment.
        compiler_fence(Ordering::SeqCst);
        if now.modes.contains(Modes::POISON) {
            let bytes = if redzone.is_some() { len } else { capacity };
            // SAFETY: the caller guarantees that the object is its own and has `bytes` bytes.
            unsafe { ptr.data.as_ptr().write_bytes(now.modes.poison_byte(), bytes) };
        }
        if let Some((me, at)) = redzone {
            // SAFETY: the caller guarantees room for `len` bytes and the redzone.
            unsafe { redzone::write(ptr, len, self.registry, me, at) };
            compiler_fence(Ordering::SeqCst);
            record.note.store(Note::Redzone(len as u32).encode(), Ordering::Relaxed);
        }
    }
}

impl<'p> Object<'p> {
    /// Checks an object that was claimed while a mode is on, or that has a redzone.
    #[cold]
    #[inline(never)]
    pub(in crate::pool) fn claimed_checked(
        self,
        has_redzone: bool,
    ) -> Result<Object<'p>, PoolError> {
        let object = self.flagged(if has_redzone { CHECKED | WITH_REDZONE } else { CHECKED });
        match object.overrun() {
            None => Ok(object),
            Some(fault) => {
                object.free_checked();
                object.forget();
                Err(PoolError::Fault(fault))
            }
        }
    }

    /// Returns what is wrong with its redzone, if `tag` is on.
    #[inline]
    pub(in crate::pool) fn overrun(&self) -> Option<Box<Fault>> {
        if self.has_redzone() { self.overrun_slow() } else { None }
    }

    #[cold]
    fn overrun_slow(&self) -> Option<Box<Fault>> {
        let inner = self.inner();
        let note = Note::decode(self.ptr().record().note.load(Ordering::Relaxed));
        if !inner.now().modes.contains(Modes::TAG) {
            return None;
        }
        // No overrun reaches the note; a process that overwrites it has overwritten the pool's
        // words. An object that was a value has forgotten its stamp, which still lies before the
        // canary.
        let known = self.len()..=self.capacity_before_redzone();
        let len = match note {
            Note::Redzone(len) if known.contains(&(len as usize)) => len as usize,
            _ => return None,
        };
        // SAFETY: this process owns the object, which has a redzone from that length on.
        let difference = unsafe { redzone::compare(self.ptr(), len) }?;
        // SAFETY: this process owns the object, which has a redzone.
        let caller = unsafe { redzone::caller(self.ptr()) };
        Some(Box::new(Fault {
            caller,
            ..inner.fault(FaultKind::Overrun, self.ptr(), len, Some(difference))
        }))
    }

    /// Frees an object that was taken in modes, in those that are on now. An overrun one is freed
    /// all the same.
    pub(in crate::pool) fn give_back_checked(&self) -> Result<(), PoolError> {
        self.check_owned()?;
        let overrun = self.overrun();
        self.free_checked();
        overrun.map_or(Ok(()), |fault| Err(PoolError::Fault(fault)))
    }

    /// Frees an object that was compared already.
    pub(in crate::pool) fn free_checked(&self) {
        let inner = self.inner();
        let now = inner.now();
        let ptr = *self.ptr();
        let (record, capacity) = (ptr.record(), ptr.capacity as usize);
        let mut note = 0;
        if now.modes.contains(Modes::INTEGRITY) {
            // Its last caller stays readable, if the record is whole.
            // SAFETY: the tag says that this process owns it, and this is its one handle.
            let tail = self.has_redzone() && unsafe { redzone::caller(&ptr) }.is_some();
            let end = if tail { capacity.saturating_sub(TAIL) } else { capacity };
            // SAFETY: the tag says that this process owns it, and this is its one handle; `end` is
            // at most its capacity.
            unsafe { poison::fill(ptr.data, ptr.reference, 0, end) };
            note = Note::Filled { changes: now.changes, tail }.encode();
        }
        // Filled before it is marked: after a death in between, it is not compared.
        compiler_fence(Ordering::SeqCst);
        record.note.store(note, Ordering::Relaxed);
        if now.modes.contains(Modes::UAF) && self.hide() {
            // Without a hint: a scan finds it, as late as it can.
            ptr.set(0);
            inner.file.freed();
        } else {
            self.give_back_plainly();
        }
    }

    /// Puts it out of this process's reach, if it has pages of its own.
    pub(in crate::pool) fn hide(&self) -> bool {
        let segment = &self.inner().file.segment;
        let len = u64::from(self.ptr().capacity);
        match segment.offset_of(self.ptr().data.as_ptr() as usize) {
            Some(offset) if GuardPages::is_able_to(offset, len) => {
                self.inner().guard_pages.hide(segment, offset, len);
                true
            }
            _ => false,
        }
    }

    /// Puts it into the cache, or frees it for other threads.
    pub(in crate::pool) fn give_back_plainly(&self) {
        let inner = self.inner();
        let magazine = self.magazine();
        let me = inner.registry.me().ok();
        if magazine < MAGAZINES
            && me.is_some()
            && let Some(process) = inner.registry.process_token_if_any()
            // SAFETY: the reference ends before this returns; no user code runs here.
            && let Some(cache) = unsafe { Cache::own(inner, process) }
            && cache.fits(magazine)
        {
            cache.heed_flushes();
            cache.push_object(magazine, *self.ptr());
        } else {
            release(&inner.file, me, magazine, &[*self.ptr()]);
        }
    }

    /// Reports an object that was dropped, and could not simply be freed. A forked child's copy is
    /// its parent's, which is no fault.
    #[cold]
    #[inline(never)]
    pub(in crate::pool) fn dropped_badly(&self, error: PoolError) {
        match error {
            PoolError::Fault(fault) => report(&fault),
            PoolError::Freed if self.inner().now().modes.contains(Modes::TAG) => {
                report(&self.inner().fault(FaultKind::FreedTwice, self.ptr(), self.len(), None));
            }
            _ => {}
        }
    }
}
