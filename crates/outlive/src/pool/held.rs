//! Who took what is still held.

use super::fault::Caller;
use super::poison::Note;
use super::pool::Pool;
use super::redzone::{TAIL, caller_from};
use super::tag::Tag;
use crate::Error;
use crate::claim::Holder;
use crate::shim::Ordering;

/// An object that somebody has in use, or that is handed over and not claimed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Held {
    /// Its number in the pool, by which all processes name it.
    pub object: u32,
    /// The process that has it, or to whom it is offered; `None`: offered to anybody.
    pub who: Option<Holder>,
    /// Whether it is handed over and not claimed yet.
    pub is_offered: bool,
    /// Bytes that it takes.
    pub bytes: u64,
    /// Who took it out of the pool, which may be another process than has it now. Known of what was taken with
    /// [`Modes::CALLER`](super::Modes::CALLER) or [`Modes::TAG`](super::Modes::TAG), unless it was written over.
    pub caller: Option<Caller>,
}

impl Pool {
    /// All objects that are not free, nor in a cache: who has each, and who took it, as far as the modes had it noted.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-held-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_at(&folder)?;
    /// # use outlive::pool::{Modes, Pool, PoolOptions};
    /// let pool = Pool::open(&domain, "frames", PoolOptions { modes: Modes::CALLER, ..PoolOptions::default() })?;
    /// let kept = pool.alloc(100)?;
    /// let held = pool.held()?;
    /// let caller = held[0].caller.as_ref().expect("noted");
    /// assert_eq!((caller.pid, caller.len), (std::process::id(), 100));
    /// println!("{caller}");
    /// # drop(kept);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::NoSpace`].
    ///
    /// # If a process dies
    /// What it had is listed as its, until somebody collects it.
    pub fn held(&self) -> Result<Vec<Held>, Error> {
        let (file, registry, mut all) = (&self.inner.file, self.inner.registry, Vec::new());
        file.heap.look_at_all(&file.segment, &mut |_, _, object, tag| {
            let (who, is_offered) = match tag {
                Tag::Owned(id) => (Some(id), false),
                Tag::Offered { to, .. } => (to, true),
                _ => return,
            };
            let note = file.record(object).map_or(0, |record| record.note.load(Ordering::Relaxed));
            let at = object.capacity.checked_sub(TAIL as u64);
            let caller = at.filter(|_| matches!(Note::decode(note), Note::Dressed(_))).and_then(|at| {
                let mut bytes = [0; TAIL];
                // By the file: in this process's mapping it may be out of reach (`guard_pages.rs`), and another's by now.
                file.segment.read(object.offset + at, &mut bytes).ok()?;
                // Freed and taken meanwhile, it has none or another one, whole.
                caller_from(&bytes, object.reference)
            });
            let who = who.map(|id| Holder::of(registry, id));
            all.push(Held { object: object.reference, who, is_offered, bytes: object.capacity, caller });
        })?;
        Ok(all)
    }
}
