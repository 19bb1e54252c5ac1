//! The supervisor: starts workers, does things to them at random, sees that no process hangs,
//! settles the account.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use outlive::RecvError;
use outlive::queue::Queue;
use outlive::sync::{LockError, Mutex};

use super::ledger::{ALL_FINISH, Ledger, SENDERS_FINISH};
use super::{MUTEX, QUEUE, RECEIVERS, WORKERS, worker};
use crate::engine::trace;
use crate::random::Random;
use crate::world::{Recheck, load, scratch::Scratch};

/// A worker that is alive, not stopped, and gets nothing done for so long hangs.
const PATIENCE: Duration = Duration::from_secs(5);

/// After so long without progress a worker is left in peace, to see whether it hangs: shorter than
/// most lives last.
const SUSPICIOUS: Duration = Duration::from_millis(50);

/// What a soak is to do.
pub struct Orders {
    /// For how long.
    pub span: Duration,
    /// Repeats the same choices (not the same course: processes run as they like).
    pub seed: u64,
    /// Whether the coarse recheck is on.
    pub recheck: Recheck,
    /// How large the queue may grow, in MiB.
    pub queue_mib: u64,
    /// The program that plays the workers.
    pub program: PathBuf,
    /// On a hang, waits so long before it ends any process, for a person with a debugger.
    pub hold: Duration,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Account {
    /// Workers killed by SIGKILL.
    pub kills: u64,
    /// Workers stopped and continued.
    pub stops: u64,
    /// Workers made to exec.
    pub execs: u64,
    /// Messages acknowledged to their senders.
    pub acknowledged: u64,
    /// Messages that arrived.
    pub arrived: u64,
    /// Messages that were handed out again after a receiver's death, marked so.
    pub repeats: u64,
    /// Rounds of the lock.
    pub locked: u64,
    /// Locks got from a dead owner.
    pub owner_deaths: u64,
    /// Queues taken over from a dead receiver.
    pub takeovers: u64,
    /// Senders that were told of their reader's death.
    pub reader_deaths: u64,
    /// Messages abandoned by dead senders.
    pub abandoned: u64,
    /// Acknowledged and lost.
    pub lost: u64,
    /// Damaged, doubled, disordered; two inside the lock; wrong counts.
    pub corrupted: Vec<String>,
    /// Blocked for more than five seconds.
    pub hung: Vec<String>,
}

impl Account {
    /// Returns whether nothing went wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.lost == 0 && self.corrupted.is_empty() && self.hung.is_empty()
    }
}

struct Post {
    child: Child,
    stopped_until: Option<Instant>,
    /// The progress when this life began: until there is more, it may not be ready for signals.
    begun_at: u64,
    /// The progress last seen, and for how long there has been none (not counting time when any
    /// process was stopped: the processes that need a stopped one must wait for it).
    progress: u64,
    idle: Duration,
}

struct Soak<'a> {
    orders: &'a Orders,
    domain: PathBuf,
    file: PathBuf,
    log: PathBuf,
    ledger: Ledger,
    random: Random,
    posts: Vec<Post>,
    account: Account,
}

impl Soak<'_> {
    fn start(&mut self, number: usize) -> io::Result<Post> {
        let mut command = Command::new(&self.orders.program);
        let seed = self.random.word();
        command.arg("work").arg(&self.domain).arg(&self.file);
        let mib = self.orders.queue_mib.to_string();
        command.args([
            number.to_string(),
            self.orders.recheck.word().to_owned(),
            seed.to_string(),
            mib,
        ]);
        let progress = self.ledger.post(number).progress.load(Ordering::SeqCst);
        let child = start_worker(command, &self.log)?;
        Ok(Post { child, stopped_until: None, begun_at: progress, progress, idle: Duration::ZERO })
    }

    fn signal(&self, worker: usize, signal: libc::c_int) {
        // SAFETY: no memory is passed; the child is not reaped, so its pid is its own.
        unsafe { libc::kill(self.posts[worker].child.id() as i32, signal) };
    }

    fn replace(&mut self, worker: usize) -> io::Result<()> {
        self.signal(worker, libc::SIGKILL);
        let status = self.posts[worker].child.wait()?;
        self.note_end(status);
        self.posts[worker] = self.start(worker)?;
        Ok(())
    }

    /// A worker that ends by itself has something to say, in the log.
    fn note_end(&mut self, status: std::process::ExitStatus) {
        if let Some(code) = status.code()
            && code != 0
        {
            self.account
                .corrupted
                .push(format!("a worker ended with code {code}: {}", last_line(&self.log)));
        }
    }

    fn do_something(&mut self) -> io::Result<()> {
        let worker = self.random.below(WORKERS as u64) as usize;
        if self.posts[worker].stopped_until.is_some() && self.random.below(2) == 0 {
            return Ok(());
        }
        match self.random.below(20) {
            0..12 => {
                self.account.kills += 1;
                self.replace(worker)?;
            }
            12..16 => {
                self.account.stops += 1;
                self.signal(worker, libc::SIGSTOP);
                let span = Duration::from_micros(500 + self.random.below(60_000));
                self.posts[worker].stopped_until = Some(Instant::now() + span);
            }
            _ => {
                // Before it is ready for it, the signal would end it: it is only sent to lives that
                // have got on.
                let progress = self.ledger.post(worker).progress.load(Ordering::SeqCst);
                if progress > self.posts[worker].begun_at {
                    self.account.execs += 1;
                    self.signal(worker, libc::SIGUSR1);
                    self.posts[worker].begun_at = progress + 1;
                }
            }
        }
        Ok(())
    }

    fn continue_stopped(&mut self) {
        let now = Instant::now();
        for worker in 0..WORKERS {
            if self.posts[worker].stopped_until.is_some_and(|until| now >= until) {
                self.signal(worker, libc::SIGCONT);
                self.posts[worker].stopped_until = None;
            }
        }
    }

    fn look_for_hangs(&mut self, since: Duration) -> io::Result<()> {
        let any_stopped = self.posts.iter().any(|post| post.stopped_until.is_some());
        for worker in 0..WORKERS {
            if let Some(status) = self.posts[worker].child.try_wait()? {
                self.note_end(status);
                self.posts[worker] = self.start(worker)?;
            }
            let progress = self.ledger.post(worker).progress.load(Ordering::SeqCst);
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
                self.account.hung.push(format!("worker {worker}, process {pid}, {call}"));
                self.hold();
                self.replace(worker)?;
            }
        }
        Ok(())
    }

    fn hold(&self) {
        if self.orders.hold > Duration::ZERO {
            eprintln!(
                "{}; held for {:?}",
                self.account.hung.last().map_or("", String::as_str),
                self.orders.hold
            );
            std::thread::sleep(self.orders.hold);
        }
    }

    fn torment(&mut self) -> io::Result<()> {
        let end = Instant::now() + self.orders.span;
        let (mut looked, mut act) = (Instant::now(), Instant::now());
        while Instant::now() < end
            && self.account.hung.len() < 3
            && self.account.corrupted.len() < 3
        {
            // When a process gets nowhere, the others are left in peace, so that it shows whether
            // it is for good.
            let quiet = self.posts.iter().any(|post| post.idle > SUSPICIOUS);
            if !quiet && Instant::now() >= act {
                self.do_something()?;
                act = Instant::now() + Duration::from_micros(500 + self.random.below(12_000));
            }
            self.continue_stopped();
            let since = looked.elapsed();
            looked = Instant::now();
            self.look_for_hangs(since)?;
            std::thread::sleep(Duration::from_micros(500));
        }
        Ok(())
    }

    /// Every process finishes: senders leave, receivers go on until all senders are gone.
    fn finish(&mut self) -> io::Result<()> {
        for worker in 0..WORKERS {
            self.signal(worker, libc::SIGCONT);
        }
        self.let_finish(SENDERS_FINISH, RECEIVERS..WORKERS)?;
        self.let_finish(ALL_FINISH, 0..RECEIVERS)
    }

    fn let_finish(&mut self, stop: u32, workers: std::ops::Range<usize>) -> io::Result<()> {
        self.ledger.pages().stop.store(stop, Ordering::SeqCst);
        let deadline = Instant::now() + load::stretched(PATIENCE);
        for worker in workers {
            let status = loop {
                if let Some(status) = self.posts[worker].child.try_wait()? {
                    break Some(status);
                }
                if Instant::now() >= deadline {
                    break None;
                }
                std::thread::sleep(Duration::from_millis(1));
            };
            match status {
                Some(status) => self.note_end(status),
                None => {
                    let pid = self.posts[worker].child.id() as i32;
                    let call = trace::sleeping_in(pid)
                        .map_or(String::new(), |call| format!(" in system call {call}"));
                    self.account
                        .hung
                        .push(format!("worker {worker}, process {pid}, when told to finish{call}"));
                    self.hold();
                    self.signal(worker, libc::SIGKILL);
                    self.posts[worker].child.wait()?;
                }
            }
        }
        Ok(())
    }

    /// What is still in the queue is received; then all books must agree.
    fn settle(&mut self) -> Result<(), String> {
        let text = |error: outlive::Error| error.to_string();
        let domain = self.orders.recheck.open(&self.domain).map_err(text)?;
        let queue = Queue::<[u8]>::open(&domain, QUEUE).map_err(text)?;
        let mut receiver = queue.receiver().map_err(text)?;
        loop {
            match receiver.try_peek() {
                Ok(Some(peeked)) => {
                    worker::note(self.ledger, &peeked, peeked.redelivered())?;
                    peeked.commit();
                }
                Ok(None) | Err(RecvError::Closed) => break,
                Err(other) => return Err(other.to_string()),
            }
        }
        let pages = self.ledger.pages();
        for number in 1..=pages.lives.load(Ordering::SeqCst) {
            let Some(life) = self.ledger.life(number) else { continue };
            let (acknowledged, seen) =
                (life.acknowledged.load(Ordering::SeqCst), life.seen.load(Ordering::SeqCst));
            self.account.acknowledged += acknowledged;
            self.account.arrived += seen;
            self.account.lost += acknowledged.saturating_sub(seen);
            self.account.locked += life.locked.load(Ordering::SeqCst);
        }
        self.account.owner_deaths = pages.owner_deaths.load(Ordering::SeqCst);
        self.account.takeovers = pages.takeovers.load(Ordering::SeqCst);
        self.account.reader_deaths = pages.reader_deaths.load(Ordering::SeqCst);
        let counters = queue.counters().map_err(text)?;
        self.account.abandoned = counters.abandoned;
        self.account.repeats = counters.redelivered;
        let repeats = pages.repeats.load(Ordering::SeqCst);
        if repeats > counters.redelivered {
            return Err(format!("{repeats} messages came a second time, yet {counters:?}"));
        }
        if (counters.sent, counters.received, counters.pending)
            != (self.account.arrived, self.account.arrived, 0)
        {
            return Err(format!("{} messages arrived, yet {counters:?}", self.account.arrived));
        }
        let mutex = Mutex::options([0, 0]).open_or_create(&domain, MUTEX).map_err(text)?;
        let rounds = match mutex.lock() {
            Ok(guard) => guard[1],
            Err(LockError::OwnerDied(mut guard)) => {
                guard.mark_consistent();
                guard[1]
            }
            Err(other) => return Err(format!("lock: {other}")),
        };
        // A life that ended between its round and its note is not in the book.
        let ends = self.account.kills + self.account.execs;
        if rounds < self.account.locked || rounds > self.account.locked + ends {
            return Err(format!(
                "{} rounds of the lock are noted, it counts {rounds}",
                self.account.locked
            ));
        }
        drop(receiver);
        domain.sweep(false).map_err(text)?;
        let second = domain.sweep(false).map_err(text)?;
        if !second.is_clean() {
            return Err(format!("a second sweep still finds something: {second:?}"));
        }
        let rescues = domain.stats().rescues;
        if rescues != 0 {
            return Err(format!("the coarse recheck rescued {rescues} sleepers"));
        }
        Ok(())
    }
}

/// Starts a worker that ends with us, and tells the log what it has to say.
pub(super) fn start_worker(mut command: Command, log: &Path) -> io::Result<Child> {
    let log = File::options().create(true).append(true).open(log)?;
    command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    // SAFETY: one system call on numbers between fork and exec: workers end with the supervisor.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        })
    };
    command.spawn()
}

pub(super) fn last_line(log: &Path) -> String {
    std::fs::read_to_string(log)
        .unwrap_or_default()
        .lines()
        .last()
        .unwrap_or("it said nothing")
        .to_owned()
}

/// Carries out a soak. The folder is kept when something went wrong; its path is the second result.
///
/// # Errors
/// When processes or folders cannot be made.
pub fn run(orders: &Orders) -> io::Result<(Account, Option<PathBuf>)> {
    let mut scratch = Scratch::new("soak")?;
    let file = scratch.path().join("ledger");
    let mut soak = Soak {
        orders,
        domain: scratch.path().join("domain"),
        log: scratch.path().join("workers.log"),
        ledger: Ledger::open(&file)?,
        file,
        random: Random::new(orders.seed),
        posts: Vec::new(),
        account: Account::default(),
    };
    for number in 0..WORKERS {
        let post = soak.start(number)?;
        soak.posts.push(post);
    }
    let tormented = soak.torment();
    let finished = soak.finish();
    tormented.and(finished)?;
    if let Err(problem) = soak.settle() {
        soak.account.corrupted.push(problem);
    }
    let account = soak.account;
    if account.is_clean() {
        return Ok((account, None));
    }
    scratch.keep();
    Ok((account, Some(scratch.path().to_owned())))
}
