//! Barriers, by name or inside a record: their seats belong to threads.

use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::sync::Arc;

use outlive::sync::{Barrier, BarrierWaitResult, EmbeddedBarrier, OwnedSeat, Untyped, WhenOneDies};
use outlive::{Kind, Opening, WaitError};

use crate::argument::{Out, borrow_mut, out, out_or_none};
use crate::code::{Failure, entry};
use crate::deadline::{moment, moment_or_past, outlive_deadline_t};
use crate::domain::outlive_domain_t;
use crate::held::{self, held_by_thread};
use crate::opening::{naming, open_as, outlive_opening_t};
use crate::place::{self, Primitive, fast_table, find};

/// A barrier in shared memory, which knows its participants: a named one, or one in a record.
///
/// In a record it is the beginning of a struct in which the seats follow: `OUTLIVE_BARRIER_OF(4)
/// step;`, listed as a place by `OUTLIVE_BARRIER_PLACE`, used as `&line->step.barrier`. All zeroes
/// are a barrier without participants, which a death breaks (`outlive_barrier_init`). It is used by
/// its address, and never copied; a seat belongs to the thread that took it.
#[repr(C, align(64))]
pub struct outlive_barrier_t {
    words: [u32; 16],
}

// The seats of `OUTLIVE_BARRIER_OF` lie where Rust's do.
const _: () = assert!(size_of::<outlive_barrier_t>() + 16 * 4 == size_of::<EmbeddedBarrier<16>>());
const _: () = assert!(align_of::<outlive_barrier_t>() == align_of::<EmbeddedBarrier<16>>());

/// This process's part of a barrier; seats keep it, also when it is closed.
struct Handle(Arc<Barrier>);

impl Primitive for Handle {
    type Words = outlive_barrier_t;
    const KIND: Kind = Kind::Barrier;
    fast_table!();
    fn at(untyped: &Untyped, offset: usize) -> Option<Handle> {
        Some(Handle(Arc::new(untyped.barrier(offset)?)))
    }
}

held_by_thread!(OwnedSeat, Barrier, OwnedSeat::barrier);

/// A participant's death breaks the barrier.
pub const OUTLIVE_DEATH_BREAKS: u32 = 1;
/// A participant that dies is counted out, and the others go on.
pub const OUTLIVE_DEATH_COUNTS_OUT: u32 = 2;

fn policy(number: u32) -> Result<Option<WhenOneDies>, Failure> {
    match number {
        0 => Ok(None),
        OUTLIVE_DEATH_BREAKS => Ok(Some(WhenOneDies::Break)),
        OUTLIVE_DEATH_COUNTS_OUT => Ok(Some(WhenOneDies::CountOut)),
        _ => Err(Failure::new(libc::EINVAL, "none of the OUTLIVE_DEATH numbers")),
    }
}

/// Opens the barrier of that name, or makes it, for so many participants, 1 to 65,536.
/// `when_one_dies`: OUTLIVE_DEATH_BREAKS or OUTLIVE_DEATH_COUNTS_OUT; 0: what an existing barrier
/// has, and in a new one as OUTLIVE_DEATH_BREAKS. With OUTLIVE_OPEN, and both of them 0: whatever
/// it was made with.
///
/// Owner: `*barrier` is in shared memory, mapped until `outlive_barrier_close`.
///
/// Errors: see `outlive_opening_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_barrier_open(
    domain: *const outlive_domain_t,
    name: *const c_char,
    how: MaybeUninit<outlive_opening_t>,
    parties: u32,
    when_one_dies: u32,
    barrier: *mut *mut outlive_barrier_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `barrier`, a live domain, and a NUL-terminated
        // name.
        let naming = unsafe { naming(domain, name, how, barrier) }?;
        let mut options = Barrier::options(parties);
        let policy = policy(when_one_dies)?;
        if let Some(policy) = policy {
            options = options.when_one_dies(policy);
        }
        let barrier = if parties == 0 && policy.is_none() && naming.opening == Opening::Open {
            Barrier::open(naming.domain, naming.name)
        } else {
            open_as!(options, naming)
        }?;
        naming.out.put(place::open(Untyped::of(&barrier)?).cast());
        Ok(())
    })
}

/// Sets, in a record's initialiser, what a participant's death does, as in `outlive_barrier_open`.
/// Without this call a death breaks the barrier.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_barrier_init(
    barrier: *mut outlive_barrier_t,
    when_one_dies: u32,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live barrier that no other thread uses.
        let at = unsafe { borrow_mut(barrier, "a barrier") }?;
        let policy = policy(when_one_dies)?.unwrap_or_default();
        // SAFETY: the C caller passes a barrier of a new record, which no other process sees yet.
        unsafe { Untyped::set_policy(core::ptr::from_mut(at).cast(), policy) };
        Ok(())
    })
}

/// Closes this opening of a named barrier: its address is invalid from then on. Seats that threads
/// took by it stay theirs until they end. Passing NULL, or what is not an opened named barrier, has
/// no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_barrier_close(barrier: *mut outlive_barrier_t) {
    entry(|| place::close(barrier.cast(), Kind::Barrier));
}

/// Takes a seat for the calling thread, which participates from now on.
///
/// Errors: EUSERS: all seats are taken. OUTLIVE_BROKEN, EINVAL, ENOSPC.
///
/// If a process dies with a seat, the barrier breaks, or the dead thread is counted out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_barrier_join(barrier: *const outlive_barrier_t) -> c_int {
    entry(|| {
        held::keep(find::<Handle>(barrier)?.0.join_owned()?);
        Ok(())
    })
}

fn last_seat(barrier: *const outlive_barrier_t) -> Result<OwnedSeat, Failure> {
    held::take(&find::<Handle>(barrier)?.0)
}

/// Gives up the calling thread's seat: the others go on without it.
///
/// Errors: EPERM: it has none. EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_barrier_leave(barrier: *const outlive_barrier_t) -> c_int {
    entry(|| {
        drop(last_seat(barrier)?);
        Ok(())
    })
}

/// What a participant is told when a phase has begun.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct outlive_turn_t {
    /// The participant's number, from 0 to parties - 1, which no other participant of the phase
    /// has: that of its seat, the same in each phase.
    pub index: u32,
    /// 1 for one participant of the phase, 0 for the others.
    pub leader: u32,
}

fn put_turn(place: Option<Out<outlive_turn_t>>, turn: BarrierWaitResult) {
    if let Some(place) = place {
        let index = turn.index() as u32;
        place.put(outlive_turn_t { index, leader: u32::from(turn.is_leader()) });
    }
}

/// Arrives at the barrier, and waits until all participants have, or until the deadline. `*turn`
/// (may be NULL): the participant's number, and whether it is the leader.
///
/// Errors: OUTLIVE_BROKEN: a participant died, or the barrier was aborted or reset
/// (`outlive_barrier_repair`, `outlive_barrier_reset`). ETIMEDOUT, also with OUTLIVE_TRY: the
/// arrival counts; wait again, or break the barrier (`outlive_barrier_abort_wait`). EPERM: this
/// thread has not joined. EINVAL.
///
/// If a process dies that has not arrived yet, its death ends the wait at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_barrier_wait(
    barrier: *const outlive_barrier_t,
    deadline: outlive_deadline_t,
    turn: *mut outlive_turn_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes NULL or a place for `turn`.
        let place = unsafe { out_or_none(turn) };
        // Not borrowed from the list during the wait.
        let mut seat = last_seat(barrier)?;
        let turn = match moment(deadline) {
            Some(moment) => seat.wait_until(moment),
            None => seat.try_wait(),
        };
        held::keep(seat);
        // Without a deadline too, because the arrival counts and a wait goes on with it.
        put_turn(place, turn?.ok_or(WaitError::TimedOut)?);
        Ok(())
    })
}

/// Breaks the phase in which the calling thread has arrived and which it has not passed
/// (ETIMEDOUT). If all have arrived meanwhile, nothing is broken: 0, and `*turn` (may be NULL) as
/// from `outlive_barrier_wait`. If the thread has not arrived, this breaks the barrier as
/// `outlive_barrier_abort` does.
///
/// Errors: OUTLIVE_BROKEN: it is broken now. EPERM: this thread has not joined. EINVAL.
///
/// If a process dies during the call, nothing has happened, or no participant waits on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_barrier_abort_wait(
    barrier: *const outlive_barrier_t,
    turn: *mut outlive_turn_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes NULL or a place for `turn`.
        let place = unsafe { out_or_none(turn) };
        let mut seat = last_seat(barrier)?;
        let turn = seat.abort();
        held::keep(seat);
        put_turn(place, turn?);
        Ok(())
    })
}

/// Breaks the barrier for all participants, until it is reset or repaired. Any thread may call it,
/// joined or not.
///
/// Errors: EINVAL.
///
/// If a process dies during the call, nothing has happened, or no participant waits on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_barrier_abort(barrier: *const outlive_barrier_t) -> c_int {
    entry(|| {
        find::<Handle>(barrier)?.0.abort();
        Ok(())
    })
}

/// Makes the barrier empty and whole: participants that wait get OUTLIVE_BROKEN, the dead lose
/// their seats, the living keep theirs and begin a new phase.
///
/// Errors: ETIMEDOUT: another thread that resets or repairs it is stopped. EINVAL.
///
/// If a process dies during the call, nothing has happened, or the next participant that arrives
/// ends the reset.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_barrier_reset(
    barrier: *const outlive_barrier_t,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| Ok(find::<Handle>(barrier)?.0.reset_until(moment_or_past(deadline))?))
}

/// What a barrier is like just now.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct outlive_barrier_state_t {
    /// How many participants it has seats for.
    pub parties: u32,
    /// How many participants have arrived and wait for the others; 0 when it is broken.
    pub waiting: u32,
    /// 1: broken, by a death or an abort.
    pub broken: u32,
}

/// Says what the barrier is like just now.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_barrier_state(
    barrier: *const outlive_barrier_t,
    state: *mut outlive_barrier_state_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `state`.
        let place = unsafe { out(state) }?;
        let barrier = &find::<Handle>(barrier)?.0;
        place.put(outlive_barrier_state_t {
            parties: barrier.parties() as u32,
            waiting: barrier.arrived() as u32,
            broken: u32::from(barrier.is_broken()),
        });
        Ok(())
    })
}

/// Makes a broken barrier whole: the dead lose their seats, which others may take; the living keep
/// theirs and begin a new phase. A barrier that is not broken stays as it is. Any number of
/// participants may call it at once.
///
/// Errors: ETIMEDOUT: another thread that repairs it is stopped. EINVAL.
///
/// If a process dies during the call, the barrier is still broken, or whole.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_barrier_repair(
    barrier: *const outlive_barrier_t,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| Ok(find::<Handle>(barrier)?.0.repair_until(moment_or_past(deadline))?))
}
