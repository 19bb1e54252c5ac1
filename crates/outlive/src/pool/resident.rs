//! Bringing a pool's memory in before it is used.

use super::error::PoolError;
use super::file::Plan;
use super::inner::Inner;
use super::pool::Pool;
use crate::Error;
use crate::segment::Resident;
use crate::shim::Ordering;
use crate::sys::resident::Residency;

impl Resident for Inner {
    fn make_resident(&self, residency: Residency) -> Result<(), Error> {
        let file = &self.file;
        let segment = &file.segment;
        segment.make_part_resident(0, Plan::INITIAL, residency)?;
        let rows = file.header().used_rows.load(Ordering::Acquire).min(file.rows);
        segment.make_part_resident(file.rows_at, u64::from(rows) * super::file::ROW, residency)?;
        file.heap.make_resident(segment, residency, |from, bytes| {
            // What a debug mode keeps out of reach stays so: no access comes there.
            match self.has_modes() {
                true => Ok(()),
                false => segment.make_part_resident(from, bytes, residency),
            }
        })
    }
}

impl Pool {
    /// Makes so many objects of so many bytes, brings them in, and frees them, so that the calling
    /// thread takes and frees as many at a time without a page fault or a system call.
    ///
    /// The thread's own cache keeps what its bound allows, and the pool the rest. Each thread calls
    /// it that must not wait. Larger objects and more of them still work: the pool grows as it
    /// always does. [`Pool::gc`] gives pages back, those of free objects among them: it is for
    /// another time.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-pool-prefault-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::pool::Pool;
    /// let pool = Pool::open_or_create(&domain, "pool")?;
    /// pool.prefault(100, 1000)?;
    /// let mut object = pool.alloc(1000)?;         // no page of it is new
    /// object.fill(7);
    /// # drop(object);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Pool::alloc`].
    ///
    /// # If a process dies
    /// If this process dies during the call, the objects that it had are free; their pages stay.
    pub fn prefault(&self, objects: usize, bytes: usize) -> Result<(), PoolError> {
        // Not of so many at once: a number that no memory has room for is an error of the pool.
        let mut held = Vec::new();
        // A cache learns from what it lacks how many objects it should keep.
        for _ in 0..4 {
            for _ in 0..objects {
                held.push(self.alloc(bytes)?);
            }
            held.clear();
        }
        Ok(self.inner.make_resident(Residency::Prefault)?)
    }
}
