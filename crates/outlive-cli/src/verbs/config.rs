//! `outlive config`: what the configuration files say, and whether they are valid.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use outlive::config::{self, Config};
use outlive::{Domain, Error};
use serde::Serialize;
use toml::de::{DeTable, DeValue};

use crate::cli::Common;
use crate::domain::Source;
use crate::exit::{Code, Failure};
use crate::output::{self, talk};

/// The configuration file: the default domain, and profiles for topics
#[derive(Subcommand, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive config show\n  \
    outlive config check")]
pub enum ConfigNoun {
    Show(ShowArgs),
    Check(CheckArgs),
}

/// Show each value that is in force, and where it comes from
///
/// The files are $OUTLIVE_CONFIG, then the user's ($XDG_CONFIG_HOME/outlive/outlive.toml, else
/// ~/.config/outlive/outlive.toml), then the system's (/etc/outlive/outlive.toml). A value is that
/// of the first file that sets it. Options and the environment come before all files.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive config show\n  \
    outlive config show --topic camera.front")]
pub struct ShowArgs {
    /// Show the profile that holds for this topic, and nothing else
    #[arg(long, value_name = "NAME")]
    topic: Option<String>,
}

/// Check configuration files: exit code 16 if one has a fault
///
/// All faults are told, each with its line and column: what is no TOML, keys that are not known,
/// values that cannot be, a group that this machine does not have.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive config check\n  \
    outlive config check robot.toml")]
pub struct CheckArgs {
    /// The files to check [default: those that every run reads, as far as they exist]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

#[derive(Serialize)]
struct Value {
    key: String,
    /// As it is written in TOML; with --json as JSON has it.
    #[serde(serialize_with = "as_json")]
    value: String,
    /// `option`, `environment`, `file` or `default`.
    source: &'static str,
    /// The variable, or the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

/// Writes a value of TOML as one of JSON; one that is not set as null.
fn as_json<S: serde::Serializer>(value: &str, to: S) -> Result<S::Ok, S::Error> {
    let text = format!("value = {value}");
    let table = DeTable::parse(&text).ok();
    let value = table.as_ref().and_then(|table| table.get_ref().get("value"));
    value.map_or(serde_json::Value::Null, |value| json(value.get_ref())).serialize(to)
}

fn json(value: &DeValue<'_>) -> serde_json::Value {
    match value {
        DeValue::String(text) => (&**text).into(),
        DeValue::Boolean(is_so) => (*is_so).into(),
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).ok().into()
        }
        DeValue::Array(items) => items.iter().map(|item| json(item.get_ref())).collect(),
        // No key has such a value.
        _ => serde_json::Value::Null,
    }
}

impl Value {
    fn told(&self) -> String {
        match (&self.from, self.line) {
            (Some(file), Some(line)) => format!("{file}:{line}"),
            (Some(variable), None) => variable.clone(),
            (None, _) => self.source.to_owned(),
        }
    }
}

impl ConfigNoun {
    /// Runs the verb.
    pub fn run(self, common: &Common) -> Result<(), Failure> {
        match self {
            ConfigNoun::Show(args) => show(&args, common),
            ConfigNoun::Check(args) => check(&args, common),
        }
    }
}

/// What holds where nothing says anything else.
const DEFAULTS: [(&str, &str); 4] = [
    ("domain", "\"default\""),
    ("group", "none"),
    ("limits.budget", "none"),
    ("wait.strategy", "\"adaptive\""),
];

fn show(args: &ShowArgs, common: &Common) -> Result<(), Failure> {
    let config = Config::load()?;
    let of_topic = match &args.topic {
        Some(topic) => match config.profile_for(topic) {
            Some(profile) => Some(format!("profile.{}.", profile.name)),
            None => {
                let text = format!("no profile holds for the topic '{}'", topic.escape_debug());
                return Err(Failure::new(Code::NotFound, text));
            }
        },
        None => None,
    };
    let values = values(&config, common);
    let values = values.into_iter().filter(|value| {
        // A profile's name may have dots, the key behind it has none.
        let own =
            |prefix: &String| value.key.strip_prefix(prefix).is_some_and(|key| !key.contains('.'));
        of_topic.as_ref().is_none_or(own)
    });
    if common.json {
        return values.into_iter().try_for_each(|value| output::print_json(&value));
    }
    let rows: Vec<Vec<String>> =
        values.map(|value| vec![value.key.clone(), value.value.clone(), value.told()]).collect();
    output::print(output::table(&["KEY", "VALUE", "SOURCE"], &[], &rows))
}

fn values(config: &Config, common: &Common) -> Vec<Value> {
    let mut values = Vec::new();
    let domain = &common.domain;
    for (key, otherwise) in DEFAULTS {
        let set = config.settings().iter().find(|setting| setting.key == key);
        // The place comes from all of them together: see `DomainArgs::complete`.
        let (source, from, given) = match key {
            "domain" => named(domain.source, "OUTLIVE_DOMAIN", domain.domain.as_deref()),
            "group" => named(domain.group_source, "OUTLIVE_GROUP", domain.group.as_deref()),
            _ => (None, None, None),
        };
        let is_of_file = match key {
            "domain" => domain.source == Source::File,
            "group" => domain.group_source == Source::File,
            // It belongs to the file's domain.
            "limits.budget" => set.is_some() && domain.is_default(),
            _ => set.is_some(),
        };
        values.push(match (source, set) {
            (Some(source), _) => Value {
                key: key.to_owned(),
                value: given.unwrap_or_default(),
                source,
                from,
                line: None,
            },
            (None, Some(set)) if is_of_file => of_file(set),
            _ => Value {
                key: key.to_owned(),
                value: otherwise.to_owned(),
                source: "default",
                from: None,
                line: None,
            },
        });
    }
    let rest = config.settings().iter().filter(|setting| setting.key.starts_with("profile."));
    values.extend(rest.map(of_file));
    values
}

fn of_file(setting: &config::Setting) -> Value {
    Value {
        key: setting.key.clone(),
        value: setting.value.clone(),
        source: "file",
        from: Some(setting.path.display().to_string()),
        line: Some(setting.line),
    }
}

type Named = (Option<&'static str>, Option<String>, Option<String>);

fn named(source: Source, variable: &str, given: Option<&str>) -> Named {
    let given = given.map(|given| format!("{given:?}"));
    match source {
        Source::Option => (Some("option"), None, given),
        Source::Environment => (Some("environment"), Some(variable.to_owned()), given),
        Source::File | Source::Default => (None, None, None),
    }
}

/// Returns that this machine has no such group as a file names, if so.
fn no_group(path: &Path) -> Vec<Error> {
    let Ok(config) = Config::load_file(path) else { return Vec::new() };
    let setting = config.settings().iter().find(|setting| setting.key == "group");
    let (Some(group), Some(setting)) = (config.group(), setting) else { return Vec::new() };
    match Domain::options().group_named(group) {
        Ok(_) => Vec::new(),
        Err(error) => vec![Error::InvalidConfig {
            path: path.into(),
            line: setting.line,
            column: 1,
            why: error.to_string().into(),
        }],
    }
}

#[derive(Serialize)]
struct Checked {
    file: String,
    ok: bool,
    faults: Vec<Fault>,
}

#[derive(Serialize)]
struct Fault {
    line: u32,
    column: u32,
    why: String,
}

fn check(args: &CheckArgs, common: &Common) -> Result<(), Failure> {
    let (mut is_valid, mut is_any) = (true, false);
    // A file that was named must be there, and so must that of OUTLIVE_CONFIG.
    let (files, demanded) = match args.files.is_empty() {
        false => (args.files.clone(), args.files.len()),
        true => {
            let named = std::env::var_os("OUTLIVE_CONFIG").is_some_and(|name| !name.is_empty());
            (config::places(), usize::from(named))
        }
    };
    for (at, path) in files.iter().enumerate() {
        let faults = match config::check_file(path) {
            Ok(faults) => faults,
            Err(Error::NotFound { .. } | Error::NotAFolder { .. }) if at >= demanded => continue,
            Err(Error::NotFound { .. } | Error::NotAFolder { .. }) => {
                let text = format!("{} does not exist", path.display());
                return Err(Failure::new(Code::NotFound, text));
            }
            Err(error @ Error::InvalidConfig { .. }) => vec![error],
            Err(error) => return Err(error.into()),
        };
        let faults = if faults.is_empty() { no_group(path) } else { faults };
        is_valid &= faults.is_empty();
        is_any = true;
        if common.json {
            let file = path.display().to_string();
            let ok = faults.is_empty();
            let faults = faults.into_iter().filter_map(|fault| match fault {
                Error::InvalidConfig { line, column, why, .. } => {
                    Some(Fault { line, column, why: why.into() })
                }
                _ => None,
            });
            output::print_json(&Checked { file, ok, faults: faults.collect() })?;
        } else if faults.is_empty() {
            output::print(format_args!("{}: valid\n", path.display()))?;
        } else {
            faults.iter().for_each(talk);
        }
    }
    if !is_any {
        let places: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
        talk(format_args!("no configuration file is there: {}", places.join(", ")));
    }
    if is_valid { Ok(()) } else { Err(Failure::Silent(Code::BadInput as u8)) }
}
