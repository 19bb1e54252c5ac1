//! Notices that a listener has taken.

use std::fmt;

use super::ids::IDS;

/// Holds how many notices of each number a listener has been told at once.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-notices-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::notify::{Listener, Notifier};
/// let mut listener = Listener::open_or_create(&domain, "doors")?;
/// let notifier = Notifier::open_or_create(&domain, "doors")?;
/// notifier.notify(5)?;
/// notifier.notify(7)?;
/// notifier.notify(5)?;
/// let notices = listener.wait()?;
/// assert_eq!((notices.count(5), notices.count(6)), (2, 0));
/// for (id, count) in &notices {
///     println!("{id} happened {count} times");
/// }
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Notices {
    bits: u64,
    counts: [u64; IDS],
}

impl Default for Notices {
    fn default() -> Notices {
        Notices { bits: 0, counts: [0; IDS] }
    }
}

impl Notices {
    /// Adds some notices of a number below [`IDS`].
    pub(super) fn add(&mut self, id: u32, count: u64) {
        if count > 0 {
            self.bits |= 1 << id;
            let of = &mut self.counts[id as usize];
            *of = of.saturating_add(count);
        }
    }

    /// Returns how many notices of that number there are.
    #[must_use]
    pub fn count(&self, id: u32) -> u64 {
        self.counts.get(id as usize).copied().unwrap_or(0)
    }

    /// Returns the numbers of which there are notices, as bits.
    #[must_use]
    pub fn bits(&self) -> u64 {
        self.bits
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bits == 0
    }

    /// Returns each number of which there are notices, in order, and how many.
    #[must_use]
    pub fn iter(&self) -> NoticesIter<'_> {
        NoticesIter { left: self.bits, counts: &self.counts }
    }
}

/// Yields the numbers of which there are notices, and how many: made by [`Notices::iter`].
#[derive(Clone, Debug)]
pub struct NoticesIter<'a> {
    left: u64,
    counts: &'a [u64; IDS],
}

impl Iterator for NoticesIter<'_> {
    type Item = (u32, u64);

    fn next(&mut self) -> Option<(u32, u64)> {
        let id = self.left.trailing_zeros();
        let count = *self.counts.get(id as usize)?;
        self.left &= self.left - 1;
        Some((id, count))
    }
}

impl<'a> IntoIterator for &'a Notices {
    type Item = (u32, u64);
    type IntoIter = NoticesIter<'a>;

    fn into_iter(self) -> NoticesIter<'a> {
        self.iter()
    }
}

impl fmt::Debug for Notices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}
