//! What a wait set sleeps on: no test has one.

use crate::shim::AtomicU32;
use crate::sys::futex::Watch;

pub(crate) struct WaitWords<'w>(Vec<Watch<'w>>);

impl<'w> WaitWords<'w> {
    pub(crate) fn add(&mut self, words: &[Watch<'w>]) {
        self.0.extend_from_slice(words);
    }

    pub(crate) fn relay_by(&mut self, _: &'w AtomicU32) {}
}
