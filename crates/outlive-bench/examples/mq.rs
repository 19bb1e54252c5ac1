//! Sends messages through queues that are made of a lock ([`outlive_bench::lock_queues`]): `cargo run
//! --profile dist -p outlive-bench --example mq`.

use std::error::Error;
use std::path::Path;
use std::process::{Command, exit};
use std::time::Instant;

use outlive::{Domain, WaitStrategy};
use outlive_bench::lock_queues::{MuCv, MuSm};

const MESSAGES: u64 = 100_000;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [folder, made_of, wait] = &args[..] {
        // This is the receiving process.
        return receive(Path::new(folder), made_of, wait);
    }
    for made_of in ["condition variables", "semaphores"] {
        for wait in ["adaptive", "block"] {
            let folder =
                std::env::temp_dir().join(format!("outlive-example-mq-{}", std::process::id()));
            let domain = Domain::open_or_create_at(&folder)?;
            let mut receiver = Command::new(std::env::current_exe()?)
                .arg(&folder)
                .args([made_of, wait])
                .spawn()?;
            let begun = Instant::now();
            send(&domain, made_of, wait)?;
            let status = receiver.wait()?;
            let each = begun.elapsed().as_nanos() as f64 / MESSAGES as f64;
            std::fs::remove_dir_all(&folder)?;
            if !status.success() {
                exit(1);
            }
            println!("mutex and {made_of}, waiting by {wait}: {each:.0} ns a message");
        }
    }
    Ok(())
}

fn way(wait: &str) -> WaitStrategy {
    if wait == "block" { WaitStrategy::Block } else { WaitStrategy::Adaptive }
}

fn send(domain: &Domain, made_of: &str, wait: &str) -> Result<(), Box<dyn Error>> {
    if made_of == "semaphores" {
        let queue = MuSm::open(domain, "queue")?;
        queue.set_wait_strategy(way(wait));
        for number in 0..MESSAGES {
            queue.send(&number.to_ne_bytes())?;
        }
    } else {
        let queue = MuCv::open(domain, "queue")?;
        queue.set_wait_strategy(way(wait));
        for number in 0..MESSAGES {
            queue.send(&number.to_ne_bytes())?;
        }
    }
    Ok(())
}

fn receive(folder: &Path, made_of: &str, wait: &str) -> Result<(), Box<dyn Error>> {
    let domain = Domain::open_or_create_at(folder)?;
    let mut message = Vec::new();
    let check = |number: u64, message: &[u8]| {
        assert_eq!(message, number.to_ne_bytes(), "each came once, in its order");
    };
    if made_of == "semaphores" {
        let queue = MuSm::open(&domain, "queue")?;
        queue.set_wait_strategy(way(wait));
        for number in 0..MESSAGES {
            queue.receive(&mut message)?;
            check(number, &message);
        }
    } else {
        let queue = MuCv::open(&domain, "queue")?;
        queue.set_wait_strategy(way(wait));
        for number in 0..MESSAGES {
            queue.receive(&mut message)?;
            check(number, &message);
        }
    }
    Ok(())
}
