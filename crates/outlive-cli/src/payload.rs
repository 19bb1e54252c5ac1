//! Where payloads are written: standard output, or the file of `--output`; and when a newline
//! follows one.
//!
//! | destination | text | any other payload |
//! | --- | --- | --- |
//! | a terminal | as it is, a newline behind it | hexadecimal, the first 64 bytes, a newline behind it |
//! | a pipe | as the verb says | as the verb says |
//! | a file (standard output redirected to one) | as it is, a newline behind it | its bytes, whole, nothing behind them |
//! | the file of `--output` | its bytes, whole, nothing behind them | the same |
//!
//! In a file, text is what grep takes for it: valid UTF-8 without a NUL. A terminal is shown no
//! control characters either.

use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, stdout};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use clap::Args;
use rustix::fs::{FileType, fstat};

use crate::exit::Failure;

/// Where payloads are written.
#[derive(Args, Debug)]
pub struct OutputArgs {
    /// Empty FILE first, then write the bytes into it and nothing else
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

impl OutputArgs {
    /// Returns whether a file was named.
    pub fn is_file(&self) -> bool {
        self.output.is_some()
    }

    /// Opens the file if one was named; what was in it goes.
    pub fn open(&self) -> Result<Output, Failure> {
        let file = self.output.as_deref().map(create).transpose()?;
        Ok(Output { file })
    }

    /// Finds out whether the file can be opened, and leaves it as it is until there is something
    /// to write.
    pub fn open_later(&self) -> Result<LaterOutput<'_>, Failure> {
        let path = self.output.as_deref();
        let found = match path.map(|path| File::options().write(true).open(path)) {
            None => None,
            Some(Ok(file)) => Some(file),
            // A file that is not there is not made yet, but its folder must be there.
            Some(Err(error)) if error.kind() == ErrorKind::NotFound => {
                let parent = path.and_then(Path::parent).filter(|path| *path != Path::new(""));
                let parent = parent.map_or(Ok(true), Path::try_exists);
                if !parent.is_ok_and(|is_there| is_there) {
                    return Err(not_written(path, &error));
                }
                None
            }
            Some(Err(error)) => return Err(not_written(path, &error)),
        };
        Ok(LaterOutput { path, found, begun: None })
    }
}

fn not_written(path: Option<&Path>, error: &io::Error) -> Failure {
    Failure::system(format_args!("write {}", path.unwrap_or(Path::new("-")).display()), error)
}

/// A destination that stays as it was until the first payload comes.
pub struct LaterOutput<'a> {
    path: Option<&'a Path>,
    /// The file, if it was there.
    found: Option<File>,
    begun: Option<Output>,
}

impl LaterOutput<'_> {
    /// Returns the destination; what was in its file goes when this is called first.
    pub fn begin(&mut self) -> Result<&Output, Failure> {
        let begun = match self.begun.take() {
            Some(begun) => begun,
            None => {
                let file = match self.found.take() {
                    // The file that was opened, whatever has its name by now. A pipe or a device
                    // has no length.
                    Some(file) => {
                        if file.metadata().is_ok_and(|facts| facts.is_file()) {
                            file.set_len(0).map_err(|error| not_written(self.path, &error))?;
                        }
                        Some(file)
                    }
                    None => self.path.map(create).transpose()?,
                };
                Output { file }
            }
        };
        Ok(self.begun.insert(begun))
    }
}

fn create(path: &Path) -> Result<File, Failure> {
    File::create(path).map_err(|error| not_written(Some(path), &error))
}

/// An open destination.
#[derive(Debug)]
pub struct Output {
    file: Option<File>,
}

/// What standard output is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdout {
    /// A person reads it.
    Terminal,
    /// It is kept as it is.
    File,
    /// A program reads it.
    Pipe,
}

impl Stdout {
    /// Returns what ours is.
    pub fn look() -> Stdout {
        if stdout().is_terminal() {
            return Stdout::Terminal;
        }
        match fstat(stdout()) {
            Ok(facts) if FileType::from_raw_mode(facts.st_mode) == FileType::RegularFile => {
                Stdout::File
            }
            _ => Stdout::Pipe,
        }
    }
}

impl Output {
    /// Standard output.
    pub const STDOUT: Output = Output { file: None };

    /// Returns whether it is the file of `--output`.
    pub fn is_file(&self) -> bool {
        self.file.is_some()
    }

    /// Returns the descriptor to write to.
    pub fn with<R>(&self, write: impl FnOnce(BorrowedFd<'_>) -> R) -> R {
        match &self.file {
            Some(file) => write(file.as_fd()),
            None => write(stdout().as_fd()),
        }
    }
}

/// Returns whether a payload is text, as grep decides.
pub fn is_text(bytes: &[u8]) -> bool {
    !bytes.contains(&0) && std::str::from_utf8(bytes).is_ok()
}
