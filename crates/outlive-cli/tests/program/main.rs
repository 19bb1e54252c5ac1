//! The program as a person uses it: each verb as a real process, in a domain of its own that is
//! removed afterwards.
//!
//! No test asserts a time; every wait is bounded, so that what hangs fails.

mod bad_input;
mod beyond;
mod calls;
mod config;
mod containers;
mod demo;
mod described;
mod ending;
mod full;
mod gdb;
mod groups;
mod held;
#[cfg(feature = "image")]
mod image;
mod jobs;
mod kept;
mod lock;
mod looking;
mod manual;
mod metrics;
mod nodes;
mod notifiers;
mod nouns;
mod pipes;
#[cfg(feature = "plot")]
mod plot;
mod pools;
mod probes;
mod receivers;
mod scrapes;
mod sem;
mod shipping;
mod stage;
mod states;
mod terminal;
mod top;
mod topics;
mod units;
mod untouched;
mod waiting;
