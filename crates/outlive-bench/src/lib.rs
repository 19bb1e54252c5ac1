//! What Outlive's parts cost beside their alternatives, in the same run on the same machine: the
//! program `outlive-bench`, which `outlive bench` becomes, and the harness for benchmarks of one's own.
//!
//! [`harness`] measures: it interleaves contenders turn by turn, compares only rounds in which the
//! cores were equally far apart, and tells median, minimum and maximum. [`suite`] has the
//! benchmarks. [`classics`] and [`lock_queues`] are teaching examples that some of them measure. All
//! figures are costs in nanoseconds: less is better.

pub mod classics;
mod duration;
pub mod harness;
pub mod lock_queues;
pub mod suite;

pub use harness::Error;
pub use suite::{BenchArgs, run};
