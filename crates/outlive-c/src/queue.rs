//! Queues: many senders, one receiver.

use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;

use outlive::queue::{OnReceiverDeath, Peeked, Queue, Receiver, Sender};

use crate::argument::{borrow, borrow_mut, bytes, handle_out, items, options, out, out_or_none};
use crate::code::{Failure, entry};
use crate::deadline::{OUTLIVE_TRY, moment, outlive_deadline_t, past};
use crate::domain::{close, outlive_domain_t};
use crate::opening::{naming, open_as_bytes, outlive_opening_t};
use crate::owned::outlasting;
use crate::payload::{description, outlive_payload_t};
use crate::wait::wait_option;

/// A queue, open in this process; its senders and its receiver are made from it. All threads may
/// use it at once.
pub struct outlive_queue_t(pub(crate) Queue);

/// Puts messages into a queue. One thread at a time may use it.
pub struct outlive_sender_t(Sender);

/// Takes messages out of a queue, which has one receiver at a time, of all processes. One thread at
/// a time may use it.
pub struct outlive_receiver_t {
    // They are dropped in this order.
    /// Borrows from `receiver`.
    peeked: Option<Peeked<'static>>,
    pub(crate) receiver: Receiver,
}

/// Options for opening or making a queue. Begin with `OUTLIVE_QUEUE_OPTIONS_INIT`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct outlive_queue_options_t {
    /// `sizeof(outlive_queue_options_t)`.
    pub size: usize,
    /// The most bytes that the queue may take, messages included, 64 KiB to 6 GiB. A new queue's
    /// default: a quarter of the file system, at most 6 GiB. The file may take up to 64 KiB more
    /// for each 2 MiB of it, where memory of short messages is reused for long ones.
    pub max_bytes: u64,
    /// Slots to begin with, 1 to 65,536. A new queue's default: 64.
    pub first_slots: u32,
    /// Bytes of a slot, 1 to 4,096; a message of up to 24 bytes less is stored in the slot itself.
    /// A new queue's default: 128.
    pub slot_bytes: u32,
    /// Not 0: a send fails with ENOTCONN while there is no receiver, instead of keeping the message
    /// for one.
    pub need_receiver: u32,
    /// How this process's ends wait: one of the OUTLIVE_WAIT numbers.
    pub wait: u32,
    /// What a send does while the receiver is dead, until another process becomes the receiver:
    /// OUTLIVE_RECEIVER_DEATH_FAILS or OUTLIVE_RECEIVER_DEATH_KEEPS; 0: what an existing queue
    /// does, and in a new one as OUTLIVE_RECEIVER_DEATH_FAILS.
    pub on_receiver_death: u32,
    /// The most unread messages, 1 to 1,048,576; 0: what an existing queue has, and in a new one no
    /// bound but `max_bytes`. With so many unread, or with `max_bytes` in use, the queue is full. A
    /// batch counts as one message. If there is no memory for more when they are needed, the queue
    /// stays with the places that it has: `places` of its counters. Not beside `first_slots`.
    pub max_messages: u32,
    /// What a message is, for all languages: see `outlive_topic_options_t`.
    pub payload: *const outlive_payload_t,
}

/// For the options of a queue: while the receiver is dead, each send fails with EPIPE, also one that
/// waits.
pub const OUTLIVE_RECEIVER_DEATH_FAILS: u32 = 1;
/// For the options of a queue: while the receiver is dead, the queue goes on taking messages until
/// it is full, and the next receiver gets them.
pub const OUTLIVE_RECEIVER_DEATH_KEEPS: u32 = 2;

/// Counts what has happened to a queue. Exact when it is quiet. Its size never changes.
#[repr(C)]
pub struct outlive_queue_counters_t {
    /// Messages sent and acknowledged.
    pub sent: u64,
    /// Messages received for good.
    pub received: u64,
    /// Messages in the queue.
    pub pending: u64,
    /// Messages whose sender died during the send; they were never acknowledged.
    pub abandoned: u64,
    /// Messages handed out again because a receiver died before it committed them.
    pub redelivered: u64,
    /// How often memory was added.
    pub grown: u64,
    /// The largest backlog seen, in slots.
    pub high_water: u64,
    /// Bytes of memory that the queue takes now.
    pub bytes: u64,
    /// The most bytes that it may take.
    pub max_bytes: u64,
    /// The most unread messages; 0: `max_bytes` alone bounds it.
    pub max_messages: u64,
    /// The most unread messages that it can hold: `max_messages`, or fewer, if there was no memory
    /// for more when they were needed; it stays so. 0: `max_bytes` alone bounds it.
    pub places: u64,
    /// 0.
    pub reserved: [u64; 5],
}

/// Bytes of the C caller's.
#[repr(C)]
pub struct outlive_bytes_t {
    /// Their address. It may be NULL when there are none.
    pub data: *const c_void,
    /// How many bytes there are.
    pub size: usize,
}

/// Opens the queue of that name, or makes it. `options` NULL: none is set. With OUTLIVE_OPEN its
/// messages may be of any type, and are bytes here.
///
/// Owner: `*queue` is the caller's, until `outlive_queue_close`. Its senders and receivers may
/// outlive it.
///
/// Errors: see `outlive_opening_t`.
///
/// If a process dies, the messages that it sent stay.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_queue_open(
    domain: *const outlive_domain_t,
    name: *const c_char,
    how: MaybeUninit<outlive_opening_t>,
    options: *const outlive_queue_options_t,
    queue: *mut *mut outlive_queue_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `queue`, a live domain, and a NUL-terminated
        // name.
        let naming = unsafe { naming(domain, name, how, queue) }?;
        let default = outlive_queue_options_t {
            size: 0,
            max_bytes: 0,
            first_slots: 0,
            slot_bytes: 0,
            need_receiver: 0,
            wait: 0,
            on_receiver_death: 0,
            max_messages: 0,
            payload: core::ptr::null(),
        };
        // SAFETY: the C caller passes NULL or options of the size that they say; all fields are
        // integers or a pointer.
        let given = unsafe { self::options(options, default) }?;
        let mut options = Queue::<[u8]>::options();
        if let Some(wait) = wait_option(given.wait)? {
            options = options.wait_strategy(wait);
        }
        if given.need_receiver != 0 {
            options = options.need_receiver(true);
        }
        options = match given.on_receiver_death {
            0 => options,
            OUTLIVE_RECEIVER_DEATH_FAILS => options.on_receiver_death(OnReceiverDeath::Fail),
            OUTLIVE_RECEIVER_DEATH_KEEPS => options.on_receiver_death(OnReceiverDeath::Keep),
            _ => {
                return Err(Failure::new(
                    libc::EINVAL,
                    "none of the OUTLIVE_RECEIVER_DEATH numbers",
                ));
            }
        };
        if given.max_bytes > 0 {
            options = options.max_bytes(given.max_bytes);
        }
        if given.max_messages > 0 {
            options = options.max_messages(given.max_messages);
        }
        if given.first_slots > 0 {
            options = options.slots(given.first_slots);
        }
        if given.slot_bytes > 0 {
            options = options.slot_bytes(given.slot_bytes);
        }
        // SAFETY: the C caller passes NULL or a description.
        if let Some(payload) = unsafe { description(given.payload) }? {
            options = options.description(payload);
        }
        let opened = open_as_bytes!(options, naming)?;
        naming.out.put(Box::into_raw(Box::new(outlive_queue_t(opened))));
        Ok(())
    })
}

/// Closes a queue. Its senders and receivers stay, and so do messages that were not received: they
/// wait in the queue until a receiver takes them, or the name is removed (`outlive_domain_remove`).
/// Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_queue_close(queue: *mut outlive_queue_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(queue) }
}

/// Makes room for `messages` messages of up to `size` bytes each, and brings it in, so that sending
/// and receiving them is neither a page fault nor a system call, as long as no more of them wait at a
/// time. Each process of the queue calls it, sender and receiver alike.
///
/// Errors: ENOSPC: the queue, or the file system, has no room for all of it; what was made stays.
/// EMSGSIZE, EINVAL, OUTLIVE_DAMAGED.
///
/// If the process dies, other processes use what was made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_queue_prefault(
    queue: *const outlive_queue_t,
    messages: usize,
    size: usize,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live queue.
        let queue = unsafe { borrow(queue, "a queue") }?;
        Ok(queue.0.prefault(messages, size)?)
    })
}

/// Writes what has happened to the queue so far to `*counters`.
///
/// Errors: EINVAL, OUTLIVE_DAMAGED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_queue_counters(
    queue: *const outlive_queue_t,
    counters: *mut outlive_queue_counters_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live queue and a place for `counters`.
        let (queue, out) = unsafe { (borrow(queue, "a queue")?, out(counters)?) };
        let found = queue.0.counters()?;
        out.put(outlive_queue_counters_t {
            sent: found.sent,
            received: found.received,
            pending: found.pending,
            abandoned: found.abandoned,
            redelivered: found.redelivered,
            grown: found.grown,
            high_water: found.high_water,
            bytes: found.bytes,
            max_bytes: found.max_bytes,
            max_messages: queue.0.config().max_messages.map_or(0, u64::from),
            places: found.places.unwrap_or(0),
            reserved: [0; 5],
        });
        Ok(())
    })
}

/// Writes 1 to `*full` if the queue is full: it holds `max_messages` messages, or as many as its
/// bytes allow. Otherwise 0; a long message may find no room all the same. While other processes
/// send and receive, the answer is about a moment that has passed.
///
/// Errors: EINVAL, OUTLIVE_DAMAGED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_queue_is_full(
    queue: *const outlive_queue_t,
    full: *mut u32,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live queue and a place for `full`.
        let (queue, out) = unsafe { (borrow(queue, "a queue")?, out(full)?) };
        out.put(u32::from(queue.0.is_full()?));
        Ok(())
    })
}

/// Waits until no message is left: all that were sent have been received, also those that are sent
/// meanwhile. A message that was peeked at is received when it is committed; one that a program
/// received as a task (Rust's `Tasks`, Python's `get`) when it is done.
///
/// Errors: ETIMEDOUT (also with OUTLIVE_TRY), EINVAL, EUSERS, OUTLIVE_DAMAGED.
///
/// If a process dies, its tasks are gone with it and are not waited for. What a dead receiver left in
/// the queue is waited for, until another one receives it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_queue_join(
    queue: *const outlive_queue_t,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live queue.
        let queue = unsafe { borrow(queue, "a queue") }?;
        Ok(queue.0.join_until(crate::deadline::moment_or_past(deadline))?)
    })
}

/// Makes a new sender: any number, in any number of processes and threads.
///
/// Owner: `*sender` is the caller's, until `outlive_sender_close`.
///
/// Errors: EINVAL, EUSERS, ENOSPC.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_queue_sender(
    queue: *const outlive_queue_t,
    sender: *mut *mut outlive_sender_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `sender` and a live queue.
        let (out, queue) = unsafe { (handle_out(sender)?, borrow(queue, "a queue")?) };
        out.put(Box::into_raw(Box::new(outlive_sender_t(queue.0.sender()?))));
        Ok(())
    })
}

/// Makes this process the receiver, if there is none or it is dead; waits until the deadline for a
/// living one to leave or to end. The message that a dead one had not committed comes first.
///
/// So several processes may stand by: when the receiver dies, one of them takes over at once.
///
/// Owner: `*receiver` is the caller's, until `outlive_receiver_close`.
///
/// Errors: EBUSY: another receiver is alive. EAGAIN: the last one is dead, and one of its threads
/// has not ended, for which OUTLIVE_TRY, too, waits up to two seconds. EINVAL, EUSERS, ENOSPC,
/// OUTLIVE_DAMAGED.
///
/// If a process dies while it takes over, the next caller takes over.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_queue_receiver(
    queue: *const outlive_queue_t,
    deadline: outlive_deadline_t,
    receiver: *mut *mut outlive_receiver_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `receiver` and a live queue.
        let (out, queue) = unsafe { (handle_out(receiver)?, borrow(queue, "a queue")?) };
        let receiver = match moment(deadline) {
            Some(moment) => match queue.0.wait_to_receive_until(moment)? {
                Some(receiver) => receiver,
                // In the end the error names the process that has it.
                None => queue.0.receiver_by(past())?,
            },
            // Waits for no living receiver, but for the last thread of a dead one.
            None => queue.0.receiver()?,
        };
        let receiver = outlive_receiver_t { peeked: None, receiver };
        out.put(Box::into_raw(Box::new(receiver)));
        Ok(())
    })
}

/// Closes a sender. Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_sender_close(sender: *mut outlive_sender_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(sender) }
}

/// Closes the receiver: another may be made. A message that was peeked at and not committed stays.
/// Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_receiver_close(receiver: *mut outlive_receiver_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(receiver) }
}

/// Sends a copy of a message, of 0 bytes to 1 GiB; waits until the deadline while the queue is full
/// and at its largest.
///
/// Errors: EPIPE: the receiver died, and no process has taken over. ENOTCONN: there is none, and
/// the queue refuses messages then. ETIMEDOUT; EAGAIN with OUTLIVE_TRY: full. EMSGSIZE: larger than
/// a message may be, or than the queue may grow. EINVAL, EUSERS, OUTLIVE_DAMAGED. After an error no
/// part of the message was sent.
///
/// If the process dies: after a return of 0 the message is in the queue and outlives this process;
/// if it dies during the call, no part of the message is received. The receiver's death ends the
/// wait at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_sender_send(
    sender: *mut outlive_sender_t,
    data: *const c_void,
    size: usize,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live sender and `size` readable bytes at `data`.
        let (sender, message) = unsafe { (borrow(sender, "a sender")?, bytes(data, size)?) };
        Ok(sender.0.send_or_try(message, moment(deadline))?)
    })
}

/// Sends many messages in one step: either all of them are in the queue, one after the other, or
/// none is.
///
/// Errors: as `outlive_sender_send`; EMSGSIZE when the messages together, with 4 bytes each, are
/// too large. With OUTLIVE_TRY, ETIMEDOUT in place of EAGAIN.
///
/// If the process dies during the call, none of the messages is received.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_sender_send_batch(
    sender: *mut outlive_sender_t,
    messages: *const outlive_bytes_t,
    count: usize,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live sender and `count` readable items at `messages`.
        let (sender, messages) =
            unsafe { (borrow(sender, "a sender")?, items(messages, count, "messages")?) };
        // SAFETY: the C caller passes `size` readable bytes at `data`.
        let items = messages.iter().map(|message| unsafe { bytes(message.data, message.size) });
        let items: Vec<&[u8]> = items.collect::<Result<_, Failure>>()?;
        sender.0.send_batch_until(&items, crate::deadline::moment_or_past(deadline))?;
        Ok(())
    })
}

/// Receives a message into `buffer`, waiting for one until the deadline. `*size`: its bytes.
///
/// A message is received at most once: a process that dies after this has returned takes the
/// message with it; `outlive_receiver_peek` does not lose it.
///
/// Errors: EMSGSIZE: it does not fit; `*size` is the room that it needs, and it stays in the queue.
/// ETIMEDOUT; EAGAIN with OUTLIVE_TRY: the queue is empty. EPIPE: all senders are gone
/// (`outlive_receiver_end_when_senders_gone`). EPERM: not the receiver, or not any more, as in a
/// forked child. OUTLIVE_DAMAGED: that message is skipped. EINVAL, EUSERS.
///
/// If a sender dies during a send, that message is skipped; the messages that it had sent are
/// received.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_receiver_recv(
    receiver: *mut outlive_receiver_t,
    buffer: *mut c_void,
    capacity: usize,
    size: *mut usize,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live receiver that no other thread uses and a place for
        // `size`.
        let (receiver, out) = unsafe { (borrow_mut(receiver, "a receiver")?, out(size)?) };
        receiver.peeked = None;
        let room = if buffer.is_null() { 0 } else { capacity };
        // SAFETY: the C caller passes `capacity` writable bytes at `buffer`.
        let len = unsafe { receiver.receiver.recv_to(buffer.cast(), room, moment(deadline)) }?;
        let len = len.ok_or_else(|| nothing(deadline))?;
        out.put(len);
        if len > room { Err(no_room(buffer, capacity, len)) } else { Ok(()) }
    })
}

/// The failure of a receive that found nothing.
#[cold]
fn nothing(deadline: outlive_deadline_t) -> Failure {
    match deadline {
        OUTLIVE_TRY => Failure::new(libc::EAGAIN, "nothing to receive just now"),
        _ => Failure::new(libc::ETIMEDOUT, "nothing came until the deadline passed"),
    }
}

#[cold]
fn no_room(buffer: *const c_void, capacity: usize, len: usize) -> Failure {
    if buffer.is_null() && capacity > 0 {
        return Failure::new(libc::EINVAL, "NULL in place of a buffer");
    }
    Failure::new(
        libc::EMSGSIZE,
        &format!("the buffer has {capacity} bytes, {len} are needed; the message stays"),
    )
}

/// Returns the next message where it lies, without taking it out of the queue, waiting for one
/// until the deadline. It stays in the queue until `outlive_receiver_commit`; a second peek without
/// a commit returns the same message.
///
/// Owner: `*data` is shared memory, which stays as it is until the commit, the next call with this
/// receiver, or its close. `*redelivered` (may be NULL): 1 when an earlier receiver got this
/// message too and died before it committed it: it may have acted on it.
///
/// Errors: as `outlive_receiver_recv`.
///
/// If this process dies before the commit, the next receiver gets the same message, with
/// `*redelivered`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_receiver_peek(
    receiver: *mut outlive_receiver_t,
    data: *mut *const c_void,
    size: *mut usize,
    redelivered: *mut u32,
    deadline: outlive_deadline_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live receiver that no other thread uses, a place for
        // `data`, and a place for `size`.
        let (this, data, size) =
            unsafe { (borrow_mut(receiver, "a receiver")?, out(data)?, out(size)?) };
        this.peeked = None;
        // SAFETY: the receiver lies in the same box as what borrows from it, is dropped after that,
        // and is not used before `peeked` has been taken or dropped: all functions here begin with
        // that.
        let source: &'static mut Receiver = unsafe { outlasting(&mut this.receiver) };
        let peeked = match moment(deadline) {
            Some(moment) => source.peek_until(moment)?,
            None => source.try_peek()?,
        }
        .ok_or_else(|| nothing(deadline))?;
        data.put(peeked.as_ptr().cast());
        size.put(peeked.len());
        // SAFETY: the C caller passes NULL or a place for `redelivered`.
        if let Some(out) = unsafe { out_or_none(redelivered) } {
            out.put(u32::from(peeked.redelivered()));
        }
        this.peeked = Some(peeked);
        Ok(())
    })
}

/// Takes the message that was peeked at out of the queue for good.
///
/// Errors: EINVAL: no message was peeked at.
///
/// If the process dies during the call, the next receiver gets the message again, or not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_receiver_commit(receiver: *mut outlive_receiver_t) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live receiver that no other thread uses.
        let peeked = unsafe { borrow_mut(receiver, "a receiver") }?.peeked.take();
        peeked.ok_or_else(|| Failure::new(libc::EINVAL, "no message was peeked at"))?.commit();
        Ok(())
    })
}

/// Sets whether a receive that finds nothing ends with EPIPE once there have been senders and all
/// of them have died or been closed. Default: 0, it waits for the next sender.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_receiver_end_when_senders_gone(
    receiver: *mut outlive_receiver_t,
    end: u32,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live receiver that no other thread uses.
        let receiver = unsafe { borrow_mut(receiver, "a receiver") }?;
        receiver.peeked = None;
        receiver.receiver.end_when_senders_gone(end != 0);
        Ok(())
    })
}
