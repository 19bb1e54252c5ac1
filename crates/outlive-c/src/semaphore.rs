//! Semaphores, by name or inside a record: their permits belong to threads.

use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::sync::Arc;

use outlive::sync::{
    AcquireError, EmbeddedSemaphore, OwnedPermit, Semaphore, SemaphoreOptions, Untyped,
};
use outlive::{Kind, Opening};

use crate::argument::{borrow_mut, out_or_none};
use crate::code::{Failure, entry, entry_or};
use crate::deadline::{in_time, moment, outlive_deadline_t};
use crate::domain::{give_holders, id, outlive_domain_t, outlive_peer_info_t};
use crate::held::{self, held_by_thread};
use crate::opening::{naming, open_as, outlive_opening_t};
use crate::place::{self, Primitive, fast_table, find};

/// A semaphore in shared memory: a number of permits; a thread that dies gives its own back.
///
/// It is a named one, or the beginning of a struct in a record in which the permits follow:
/// `OUTLIVE_SEMAPHORE_OF(3) slots;`, listed as a place by `OUTLIVE_SEMAPHORE_PLACE`, used as
/// `&line->slots.semaphore`. All zeroes are a semaphore whose permits are all free
/// (`outlive_semaphore_init`). It is used by its address, and never copied; a permit belongs to the
/// thread that took it.
#[repr(C, align(64))]
pub struct outlive_semaphore_t {
    words: [u32; 16],
}

// The permits of `OUTLIVE_SEMAPHORE_OF` lie where Rust's do.
const _: () =
    assert!(size_of::<outlive_semaphore_t>() + 16 * 4 == size_of::<EmbeddedSemaphore<16>>());
const _: () = assert!(align_of::<outlive_semaphore_t>() == align_of::<EmbeddedSemaphore<16>>());

/// This process's part of a semaphore; permits keep it, also when it is closed.
struct Handle(Arc<Semaphore>);

impl Primitive for Handle {
    type Words = outlive_semaphore_t;
    const KIND: Kind = Kind::Semaphore;
    fast_table!();
    fn at(untyped: &Untyped, offset: usize) -> Option<Handle> {
        Some(Handle(Arc::new(untyped.semaphore(offset)?)))
    }
}

held_by_thread!(OwnedPermit, Semaphore, OwnedPermit::semaphore);

/// Opens the semaphore of that name, or makes it with so many permits. `max_permits`: how many
/// there may be at a time, of 65,536, if `outlive_semaphore_add` adds some; 0: as many as an
/// existing semaphore has, and in a new one no more than `permits`. `permits` 0, with OUTLIVE_OPEN:
/// whatever number it began with.
///
/// Owner: `*semaphore` is in shared memory, mapped until `outlive_semaphore_close`.
///
/// Errors: see `outlive_opening_t`.
///
/// If a process dies, its permits are free at once, and the death itself wakes a thread that sleeps
/// for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_semaphore_open(
    domain: *const outlive_domain_t,
    name: *const c_char,
    how: MaybeUninit<outlive_opening_t>,
    permits: u32,
    max_permits: u32,
    semaphore: *mut *mut outlive_semaphore_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `semaphore`, a live domain, and a NUL-terminated
        // name.
        let naming = unsafe { naming(domain, name, how, semaphore) }?;
        let mut options = match permits {
            0 if naming.opening == Opening::Open => SemaphoreOptions::default(),
            permits => Semaphore::options(permits),
        };
        if max_permits != 0 {
            options = options.max_permits(max_permits);
        }
        let semaphore = open_as!(options, naming)?;
        naming.out.put(place::open(Untyped::of(&semaphore)?).cast());
        Ok(())
    })
}

/// Sets, in a record's initialiser, how many of the permits are free at first: `permits` of
/// `max_permits`, for which the struct and its place have room. Without this call all are free.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_semaphore_init(
    semaphore: *mut outlive_semaphore_t,
    permits: u32,
    max_permits: u32,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live semaphore that no other thread uses.
        let at = unsafe { borrow_mut(semaphore, "a semaphore") }?;
        if max_permits == 0 || max_permits > 1 << 16 || permits > max_permits {
            return Err(Failure::new(
                libc::EINVAL,
                "a semaphore has room for 1 to 65,536 permits, and no more than fit",
            ));
        }
        // SAFETY: the C caller passes a semaphore of a new record with room for `max_permits`,
        // which no other process sees yet.
        unsafe { Untyped::set_permits(core::ptr::from_mut(at).cast(), max_permits, permits) };
        Ok(())
    })
}

/// Closes this opening of a named semaphore: its address is invalid from then on. Permits that
/// threads hold by it stay theirs until they end. Passing NULL, or what is not an opened named
/// semaphore, has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_semaphore_close(semaphore: *mut outlive_semaphore_t) {
    entry(|| place::close(semaphore.cast(), Kind::Semaphore));
}

/// Takes a permit, waiting for one until the deadline. `*index` (may be NULL): its number, from 0
/// on; no two holders have the same.
///
/// Errors: ETIMEDOUT; EAGAIN with OUTLIVE_TRY. EDEADLK: this thread holds all permits. EINVAL,
/// EUSERS, ENOSPC.
///
/// If a holder dies, its permit is free at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_semaphore_acquire(
    semaphore: *const outlive_semaphore_t,
    deadline: outlive_deadline_t,
    index: *mut u32,
) -> c_int {
    // SAFETY: the C caller passes NULL or a place for `index`.
    entry(|| unsafe {
        keep_permit(semaphore, deadline, index, |semaphore, moment| match moment {
            Some(moment) => semaphore.acquire_owned_until(moment),
            None => semaphore.try_acquire_owned(),
        })
    })
}

/// Takes so many permits, all or none, waiting for them until the deadline. Threads that want
/// several have their turns one after the other, in no particular order; the one whose turn it is
/// keeps what it gets until it has all, so all need not be free at one moment. `indexes` (may be
/// NULL) has room for their numbers.
///
/// Errors: ETIMEDOUT; EAGAIN with OUTLIVE_TRY. EDEADLK: this thread holds so many that the others
/// would not be enough. EOVERFLOW: there may never be so many. OUTLIVE_DAMAGED, EINVAL, EUSERS,
/// ENOSPC.
///
/// If the caller dies in the call, all permits that it had by then are free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_semaphore_acquire_many(
    semaphore: *const outlive_semaphore_t,
    permits: u32,
    deadline: outlive_deadline_t,
    indexes: *mut u32,
) -> c_int {
    entry(|| {
        let semaphore = &find::<Handle>(semaphore)?.0;
        let got = match moment(deadline) {
            Some(moment) => semaphore.acquire_many_owned_until(permits as usize, moment),
            None => semaphore.try_acquire_many_owned(permits as usize),
        };
        let got = got.map_err(overflow)?;
        for (n, permit) in in_time(got, deadline, libc::EAGAIN)?.into_iter().enumerate() {
            if !indexes.is_null() {
                // SAFETY: the C caller passes NULL or room for `permits` numbers, and there are as
                // many permits.
                unsafe { indexes.add(n).write(permit.index() as u32) };
            }
            held::keep(permit);
        }
        Ok(())
    })
}

/// Returns the failure of that error; of a barrier `Full` is EUSERS.
fn overflow(error: AcquireError) -> Failure {
    match error {
        AcquireError::Full => Failure::new(libc::EOVERFLOW, &error.to_string()),
        other => other.into(),
    }
}

/// Keeps a permit for the thread.
///
/// # Safety
/// The C caller guarantees what `outlive_semaphore_acquire` asks for.
unsafe fn keep_permit(
    semaphore: *const outlive_semaphore_t,
    deadline: outlive_deadline_t,
    index: *mut u32,
    get: impl FnOnce(
        &Arc<Semaphore>,
        Option<outlive::Deadline>,
    ) -> Result<Option<OwnedPermit>, AcquireError>,
) -> Result<(), Failure> {
    // SAFETY: the C caller passes NULL or a place for `index`.
    let index = unsafe { out_or_none(index) };
    let got = get(&find::<Handle>(semaphore)?.0, moment(deadline))?;
    let permit = in_time(got, deadline, libc::EAGAIN)?;
    if let Some(index) = index {
        index.put(permit.index() as u32);
    }
    held::keep(permit);
    Ok(())
}

fn last_permit(semaphore: *const outlive_semaphore_t) -> Result<OwnedPermit, Failure> {
    held::take(&find::<Handle>(semaphore)?.0)
}

/// Gives back the permit that this thread took last.
///
/// Errors: EPERM: this thread has none. EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_semaphore_release(semaphore: *const outlive_semaphore_t) -> c_int {
    entry(|| {
        drop(last_permit(semaphore)?);
        Ok(())
    })
}

/// Gives back the permits that this thread took last, so many.
///
/// Errors: EPERM: this thread has fewer; it keeps them. EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_semaphore_release_many(
    semaphore: *const outlive_semaphore_t,
    permits: u32,
) -> c_int {
    entry(|| {
        let semaphore = &find::<Handle>(semaphore)?.0;
        let mut taken = Vec::new();
        while taken.len() < permits as usize {
            match held::take::<OwnedPermit>(semaphore) {
                Ok(permit) => taken.push(permit),
                Err(failure) => {
                    // The last one taken is the last again.
                    taken.into_iter().rev().for_each(held::keep);
                    return Err(failure);
                }
            }
        }
        Ok(())
    })
}

/// Consumes the permit that this thread took last: there is one less, until a thread adds one. So a
/// semaphore counts items that one process produces and another consumes.
///
/// Errors: EPERM: this thread has none. EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_semaphore_consume(semaphore: *const outlive_semaphore_t) -> c_int {
    entry(|| {
        last_permit(semaphore)?.consume();
        Ok(())
    })
}

/// Hands the permit that this thread took last to another thread, or process: to the owner of
/// `token`, which takes it by `outlive_semaphore_take_up`. It does so in one atomic step: the
/// permit is never free meanwhile.
///
/// Errors: EPERM: this thread has none. EINVAL, also for a number that is no token.
///
/// If the receiver of the permit dies, before or after taking it, the permit is free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_semaphore_hand_to(
    semaphore: *const outlive_semaphore_t,
    token: u32,
) -> c_int {
    entry(|| {
        let to = id(token)?;
        last_permit(semaphore)?.hand_to(to);
        Ok(())
    })
}

/// Takes a permit that another thread handed to this thread or its process, waiting for one until
/// the deadline. `*index` (may be NULL): its number.
///
/// Errors: ETIMEDOUT; EAGAIN with OUTLIVE_TRY. EINVAL, EUSERS, ENOSPC.
///
/// If the thread dies that ought to hand one over, this call does not learn of it: use a deadline.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_semaphore_take_up(
    semaphore: *const outlive_semaphore_t,
    deadline: outlive_deadline_t,
    index: *mut u32,
) -> c_int {
    // SAFETY: the C caller passes NULL or a place for `index`.
    entry(|| unsafe {
        keep_permit(semaphore, deadline, index, |semaphore, moment| match moment {
            Some(moment) => semaphore.take_up_owned_until(moment),
            None => semaphore.try_take_up_owned(),
        })
    })
}

/// Adds a permit.
///
/// Errors: EOVERFLOW: there are as many permits as there may be. EINVAL.
///
/// If a process dies during the call, the permit is added or not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_semaphore_add(semaphore: *const outlive_semaphore_t) -> c_int {
    entry(|| find::<Handle>(semaphore)?.0.add_permit().map_err(overflow))
}

/// Returns how many permits no thread holds now. 0 for what is no semaphore.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_semaphore_available_permits(
    semaphore: *const outlive_semaphore_t,
) -> u32 {
    entry_or(0, || Ok(find::<Handle>(semaphore)?.0.available_permits() as u32))
}

/// Writes the present holders of permits to `infos`, as many as fit; `*count` is how many there
/// are.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_semaphore_holders(
    semaphore: *const outlive_semaphore_t,
    infos: *mut outlive_peer_info_t,
    capacity: usize,
    count: *mut usize,
) -> c_int {
    // SAFETY: the C caller passes room for `capacity` entries at `infos`, and a place for `count`.
    entry(|| unsafe {
        give_holders(&find::<Handle>(semaphore)?.0.holders(), infos, capacity, count)
    })
}
