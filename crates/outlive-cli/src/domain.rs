//! Which domain a verb works in, and how it is opened.

use std::path::PathBuf;

use clap::Args;
use outlive::{Domain, Error};

use crate::exit::Failure;

/// Options that every verb has which works in a domain.
#[derive(Args, Debug, Clone)]
pub struct DomainArgs {
    /// The domain to work in: a name, or (with a '/') a folder's path
    ///
    /// A domain is a folder on a memory file system in which processes meet. A name means a folder
    /// below /dev/shm/outlive-UID; it is made when it is not there.
    #[arg(
        long,
        short = 'd',
        global = true,
        display_order = 900,
        value_name = "NAME|PATH",
        env = "OUTLIVE_DOMAIN",
        hide_env_values = true
    )]
    pub domain: Option<String>,

    /// Fail when the domain (or the queue or lock) does not exist, rather than make it
    #[arg(long, global = true, display_order = 901)]
    pub no_create: bool,
}

impl DomainArgs {
    /// Opens the domain for a verb that makes things.
    pub fn open(&self) -> Result<Domain, Failure> {
        Ok(self.open_or_not(!self.no_create)?)
    }

    /// Opens the domain for a verb that only looks at it: looking does not make a domain.
    ///
    /// `None`: the default domain, which no process has used yet. A named one must be there.
    pub fn look(&self) -> Result<Option<Domain>, Failure> {
        match self.open_or_not(false) {
            Ok(domain) => Ok(Some(domain)),
            Err(Error::NotFound { .. }) if self.name().is_none() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens the domain for a verb that needs something in it to be there.
    pub fn existing(&self) -> Result<Domain, Failure> {
        Ok(self.open_or_not(false)?)
    }

    /// Returns the folder that would be opened.
    pub fn path(&self) -> PathBuf {
        match self.name() {
            Some(path) if path.contains('/') => PathBuf::from(path),
            name => {
                let base = format!("/dev/shm/outlive-{}", rustix::process::geteuid().as_raw());
                PathBuf::from(base).join(name.unwrap_or("default"))
            }
        }
    }

    fn name(&self) -> Option<&str> {
        self.domain.as_deref().filter(|name| !name.is_empty())
    }

    fn open_or_not(&self, create: bool) -> Result<Domain, Error> {
        match (self.name(), create) {
            (Some(path), true) if path.contains('/') => Domain::open_or_create_at(path),
            (Some(path), false) if path.contains('/') => Domain::open_at(path),
            (name, true) => Domain::open_or_create(name.unwrap_or("default")),
            (name, false) => Domain::open(name.unwrap_or("default")),
        }
    }
}
