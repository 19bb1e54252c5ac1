//! Outlive's pool, with a cache for each thread and without.

use super::allocator::{Allocator, Heap};
use super::{Field, Work};
use crate::harness::error::Error;
use crate::harness::round::Stage;
use crate::harness::scratch::Scratch;
use ::outlive::Domain;
use ::outlive::pool::{Object, Offset, Pool, PoolOptions};
use std::fmt::Display;

/// Adds the rows.
pub(super) fn add(field: &mut Field) {
    field.add::<Ours<true>>();
    field.add::<Ours<false>>();
}

/// The row; `outlive_uncached` if its threads keep nothing.
struct Ours<const CACHED: bool>;

/// A domain's folder, and how the pool in it is opened.
struct Place {
    scratch: Scratch,
    options: PoolOptions,
}

/// A process's view.
struct View {
    pool: Pool,
}

/// Turns the pool's error into a fault: no process dies in this benchmark, and there is room.
#[cold]
fn refused(error: impl Display) -> Error {
    Error::Wrong(format!("outlive's pool: {error}"))
}

impl<const CACHED: bool> Allocator for Ours<CACHED> {
    const NAME: &'static str = if CACHED { "outlive" } else { "outlive_uncached" };
    const CROSSES: bool = true;
    type Place = Place;
    type Heap<'place> = View;

    fn place(stage: &Stage, work: &Work) -> Result<Place, Error> {
        // What a cache holds by default.
        const CACHE: u64 = 16 << 20;
        // Twice what is in use at once, for the waste of the classes, and what may lie in caches.
        let needed = work.objects() as u64 * work.bytes as u64;
        let max_bytes = 2 * needed + work.workers as u64 * 4 * CACHE + (256 << 20);
        let cache_bytes = if CACHED { CACHE } else { 0 };
        let options = Pool::options().max_bytes(max_bytes.min(8 << 30)).cache_bytes(cache_bytes);
        Ok(Place { scratch: stage.scratch.inner(Self::NAME)?, options })
    }

    fn open(place: &Place) -> Result<View, Error> {
        let domain = Domain::open_or_create_at(place.scratch.path())
            .map_err(|error| Error::told("opening a domain", error))?;
        let pool = place
            .options
            .open_or_create(&domain, "pool")
            .map_err(|error| Error::told("opening a pool", error))?;
        Ok(View { pool })
    }
}

impl Heap for View {
    type Object<'heap> = Object<'heap>;

    #[inline]
    fn alloc(&self, bytes: usize) -> Result<Object<'_>, Error> {
        self.pool.alloc(bytes).map_err(refused)
    }

    #[inline]
    fn start(object: &mut Object<'_>) -> *mut u8 {
        object.as_mut_ptr()
    }

    #[inline]
    fn free(&self, object: Object<'_>) -> Result<(), Error> {
        object.free().map_err(refused)
    }

    #[inline]
    fn offer(&self, object: Object<'_>) -> Result<u64, Error> {
        object.into_offset().map(u64::from).map_err(refused)
    }

    #[inline]
    fn claim(&self, number: u64) -> Result<Object<'_>, Error> {
        self.pool.claim(Offset::from(number)).map_err(refused)
    }

    fn flush(&self) -> Result<(), Error> {
        self.pool.flush();
        Ok(())
    }

    fn gc(&self) -> Result<(), Error> {
        self.pool.gc().map(drop).map_err(refused)
    }
}
