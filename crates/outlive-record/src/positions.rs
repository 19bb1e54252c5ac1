//! Which positions of a file mean something: those of things that are still there.

use std::collections::BTreeMap;

use outlive::queue::Queue;
use outlive::rpc::Service;
use outlive::state::State;
use outlive::topic::Topic;
use outlive::{Domain, Error, Kind};
use outlive_mcap::Positions;

use crate::account::LEFT;
use crate::source::MISSING;

/// The things of a domain that positions can name, by their numbers.
pub struct Things {
    pub found: BTreeMap<u64, (Kind, String)>,
    /// There is nothing else: all could be read.
    pub is_all: bool,
}

/// Forgets the positions of things that were removed while no recorder ran: nothing has their numbers again. Where
/// something cannot be read, all stay as they are.
pub fn forget_gone(things: &Things, positions: &mut Positions) {
    if !things.is_all {
        return;
    }
    positions.retain(|key, _| match key.split_once('.') {
        Some((instance, of)) if is_instance(instance) && is_known(of) => {
            u64::from_str_radix(instance, 16).is_ok_and(|number| things.found.contains_key(&number))
        }
        _ => true,
    });
}

fn is_instance(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns whether a topic has such a position, by the number of a ring, or another thing has.
fn is_known(text: &str) -> bool {
    [MISSING, LEFT, "queue", "state", "service"].contains(&text) || text.parse::<u32>().is_ok()
}

/// Returns the number by which positions name a thing; 0: of a kind that has none, or none yet.
fn number(domain: &Domain, kind: Kind, name: &str) -> Result<u64, Error> {
    Ok(match kind {
        Kind::Topic => Topic::open_as_bytes(domain, name)?.instance()?,
        Kind::Queue => Queue::open_as_bytes(domain, name)?.id(),
        Kind::State => State::open_as_bytes(domain, name)?.instance(0),
        Kind::Service => Service::open_as_bytes(domain, name)?.id(),
        _ => 0,
    })
}

/// Returns the things that there are.
pub fn things(domain: &Domain) -> Result<Things, Error> {
    let mut things = Things { found: BTreeMap::new(), is_all: true };
    for name in domain.contents()?.names {
        let instance =
            domain.kind_of(&name).and_then(|kind| Ok((number(domain, kind, &name)?, kind)));
        match instance {
            Ok((instance, kind)) => drop(things.found.insert(instance, (kind, name))),
            // It has gone meanwhile, or is nothing of Outlive's.
            Err(Error::NotFound { .. } | Error::NotASegment { .. }) => {}
            Err(_) => things.is_all = false,
        }
    }
    Ok(things)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_that_is_gone_has_no_positions() {
        let folder = std::env::temp_dir().join(format!("outlive-positions-{}", std::process::id()));
        let domain = Domain::open_or_create_at(&folder).expect("opens");
        let instance = |name| {
            let topic = Topic::<[u8]>::open_or_create(&domain, name).expect("made");
            topic.instance().expect("has one")
        };
        let (here, gone) = (instance("here"), instance("gone"));
        domain.remove("gone").expect("removed");
        let again = instance("gone");
        // Things of other kinds have one position each.
        let queue = |name| {
            let queue = Queue::<[u8]>::options().open_or_create(&domain, name).expect("made");
            format!("{:016x}.queue", queue.id())
        };
        let (there, was_there) = (queue("q"), queue("was"));
        domain.remove("was").expect("removed");
        let mut positions = Positions::from([(there.clone(), "5".into()), (was_there, "5".into())]);
        forget_gone(&things(&domain).expect("listed"), &mut positions);
        assert_eq!(positions.into_keys().collect::<Vec<_>>(), [there]);
        let keys = |instances: &[u64]| {
            let of = |instance| ["0", "17", MISSING].map(|of| format!("{instance:016x}.{of}"));
            let others = ["0123456789abcdef.of another kind".to_owned(), "else".to_owned()];
            let keys = instances.iter().flat_map(of).chain(others);
            keys.map(|key| (key, "5".to_owned())).collect::<Positions>()
        };
        let mut positions = keys(&[here, gone, again]);
        forget_gone(&things(&domain).expect("listed"), &mut positions);
        assert_eq!(positions, keys(&[here, again]));
        // Of one that cannot be read nothing is known: here one of another version.
        let mut bytes = std::fs::read(folder.join("here")).expect("read");
        bytes[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        std::fs::write(folder.join("other"), bytes).expect("written");
        let mut positions = keys(&[here, gone]);
        forget_gone(&things(&domain).expect("listed"), &mut positions);
        std::fs::remove_dir_all(&folder).expect("removed");
        assert_eq!(positions, keys(&[here, gone]));
    }
}
