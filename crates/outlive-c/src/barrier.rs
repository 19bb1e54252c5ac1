//! Barriers, by name or inside a record: their seats are the thread's.

use std::cell::RefCell;
use std::ffi::{c_char, c_int};
use std::sync::Arc;

use outlive::Kind;
use outlive::sync::{Barrier, BarrierError, EmbeddedBarrier, Seat, Untyped, WhenOneDies};

use crate::argument::{borrow, borrow_mut, handle_out, out_or_none, text};
use crate::code::{Failure, entry};
use crate::deadline::{moment, moment_or_past, outlive_deadline_t};
use crate::domain::outlive_domain_t;
use crate::owned::Owned;
use crate::place::{self, Primitive, fast_table, find};

/// A barrier in shared memory, which knows its participants. A named one, or the beginning of one in a record, whose seats
/// follow it: `OUTLIVE_BARRIER_OF(4) step;`, noted as a place by `OUTLIVE_BARRIER_PLACE`, used as `&line->step.barrier`. All
/// zeroes are one without participants, which a death breaks (`outlive_barrier_init`). It is used by its address, and never
/// copied; seats belong to the thread that took them.
#[repr(C, align(64))]
pub struct outlive_barrier_t {
    words: [u32; 16],
}

// The seats of `OUTLIVE_BARRIER_OF` lie where Rust's do.
const _: () = assert!(size_of::<outlive_barrier_t>() + 16 * 4 == size_of::<EmbeddedBarrier<16>>());
const _: () = assert!(align_of::<outlive_barrier_t>() == align_of::<EmbeddedBarrier<16>>());

/// This process's half of a barrier; seats keep it, also when it is closed.
struct Handle(Arc<Barrier>);

impl Primitive for Handle {
    type Words = outlive_barrier_t;
    const KIND: Kind = Kind::Barrier;
    fast_table!();
    fn at(untyped: &Untyped, offset: usize) -> Option<Handle> {
        Some(Handle(Arc::new(untyped.barrier(offset)?)))
    }
}

/// The seats that the thread has, the last one taken last.
struct Mine(Vec<Owned<Seat<'static>, Barrier>>);

impl Drop for Mine {
    /// The thread ends, and its token with it: others see that.
    fn drop(&mut self) {
        self.0.drain(..).for_each(Owned::abandon);
    }
}

thread_local! {
    static MINE: RefCell<Mine> = const { RefCell::new(Mine(Vec::new())) };
}

fn keep(seat: Owned<Seat<'static>, Barrier>) {
    MINE.with(|mine| mine.borrow_mut().0.push(seat));
}

fn policy(count_out: u32) -> WhenOneDies {
    if count_out == 0 { WhenOneDies::Break } else { WhenOneDies::CountOut }
}

/// Opens the barrier of that name, or makes it, for so many participants. `count_out` not 0: who dies is counted out, and the
/// others go on; else a death breaks the barrier.
///
/// Owner: `*barrier` is in shared memory, mapped until `outlive_barrier_close`.
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
        Barrier::open(&domain.0, name, parties, policy(count_out))?;
        out.put(place::open(Untyped::named(&domain.0, name, Kind::Barrier)?).cast());
        Ok(())
    })
}

/// In a record's initialiser: what a participant's death does, as in `outlive_barrier_open`. Without it the barrier breaks.
/// Since ABI 2.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_barrier_init(barrier: *mut outlive_barrier_t, count_out: u32) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        let at = unsafe { borrow_mut(barrier, "a barrier") }?;
        // SAFETY: as the header asks of the caller: a new record's, which nobody else sees.
        unsafe { Untyped::set_policy(core::ptr::from_mut(at).cast(), policy(count_out)) };
        Ok(())
    })
}

/// Closes this opening of a named barrier: its address means nothing any more. Seats that threads have by it stay theirs until
/// they end. NULL is nothing; so is what is not an opened named barrier.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_barrier_close(barrier: *mut outlive_barrier_t) {
    entry(|| place::close(barrier.cast(), Kind::Barrier));
}

/// Takes a seat for the calling thread, which takes part from now on.
///
/// Errors: EUSERS: all seats are taken. OUTLIVE_BROKEN, EINVAL, ENOSPC.
///
/// If a process dies: with a seat, the barrier breaks, or the dead one is counted out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_barrier_join(barrier: *const outlive_barrier_t) -> c_int {
    entry(|| {
        keep(Owned::new(Arc::clone(&find::<Handle>(barrier)?.0), Barrier::join)?);
        Ok(())
    })
}

fn last_seat(barrier: *const outlive_barrier_t) -> Result<Owned<Seat<'static>, Barrier>, Failure> {
    let barrier = &find::<Handle>(barrier)?.0;
    MINE.with(|mine| {
        let seats = &mut mine.borrow_mut().0;
        let at = seats.iter().rposition(|seat| seat.is_of(barrier))?;
        Some(seats.remove(at))
    })
    .ok_or_else(|| BarrierError::NotSeated.into())
}

/// Gives the calling thread's seat up: the others go on without it.
///
/// Errors: EPERM: it has none. EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_barrier_leave(barrier: *const outlive_barrier_t) -> c_int {
    entry(|| {
        drop(last_seat(barrier)?);
        Ok(())
    })
}

/// Arrives, and waits until all have, or until the deadline. `*serial` (may be NULL): 1 for one of them, 0 for the others.
///
/// Errors: OUTLIVE_BROKEN: a participant died (`outlive_barrier_repair`). ETIMEDOUT, also with OUTLIVE_TRY: the arrival stands,
/// wait again. EPERM: this thread has not joined. EINVAL.
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
        let serial = unsafe { out_or_none(serial) };
        // Not borrowed from the list while it waits.
        let mut seat = last_seat(barrier)?;
        let turn = match moment(deadline) {
            Some(moment) => seat.part_mut().wait_until(moment),
            None => seat.part_mut().try_wait(),
        };
        keep(seat);
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
    entry(|| Ok(find::<Handle>(barrier)?.0.repair(moment_or_past(deadline))?))
}
