//! What a recorder does when it is told: snapshots (snapshot.rs has their states), and the next file.

use std::path::PathBuf;

use serde_json::Value;

use super::Recorder;
use crate::error::Error;
use crate::snapshot::Answer;

impl Recorder {
    /// Makes a step end when that is ready, too.
    pub(crate) fn also_wait_for(
        &mut self,
        source: &impl outlive::wait::Source,
    ) -> Result<(), Error> {
        self.set.add(source)?;
        Ok(())
    }

    /// Asks for a snapshot: [`Snapshots::trigger`].
    pub(crate) fn trigger(
        &mut self,
        reason: &str,
        name: Option<&str>,
        answer: Option<Answer>,
    ) -> Result<PathBuf, Error> {
        match &mut self.snapshots {
            Some(snapshots) => snapshots.trigger(reason, name, answer),
            None => Err(Error::NoSnapshots),
        }
    }

    /// Begins the next file now.
    pub(crate) fn split(&mut self) -> Result<(), Error> {
        if self.snapshots.is_some() {
            return Err(Error::NoSplit);
        }
        for at in 0..self.sources.len() {
            self.take_rest(at)?;
        }
        self.flush()?;
        self.begin_next_file()
    }

    /// Returns what there is to say of the window, if there is one.
    pub fn window(&self) -> Option<Value> {
        Some(self.snapshots.as_ref()?.status(self.file_len()))
    }

    /// Tells of snapshots that have ended, and begins one that is due.
    pub(super) fn tend_snapshots(&mut self) -> Result<(), Error> {
        let Some(snapshots) = &mut self.snapshots else { return Ok(()) };
        let (ended, is_due) = (snapshots.ended(), snapshots.is_due());
        if let Some(event) = ended {
            self.tell(&event)?;
        }
        if is_due {
            for at in 0..self.sources.len() {
                self.take_rest(at)?;
            }
            self.flush()?;
            self.begin_next_file()?;
        } else if self.output.is_full() && self.output.writer.contents().messages() > 0 {
            // Also where nothing comes: what is old leaves the window.
            self.flush()?;
        }
        let Some(snapshots) = &mut self.snapshots else { return Ok(()) };
        let failed = if is_due { snapshots.launch() } else { None };
        snapshots.keep_bounds(self.output.writer.file_len())?;
        failed.map_or(Ok(()), |event| self.tell(&event))
    }

    /// Writes the open group. A window that finds no room gets shorter.
    pub(super) fn write_group(&mut self) -> Result<(), Error> {
        loop {
            if let Err(error) = self.output.writer.flush(&self.account.positions) {
                self.make_room(error.into())?;
                continue;
            }
            if let Some(snapshots) = &mut self.snapshots {
                snapshots.written();
            }
            return Ok(());
        }
    }

    /// Removes a segment if a file of the window found no room; else returns the error.
    #[cold]
    pub(super) fn make_room(&mut self, error: Error) -> Result<(), Error> {
        let is_full = error.is_no_room();
        match &mut self.snapshots {
            Some(snapshots) if is_full => match snapshots.make_room()? {
                true => Ok(()),
                false => Err(error),
            },
            _ => Err(error),
        }
    }

    /// Begins the next file. The open group is empty.
    ///
    /// # Errors
    /// Those of the files.
    pub(super) fn begin_next_file(&mut self) -> Result<(), Error> {
        self.complete_channels()?;
        self.write_group()?;
        let number = self.output.number();
        let mut former = loop {
            match self.output.next() {
                Ok(former) => break former,
                Err(error) => self.make_room(error)?,
            }
        };
        self.add_channels()?;
        self.write_group()?;
        match &mut self.snapshots {
            Some(snapshots) => snapshots.closed(number, former.file_len()),
            None => {
                former.finish(&self.account.positions)?;
                self.output.remove_old()?;
            }
        }
        Ok(())
    }
}
