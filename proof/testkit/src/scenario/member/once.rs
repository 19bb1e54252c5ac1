//! Orders about values that are made once: eight equal numbers.

use outlive::sync::OnceLock;
use outlive::{Domain, WaitStrategy};

/// What is made.
pub type Eight = [u64; 8];

/// The value of that name.
///
/// # Errors
/// What opening reports, as text.
pub fn open(domain: &Domain, name: &str) -> Result<OnceLock<Eight>, String> {
    let once = OnceLock::open_or_create(domain, name).map_err(|error| error.to_string())?;
    once.set_wait_strategy(WaitStrategy::Block);
    Ok(once)
}

/// Carries out an order; see the match for which there are.
pub fn obey(domain: &Domain, order: &[&str]) -> Result<String, String> {
    match order {
        ["maker", name] => {
            let initializer = open(domain, name)?.initializer();
            Ok(initializer.map_or_else(|| "nobody".to_owned(), |holder| holder.pid.to_string()))
        }
        // Makes it, or finds it. Answers which, and what it is.
        ["get", name] => {
            let once = open(domain, name)?;
            let mut how = "found";
            let made = once.get_or_init(|state| {
                how = if state.previous_died() { "made-after-a-death" } else { "made" };
                [u64::from(std::process::id()); 8]
            });
            let made = made.map_err(|error| error.to_string())?;
            if made.iter().any(|number| *number != made[0]) {
                return Err(format!("half a value: {made:?}"));
            }
            Ok(format!("{how} {}", made[0]))
        }
        _ => Err("unknown order".to_owned()),
    }
}
