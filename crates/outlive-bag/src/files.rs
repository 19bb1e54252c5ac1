//! The files that a verb reads, by their names.

use std::path::{Path, PathBuf};

use clap::Args;
use outlive_mcap::files_of;

use crate::exit::Failure;

/// The files.
#[derive(Args, Debug)]
pub struct FilesArgs {
    /// The files. drive.mcap stands for all files of its recording: drive_0.mcap, drive_1.mcap and so on
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The named files, and not the further ones of their recording
    #[arg(long)]
    exact: bool,
}

impl FilesArgs {
    /// Returns the files. One that is not there is among them: [`FilesArgs::look_for`] says so.
    pub fn all(&self) -> Vec<PathBuf> {
        if self.exact {
            return self.files.clone();
        }
        let mut all = Vec::new();
        for name in &self.files {
            let found = files_of(&[name]).unwrap_or_else(|_| vec![name.clone()]);
            // A further one may be named itself, as by night*.mcap.
            all.extend(found.into_iter().filter(|file| file == name || !self.files.contains(file)));
        }
        all
    }

    /// Fails if a file is not there, and says which other names were looked for.
    pub fn look_for(&self, file: &Path) -> Result<(), Failure> {
        match self.exact {
            true => Ok(()),
            false => Ok(files_of(&[file]).map(drop)?),
        }
    }
}

/// One recording.
#[derive(Args, Debug)]
pub struct RecordingArgs {
    /// The file. drive.mcap stands for all files of its recording: drive_0.mcap, drive_1.mcap and so on
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The named file, and not the further ones of its recording
    #[arg(long)]
    exact: bool,
}

impl RecordingArgs {
    /// Returns its files, in their order.
    pub fn all(&self) -> Result<Vec<PathBuf>, Failure> {
        match self.exact {
            true => Ok(vec![self.file.clone()]),
            false => Ok(files_of(&[&self.file])?),
        }
    }

    /// Returns the name that was given.
    pub fn name(&self) -> std::path::Display<'_> {
        self.file.display()
    }
}
