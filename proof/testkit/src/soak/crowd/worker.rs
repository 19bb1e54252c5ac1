//! One of the crowd: keepers, publishers, passers-by. The others are in `users.rs`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use outlive::topic::{Publisher, Sample, Subscriber, Topic};
use outlive::wait::WaitSet;
use outlive::{Domain, SendError};

use super::book::{Book, Messages, OVER, Post};
use super::{Role, TOPICS, open_topic, users};
use crate::message::{SHORTEST, Stamp};
use crate::random::Random;
use crate::world::Recheck;

/// What a worker is told when it is started.
pub struct Part<'a> {
    /// The domain's folder.
    pub domain: &'a Path,
    /// The book's file.
    pub book: &'a Path,
    /// Which of the workers.
    pub number: usize,
    /// How the domain is opened.
    pub recheck: Recheck,
    /// For its random choices.
    pub seed: u64,
}

pub(super) struct Worker {
    pub(super) book: Book,
    pub(super) post: &'static Post,
    pub(super) name: u64,
    pub(super) messages: &'static [Messages; TOPICS],
    pub(super) random: Random,
    pub(super) domain: Domain,
}

/// What any error is, as text.
pub(super) fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// A worker's whole life.
///
/// # Errors
/// What must not happen: a message that is damaged, missing, out of order or there twice, an
/// unexpected error.
pub fn work(part: &Part<'_>) -> Result<(), String> {
    let book = Book::open(part.book).map_err(text)?;
    let name = book.be_born();
    let messages = book.life(name).ok_or("too many lives")?;
    let domain = part.recheck.open(part.domain).map_err(text)?;
    let random = Random::new(part.seed ^ name);
    let mut worker = Worker { book, post: book.post(part.number), name, messages, random, domain };
    match Role::of(part.number) {
        Role::Keeper(topic) => worker.keep(topic),
        Role::Publisher => worker.publish(),
        Role::PasserBy => worker.pass_by(),
        Role::Setter => users::set(&mut worker),
        Role::Getter => users::get(&worker),
        Role::Server => users::serve(&worker),
        Role::Client => users::call(&mut worker),
        Role::Sweeper => users::sweep(&mut worker),
    }
}

/// Samples that are held, with what they were when they came.
#[derive(Default)]
struct Held(Vec<(Sample, Stamp)>);

impl Held {
    /// Holds one more of them now and then, and lets go of another.
    fn some_of(
        &mut self,
        random: &mut Random,
        sample: Sample,
        stamp: Stamp,
        most: usize,
    ) -> Result<(), String> {
        if random.below(3) == 0 {
            self.0.push((sample, stamp));
        }
        if self.0.len() > most {
            let (sample, stamp) = self.0.swap_remove(random.below(most as u64) as usize);
            is_still(&sample, stamp)?;
        }
        Ok(())
    }

    fn all_are_whole(&self) -> Result<(), String> {
        self.0.iter().try_for_each(|(sample, stamp)| is_still(sample, *stamp))
    }
}

fn is_still(sample: &Sample, stamp: Stamp) -> Result<(), String> {
    match Stamp::of(sample) {
        Ok(now) if now == stamp => Ok(()),
        now => Err(format!("a held sample was {stamp:?} and is {now:?}")),
    }
}

impl Worker {
    pub(super) fn got_on(&self) {
        self.post.progress.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes everything there is of a topic, and rests between rounds.
    fn keep(&mut self, topic: usize) -> Result<(), String> {
        let own = open_topic(&self.domain, topic).map_err(text)?;
        let options = Subscriber::options().reliable(true);
        let mut subscriber = own.subscriber_with(options).map_err(text)?;
        let mut held = Held::default();
        loop {
            self.got_on();
            let sample = subscriber.recv().map_err(text)?;
            let stamp = Stamp::of(&sample)?;
            if stamp.sender == 0 {
                // The supervisor's: the round is over.
                held.all_are_whole()?;
                held.0.clear();
                drop(sample);
                if let Some(more) = subscriber.try_recv().map_err(text)? {
                    return Err(format!(
                        "{:?} after the last message of a round",
                        Stamp::of(&more)
                    ));
                }
                if subscriber.lost() > 0 {
                    return Err(format!("{} messages were lost", subscriber.lost()));
                }
                if !self.rest() {
                    return Ok(());
                }
                continue;
            }
            let life =
                self.book.life(stamp.sender).ok_or_else(|| format!("{stamp:?} was never born"))?;
            let messages = &life[topic];
            let kept = messages.kept.load(Ordering::SeqCst);
            if stamp.number != kept + 1 || stamp.number > messages.attempted.load(Ordering::SeqCst)
            {
                return Err(format!(
                    "lost, doubled or never published: {stamp:?} after {kept} of topic {topic}"
                ));
            }
            messages.kept.store(stamp.number, Ordering::SeqCst);
            held.some_of(&mut self.random, sample, stamp, 20)?;
        }
    }

    /// Until the next round. False: it is over.
    fn rest(&self) -> bool {
        loop {
            match self.book.phase() {
                OVER => return false,
                rest if rest % 2 == 1 => self.post.rests_in.store(rest, Ordering::SeqCst),
                // Of a round: either the supervisor has not said that it is over, or the next one
                // has begun.
                _ if self.post.rests_in.swap(0, Ordering::SeqCst) != 0 => return true,
                _ => {}
            }
            self.got_on();
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// A length: mostly short, now and then an object, rarely a long one.
    fn some_len(&mut self) -> usize {
        let most = match self.random.below(100) {
            0 => 1 << 20,
            1..10 => 60_000,
            10..50 => 5_000,
            _ => 130,
        };
        SHORTEST + self.random.below(most) as usize
    }

    fn publish(&mut self) -> Result<(), String> {
        let topics: Vec<Topic> = (0..TOPICS)
            .map(|topic| open_topic(&self.domain, topic).map_err(text))
            .collect::<Result<_, _>>()?;
        loop {
            let topic = self.random.below(TOPICS as u64) as usize;
            let publisher = topics[topic].publisher().map_err(text)?;
            for _ in 0..self.random.below(200) {
                let number = self.messages[topic].acknowledged.load(Ordering::SeqCst) + 1;
                self.messages[topic].attempted.store(number, Ordering::SeqCst);
                let len = self.some_len();
                let message = Stamp { sender: self.name, number }.message(len);
                if self.publish_one(&publisher, &message)? {
                    self.messages[topic].acknowledged.store(number, Ordering::SeqCst);
                }
                self.got_on();
                if self.random.below(8) == 0 {
                    std::thread::sleep(Duration::from_micros(self.random.below(3000)));
                }
            }
        }
    }

    /// In one of the ways that there are. False: it was not.
    fn publish_one(&mut self, publisher: &Publisher, message: &[u8]) -> Result<bool, String> {
        let soon = Duration::from_millis(2);
        let done = match self.random.below(8) {
            0 => publisher.publish_timeout(message, soon).map(drop),
            1 => self.publish_by_way(publisher, message),
            2..4 => publisher.loan(message.len()).and_then(|mut loan| {
                loan.copy_from_slice(message);
                // Now and then it is not published after all.
                if self.random.below(10) == 0 {
                    drop(loan);
                    return publisher.publish(message).map(drop);
                }
                publisher.publish(loan).map(drop)
            }),
            _ => publisher.publish(message).map(drop),
        };
        match done {
            Ok(()) => Ok(true),
            Err(SendError::TimedOut { .. } | SendError::NoSpace { .. }) => Ok(false),
            Err(error) => Err(format!("publish: {error}")),
        }
    }

    fn publish_by_way(&self, publisher: &Publisher, message: &[u8]) -> Result<(), SendError> {
        let mut set = WaitSet::new(&self.domain);
        set.add(&publisher.writable()).map_err(SendError::System)?;
        loop {
            match publisher.try_publish(message) {
                Err(SendError::Full { .. }) => {}
                other => return other.map(drop),
            }
            match set.wait() {
                Err(outlive::WaitError::System(error)) => {
                    return Err(SendError::System(error));
                }
                _ => self.got_on(),
            }
        }
    }

    fn pass_by(&mut self) -> Result<(), String> {
        let topics: Vec<Topic> = (0..TOPICS)
            .map(|topic| open_topic(&self.domain, topic).map_err(text))
            .collect::<Result<_, _>>()?;
        loop {
            let count = 1 + self.random.below(3) as usize;
            let first = self.random.below(TOPICS as u64) as usize;
            let mut passing = Vec::new();
            for topic in (first..first + count).map(|topic| topic % TOPICS) {
                passing.push(Passing::begin(&topics[topic], &mut self.random)?);
            }
            let mut held = Held::default();
            if count == 1 && self.random.below(2) == 0 {
                for _ in 0..self.random.below(500) {
                    let sample = passing[0].subscriber.recv().map_err(text)?;
                    self.has_passed(&mut passing[0], sample, &mut held)?;
                }
                continue;
            }
            let mut set = WaitSet::new(&self.domain);
            let mut presence = topics[first].watch();
            set.add(&presence).map_err(text)?;
            for passing in &passing {
                set.add(&passing.subscriber).map_err(text)?;
            }
            for _ in 0..self.random.below(200) {
                set.wait().map_err(text)?;
                let _ = presence.try_changed();
                for passing in &mut passing {
                    while let Some(sample) = passing.subscriber.try_recv().map_err(text)? {
                        self.has_passed(passing, sample, &mut held)?;
                    }
                }
                self.got_on();
            }
            held.all_are_whole()?;
        }
    }

    fn has_passed(
        &mut self,
        passing: &mut Passing,
        sample: Sample,
        held: &mut Held,
    ) -> Result<(), String> {
        self.got_on();
        self.book.pages().passed.fetch_add(1, Ordering::Relaxed);
        let stamp = passing.take(&sample)?;
        held.some_of(&mut self.random, sample, stamp, 10)
    }
}

/// A passer-by's subscriber, and what it has seen.
struct Passing {
    subscriber: Subscriber,
    /// Nothing may be lost once the first message has come.
    loses_nothing: bool,
    lost_at_first: Option<u64>,
    /// By sender.
    last: BTreeMap<u64, u64>,
}

impl Passing {
    fn begin(topic: &Topic, random: &mut Random) -> Result<Passing, String> {
        let history = [0, 0, 3, 8][random.below(4) as usize];
        let reliable = random.below(3) == 0;
        let options = Subscriber::options().reliable(reliable).history(history);
        let subscriber = topic.subscriber_with(options).map_err(text)?;
        let loses_nothing = reliable && history == 0;
        Ok(Passing { subscriber, loses_nothing, lost_at_first: None, last: BTreeMap::new() })
    }

    fn take(&mut self, sample: &Sample) -> Result<Stamp, String> {
        let stamp = Stamp::of(sample)?;
        let last = self.last.entry(stamp.sender).or_default();
        if stamp.number <= *last {
            return Err(format!("{stamp:?} after {last}"));
        }
        *last = stamp.number;
        // What was published just before the joining may be.
        let lost = self.subscriber.lost();
        if self.loses_nothing && *self.lost_at_first.get_or_insert(lost) != lost {
            return Err(format!("a reliable subscriber has lost {lost} messages"));
        }
        Ok(stamp)
    }
}
