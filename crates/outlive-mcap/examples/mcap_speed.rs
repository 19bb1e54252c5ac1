//! How fast files are written: beside `dd` with large blocks, and beside the mcap crate's writer.
//!
//! `cargo run --profile dist -p outlive-mcap --example mcap_speed -- FOLDER [ROUNDS]`: the contenders write
//! into the folder, one after the other, round after round; the medians with minimum and maximum.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use outlive_mcap::{MessageHeader, Options, Positions, Writer};

/// Bytes of a round with large messages.
const LARGE: usize = 1 << 30;
/// Messages of a round with small ones.
const SMALL: u32 = 3_000_000;
/// A group is flushed when it has as many bytes.
const GROUP: u64 = 4 << 20;

type Failed = Box<dyn std::error::Error>;

/// What one contender took: all of the time, and the processor's.
#[derive(Clone, Copy)]
struct Took {
    wall: Duration,
    processor: Duration,
}

fn processor() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn measure(body: impl FnOnce() -> Result<(), Failed>) -> Result<Took, Failed> {
    let (wall, before) = (Instant::now(), processor());
    body()?;
    Ok(Took { wall: wall.elapsed(), processor: processor() - before })
}

fn ours(path: &Path, len: usize, count: u32) -> Result<(), Failed> {
    let mut writer = Writer::<Arc<[u8]>>::create(path, Options::default())?;
    let channel_id = writer.add_channel(0, "a", "", &BTreeMap::new())?;
    // Several, as a topic's samples are; each is written where it lies.
    let samples: Vec<Arc<[u8]>> = (0..8_u8).map(|n| vec![n; len].into()).collect();
    for sequence in 0..count {
        let time = u64::from(sequence);
        let header = MessageHeader { channel_id, sequence, log_time: time, publish_time: time };
        writer.put_owned(&header, Arc::clone(&samples[sequence as usize % 8]))?;
        if writer.open_len() >= GROUP {
            writer.flush(&Positions::from([("a".into(), sequence.to_string())]))?;
        }
    }
    writer.finish(&Positions::new())?;
    Ok(())
}

fn theirs(path: &Path, len: usize, count: u32) -> Result<(), Failed> {
    let options = mcap::WriteOptions::new().compression(None).chunk_size(Some(GROUP));
    let mut writer = options.create(BufWriter::new(File::create(path)?))?;
    let channel_id = writer.add_channel(0, "a", "", &BTreeMap::new())?;
    let samples: Vec<Vec<u8>> = (0..8_u8).map(|n| vec![n; len]).collect();
    for sequence in 0..count {
        let time = u64::from(sequence);
        let header = mcap::records::MessageHeader {
            channel_id,
            sequence,
            log_time: time,
            publish_time: time,
        };
        writer.write_to_known_channel(&header, &samples[sequence as usize % 8])?;
    }
    writer.finish()?;
    Ok(())
}

fn dd(path: &Path) -> Result<(), Failed> {
    let ran = Command::new("dd")
        .args(["if=/dev/zero", "bs=4M", &format!("count={}", LARGE >> 22), "status=none"])
        .arg(format!("of={}", path.display()))
        .status()?;
    if ran.success() { Ok(()) } else { Err("dd failed".into()) }
}

/// Hands as many bytes to the kernel as a round has, and does nothing else: the floor.
fn write(path: &Path) -> Result<(), Failed> {
    let samples: Vec<Vec<u8>> = (0..8_u8).map(|n| vec![n; 1 << 20]).collect();
    let mut file = File::create(path)?;
    for at in 0..LARGE >> 20 {
        file.write_all(&samples[at % 8])?;
    }
    Ok(())
}

/// Copies as many bytes as a round has, in memory: into `room` bytes over and over, whose pages are
/// there from the second time on.
fn memcpy(room: usize) -> Result<(), Failed> {
    let samples: Vec<Vec<u8>> = (0..8_u8).map(|n| vec![n; 1 << 20]).collect();
    let mut to = vec![0_u8; room];
    for at in 0..LARGE >> 20 {
        let begin = (at << 20) % to.len();
        to[begin..begin + (1 << 20)].copy_from_slice(&samples[at % 8]);
        std::hint::black_box(&mut to);
    }
    Ok(())
}

fn median(mut took: Vec<f64>) -> String {
    took.sort_by(f64::total_cmp);
    format!("{:.2} ({:.2} to {:.2})", took[took.len() / 2], took[0], took[took.len() - 1])
}

fn main() -> Result<(), Failed> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("usage: mcap_speed FOLDER [ROUNDS]")?;
    let rounds = arguments.next().map_or(Ok(7), |text| text.parse())?;
    let path = Path::new(&folder).join(format!("mcap-speed-{}.mcap", std::process::id()));
    let (large, count) = (1 << 20, (LARGE >> 20) as u32);
    type Contender<'a> = (&'a str, &'a dyn Fn() -> Result<(), Failed>);
    let contenders: [Contender<'_>; 8] = [
        ("1 MiB, outlive-mcap", &|| ours(&path, large, count)),
        ("1 MiB, mcap crate", &|| theirs(&path, large, count)),
        ("dd bs=4M", &|| dd(&path)),
        ("1 MiB, write alone", &|| write(&path)),
        ("memcpy, new memory", &|| memcpy(LARGE)),
        ("memcpy, used memory", &|| memcpy(64 << 20)),
        ("64 B, outlive-mcap", &|| ours(&path, 64, SMALL)),
        ("64 B, mcap crate", &|| theirs(&path, 64, SMALL)),
    ];
    let mut all = vec![Vec::new(); contenders.len()];
    for round in 0..rounds {
        // Another one begins each round: what a contender leaves to the disk costs the next one.
        for turn in 0..contenders.len() {
            let at = (round + turn) % contenders.len();
            all[at].push(measure(contenders[at].1)?);
            let _ = fs::remove_file(&path);
        }
    }
    for (took, (name, _)) in all.iter().zip(&contenders) {
        let each = |part: fn(&Took) -> Duration| {
            let amount =
                if name.starts_with("64 B") { f64::from(SMALL) / 1e6 } else { LARGE as f64 / 1e9 };
            took.iter().map(|took| amount / part(took).as_secs_f64()).collect()
        };
        let unit = if name.starts_with("64 B") { "M messages/s" } else { "GB/s" };
        let (wall, busy) = (median(each(|took| took.wall)), median(each(|took| took.processor)));
        // What dd did was another process's work.
        let busy = if name.starts_with("dd") { "-".to_owned() } else { busy };
        println!("{name:22} {wall} {unit}; by its processor time {busy}");
    }
    Ok(())
}
