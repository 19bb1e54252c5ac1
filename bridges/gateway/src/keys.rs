//! The keys below `@outlive/1`, which say everything but the messages: doc/protocols/gateway.md.
//!
//! `**` matches none of them, since a part that begins with '@' stands for itself alone.

use crate::services::stand_in::Elsewhere;
use crate::wire::{MOST_NUMBER, Origin, StreamId};

/// What all begin with. The number is that of the protocol: others are not understood.
const ROOT: &str = "@outlive/1";

/// A key of a topic's instance, as its parts say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfTopic<'k> {
    /// The sender's domain.
    pub origin: Origin,
    /// The topic's instance there.
    pub instance: u64,
    /// What stands behind these two.
    pub rest: &'k str,
}

/// Returns such a key.
fn of_topic(kind: &str, origin: Origin, instance: u64, rest: &str) -> String {
    let slash = if rest.is_empty() { "" } else { "/" };
    format!("{ROOT}/{kind}/{:032x}/{instance:016x}{slash}{rest}", origin.0)
}

/// Token: the topic with that key is sent, and its sender is there. `epoch`: which start of that
/// sender. A successor's token is another one, so that it is seen to come even where its
/// predecessor's has not gone yet.
pub fn topic(origin: Origin, instance: u64, epoch: u64, key: &str) -> String {
    of_topic("topic", origin, instance, &format!("{epoch:016x}/{key}"))
}

/// Token: a publisher is there, whose first message has the number `from`; `epoch` as above.
pub fn publisher(stream: StreamId, epoch: u64, from: u64, key: &str) -> String {
    let rest = format!("{epoch:016x}/{:08x}/{from:016x}/{key}", stream.session);
    of_topic("publisher", stream.origin, stream.instance, &rest)
}

/// Token: messages are to be kept until this receiver has them.
pub fn receiver(origin: Origin, instance: u64, receiver: Origin) -> String {
    of_topic("receiver", origin, instance, &format!("{:032x}", receiver.0))
}

/// Messages and queries of one topic: `ended`, `at`, `ack`, `meta`, `resume`.
pub fn message(kind: &str, origin: Origin, instance: u64) -> String {
    of_topic(kind, origin, instance, "")
}

/// Token: the service with that key has that server, which may be asked at its gateway's start `epoch`.
pub fn service(origin: Origin, instance: u64, epoch: u64, server: u32, key: &str) -> String {
    of_topic("service", origin, instance, &format!("{epoch:016x}/{server:08x}/{key}"))
}

/// Token: the state with that key is sent, by the `start`-th start of its gateway.
pub fn state(origin: Origin, instance: u64, start: u64, key: &str) -> String {
    of_topic("state", origin, instance, &format!("{start:016x}/{key}"))
}

/// Token: a copy of the state follows it.
pub fn state_receiver(origin: Origin, instance: u64, receiver: Origin) -> String {
    of_topic("state-receiver", origin, instance, &format!("{:032x}", receiver.0))
}

/// Token: what is notified there is told, by the `start`-th start of its gateway.
pub fn notifier(origin: Origin, tenure: u64, start: u64, key: &str) -> String {
    of_topic("notifier", origin, tenure, &format!("{start:016x}/{key}"))
}

/// Token: a receiver tells it to its listeners.
pub fn notices_receiver(origin: Origin, tenure: u64, receiver: Origin) -> String {
    of_topic("notices-receiver", origin, tenure, &format!("{:032x}", receiver.0))
}

/// Token: that start of a gateway is there.
pub fn gateway(origin: Origin, epoch: u64) -> String {
    format!("{ROOT}/gateway/{:032x}/{epoch:016x}", origin.0)
}

/// Queries: calls of a service, for that start of its gateway alone.
pub fn call(origin: Origin, instance: u64, epoch: u64) -> String {
    of_topic("call", origin, instance, &format!("{epoch:016x}"))
}

/// All keys of calls of that start of a gateway.
pub fn calls(origin: Origin, epoch: u64) -> String {
    format!("{ROOT}/call/{:032x}/*/{epoch:016x}", origin.0)
}

/// All keys of a kind, of any sender.
pub fn all(kind: &str) -> String {
    format!("{ROOT}/{kind}/**")
}

/// All keys of a kind, of one sender.
pub fn all_of(kind: &str, origin: Origin) -> String {
    format!("{ROOT}/{kind}/{:032x}/**", origin.0)
}

fn hex<T>(
    text: &str,
    digits: usize,
    parse: impl Fn(&str, u32) -> Result<T, std::num::ParseIntError>,
) -> Option<T> {
    // Of one form only: no sign, no capitals, so that no key has two spellings.
    let is_plain = text.len() == digits
        && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    is_plain.then(|| parse(text, 16).ok()).flatten()
}

/// Reads a key of that kind.
pub fn parse<'k>(kind: &str, key: &'k str) -> Option<OfTopic<'k>> {
    let rest = key.strip_prefix(ROOT)?.strip_prefix('/')?.strip_prefix(kind)?.strip_prefix('/')?;
    let (origin, rest) = rest.split_once('/')?;
    let (instance, rest) = rest.split_once('/').unwrap_or((rest, ""));
    Some(OfTopic {
        origin: Origin(hex(origin, 32, u128::from_str_radix)?),
        instance: hex(instance, 16, u64::from_str_radix)?,
        rest,
    })
}

/// Reads a topic's token: the topic, its sender's start, its key.
pub fn parse_topic(key: &str) -> Option<(OfTopic<'_>, u64, &str)> {
    parse_sent("topic", key)
}

/// Reads the token of a thing of that kind that is sent: the thing, its sender's start, its key.
pub fn parse_sent<'k>(kind: &str, key: &'k str) -> Option<(OfTopic<'k>, u64, &'k str)> {
    let topic = parse(kind, key)?;
    let (epoch, key) = topic.rest.split_once('/')?;
    Some((topic, hex(epoch, 16, u64::from_str_radix)?, key))
}

/// Reads a publisher's token: its stream, its first message, the topic's key.
pub fn parse_publisher(key: &str) -> Option<(StreamId, u64, &str)> {
    let OfTopic { origin, instance, rest } = parse("publisher", key)?;
    let (_, rest) = rest.split_once('/')?;
    let (session, rest) = rest.split_once('/')?;
    let (from, key) = rest.split_once('/')?;
    let session = hex(session, 8, u32::from_str_radix)?;
    let from = hex(from, 16, u64::from_str_radix).filter(|from| *from <= MOST_NUMBER)?;
    Some((StreamId { origin, instance, session }, from, key))
}

/// Reads a service's token: the server, and the service's key.
pub fn parse_service(key: &str) -> Option<(Elsewhere, &str)> {
    let OfTopic { origin, instance, rest } = parse("service", key)?;
    let (epoch, rest) = rest.split_once('/')?;
    let (server, key) = rest.split_once('/')?;
    let epoch = hex(epoch, 16, u64::from_str_radix)?;
    let server = hex(server, 8, u32::from_str_radix)?;
    Some((Elsewhere { origin, instance, epoch, server }, key))
}

/// Reads a gateway's token: its domain, and its start.
pub fn parse_gateway(key: &str) -> Option<(Origin, u64)> {
    let gateway = parse("gateway", key).filter(|gateway| gateway.rest.is_empty())?;
    Some((gateway.origin, gateway.instance))
}

/// Reads a receiver's token: the topic, and who.
pub fn parse_receiver(key: &str) -> Option<(OfTopic<'_>, Origin)> {
    parse_received("receiver", key)
}

/// Reads such a token of that kind.
pub fn parse_received<'k>(kind: &str, key: &'k str) -> Option<(OfTopic<'k>, Origin)> {
    let topic = parse(kind, key)?;
    let who = Origin(hex(topic.rest, 32, u128::from_str_radix)?);
    Some((topic, who))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: Origin = Origin(0xabc);

    #[test]
    fn keys_are_read_as_they_were_made() {
        let stream = StreamId { origin: ORIGIN, instance: 5, session: 6 };
        let key = publisher(stream, 9, 7, "a/b");
        assert_eq!(parse_publisher(&key), Some((stream, 7, "a/b")));
        let key = topic(ORIGIN, 5, 9, "a/b");
        assert_eq!(
            parse_topic(&key).map(|(topic, epoch, key)| (topic.instance, epoch, key)),
            Some((5, 9, "a/b"))
        );
        let key = receiver(ORIGIN, 5, Origin(8));
        assert_eq!(
            parse_receiver(&key).map(|(topic, who)| (topic.instance, who)),
            Some((5, Origin(8)))
        );
        let key = service(ORIGIN, 5, 9, 7, "a/b");
        let server = Elsewhere { origin: ORIGIN, instance: 5, epoch: 9, server: 7 };
        assert_eq!(parse_service(&key), Some((server, "a/b")));
        assert_eq!(parse_gateway(&gateway(ORIGIN, 9)), Some((ORIGIN, 9)));
        assert_eq!(parse("call", &call(ORIGIN, 5, 9)).map(|of| of.instance), Some(5));
        let key = message("ack", ORIGIN, 5);
        assert_eq!(parse("ack", &key), Some(OfTopic { origin: ORIGIN, instance: 5, rest: "" }));
        assert_eq!(parse("resume", &key), None);
    }

    #[test]
    fn other_spellings_are_refused() {
        let key = topic(ORIGIN, 5, 9, "a");
        for other in [
            key.replace("abc", "ABC"),
            key.replacen("/1/", "/2/", 1),
            key.replacen("0000", "+000", 1),
            key[..key.len() - 20].to_owned(),
            String::new(),
            "@outlive/1/topic".to_owned(),
        ] {
            assert_eq!(parse_topic(&other), None, "{other}");
        }
    }
}
