//! The files that a verb reads, by their names.

use std::path::PathBuf;

use clap::Args;
use outlive_mcap::files_of;

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
    /// Returns the files. One that is not there is among them: reading it says so.
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
}
