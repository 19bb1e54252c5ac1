//! Reads one configuration file: TOML, in which every key is known and every value possible.

use std::fmt::Display;
use std::ops::{Range, RangeInclusive};
use std::path::Path;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Profile, Setting, value};
use crate::durability::Durability;
use crate::segment::check_name;
use crate::sys::file;
use crate::{Error, WaitStrategy};

/// A longer file is no configuration.
const LONGEST: u64 = 1 << 20;

/// What one file says.
#[derive(Debug, Default)]
pub(super) struct Parsed {
    /// Whether it is the last file that is read.
    pub(super) is_root: bool,
    pub(super) domain: Option<String>,
    pub(super) group: Option<String>,
    pub(super) budget: Option<u64>,
    pub(super) wait_strategy: Option<WaitStrategy>,
    pub(super) profiles: Vec<Profile>,
    pub(super) settings: Vec<Setting>,
}

/// A key or a value, with its place in the file.
type Key<'a> = Spanned<std::borrow::Cow<'a, str>>;
type Value<'a> = Spanned<DeValue<'a>>;

/// Reads a file; the first fault in it is the error.
pub(super) fn file(path: &Path) -> Result<Parsed, Error> {
    let text = text_of(path)?;
    let (parsed, faults) = parse(path, &text);
    faults.into_iter().next().map_or(Ok(parsed), Err)
}

/// Reads a configuration file, and returns all faults in it, in the order of its lines: each an
/// [`Error::InvalidConfig`].
///
/// # Errors
/// [`Error::NotFound`], [`Error::Permission`], and errors of the system;
/// [`Error::InvalidConfig`] when it is no ordinary file, too long, or no UTF-8.
pub fn check_file(path: impl AsRef<Path>) -> Result<Vec<Error>, Error> {
    let path = path.as_ref();
    Ok(parse(path, &text_of(path)?).1)
}

/// Makes the error for a fault in a file; line 0: in the file as a whole.
pub(super) fn refused(path: &Path, (line, column): (u32, u32), why: impl Into<Box<str>>) -> Error {
    Error::InvalidConfig { path: path.into(), line, column, why: why.into() }
}

fn text_of(path: &Path) -> Result<String, Error> {
    let bytes = file::read_ordinary(path, LONGEST)
        .map_err(|errno| Error::from_errno("read", path, errno))?
        .ok_or_else(|| refused(path, (0, 0), "it is no ordinary file, or longer than 1 MiB"))?;
    String::from_utf8(bytes).map_err(|_| refused(path, (0, 0), "it is no UTF-8"))
}

/// Reads a text; returns what is valid in it, and all faults.
fn parse(path: &Path, text: &str) -> (Parsed, Vec<Error>) {
    let mut reader = Reader { path, text, parsed: Parsed::default(), faults: Vec::new() };
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        reader.fault(error.span().unwrap_or(0..0), error.message());
    }
    // What follows from a fault in the grammar is no fault of its own.
    if reader.faults.is_empty() {
        reader.top(table.get_ref());
    }
    let Reader { mut parsed, mut faults, .. } = reader;
    // The table is sorted by its keys.
    parsed.settings.sort_by_key(|setting| setting.line);
    faults.sort_by_key(|(at, _)| *at);
    (parsed, faults.into_iter().map(|(_, error)| error).collect())
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    parsed: Parsed,
    /// Each with its place in the text.
    faults: Vec<(usize, Error)>,
}

impl Reader<'_> {
    /// Returns the line and the column of a place, both from 1; columns are characters.
    fn position(&self, at: usize) -> (u32, u32) {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        (line as u32, column as u32)
    }

    fn fault(&mut self, at: Range<usize>, why: impl Display) {
        let error = refused(self.path, self.position(at.start), why.to_string());
        self.faults.push((at.start, error));
    }

    fn unknown(&mut self, key: &Key<'_>, known: &[&str]) {
        let name = key.get_ref();
        let nearest = known
            .iter()
            .map(|known| (strsim::osa_distance(name, known), known))
            .filter(|(distance, known)| *distance <= (known.len() / 2).max(1))
            .min();
        let advice = match nearest {
            Some((_, known)) => format!("is '{known}' meant?"),
            None => format!("known are {}", known.join(", ")),
        };
        self.fault(key.span(), format_args!("'{}' is no key here; {advice}", name.escape_debug()));
    }

    /// Notes that a value is in force.
    fn set(&mut self, key: String, value: &Value<'_>) {
        let written = self.text.get(value.span()).unwrap_or_default();
        self.parsed.settings.push(Setting {
            key,
            // An array may have several lines.
            value: written.split_whitespace().collect::<Vec<_>>().join(" "),
            path: self.path.to_path_buf(),
            line: self.position(value.span().start).0,
        });
    }

    /// Takes a value, if `read` makes something of it; `wanted` says what it should be.
    fn take<T>(
        &mut self,
        key: impl Display,
        value: &Value<'_>,
        wanted: impl Display,
        read: impl FnOnce(&DeValue<'_>) -> Option<T>,
    ) -> Option<T> {
        let taken = read(value.get_ref());
        if taken.is_some() {
            self.set(key.to_string(), value);
        } else {
            self.fault(value.span(), format_args!("{key}: {wanted}"));
        }
        taken
    }

    fn top(&mut self, table: &DeTable<'_>) {
        for (key, value) in table {
            match &**key.get_ref() {
                "root" => {
                    self.parsed.is_root = self.take("root", value, BOOL, boolean).unwrap_or(false);
                }
                "domain" => {
                    let wanted = "a domain's name, or an absolute path";
                    self.parsed.domain = self.take("domain", value, wanted, |value| {
                        let name = value.as_str()?;
                        let is_right = match name.contains('/') {
                            // A relative one would mean another folder in each process.
                            true => Path::new(name).is_absolute(),
                            false => check_name(name).is_ok(),
                        };
                        is_right.then(|| name.to_owned())
                    });
                }
                "group" => {
                    let wanted = "a group's name, or its number";
                    self.parsed.group = self.take("group", value, wanted, |value| {
                        let name = value.as_str().map(str::to_owned);
                        name.or_else(|| whole(value).map(|number| number.to_string()))
                            .filter(|name| !name.is_empty())
                    });
                }
                "limits" => self.table(key, value, &["budget"], |reader, key, value| {
                    reader.parsed.budget =
                        reader.take(key, value, SIZE, |value| size(value, 1..=u64::MAX));
                }),
                "wait" => self.table(key, value, &["strategy"], |reader, key, value| {
                    reader.parsed.wait_strategy = reader.take(key, value, STRATEGY, strategy);
                }),
                "profile" => self.profiles(value),
                _ => self.unknown(key, &["root", "domain", "group", "limits", "wait", "profile"]),
            }
        }
    }

    /// Reads a table of those keys; `each` takes the full key of each, and its value.
    fn table(
        &mut self,
        name: &Key<'_>,
        value: &Value<'_>,
        known: &[&str],
        mut each: impl FnMut(&mut Self, String, &Value<'_>),
    ) {
        let name = name.get_ref();
        let Some(table) = value.get_ref().as_table() else {
            self.fault(value.span(), format_args!("{name}: a table, [{name}]"));
            return;
        };
        for (key, value) in table {
            if known.contains(&&**key.get_ref()) {
                each(self, format!("{name}.{}", key.get_ref()), value);
            } else {
                self.unknown(key, known);
            }
        }
    }

    fn profiles(&mut self, value: &Value<'_>) {
        let tables = value.get_ref().as_array();
        let Some(tables) = tables.filter(|all| all.iter().all(|one| one.get_ref().is_table()))
        else {
            self.fault(value.span(), "profile: tables, each [[profile]] with a name of its own");
            return;
        };
        for table in tables.iter() {
            let Some(keys) = table.get_ref().as_table() else { continue };
            self.profile(table, keys);
        }
    }

    fn profile(&mut self, of: &Value<'_>, table: &DeTable<'_>) {
        let name = table.get("name").and_then(|name| Some((name, name.get_ref().as_str()?)));
        let Some((at, name)) = name.filter(|(_, name)| !name.is_empty()) else {
            self.fault(of.span(), "a profile needs a name: name = \"camera\"");
            return;
        };
        if self.parsed.profiles.iter().any(|other| other.name == name) {
            self.fault(at.span(), format_args!("there is a profile '{name}' already"));
            return;
        }
        let mut made = Profile { name: name.to_owned(), ..Profile::default() };
        for (key, value) in table {
            self.profile_key(&mut made, key, value);
        }
        self.parsed.profiles.push(made);
    }

    fn profile_key(&mut self, made: &mut Profile, key: &Key<'_>, value: &Value<'_>) {
        let full = format!("profile.{}.{}", made.name, key.get_ref());
        match &**key.get_ref() {
            "name" => {}
            "topics" => {
                let wanted = "patterns of topics' names, as in [\"camera.*\"]";
                made.topics = self.take(full, value, wanted, patterns).unwrap_or_default();
            }
            "depth" => {
                made.depth = self.take(full, value, DEPTH, |value| number(value, 1..=65_536))
            }
            "max_bytes" => {
                made.max_bytes =
                    self.take(full, value, MAX_BYTES, |value| size(value, 64 << 10..=6 << 30));
            }
            "max_publishers" => {
                made.max_publishers = self.take(full, value, ENDS, |value| number(value, 1..=1024));
            }
            "max_subscribers" => {
                made.max_subscribers =
                    self.take(full, value, ENDS, |value| number(value, 1..=1024));
            }
            "max_samples" => {
                made.max_samples =
                    self.take(full, value, SAMPLES, |value| number(value, 8..=65_536));
            }
            "stamps" => made.stamps = self.take(full, value, BOOL, boolean),
            "wait_strategy" => made.wait_strategy = self.take(full, value, STRATEGY, strategy),
            "reliable" => made.reliable = self.take(full, value, BOOL, boolean),
            "durability" => made.durability = self.take(full, value, KEPT, durability),
            "max_blocking" => made.max_blocking = self.take(full, value, BLOCKING, blocking),
            "lifespan" => made.lifespan = self.take(full, value, SPAN, span),
            "publisher_period" => made.publisher_period = self.take(full, value, TIME, time),
            "mode" => made.mode = self.take(full, value, MODE, mode),
            "keys" => made.keys = self.take(full, value, KEYS, keys),
            "history" => made.history = self.take(full, value, WHOLE, |value| number(value, ANY)),
            "keep_last" => {
                made.keep_last = self.take(full, value, WHOLE, |value| number(value, 1..=u32::MAX));
            }
            "period" => made.period = self.take(full, value, TIME, time),
            "sessions" => made.sessions = self.take(full, value, BOOL, boolean),
            "max_age" => made.max_age = self.take(full, value, SPAN, span),
            "liveliness" => made.liveliness = self.take(full, value, TIME, time),
            _ => self.unknown(key, PROFILE_KEYS),
        }
    }
}

const PROFILE_KEYS: &[&str] = &[
    "name",
    "topics",
    "depth",
    "max_bytes",
    "max_publishers",
    "max_subscribers",
    "max_samples",
    "stamps",
    "wait_strategy",
    "durability",
    "reliable",
    "max_blocking",
    "lifespan",
    "publisher_period",
    "mode",
    "keys",
    "history",
    "keep_last",
    "period",
    "sessions",
    "max_age",
    "liveliness",
];

const ANY: RangeInclusive<u32> = 0..=u32::MAX;
const BOOL: &str = "true or false";
const WHOLE: &str = "a whole number of messages";
const DEPTH: &str = "a whole number from 1 to 65,536";
const ENDS: &str = "a whole number from 1 to 1,024";
const SAMPLES: &str = "a whole number from 8 to 65,536";
const SIZE: &str = "a number of bytes, as in 4096 or \"64M\"";
const MAX_BYTES: &str = "a number of bytes from \"64K\" to \"6G\"";
const TIME: &str = "a time above 0 with its unit, as in \"250ms\" or \"2s\"";
const SPAN: &str = "a time with its unit, as in \"250ms\" or \"2s\", or \"forever\"";
const BLOCKING: &str =
    "a time with its unit, as in \"250ms\" or \"2s\", or \"never\", or \"forever\"";
const MODE: &str = "\"0600\", \"0640\" or \"0660\"";
const KEYS: &str = "whole numbers, as in [1, 2]";
const KEPT: &str = "\"volatile\", \"transient_local\" or \"persistent\"";
const STRATEGY: &str = "\"adaptive\", \"spin\" or \"block\"";

fn boolean(value: &DeValue<'_>) -> Option<bool> {
    value.as_bool()
}

fn whole(value: &DeValue<'_>) -> Option<u64> {
    let number = value.as_integer()?;
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}

fn number(value: &DeValue<'_>, allowed: RangeInclusive<u32>) -> Option<u32> {
    u32::try_from(whole(value)?).ok().filter(|number| allowed.contains(number))
}

fn size(value: &DeValue<'_>, allowed: RangeInclusive<u64>) -> Option<u64> {
    let bytes = whole(value).or_else(|| value::size(value.as_str()?))?;
    allowed.contains(&bytes).then_some(bytes)
}

fn time(value: &DeValue<'_>) -> Option<Duration> {
    value::time(value.as_str()?).filter(|time| !time.is_zero())
}

fn span(value: &DeValue<'_>) -> Option<Duration> {
    match value.as_str()? {
        "forever" => Some(Duration::MAX),
        text => value::time(text),
    }
}

fn blocking(value: &DeValue<'_>) -> Option<Duration> {
    match value.as_str()? {
        "never" => Some(Duration::ZERO),
        _ => span(value),
    }
}

/// Reads a mode: as chmod writes it, or a number of TOML, as in `0o640`.
fn mode(value: &DeValue<'_>) -> Option<u32> {
    let of_text = |text: &str| u32::from_str_radix(text, 8).ok();
    let mode = value.as_str().and_then(of_text).or_else(|| whole(value)?.try_into().ok())?;
    [0o600, 0o640, 0o660].contains(&mode).then_some(mode)
}

fn keys(value: &DeValue<'_>) -> Option<Vec<u64>> {
    value.as_array()?.iter().map(|one| whole(one.get_ref())).collect()
}

fn durability(value: &DeValue<'_>) -> Option<Durability> {
    let all = [Durability::Volatile, Durability::TransientLocal, Durability::Persistent];
    let name = value.as_str()?;
    all.into_iter().find(|one| one.to_string() == name)
}

fn strategy(value: &DeValue<'_>) -> Option<WaitStrategy> {
    match value.as_str()? {
        "adaptive" => Some(WaitStrategy::Adaptive),
        "spin" => Some(WaitStrategy::Spin),
        "block" => Some(WaitStrategy::Block),
        _ => None,
    }
}

fn patterns(value: &DeValue<'_>) -> Option<Vec<String>> {
    let all = value.as_array()?.iter();
    all.map(|one| one.get_ref().as_str().filter(|text| !text.is_empty()).map(str::to_owned))
        .collect()
}
