//! The program as a person uses it: each verb as a real process, in a domain of its own that is
//! removed afterwards.
//!
//! No test asserts a time; every wait is bounded, so that what hangs fails.

mod bad_input;
mod benches;
mod calls;
mod config;
mod demo;
mod described;
mod ending;
mod full;
mod groups;
mod held;
mod jobs;
mod lock;
mod looking;
mod manual;
mod nodes;
mod notifiers;
mod nouns;
mod pipes;
mod pools;
mod receivers;
mod sem;
mod shipping;
mod stage;
mod states;
mod top;
mod topics;
mod untouched;
mod waiting;
