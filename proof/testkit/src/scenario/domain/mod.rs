//! The domain as a whole: made, swept, things in it removed.

mod create;
mod name;
mod remove;
mod sweep;

use super::Scenario;

/// Returns the scenarios of this folder.
#[must_use]
pub fn all() -> Vec<Box<dyn Scenario>> {
    vec![
        Box::new(create::Create),
        Box::new(name::Name),
        Box::new(remove::Remove),
        Box::new(sweep::Sweep),
    ]
}
