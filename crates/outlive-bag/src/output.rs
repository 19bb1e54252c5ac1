//! Files that are written: under another name until they are whole, and never over one that is there
//! unless that was asked for.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser};
use outlive_mcap::{Compression, Options, Sync, Writer, new_file};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::exit::{Code, Failure};

/// Where the result goes.
#[derive(Args, Debug)]
pub struct OutputArgs {
    /// Write the result into this file, also without '.mcap'
    #[arg(short, long, value_name = "FILE.mcap", value_parser = file_name())]
    pub output: PathBuf,
    /// Replace a file that is there
    #[arg(long)]
    pub force: bool,
}

/// Reads the name of a file of ours.
pub fn file_name() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| new_file(&path))
}

/// A file that has its name only when it is whole.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    temporary: PathBuf,
    force: bool,
    kept: bool,
}

impl Output {
    /// Chooses the other name.
    pub fn new(path: &Path, force: bool) -> Result<Output, Failure> {
        let taken = |path: &Path| {
            let text = format!("{} exists: '--force' replaces it", path.display());
            Err(Failure::new(Code::Mismatch, text))
        };
        // Only to say it early: the renaming sees to it.
        if !force && path.symlink_metadata().is_ok() {
            return taken(path);
        }
        let Some(name) = path.file_name() else {
            return Err(Failure::new(Code::Usage, format!("{} is no file", path.display())));
        };
        let hidden = format!(".{}.{}.part", name.to_string_lossy(), std::process::id());
        let temporary = path.with_file_name(hidden);
        Ok(Output { path: path.to_owned(), temporary, force, kept: false })
    }

    /// Begins the file.
    pub fn create(&self, profile: &str, compression: Compression) -> Result<Writer, Failure> {
        let options = Options {
            profile: profile.to_owned(),
            library: concat!("outlive-bag ", env!("CARGO_PKG_VERSION")).to_owned(),
            compression,
            sync: Sync::OnFinish,
            resumable: false,
        };
        Ok(Writer::create(&self.temporary, options)?)
    }

    /// Gives the whole file its name.
    pub fn keep(mut self) -> Result<(), Failure> {
        let renamed = match self.force {
            true => fs::rename(&self.temporary, &self.path),
            false => {
                let flags = RenameFlags::NOREPLACE;
                let renamed = renameat_with(CWD, &self.temporary, CWD, &self.path, flags);
                match renamed {
                    // Some file systems do not know the flag.
                    Err(rustix::io::Errno::INVAL) if !self.path.exists() => {
                        fs::rename(&self.temporary, &self.path)
                    }
                    renamed => renamed.map_err(Into::into),
                }
            }
        };
        match renamed {
            Ok(()) => self.kept = true,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let text = format!("{} exists: '--force' replaces it", self.path.display());
                return Err(Failure::new(Code::Mismatch, text));
            }
            Err(error) => {
                return Err(Failure::system(format_args!("name {}", self.path.display()), &error));
            }
        }
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if !self.kept {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}
