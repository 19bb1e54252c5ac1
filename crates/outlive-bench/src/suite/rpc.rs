//! What does a call cost: a request to another process, and its answer?
//!
//! `outlive` is a service: one client, one server, answers as long as requests. `two_queues` is the
//! same by hand, one of Outlive's queues each way: without knowing which answer is whose, or that
//! the server died. `unix_seqpacket` is a pair of the system's sockets. Two rows are floors:
//! `cacheline` is one atomic flag to and fro, `futex` a bare futex hand-over.

use super::queue::{self, Contest};
use crate::harness::clock;
use crate::harness::crew::Crew;
use crate::harness::error::Error;
use crate::harness::report::Title;
use crate::harness::round::{Contender, Figure, Group, Setting, Stage};
use crate::harness::shared::{Board, Shared};
use crate::harness::{Common, Prepared, Waiting};
use clap::Args;
use outlive::Domain;
use outlive::rpc::{CallError, Service};

/// The arguments of `outlive bench calls`.
#[derive(Args, Clone, Debug)]
pub struct RpcArgs {
    /// Bytes in a request, and in its answer; several sizes are separated by commas
    #[arg(long, value_name = "BYTES,…", value_delimiter = ',', default_values_t = [64])]
    pub(super) size: Vec<usize>,

    #[command(flatten)]
    pub(super) waiting: Waiting,

    #[command(flatten)]
    pub(super) common: Common,
}

/// Makes it ready.
pub(super) fn prepare(args: &RpcArgs) -> Result<Prepared, Error> {
    let mut sizes = args.size.clone();
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.iter().any(|&bytes| bytes < queue::LEAST_BYTES) {
        return Err(Error::Refused(format!(
            "a request carries its number: --size {} or more",
            queue::LEAST_BYTES
        )));
    }
    let title = Title {
        bench: "calls",
        mode: "call",
        meaning: "a request to another process, and its answer",
        ours: &["outlive", "two_queues"],
        rate_of: Some("calls"),
    };
    let groups = sizes.iter().map(|&bytes| group(bytes, sizes.len() > 1)).collect();
    let prepared = Prepared { groups, ..Prepared::of(title, Vec::new(), "") };
    let fixed =
        if let [bytes] = sizes[..] { vec![Setting::MessageBytes(bytes)] } else { Vec::new() };
    Ok(Prepared { fixed, ..prepared.waiting(args.waiting.wait) })
}

fn group(bytes: usize, one_of_many: bool) -> Group {
    let mut contest = Contest::round_trips(bytes);
    contest.rows.push(Box::new(Calling { bytes }));
    contest.add::<queue::Outlive>("two_queues");
    contest.add::<queue::UnixSeqpacket>("unix_seqpacket");
    contest.add::<queue::CacheLine>("cacheline");
    contest.add::<queue::Futex>("futex");
    let setting = one_of_many.then_some(Setting::MessageBytes(bytes));
    Group { setting, rows: contest.rows, baseline: "unix_seqpacket", kinds_differ: true }
}

/// A client and a server.
struct Calling {
    bytes: usize,
}

impl Contender for Calling {
    fn name(&self) -> &'static str {
        "outlive"
    }

    fn turn(&mut self, stage: &Stage, operations: u64) -> Result<Figure, Error> {
        let scratch = stage.scratch.inner("service")?;
        let open = || {
            Domain::open_or_create_at(scratch.path())
                .map_err(|error| Error::told("opening a domain", error))
        };
        let board = Shared::<Board>::new()?;
        let warm_up = operations / 8;
        let all = warm_up + operations;
        let bytes = self.bytes;
        let mut crew = Crew::new()?;
        crew.start("server", stage.second_core(), || {
            let server = Service::<[u8], [u8]>::options()
                .wait_strategy(stage.wait)
                .open_or_create(&open()?, "service")
                .and_then(|service| service.server());
            let mut server = server.map_err(|error| Error::told("opening a server", error))?;
            board.meet(2);
            for _ in 0..all {
                let request =
                    server.next().map_err(|error| Error::told("waiting for a request", error))?;
                let answer: &[u8] = &request;
                // Copied as any answer would be written.
                let answer = Answer::of(answer);
                request.reply(answer.bytes()).map_err(|error| Error::told("answering", error))?;
            }
            Ok(())
        })?;
        crew.start("client", stage.first_core(), || {
            let client = Service::<[u8], [u8]>::options()
                .wait_strategy(stage.wait)
                .open_or_create(&open()?, "service")
                .and_then(|service| service.client());
            let client = client.map_err(|error| Error::told("opening a client", error))?;
            let mut message = vec![0; bytes];
            board.meet(2);
            let mut call = |number: u64| {
                message[..8].copy_from_slice(&number.to_ne_bytes());
                let answer = client
                    .call(&message)
                    .map_err(|error: CallError| Error::told("calling", error))?;
                if *answer == *message {
                    return Ok(());
                }
                Err(Error::Wrong(format!(
                    "outlive: call {number} was answered with {} other bytes",
                    answer.len()
                )))
            };
            (0..warm_up).try_for_each(&mut call)?;
            let begun = clock::now();
            (warm_up..all).try_for_each(&mut call)?;
            board.leave_mean(clock::now() - begun, operations);
            Ok(())
        })?;
        board.figure(crew.finish(stage.turn_limit)?)
    }
}

/// An answer that lives apart from its request.
enum Answer {
    Short(usize, [u8; 128]),
    Long(Vec<u8>),
}

impl Answer {
    fn of(request: &[u8]) -> Self {
        if request.len() > 128 {
            return Self::Long(request.to_vec());
        }
        let mut bytes = [0; 128];
        bytes[..request.len()].copy_from_slice(request);
        Self::Short(request.len(), bytes)
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Short(len, bytes) => &bytes[..*len],
            Self::Long(bytes) => bytes,
        }
    }
}
