//! Sets a state to the numbers from 1 on, and then stays its writer until it is ended.
//!
//! `values DOMAIN STATE COUNT MICROSECONDS`: as many, with that pause between two.

use std::time::Duration;

use outlive::Domain;
use outlive::state::State;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [domain, state, count, pause] = &args[..] else {
        return Err("usage: values DOMAIN STATE COUNT MICROSECONDS".into());
    };
    let domain = Domain::open_or_create_at(domain)?;
    let state = State::<u64>::options().described().open_or_create(&domain, state)?;
    let mut writer = state.writer()?;
    let pause = Duration::from_micros(pause.parse()?);
    for number in 1..=count.parse::<u64>()? {
        writer.set(&number)?;
        std::thread::sleep(pause);
    }
    loop {
        std::thread::park();
    }
}
