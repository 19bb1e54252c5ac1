//! Events and latches: set, waited for, arrived at, beside sleepers.

mod arrive;
mod set;
mod wait;

use super::Scenario;

/// Returns the scenarios of this folder.
#[must_use]
pub fn all() -> Vec<Box<dyn Scenario>> {
    vec![
        Box::new(set::Set::Plain),
        Box::new(set::Set::FirstAmongMany),
        Box::new(set::Set::LastAmongMany),
        Box::new(wait::Wait::Manual),
        Box::new(wait::Wait::InSet),
        Box::new(wait::Wait::Automatic),
        Box::new(arrive::Arrive),
    ]
}
