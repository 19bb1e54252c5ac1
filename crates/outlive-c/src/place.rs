//! From an address in shared memory to this process's handle of the primitive that lies there.
//!
//! A lock in C is its shared bytes, as with pthreads: `outlive_mutex_lock(&shared->lock)`. What else Rust's handle has (whose
//! tokens it names, how long it spins, the mapping) is this process's own, and found by the address: in a small cache of
//! the thread's, which costs a few loads, else in the table of all that this process has open. An address that is not
//! in the table, or where the file's own table of places says that something else lies, is `EINVAL` instead of a stray
//! access.

use std::any::Any;
use std::cell::UnsafeCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
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
    /// Distinguishes kinds in the cache.
    const NUMBER: u64;
    fn new(handle: <Self::Field as Embed>::Handle) -> Self;
}

/// A file that is open.
struct Open {
    untyped: Untyped,
    handles: Mutex<HashMap<usize, Arc<dyn Any + Send + Sync>>>,
}

/// By address of the first word.
static TABLE: RwLock<BTreeMap<usize, Open>> = RwLock::new(BTreeMap::new());
/// Changes when something is closed, so that what caches remember is forgotten. Never 0.
static GENERATION: AtomicU64 = AtomicU64::new(1);

#[derive(Clone, Copy)]
struct Remembered {
    address: usize,
    /// The generation, and the kind's number in the lowest byte.
    key: u64,
    handle: *const (),
}

const ENTRIES: usize = 16;
const NOTHING: Remembered = Remembered { address: 0, key: 0, handle: core::ptr::null() };

thread_local! {
    /// Without a destructor: nothing here is the thread's to give back.
    static CACHE: UnsafeCell<[Remembered; ENTRIES]> = const { UnsafeCell::new([NOTHING; ENTRIES]) };
}

/// Neighbours in a struct, and the same field of structs a page apart, go to different entries.
#[inline]
fn entry_of(address: usize) -> usize {
    (address >> 3 ^ address >> 12) % ENTRIES
}

/// The handle of the primitive whose words those are.
///
/// It lives until its file is closed, which the user may do only when nobody uses it.
#[inline]
pub(crate) fn find<'a, T: Primitive>(words: *const T::Words) -> Result<&'a T, Failure> {
    let address = words as usize;
    // Acquire pairs with `close`'s increment: whoever sees the new generation looks into the new table.
    let key = GENERATION.load(Ordering::Acquire) << 8 | T::NUMBER;
    CACHE.with(|cache| {
        // SAFETY: this thread's own; the borrow ends with this copy.
        let known = unsafe { (*cache.get())[entry_of(address)] };
        if known.address == address && known.key == key && address != 0 {
            // SAFETY: put there by `find_slow` for a T, as the key's number says, and not closed since.
            return Ok(unsafe { &*known.handle.cast::<T>() });
        }
        let handle = find_slow::<T>(address)?;
        let entry = Remembered { address, key, handle: core::ptr::from_ref(handle).cast() };
        // SAFETY: as above.
        unsafe { (*cache.get())[entry_of(address)] = entry };
        Ok(handle)
    })
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
    let address = Arc::as_ptr(&handle);
    handles.insert(offset, handle);
    // SAFETY: as above.
    Ok(unsafe { &*address })
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
    // Release pairs with `find`'s Acquire. Before the handles go: who looks from now on looks into the table.
    GENERATION.fetch_add(1, Ordering::Release);
    table.remove(&(words as usize));
    Ok(())
}
