//! `node.`, `watch.` and `config.`

use outlive::config::Config;
use outlive::node::{DomainContents, DomainWatch, Node};
use outlive::sync::Event;
use outlive::topic::{Publisher, Subscriber, Topic};
use outlive::{Attributes, Domain, TokenId};

use crate::answer::{self, Answer, Refusal, done, said};

#[derive(Default)]
pub(crate) struct Nodes {
    node: Option<Node>,
    watch: Option<DomainWatch>,
    /// What the watch has told, with the kinds.
    told: Vec<String>,
    config: Config,
}

impl Nodes {
    pub(crate) fn act(&mut self, domain: &Domain, command: &str, args: &[&str]) -> Answer {
        match (command, args) {
            ("node.open", [name, version, key, value]) => {
                let options = domain.node(name).version(version).attribute(key, value);
                self.node = Some(options.register()?);
                done()
            }
            ("node.close", []) => {
                self.node = None;
                done()
            }
            ("node.list", []) => {
                let nodes = domain.nodes()?;
                all(nodes.iter().map(|node| format!("{}/{}", node.name, node.version)).collect())
            }
            ("node.attribute", [token, key]) => {
                let token = TokenId::from_u32(answer::number(token)?);
                let token = token.ok_or_else(|| Refusal::new("Usage", "no token"))?;
                let node = domain.node_of(token)?;
                let node = node.ok_or_else(|| Refusal::new("Usage", "it has no name"))?;
                said(node.attributes.get(key).unwrap_or("none"))
            }
            ("node.all", [token]) => {
                let token = TokenId::from_u32(answer::number(token)?);
                let node = token.and_then(|token| domain.node_of(token).transpose()).transpose()?;
                pairs(&node.ok_or_else(|| Refusal::new("Usage", "it has no name"))?.attributes)
            }
            ("node.all_of", [name]) => pairs(&domain.attributes(name)?),
            ("node.prefault", [bytes]) => {
                domain.prefault(answer::number(bytes)?)?;
                done()
            }
            ("node.lock_memory", [bytes]) => {
                domain.lock_memory(answer::number(bytes)?)?;
                done()
            }
            ("node.make", [name, key, value]) => {
                Event::open_or_create(&domain.with_attributes([(*key, *value)]), name)?;
                done()
            }
            ("node.of", [name, key]) => said(domain.attributes(name)?.get(key).unwrap_or("none")),
            ("watch.open", []) => {
                self.watch = Some(domain.watch());
                self.told = Vec::new();
                done()
            }
            ("watch.changed", [span]) => {
                let span = answer::span(span)?;
                let watch = self.watch.as_mut().ok_or_else(|| Refusal::new("Usage", "no watch"))?;
                let now = answer::got(watch.changed_timeout(span)?, Some(span))?;
                self.changes(domain, &now)
            }
            ("config.load", keys) => {
                self.config = load(keys)?;
                done()
            }
            ("config.profile", [topic]) => {
                said(self.config.profile_for(topic).map_or("none", |profile| &profile.name))
            }
            ("config.topic", [topic]) => {
                let config = self.topic(domain, topic)?.config();
                let reliable = if config.reliable { "yes" } else { "no" };
                said(format!("{} {} {reliable}", config.depth, config.durability))
            }
            ("config.flow", [name, count]) => {
                let topic = self.topic(domain, name)?;
                let (mut publishing, mut subscribing) =
                    (Publisher::options(), Subscriber::options());
                if let Some(profile) = self.config.profile_for(name) {
                    publishing = publishing.profile(profile);
                    subscribing = subscribing.profile(profile);
                }
                let mut subscriber = topic.subscriber_with(subscribing)?;
                let publisher = topic.publisher_with(publishing)?;
                for number in 0..answer::number(count)? {
                    publisher.publish(&[number])?;
                }
                let first = subscriber.try_recv()?;
                said(first.ok_or_else(|| Refusal::new("None", ""))?[0])
            }
            _ => answer::unknown(command, args),
        }
    }

    fn topic(&self, domain: &Domain, name: &str) -> Result<Topic<[u8]>, Refusal> {
        let mut options = Topic::<[u8]>::options();
        if let Some(profile) = self.config.profile_for(name) {
            options = options.profile(profile);
        }
        Ok(options.open_or_create(domain, name)?)
    }

    fn changes(&mut self, domain: &Domain, now: &DomainContents) -> Answer {
        let before = std::mem::take(&mut self.told);
        let kind = |name: &str| domain.kind_of(name).map_or(String::new(), |kind| kind.to_string());
        let things = now.names.iter().map(|name| format!("{name}:{}", kind(name)));
        self.told =
            things.chain(now.nodes.iter().map(|node| format!("{}:node", node.name))).collect();
        let new = self.told.iter().filter(|one| !before.contains(one)).map(|one| format!("+{one}"));
        let gone =
            before.iter().filter(|one| !self.told.contains(one)).map(|one| format!("-{one}"));
        all(new.chain(gone).collect())
    }
}

fn pairs(attributes: &Attributes) -> Answer {
    all(attributes.iter().map(|(key, value)| format!("{key}={value}")).collect())
}

/// Says all of them, sorted.
fn all(mut words: Vec<String>) -> Answer {
    words.sort();
    said(if words.is_empty() { "nothing".to_owned() } else { words.join(" ") })
}

/// Reads a file with a profile that has those keys.
fn load(keys: &[&str]) -> Result<Config, Refusal> {
    let name = format!("outlive-conformance-{}.toml", std::process::id());
    let path = std::env::temp_dir().join(name);
    let text = format!("[[profile]]\nname = \"p\"\ntopics = [\"c.*\"]\n{}\n", keys.join("\n"));
    std::fs::write(&path, text)?;
    let config = Config::load_file(&path);
    std::fs::remove_file(&path)?;
    Ok(config?)
}
