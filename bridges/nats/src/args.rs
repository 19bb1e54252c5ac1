//! The command line, and what it opens.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use outlive::queue::{OnReceiverDeath, Queue};
use outlive::{Domain, Error};

use outlive_program::exit::{Code, Failure};

/// Carry a queue's messages into a stream of NATS JetStream, or a stream's messages into a queue
///
/// Into the stream (the default), the bridge is the queue's receiver. A message leaves the queue when
/// the stream has acknowledged it, so a message that was sent to the queue reaches the stream at
/// least once, whether the bridge or the server is killed. The stream drops what it gets twice, within
/// its duplicate window, by a number that each message of the queue has (Nats-Msg-Id). While the
/// server is away, the queue keeps messages up to its own bound.
///
/// With --in, the stream has a durable consumer for the bridge, and a message is acknowledged when it
/// is in the queue. The bridge notes in the domain how far it came, so its successor sends none
/// twice, unless the bridge was killed between a send and its note.
///
/// A queue has one bridge at a time in each direction: a second one waits until the first one leaves
/// or dies, and then goes on where that stopped.
#[derive(Parser, Debug)]
#[command(name = "outlive-queue-bridge", bin_name = "outlive queue bridge", version)]
#[command(after_long_help = "Examples:\n  \
    outlive queue bridge orders --nats nats://10.0.0.5 ORDERS\n  \
    outlive queue bridge orders --nats nats://10.0.0.5 ORDERS --create-stream --max-age 7d\n  \
    outlive queue bridge orders --nats tls://nats.example.org ORDERS --creds bridge.creds\n  \
    outlive queue bridge arrivals --nats nats://10.0.0.5 ORDERS --in --consumer warehouse\n\n\
    Exit codes are those of outlive: 0 asked to end, or --exit-when-empty; 2 usage; 6 no such stream \
    or queue; 7 the consumer is another's; 9 no permission; 10 a message is too large; 13 not a name.")]
pub struct Args {
    /// The queue's name; a queue that is not there is made
    pub queue: String,

    /// The stream's name
    pub stream: String,

    /// The server: nats://HOST[:PORT], tls://HOST[:PORT], or several with commas
    #[arg(long, value_name = "URL", env = "NATS_URL", hide_env_values = true)]
    pub nats: String,

    /// The subject of the messages: where they are published [default: the stream's only one, with the
    /// queue's name in place of a wildcard at its end], or, with --in, which of the stream's are taken
    /// [default: all]
    #[arg(long, value_name = "SUBJECT")]
    pub subject: Option<String>,

    /// From the queue into the stream: the default
    #[arg(long, conflicts_with = "into_queue")]
    pub out: bool,

    /// From the stream into the queue
    #[arg(long = "in")]
    pub into_queue: bool,

    /// How many messages are under way at a time; 1 keeps their order whatever the server refuses
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub in_flight: u32,

    /// How long the server may take to acknowledge a message before it is sent again
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub ack_timeout: Duration,

    /// End when the queue (with --in: the stream) has no more messages
    #[arg(long)]
    pub exit_when_empty: bool,

    /// Put messages that the other side refuses as too large into this queue; without it, the bridge
    /// stops before such a message, with exit code 10
    #[arg(long, value_name = "QUEUE")]
    pub set_aside: Option<String>,

    /// Print counts and events on standard output, one line of JSON each
    #[arg(long, overrides_with = "json")]
    pub json: bool,

    /// With --in: the durable consumer's name [default: outlive-MACHINE-QUEUE]. No two bridges may
    /// have the same
    #[arg(long, value_name = "NAME", requires = "into_queue")]
    pub consumer: Option<String>,

    /// With --in, for a new consumer: begin with the messages that come from now on
    #[arg(long, requires = "into_queue")]
    pub new_only: bool,

    /// With --in, for a new consumer: how long the server waits for an acknowledgement before it
    /// delivers a message again; so long may a successor wait for what its predecessor had
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub ack_wait: Duration,

    /// With --in: begin each message with a line of JSON: subject, sequence, redelivered, headers. By
    /// the sequence a receiver can tell a message that it has already
    #[arg(long, requires = "into_queue")]
    pub envelope: bool,

    /// Make the stream if it is not there
    #[arg(long, conflicts_with = "into_queue")]
    pub create_stream: bool,

    /// For a new stream: where it keeps messages
    #[arg(long, value_name = "WHERE", default_value = "file", requires = "create_stream")]
    pub storage: Storage,

    /// For a new stream: how many servers keep it
    #[arg(long, value_name = "N", default_value_t = 1, requires = "create_stream")]
    pub replicas: u8,

    /// For a new stream: how many messages it keeps at most [default: any number]; it refuses more,
    /// and the queue keeps them
    #[arg(long, value_name = "N", requires = "create_stream")]
    pub max_messages: Option<u32>,

    /// For a new stream: how many bytes it keeps at most, as 64M or 2G [default: any number]
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "create_stream")]
    pub max_bytes: Option<u64>,

    /// For a new stream: how long it keeps a message, as 7d [default: for ever]
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "create_stream")]
    pub max_age: Option<Duration>,

    /// For a new stream: for how long it tells a message that it got twice
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = duration, requires = "create_stream")]
    pub duplicate_window: Duration,

    /// The user's name
    #[arg(long, env = "NATS_USER", value_name = "NAME")]
    pub user: Option<String>,

    /// The file with the user's password; else the variable NATS_PASSWORD has it
    #[arg(long, value_name = "FILE", requires = "user")]
    pub password_file: Option<PathBuf>,

    /// The file with a token; else the variable NATS_TOKEN has it
    #[arg(long, value_name = "FILE", conflicts_with = "user")]
    pub token_file: Option<PathBuf>,

    /// The file with credentials: a JWT and its seed
    #[arg(long, env = "NATS_CREDS", value_name = "FILE", conflicts_with_all = ["user", "token_file"])]
    pub creds: Option<PathBuf>,

    /// The file with an nkey's seed
    #[arg(long, value_name = "FILE", conflicts_with_all = ["user", "token_file", "creds"])]
    pub nkey: Option<PathBuf>,

    /// Refuse a server without TLS
    #[arg(long)]
    pub tls: bool,

    /// The file with the certificates that vouch for the server's [default: the system's]
    #[arg(long, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,

    /// The file with this client's certificate
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// The file with its key
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// The domain to work in: a name, or a folder's path, which has a '/' in it [env: OUTLIVE_DOMAIN]
    #[arg(long, short = 'd', value_name = "NAME|PATH", overrides_with = "domain")]
    pub domain: Option<String>,

    /// The group that shares the domain: a name or a number [env: OUTLIVE_GROUP]
    #[arg(long, value_name = "GROUP", overrides_with = "group")]
    pub group: Option<String>,

    /// Fail with exit code 6 when the domain or the queue does not exist, rather than make it
    #[arg(long)]
    pub no_create: bool,
}

/// Where a stream keeps its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Storage {
    /// In files
    File,
    /// In the server's memory: lost with the server
    Memory,
}

/// Reads a time: `250ms`, `2s`, `1m`, `7d`.
fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => f64::NAN,
    };
    let read = digits.parse::<f64>().ok().map(|number| number * unit);
    // As nanoseconds in 63 bits, which is how the server has it.
    let read = read.filter(|seconds| (0.001..9.0e9).contains(seconds));
    read.map(Duration::from_secs_f64).ok_or_else(|| {
        "a time is a number with ms, s, m, h or d, as in 250ms or 2m, and at least 1ms".to_owned()
    })
}

/// Reads a size: `4096`, `64K`, `2G`.
fn size(text: &str) -> Result<u64, String> {
    let upper = text.to_ascii_uppercase();
    let upper = upper.strip_suffix("IB").or(upper.strip_suffix('B')).unwrap_or(&upper);
    let shift = match upper.chars().last() {
        Some('K') => 10,
        Some('M') => 20,
        Some('G') => 30,
        Some('T') => 40,
        _ => 0,
    };
    let digits = upper.trim_end_matches(['K', 'M', 'G', 'T']);
    let read = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    let read = read.filter(|bytes| *bytes > 0 && i64::try_from(*bytes).is_ok());
    read.ok_or_else(|| "a size is a number of bytes, or one with K, M, G or T".to_owned())
}

impl Args {
    /// Opens the domain.
    pub fn open_domain(&self) -> Result<Domain, Failure> {
        let (domain, group) = (self.domain.as_deref(), self.group.as_deref());
        Ok(outlive_program::open_domain(domain, group, !self.no_create)?)
    }
}

/// Opens a queue for its messages as bytes. One that is made keeps messages while its receiver is
/// dead: the bridge's death is no reason for its senders to stop.
pub fn open_queue(args: &Args, domain: &Domain, name: &str) -> Result<Queue, Failure> {
    let made =
        || Queue::options().on_receiver_death(OnReceiverDeath::Keep).create_new(domain, name);
    loop {
        match Queue::open_as_bytes(domain, name) {
            Err(Error::NotFound { .. }) if !args.no_create => match made() {
                // Another process was faster.
                Err(Error::AlreadyExists { .. }) => {}
                made => return Ok(made?),
            },
            opened => return Ok(opened?),
        }
    }
}

/// Reads a secret: from the file, or from the variable. Its last newline does not belong to it.
pub fn secret(file: Option<&PathBuf>, variable: &str) -> Result<Option<String>, Failure> {
    let Some(path) = file else {
        return match std::env::var(variable) {
            Ok(value) => Ok(Some(value)),
            Err(std::env::VarError::NotPresent) => Ok(None),
            Err(error) => Err(Failure::new(Code::Usage, format!("{variable}: {error}"))),
        };
    };
    read(path).map(|text| Some(text.trim_end_matches(['\r', '\n']).to_owned()))
}

/// Reads a file that the command line names.
pub fn read(path: &PathBuf) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| {
        let code = match error.kind() {
            std::io::ErrorKind::NotFound => Code::NotFound,
            std::io::ErrorKind::PermissionDenied => Code::Permission,
            std::io::ErrorKind::InvalidData => Code::BadInput,
            _ => Code::System,
        };
        Failure::new(code, format!("could not read {}: {error}", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        <Args as clap::CommandFactory>::command().debug_assert();
    }

    /// `outlive` puts its own before those behind the verb.
    #[test]
    fn of_options_that_are_said_twice_the_last_one_counts() {
        let twice = "x q S --nats nats://a -d a --domain b --group 1 --group 2 --json --json";
        let args = Args::try_parse_from(twice.split(' ')).expect("taken");
        assert_eq!((args.domain.as_deref(), args.group.as_deref()), (Some("b"), Some("2")));
        assert!(args.json);
    }

    #[test]
    fn times_and_sizes_are_read_and_nonsense_is_not() {
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("7d"), Ok(Duration::from_secs(7 * 86_400)));
        assert_eq!(duration("1.5"), Ok(Duration::from_millis(1500)));
        for bad in ["", "0", "-1s", "1y", "s", "nan", "inf", "1e99", "1 s"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
        assert_eq!(size("64k"), Ok(64 << 10));
        assert_eq!(size("2GiB"), Ok(2 << 30));
        assert_eq!(size("17"), Ok(17));
        for bad in ["", "0", "-1", "K", "99999999T", "1X"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }
}
