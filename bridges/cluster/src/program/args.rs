//! What may be typed.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, Parser};

/// Run a command while holding a lock of several machines
///
/// The program waits until the lock is free on all machines, runs the command, and exits with the
/// command's code. It passes signals on to the command. Processes of one machine wait for each other
/// in a domain; one of them at a time deals with the cluster.
///
/// The lock is held by a lease that this program renews. If it cannot be renewed (no server answers,
/// or this program is stopped), the command and its process group are sent SIGTERM, and SIGKILL, while
/// the lock is still held; the exit code is then the command's, and 125 where that were 0. A process
/// of its own sees to it, so also when this program is stopped or killed.
///
/// The command finds its fencing token in OUTLIVE_FENCE: a number that is larger than all holders had
/// before. Where that must hold whatever happens to this machine, let what the lock guards refuse
/// smaller numbers than it has seen.
///
/// When a holder has died or lost its lease, the next one says so on standard error.
#[derive(Parser, Debug)]
#[command(name = "outlive-lock-cluster", version, max_term_width = 100)]
#[command(after_long_help = "Examples:\n  \
    outlive lock --cluster etcd://10.0.0.1:2379,10.0.0.2:2379 migrate ./migrate.sh\n  \
    outlive lock --cluster 'etcds://deploy@etcd.example?ca=/etc/etcd/ca.pem&ttl=5' --nonblock cron ./job.sh\n\n\
    Exit codes: those of 'outlive lock': 124 not free in time, 125 failed, 126 and 127 cmd could not be run.")]
pub(super) struct LockArgs {
    /// The lock's name
    pub(super) name: String,
    #[command(flatten)]
    pub(super) common: Common,
}

/// Run a command while holding one of several permits of several machines
///
/// At most --permits commands run at once, on all machines together. For the rest, the program does as
/// outlive-lock-cluster does.
#[derive(Parser, Debug)]
#[command(name = "outlive-semaphore-cluster", version, max_term_width = 100)]
pub(super) struct SemaphoreArgs {
    /// The semaphore's name
    pub(super) name: String,
    /// How many commands may run at once [default: as many as the semaphore, which is there, has]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(super) permits: Option<u32>,
    #[command(flatten)]
    pub(super) common: Common,
}

/// What both have.
#[derive(Args, Debug)]
pub(super) struct Common {
    /// The cluster: etcd://[USER@]HOST:PORT[,HOST:PORT…][?ttl=SECONDS&ca=FILE&password-file=FILE];
    /// etcds:// for TLS
    ///
    /// ttl is how long the lock stays with a machine that is not heard of any more: 10 by default, 2 at
    /// least. A user's password is in OUTLIVE_CLUSTER_PASSWORD or in that file.
    #[arg(long, value_name = "ADDRESS")]
    pub(super) cluster: String,
    /// Give up after waiting this long [default: wait for ever]
    ///
    /// At the beginning, a server has to answer within this time, and within five seconds at the most:
    /// otherwise the address is taken to be wrong, and the exit code is 125. Later servers are waited
    /// for as the lock is.
    #[arg(long, short = 'w', value_name = "TIME", value_parser = time)]
    pub(super) timeout: Option<Duration>,
    /// Give up at once when it is not free; exit with 125 when no server answers within a second
    #[arg(long, conflicts_with = "timeout")]
    pub(super) nonblock: bool,
    /// Exit with this code after giving up by --timeout or --nonblock
    #[arg(long, short = 'E', value_name = "CODE", default_value_t = 124)]
    pub(super) conflict_exit_code: u8,
    /// The domain in which processes of this machine wait for each other: a name, or a folder's path,
    /// which has a '/' in it
    #[arg(
        long,
        short = 'd',
        value_name = "NAME|PATH",
        env = "OUTLIVE_DOMAIN",
        overrides_with = "domain"
    )]
    pub(super) domain: Option<String>,
    /// The group that shares the domain
    #[arg(long, value_name = "GROUP", env = "OUTLIVE_GROUP", overrides_with = "group")]
    pub(super) group: Option<String>,
    /// What messages begin with
    #[arg(long, hide = true, default_value = "outlive")]
    pub(super) speaker: String,
    /// The command to run, and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub(super) command: Vec<OsString>,
}

/// Reads a time: a number with ms, s, m, h or d; without a unit it is seconds.
fn time(text: &str) -> Result<Duration, String> {
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = match unit {
        "ms" => 0.001,
        "" | "s" | "sec" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => f64::NAN,
    };
    let seconds = number.parse::<f64>().unwrap_or(f64::NAN) * unit;
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| "a time is a number with ms, s, m, h or d, as in 250ms or 2s".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn times_are_read() {
        assert_eq!(time("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(time("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(time("2m"), Ok(Duration::from_secs(120)));
        for text in ["", "x", "-1", "1x", "NaN", "inf", "1e400"] {
            assert!(time(text).is_err(), "{text}");
        }
    }

    /// `outlive` puts its own before those behind the verb.
    #[test]
    fn of_options_that_are_said_twice_the_last_one_counts() {
        let twice = "x --cluster etcd://a -d a --domain b --group 1 --group 2 name true";
        let args = LockArgs::try_parse_from(twice.split(' ')).expect("taken");
        let said = (args.common.domain.as_deref(), args.common.group.as_deref());
        assert_eq!(said, (Some("b"), Some("2")));
    }

    #[test]
    fn the_parsers_are_right() {
        LockArgs::command().debug_assert();
        SemaphoreArgs::command().debug_assert();
    }
}
