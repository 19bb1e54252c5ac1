//! Orders about pools.
//!
//! A handle is kept for as long as the survivor lives, leaked, so that objects can be kept over
//! several orders.

use std::collections::BTreeMap;

use outlive::Domain;
use outlive::pool::{Object, Offset, Pool, PoolError, PoolOptions, SharedObject};

/// How survivors open pools.
pub const OPTIONS: PoolOptions = Pool::options().max_bytes(12 << 20).cache_bytes(1 << 20);
/// Bytes of each object that survivors take.
pub const LEN: usize = 1000;
/// What is written into objects that are handed over, and kept.
pub const MARK: u8 = 77;

/// A pool's objects, as `pool count` says where they are.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    pub used: u64,
    pub cached: u64,
    pub free: u64,
    pub offered: u64,
    pub moving: u64,
    pub shared: u64,
    pub total: u64,
}

impl Counted {
    /// From the answer.
    ///
    /// # Errors
    /// When it is none.
    pub fn of(answer: &str) -> Result<Counted, String> {
        let figures: Vec<u64> = answer.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [used, cached, free, offered, moving, shared, total] = figures[..] else {
            return Err(format!("`{answer}` counts nothing"));
        };
        Ok(Counted { used, cached, free, offered, moving, shared, total })
    }

    /// Returns whether each object is in one place.
    pub fn adds_up(&self) -> bool {
        self.used + self.cached + self.free + self.offered + self.moving + self.shared == self.total
    }
}

/// The pools that a survivor has open, and the objects that it keeps.
#[derive(Default)]
pub struct Pools {
    open: BTreeMap<String, &'static Pool>,
    held: BTreeMap<String, Vec<Object<'static>>>,
    shared: BTreeMap<String, Vec<SharedObject<'static>>>,
}

fn whole(bytes: &[u8]) -> bool {
    bytes.len() == LEN && bytes.iter().all(|&byte| byte == MARK)
}

fn said(is_whole: bool) -> String {
    if is_whole { "whole" } else { "somebody wrote into them" }.to_owned()
}

impl Pools {
    fn named(&mut self, domain: &Domain, name: &str) -> Result<&'static Pool, String> {
        if let Some(pool) = self.open.get(name) {
            return Ok(pool);
        }
        let pool = OPTIONS.open_or_create(domain, name).map_err(|error| error.to_string())?;
        let pool: &'static Pool = Box::leak(Box::new(pool));
        self.open.insert(name.to_owned(), pool);
        Ok(pool)
    }

    /// Carries out an order; see the match for which there are.
    pub fn obey(&mut self, domain: &Domain, order: &[&str]) -> Result<String, String> {
        let [order, name, rest @ ..] = order else { return Err("unknown order".to_owned()) };
        let pool = self.named(domain, name)?;
        let held = self.held.entry((*name).to_owned()).or_default();
        let shared = self.shared.entry((*name).to_owned()).or_default();
        let text = |error: PoolError| error.to_string();
        let filled = |_| {
            let mut object = pool.alloc(LEN).map_err(text)?;
            object.fill(MARK);
            Ok(object)
        };
        match (*order, rest) {
            // Takes so many and keeps them.
            ("hold", [count]) => {
                for number in 0..super::number::<u64>(count)? {
                    held.push(filled(number)?);
                }
                Ok(String::new())
            }
            // Takes so many at once, fills them each with something else, and frees them.
            ("use", [count]) => {
                let mut objects =
                    (0..super::number::<u64>(count)?)
                        .map(filled)
                        .collect::<Result<Vec<_>, String>>()?;
                for (number, object) in objects.iter_mut().enumerate() {
                    object.fill(number as u8);
                }
                let mut all = objects.iter().enumerate();
                Ok(said(
                    all.all(|(number, object)| object.iter().all(|&byte| byte == number as u8)),
                ))
            }
            // Takes one of LEN bytes, and frees it so that nothing of it stays in the cache.
            ("use-of", [len]) => {
                drop(pool.alloc(super::number(len)?).map_err(text)?);
                pool.flush();
                Ok(said(true))
            }
            // All are refused, as the mode says.
            ("refused", []) => match pool.alloc(LEN) {
                Ok(_) => Ok("had".to_owned()),
                Err(PoolError::NoSpace { injected: true, .. }) => Ok("refused".to_owned()),
                Err(error) => Err(text(error)),
            },
            // Says the offer's offset, which another claims and frees.
            ("offer-one", []) => {
                filled(0)?.into_offset().map(|offset| offset.as_u64().to_string()).map_err(text)
            }
            ("claim-one", [offset]) => {
                let is_whole =
                    whole(&pool.claim(Offset::from(super::number::<u64>(offset)?)).map_err(text)?);
                pool.flush();
                Ok(said(is_whole))
            }
            ("offer", []) => filled(0)?.into_offset().map(|_| String::new()).map_err(text),
            // Claims all that is offered and frees it.
            ("claim-all", []) => {
                let mut all = true;
                for offer in pool.offers().map_err(|error| error.to_string())? {
                    all &= whole(&pool.claim(offer.offset).map_err(text)?);
                }
                Ok(said(all))
            }
            // Shares one and keeps it; says its offset.
            ("share", []) => {
                shared.push(filled(0)?.share().map_err(text)?);
                Ok(shared.last().map_or(0, |one| one.offset().as_u64()).to_string())
            }
            // Joins and keeps it, if it is shared still.
            ("join", [offset]) => match pool.join(Offset::from(super::number::<u64>(offset)?)) {
                Ok(one) => {
                    let is_whole = whole(&one);
                    shared.push(one);
                    Ok(said(is_whole))
                }
                Err(PoolError::Stale) => Ok("stale".to_owned()),
                Err(error) => Err(text(error)),
            },
            // How many hold what it shares or has joined first.
            ("holders", []) => Ok(shared.first().map_or(0, |one| one.holders().len()).to_string()),
            ("leave", []) => {
                let all = shared.iter().all(|one| whole(one));
                shared.clear();
                Ok(said(all))
            }
            ("check", []) => Ok(said(
                held.iter().all(|object| whole(object))
                    && shared.iter().all(|object| whole(object)),
            )),
            ("drop", []) => {
                for object in held.drain(..) {
                    object.free().map_err(text)?;
                }
                Ok(said(true))
            }
            ("flush", []) => {
                pool.flush();
                Ok(String::new())
            }
            // Most of what the pool may have at all, at once: what is free as several must come to
            // be one.
            ("use-all", []) => {
                drop(pool.alloc(10 << 20).map_err(text)?);
                pool.flush();
                Ok(said(true))
            }
            ("gc", []) => pool.gc().map(|_| String::new()).map_err(text),
            ("modes", [modes]) => {
                pool.set_modes(modes.parse().map_err(|_| "no modes".to_owned())?);
                Ok(String::new())
            }
            ("held", []) => {
                pool.held().map(|held| held.len().to_string()).map_err(|error| error.to_string())
            }
            ("count", []) => {
                let sum = pool.usage().map_err(|error| error.to_string())?.sum;
                let figures = [
                    sum.used,
                    sum.cached,
                    sum.free,
                    sum.offered,
                    sum.moving,
                    sum.shared,
                    sum.total,
                ];
                Ok(figures.map(|figure| figure.to_string()).join(" "))
            }
            _ => Err("unknown order".to_owned()),
        }
    }
}
