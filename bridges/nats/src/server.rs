//! The connection to the server, and its losses.

use std::time::Duration;

use async_nats::jetstream::context::{GetStreamError, GetStreamErrorKind, PublishError};
use async_nats::jetstream::stream::{RawMessageError, RawMessageErrorKind};
use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectError, ConnectErrorKind, ConnectOptions, Event};
use tokio::sync::watch;

use crate::args::{self, Args};
use crate::told::Teller;
use outlive_program::exit::{Code, Failure};

/// A connection, until it is lost: a session has one, and the next session another (ending.rs).
pub struct Server {
    client: Client,
    /// For requests and for publishing: each waits no longer than `--ack-timeout`.
    pub context: Context,
    lost: watch::Receiver<bool>,
}

/// How often it is tried anew: soon at first, then every two seconds.
fn pause(attempt: usize) -> Duration {
    Duration::from_millis((50 << attempt.min(6)).min(2000) as u64)
}

fn options(args: &Args, lost: watch::Sender<bool>) -> Result<ConnectOptions, Failure> {
    let mut options = ConnectOptions::new()
        .name(format!("outlive-queue-bridge {}", args.queue))
        .connection_timeout(Duration::from_secs(5))
        .ping_interval(Duration::from_secs(20))
        .request_timeout(Some(args.ack_timeout))
        .event_callback(move |event| {
            if matches!(event, Event::Disconnected | Event::Closed) {
                lost.send_replace(true);
            }
            async {}
        });
    if let Some(user) = &args.user {
        let password = args::secret(args.password_file.as_ref(), "NATS_PASSWORD")?;
        let none = || Failure::new(Code::Usage, "--user needs --password-file or NATS_PASSWORD");
        options = options.user_and_password(user.clone(), password.ok_or_else(none)?);
    } else if let Some(path) = &args.creds {
        let bad = |error| Failure::new(Code::BadInput, format!("{}: {error}", path.display()));
        options = options.credentials(&args::read(path)?).map_err(bad)?;
    } else if args.nkey.is_some() {
        options = options.nkey(args::secret(args.nkey.as_ref(), "")?.unwrap_or_default());
    } else if let Some(token) = args::secret(args.token_file.as_ref(), "NATS_TOKEN")? {
        options = options.token(token);
    }
    if args.tls {
        options = options.require_tls(true);
    }
    if let Some(path) = &args.tls_ca {
        args::read(path)?;
        options = options.add_root_certificates(path.clone());
    }
    if let (Some(certificate), Some(key)) = (&args.tls_cert, &args.tls_key) {
        args::read(certificate)?;
        args::read(key)?;
        options = options.add_client_certificate(certificate.clone(), key.clone());
    }
    Ok(options)
}

/// Returns the failure, where trying again is of no use.
fn hopeless(error: &ConnectError) -> Option<Code> {
    match error.kind() {
        ConnectErrorKind::ServerParse => Some(Code::Usage),
        ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
            Some(Code::Permission)
        }
        ConnectErrorKind::Tls => Some(Code::System),
        _ => None,
    }
}

impl Server {
    /// Connects, and waits for the server as long as it takes. A user or a certificate that is
    /// refused is a failure.
    pub async fn connect(args: &Args, told: &Teller) -> Result<Server, Failure> {
        let servers: Vec<&str> = args.nats.split(',').map(str::trim).collect();
        let mut attempt = 0;
        loop {
            let (tell, lost) = watch::channel(false);
            let error = match options(args, tell)?.connect(servers.as_slice()).await {
                Ok(client) => {
                    let context = jetstream::ContextBuilder::new()
                        .timeout(args.ack_timeout)
                        .ack_timeout(args.ack_timeout)
                        .max_ack_inflight(2 * args.in_flight as usize + 16)
                        .build(client.clone());
                    return Ok(Server { client, context, lost });
                }
                Err(error) => error,
            };
            // The URL may have a password in it: it is not repeated.
            if let Some(code) = hopeless(&error) {
                return Err(Failure::new(
                    code,
                    format!("could not connect to the server: {error}"),
                ));
            }
            told.trouble(format_args!("waits for the server: {error}"));
            tokio::time::sleep(pause(attempt)).await;
            attempt += 1;
        }
    }

    /// Waits until the connection is lost.
    pub async fn lost(&self) {
        // The sender lives in the client, and the client here.
        let _ = self.lost.clone().wait_for(|lost| *lost).await;
    }

    /// Sends what is still under way.
    pub async fn flush(&self) {
        let _ = tokio::time::timeout(Duration::from_secs(1), self.client.flush()).await;
    }
}

/// An error that may be an answer of the server's.
pub trait Answered {
    /// Returns the server's number for it; `None`: the server has not answered.
    fn code(&self) -> Option<u64>;
}

impl Answered for GetStreamError {
    fn code(&self) -> Option<u64> {
        match self.kind() {
            GetStreamErrorKind::JetStream(error) => Some(error.error_code().0),
            _ => None,
        }
    }
}

impl Answered for RawMessageError {
    fn code(&self) -> Option<u64> {
        match self.kind() {
            RawMessageErrorKind::JetStream(error) => Some(error.error_code().0),
            RawMessageErrorKind::NoMessageFound => Some(NO_MESSAGE_FOUND),
            _ => None,
        }
    }
}

impl Answered for PublishError {
    fn code(&self) -> Option<u64> {
        let answer = std::error::Error::source(self)?.downcast_ref::<jetstream::Error>()?;
        Some(answer.error_code().0)
    }
}

/// The server's numbers for what is told apart.
pub const NO_MESSAGE_FOUND: u64 = 10_037;
/// A message is larger than the stream allows.
pub const EXCEEDS_MAXIMUM: u64 = 10_054;
/// There is no stream of that name.
pub const STREAM_NOT_FOUND: u64 = 10_059;
/// The subject belongs to another stream.
pub const STREAM_NOT_MATCH: u64 = 10_060;

/// Returns what went wrong, with its causes.
pub fn whole(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let cause = error.to_string();
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
        next = error.source();
    }
    text
}
