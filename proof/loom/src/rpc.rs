//! The words of calls.

#[path = "../../../crates/outlive/src/rpc/asked.rs"]
mod asked;
#[cfg(test)]
mod tests;
#[path = "../../../crates/outlive/src/rpc/words.rs"]
mod words;
