//! What a recorder has left that died: its places in topics, its window, its service. Other processes write snapshots
//! of the window, or give all of it up.
//!
//! | given up | died just after |
//! | --- | --- |
//! | the places in topics, one after another | the others stay until the next one gives them up |
//! | the snapshots that wait, each written from the window | the next one writes the others |
//! | the window | |
//! | the service, last | nothing is left |
//!
//! The process that gives it up serves in the dead one's place meanwhile, so no successor begins.

use std::fs;
use std::path::PathBuf;

use outlive::Domain;
use outlive::rpc::{Server, Service};
use outlive_mcap::Options;
use serde_json::Value;

use crate::control::service_name;
use crate::error::Error;
use crate::notes::{Note, Wanted, choose};
use crate::places;
use crate::snapshot::event;
use crate::window::{Folder, MADE, Made, without_gap};

/// Returns whether a living recorder of that name keeps a window, even if it does not serve yet.
///
/// # Errors
/// The folder is another user's; the system's.
pub fn is_kept(domain: &Domain, recorder: &str) -> Result<bool, Error> {
    let folder = Folder::of(domain, recorder);
    Ok(folder.is_there()? && folder.try_lock()?.is_none())
}

/// Writes a snapshot from the window of a recorder that does not live, or does not answer. Snapshots that
/// were asked for and not written are written instead. Returns what was written.
///
/// # Errors
/// [`Error::NoWindow`]; that of a snapshot that could not be written.
///
/// # If a process dies
/// The next one that does this, or the recorder's successor, writes the snapshot.
pub fn without_recorder(
    domain: &Domain,
    recorder: &str,
    reason: &str,
    name: Option<&str>,
) -> Result<Vec<Value>, Error> {
    let folder = Folder::of(domain, recorder);
    let no_window = || Error::NoWindow(recorder.to_owned());
    if !folder.is_there()? {
        return Err(no_window());
    }
    let (output, segments, options) = window_of(&folder)?.ok_or_else(no_window)?;
    let mut notes = match name {
        // The file of that name is wanted, and no other.
        Some(_) => Vec::new(),
        None => Note::all(&folder.path)?,
    };
    if notes.is_empty() {
        // Another process may do the same at the same moment.
        let own = format!("_{}", std::process::id());
        let file = choose(&output, name, &own, &[])?;
        let wanted = Wanted { file, reason: reason.to_owned(), due: 0 };
        notes.push(Note::write(&folder.path, wanted)?);
    }
    carry_out(&notes, &segments, &options)
}

fn carry_out(notes: &[Note], segments: &[PathBuf], options: &Options) -> Result<Vec<Value>, Error> {
    let mut written = Vec::new();
    for note in notes {
        let outcome = note.carry_out(segments, options, &|_| {});
        let told = event(&note.wanted, &outcome);
        outcome?;
        written.push(told);
    }
    Ok(written)
}

/// Returns the segments that follow one another, and what a snapshot of them says of its maker. `None`: no recorder
/// has said that yet.
fn window_of(folder: &Folder) -> Result<Option<(PathBuf, Vec<PathBuf>, Options)>, Error> {
    let Ok(made) = fs::read(folder.path.join(MADE)) else { return Ok(None) };
    let made: Made = serde_json::from_slice(&made)
        .map_err(|error| folder.failed("read what made", error.into()))?;
    let numbers = folder.segments()?.into_iter().map(|(number, _)| number).collect::<Vec<_>>();
    let segments = without_gap(&numbers).iter().map(|number| folder.segment(*number));
    let Made { output, profile, library } = made;
    Ok(Some((output, segments.collect(), Options { profile, library, ..Options::default() })))
}

/// What a dead recorder had left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Released {
    /// How many topics had kept its place.
    pub topics: u64,
    /// Whether there was a window.
    pub window: bool,
    /// The snapshots that it had been asked for and had not written: they are written now.
    pub snapshots: Vec<Value>,
}

/// Gives up what a dead recorder of that name has left; publishers wait for no successor any more. Snapshots that
/// wait are written before, without waiting for their time, also those that another process is writing. `None`: there
/// was nothing.
///
/// # Errors
/// [`outlive::Error::Taken`]: a recorder of that name lives. A topic's, if it could not be given up: the others are
/// given up all the same. A snapshot's, if it could not be written: it is given up, and the window stays. The window
/// is another user's; the system's.
///
/// # If a process dies
/// What it has not given up is there, and the next one that does this gives it up.
pub fn release(domain: &Domain, recorder: &str) -> Result<Option<Released>, Error> {
    let service = service_name(recorder);
    let server = serve_for(domain, &service)?;
    let (topics, failed) = match places::give_up(domain, &service) {
        Ok(topics) => (topics, None),
        Err(error) => (0, Some(error)),
    };
    let mut released = Released { topics, ..Released::default() };
    let folder = Folder::of(domain, recorder);
    if folder.is_there()? {
        let _lock = folder.lock()?;
        let notes = Note::all(&folder.path)?;
        if let (false, Some((_, segments, options))) = (notes.is_empty(), window_of(&folder)?) {
            released.snapshots = carry_out(&notes, &segments, &options)?;
        }
        folder.remove()?;
        released.window = true;
    }
    if let Some(error) = failed {
        return Err(error);
    }
    if server.is_none() && released == Released::default() {
        return Ok(None);
    }
    if server.is_some() {
        match domain.remove(&service) {
            Ok(()) | Err(outlive::Error::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Some(released))
}

/// Serves in the place of a dead recorder, if its service is there.
fn serve_for(domain: &Domain, service: &str) -> Result<Option<Server>, outlive::Error> {
    loop {
        let service = match Service::open_as_bytes(domain, service) {
            Ok(service) => service,
            Err(outlive::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let server = service.server()?;
        // Else another process has given it up since it was opened.
        if !service.is_removed() {
            return Ok(Some(server));
        }
    }
}
