//! The acting gateway: it begins, and passes on what comes to what leaves and comes in.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use outlive::Domain;
use outlive::node::Node;
use zenoh::Wait;
use zenoh::sample::{Sample, SampleKind};

use crate::context::{Context, Shared};
use crate::journal::{self, Journal};
use crate::later::Later;
use crate::notices::Notices;
use crate::rules::Rules;
use crate::services::Services;
use crate::settings::Settings;
use crate::states::States;
use crate::told::{Event, Told, said};
use crate::topics::Topics;
use crate::wire::Attachment;

/// What the names of all gateways' nodes begin with.
pub const NODE: &str = "outlive-gateway";
/// When nothing has answered by then, the gateway says so.
const ALONE: Duration = Duration::from_secs(2);

/// See the head of this file.
pub struct Gateway {
    context: Shared,
    rules: Rules,
    topics: Arc<Topics>,
    services: Arc<Services>,
    states: Arc<States>,
    notices: Arc<Notices>,
    _node: Node,
}

/// Whether it has no connection: no router, and no peer.
fn is_alone(session: &zenoh::Session) -> bool {
    let info = session.info();
    info.routers_zid().wait().next().is_none() && info.peers_zid().wait().next().is_none()
}

impl Gateway {
    /// Waits until no other gateway of that name acts in the domain, then connects and begins.
    ///
    /// The calling thread has to live as long as the gateway acts.
    ///
    /// # Errors
    /// Why it cannot act.
    pub fn start(domain: &Domain, settings: &Settings, told: Told) -> Result<Arc<Gateway>, String> {
        let rules = Rules::new(&settings.rules)?;
        let config = settings.zenoh()?;
        let name = settings.name();
        let waits =
            || told.tell(&Event::of("waits", name).because("another gateway of that name acts"));
        let journal = Journal::take(domain, name, waits).map_err(|failed| match failed {
            journal::Failed::Domain(error) => error.to_string(),
            journal::Failed::Lock(error) => error.to_string(),
            journal::Failed::Random(error) => error.to_string(),
        })?;
        let node =
            domain.node(&format!("{NODE}.{name}")).register().map_err(|error| error.to_string())?;
        let epoch = journal::random().map_err(|error| error.to_string())? as u64;
        let later = Later::start().map_err(|error| error.to_string())?;
        let connected = Arc::new(OnceLock::new());
        if !settings.connect.is_empty() {
            let (told, connected) = (told.clone(), Arc::clone(&connected));
            let endpoints = settings.connect.join(", ");
            later.after(ALONE, move || {
                if connected.get().is_none_or(is_alone) {
                    let why = "no answer, or not let in; it is tried on";
                    told.tell(&Event::of("alone", &endpoints).because(why));
                }
            });
        }
        // A client of a router that is away gets no further than here.
        let session = zenoh::open(config).wait().map_err(|error| said(&error))?;
        let _ = connected.set(session.clone());
        let domain = domain.clone();
        let lease = settings.lease();
        let context = Arc::new(Context { domain, session, journal, epoch, lease, told, later });
        let services = Services::start(&context, &rules).map_err(|error| error.to_string())?;
        let states = States::start(&context, &rules).map_err(|error| said(&error))?;
        let notices = Notices::start(&context, &rules, name)?;
        let topics = Topics::new(&context, &rules);
        let gateway =
            Arc::new(Gateway { context, rules, topics, services, states, notices, _node: node });
        gateway.listen().map_err(|error| said(&error))?;
        gateway.context.told.tell(&Event::of("acts", name));
        Ok(gateway)
    }

    /// Has zenoh call the gateway.
    fn listen(self: &Arc<Gateway>) -> zenoh::Result<()> {
        self.topics.listen()?;
        for (at, expression) in self.rules.inward_expressions().enumerate() {
            let gateway = Arc::clone(self);
            // What several rules name comes once for each.
            let handle = move |sample: Sample| gateway.message(at, &sample);
            let subscriber = self.context.session.declare_subscriber(expression);
            subscriber.callback(handle).background().wait()?;
        }
        self.topics.begin()
    }

    /// A message on a key that rule `at` lets in.
    fn message(&self, at: usize, sample: &Sample) {
        let key = sample.key_expr();
        let first = self.rules.inward_expressions().position(|expression| expression.includes(key));
        if first != Some(at) || sample.kind() != SampleKind::Put {
            return;
        }
        let attachment = sample.attachment().map(|bytes| bytes.to_bytes());
        let bytes = attachment.as_deref();
        if let Some(attachment) = bytes.and_then(Attachment::from_bytes) {
            return self.topics.message(attachment, sample);
        }
        let is_gateway_s =
            |bytes: &[u8]| self.states.value(bytes, sample) || self.notices.totals(bytes, sample);
        let is_other_s = || {
            !self.topics.has_stranger(key)
                && (self.states.stranger(sample) || self.notices.stranger(sample))
        };
        if !bytes.is_some_and(is_gateway_s) && !is_other_s() {
            self.topics.stranger(sample);
        }
    }

    /// Whether a name was removed of what it sends or receives: then it has to look. It costs a load for
    /// each.
    #[must_use]
    pub fn has_removed(&self) -> bool {
        self.topics.has_removed()
            || self.services.has_removed()
            || self.states.has_removed()
            || self.notices.has_removed()
    }

    /// What is in the domain has changed: things begin to leave, or end.
    pub fn look(&self, names: &[String]) {
        self.services.look(names);
        self.states.look(names);
        self.notices.look(names);
        self.topics.look(names);
    }

    /// Ends in order: others see at once that this gateway has gone.
    pub fn close(&self) {
        self.services.close();
        self.states.close();
        self.notices.close();
        self.topics.close();
        let _ = self.context.session.close().wait();
    }
}
