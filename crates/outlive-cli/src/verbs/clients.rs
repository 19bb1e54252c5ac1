//! `outlive service clients`: which processes call a service, and which of them do nothing.

use std::time::{Duration, Instant};

use clap::Args;
use outlive::rpc::{ClientEvent, ClientWatch, Service};
use outlive::sync::Holder;
use outlive::{Domain, Error};
use serde::Serialize;

use super::awaited::{Awaited, Found};
use crate::cli::Common;
use crate::duration;
use crate::exit::Failure;
use crate::output;
use crate::signals::{SLICE, Signals};

/// Show a service's clients, and which of them live and do nothing
///
/// A client does something when it makes a call, sends a part of a request, takes a reply of a
/// stream, or asserts that it is there; one that only waits for a reply does nothing. clients looks
/// for as long as --lease, and then prints each client: lively, not_lively, or dead if it died and was
/// not cleared away.
///
/// With --watch it prints the clients that are there at once, and then goes on until it is
/// interrupted (exit code 0): a line for each client that came, left, died, is not_lively, or is
/// lively again. A service that is not there is waited for, and so is the next one of its name when
/// it is removed.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive service clients upper\n  \
    outlive service clients upper --watch --lease 200ms\n  \
    outlive service clients upper --json | jq 'select(.state == \"not_lively\") | .pid'")]
pub struct ClientsArgs {
    /// The service's name
    name: String,
    /// For how long a client may do nothing
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration::seconds)]
    lease: Duration,
    /// Go on, and print what becomes of clients
    #[arg(long)]
    watch: bool,
}

/// A line: a client, and what it is or what has become of it.
#[derive(Serialize)]
struct Line {
    state: &'static str,
    pid: u32,
    program: String,
}

impl Line {
    fn of(state: &'static str, client: &Holder) -> Line {
        Line { state, pid: client.pid, program: client.program.clone() }
    }

    fn print(&self, common: &Common) -> Result<(), Failure> {
        if common.json {
            return output::print_json(self);
        }
        let program = if self.program.is_empty() { "?" } else { &self.program };
        output::print(format_args!(
            "{:<10}  {} ({})\n",
            self.state,
            self.pid,
            program.escape_debug()
        ))
    }
}

type Here = (Service, ClientWatch);

/// Runs the verb.
pub fn run(args: &ClientsArgs, common: &Common) -> Result<(), Failure> {
    // A lease of years is not over.
    let lease = args.lease.min(Duration::from_secs(1 << 30));
    let open = move |domain: &Domain, name: &str| -> Result<Here, Error> {
        let service = Service::open_as_bytes(domain, name)?;
        let watch = service.watch_clients(lease)?;
        Ok((service, watch))
    };
    if args.watch {
        return follow(args, common, open);
    }
    let domain = common.domain.existing()?;
    let (_, mut watch) = open(&domain, &args.name)?;
    // A little longer: a lease has passed when a look behind it finds nothing done.
    let end = Instant::now() + lease + lease / 8 + Duration::from_millis(2);
    let mut idle: Vec<Holder> = Vec::new();
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        match watch.next_timeout(left)? {
            Some(ClientEvent::NotLively(client)) => idle.push(client),
            Some(event) => idle.retain(|one| one.token != event.client().token),
            None => {}
        }
    }
    for client in watch.clients() {
        let is_idle = idle.iter().any(|one| one.token == client.token);
        Line::of(if is_idle { "not_lively" } else { "lively" }, &client).print(common)?;
    }
    for client in dead(&domain, &args.name)? {
        Line::of("dead", &client).print(common)?;
    }
    Ok(())
}

/// Returns the clients that have died and were not cleared away, each process once.
fn dead(domain: &Domain, name: &str) -> Result<Vec<Holder>, Failure> {
    let mut dead: Vec<Holder> = Vec::new();
    if let outlive::Detail::Service(overview) = domain.entry(name)?.detail {
        for client in overview.clients {
            if !client.who.alive && dead.iter().all(|one| one.token != client.who.token) {
                dead.push(client.who);
            }
        }
    }
    Ok(dead)
}

/// Prints what becomes of clients until a signal comes.
fn follow(
    args: &ClientsArgs,
    common: &Common,
    open: impl Fn(&Domain, &str) -> Result<Here, Error>,
) -> Result<(), Failure> {
    let mut signals = Signals::that_end()?;
    let mut awaited = Awaited::new("a server", &args.name, &common.domain);
    let mut here: Option<Here> = None;
    let mut known: Vec<Holder> = Vec::new();
    while !signals.came()? {
        let Some((service, watch)) = &mut here else {
            match awaited.wait(Some(&mut signals), None, &open)? {
                Found::Thing(found) => here = Some(found),
                Found::Late | Found::End => break,
            }
            continue;
        };
        let event = watch.next_timeout(SLICE)?;
        // What came before the event is told before it.
        let there = watch.clients();
        for client in &there {
            if known.iter().all(|one| one.token != client.token) {
                Line::of("came", client).print(common)?;
                known.push(client.clone());
            }
        }
        match &event {
            Some(ClientEvent::NotLively(client)) => Line::of("not_lively", client).print(common)?,
            Some(ClientEvent::Lively(client)) => Line::of("lively", client).print(common)?,
            Some(ClientEvent::Died(client)) => {
                Line::of("died", client).print(common)?;
                known.retain(|one| one.token != client.token);
            }
            Some(_) => {}
            None => {
                // Nothing is to be told: a client that is gone now has left in order.
                let is_there = |one: &Holder| there.iter().any(|client| client.token == one.token);
                for client in known.iter().filter(|one| !is_there(one)) {
                    Line::of("left", client).print(common)?;
                }
                known.retain(is_there);
                if service.is_removed() {
                    (here, known) = (None, Vec::new());
                    awaited.removed();
                }
            }
        }
    }
    Ok(())
}
