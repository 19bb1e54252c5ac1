//! The words of calls.

#[path = "../../../crates/outlive/src/rpc/asked.rs"]
mod asked;
#[path = "../../../crates/outlive/src/rpc/call.rs"]
mod call;
#[cfg(test)]
mod tests;
#[path = "../../../crates/outlive/src/rpc/turns.rs"]
mod turns;
