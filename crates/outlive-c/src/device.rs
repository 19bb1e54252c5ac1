//! Topics whose payloads stay in GPU memory: the end of `outlive_gpu.h`. doc/protocols/gpu.md,
//! "Device topics", has the argument.

use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;

use outlive::topic::Header;
use outlive_gpu::{DeviceLoan, DevicePublisher, DeviceSample, DeviceSubscriber, DeviceTopic};

use crate::argument::{borrow, borrow_mut, handle_out, out};
use crate::code::{Failure, entry, entry_or};
use crate::deadline::{moment, moment_or_past, outlive_deadline_t};
use crate::domain::{close, outlive_domain_t};
use crate::gpu::{outlive_gpu_stream_t, outlive_gpu_t};
use crate::opening::{naming, open_as, outlive_opening_t};
use crate::pinned::tried;
use crate::sample::outlive_header_t;
use crate::subscriber::nothing;
use crate::topic_options::{
    outlive_publisher_options_t, outlive_subscriber_options_t, outlive_topic_options_t,
    publisher_options, subscriber_options, topic_options,
};

/// A topic whose payloads stay in the memory of one GPU: only a descriptor that says where goes
/// from process to process. All threads may use it at once.
pub struct outlive_device_topic_t(DeviceTopic);

/// A publisher whose loans are GPU memory. All threads may use it at once.
pub struct outlive_device_publisher_t(DevicePublisher);

/// GPU memory for one message. One thread at a time may use it.
pub struct outlive_device_loan_t(DeviceLoan);

/// A subscriber whose samples are GPU memory. One thread at a time may use it.
pub struct outlive_device_subscriber_t(DeviceSubscriber);

/// A message in GPU memory. All threads may use it at once.
pub struct outlive_device_sample_t(DeviceSample);

/// Opens the topic of that name, or makes it. `options` NULL: none is set; their `max_bytes` counts
/// descriptors of 256 bytes, not payloads. All users of the topic use the same GPU.
///
/// Owner: `*topic` is the caller's, until `outlive_device_topic_close`.
///
/// Errors: see `outlive_opening_t`; EOPNOTSUPP: this GPU's memory cannot be shared with other
/// processes. OUTLIVE_DRIVER.
///
/// If a publisher's process dies, what it published stays for the processes that have its memory
/// mapped; others get EPIPE from `outlive_device_subscriber_recv`. If a subscriber's process dies,
/// its samples are released once it has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_device_topic_open(
    gpu: *const outlive_gpu_t,
    domain: *const outlive_domain_t,
    name: *const c_char,
    how: MaybeUninit<outlive_opening_t>,
    options: *const outlive_topic_options_t,
    topic: *mut *mut outlive_device_topic_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `topic`, a live domain, and a NUL-terminated
        // name.
        let naming = unsafe { naming(domain, name, how, topic) }?;
        // SAFETY: the C caller passes a live GPU.
        let gpu = unsafe { borrow(gpu, "a GPU") }?;
        // SAFETY: the C caller passes NULL or options of the size that they say.
        let (options, payload) = unsafe { topic_options(options) }?;
        if payload.is_some() {
            let why = "a device topic's messages have no description";
            return Err(Failure::new(libc::EINVAL, why));
        }
        let opened = open_as!(options, naming)?;
        let opened = DeviceTopic::new(&gpu.gpu, naming.domain, opened)?;
        naming.out.put(Box::into_raw(Box::new(outlive_device_topic_t(opened))));
        Ok(())
    })
}

/// Closes a topic; its memory is freed with the last of its ends and samples. Passing NULL has no
/// effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_device_topic_close(topic: *mut outlive_device_topic_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(topic) }
}

/// Waits until the deadline for all that this process has enqueued on streams to be published and
/// released. A program that ends before leaves what was due unpublished.
///
/// Errors: ETIMEDOUT. OUTLIVE_DRIVER: the context has an error; then some work never completes.
/// EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_device_topic_wait_over(
    topic: *const outlive_device_topic_t,
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
/// Owner: `*publisher` is the caller's, until `outlive_device_publisher_close`.
///
/// Errors: EUSERS, ENOSPC, EINVAL, OUTLIVE_DAMAGED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_device_topic_publisher(
    topic: *const outlive_device_topic_t,
    options: *const outlive_publisher_options_t,
    publisher: *mut *mut outlive_device_publisher_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `publisher` and a live topic.
        let (out, topic) = unsafe { (handle_out(publisher)?, borrow(topic, "a topic")?) };
        // SAFETY: the C caller passes NULL or options of the size that they say.
        let how = unsafe { publisher_options(options) }?;
        out.put(Box::into_raw(Box::new(outlive_device_publisher_t(topic.0.publisher_with(how)?))));
        Ok(())
    })
}

/// Makes a new subscriber: up to 64 at a time. `options` NULL: it receives what is published from
/// now on.
///
/// Owner: `*subscriber` is the caller's, until `outlive_device_subscriber_close`.
///
/// Errors: EUSERS, ENOSPC, EINVAL, OUTLIVE_DAMAGED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_device_topic_subscriber(
    topic: *const outlive_device_topic_t,
    options: *const outlive_subscriber_options_t,
    subscriber: *mut *mut outlive_device_subscriber_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `subscriber` and a live topic.
        let (out, topic) = unsafe { (handle_out(subscriber)?, borrow(topic, "a topic")?) };
        // SAFETY: the C caller passes NULL or options of the size that they say.
        let how = unsafe { subscriber_options(options) }?;
        out.put(Box::into_raw(Box::new(outlive_device_subscriber_t(
            topic.0.subscriber_with(how)?,
        ))));
        Ok(())
    })
}

/// Closes a publisher. What is due is published all the same, and its loans may still be used.
/// Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_device_publisher_close(
    publisher: *mut outlive_device_publisher_t,
) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(publisher) }
}

/// Lends GPU memory for a message of `size` bytes, from 0 to 1 GiB: `*address`, a `CUdeviceptr`,
/// for kernels and copies to write to. Its contents are arbitrary.
///
/// Owner: `*loan` and `*address` are the caller's, until `outlive_device_publisher_publish_on` or
/// `outlive_device_loan_release`.
///
/// Errors: as `outlive_publisher_loan`. OUTLIVE_DRIVER: usually the GPU has no memory left.
///
/// If the process dies, its memory is freed with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_device_publisher_loan(
    publisher: *const outlive_device_publisher_t,
    size: usize,
    loan: *mut *mut outlive_device_loan_t,
    address: *mut u64,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `loan` and a place for `address`.
        let (out, place) = unsafe { (handle_out(loan)?, crate::argument::out(address)?) };
        // SAFETY: the C caller passes a live publisher.
        let lent = unsafe { borrow(publisher, "a publisher") }?.0.loan(size)?;
        place.put(lent.address());
        out.put(Box::into_raw(Box::new(outlive_device_loan_t(lent))));
        Ok(())
    })
}

/// Sets the header that is published with a loan.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_device_loan_set_header(
    loan: *mut outlive_device_loan_t,
    header: *const outlive_header_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live loan that no other thread uses and a readable header.
        let (loan, header) = unsafe { (borrow_mut(loan, "a loan")?, borrow(header, "a header")?) };
        loan.0.set_header(header.to_rust());
        Ok(())
    })
}

/// Declares that work on this stream writes the loan, too, besides the stream that it is published
/// on: the publishing waits for it.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_device_loan_written_on(
    loan: *mut outlive_device_loan_t,
    stream: *const outlive_gpu_stream_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live loan that no other thread uses and a live stream.
        let (loan, stream) = unsafe { (borrow_mut(loan, "a loan")?, borrow(stream, "a stream")?) };
        loan.0.written_on(&stream.0);
        Ok(())
    })
}

/// Gives a loan back unpublished; it is reused once the streams of `outlive_device_loan_written_on`
/// have completed their work on it. Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_device_loan_release(loan: *mut outlive_device_loan_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(loan) }
}

/// Publishes a loan when the stream has completed all work enqueued so far; returns at once.
/// Messages that are due on one stream are published in order. It waits, until the deadline, only
/// for reliable subscribers that have not taken messages which those that are due would overwrite.
///
/// Owner: the loan is consumed, also by a call that fails.
///
/// Errors: as `outlive_pinned_publisher_publish_on`.
///
/// If the process dies before the stream has got there, the message is never seen.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_device_publisher_publish_on(
    publisher: *const outlive_device_publisher_t,
    loan: *mut outlive_device_loan_t,
    stream: *const outlive_gpu_stream_t,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live loan that no other thread uses.
        let loan = core::ptr::from_mut(unsafe { borrow_mut(loan, "a loan") }?);
        // SAFETY: the library made every handle as a box; the C caller gives this one up.
        let outlive_device_loan_t(loan) = *unsafe { Box::from_raw(loan) };
        // SAFETY: the C caller passes a live publisher and a live stream.
        let (publisher, stream) =
            unsafe { (borrow(publisher, "a publisher")?, borrow(stream, "a stream")?) };
        let due = publisher.0.publish_on_until(loan, &stream.0, moment_or_past(deadline));
        due.map_err(|error| tried(error, deadline))
    })
}

/// Waits until the deadline for all messages that are due to be published.
///
/// Errors: as `outlive_pinned_publisher_wait_published`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_device_publisher_wait_published(
    publisher: *const outlive_device_publisher_t,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live publisher.
        Ok(unsafe { borrow(publisher, "a publisher") }?
            .0
            .wait_published_until(moment_or_past(deadline))?)
    })
}

/// Closes a subscriber. Samples that it took stay valid. Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_device_subscriber_close(
    subscriber: *mut outlive_device_subscriber_t,
) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(subscriber) }
}

/// Receives the next message, waiting until the deadline. The first message in a piece of another
/// process's memory maps that piece here.
///
/// Owner: `*sample` is the caller's, until `outlive_device_sample_release`.
///
/// Errors: as `outlive_subscriber_recv`. EPIPE: the process that had the message's memory has died,
/// and the memory was not mapped here; ESTALE: that process has closed its topic; EXDEV: the memory
/// is another GPU's: in these cases the message is skipped. ETIMEDOUT also for a message whose
/// publisher has not answered yet, OUTLIVE_DRIVER for one that could not be mapped: it stays the
/// next message.
///
/// If a publisher's process dies, messages in memory that is mapped here are received as before;
/// the others give EPIPE, at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_device_subscriber_recv(
    subscriber: *mut outlive_device_subscriber_t,
    sample: *mut *mut outlive_device_sample_t,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `sample` and a live subscriber that no other
        // thread uses.
        let (out, subscriber) =
            unsafe { (handle_out(sample)?, borrow_mut(subscriber, "a subscriber")?) };
        let sample = match moment(deadline) {
            Some(moment) => subscriber.0.recv_until(moment)?.ok_or_else(Failure::timed_out)?,
            None => subscriber.0.try_recv()?.ok_or_else(nothing)?,
        };
        out.put(Box::into_raw(Box::new(outlive_device_sample_t(sample))));
        Ok(())
    })
}

/// Returns how many messages were overwritten before this subscriber took them, so far. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_device_subscriber_lost(
    subscriber: *const outlive_device_subscriber_t,
) -> u64 {
    // SAFETY: the C caller passes a live subscriber.
    entry_or(0, || Ok(unsafe { borrow(subscriber, "a subscriber") }?.0.lost()))
}

/// Returns where the message lies on this process's GPU, a `CUdeviceptr`, for reading. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_device_sample_address(
    sample: *const outlive_device_sample_t,
) -> u64 {
    // SAFETY: the C caller passes a live sample.
    entry_or(0, || Ok(unsafe { borrow(sample, "a sample") }?.0.address()))
}

/// Returns how many bytes the message has. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_device_sample_size(
    sample: *const outlive_device_sample_t,
) -> usize {
    // SAFETY: the C caller passes a live sample.
    entry_or(0, || Ok(unsafe { borrow(sample, "a sample") }?.0.len()))
}

/// Writes the header that its publisher sent along to `*header`; all zero if there was none.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_device_sample_header(
    sample: *const outlive_device_sample_t,
    header: *mut outlive_header_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live sample and a place for `header`.
        let (sample, out) = unsafe { (borrow(sample, "a sample")?, out(header)?) };
        let Header { stamp, frame, key, own } = sample.0.header();
        out.put(outlive_header_t { stamp, frame, key, own });
        Ok(())
    })
}

/// Holds the sample until the stream has completed all work enqueued so far, too: call it after
/// enqueuing the work that reads it.
///
/// Errors: EBUSY: the stream is captured into a graph. OUTLIVE_DRIVER: the sample is held as long
/// as this process lives. EINVAL.
///
/// If the process dies, what it held is released once it has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_device_sample_hold_on(
    sample: *const outlive_device_sample_t,
    stream: *const outlive_gpu_stream_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live sample and a live stream.
        let (sample, stream) =
            unsafe { (borrow(sample, "a sample")?, borrow(stream, "a stream")?) };
        Ok(sample.0.hold_on(&stream.0)?)
    })
}

/// Releases a sample: its memory can be reused once the streams of `outlive_device_sample_hold_on`
/// have completed their work. Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_device_sample_release(sample: *mut outlive_device_sample_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(sample) }
}
