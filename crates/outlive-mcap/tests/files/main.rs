//! Files as they are after deaths, on full disks, and as others read them.

mod cut;
mod drive;
mod full;
mod independent;
mod kept;
mod killed;
mod victim;
mod writing;
