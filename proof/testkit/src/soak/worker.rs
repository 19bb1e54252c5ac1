//! A worker: receives, or locks and sends in a random mixture, until it is killed or told to
//! finish.
//!
//! SIGUSR1 makes it exec itself at whatever instruction it happens to be: the handler does nothing
//! else. To every process in the domain that is the end of its tokens; to the supervisor the
//! process lives on.

use std::ffi::CString;
use std::hint::black_box;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::time::Duration;

use outlive::queue::{Queue, Receiver, Sender};
use outlive::sync::{LockError, Mutex};
use outlive::{Deadline, Domain, RecvError, SendError};

use super::ledger::{ALL_FINISH, Ledger, Life, SENDERS_FINISH};
use super::{MUTEX, QUEUE, RECEIVERS};
use crate::message::{SHORTEST, Stamp};
use crate::random::Random;
use crate::world::Recheck;

/// What a worker is told when it is started.
pub struct Part<'a> {
    /// The domain's folder.
    pub domain: &'a Path,
    /// The ledger's file.
    pub ledger: &'a Path,
    /// Which of the workers.
    pub number: usize,
    /// How the domain is opened.
    pub recheck: Recheck,
    /// For its random choices.
    pub seed: u64,
    /// How large the queue may grow, in MiB.
    pub queue_mib: u64,
}

/// The program and arguments of the exec in the handler, prepared beforehand.
static PROGRAM: AtomicPtr<libc::c_char> = AtomicPtr::new(std::ptr::null_mut());
static ARGUMENTS: AtomicPtr<*const libc::c_char> = AtomicPtr::new(std::ptr::null_mut());

extern "C" fn exec_again(_signal: libc::c_int) {
    let nothing: [*const libc::c_char; 1] = [std::ptr::null()];
    // SAFETY: execve is async-signal-safe; both pointers are to leaked memory, set before the
    // handler was installed.
    unsafe {
        libc::execve(
            PROGRAM.load(Ordering::Relaxed),
            ARGUMENTS.load(Ordering::Relaxed).cast_const(),
            nothing.as_ptr(),
        );
    }
}

/// Has SIGUSR1 exec this very command line anew.
fn exec_on_signal() -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| {
        CString::new(bytes).map(CString::into_raw).map_err(|error| error.to_string())
    };
    PROGRAM.store(text(program.as_os_str().as_bytes())?, Ordering::Relaxed);
    let mut arguments: Vec<*const libc::c_char> = Vec::new();
    for argument in std::env::args_os() {
        arguments.push(text(argument.as_bytes())?);
    }
    arguments.push(std::ptr::null());
    ARGUMENTS.store(arguments.leak().as_mut_ptr(), Ordering::Relaxed);
    // SAFETY: a zeroed sigaction and sigset are valid ones; the handler is async-signal-safe.
    // Unblocked last: the signal stays blocked across the exec from its own handler.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = exec_again as extern "C" fn(libc::c_int) as usize;
        libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut());
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGUSR1);
        libc::sigprocmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
    }
    Ok(())
}

struct Worker<'a> {
    ledger: Ledger,
    life: &'static Life,
    name: u64,
    progress: &'static AtomicU64,
    random: Random,
    domain: Domain,
    queue: Queue,
    mutex: &'a Mutex<[u64; 2]>,
}

/// A worker's whole life, until the supervisor says that it is over.
///
/// # Errors
/// What must not happen: a message that is damaged, missing or there twice, two inside the lock, an
/// unexpected error.
pub fn work(part: &Part<'_>) -> Result<(), String> {
    let text = |error: outlive::Error| error.to_string();
    let ledger = Ledger::open(part.ledger).map_err(|error| error.to_string())?;
    let name = ledger.be_born();
    let life = ledger.life(name).ok_or("too many lives")?;
    let post = ledger.post(part.number);
    post.life.store(name, Ordering::SeqCst);
    exec_on_signal()?;
    let domain = part.recheck.open(part.domain).map_err(text)?;
    let queue = Queue::<[u8]>::options()
        .max_bytes(part.queue_mib << 20)
        .slots(4)
        .open_or_create(&domain, QUEUE)
        .map_err(text)?;
    let mutex = Mutex::options([0, 0]).open_or_create(&domain, MUTEX).map_err(text)?;
    let mut worker = Worker {
        ledger,
        life,
        name,
        progress: &post.progress,
        random: Random::new(part.seed ^ name),
        domain,
        queue,
        mutex: &mutex,
    };
    if part.number < RECEIVERS { worker.receive() } else { worker.send_and_lock() }
}

impl Worker<'_> {
    fn got_on(&self) {
        self.progress.fetch_add(1, Ordering::Relaxed);
    }

    fn send_and_lock(&mut self) -> Result<(), String> {
        let mut sender = self.queue.sender().map_err(|error| error.to_string())?;
        while !self.ledger.is_over(SENDERS_FINISH) {
            match self.random.below(16) {
                0..8 => self.lock()?,
                8..14 => self.send(&sender, 1)?,
                14 => {
                    let many = 2 + self.random.below(6);
                    self.send(&sender, many)?;
                }
                // A sender that leaves in good order, and another one.
                _ => sender = self.queue.sender().map_err(|error| error.to_string())?,
            }
            self.got_on();
        }
        Ok(())
    }

    fn lock(&mut self) -> Result<(), String> {
        let pages = self.ledger.pages();
        let mut guard = match self.mutex.lock() {
            Ok(guard) => {
                if guard[0] != guard[1] {
                    return Err(format!(
                        "the lock was got clean, yet the numbers differ: {:?}",
                        *guard
                    ));
                }
                let other = pages.inside.swap(self.name as u32, Ordering::SeqCst);
                if other != 0 {
                    return Err(format!("the lock was got clean while life {other} was inside"));
                }
                guard
            }
            Err(LockError::OwnerDied(mut guard)) => {
                pages.owner_deaths.fetch_add(1, Ordering::SeqCst);
                pages.inside.store(self.name as u32, Ordering::SeqCst);
                guard[0] = guard[1];
                guard.mark_consistent();
                guard
            }
            Err(other) => return Err(format!("lock: {other}")),
        };
        guard[0] += 1;
        for _ in 0..self.random.below(200) {
            black_box(&mut *guard);
        }
        // Now and then long enough to be killed in it.
        if self.random.below(256) == 0 {
            std::thread::sleep(Duration::from_micros(self.random.below(500)));
        }
        guard[1] += 1;
        pages.inside.store(0, Ordering::SeqCst);
        drop(guard);
        self.life.locked.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn send(&mut self, sender: &Sender, count: u64) -> Result<(), String> {
        let first = self.life.acknowledged.load(Ordering::SeqCst) + 1;
        let last = first + count - 1;
        let messages: Vec<Vec<u8>> = (first..=last)
            .map(|number| {
                // Mostly small, now and then an object, rarely one that takes spans of its own.
                let most = match self.random.below(200) {
                    0 if count == 1 => 1_500_000,
                    n => [64, 64, 200, 5000, 40_000][n as usize % 5],
                };
                Stamp { sender: self.name, number }
                    .message(SHORTEST + self.random.below(most) as usize)
            })
            .collect();
        self.life.attempted.store(last, Ordering::SeqCst);
        while !self.ledger.is_over(SENDERS_FINISH) {
            let sent = match &messages[..] {
                [one] => sender.send(one),
                many => sender.send_batch(many),
            };
            match sent {
                Ok(()) => {
                    self.life.acknowledged.store(last, Ordering::SeqCst);
                    return Ok(());
                }
                Err(SendError::ReceiverDied) => {
                    // Another receiver is on its way.
                    self.ledger.pages().reader_deaths.fetch_add(1, Ordering::SeqCst);
                    self.got_on();
                    std::thread::sleep(Duration::from_micros(300));
                }
                Err(other) => return Err(format!("send: {other}")),
            }
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<(), String> {
        loop {
            match self.queue.receiver() {
                Ok(receiver) => {
                    self.ledger.pages().takeovers.fetch_add(1, Ordering::SeqCst);
                    return self.receive_all(receiver);
                }
                Err(outlive::Error::Taken { .. } | outlive::Error::Ending { .. }) => {}
                Err(other) => return Err(format!("become the receiver: {other}")),
            }
            self.got_on();
            if self.ledger.is_over(ALL_FINISH) {
                return Ok(());
            }
            if let Some(reader) = self.queue.current_receiver() {
                // Dead or timed out: tried again either way.
                let _ = self
                    .domain
                    .peer(reader.token)
                    .wait_dead_until(Deadline::after(Duration::from_millis(20)));
            }
        }
    }

    fn receive_all(&self, mut receiver: Receiver) -> Result<(), String> {
        receiver.end_when_senders_gone(true);
        loop {
            match receiver.peek() {
                Ok(peeked) => {
                    note(self.ledger, &peeked, peeked.redelivered())?;
                    peeked.commit();
                    self.got_on();
                }
                Err(RecvError::Closed) if self.ledger.is_over(ALL_FINISH) => return Ok(()),
                Err(RecvError::Closed) => {
                    // All of them happen to be dead just now.
                    self.got_on();
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(other) => return Err(format!("receive: {other}")),
            }
        }
    }
}

/// Compares a message that has arrived with what the ledger knows, and notes it.
///
/// # Errors
/// When it is damaged, was never sent, comes out of order, or twice without being marked.
pub fn note(ledger: Ledger, message: &[u8], redelivered: bool) -> Result<(), String> {
    let stamp = Stamp::of(message).map_err(|problem| format!("corrupted: {problem}"))?;
    let life =
        ledger.life(stamp.sender).ok_or_else(|| format!("corrupted: {stamp:?} was never born"))?;
    let seen = life.seen.load(Ordering::SeqCst);
    if stamp.number > life.attempted.load(Ordering::SeqCst) {
        return Err(format!("corrupted: {stamp:?} was never sent"));
    }
    if stamp.number == seen && redelivered {
        ledger.pages().repeats.fetch_add(1, Ordering::SeqCst);
        return Ok(());
    }
    if stamp.number != seen + 1 {
        return Err(format!(
            "lost or doubled: {stamp:?} after {seen}, marked as redelivered: {redelivered}"
        ));
    }
    // Before the commit: killed in between, it comes again, marked, and is found noted.
    life.seen.store(stamp.number, Ordering::SeqCst);
    Ok(())
}
