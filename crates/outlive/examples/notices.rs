//! Notices that count: a listener is told how often each of several things has happened, and that
//! the process which told it so has been killed.
//!
//! `cargo run -p outlive --example notices` starts the notifier as a process of its own and kills
//! it. It uses the domain that `OUTLIVE_DOMAIN` names, and removes what it made there.

use std::error::Error;
use std::process::Command;

use outlive::Domain;
use outlive::notify::{Listener, Notifier};

const NAME: &str = "example.doors";
const OPENED: u32 = 1;
const CLOSED: u32 = 2;
const DIED: u32 = 63;

fn main() -> Result<(), Box<dyn Error>> {
    let domain = Domain::open_default()?;
    if std::env::args().nth(1).is_some() {
        return notify(&domain);
    }
    let mut listener = Listener::options().on_died(DIED).create_new(&domain, NAME)?;
    let mut doors = Command::new(std::env::current_exe()?).arg("doors").spawn()?;
    let (mut opened, mut closed, mut died) = (0, 0, 0);
    while died == 0 {
        let notices = listener.wait()?;
        opened += notices.count(OPENED);
        closed += notices.count(CLOSED);
        died += notices.count(DIED);
        if (opened, closed, died) == (3, 2, 0) {
            // In whatever it is doing.
            doors.kill()?;
        }
    }
    println!("opened {opened} times, closed {closed} times; then the process was killed");
    doors.wait()?;
    domain.remove(NAME)?;
    Ok(())
}

fn notify(domain: &Domain) -> Result<(), Box<dyn Error>> {
    let notifier = Notifier::open(domain, NAME)?;
    for id in [OPENED, CLOSED, OPENED, CLOSED, OPENED] {
        // How many are there? The listener need not be awake for any of them.
        assert_eq!(notifier.notify(id)?, 1);
    }
    loop {
        std::thread::park();
    }
}
