//! Orders about named barriers of three.
//!
//! A handle is kept for as long as the survivor lives, leaked, so that a seat can be kept over
//! several orders.

use std::collections::BTreeMap;

use outlive::Domain;
use outlive::sync::{AcquireError, Barrier, BarrierWaitResult, Seat, WhenOneDies};

/// What the names of those begin with that count the dead out.
pub const COUNTED: &str = "counted";

/// The barrier of that name.
pub fn open(domain: &Domain, name: &str) -> Result<Barrier, String> {
    let policy = if name.starts_with(COUNTED) { WhenOneDies::CountOut } else { WhenOneDies::Break };
    Barrier::options(3)
        .when_one_dies(policy)
        .open_or_create(domain, name)
        .map_err(|error| error.to_string())
}

/// The barriers that a survivor has open, and its seats.
#[derive(Default)]
pub struct Barriers {
    open: BTreeMap<String, &'static Barrier>,
    seats: BTreeMap<String, Seat<'static>>,
}

impl Barriers {
    fn named(&mut self, domain: &Domain, name: &str) -> Result<&'static Barrier, String> {
        if let Some(barrier) = self.open.get(name) {
            return Ok(barrier);
        }
        let barrier: &'static Barrier = Box::leak(Box::new(open(domain, name)?));
        self.open.insert(name.to_owned(), barrier);
        Ok(barrier)
    }

    /// Carries out an order; see the match for which there are.
    pub fn obey(&mut self, domain: &Domain, order: &[&str]) -> Result<String, String> {
        let [order, name] = order else { return Err("unknown order".to_owned()) };
        let barrier = self.named(domain, name)?;
        let seat = self.seats.get_mut(*name).ok_or_else(|| "it has no seat".to_owned());
        match *order {
            "open" => Ok(String::new()),
            "join" => match barrier.join() {
                Ok(seat) => {
                    self.seats.insert((*name).to_owned(), seat);
                    Ok("joined".to_owned())
                }
                Err(AcquireError::Broken) => Ok("broken".to_owned()),
                Err(AcquireError::Full) => Ok("full".to_owned()),
                Err(error) => Err(error.to_string()),
            },
            "wait" => answer(seat?.wait().map(Some)),
            // Arrives without waiting.
            "arrive" => answer(seat?.try_wait()),
            // The participants; each that has arrived comes twice.
            "participants" => {
                let words = barrier.participants().into_iter().map(|(who, arrived)| {
                    if arrived {
                        format!("{} arrived:{}", who.pid, who.pid)
                    } else {
                        who.pid.to_string()
                    }
                });
                Ok(words.collect::<Vec<_>>().join(" "))
            }
            "repairer" => Ok(barrier
                .repairer()
                .map_or_else(|| "nobody".to_owned(), |holder| holder.pid.to_string())),
            // Gives its seat up if it has one.
            "leave" => {
                self.seats.remove(*name);
                Ok(String::new())
            }
            "broken" => Ok(if barrier.is_broken() { "yes" } else { "no" }.to_owned()),
            // How many have.
            "arrived" => Ok(barrier.arrived().to_string()),
            "abort" => {
                barrier.abort();
                Ok(String::new())
            }
            "repair" => barrier.repair().map(|()| String::new()).map_err(|error| error.to_string()),
            _ => Err("unknown order".to_owned()),
        }
    }
}

fn answer(end: Result<Option<BarrierWaitResult>, AcquireError>) -> Result<String, String> {
    match end {
        Ok(Some(turn)) if turn.is_leader() => Ok("serial".to_owned()),
        Ok(Some(_)) => Ok("passed".to_owned()),
        Ok(None) => Ok("early".to_owned()),
        Err(AcquireError::Broken) => Ok("broken".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
