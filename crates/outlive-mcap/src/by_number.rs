//! Schemas and channels that were met, by their numbers: a message's channel is found by one load.

use std::sync::Arc;

/// See the head of this file. It takes a pointer for each number up to the highest one: 512 KiB at most.
#[derive(Debug)]
pub(crate) struct ByNumber<T>(Vec<Option<Arc<T>>>);

impl<T> Default for ByNumber<T> {
    fn default() -> ByNumber<T> {
        ByNumber(Vec::new())
    }
}

impl<T> ByNumber<T> {
    #[inline]
    pub(crate) fn get(&self, id: u16) -> Option<&Arc<T>> {
        self.0.get(usize::from(id))?.as_ref()
    }

    /// Returns one that the caller knows to be there.
    #[inline]
    pub(crate) fn there(&self, id: u16) -> &Arc<T> {
        self.get(id).expect("it was met")
    }

    /// Takes one in, unless one of that number is known.
    pub(crate) fn add(&mut self, id: u16, new: impl FnOnce() -> T) {
        let at = usize::from(id);
        if self.0.len() <= at {
            self.0.resize_with(at + 1, || None);
        }
        self.0[at].get_or_insert_with(|| Arc::new(new()));
    }
}
