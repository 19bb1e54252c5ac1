//! The order in which locks are taken: a debugging aid that finds a possible deadlock before it
//! strikes.
//!
//! A thread that takes lock B while holding lock A says "A before B". If any processes, at any
//! times, say both "A before B" and "B before A", two of them can come to wait for each other. A
//! process that records (`OUTLIVE_LOCK_ORDER=1`, `DomainOptions::lock_order`) writes each pair into
//! the domain's file `.lock-order` (see `table`) *before* it waits, and checks whether the pairs
//! written so far lead back from B to A.
//!
//! Off, it costs nothing: a recording process's fast paths find no token (`Registry::fast_bits`),
//! so they all take their slow path, and only the slow path asks whether the process records.

mod cycles;
mod table;

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::sync::atomic::{Ordering as StdOrdering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use cycles::{LockOrder, LockPair};
use table::{LockKey, Table};

use crate::liveness::{Me, Registry, TokenId};
use crate::segment::Segment;
use crate::{Domain, Error};

/// A lock that the calling thread holds.
struct Held {
    registry: usize,
    /// A forked child has a copy of the list, and none of the locks.
    token: TokenId,
    address: usize,
    key: LockKey,
    name: Arc<str>,
}

thread_local! {
    static HELD: RefCell<Vec<Held>> = const { RefCell::new(Vec::new()) };
    /// A report is being made: the locks that the hook takes are not recorded.
    static REPORTING: Cell<bool> = const { Cell::new(false) };
}

type Hook = Arc<dyn Fn(&LockOrder) + Send + Sync>;

/// What this process knows about one domain's locks.
#[derive(Default)]
struct Watch {
    registry: usize,
    domain: Option<Domain>,
    table: Option<Arc<Table>>,
    /// Pairs that this process has checked.
    known: HashSet<(LockKey, LockKey)>,
    hook: Option<Hook>,
}

static WATCHES: Mutex<Vec<Watch>> = Mutex::new(Vec::new());

fn watches() -> MutexGuard<'static, Vec<Watch>> {
    WATCHES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn watch_of(all: &mut Vec<Watch>, registry: usize) -> &mut Watch {
    let at = all.iter().position(|watch| watch.registry == registry).unwrap_or_else(|| {
        all.push(Watch { registry, ..Watch::default() });
        all.len() - 1
    });
    &mut all[at]
}

/// Notes that a lock of that domain was opened.
pub(super) fn opened(domain: &Domain) {
    if domain.registry().watches_order() {
        watch_of(&mut watches(), domain.registry().index)
            .domain
            .get_or_insert_with(|| domain.clone());
    }
}

fn key_of(segment: &Segment, address: usize) -> Option<(LockKey, Arc<str>)> {
    let facts = segment.facts().ok()?;
    let name = segment
        .path()
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    Some((LockKey { inode: facts.inode, offset: segment.offset_of(address)? }, name.into()))
}

/// Takes a lock by `take`, and checks the order if the process records. `waits`: the caller waits
/// for the lock if it must. A lock that is only tried cannot deadlock, but locks taken inside it
/// can.
pub(super) fn watched<L, T, E>(
    me: Me,
    segment: &Segment,
    lock: &L,
    waits: bool,
    take: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let watches = me.registry.watches_order();
    if watches && waits {
        // Before the wait, which may last for ever.
        wants(me, segment, lock);
    }
    let result = take();
    if watches && result.is_ok() {
        took(me, segment, lock);
    }
    result
}

/// Checks the order for a thread that has a lock in one mode and waits to have it in another, while
/// other threads hold it as well.
pub(super) fn wants_more<L>(me: Me, segment: &Segment, lock: &L) {
    if me.registry.watches_order() {
        wants(me, segment, lock);
    }
}

/// Checks the order for a thread that is about to wait for that lock. Called when the process
/// records.
#[cold]
fn wants<L>(me: Me, segment: &Segment, lock: &L) {
    if REPORTING.get() {
        return;
    }
    let Some((wanted, name)) = key_of(segment, core::ptr::from_ref(lock) as usize) else { return };
    let held: Vec<(LockKey, Arc<str>)> = HELD.with_borrow_mut(|held| {
        held.retain(|one| one.registry != me.registry.index || one.token == me.id);
        let here = held.iter().filter(|one| one.registry == me.registry.index && one.key != wanted);
        here.map(|one| (one.key, Arc::clone(&one.name))).collect()
    });
    for (key, held_name) in held {
        if let Some((order, hook)) = note_pair(me.registry, (key, &held_name), (wanted, &name)) {
            REPORTING.set(true);
            match hook {
                Some(hook) => hook(&order),
                None => eprintln!("outlive: {order}"),
            }
            REPORTING.set(false);
        }
    }
}

/// Writes the pair down if no process has, and reports the cycle that it closes; once for each pair
/// in a process.
fn note_pair(
    registry: &'static Registry,
    held: (LockKey, &str),
    wanted: (LockKey, &str),
) -> Option<(LockOrder, Option<Hook>)> {
    let mut all = watches();
    let watch = watch_of(&mut all, registry.index);
    if watch.table.as_ref().is_some_and(|table| table.is_removed()) {
        watch.table = None;
        watch.known.clear();
    }
    if !watch.known.insert((held.0, wanted.0)) {
        return None;
    }
    let table = match &watch.table {
        Some(table) => Arc::clone(table),
        None => {
            // Failed: this pair is not checked. A debugging aid must not keep a thread from
            // locking.
            let domain = match &watch.domain {
                Some(domain) => domain.clone(),
                None => Domain::options().open_at(registry.path()).ok()?,
            };
            Arc::clone(watch.table.insert(Arc::new(Table::open(&domain).ok()?)))
        }
    };
    let hook = watch.hook.clone();
    drop(all);
    let mut pairs = table.pairs();
    if !pairs.iter().any(|pair| (pair.held.key, pair.wanted.key) == (held.0, wanted.0)) {
        table.append(held, wanted);
        // Two threads close a cycle at one moment: each writes, then reads, so at least one of them
        // sees both pairs (litmus: store buffering).
        fence(StdOrdering::SeqCst);
        pairs = table.pairs();
    }
    cycles::through(&pairs, held.0, wanted.0).map(|order| (order, hook))
}

/// Notes that the thread has taken that lock. Called when the process records.
#[cold]
fn took<L>(me: Me, segment: &Segment, lock: &L) {
    let address = core::ptr::from_ref(lock) as usize;
    if let Some((key, name)) = key_of(segment, address).filter(|_| !REPORTING.get()) {
        let held = Held { registry: me.registry.index, token: me.id, address, key, name };
        HELD.with_borrow_mut(|all| all.push(held));
    }
}

/// Notes that the thread is about to unlock it.
#[cold]
pub(super) fn gives_back<L>(lock: &L) {
    let address = core::ptr::from_ref(lock) as usize;
    // A thread past its destructors has no list any more.
    let _ = HELD.try_with(|all| {
        let mut all = all.borrow_mut();
        if let Some(at) = all.iter().rposition(|one| one.address == address) {
            all.remove(at);
        }
    });
}

impl Domain {
    /// Sets what this process does when the recorded orders of this domain's locks can deadlock;
    /// without a hook, it prints a line on standard error. It has an effect only in a process that
    /// records ([`DomainOptions::lock_order`](crate::DomainOptions::lock_order)).
    ///
    /// The thread that is about to take the lock calls the hook, once for each pair of locks.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering};
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-order-{}", std::process::id()));
    /// let domain = outlive::Domain::options().lock_order(true).open_or_create_at(&folder)?;
    /// static FOUND: AtomicU32 = AtomicU32::new(0);
    /// domain.on_lock_order(|order| {
    ///     assert_eq!(order.pairs.len(), 2);
    ///     FOUND.fetch_add(1, Ordering::Relaxed);
    /// });
    /// let a = outlive::sync::Mutex::<u64>::options(0).open_or_create(&domain, "a")?;
    /// let b = outlive::sync::Mutex::<u64>::options(0).open_or_create(&domain, "b")?;
    /// let held = a.lock().unwrap();
    /// drop(b.lock().unwrap());
    /// drop(held);
    /// let held = b.lock().unwrap();
    /// drop(a.lock().unwrap());
    /// drop(held);
    /// assert_eq!(FOUND.load(Ordering::Relaxed), 1);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), outlive::Error>(())
    /// ```
    pub fn on_lock_order(&self, hook: impl Fn(&LockOrder) + Send + Sync + 'static) {
        watch_of(&mut watches(), self.registry().index).hook = Some(Arc::new(hook));
    }

    /// Returns the cycles in the orders in which recording processes, alive or dead, have taken
    /// this domain's locks. Each can be a deadlock one day.
    ///
    /// # Errors
    /// The error that keeps the record from being read. If no process has ever recorded, the list
    /// is empty.
    pub fn lock_orders(&self) -> Result<Vec<LockOrder>, Error> {
        match Table::look(self) {
            Ok(table) => Ok(cycles::all(&table.pairs())),
            Err(Error::NotFound { .. }) => Ok(Vec::new()),
            Err(other) => Err(other),
        }
    }

    /// Forgets all recorded orders: processes that record begin anew.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn forget_lock_orders(&self) -> Result<(), Error> {
        table::remove(self)
    }
}
