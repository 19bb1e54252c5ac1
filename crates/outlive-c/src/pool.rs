//! Pools: memory that one process hands over to another.

use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;

use outlive::pool::{Modes, Object, Offset, Pool, SharedObject};

use crate::argument::{borrow, handle_out, options, out, out_or_none, text_or_none};
use crate::code::{Failure, entry, entry_or};
use crate::domain::{close, outlive_domain_t, peer};
use crate::opening::{naming, open_as, outlive_opening_t};
use crate::owned::Owned;

/// A pool, open in this process: memory objects of 0 bytes to 1 GiB. All threads may use it at
/// once.
pub struct outlive_pool_t(Arc<Pool>);

/// An object that several processes hold, each by name. All threads may use it at once.
pub struct outlive_shared_t(Owned<SharedObject<'static>, Pool>);

/// Options for opening or making a pool. Begin with `OUTLIVE_POOL_OPTIONS_INIT`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct outlive_pool_options_t {
    /// `sizeof(outlive_pool_options_t)`.
    pub size: usize,
    /// The most bytes of the file system that the pool may take, 64 KiB to 8 GiB. A new pool's
    /// default: a quarter of the file system, at most 8 GiB. The whole file counts: objects, the
    /// pool's own words, and a record of 16 bytes for each object, which stays when memory of small
    /// objects is used for larger ones.
    pub max_bytes: u64,
    /// The most bytes that each thread keeps in its cache. 0: what this process has set before, or
    /// 16 MiB.
    pub cache_bytes: u64,
    /// Debug modes of a new pool, as text: `tag,integrity`. NULL: none. An existing pool keeps the
    /// modes that it has.
    pub modes: *const c_char,
    /// Not 0: ask for huge pages.
    pub huge_pages: u32,
    /// Must be 0.
    pub reserved: u32,
}

/// Opens the pool of that name, or makes it. `options` NULL: none is set.
///
/// Owner: `*pool` is the caller's, until `outlive_pool_close`.
///
/// Errors: see `outlive_opening_t`.
///
/// If a process dies, what it had is free once its last thread has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pool_open(
    domain: *const outlive_domain_t,
    name: *const c_char,
    how: MaybeUninit<outlive_opening_t>,
    options: *const outlive_pool_options_t,
    pool: *mut *mut outlive_pool_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `pool`, a live domain, and a NUL-terminated name.
        let naming = unsafe { naming(domain, name, how, pool) }?;
        let default = outlive_pool_options_t {
            size: 0,
            max_bytes: 0,
            cache_bytes: 0,
            modes: core::ptr::null(),
            huge_pages: 0,
            reserved: 0,
        };
        // SAFETY: the C caller passes NULL or options of the size that they say; all fields are
        // integers and pointers.
        let given = unsafe { self::options(options, default) }?;
        let mut options = Pool::options().huge_pages(given.huge_pages != 0);
        if given.max_bytes > 0 {
            options = options.max_bytes(given.max_bytes);
        }
        if given.cache_bytes > 0 {
            options = options.cache_bytes(given.cache_bytes);
        }
        // SAFETY: the C caller passes NULL or a NUL-terminated `modes`.
        if let Some(modes) = unsafe { text_or_none(given.modes) }? {
            let modes = modes.parse::<Modes>();
            options = options
                .modes(modes.map_err(|error| Failure::new(libc::EINVAL, &error.to_string()))?);
        }
        let opened = open_as!(options, naming)?;
        naming.out.put(Box::into_raw(Box::new(outlive_pool_t(Arc::new(opened)))));
        Ok(())
    })
}

/// Closes a pool: addresses in it are invalid from then on, unless it is open elsewhere in this
/// process. Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pool_close(pool: *mut outlive_pool_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(pool) }
}

/// Makes `objects` objects of `size` bytes, brings them in, and frees them, so that the calling thread
/// takes and frees as many at a time without a page fault or a system call.
///
/// Errors: those of `outlive_pool_alloc`.
///
/// If the process dies, what it had is free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pool_prefault(
    pool: *const outlive_pool_t,
    objects: usize,
    size: usize,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live pool.
        let pool = unsafe { borrow(pool, "a pool") }?;
        Ok(pool.0.prefault(objects, size)?)
    })
}

/// How much of a pool is in which state. Its size never changes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct outlive_pool_usage_t {
    /// All objects; the next six add up to this.
    pub objects: u64,
    /// In use by a process.
    pub used: u64,
    /// In the cache of a thread.
    pub cached: u64,
    /// Free for any process.
    pub free: u64,
    /// Handed over and not claimed yet.
    pub offered: u64,
    /// Held by several processes, or by one that lets others join.
    pub shared: u64,
    /// Held by a thread that is taking or freeing it, or died doing so.
    pub moving: u64,
    /// How often there was no room for one.
    pub failed: u64,
    /// Bytes of all objects.
    pub object_bytes: u64,
    /// Bytes of objects that are handed over and not claimed yet.
    pub unclaimed_bytes: u64,
    /// Bytes of memory that the pool takes now.
    pub bytes: u64,
    /// The most bytes that it may take.
    pub max_bytes: u64,
    /// Processes that have objects, dead ones included.
    pub holders: u64,
    /// 0.
    pub reserved: [u64; 3],
}

/// Looks at all objects and writes to `*usage` how many are in which state.
///
/// Errors: EINVAL, ENOSPC, OUTLIVE_DAMAGED.
///
/// If a process dies, what it had counts as its own until a process collects it
/// (`outlive_pool_gc`).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pool_usage(
    pool: *const outlive_pool_t,
    usage: *mut outlive_pool_usage_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live pool and a place for `usage`.
        let (pool, out) = unsafe { (borrow(pool, "a pool")?, out(usage)?) };
        let found = pool.0.usage()?;
        out.put(outlive_pool_usage_t {
            objects: found.sum.total,
            used: found.sum.used,
            cached: found.sum.cached,
            free: found.sum.free,
            offered: found.sum.offered,
            shared: found.sum.shared,
            moving: found.sum.moving,
            failed: found.sum.failed,
            object_bytes: found.sum.bytes,
            unclaimed_bytes: found.unclaimed,
            bytes: found.bytes,
            max_bytes: found.max_bytes,
            holders: found.holders.len() as u64,
            reserved: [0; 3],
        });
        Ok(())
    })
}

/// Frees what dead processes had, and gives each 2 MiB back to the system in which all objects are
/// free. `*objects` (may be NULL): objects of dead processes that are free now; `*bytes` (may be
/// NULL): bytes that the system has back.
///
/// Errors: EINVAL, ENOSPC, OUTLIVE_DAMAGED.
///
/// If a process dies during the call, some of it is done, and the next call does the rest.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pool_gc(
    pool: *const outlive_pool_t,
    objects: *mut u64,
    bytes: *mut u64,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live pool, NULL or a place for `objects`, and NULL or a
        // place for `bytes`.
        let (pool, objects, bytes) =
            unsafe { (borrow(pool, "a pool")?, out_or_none(objects), out_or_none(bytes)) };
        let trimmed = pool.0.gc()?;
        if let Some(out) = objects {
            out.put(trimmed.objects);
        }
        if let Some(out) = bytes {
            out.put(trimmed.bytes);
        }
        Ok(())
    })
}

/// Allocates memory of `size` bytes, aligned to `align`, a power of two up to 4,096 (0: 16). Its
/// contents are arbitrary.
///
/// Owner: `*data` is this process's, until `outlive_pool_free`, or until it is handed over. Any
/// thread may free it.
///
/// Errors: ENOSPC: the pool is at its largest; the message names the process that has most.
/// EMSGSIZE, EINVAL, EUSERS, OUTLIVE_FAULT.
///
/// If the process dies, the memory is free once its last thread has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pool_alloc(
    pool: *const outlive_pool_t,
    size: usize,
    align: usize,
    data: *mut *mut c_void,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live pool and a place for `data`.
        let (pool, out) = unsafe { (borrow(pool, "a pool")?, out(data)?) };
        let object =
            if align == 0 { pool.0.alloc(size)? } else { pool.0.alloc_aligned(size, align)? };
        out.put(object.into_raw().as_ptr().cast());
        Ok(())
    })
}

/// Returns the object at an address, for a moment.
///
/// # Safety
/// The C caller guarantees that `data` came from this pool, and still belongs to this process.
unsafe fn object(pool: &outlive_pool_t, data: *mut c_void) -> Result<Object<'_>, Failure> {
    let data = NonNull::new(data.cast::<u8>())
        .ok_or_else(|| Failure::new(libc::EINVAL, "NULL in place of memory"))?;
    // SAFETY: the C caller guarantees that `data` came from this pool, and still belongs to this
    // process.
    Ok(unsafe { pool.0.from_raw(data) }?)
}

/// Frees memory. Passing NULL has no effect.
///
/// Errors: EINVAL: no object begins there, or it was freed before. EPERM: it is not this process's.
/// EXDEV: another pool's. OUTLIVE_FAULT: a debug mode found bytes that the program must not have
/// written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pool_free(
    pool: *const outlive_pool_t,
    data: *mut c_void,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live pool.
        let pool = unsafe { borrow(pool, "a pool") }?;
        if data.is_null() {
            return Ok(());
        }
        // SAFETY: the C caller passes an address of this pool's, which it gives up.
        Ok(unsafe { object(pool, data) }?.free()?)
    })
}

/// Hands memory over: any process that has the offset may claim it, or only the owner of `token` (a
/// process's or thread's; 0: any process). It does so in one atomic step: at each moment the object
/// has an owner or is offered. `domain`: the token's; may be NULL without one.
///
/// Owner: `data` is no longer this process's; after EINVAL, EPERM and EXDEV it is as before.
///
/// Errors: as `outlive_pool_free`, and EINVAL for a number that is no token.
///
/// If a process dies: an object offered to any process stays; one offered to a process is free once
/// that has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pool_offer(
    pool: *const outlive_pool_t,
    data: *mut c_void,
    domain: *const outlive_domain_t,
    token: u32,
    offset: *mut u64,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live pool and a place for `offset`.
        let (pool, out) = unsafe { (borrow(pool, "a pool")?, out(offset)?) };
        // SAFETY: the C caller passes a live domain.
        let to = if token == 0 { None } else { Some(unsafe { peer(domain, token) }?) };
        // SAFETY: the C caller passes an address of this pool's, which it gives up.
        let object = unsafe { object(pool, data) }?;
        let offset = match to {
            None => object.into_offset()?,
            Some(to) => object.into_offset_for(&to)?,
        };
        out.put(offset.as_u64());
        Ok(())
    })
}

/// Takes over an object that was handed over. `*size` (may be NULL): its bytes.
///
/// Owner: `*data` is this process's, until `outlive_pool_free`, or until it is handed over.
///
/// Errors: ESTALE: it was claimed before, or is gone. EACCES: it is offered to another process.
/// OUTLIVE_OTHER_TYPE: it is a value of a Rust type. EINVAL, OUTLIVE_FAULT.
///
/// If the process dies during the call, the object is still offered, or free once the process has
/// ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pool_claim(
    pool: *const outlive_pool_t,
    offset: u64,
    data: *mut *mut c_void,
    size: *mut usize,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live pool and a place for `data`.
        let (pool, out) = unsafe { (borrow(pool, "a pool")?, out(data)?) };
        let object = pool.0.claim(Offset::from(offset))?;
        // SAFETY: the C caller passes NULL or a place for `size`.
        if let Some(out) = unsafe { out_or_none(size) } {
            out.put(object.len());
        }
        out.put(object.into_raw().as_ptr().cast());
        Ok(())
    })
}

/// Turns memory into an object that several processes hold, each by name; no process may write to
/// it from then on.
///
/// Owner: `data` is consumed; after EINVAL, EPERM and EXDEV it is as before. `*shared` is the
/// caller's, until `outlive_shared_release`.
///
/// Errors: as `outlive_pool_free`, and ENOSPC.
///
/// If a holder dies, its name is removed; the last holder's death frees the object.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pool_share(
    pool: *const outlive_pool_t,
    data: *mut c_void,
    shared: *mut *mut outlive_shared_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `shared` and a live pool.
        let (out, pool) = unsafe { (handle_out(shared)?, borrow(pool, "a pool")?) };
        let data = NonNull::new(data.cast::<u8>())
            .ok_or_else(|| Failure::new(libc::EINVAL, "NULL in place of memory"))?;
        let shared = Owned::new(Arc::clone(&pool.0), |pool| {
            // SAFETY: the C caller passes an address of this pool's, which it gives up.
            unsafe { pool.from_raw(data) }?.share()
        })?;
        out.put(Box::into_raw(Box::new(outlive_shared_t(shared))));
        Ok(())
    })
}

/// Makes this process a holder of a shared object.
///
/// Owner: `*shared` is the caller's, until `outlive_shared_release`.
///
/// Errors: ESTALE: it is gone. EUSERS: 62 processes hold it. EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pool_join(
    pool: *const outlive_pool_t,
    offset: u64,
    shared: *mut *mut outlive_shared_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `shared` and a live pool.
        let (out, pool) = unsafe { (handle_out(shared)?, borrow(pool, "a pool")?) };
        let shared = Owned::new(Arc::clone(&pool.0), |pool| pool.join(Offset::from(offset)))?;
        out.put(Box::into_raw(Box::new(outlive_shared_t(shared))));
        Ok(())
    })
}

/// Returns a shared object's bytes, for reading. NULL for NULL. Owner: `shared`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_shared_data(shared: *const outlive_shared_t) -> *const c_void {
    entry_or(core::ptr::null(), || {
        // SAFETY: the C caller passes a live shared object.
        Ok(unsafe { borrow(shared, "a shared object") }?.0.part().as_ptr().cast())
    })
}

/// Returns how many bytes a shared object has. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_shared_size(shared: *const outlive_shared_t) -> usize {
    // SAFETY: the C caller passes a live shared object.
    entry_or(0, || Ok(unsafe { borrow(shared, "a shared object") }?.0.part().len()))
}

/// Returns the offset by which other processes join: valid as long as any process holds the object.
/// 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_shared_offset(shared: *const outlive_shared_t) -> u64 {
    // SAFETY: the C caller passes a live shared object.
    entry_or(0, || Ok(unsafe { borrow(shared, "a shared object") }?.0.part().offset().as_u64()))
}

/// Releases a shared object; the last holder frees it. Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_shared_release(shared: *mut outlive_shared_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(shared) }
}
