//! Which topics of a recording are played, and which of the names that were given no file has.

use std::collections::{BTreeSet, HashMap};

use outlive_mcap::Channel;
use regex::Regex;

use super::channel::name_of;
use crate::error::Error;
use crate::recorder::EVENTS;

/// Which topics: all, if neither names nor a pattern say otherwise.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Their names in the files, or here.
    pub topics: Vec<String>,
    /// A pattern that is found in their names in the files, or here.
    pub regex: Option<Regex>,
}

impl Wanted {
    /// Returns whether a topic is played that has that name in the file, and that one here.
    pub fn has(&self, topic: &str, name: &str) -> bool {
        let is_one = |wanted: &String| wanted == topic || wanted == name;
        let is_like = |regex: &Regex| regex.is_match(topic) || regex.is_match(name);
        (self.topics.is_empty() && self.regex.is_none())
            || self.topics.iter().any(is_one)
            || self.regex.as_ref().is_some_and(is_like)
    }
}

/// What was asked for by a name or a pattern, and which topics were met. What stays unmet was mistyped.
pub struct Asked {
    wanted: Wanted,
    rename: HashMap<String, String>,
    /// The names of the topics that were met, as the files have them.
    there: BTreeSet<String>,
}

impl Asked {
    pub fn new(wanted: Wanted, rename: HashMap<String, String>) -> Asked {
        Asked { wanted, rename, there: BTreeSet::new() }
    }

    /// Returns the name that a channel's topic has here, and whether it is another than the one it would have of
    /// itself; `None`: it is not played.
    pub fn meet(&mut self, channel: &Channel) -> Option<(String, bool)> {
        let topic = channel.topic.as_str();
        // The recorder's own.
        if topic == EVENTS {
            return None;
        }
        if !self.there.contains(topic) {
            self.there.insert(topic.to_owned());
        }
        let renamed = self.rename.get(topic).cloned();
        let is_renamed = renamed.is_some();
        let name = renamed.unwrap_or_else(|| name_of(topic));
        self.wanted.has(topic, &name).then_some((name, is_renamed))
    }

    /// Returns what no topic that was met has, of several names the first.
    pub fn unmet(&self) -> Option<Error> {
        let names: Vec<(&String, String)> =
            self.there.iter().map(|topic| (topic, self.name(topic))).collect();
        let is_met =
            |wanted: &String| names.iter().any(|(topic, name)| *topic == wanted || name == wanted);
        let asked = self.wanted.topics.iter().find(|wanted| !is_met(wanted));
        let mut renamed: Vec<&String> =
            self.rename.keys().filter(|from| !self.there.contains(*from)).collect();
        renamed.sort();
        let there = || self.there.iter().cloned().collect();
        if let Some(name) = asked.or(renamed.first().copied()) {
            return Some(Error::NoTopic { name: name.clone(), there: there() });
        }
        let regex = self.wanted.regex.as_ref()?;
        let is_like =
            names.iter().any(|(topic, name)| regex.is_match(topic) || regex.is_match(name));
        (!is_like).then(|| Error::NoneLike { regex: regex.to_string(), there: there() })
    }

    fn name(&self, topic: &str) -> String {
        self.rename.get(topic).cloned().unwrap_or_else(|| name_of(topic))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(topics: &[&str], regex: Option<&str>, rename: &[(&str, &str)]) -> Option<String> {
        let wanted = Wanted {
            topics: topics.iter().map(|name| (*name).to_owned()).collect(),
            regex: regex.map(|regex| Regex::new(regex).expect("a pattern")),
        };
        let rename = rename.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned()));
        let mut asked = Asked::new(wanted, rename.collect());
        for topic in ["/camera/front", "lidar", EVENTS] {
            let channel = Channel {
                id: 1,
                schema_id: 0,
                topic: topic.to_owned(),
                message_encoding: String::new(),
                metadata: Default::default(),
            };
            asked.meet(&channel);
        }
        asked.unmet().map(|error| error.to_string())
    }

    #[test]
    fn what_no_topic_has_is_told_with_what_is_there() {
        assert_eq!(asked(&[], None, &[]), None);
        assert_eq!(asked(&["lidar", "camera.front", "/camera/front"], None, &[]), None);
        assert_eq!(asked(&["c"], Some("^lid"), &[("/camera/front", "c")]), None);
        for (topics, regex, rename, why) in [
            (&["lidra", "lidar"][..], None, &[][..], "no topic 'lidra' (is 'lidar' meant?)"),
            (&["x.y"], None, &[], "no topic 'x.y' in"),
            (&["camera.fornt"], None, &[], "(is '/camera/front' meant?)"),
            (&[], None, &[("lidr", "x")], "no topic 'lidr' (is 'lidar' meant?)"),
            (&[], Some("^front"), &[], "no topic with the pattern '^front' in"),
            // It has that name no more.
            (&["camera.front"], None, &[("/camera/front", "c")], "no topic 'camera.front'"),
        ] {
            let told = asked(topics, regex, rename).expect("told");
            assert!(told.contains(why), "{told}");
            assert!(told.ends_with("there are '/camera/front', 'lidar'"), "{told}");
        }
    }
}
