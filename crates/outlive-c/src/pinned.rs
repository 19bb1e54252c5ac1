//! Topics whose payloads a GPU reads and writes in place: the rest of `outlive_gpu.h`.
//! doc/protocols/gpu.md has the argument.

use std::ffi::c_int;
use std::ops::Range;
use std::ptr::NonNull;

use outlive::topic::Sample;
use outlive_gpu::{GpuError, PinnedLoan, PinnedPublisher, PinnedSample, PinnedTopic};

use crate::argument::{borrow, borrow_mut, handle_out};
use crate::code::{Failure, entry, entry_or};
use crate::deadline::{OUTLIVE_TRY, moment_or_past, outlive_deadline_t};
use crate::domain::close;
use crate::gpu::{outlive_gpu_stream_t, outlive_gpu_t};
use crate::sample::{outlive_header_t, outlive_sample_t};
use crate::topic::outlive_topic_t;
use crate::topic_options::{outlive_publisher_options_t, publisher_options};

/// A topic whose payload memory one GPU reads and writes in place. All threads may use it at once.
pub struct outlive_pinned_topic_t(PinnedTopic);

/// A publisher whose loans a GPU writes. All threads may use it at once.
pub struct outlive_pinned_publisher_t(PinnedPublisher);

/// Memory for one message, to be written by a GPU. One thread at a time may use it.
pub struct outlive_pinned_loan_t(PinnedLoan);

/// A sample that a GPU reads. All threads may use it at once.
pub struct outlive_pinned_sample_t {
    pinned: PinnedSample,
    /// The sample handle that it was made from, for reading.
    sample: *const outlive_sample_t,
}

/// Makes a topic one for that GPU. Its memory is registered with the driver when a copy first goes
/// there, and stays registered until this handle, its publishers and samples are closed and all
/// copies have completed.
///
/// Call it once for each open topic, which may be closed before it. Other processes may publish and
/// subscribe without a GPU.
///
/// Owner: `*pinned` is the caller's, until `outlive_pinned_topic_close`.
///
/// Errors: EINVAL.
///
/// If the process dies, what its device was about to write is never published; the next publisher
/// gets its memory once the kernel has closed the driver's files.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pinned_topic_open(
    gpu: *const outlive_gpu_t,
    topic: *const outlive_topic_t,
    pinned: *mut *mut outlive_pinned_topic_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `pinned`, a live GPU, and a live topic.
        let (out, gpu, topic) =
            unsafe { (handle_out(pinned)?, borrow(gpu, "a GPU")?, borrow(topic, "a topic")?) };
        out.put(Box::into_raw(Box::new(outlive_pinned_topic_t(PinnedTopic::new(
            &gpu.gpu,
            topic.0.clone(),
        )))));
        Ok(())
    })
}

/// Closes a topic; does not wait for copies. Its memory stays registered until the last of its ends
/// and copies is gone. Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pinned_topic_close(topic: *mut outlive_pinned_topic_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(topic) }
}

/// Waits until the deadline for all of this process's copies to complete, their samples to be
/// released, and what was due to be published. A program that ends before leaves what was due
/// unpublished.
///
/// Errors: ETIMEDOUT. OUTLIVE_DRIVER: the context has an error; then some copies never complete.
/// EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pinned_topic_wait_over(
    topic: *const outlive_pinned_topic_t,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live topic.
        let topic = unsafe { borrow(topic, "a topic") }?;
        Ok(topic.0.wait_over_until(moment_or_past(deadline))?)
    })
}

/// Makes a new publisher: up to `max_publishers` at a time. `options` NULL: none is set.
///
/// Owner: `*publisher` is the caller's, until `outlive_pinned_publisher_close`.
///
/// Errors: EUSERS, ENOSPC, EINVAL, OUTLIVE_DAMAGED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pinned_topic_publisher(
    topic: *const outlive_pinned_topic_t,
    options: *const outlive_publisher_options_t,
    publisher: *mut *mut outlive_pinned_publisher_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `publisher` and a live topic.
        let (out, topic) = unsafe { (handle_out(publisher)?, borrow(topic, "a topic")?) };
        // SAFETY: the C caller passes NULL or options of the size that they say.
        let how = unsafe { publisher_options(options) }?;
        out.put(Box::into_raw(Box::new(outlive_pinned_publisher_t(topic.0.publisher_with(how)?))));
        Ok(())
    })
}

/// Closes a publisher. What is due is published all the same, its loans may still be used, and its
/// place in the topic is given up with the last of them. Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pinned_publisher_close(
    publisher: *mut outlive_pinned_publisher_t,
) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(publisher) }
}

/// Lends memory for a message of `size` bytes, from 0 to 1 GiB. Its contents are arbitrary.
///
/// Owner: `*loan` is the caller's, until `outlive_pinned_publisher_publish_on` or
/// `outlive_pinned_loan_release`.
///
/// Errors: as `outlive_publisher_loan`.
///
/// If the process dies, its loans are free again once no device can be writing there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pinned_publisher_loan(
    publisher: *const outlive_pinned_publisher_t,
    size: usize,
    loan: *mut *mut outlive_pinned_loan_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `loan` and a live publisher.
        let (out, publisher) = unsafe { (handle_out(loan)?, borrow(publisher, "a publisher")?) };
        out.put(Box::into_raw(Box::new(outlive_pinned_loan_t(publisher.0.loan(size)?))));
        Ok(())
    })
}

/// Sets the header that is published with a loan.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pinned_loan_set_header(
    loan: *mut outlive_pinned_loan_t,
    header: *const outlive_header_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live loan that no other thread uses and a readable header.
        let (loan, header) = unsafe { (borrow_mut(loan, "a loan")?, borrow(header, "a header")?) };
        loan.0.set_header(header.to_rust());
        Ok(())
    })
}

/// Returns the range, if its end does not overflow.
fn part(offset: usize, size: usize) -> Result<Range<usize>, Failure> {
    let end = offset.checked_add(size);
    end.map(|end| offset..end)
        .ok_or_else(|| Failure::new(libc::EINVAL, "an offset and a size that no message has"))
}

/// Copies `size` bytes from the device, `from` being a `CUdeviceptr`, into the loan at `offset`:
/// one asynchronous copy, after the work on the stream. The caller leaves what is at `from`
/// unchanged until the copy has completed.
///
/// Errors: EINVAL: also a part that is not inside the loan. EBUSY: the stream is captured into a
/// graph. OUTLIVE_DRIVER.
///
/// If the process dies, the memory is reused once no device can be writing there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pinned_loan_copy_from_device(
    loan: *mut outlive_pinned_loan_t,
    offset: usize,
    size: usize,
    from: u64,
    stream: *const outlive_gpu_stream_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live loan that no other thread uses and a live stream.
        let (loan, stream) = unsafe { (borrow_mut(loan, "a loan")?, borrow(stream, "a stream")?) };
        // SAFETY: the C caller passes device memory of `size` bytes that stays until the copy is
        // over.
        Ok(unsafe { loan.0.copy_part_from_device(part(offset, size)?, from, &stream.0) }?)
    })
}

/// Gives a loan back unpublished; it is reused once all copies into it have completed. Passing NULL
/// has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pinned_loan_release(loan: *mut outlive_pinned_loan_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(loan) }
}

/// Publishes a loan when the stream has completed all work enqueued so far; returns at once. The
/// publishing also waits for copies into the loan on other streams. Messages that are due on one
/// stream are published in order. It waits, until the deadline, only for reliable subscribers that
/// have not taken messages which those that are due would overwrite.
///
/// Owner: the loan is consumed, also by a call that fails.
///
/// Errors: EBUSY: the stream is captured into a graph. ETIMEDOUT; EAGAIN with OUTLIVE_TRY: such a
/// subscriber is alive and has not taken its message. OUTLIVE_DRIVER; those of
/// `outlive_publisher_publish` for a message that was due before. After an error the loan is not
/// published.
///
/// If the process dies before the stream has got there, the message is never seen.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pinned_publisher_publish_on(
    publisher: *const outlive_pinned_publisher_t,
    loan: *mut outlive_pinned_loan_t,
    stream: *const outlive_gpu_stream_t,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live loan that no other thread uses.
        let loan = core::ptr::from_mut(unsafe { borrow_mut(loan, "a loan") }?);
        // SAFETY: the library made every handle as a box; the C caller gives this one up.
        let outlive_pinned_loan_t(loan) = *unsafe { Box::from_raw(loan) };
        // SAFETY: the C caller passes a live publisher and a live stream.
        let (publisher, stream) =
            unsafe { (borrow(publisher, "a publisher")?, borrow(stream, "a stream")?) };
        let due = publisher.0.publish_on_until(loan, &stream.0, moment_or_past(deadline));
        due.map_err(|error| tried(error, deadline))
    })
}

/// Returns the failure; with `OUTLIVE_TRY`, a deadline that has passed is EAGAIN.
pub(crate) fn tried(error: GpuError, deadline: outlive_deadline_t) -> Failure {
    match error {
        GpuError::TimedOut if deadline == OUTLIVE_TRY => Failure::new(
            libc::EAGAIN,
            "a reliable subscriber has not taken what lies in the way; wait, or try later",
        ),
        other => other.into(),
    }
}

/// Waits until the deadline for all messages that are due to be published.
///
/// Errors: ETIMEDOUT, OUTLIVE_DRIVER, EINVAL; those of `outlive_publisher_publish` for a message
/// that was due.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pinned_publisher_wait_published(
    publisher: *const outlive_pinned_publisher_t,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live publisher.
        Ok(unsafe { borrow(publisher, "a publisher") }?
            .0
            .wait_published_until(moment_or_past(deadline))?)
    })
}

/// Returns how many messages are due. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pinned_publisher_due(
    publisher: *const outlive_pinned_publisher_t,
) -> u64 {
    // SAFETY: the C caller passes a live publisher.
    entry_or(0, || Ok(unsafe { borrow(publisher, "a publisher") }?.0.due()))
}

/// Makes a sample one that the GPU reads. A subscriber of the topic that `topic` was made from has
/// taken it; a sample of the same topic opened once more lies elsewhere, and its copies go through
/// the driver's own buffers.
///
/// Owner: `sample` is consumed, also by a call that fails. `*pinned` is the caller's, until
/// `outlive_pinned_sample_release`.
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
        // SAFETY: the C caller passes NULL or a sample of `outlive_subscriber_recv` or the like,
        // and gives it up.
        let taken = handle.map(|handle| unsafe { Sample::<[u8]>::from_raw(handle.cast()) });
        // SAFETY: the C caller passes a place for `pinned` and a live topic.
        let (out, topic) = unsafe { (handle_out(pinned)?, borrow(topic, "a topic")?) };
        let taken = taken.ok_or_else(|| Failure::new(libc::EINVAL, "NULL in place of a sample"))?;
        out.put(Box::into_raw(Box::new(outlive_pinned_sample_t {
            pinned: topic.0.pinned(taken),
            sample,
        })));
        Ok(())
    })
}

/// Returns the sample for `outlive_sample_data`, `outlive_sample_size`, `outlive_sample_header` and
/// the like; it must not be released. NULL for NULL.
///
/// Owner: the pinned sample.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pinned_sample_get(
    sample: *const outlive_pinned_sample_t,
) -> *const outlive_sample_t {
    // SAFETY: the C caller passes a live sample.
    entry_or(core::ptr::null(), || Ok(unsafe { borrow(sample, "a sample") }?.sample))
}

/// Copies `size` bytes of the message from `offset` on to the device, `to` being a `CUdeviceptr`:
/// one asynchronous copy, after the work on the stream. The message is held until the copy has
/// completed, also if it is released before.
///
/// Errors: EINVAL: also a part that is not inside the message. EBUSY: the stream is captured into a
/// graph. OUTLIVE_DRIVER.
///
/// If the process dies, what it held is released once it has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pinned_sample_copy_to_device(
    sample: *const outlive_pinned_sample_t,
    offset: usize,
    size: usize,
    to: u64,
    stream: *const outlive_gpu_stream_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live sample and a live stream.
        let (sample, stream) =
            unsafe { (borrow(sample, "a sample")?, borrow(stream, "a stream")?) };
        // SAFETY: the C caller passes device memory of `size` bytes that stays until the copy is
        // over.
        Ok(unsafe { sample.pinned.copy_part_to_device(part(offset, size)?, to, &stream.0) }?)
    })
}

/// Releases a sample: its memory can be reused once all copies of it have completed. Passing NULL
/// has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_pinned_sample_release(sample: *mut outlive_pinned_sample_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(sample) }
}
