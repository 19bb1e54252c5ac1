//! `etcd://HOST:PORT[,HOST:PORT]`: where a cluster is, and how it is spoken to.

use std::path::PathBuf;
use std::time::Duration;

use crate::Error;

/// A cluster's address, read from one text.
///
/// ```text
/// etcd://[USER@]HOST:PORT[,HOST:PORT…][?OPTION=VALUE[&…]]      etcds:// for TLS
/// ```
/// | option | what it says |
/// | --- | --- |
/// | `ttl` | how long the lease lasts, in seconds (default 10, at least 2) |
/// | `ca` | a file with the certificates that are trusted, instead of the public ones |
/// | `password-file` | a file with the user's password; otherwise `OUTLIVE_CLUSTER_PASSWORD` has it |
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub(crate) tls: bool,
    pub(crate) user: Option<String>,
    pub(crate) servers: Vec<String>,
    pub(crate) ttl: Duration,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) password_file: Option<PathBuf>,
}

/// etcd's port, where none is said.
const PORT: u16 = 2379;

impl Address {
    /// Reads one.
    ///
    /// # Errors
    /// [`Error::Address`] says what is wrong with it.
    pub fn parse(text: &str) -> Result<Address, Error> {
        let wrong = |why: String| Error::Address(why);
        let (tls, rest) = if let Some(rest) = text.strip_prefix("etcd://") {
            (false, rest)
        } else if let Some(rest) = text.strip_prefix("etcds://") {
            (true, rest)
        } else {
            return Err(wrong("it begins with etcd:// or etcds://".to_owned()));
        };
        let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (user, servers) = match place.rsplit_once('@') {
            Some((user, servers)) => (Some(user), servers),
            None => (None, place),
        };
        if user.is_some_and(|user| user.contains(':')) {
            // Others see it in the list of processes.
            return Err(wrong(
                "a password does not belong there; give it by OUTLIVE_CLUSTER_PASSWORD or \
                 ?password-file="
                    .to_owned(),
            ));
        }
        let servers: Vec<String> =
            servers.trim_end_matches('/').split(',').map(server).collect::<Result<_, _>>()?;
        let mut address = Address {
            tls,
            user: user.map(str::to_owned),
            servers,
            ttl: Duration::from_secs(10),
            ca: None,
            password_file: None,
        };
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            match name {
                "ttl" => {
                    let seconds = value.trim_end_matches('s').parse::<u64>().ok();
                    // A day: longer than any machine should keep others out after its death.
                    let seconds = seconds.filter(|seconds| (2..=86400).contains(seconds));
                    let why = || wrong("ttl is 2 to 86400 whole seconds".to_owned());
                    address.ttl = Duration::from_secs(seconds.ok_or_else(why)?);
                }
                "ca" => address.ca = Some(value.into()),
                "password-file" => address.password_file = Some(value.into()),
                _ => {
                    return Err(wrong(format!("'{name}' is none of ttl, ca, password-file")));
                }
            }
        }
        Ok(address)
    }

    /// Returns a number of the servers: the same in all processes that name the same ones, in
    /// whatever order. Processes that do not only miss that they could wait for each other locally.
    pub(crate) fn digest(&self) -> u32 {
        let mut servers = self.servers.clone();
        servers.sort();
        // FNV-1a, which is the same in all builds.
        servers
            .join(",")
            .bytes()
            .fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
    }
}

fn server(text: &str) -> Result<String, Error> {
    let is_host = |host: &str| {
        !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c))
    };
    let is_v6 = |host: &str| {
        host.strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .is_some_and(|host| host.parse::<std::net::Ipv6Addr>().is_ok())
    };
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()),
        _ => (text, Some(PORT)),
    };
    match port {
        Some(port) if port != 0 && (is_host(host) || is_v6(host)) => Ok(format!("{host}:{port}")),
        _ => Err(Error::Address(format!("'{}' is no HOST:PORT", text.escape_debug()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let read = Address::parse("etcd://a:1,10.0.0.2,[::1]:7").expect("right");
        assert_eq!(read.servers, ["a:1", "10.0.0.2:2379", "[::1]:7"]);
        assert_eq!((read.tls, read.user, read.ttl.as_secs()), (false, None, 10));
        let read = Address::parse("etcds://me@a?ttl=5&ca=/x&password-file=/y").expect("right");
        assert_eq!((read.tls, read.user.as_deref(), read.ttl.as_secs()), (true, Some("me"), 5));
        assert_eq!(read.ca, Some("/x".into()));
        assert_eq!(read.password_file, Some("/y".into()));
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in [
            "",
            "http://a",
            "etcd://",
            "etcd://a:0",
            "etcd://a:b",
            "etcd://a,,b",
            "etcd://a/b",
            "etcd://me:secret@a",
            "etcd://a?ttl=1",
            "etcd://a?ttl=x",
            "etcd://a?x=1",
            "etcd://a b",
            "etcd://a?ttl=99999999999999999999",
            "etcd://[::1",
            "etcd://[x]:1",
        ] {
            assert!(Address::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_order_of_servers_makes_no_other_cluster() {
        let digest = |text| Address::parse(text).expect("right").digest();
        assert_eq!(digest("etcd://a,b"), digest("etcd://b,a"));
        assert_ne!(digest("etcd://a,b"), digest("etcd://a"));
    }
}
