//! Which positions of a file mean something: those of things that are still there.

use std::collections::BTreeSet;

use outlive::queue::Queue;
use outlive::rpc::Service;
use outlive::state::State;
use outlive::topic::Topic;
use outlive::{Domain, Error, Kind};
use outlive_mcap::Positions;

use crate::source::MISSING;

/// The name of the recorder that was told to stop, in the positions of the file that it has finished then.
pub const STOPPED: &str = "stopped";
/// What a recorder was to record, as a number: a successor with another one knows less of what it finds.
pub const SELECTION: &str = "selection";

/// Forgets the positions of things that were removed while no recorder ran: nothing has their numbers again. Where
/// something cannot be read, all stay as they are.
pub fn forget_gone(domain: &Domain, positions: &mut Positions) {
    if positions.is_empty() {
        return;
    }
    let Ok(present) = instances(domain) else { return };
    positions.retain(|key, _| match key.split_once('.') {
        Some((instance, of)) if is_instance(instance) && is_known(of) => present.contains(instance),
        _ => true,
    });
}

fn is_instance(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns whether a topic has such a position, by the number of a ring, or another thing has.
fn is_known(text: &str) -> bool {
    [MISSING, "queue", "state", "service"].contains(&text) || text.parse::<u32>().is_ok()
}

/// Returns the things that there are, as the positions name them.
fn instances(domain: &Domain) -> Result<BTreeSet<String>, Error> {
    let mut found = BTreeSet::new();
    for name in domain.contents()?.names {
        let instance = match domain.kind_of(&name) {
            Ok(Kind::Topic) => {
                Topic::open_as_bytes(domain, &name).and_then(|topic| topic.instance())
            }
            Ok(Kind::Queue) => Queue::open_as_bytes(domain, &name).map(|queue| queue.id()),
            // One that has no number yet has no position either.
            Ok(Kind::State) => State::open_as_bytes(domain, &name).map(|state| state.instance(0)),
            Ok(Kind::Service) => Service::open_as_bytes(domain, &name).map(|service| service.id()),
            Ok(_) => continue,
            Err(error) => Err(error),
        };
        match instance {
            Ok(instance) => found.insert(format!("{instance:016x}")),
            // It has gone meanwhile, or is nothing of Outlive's.
            Err(Error::NotFound { .. } | Error::NotASegment { .. }) => continue,
            Err(error) => return Err(error),
        };
    }
    Ok(found)
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
        forget_gone(&domain, &mut positions);
        assert_eq!(positions.into_keys().collect::<Vec<_>>(), [there]);
        let keys = |instances: &[u64]| {
            let of = |instance| ["0", "17", MISSING].map(|of| format!("{instance:016x}.{of}"));
            let others = ["0123456789abcdef.of another kind".to_owned(), "else".to_owned()];
            let keys = instances.iter().flat_map(of).chain(others);
            keys.map(|key| (key, "5".to_owned())).collect::<Positions>()
        };
        let mut positions = keys(&[here, gone, again]);
        forget_gone(&domain, &mut positions);
        assert_eq!(positions, keys(&[here, again]));
        // Of one that cannot be read nothing is known: here one of another version.
        let mut bytes = std::fs::read(folder.join("here")).expect("read");
        bytes[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        std::fs::write(folder.join("other"), bytes).expect("written");
        let mut positions = keys(&[here, gone]);
        forget_gone(&domain, &mut positions);
        std::fs::remove_dir_all(&folder).expect("removed");
        assert_eq!(positions, keys(&[here, gone]));
    }
}
