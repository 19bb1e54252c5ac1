//! The domain as a whole: made, swept, things in it removed; followed.

mod create;
mod name;
mod remove;
mod sweep;
mod watched;

use super::Scenario;

/// Returns the scenarios of this folder.
#[must_use]
pub fn all() -> Vec<Box<dyn Scenario>> {
    vec![
        Box::new(create::Create),
        Box::new(name::Name),
        Box::new(remove::Remove),
        Box::new(sweep::Sweep),
        Box::new(watched::Watched),
    ]
}
