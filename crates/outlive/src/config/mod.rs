//! The configuration file: the default domain, its limits, how to wait, and named profiles for
//! topics.
//!
//! The library reads it in two calls alone: [`Config::load`], which a program may call, and
//! [`Domain::open_default`](crate::Domain::open_default), in which the file says which domain is
//! the default one: all programs and all languages must agree on that. Nothing else in the library
//! reads a file that the caller has not named.
//!
//! | read in this order | |
//! | --- | --- |
//! | `$OUTLIVE_CONFIG` | must be there if it is set |
//! | `$XDG_CONFIG_HOME/outlive/outlive.toml`, else `~/.config/outlive/outlive.toml` | the user's |
//! | `/etc/outlive/outlive.toml` | the system's |
//!
//! Each value is that of the first file that sets it. A file with `root = true` is the last that is
//! read. A group counts only for the domain of its own file: not if a file before names another. A
//! key that is not known is an error, with its line and column.
//!
//! ```toml
//! domain = "robot"                 # a name, or a path with a '/'
//! group = "robots"                 # the group that shares it
//!
//! [limits]
//! budget = "2G"                    # for `outlive domain create`
//!
//! [wait]
//! strategy = "adaptive"            # or "spin", "block"
//!
//! [[profile]]                      # the first whose pattern fits a topic's name holds
//! name = "camera"
//! topics = ["camera.*", "depth.*"]
//! depth = 4
//! max_bytes = "256M"
//! reliable = false
//! ```

mod pattern;
mod read;
mod value;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::durability::Durability;
use crate::{Error, WaitStrategy};

pub use read::check_file;

/// The variable that names a file which comes before all others.
const VARIABLE: &str = "OUTLIVE_CONFIG";
/// The system's file.
const OF_THE_SYSTEM: &str = "/etc/outlive/outlive.toml";
/// The user's file, in the folder of the user's configuration.
const OF_THE_USER: &str = "outlive/outlive.toml";

/// Holds what the configuration files say.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-config-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let path = folder.join("robot.toml");
/// use outlive::config::Config;
/// use outlive::topic::{Subscriber, Topic};
///
/// std::fs::write(&path, r#"
///     domain = "robot"
///     [[profile]]
///     name = "camera"
///     topics = ["camera.*"]
///     depth = 4
///     keep_last = 1
/// "#)?;
/// let config = Config::load_file(&path)?; // `Config::load()` reads the user's and the system's
/// assert_eq!(config.domain(), Some("robot"));
///
/// # let domain = outlive::Domain::open_or_create_at(folder.join("domain"))?;
/// let profile = config.profile_for("camera.front").expect("its pattern fits");
/// let topic = Topic::<[u8]>::options().profile(profile).open_or_create(&domain, "camera.front")?;
/// assert_eq!(topic.config().depth, 4);
/// let subscriber = topic.subscriber_with(Subscriber::options().profile(profile))?;
/// # drop(subscriber);
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Config {
    files: Vec<PathBuf>,
    domain: Option<String>,
    group: Option<String>,
    budget: Option<u64>,
    wait_strategy: Option<WaitStrategy>,
    profiles: Vec<Profile>,
    settings: Vec<Setting>,
}

/// Holds the values that a configuration file gives to the topics whose names fit a pattern.
///
/// [`TopicOptions::profile`](crate::topic::TopicOptions::profile),
/// [`PublisherOptions::profile`](crate::topic::PublisherOptions::profile) and
/// [`SubscriberOptions::profile`](crate::topic::SubscriberOptions::profile) take from it what
/// concerns them. `None`: the file does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// The patterns: `*` stands for any number of characters, `?` for one.
    pub topics: Vec<String>,
    /// How many messages of each publisher are kept.
    pub depth: Option<u32>,
    /// The most bytes that the topic may take.
    pub max_bytes: Option<u64>,
    /// The most publishers at a time.
    pub max_publishers: Option<u32>,
    /// The most subscribers at a time.
    pub max_subscribers: Option<u32>,
    /// The most samples that a subscriber holds.
    pub max_samples: Option<u32>,
    /// Whether publishers stamp each message with the time of day.
    pub stamps: Option<bool>,
    /// How handles wait.
    pub wait_strategy: Option<WaitStrategy>,
    /// What the topic offers to subscribers that come later.
    pub durability: Option<Durability>,
    /// Whether a subscriber asks publishers to wait for it; where it does, a new topic offers that.
    pub reliable: Option<bool>,
    /// How long a reliable subscriber may be in a publisher's way: [`Duration::ZERO`] for `never`,
    /// [`Duration::MAX`] for `forever`.
    pub max_blocking: Option<Duration>,
    /// How long a publisher's message counts, by its stamp: [`Duration::MAX`] for `forever`.
    pub lifespan: Option<Duration>,
    /// How many earlier messages of each publisher a subscriber receives.
    pub history: Option<u32>,
    /// A subscriber's maximum lag.
    pub keep_last: Option<u32>,
    /// The mode of the topic's files: which members of its group may publish, and which subscribe.
    pub mode: Option<u32>,
    /// How often a publisher means to publish.
    pub publisher_period: Option<Duration>,
    /// Which messages a subscriber receives: those with one of these keys.
    pub keys: Option<Vec<u64>>,
    /// How often a subscriber expects a message.
    pub period: Option<Duration>,
    /// Whether a subscriber is told of each session.
    pub sessions: Option<bool>,
    /// How old a message may be that a subscriber receives, by its stamp: [`Duration::MAX`] for
    /// `forever`.
    pub max_age: Option<Duration>,
    /// How long a publisher may live and do nothing before a subscriber is told.
    pub liveliness: Option<Duration>,
}

/// Holds one value that a configuration file sets, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Setting {
    /// Its key: `limits.budget`, or `profile.NAME.depth`.
    pub key: String,
    /// Its value, as it is written in TOML.
    pub value: String,
    /// The file.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: u32,
}

/// Returns the places of the configuration files, the most important first, whether they exist or
/// not. A variable of the environment that is empty names none.
pub fn places() -> Vec<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let absolute = |path: std::ffi::OsString| Some(PathBuf::from(path)).filter(|p| p.is_absolute());
    // The XDG specification: a relative path there is to be ignored.
    let of_the_user = named("XDG_CONFIG_HOME")
        .and_then(absolute)
        .or_else(|| named("HOME").and_then(absolute).map(|home| home.join(".config")))
        .map(|folder| folder.join(OF_THE_USER));
    let mut places: Vec<PathBuf> = named(VARIABLE).map(PathBuf::from).into_iter().collect();
    places.extend(of_the_user);
    places.push(OF_THE_SYSTEM.into());
    places
}

/// Returns whether the first of [`places`] is that of `$OUTLIVE_CONFIG`, which must be there.
fn first_is_demanded() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|value| !value.is_empty())
}

/// Returns whether a user's file lies where this user cannot even see whether it is there: in
/// another's home, which `HOME` still names after `su` or `setpriv`. What another has chosen there
/// does not concern this user. A file that can be seen and not read was meant, so it is an error:
/// without it the program would use another domain than its siblings. So is a closed `/etc/outlive`.
fn is_in_anothers_home(path: &Path) -> bool {
    let denied = std::io::ErrorKind::PermissionDenied;
    path != Path::new(OF_THE_SYSTEM)
        && std::fs::symlink_metadata(path).is_err_and(|error| error.kind() == denied)
}

impl Config {
    /// Reads the files of `$OUTLIVE_CONFIG`, of the user and of the system, as far as they exist:
    /// see [the module](self).
    ///
    /// # Errors
    /// [`Error::InvalidConfig`] when a file is no TOML, has an unknown key or an impossible value,
    /// is no ordinary file, or is the one of `$OUTLIVE_CONFIG` and is not there.
    /// [`Error::Permission`] when a file is there and may not be read (a user's file in a folder that
    /// the caller may not enter is passed over), and errors of the system.
    pub fn load() -> Result<Config, Error> {
        let mut config = Config::default();
        let mut is_demanded = first_is_demanded();
        for path in places() {
            match read::file(&path) {
                Ok(parsed) => {
                    let is_last = parsed.is_root;
                    config.add(parsed, &path);
                    if is_last {
                        break;
                    }
                }
                // Not a folder: one of those above it.
                Err(Error::NotFound { .. } | Error::NotAFolder { .. }) => {
                    if is_demanded {
                        let why = "it does not exist, and OUTLIVE_CONFIG names it";
                        return Err(read::refused(&path, (0, 0), why));
                    }
                }
                Err(Error::Permission { .. }) if !is_demanded && is_in_anothers_home(&path) => {}
                Err(error) => return Err(error),
            }
            is_demanded = false;
        }
        Ok(config)
    }

    /// Reads that file alone.
    ///
    /// # Errors
    /// [`Error::NotFound`]; else as [`Config::load`].
    pub fn load_file(path: impl AsRef<Path>) -> Result<Config, Error> {
        let mut config = Config::default();
        config.add(read::file(path.as_ref())?, path.as_ref());
        Ok(config)
    }

    /// Takes what the files before have left open.
    fn add(&mut self, parsed: read::Parsed, path: &Path) {
        let known: Vec<String> = self.settings.iter().map(|one| one.key.clone()).collect();
        // A group shares the domain that its own file means, and no other that a file before has
        // named: a user's own domain is not opened to the system's group.
        let of_file = parsed.domain.as_deref().unwrap_or(crate::segment::DEFAULT_DOMAIN);
        let has_group = self.domain.as_deref().is_none_or(|domain| domain == of_file);
        for setting in parsed.settings {
            // A profile is taken whole, or not at all.
            let is_hidden = match setting.profile() {
                Some(name) => self.profile(name).is_some(),
                None => known.contains(&setting.key) || setting.key == "group" && !has_group,
            };
            if !is_hidden {
                self.settings.push(setting);
            }
        }
        self.domain = self.domain.take().or(parsed.domain);
        self.group = self.group.take().or(parsed.group.filter(|_| has_group));
        self.budget = self.budget.or(parsed.budget);
        self.wait_strategy = self.wait_strategy.or(parsed.wait_strategy);
        for profile in parsed.profiles {
            if self.profile(&profile.name).is_none() {
                self.profiles.push(profile);
            }
        }
        self.files.push(path.to_path_buf());
    }

    /// Returns the files that were read, the most important first.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Returns the default domain's name, or its path if it has a `/`.
    pub fn domain(&self) -> Option<&str> {
        self.domain.as_deref()
    }

    /// Returns the group that shares the default domain, by name or number. It does not hold for a
    /// domain that is named otherwise: by an option, or by `OUTLIVE_DOMAIN`.
    pub fn group(&self) -> Option<&str> {
        self.group.as_deref()
    }

    /// Returns the most bytes that all things of the default domain may take together, for
    /// `outlive domain create`.
    pub fn budget(&self) -> Option<u64> {
        self.budget
    }

    /// Returns how handles wait that no profile says anything else of.
    pub fn wait_strategy(&self) -> Option<WaitStrategy> {
        self.wait_strategy
    }

    /// Returns the profiles, in the order in which they are tried.
    pub fn profiles(&self) -> &[Profile] {
        &self.profiles
    }

    /// Returns the profile of that name.
    pub fn profile(&self, name: &str) -> Option<&Profile> {
        self.profiles.iter().find(|profile| profile.name == name)
    }

    /// Returns the profile of a topic: the first that has a pattern which fits the topic's name.
    pub fn profile_for(&self, topic: &str) -> Option<&Profile> {
        self.profiles.iter().find(|profile| profile.is_for(topic))
    }

    /// Returns each value that is in force, and where it is set.
    pub fn settings(&self) -> &[Setting] {
        &self.settings
    }
}

impl Profile {
    /// Returns whether one of its patterns fits a topic's name.
    pub fn is_for(&self, topic: &str) -> bool {
        self.topics.iter().any(|pattern| pattern::fits(pattern, topic))
    }
}

impl Setting {
    /// Returns the profile that it belongs to.
    fn profile(&self) -> Option<&str> {
        let (name, _) = self.key.strip_prefix("profile.")?.rsplit_once('.')?;
        Some(name)
    }
}

#[cfg(test)]
mod tests;
