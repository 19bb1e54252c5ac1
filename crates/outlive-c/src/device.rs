//! Topics whose payloads stay in GPU memory: the end of `outlive_gpu.h`. doc/protocols/gpu.md, "Device topics", has the argument.

use std::ffi::{c_char, c_int};

use outlive::topic::Header;
use outlive_gpu::{DeviceLoan, DevicePublisher, DeviceSample, DeviceSubscriber, DeviceTopic};

use crate::argument::{borrow, borrow_mut, handle_out, options, out, text};
use crate::code::{Failure, entry, entry_or};
use crate::deadline::{moment, moment_or_past, outlive_deadline_t};
use crate::domain::{close, outlive_domain_t};
use crate::gpu::{outlive_gpu_stream_t, outlive_gpu_t};
use crate::pinned::tried;
use crate::topic::{
    nothing, outlive_header_t, outlive_subscriber_options_t, outlive_topic_options_t, subscriber_options,
};
use crate::wait::wait;

/// A topic whose payloads stay in the memory of one GPU: what goes from process to process is a card that says where. May be used by
/// all threads at once.
pub struct outlive_device_topic_t(DeviceTopic);

/// A publisher whose loans are GPU memory. May be used by all threads at once.
pub struct outlive_device_publisher_t(DevicePublisher);

/// GPU memory for one message. Used by one thread at a time.
pub struct outlive_device_loan_t(DeviceLoan);

/// A subscriber whose samples are GPU memory. Used by one thread at a time.
pub struct outlive_device_subscriber_t(DeviceSubscriber);

/// A message in GPU memory. May be used by all threads at once.
pub struct outlive_device_sample_t(DeviceSample);

/// Opens the topic of that name, or makes it. `options` NULL: as by default; its `max_bytes` counts cards of 256 bytes, not payloads, and
/// `must_exist` is refused. All who use the topic use the same GPU.
///
/// Owner: `*topic` is the caller's, until `outlive_device_topic_close`.
///
/// Errors: as `outlive_topic_open`; EOPNOTSUPP: this GPU's memory cannot be shared with other processes. OUTLIVE_DRIVER.
///
/// If a process dies: a publisher's, what was published stays for those who have its memory mapped; others get EPIPE from
/// `outlive_device_subscriber_recv`. A subscriber's, its samples are let go of once it has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_device_topic_open(
    gpu: *const outlive_gpu_t,
    domain: *const outlive_domain_t,
    name: *const c_char,
    options: *const outlive_topic_options_t,
    topic: *mut *mut outlive_device_topic_t,
) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        let (out, name) = unsafe { (handle_out(topic)?, text(name, "a name")?) };
        // SAFETY: as above.
        let (gpu, domain) = unsafe { (borrow(gpu, "a GPU")?, borrow(domain, "a domain")?) };
        let default = outlive_topic_options_t { size: 0, max_bytes: 0, depth: 0, no_stamps: 0, wait: 0, must_exist: 0 };
        // SAFETY: as above; integers.
        let given = unsafe { self::options(options, default) }?;
        if given.must_exist != 0 {
            return Err(Failure::new(libc::EINVAL, "a device topic is made where it is not there: leave must_exist 0"));
        }
        let mut how = DeviceTopic::<u8>::options().stamps(given.no_stamps == 0).wait(wait(given.wait)?);
        if given.depth > 0 {
            how = how.depth(given.depth);
        }
        if given.max_bytes > 0 {
            how = how.max_bytes(given.max_bytes);
        }
        let opened = DeviceTopic::new(&gpu.gpu, &domain.0, how.open(&domain.0, name)?)?;
        out.put(Box::into_raw(Box::new(outlive_device_topic_t(opened))));
        Ok(())
    })
}

/// Lets go of a topic; its memory goes with the last of its ends and samples. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_device_topic_close(topic: *mut outlive_device_topic_t) {
    // SAFETY: as the header asks of the caller.
    unsafe { close(topic) }
}

/// Waits, until the deadline, until all that this process has left to streams is published and let go of. A program that ends before leaves
/// what was due unpublished.
///
/// Errors: ETIMEDOUT. OUTLIVE_DRIVER: the context has an error; then some are never over. EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_device_topic_wait_over(
    topic: *const outlive_device_topic_t,
    deadline: outlive_deadline_t,
) -> c_int {
    // SAFETY: as the header asks of the caller.
    entry(|| Ok(unsafe { borrow(topic, "a topic") }?.0.wait_over(moment_or_past(deadline))?))
}

/// A new publisher: up to 62 at a time.
///
/// Owner: `*publisher` is the caller's, until `outlive_device_publisher_close`.
///
/// Errors: EUSERS, ENOSPC, EINVAL, OUTLIVE_DAMAGED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_device_topic_publisher(
    topic: *const outlive_device_topic_t,
    publisher: *mut *mut outlive_device_publisher_t,
) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        let (out, topic) = unsafe { (handle_out(publisher)?, borrow(topic, "a topic")?) };
        out.put(Box::into_raw(Box::new(outlive_device_publisher_t(topic.0.publisher()?))));
        Ok(())
    })
}

/// A new subscriber: up to 64 at a time. `options` NULL: to all that is published from now on.
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
        // SAFETY: as the header asks of the caller.
        let (out, topic) = unsafe { (handle_out(subscriber)?, borrow(topic, "a topic")?) };
        // SAFETY: as above.
        let how = unsafe { subscriber_options(options) }?;
        out.put(Box::into_raw(Box::new(outlive_device_subscriber_t(topic.0.subscriber_with(how)?))));
        Ok(())
    })
}

/// Drops a publisher. What is due is published all the same, its loans may be used still. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_device_publisher_close(publisher: *mut outlive_device_publisher_t) {
    // SAFETY: as the header asks of the caller.
    unsafe { close(publisher) }
}

/// Lends GPU memory for a message of `size` bytes, from 0 to 1 GiB: `*address`, a `CUdeviceptr`, for kernels and copies to write to.
/// Its bytes are not defined.
///
/// Owner: `*loan` and `*address` are the caller's, until `outlive_device_publisher_publish_on` or `outlive_device_loan_drop`.
///
/// Errors: as `outlive_publisher_loan`. OUTLIVE_DRIVER: the GPU has no memory left, as a rule.
///
/// If a process dies: its memory goes with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_device_publisher_loan(
    publisher: *const outlive_device_publisher_t,
    size: usize,
    loan: *mut *mut outlive_device_loan_t,
    address: *mut u64,
) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        let (out, place) = unsafe { (handle_out(loan)?, crate::argument::out(address)?) };
        // SAFETY: as above.
        let lent = unsafe { borrow(publisher, "a publisher") }?.0.loan(size)?;
        place.put(lent.address());
        out.put(Box::into_raw(Box::new(outlive_device_loan_t(lent))));
        Ok(())
    })
}

/// What is to go with a loan.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_device_loan_set_header(
    loan: *mut outlive_device_loan_t,
    header: *const outlive_header_t,
) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        let (loan, header) = unsafe { (borrow_mut(loan, "a loan")?, borrow(header, "a header")?) };
        loan.0.set_header(header.to_rust());
        Ok(())
    })
}

/// Says that work on this stream writes the loan, too, besides the one that it is published on: it is waited for.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_device_loan_written_on(
    loan: *mut outlive_device_loan_t,
    stream: *const outlive_gpu_stream_t,
) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        let (loan, stream) = unsafe { (borrow_mut(loan, "a loan")?, borrow(stream, "a stream")?) };
        loan.0.written_on(&stream.0);
        Ok(())
    })
}

/// Gives a loan back unpublished; it is used again once the streams of `outlive_device_loan_written_on` have got there. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_device_loan_drop(loan: *mut outlive_device_loan_t) {
    // SAFETY: as the header asks of the caller.
    unsafe { close(loan) }
}

/// Publishes a loan when the stream has got to where it is now; returns at once. Messages that are due on one stream are published in
/// order. It waits, until the deadline, only for reliable subscribers that have not taken what lies in the way of all that are due.
///
/// Owner: the loan is used up, whatever comes of it.
///
/// Errors: as `outlive_pinned_publisher_publish_on`.
///
/// If a process dies: before the stream has got there, the message is never seen.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_device_publisher_publish_on(
    publisher: *const outlive_device_publisher_t,
    loan: *mut outlive_device_loan_t,
    stream: *const outlive_gpu_stream_t,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        let loan = core::ptr::from_mut(unsafe { borrow_mut(loan, "a loan") }?);
        // SAFETY: a box's; it is used up.
        let outlive_device_loan_t(loan) = *unsafe { Box::from_raw(loan) };
        // SAFETY: as above.
        let (publisher, stream) = unsafe { (borrow(publisher, "a publisher")?, borrow(stream, "a stream")?) };
        let due = publisher.0.publish_on_until(loan, &stream.0, moment_or_past(deadline));
        due.map_err(|error| tried(error, deadline))
    })
}

/// Waits, until the deadline, until all messages that are due have been published.
///
/// Errors: as `outlive_pinned_publisher_wait_published`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_device_publisher_wait_published(
    publisher: *const outlive_device_publisher_t,
    deadline: outlive_deadline_t,
) -> c_int {
    // SAFETY: as the header asks of the caller.
    entry(|| Ok(unsafe { borrow(publisher, "a publisher") }?.0.wait_published(moment_or_past(deadline))?))
}

/// Drops a subscriber. Samples that it took stay. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_device_subscriber_close(subscriber: *mut outlive_device_subscriber_t) {
    // SAFETY: as the header asks of the caller.
    unsafe { close(subscriber) }
}

/// What is next; waits for it until the deadline. The first message in a piece of another process's memory has it mapped here.
///
/// Owner: `*sample` is the caller's, until `outlive_device_sample_release`.
///
/// Errors: as `outlive_subscriber_recv`. EPIPE: the process has died that had the message's memory, and it was not mapped here; ESTALE: it has closed
/// its topic; EXDEV: it is another GPU's: the message is passed over. ETIMEDOUT also of a message whose publisher has not answered yet, OUTLIVE_DRIVER of one that
/// could not be mapped: it is the next one still.
///
/// If a process dies: a publisher, what of it is mapped here is taken as before; of the rest EPIPE tells, at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_device_subscriber_recv(
    subscriber: *mut outlive_device_subscriber_t,
    sample: *mut *mut outlive_device_sample_t,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        let (out, subscriber) = unsafe { (handle_out(sample)?, borrow_mut(subscriber, "a subscriber")?) };
        let sample = match moment(deadline) {
            Some(moment) => subscriber.0.recv_until(moment)?,
            None => subscriber.0.try_recv()?.ok_or_else(nothing)?,
        };
        out.put(Box::into_raw(Box::new(outlive_device_sample_t(sample))));
        Ok(())
    })
}

/// How many messages were overwritten before this subscriber came to them, so far. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_device_subscriber_lost(subscriber: *const outlive_device_subscriber_t) -> u64 {
    // SAFETY: as the header asks of the caller.
    entry_or(0, || Ok(unsafe { borrow(subscriber, "a subscriber") }?.0.lost()))
}

/// Where the message lies on this process's GPU, a `CUdeviceptr`: to read. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_device_sample_address(sample: *const outlive_device_sample_t) -> u64 {
    // SAFETY: as the header asks of the caller.
    entry_or(0, || Ok(unsafe { borrow(sample, "a sample") }?.0.address()))
}

/// How many bytes it has. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_device_sample_size(sample: *const outlive_device_sample_t) -> usize {
    // SAFETY: as the header asks of the caller.
    entry_or(0, || Ok(unsafe { borrow(sample, "a sample") }?.0.len()))
}

/// What its publisher said besides; all zero if nothing.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_device_sample_header(
    sample: *const outlive_device_sample_t,
    header: *mut outlive_header_t,
) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        let (sample, out) = unsafe { (borrow(sample, "a sample")?, out(header)?) };
        let Header { stamp, frame, key, own } = sample.0.header();
        out.put(outlive_header_t { stamp, frame, key, own });
        Ok(())
    })
}

/// Held until the stream has got to where it is now, too: to be called behind the work that reads it.
///
/// Errors: EBUSY: the stream is captured into a graph. OUTLIVE_DRIVER: it is held as long as this process lives. EINVAL.
///
/// If a process dies: what it held is let go of once it has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_device_sample_hold_on(
    sample: *const outlive_device_sample_t,
    stream: *const outlive_gpu_stream_t,
) -> c_int {
    entry(|| {
        // SAFETY: as the header asks of the caller.
        let (sample, stream) = unsafe { (borrow(sample, "a sample")?, borrow(stream, "a stream")?) };
        Ok(sample.0.hold_on(&stream.0)?)
    })
}

/// Lets go of a sample: its memory can be used again once the streams of `outlive_device_sample_hold_on` have got there. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_device_sample_release(sample: *mut outlive_device_sample_t) {
    // SAFETY: as the header asks of the caller.
    unsafe { close(sample) }
}
