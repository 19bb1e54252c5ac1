//! Publishes a message again and again between two stops (SIGSTOP): for a tracer that counts its instructions.
//!
//! `stepped DOMAIN TOPIC COUNT BYTES`

use outlive::Domain;
use outlive::topic::{Outgoing, Topic};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [domain, topic, count, bytes] = &args[..] else {
        return Err("usage: stepped DOMAIN TOPIC COUNT BYTES".into());
    };
    let domain = Domain::open_or_create_at(domain)?;
    let topic = Topic::<[u8]>::open_or_create(&domain, topic)?;
    let publisher = topic.publisher()?;
    let (count, message) = (count.parse::<u32>()?, vec![b'x'; bytes.parse()?]);
    // What is made at the first messages is there.
    for _ in 0..64 {
        publisher.publish(Outgoing::new(&*message))?;
    }
    // SAFETY: raise takes a number; the tracer lets this process go on.
    unsafe { libc::raise(libc::SIGSTOP) };
    for _ in 0..count {
        publisher.publish(Outgoing::new(&*message))?;
    }
    // SAFETY: as above.
    unsafe { libc::raise(libc::SIGSTOP) };
    Ok(())
}
