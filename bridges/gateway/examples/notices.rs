//! Notifies a number so many times, and then stays a notifier until it is ended.
//!
//! `notices DOMAIN NOTIFIER NUMBER COUNT`

use outlive::Domain;
use outlive::notify::Notifier;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [domain, name, id, count] = &args[..] else {
        return Err("usage: notices DOMAIN NOTIFIER NUMBER COUNT".into());
    };
    let notifier = Notifier::open_or_create(&Domain::open_or_create_at(domain)?, name)?;
    for _ in 0..count.parse::<u64>()? {
        notifier.notify(id.parse()?)?;
    }
    loop {
        std::thread::park();
    }
}
