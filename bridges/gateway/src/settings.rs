//! What a gateway is told: by a file in TOML, then by options, which add to it or replace it.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use zenoh::Config;

use crate::rules::Rule;
use crate::told::said;

/// A gateway's own defaults: see [`Settings`].
const LEASE: Duration = Duration::from_secs(1);

/// How it takes part in the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// It talks to others directly, and to routers.
    #[default]
    Peer,
    /// It talks to one router.
    Client,
    /// It is a router itself.
    Router,
}

impl Mode {
    fn word(self) -> &'static str {
        match self {
            Mode::Peer => "peer",
            Mode::Client => "client",
            Mode::Router => "router",
        }
    }
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Gateways of one name in one domain take turns.
    pub name: Option<String>,
    /// How it takes part.
    pub mode: Option<Mode>,
    /// Where it connects to: `tcp/192.0.2.7:7447`.
    pub connect: Vec<String>,
    /// Where it listens.
    pub listen: Vec<String>,
    /// Whether it looks for others by multicast. Default: no.
    pub scouting: bool,
    /// After how many milliseconds without a sign a peer is gone.
    pub lease_ms: Option<u64>,
    /// A file with zenoh's own configuration (JSON5), which the rest of this adds to: TLS, users.
    pub zenoh: Option<String>,
    /// What may pass.
    #[serde(rename = "rule")]
    pub rules: Vec<Rule>,
}

impl Settings {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or is not valid: where, and why.
    pub fn read(path: &Path) -> Result<Settings, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Returns after which time without a sign a peer is gone.
    pub fn lease(&self) -> Duration {
        self.lease_ms.map_or(LEASE, Duration::from_millis)
    }

    /// Returns the gateway's name.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or("default")
    }

    /// Returns zenoh's configuration.
    ///
    /// # Errors
    /// What is not valid.
    pub fn zenoh(&self) -> Result<Config, String> {
        let mut config = match &self.zenoh {
            Some(path) => {
                Config::from_file(path).map_err(|error| format!("{path}: {}", said(&error)))?
            }
            None => Config::default(),
        };
        let mut set = |key: &str, value: String| {
            config.insert_json5(key, &value).map_err(|error| format!("{key}: {}", said(&error)))
        };
        let list = |endpoints: &[String]| serde_json::to_string(endpoints).unwrap_or_default();
        if self.mode.is_some() || self.zenoh.is_none() {
            set("mode", format!("\"{}\"", self.mode.unwrap_or_default().word()))?;
        }
        if !self.connect.is_empty() {
            set("connect/endpoints", list(&self.connect))?;
        }
        // Without a word nothing listens: zenoh's default would be a port on all addresses.
        if !self.listen.is_empty() || self.zenoh.is_none() {
            set("listen/endpoints", list(&self.listen))?;
        }
        if self.zenoh.is_none() || self.scouting {
            set("scouting/multicast/enabled", self.scouting.to_string())?;
        }
        set("transport/link/tx/lease", self.lease().as_millis().to_string())?;
        // A link that is cut is tried again, and soon: each attempt ends with the lease.
        set("connect/timeout_ms", "-1".to_owned())?;
        set("connect/exit_on_failure", "false".to_owned())?;
        set(
            "connect/retry",
            "{period_init_ms: 50, period_max_ms: 1000, period_increase_factor: 2}".to_owned(),
        )?;
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{Direction, Reliability, Urgency};

    #[test]
    fn a_file_says_it_all() {
        let text = "
name = 'robot'
listen = ['tcp/127.0.0.1:0']
lease_ms = 500
[[rule]]
allow = 'camera/**'
direction = 'out'
as = 'robot7/camera/**'
rate = 10
keep_every = 2
priority = 'data_low'
reliability = 'best_effort'
";
        let settings: Settings = toml::from_str(text).expect("valid");
        assert_eq!((settings.name(), settings.lease()), ("robot", Duration::from_millis(500)));
        let rule = &settings.rules[0];
        assert_eq!(rule.direction, Direction::Out);
        assert_eq!(rule.reliability, Reliability::BestEffort);
        assert_eq!(rule.priority, Urgency::DataLow);
        assert!(rule.thins() && rule.create);
        assert!(settings.zenoh().is_ok());
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for text in [
            "colour = 'red'",
            "[[rule]]\ndirection = 'out'",
            "[[rule]]\nallow = 'a'\ndirection = 'up'",
        ] {
            assert!(toml::from_str::<Settings>(text).is_err(), "{text}");
        }
    }
}
