//! A primitive of any kind: where its shared words lie, in a file of its own or inside a user's
//! record, and what a process can ask of it from outside: its holders, and to free the claims of
//! the dead.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use super::Holder;
use super::ceiling_mutex::RawCeiling;
use super::embedded::{Place, places};
use super::raw::barrier::BarrierWords;
use super::raw::condvar::RawCondvar;
use super::raw::event::{EventWord, RawEvent};
use super::raw::mutex::RawMutex;
use super::raw::once::RawOnce;
use super::raw::pi::RawPi;
use super::raw::reentrant::RawReentrant;
use super::raw::rw_lock::RawRwLock;
use super::semaphore::SemaphoreWords;
use super::{barrier, semaphore};
use crate::liveness::{Me, Registry};
use crate::segment::{BODY, Header, Opening, Segment, SharedLayout, Spec, note_opened};
use crate::shim::{AtomicU32, Ordering};
use crate::wake::SpinWait;
use crate::{Domain, Error, Kind};

/// The shared words of a primitive, kept mapped, and what a process needs to use them.
///
/// Every handle of a primitive, named or embedded, consists of this and some memory of its own.
pub struct Handle<S> {
    shared: NonNull<S>,
    site: Site,
}

/// Where a handle's words lie, whose tokens they name, and how the handle waits.
pub struct Site {
    pub(super) registry: &'static Registry,
    pub(super) segment: Arc<Segment>,
    pub(super) spin_wait: SpinWait,
}

impl Site {
    fn new(registry: &'static Registry, segment: Arc<Segment>) -> Site {
        Site { registry, segment, spin_wait: registry.spin_wait() }
    }

    /// Returns that of a file that was just opened.
    pub(super) fn opened(registry: &'static Registry, segment: Segment) -> Site {
        let segment = Arc::new(segment);
        note_opened(registry.index, &segment);
        Site::new(registry, segment)
    }
}

/// What knows where its words lie: the handle of a primitive, named or embedded, or of a record.
pub trait Sited {
    #[doc(hidden)]
    fn site(&self) -> &Site;
}

// SAFETY: `Handle` gives no more than `&S`, and `S: Sync`.
unsafe impl<S: Sync> Send for Handle<S> {}
// SAFETY: `Handle` gives no more than `&S`, and `S: Sync`.
unsafe impl<S: Sync> Sync for Handle<S> {}

impl<S> Clone for Handle<S> {
    fn clone(&self) -> Handle<S> {
        let Site { registry, segment, .. } = &self.site;
        Handle { shared: self.shared, site: Site::new(registry, Arc::clone(segment)) }
    }
}

/// The type of the value inside, as the file's header names it.
pub(super) struct TypeOf {
    name: &'static str,
    size: u64,
    align: u64,
}

impl TypeOf {
    /// Returns the type of a primitive that guards a `T`.
    pub(super) fn a<T>() -> TypeOf {
        TypeOf {
            name: std::any::type_name::<T>(),
            size: size_of::<T>() as u64,
            align: align_of::<T>() as u64,
        }
    }

    /// Returns the type of a primitive without a value, which comes in several sorts.
    pub(super) fn named(name: &'static str) -> TypeOf {
        TypeOf { name, size: 0, align: 0 }
    }

    /// Returns the type of a primitive without a value.
    pub(super) fn nothing() -> TypeOf {
        TypeOf { name: "", size: 0, align: 0 }
    }
}

impl<S> Handle<S> {
    /// Opens the primitive of that name or makes it, as `opening` says: zeroed, then filled in by
    /// `init`, which also gets the file's header, before any other process can see it.
    pub(super) fn open_as(
        domain: &Domain,
        name: &str,
        opening: Opening,
        kind: Kind,
        value: TypeOf,
        init: impl Fn(&mut S, &Header),
    ) -> Result<Handle<S>, Error>
    where
        S: SharedLayout,
    {
        let init = |shared: &mut S, header: &Header, _: &[AtomicU32]| init(shared, header);
        Handle::open_with_tail(domain, name, opening, (kind, value), 0, init)
    }

    /// Opens it as [`Handle::open_as`] does, with so many words behind it if it makes the file;
    /// [`Handle::tail`] says how many an existing file has.
    pub(super) fn open_with_tail(
        domain: &Domain,
        name: &str,
        opening: Opening,
        of: (Kind, TypeOf),
        words: usize,
        init: impl Fn(&mut S, &Header, &[AtomicU32]),
    ) -> Result<Handle<S>, Error>
    where
        S: SharedLayout,
    {
        let opened = Handle::open_prepared(domain, name, opening, of, words, init, |_, _| Ok(()));
        opened.map(|(handle, ())| handle)
    }

    /// Opens it as [`Handle::open_with_tail`] does. `prepare` does for the handle what may fail: a
    /// new file has no name yet.
    pub(super) fn open_prepared<L>(
        domain: &Domain,
        name: &str,
        opening: Opening,
        (kind, value): (Kind, TypeOf),
        words: usize,
        init: impl Fn(&mut S, &Header, &[AtomicU32]),
        prepare: impl Fn(&S, &Segment) -> Result<L, Error>,
    ) -> Result<(Handle<S>, L), Error>
    where
        S: SharedLayout,
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
            description: None,
        };
        let init = |segment: &Segment| {
            segment.at::<S>(BODY)?;
            // SAFETY: `at` has checked the place; the file has no name yet, so this reference is
            // the only one; zeroed bytes are a value of every `SharedLayout` type.
            init(
                unsafe { &mut *segment.address(BODY).cast::<S>() },
                segment.header(),
                words_at(segment, tail_of::<S>(), words)?,
            );
            Ok(())
        };
        let prepare = |segment: &Segment| {
            let shared = segment.at::<S>(BODY)?;
            Ok((NonNull::from(shared), prepare(shared, segment)?))
        };
        let (segment, (shared, prepared)) =
            domain.open_prepared(name, opening, &spec, init, prepare)?;
        super::order::opened(domain);
        let site = Site::opened(domain.registry(), segment);
        Ok((Handle { shared, site }, prepared))
    }

    /// Returns so many words behind the shared ones, checked against the file's size. For named
    /// primitives only.
    pub(super) fn tail(&self, words: usize) -> Result<NonNull<[AtomicU32]>, Error> {
        words_at(&self.site.segment, tail_of::<S>(), words).map(NonNull::from)
    }

    /// Returns the number that [`note_beginning`] noted; `None` in a file of an older build.
    pub(super) fn beginning(&self) -> Option<u32> {
        let noted = self.site.segment.header().extra[0].load(Ordering::Relaxed);
        noted.checked_sub(1).and_then(|number| u32::try_from(number).ok())
    }

    pub(super) fn damaged(&self, what: &'static str) -> Error {
        self.site.segment.damaged(what)
    }

    /// Returns the handle of what lies inside a file that another handle keeps open, too.
    pub(super) fn inside(
        shared: &S,
        registry: &'static Registry,
        segment: &Arc<Segment>,
    ) -> Handle<S> {
        let site = Site::new(registry, Arc::clone(segment));
        Handle { shared: NonNull::from(shared), site }
    }

    /// Returns its file's device and inode.
    pub(super) fn file(&self) -> Result<(u64, u64), Error> {
        self.site.segment.facts().map(|facts| facts.identity())
    }

    /// Keeps the file mapped until the process ends, in one place however often it is opened: the
    /// kernel or libc may look there after this process has. `number`: what [`Handle::file`]
    /// returned, if it did.
    pub(super) fn kept(self, number: Option<(u64, u64)>) -> Handle<S> {
        type Kept = (Option<(u64, u64)>, Arc<Segment>);
        // While the file is mapped, no other file gets its inode number.
        static KEPT: Mutex<Vec<Kept>> = Mutex::new(Vec::new());
        let mut kept = KEPT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let known = kept.iter().find(|(known, there)| {
            known.is_some() && *known == number || Arc::ptr_eq(there, &self.site.segment)
        });
        let Some((_, there)) = known else {
            kept.push((number, Arc::clone(&self.site.segment)));
            return self;
        };
        // SAFETY: offset 0 lies inside every mapping (segment.rs), and the pointer is not read.
        let offset = self.shared.as_ptr() as u64 - unsafe { self.site.segment.address(0) } as u64;
        if offset + size_of::<S>() as u64 > there.mapped()
            || there.exists(offset + size_of::<S>() as u64).is_err()
        {
            // The kept mapping is shorter.
            kept.push((None, Arc::clone(&self.site.segment)));
            return self;
        }
        // SAFETY: the place is inside the kept mapping, as just checked; it maps the same file, so
        // the same bytes, equally aligned.
        let shared = unsafe { NonNull::new_unchecked(there.address(offset).cast::<S>()) };
        Handle { shared, site: Site { segment: Arc::clone(there), ..self.site } }
    }

    /// Returns the handle of a part of it.
    pub(super) fn part<P>(self, of: impl Fn(&S) -> &P) -> Handle<P> {
        Handle { shared: NonNull::from(of(self.shared())), site: self.site }
    }

    #[inline]
    pub(super) fn shared(&self) -> &S {
        // SAFETY: `open` or `inside` got a checked place, and `segment` keeps it mapped.
        unsafe { self.shared.as_ref() }
    }

    #[inline]
    pub(super) fn site(&self) -> &Site {
        &self.site
    }

    #[inline]
    pub(super) fn registry(&self) -> &'static Registry {
        self.site.registry
    }

    /// Returns the file.
    #[inline]
    pub(super) fn segment(&self) -> &Arc<Segment> {
        &self.site.segment
    }

    /// Returns the calling thread and its token.
    #[inline]
    pub(super) fn me(&self) -> Result<Me, Error> {
        self.site.registry.me()
    }
}

/// Notes what a primitive that counts begins with, in the header of its new file: its own words
/// change, and an opener that asks for another number must be told.
pub(super) fn note_beginning(header: &Header, number: u32) {
    // Relaxed: the link that gives the file its name orders it before any opener.
    header.extra[0].store(u64::from(number) + 1, Ordering::Relaxed);
}

const fn tail_of<S>() -> u64 {
    BODY + size_of::<S>() as u64
}

/// Returns words of a file, checked against its size.
pub(super) fn words_at(
    segment: &Segment,
    offset: u64,
    words: usize,
) -> Result<&[AtomicU32], Error> {
    let end = (words as u64).checked_mul(4).and_then(|bytes| offset.checked_add(bytes));
    let end = end
        .filter(|_| offset.is_multiple_of(4))
        .ok_or_else(|| segment.damaged("a number of words"))?;
    segment.exists(end)?;
    // SAFETY: `exists` has checked mapping and file; the base is page-aligned, `offset` was checked
    // above; atomics.
    Ok(unsafe { std::slice::from_raw_parts(segment.address(offset).cast::<AtomicU32>(), words) })
}

/// Describes the state of a lock or another primitive.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LockDetail {
    /// The holders, dead or alive: a lock's owner or readers, the holders of permits, a barrier's
    /// participants.
    pub holders: Vec<Holder>,
    /// Whether a holder marked it not recoverable.
    pub not_recoverable: bool,
    /// Its state in a few words, where that is more than held or free.
    pub state: Option<String>,
    /// Figures that only its kind has, by name.
    pub figures: Vec<(&'static str, u64)>,
}

/// What a process can ask of a primitive from outside. Each primitive implements it for its shared
/// words.
pub trait Inspect {
    /// Returns its state just now.
    fn look(&self, registry: &'static Registry) -> LockDetail;

    /// Takes the names of the dead out of its claims, and returns how many there were; the next
    /// process is told what it would have been told anyway. A dry run only counts.
    fn sweep(&self, me: Me, dry_run: bool) -> u32;
}

impl<T: Inspect> Inspect for &T {
    fn look(&self, registry: &'static Registry) -> LockDetail {
        (**self).look(registry)
    }

    fn sweep(&self, me: Me, dry_run: bool) -> u32 {
        (**self).sweep(me, dry_run)
    }
}

/// A primitive as a process sees it from outside; `None` for one that does not know its size yet,
/// and so has no claims.
pub type Seen<'a> = Result<Option<Box<dyn Inspect + 'a>>, Error>;

/// The shared words of one primitive, wherever they lie: in a file of their own, or in a record.
pub trait Primitive: SharedLayout + Sized + 'static {
    /// The kinds that have such words.
    const KINDS: &[Kind];

    /// Returns the bytes and alignment of the words in a record; `None` for a number that this
    /// kind cannot have. The number: a semaphore's room, a barrier's seats, a mutex's ceiling.
    fn shape(_number: u32) -> Option<(usize, usize)> {
        Some((size_of::<Self>(), align_of::<Self>()))
    }

    /// Writes the number into the words.
    fn note(&self, _number: u32) {}

    /// Returns the number that [`Primitive::note`] wrote; 0: none yet.
    fn noted(&self) -> u32 {
        0
    }
}

/// Returns the primitive at `offset` for a process that looks from outside: its words say all.
fn seen<P: Primitive + Inspect>(segment: &Segment, offset: u64) -> Seen<'_> {
    Ok(Some(Box::new(segment.at::<P>(offset)?)))
}

/// What to know of a kind of primitive whose words have no type at hand.
#[derive(Clone, Copy)]
pub(super) struct KindOf {
    pub(super) shape: fn(u32) -> Option<(usize, usize)>,
    pub(super) note: fn(&Segment, u64, u32) -> Result<(), Error>,
    pub(super) noted: fn(&Segment, u64) -> Result<u32, Error>,
    seen: fn(&Segment, u64) -> Seen<'_>,
}

impl KindOf {
    const fn of<P: Primitive>(seen: fn(&Segment, u64) -> Seen<'_>) -> KindOf {
        KindOf {
            shape: P::shape,
            note: |segment, offset, number| {
                segment.at::<P>(offset)?.note(number);
                Ok(())
            },
            noted: |segment, offset| Ok(segment.at::<P>(offset)?.noted()),
            seen,
        }
    }

    /// Returns what to know of that kind; `None` if it is no primitive.
    pub(super) fn kind(kind: Kind) -> Option<KindOf> {
        const fn entry<P: Primitive + Inspect>() -> (&'static [Kind], KindOf) {
            (P::KINDS, KindOf::of::<P>(seen::<P>))
        }
        const ALL: [(&[Kind], KindOf); 11] = [
            entry::<RawMutex>(),
            entry::<RawReentrant>(),
            entry::<RawRwLock>(),
            entry::<RawCondvar>(),
            entry::<RawEvent>(),
            entry::<EventWord>(),
            entry::<RawOnce>(),
            entry::<RawPi>(),
            entry::<RawCeiling>(),
            (SemaphoreWords::KINDS, KindOf::of::<SemaphoreWords>(semaphore::seen)),
            (BarrierWords::KINDS, KindOf::of::<BarrierWords>(barrier::seen)),
        ];
        ALL.iter().find(|(kinds, _)| kinds.contains(&kind)).map(|(_, known)| *known)
    }
}

/// A primitive, and where in its file it begins.
type Placed<'a> = (u64, Box<dyn Inspect + 'a>);

/// Returns all primitives in a file, and where each begins: the named one, or those inside a
/// record.
pub(crate) fn primitives(segment: &Segment, kind: Kind) -> Result<Vec<Placed<'_>>, Error> {
    let places = match kind {
        Kind::Record => places(segment)?,
        kind => vec![Place { offset: 0, kind, number: 0 }],
    };
    let mut found = Vec::new();
    for place in places {
        let offset = BODY + place.offset as u64;
        if let Some(known) = KindOf::kind(place.kind) {
            found.extend((known.seen)(segment, offset)?.map(|primitive| (offset, primitive)));
        }
    }
    Ok(found)
}
