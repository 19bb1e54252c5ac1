//! Which domain a verb works in, and how it is opened.

use std::env::VarError;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use outlive::config::Config;
use outlive::{Domain, DomainOptions, Error, WaitStrategy};

use crate::exit::{Code, Failure};

/// Which of them named the domain, or its group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// Nothing.
    #[default]
    Default,
    /// An option of the command line.
    Option,
    /// The environment.
    Environment,
    /// The configuration file.
    File,
}

/// Options that every verb has which works in a domain.
#[derive(Args, Debug, Clone)]
pub struct DomainArgs {
    /// The domain to work in: a name, or a folder's path, which has a '/' in it [default: default,
    /// or what 'outlive config show' says] [env: OUTLIVE_DOMAIN]
    ///
    /// A domain is a folder on a memory file system in which processes meet. A name means a folder
    /// below /dev/shm/outlive-UID, or with --group below /dev/shm/outlive-group-GID. Verbs that
    /// make something make the folder when it is not there; those that look do not. A folder that
    /// holds other things is refused.
    #[arg(long, short = 'd', global = true, display_order = 900, value_name = "NAME|PATH")]
    pub domain: Option<String>,

    /// The group that shares the domain: a name or a number [env: OUTLIVE_GROUP]
    ///
    /// All members of the group may then use the domain: its folder gets mode 0770, its files 0660.
    /// Without a group, a domain is its user's alone. 'outlive domain create --group' makes one.
    #[arg(long, global = true, display_order = 901, value_name = "GROUP")]
    pub group: Option<String>,

    /// Fail with exit code 6 when the domain or the thing does not exist, rather than make it or
    /// wait for it
    #[arg(long, global = true, display_order = 902)]
    pub no_create: bool,

    /// What named the domain.
    #[arg(skip)]
    pub source: Source,
    /// What named the group.
    #[arg(skip)]
    pub group_source: Source,
    /// How handles wait, by the configuration file of the default domain.
    #[arg(skip)]
    pub wait: Option<WaitStrategy>,
}

/// Returns what the environment says. What is no text is refused: without it, the verb would work
/// in another domain than the one meant.
fn given(name: &str) -> Result<Option<String>, Failure> {
    match std::env::var(name) {
        Ok(value) => Ok(Some(value)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => {
            Err(Failure::new(Code::Usage, format!("{name} is not valid UTF-8")))
        }
    }
}

impl DomainArgs {
    /// Takes from the environment, then from the configuration file, what no option has said. The
    /// parser could do the former, but would then show these options in the usage of every call
    /// that lacks another argument.
    ///
    /// The library's `Domain::open_default` does the same: see `DomainOptions::default_place`. The
    /// file is read only when nothing else names the domain, and its group holds for its domain
    /// alone.
    pub fn complete(&mut self) -> Result<(), Failure> {
        for (option, source, name) in [
            (&mut self.domain, &mut self.source, "OUTLIVE_DOMAIN"),
            (&mut self.group, &mut self.group_source, "OUTLIVE_GROUP"),
        ] {
            if option.is_some() {
                *source = Source::Option;
            } else if let Some(value) = given(name)? {
                // An empty variable names nothing.
                *source = if value.is_empty() { Source::Default } else { Source::Environment };
                *option = Some(value);
            }
        }
        if self.source != Source::Default {
            return Ok(());
        }
        let config = Config::load()?;
        self.wait = config.wait_strategy();
        if let Some(domain) = config.domain() {
            self.domain = Some(domain.to_owned());
            self.source = Source::File;
        }
        if let (Some(group), Source::Default) = (config.group(), self.group_source) {
            // One that is none is refused with the file's name and its line.
            Domain::options().default_place().map(drop)?;
            self.group = Some(group.to_owned());
            self.group_source = Source::File;
        }
        Ok(())
    }

    /// Returns whether it is the default domain, which nothing but the configuration file names.
    pub fn is_default(&self) -> bool {
        self.name().is_none() || self.source == Source::File
    }

    /// The domain of that name or path, of that group, to be looked at.
    pub fn named(domain: Option<String>, group: Option<String>) -> DomainArgs {
        let source = if domain.is_some() { Source::Option } else { Source::Default };
        let group_source = if group.is_some() { Source::Option } else { Source::Default };
        DomainArgs { domain, group, no_create: true, source, group_source, wait: None }
    }

    /// Opens the domain for a verb that makes things.
    pub fn open(&self) -> Result<Domain, Failure> {
        Ok(self.open_or_not(!self.no_create)?)
    }

    /// Opens the domain for a verb that only looks at it: looking does not make a domain.
    ///
    /// `None`: the default domain, which no process has used yet. A named one must be there.
    pub fn look(&self) -> Result<Option<Domain>, Failure> {
        match self.open_existing() {
            Ok(domain) => Ok(Some(domain)),
            Err(Error::NotFound { .. }) if self.is_default() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens the domain for a verb that needs something in it to be there.
    pub fn existing(&self) -> Result<Domain, Failure> {
        Ok(self.open_existing()?)
    }

    /// Opens the domain as [`DomainArgs::existing`] does, for a verb that waits for one that is not
    /// there.
    pub fn open_existing(&self) -> Result<Domain, Error> {
        self.open_or_not(false)
    }

    /// Returns the options by which an external program opens the same domain.
    pub fn words(&self) -> Vec<OsString> {
        let path = |name: &str| name.contains('/').then(|| self.path().into_os_string());
        let domain = self.name().map(|name| path(name).unwrap_or_else(|| name.into()));
        let group = self.group.as_deref().filter(|group| !group.is_empty()).map(OsString::from);
        let option = |name: &str, value: Option<OsString>| value.map(|value| [name.into(), value]);
        let all = [option("--domain", domain), option("--group", group)];
        all.into_iter().flatten().flatten().collect()
    }

    /// Returns the variables that tell an external program what options have named. What the
    /// environment and the configuration file say, it reads itself: these are not to be completed.
    pub fn variables(&self) -> Vec<(&'static str, OsString)> {
        let all = [("OUTLIVE_DOMAIN", &self.domain), ("OUTLIVE_GROUP", &self.group)];
        let named =
            all.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?.into())));
        named.collect()
    }

    /// Returns the folder that would be opened.
    pub fn path(&self) -> PathBuf {
        match self.name() {
            Some(path) if path.contains('/') => PathBuf::from(path),
            name => {
                let name = name.unwrap_or("default");
                // What cannot be a name, or no group, is refused when it is opened.
                let folder = self.options().and_then(|options| options.folder_of(name));
                folder.unwrap_or_else(|_| PathBuf::from(name))
            }
        }
    }

    /// Returns whether the domain was named by a path.
    pub fn is_path(&self) -> bool {
        self.name().is_some_and(|name| name.contains('/'))
    }

    /// Returns the id of the group that shares the domain.
    pub fn group_id(&self) -> Result<Option<u32>, Error> {
        Ok(self.options()?.group_id())
    }

    fn options(&self) -> Result<DomainOptions, Error> {
        // An empty variable of the environment names none.
        let options =
            self.wait.map_or(Domain::options(), |wait| Domain::options().wait_strategy(wait));
        match self.group.as_deref().filter(|group| !group.is_empty()) {
            Some(group) => options.group_named(group),
            None => Ok(options),
        }
    }

    fn name(&self) -> Option<&str> {
        self.domain.as_deref().filter(|name| !name.is_empty())
    }

    fn open_or_not(&self, create: bool) -> Result<Domain, Error> {
        let options = self.options()?;
        match (self.name(), create) {
            (Some(path), true) if path.contains('/') => options.open_or_create_at(path),
            (Some(path), false) if path.contains('/') => options.open_at(path),
            (name, true) => options.open_or_create(name.unwrap_or("default")),
            (name, false) => options.open(name.unwrap_or("default")),
        }
    }
}
