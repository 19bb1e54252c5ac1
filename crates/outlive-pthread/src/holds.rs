//! Which threads hold which reader-writer lock: a table in the domain, under one of Outlive's
//! mutexes, with one of its condition variables. A lock is a key; it has an entry here for each
//! thread that holds it, and nothing else anywhere.
//!
//! An entry's words, written under the mutex, the token last:
//!
//! | token | mode | meaning | killed here |
//! | --- | --- | --- | --- |
//! | 0 | any | free | |
//! | id | n | id reads, n times over | the next thread to look at the table makes it free |
//! | id | `WRITE` | id writes | the next thread to look makes it `DEAD`: the next holder is to be told |
//! | `DEAD` | `WRITE` | a writer died, and no holder has been told yet | |
//!
//! A thread that gets the lock after a writer's death takes that entry over, its token first:
//! killed before the mode is right, it counts as a writer itself. A waiter sleeps until the table
//! has changed, or until *one* of the holders in its way has ended. As long as that holder has the
//! lock, there is nothing to wake for; when it leaves, it notifies, or it has ended. Readers
//! overtake waiting writers, as with libc's own locks unless their attributes say otherwise.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use outlive::sync::{
    AcquireError, Condvar, EmbeddedCondvar, EmbeddedMutex, LockError, Mutex, MutexGuard, Record,
    Woke,
};
use outlive::{Deadline, Domain, Peer, TokenId, WaitStrategy};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Entries of a table: so many holds at once, of all locks whose keys fall to it.
const MOST: usize = 2048;
/// Tables, each a file of its own that is made when it is needed.
const TABLES: usize = 8;
const WRITE: u32 = 1 << 31;
/// No token: see `TokenId::from_u32`.
const DEAD: u32 = u32::MAX;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Hold {
    key: u64,
    token: u32,
    mode: u32,
    /// The dead writer's numbers, for the holder that is told.
    pid: u32,
    tid: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Holds {
    /// No entry from here on is in use. A hint: an entry that a death left behind there counts as
    /// free.
    used: u32,
    reserved: u32,
    entries: [Hold; MOST],
}

outlive::record! {
    /// A table as it lies in its file.
    struct Table {
        /// Drawn when the file was made. A lock names it, so a process of another domain finds that
        /// it has another table.
        born: AtomicU64,
        holds: EmbeddedMutex<Holds>,
        changed: EmbeddedCondvar,
    }
}

/// An open table.
pub(crate) struct Open {
    pub(crate) born: u64,
    domain: Domain,
    holds: Mutex<Holds>,
    changed: Condvar,
}

/// What is wanted of a lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    Read,
    /// To read; alone, if a writer has died.
    ReadOrRepair,
    Write,
}

/// The dead writer that the new holder is told of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Died {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
}

/// Why the lock was not taken.
#[derive(Debug)]
pub(crate) enum Refused {
    WouldBlock,
    TimedOut,
    /// This thread has it already, and what it wants does not go together with that.
    Deadlock,
    NotHeld,
    Full,
    Broken(&'static str),
    Outlive(outlive::Error),
}

/// What one look at the table found.
enum Look {
    /// It may be taken, with this entry.
    Free(usize),
    /// It may be taken, with this entry of a dead writer.
    OfDead(usize),
    /// This thread has it, by this entry.
    Mine(usize),
    /// This one holds it, and lives.
    Held(TokenId),
    Full,
}

/// Returns the table of the locks with such keys. It stays open until the process ends.
pub(crate) fn table(key: u64) -> Result<&'static Open, outlive::Error> {
    static OPENED: [AtomicPtr<Open>; TABLES] =
        [const { AtomicPtr::new(core::ptr::null_mut()) }; TABLES];
    let number = key as usize % TABLES;
    // Acquire pairs with the exchange below. Not a OnceLock: a process that forks while one of its
    // threads is here leaves its child without a thread that would finish.
    let opened = OPENED[number].load(Ordering::Acquire);
    if !opened.is_null() {
        // SAFETY: put there below, never freed.
        return Ok(unsafe { &*opened });
    }
    let domain = Domain::open_default()?;
    let table = Record::<Table>::options()
        .init(|table| {
            table.born.store(random(), Ordering::Relaxed);
        })
        .open_or_create(&domain, &format!("pthread.rwlocks.{number}"))?;
    let changed = table.handle(|table| &table.changed);
    // libc's own lock does not spin either, and this code cannot know whether it would pay.
    changed.set_wait_strategy(WaitStrategy::Block);
    let (born, holds) = (table.born.load(Ordering::Relaxed), table.handle(|table| &table.holds));
    let open = Box::into_raw(Box::new(Open { born, domain, holds, changed }));
    match OPENED[number].compare_exchange(
        core::ptr::null_mut(),
        open,
        Ordering::AcqRel,
        Ordering::Acquire,
    ) {
        // SAFETY: never freed.
        Ok(_) => Ok(unsafe { &*open }),
        Err(theirs) => {
            // SAFETY: no other thread has seen `open`; `theirs` is never freed.
            unsafe {
                drop(Box::from_raw(open));
                Ok(&*theirs)
            }
        }
    }
}

/// Returns a number that no other call returns; never 0.
pub(crate) fn random() -> u64 {
    let mut number = 0u64;
    // SAFETY: eight bytes of our own.
    let got = unsafe { libc::getrandom((&raw mut number).cast(), 8, 0) };
    if got != 8 {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: a place of our own.
        unsafe {
            libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now);
            number = (now.tv_sec as u64) << 32 ^ now.tv_nsec as u64 ^ (libc::getpid() as u64) << 40;
        }
    }
    number.max(1)
}

impl Open {
    /// Takes the lock of that key; `until`: how long to wait, `None` is not at all. Returns which
    /// thread died holding it as a writer, if no holder has been told of that.
    pub(crate) fn take(
        &self,
        key: u64,
        want: Want,
        until: Option<Deadline>,
    ) -> Result<Option<Died>, Refused> {
        let me = self.domain.token().map_err(Refused::Outlive)?;
        let mut holds = self.lock()?;
        let mut timed_out = false;
        loop {
            match holds.look(&self.domain, key, want, me) {
                Look::Free(index) => {
                    holds.enter(index, key, want, me);
                    return Ok(None);
                }
                Look::OfDead(index) => return Ok(Some(holds.succeed(index, want, me))),
                Look::Mine(index) => return holds.enter_again(index, want, until.is_none()),
                Look::Full => return Err(Refused::Full),
                Look::Held(by) => {
                    let Some(deadline) = until else { return Err(Refused::WouldBlock) };
                    if timed_out {
                        return Err(Refused::TimedOut);
                    }
                    let ended =
                        self.changed.wait_or_end_until(holds, &self.domain.peer(by), deadline);
                    let (again, woke) = match ended {
                        Ok(again) => again,
                        Err(LockError::OwnerDied(guard)) => (repaired(guard), Woke::Notified),
                        Err(other) => return Err(refused(other)),
                    };
                    holds = again;
                    timed_out = woke == Woke::TimedOut;
                }
            }
        }
    }

    /// Gives back what this thread took.
    pub(crate) fn give_back(&self, key: u64) -> Result<(), Refused> {
        let me = self.domain.token().map_err(Refused::Outlive)?;
        let mut holds = self.lock()?;
        let left = holds.leave(key, me)?;
        drop(holds);
        if left {
            // Killed before: this thread's end wakes the waiters that watch it.
            self.changed.notify_all();
        }
        Ok(())
    }

    fn lock(&self) -> Result<MutexGuard<'_, Holds>, Refused> {
        match self.holds.lock() {
            Ok(guard) => Ok(guard),
            Err(LockError::OwnerDied(guard)) => Ok(repaired(guard)),
            Err(other) => Err(refused(other)),
        }
    }
}

/// Recovers the table after its mutex's owner has died. Each entry is as the head of this file says
/// at any moment, so there is nothing to repair. If the dead thread had not yet woken the waiters
/// in whose way it was, they watch for its end.
fn repaired(mut guard: MutexGuard<'_, Holds>) -> MutexGuard<'_, Holds> {
    guard.mark_consistent();
    guard
}

fn refused<G>(error: LockError<G>) -> Refused {
    match error {
        LockError::Failed(AcquireError::System(error)) => Refused::Outlive(error),
        LockError::Failed(AcquireError::Deadlock) => {
            Refused::Broken("a signal handler came while this thread was in here")
        }
        LockError::Failed(AcquireError::NotHeld) => {
            Refused::Broken("this process was forked while its thread waited")
        }
        _ => Refused::Broken("the table of holds is damaged"),
    }
}

/// Stores a value, in the order of the program: the order of the stores decides what is there when
/// this thread is killed.
fn put<T>(place: &mut T, value: T) {
    // SAFETY: a reference may be written through.
    unsafe { core::ptr::write_volatile(place, value) }
}

impl Holds {
    fn entries(&mut self) -> &mut [Hold] {
        let used = (self.used as usize).min(MOST);
        &mut self.entries[..used]
    }

    /// Looks through the table, and clears the entries of dead threads.
    fn look(&mut self, domain: &Domain, key: u64, want: Want, me: TokenId) -> Look {
        let (mut free, mut of_dead, mut mine, mut held) = (None, None, None, None);
        for (index, hold) in self.entries().iter_mut().enumerate() {
            let mut owner = TokenId::from_u32(hold.token);
            if let Some(dead) = owner.filter(|&owner| owner != me && !domain.peer(owner).is_alive())
            {
                // Killed in here: it is done, or the next thread to look does it.
                hold.bury(&domain.peer(dead));
                owner = None;
            }
            let is_free = owner.is_none() && hold.token != DEAD;
            if is_free {
                free = free.or(Some(index));
            } else if hold.key == key {
                match owner {
                    None => of_dead = Some(index),
                    Some(owner) if owner == me => mine = Some(index),
                    Some(owner) if want == Want::Write || hold.mode & WRITE != 0 => {
                        held = Some(owner)
                    }
                    Some(_) => {}
                }
            }
        }
        match (mine, held, of_dead) {
            (Some(index), ..) => Look::Mine(index),
            (_, Some(by), _) => Look::Held(by),
            (.., Some(index)) => Look::OfDead(index),
            _ => match free.or_else(|| self.one_more()).or_else(|| self.forget_dead()) {
                Some(index) => Look::Free(index),
                None => Look::Full,
            },
        }
    }

    fn one_more(&mut self) -> Option<usize> {
        let used = self.used as usize;
        (used < MOST).then(|| {
            put(&mut self.used, used as u32 + 1);
            put(&mut self.entries[used].token, 0);
            used
        })
    }

    /// All entries are in use. Rather than refuse a lock, this frees the entry of a dead writer
    /// whose lock no thread has asked for since.
    #[cold]
    fn forget_dead(&mut self) -> Option<usize> {
        let index = self.entries.iter().position(|hold| hold.token == DEAD)?;
        put(&mut self.entries[index].token, 0);
        Some(index)
    }

    fn enter(&mut self, index: usize, key: u64, want: Want, me: TokenId) {
        let hold = &mut self.entries[index];
        put(&mut hold.key, key);
        put(&mut hold.mode, if want == Want::Write { WRITE } else { 1 });
        // Killed before this: the entry is free. After: it names a dead thread.
        put(&mut hold.token, me.as_u32());
    }

    /// Takes over what a dead writer left.
    fn succeed(&mut self, index: usize, want: Want, me: TokenId) -> Died {
        let hold = &mut self.entries[index];
        let died = Died { pid: hold.pid, tid: hold.tid };
        put(&mut hold.token, me.as_u32());
        // Killed here: a dead writer again, and the next one is told.
        if want == Want::Read {
            put(&mut hold.mode, 1);
        }
        died
    }

    fn enter_again(
        &mut self,
        index: usize,
        want: Want,
        at_once: bool,
    ) -> Result<Option<Died>, Refused> {
        let hold = &mut self.entries[index];
        if want == Want::Write || hold.mode & WRITE != 0 {
            return Err(if at_once { Refused::WouldBlock } else { Refused::Deadlock });
        }
        let times = hold.mode.wrapping_add(1) & !WRITE;
        put(&mut hold.mode, times);
        Ok(None)
    }

    /// Gives the lock back once; returns true when this thread does not hold it any more.
    fn leave(&mut self, key: u64, me: TokenId) -> Result<bool, Refused> {
        let is_mine = |hold: &Hold| hold.token == me.as_u32() && hold.key == key;
        let hold = self.entries().iter_mut().find(|hold| is_mine(hold)).ok_or(Refused::NotHeld)?;
        if hold.mode & WRITE == 0 && hold.mode > 1 {
            let times = hold.mode - 1;
            put(&mut hold.mode, times);
            return Ok(false);
        }
        put(&mut hold.token, 0);
        while self.entries().last().is_some_and(|hold| hold.token == 0) {
            let used = self.entries().len() as u32 - 1;
            put(&mut self.used, used);
        }
        Ok(true)
    }
}

impl Hold {
    /// Handles an entry whose owner is dead: a reader's is freed; a writer's waits for the holder
    /// that is to be told, with the numbers that the registry still has.
    fn bury(&mut self, dead: &Peer) {
        if self.mode & WRITE == 0 {
            return put(&mut self.token, 0);
        }
        let (pid, tid) = dead.info().map_or((0, 0), |info| (info.pid, info.tid));
        put(&mut self.pid, pid);
        put(&mut self.tid, tid);
        put(&mut self.token, DEAD);
    }
}
