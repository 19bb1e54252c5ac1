//! Semaphores, and barriers beside them: handles whose permits and seats are the thread's.

use std::cell::RefCell;
use std::ffi::{c_char, c_int};
use std::sync::Arc;

use outlive::sync::{AcquireError, Barrier, BarrierError, Permit, Seat, Semaphore, WhenOneDies};

use crate::argument::{borrow, handle_out, out_or_none, text};
use crate::code::{Failure, entry, entry_or};
use crate::deadline::{moment, moment_or_past, outlive_deadline_t};
use crate::domain::{close, give_holders, id, outlive_domain_t, outlive_peer_info_t};
use crate::owned::Owned;

/// A semaphore, open in this process: so many permits, and whoever dies gives its own back. May be used by all threads at
/// once; permits belong to the thread that took them.
pub struct outlive_semaphore_t(Arc<Semaphore>);

/// A barrier, open in this process. May be used by all threads at once; seats belong to the thread that took them.
pub struct outlive_barrier_t(Arc<Barrier>);

/// What the thread has of semaphores and barriers, the last one taken last.
#[derive(Default)]
struct Mine {
    permits: Vec<Owned<Permit<'static>, Semaphore>>,
    seats: Vec<Owned<Seat<'static>, Barrier>>,
}

impl Drop for Mine {
    /// The thread ends, and its token with it: that gives permits and seats back.
    fn drop(&mut self) {
        self.permits.drain(..).for_each(Owned::abandon);
        self.seats.drain(..).for_each(Owned::abandon);
    }
}

thread_local! {
    static MINE: RefCell<Mine> = RefCell::default();
}

fn mine<R>(act: impl FnOnce(&mut Mine) -> R) -> R {
    MINE.with(|mine| act(&mut mine.borrow_mut()))
}

/// Opens the semaphore of that name, or makes it with so many permits, of 1 to 65,536. `most`: as many may there be at a time,
/// if `outlive_semaphore_add` adds some; 0: no more than `permits`.
///
/// Owner: `*semaphore` is the caller's, until `outlive_semaphore_close`.
///
/// Errors: as `outlive_mutex_open`.
///
/// If a process dies: while it makes it, nothing is left of it. Afterwards its permits are free at once; who sleeps for one is
/// woken by the death itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_semaphore_open(
    domain: *const outlive_domain_t,
    name: *const c_char,
    permits: u32,
    most: u32,
    semaphore: *mut *mut outlive_semaphore_t,
) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        let (out, domain, name) =
            unsafe { (handle_out(semaphore)?, borrow(domain, "a domain")?, text(name, "a name")?) };
        let options = Semaphore::options(permits).most(most.max(permits));
        out.put(Box::into_raw(Box::new(outlive_semaphore_t(Arc::new(options.open(&domain.0, name)?)))));
        Ok(())
    })
}

/// Lets go of a semaphore. Permits that threads hold by it stay theirs until they end. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_semaphore_close(semaphore: *mut outlive_semaphore_t) {
    // SAFETY: as the header asks of the caller.
    unsafe { close(semaphore) }
}

/// Takes a permit, waiting for one until the deadline. `*index` (may be NULL): which it is, from 0 on; no two holders have
/// the same.
///
/// Errors: ETIMEDOUT; EAGAIN with OUTLIVE_TRY. EDEADLK: this thread holds all. EINVAL, EUSERS, ENOSPC.
///
/// If a process dies: a holder, its permit is free at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_semaphore_acquire(
    semaphore: *const outlive_semaphore_t,
    deadline: outlive_deadline_t,
    index: *mut u32,
) -> c_int {
    // SAFETY: as the header asks of the caller.
    entry(|| unsafe {
        keep_permit(semaphore, index, |semaphore| match moment(deadline) {
            Some(moment) => semaphore.acquire_until(moment),
            None => semaphore.try_acquire(),
        })
    })
}

/// A permit, now the thread's.
///
/// # Safety
/// As the header asks of the callers of `outlive_semaphore_acquire`.
unsafe fn keep_permit(
    semaphore: *const outlive_semaphore_t,
    index: *mut u32,
    get: impl FnOnce(&'static Semaphore) -> Result<Permit<'static>, AcquireError>,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    let (semaphore, index) = unsafe { (borrow(semaphore, "a semaphore")?, out_or_none(index)) };
    let permit = Owned::new(Arc::clone(&semaphore.0), get)?;
    if let Some(index) = index {
        index.put(permit.part().index() as u32);
    }
    mine(|mine| mine.permits.push(permit));
    Ok(())
}

fn last_permit(semaphore: &outlive_semaphore_t) -> Result<Owned<Permit<'static>, Semaphore>, Failure> {
    mine(|mine| {
        let at = mine.permits.iter().rposition(|permit| permit.is_of(&semaphore.0))?;
        Some(mine.permits.remove(at))
    })
    .ok_or_else(|| Failure::new(libc::EPERM, "the calling thread holds no permit by this handle"))
}

/// Gives back the permit that this thread took last by this handle.
///
/// Errors: EPERM: it has none. EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_semaphore_release(semaphore: *const outlive_semaphore_t) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        drop(last_permit(unsafe { borrow(semaphore, "a semaphore") }?)?);
        Ok(())
    })
}

/// Uses up the permit that this thread took last by this handle: there is one less, until somebody adds one. So a semaphore
/// counts things that are made in one place and used up in another.
///
/// Errors: EPERM: it has none. EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_semaphore_consume(semaphore: *const outlive_semaphore_t) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        let (permit, _semaphore) = last_permit(unsafe { borrow(semaphore, "a semaphore") }?)?.take();
        permit.consume();
        Ok(())
    })
}

/// Hands the permit that this thread took last by this handle to another thread, or process: the owner of `token`, who takes it
/// up by `outlive_semaphore_take_up`. In one atomic step: at no moment is it nobody's. Since ABI 2.
///
/// Errors: EPERM: it has none. EINVAL, also for a number that is no token.
///
/// If a process dies: who it was handed to, before or after taking it up: the permit is free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_semaphore_hand_to(semaphore: *const outlive_semaphore_t, token: u32) -> c_int {
    entry(|| {
        let to = id(token)?;
        // SAFETY: as the header asks of the caller.
        let (permit, _semaphore) = last_permit(unsafe { borrow(semaphore, "a semaphore") }?)?.take();
        permit.hand_to(to);
        Ok(())
    })
}

/// Takes up a permit that somebody handed to this thread or its process, waiting for one until the deadline. `*index` (may be
/// NULL): which it is. Since ABI 2.
///
/// Errors: ETIMEDOUT; EAGAIN with OUTLIVE_TRY. EINVAL, EUSERS, ENOSPC.
///
/// If a process dies: who was to hand one over: this does not know of it, use a deadline.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_semaphore_take_up(
    semaphore: *const outlive_semaphore_t,
    deadline: outlive_deadline_t,
    index: *mut u32,
) -> c_int {
    // SAFETY: as the header asks of the caller.
    entry(|| unsafe {
        keep_permit(semaphore, index, |semaphore| match moment(deadline) {
            Some(moment) => semaphore.take_up_until(moment),
            None => semaphore.try_take_up().ok_or(AcquireError::WouldBlock),
        })
    })
}

/// Adds a permit.
///
/// Errors: EOVERFLOW: there are as many as there may be. EINVAL.
///
/// If a process dies: in here, it is added or not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_semaphore_add(semaphore: *const outlive_semaphore_t) -> c_int {
    // SAFETY: as the header asks of the caller.
    entry(|| Ok(unsafe { borrow(semaphore, "a semaphore") }?.0.add_permit()?))
}

/// How many permits are free just now. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_semaphore_free(semaphore: *const outlive_semaphore_t) -> u32 {
    // SAFETY: as the header asks of the caller.
    entry_or(0, || Ok(unsafe { borrow(semaphore, "a semaphore") }?.0.free() as u32))
}

/// Who holds permits just now. As many as fit into `infos`; `*count` says how many there are.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_semaphore_holders(
    semaphore: *const outlive_semaphore_t,
    infos: *mut outlive_peer_info_t,
    capacity: usize,
    count: *mut usize,
) -> c_int {
    // SAFETY: as the header asks of the caller.
    entry(|| unsafe { give_holders(&borrow(semaphore, "a semaphore")?.0.holders(), infos, capacity, count) })
}

/// Opens the barrier of that name, or makes it, for so many participants. `count_out` not 0: who dies is counted out, and the
/// others go on; else a death breaks the barrier.
///
/// Owner: `*barrier` is the caller's, until `outlive_barrier_close`.
///
/// Errors: as `outlive_mutex_open`.
///
/// If a process dies: while it makes it, nothing is left of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_barrier_open(
    domain: *const outlive_domain_t,
    name: *const c_char,
    parties: u32,
    count_out: u32,
    barrier: *mut *mut outlive_barrier_t,
) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        let (out, domain, name) = unsafe { (handle_out(barrier)?, borrow(domain, "a domain")?, text(name, "a name")?) };
        let policy = if count_out == 0 { WhenOneDies::Break } else { WhenOneDies::CountOut };
        let barrier = Barrier::open(&domain.0, name, parties, policy)?;
        out.put(Box::into_raw(Box::new(outlive_barrier_t(Arc::new(barrier)))));
        Ok(())
    })
}

/// Lets go of a barrier. Seats that threads have by it stay theirs until they end. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_barrier_close(barrier: *mut outlive_barrier_t) {
    // SAFETY: as the header asks of the caller.
    unsafe { close(barrier) }
}

/// Takes a seat for the calling thread, which takes part from now on.
///
/// Errors: EUSERS: all seats are taken. OUTLIVE_BROKEN, EINVAL, ENOSPC.
///
/// If a process dies: with a seat, the barrier breaks, or the dead one is counted out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_barrier_join(barrier: *const outlive_barrier_t) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        let barrier = unsafe { borrow(barrier, "a barrier") }?;
        let seat = Owned::new(Arc::clone(&barrier.0), Barrier::join)?;
        mine(|mine| mine.seats.push(seat));
        Ok(())
    })
}

fn last_seat(barrier: &outlive_barrier_t) -> Result<Owned<Seat<'static>, Barrier>, Failure> {
    mine(|mine| {
        let at = mine.seats.iter().rposition(|seat| seat.is_of(&barrier.0))?;
        Some(mine.seats.remove(at))
    })
    .ok_or_else(|| BarrierError::NotSeated.into())
}

/// Gives the calling thread's seat up: the others go on without it.
///
/// Errors: EPERM: it has none by this handle. EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_barrier_leave(barrier: *const outlive_barrier_t) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        drop(last_seat(unsafe { borrow(barrier, "a barrier") }?)?);
        Ok(())
    })
}

/// Arrives, and waits until all have, or until the deadline. `*serial` (may be NULL): 1 for one of them, 0 for the others.
///
/// Errors: OUTLIVE_BROKEN: a participant died (`outlive_barrier_repair`). ETIMEDOUT, also with OUTLIVE_TRY: the arrival stands,
/// wait again. EPERM: this thread has not joined by this handle. EINVAL.
///
/// If a process dies: one who is absent, its death ends the wait at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_barrier_wait(
    barrier: *const outlive_barrier_t,
    deadline: outlive_deadline_t,
    serial: *mut u32,
) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        let (barrier, serial) = unsafe { (borrow(barrier, "a barrier")?, out_or_none(serial)) };
        // Not borrowed from the list while it waits.
        let mut seat = last_seat(barrier)?;
        let turn = match moment(deadline) {
            Some(moment) => seat.part_mut().wait_until(moment),
            None => seat.part_mut().try_wait(),
        };
        mine(|mine| mine.seats.push(seat));
        let turn = turn?;
        if let Some(serial) = serial {
            serial.put(u32::from(turn.is_serial()));
        }
        Ok(())
    })
}

/// Makes a broken barrier whole: the dead lose their seats, to be taken by others who join; the living keep theirs and begin a
/// new phase. Nothing is done to one that is not broken. Any number of participants may call it at once.
///
/// Errors: ETIMEDOUT: another who repairs is stopped. EINVAL.
///
/// If a process dies: in here, it is broken still, or whole.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_barrier_repair(
    barrier: *const outlive_barrier_t,
    deadline: outlive_deadline_t,
) -> c_int {
    // SAFETY: as the header asks of the caller.
    entry(|| Ok(unsafe { borrow(barrier, "a barrier") }?.0.repair(moment_or_past(deadline))?))
}
