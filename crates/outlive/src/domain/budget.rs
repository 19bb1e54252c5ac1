//! A domain's budget: `segment/budget.rs` keeps it.

use super::Domain;
use crate::Error;

impl Domain {
    /// Gives the domain a budget: the most bytes of memory that its files take together. `None` takes
    /// the budget away. It holds at once, for all processes of all users, whatever their language, and
    /// as long as the domain is there.
    ///
    /// A process that needs more pages asks first what the domain's files take. What would exceed the
    /// budget is [`Error::NoSpace`], as on a full file system, and what is there stays usable. A budget
    /// below what is there frees nothing. The default sizes of queues, topics and pools become a quarter
    /// of the budget.
    ///
    /// In a domain with a budget, each growth of a file costs a look at each file of the domain: some
    /// microseconds, and one more for every one or two files.
    ///
    /// The budget is kept by the domain's processes, so it needs no rights of root's, and holds back no
    /// process that means harm. `outlive domain create --budget` gives a domain a file system of its
    /// own, where the kernel keeps the budget. Files whose names have been removed do not count, though
    /// processes may still use them.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-budget-{}", std::process::id()));
    /// use outlive::Error;
    /// use outlive::pool::Pool;
    ///
    /// let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// domain.set_max_bytes(Some(16 << 20))?;
    /// let pool = Pool::options().max_bytes(1 << 30).open_or_create(&domain, "frames")?;
    /// assert!(pool.alloc(32 << 20).is_err());
    /// assert!(domain.allocated_bytes()? <= 16 << 20);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// Errors of the system, as where the folder may not be written.
    ///
    /// # If a process dies
    /// The budget is what it was, or what it was to be. No process keeps a count that a death could
    /// leave wrong. While a process is *stopped* in the midst of asking for pages, the others no longer
    /// take turns with it: the domain may then exceed its budget by what a few of them ask for at the
    /// same moment.
    pub fn set_max_bytes(&self, most: Option<u64>) -> Result<(), Error> {
        self.folder().set_max_bytes(most)
    }

    /// Returns the domain's budget, if [`Domain::set_max_bytes`] gave it one.
    ///
    /// # Errors
    /// [`Error::Damaged`] when the budget cannot be read as one; errors of the system.
    pub fn max_bytes(&self) -> Result<Option<u64>, Error> {
        self.folder().max_bytes()
    }

    /// Returns how many bytes of memory the domain's files take: each page that the kernel has given
    /// them, in memory or swapped out.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn allocated_bytes(&self) -> Result<u64, Error> {
        self.folder().allocated_bytes()
    }
}
