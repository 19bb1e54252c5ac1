//! The job queue's words: the slots and the wait.

#[path = "../../../crates/outlive/src/jobs/table.rs"]
mod table;
#[path = "../../../crates/outlive/src/jobs/wait.rs"]
mod wait;
#[path = "../../../crates/outlive/src/jobs/word.rs"]
mod word;
