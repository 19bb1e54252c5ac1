//! A queue between processes: its receiver is killed with a message in hand, and the next receiver
//! gets that message again, with what was sent meanwhile.
//!
//! `cargo run -p outlive --example queue` starts the receivers as processes of their own. It uses
//! the domain that `OUTLIVE_DOMAIN` names, and removes what it made there.

use std::error::Error;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use outlive::Domain;
use outlive::queue::{OnReceiverDeath, Queue};

const NAME: &str = "example.orders";

fn main() -> Result<(), Box<dyn Error>> {
    let domain = Domain::open_default()?;
    // While the receiver is dead, messages are kept for the next one.
    let options = Queue::<[u8]>::options().on_receiver_death(OnReceiverDeath::Keep);
    let queue = options.open_or_create(&domain, NAME)?;
    match std::env::args().nth(1).as_deref() {
        Some("look") => return look(&queue),
        Some("receive") => return receive(&queue),
        _ => {}
    }
    let sender = queue.sender()?;
    sender.send(b"buy 10")?;
    let mut first = start("look")?;
    let mut line = String::new();
    BufReader::new(first.stdout.take().ok_or("no output")?).read_line(&mut line)?;
    print!("{line}");
    first.kill()?; // SIGKILL, before it has committed
    first.wait()?;
    sender.send(b"sell 4")?;
    let mut second = start("receive")?;
    let mut text = String::new();
    second.stdout.take().ok_or("no output")?.read_to_string(&mut text)?;
    print!("{text}");
    let ended = second.wait()?;
    domain.remove(NAME)?;
    if ended.success() { Ok(()) } else { Err("the second receiver failed".into()) }
}

fn start(role: &str) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?).arg(role).stdout(Stdio::piped()).spawn()
}

/// Looks at a message, and is killed before it has dealt with it.
fn look(queue: &Queue) -> Result<(), Box<dyn Error>> {
    let mut receiver = queue.receiver()?;
    let order = receiver.peek()?;
    println!("the first receiver has {}", String::from_utf8_lossy(&order));
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Takes what is there.
fn receive(queue: &Queue) -> Result<(), Box<dyn Error>> {
    let mut receiver = queue.receiver()?;
    while let Some(order) = receiver.try_peek()? {
        let mark = if order.redelivered() { ", which the dead one had in hand" } else { "" };
        println!("the second receiver has {}{mark}", String::from_utf8_lossy(&order));
        order.commit(); // after it has been dealt with: now it is gone for good
    }
    Ok(())
}
