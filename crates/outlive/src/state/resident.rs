//! Bringing a state's memory in before it is used.
//!
//! | step of `Writer::prefault` | died just after |
//! | --- | --- |
//! | the file has one buffer more | the next writer makes it again |
//! | `count` counts it | it stays |

use super::Writer;
use super::inner::Inner;
use super::layout::{BUFFERS_AT, MOST_BUFFERS, buffer_bytes};
use crate::segment::Resident;
use crate::shim::Ordering;
use crate::sys::resident::Residency;
use crate::{Error, Payload, SendError};

impl Resident for Inner {
    fn make_resident(&self, residency: Residency) -> Result<(), Error> {
        let buffers = &self.buffers;
        let count = buffers.head().count.load(Ordering::Acquire).min(MOST_BUFFERS);
        let bytes = u64::from(count) * buffer_bytes(buffers.capacity() as u64);
        buffers.segment.make_part_resident(0, BUFFERS_AT + bytes, residency)
    }
}

impl<M: Payload + ?Sized> Writer<M> {
    /// Makes buffers for so many readers that are in `get` at the same time, 64 at most, and brings
    /// the state's memory in, so that setting a value is neither a page fault nor a system call, as
    /// long as no more of them are there at a time, and none sleeps.
    ///
    /// A reader that is stopped in `get` may keep a buffer from being written. A set that finds no
    /// other one makes one more, which this does beforehand. Other processes see the memory in
    /// mappings of their own: each reader calls [`Domain::prefault`](crate::Domain::prefault) after
    /// this.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-writer-prefault-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::state::State;
    /// let pose = State::<[f64; 6]>::open_or_create(&domain, "pose")?;
    /// let mut writer = pose.writer()?;
    /// writer.prefault(8)?;
    /// writer.set(&[1.0; 6])?;                     // no page of it is new, however many readers pause
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SendError::NoSpace`] when there are to be more than 64 readers, or the file system has no
    /// room for all of it; what was made stays. [`SendError::NotOwner`], [`SendError::System`].
    ///
    /// # If a process dies
    /// If this process dies during the call, the state has more buffers than before; its next writer
    /// uses them.
    pub fn prefault(&mut self, readers: usize) -> Result<(), SendError> {
        let inner = self.raw.enter()?;
        let no_space = |wanted| SendError::NoSpace { wanted, held: 0 };
        // One for each of them, the latest, and one to write.
        let wanted = u32::try_from(readers.saturating_add(2)).unwrap_or(u32::MAX);
        if wanted > MOST_BUFFERS {
            let bytes = buffer_bytes(inner.buffers.capacity() as u64);
            return Err(no_space(u64::from(wanted - MOST_BUFFERS).saturating_mul(bytes)));
        }
        inner.make_buffers(wanted).map_err(|error| match error {
            Error::NoSpace { wanted, .. } => no_space(wanted),
            other => other.into(),
        })?;
        Ok(inner.make_resident(Residency::Prefault)?)
    }
}
