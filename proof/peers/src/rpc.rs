//! A request there and a reply back, beside other libraries.
//!
//! The request carries its number and the reply must carry it too; both are of one size. `zeromq`
//! blocks in both kinds of row, since its own threads bring the messages; the other rows poll where
//! one may be busy.

use crate::peers::{
    CacheLine, Call, Futex, Iceoryx2, Outlive, OutliveCopied, Serve, Service, Shape, Topic,
    UnixStream, Wait, ZeroMq, read_number, write_number,
};
use crate::pubsub::flow::{self, Latencies};
use crate::pubsub::{Waits, parse_size, size_name};
use clap::Args;
use outlive_bench::harness::report::Title;
use outlive_bench::harness::round::{Contender, Figure, Group, Setting, Stage};
use outlive_bench::harness::shared::{Board, Shared};
use outlive_bench::harness::{Common, Prepared, clock, crew::Crew};
use outlive_bench::{self, Error};
use std::marker::PhantomData;
use std::process::ExitCode;

/// The arguments of `rpc`.
#[derive(Args, Clone, Debug)]
pub(crate) struct RpcArgs {
    /// Bytes in a request and in its reply; several with commas
    #[arg(long, value_name = "BYTES,…", value_delimiter = ',', value_parser = parse_size, default_values = ["64B", "4KiB", "6MB"])]
    size: Vec<usize>,

    /// How both sides wait
    #[arg(long, value_enum, default_value_t = Waits::Both)]
    wait: Waits,

    /// Only these contenders, with commas between them; the baselines are always measured
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    peer: Vec<String>,

    #[command(flatten)]
    pub common: Common,
}

struct Row<S> {
    name: &'static str,
    bytes: usize,
    wait: Wait,
    service: PhantomData<S>,
}

impl<S: Service> Contender for Row<S> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn turn(&mut self, stage: &Stage, operations: u64) -> Result<Figure, Error> {
        let bytes = self.bytes;
        let place = S::place(stage, bytes, self.wait)?;
        let board = Shared::<Board>::new()?;
        let warm_up = operations / 8 + 2;
        let all = warm_up + operations;
        let mut crew = Crew::new()?;
        crew.start("server", stage.second_core(), || {
            let mut server = S::server(&place)?;
            flow::assemble(&board, 1);
            for _ in 0..all {
                server.serve(|request, reply| write_number(reply, read_number(request)))?;
            }
            // Until the client has the last reply, nothing of this end is taken down.
            flow::assemble(&board, 3);
            Ok(())
        })?;
        crew.start("client", stage.first_core(), || {
            while board.ready.0.load(std::sync::atomic::Ordering::Acquire) < 1 {
                std::thread::yield_now();
            }
            let mut client = S::client(&place)?;
            let mut latencies = Latencies::new()?;
            let begun = clock::now();
            let mut at = begun;
            for number in 0..all {
                let found =
                    client.call(bytes, |request| write_number(request, number), read_number)?;
                let after = clock::now();
                if found != number {
                    return Err(Error::Wrong(format!(
                        "{}: the reply to {number} was {found}",
                        S::NAME
                    )));
                }
                if number >= warm_up {
                    latencies.count(after - at);
                }
                at = after;
            }
            latencies.leave(&board, at - begun);
            flow::assemble(&board, 2);
            flow::assemble(&board, 3);
            Ok(())
        })?;
        flow::figure(&board, crew.finish(stage.turn_limit)?, 1.0)
    }
}

/// A floor, there and back.
struct Floor<T> {
    name: &'static str,
    shape: Shape,
    topic: PhantomData<T>,
}

impl<T: Topic> Contender for Floor<T> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn turn(&mut self, stage: &Stage, operations: u64) -> Result<Figure, Error> {
        let figure = flow::latency::<T>(stage, self.shape, false, operations)?;
        Ok(Figure {
            ns: figure.ns * 2.0,
            tail: figure.tail.map(|ns| ns.map(|ns| ns * 2.0)),
            ..figure
        })
    }
}

struct Field<'a> {
    only: &'a [String],
    groups: Vec<Group>,
}

impl Field<'_> {
    fn push(&mut self, row: Box<dyn Contender>) {
        if let Some(group) = self.groups.last_mut() {
            group.rows.push(row);
        }
    }

    fn add<S: Service>(&mut self, of: &str, bytes: usize, wait: Wait) {
        if self.only.is_empty() || self.only.iter().any(|only| only == S::NAME) {
            let name = format!("{} {of}", S::NAME).leak();
            self.push(Box::new(Row::<S> { name, bytes, wait, service: PhantomData }));
        }
    }

    fn floor<T: Topic>(&mut self, of: &str, shape: Shape) {
        self.push(Box::new(Floor::<T> {
            name: format!("{} {of}", T::NAME).leak(),
            shape,
            topic: PhantomData,
        }));
    }
}

/// Runs it.
pub(crate) fn run(args: &RpcArgs) -> Result<ExitCode, Error> {
    let mut field = Field { only: &args.peer, groups: Vec::new() };
    for &bytes in &args.size {
        for &wait in args.wait.all() {
            let (how, words, floor) = match wait {
                Wait::Busy => ("busy", "", CacheLine::NAME),
                Wait::Block => ("sleeping", " sleeping", Futex::NAME),
            };
            let of = format!("{}{words}", size_name(bytes));
            let setting = Some(Setting::Messages { message_bytes: bytes, how });
            let baseline = format!("{floor} {of}").leak();
            field.groups.push(Group { setting, rows: Vec::new(), baseline, kinds_differ: true });
            field.add::<Outlive>(&of, bytes, wait);
            // Short ones are copied by both.
            if bytes >= 1024 {
                field.add::<OutliveCopied>(&of, bytes, wait);
            }
            field.add::<Iceoryx2>(&of, bytes, wait);
            field.add::<ZeroMq>(&of, bytes, wait);
            field.add::<UnixStream>(&of, bytes, wait);
            match wait {
                Wait::Busy => field.floor::<CacheLine>(&of, Shape::pair(bytes, wait)),
                Wait::Block => field.floor::<Futex>(&of, Shape::pair(bytes, wait)),
            }
        }
    }
    let rows = field.groups.iter().flat_map(|group| &group.rows).map(|row| row.name());
    // As many as there are rows, once in the program's life.
    let ours: &[&str] =
        rows.filter(|name| name.starts_with(<Outlive as Service>::NAME)).collect::<Vec<_>>().leak();
    let title = Title {
        bench: "rpc",
        mode: "round trip",
        meaning: "a request and its reply",
        ours,
        rate_of: None,
    };
    let prepared = Prepared { groups: field.groups, ..Prepared::of(title, Vec::new(), "") };
    let _signals = outlive_bench::harness::begin(args.common.limit, args.common.nice)?;
    outlive_bench::harness::tell(
        &outlive_bench::harness::measure(prepared, &args.common)?,
        &args.common,
    )
}
