//! From an address in shared memory to this process's handle of the primitive that lies there.
//!
//! A lock in C is its shared bytes, as with pthreads: `outlive_mutex_lock(&shared->lock)`. What else Rust's handle has (whose
//! tokens it names, how long it spins, the mapping) is this process's own, and found by the address: in its kind's table of
//! 4,096 places, one load and a comparison; where two want one place, in the slow table of all that this process has open. An
//! address that is not in there, or where the file's own table of places says that something else lies, is `EINVAL` instead
//! of a stray access.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use outlive::Kind;
use outlive::sync::Untyped;

use crate::code::Failure;

/// This process's half of a primitive, for the words that C declares as `Self::Words`.
pub(crate) trait Primitive: Any + Send + Sync + Sized {
    /// As C sees it.
    type Words;
    const KIND: Kind;
    /// The kind's own: `fast_table!` makes it.
    fn table() -> &'static FastTable;
    /// This process's half of the one that begins there; `None` if there is none of its kind.
    fn at(untyped: &Untyped, offset: usize) -> Option<Self>;
}

/// What C declares is as long as what Rust has there, and aligned as well.
pub(crate) const fn same_shape<Words, Field>() {
    assert!(size_of::<Words>() == size_of::<Field>() && align_of::<Words>() >= align_of::<Field>());
}

/// A file that is open.
struct Open {
    untyped: Untyped,
    handles: Mutex<HashMap<usize, Handle>>,
}

/// A handle of something in it.
struct Handle {
    itself: Arc<dyn Any + Send + Sync>,
    /// Its place in the fast table, if it got it.
    known: Option<&'static Known>,
}

/// By address of the first word.
static TABLE: RwLock<BTreeMap<usize, Open>> = RwLock::new(BTreeMap::new());

/// A place of a fast table. Each is one handle's until that is closed: nobody is put out.
pub(crate) struct Known {
    /// The address; 0: free.
    address: AtomicUsize,
    handle: AtomicPtr<()>,
}

const PLACES: usize = 4096;
/// By address; a kind each, so that an address is all there is to compare.
pub(crate) struct FastTable([Known; PLACES]);
/// An address that is about to be put there.
const BUSY: usize = 1;

impl FastTable {
    pub(crate) const fn new() -> FastTable {
        FastTable([const { Known { address: AtomicUsize::new(0), handle: AtomicPtr::new(core::ptr::null_mut()) } }; _])
    }

    #[inline]
    fn at(&self, address: usize) -> &Known {
        // By Fibonacci's hash: neighbours in a struct, and the same field of structs a page apart, go to different places.
        &self.0[(address >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - PLACES.ilog2())]
    }
}

/// A kind's `table`.
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

/// The handle of the primitive whose words those are.
///
/// It lives until its file is closed, which the user may do only when nobody uses it.
#[inline]
pub(crate) fn find<'a, T: Primitive>(words: *const T::Words) -> Result<&'a T, Failure> {
    find_fast(words).map_or_else(|| find_slow(words as usize), Ok)
}

/// The same if it is in its place in the fast table.
#[inline]
pub(crate) fn find_fast<'a, T: Primitive>(words: *const T::Words) -> Option<&'a T> {
    let address = words as usize;
    let known = T::table().at(address);
    // Acquire pairs with `remember`'s Release: the handle is there. NULL and BUSY are nobody's: words are aligned.
    if known.address.load(Ordering::Acquire) != address || address <= BUSY {
        return None;
    }
    let handle = known.handle.load(Ordering::Relaxed).cast::<T>();
    // SAFETY: put there for a T, and open still. The place was not another's meanwhile: it would have to be closed first.
    // Written before the address, and never null.
    unsafe {
        core::hint::assert_unchecked(!handle.is_null());
        Some(&*handle)
    }
}

/// Puts a handle into its place if that is free. The caller holds the table: nothing is closed meanwhile.
fn remember<T: Primitive>(address: usize, handle: *const T) -> Option<&'static Known> {
    let known = T::table().at(address);
    // Acquire pairs with `close`'s Release. Whoever finds it busy or taken goes on without.
    known.address.compare_exchange(0, BUSY, Ordering::Acquire, Ordering::Relaxed).ok()?;
    known.handle.store(handle.cast_mut().cast(), Ordering::Relaxed);
    known.address.store(address, Ordering::Release);
    Some(known)
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
        return known
            .itself
            .downcast_ref::<T>()
            .map(|handle| unsafe { &*core::ptr::from_ref(handle) })
            .ok_or_else(nothing);
    }
    // Somewhere else than the table of places says, also behind the file's end: none.
    let handle = Arc::new(T::at(&open.untyped, offset).ok_or_else(nothing)?);
    let at = Arc::as_ptr(&handle);
    handles.insert(offset, Handle { itself: handle, known: remember(address, at) });
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
    let handles = open.handles.into_inner().unwrap_or_else(PoisonError::into_inner);
    for known in handles.values().filter_map(|handle| handle.known) {
        // Release pairs with `remember`: who takes the place has seen us gone.
        known.address.store(0, Ordering::Release);
    }
    Ok(())
}
