//! The player, on files of every form, sought in, damaged, and made to do harm.

mod forms;
mod hostile;
mod seeking;

#[global_allocator]
static ALLOCATOR: outlive_costs::Watched = outlive_costs::Watched;
