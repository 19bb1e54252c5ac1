//! Where the shared half of a primitive lies: in a file of its own, or inside a user's record.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use crate::liveness::{Me, Registry};
use crate::segment::{BODY, Segment, Shared, Spec};
use crate::shim::AtomicU32;
use crate::{Domain, Error, Kind};

/// The shared words of a primitive, kept mapped, and the registry of the tokens that its claims name.
///
/// A primitive's handle is one of these and some memory of its own, whether it has a name or is embedded.
pub struct Home<S> {
    shared: NonNull<S>,
    registry: &'static Registry,
    segment: Arc<Segment>,
}

// SAFETY: as good as a reference to `S`.
unsafe impl<S: Sync> Send for Home<S> {}
// SAFETY: as above.
unsafe impl<S: Sync> Sync for Home<S> {}

impl<S> Clone for Home<S> {
    fn clone(&self) -> Home<S> {
        Home { shared: self.shared, registry: self.registry, segment: Arc::clone(&self.segment) }
    }
}

/// The type of the value inside, as the file's header names it.
pub(super) struct TypeOf {
    name: &'static str,
    size: u64,
    align: u64,
}

impl TypeOf {
    /// A primitive that guards a value.
    pub(super) fn a<T>() -> TypeOf {
        TypeOf { name: std::any::type_name::<T>(), size: size_of::<T>() as u64, align: align_of::<T>() as u64 }
    }

    /// A primitive without a value, of which there are several sorts.
    pub(super) fn named(name: &'static str) -> TypeOf {
        TypeOf { name, size: 0, align: 0 }
    }

    /// A primitive without a value.
    pub(super) fn nothing() -> TypeOf {
        TypeOf { name: "", size: 0, align: 0 }
    }
}

impl<S> Home<S> {
    /// Opens the primitive of that name, or makes it: zeroed, then filled in by `init`, before anybody else can see it.
    pub(super) fn open(
        domain: &Domain,
        name: &str,
        kind: Kind,
        value: TypeOf,
        init: impl Fn(&mut S),
    ) -> Result<Home<S>, Error>
    where
        S: Shared,
    {
        Home::open_with_tail(domain, name, kind, value, 0, |shared, _| init(shared))
    }

    /// As [`Home::open`], with so many words behind it in a file that is made; how many there are in one that was there
    /// already is for [`Home::tail`] to say.
    pub(super) fn open_with_tail(
        domain: &Domain,
        name: &str,
        kind: Kind,
        value: TypeOf,
        words: usize,
        init: impl Fn(&mut S, &[AtomicU32]),
    ) -> Result<Home<S>, Error>
    where
        S: Shared,
    {
        const { assert!(align_of::<S>() <= 4096) };
        let bytes = BODY + size_of::<S>() as u64 + words as u64 * 4;
        let spec = Spec {
            kind,
            type_name: value.name.to_owned(),
            type_size: value.size,
            type_align: value.align,
            reserve: bytes,
            max_bytes: bytes,
            initial: bytes,
        };
        let segment = domain.create_or_open(name, &spec, |segment| {
            segment.at::<S>(BODY)?;
            // SAFETY: checked just now; the file has no name yet, so this reference is the only one; zeroed bytes are
            // a value of every Shared type.
            init(unsafe { &mut *segment.address(BODY).cast::<S>() }, words_at(segment, tail_of::<S>(), words)?);
            Ok(())
        })?;
        super::order::opened(domain);
        let shared = NonNull::from(segment.at::<S>(BODY)?);
        Ok(Home { shared, registry: domain.registry(), segment: Arc::new(segment) })
    }

    /// So many words behind the shared ones, checked against the file's size. Of a named primitive only.
    pub(super) fn tail(&self, words: usize) -> Result<NonNull<[AtomicU32]>, Error> {
        words_at(&self.segment, tail_of::<S>(), words).map(NonNull::from)
    }

    pub(super) fn damaged(&self, what: &'static str) -> Error {
        self.segment.damaged(what)
    }

    /// What lies inside a file that somebody else keeps a handle of, too.
    pub(super) fn inside(shared: &S, registry: &'static Registry, segment: &Arc<Segment>) -> Home<S> {
        Home { shared: NonNull::from(shared), registry, segment: Arc::clone(segment) }
    }

    /// Its file's device and inode.
    pub(super) fn file(&self) -> Result<(u64, u64), Error> {
        self.segment.facts().map(|facts| facts.identity())
    }

    /// Keeps it mapped until the process ends, in one place, however often it is opened: for what the kernel or libc
    /// may look at after we have. `number`: as [`Home::file`] says, if the file could be asked.
    pub(super) fn kept(self, number: Option<(u64, u64)>) -> Home<S> {
        type Kept = (Option<(u64, u64)>, Arc<Segment>);
        // While it is mapped, its inode number is not given to another file.
        static KEPT: Mutex<Vec<Kept>> = Mutex::new(Vec::new());
        let mut kept = KEPT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let known =
            kept.iter().find(|(known, there)| known.is_some() && *known == number || Arc::ptr_eq(there, &self.segment));
        let Some((_, there)) = known else {
            kept.push((number, Arc::clone(&self.segment)));
            return self;
        };
        // SAFETY: offset 0 lies inside every mapping.
        let offset = self.shared.as_ptr() as u64 - unsafe { self.segment.address(0) } as u64;
        if offset + size_of::<S>() as u64 > there.mapped() || there.exists(offset + size_of::<S>() as u64).is_err() {
            // Mapped by somebody who saw less of it.
            kept.push((None, Arc::clone(&self.segment)));
            return self;
        }
        // SAFETY: inside the mapping, just checked; the same file, so the same bytes at the same alignment.
        let shared = unsafe { NonNull::new_unchecked(there.address(offset).cast::<S>()) };
        Home { shared, registry: self.registry, segment: Arc::clone(there) }
    }

    /// The file that it lies in.
    pub(super) fn path(&self) -> &std::path::Path {
        self.segment.path()
    }

    /// A part of it.
    pub(super) fn part<P>(self, of: impl Fn(&S) -> &P) -> Home<P> {
        Home { shared: NonNull::from(of(self.shared())), registry: self.registry, segment: self.segment }
    }

    #[inline]
    pub(super) fn shared(&self) -> &S {
        // SAFETY: checked when opened; mapped as long as the segment is.
        unsafe { self.shared.as_ref() }
    }

    #[inline]
    pub(super) fn registry(&self) -> &'static Registry {
        self.registry
    }

    /// The file that it lies in.
    #[inline]
    pub(super) fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// The calling thread and its token.
    #[inline]
    pub(super) fn me(&self) -> Result<Me, Error> {
        self.registry.me()
    }
}

const fn tail_of<S>() -> u64 {
    BODY + size_of::<S>() as u64
}

/// Words of a file, checked against its size.
pub(super) fn words_at(segment: &Segment, offset: u64, words: usize) -> Result<&[AtomicU32], Error> {
    let end = (words as u64).checked_mul(4).and_then(|bytes| offset.checked_add(bytes));
    let end = end.filter(|_| offset.is_multiple_of(4)).ok_or_else(|| segment.damaged("a number of words"))?;
    segment.exists(end)?;
    // SAFETY: inside the mapping and the file, which `exists` has checked; aligned, as the base is page-aligned; atomics.
    Ok(unsafe { std::slice::from_raw_parts(segment.address(offset).cast::<AtomicU32>(), words) })
}
