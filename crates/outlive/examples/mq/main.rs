//! A message queue made of a lock, as one would make it: `cargo run --release --example mq`.
//!
//! `mu_sm.rs` makes it of a mutex and semaphores. The messages lie in the ring of `ring.rs`. `outlive bench mq`
//! measures it beside the system's queue and `outlive::queue`, which needs no lock and is many times as fast.

mod mu_sm;
//! `mu_cv.rs` makes it of a mutex and condition variables. The messages lie in the ring of `ring.rs`. `outlive bench mq`
//! measures it beside the system's queue and `outlive::queue`, which needs no lock and is many times as fast.

mod mu_cv;
mod ring;

use std::error::Error;
use std::path::Path;
use std::process::{Command, exit};
use std::time::Instant;

use mu_sm::MuSm;
use mu_cv::MuCv;
use outlive::{Domain, Wait};

const MESSAGES: u64 = 100_000;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [folder, wait] = &args[..] {
        // The other process.
        return receive(Path::new(folder), if wait == "block" { Wait::Block } else { Wait::Adaptive });
    }
    for (name, wait) in [("adaptive", Wait::Adaptive), ("block", Wait::Block)] {
        let folder = std::env::temp_dir().join(format!("outlive-example-mq-{}", std::process::id()));
        let queue = open(&folder, wait)?;
        let mut receiver = Command::new(std::env::current_exe()?).arg(&folder).arg(name).spawn()?;
        let begun = Instant::now();
        for number in 0..MESSAGES {
            queue.send(&number.to_ne_bytes())?;
        }
        let status = receiver.wait()?;
        let each = begun.elapsed().as_nanos() as f64 / MESSAGES as f64;
        std::fs::remove_dir_all(&folder)?;
        if !status.success() {
            exit(1);
        }
        println!("mutex and semaphores, waiting by {name}: {each:.0} ns a message");
        println!("mutex and condition variables, waiting by {name}: {each:.0} ns a message");
    }
    Ok(())
}

fn open(folder: &Path, wait: Wait) -> Result<MuSm, Box<dyn Error>> {
    let queue = MuSm::open(&Domain::open_at(folder)?, "queue")?;
fn open(folder: &Path, wait: Wait) -> Result<MuCv, Box<dyn Error>> {
    let queue = MuCv::open(&Domain::open_at(folder)?, "queue")?;
    queue.set_wait(wait);
    Ok(queue)
}

fn receive(folder: &Path, wait: Wait) -> Result<(), Box<dyn Error>> {
    let queue = open(folder, wait)?;
    let mut message = Vec::new();
    for number in 0..MESSAGES {
        queue.receive(&mut message)?;
        assert_eq!(message, number.to_ne_bytes(), "each came once, in its order");
    }
    Ok(())
}
