//! A publisher comes, publishes and leaves, all in one operation, on a topic that does not give
//! later subscribers the messages of the dead: readers are told of each session before its first
//! message, and a subscriber that joins later gets what living publishers vouch for, and nothing of
//! the victim, nor of "old", which died before and whose ring the victim takes.

use super::log_of;
use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::message::Stamp;
use crate::scenario::member::topic::{DEPTH, LIVING, VOLATILE, topic};
use crate::scenario::told::{Told, numbers, told, when, when_beside};
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop};
use crate::world::World;

/// What the topic gives to later subscribers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sessions {
    /// Nothing.
    Volatile,
    /// What living publishers vouch for.
    Living,
    /// The same; the messages do not fit their slots.
    LivingLarge,
}

/// All of them.
pub const ALL: [Sessions; 3] = [Sessions::Volatile, Sessions::Living, Sessions::LivingLarge];

/// How many messages the victim publishes.
const ITS: u64 = 2;

const READER: &str = "watcher";

impl Sessions {
    fn len(self) -> usize {
        if self == Sessions::LivingLarge { super::OBJECT } else { super::IN_SLOT }
    }

    fn publish(
        self,
        world: &mut World,
        who: &'static str,
        name: &str,
        sender: u64,
        number: u64,
    ) -> Result<(), Failure> {
        super::publish(world, who, name, Stamp { sender, number }, 1, self.len())
    }

    /// What a subscriber that joins now is given, and the newest message for it.
    fn look(self, world: &mut World, beside: bool, name: &str) -> Result<[Vec<Told>; 2], Failure> {
        let history = if self == Sessions::Volatile { 0 } else { DEPTH };
        let order = format!("reader look {name} {history}");
        let answer =
            if beside { world.passes("late", &order)? } else { world.ask("late", &order)? };
        let (history, newest) = answer.split_once('|').unwrap_or((&answer, "nothing"));
        Ok([told(history)?, if newest == "nothing" { Vec::new() } else { told(newest)? }])
    }

    /// Checks what a later subscriber was given: by `vouched`, the numbers of each living sender.
    fn is_of_the_living(
        self,
        given: &[Vec<Told>; 2],
        vouched: &[(u64, Vec<u64>)],
    ) -> Result<(), Failure> {
        let wrong =
            || Failure::wrong(format!("a late subscriber is given {given:?}, of {vouched:?}"));
        let [history, newest] = given;
        if self == Sessions::Volatile {
            return if history.is_empty() && newest.is_empty() { Ok(()) } else { Err(wrong()) };
        }
        for sender in 1..=6 {
            let vouched = vouched.iter().find(|(of, _)| *of == sender);
            let wanted = vouched.map_or(&[][..], |(_, numbers)| numbers);
            if numbers(history, sender) != wanted {
                return Err(wrong());
            }
        }
        let is_right = |told: &Told| matches!(told, Told::Message { lives: true, .. });
        let mut messages = history.iter().filter(|told| told.stamp().is_some());
        // The newest is the last one by order.
        if !messages.clone().all(is_right) || messages.next_back() != newest.first() {
            return Err(wrong());
        }
        Ok(())
    }
}

/// Checks that each session was told once, just before its first message, and that each sender is of
/// one session; returns the victim's numbers.
fn in_order(log: &[Told]) -> Result<Vec<u64>, Failure> {
    let wrong = |what: &str| Failure::wrong(format!("{what}: {log:?}"));
    let mut sessions: Vec<(u32, Option<u64>)> = Vec::new();
    for (at, told) in log.iter().enumerate() {
        match *told {
            Told::NewSession(session) => {
                if sessions.iter().any(|(known, _)| *known == session) {
                    return Err(wrong("a session was told twice"));
                }
                let first = log.get(at + 1).copied();
                if !matches!(first, Some(Told::Message { session: of, .. }) if of == session) {
                    return Err(wrong("a session was told, and not its first message"));
                }
                sessions.push((session, None));
            }
            Told::Message { stamp, session, .. } => {
                // Sender 5 is sender 2's process.
                let sender = if stamp.sender == 5 { 2 } else { stamp.sender };
                let known = sessions.iter_mut().find(|(known, _)| *known == session);
                let Some((_, of)) = known else { return Err(wrong("a session was not told")) };
                if *of.get_or_insert(sender) != sender {
                    return Err(wrong("two senders of one session"));
                }
            }
            _ => return Err(wrong("liveliness was not asked for")),
        }
    }
    let mut senders: Vec<u64> = sessions.iter().filter_map(|(_, of)| *of).collect();
    senders.sort_unstable();
    if !senders.is_sorted_by(|one, other| one < other) {
        return Err(wrong("one sender has two sessions"));
    }
    Ok(numbers(log, 1))
}

/// The session of a sender's messages.
fn session_of(log: &[Told], sender: u64) -> Option<u32> {
    log.iter().find_map(|told| match told {
        Told::Message { stamp, session, .. } if stamp.sender == sender => Some(*session),
        _ => None,
    })
}

fn has(sender: u64, number: u64) -> impl Fn(&[Told]) -> bool {
    move |log| log.iter().any(|told| told.stamp() == Some(Stamp { sender, number }))
}

impl Scenario for Sessions {
    fn name(&self) -> &'static str {
        match self {
            Sessions::Volatile => "topic-session-volatile",
            Sessions::Living => "topic-session-living",
            Sessions::LivingLarge => "topic-session-living-large",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Sessions::Volatile => {
                "come into a dead publisher's ring, publish two messages, leave; volatile"
            }
            Sessions::Living => "the same; later subscribers get what living publishers vouch for",
            Sessions::LivingLarge => "the same with messages that do not fit their slots",
        }
    }

    fn stem(&self) -> &'static str {
        if *self == Sessions::Volatile { VOLATILE } else { LIVING }
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        super::all_are_there(world)?;
        world.ask("second", &format!("topic publisher {name}"))?;
        world.ask(READER, &format!("reader begin {name}"))?;
        world.ask("old", &format!("topic publisher {name}"))?;
        for number in 1..=2 {
            self.publish(world, "old", &name, 4, number)?;
        }
        self.publish(world, "second", &name, 2, 1)?;
        when(world, READER, &log_of(&name), "2:1", has(2, 1)).map(drop)
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        // After the victim has its token: see `all_are_there`.
        world.dismiss("old");
        Ok(())
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        self.publish(world, "second", &name, 2, 2)?;
        let logs = when(world, READER, &log_of(&name), "2:2", has(2, 2))?;
        let probes = numbers(&logs[0], 5);
        for log in &logs {
            let its = in_order(log)?;
            let least = death.acknowledged;
            let most = if death.ended { least } else { least + 1 };
            if !its.iter().copied().eq(1..=its.len() as u64)
                || !(least..=most).contains(&(its.len() as u64))
            {
                return Err(Failure::wrong(format!("{least} were acknowledged, read: {log:?}")));
            }
        }
        let its = numbers(&logs[0], 1).len();
        world.saw(["nothing read of it", "one message read", "two messages read"][its.min(2)]);
        // Of the living, all; of the dead, nothing.
        let given = self.look(world, false, &name)?;
        let of_second = [(2, vec![1, 2]), (5, probes)];
        self.is_of_the_living(&given, &of_second)?;
        // It is started again: in whichever ring, it is another session than all before.
        world.ask("heir", &format!("topic publisher {name}"))?;
        let given = self.look(world, false, &name)?;
        self.is_of_the_living(&given, &of_second)?;
        self.publish(world, "heir", &name, 3, 1)?;
        let logs = when(world, READER, &log_of(&name), "3:1", has(3, 1))?;
        for log in &logs {
            in_order(log)?;
            let heir = session_of(log, 3);
            if [1, 2].into_iter().any(|before| session_of(log, before) >= heir) {
                return Err(Failure::wrong(format!("a later session has a lower number: {log:?}")));
            }
        }
        let given = self.look(world, false, &name)?;
        self.is_of_the_living(&given, &[&of_second[..], &[(3, vec![1])]].concat())?;
        world.ask(READER, &format!("reader end {name}"))?;
        for survivor in world.survivors() {
            world.ask(survivor, &format!("topic close {name}"))?;
        }
        world.ask("sweeper", "domain sweep")?;
        // No process vouches for anything now.
        self.is_of_the_living(&self.look(world, false, &name)?, &[])?;
        crate::scenario::nothing_left(world, &[&name])
    }

    fn stopped(&self, world: &mut World, stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        world.passes("second", &format!("topic publish {name} 5 1 1 {}", self.len()))?;
        let logs = when_beside(world, READER, &log_of(&name), "5:1", has(5, 1))?;
        let mut its = in_order(&logs[0])?;
        if in_order(&logs[1])? != its {
            return Err(Failure::wrong(format!("two readers are told {logs:?}")));
        }
        // It lives, so it vouches, unless it is about to leave.
        let given = self.look(world, true, &name)?;
        if stop.acknowledged == ITS && numbers(&given[0], 1).is_empty() {
            its.clear();
        }
        self.is_of_the_living(&given, &[(1, its), (2, vec![1]), (5, vec![1])])?;
        Ok(HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        domain.token().and_then(|_| domain.process_token()).map_err(|error| error.to_string())?;
        let topic = topic(&domain, place.name)?;
        stage.perform(|| -> Result<(), String> {
            let publisher = topic.publisher().map_err(|error| error.to_string())?;
            for number in 1..=ITS {
                let message = Stamp { sender: 1, number }.message(self.len());
                publisher.publish(&message).map_err(|error| error.to_string())?;
                stage.acknowledge(1);
            }
            Ok(())
        })
    }
}
