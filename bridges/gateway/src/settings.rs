//! What a gateway is told: by a file in TOML, then by options, which add to it or replace it.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::Deserialize;
use zenoh::Config;

use crate::rules::Rule;
use crate::told::said;

/// A gateway's own defaults: see [`Settings`].
const LEASE: Duration = Duration::from_secs(1);
/// zenoh sends four signs of life in a lease. Below this, a busy machine's own pauses would end it.
const LEASES: RangeInclusive<Duration> = Duration::from_millis(50)..=Duration::from_secs(3600);

/// What [`Settings::block_ms`] may be.
const BLOCKS: RangeInclusive<u64> = 10..=3_600_000;

const MODE: &str = "mode";
const LISTEN: &str = "listen/endpoints";
const SCOUTING: &str = "scouting/multicast/enabled";
const BLOCK: &str = "transport/link/tx/queue/congestion_control/block/wait_before_close";

/// Where a gateway has defaults of its own. They count as long as a file of zenoh's has nothing there but
/// zenoh's default.
const OURS: [&str; 6] = [MODE, LISTEN, SCOUTING, FOR_LARGE[0].0, FOR_LARGE[1].0, FOR_LARGE[2].0];

/// What zenoh is told for the sake of large messages. Its queue has room for two batches of 64 KB, so the
/// threads that fill it and that empty it wake each other for each batch; and a link keeps one buffer to receive
/// into, so it makes a new one for each batch but the first. Here a queue has room for 1 MB, and a link keeps
/// 8 MB; the memory is taken as it is used. And it receives no message of more than 1 GiB, with all that it
/// adds to a payload: here there is room for that beside 1 GiB.
pub const FOR_LARGE: [(&str, &str); 3] = [
    ("transport/link/tx/queue/size/data", "16"),
    ("transport/link/rx/buffer_size", "8388608"),
    ("transport/link/rx/max_message_size", "1074790400"),
];

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
    /// For how many milliseconds a message may wait for room in a link, before that is closed and connected
    /// again. zenoh's default is 5000.
    pub block_ms: Option<u64>,
    /// A file with zenoh's own configuration (JSON5), which the rest of this adds to: TLS, users.
    pub zenoh: Option<String>,
    /// What may pass.
    #[serde(rename = "rule")]
    pub rules: Vec<Rule>,
}

impl Settings {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// It is not valid: where, and why.
    pub fn of(text: &str) -> Result<Settings, String> {
        toml::from_str(text).map_err(|error| error.to_string())
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
        if !LEASES.contains(&self.lease()) {
            return Err("a lease is 50 to 3600000 ms".to_owned());
        }
        if self.block_ms.is_some_and(|millis| !BLOCKS.contains(&millis)) {
            return Err("block_ms is 10 to 3600000".to_owned());
        }
        let mut config = match &self.zenoh {
            Some(path) => {
                Config::from_file(path).map_err(|error| format!("{path}: {}", said(&error)))?
            }
            None => Config::default(),
        };
        let own = Config::default();
        let unsaid: Vec<&str> = OURS
            .into_iter()
            .filter(|key| config.get_json(key).ok() == own.get_json(key).ok())
            .collect();
        let mut set = |key: &str, value: String| {
            config.insert_json5(key, &value).map_err(|error| format!("{key}: {}", said(&error)))
        };
        let list = |endpoints: &[String]| serde_json::to_string(endpoints).unwrap_or_default();
        if self.mode.is_some() || unsaid.contains(&MODE) {
            set(MODE, format!("\"{}\"", self.mode.unwrap_or_default().word()))?;
        }
        if !self.connect.is_empty() {
            set("connect/endpoints", list(&self.connect))?;
        }
        // Without a word nothing listens: zenoh's default would be a port on all addresses.
        if !self.listen.is_empty() || unsaid.contains(&LISTEN) {
            set(LISTEN, list(&self.listen))?;
        }
        if self.scouting || unsaid.contains(&SCOUTING) {
            set(SCOUTING, self.scouting.to_string())?;
        }
        if let Some(millis) = self.block_ms {
            set(BLOCK, (millis * 1000).to_string())?;
        }
        set("transport/link/tx/lease", self.lease().as_millis().to_string())?;
        // A link that is cut is tried again, and soon: each attempt ends with the lease.
        set("connect/timeout_ms", "-1".to_owned())?;
        set("connect/exit_on_failure", "false".to_owned())?;
        set(
            "connect/retry",
            "{period_init_ms: 50, period_max_ms: 1000, period_increase_factor: 2}".to_owned(),
        )?;
        for (key, value) in FOR_LARGE.into_iter().filter(|(key, _)| unsaid.contains(key)) {
            set(key, value.to_owned())?;
        }
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
    fn a_lease_that_no_peer_could_keep_is_refused() {
        for (lease, is_valid) in [(0, false), (49, false), (50, true), (3_600_001, false)] {
            let settings = Settings { lease_ms: Some(lease), ..Settings::default() };
            assert_eq!(settings.zenoh().is_ok(), is_valid, "{lease}");
        }
    }

    #[test]
    fn a_file_of_zenoh_s_that_says_nothing_opens_no_port() {
        let path = std::env::temp_dir().join(format!("outlive-zenoh-{}.json5", std::process::id()));
        let of = |text: &str, settings: Settings| {
            std::fs::write(&path, text).expect("written");
            let zenoh = Some(path.display().to_string());
            let config = Settings { zenoh, ..settings }.zenoh().expect("valid");
            [LISTEN, SCOUTING, FOR_LARGE[0].0, BLOCK]
                .map(|key| config.get_json(key).expect("there"))
        };
        let tls = "{ transport: { link: { tls: { root_ca_certificate: 'ca.pem' } } } }";
        assert_eq!(of(tls, Settings::default()), ["[]", "false", "16", "5000000"]);
        let given = Settings { scouting: true, block_ms: Some(60_000), ..Settings::default() };
        let says = "{ listen: { endpoints: ['tcp/127.0.0.1:0'] },
                      transport: { link: { tx: { queue: { size: { data: 4 } } } } } }";
        assert_eq!(of(says, given), ["[\"tcp/127.0.0.1:0\"]", "true", "4", "60000000"]);
        let wrong = Settings { block_ms: Some(0), ..Settings::default() };
        assert!(wrong.zenoh().is_err());
        std::fs::remove_file(&path).expect("removed");
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
