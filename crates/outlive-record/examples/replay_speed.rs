//! How fast, and how punctually, a recording is played: `replay_speed FOLDER ROUNDS [PLAYER...]`, by
//! `outlive-replay` beside it where it is built, or by each of these players in turn. A reliable subscriber in this
//! process takes each message; of long ones it reads a byte of each page.
//!
//! Where other programs keep the processors busy, hand-overs wait for these: run it as
//! `setsid -w sh -c 'echo -20 > /proc/self/autogroup; exec nice -n -20 replay_speed ...'` there.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use outlive::Domain;
use outlive::topic::{Subscriber, Topic};
use outlive_mcap::{MessageHeader, Options, Positions, Writer};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Messages of one topic, so many nanoseconds apart.
fn write(path: &Path, count: u64, len: usize, apart: u64) -> Result<()> {
    let mut writer: Writer = Writer::create(path, Options::default())?;
    let channel_id = writer.add_channel(0, "t", "", &Default::default())?;
    let mut payload = vec![7; len];
    for at in 0..count {
        payload[..8].copy_from_slice(&at.to_le_bytes());
        let time = 1_000_000_000 + at * apart;
        let sequence = at as u32;
        let header = MessageHeader { channel_id, sequence, log_time: time, publish_time: time };
        // As a recorder does: long payloads go into the file from where they lie.
        writer.put_owned(&header, payload.clone())?;
        if writer.open_len() >= 1 << 20 {
            writer.flush(&Positions::new())?;
        }
    }
    Ok(writer.finish(&Positions::new())?)
}

/// Where a file is played, and by what.
struct Stage<'s> {
    domain: &'s Domain,
    player: &'s Path,
}

/// Plays a file with these options into a topic of that depth; returns how long the messages took, the player's
/// processor time, and what it told at its end.
fn play(
    stage: &Stage<'_>,
    file: &Path,
    (count, depth): (u64, u32),
    args: &[&str],
) -> Result<(Duration, Duration, String)> {
    let Stage { domain, player: program } = stage;
    let name = format!("t{depth}");
    let topic = Topic::<[u8]>::options().depth(depth).reliable(true);
    let topic = topic.open_or_create(domain, &name)?;
    let mut subscriber = topic.subscriber_with(Subscriber::options().reliable(true))?;
    let before = children_time();
    let mut command = Command::new(program);
    command.arg(file).arg("--domain").arg(domain.path()).arg("--json").args(args);
    command.arg("--rename").arg(format!("t={name}"));
    let player = command.stdout(std::process::Stdio::piped()).spawn()?;
    let (mut begun, mut seen) = (Instant::now(), 0_u64);
    for at in 0..count {
        let sample = subscriber.recv()?;
        if at == 0 {
            begun = Instant::now();
        }
        seen += sample.iter().step_by(4096).map(|byte| u64::from(*byte)).sum::<u64>();
    }
    let span = begun.elapsed();
    assert!(seen > 0);
    let told = String::from_utf8(player.wait_with_output()?.stdout)?;
    Ok((span, children_time() - before, told.lines().last().unwrap_or_default().to_owned()))
}

/// The processor time of all players that have ended.
fn children_time() -> Duration {
    // SAFETY: all zeroes is a valid value, and the kernel fills it.
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the place is this function's own.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut used) };
    let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    time(used.ru_utime) + time(used.ru_stime)
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let [_, folder, rounds, players @ ..] = &args[..] else {
        return Err("replay_speed FOLDER ROUNDS [PLAYER...]".into());
    };
    let mut players: Vec<PathBuf> = players.iter().map(PathBuf::from).collect();
    if players.is_empty() {
        players.push(std::env::current_exe()?.with_file_name("../outlive-replay"));
    }
    let folder = Path::new(folder).join(format!("replay-speed-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let domain = Domain::open_or_create_at(folder.join("domain"))?;
    let file = |name: &str| folder.join(name);
    write(&file("long.mcap"), 512, 1 << 20, 1_000)?;
    write(&file("short.mcap"), 1_000_000, 64, 1_000)?;
    write(&file("spaced.mcap"), 5_000, 1024, 1_000_000)?;
    write(&file("frames.mcap"), 150, 1 << 20, 33_333_333)?;
    let max = ["--rate", "max"];
    for _ in 0..rounds.parse::<u32>()? {
        for player in &players {
            println!("{}", player.display());
            let stage = Stage { domain: &domain, player };
            let (span, used, _) = play(&stage, &file("long.mcap"), (512, 16), &max)?;
            let speed = |span: Duration| (511 << 20) as f64 / span.as_secs_f64() / 1e9;
            println!("  1 MiB: {:.2} GB/s, {:.2} by processor time", speed(span), speed(used));
            for depth in [16, 256] {
                let (span, used, _) = play(&stage, &file("short.mcap"), (1_000_000, depth), &max)?;
                let [speed, by_time] = [span, used].map(|span| 1.0 / span.as_secs_f64());
                println!(
                    "  64 B, depth {depth}: {speed:.2} million/s, {by_time:.2} by processor time"
                );
            }
            for (name, count) in [("spaced.mcap", 5_000), ("frames.mcap", 150)] {
                for args in [&["--reliable"][..], &["--reliable", "--fifo"]] {
                    let (_, _, told) = play(&stage, &file(name), (count, 16), args)?;
                    println!("  {name} {args:?}: {told}");
                }
            }
        }
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
