//! From an address in shared memory to this process's handle of the primitive that lies there.
//!
//! A lock in C is its shared bytes, as with pthreads: `outlive_mutex_lock(&shared->lock)`. The rest
//! of Rust's handle (whose tokens it names, how long it spins, the mapping) is private to the
//! process, and found by the address: in its kind's table of 4,096 places, by one load and a
//! comparison; where two handles fall on one place, in the slow table of all that this process has
//! open. An address that is not in there, or where the file's own table of places has something
//! else, is `EINVAL` instead of a stray access.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use outlive::Kind;
use outlive::sync::Untyped;

use crate::code::Failure;

/// This process's part of a primitive, for the words that C declares as `Self::Words`.
pub(crate) trait Primitive: Any + Send + Sync + Sized {
    /// The words as C sees them.
    type Words;
    const KIND: Kind;
    /// The kind's own table, which `fast_table!` makes.
    fn table() -> &'static FastTable;
    /// Returns this process's part of the primitive that begins there; `None` if there is none of
    /// its kind.
    fn at(untyped: &Untyped, offset: usize) -> Option<Self>;
}

/// Checks that what C declares is as long as what Rust has there, and aligned as well.
pub(crate) const fn same_shape<Words, Field>() {
    assert!(size_of::<Words>() == size_of::<Field>() && align_of::<Words>() >= align_of::<Field>());
}

/// A file that is open.
struct Open {
    untyped: Untyped,
    handles: Mutex<HashMap<usize, Handle>>,
}

/// A handle of a primitive in it.
struct Handle {
    itself: Arc<dyn Any + Send + Sync>,
    /// Its place in the fast table, if it got one.
    known: Option<&'static Known>,
}

/// By address of the first word.
static TABLE: RwLock<BTreeMap<usize, Open>> = RwLock::new(BTreeMap::new());

/// A place of a fast table. It is one handle's until that is closed: no handle replaces another.
pub(crate) struct Known {
    /// The address; 0: free.
    address: AtomicUsize,
    handle: AtomicPtr<()>,
}

const PLACES: usize = 4096;
/// By address; one for each kind, so that only the address has to be compared.
pub(crate) struct FastTable([Known; PLACES]);
/// An address that is just being written.
const BUSY: usize = 1;

impl FastTable {
    pub(crate) const fn new() -> FastTable {
        FastTable(
            [const {
                Known {
                    address: AtomicUsize::new(0),
                    handle: AtomicPtr::new(core::ptr::null_mut()),
                }
            }; _],
        )
    }

    #[inline]
    fn at(&self, address: usize) -> &Known {
        // Fibonacci hashing: neighbours in a struct, and the same field of structs a page apart,
        // get different places.
        &self.0
            [(address >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - PLACES.ilog2())]
    }
}

/// Defines a kind's `table`.
macro_rules! fast_table {
    () => {
        #[inline]
        fn table() -> &'static $crate::place::FastTable {
            static TABLE: $crate::place::FastTable = $crate::place::FastTable::new();
            &TABLE
        }
    };
}
pub(crate) use fast_table;

/// Returns the handle of the primitive whose words those are.
///
/// It lives until its file is closed, which the user may do only when no thread uses it.
#[inline]
pub(crate) fn find<'a, T: Primitive>(words: *const T::Words) -> Result<&'a T, Failure> {
    find_fast(words).map_or_else(|| find_slow(words as usize), Ok)
}

/// Returns the handle if it is in its place in the fast table.
#[inline]
pub(crate) fn find_fast<'a, T: Primitive>(words: *const T::Words) -> Option<&'a T> {
    let address = words as usize;
    let known = T::table().at(address);
    // Acquire pairs with `remember`'s Release: the handle is there. NULL and BUSY match no handle:
    // words are aligned.
    if known.address.load(Ordering::Acquire) != address || address <= BUSY {
        return None;
    }
    let handle = known.handle.load(Ordering::Relaxed).cast::<T>();
    // SAFETY: `remember` put it there for a T, and it is still open. The place was not another's
    // meanwhile: its handle would have to be closed first. Written before the address, and never
    // null.
    unsafe {
        core::hint::assert_unchecked(!handle.is_null());
        Some(&*handle)
    }
}

/// Puts a handle into its place if that is free. The caller holds the table: no handle is closed
/// meanwhile.
fn remember<T: Primitive>(address: usize, handle: *const T) -> Option<&'static Known> {
    let known = T::table().at(address);
    // Acquire pairs with `close`'s Release. A thread that finds it busy or taken goes on without.
    known.address.compare_exchange(0, BUSY, Ordering::Acquire, Ordering::Relaxed).ok()?;
    known.handle.store(handle.cast_mut().cast(), Ordering::Relaxed);
    known.address.store(address, Ordering::Release);
    Some(known)
}

#[cold]
#[inline(never)]
fn find_slow<'a, T: Primitive>(address: usize) -> Result<&'a T, Failure> {
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    let nothing = || {
        Failure::new(libc::EINVAL, &format!("no {} that this process has open lies there", T::KIND))
    };
    let (base, open) = table.range(..=address).next_back().ok_or_else(nothing)?;
    let offset = address - base;
    let mut handles = open.handles.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = handles.get(&offset) {
        // SAFETY: the Arc that the table keeps until the file is closed has it.
        return known
            .itself
            .downcast_ref::<T>()
            .map(|handle| unsafe { &*core::ptr::from_ref(handle) })
            .ok_or_else(nothing);
    }
    // Elsewhere than in the table of places, or behind the file's end: none.
    let handle = Arc::new(T::at(&open.untyped, offset).ok_or_else(nothing)?);
    let at = Arc::as_ptr(&handle);
    handles.insert(offset, Handle { itself: handle, known: remember(address, at) });
    // SAFETY: the Arc that the table keeps until the file is closed has it.
    Ok(unsafe { &*at })
}

/// Records what has been opened; returns where its words begin.
pub(crate) fn open(untyped: Untyped) -> *mut u8 {
    let at = untyped.as_ptr();
    let open = Open { untyped, handles: Mutex::new(HashMap::new()) };
    TABLE.write().unwrap_or_else(PoisonError::into_inner).insert(at as usize, open);
    at
}

/// Returns where a named lock's value lies.
pub(crate) fn value(words: *const u8, kind: Kind) -> Option<*mut u8> {
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    let open = table.get(&(words as usize))?;
    let is_named = open.untyped.kind() == kind && open.untyped.len() > open.untyped.value_offset();
    // SAFETY: the offset is inside the file, as just compared.
    is_named.then(|| unsafe { open.untyped.as_ptr().add(open.untyped.value_offset()) })
}

/// Closes the file of that kind whose words begin there. Passing NULL has no effect.
pub(crate) fn close(words: *const u8, kind: Kind) -> Result<(), Failure> {
    if words.is_null() {
        return Ok(());
    }
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    if !table.get(&(words as usize)).is_some_and(|open| open.untyped.kind() == kind) {
        return Err(Failure::new(
            libc::EINVAL,
            "nothing that this process has opened begins there",
        ));
    }
    let Some(open) = table.remove(&(words as usize)) else { return Ok(()) };
    let handles = open.handles.into_inner().unwrap_or_else(PoisonError::into_inner);
    for known in handles.values().filter_map(|handle| handle.known) {
        // Release pairs with `remember`: a thread that takes the place sees this handle gone.
        known.address.store(0, Ordering::Release);
    }
    Ok(())
}
