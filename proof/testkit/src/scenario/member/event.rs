//! Orders about events (`event …`) and latches (`latch …`).

use outlive::sync::{Event, Latch, Reset};
use outlive::{Domain, WaitStrategy};

/// An event of that name.
///
/// # Errors
/// What opening reports, as text.
pub fn event(domain: &Domain, name: &str, reset: Reset) -> Result<Event, String> {
    let event = Event::options()
        .reset(reset)
        .open_or_create(domain, name)
        .map_err(|error| error.to_string())?;
    event.set_wait_strategy(WaitStrategy::Block);
    Ok(event)
}

/// A latch of that name, for one arrival.
///
/// # Errors
/// What opening reports, as text.
pub fn latch(domain: &Domain, name: &str) -> Result<Latch, String> {
    let latch =
        Latch::options(1).open_or_create(domain, name).map_err(|error| error.to_string())?;
    latch.set_wait_strategy(WaitStrategy::Block);
    Ok(latch)
}

/// Carries out an order about an event; see the match for which there are.
pub fn obey(domain: &Domain, order: &[&str]) -> Result<String, String> {
    let [verb, name, more @ ..] = order else { return Err("unknown order".to_owned()) };
    let reset = if name.starts_with("auto") { Reset::Automatic } else { Reset::Manual };
    let event = event(domain, name, reset)?;
    match (*verb, more) {
        ("bits", []) => Ok(event.bits().to_string()),
        ("set", [bits]) => Ok(event.set(super::number(bits)?).to_string()),
        ("wait", [bits]) => event
            .wait_any(super::number(bits)?)
            .map(|got| got.to_string())
            .map_err(|e| e.to_string()),
        // In a set, beside another event's word: the same one's.
        ("wait-in-set", [bits]) => {
            let bits: u32 = super::number(bits)?;
            let mut set = outlive::wait::WaitSet::new(domain);
            set.set_wait_strategy(WaitStrategy::Block);
            let never = event.all_of(u32::MAX);
            set.add(&event.any_of(bits))
                .and_then(|_| set.add(&never))
                .map_err(|error| error.to_string())?;
            set.wait().map_err(|error| error.to_string())?;
            Ok(event.bits().to_string())
        }
        _ => Err("unknown order".to_owned()),
    }
}

/// Carries out an order about a latch; see the match for which there are.
pub fn obey_latch(domain: &Domain, order: &[&str]) -> Result<String, String> {
    let [verb, name] = order else { return Err("unknown order".to_owned()) };
    let latch = latch(domain, name)?;
    match *verb {
        "missing" => Ok(latch.missing().to_string()),
        "arrive" => Ok(latch.arrive(1).to_string()),
        "wait" => latch.wait().map(|()| String::new()).map_err(|error| error.to_string()),
        _ => Err("unknown order".to_owned()),
    }
}
