//! What a program costs, counted and not timed: a busy machine changes none of these figures.
//!
//! | | counts |
//! | --- | --- |
//! | [`count`] | the instructions and system calls that a child executes between two stops of its own |
//! | [`Watched`] | the largest piece of memory that this process asked for |

mod memory;
mod steps;

pub use memory::{Watched, largest};
pub use steps::{Counted, count};
