//! Publishes the numbers from 0 on to a topic, and then stays until it is ended.
//!
//! `numbers DOMAIN TOPIC COUNT MICROSECONDS`: as many, with that pause between two.

use std::time::Duration;

use outlive::Domain;
use outlive::topic::Topic;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [domain, topic, count, pause] = &args[..] else {
        return Err("usage: numbers DOMAIN TOPIC COUNT MICROSECONDS".into());
    };
    let domain = Domain::open_or_create_at(domain)?;
    let options = Topic::<u64>::options().depth(64).reliable(true).described();
    let topic = options.as_is().open_or_create(&domain, topic)?;
    let publisher = topic.publisher()?;
    let pause = Duration::from_micros(pause.parse()?);
    for number in 0..count.parse::<u64>()? {
        publisher.publish(&number)?;
        std::thread::sleep(pause);
    }
    loop {
        std::thread::park();
    }
}
