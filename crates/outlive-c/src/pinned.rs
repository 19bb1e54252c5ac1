//! Topics whose payloads a GPU reads and writes where they lie: the rest of `outlive_gpu.h`. doc/protocols/gpu.md has the argument.

use std::ffi::c_int;
use std::ops::Range;
use std::ptr::NonNull;

use outlive::topic::Sample;
use outlive_gpu::{Error, PinnedLoan, PinnedPublisher, PinnedSample, PinnedTopic};

use crate::argument::{borrow, borrow_mut, handle_out};
use crate::code::{Failure, entry, entry_or};
use crate::deadline::{OUTLIVE_TRY, moment_or_past, outlive_deadline_t};
use crate::domain::close;
use crate::gpu::{outlive_gpu_stream_t, outlive_gpu_t};
use crate::topic::{outlive_header_t, outlive_sample_t, outlive_topic_t};

/// A topic whose payload memory one GPU reads and writes where it lies. May be used by all threads at once.
pub struct outlive_pinned_topic_t(PinnedTopic);

/// A publisher whose loans a GPU writes. May be used by all threads at once.
pub struct outlive_pinned_publisher_t(PinnedPublisher);

/// Memory for one message, to be written by a GPU. Used by one thread at a time.
pub struct outlive_pinned_loan_t(PinnedLoan);

/// A sample that a GPU reads. May be used by all threads at once.
pub struct outlive_pinned_sample_t {
    pinned: PinnedSample,
    /// The handle that it was made from, to be looked at.
    sample: *const outlive_sample_t,
}

/// Makes a topic one for that GPU: memory of it is registered with the driver when a copy first goes there, and stays so until this, its
/// publishers and samples are closed and all copies over. Once for each topic that is open, which may be closed before it. Others may publish and
/// subscribe without a GPU.
///
/// Owner: `*pinned` is the caller's, until `outlive_pinned_topic_close`.
///
/// Errors: EINVAL.
///
/// If a process dies: what its device was about to write is never published; its memory is the next publisher's once the kernel has closed the
/// driver's files.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pinned_topic_open(
    gpu: *const outlive_gpu_t,
    topic: *const outlive_topic_t,
    pinned: *mut *mut outlive_pinned_topic_t,
) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        let (out, gpu, topic) = unsafe { (handle_out(pinned)?, borrow(gpu, "a GPU")?, borrow(topic, "a topic")?) };
        out.put(Box::into_raw(Box::new(outlive_pinned_topic_t(PinnedTopic::new(&gpu.gpu, topic.0.clone())))));
        Ok(())
    })
}

/// Lets go of a topic; does not wait for copies. What is registered goes with the last of its ends and copies. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pinned_topic_close(topic: *mut outlive_pinned_topic_t) {
    // SAFETY: as the header asks of the caller.
    unsafe { close(topic) }
}

/// Waits, until the deadline, until all of this process's copies are over, their samples let go of, and what was due published. A program that
/// ends before leaves what was due unpublished.
///
/// Errors: ETIMEDOUT. OUTLIVE_DRIVER: the context has an error; then some are never over. EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pinned_topic_wait_over(
    topic: *const outlive_pinned_topic_t,
    deadline: outlive_deadline_t,
) -> c_int {
    // SAFETY: as the header asks of the caller.
    entry(|| Ok(unsafe { borrow(topic, "a topic") }?.0.wait_over(moment_or_past(deadline))?))
}

/// A new publisher: one of the topic's 62.
///
/// Owner: `*publisher` is the caller's, until `outlive_pinned_publisher_close`.
///
/// Errors: EUSERS, ENOSPC, EINVAL, OUTLIVE_DAMAGED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pinned_topic_publisher(
    topic: *const outlive_pinned_topic_t,
    publisher: *mut *mut outlive_pinned_publisher_t,
) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        let (out, topic) = unsafe { (handle_out(publisher)?, borrow(topic, "a topic")?) };
        out.put(Box::into_raw(Box::new(outlive_pinned_publisher_t(topic.0.publisher()?))));
        Ok(())
    })
}

/// Drops a publisher. What is due is published all the same, its loans may be used still, and its place in the topic is given up with the last of them. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pinned_publisher_close(publisher: *mut outlive_pinned_publisher_t) {
    // SAFETY: as the header asks of the caller.
    unsafe { close(publisher) }
}

/// Lends memory for a message of `size` bytes, from 0 to 1 GiB. Its bytes are not defined.
///
/// Owner: `*loan` is the caller's, until `outlive_pinned_publisher_publish_on` or `outlive_pinned_loan_drop`.
///
/// Errors: as `outlive_publisher_loan`.
///
/// If a process dies: its loans are free again, once no device can be writing there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pinned_publisher_loan(
    publisher: *const outlive_pinned_publisher_t,
    size: usize,
    loan: *mut *mut outlive_pinned_loan_t,
) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        let (out, publisher) = unsafe { (handle_out(loan)?, borrow(publisher, "a publisher")?) };
        out.put(Box::into_raw(Box::new(outlive_pinned_loan_t(publisher.0.loan(size)?))));
        Ok(())
    })
}

/// What is to go with a loan.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pinned_loan_set_header(
    loan: *mut outlive_pinned_loan_t,
    header: *const outlive_header_t,
) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        let (loan, header) = unsafe { (borrow_mut(loan, "a loan")?, borrow(header, "a header")?) };
        loan.0.set_header(header.to_rust());
        Ok(())
    })
}

/// A part, if there can be one that ends so.
fn part(offset: usize, size: usize) -> Result<Range<usize>, Failure> {
    let end = offset.checked_add(size);
    end.map(|end| offset..end).ok_or_else(|| Failure::new(libc::EINVAL, "an offset and a size that no message has"))
}

/// Copies `size` bytes from the device, `from` being a `CUdeviceptr`, into the loan at `offset`, behind what is on the stream: one asynchronous copy.
/// What is at `from` stays as it is until that is over.
///
/// Errors: EINVAL: also a part that is not inside the loan. EBUSY: the stream is captured into a graph. OUTLIVE_DRIVER.
///
/// If a process dies: the memory is used again once no device can be writing there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pinned_loan_copy_from_device(
    loan: *mut outlive_pinned_loan_t,
    offset: usize,
    size: usize,
    from: u64,
    stream: *const outlive_gpu_stream_t,
) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        let (loan, stream) = unsafe { (borrow_mut(loan, "a loan")?, borrow(stream, "a stream")?) };
        // SAFETY: as above.
        Ok(unsafe { loan.0.copy_part_from_device(part(offset, size)?, from, &stream.0) }?)
    })
}

/// Gives a loan back unpublished; it is used again once all copies into it are over. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pinned_loan_drop(loan: *mut outlive_pinned_loan_t) {
    // SAFETY: as the header asks of the caller.
    unsafe { close(loan) }
}

/// Publishes a loan when the stream has got to where it is now; returns at once. Copies into it on other streams are waited for, too.
/// Messages that are due on one stream are published in order. It waits, until the deadline, only for reliable subscribers that
/// have not taken what lies in the way of all that are due.
///
/// Owner: the loan is used up, whatever comes of it.
///
/// Errors: EBUSY: the stream is captured into a graph. ETIMEDOUT; EAGAIN with OUTLIVE_TRY: such a subscriber lives and has not taken it. OUTLIVE_DRIVER;
/// those of `outlive_publisher_publish` with what became of a message that was due before. Nothing will be published then.
///
/// If a process dies: before the stream has got there, the message is never seen.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pinned_publisher_publish_on(
    publisher: *const outlive_pinned_publisher_t,
    loan: *mut outlive_pinned_loan_t,
    stream: *const outlive_gpu_stream_t,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        let loan = core::ptr::from_mut(unsafe { borrow_mut(loan, "a loan") }?);
        // SAFETY: a box's; it is used up.
        let outlive_pinned_loan_t(loan) = *unsafe { Box::from_raw(loan) };
        // SAFETY: as above.
        let (publisher, stream) = unsafe { (borrow(publisher, "a publisher")?, borrow(stream, "a stream")?) };
        let due = publisher.0.publish_on_until(loan, &stream.0, moment_or_past(deadline));
        due.map_err(|error| match error {
            Error::TimedOut if deadline == OUTLIVE_TRY => Failure::new(
                libc::EAGAIN,
                "a reliable subscriber has not taken what lies in the way; wait, or try later",
            ),
            other => other.into(),
        })
    })
}

/// Waits, until the deadline, until all messages that are due have been published.
///
/// Errors: ETIMEDOUT, OUTLIVE_DRIVER, EINVAL; those of `outlive_publisher_publish` with what became of one that was due.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pinned_publisher_wait_published(
    publisher: *const outlive_pinned_publisher_t,
    deadline: outlive_deadline_t,
) -> c_int {
    // SAFETY: as the header asks of the caller.
    entry(|| Ok(unsafe { borrow(publisher, "a publisher") }?.0.wait_published(moment_or_past(deadline))?))
}

/// How many messages are due. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pinned_publisher_due(publisher: *const outlive_pinned_publisher_t) -> u64 {
    // SAFETY: as the header asks of the caller.
    entry_or(0, || Ok(unsafe { borrow(publisher, "a publisher") }?.0.due()))
}

/// Makes a sample one that the GPU reads. It was taken by a subscriber of the topic that `topic` was made from; one of the same topic opened once
/// more lies elsewhere, and its copies go by the driver's own buffers.
///
/// Owner: `sample` is used up, whatever comes of it. `*pinned` is the caller's, until `outlive_pinned_sample_release`.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pinned_topic_sample(
    topic: *const outlive_pinned_topic_t,
    sample: *mut outlive_sample_t,
    pinned: *mut *mut outlive_pinned_sample_t,
) -> c_int {
    entry(|| {
        let handle = NonNull::new(sample);
        // SAFETY: as the header asks of the caller: of `outlive_subscriber_recv` or the like; used up.
        let taken = handle.map(|handle| unsafe { Sample::<[u8]>::from_raw(handle.cast()) });
        // SAFETY: as above.
        let (out, topic) = unsafe { (handle_out(pinned)?, borrow(topic, "a topic")?) };
        let taken = taken.ok_or_else(|| Failure::new(libc::EINVAL, "NULL in place of a sample"))?;
        out.put(Box::into_raw(Box::new(outlive_pinned_sample_t { pinned: topic.0.pinned(taken), sample })));
        Ok(())
    })
}

/// The sample as any: for `outlive_sample_data`, `outlive_sample_size`, `outlive_sample_header` and the like, not to be released. NULL for NULL.
///
/// Owner: the pinned sample.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pinned_sample_get(sample: *const outlive_pinned_sample_t) -> *const outlive_sample_t {
    // SAFETY: as the header asks of the caller.
    entry_or(core::ptr::null(), || Ok(unsafe { borrow(sample, "a sample") }?.sample))
}

/// Copies `size` bytes of the message from `offset` on to the device, `to` being a `CUdeviceptr`, behind what is on the stream: one asynchronous copy. The message is
/// held until that is over, also if it is released before.
///
/// Errors: EINVAL: also a part that is not inside the message. EBUSY: the stream is captured into a graph. OUTLIVE_DRIVER.
///
/// If a process dies: what it held is let go of once it has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pinned_sample_copy_to_device(
    sample: *const outlive_pinned_sample_t,
    offset: usize,
    size: usize,
    to: u64,
    stream: *const outlive_gpu_stream_t,
) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        let (sample, stream) = unsafe { (borrow(sample, "a sample")?, borrow(stream, "a stream")?) };
        // SAFETY: as above.
        Ok(unsafe { sample.pinned.copy_part_to_device(part(offset, size)?, to, &stream.0) }?)
    })
}

/// Lets go of a sample: its memory can be used again once all copies of it are over. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pinned_sample_release(sample: *mut outlive_pinned_sample_t) {
    // SAFETY: as the header asks of the caller.
    unsafe { close(sample) }
}
