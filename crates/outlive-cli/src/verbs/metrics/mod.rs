//! `outlive metrics`: all that is in a domain, for Prometheus.
//!
//! `table` has the metrics, `look` reads the domain, `page` writes what Prometheus reads, `server` answers
//! HTTP, `file` is for node_exporter.

mod file;
mod look;
mod page;
mod server;
mod table;

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use outlive::Error;
use outlive_program::Supervisor;

use crate::cli::Common;
use crate::duration;
use crate::exit::{Code, Failure};
use crate::output::{self, talk};
use crate::signals::{Signals, wait_readable};
use page::{Format, Page};
use server::Server;

/// A Grafana dashboard that shows these metrics.
const DASHBOARD: &str = include_str!("../../../dashboard/outlive.json");

/// Where the program listens unless it is told otherwise: the port that OpenTelemetry keeps for this.
const ADDRESS: &str = "127.0.0.1:9464";

/// Tell Prometheus about the domain: messages, losses, lags, deaths, memory
///
/// Prometheus asks for them by HTTP, at /metrics. Each time, the domain is read once, as 'outlive ls'
/// reads it: no other process is held up, and nothing is written. All counts come from shared memory,
/// so they go on when any process is killed, this one too. A domain that is not there yet is no error:
/// the metric outlive_domain_up says so. Each program that can reach the address can read the names in
/// the domain.
///
/// With --file, the same is written into a file for node_exporter's textfile collector, again and again.
///
/// As a service of systemd it says when it is ready, and that it goes on (Type=notify, WatchdogSec=).
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive metrics\n  \
    outlive metrics --once | grep lost\n  \
    outlive metrics --file /var/lib/prometheus/node-exporter/outlive.prom --interval 30s\n  \
    outlive metrics --dashboard > outlive.json")]
pub struct MetricsArgs {
    /// Answer at this address; port 0 takes one that is free, and says which [default:
    /// 127.0.0.1:9464, unless --file or --once is given]
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "once")]
    listen: Option<String>,
    /// Write this file again each time an interval has passed; its name should end in .prom
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    /// How often the file is written
    #[arg(long, short, value_name = "TIME", default_value = "15s", value_parser = duration::more_than_none)]
    interval: Duration,
    /// Print the metrics once, or write the file once, and end
    #[arg(long)]
    once: bool,
    /// With --once: print them as OpenMetrics
    #[arg(long, requires = "once", conflicts_with = "file")]
    openmetrics: bool,
    /// Tell of each topic's publishers and subscribers one by one, too
    ///
    /// That is a series for each publisher's ring, and for each process that subscribes. Each new process
    /// makes new series, which Prometheus keeps for as long as it keeps anything.
    #[arg(long)]
    endpoints: bool,
    /// Print a dashboard for Grafana, and end
    #[arg(long, exclusive = true)]
    dashboard: bool,
}

/// Looking costs something: the file is written no oftener than this.
const LEAST_INTERVAL: Duration = Duration::from_millis(50);

/// Runs the verb.
pub fn run(args: &MetricsArgs, common: &Common) -> Result<(), Failure> {
    if args.dashboard {
        return output::print(DASHBOARD);
    }
    let mut looker = Looker { common, endpoints: args.endpoints, told: None };
    if args.once {
        // Here, what is wrong with the domain is an error.
        let page = match common.domain.look()? {
            Some(domain) => look::up(&domain, &looker.name(), args.endpoints)?,
            None => look::down(&looker.name()),
        };
        let format = if args.openmetrics { Format::OpenMetrics } else { Format::Text };
        let page = page.encode(format);
        return match &args.file {
            Some(path) => file::write(path, &page).map_err(|error| cannot_write(path, &error)),
            None => output::print(page),
        };
    }
    let mut signals = Signals::that_end()?;
    match common.domain.open_existing() {
        Ok(_) => {}
        Err(Error::NotFound { .. }) if !common.domain.no_create => {}
        Err(error) => return Err(error.into()),
    }
    let mut server = match (&args.listen, &args.file) {
        (None, Some(_)) => None,
        (address, _) => Some(listen(address.as_deref().unwrap_or(ADDRESS))?),
    };
    let interval = args.interval.max(LEAST_INTERVAL);
    // The first file is written now: a path that cannot be written is told at once.
    let mut next = args.file.as_ref().map(|_| Instant::now());
    let mut is_first = true;
    let mut supervisor = Supervisor::of_environment();
    supervisor.ready();
    loop {
        supervisor.goes_on();
        if let Some(path) = &args.file
            && next.is_some_and(|next| Instant::now() >= next)
        {
            let page = looker.page()?.encode(Format::Text);
            match file::write(path, &page) {
                Err(error) if is_first => return Err(cannot_write(path, &error)),
                // A full disk may have room again later.
                Err(error) => looker.tell(format!("could not write {}: {error}", path.display())),
                Ok(()) => {}
            }
            is_first = false;
            next = Some(Instant::now() + interval);
        }
        match &mut server {
            Some(server) => {
                let failed = |error: std::io::Error| Failure::system("serve metrics", &error);
                let until = [next, supervisor.next()].into_iter().flatten().min();
                server.turn(std::os::fd::AsFd::as_fd(&signals), until).map_err(failed)?;
                for format in server.wanted() {
                    let page: Arc<str> = looker.page()?.encode(format).into();
                    server.answer(format, &page);
                }
            }
            None => {
                let until = [next, supervisor.next()].into_iter().flatten().min();
                let left = until.map(|until| until.saturating_duration_since(Instant::now()));
                wait_readable(&[std::os::fd::AsFd::as_fd(&signals)], left)
                    .map_err(|error| Failure::system("wait", &error))?;
            }
        }
        if signals.came()? {
            supervisor.stopping();
            return Ok(());
        }
    }
}

fn cannot_write(path: &std::path::Path, error: &std::io::Error) -> Failure {
    Failure::system(format_args!("write {}", path.display()), error)
}

/// Listens, and says where.
fn listen(address: &str) -> Result<Server, Failure> {
    let usage = |why: String| Failure::new(Code::Usage, format!("--listen {address}: {why}"));
    let addresses: Vec<SocketAddr> = address
        .to_socket_addrs()
        .map_err(|error| usage(format!("{error}; an address is written 127.0.0.1:9464")))?
        .collect();
    let server = Server::listen(&addresses).map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => Failure::new(
            Code::Busy,
            format!("another program listens at {address}; choose another port with --listen"),
        ),
        _ => Failure::system(format_args!("listen at {address}"), &error),
    })?;
    let at = server.address().map_err(|error| Failure::system("listen", &error))?;
    talk(format_args!("listening at http://{at}/metrics"));
    Ok(server)
}

/// Reads the domain again and again, and says when that begins or ceases to work.
struct Looker<'a> {
    common: &'a Common,
    endpoints: bool,
    /// The last thing that was said.
    told: Option<String>,
}

impl Looker<'_> {
    /// Returns what the domain is called.
    fn name(&self) -> String {
        self.common.domain.path().display().to_string()
    }

    /// Opens the domain anew, since another one may have its name by now, and reads it.
    fn page(&mut self) -> Result<Page, Failure> {
        let name = self.name();
        let opened = self.common.domain.open_existing();
        match opened.and_then(|domain| look::up(&domain, &name, self.endpoints)) {
            Ok(page) => {
                self.told = None;
                Ok(page)
            }
            // So many domains have had that name that this process can open no other: the next one can.
            Err(error @ Error::TooMany { .. }) => Err(error.into()),
            Err(error) => {
                self.tell(error.to_string());
                Ok(look::down(&name))
            }
        }
    }

    /// Says it, unless it was the last thing that was said.
    fn tell(&mut self, text: String) {
        if self.told.as_ref() != Some(&text) {
            talk(&text);
            self.told = Some(text);
        }
    }
}
