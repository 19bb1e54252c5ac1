//! `set.`

use std::collections::HashMap;

use outlive::rpc::Service;
use outlive::topic::Writable;
use outlive::wait::{Key, WaitSet};

use crate::answer::{self, Answer, done, find, refused, said};
use crate::{Driver, Refusal};

pub(crate) struct Set {
    set: WaitSet,
    names: HashMap<Key, String>,
    rooms: HashMap<String, Writable>,
}

impl Driver {
    pub(crate) fn wait_sets(&mut self, verb: &str, args: &[&str]) -> Answer {
        if let ("open", [name]) = (verb, args) {
            let set = Set {
                set: WaitSet::new(&self.domain),
                names: HashMap::new(),
                rooms: HashMap::new(),
            };
            self.sets.insert((*name).to_owned(), set);
            return done();
        }
        let [name, args @ ..] = args else { return answer::unknown(verb, args) };
        let peer = match (verb, args) {
            ("add_peer", [_, token]) => Some(self.peer(token)?),
            _ => None,
        };
        let Set { set, names, rooms } = find(&mut self.sets, name)?;
        let (key, name) = match (verb, args) {
            ("add_queue", [queue]) => {
                (set.add(&*find(&mut self.queues, queue)?.receiver()?)?, *queue)
            }
            ("add_topic", [topic]) => (set.add(&*self.topics.subscriber(topic)?)?, *topic),
            ("add_listener", [listener]) => {
                (set.add(&*find(&mut self.notifiers.listeners, listener)?)?, *listener)
            }
            ("add_event", [event, bits]) => {
                (set.add(&self.sync.event_of(event)?.any_of(answer::number(bits)?))?, *event)
            }
            ("add_peer", [name, _]) => {
                let peer = peer.ok_or_else(|| Refusal::new("Usage", ""))?;
                (set.add(&peer)?, *name)
            }
            ("add_publisher", [topic]) => {
                let room = self.topics.publisher_of(topic)?.writable();
                let key = set.add(&room)?;
                rooms.insert((*topic).to_owned(), room);
                (key, *topic)
            }
            ("add_stand_by", [service]) => {
                let opened = Service::<[u8], [u8]>::open(&self.domain, service)?;
                (set.add(&opened.stand_by())?, *service)
            }
            ("slowest", [topic]) => {
                return match find(rooms, topic)?.slowest() {
                    Some(slowest) => said(format!("{} {}", slowest.who.pid, slowest.lag)),
                    None => said("none"),
                };
            }
            ("wait", [patience]) => {
                let patience = answer::patience(patience)?;
                let ready = match patience {
                    None => set.try_wait()?,
                    Some(span) => set.wait_timeout(span)?,
                };
                let mut ready: Vec<&str> = ready.map(|(key, _)| names[&key].as_str()).collect();
                ready.sort_unstable();
                return match (ready.is_empty(), patience) {
                    (false, _) => said(ready.join(" ")),
                    (true, None) => refused("None", ""),
                    (true, Some(_)) => Err(outlive::WaitError::TimedOut.into()),
                };
            }
            _ => return answer::unknown(verb, args),
        };
        names.insert(key, name.to_owned());
        done()
    }
}
