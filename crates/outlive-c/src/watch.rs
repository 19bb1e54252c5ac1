//! Following what comes and goes in a domain.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::{CString, c_char, c_int};

use outlive::Domain;
use outlive::node::{DomainContents, DomainWatch};

use crate::argument::{borrow, borrow_mut, handle_out, out};
use crate::code::{Failure, entry};
use crate::deadline::{in_time, moment_or_past, outlive_deadline_t};
use crate::domain::{close, outlive_domain_t};

/// It was not there before.
pub const OUTLIVE_APPEARED: u32 = 1;
/// It is there no more: a name was removed, a node has given its name up, or its process has died.
pub const OUTLIVE_VANISHED: u32 = 2;

/// What has appeared in a domain, or vanished from it. Its size never changes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct outlive_change_t {
    /// OUTLIVE_APPEARED or OUTLIVE_VANISHED.
    pub what: u32,
    /// Of a node: its process's token. Of a thing: 0.
    pub token: u32,
    /// The name of the thing or the node.
    pub name: *const c_char,
    /// Of a thing: its kind, as `outlive ls` has it (`topic`, `mutex`, `job queue`); empty when it
    /// cannot be told: a damaged file, one that has gone already, or one that this user may not
    /// read, as another user's topic of mode 0600. Of a node: `node`.
    pub kind: *const c_char,
    /// 0.
    pub reserved: [u64; 2],
}

/// Follows which things and nodes a domain has. One thread at a time may use it.
pub struct outlive_domain_watch_t {
    pub(crate) watch: DomainWatch,
    domain: Domain,
    /// What the last report had.
    now: DomainContents,
    /// What the caller was told of, by token (0: a thing) and name, with its kind.
    told: BTreeMap<(u32, String), CString>,
    /// What the caller is still to be told of, true: it has appeared; `None` until it is asked for.
    changes: Option<VecDeque<(bool, (u32, String))>>,
    /// The texts of the change that was told last.
    texts: (CString, CString),
}

impl outlive_domain_watch_t {
    /// Compares the last report with what the caller was told of: first what has vanished.
    fn compare(&self) -> VecDeque<(bool, (u32, String))> {
        let DomainContents { names, nodes, .. } = &self.now;
        let things = names.iter().map(|name| (0, name.clone()));
        let nodes = nodes.iter().map(|node| (node.token.as_u32(), node.name.clone()));
        let now: BTreeSet<_> = things.chain(nodes).collect();
        let gone = self.told.keys().filter(|key| !now.contains(key)).cloned();
        let mut changes: VecDeque<_> = gone.map(|key| (false, key)).collect();
        let new = now.into_iter().filter(|key| !self.told.contains_key(key));
        changes.extend(new.map(|key| (true, key)));
        changes
    }

    /// Returns the kind of what has appeared.
    fn kind(&self, (token, name): &(u32, String)) -> CString {
        if *token != 0 {
            return c"node".to_owned();
        }
        let kind = self.domain.kind_of(name).map(|kind| kind.to_string());
        CString::new(kind.unwrap_or_default()).unwrap_or_default()
    }

    fn next(&mut self) -> Option<outlive_change_t> {
        if self.changes.is_none() {
            self.changes = Some(self.compare());
        }
        let (appeared, key) = self.changes.as_mut()?.pop_front()?;
        let kind = if appeared {
            let kind = self.kind(&key);
            self.told.insert(key.clone(), kind.clone());
            kind
        } else {
            self.told.remove(&key).unwrap_or_default()
        };
        let (token, name) = key;
        // No name in a domain has a NUL, and a node's may have one: it ends there.
        let name = name.split('\0').next().unwrap_or_default();
        self.texts = (CString::new(name).unwrap_or_default(), kind);
        Some(outlive_change_t {
            what: if appeared { OUTLIVE_APPEARED } else { OUTLIVE_VANISHED },
            token,
            name: self.texts.0.as_ptr(),
            kind: self.texts.1.as_ptr(),
            reserved: [0; 2],
        })
    }
}

/// Follows what appears in the domain and what vanishes from it: things, and processes that have a
/// name.
///
/// Owner: `*watch` is the caller's, until `outlive_domain_watch_close`.
///
/// Errors: EINVAL.
///
/// If a process dies that has a name, that is a change. What it made stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_domain_watch_open(
    domain: *const outlive_domain_t,
    watch: *mut *mut outlive_domain_watch_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `watch` and a live domain.
        let (out, domain) = unsafe { (handle_out(watch)?, borrow(domain, "a domain")?) };
        out.put(Box::into_raw(Box::new(outlive_domain_watch_t {
            watch: domain.0.watch(),
            domain: domain.0.clone(),
            now: DomainContents::default(),
            told: BTreeMap::new(),
            changes: None,
            texts: Default::default(),
        })));
        Ok(())
    })
}

/// Closes a watch. Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_domain_watch_close(watch: *mut outlive_domain_watch_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(watch) }
}

/// Waits until the domain's contents differ from those of the last call, or until the deadline; the
/// first call returns at once. `*things` and `*nodes` are how many there are now;
/// `outlive_domain_watch_next` says what has appeared and what has vanished.
///
/// Errors: ETIMEDOUT; EAGAIN with OUTLIVE_TRY: nothing has changed; EINVAL, EUSERS, and errors of
/// the system.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_domain_watch_changed(
    watch: *mut outlive_domain_watch_t,
    deadline: outlive_deadline_t,
    things: *mut usize,
    nodes: *mut usize,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live watch that no other thread uses, and two places.
        let (watch, things, nodes) =
            unsafe { (borrow_mut(watch, "a watch")?, out(things)?, out(nodes)?) };
        let changed = watch.watch.changed_until(moment_or_past(deadline))?;
        watch.now = in_time(changed, deadline, libc::EAGAIN)?;
        watch.changes = None;
        things.put(watch.now.names.len());
        nodes.put(watch.now.nodes.len());
        Ok(())
    })
}

/// Returns the next of what has appeared or vanished until the last
/// `outlive_domain_watch_changed`, first what has vanished; all that was there at the first of these
/// calls has appeared. Never waits. What comes and goes between two of those calls is not told, nor a
/// thing that was removed and made anew.
///
/// Owner: the watch has the change's texts, until the next call with it.
///
/// Errors: EAGAIN: that was all; EINVAL, and errors of the system.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_domain_watch_next(
    watch: *mut outlive_domain_watch_t,
    change: *mut outlive_change_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live watch that no other thread uses, and a place.
        let (watch, out) = unsafe { (borrow_mut(watch, "a watch")?, out(change)?) };
        let next = watch.next().ok_or_else(|| {
            Failure::new(libc::EAGAIN, "nothing else has changed; wait for the next change")
        })?;
        out.put(next);
        Ok(())
    })
}
