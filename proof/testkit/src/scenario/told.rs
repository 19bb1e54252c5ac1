//! What readers and watchers were told (`member/reader.rs`, `member/watches.rs`), and waiting until
//! they have been told it.

use std::time::{Duration, Instant};

use crate::campaign::PATIENCE;
use crate::failure::Failure;
use crate::message::Stamp;
use crate::world::{World, load};

/// One thing that a reader or a watcher was told: of a publisher, by its session, or of a client, by
/// its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    Message { stamp: Stamp, session: u32, lives: bool },
    NewSession(u32),
    NotLively(u32),
    Lively(u32),
    Died(u32),
}

impl Told {
    fn of(word: &str) -> Option<Told> {
        let (first, rest) = word.split_at_checked(1)?;
        let session = || rest.parse().ok();
        match first {
            "N" => session().map(Told::NewSession),
            "Z" => session().map(Told::NotLively),
            "L" => session().map(Told::Lively),
            "D" => session().map(Told::Died),
            _ => {
                let (stamp, of) = word.split_once('@')?;
                let (sender, number) = stamp.split_once(':')?;
                let stamp = Stamp { sender: sender.parse().ok()?, number: number.parse().ok()? };
                let session = of.get(..of.len() - 1)?.parse().ok()?;
                Some(Told::Message { stamp, session, lives: of.ends_with('+') })
            }
        }
    }

    /// The message's stamp.
    pub fn stamp(self) -> Option<Stamp> {
        if let Told::Message { stamp, .. } = self { Some(stamp) } else { None }
    }
}

/// A list of words.
pub fn told(words: &str) -> Result<Vec<Told>, Failure> {
    let word = |word: &str| {
        Told::of(word).ok_or_else(|| Failure::wrong(format!("a reader was told `{word}`")))
    };
    words.split(' ').filter(|word| !word.is_empty()).map(word).collect()
}

/// Which numbers of that sender are among them, in their order.
pub fn numbers(told: &[Told], sender: u64) -> Vec<u64> {
    let stamps = told.iter().filter_map(|told| told.stamp());
    stamps.filter(|stamp| stamp.sender == sender).map(|stamp| stamp.number).collect()
}

/// What is told of one publisher or client.
#[derive(Clone, Copy, Default)]
pub struct Life {
    pub lapses: usize,
    pub is_lively: bool,
    pub died: bool,
}

/// Checks that what is told of one of them is in order, and returns its end.
pub fn life(log: &[Told], one: u32) -> Result<Life, Failure> {
    let wrong = |what: &str| Failure::wrong(format!("{what}, of {one}: {log:?}"));
    let mut life = Life { is_lively: true, ..Life::default() };
    for told in log {
        match *told {
            // Behind a lapse a message may come: of a publisher that stands between the message and
            // the word that counts it.
            Told::Message { session, .. } if session == one && life.died => {
                return Err(wrong("a message behind its publisher's death"));
            }
            Told::NotLively(of) if of == one => {
                let was_lively = std::mem::replace(&mut life.is_lively, false);
                if life.died || !was_lively {
                    return Err(wrong("not lively, and not for the first time"));
                }
                life.lapses += 1;
            }
            Told::Lively(of) if of == one => {
                let was_lively = std::mem::replace(&mut life.is_lively, true);
                if life.died || was_lively {
                    return Err(wrong("lively, and was so before"));
                }
            }
            Told::Died(of) if of == one => {
                let was_dead = std::mem::replace(&mut life.died, true);
                if was_dead {
                    return Err(wrong("died twice"));
                }
            }
            _ => {}
        }
    }
    Ok(life)
}

/// The last that was told of how one of them does, as long as it lives.
pub fn last_of(log: &[Told], one: u32) -> Option<Told> {
    let of_it = |told: &&Told| **told == Told::NotLively(one) || **told == Told::Lively(one);
    log.iter().rev().find(of_it).copied()
}

/// How often one of them was told as lively again.
pub fn times_lively(log: &[Told], one: u32) -> u64 {
    log.iter().filter(|told| **told == Told::Lively(one)).count() as u64
}

/// The victim, which was told as not lively while it stood still, has gone on and lives: waits until
/// each log has it as lively more often than before. `one` finds it in a log; `before` has both
/// numbers, 16 bits each.
pub fn is_lively_again(
    world: &mut World,
    who: &'static str,
    log: &str,
    one: impl Fn(&[Told]) -> u32,
    before: u64,
) -> Result<(), Failure> {
    let deadline = Instant::now() + load::stretched(PATIENCE);
    loop {
        let logs = when(world, who, log, "anything", |_| true)?;
        let now = logs.iter().map(|log| times_lively(log, one(log)));
        if now.zip([before & 0xffff, before >> 16]).all(|(now, before)| now > before) {
            return Ok(());
        }
        if Instant::now() > deadline {
            let text = format!("the victim goes on, and is not told as lively: {logs:?}");
            return Err(Failure::Hang(text));
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// What both of a survivor's readers were told, by the answer to `log`, once that is enough for each.
pub fn when(
    world: &mut World,
    who: &'static str,
    log: &str,
    wanted: &str,
    is_enough: impl Fn(&[Told]) -> bool,
) -> Result<Vec<Vec<Told>>, Failure> {
    wait(world, who, log, wanted, is_enough, Instant::now() + load::stretched(PATIENCE))
}

/// The same beside the stopped victim.
pub fn when_beside(
    world: &mut World,
    who: &'static str,
    log: &str,
    wanted: &str,
    is_enough: impl Fn(&[Told]) -> bool,
) -> Result<Vec<Vec<Told>>, Failure> {
    world.stop();
    loop {
        match wait(world, who, log, wanted, &is_enough, Instant::now()) {
            Err(Failure::Hang(text)) => world.is_in_time(&text)?,
            other => return other,
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn wait(
    world: &mut World,
    who: &'static str,
    log: &str,
    wanted: &str,
    is_enough: impl Fn(&[Told]) -> bool,
    until: Instant,
) -> Result<Vec<Vec<Told>>, Failure> {
    loop {
        let answer = world.ask(who, log)?;
        let logs = answer.split('|').map(told).collect::<Result<Vec<_>, _>>()?;
        if logs.iter().all(|log| is_enough(log)) {
            return Ok(logs);
        }
        if Instant::now() >= until {
            return Err(Failure::Hang(format!(
                "{who} is to be told {wanted}, and was told {answer}"
            )));
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}
