//! A topic between processes: the publisher is killed, another one comes, and the subscriber goes
//! on.
//!
//! `cargo run -p outlive --example topic` starts the publishers as processes of their own. It uses
//! the domain that `OUTLIVE_DOMAIN` names, and removes what it made there.

use std::error::Error;
use std::process::Command;
use std::time::Duration;

use outlive::Domain;
use outlive::topic::Topic;

const NAME: &str = "example.range";

fn main() -> Result<(), Box<dyn Error>> {
    let domain = Domain::open_default()?;
    let topic = Topic::<[u8]>::open_or_create(&domain, NAME)?;
    if let Some(who) = std::env::args().nth(1) {
        return publish(&topic, &who);
    }
    let mut subscriber = topic.subscriber()?;
    for who in ["the first", "the second"] {
        let mut publisher = Command::new(std::env::current_exe()?).arg(who).spawn()?;
        let mut seen = 0;
        while seen < 3 {
            // What the one before had published may still be there.
            let sample =
                subscriber.recv_timeout(Duration::from_secs(60))?.ok_or("none publishes")?;
            let text = String::from_utf8_lossy(&sample);
            if text.starts_with(who) {
                seen += 1;
                println!("{text}");
            }
        }
        publisher.kill()?; // SIGKILL, at whatever instruction it is
        publisher.wait()?;
    }
    domain.remove(NAME)?;
    Ok(())
}

fn publish(topic: &Topic, who: &str) -> Result<(), Box<dyn Error>> {
    let publisher = topic.publisher()?;
    for measured in 400_u64.. {
        publisher.publish(format!("{who} measures {measured} mm").as_bytes())?;
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
