//! The locks, as far as they are state machines.

#[path = "../../../crates/outlive/src/sync/raw_barrier.rs"]
mod raw_barrier;
#[path = "../../../crates/outlive/src/sync/raw_condvar.rs"]
mod raw_condvar;
#[path = "../../../crates/outlive/src/sync/raw_event.rs"]
mod raw_event;
#[path = "../../../crates/outlive/src/sync/raw_mutex.rs"]
mod raw_mutex;
#[path = "../../../crates/outlive/src/sync/raw_once.rs"]
mod raw_once;
#[path = "../../../crates/outlive/src/sync/raw_rw_lock/mod.rs"]
mod raw_rw_lock;
#[path = "../../../crates/outlive/src/sync/raw_semaphore.rs"]
mod raw_semaphore;
