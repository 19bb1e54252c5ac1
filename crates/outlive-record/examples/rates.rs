//! How fast `outlive record` records, and what that costs: one publisher, which waits for the recorder.
//!
//! `cargo run --profile dist -p outlive-record --example rates -- FOLDER [ROUNDS]` writes into FOLDER, beside
//! `dd` with large blocks, in turn. `cargo build --profile dist -p outlive-record` comes first.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use outlive::Domain;
use outlive::topic::Topic;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const SMALL: usize = 64;
const LARGE: usize = 1 << 20;

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let folder = args.next().ok_or("which folder?")?;
    let rounds = args.next().map_or(Ok(5), |rounds| rounds.parse())?;
    let folder = Path::new(&folder).join(format!("outlive-rates-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let mut rows: [(&str, Vec<f64>); 8] = [
        ("64 B, million messages/s", Vec::new()),
        ("64 B, recorder's processor time, ns a message", Vec::new()),
        ("64 B, recorder's own memory after a tenth, MiB", Vec::new()),
        ("the same at the end", Vec::new()),
        ("1 MiB, GB/s", Vec::new()),
        ("1 MiB, recorder's processor time, ns a KiB", Vec::new()),
        ("dd bs=4M, GB/s", Vec::new()),
        ("memcpy of 1 MiB into memory in use, ns a KiB", Vec::new()),
    ];
    let measured = measure(&folder, rounds, &mut rows);
    std::fs::remove_dir_all(&folder)?;
    measured?;
    for (name, mut values) in rows {
        values.sort_by(f64::total_cmp);
        let (first, last) = (values.first(), values.last());
        if let (Some(least), Some(most)) = (first, last) {
            println!("{name}: {:.3} ({least:.3} to {most:.3})", values[values.len() / 2]);
        }
    }
    Ok(())
}

fn measure(folder: &Path, rounds: usize, rows: &mut [(&str, Vec<f64>); 8]) -> Result<()> {
    for _ in 0..rounds {
        let Recorded { seconds, processor, memory } = record(folder, SMALL, 8_000_000, 1 << 14)?;
        rows[0].1.push(8.0 / seconds);
        rows[1].1.push(processor * 1e9 / 8e6);
        rows[2].1.push(memory[0]);
        rows[3].1.push(memory[1]);
        let count = 1500;
        let Recorded { seconds, processor, .. } = record(folder, LARGE, count, 16)?;
        let bytes = (count as usize * LARGE) as f64;
        rows[4].1.push(bytes / seconds / 1e9);
        rows[5].1.push(processor * 1e9 / (bytes / 1024.0));
        let begun = Instant::now();
        let file = folder.join("dd");
        let mut dd = Command::new("dd");
        dd.args(["if=/dev/zero", "bs=4M", "count=375"]).arg(format!("of={}", file.display()));
        if !dd.stderr(Stdio::null()).status()?.success() {
            return Err("dd failed".into());
        }
        rows[6].1.push(bytes / begun.elapsed().as_secs_f64() / 1e9);
        std::fs::remove_file(&file)?;
        rows[7].1.push(copies());
    }
    Ok(())
}

/// Returns how many nanoseconds it takes to copy a KiB, out of and into 64 MiB each.
fn copies() -> f64 {
    let (from, mut to) = (vec![1_u8; 64 * LARGE], vec![2_u8; 64 * LARGE]);
    let begun = Instant::now();
    for _ in 0..10 {
        for (from, to) in from.chunks(LARGE).zip(to.chunks_mut(LARGE)) {
            to.copy_from_slice(std::hint::black_box(from));
        }
        std::hint::black_box(&mut to);
    }
    begun.elapsed().as_nanos() as f64 / (10 * 64 * 1024) as f64
}

struct Recorded {
    /// Until the messages were in the file.
    seconds: f64,
    /// The recorder's.
    processor: f64,
    /// The recorder's own after a tenth and at the end, in MiB.
    memory: [f64; 2],
}

/// Records so many messages.
fn record(folder: &Path, len: usize, count: u64, depth: u32) -> Result<Recorded> {
    let place = Path::new("/dev/shm").join(format!("outlive-rates-domain-{}", std::process::id()));
    let domain = Domain::open_or_create_at(&place)?;
    let topic = Topic::<[u8]>::options().depth(depth).reliable(true);
    let topic = topic.open_or_create(&domain, "t")?;
    let publisher = topic.publisher()?;
    let program = std::env::current_exe()?.with_file_name("../outlive-record");
    let file = folder.join("out.mcap");
    let mut recorder = Command::new(program)
        .args(["--domain".as_ref(), place.as_os_str(), "--all".as_ref(), "-o".as_ref()])
        .arg(&file)
        .stderr(Stdio::null())
        .spawn()?;
    while topic.subscribers().is_empty() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let before = children();
    let begun = Instant::now();
    let bytes = vec![1; len];
    let mut memory = [0.0; 2];
    for at in 0..count {
        if at == count / 10 {
            memory[0] = own_memory(recorder.id());
        }
        if len == SMALL {
            publisher.publish(&bytes)?;
        } else {
            // Written in place, so that the publisher's copying is not the slow part.
            publisher.publish(publisher.loan(len)?)?;
        }
    }
    memory[1] = own_memory(recorder.id());
    // SAFETY: a child that has not been waited for.
    unsafe { libc::kill(recorder.id() as i32, libc::SIGTERM) };
    recorder.wait()?;
    let seconds = begun.elapsed().as_secs_f64();
    let processor = children() - before;
    std::fs::remove_file(&file)?;
    std::fs::remove_dir_all(&place)?;
    Ok(Recorded { seconds, processor, memory })
}

/// The memory of a process that no other one shares, in MiB.
fn own_memory(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) / 1024.0
}

/// The processor time of children that have ended, in seconds.
fn children() -> f64 {
    // SAFETY: the kernel fills it.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: a valid pointer to a local.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}
