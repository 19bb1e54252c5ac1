//! Domains, tokens and peers.

use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::time::Duration;

use outlive::sync::Holder;
use outlive::{Domain, DomainOptions, Opening, Peer, TokenId, TokenInfo, TokenKind, WaitError};

use crate::argument::{
    borrow, borrow_mut, fill, handle_out, items, options, out, text, text_or_none,
};
use crate::code::{Failure, entry, entry_or};
use crate::deadline::{moment_or_past, outlive_deadline_t};
use crate::opening::{opening, outlive_opening_t};

/// A domain: a folder on a memory file system in which processes find each other; every named
/// object is a file in it. There is no daemon to start, and nothing to set up. All threads may use
/// it at once.
pub struct outlive_domain_t(pub(crate) Domain);

/// Options for opening a domain by `outlive_domain_open_with`. Begin with
/// `OUTLIVE_DOMAIN_OPTIONS_INIT`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct outlive_domain_options_t {
    /// `sizeof(outlive_domain_options_t)`.
    pub size: usize,
    /// A folder, whose parent must exist. NULL: `name` says which.
    pub path: *const c_char,
    /// A domain of the user's own, `/dev/shm/outlive-UID/NAME`. NULL: what `OUTLIVE_DOMAIN` names,
    /// else the configuration file, else `default`.
    pub name: *const c_char,
    /// The group that shares the domain (folders 0770, files 0660): its name in `/etc/group`, or
    /// its number in decimal. NULL: `has_group` and `group` say which.
    pub group_name: *const c_char,
    /// Not 0: the group `group` shares the domain.
    pub has_group: u32,
    /// The group's number.
    pub group: u32,
    /// After how many milliseconds at most a sleeping waiter polls. 0: the default (1 s);
    /// UINT32_MAX: never.
    pub recheck_ms: u32,
    /// 1: record the order in which locks are taken, and report when that order can deadlock; 2: do
    /// not, whatever `OUTLIVE_LOCK_ORDER` says.
    pub lock_order: u32,
}

/// What is known about a token's owner. Its size never changes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct outlive_peer_info_t {
    /// The token.
    pub token: u32,
    /// Its process, in that process's pid namespace; 0 when no longer known.
    pub pid: u32,
    /// Its thread; 0 when no longer known.
    pub tid: u32,
    /// 1: the owner is alive.
    pub alive: u8,
    /// 1: the token belongs to the whole process.
    pub is_process: u8,
    /// 0.
    pub reserved: [u8; 2],
    /// The program's name, NUL-terminated.
    pub program: [c_char; 16],
    /// When the process was started, in clock ticks since boot; 0 when not looked up.
    pub start_time: u64,
    /// 0.
    pub reserved2: [u64; 3],
}

fn program_of(name: &str) -> [c_char; 16] {
    let mut program = [0; 16];
    // The last one stays NUL.
    for (to, byte) in program[..15].iter_mut().zip(name.bytes()) {
        *to = byte as c_char;
    }
    program
}

impl outlive_peer_info_t {
    pub(crate) fn of_holder(holder: &Holder) -> outlive_peer_info_t {
        outlive_peer_info_t {
            token: holder.token.as_u32(),
            pid: holder.pid,
            tid: holder.tid,
            alive: u8::from(holder.alive),
            is_process: 0,
            reserved: [0; 2],
            program: program_of(&holder.program),
            start_time: 0,
            reserved2: [0; 3],
        }
    }

    fn of_info(info: &TokenInfo) -> outlive_peer_info_t {
        outlive_peer_info_t {
            token: info.id.as_u32(),
            pid: info.pid,
            tid: info.tid,
            alive: u8::from(info.alive),
            is_process: u8::from(info.kind == TokenKind::Process),
            reserved: [0; 2],
            program: program_of(&info.program),
            start_time: info.start_time,
            reserved2: [0; 3],
        }
    }
}

/// Opens the domain of that name below the user's own folder, `/dev/shm/outlive-UID`; with
/// OUTLIVE_OPEN_OR_CREATE it is made when missing. `name` NULL: the domain that the environment's
/// `OUTLIVE_DOMAIN` names (a path if it has a `/`), else the configuration file (`outlive config
/// show`), else `default`, shared with the group that `OUTLIVE_GROUP` names, else that file.
///
/// Owner: `*domain` is the caller's, until `outlive_domain_close`. What is opened in it may outlive
/// it.
///
/// Errors: see `outlive_opening_t`; EEXIST: there is something at that path. EPERM: the folder is
/// another user's, or others may enter it. ENOTEMPTY: it holds other things than a domain, and is
/// left as it is. ENOTDIR, EMFILE.
///
/// If a process dies: nothing in a domain depends on the process that made it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_domain_open(
    name: *const c_char,
    how: MaybeUninit<outlive_opening_t>,
    domain: *mut *mut outlive_domain_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `domain` and NULL or a NUL-terminated `name`.
        let (out, name) = unsafe { (handle_out(domain)?, text_or_none(name)?) };
        out.put(opened(Domain::options(), None, name, how)?);
        Ok(())
    })
}

/// Opens a domain as `outlive_domain_open` does, in any folder, whose parent must exist.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_domain_open_at(
    path: *const c_char,
    how: MaybeUninit<outlive_opening_t>,
    domain: *mut *mut outlive_domain_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `domain` and a NUL-terminated path.
        let (out, path) = unsafe { (handle_out(domain)?, text(path, "a path")?) };
        out.put(opened(Domain::options(), Some(path), None, how)?);
        Ok(())
    })
}

/// Opens a domain as `outlive_domain_open` does, with options, which also say which domain.
/// `options` NULL: as `outlive_domain_open(NULL, how, domain)`.
///
/// Errors: as `outlive_domain_open`; EINVAL: `/etc/group` has no group of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_domain_open_with(
    options: *const outlive_domain_options_t,
    how: MaybeUninit<outlive_opening_t>,
    domain: *mut *mut outlive_domain_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `domain`.
        let out = unsafe { handle_out(domain) }?;
        let default = outlive_domain_options_t {
            size: 0,
            path: core::ptr::null(),
            name: core::ptr::null(),
            group_name: core::ptr::null(),
            has_group: 0,
            group: 0,
            recheck_ms: 0,
            lock_order: 0,
        };
        // SAFETY: the C caller passes NULL or options of the size that they say; all fields are
        // integers and pointers.
        let given = unsafe { self::options(options, default) }?;
        let mut options = Domain::options().group((given.has_group != 0).then_some(given.group));
        options = match given.recheck_ms {
            0 => options,
            u32::MAX => options.recheck(None),
            span => options.recheck(Some(Duration::from_millis(span.into()))),
        };
        options = match given.lock_order {
            0 => options,
            choice => options.lock_order(choice == 1),
        };
        // SAFETY: the C caller passes NULL or a NUL-terminated text in each of the three.
        let (path, name, group) = unsafe {
            (text_or_none(given.path)?, text_or_none(given.name)?, text_or_none(given.group_name)?)
        };
        if let Some(group) = group {
            options = options.group_named(group)?;
        }
        out.put(opened(options, path, name, how)?);
        Ok(())
    })
}

/// Opens the domain at that path, else that of that name, else the one that the environment names.
fn opened(
    options: DomainOptions,
    path: Option<&str>,
    name: Option<&str>,
    how: MaybeUninit<outlive_opening_t>,
) -> Result<*mut outlive_domain_t, Failure> {
    let how = opening(how)?;
    let (options, place) = match path.or(name) {
        Some(_) => (options, String::new()),
        None => options.default_place()?,
    };
    let (path, name) = match (path, name) {
        (None, None) if place.contains('/') => (Some(&*place), None),
        (None, None) => (None, Some(&*place)),
        given => given,
    };
    let opened = match (path, name.unwrap_or_default(), how) {
        (Some(path), _, Opening::OpenOrCreate) => options.open_or_create_at(path),
        (Some(path), _, Opening::Open) => options.open_at(path),
        (Some(path), _, Opening::CreateNew) => options.create_new_at(path),
        (None, name, Opening::OpenOrCreate) => options.open_or_create(name),
        (None, name, Opening::Open) => options.open(name),
        (None, name, Opening::CreateNew) => options.create_new(name),
    }?;
    Ok(Box::into_raw(Box::new(outlive_domain_t(opened))))
}

/// Closes a domain. What was opened in it stays open. Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_domain_close(domain: *mut outlive_domain_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(domain) }
}

/// Frees what a handle owns.
///
/// # Safety
/// The caller guarantees NULL, or a handle of this library's that no thread uses any more.
pub(crate) unsafe fn close<T>(handle: *mut T) {
    entry(|| {
        if !handle.is_null() {
            // SAFETY: the library made every handle as a box, and the caller gives this one up.
            drop(unsafe { Box::from_raw(handle) });
        }
        Ok(())
    });
}

/// Writes the path of the domain's folder into `buffer`.
///
/// Errors: EINVAL; EMSGSIZE when it does not fit with its NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_domain_path(
    domain: *const outlive_domain_t,
    buffer: *mut c_char,
    capacity: usize,
) -> c_int {
    entry(|| {
        use std::os::unix::ffi::OsStrExt;
        // SAFETY: the C caller passes a live domain.
        let domain = unsafe { borrow(domain, "a domain") }?;
        let mut path = domain.0.path().as_os_str().as_bytes().to_vec();
        path.push(0);
        // SAFETY: the C caller passes `capacity` writable bytes at `buffer`.
        unsafe { fill(&path, buffer.cast(), capacity) }
    })
}

/// Brings into memory what this process has open in the domain, and what the calling thread needs
/// itself: the domain's tokens, all things that are open here as far as their files have pages now,
/// so many bytes of the thread's stack, and this library's code. The thread's later operations are
/// then no page faults; the page "A control loop without page faults" of the book says which of them
/// make no system call either. Nothing is written.
///
/// Each thread that must not wait calls it, after it has opened what it uses. What grows as it is
/// used is made to its full size before, by `outlive_publisher_prefault`, `outlive_queue_prefault`,
/// `outlive_pool_prefault`, `outlive_state_writer_prefault`, `outlive_job_queue_prefault`,
/// `outlive_client_prefault` and `outlive_server_prefault`.
///
/// Errors: ENOSPC: the file system is full. EINVAL: the thread's stack may not become so long.
/// EUSERS, and errors of the system.
///
/// If the process dies, nothing is left of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_domain_prefault(
    domain: *const outlive_domain_t,
    stack_bytes: usize,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live domain.
        let domain = unsafe { borrow(domain, "a domain") }?;
        Ok(domain.0.prefault(stack_bytes)?)
    })
}

/// Brings the same into memory as `outlive_domain_prefault` does, and locks all of it but the code
/// there: mlock(2). A thing's memory stays locked as long as it is open. What is only reserved is not
/// locked, and does not count against RLIMIT_MEMLOCK.
///
/// Errors: those of `outlive_domain_prefault`; ENOMEM, EPERM, EAGAIN: the kernel does not lock that
/// much, see RLIMIT_MEMLOCK.
///
/// If the process dies, the kernel unlocks what it had locked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_domain_lock_memory(
    domain: *const outlive_domain_t,
    stack_bytes: usize,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live domain.
        let domain = unsafe { borrow(domain, "a domain") }?;
        Ok(domain.0.lock_memory(stack_bytes)?)
    })
}

/// Removes a name from the domain. Processes that have the object open go on with it; no other
/// process finds it.
///
/// Errors: ENOENT, EINVAL, EACCES.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_domain_remove(
    domain: *const outlive_domain_t,
    name: *const c_char,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live domain and a NUL-terminated name.
        let (domain, name) = unsafe { (borrow(domain, "a domain")?, text(name, "a name")?) };
        Ok(domain.0.remove(name)?)
    })
}

/// Frees what dead processes have left in all objects of the domain. Each process also does so for
/// what it meets; this is for tidying up. `*claims` (may be NULL): how many claims of dead
/// processes there were.
///
/// Errors: EINVAL, and errors of the system.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_domain_sweep(
    domain: *const outlive_domain_t,
    claims: *mut u64,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live domain and NULL or a place for `claims`.
        let (domain, claims) =
            unsafe { (borrow(domain, "a domain")?, crate::argument::out_or_none(claims)) };
        let report = domain.0.sweep(false)?;
        if let Some(claims) = claims {
            claims.put(u64::from(report.claims));
        }
        Ok(())
    })
}

/// Returns the calling thread's token in `*token`: a number by which other threads check whether it
/// is alive, and wait for its end. The token lives until the thread ends. It is never 0.
///
/// Errors: EINVAL, EUSERS (65,536 are in use), ENOSPC.
///
/// If the process dies, its threads' tokens read dead from then on, for ever.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_domain_token(
    domain: *const outlive_domain_t,
    token: *mut u32,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live domain and a place for `token`.
        let (domain, out) = unsafe { (borrow(domain, "a domain")?, out(token)?) };
        out.put(domain.0.token()?.as_u32());
        Ok(())
    })
}

/// Returns the process's token in `*token`. It lives until the process's last thread has ended.
///
/// Errors: as `outlive_domain_token`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_domain_process_token(
    domain: *const outlive_domain_t,
    token: *mut u32,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live domain and a place for `token`.
        let (domain, out) = unsafe { (borrow(domain, "a domain")?, out(token)?) };
        out.put(domain.0.process_token()?.as_u32());
        Ok(())
    })
}

pub(crate) fn id(token: u32) -> Result<TokenId, Failure> {
    TokenId::from_u32(token).ok_or_else(|| Failure::new(libc::EINVAL, "a number that is no token"))
}

pub(crate) unsafe fn peer(domain: *const outlive_domain_t, token: u32) -> Result<Peer, Failure> {
    // SAFETY: the C caller passes a live domain.
    Ok(unsafe { borrow(domain, "a domain") }?.0.peer(id(token)?))
}

/// Returns whether a token's owner is alive, without a system call. A token that never was, and one
/// of no domain, reads dead.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_peer_is_alive(
    domain: *const outlive_domain_t,
    token: u32,
) -> bool {
    // SAFETY: the C caller passes a live domain.
    entry_or(false, || Ok(unsafe { peer(domain, token) }?.is_alive()))
}

/// Sleeps until a token's owner has ended, or until the deadline; returns at once if it is dead.
///
/// Errors: ETIMEDOUT: it is alive; EINVAL, EUSERS, ENOSPC.
///
/// If a process dies, all threads that wait for it are woken, about 0.2 ms after a SIGKILL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_peer_wait_dead(
    domain: *const outlive_domain_t,
    token: u32,
    deadline: outlive_deadline_t,
) -> c_int {
    // SAFETY: the C caller passes a live domain.
    entry(|| Ok(unsafe { peer(domain, token) }?.wait_dead_until(moment_or_past(deadline))?))
}

/// Sleeps until one of `count` tokens' owners has ended, or until the deadline; `*dead` (may be
/// NULL) says which.
///
/// Errors: as `outlive_peer_wait_dead`.
///
/// If a process dies: as with `outlive_peer_wait_dead`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_peer_wait_any_dead(
    domain: *const outlive_domain_t,
    tokens: *const u32,
    count: usize,
    deadline: outlive_deadline_t,
    dead: *mut u32,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live domain and `count` readable items at `tokens`.
        let (domain, tokens) =
            unsafe { (borrow(domain, "a domain")?, items(tokens, count, "tokens")?) };
        let ids: Vec<TokenId> = tokens.iter().map(|&token| id(token)).collect::<Result<_, _>>()?;
        let ended = domain.0.wait_any_dead_until(&ids, moment_or_past(deadline))?;
        // Without a deadline too, as `outlive_peer_wait_dead` does.
        let ended = ended.ok_or(WaitError::TimedOut)?;
        // SAFETY: the C caller passes NULL or a place for `dead`.
        if let Some(out) = unsafe { crate::argument::out_or_none(dead) } {
            out.put(ended.as_u32());
        }
        Ok(())
    })
}

/// Writes what is known about a token's owner, dead or alive, to `*info`.
///
/// Errors: EINVAL; ESRCH when nothing is known any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_peer_info(
    domain: *const outlive_domain_t,
    token: u32,
    info: *mut outlive_peer_info_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live domain and a place for `info`.
        let (peer, out) = unsafe { (peer(domain, token)?, out(info)?) };
        let found = peer
            .info()
            .ok_or_else(|| Failure::new(libc::ESRCH, "nothing is known of that token any more"))?;
        out.put(outlive_peer_info_t::of_info(&found));
        Ok(())
    })
}

/// Copies a list of holders into the C caller's array: as many as fit; `*count` is how many there
/// are.
///
/// # Safety
/// The caller guarantees that `capacity` entries can be written at `infos`.
pub(crate) unsafe fn give_holders(
    holders: &[Holder],
    infos: *mut outlive_peer_info_t,
    capacity: usize,
    count: *mut usize,
) -> Result<(), Failure> {
    // SAFETY: the caller guarantees NULL or a place for `count`.
    let out = unsafe { out(count) }?;
    for (at, holder) in holders.iter().take(capacity).enumerate() {
        // SAFETY: `at` is below `capacity`, for which the caller guarantees room.
        let place = unsafe { borrow_mut(infos.wrapping_add(at), "an array") }?;
        *place = outlive_peer_info_t::of_holder(holder);
    }
    out.put(holders.len());
    Ok(())
}
