//! Messages a second through the bridge, beside async-nats alone, interleaved in one run:
//! `cargo run --release -p outlive-nats --example rate -- [ROUNDS] [MESSAGES] [BYTES]`, when
//! `cargo build --release -p outlive-nats` has made the bridge. It starts a `nats-server` of its own.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::pull;
use async_nats::jetstream::{self, Context, stream};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use outlive::Domain;
use outlive::queue::{OnReceiverDeath, Queue};

const IN_FLIGHT: usize = 256;

type Error = Box<dyn std::error::Error>;

struct Server(Child, PathBuf);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        let _ = std::fs::remove_dir_all(&self.1);
    }
}

/// Publishes with so many in flight; with or without an id for each message.
async fn publish(
    js: &Context,
    count: u64,
    bytes: &Bytes,
    round: u64,
    ids: bool,
) -> Result<(), Error> {
    let mut answers = FuturesOrdered::new();
    for number in 0..count {
        if answers.len() == IN_FLIGHT {
            let answer: Result<_, _> = answers.next().await.ok_or("none in flight")?;
            answer?;
        }
        let answer = if ids {
            let mut headers = HeaderMap::new();
            headers.insert(async_nats::header::NATS_MESSAGE_ID, format!("{round:016x}-{number}"));
            js.publish_with_headers("S.bare", headers, bytes.clone()).await?
        } else {
            js.publish("S.bare", bytes.clone()).await?
        };
        answers.push_back(answer.into_future());
    }
    while let Some(answer) = answers.next().await {
        answer?;
    }
    Ok(())
}

/// Takes messages and acknowledges each; the last one of each request is confirmed.
async fn consume(js: &Context, count: u64, round: u64) -> Result<(), Error> {
    let config = pull::Config {
        durable_name: Some(format!("bare-{round}")),
        max_ack_pending: IN_FLIGHT as i64,
        ..pull::Config::default()
    };
    let consumer = js.get_stream("S").await?.create_consumer(config).await?;
    let mut left = count;
    while left > 0 {
        let most = (left as usize).min(IN_FLIGHT);
        let mut batch =
            consumer.batch().max_messages(most).expires(Duration::from_secs(5)).messages().await?;
        let mut taken = 0;
        while let Some(message) = batch.next().await {
            taken += 1;
            let message = message.map_err(|error| error.to_string())?;
            let done = if taken == most { message.double_ack().await } else { message.ack().await };
            done.map_err(|error| error.to_string())?;
        }
        left -= taken as u64;
    }
    Ok(())
}

fn told(name: &str, rates: &mut [f64]) {
    rates.sort_by(f64::total_cmp);
    let (least, most) = (rates[0], rates[rates.len() - 1]);
    println!("{name:34} {:9.0} messages/s (min {least:.0}, max {most:.0})", rates[rates.len() / 2]);
}

fn main() -> Result<(), Error> {
    let given: Vec<u64> =
        std::env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let [rounds, count, len] =
        [0, 1, 2].map(|at| given.get(at).copied().unwrap_or([5, 50_000, 64][at]));
    let folder = std::env::temp_dir().join(format!("outlive-nats-rate-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let js = folder.join("js");
    let text =
        format!("host: 127.0.0.1\nport: {port}\njetstream {{ store_dir: \"{}\" }}\n", js.display());
    std::fs::write(folder.join("conf"), text)?;
    let child = Command::new("nats-server")
        .arg("-c")
        .arg(folder.join("conf"))
        .arg("-l")
        .arg(folder.join("log"))
        .spawn()?;
    let server = Server(child, folder);
    let url = format!("nats://127.0.0.1:{port}");
    let bridge = std::env::current_exe()?.with_file_name("../outlive-queue-bridge");
    let domain = Domain::open_or_create_at(server.1.join("domain"))?;
    let queue = |name: &str| {
        Queue::<[u8]>::options()
            .on_receiver_death(OnReceiverDeath::Keep)
            .open_or_create(&domain, name)
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut client = None;
    for _ in 0..100 {
        std::thread::sleep(Duration::from_millis(50));
        client = runtime.block_on(async_nats::connect(&url)).ok();
        if client.is_some() {
            break;
        }
    }
    let context = {
        // It starts a task of its own.
        let _runtime = runtime.enter();
        jetstream::new(client.ok_or("no server")?)
    };
    let config =
        stream::Config { name: "S".into(), subjects: vec!["S.>".into()], ..Default::default() };
    let run = |arguments: &[&str]| -> Result<(), Error> {
        let domain = server.1.join("domain");
        let ran = Command::new(&bridge)
            .args(arguments)
            .args(["--nats", &url, "--exit-when-empty", "-d"])
            .arg(domain)
            .status()?;
        if ran.success() { Ok(()) } else { Err("the bridge failed".into()) }
    };
    let payload = Bytes::from(vec![7; len as usize]);
    let mut rates: [Vec<f64>; 5] = Default::default();
    for round in 0..rounds {
        let fresh = || {
            runtime.block_on(async {
                let _ = context.delete_stream("S").await;
                context.create_stream(config.clone()).await.map(drop)
            })
        };
        let mut timed =
            |which: usize, act: &mut dyn FnMut() -> Result<(), Error>| -> Result<(), Error> {
                let began = Instant::now();
                act()?;
                rates[which].push(count as f64 / began.elapsed().as_secs_f64());
                Ok(())
            };
        fresh()?;
        timed(0, &mut || runtime.block_on(publish(&context, count, &payload, round, false)))?;
        fresh()?;
        timed(1, &mut || runtime.block_on(publish(&context, count, &payload, round, true)))?;
        fresh()?;
        let sender = queue("from")?.sender()?;
        (0..count).try_for_each(|_| sender.send(&payload))?;
        timed(2, &mut || run(&["from", "S"]))?;
        let to = format!("to-{round}");
        queue(&to)?;
        timed(3, &mut || runtime.block_on(consume(&context, count, round)))?;
        timed(4, &mut || run(&[&to, "S", "--in"]))?;
        let got = queue(&to)?.counters()?.pending;
        if got != count {
            return Err(format!("{got} of {count} came").into());
        }
        domain.remove(&to)?;
    }
    println!("{rounds} rounds of {count} messages of {len} B, {IN_FLIGHT} in flight; median");
    let names = [
        "async-nats publish",
        "async-nats publish, Nats-Msg-Id",
        "bridge out (process start included)",
        "async-nats pull and ack",
        "bridge in (process start included)",
    ];
    for (name, rates) in names.iter().zip(&mut rates) {
        told(name, rates);
    }
    Ok(())
}
