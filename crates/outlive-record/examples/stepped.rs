//! Publishes a message again and again between two stops (SIGSTOP), or sends it into a queue, if there is one of
//! that name: for a tracer that counts its instructions.
//!
//! `stepped DOMAIN NAME COUNT BYTES`

use std::time::Duration;

use outlive::queue::Queue;
use outlive::topic::{Outgoing, Topic};
use outlive::{Domain, Kind};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [domain, name, count, bytes] = &args[..] else {
        return Err("usage: stepped DOMAIN NAME COUNT BYTES".into());
    };
    let domain = Domain::open_or_create_at(domain)?;
    let (count, message) = (count.parse::<u32>()?, vec![b'x'; bytes.parse()?]);
    if domain.kind_of(name) == Ok(Kind::Queue) {
        let queue = Queue::<[u8]>::open(&domain, name)?;
        let (sender, mut receiver) = (queue.sender()?, queue.receiver()?);
        // All slots have been written once.
        for _ in 0..1024 {
            sender.send(&message)?;
            receiver.recv()?;
        }
        return stepped(count, || Ok(sender.try_send(&message)?));
    }
    let topic = Topic::<[u8]>::open_or_create(&domain, name)?;
    let publisher = topic.publisher()?;
    // What is made at the first messages is there, and the ring is full; a recorder sees no burst.
    for _ in 0..64 {
        publisher.publish(Outgoing::new(&*message))?;
        std::thread::sleep(Duration::from_millis(5));
    }
    stepped(count, || Ok(publisher.publish(Outgoing::new(&*message)).map(drop)?))
}

/// Does it so often between the two stops.
fn stepped(
    count: u32,
    mut once: impl FnMut() -> Result<(), Box<dyn std::error::Error>>,
) -> Result<(), Box<dyn std::error::Error>> {
    // SAFETY: raise takes a number; the tracer lets this process go on.
    unsafe { libc::raise(libc::SIGSTOP) };
    for _ in 0..count {
        once()?;
    }
    // SAFETY: raise takes a number; the tracer lets this process go on.
    unsafe { libc::raise(libc::SIGSTOP) };
    Ok(())
}
