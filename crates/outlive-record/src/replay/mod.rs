//! The player: publishes a recording's messages again, in their spacing.

mod channel;
mod input;
mod player;
mod sink;
mod timetable;
mod wanted;

pub(crate) use channel::name_of;
pub use input::Input;
pub use player::{By, Counts, Due, Options, Player, When};
pub use timetable::Rate;
pub use wanted::Wanted;
