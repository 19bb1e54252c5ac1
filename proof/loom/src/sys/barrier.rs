//! `membarrier` as loom sees it: the fence that it puts into the waker, in the waker.

use crate::shim::{Ordering, fence};

pub(crate) fn light() {
    fence(Ordering::SeqCst);
}

pub(crate) fn heavy() -> bool {
    fence(Ordering::SeqCst);
    true
}
