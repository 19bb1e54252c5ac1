//! From an address in shared memory to this process's handle of the primitive that lies there.
//!
//! A lock in C is its shared bytes, as with pthreads: `outlive_mutex_lock(&shared->lock)`. What else Rust's handle has (whose
//! tokens it names, how long it spins, the mapping) is this process's own, and found by the address: in a table of 4,096
//! places, one load and a comparison; where two want one place, in the slow table of all that this process has open. An
//! address that is not in there, or where the file's own table of places says that something else lies, is `EINVAL` instead
//! of a stray access.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use outlive::Kind;
use outlive::sync::{Embed, Untyped};

use crate::code::Failure;

/// This process's half of a primitive, for the words that C declares as `Self::Words`.
pub(crate) trait Primitive: Any + Send + Sync + Sized {
    /// As C sees it.
    type Words;
    /// As Rust does.
    type Field: Embed;
    const KIND: Kind;
    /// Distinguishes kinds in the fast table.
    const NUMBER: usize;
    fn new(handle: <Self::Field as Embed>::Handle) -> Self;
}

/// A file that is open.
struct Open {
    untyped: Untyped,
    handles: Mutex<HashMap<usize, Arc<dyn Any + Send + Sync>>>,
}

/// By address of the first word.
static TABLE: RwLock<BTreeMap<usize, Open>> = RwLock::new(BTreeMap::new());

/// A place of the fast table. Each is one handle's until that is closed: nobody is put out.
struct Known {
    /// The address and the kind; 0: free.
    key: AtomicUsize,
    handle: AtomicPtr<()>,
}

const PLACES: usize = 4096;
static KNOWN: [Known; PLACES] =
    [const { Known { key: AtomicUsize::new(0), handle: AtomicPtr::new(core::ptr::null_mut()) } }; PLACES];
/// A key that is about to be put there.
const BUSY: usize = 1;
/// Addresses lie below.
const NUMBER_AT: u32 = 56;

#[inline]
fn known(address: usize) -> &'static Known {
    // By Fibonacci's hash: neighbours in a struct, and the same field of structs a page apart, go to different places.
    &KNOWN[(address >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - PLACES.ilog2())]
}

/// The handle of the primitive whose words those are.
///
/// It lives until its file is closed, which the user may do only when nobody uses it.
#[inline]
pub(crate) fn find<'a, T: Primitive>(words: *const T::Words) -> Result<&'a T, Failure> {
    let address = words as usize;
    let known = known(address);
    // Acquire pairs with `remember`'s Release: the handle is there.
    if known.key.load(Ordering::Acquire) == address | T::NUMBER << NUMBER_AT {
        // SAFETY: put there for a T, as the key says, and open still. The place was not another's meanwhile: it would have
        // to be closed first.
        return Ok(unsafe { &*known.handle.load(Ordering::Relaxed).cast::<T>() });
    }
    find_slow(address)
}

/// Puts a handle into its place if that is free. The caller holds the table: nothing is closed meanwhile.
fn remember<T: Primitive>(address: usize, handle: *const T) {
    let known = known(address);
    // Acquire pairs with `close`'s Release. Whoever finds it busy or taken goes on without.
    if known.key.compare_exchange(0, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok() {
        known.handle.store(handle.cast_mut().cast(), Ordering::Relaxed);
        known.key.store(address | T::NUMBER << NUMBER_AT, Ordering::Release);
    }
}

#[cold]
#[inline(never)]
fn find_slow<'a, T: Primitive>(address: usize) -> Result<&'a T, Failure> {
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    let nothing = || Failure::new(libc::EINVAL, &format!("no {} that this process has open lies there", T::KIND));
    let (base, open) = table.range(..=address).next_back().ok_or_else(nothing)?;
    let offset = address - base;
    let mut handles = open.handles.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = handles.get(&offset) {
        // SAFETY: in the Arc that the table keeps until the file is closed.
        return known.downcast_ref::<T>().map(|handle| unsafe { &*core::ptr::from_ref(handle) }).ok_or_else(nothing);
    }
    // Somewhere else than the table of places says, also behind the file's end: none.
    let handle = Arc::new(T::new(open.untyped.handle::<T::Field>(offset).ok_or_else(nothing)?));
    let at = Arc::as_ptr(&handle);
    handles.insert(offset, handle);
    remember(address, at);
    // SAFETY: as above.
    Ok(unsafe { &*at })
}

/// Notes what has been opened; where its words begin.
pub(crate) fn open(untyped: Untyped) -> *mut u8 {
    let at = untyped.as_ptr();
    let open = Open { untyped, handles: Mutex::new(HashMap::new()) };
    TABLE.write().unwrap_or_else(PoisonError::into_inner).insert(at as usize, open);
    at
}

/// Where a named lock's value lies.
pub(crate) fn value(words: *const u8, kind: Kind) -> Option<*mut u8> {
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    let open = table.get(&(words as usize))?;
    let is_named = open.untyped.kind() == kind && open.untyped.len() > open.untyped.value_offset();
    // SAFETY: inside, as just compared.
    is_named.then(|| unsafe { open.untyped.as_ptr().add(open.untyped.value_offset()) })
}

/// Closes the file of that kind whose words begin there. NULL is nothing.
pub(crate) fn close(words: *const u8, kind: Kind) -> Result<(), Failure> {
    if words.is_null() {
        return Ok(());
    }
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    if !table.get(&(words as usize)).is_some_and(|open| open.untyped.kind() == kind) {
        return Err(Failure::new(libc::EINVAL, "nothing that this process has opened begins there"));
    }
    let Some(open) = table.remove(&(words as usize)) else { return Ok(()) };
    let mapped = words as usize..words as usize + open.untyped.len();
    for known in &KNOWN {
        // Relaxed: only `remember` puts something there, which waits for the table.
        if mapped.contains(&(known.key.load(Ordering::Relaxed) & ((1 << NUMBER_AT) - 1))) {
            // Release pairs with `remember`: who takes the place has seen us gone.
            known.key.store(0, Ordering::Release);
        }
    }
    Ok(())
}
