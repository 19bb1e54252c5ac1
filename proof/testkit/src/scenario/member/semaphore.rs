//! Orders about named semaphores: two permits at first, room for three.
//!
//! A handle is kept for as long as the survivor lives, leaked, so that permits can be kept over
//! several orders.

use std::collections::BTreeMap;

use outlive::Domain;
use outlive::sync::{AcquireError, Mutex, Permit, Semaphore};

/// The semaphore of that name.
pub fn open(domain: &Domain, name: &str) -> Result<Semaphore, String> {
    Semaphore::options(2)
        .max_permits(3)
        .open_or_create(domain, name)
        .map_err(|error| error.to_string())
}

/// The name under which a survivor says which process is to get a permit.
pub fn offer(name: &str) -> String {
    format!("{name}-to")
}

/// Returns the process that has offered to take a permit up.
pub fn receiver(domain: &Domain, name: &str) -> Result<outlive::TokenId, String> {
    let offer = Mutex::<u64>::options(0)
        .open_or_create(domain, &offer(name))
        .map_err(|error| error.to_string())?;
    let wanted = *offer.lock().map_err(|error| error.to_string())?;
    let tokens = domain.tokens();
    let found = tokens.iter().find(|info| info.alive && u64::from(info.id.as_u32()) == wanted);
    found.map(|info| info.id).ok_or_else(|| "nobody has offered to take a permit up".to_owned())
}

/// The semaphores that a survivor has open, and the permits that it keeps.
#[derive(Default)]
pub struct Semaphores {
    open: BTreeMap<String, &'static Semaphore>,
    held: BTreeMap<String, Vec<Permit<'static>>>,
}

impl Semaphores {
    fn named(&mut self, domain: &Domain, name: &str) -> Result<&'static Semaphore, String> {
        if let Some(semaphore) = self.open.get(name) {
            return Ok(semaphore);
        }
        let semaphore: &'static Semaphore = Box::leak(Box::new(open(domain, name)?));
        self.open.insert(name.to_owned(), semaphore);
        Ok(semaphore)
    }

    /// Carries out an order; see the match for which there are.
    pub fn obey(&mut self, domain: &Domain, order: &[&str]) -> Result<String, String> {
        let [order, name] = order else { return Err("unknown order".to_owned()) };
        let semaphore = self.named(domain, name)?;
        let text = |error: AcquireError| error.to_string();
        match *order {
            "open" => Ok(String::new()),
            // Take one and give it back.
            "acquire" => semaphore.acquire().map(|_| "got".to_owned()).map_err(text),
            // Take both and give them back.
            "both" => semaphore.acquire_many(2).map(|_| "got".to_owned()).map_err(text),
            "try" => match semaphore.try_acquire() {
                Ok(Some(_)) => Ok("got".to_owned()),
                Ok(None) => Ok("none".to_owned()),
                Err(error) => Err(error.to_string()),
            },
            "hold" => {
                let permit = semaphore.acquire().map_err(text)?;
                self.held.entry((*name).to_owned()).or_default().push(permit);
                Ok(String::new())
            }
            // Gives one of those back that it holds.
            "release" => match self.held.get_mut(*name).and_then(Vec::pop) {
                Some(permit) => {
                    drop(permit);
                    Ok(String::new())
                }
                None => Err("it is not held".to_owned()),
            },
            // Takes all permits that are free and gives them back. Answers how many.
            "count" => {
                let mut all = Vec::new();
                loop {
                    match semaphore.try_acquire() {
                        Ok(Some(permit)) => all.push(permit),
                        Ok(None) => return Ok(all.len().to_string()),
                        Err(error) => return Err(error.to_string()),
                    }
                }
            }
            // Processes that hold a permit.
            "holders" => Ok(semaphore
                .holders()
                .iter()
                .map(|holder| holder.pid.to_string())
                .collect::<Vec<_>>()
                .join(" ")),
            "free" => Ok(semaphore.available_permits().to_string()),
            // From now on `give`, and the victim, hand to this survivor.
            "offer" => {
                let token = domain.token().map_err(|error| error.to_string())?;
                let to = Mutex::<u64>::options(0)
                    .open_or_create(domain, &offer(name))
                    .map_err(|error| error.to_string())?;
                *to.lock().map_err(|error| error.to_string())? = u64::from(token.as_u32());
                Ok(String::new())
            }
            "give" => {
                let to = receiver(domain, name)?;
                semaphore.acquire().map_err(text)?.hand_to(to);
                Ok(String::new())
            }
            "take-up" => semaphore.take_up().map(|_| "got".to_owned()).map_err(text),
            "try-take-up" => semaphore
                .try_take_up()
                .map(|got| if got.is_some() { "got" } else { "none" }.to_owned())
                .map_err(text),
            _ => Err("unknown order".to_owned()),
        }
    }
}
