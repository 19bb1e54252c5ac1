//! Job queues: many producers, many workers; a killed worker's job goes to another.

use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;

use outlive::jobs::{Job, JobQueue};

use crate::argument::{borrow, bytes, fill, handle_out, options, out, out_or_none};
use crate::code::{Failure, entry, entry_or};
use crate::deadline::{in_time, moment, moment_or_past, outlive_deadline_t};
use crate::domain::{close, outlive_domain_t};
use crate::opening::{naming, open_as_bytes, outlive_opening_t};
use crate::wait::wait_option;

/// A job queue, open in this process. All threads may use it at once.
pub struct outlive_job_queue_t(pub(crate) JobQueue);

/// A job that this process has taken, with a copy of its data. One thread at a time may use it.
pub struct outlive_job_t(Job);

/// In `max_attempts`: a job may be taken for ever.
pub const OUTLIVE_NO_LIMIT: u32 = u32::MAX;

/// Options for opening or making a job queue. Begin with `OUTLIVE_JOB_QUEUE_OPTIONS_INIT`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct outlive_job_queue_options_t {
    /// `sizeof(outlive_job_queue_options_t)`.
    pub size: usize,
    /// How many jobs it holds at most, waiting, taken and set aside together, 1 to 65,536. A new
    /// job queue's default: 1,024.
    pub max_jobs: u32,
    /// The most bytes of a job, 1 to 16 MiB. A new job queue's default: 4,096.
    pub job_bytes: u32,
    /// How often a job is taken before it is set aside, 1 to 1,000, or OUTLIVE_NO_LIMIT. A new job
    /// queue's default: 5.
    pub max_attempts: u32,
    /// How this process waits: one of the OUTLIVE_WAIT numbers.
    pub wait: u32,
}

/// Counts the jobs of a queue. Exact when it is quiet. Its size never changes.
#[repr(C)]
pub struct outlive_job_counts_t {
    /// Jobs to be taken, those of dead workers included.
    pub waiting: u32,
    /// Jobs that living workers have.
    pub taken: u32,
    /// Jobs that are set aside.
    pub set_aside: u32,
    /// Jobs that are being put.
    pub being_put: u32,
    /// Jobs that have ever been put.
    pub put: u64,
    /// 0.
    pub reserved: [u64; 5],
}

/// Describes a job that is set aside. Its size never changes.
#[repr(C)]
pub struct outlive_set_aside_t {
    /// The job's number, for `outlive_job_queue_retry`.
    pub id: u64,
    /// The bytes of its data.
    pub size: usize,
    /// How often it was taken.
    pub attempts: u32,
    /// 1: a stray write has damaged the job's length; its data is what lies in its place. Such a
    /// job can be discarded; each worker that takes it gets OUTLIVE_DAMAGED.
    pub is_damaged: u8,
    /// 0.
    pub reserved: [u8; 3],
    /// 0.
    pub reserved2: [u64; 2],
}

/// Opens the job queue of that name, or makes it. `options` NULL: none is set. Jobs are bytes.
///
/// Owner: `*queue` is the caller's, until `outlive_job_queue_close`. Jobs may outlive it.
///
/// Errors: see `outlive_opening_t`.
///
/// If a process dies, the jobs that it has put stay, and those that it has taken go to others.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_job_queue_open(
    domain: *const outlive_domain_t,
    name: *const c_char,
    how: MaybeUninit<outlive_opening_t>,
    options: *const outlive_job_queue_options_t,
    queue: *mut *mut outlive_job_queue_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `queue`, a live domain, and a NUL-terminated
        // name.
        let naming = unsafe { naming(domain, name, how, queue) }?;
        let default = outlive_job_queue_options_t {
            size: 0,
            max_jobs: 0,
            job_bytes: 0,
            max_attempts: 0,
            wait: 0,
        };
        // SAFETY: the C caller passes NULL or options of the size that they say; all fields are
        // integers.
        let given = unsafe { self::options(options, default) }?;
        let mut options = JobQueue::options();
        if let Some(wait) = wait_option(given.wait)? {
            options = options.wait_strategy(wait);
        }
        if given.max_jobs > 0 {
            options = options.max_jobs(given.max_jobs);
        }
        if given.job_bytes > 0 {
            options = options.job_bytes(given.job_bytes);
        }
        match given.max_attempts {
            0 => {}
            OUTLIVE_NO_LIMIT => options = options.max_attempts(0),
            attempts => options = options.max_attempts(attempts),
        }
        let opened = open_as_bytes!(options, naming)?;
        naming.out.put(Box::into_raw(Box::new(outlive_job_queue_t(opened))));
        Ok(())
    })
}

/// Closes a job queue. Its jobs stay. Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_job_queue_close(queue: *mut outlive_job_queue_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(queue) }
}

/// Puts a copy of a job, waiting until the deadline while the queue holds as many as it can. `*id`
/// (may be NULL): the job's number, which no other job of this queue has.
///
/// Errors: ETIMEDOUT; EAGAIN with OUTLIVE_TRY: full. EMSGSIZE: larger than a job may be. EPERM:
/// this process was taken for dead. EINVAL, EUSERS, OUTLIVE_DAMAGED. After an error the job was not
/// put.
///
/// If the process dies: after a return of 0 the job is in the queue and outlives this process; if
/// it dies during the call, the job is there whole, or not at all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_job_queue_put(
    queue: *const outlive_job_queue_t,
    data: *const c_void,
    size: usize,
    deadline: outlive_deadline_t,
    id: *mut u64,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live queue, `size` readable bytes at `data`, and NULL or a
        // place for `id`.
        let (queue, job, out) =
            unsafe { (borrow(queue, "a job queue")?, bytes(data, size)?, out_or_none(id)) };
        let number = match moment(deadline) {
            Some(moment) => queue.0.put_until(job, moment)?,
            None => queue.0.try_put(job)?,
        };
        if let Some(out) = out {
            out.put(number);
        }
        Ok(())
    })
}

/// Takes the next job, waiting for one until the deadline; it may be one that a dead worker had. A
/// job that came back is taken before all that were put after it.
///
/// Owner: `*job` is the caller's, until `outlive_job_done`, `outlive_job_set_aside` or
/// `outlive_job_release`.
///
/// Errors: ETIMEDOUT; EAGAIN with OUTLIVE_TRY: there is none. OUTLIVE_DAMAGED: that job's bytes are
/// damaged, and it is set aside. EINVAL, EUSERS, ENOSPC.
///
/// If the process dies while it has the job, another worker gets it. A stopped process keeps it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_job_queue_take(
    queue: *const outlive_job_queue_t,
    deadline: outlive_deadline_t,
    job: *mut *mut outlive_job_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `job` and a live queue.
        let (out, queue) = unsafe { (handle_out(job)?, borrow(queue, "a job queue")?) };
        let taken = match moment(deadline) {
            Some(moment) => queue.0.take_until(moment)?,
            None => queue.0.try_take()?,
        };
        let job = in_time(taken, deadline, libc::EAGAIN)?;
        out.put(Box::into_raw(Box::new(outlive_job_t(job))));
        Ok(())
    })
}

/// Makes room for `jobs` jobs, and brings it in, so that putting, taking and ending them is neither
/// a page fault nor a system call, as long as no more of them are in the queue at a time, those
/// included that workers have and those that are set aside. Each process of the queue calls it.
///
/// Errors: ENOSPC: more than max_jobs, or the file system has no room for all of them; what was
/// made stays. EINVAL, OUTLIVE_DAMAGED.
///
/// If the process dies, other processes use what was made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_job_queue_prefault(
    queue: *const outlive_job_queue_t,
    jobs: usize,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live queue.
        let queue = unsafe { borrow(queue, "a job queue") }?;
        Ok(queue.0.prefault(jobs)?)
    })
}

/// Waits until all jobs are done or set aside, including those that are put meanwhile.
///
/// Errors: ETIMEDOUT, also with OUTLIVE_TRY. EINVAL, EUSERS.
///
/// If a worker dies, its job is not done: this waits until another worker has done it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_job_queue_join(
    queue: *const outlive_job_queue_t,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live queue.
        let queue = unsafe { borrow(queue, "a job queue") }?;
        Ok(queue.0.join_until(moment_or_past(deadline))?)
    })
}

/// Writes how many jobs are in which state to `*counts`.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_job_queue_counts(
    queue: *const outlive_job_queue_t,
    counts: *mut outlive_job_counts_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live queue and a place for `counts`.
        let (queue, out) = unsafe { (borrow(queue, "a job queue")?, out(counts)?) };
        let found = queue.0.counts();
        out.put(outlive_job_counts_t {
            waiting: found.waiting,
            taken: found.taken,
            set_aside: found.set_aside,
            being_put: found.being_put,
            put: found.put,
            reserved: [0; 5],
        });
        Ok(())
    })
}

/// Describes in `*job` the first job that is set aside and whose number is `from` or more, and
/// copies its data into `buffer`. With the number after the last one's, a loop goes through all.
///
/// Errors: ENOENT: there is none. EMSGSIZE: it does not fit; `job->size` is the room that it needs.
/// EINVAL, OUTLIVE_DAMAGED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_job_queue_set_aside(
    queue: *const outlive_job_queue_t,
    from: u64,
    job: *mut outlive_set_aside_t,
    buffer: *mut c_void,
    capacity: usize,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live queue and a place for `job`.
        let (queue, out) = unsafe { (borrow(queue, "a job queue")?, out(job)?) };
        let found = queue.0.next_set_aside(from)?;
        let found = found.ok_or_else(|| Failure::new(libc::ENOENT, "no such job is set aside"))?;
        out.put(outlive_set_aside_t {
            id: found.id,
            size: found.data.len(),
            attempts: found.attempts,
            is_damaged: u8::from(found.is_damaged),
            reserved: [0; 3],
            reserved2: [0; 2],
        });
        // SAFETY: the C caller passes `capacity` writable bytes at `buffer`.
        unsafe { fill(&found.data, buffer, capacity) }
    })
}

/// Lets the job of that number, which is set aside, be taken again, as if it had never been.
///
/// Errors: ENOENT: it is not set aside. EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_job_queue_retry(
    queue: *const outlive_job_queue_t,
    id: u64,
) -> c_int {
    // SAFETY: the C caller passes a live queue.
    entry(|| found(unsafe { borrow(queue, "a job queue") }?.0.retry(id)))
}

/// Removes the job of that number, which is set aside, for good.
///
/// Errors: ENOENT: it is not set aside. EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_job_queue_discard(
    queue: *const outlive_job_queue_t,
    id: u64,
) -> c_int {
    // SAFETY: the C caller passes a live queue.
    entry(|| found(unsafe { borrow(queue, "a job queue") }?.0.discard(id)))
}

fn found(was: bool) -> Result<(), Failure> {
    if was { Ok(()) } else { Err(Failure::new(libc::ENOENT, "no such job is set aside")) }
}

/// Returns the job's data and writes the number of bytes to `*size`; NULL and 0 when there is no
/// job. They are valid as long as the job is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_job_data(
    job: *const outlive_job_t,
    size: *mut usize,
) -> *const c_void {
    entry_or(core::ptr::null(), || {
        // SAFETY: the C caller passes a live job and a place for `size`.
        let (job, out) = unsafe { (borrow(job, "a job")?, out(size)?) };
        out.put(job.0.len());
        Ok(job.0.as_ptr().cast())
    })
}

/// Returns the job's number, which no other job of its queue has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_job_id(job: *const outlive_job_t) -> u64 {
    // SAFETY: the C caller passes a live job.
    entry_or(0, || Ok(unsafe { borrow(job, "a job") }?.0.id()))
}

/// Returns how often the job has been taken, this time included. More than 1 means that an
/// earlier worker died or gave it back, and may have done a part of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_job_attempts(job: *const outlive_job_t) -> u32 {
    // SAFETY: the C caller passes a live job.
    entry_or(0, || Ok(unsafe { borrow(job, "a job") }?.0.attempts()))
}

/// Acknowledges the job: it is done, and gone. The handle is gone as well, also after an error.
///
/// Errors: EPERM: this process was taken for dead, or is a forked child: another worker may have
/// the job. EINVAL.
///
/// If the process dies during the call, the job is done, or another worker gets it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_job_done(job: *mut outlive_job_t) -> c_int {
    // SAFETY: the C caller passes a live job, which it gives up.
    entry(|| Ok(unsafe { own(job) }?.done()?))
}

/// Sets the job aside, however often it has been taken. The handle is gone, also after an error.
///
/// Errors: as `outlive_job_done`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_job_set_aside(job: *mut outlive_job_t) -> c_int {
    // SAFETY: the C caller passes a live job, which it gives up.
    entry(|| Ok(unsafe { own(job) }?.set_aside()?))
}

/// Gives the job back: it is taken again, before all that were put after it; or it is set aside, if
/// it has been taken as often as allowed. Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_job_release(job: *mut outlive_job_t) {
    // SAFETY: the C caller passes NULL or a live job, which it gives up.
    unsafe { close(job) }
}

/// Takes the job out of its handle.
///
/// # Safety
/// The C caller guarantees NULL or a live job, which it gives up.
unsafe fn own(job: *mut outlive_job_t) -> Result<Job, Failure> {
    // SAFETY: the C caller passes NULL or a live job.
    unsafe { borrow(job, "a job") }?;
    // SAFETY: the library made every handle as a box, and the caller gives this one up.
    Ok(unsafe { Box::from_raw(job) }.0)
}
