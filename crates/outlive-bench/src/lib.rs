//! What Outlive's parts cost beside their alternatives, in the same run on the same machine: the
//! program's `outlive bench`, and the harness for benchmarks of one's own.
//!
//! [`harness`] measures: it interleaves contenders turn by turn, compares only rounds in which the
//! cores were equally far apart, and tells median, minimum and maximum. [`suite`] has the
//! benchmarks. All figures are costs in nanoseconds: less is better.

mod duration;
pub mod harness;
pub mod suite;

pub use harness::Error;
pub use suite::{BenchArgs, run};
