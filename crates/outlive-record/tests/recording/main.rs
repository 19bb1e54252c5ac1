//! The programs record what is published, go on where they were killed, and publish it again.

mod account;
mod arrays;
mod contents;
mod controls;
mod costs;
mod damaged;
mod files;
mod keys;
mod kills;
mod kinds;
mod leaving;
mod limits;
mod missing;
mod promises;
mod readers;
mod replaying;
mod snapshots;
mod support;
mod told;
