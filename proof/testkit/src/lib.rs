//! The proof machine of outlive: it kills processes at every instruction, or at random, and asks
//! the survivors what they find.
//!
//! - [`engine`] runs one victim by single steps and kills it at a chosen one.
//! - [`world`] holds what is around it: a domain's folder and survivors, real processes that obey
//!   orders.
//! - [`scenario`] says which operation runs, beside which processes, and what must hold afterwards.
//! - [`campaign`] goes through all points of one scenario.
//! - [`soak`] kills, stops and execs at random under load.
//!
//! Programs: `victim` plays all roles, `crash` runs the campaigns, `soak` kills at random under
//! load.

pub mod campaign;
pub mod engine;
pub mod failure;
pub mod message;
pub mod random;
pub mod scenario;
pub mod soak;
pub mod world;
