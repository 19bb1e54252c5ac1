//! Bringing memory in before it is used, and keeping it there: for threads that must not wait for a
//! page.
//!
//! Nothing in here is shared: a process that dies half way through has mapped some pages, and they
//! go with it.

use super::Domain;
use crate::Error;
use crate::segment::{lock_error, make_opened_resident};
use crate::sys::Errno;
use crate::sys::resident::{self, Failure, Residency};

impl Domain {
    /// Brings into memory what this process has open in the domain, and what the calling thread
    /// needs itself, so that its later operations are no page faults.
    ///
    /// That is: the tokens of the domain, of which the thread and the process get theirs; all things
    /// that this process has open here, as far as their files have pages now; so many bytes of the
    /// thread's stack below the caller; and the code of the program and of this library. Nothing is
    /// written, so other processes notice nothing.
    ///
    /// Each thread calls it that must not wait, after it has opened what it uses, and after the
    /// other processes have made what they make: what is opened or made later has pages of its own.
    /// What grows as it is used is made to its full size before, by
    /// [`Publisher::prefault`](crate::topic::Publisher::prefault),
    /// [`Queue::prefault`](crate::queue::Queue::prefault),
    /// [`Pool::prefault`](crate::pool::Pool::prefault),
    /// [`Writer::prefault`](crate::state::Writer::prefault),
    /// [`JobQueue::prefault`](crate::jobs::JobQueue::prefault) and
    /// [`Service::prefault`](crate::rpc::Service::prefault). The page "A control loop without page
    /// faults" of the book has the order, and lists the operations that stay free of system calls.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-prefault-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::{sync::Mutex, topic::Topic};
    /// let mode = Mutex::<u32>::options(0).open_or_create(&domain, "mode")?;
    /// let commands = Topic::<[f64; 6]>::open_or_create(&domain, "commands")?;
    /// let publisher = commands.publisher()?;
    ///
    /// domain.prefault(64 << 10)?;
    /// for _ in 0..1000 {
    ///     let mode = *mode.lock().unwrap();
    ///     publisher.publish(&[f64::from(mode); 6])?;
    /// }
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoSpace`] when the file system has no room for pages that are to be there;
    /// [`Error::InvalidOption`] when the thread's stack may not become so long;
    /// [`Error::NoToken`], and errors of the system.
    ///
    /// # If a process dies
    /// If this process dies during the call, pages that were made in files stay there; nothing else
    /// is left of it.
    pub fn prefault(&self, stack_bytes: usize) -> Result<(), Error> {
        self.make_resident(stack_bytes, Residency::Prefault)
    }

    /// Brings the same into memory as [`Domain::prefault`] does, and locks all of it but the code
    /// there, so that the kernel does not take it away when memory is short: mlock(2).
    ///
    /// A file's pages stay locked as long as this process has the thing open; the stack's, until the
    /// thread ends. The library never locks what it has only reserved, so what counts against
    /// `RLIMIT_MEMLOCK` is what is in use, however large the things may become.
    ///
    /// # Errors
    /// The errors of [`Domain::prefault`]; [`Error::System`] when the kernel does not lock that
    /// much: the text names `RLIMIT_MEMLOCK`.
    ///
    /// # If a process dies
    /// If this process dies, the kernel unlocks what it had locked.
    pub fn lock_memory(&self, stack_bytes: usize) -> Result<(), Error> {
        self.make_resident(stack_bytes, Residency::Lock)
    }

    fn make_resident(&self, stack_bytes: usize, residency: Residency) -> Result<(), Error> {
        let registry = self.inner.registry;
        registry.process_token()?;
        registry.make_resident(residency)?;
        make_opened_resident(registry.index, residency)?;
        resident::prefault_code();
        // Not by what the errno means of a file: it is not the domain that does not exist, if the C
        // library finds no stack where there is no `/proc`.
        let failed = |errno: Errno| Error::System {
            doing: "prefault a stack for",
            path: self.path().to_path_buf(),
            errno: errno.raw_os_error(),
        };
        if !resident::prefault_stack(stack_bytes).map_err(failed)? {
            return Err(Error::InvalidOption {
                what: "the bytes of stack",
                wanted: stack_bytes.to_string().into(),
                why: "less than the thread's stack has left ('ulimit -s')",
            });
        }
        if residency == Residency::Lock {
            resident::lock_stack(stack_bytes).map_err(|failure| match failure {
                Failure::Map(errno) | Failure::Lock(errno) => lock_error(self.path(), errno),
            })?;
        }
        Ok(())
    }
}
