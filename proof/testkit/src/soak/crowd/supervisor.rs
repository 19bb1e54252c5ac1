//! The supervisor: starts the crowd, kills and stops at random, sees that no process hangs; after
//! each round settles the account and measures memory.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use outlive::topic::{Publisher, TopicUsage};
use outlive::{Detail, Domain};

use super::book::{Book, OVER};
use super::{TOPICS, open_topic, topic_name};
use crate::engine::trace;
use crate::message::{SHORTEST, Stamp};
use crate::random::Random;
use crate::soak::supervisor::{last_line, start_worker};
use crate::world::{Recheck, load, scratch::Scratch};

/// A worker that is alive, not stopped, and gets nothing done for so long hangs.
const PATIENCE: Duration = Duration::from_secs(10);
/// A keeper that has not subscribed after so long never will, however busy the machine is.
const START: Duration = Duration::from_secs(60);
/// A round of this length sees topics as large as they come to be.
const LONG: Duration = Duration::from_secs(30);
/// After so long without progress the supervisor leaves all processes in peace, to see whether one
/// hangs.
const SUSPICIOUS: Duration = Duration::from_millis(500);

/// What a crowd is to do.
pub struct Orders {
    /// For how long altogether.
    pub span: Duration,
    /// How long a round lasts.
    pub round: Duration,
    /// How many processes.
    pub processes: usize,
    /// Repeats the same choices (not the same course: processes run as they like).
    pub seed: u64,
    /// Whether the coarse recheck is on.
    pub recheck: Recheck,
    /// The program that plays the workers.
    pub program: PathBuf,
}

/// Memory after a round, in KiB.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// The most that the domain's files had in it.
    pub most: u64,
    /// What they have when only the keepers are left, which hold nothing.
    pub at_rest: u64,
    /// What the keepers have besides, in memory of their own.
    pub keepers: u64,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Account {
    /// Workers killed, and stopped.
    pub kills: u64,
    /// See `kills`.
    pub stops: u64,
    /// Messages acknowledged to their publishers.
    pub acknowledged: u64,
    /// Messages that the keepers have taken.
    pub kept: u64,
    /// Messages that passers-by have taken.
    pub passed: u64,
    /// Values of the state set, and seen.
    pub set: u64,
    /// See `set`.
    pub got: u64,
    /// Calls answered, and calls whose server died.
    pub answered: u64,
    /// See `answered`.
    pub died: u64,
    /// By round.
    pub memory: Vec<Memory>,
    /// What must not be.
    pub wrong: Vec<String>,
}

impl Account {
    /// Returns whether the memory of the last rounds is more than that of the first ones: half as
    /// much again, and a MiB. In short rounds that is asked of what processes have of their own
    /// alone: topics come to be as large as they are needed only after some time.
    #[must_use]
    pub fn memory_grows(&self, round: Duration) -> bool {
        let third = self.memory.len() / 3;
        if third == 0 {
            return false;
        }
        let most =
            |rounds: &[Memory], of: fn(&Memory) -> u64| rounds.iter().map(of).max().unwrap_or(0);
        let grows = |of: fn(&Memory) -> u64| {
            let (first, last) = (&self.memory[..third], &self.memory[self.memory.len() - third..]);
            most(last, of) > most(first, of) * 3 / 2 + 1024
        };
        let in_files = || grows(|memory| memory.most) || grows(|memory| memory.at_rest);
        grows(|memory| memory.keepers) || round >= LONG && in_files()
    }
}

struct Post {
    child: Child,
    stopped_until: Option<Instant>,
    /// The progress last seen, and for how long there has been none, not counting time when any
    /// process was stopped.
    progress: u64,
    idle: Duration,
}

struct Population<'a> {
    orders: &'a Orders,
    folder: PathBuf,
    file: PathBuf,
    log: PathBuf,
    book: Book,
    random: Random,
    domain: Domain,
    posts: Vec<Post>,
    account: Account,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// KiB that the files of a folder have, on disk or in memory.
fn kib_in(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let sizes =
        entries.flatten().filter_map(|entry| entry.metadata().ok()).map(|data| data.blocks() / 2);
    sizes.sum()
}

/// KiB that a process has written to in memory of its own.
fn own_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse().ok()).unwrap_or(0)
}

impl Population<'_> {
    fn start(&mut self, number: usize) -> io::Result<Post> {
        let mut command = Command::new(&self.orders.program);
        let seed = self.random.word();
        command.arg("crowd").arg(&self.folder).arg(&self.file);
        command.args([number.to_string(), self.orders.recheck.word().to_owned(), seed.to_string()]);
        let progress = self.book.post(number).progress.load(Ordering::SeqCst);
        Ok(Post {
            child: start_worker(command, &self.log)?,
            stopped_until: None,
            progress,
            idle: Duration::ZERO,
        })
    }

    fn signal(&self, worker: usize, signal: libc::c_int) {
        // SAFETY: no memory is passed; the child is not reaped, so its pid is its own.
        unsafe { libc::kill(self.posts[worker].child.id() as i32, signal) };
    }

    fn kill(&mut self, worker: usize) -> io::Result<()> {
        self.signal(worker, libc::SIGKILL);
        let status = self.posts[worker].child.wait()?;
        self.note_end(worker, status);
        self.account.kills += 1;
        Ok(())
    }

    /// Waits until each keeper has subscribed. A message that a publisher publishes before that is
    /// not the keeper's to take, and would count as lost.
    fn wait_for_keepers(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + START;
        for keeper in 0..self.posts.len() {
            // It gets on for the first time once it has subscribed.
            while self.book.post(keeper).progress.load(Ordering::SeqCst)
                == self.posts[keeper].progress
            {
                if let Some(status) = self.posts[keeper].child.try_wait()? {
                    let said = last_line(&self.log);
                    return Err(io::Error::other(format!(
                        "keeper {keeper} ended with {status}: {said}"
                    )));
                }
                if Instant::now() > deadline {
                    return Err(io::Error::other(format!(
                        "keeper {keeper} has not subscribed after {START:?}"
                    )));
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    }

    /// A worker ends by itself only when it has something to report.
    fn note_end(&mut self, worker: usize, status: std::process::ExitStatus) {
        if let Some(code) = status.code() {
            let said = last_line(&self.log);
            self.account.wrong.push(format!(
                "worker {worker}, {:?}, ended with {code}: {said}",
                super::Role::of(worker)
            ));
        }
    }

    fn do_something(&mut self) -> io::Result<()> {
        let worker = self.random.below(self.orders.processes as u64) as usize;
        if self.posts[worker].stopped_until.is_some() {
            return Ok(());
        }
        if worker < TOPICS || self.random.below(3) == 0 {
            self.account.stops += 1;
            self.signal(worker, libc::SIGSTOP);
            let span = Duration::from_micros(500 + self.random.below(40_000));
            self.posts[worker].stopped_until = Some(Instant::now() + span);
            return Ok(());
        }
        self.kill(worker)?;
        self.posts[worker] = self.start(worker)?;
        Ok(())
    }

    fn continue_stopped(&mut self, all: bool) {
        let now = Instant::now();
        for worker in 0..self.posts.len() {
            if self.posts[worker].stopped_until.is_some_and(|until| all || now >= until) {
                self.signal(worker, libc::SIGCONT);
                self.posts[worker].stopped_until = None;
            }
        }
    }

    /// Starts those of `workers` that have ended anew, and deals with those that hang.
    fn look_for_hangs(
        &mut self,
        workers: std::ops::Range<usize>,
        since: Duration,
    ) -> io::Result<()> {
        let any_stopped = self.posts.iter().any(|post| post.stopped_until.is_some());
        for worker in workers {
            if let Some(status) = self.posts[worker].child.try_wait()? {
                self.note_end(worker, status);
                self.posts[worker] = self.start(worker)?;
            }
            let progress = self.book.post(worker).progress.load(Ordering::SeqCst);
            let post = &mut self.posts[worker];
            if progress != post.progress {
                (post.progress, post.idle) = (progress, Duration::ZERO);
            } else if !any_stopped {
                // A machine that has no time for us has none for them.
                post.idle += since.min(Duration::from_millis(20));
            }
            if post.idle > load::stretched(PATIENCE) {
                let pid = post.child.id() as i32;
                let call = trace::sleeping_in(pid)
                    .map_or("awake".to_owned(), |call| format!("in system call {call}"));
                let role = super::Role::of(worker);
                self.account
                    .wrong
                    .push(format!("worker {worker}, {role:?}, process {pid}, hangs, {call}"));
                post.idle = Duration::ZERO;
            }
        }
        Ok(())
    }

    /// All processes work, and are killed and stopped. Returns the most memory that was seen.
    fn torment(&mut self, end: Instant) -> io::Result<u64> {
        let (mut looked, mut act) = (Instant::now(), Instant::now());
        let (mut most, mut measure) = (0, Instant::now());
        while Instant::now() < end && self.account.wrong.is_empty() {
            let quiet = self.posts.iter().any(|post| post.idle > SUSPICIOUS);
            if !quiet && Instant::now() >= act {
                self.do_something()?;
                act = Instant::now() + Duration::from_micros(1000 + self.random.below(30_000));
            }
            self.continue_stopped(false);
            let since = looked.elapsed();
            looked = Instant::now();
            self.look_for_hangs(0..self.posts.len(), since)?;
            if Instant::now() >= measure {
                most = most.max(kib_in(&self.folder));
                measure = Instant::now() + Duration::from_millis(50);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.continue_stopped(true);
        Ok(most)
    }

    /// All but the keepers are killed; these take what is there, and rest.
    fn bring_to_rest(&mut self) -> Result<(), String> {
        for worker in TOPICS..self.posts.len() {
            self.kill(worker).map_err(text)?;
        }
        let phase = self.book.phase() + 1;
        self.book.pages().phase.store(phase, Ordering::SeqCst);
        for topic in 0..TOPICS {
            let publisher: Publisher = open_topic(&self.domain, topic)
                .and_then(|topic| topic.publisher())
                .map_err(text)?;
            let last = Stamp { sender: 0, number: u64::from(phase) }.message(SHORTEST);
            publisher
                .publish_timeout(&last, load::stretched(PATIENCE))
                .map_err(|error| format!("a keeper does not keep up: {error}"))?;
        }
        let rests = |worker: usize| self.book.post(worker).rests_in.load(Ordering::SeqCst) == phase;
        let deadline = Instant::now() + load::stretched(PATIENCE);
        while !(0..TOPICS).all(rests) {
            for worker in 0..TOPICS {
                if let Some(status) = self.posts[worker].child.try_wait().map_err(text)? {
                    self.note_end(worker, status);
                    return Err("a keeper has ended".to_owned());
                }
            }
            if Instant::now() > deadline {
                let late: Vec<usize> = (0..TOPICS).filter(|&worker| !rests(worker)).collect();
                return Err(format!(
                    "keepers {late:?} have not taken what there is after {PATIENCE:?}"
                ));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// All books agree, and nothing of the dead is left.
    fn settle(&mut self, most: u64) -> Result<(), String> {
        let (mut acknowledged, mut all_kept) = (0, 0);
        for number in 1..=self.book.pages().lives.load(Ordering::SeqCst) {
            let Some(life) = self.book.life(number) else { continue };
            for (topic, messages) in life.iter().enumerate() {
                let told = messages.acknowledged.load(Ordering::SeqCst);
                let kept = messages.kept.load(Ordering::SeqCst);
                if kept < told || kept > messages.attempted.load(Ordering::SeqCst) {
                    return Err(format!(
                        "of life {number} topic {topic} has {told} acknowledged, {kept} were taken"
                    ));
                }
                (acknowledged, all_kept) = (acknowledged + told, all_kept + kept);
            }
        }
        (self.account.acknowledged, self.account.kept) = (acknowledged, all_kept);
        // Of one whose token's slot has a new owner already, nothing can be asked: its things are
        // free a second later.
        let deadline = Instant::now() + load::stretched(PATIENCE);
        loop {
            let swept = self.domain.sweep(false).map_err(text)?;
            if swept.is_clean() {
                break;
            }
            if Instant::now() > deadline {
                return Err(format!("there is always something to sweep: {swept:?}"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        for topic in 0..TOPICS {
            let Detail::Topic(usage) = self.domain.entry(&topic_name(topic)).map_err(text)?.detail
            else {
                return Err("a topic is none any more".to_owned());
            };
            is_at_rest(&usage).map_err(|what| format!("topic {topic}: {what}: {usage:?}"))?;
        }
        let rescues = self.domain.stats().rescues;
        if rescues != 0 {
            return Err(format!("the coarse recheck rescued {rescues} sleepers"));
        }
        let keepers =
            (0..TOPICS).map(|worker| own_kib(self.posts[worker].child.id())).max().unwrap_or(0);
        self.account.memory.push(Memory { most, at_rest: kib_in(&self.folder), keepers });
        Ok(())
    }

    fn round(&mut self, span: Duration) -> Result<(), String> {
        let most = self.torment(Instant::now() + span).map_err(text)?;
        if !self.account.wrong.is_empty() {
            return Ok(());
        }
        self.bring_to_rest()?;
        self.settle(most)
    }

    fn begin_round(&mut self) -> io::Result<()> {
        self.book.pages().phase.fetch_add(1, Ordering::SeqCst);
        for worker in TOPICS..self.orders.processes {
            let post = self.start(worker)?;
            self.posts[worker] = post;
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        self.book.pages().phase.store(OVER, Ordering::SeqCst);
        for worker in 0..self.posts.len() {
            self.signal(worker, libc::SIGKILL);
            self.posts[worker].child.wait()?;
        }
        let pages = self.book.pages();
        self.account.passed = pages.passed.load(Ordering::SeqCst);
        self.account.set = pages.set.load(Ordering::SeqCst);
        self.account.got = pages.got.load(Ordering::SeqCst);
        self.account.answered = pages.answered.load(Ordering::SeqCst);
        self.account.died = pages.died.load(Ordering::SeqCst);
        Ok(())
    }
}

/// Only the topic's keeper subscribes, no process publishes, nothing is held, and there are no
/// objects but those of messages in place.
fn is_at_rest(usage: &TopicUsage) -> Result<(), &'static str> {
    if usage.subscribers.len() != 1
        || usage.subscribers[0].held != 0
        || usage.subscribers[0].lag != 0
    {
        return Err("more than a keeper that has everything and holds nothing");
    }
    if usage.rings.iter().any(|ring| ring.publisher.is_some()) {
        return Err("a publisher");
    }
    if usage.rings.iter().any(|ring| ring.objects > ring.kept) {
        return Err("more objects than messages");
    }
    if usage.bytes > usage.max_bytes { Err("more memory than may be") } else { Ok(()) }
}

/// Carries out a soak of the crowd. The folder is kept when something went wrong; its path is the
/// second result.
///
/// # Errors
/// When processes or folders cannot be made.
pub fn run(orders: &Orders) -> io::Result<(Account, Option<PathBuf>)> {
    let mut scratch = Scratch::new("crowd")?;
    let folder = scratch.path().join("domain");
    let file = scratch.path().join("book");
    let domain = orders.recheck.open(&folder).map_err(io::Error::other)?;
    let mut crowd = Population {
        orders,
        log: scratch.path().join("workers.log"),
        book: Book::open(&file)?,
        folder,
        file,
        random: Random::new(orders.seed),
        domain,
        posts: Vec::new(),
        account: Account::default(),
    };
    for number in 0..orders.processes {
        if number == TOPICS {
            crowd.wait_for_keepers()?;
        }
        let post = crowd.start(number)?;
        crowd.posts.push(post);
    }
    let end = Instant::now() + orders.span;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        // What is too short for a round of its own belongs to this one.
        let span = if left < orders.round * 2 { left } else { orders.round };
        if let Err(problem) = crowd.round(span) {
            crowd.account.wrong.push(problem);
        }
        if !crowd.account.wrong.is_empty()
            || end.saturating_duration_since(Instant::now()) < Duration::from_millis(100)
        {
            break;
        }
        crowd.begin_round()?;
    }
    crowd.end()?;
    let mut account = crowd.account;
    if account.memory_grows(orders.round) {
        account.wrong.push("memory grows from round to round".to_owned());
    }
    if account.wrong.is_empty() {
        return Ok((account, None));
    }
    scratch.keep();
    Ok((account, Some(scratch.path().to_owned())))
}
