//! What can be asked of any primitive from outside, whatever it is: who holds it, and to let go of the dead.

use super::ceiling_mutex::RawCeiling;
use super::pi_mutex::RawPi;
use super::raw_condvar::RawCondvar;
use super::raw_event::RawEvent;
use super::raw_mutex::RawMutex;
use super::raw_once::RawOnce;
use super::raw_rw_lock::RawRwLock;
use super::record::{Place, places};
use super::{Holder, barrier, semaphore};
use crate::liveness::{Me, Registry};
use crate::segment::{BODY, Segment};
use crate::{Error, Kind};

/// How a lock or another primitive stands.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LockDetail {
    /// Who holds it, dead or alive: a lock's owner, a lock's readers, who has permits, who takes part.
    pub holders: Vec<Holder>,
    /// A holder gave it up.
    pub not_recoverable: bool,
    /// What it is doing, in a few words, where that is more than being held or free.
    pub state: Option<String>,
    /// Numbers that are particular to its kind, by name.
    pub figures: Vec<(&'static str, u64)>,
}

/// See the file's head. Implemented beside each primitive, by its shared words.
pub(crate) trait Inspect {
    /// How it stands just now.
    fn look(&self, registry: &'static Registry) -> LockDetail;

    /// Takes the names of the dead out of its claims, so that whoever comes next is told what they would have been told
    /// anyway; a dry run only counts. How many claims there were.
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

/// The primitive of that kind which lies at `offset`; `None` for what is none.
fn at<'a>(segment: &'a Segment, offset: u64, kind: Kind) -> Result<Option<Box<dyn Inspect + 'a>>, Error> {
    Ok(match kind {
        Kind::Mutex => Some(Box::new(segment.at::<RawMutex>(offset)?)),
        Kind::RwLock => Some(Box::new(segment.at::<RawRwLock>(offset)?)),
        Kind::Condvar => Some(Box::new(segment.at::<RawCondvar>(offset)?)),
        Kind::Event | Kind::Latch => Some(Box::new(segment.at::<RawEvent>(offset)?)),
        Kind::Once => Some(Box::new(segment.at::<RawOnce>(offset)?)),
        Kind::Semaphore => semaphore::Seen::at(segment, offset)?.map(|seen| Box::new(seen) as _),
        Kind::Barrier => Some(Box::new(barrier::Seen::at(segment, offset)?)),
        Kind::PiMutex => Some(Box::new(segment.at::<RawPi>(offset)?)),
        Kind::CeilingMutex => Some(Box::new(segment.at::<RawCeiling>(offset)?)),
        Kind::Registry
        | Kind::LockOrder
        | Kind::Record
        | Kind::Queue
        | Kind::Pool
        | Kind::Topic
        | Kind::State
        | Kind::Service => None,
    })
}

/// A primitive, and where in its file it begins.
type Placed<'a> = (u64, Box<dyn Inspect + 'a>);

/// All primitives in a file, and where each begins: the one that it is, or those inside a record.
pub(crate) fn primitives(segment: &Segment, kind: Kind) -> Result<Vec<Placed<'_>>, Error> {
    let places = match kind {
        Kind::Record => places(segment)?,
        kind => vec![Place { offset: 0, kind, number: 0 }],
    };
    let mut found = Vec::new();
    for place in places {
        let offset = BODY + place.offset as u64;
        found.extend(at(segment, offset, place.kind)?.map(|primitive| (offset, primitive)));
    }
    Ok(found)
}
