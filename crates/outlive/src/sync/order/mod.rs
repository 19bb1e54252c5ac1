//! The order in which locks are taken: a debugging aid that finds a deadlock before it strikes.
//!
//! Who takes lock B while holding lock A says "A before B". Said both ways round, by whatever processes at whatever
//! times, two of them can come to wait for each other. A process that watches (`OUTLIVE_LOCK_ORDER=1`,
//! `DomainOptions::lock_order`) writes each pair down in the domain's file `.lock-order` (see `table`) *before* it waits,
//! and looks whether the pairs written so far lead back from B to A.
//!
//! Off, it costs nothing: a watching process's fast paths find no token (`Registry::fast_bits`), so they all take their
//! slow path, and only there is the question asked.

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
    /// A forked child has the list, and none of the locks.
    token: TokenId,
    address: usize,
    key: LockKey,
    name: Arc<str>,
}

thread_local! {
    static HELD: RefCell<Vec<Held>> = const { RefCell::new(Vec::new()) };
    /// A report is being made: locks that the hook takes are not looked at.
    static REPORTING: Cell<bool> = const { Cell::new(false) };
}

type Hook = Arc<dyn Fn(&LockOrder) + Send + Sync>;

/// What this process knows about one domain's locks.
#[derive(Default)]
struct Watch {
    registry: usize,
    domain: Option<Domain>,
    table: Option<Arc<Table>>,
    /// Pairs that this process has looked at.
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

/// A lock of that domain has been opened.
pub(super) fn opened(domain: &Domain) {
    if domain.registry().watches_order() {
        watch_of(&mut watches(), domain.registry().index).domain.get_or_insert_with(|| domain.clone());
    }
}

fn key_of(segment: &Segment, address: usize) -> Option<(LockKey, Arc<str>)> {
    let facts = segment.facts().ok()?;
    let name = segment.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Some((LockKey { inode: facts.inode, offset: segment.offset_of(address)? }, name.into()))
}

/// Takes a lock by `take`, and looks at the order if the process watches. `waits`: it is waited for, if need be; what is
/// only tried cannot deadlock, but what comes inside it can.
pub(super) fn watched<L, T, E>(
    me: Me,
    segment: &Segment,
    lock: &L,
    waits: bool,
    take: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let watches = me.registry.watches_order();
    if watches && waits {
        // Before the wait, which may be for ever.
        wants(me, segment, lock);
    }
    let result = take();
    if watches && result.is_ok() {
        took(me, segment, lock);
    }
    result
}

/// The thread has that lock in one way and waits to have it in another, others holding it as well.
pub(super) fn wants_more<L>(me: Me, segment: &Segment, lock: &L) {
    if me.registry.watches_order() {
        wants(me, segment, lock);
    }
}

/// The thread is about to wait for that lock, if need be. Called when the process watches.
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

/// Writes the pair down if nobody has, and says what cycle it closes; once for each pair in a process.
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
            // Failed: this pair is not looked at. A debugging aid must not keep anybody from locking.
            let domain = match &watch.domain {
                Some(domain) => domain.clone(),
                None => Domain::options().create(false).open_at(registry.path()).ok()?,
            };
            Arc::clone(watch.table.insert(Arc::new(Table::open(&domain).ok()?)))
        }
    };
    let hook = watch.hook.clone();
    drop(all);
    let mut pairs = table.pairs();
    if !pairs.iter().any(|pair| (pair.held.key, pair.wanted.key) == (held.0, wanted.0)) {
        table.append(held, wanted);
        // Two who close a cycle at one moment: each writes, then reads, so one of them at least sees both (litmus: store
        // buffering).
        fence(StdOrdering::SeqCst);
        pairs = table.pairs();
    }
    cycles::through(&pairs, held.0, wanted.0).map(|order| (order, hook))
}

/// The thread has taken that lock. Called when the process watches.
#[cold]
fn took<L>(me: Me, segment: &Segment, lock: &L) {
    let address = core::ptr::from_ref(lock) as usize;
    if let Some((key, name)) = key_of(segment, address).filter(|_| !REPORTING.get()) {
        let held = Held { registry: me.registry.index, token: me.id, address, key, name };
        HELD.with_borrow_mut(|all| all.push(held));
    }
}

/// The thread is about to give it back.
#[cold]
pub(super) fn gives_back<L>(lock: &L) {
    let address = core::ptr::from_ref(lock) as usize;
    // In a thread that is past its destructors there is no list any more.
    let _ = HELD.try_with(|all| {
        let mut all = all.borrow_mut();
        if let Some(at) = all.iter().rposition(|one| one.address == address) {
            all.remove(at);
        }
    });
}

impl Domain {
    /// What to do in this process when locks of this domain turn out to be taken in orders that can deadlock; without
    /// it, a line on standard error says so. Only for a process that watches
    /// ([`DomainOptions::lock_order`](crate::DomainOptions::lock_order)).
    ///
    /// Called by the thread that is about to take the lock, once for each pair of locks.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering};
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-order-{}", std::process::id()));
    /// let domain = outlive::Domain::options().lock_order(true).open_at(&folder)?;
    /// static FOUND: AtomicU32 = AtomicU32::new(0);
    /// domain.on_lock_order(|order| {
    ///     assert_eq!(order.pairs.len(), 2);
    ///     FOUND.fetch_add(1, Ordering::Relaxed);
    /// });
    /// let a = outlive::sync::Mutex::<u64>::open(&domain, "a", 0)?;
    /// let b = outlive::sync::Mutex::<u64>::open(&domain, "b", 0)?;
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

    /// Cycles in the orders in which locks of this domain have been taken by processes that watched, whether those still
    /// live or not. Each can be a deadlock one day.
    ///
    /// # Errors
    /// What keeps the record from being read. Nobody ever watched: that is an empty list.
    pub fn lock_orders(&self) -> Result<Vec<LockOrder>, Error> {
        match Table::look(self) {
            Ok(table) => Ok(cycles::all(&table.pairs())),
            Err(Error::NotFound { .. }) => Ok(Vec::new()),
            Err(other) => Err(other),
        }
    }

    /// Forgets all orders that have been recorded: those who watch begin anew.
    ///
    /// # Errors
    /// What the system says.
    pub fn forget_lock_orders(&self) -> Result<(), Error> {
        table::remove(self)
    }
}
