//! `select` over queues: one thread waits for messages of two queues and for a moment, by a wait
//! set, until the senders of both have gone.
//!
//! `cargo run -p outlive --example select` starts the senders as processes of their own. It uses the
//! domain that `OUTLIVE_DOMAIN` names, and removes what it made there.

use std::error::Error;
use std::process::Command;
use std::time::Duration;

use outlive::queue::Queue;
use outlive::wait::{Timer, WaitSet};
use outlive::{Domain, RecvError};

const NAMES: [&str; 2] = ["example.buys", "example.sells"];

fn main() -> Result<(), Box<dyn Error>> {
    let domain = Domain::open_default()?;
    if let Some(name) = std::env::args().nth(1) {
        return send(&domain, &name);
    }
    let mut set = WaitSet::new(&domain);
    let mut receivers = Vec::new();
    let mut senders = Vec::new();
    for name in NAMES {
        let receiver = Queue::<[u8]>::open_or_create(&domain, name)?.receiver()?;
        // Before it is added: the set reports the end of the last sender, too.
        receiver.end_when_senders_gone(true);
        receivers.push((set.add(&receiver)?, name, receiver));
        senders.push(Command::new(std::env::current_exe()?).arg(name).spawn()?);
    }
    let too_late = set.add(&Timer::after(Duration::from_secs(60)))?;
    while !receivers.is_empty() {
        // Sleeps until one of them is ready; takes nothing.
        let ready: Vec<_> = set.wait()?.map(|(key, _)| key).collect();
        if ready.contains(&too_late) {
            return Err("the senders are too slow".into());
        }
        let mut ended = Vec::new();
        for (key, name, receiver) in receivers.iter_mut().filter(|(key, ..)| ready.contains(key)) {
            match receiver.try_recv() {
                Ok(Some(message)) => println!("{name}: {}", String::from_utf8_lossy(&message)),
                // Ready means that a try is worth it: a sender may have died in the middle.
                Ok(None) => {}
                Err(RecvError::Closed) => ended.push(*key),
                Err(error) => return Err(error.into()),
            }
        }
        for key in ended {
            set.remove(key);
            receivers.retain(|(of, ..)| *of != key);
        }
    }
    for (mut sender, name) in senders.into_iter().zip(NAMES) {
        sender.wait()?;
        domain.remove(name)?;
    }
    Ok(())
}

fn send(domain: &Domain, name: &str) -> Result<(), Box<dyn Error>> {
    let sender = Queue::<[u8]>::open(domain, name)?.sender()?;
    for number in 1..=3 {
        sender.send(format!("order {number}").as_bytes())?;
    }
    Ok(())
}
