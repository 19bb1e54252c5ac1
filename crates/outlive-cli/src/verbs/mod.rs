//! The verbs, one file each; `under` and `running` are what `lock` and `sem` share, `subscribing`
//! and `measuring` what those that subscribe do, `awaited` what those that follow a name do, `role`
//! what those that take a role do.

mod attributes;
mod awaited;
pub mod beyond;
pub mod bw;
pub mod call;
pub mod clients;
pub mod completions;
pub mod config;
pub mod create;
pub mod delay;
#[cfg(feature = "demo")]
pub mod demo;
pub mod doctor;
pub mod domain_watch;
pub mod echo;
pub mod exit_codes;
pub mod gc;
mod holding;
pub mod hz;
#[cfg(feature = "image")]
pub mod image;
pub mod info;
pub mod job;
pub mod lock;
pub mod ls;
pub mod man;
pub mod measuring;
#[cfg(feature = "metrics")]
pub mod metrics;
pub mod node;
pub mod notifier;
mod parts;
#[cfg(feature = "plot")]
pub mod plot;
pub mod pools;
pub mod publish;
pub mod recv;
pub mod rm;
mod role;
mod running;
pub mod sem;
pub mod send;
pub mod serve;
pub mod state;
mod subscribing;
#[cfg(feature = "top")]
pub mod top;
pub mod topic;
pub mod under;
pub mod wait;
pub mod waiters;
