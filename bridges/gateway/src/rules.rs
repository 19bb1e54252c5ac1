//! What may leave a domain, and what may come in: by rules, of which the first that fits a key and a
//! direction counts. What no rule names does neither.

use std::time::Duration;

use outlive::Kind;
use serde::Deserialize;
use zenoh::key_expr::{KeyExpr, OwnedKeyExpr};
use zenoh::qos::Priority;

use crate::told::said;

/// A rule's default: see [`Rule::hold`]. A large message on a slow link takes its time.
const HOLD: Duration = Duration::from_secs(30);

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From here to others.
    Out,
    /// From others to here.
    In,
    /// Either.
    Both,
}

/// A kind of things that pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Thing {
    /// Messages.
    Topic,
    /// Calls.
    Service,
    /// The latest value.
    State,
    /// Notices, by their numbers.
    Notifier,
}

impl Thing {
    /// Returns what a domain calls it.
    pub fn kind(self) -> Kind {
        match self {
            Thing::Topic => Kind::Topic,
            Thing::Service => Kind::Service,
            Thing::State => Kind::State,
            Thing::Notifier => Kind::Notifier,
        }
    }
}

/// How sure delivery is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reliability {
    /// What the ring still has is sent until each receiver has it.
    #[default]
    Reliable,
    /// What the network does not take is dropped, and counted.
    BestEffort,
}

/// zenoh's priorities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Urgency {
    /// The highest.
    RealTime,
    /// For what a person waits for.
    InteractiveHigh,
    /// The same, lower.
    InteractiveLow,
    /// Above the usual.
    DataHigh,
    /// The usual.
    #[default]
    Data,
    /// Below the usual.
    DataLow,
    /// The lowest.
    Background,
}

impl Urgency {
    /// Returns zenoh's word for it.
    pub fn priority(self) -> Priority {
        match self {
            Urgency::RealTime => Priority::RealTime,
            Urgency::InteractiveHigh => Priority::InteractiveHigh,
            Urgency::InteractiveLow => Priority::InteractiveLow,
            Urgency::DataHigh => Priority::DataHigh,
            Urgency::Data => Priority::Data,
            Urgency::DataLow => Priority::DataLow,
            Urgency::Background => Priority::Background,
        }
    }
}

/// A rule, as the configuration file has it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The keys of this domain's things that it is about: `camera/**`.
    pub allow: String,
    /// Which way. Default: both.
    #[serde(default = "both")]
    pub direction: Direction,
    /// Which kinds of things. Default: all.
    #[serde(default = "all_kinds")]
    pub kinds: Vec<Thing>,
    /// The keys on the network, if they are others: the two end with the same `/**`, or both name one
    /// key.
    #[serde(default, rename = "as")]
    pub network: Option<String>,
    /// At most so many messages of a publisher leave in a second.
    #[serde(default)]
    pub rate: Option<f64>,
    /// Only each n-th message of a publisher leaves.
    #[serde(default)]
    pub keep_every: Option<u64>,
    /// How urgent its messages are to zenoh.
    #[serde(default)]
    pub priority: Urgency,
    /// How sure delivery is.
    #[serde(default)]
    pub reliability: Reliability,
    /// For how many milliseconds publishers wait for a receiver that acknowledges nothing new.
    #[serde(default)]
    pub hold_ms: Option<u64>,
    /// Whether a topic is made here that is not there yet. Default: yes.
    #[serde(default = "yes")]
    pub create: bool,
    /// The most bytes of a topic, or a service, that is made here.
    #[serde(default)]
    pub max_bytes: Option<u64>,
    /// Whether a service that is here may be served by a queryable of a program that is no gateway.
    #[serde(default)]
    pub queryables: bool,
}

fn both() -> Direction {
    Direction::Both
}

fn all_kinds() -> Vec<Thing> {
    vec![Thing::Topic, Thing::Service, Thing::State, Thing::Notifier]
}

fn yes() -> bool {
    true
}

impl Rule {
    /// Returns a rule that lets these keys pass that way.
    pub fn allowing(keys: &str, direction: Direction) -> Rule {
        Rule {
            allow: keys.to_owned(),
            direction,
            kinds: all_kinds(),
            network: None,
            rate: None,
            keep_every: None,
            priority: Urgency::default(),
            reliability: Reliability::default(),
            hold_ms: None,
            create: true,
            max_bytes: None,
            queryables: false,
        }
    }

    /// Returns whether it lets only some messages leave.
    pub fn thins(&self) -> bool {
        self.rate.is_some() || self.keep_every.is_some_and(|every| every > 1)
    }

    /// Returns for how long a receiver that acknowledges nothing new is waited for.
    pub fn hold(&self) -> Duration {
        self.hold_ms.map_or(HOLD, Duration::from_millis)
    }

    /// Returns the least time between two messages that leave.
    pub fn span(&self) -> Option<Duration> {
        self.rate.map(|rate| Duration::from_secs_f64(1.0 / rate))
    }
}

/// A rule whose expressions were checked.
#[derive(Clone, Debug)]
struct Checked {
    rule: Rule,
    here: OwnedKeyExpr,
    there: OwnedKeyExpr,
    /// Before `/**`, or all of it: here and there.
    renamed: Option<(String, String)>,
}

impl Checked {
    /// Returns the key on the network of what has that key here.
    fn network(&self, key: &str) -> Option<String> {
        match &self.renamed {
            None => Some(key.to_owned()),
            Some((here, there)) => Some(format!("{there}{}", key.strip_prefix(here.as_str())?)),
        }
    }
}

/// All rules.
#[derive(Clone, Debug, Default)]
pub struct Rules(Vec<Checked>);

fn expression(text: &str) -> Result<OwnedKeyExpr, String> {
    if text.split('/').any(|part| part.starts_with('@')) {
        return Err(format!("'{text}': a part that begins with '@' is not for rules"));
    }
    OwnedKeyExpr::autocanonize(text.to_owned())
        .map_err(|error| format!("'{text}' is not a key expression: {}", said(&error)))
}

fn checked(rule: &Rule) -> Result<Checked, String> {
    if rule.allow.contains('.') {
        let key = rule.allow.replace('.', "/");
        return Err(format!("'{}': keys have '/' where names have '.': '{key}'", rule.allow));
    }
    let here = expression(&rule.allow)?;
    let there = rule.network.as_deref().map_or(Ok(here.clone()), expression)?;
    let renamed = match &rule.network {
        None => None,
        Some(network) => {
            let is_plain = |text: &str| !text.contains(['*', '$']);
            let pair = match (rule.allow.strip_suffix("/**"), network.strip_suffix("/**")) {
                (Some(here), Some(there)) => Some((here, there)),
                (None, None) => Some((rule.allow.as_str(), network.as_str())),
                _ => None,
            };
            let Some((from, to)) = pair.filter(|(from, to)| is_plain(from) && is_plain(to)) else {
                return Err(format!(
                    "'{}' as '{network}': both end with '/**' and have no other '*', or neither has any",
                    rule.allow
                ));
            };
            Some((from.to_owned(), to.to_owned()))
        }
    };
    if rule.rate.is_some_and(|rate| !rate.is_finite() || rate <= 0.0 || rate > 1e6) {
        return Err(format!("'{}': a rate is above 0 and at most 1000000", rule.allow));
    }
    if rule.keep_every == Some(0) {
        return Err(format!("'{}': keep_every is 1 or more", rule.allow));
    }
    Ok(Checked { rule: rule.clone(), here, there, renamed })
}

impl Rules {
    /// Checks rules.
    ///
    /// # Errors
    /// What is wrong with the first one that is not valid.
    pub fn new(rules: &[Rule]) -> Result<Rules, String> {
        rules.iter().map(checked).collect::<Result<_, _>>().map(Rules)
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the key on the network whose queryables may serve what has that key here.
    pub fn queryables(&self, key: &str) -> Option<String> {
        let expression = KeyExpr::new(key).ok()?;
        let mut inward =
            self.of(Thing::Service).filter(|rule| rule.rule.direction != Direction::Out);
        let checked = inward.find(|rule| rule.here.includes(&expression))?;
        checked.rule.queryables.then(|| checked.network(key)).flatten()
    }

    fn of(&self, thing: Thing) -> impl Iterator<Item = &Checked> {
        self.0.iter().filter(move |rule| rule.rule.kinds.contains(&thing))
    }

    /// Returns the rule by which a thing with that key may leave, and its key on the network.
    pub fn outward(&self, thing: Thing, key: &str) -> Option<(&Rule, String)> {
        let expression = KeyExpr::new(key).ok()?;
        let mut outward = self.of(thing).filter(|rule| rule.rule.direction != Direction::In);
        let checked = outward.find(|rule| rule.here.includes(&expression))?;
        Some((&checked.rule, checked.network(key)?))
    }

    /// Returns the rule by which what has that key on the network may come in, and its key here.
    pub fn inward(&self, thing: Thing, network: &str) -> Option<(&Rule, String)> {
        let expression = KeyExpr::new(network).ok()?;
        let mut inward = self.of(thing).filter(|rule| rule.rule.direction != Direction::Out);
        let checked = inward.find(|rule| rule.there.includes(&expression))?;
        let key = match &checked.renamed {
            None => network.to_owned(),
            Some((here, there)) => format!("{here}{}", network.strip_prefix(there.as_str())?),
        };
        Some((&checked.rule, key))
    }

    /// Returns the expressions on the network for which messages and values may come in, one for each
    /// rule.
    pub fn inward_expressions(&self) -> impl Iterator<Item = &OwnedKeyExpr> {
        let comes = |thing: &Thing| *thing != Thing::Service;
        let inward = self.0.iter().filter(move |rule| rule.rule.kinds.iter().any(comes));
        inward.filter(|rule| rule.rule.direction != Direction::Out).map(|rule| &rule.there)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_passes_that_no_rule_names() {
        let rules = Rules::new(&[
            Rule::allowing("camera/**", Direction::Out),
            Rule::allowing("drive", Direction::In),
        ])
        .expect("valid");
        assert!(rules.outward(Thing::Topic, "camera/front").is_some());
        assert!(rules.outward(Thing::Topic, "camera").is_some());
        assert!(rules.outward(Thing::Topic, "cameras/front").is_none());
        assert!(rules.outward(Thing::Topic, "drive").is_none());
        assert!(rules.inward(Thing::Topic, "drive").is_some());
        assert!(rules.inward(Thing::Topic, "camera/front").is_none());
        assert!(Rules::default().outward(Thing::Topic, "camera").is_none());
    }

    #[test]
    fn the_first_rule_counts_and_renames_both_ways() {
        let mut renamed = Rule::allowing("camera/**", Direction::Both);
        renamed.network = Some("robot7/camera/**".to_owned());
        let rules = Rules::new(&[renamed, Rule::allowing("**", Direction::Both)]).expect("valid");
        let key = |found: Option<(&Rule, String)>| found.map(|(_, key)| key);
        assert_eq!(
            key(rules.outward(Thing::Topic, "camera/front")).as_deref(),
            Some("robot7/camera/front")
        );
        assert_eq!(key(rules.outward(Thing::Topic, "camera")).as_deref(), Some("robot7/camera"));
        assert_eq!(
            key(rules.inward(Thing::Topic, "robot7/camera/front")).as_deref(),
            Some("camera/front")
        );
        assert_eq!(key(rules.outward(Thing::Topic, "pose")).as_deref(), Some("pose"));
        assert_eq!(rules.inward_expressions().count(), 2);
    }

    #[test]
    fn a_rule_is_about_the_kinds_that_it_names() {
        let mut topics = Rule::allowing("a/**", Direction::Both);
        topics.kinds = vec![Thing::Topic];
        let rules = Rules::new(&[topics, Rule::allowing("a/b", Direction::In)]).expect("valid");
        assert!(rules.outward(Thing::Topic, "a/b").is_some());
        assert!(rules.outward(Thing::Service, "a/b").is_none());
        assert!(rules.inward(Thing::Service, "a/b").is_some());
        assert_eq!(rules.inward_expressions().count(), 2);
    }

    #[test]
    fn queryables_serve_where_a_rule_says_so() {
        let mut renamed = Rule::allowing("arm/**", Direction::In);
        renamed.network = Some("robot7/arm/**".to_owned());
        renamed.queryables = true;
        let rules = Rules::new(&[renamed, Rule::allowing("**", Direction::Both)]).expect("valid");
        assert_eq!(rules.queryables("arm/move").as_deref(), Some("robot7/arm/move"));
        assert_eq!(rules.queryables("leg/move"), None);
    }

    #[test]
    fn rules_that_cannot_be_are_refused() {
        let bad = |change: fn(&mut Rule)| {
            let mut rule = Rule::allowing("a/**", Direction::Both);
            change(&mut rule);
            Rules::new(&[rule]).expect_err("refused")
        };
        assert!(bad(|rule| rule.allow = "a//b".to_owned()).contains("key expression"));
        assert!(bad(|rule| rule.allow = "@outlive/**".to_owned()).contains('@'));
        assert!(bad(|rule| rule.network = Some("b".to_owned())).contains("both end"));
        assert!(bad(|rule| rule.network = Some("*/b/**".to_owned())).contains("both end"));
        assert!(bad(|rule| rule.rate = Some(0.0)).contains("rate"));
        assert!(bad(|rule| rule.rate = Some(f64::NAN)).contains("rate"));
        assert!(bad(|rule| rule.keep_every = Some(0)).contains("keep_every"));
    }
}
