//! The words of calls.

#[path = "../../../crates/outlive/src/rpc/asked.rs"]
mod asked;
#[path = "../../../crates/outlive/src/rpc/call_words.rs"]
mod call_words;
#[cfg(test)]
mod tests;
