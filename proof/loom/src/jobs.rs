//! The job queue's words: the slots.

#[path = "../../../crates/outlive/src/jobs/table.rs"]
mod table;
#[cfg(test)]
mod tests;
#[path = "../../../crates/outlive/src/jobs/word.rs"]
mod word;
