//! `pool.`: objects, handed over and shared.

use std::collections::HashMap;

use outlive::pool::{Object, Offset, Pool, SharedObject};
use outlive::{Domain, TokenId};

use crate::answer::{self, Answer, Refusal, done, find, leak, said};

#[derive(Default)]
pub(crate) struct Pools {
    pools: HashMap<String, &'static Pool>,
    objects: HashMap<String, Object<'static>>,
    shared: HashMap<String, SharedObject<'static>>,
}

impl Pools {
    pub(crate) fn act(&mut self, domain: &Domain, verb: &str, args: &[&str]) -> Answer {
        match (verb, args) {
            ("open", [name, options @ ..]) => {
                let mut how = Pool::options();
                if let Some(max) = answer::option(options, "max")? {
                    how = how.max_bytes(max);
                }
                self.pools.insert((*name).to_owned(), leak(how.open_or_create(domain, name)?));
                done()
            }
            ("alloc", [pool, name, word]) => {
                let bytes = answer::message(word)?;
                let mut object = self.pool(pool)?.alloc(bytes.len())?;
                object.copy_from_slice(&bytes);
                self.objects.insert((*name).to_owned(), object);
                done()
            }
            ("show", [name]) => match self.objects.get(*name) {
                Some(object) => said(answer::show(object)),
                None => said(answer::show(find(&mut self.shared, name)?)),
            },
            ("offer", [name]) => said(self.take(name)?.into_offset()?.as_u64()),
            ("offer_to", [name, token]) => {
                let to = TokenId::from_u32(answer::number(token)?)
                    .ok_or_else(|| Refusal::new("Usage", "no token"))?;
                said(self.take(name)?.into_offset_for(&domain.peer(to))?.as_u64())
            }
            ("claim", [pool, name, offset]) => {
                let object =
                    self.pool(pool)?.claim(Offset::from(answer::number::<u64>(offset)?))?;
                let shown = answer::show(&object);
                self.objects.insert((*name).to_owned(), object);
                said(shown)
            }
            ("share", [name]) => {
                let shared = self.take(name)?.share()?;
                let offset = shared.offset().as_u64();
                self.shared.insert((*name).to_owned(), shared);
                said(offset)
            }
            ("join", [pool, name, offset]) => {
                let shared = self.pool(pool)?.join(Offset::from(answer::number::<u64>(offset)?))?;
                let shown = answer::show(&shared);
                self.shared.insert((*name).to_owned(), shared);
                said(shown)
            }
            ("free", [name]) => {
                if self.shared.remove(*name).is_none() {
                    self.take(name)?.free()?;
                }
                done()
            }
            ("prefault", [name, objects, size]) => {
                let (objects, size) = (answer::number(objects)?, answer::number(size)?);
                self.pool(name)?.prefault(objects, size)?;
                done()
            }
            ("gc", [name]) => {
                self.pool(name)?.gc()?;
                done()
            }
            ("count", [name, what]) => {
                let sum = self.pool(name)?.usage()?.sum;
                said(match *what {
                    "used" => sum.used,
                    "offered" => sum.offered,
                    _ => sum.shared,
                })
            }
            _ => answer::unknown(verb, args),
        }
    }

    fn pool(&mut self, name: &str) -> Result<&'static Pool, Refusal> {
        find(&mut self.pools, name).map(|pool| *pool)
    }

    fn take(&mut self, name: &str) -> Result<Object<'static>, Refusal> {
        self.objects
            .remove(name)
            .ok_or_else(|| Refusal::new("Usage", format!("nothing is called {name}")))
    }
}
