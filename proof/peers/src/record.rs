//! Recorders side by side: `outlive record` and iceoryx2's `iox2 service record`, each with one publisher
//! that waits for it, beside `dd` to the same folder.
//!
//! Both programs are looked for in PATH (`cargo install --path crates/outlive-record`, `cargo install
//! iceoryx2-cli`). A turn is over when the recorder has ended: it has all messages in its file.

use clap::Args;
use iceoryx2::prelude::*;
use outlive::Domain;
use outlive::topic::Topic;
use outlive_bench::Error;
use outlive_bench::harness::error::told;
use outlive_bench::harness::scratch::Scratch;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// So many messages a publisher keeps for its recorder.
const BUFFER: [usize; 2] = [1 << 14, 16];
const BYTES: [usize; 2] = [64, 1 << 20];

/// The arguments of `record`.
#[derive(Args, Clone, Debug)]
pub(crate) struct RecordArgs {
    /// Where the recordings go, for the time of the run
    #[arg(long, default_value = "/dev/shm")]
    folder: PathBuf,

    /// How many turns each has
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,

    /// Messages of 64 B in a turn; a thousandth of that of 1 MiB
    #[arg(long, default_value_t = 500_000, value_parser = clap::value_parser!(u64).range(1_000..=100_000_000))]
    messages: u64,
}

/// Runs it.
pub(crate) fn run(args: &RecordArgs) -> Result<ExitCode, Error> {
    set_log_level(LogLevel::Fatal);
    let scratch = Scratch::new()?;
    let folder = args.folder.join(format!("outlive-peers-{}", std::process::id()));
    told(std::fs::create_dir_all(&folder), "making the folder")?;
    let turns = turns(args, scratch.path(), &folder);
    let _ = std::fs::remove_dir_all(&folder);
    println!("{:<28} {:>12} {:>12} {:>12}  MB a second", "", "median", "min", "max");
    for (name, mut rates) in turns? {
        rates.sort_by(f64::total_cmp);
        let [least, most] = [rates[0], rates[rates.len() - 1]];
        println!("{name:<28} {:>12.1} {least:>12.1} {most:>12.1}", rates[rates.len() / 2]);
    }
    Ok(ExitCode::SUCCESS)
}

type Rates = Vec<(String, Vec<f64>)>;

fn turns(args: &RecordArgs, scratch: &Path, folder: &Path) -> Result<Rates, Error> {
    let mut rates: Rates = Vec::new();
    for round in 0..args.rounds {
        let mut row = 0;
        let mut note = |name: String, rate: f64| {
            match rates.get_mut(row) {
                Some((_, all)) => all.push(rate),
                None => rates.push((name, vec![rate])),
            }
            row += 1;
        };
        for (which, bytes) in BYTES.into_iter().enumerate() {
            let count = if which == 0 { args.messages } else { args.messages / 1_000 };
            let rate = |span: Duration| (count * bytes as u64) as f64 / span.as_secs_f64() / 1e6;
            let file = folder.join("recorded");
            let span = by_outlive(&scratch.join(format!("{round}-{which}")), &file, which, count)?;
            note(format!("outlive record, {bytes} B"), rate(span));
            let span = by_iceoryx2(&file, which, count)?;
            note(format!("iceoryx2, {bytes} B"), rate(span));
        }
        let begun = Instant::now();
        let file = folder.join("recorded");
        let mut dd = Command::new("dd");
        dd.args(["if=/dev/zero", "bs=4M", "count=250"]).arg(format!("of={}", file.display()));
        ended(&mut dd.stderr(Stdio::null()).spawn().map_err(|error| Error::told("dd", error))?)?;
        note("dd bs=4M".to_owned(), 250.0 * 4.194_304 / begun.elapsed().as_secs_f64());
        told(std::fs::remove_file(&file), "removing a file")?;
    }
    Ok(rates)
}

fn ended(child: &mut Child) -> Result<(), Error> {
    match told(child.wait(), "waiting for a recorder")? {
        status if status.success() => Ok(()),
        status => Err(Error::Child(format!("a recorder ended with {status}"))),
    }
}

fn by_outlive(place: &Path, file: &Path, which: usize, count: u64) -> Result<Duration, Error> {
    let ours = |error: outlive::Error| Error::told("outlive", error);
    let domain = Domain::open_or_create_at(place).map_err(ours)?;
    let topic = Topic::<[u8]>::options().depth(BUFFER[which] as u32).reliable(true);
    let topic = topic.open_or_create(&domain, "t").map_err(ours)?;
    let publisher = topic.publisher().map_err(ours)?;
    let mut command = Command::new("outlive-record");
    command.arg("--domain").arg(place).args(["--all", "-o"]).arg(file);
    let mut recorder = told(command.stderr(Stdio::null()).spawn(), "starting outlive-record")?;
    while topic.subscribers().is_empty() {
        sleep(Duration::from_millis(1));
    }
    let begun = Instant::now();
    for _ in 0..count {
        let loan = publisher.loan(BYTES[which]).map_err(|error| Error::told("outlive", error))?;
        publisher.publish(loan).map_err(|error| Error::told("outlive", error))?;
    }
    // SAFETY: a child that has not been waited for.
    unsafe { libc::kill(recorder.id() as i32, libc::SIGTERM) };
    ended(&mut recorder)?;
    let span = begun.elapsed();
    told(std::fs::remove_file(file), "removing a file")?;
    Ok(span)
}

fn by_iceoryx2(file: &Path, which: usize, count: u64) -> Result<Duration, Error> {
    fn theirs<T, E: Debug>(result: Result<T, E>) -> Result<T, Error> {
        result.map_err(|error| Error::Child(format!("iceoryx2: {error:?}")))
    }
    let name = format!("outlive-peers-{}-{which}", std::process::id());
    let node = theirs(NodeBuilder::new().create::<ipc::Service>())?;
    let service = node
        .service_builder(&theirs(name.as_str().try_into())?)
        .publish_subscribe::<[u8]>()
        .subscriber_max_buffer_size(BUFFER[which])
        .history_size(0)
        .enable_safe_overflow(false);
    let service = theirs(service.open_or_create())?;
    let publisher = service
        .publisher_builder()
        .initial_max_slice_len(BYTES[which])
        .backpressure_strategy(BackpressureStrategy::DiscardData);
    let publisher = theirs(publisher.create())?;
    let mut command = Command::new("iox2-service");
    command.args(["record", "--data-representation", "IOX2DUMP", "--max-messages"]);
    command.arg(count.to_string()).arg("-o").arg(file).arg(&name);
    let command = command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut recorder = told(command.spawn(), "starting iox2-service")?;
    while service.dynamic_config().number_of_subscribers() == 0 {
        sleep(Duration::from_millis(1));
    }
    let begun = Instant::now();
    for _ in 0..count {
        // Without a pause: its own strategy of waiting sleeps.
        loop {
            let loan = theirs(publisher.loan_slice_uninit(BYTES[which]))?;
            // SAFETY: bytes of a mapped file: each has a value.
            let loan = unsafe { loan.assume_init() };
            if theirs(loan.send())? == 1 {
                break;
            }
            std::thread::yield_now();
            if let Ok(Some(status)) = recorder.try_wait() {
                return Err(Error::Child(format!("iceoryx2's recorder ended with {status}")));
            }
        }
    }
    ended(&mut recorder)?;
    let span = begun.elapsed();
    told(std::fs::remove_file(file), "removing a file")?;
    Ok(span)
}
