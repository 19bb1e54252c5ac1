/* Outlive: daemonless shared-memory IPC for Linux whose locks, queues and topics recover when any
 * participant is killed. This is the C interface, ABI version 1.
 *
 * cbindgen writes this file from the sources, which have the same comments: edit those.
 * doc/c-abi.md has the rules in full:
 *
 * - Functions return 0, or a positive number: an errno number where there is one (EOWNERDEAD,
 *   ETIMEDOUT, EPIPE, ...), else one of the OUTLIVE_ codes. outlive_last_error() returns the
 *   thread's last message. No function throws.
 * - `X_open(domain, name, how, ...)` returns a handle. `how` says whether the name must exist; the
 *   comment of `outlive_opening_t` lists the codes that all openings return. `X_close` ends a
 *   handle, and `X_release` what passes through (a loan, sample, job, call, reply, request, stream
 *   or shared object); passing NULL to either has no effect. When a call fails, a place for a handle
 *   holds NULL, and any other place is unchanged. NULL where something is needed gives EINVAL.
 * - A call that waits takes a deadline: outlive_after_ms(n), OUTLIVE_NEVER, OUTLIVE_TRY. It also
 *   ends when what it waits for can never come because a peer died.
 * - Mutexes, condition variables, rwlocks, events, latches, onces, semaphores and barriers are
 *   bytes in shared memory, used by their address, as with pthreads: named ones, or inside a
 *   record, a struct of your own. A lock belongs to the thread that took it.
 * - A forked child shares only shared memory with its parent: it opens its own handles, and holds
 *   none of its parent's locks.
 * - New versions only add: options structs begin with their size (use the INIT macros), and other
 *   structs never change.
 */

#ifndef OUTLIVE_H
#define OUTLIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define OUTLIVE_ALIGNED(n) __attribute__((aligned(n)))

/** A primitive's place in a record: OUTLIVE_PLACE(struct line, lock, OUTLIVE_MUTEX). */
#define OUTLIVE_PLACE(type, member, kind) { offsetof(type, member), (kind), 0 }

/** In a struct: a semaphore with room for so many permits, or a barrier for so many participants:
 * OUTLIVE_SEMAPHORE_OF(3) slots; is used as &line->slots.semaphore. */
#define OUTLIVE_SEMAPHORE_OF(permit_count) struct { outlive_semaphore_t semaphore; uint32_t permits[permit_count]; }
#define OUTLIVE_BARRIER_OF(seat_count) struct { outlive_barrier_t barrier; uint32_t seats[seat_count]; }

/** The places of these: OUTLIVE_SEMAPHORE_PLACE(struct line, slots). That of a ceiling mutex has its
 * ceiling. */
#define OUTLIVE_SEMAPHORE_PLACE(type, member) \
    { offsetof(type, member), OUTLIVE_SEMAPHORE, (uint32_t)(sizeof(((type *)0)->member.permits) / sizeof(uint32_t)) }
#define OUTLIVE_BARRIER_PLACE(type, member) \
    { offsetof(type, member), OUTLIVE_BARRIER, (uint32_t)(sizeof(((type *)0)->member.seats) / sizeof(uint32_t)) }
#define OUTLIVE_CEILING_PLACE(type, member, ceiling) { offsetof(type, member), OUTLIVE_CEILING_MUTEX, (ceiling) }

/** In a struct: a text of at most so many bytes, a multiple of 4, and a list of at most so many items,
 * with room that is a multiple of 8 bytes; other numbers do not compile, because other languages have
 * another layout then. C++ has outlive::inline_string and outlive::inline_vec.
 *
 * struct scan { OUTLIVE_INLINE_STRING(32) name; OUTLIVE_INLINE_VEC(float, 16) ranges; };
 *
 * Any program may have written them, and may be writing still: OUTLIVE_STRING_SIZE and OUTLIVE_VEC_SIZE
 * read once how many bytes or items there are, and a length beyond the room counts as the room. A text
 * has no NUL behind it. OUTLIVE_STRING_SET(scan->name, "front", 5) writes one; false: no room. */
#define OUTLIVE_INLINE_STRING(room) struct { uint32_t length; char bytes[(room) % 4 == 0 ? (room) : -1]; }
#define OUTLIVE_INLINE_VEC(type, room) \
    struct { uint64_t length; type items[sizeof(type) * (room) % 8 == 0 ? (room) : -1]; }
#define OUTLIVE_STRING_SIZE(text) outlive_string_size(&(text).length, sizeof((text).bytes))
#define OUTLIVE_VEC_SIZE(list) outlive_vec_size(&(list).length, sizeof((list).items) / sizeof((list).items[0]))
#define OUTLIVE_STRING_SET(text, from, size) \
    outlive_string_set(&(text).length, (text).bytes, sizeof((text).bytes), (from), (size))
/** What these macros call. */
static inline size_t outlive_string_size(const volatile uint32_t *length, size_t room)
{
    size_t size = *length;
    return size < room ? size : room;
}
static inline size_t outlive_vec_size(const volatile uint64_t *length, size_t room)
{
    uint64_t size = *length;
    return size < room ? (size_t)size : room;
}
static inline bool outlive_string_set(uint32_t *length, char *bytes, size_t room, const char *from, size_t size)
{
    if (size > room)
        return false;
    memcpy(bytes, from, size);
    memset(bytes + size, 0, room - size);
    *length = (uint32_t)size;
    return true;
}

#ifndef __cplusplus
/** The description of a struct, in C; C++ has OUTLIVE_DESCRIBE (outlive/described.hpp):
 *
 * OUTLIVE_PAYLOAD(pose_payload, struct pose, "Pose", OUTLIVE_ARRAY_FIELD(struct pose, position),
 *                 OUTLIVE_FIELD(struct pose, heading));
 *
 * makes `pose_payload`, a static outlive_payload_t. Fields come in the order of their places. */
#define OUTLIVE_PAYLOAD(variable, type, type_name, ...) \
    static const outlive_field_t variable##_fields[] = { __VA_ARGS__ }; \
    static const outlive_payload_t variable = { type_name, sizeof(type), _Alignof(type), OUTLIVE_ENCODING_RAW, 0, \
        variable##_fields, sizeof variable##_fields / sizeof variable##_fields[0] }

/** The description of messages in an encoding of their own, of which only the name is known:
 * OUTLIVE_ENCODED(pose_payload, OUTLIVE_ENCODING_CDR, "geometry_msgs/msg/Pose"); */
#define OUTLIVE_ENCODED(variable, encoding, type_name) \
    static const outlive_payload_t variable = { type_name, 0, 0, encoding, 0, NULL, 0 }

/** A field that is a number, an array of numbers, an array of such arrays; one that is a struct, and
 * an array of structs, each with the name of their description. */
#define OUTLIVE_FIELD(type, member) \
    { #member, offsetof(type, member), OUTLIVE_TYPE_OF(((type *)0)->member), { 0, 0, 0, 0 }, NULL }
#define OUTLIVE_ARRAY_FIELD(type, member) \
    { #member, offsetof(type, member), OUTLIVE_TYPE_OF(((type *)0)->member[0]), \
        { OUTLIVE_EXTENT_OF(((type *)0)->member), 0, 0, 0 }, NULL }
#define OUTLIVE_MATRIX_FIELD(type, member) \
    { #member, offsetof(type, member), OUTLIVE_TYPE_OF(((type *)0)->member[0][0]), \
        { OUTLIVE_EXTENT_OF(((type *)0)->member), OUTLIVE_EXTENT_OF(((type *)0)->member[0]), 0, 0 }, NULL }
/* Arrays of three and of four extents, and of structs in two. */
#define OUTLIVE_ARRAY3_FIELD(type, member) \
    { #member, offsetof(type, member), OUTLIVE_TYPE_OF(((type *)0)->member[0][0][0]), \
        { OUTLIVE_EXTENT_OF(((type *)0)->member), OUTLIVE_EXTENT_OF(((type *)0)->member[0]), \
            OUTLIVE_EXTENT_OF(((type *)0)->member[0][0]), 0 }, NULL }
#define OUTLIVE_ARRAY4_FIELD(type, member) \
    { #member, offsetof(type, member), OUTLIVE_TYPE_OF(((type *)0)->member[0][0][0][0]), \
        { OUTLIVE_EXTENT_OF(((type *)0)->member), OUTLIVE_EXTENT_OF(((type *)0)->member[0]), \
            OUTLIVE_EXTENT_OF(((type *)0)->member[0][0]), OUTLIVE_EXTENT_OF(((type *)0)->member[0][0][0]) }, NULL }
#define OUTLIVE_STRUCT_MATRIX_FIELD(type, member, payload) \
    { #member, offsetof(type, member), OUTLIVE_TYPE_STRUCT, \
        { OUTLIVE_EXTENT_OF(((type *)0)->member), OUTLIVE_EXTENT_OF(((type *)0)->member[0]), 0, 0 }, &(payload) }
#define OUTLIVE_STRUCT_FIELD(type, member, payload) \
    { #member, offsetof(type, member), OUTLIVE_TYPE_STRUCT, { 0, 0, 0, 0 }, &(payload) }
#define OUTLIVE_STRUCT_ARRAY_FIELD(type, member, payload) \
    { #member, offsetof(type, member), OUTLIVE_TYPE_STRUCT, \
        { OUTLIVE_EXTENT_OF(((type *)0)->member), 0, 0, 0 }, &(payload) }
/** A field that is a text in place, a list of numbers, and a list of structs: what
 * OUTLIVE_INLINE_STRING and OUTLIVE_INLINE_VEC declare. At file scope, as OUTLIVE_PAYLOAD. */
#define OUTLIVE_STRING_FIELD(type, member) \
    OUTLIVE_IN_PLACE_OF(type, member, 4, OUTLIVE_TYPE_U32, "bytes", OUTLIVE_TYPE_U8, sizeof(((type *)0)->member.bytes), NULL)
#define OUTLIVE_VEC_FIELD(type, member) \
    OUTLIVE_IN_PLACE_OF(type, member, 8, OUTLIVE_TYPE_U64, "items", OUTLIVE_TYPE_OF(((type *)0)->member.items[0]), \
        OUTLIVE_EXTENT_OF(((type *)0)->member.items), NULL)
#define OUTLIVE_STRUCT_VEC_FIELD(type, member, payload) \
    OUTLIVE_IN_PLACE_OF(type, member, 8, OUTLIVE_TYPE_U64, "items", OUTLIVE_TYPE_STRUCT, \
        OUTLIVE_EXTENT_OF(((type *)0)->member.items), &(payload))
#define OUTLIVE_IN_PLACE_OF(type, member, align, length_type, name, item_type, room, nested) \
    { #member, offsetof(type, member), OUTLIVE_TYPE_STRUCT, { 0, 0, 0, 0 }, &(const outlive_payload_t){ "", \
        sizeof(((type *)0)->member), align, OUTLIVE_ENCODING_RAW, 0, (const outlive_field_t[]){ \
            { "length", 0, length_type, { 0, 0, 0, 0 }, NULL }, { name, align, item_type, { room, 0, 0, 0 }, nested } }, 2 } }
/** The last field of a struct that ends in a flexible array member, of numbers or of structs: a message
 * has any number of them behind the struct, which ends where they begin.
 *
 * struct detections { uint64_t stamp; struct rect boxes[]; };
 * OUTLIVE_PAYLOAD(detections_payload, struct detections, "Detections", OUTLIVE_FIELD(struct detections, stamp),
 *                 OUTLIVE_STRUCT_TAIL_FIELD(struct detections, boxes, rect_payload)); */
#define OUTLIVE_TAIL_FIELD(type, member) \
    { #member, offsetof(type, member), OUTLIVE_TYPE_OF(((type *)0)->member[0]), { OUTLIVE_TAIL, 0, 0, 0 }, NULL }
/* Each item is an array of numbers. */
#define OUTLIVE_ARRAY_TAIL_FIELD(type, member) \
    { #member, offsetof(type, member), OUTLIVE_TYPE_OF(((type *)0)->member[0][0]), \
        { OUTLIVE_TAIL, OUTLIVE_EXTENT_OF(((type *)0)->member[0]), 0, 0 }, NULL }
#define OUTLIVE_STRUCT_TAIL_FIELD(type, member, payload) \
    { #member, offsetof(type, member), OUTLIVE_TYPE_STRUCT, { OUTLIVE_TAIL, 0, 0, 0 }, &(payload) }
/** The bytes of a message with so many items in its tail, and how many items a message of so many bytes
 * has: OUTLIVE_TAIL_SIZE(struct detections, boxes, 3). */
#define OUTLIVE_TAIL_SIZE(type, member, count) \
    (offsetof(type, member) + (size_t)(count) * sizeof(((type *)0)->member[0]))
#define OUTLIVE_TAIL_COUNT(type, member, size) \
    ((size) < offsetof(type, member) ? (size_t)0 : ((size) - offsetof(type, member)) / sizeof(((type *)0)->member[0]))
/* An array of no items does not compile. */
#define OUTLIVE_EXTENT_OF(array) \
    (sizeof(array) / sizeof((array)[0]) * sizeof(char[sizeof(array) == 0 ? -1 : 1]))
#define OUTLIVE_TYPE_OF(value) _Generic((value), _Bool: OUTLIVE_TYPE_BOOL, char: OUTLIVE_TYPE_U8, \
    unsigned char: OUTLIVE_TYPE_U8, signed char: OUTLIVE_TYPE_I8, \
    unsigned short: OUTLIVE_TYPE_U16, short: OUTLIVE_TYPE_I16, unsigned: OUTLIVE_TYPE_U32, int: OUTLIVE_TYPE_I32, \
    unsigned long: OUTLIVE_TYPE_U64, long: OUTLIVE_TYPE_I64, \
    unsigned long long: OUTLIVE_TYPE_U64, long long: OUTLIVE_TYPE_I64, \
    float: OUTLIVE_TYPE_F32, double: OUTLIVE_TYPE_F64)
#endif

#define OUTLIVE_DOMAIN_OPTIONS_INIT { sizeof(outlive_domain_options_t), NULL, NULL, NULL, 0, 0, 0, 0 }
#define OUTLIVE_QUEUE_OPTIONS_INIT { sizeof(outlive_queue_options_t), 0, 0, 0, 0, 0, 0, 0, NULL }
#define OUTLIVE_JOB_QUEUE_OPTIONS_INIT { sizeof(outlive_job_queue_options_t), 0, 0, 0, 0 }
#define OUTLIVE_NOTIFIER_OPTIONS_INIT { sizeof(outlive_notifier_options_t), 0, 0, 0, 0, 0 }
#define OUTLIVE_TOPIC_OPTIONS_INIT { sizeof(outlive_topic_options_t), 0, 0, 0, 0, 0, NULL, 0, 0, 0, 0, 0, 0, 0, 0 }
#define OUTLIVE_PUBLISHER_OPTIONS_INIT { sizeof(outlive_publisher_options_t), 0, 0, 0 }
#define OUTLIVE_SUBSCRIBER_OPTIONS_INIT { sizeof(outlive_subscriber_options_t), 0, 0, 0, 0, NULL, 0, 0, 0, 0, 0, 0 }
#define OUTLIVE_SERVICE_OPTIONS_INIT { sizeof(outlive_service_options_t), 0, 0, 0, OUTLIVE_TRY, NULL, NULL, 0 }
#define OUTLIVE_POOL_OPTIONS_INIT { sizeof(outlive_pool_options_t), 0, 0, NULL, 0, 0 }

/**
 * The shared memory is damaged, by a stray write or by a hostile process.
 */
#define OUTLIVE_DAMAGED 10001

/**
 * The name is in use for a thing of another kind.
 */
#define OUTLIVE_OTHER_KIND 10002

/**
 * The thing holds values of another type, size or layout.
 */
#define OUTLIVE_OTHER_TYPE 10003

/**
 * The file was made by a version of Outlive with another memory layout.
 */
#define OUTLIVE_OTHER_VERSION 10004

/**
 * The file was not made by Outlive.
 */
#define OUTLIVE_NOT_OURS 10005

/**
 * A participant's death has broken the barrier.
 */
#define OUTLIVE_BROKEN 10006

/**
 * The lock belongs to another pid namespace, or to another C library.
 */
#define OUTLIVE_OTHER_PLACE 10007

/**
 * A debug mode of a pool found a fault in the program.
 */
#define OUTLIVE_FAULT 10008

/**
 * The CUDA driver refused a call: the message has the function, its message and its number.
 */
#define OUTLIVE_DRIVER 10010

/**
 * The service could not do what was asked: `outlive_last_error` has its server's words.
 */
#define OUTLIVE_FAILED 10011

/**
 * A publisher did not wait any longer for this subscriber, and has overwritten messages.
 */
#define OUTLIVE_LAGGED 10012

/**
 * The next message is the first one of a publisher that has started.
 */
#define OUTLIVE_NEW_SESSION 10013

/**
 * A publisher is alive and has done nothing for longer than its lease.
 */
#define OUTLIVE_NOT_LIVELY 10014

/**
 * A publisher that was not lively does something again.
 */
#define OUTLIVE_LIVELY 10015

/**
 * A defect of Outlive itself: report it. The program may go on; what the call was working on may
 * be lost.
 */
#define OUTLIVE_PANIC 10009

/**
 * The version of the ABI that this header describes.
 */
#define OUTLIVE_ABI_VERSION 1

/**
 * Spin as long as that has paid recently, then sleep. The default; in options it is as the
 * configuration file says that the domain was opened by (`wait.strategy`), if it says so.
 */
#define OUTLIVE_WAIT_ADAPTIVE 0

/**
 * Sleep at once: waiting takes no processor time.
 */
#define OUTLIVE_WAIT_BLOCK 1

/**
 * Spin for long before sleeping: the lowest latency, at the price of a busy processor.
 */
#define OUTLIVE_WAIT_SPIN 2

/**
 * It was not there before.
 */
#define OUTLIVE_APPEARED 1

/**
 * It is there no more: a name was removed, a node has given its name up, or its process has died.
 */
#define OUTLIVE_VANISHED 2

/**
 * In an `outlive_place_t`: an `outlive_mutex_t`.
 */
#define OUTLIVE_MUTEX 2

/**
 * In an `outlive_place_t`: an `outlive_rwlock_t`.
 */
#define OUTLIVE_RWLOCK 5

/**
 * In an `outlive_place_t`: an `outlive_condvar_t`.
 */
#define OUTLIVE_CONDVAR 6

/**
 * In an `outlive_place_t`: an `outlive_event_t`.
 */
#define OUTLIVE_EVENT 7

/**
 * In an `outlive_place_t`: an `outlive_once_t`.
 */
#define OUTLIVE_ONCE 8

/**
 * In an `outlive_place_t`: an `outlive_latch_t`.
 */
#define OUTLIVE_LATCH 9

/**
 * In an `outlive_place_t`: an `outlive_pi_mutex_t`.
 */
#define OUTLIVE_PI_MUTEX 12

/**
 * In an `outlive_place_t`: an `outlive_semaphore_t` with permits behind it:
 * `OUTLIVE_SEMAPHORE_PLACE`.
 */
#define OUTLIVE_SEMAPHORE 10

/**
 * In an `outlive_place_t`: an `outlive_barrier_t` with seats behind it: `OUTLIVE_BARRIER_PLACE`.
 */
#define OUTLIVE_BARRIER 11

/**
 * In an `outlive_place_t`: an `outlive_ceiling_mutex_t`: `OUTLIVE_CEILING_PLACE`.
 */
#define OUTLIVE_CEILING_MUTEX 13

/**
 * In an `outlive_place_t`: an `outlive_reentrant_mutex_t`.
 */
#define OUTLIVE_REENTRANT_MUTEX 20

/**
 * Bits stay set until they are cleared.
 */
#define OUTLIVE_RESET_MANUAL 1

/**
 * A waiter clears the bits that it waited for.
 */
#define OUTLIVE_RESET_AUTOMATIC 2

/**
 * A participant's death breaks the barrier.
 */
#define OUTLIVE_DEATH_BREAKS 1

/**
 * A participant that dies is counted out, and the others go on.
 */
#define OUTLIVE_DEATH_COUNTS_OUT 2

/**
 * In an `outlive_field_t`: a byte that is 0 or 1.
 */
#define OUTLIVE_TYPE_BOOL 1

/**
 * In an `outlive_field_t`: 8 bits, without a sign; also the bytes of a text.
 */
#define OUTLIVE_TYPE_U8 2

/**
 * In an `outlive_field_t`: 8 bits.
 */
#define OUTLIVE_TYPE_I8 3

/**
 * In an `outlive_field_t`: 16 bits, without a sign.
 */
#define OUTLIVE_TYPE_U16 4

/**
 * In an `outlive_field_t`: 16 bits.
 */
#define OUTLIVE_TYPE_I16 5

/**
 * In an `outlive_field_t`: 32 bits, without a sign.
 */
#define OUTLIVE_TYPE_U32 6

/**
 * In an `outlive_field_t`: 32 bits.
 */
#define OUTLIVE_TYPE_I32 7

/**
 * In an `outlive_field_t`: 64 bits, without a sign.
 */
#define OUTLIVE_TYPE_U64 8

/**
 * In an `outlive_field_t`: 64 bits.
 */
#define OUTLIVE_TYPE_I64 9

/**
 * In an `outlive_field_t`: a floating-point number of 32 bits.
 */
#define OUTLIVE_TYPE_F32 10

/**
 * In an `outlive_field_t`: a floating-point number of 64 bits.
 */
#define OUTLIVE_TYPE_F64 11

/**
 * In an `outlive_field_t`: the type that `nested` describes.
 */
#define OUTLIVE_TYPE_STRUCT 64

/**
 * In an `outlive_field_t`, as the outermost extent of a struct's last field: any number of items
 * follow the struct, as in a flexible array member. OUTLIVE_TAIL_FIELD sets it.
 */
#define OUTLIVE_TAIL UINT32_MAX

/**
 * In an `outlive_payload_t`: values as they lie in memory, with fields.
 */
#define OUTLIVE_ENCODING_RAW 0

/**
 * In an `outlive_payload_t`: msgpack.
 */
#define OUTLIVE_ENCODING_MSGPACK 2

/**
 * In an `outlive_payload_t`: CDR, as DDS and ROS 2 have it.
 */
#define OUTLIVE_ENCODING_CDR 3

/**
 * In an `outlive_payload_t`: Protocol Buffers.
 */
#define OUTLIVE_ENCODING_PROTOBUF 4

/**
 * In an `outlive_payload_t`: JSON.
 */
#define OUTLIVE_ENCODING_JSON 5

/**
 * In an `outlive_payload_t`: bytes of which no more is known than the name.
 */
#define OUTLIVE_ENCODING_BYTES 6

/**
 * For the options of a queue: while the receiver is dead, each send fails with EPIPE, also one that
 * waits.
 */
#define OUTLIVE_RECEIVER_DEATH_FAILS 1

/**
 * For the options of a queue: while the receiver is dead, the queue goes on taking messages until
 * it is full, and the next receiver gets them.
 */
#define OUTLIVE_RECEIVER_DEATH_KEEPS 2

/**
 * In `max_attempts`: a job may be taken for ever.
 */
#define OUTLIVE_NO_LIMIT UINT32_MAX

/**
 * How many numbers of notices there are: 0 to 63.
 */
#define OUTLIVE_NOTICES 64

/**
 * What a topic keeps for subscribers that come later: not said.
 */
#define OUTLIVE_DURABILITY_ANY 0

/**
 * A subscriber gets what is published while it is there.
 */
#define OUTLIVE_VOLATILE 1

/**
 * A later subscriber gets what living publishers have published. A new topic's default.
 */
#define OUTLIVE_TRANSIENT_LOCAL 2

/**
 * Messages outlive their publishers.
 */
#define OUTLIVE_PERSISTENT 3

/**
 * A publisher's `max_blocking`: it waits for a reliable subscriber for as long as that lives. The
 * default.
 */
#define OUTLIVE_BLOCK_FOREVER 0

/**
 * A publisher's `max_blocking`: it waits for no subscriber; one that is in the way is told what it has
 * lost.
 */
#define OUTLIVE_BLOCK_NEVER 1

/**
 * The client lives, and has done nothing for a lease.
 */
#define OUTLIVE_CLIENT_NOT_LIVELY 1

/**
 * The client has done something since it was told as not lively.
 */
#define OUTLIVE_CLIENT_LIVELY 2

/**
 * The client has ended without leaving in order.
 */
#define OUTLIVE_CLIENT_DIED 3

/**
 * A receive is worth a try.
 */
#define OUTLIVE_READABLE 1

/**
 * The peer, or all senders of a queue, have ended.
 */
#define OUTLIVE_ENDED 2

/**
 * The bits are set; the latch is open.
 */
#define OUTLIVE_SET 3

/**
 * The timer's moment has passed.
 */
#define OUTLIVE_ELAPSED 4

/**
 * There is another value; or the publishers or subscribers have changed.
 */
#define OUTLIVE_CHANGED 5

/**
 * A publish is worth a try.
 */
#define OUTLIVE_WRITABLE 6

/**
 * The subscriber has got no message, or the publisher has published none, for its period.
 */
#define OUTLIVE_MISSED 7

/**
 * What an opening does with a name: the `how` of all functions that open something by its name.
 *
 * Options that are 0 or NULL take what an existing thing has; one that is set, and is not what the
 * thing has, is EINVAL. Options that concern the calling process alone (how it waits) are never
 * compared. All these functions return, besides what they say themselves:
 *
 * - EINVAL: an invalid name, domain, `how` or option, or options that contradict what is there.
 * - ENOENT: nothing has that name (OUTLIVE_OPEN).
 * - EEXIST: something has that name, of whatever kind (OUTLIVE_CREATE_NEW).
 * - OUTLIVE_OTHER_KIND: the name is in use for something else.
 * - OUTLIVE_OTHER_TYPE: what has the name has values of another type, size or layout.
 * - ENOSPC, ENOMEM, EACCES, EUSERS, OUTLIVE_OTHER_VERSION, OUTLIVE_NOT_OURS, OUTLIVE_DAMAGED, and
 *   errors of the system.
 *
 * If a process dies while it makes something, nothing is left of it.
 */
typedef enum outlive_opening_t {
  /**
   * Opens what has that name, and makes it if nothing has.
   */
  OUTLIVE_OPEN_OR_CREATE = 0,
  /**
   * Opens what has that name, which must exist.
   */
  OUTLIVE_OPEN = 1,
  /**
   * Makes something new of that name, which nothing may have.
   */
  OUTLIVE_CREATE_NEW = 2,
} outlive_opening_t;

/**
 * A call that is in flight. One thread at a time may use it.
 */
typedef struct outlive_call_t outlive_call_t;

/**
 * Calls a service. All threads may use it at once.
 */
typedef struct outlive_client_t outlive_client_t;

/**
 * Tells which clients of a service do nothing, and which have died. One thread at a time may use
 * it.
 */
typedef struct outlive_client_watch_t outlive_client_watch_t;

/**
 * What the configuration files say: the page "Configure a machine" of the book has all keys. All
 * threads may use it at once.
 */
typedef struct outlive_config_t outlive_config_t;

/**
 * A domain: a folder on a memory file system in which processes find each other; every named
 * object is a file in it. There is no daemon to start, and nothing to set up. All threads may use
 * it at once.
 */
typedef struct outlive_domain_t outlive_domain_t;

/**
 * Follows which things and nodes a domain has. One thread at a time may use it.
 */
typedef struct outlive_domain_watch_t outlive_domain_watch_t;

/**
 * A job queue, open in this process. All threads may use it at once.
 */
typedef struct outlive_job_queue_t outlive_job_queue_t;

/**
 * A job that this process has taken, with a copy of its data. One thread at a time may use it.
 */
typedef struct outlive_job_t outlive_job_t;

/**
 * Counts the notices of all notifiers of a name. One thread at a time may use it.
 */
typedef struct outlive_listener_t outlive_listener_t;

/**
 * Memory that a publisher has lent for a message, to be written in place.
 */
typedef struct outlive_loan_t outlive_loan_t;

/**
 * The name that this process has in a domain.
 */
typedef struct outlive_node_t outlive_node_t;

/**
 * Tells all listeners of a name that something has happened. All threads may use it at once.
 */
typedef struct outlive_notifier_t outlive_notifier_t;

/**
 * Memory for a part of a request, to be written in place. One thread at a time may use it.
 */
typedef struct outlive_part_loan_t outlive_part_loan_t;

/**
 * A part of a request that the server has taken. All threads may use it at once.
 */
typedef struct outlive_part_t outlive_part_t;

/**
 * A pool, open in this process: memory objects of 0 bytes to 1 GiB. All threads may use it at
 * once.
 */
typedef struct outlive_pool_t outlive_pool_t;

/**
 * Publishes messages to a topic. One thread at a time may use it and its loans.
 */
typedef struct outlive_publisher_t outlive_publisher_t;

/**
 * A queue, open in this process; its senders and its receiver are made from it. All threads may
 * use it at once.
 */
typedef struct outlive_queue_t outlive_queue_t;

/**
 * Takes messages out of a queue, which has one receiver at a time, of all processes. One thread at
 * a time may use it.
 */
typedef struct outlive_receiver_t outlive_receiver_t;

/**
 * Memory for the reply to a request, to be written in place. One thread at a time may use it.
 */
typedef struct outlive_reply_loan_t outlive_reply_loan_t;

/**
 * A reply. All threads may use it at once.
 */
typedef struct outlive_reply_t outlive_reply_t;

/**
 * Memory for one request, to be written in place. One thread at a time may use it.
 */
typedef struct outlive_request_loan_t outlive_request_loan_t;

/**
 * A request whose parts are sent one after the other. One thread at a time may use it.
 */
typedef struct outlive_request_stream_t outlive_request_stream_t;

/**
 * A request that waits for its reply. It may move to another thread, which replies.
 */
typedef struct outlive_request_t outlive_request_t;

/**
 * A received message: it stays as it is until it is released, whatever its publisher does. All
 * threads may use it at once, also longer than its subscriber exists.
 */
typedef struct outlive_sample_t outlive_sample_t;

/**
 * Puts messages into a queue. One thread at a time may use it.
 */
typedef struct outlive_sender_t outlive_sender_t;

/**
 * Receives a service's requests. A service has one server at a time, of all processes, or as many as
 * its `max_servers`. One thread at a time may use it.
 */
typedef struct outlive_server_t outlive_server_t;

/**
 * An object that several processes hold, each by name. All threads may use it at once.
 */
typedef struct outlive_shared_t outlive_shared_t;

/**
 * The latest value under a name: one writer, any number of readers; no reader and no writer waits
 * for another. All threads may use it at once.
 */
typedef struct outlive_state_t outlive_state_t;

/**
 * Sets the values of a state. One thread at a time may use it.
 */
typedef struct outlive_state_writer_t outlive_state_writer_t;

/**
 * Memory for a reply of a stream, to be written in place. One thread at a time may use it.
 */
typedef struct outlive_stream_loan_t outlive_stream_loan_t;

/**
 * Several replies to one request.
 */
typedef struct outlive_stream_t outlive_stream_t;

/**
 * Receives the messages of a topic: each subscriber gets all of them. One thread at a time may use
 * it.
 */
typedef struct outlive_subscriber_t outlive_subscriber_t;

/**
 * A topic, open in this process; its publishers and subscribers are made from it. All threads may
 * use it at once.
 */
typedef struct outlive_topic_t outlive_topic_t;

/**
 * A set of sources to wait for, all of one domain. One thread at a time may use it.
 */
typedef struct outlive_wait_set_t outlive_wait_set_t;

/**
 * Until when a call may wait: a point in time, so that waiting again does not make it longer.
 *
 * A number of nanoseconds of `CLOCK_MONOTONIC`, as `outlive_after_ms` makes it; or of the time of
 * day, with the highest bit set, as `outlive_at_time_of_day` makes it; or `OUTLIVE_NEVER`, or
 * `OUTLIVE_TRY`.
 */
typedef uint64_t outlive_deadline_t;

/**
 * Options for opening a domain by `outlive_domain_open_with`. Begin with
 * `OUTLIVE_DOMAIN_OPTIONS_INIT`.
 */
typedef struct outlive_domain_options_t {
  /**
   * `sizeof(outlive_domain_options_t)`.
   */
  size_t size;
  /**
   * A folder, whose parent must exist. NULL: `name` says which.
   */
  const char *path;
  /**
   * A domain of the user's own, `/dev/shm/outlive-UID/NAME`. NULL: what `OUTLIVE_DOMAIN` names,
   * else the configuration file, else `default`.
   */
  const char *name;
  /**
   * The group that shares the domain (folders 0770, files 0660): its name in `/etc/group`, or
   * its number in decimal. NULL: `has_group` and `group` say which.
   */
  const char *group_name;
  /**
   * Not 0: the group `group` shares the domain.
   */
  uint32_t has_group;
  /**
   * The group's number.
   */
  uint32_t group;
  /**
   * After how many milliseconds at most a sleeping waiter polls. 0: the default (1 s);
   * UINT32_MAX: never.
   */
  uint32_t recheck_ms;
  /**
   * 1: record the order in which locks are taken, and report when that order can deadlock; 2: do
   * not, whatever `OUTLIVE_LOCK_ORDER` says.
   */
  uint32_t lock_order;
} outlive_domain_options_t;

/**
 * What is known about a token's owner. Its size never changes.
 */
typedef struct outlive_peer_info_t {
  /**
   * The token.
   */
  uint32_t token;
  /**
   * Its process, in that process's pid namespace; 0 when no longer known.
   */
  uint32_t pid;
  /**
   * Its thread; 0 when no longer known.
   */
  uint32_t tid;
  /**
   * 1: the owner is alive.
   */
  uint8_t alive;
  /**
   * 1: the token belongs to the whole process.
   */
  uint8_t is_process;
  /**
   * 0.
   */
  uint8_t reserved[2];
  /**
   * The program's name, NUL-terminated.
   */
  char program[16];
  /**
   * When the process was started, in clock ticks since boot; 0 when not looked up.
   */
  uint64_t start_time;
  /**
   * 0.
   */
  uint64_t reserved2[3];
} outlive_peer_info_t;

/**
 * A free pair of a key and a value, both UTF-8.
 */
typedef struct outlive_attribute_t {
  /**
   * The key; not empty.
   */
  const char *key;
  /**
   * The value.
   */
  const char *value;
} outlive_attribute_t;

/**
 * What has appeared in a domain, or vanished from it. Its size never changes.
 */
typedef struct outlive_change_t {
  /**
   * OUTLIVE_APPEARED or OUTLIVE_VANISHED.
   */
  uint32_t what;
  /**
   * Of a node: its process's token. Of a thing: 0.
   */
  uint32_t token;
  /**
   * The name of the thing or the node.
   */
  const char *name;
  /**
   * Of a thing: its kind, as `outlive ls` has it (`topic`, `mutex`, `job queue`); empty when it
   * cannot be told: a damaged file, one that has gone already, or one that this user may not
   * read, as another user's topic of mode 0600. Of a node: `node`.
   */
  const char *kind;
  /**
   * 0.
   */
  uint64_t reserved[2];
} outlive_change_t;

/**
 * Where in a record a primitive lies, and of which kind: `OUTLIVE_PLACE(type, member,
 * OUTLIVE_MUTEX)`.
 */
typedef struct outlive_place_t {
  /**
   * Bytes from the record's start.
   */
  size_t offset;
  /**
   * One of the numbers above.
   */
  uint32_t kind;
  /**
   * How many permits a semaphore has room for, how many seats a barrier, how high a mutex's
   * ceiling is; 0 for the others.
   */
  uint32_t number;
} outlive_place_t;

/**
 * Initialises a new record, zeroed before, which no other process sees yet. It must return; it may
 * be called twice, for two files of which one is thrown away. `argument` is the caller's.
 */
typedef void (*outlive_init_t)(void *data, void *argument);

/**
 * A mutex in shared memory: 8 bytes of a record, or a named one. All zeroes are an unlocked mutex.
 * It is used by its address, like a `pthread_mutex_t`, and never copied.
 */
typedef struct outlive_mutex_t {
  uint64_t words[1];
} outlive_mutex_t;

/**
 * A condition variable in shared memory: 32 bytes of a record, or a named one. All zeroes are a
 * new one.
 */
typedef struct outlive_condvar_t {
  uint64_t words[4];
} outlive_condvar_t;

/**
 * A mutex in shared memory whose holder inherits the priority of its waiters, for real-time
 * threads: 64 bytes of a record, or a named one. All zeroes are an unlocked mutex. It belongs to
 * the pid namespace and the C library that first used it.
 */
typedef struct OUTLIVE_ALIGNED(64) outlive_pi_mutex_t {
  uint64_t words[8];
} outlive_pi_mutex_t;

/**
 * A mutex in shared memory whose holders run at its ceiling, a real-time priority of 1 to 99. It
 * takes 16 bytes of a record, with its ceiling in its place (`OUTLIVE_CEILING_PLACE`), or is a
 * named one. All zeroes are an unlocked mutex. The lock belongs to the thread that took it.
 */
typedef struct outlive_ceiling_mutex_t {
  uint64_t words[2];
} outlive_ceiling_mutex_t;

/**
 * A mutex in shared memory that the thread that holds it may lock again, like POSIX's
 * PTHREAD_MUTEX_RECURSIVE: 16 bytes of a record, or a named one. All zeroes are an unlocked mutex.
 * It is unlocked when it has been unlocked as often as locked.
 */
typedef struct outlive_reentrant_mutex_t {
  uint64_t words[2];
} outlive_reentrant_mutex_t;

/**
 * A reader-writer lock in shared memory: 4,160 bytes of a record (readers have cache lines of
 * their own), or a named one. All zeroes are an unlocked lock. It is used by its address, like a
 * `pthread_rwlock_t`, and never copied.
 */
typedef struct OUTLIVE_ALIGNED(64) outlive_rwlock_t {
  uint64_t words[520];
} outlive_rwlock_t;

/**
 * Thirty-one bits to wait for, in shared memory: 160 bytes of a record, or a named one. All zeroes
 * are a new event whose bits stay set until they are cleared.
 */
typedef struct outlive_event_t {
  uint64_t words[20];
} outlive_event_t;

/**
 * A number of arrivals to wait for, in shared memory: 32 bytes of a record, or a named one. All
 * zeroes are an open latch.
 */
typedef struct outlive_latch_t {
  uint64_t words[4];
} outlive_latch_t;

/**
 * Whether an action has been done once, in shared memory: 8 bytes of a record, or a named one. All
 * zeroes: not yet.
 */
typedef struct outlive_once_t {
  uint64_t words[1];
} outlive_once_t;

/**
 * Does the action. `previous_died`: 1 when a thread began before and died: half of it may be done.
 * It must return.
 */
typedef void (*outlive_make_t)(void *argument, int previous_died);

/**
 * A semaphore in shared memory: a number of permits; a thread that dies gives its own back.
 *
 * It is a named one, or the beginning of a struct in a record in which the permits follow:
 * `OUTLIVE_SEMAPHORE_OF(3) slots;`, listed as a place by `OUTLIVE_SEMAPHORE_PLACE`, used as
 * `&line->slots.semaphore`. All zeroes are a semaphore whose permits are all free
 * (`outlive_semaphore_init`). It is used by its address, and never copied; a permit belongs to the
 * thread that took it.
 */
typedef struct OUTLIVE_ALIGNED(64) outlive_semaphore_t {
  uint32_t words[16];
} outlive_semaphore_t;

/**
 * A barrier in shared memory, which knows its participants: a named one, or one in a record.
 *
 * In a record it is the beginning of a struct in which the seats follow: `OUTLIVE_BARRIER_OF(4)
 * step;`, listed as a place by `OUTLIVE_BARRIER_PLACE`, used as `&line->step.barrier`. All zeroes
 * are a barrier without participants, which a death breaks (`outlive_barrier_init`). It is used by
 * its address, and never copied; a seat belongs to the thread that took it.
 */
typedef struct OUTLIVE_ALIGNED(64) outlive_barrier_t {
  uint32_t words[16];
} outlive_barrier_t;

/**
 * What a participant is told when a phase has begun.
 */
typedef struct outlive_turn_t {
  /**
   * The participant's number, from 0 to parties - 1, which no other participant of the phase
   * has: that of its seat, the same in each phase.
   */
  uint32_t index;
  /**
   * 1 for one participant of the phase, 0 for the others.
   */
  uint32_t leader;
} outlive_turn_t;

/**
 * What a barrier is like just now.
 */
typedef struct outlive_barrier_state_t {
  /**
   * How many participants it has seats for.
   */
  uint32_t parties;
  /**
   * How many participants have arrived and wait for the others; 0 when it is broken.
   */
  uint32_t waiting;
  /**
   * 1: broken, by a death or an abort.
   */
  uint32_t broken;
} outlive_barrier_state_t;

/**
 * A field of a type: OUTLIVE_FIELD(type, member) and the macros beside it.
 */
typedef struct outlive_field_t {
  /**
   * Its name.
   */
  const char *name;
  /**
   * Bytes from the beginning of the type.
   */
  uint32_t offset;
  /**
   * One of the OUTLIVE_TYPE numbers.
   */
  uint32_t type_number;
  /**
   * Of an array its extents, the outermost first, and 0 behind the last of them.
   */
  uint32_t extents[4];
  /**
   * Of a nested type its description; else NULL.
   */
  const struct outlive_payload_t *nested;
} outlive_field_t;

/**
 * The description of a payload's type, the same for all languages: OUTLIVE_PAYLOAD.
 */
typedef struct outlive_payload_t {
  /**
   * The type's name, the same in all languages; NULL matches every name.
   */
  const char *name;
  /**
   * Its size in bytes; of a payload that is not raw 0.
   */
  uint32_t size;
  /**
   * Its alignment in bytes; of a payload that is not raw 0.
   */
  uint32_t align;
  /**
   * One of the OUTLIVE_ENCODING numbers.
   */
  uint32_t encoding;
  /**
   * Not 0: a message has any number of such values.
   */
  uint32_t is_slice;
  /**
   * The fields of a raw payload, in the order of their places.
   */
  const struct outlive_field_t *fields;
  /**
   * How many fields.
   */
  size_t field_count;
} outlive_payload_t;

/**
 * Options for opening or making a queue. Begin with `OUTLIVE_QUEUE_OPTIONS_INIT`.
 */
typedef struct outlive_queue_options_t {
  /**
   * `sizeof(outlive_queue_options_t)`.
   */
  size_t size;
  /**
   * The most bytes that the queue may take, messages included, 64 KiB to 6 GiB. A new queue's
   * default: a quarter of the file system, at most 6 GiB. The file may take up to 64 KiB more
   * for each 2 MiB of it, where memory of short messages is reused for long ones.
   */
  uint64_t max_bytes;
  /**
   * Slots to begin with, 1 to 65,536. A new queue's default: 64.
   */
  uint32_t first_slots;
  /**
   * Bytes of a slot, 1 to 4,096; a message of up to 24 bytes less is stored in the slot itself.
   * A new queue's default: 128.
   */
  uint32_t slot_bytes;
  /**
   * Not 0: a send fails with ENOTCONN while there is no receiver, instead of keeping the message
   * for one.
   */
  uint32_t need_receiver;
  /**
   * How this process's ends wait: one of the OUTLIVE_WAIT numbers.
   */
  uint32_t wait;
  /**
   * What a send does while the receiver is dead, until another process becomes the receiver:
   * OUTLIVE_RECEIVER_DEATH_FAILS or OUTLIVE_RECEIVER_DEATH_KEEPS; 0: what an existing queue
   * does, and in a new one as OUTLIVE_RECEIVER_DEATH_FAILS.
   */
  uint32_t on_receiver_death;
  /**
   * The most unread messages, 1 to 1,048,576; 0: what an existing queue has, and in a new one no
   * bound but `max_bytes`. With so many unread, or with `max_bytes` in use, the queue is full. A
   * batch counts as one message. If there is no memory for more when they are needed, the queue
   * stays with the places that it has: `places` of its counters. Not beside `first_slots`.
   */
  uint32_t max_messages;
  /**
   * What a message is, for all languages: see `outlive_topic_options_t`.
   */
  const struct outlive_payload_t *payload;
} outlive_queue_options_t;

/**
 * Counts what has happened to a queue. Exact when it is quiet. Its size never changes.
 */
typedef struct outlive_queue_counters_t {
  /**
   * Messages sent and acknowledged.
   */
  uint64_t sent;
  /**
   * Messages received for good.
   */
  uint64_t received;
  /**
   * Messages in the queue.
   */
  uint64_t pending;
  /**
   * Messages whose sender died during the send; they were never acknowledged.
   */
  uint64_t abandoned;
  /**
   * Messages handed out again because a receiver died before it committed them.
   */
  uint64_t redelivered;
  /**
   * How often memory was added.
   */
  uint64_t grown;
  /**
   * The largest backlog seen, in slots.
   */
  uint64_t high_water;
  /**
   * Bytes of memory that the queue takes now.
   */
  uint64_t bytes;
  /**
   * The most bytes that it may take.
   */
  uint64_t max_bytes;
  /**
   * The most unread messages; 0: `max_bytes` alone bounds it.
   */
  uint64_t max_messages;
  /**
   * The most unread messages that it can hold: `max_messages`, or fewer, if there was no memory
   * for more when they were needed; it stays so. 0: `max_bytes` alone bounds it.
   */
  uint64_t places;
  /**
   * 0.
   */
  uint64_t reserved[5];
} outlive_queue_counters_t;

/**
 * Bytes of the C caller's.
 */
typedef struct outlive_bytes_t {
  /**
   * Their address. It may be NULL when there are none.
   */
  const void *data;
  /**
   * How many bytes there are.
   */
  size_t size;
} outlive_bytes_t;

/**
 * Options for opening or making a job queue. Begin with `OUTLIVE_JOB_QUEUE_OPTIONS_INIT`.
 */
typedef struct outlive_job_queue_options_t {
  /**
   * `sizeof(outlive_job_queue_options_t)`.
   */
  size_t size;
  /**
   * How many jobs it holds at most, waiting, taken and set aside together, 1 to 65,536. A new
   * job queue's default: 1,024.
   */
  uint32_t max_jobs;
  /**
   * The most bytes of a job, 1 to 16 MiB. A new job queue's default: 4,096.
   */
  uint32_t job_bytes;
  /**
   * How often a job is taken before it is set aside, 1 to 1,000, or OUTLIVE_NO_LIMIT. A new job
   * queue's default: 5.
   */
  uint32_t max_attempts;
  /**
   * How this process waits: one of the OUTLIVE_WAIT numbers.
   */
  uint32_t wait;
} outlive_job_queue_options_t;

/**
 * Counts the jobs of a queue. Exact when it is quiet. Its size never changes.
 */
typedef struct outlive_job_counts_t {
  /**
   * Jobs to be taken, those of dead workers included.
   */
  uint32_t waiting;
  /**
   * Jobs that living workers have.
   */
  uint32_t taken;
  /**
   * Jobs that are set aside.
   */
  uint32_t set_aside;
  /**
   * Jobs that are being put.
   */
  uint32_t being_put;
  /**
   * Jobs that have ever been put.
   */
  uint64_t put;
  /**
   * 0.
   */
  uint64_t reserved[5];
} outlive_job_counts_t;

/**
 * Describes a job that is set aside. Its size never changes.
 */
typedef struct outlive_set_aside_t {
  /**
   * The job's number, for `outlive_job_queue_retry`.
   */
  uint64_t id;
  /**
   * The bytes of its data.
   */
  size_t size;
  /**
   * How often it was taken.
   */
  uint32_t attempts;
  /**
   * 1: a stray write has damaged the job's length; its data is what lies in its place. Such a
   * job can be discarded; each worker that takes it gets OUTLIVE_DAMAGED.
   */
  uint8_t is_damaged;
  /**
   * 0.
   */
  uint8_t reserved[3];
  /**
   * 0.
   */
  uint64_t reserved2[2];
} outlive_set_aside_t;

/**
 * Options for opening a notifier or a listener, or for making what both share. Begin with
 * `OUTLIVE_NOTIFIER_OPTIONS_INIT`. A notice is named by its bit: `1ull << number`; 0: not set.
 */
typedef struct outlive_notifier_options_t {
  /**
   * `sizeof(outlive_notifier_options_t)`.
   */
  size_t size;
  /**
   * The bit of the notice that all listeners get when a notifier comes. A new one's default:
   * none.
   */
  uint64_t on_created;
  /**
   * The bit of the notice that all listeners get when a notifier is closed. A new one's
   * default: none.
   */
  uint64_t on_left;
  /**
   * The bit of the notice that all listeners get when a notifier's process has died. A new
   * one's default: none.
   */
  uint64_t on_died;
  /**
   * How a listener waits: one of the OUTLIVE_WAIT numbers.
   */
  uint32_t wait;
  /**
   * 0.
   */
  uint32_t reserved;
} outlive_notifier_options_t;

/**
 * How many notices of each number a listener has been told. Its size never changes.
 */
typedef struct outlive_notices_t {
  /**
   * The numbers of which there are notices, as bits.
   */
  uint64_t bits;
  /**
   * By number, how many there are.
   */
  uint64_t counts[64];
} outlive_notices_t;

/**
 * Options for opening or making a topic. Begin with `OUTLIVE_TOPIC_OPTIONS_INIT`.
 */
typedef struct outlive_topic_options_t {
  /**
   * `sizeof(outlive_topic_options_t)`.
   */
  size_t size;
  /**
   * The most bytes that the topic may take, messages included, 64 KiB to 6 GiB. A new topic's
   * default: a quarter of the file system, at most 4 GiB. The file may take up to 64 KiB more
   * for each 2 MiB of it, where memory of short messages is reused for long ones.
   */
  uint64_t max_bytes;
  /**
   * How many messages of each publisher are kept, 1 to 65,536, rounded up to a power of two: the
   * maximum lag of a subscriber, and its longest history. A new topic's default: 16.
   */
  uint32_t depth;
  /**
   * Not 0: a topic whose publishers do not stamp headers that have no stamp. 0: not said.
   */
  uint32_t no_stamps;
  /**
   * How this process's ends wait: one of the OUTLIVE_WAIT numbers.
   */
  uint32_t wait;
  /**
   * Not 0: the topic offers reliable delivery: its publishers wait for subscribers that ask for
   * it. 0: a new topic does not offer it, an existing one is taken as it is.
   */
  uint32_t reliable;
  /**
   * What a message is, for all languages: OUTLIVE_PAYLOAD makes it. A new topic keeps it; an
   * existing one with another description is refused with OUTLIVE_OTHER_TYPE, and
   * `outlive_last_error` names the first field that differs. NULL: messages are bytes.
   */
  const struct outlive_payload_t *payload;
  /**
   * What the topic keeps for subscribers that come later: OUTLIVE_VOLATILE,
   * OUTLIVE_TRANSIENT_LOCAL, OUTLIVE_PERSISTENT, or 0: not said.
   */
  uint32_t durability;
  /**
   * Not 0: an existing topic is taken as it is, and the options above, but for `payload`, are for
   * a new one; `outlive_topic_config` says what is there. 0: what was set must be there, else the
   * topic is refused with EINVAL, and `outlive_last_error` names all that differs.
   */
  uint32_t as_is;
  /**
   * The most publishers at a time, 1 to 1,024. A new topic's default: 62. Room for one takes 128
   * bytes.
   */
  uint32_t max_publishers;
  /**
   * The most subscribers at a time, 1 to 1,024. A new topic's default: 64. One that has been
   * there takes 4 KiB, or more with the two other numbers.
   */
  uint32_t max_subscribers;
  /**
   * The most samples of more than 168 bytes that a subscriber holds at a time, 8 to 65,536. A new
   * topic's default: 256. Room for one takes 4 bytes for each subscriber.
   */
  uint32_t max_samples;
  /**
   * Which members of the group that shares the domain may publish, by the mode of the topic's
   * file: 0660, 0640 (others than the topic's maker subscribe alone) or 0600 (they cannot open it),
   * whatever the umask. A new topic's default (0): 0600, in a group's domain 0660.
   */
  uint32_t mode;
  /**
   * Not 0: a topic whose publishers stamp headers, as a new one's do unless `no_stamps` is set;
   * an existing one whose publishers do not is refused. 0: not said.
   */
  uint32_t stamps;
  /**
   * Must be 0.
   */
  uint32_t reserved;
} outlive_topic_options_t;

/**
 * Options of a publisher. Begin with `OUTLIVE_PUBLISHER_OPTIONS_INIT`.
 */
typedef struct outlive_publisher_options_t {
  /**
   * `sizeof(outlive_publisher_options_t)`.
   */
  size_t size;
  /**
   * How long a reliable subscriber may be in the way of a message, in nanoseconds; then
   * publishing goes on without it, and it is told (OUTLIVE_LAGGED). OUTLIVE_BLOCK_FOREVER, which is
   * 0: for as long as it lives; OUTLIVE_BLOCK_NEVER: not at all.
   */
  uint64_t max_blocking;
  /**
   * How often this publisher means to publish, in nanoseconds: each period that passes without a
   * message is counted (`outlive_publisher_missed`), and a wait set tells it
   * (`outlive_wait_set_add_due`). 0: not said.
   */
  uint64_t period;
  /**
   * How long a message counts, in nanoseconds, by its stamp: subscribers pass over an older one
   * and count it (`outlive_subscriber_expired`). A topic without stamps refuses it. 0: for ever.
   */
  uint64_t lifespan;
} outlive_publisher_options_t;

/**
 * Options of a subscriber. Begin with `OUTLIVE_SUBSCRIBER_OPTIONS_INIT`.
 */
typedef struct outlive_subscriber_options_t {
  /**
   * `sizeof(outlive_subscriber_options_t)`.
   */
  size_t size;
  /**
   * Not 0: publishers wait until this subscriber has taken a message before they overwrite it.
   * Its death releases them. The topic has to offer it: see `outlive_topic_options_t`.
   */
  uint32_t reliable;
  /**
   * How many messages of each publisher from before the subscription to receive, as far as they
   * are still there.
   */
  uint32_t history;
  /**
   * The maximum lag behind each publisher, in messages; older ones are skipped, and counted as
   * lost. 0: the topic's depth.
   */
  uint32_t keep_last;
  /**
   * Which earlier messages to get at most, by one of the numbers of the topic's options; it is
   * refused if the topic offers less. 0: what the topic offers.
   */
  uint32_t durability;
  /**
   * Receive only messages with these keys; none: all messages. The array is copied.
   */
  const uint64_t *keys;
  /**
   * How many keys.
   */
  size_t key_count;
  /**
   * How often to expect a message, in nanoseconds: receiving fails with ETIME when none comes
   * for so long, a wait set says OUTLIVE_MISSED, and each period that passes is counted
   * (`outlive_subscriber_missed`). 0: no such limit.
   */
  uint64_t period;
  /**
   * Not 0: it is told of each start of a publisher before the first message of it: receiving
   * returns OUTLIVE_NEW_SESSION, once.
   */
  uint32_t sessions;
  /**
   * Must be 0.
   */
  uint32_t reserved;
  /**
   * How old a message may be, in nanoseconds, by its stamp; older ones are passed over and counted
   * (`outlive_subscriber_expired`). A topic without stamps refuses it. 0: any age.
   */
  uint64_t max_age;
  /**
   * How long a publisher may live and do nothing, in nanoseconds: then receiving returns
   * OUTLIVE_NOT_LIVELY, once, behind its messages; OUTLIVE_LIVELY when it does something again;
   * EOWNERDEAD when it has died, at once. `outlive_subscriber_told` says which publisher. 0: it is
   * told of none of that.
   */
  uint64_t liveliness;
} outlive_subscriber_options_t;

/**
 * Data that a publisher sends along with a message. Its size never changes.
 */
typedef struct outlive_header_t {
  /**
   * The time: nanoseconds since 1970, or what the users of a topic agree on. 0: publishers fill
   * in the time of day, unless the topic has no stamps.
   */
  uint64_t stamp;
  /**
   * A frame of reference, sensor or stream; its meaning is up to the application.
   */
  uint64_t frame;
  /**
   * The key by which subscribers may select messages.
   */
  uint64_t key;
  /**
   * Bytes for the application's own use.
   */
  uint8_t own[32];
} outlive_header_t;

/**
 * The reliable subscriber that is furthest behind a publisher. Its size never changes.
 */
typedef struct outlive_laggard_t {
  /**
   * Its process.
   */
  struct outlive_peer_info_t who;
  /**
   * How many messages of that publisher it has still to take.
   */
  uint64_t lag;
  /**
   * 1: the publisher's next message waits for it.
   */
  uint32_t is_in_the_way;
  /**
   * 0.
   */
  uint32_t reserved;
} outlive_laggard_t;

/**
 * Options for opening or making a service. Begin with `OUTLIVE_SERVICE_OPTIONS_INIT`.
 */
typedef struct outlive_service_options_t {
  /**
   * `sizeof(outlive_service_options_t)`.
   */
  size_t size;
  /**
   * The most bytes that requests and replies may take together, records included, besides 24 KiB
   * for each client, 64 KiB to 6 GiB. A new service's default: 1 GiB. The file may take up to 64
   * KiB more for each 2 MiB of it, where memory of short messages is reused for long ones.
   */
  uint64_t max_bytes;
  /**
   * How this process's end waits: one of the OUTLIVE_WAIT numbers.
   */
  uint32_t wait;
  /**
   * For clients, not 0: calls that are not begun wait for a server, instead of failing with
   * ENOTCONN or EPIPE.
   */
  uint32_t wait_for_server;
  /**
   * For servers: until when to wait for a living server to leave or to end. `OUTLIVE_TRY`, which
   * is the default: not at all. With a wait several processes may stand by.
   */
  outlive_deadline_t serve_by;
  /**
   * What a request is, for all languages: see `outlive_topic_options_t`. NULL beside a `reply`:
   * bytes.
   */
  const struct outlive_payload_t *request;
  /**
   * What a reply is. NULL beside a `request`: bytes.
   */
  const struct outlive_payload_t *reply;
  /**
   * The most servers at a time, 1 to 64; a new service's default: 1. Several share the load.
   */
  uint64_t max_servers;
} outlive_service_options_t;

/**
 * Options for opening or making a pool. Begin with `OUTLIVE_POOL_OPTIONS_INIT`.
 */
typedef struct outlive_pool_options_t {
  /**
   * `sizeof(outlive_pool_options_t)`.
   */
  size_t size;
  /**
   * The most bytes of the file system that the pool may take, 64 KiB to 8 GiB. A new pool's
   * default: a quarter of the file system, at most 8 GiB. The whole file counts: objects, the
   * pool's own words, and a record of 16 bytes for each object, which stays when memory of small
   * objects is used for larger ones.
   */
  uint64_t max_bytes;
  /**
   * The most bytes that each thread keeps in its cache. 0: what this process has set before, or
   * 16 MiB.
   */
  uint64_t cache_bytes;
  /**
   * Debug modes of a new pool, as text: `tag,integrity`. NULL: none. An existing pool keeps the
   * modes that it has.
   */
  const char *modes;
  /**
   * Not 0: ask for huge pages.
   */
  uint32_t huge_pages;
  /**
   * Must be 0.
   */
  uint32_t reserved;
} outlive_pool_options_t;

/**
 * How much of a pool is in which state. Its size never changes.
 */
typedef struct outlive_pool_usage_t {
  /**
   * All objects; the next six add up to this.
   */
  uint64_t objects;
  /**
   * In use by a process.
   */
  uint64_t used;
  /**
   * In the cache of a thread.
   */
  uint64_t cached;
  /**
   * Free for any process.
   */
  uint64_t free;
  /**
   * Handed over and not claimed yet.
   */
  uint64_t offered;
  /**
   * Held by several processes, or by one that lets others join.
   */
  uint64_t shared;
  /**
   * Held by a thread that is taking or freeing it, or died doing so.
   */
  uint64_t moving;
  /**
   * How often there was no room for one.
   */
  uint64_t failed;
  /**
   * Bytes of all objects.
   */
  uint64_t object_bytes;
  /**
   * Bytes of objects that are handed over and not claimed yet.
   */
  uint64_t unclaimed_bytes;
  /**
   * Bytes of memory that the pool takes now.
   */
  uint64_t bytes;
  /**
   * The most bytes that it may take.
   */
  uint64_t max_bytes;
  /**
   * Processes that have objects, dead ones included.
   */
  uint64_t holders;
  /**
   * 0.
   */
  uint64_t reserved[3];
} outlive_pool_usage_t;

/**
 * A source that is ready.
 */
typedef struct outlive_ready_t {
  /**
   * Its key, as the call that added it returned it.
   */
  uint64_t key;
  /**
   * What it is ready for: one of the numbers above.
   */
  uint32_t what;
  /**
   * Must be 0.
   */
  uint32_t reserved;
} outlive_ready_t;

/**
 * Wait without a deadline. A call still ends when what it waits for can never come because its
 * peer died.
 */
#define OUTLIVE_NEVER UINT64_MAX

/**
 * Do not wait: a lock that is held gives `EBUSY`; anything else that is not available gives
 * `EAGAIN`.
 */
#define OUTLIVE_TRY 0

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Returns the message of the calling thread's last call that failed: what happened, and what to do
 * next. It is English, UTF-8, at most 1023 bytes; never NULL; empty if no call has failed yet.
 * Successful calls leave it as it is.
 *
 * Owner: the library. Valid until the thread's next call that fails, or its end.
 */
const char *outlive_last_error(void);

/**
 * Returns the process that the message of `outlive_last_error` names: the slowest reliable subscriber,
 * where publishing on a host topic gave ETIMEDOUT or EAGAIN; the publisher that OUTLIVE_NOT_LIVELY, OUTLIVE_LIVELY or
 * EOWNERDEAD of a receive tells of. 0: none of these.
 */
uint32_t outlive_last_error_pid(void);

/**
 * Returns what a return code means, in a few words: for the library's own codes and for errno
 * numbers.
 *
 * Owner: the library; constant for its own codes. For errno numbers as `strerror(3)`: valid until
 * the thread's next call.
 */
const char *outlive_strerror(int code);

/**
 * Returns the version of the ABI that the library has. Later additions to the header say since
 * which version. It only grows.
 */
uint32_t outlive_abi_version(void);

/**
 * Returns the version of the library, as text: `0.1.0`. Owner: the library; constant.
 */
const char *outlive_version(void);

/**
 * Returns the deadline that many nanoseconds from now. A span too long for the clock gives
 * `OUTLIVE_NEVER`.
 */
outlive_deadline_t outlive_after(uint64_t nanoseconds);

/**
 * Returns the deadline that many milliseconds from now.
 */
outlive_deadline_t outlive_after_ms(uint64_t milliseconds);

/**
 * Returns the deadline at that time of day, in seconds and nanoseconds since 1970. When the clock
 * is set, it comes sooner or later accordingly. A time before 1970 has passed.
 */
outlive_deadline_t outlive_at_time_of_day(int64_t seconds, uint32_t nanoseconds);

/**
 * Opens the domain of that name below the user's own folder, `/dev/shm/outlive-UID`; with
 * OUTLIVE_OPEN_OR_CREATE it is made when missing. `name` NULL: the domain that the environment's
 * `OUTLIVE_DOMAIN` names (a path if it has a `/`), else the configuration file (`outlive config
 * show`), else `default`, shared with the group that `OUTLIVE_GROUP` names, else that file.
 *
 * Owner: `*domain` is the caller's, until `outlive_domain_close`. What is opened in it may outlive
 * it.
 *
 * Errors: see `outlive_opening_t`; EEXIST: there is something at that path. EPERM: the folder is
 * another user's, or others may enter it. ENOTEMPTY: it holds other things than a domain, and is
 * left as it is. ENOTDIR, EMFILE.
 *
 * If a process dies: nothing in a domain depends on the process that made it.
 */
int outlive_domain_open(const char *name, enum outlive_opening_t how, struct outlive_domain_t **domain);

/**
 * Opens a domain as `outlive_domain_open` does, in any folder, whose parent must exist.
 */
int outlive_domain_open_at(const char *path, enum outlive_opening_t how, struct outlive_domain_t **domain);

/**
 * Opens a domain as `outlive_domain_open` does, with options, which also say which domain.
 * `options` NULL: as `outlive_domain_open(NULL, how, domain)`.
 *
 * Errors: as `outlive_domain_open`; EINVAL: `/etc/group` has no group of that name.
 */
int outlive_domain_open_with(const struct outlive_domain_options_t *options,
                             enum outlive_opening_t how,
                             struct outlive_domain_t **domain);

/**
 * Closes a domain. What was opened in it stays open. Passing NULL has no effect.
 */
void outlive_domain_close(struct outlive_domain_t *domain);

/**
 * Writes the path of the domain's folder into `buffer`.
 *
 * Errors: EINVAL; EMSGSIZE when it does not fit with its NUL.
 */
int outlive_domain_path(const struct outlive_domain_t *domain, char *buffer, size_t capacity);

/**
 * Brings into memory what this process has open in the domain, and what the calling thread needs
 * itself: the domain's tokens, all things that are open here as far as their files have pages now,
 * so many bytes of the thread's stack, and this library's code. The thread's later operations are
 * then no page faults; the page "A control loop without page faults" of the book says which of them
 * make no system call either. Nothing is written.
 *
 * Each thread that must not wait calls it, after it has opened what it uses. What grows as it is
 * used is made to its full size before, by `outlive_publisher_prefault`, `outlive_queue_prefault`,
 * `outlive_pool_prefault`, `outlive_state_writer_prefault`, `outlive_job_queue_prefault`,
 * `outlive_client_prefault` and `outlive_server_prefault`.
 *
 * Errors: ENOSPC: the file system is full. EINVAL: the thread's stack may not become so long.
 * EUSERS, and errors of the system.
 *
 * If the process dies, nothing is left of it.
 */
int outlive_domain_prefault(const struct outlive_domain_t *domain, size_t stack_bytes);

/**
 * Brings the same into memory as `outlive_domain_prefault` does, and locks all of it but the code
 * there: mlock(2). A thing's memory stays locked as long as it is open. What is only reserved is not
 * locked, and does not count against RLIMIT_MEMLOCK.
 *
 * Errors: those of `outlive_domain_prefault`; ENOMEM, EPERM, EAGAIN: the kernel does not lock that
 * much, see RLIMIT_MEMLOCK.
 *
 * If the process dies, the kernel unlocks what it had locked.
 */
int outlive_domain_lock_memory(const struct outlive_domain_t *domain, size_t stack_bytes);

/**
 * Removes a name from the domain. Processes that have the object open go on with it; no other
 * process finds it.
 *
 * Errors: ENOENT, EINVAL, EACCES.
 */
int outlive_domain_remove(const struct outlive_domain_t *domain, const char *name);

/**
 * Frees what dead processes have left in all objects of the domain. Each process also does so for
 * what it meets; this is for tidying up. `*claims` (may be NULL): how many claims of dead
 * processes there were.
 *
 * Errors: EINVAL, and errors of the system.
 */
int outlive_domain_sweep(const struct outlive_domain_t *domain, uint64_t *claims);

/**
 * Returns the calling thread's token in `*token`: a number by which other threads check whether it
 * is alive, and wait for its end. The token lives until the thread ends. It is never 0.
 *
 * Errors: EINVAL, EUSERS (65,536 are in use), ENOSPC.
 *
 * If the process dies, its threads' tokens read dead from then on, for ever.
 */
int outlive_domain_token(const struct outlive_domain_t *domain, uint32_t *token);

/**
 * Returns the process's token in `*token`. It lives until the process's last thread has ended.
 *
 * Errors: as `outlive_domain_token`.
 */
int outlive_domain_process_token(const struct outlive_domain_t *domain, uint32_t *token);

/**
 * Returns whether a token's owner is alive, without a system call. A token that never was, and one
 * of no domain, reads dead.
 */
bool outlive_peer_is_alive(const struct outlive_domain_t *domain, uint32_t token);

/**
 * Sleeps until a token's owner has ended, or until the deadline; returns at once if it is dead.
 *
 * Errors: ETIMEDOUT: it is alive; EINVAL, EUSERS, ENOSPC.
 *
 * If a process dies, all threads that wait for it are woken, about 0.2 ms after a SIGKILL.
 */
int outlive_peer_wait_dead(const struct outlive_domain_t *domain, uint32_t token, outlive_deadline_t deadline);

/**
 * Sleeps until one of `count` tokens' owners has ended, or until the deadline; `*dead` (may be
 * NULL) says which.
 *
 * Errors: as `outlive_peer_wait_dead`.
 *
 * If a process dies: as with `outlive_peer_wait_dead`.
 */
int outlive_peer_wait_any_dead(const struct outlive_domain_t *domain,
                               const uint32_t *tokens,
                               size_t count,
                               outlive_deadline_t deadline,
                               uint32_t *dead);

/**
 * Writes what is known about a token's owner, dead or alive, to `*info`.
 *
 * Errors: EINVAL; ESRCH when nothing is known any more.
 */
int outlive_peer_info(const struct outlive_domain_t *domain, uint32_t token, struct outlive_peer_info_t *info);

/**
 * Returns a domain like the given one in `*with`, by which things are made that carry those
 * `count` attributes: 4,080 bytes in all, four for each counted. What is there already must have
 * them, or opening it gives EINVAL; so does opening anything by it when a key is empty, or all are
 * too long. The same folder; closing either leaves the other.
 *
 * Owner: `*with` is the caller's, until `outlive_domain_close`.
 *
 * Errors: EINVAL.
 */
int outlive_domain_with_attributes(const struct outlive_domain_t *domain,
                                   const struct outlive_attribute_t *attributes,
                                   size_t count,
                                   struct outlive_domain_t **with);

/**
 * Writes the value of an attribute, with which the thing of that name was made, into `buffer`.
 *
 * Errors: ENOENT: there is no such thing, or it has no such attribute; EMSGSIZE: the value does
 * not fit with its NUL; OUTLIVE_DAMAGED, EINVAL.
 */
int outlive_domain_attribute(const struct outlive_domain_t *domain,
                             const char *name,
                             const char *key,
                             char *buffer,
                             size_t capacity);

/**
 * Writes the pair of that number, from 0, of the attributes with which the thing of that name was made,
 * in the order of their keys.
 *
 * Errors: ERANGE: it has no pair of that number, nor of a later one; ENOENT: there is no such thing; EMSGSIZE: the key or the value does
 * not fit with its NUL; OUTLIVE_DAMAGED, EINVAL.
 */
int outlive_domain_attribute_at(const struct outlive_domain_t *domain,
                                const char *name,
                                size_t number,
                                char *key,
                                size_t key_capacity,
                                char *value,
                                size_t value_capacity);

/**
 * Writes into `buffer` what the payloads of the thing of that name are, as its maker has described
 * them: `Pose { position: f64[3], heading: f32 }`, or `geometry_msgs/msg/Pose (cdr)`.
 *
 * Errors: ENOENT: there is no such thing, or it has no description; EMSGSIZE: the text does not fit
 * with its NUL; OUTLIVE_DAMAGED, EINVAL.
 */
int outlive_domain_payload(const struct outlive_domain_t *domain, const char *name, char *buffer, size_t capacity);

/**
 * Names this process in the domain, until the node is closed or the process ends; `version` NULL:
 * none.
 *
 * Owner: `*node` is the caller's, until `outlive_node_close`.
 *
 * Errors: EEXIST: the process has a name in this domain; EINVAL: the name is empty, or all is
 * longer than 4,080 bytes; EUSERS, ENOSPC.
 *
 * If the process dies, its name goes with it. A forked child has no name until it takes one.
 */
int outlive_node_open(const struct outlive_domain_t *domain,
                      const char *name,
                      const char *version,
                      const struct outlive_attribute_t *attributes,
                      size_t count,
                      struct outlive_node_t **node);

/**
 * Gives the process's name up. Passing NULL has no effect; in a forked child, the parent's node
 * keeps its name.
 */
void outlive_node_close(struct outlive_node_t *node);

/**
 * Writes the tokens of the living processes that have a name to `tokens`, as many as fit into
 * `capacity`; `*count` is how many there are. `outlive_peer_info` says more about each.
 *
 * Errors: EINVAL, and errors of the system.
 */
int outlive_domain_nodes(const struct outlive_domain_t *domain, uint32_t *tokens, size_t capacity, size_t *count);

/**
 * Writes the name of the process that a token belongs to, its own or that of one of its threads,
 * into `buffer`; `version` (may be NULL): the same for its version.
 *
 * Errors: ESRCH: the process has no name, or is dead; EMSGSIZE: one does not fit with its NUL;
 * EINVAL.
 */
int outlive_node_name(const struct outlive_domain_t *domain,
                      uint32_t token,
                      char *buffer,
                      size_t capacity,
                      char *version,
                      size_t version_capacity);

/**
 * Writes the value of an attribute of the process that a token belongs to into `buffer`.
 *
 * Errors: as `outlive_node_name`; ENOENT: it has no such attribute.
 */
int outlive_node_attribute(const struct outlive_domain_t *domain,
                           uint32_t token,
                           const char *key,
                           char *buffer,
                           size_t capacity);

/**
 * Writes the pair of that number, from 0, of the attributes of the process that a token belongs to, in
 * the order of their keys.
 *
 * Errors: as `outlive_node_name`; ERANGE: it has no pair of that number, nor of a later one.
 */
int outlive_node_attribute_at(const struct outlive_domain_t *domain,
                              uint32_t token,
                              size_t number,
                              char *key,
                              size_t key_capacity,
                              char *value,
                              size_t value_capacity);

/**
 * Follows what appears in the domain and what vanishes from it: things, and processes that have a
 * name.
 *
 * Owner: `*watch` is the caller's, until `outlive_domain_watch_close`.
 *
 * Errors: EINVAL.
 *
 * If a process dies that has a name, that is a change. What it made stays.
 */
int outlive_domain_watch_open(const struct outlive_domain_t *domain, struct outlive_domain_watch_t **watch);

/**
 * Closes a watch. Passing NULL has no effect.
 */
void outlive_domain_watch_close(struct outlive_domain_watch_t *watch);

/**
 * Waits until the domain's contents differ from those of the last call, or until the deadline; the
 * first call returns at once. `*things` and `*nodes` are how many there are now;
 * `outlive_domain_watch_next` says what has appeared and what has vanished.
 *
 * Errors: ETIMEDOUT; EAGAIN with OUTLIVE_TRY: nothing has changed; EINVAL, EUSERS, and errors of
 * the system.
 */
int outlive_domain_watch_changed(struct outlive_domain_watch_t *watch,
                                 outlive_deadline_t deadline,
                                 size_t *things,
                                 size_t *nodes);

/**
 * Returns the next of what has appeared or vanished until the last
 * `outlive_domain_watch_changed`, first what has vanished; all that was there at the first of these
 * calls has appeared. Never waits. What comes and goes between two of those calls is not told, nor a
 * thing that was removed and made anew.
 *
 * Owner: the watch has the change's texts, until the next call with it.
 *
 * Errors: EAGAIN: that was all; EINVAL, and errors of the system.
 */
int outlive_domain_watch_next(struct outlive_domain_watch_t *watch, struct outlive_change_t *change);

/**
 * Opens the record of that name, or makes it: `size` bytes, page-aligned, zeroed, then initialised
 * by `init` (may be NULL) before another process sees them. `places` says where the primitives
 * lie. The file records them, so that any process finds what dead ones hold, and a program with
 * another idea of the struct is refused.
 *
 * Owner: `*data` is shared memory, mapped until `outlive_record_close`. Fields that no lock guards
 * have to be atomic.
 *
 * Errors: see `outlive_opening_t`; EINVAL also for places that overlap, lie outside or are not
 * aligned, for invalid numbers, and for more than 46. OUTLIVE_OTHER_TYPE: it exists with another
 * size, or with other primitives, places or numbers.
 *
 * If a process dies, each primitive reports that by itself.
 */
int outlive_record_open(const struct outlive_domain_t *domain,
                        const char *name,
                        enum outlive_opening_t how,
                        size_t size,
                        const struct outlive_place_t *places,
                        size_t count,
                        outlive_init_t init,
                        void *argument,
                        void **data);

/**
 * Closes this opening of a record: addresses in it are invalid from then on. No thread of this
 * process may hold or wait for a primitive in it. Passing NULL, or what is not an opened record's
 * start, has no effect.
 */
void outlive_record_close(void *data);

/**
 * Opens the mutex of that name, or makes it, with `size` bytes of value behind it, aligned to 64:
 * `outlive_mutex_value`. 0: a lock alone. `initial`: the value of a new mutex; NULL: zeroes. It is
 * the same as Rust's `Mutex<T>` with a T of as many bytes.
 *
 * Owner: `*mutex` is in shared memory, mapped until `outlive_mutex_close`.
 *
 * Errors: see `outlive_opening_t`; OUTLIVE_OTHER_TYPE: it exists with another size.
 */
int outlive_mutex_open(const struct outlive_domain_t *domain,
                       const char *name,
                       enum outlive_opening_t how,
                       size_t size,
                       const void *initial,
                       struct outlive_mutex_t **mutex);

/**
 * Returns the value behind a named mutex, which only the lock's holder may touch. NULL: it has
 * none, or is inside a record.
 *
 * Owner: shared memory, mapped until `outlive_mutex_close`.
 */
void *outlive_mutex_value(const struct outlive_mutex_t *mutex);

/**
 * Closes this opening of a named mutex: its address and its value's are invalid from then on. No
 * thread of this process may hold it or wait for it by this address; other processes are not
 * affected. Passing NULL, or what is not an opened named mutex, has no effect.
 */
void outlive_mutex_close(struct outlive_mutex_t *mutex);

/**
 * Takes the lock, waiting while a living owner holds it. The lock belongs to the calling thread.
 *
 * Errors: EOWNERDEAD: the caller has the lock, but an owner died with it: repair what it guards,
 * call `outlive_mutex_consistent`, and unlock; unlocked without that call, the next locker gets
 * EOWNERDEAD again. ENOTRECOVERABLE: a holder marked it so (`outlive_mutex_mark_not_recoverable`;
 * `outlive_mutex_lock_to_reset` makes it usable again). EDEADLK: this thread holds it already.
 * EINVAL: no mutex that this process has open. OUTLIVE_DAMAGED, EUSERS, ENOSPC.
 *
 * If a process dies while it holds the lock, the next locker gets EOWNERDEAD, also one that sleeps
 * already. A waiter's death has no effect.
 */
int outlive_mutex_lock(struct outlive_mutex_t *mutex);

/**
 * Takes the lock if it is free, or its owner is dead; never waits.
 *
 * Errors: as `outlive_mutex_lock`, and EBUSY.
 *
 * If a process dies: as `outlive_mutex_lock`.
 */
int outlive_mutex_trylock(struct outlive_mutex_t *mutex);

/**
 * Takes the lock, waiting until the deadline.
 *
 * Errors: as `outlive_mutex_lock`, and ETIMEDOUT; EBUSY with OUTLIVE_TRY.
 *
 * If a process dies: as `outlive_mutex_lock`.
 */
int outlive_mutex_lock_until(struct outlive_mutex_t *mutex, outlive_deadline_t deadline);

/**
 * Unlocks the mutex. After EOWNERDEAD, and without `outlive_mutex_consistent`, the next locker
 * gets EOWNERDEAD again (pthread's robust mutexes become ENOTRECOVERABLE then).
 *
 * Errors: EPERM: this thread does not hold it (also in a forked child: the parent holds it).
 * EINVAL.
 *
 * If a process dies during the call, the lock is free, or the next locker gets EOWNERDEAD.
 */
int outlive_mutex_unlock(struct outlive_mutex_t *mutex);

/**
 * Declares after EOWNERDEAD that what the lock guards is whole again. The caller holds the lock.
 *
 * Errors: EPERM: this thread does not hold it. EINVAL.
 */
int outlive_mutex_consistent(struct outlive_mutex_t *mutex);

/**
 * Marks the mutex not recoverable, because what it guards cannot be made whole, and unlocks it.
 * Every later locker gets ENOTRECOVERABLE, until a thread calls `outlive_mutex_lock_to_reset`. The
 * caller holds the lock, with EOWNERDEAD or without.
 *
 * Errors: EPERM: this thread does not hold it. EINVAL.
 *
 * If a process dies during the call, the lock is not recoverable, or the next locker gets
 * EOWNERDEAD.
 */
int outlive_mutex_mark_not_recoverable(struct outlive_mutex_t *mutex);

/**
 * Returns whether the calling thread holds it, its last owner died with it, and no holder has
 * declared it consistent since: the same as EOWNERDEAD, for code that does not see the return
 * code. False for what is no such lock.
 */
bool outlive_mutex_owner_died(const struct outlive_mutex_t *mutex);

/**
 * Takes a mutex in any state, recoverable or not, waiting for a living owner until
 * the deadline. Make whole what it guards, call `outlive_mutex_consistent`, and unlock. Unlocked
 * without that call, a mutex that was not recoverable stays so.
 *
 * Errors: as `outlive_mutex_lock_until`, except EOWNERDEAD and ENOTRECOVERABLE.
 *
 * If a process dies in the middle of the repair, the mutex stays not recoverable, or the next
 * locker gets EOWNERDEAD.
 */
int outlive_mutex_lock_to_reset(struct outlive_mutex_t *mutex, outlive_deadline_t deadline);

/**
 * Writes the thread that holds it now, dead or alive, to `*info`.
 *
 * Errors: ESRCH: no thread holds it. EINVAL.
 */
int outlive_mutex_holder(const struct outlive_mutex_t *mutex, struct outlive_peer_info_t *info);

/**
 * Sets how this process waits for this mutex: one of the OUTLIVE_WAIT numbers.
 *
 * Errors: EINVAL.
 */
int outlive_mutex_set_wait(struct outlive_mutex_t *mutex, uint32_t how);

/**
 * Opens the condition variable of that name, or makes it.
 *
 * Owner: `*condvar` is in shared memory, mapped until `outlive_condvar_close`.
 *
 * Errors: see `outlive_opening_t`.
 */
int outlive_condvar_open(const struct outlive_domain_t *domain,
                         const char *name,
                         enum outlive_opening_t how,
                         struct outlive_condvar_t **condvar);

/**
 * Closes this opening of a named condition variable. No thread of this process may wait for it by
 * this address.
 */
void outlive_condvar_close(struct outlive_condvar_t *condvar);

/**
 * Unlocks the mutex, waits for a notification, and locks the mutex again.
 *
 * It may return without a notification: check the condition in a loop. Different waiters may use
 * different mutexes.
 *
 * Errors with the mutex held again: EOWNERDEAD: an owner died holding it meanwhile (or had died
 * before, and no holder has declared it consistent): repair, call `outlive_mutex_consistent`, and
 * notify all. ETIMEDOUT (`outlive_condvar_wait_until`). Errors without it: ENOTRECOVERABLE: a
 * holder marked it so. EPERM: this thread did not hold it. OUTLIVE_DAMAGED. EINVAL: nothing has
 * happened.
 *
 * If a process dies: a dead waiter's notification goes to another waiter. If a notifier dies in
 * the middle, perhaps no waiter was notified; `outlive_condvar_wait_or_end` watches it.
 */
int outlive_condvar_wait(struct outlive_condvar_t *condvar, struct outlive_mutex_t *mutex);

/**
 * Waits as `outlive_condvar_wait` does, until the deadline. The mutex is locked again without a
 * deadline.
 */
int outlive_condvar_wait_until(struct outlive_condvar_t *condvar,
                               struct outlive_mutex_t *mutex,
                               outlive_deadline_t deadline);

/**
 * Waits as `outlive_condvar_wait_until` does, and also until the owner of `token` has ended: for a
 * thread that waits for what only that owner can do.
 *
 * Errors: as `outlive_condvar_wait_until`, and ESRCH, with the mutex held again: the owner has
 * ended.
 *
 * If the owner of `token` dies, its end ends the wait at once.
 */
int outlive_condvar_wait_or_end(struct outlive_condvar_t *condvar,
                                struct outlive_mutex_t *mutex,
                                const struct outlive_domain_t *domain,
                                uint32_t token,
                                outlive_deadline_t deadline);

/**
 * Waits as `outlive_condvar_wait_until` does, under a mutex with priority inheritance. The holder of
 * the mutex inherits the priority of waiters that have been woken and queue for it, and the kernel
 * hands the mutex to the most urgent one. A waiter that sleeps lends its priority to no thread.
 *
 * Errors: as `outlive_condvar_wait_until`.
 *
 * If a process dies: as with `outlive_condvar_wait`.
 */
int outlive_condvar_wait_pi_mutex(struct outlive_condvar_t *condvar,
                                  struct outlive_pi_mutex_t *mutex,
                                  outlive_deadline_t deadline);

/**
 * Waits as `outlive_condvar_wait_until` does, under a mutex with a ceiling. The waiter sleeps with
 * its own priority, and is raised to the ceiling before it takes the mutex again.
 *
 * Errors: as `outlive_condvar_wait_until`. Without the mutex also EINVAL, EPERM: the thread's own
 * priority is above the ceiling by now, or it may not run at the ceiling any more.
 *
 * If a process dies: as with `outlive_condvar_wait`.
 */
int outlive_condvar_wait_ceiling_mutex(struct outlive_condvar_t *condvar,
                                       struct outlive_ceiling_mutex_t *mutex,
                                       outlive_deadline_t deadline);

/**
 * Waits as `outlive_condvar_wait_until` does, under a mutex that the thread may have locked several
 * times. It is unlocked as a whole, and locked as often again.
 *
 * Errors: as `outlive_condvar_wait_until`. Without the mutex, the thread has nothing to unlock, by
 * whatever opening it had locked it.
 *
 * If a process dies: as with `outlive_condvar_wait`.
 */
int outlive_condvar_wait_reentrant_mutex(struct outlive_condvar_t *condvar,
                                         struct outlive_reentrant_mutex_t *mutex,
                                         outlive_deadline_t deadline);

/**
 * Wakes one waiter. Call it with the mutex held or after unlocking it, never before the change.
 *
 * Errors: EINVAL.
 *
 * If a process dies before this has returned, perhaps no waiter was woken.
 */
int outlive_condvar_notify_one(struct outlive_condvar_t *condvar);

/**
 * Wakes all waiters.
 *
 * Errors: EINVAL.
 *
 * If a process dies before this has returned, perhaps no waiter was woken.
 */
int outlive_condvar_notify_all(struct outlive_condvar_t *condvar);

/**
 * Opens the lock of that name, or makes it, with `size` bytes of value behind it, aligned to 64:
 * `outlive_rwlock_value`. `initial`: the value of a new lock; NULL: zeroes. It is the same as
 * Rust's `RwLock<T>` with a T of as many bytes.
 *
 * Owner: `*lock` is in shared memory, mapped until `outlive_rwlock_close`.
 *
 * Errors: see `outlive_opening_t`; OUTLIVE_OTHER_TYPE: it exists with another size.
 */
int outlive_rwlock_open(const struct outlive_domain_t *domain,
                        const char *name,
                        enum outlive_opening_t how,
                        size_t size,
                        const void *initial,
                        struct outlive_rwlock_t **lock);

/**
 * Returns the value behind a named lock, which readers may read and only the writer may write.
 * NULL: it has none, or is inside a record.
 *
 * Owner: shared memory, mapped until `outlive_rwlock_close`.
 */
void *outlive_rwlock_value(const struct outlive_rwlock_t *lock);

/**
 * Closes this opening of a named lock. No thread of this process may hold it or wait for it by
 * this address.
 */
void outlive_rwlock_close(struct outlive_rwlock_t *lock);

/**
 * Takes the lock for reading, waiting until the deadline while a living writer holds it or waits
 * for it. The lock belongs to the calling thread, which may read several times at once unless a
 * writer waits.
 *
 * Errors: EOWNERDEAD: a writer died, and the caller has the lock alone, *as its writer*, to repair
 * what that one left: call `outlive_rwlock_consistent`, then unlock or `outlive_rwlock_downgrade`;
 * unlocked without that call, the next locker gets EOWNERDEAD again. ENOTRECOVERABLE: a holder
 * marked it so (`outlive_rwlock_mark_not_recoverable`). EDEADLK: this thread writes, or reads
 * already while a writer waits for that. ETIMEDOUT; EBUSY with OUTLIVE_TRY. EINVAL: no such lock
 * that this process has open. OUTLIVE_DAMAGED, EUSERS, ENOSPC.
 *
 * If a reader dies, writers go on at once, without a report. If a writer dies, exactly one locker
 * is told, the next one.
 */
int outlive_rwlock_read(struct outlive_rwlock_t *lock, outlive_deadline_t deadline);

/**
 * Takes the lock for reading, with the right to become the writer (`outlive_rwlock_upgrade`),
 * waiting until the deadline while a living writer or another such reader holds it. Other readers
 * enter beside it, also while a writer waits for it.
 *
 * Errors: EDEADLK: this thread writes or is such a reader already, or reads while another thread
 * writes, waits to, or is such a reader. Otherwise as `outlive_rwlock_read`.
 *
 * If a process dies: as `outlive_rwlock_read`. The death of such a reader is a reader's.
 */
int outlive_rwlock_upgradable_read(struct outlive_rwlock_t *lock, outlive_deadline_t deadline);

/**
 * Takes the lock for writing, waiting until the deadline for all living readers and writers to
 * leave. New readers wait meanwhile.
 *
 * Errors: EOWNERDEAD: the caller has the lock, but its last writer died with it. EDEADLK: this
 * thread reads or writes already. Otherwise as `outlive_rwlock_read`.
 *
 * If a process dies: as `outlive_rwlock_read`.
 */
int outlive_rwlock_write(struct outlive_rwlock_t *lock, outlive_deadline_t deadline);

/**
 * Unlocks what the thread took of the lock last.
 *
 * Errors: EPERM: this thread does not hold it. EINVAL.
 */
int outlive_rwlock_unlock(struct outlive_rwlock_t *lock);

/**
 * Declares after EOWNERDEAD that what the lock guards is whole again. Without this call, the next
 * locker, reader or writer, gets EOWNERDEAD again.
 *
 * Errors: EPERM: this thread does not hold it as its writer. EINVAL.
 */
int outlive_rwlock_consistent(struct outlive_rwlock_t *lock);

/**
 * Marks the lock not recoverable, because what it guards cannot be made whole, and unlocks it. All
 * later lockers, readers and writers, get ENOTRECOVERABLE, until a thread calls
 * `outlive_rwlock_reset`. The caller has the lock as its writer.
 *
 * Errors: EPERM: this thread does not hold it as its writer. EINVAL.
 *
 * If a process dies during the call, the lock is not recoverable, or the next locker gets
 * EOWNERDEAD.
 */
int outlive_rwlock_mark_not_recoverable(struct outlive_rwlock_t *lock);

/**
 * Returns whether the calling thread holds it, its last owner died with it, and no holder has
 * declared it consistent since: the same as EOWNERDEAD, for code that does not see the return
 * code. False for what is no such lock.
 */
bool outlive_rwlock_owner_died(const struct outlive_rwlock_t *lock);

/**
 * Turns the caller from a reader into the writer once the other readers have left, waiting for
 * them until the deadline. No other thread writes in between, so what it read still holds.
 *
 * Errors, with the lock still held for reading: EBUSY: a writer waits already, or another thread
 * is the upgradable reader, which never happens to one that took the lock by
 * `outlive_rwlock_upgradable_read`; or other threads read, with OUTLIVE_TRY: unlock and lock for
 * writing. EDEADLK: this thread reads a second time. ETIMEDOUT, OUTLIVE_DAMAGED. EPERM: this
 * thread does not read. EINVAL.
 */
int outlive_rwlock_upgrade(struct outlive_rwlock_t *lock, outlive_deadline_t deadline);

/**
 * Turns the caller from the writer, or the upgradable reader, into an ordinary reader; no other
 * thread writes in between.
 *
 * Errors: EPERM: this thread holds it as an ordinary reader or not at all, or it got EOWNERDEAD
 * and has not declared it consistent: it holds the lock as before. EINVAL.
 */
int outlive_rwlock_downgrade(struct outlive_rwlock_t *lock);

/**
 * Turns the caller from the writer into the upgradable reader (`outlive_rwlock_upgradable_read`);
 * no other thread writes in between.
 *
 * Errors: EPERM: this thread does not hold it as its writer, or it got EOWNERDEAD and has not
 * declared it consistent: it holds the lock as before. EINVAL.
 */
int outlive_rwlock_downgrade_to_upgradable(struct outlive_rwlock_t *lock);

/**
 * Makes a lock usable again that was marked not recoverable (ENOTRECOVERABLE). Its users have
 * agreed on making what it guards whole before.
 *
 * Errors: as `outlive_rwlock_write`, except EOWNERDEAD and ENOTRECOVERABLE.
 */
int outlive_rwlock_reset(struct outlive_rwlock_t *lock, outlive_deadline_t deadline);

/**
 * Writes the present holders, one writer or any number of readers, to `infos`, as many as fit, the
 * upgradable reader first;
 * `*count` is how many there are.
 *
 * Errors: EINVAL.
 */
int outlive_rwlock_holders(const struct outlive_rwlock_t *lock,
                           struct outlive_peer_info_t *infos,
                           size_t capacity,
                           size_t *count);

/**
 * Opens the event of that name, or makes it. `reset`: OUTLIVE_RESET_MANUAL or
 * OUTLIVE_RESET_AUTOMATIC; 0: what an existing event has, and in a new one as
 * OUTLIVE_RESET_MANUAL.
 *
 * Owner: `*event` is in shared memory, mapped until `outlive_event_close`.
 *
 * Errors: see `outlive_opening_t`.
 */
int outlive_event_open(const struct outlive_domain_t *domain,
                       const char *name,
                       enum outlive_opening_t how,
                       uint32_t reset,
                       struct outlive_event_t **event);

/**
 * Sets, in a record's initialiser, how a new event's bits are reset: as in `outlive_event_open`.
 *
 * Errors: EINVAL.
 */
int outlive_event_init(struct outlive_event_t *event, uint32_t reset);

/**
 * Closes this opening of a named event. No thread of this process may wait for it by this address.
 * Passing NULL has no effect.
 */
void outlive_event_close(struct outlive_event_t *event);

/**
 * Sets bits, 0 to 30, and wakes all waiters. `*before` (may be NULL): the bits as they were; while
 * threads wait, as they were a moment before.
 *
 * Errors: EINVAL, also for bit 31.
 *
 * If a process dies during the call, bits that it has set stay set, and waiters are woken all the
 * same.
 */
int outlive_event_set(struct outlive_event_t *event, uint32_t bits, uint32_t *before);

/**
 * Clears bits. `*before` (may be NULL): the bits as they were. With OUTLIVE_RESET_MANUAL, threads
 * that have waited for one of them since before return all the same; a wait for all of several does
 * if one call cleared them together.
 *
 * Errors: EINVAL.
 */
int outlive_event_clear(struct outlive_event_t *event, uint32_t bits, uint32_t *before);

/**
 * Returns the bits as they are. 0 for what is no event.
 */
uint32_t outlive_event_bits(const struct outlive_event_t *event);

/**
 * Waits until one of the bits is set, or until the deadline. `*seen` (may be NULL): which of them
 * were.
 *
 * Errors: ETIMEDOUT; EAGAIN with OUTLIVE_TRY. EINVAL, EUSERS, ENOSPC.
 *
 * If another waiter dies, that has no effect. The event does not know which process ought to set
 * the bits; see `outlive_wait_set_t` for watching its end.
 */
int outlive_event_wait_any(struct outlive_event_t *event, uint32_t bits, outlive_deadline_t deadline, uint32_t *seen);

/**
 * Waits until all of the bits are set at once, or until the deadline. Otherwise it is the same as
 * `outlive_event_wait_any`.
 */
int outlive_event_wait_all(struct outlive_event_t *event, uint32_t bits, outlive_deadline_t deadline, uint32_t *seen);

/**
 * Opens the latch of that name, or makes one that so many arrivals open, 2,147,483,647 at most. 0,
 * with OUTLIVE_OPEN: whatever number it began with.
 *
 * Owner: `*latch` is in shared memory, mapped until `outlive_latch_close`.
 *
 * Errors: see `outlive_opening_t`.
 */
int outlive_latch_open(const struct outlive_domain_t *domain,
                       const char *name,
                       enum outlive_opening_t how,
                       uint32_t arrivals,
                       struct outlive_latch_t **latch);

/**
 * Sets, in a record's initialiser, how many arrivals open a new latch.
 *
 * Errors: EINVAL.
 */
int outlive_latch_init(struct outlive_latch_t *latch, uint32_t arrivals);

/**
 * Closes this opening of a named latch. No thread of this process may wait for it by this address.
 * Passing NULL has no effect.
 */
void outlive_latch_close(struct outlive_latch_t *latch);

/**
 * Arrives so many times; the last arrival wakes all waiters. UINT32_MAX opens the latch at once.
 * `*missing` (may be NULL): how many arrivals are missing now.
 *
 * Errors: EINVAL.
 *
 * If a process dies during the call, it has arrived or not; waiters are woken all the same.
 */
int outlive_latch_arrive(struct outlive_latch_t *latch, uint32_t arrivals, uint32_t *missing);

/**
 * Waits until the latch is open, or until the deadline.
 *
 * Errors: ETIMEDOUT; EAGAIN with OUTLIVE_TRY. EINVAL, EUSERS, ENOSPC.
 */
int outlive_latch_wait(struct outlive_latch_t *latch, outlive_deadline_t deadline);

/**
 * Opens the once of that name, or makes it.
 *
 * Owner: `*once` is in shared memory, mapped until `outlive_once_close`.
 *
 * Errors: see `outlive_opening_t`.
 */
int outlive_once_open(const struct outlive_domain_t *domain,
                      const char *name,
                      enum outlive_opening_t how,
                      struct outlive_once_t **once);

/**
 * Closes this opening of a named once. Passing NULL has no effect.
 */
void outlive_once_close(struct outlive_once_t *once);

/**
 * Makes sure that the action has been done: calls `make(argument, previous_died)`, unless it has
 * been done. If another thread is doing it, this waits for that until the deadline.
 *
 * Errors: ETIMEDOUT; EBUSY with OUTLIVE_TRY: a living thread is doing it. EDEADLK: this thread is
 * doing it. EINVAL, OUTLIVE_DAMAGED, EUSERS, ENOSPC.
 *
 * If a process dies in the middle of `make`, the next caller, or a waiter, does the action, with
 * `previous_died` 1.
 */
int outlive_once_do(struct outlive_once_t *once, outlive_make_t make, void *argument, outlive_deadline_t deadline);

/**
 * Returns whether it has been done: 1, 0. 0 for what is no once.
 */
int outlive_once_is_done(const struct outlive_once_t *once);

/**
 * Opens the semaphore of that name, or makes it with so many permits. `max_permits`: how many
 * there may be at a time, of 65,536, if `outlive_semaphore_add` adds some; 0: as many as an
 * existing semaphore has, and in a new one no more than `permits`. `permits` 0, with OUTLIVE_OPEN:
 * whatever number it began with.
 *
 * Owner: `*semaphore` is in shared memory, mapped until `outlive_semaphore_close`.
 *
 * Errors: see `outlive_opening_t`.
 *
 * If a process dies, its permits are free at once, and the death itself wakes a thread that sleeps
 * for one.
 */
int outlive_semaphore_open(const struct outlive_domain_t *domain,
                           const char *name,
                           enum outlive_opening_t how,
                           uint32_t permits,
                           uint32_t max_permits,
                           struct outlive_semaphore_t **semaphore);

/**
 * Sets, in a record's initialiser, how many of the permits are free at first: `permits` of
 * `max_permits`, for which the struct and its place have room. Without this call all are free.
 *
 * Errors: EINVAL.
 */
int outlive_semaphore_init(struct outlive_semaphore_t *semaphore, uint32_t permits, uint32_t max_permits);

/**
 * Closes this opening of a named semaphore: its address is invalid from then on. Permits that
 * threads hold by it stay theirs until they end. Passing NULL, or what is not an opened named
 * semaphore, has no effect.
 */
void outlive_semaphore_close(struct outlive_semaphore_t *semaphore);

/**
 * Takes a permit, waiting for one until the deadline. `*index` (may be NULL): its number, from 0
 * on; no two holders have the same.
 *
 * Errors: ETIMEDOUT; EAGAIN with OUTLIVE_TRY. EDEADLK: this thread holds all permits. EINVAL,
 * EUSERS, ENOSPC.
 *
 * If a holder dies, its permit is free at once.
 */
int outlive_semaphore_acquire(const struct outlive_semaphore_t *semaphore,
                              outlive_deadline_t deadline,
                              uint32_t *index);

/**
 * Takes so many permits, all or none, waiting for them until the deadline. Threads that want
 * several have their turns one after the other, in no particular order; the one whose turn it is
 * keeps what it gets until it has all, so all need not be free at one moment. `indexes` (may be
 * NULL) has room for their numbers.
 *
 * Errors: ETIMEDOUT; EAGAIN with OUTLIVE_TRY. EDEADLK: this thread holds so many that the others
 * would not be enough. EOVERFLOW: there may never be so many. OUTLIVE_DAMAGED, EINVAL, EUSERS,
 * ENOSPC.
 *
 * If the caller dies in the call, all permits that it had by then are free.
 */
int outlive_semaphore_acquire_many(const struct outlive_semaphore_t *semaphore,
                                   uint32_t permits,
                                   outlive_deadline_t deadline,
                                   uint32_t *indexes);

/**
 * Gives back the permit that this thread took last.
 *
 * Errors: EPERM: this thread has none. EINVAL.
 */
int outlive_semaphore_release(const struct outlive_semaphore_t *semaphore);

/**
 * Gives back the permits that this thread took last, so many.
 *
 * Errors: EPERM: this thread has fewer; it keeps them. EINVAL.
 */
int outlive_semaphore_release_many(const struct outlive_semaphore_t *semaphore, uint32_t permits);

/**
 * Consumes the permit that this thread took last: there is one less, until a thread adds one. So a
 * semaphore counts items that one process produces and another consumes.
 *
 * Errors: EPERM: this thread has none. EINVAL.
 */
int outlive_semaphore_consume(const struct outlive_semaphore_t *semaphore);

/**
 * Hands the permit that this thread took last to another thread, or process: to the owner of
 * `token`, which takes it by `outlive_semaphore_take_up`. It does so in one atomic step: the
 * permit is never free meanwhile.
 *
 * Errors: EPERM: this thread has none. EINVAL, also for a number that is no token.
 *
 * If the receiver of the permit dies, before or after taking it, the permit is free.
 */
int outlive_semaphore_hand_to(const struct outlive_semaphore_t *semaphore, uint32_t token);

/**
 * Takes a permit that another thread handed to this thread or its process, waiting for one until
 * the deadline. `*index` (may be NULL): its number.
 *
 * Errors: ETIMEDOUT; EAGAIN with OUTLIVE_TRY. EINVAL, EUSERS, ENOSPC.
 *
 * If the thread dies that ought to hand one over, this call does not learn of it: use a deadline.
 */
int outlive_semaphore_take_up(const struct outlive_semaphore_t *semaphore,
                              outlive_deadline_t deadline,
                              uint32_t *index);

/**
 * Adds a permit.
 *
 * Errors: EOVERFLOW: there are as many permits as there may be. EINVAL.
 *
 * If a process dies during the call, the permit is added or not.
 */
int outlive_semaphore_add(const struct outlive_semaphore_t *semaphore);

/**
 * Returns how many permits no thread holds now. 0 for what is no semaphore.
 */
uint32_t outlive_semaphore_available_permits(const struct outlive_semaphore_t *semaphore);

/**
 * Writes the present holders of permits to `infos`, as many as fit; `*count` is how many there
 * are.
 *
 * Errors: EINVAL.
 */
int outlive_semaphore_holders(const struct outlive_semaphore_t *semaphore,
                              struct outlive_peer_info_t *infos,
                              size_t capacity,
                              size_t *count);

/**
 * Opens the barrier of that name, or makes it, for so many participants, 1 to 65,536.
 * `when_one_dies`: OUTLIVE_DEATH_BREAKS or OUTLIVE_DEATH_COUNTS_OUT; 0: what an existing barrier
 * has, and in a new one as OUTLIVE_DEATH_BREAKS. With OUTLIVE_OPEN, and both of them 0: whatever
 * it was made with.
 *
 * Owner: `*barrier` is in shared memory, mapped until `outlive_barrier_close`.
 *
 * Errors: see `outlive_opening_t`.
 */
int outlive_barrier_open(const struct outlive_domain_t *domain,
                         const char *name,
                         enum outlive_opening_t how,
                         uint32_t parties,
                         uint32_t when_one_dies,
                         struct outlive_barrier_t **barrier);

/**
 * Sets, in a record's initialiser, what a participant's death does, as in `outlive_barrier_open`.
 * Without this call a death breaks the barrier.
 *
 * Errors: EINVAL.
 */
int outlive_barrier_init(struct outlive_barrier_t *barrier, uint32_t when_one_dies);

/**
 * Closes this opening of a named barrier: its address is invalid from then on. Seats that threads
 * took by it stay theirs until they end. Passing NULL, or what is not an opened named barrier, has
 * no effect.
 */
void outlive_barrier_close(struct outlive_barrier_t *barrier);

/**
 * Takes a seat for the calling thread, which participates from now on.
 *
 * Errors: EUSERS: all seats are taken. OUTLIVE_BROKEN, EINVAL, ENOSPC.
 *
 * If a process dies with a seat, the barrier breaks, or the dead thread is counted out.
 */
int outlive_barrier_join(const struct outlive_barrier_t *barrier);

/**
 * Gives up the calling thread's seat: the others go on without it.
 *
 * Errors: EPERM: it has none. EINVAL.
 */
int outlive_barrier_leave(const struct outlive_barrier_t *barrier);

/**
 * Arrives at the barrier, and waits until all participants have, or until the deadline. `*turn`
 * (may be NULL): the participant's number, and whether it is the leader.
 *
 * Errors: OUTLIVE_BROKEN: a participant died, or the barrier was aborted or reset
 * (`outlive_barrier_repair`, `outlive_barrier_reset`). ETIMEDOUT, also with OUTLIVE_TRY: the
 * arrival counts; wait again, or break the barrier (`outlive_barrier_abort_wait`). EPERM: this
 * thread has not joined. EINVAL.
 *
 * If a process dies that has not arrived yet, its death ends the wait at once.
 */
int outlive_barrier_wait(const struct outlive_barrier_t *barrier,
                         outlive_deadline_t deadline,
                         struct outlive_turn_t *turn);

/**
 * Breaks the phase in which the calling thread has arrived and which it has not passed
 * (ETIMEDOUT). If all have arrived meanwhile, nothing is broken: 0, and `*turn` (may be NULL) as
 * from `outlive_barrier_wait`. If the thread has not arrived, this breaks the barrier as
 * `outlive_barrier_abort` does.
 *
 * Errors: OUTLIVE_BROKEN: it is broken now. EPERM: this thread has not joined. EINVAL.
 *
 * If a process dies during the call, nothing has happened, or no participant waits on.
 */
int outlive_barrier_abort_wait(const struct outlive_barrier_t *barrier, struct outlive_turn_t *turn);

/**
 * Breaks the barrier for all participants, until it is reset or repaired. Any thread may call it,
 * joined or not.
 *
 * Errors: EINVAL.
 *
 * If a process dies during the call, nothing has happened, or no participant waits on.
 */
int outlive_barrier_abort(const struct outlive_barrier_t *barrier);

/**
 * Makes the barrier empty and whole: participants that wait get OUTLIVE_BROKEN, the dead lose
 * their seats, the living keep theirs and begin a new phase.
 *
 * Errors: ETIMEDOUT: another thread that resets or repairs it is stopped. EINVAL.
 *
 * If a process dies during the call, nothing has happened, or the next participant that arrives
 * ends the reset.
 */
int outlive_barrier_reset(const struct outlive_barrier_t *barrier, outlive_deadline_t deadline);

/**
 * Says what the barrier is like just now.
 *
 * Errors: EINVAL.
 */
int outlive_barrier_state(const struct outlive_barrier_t *barrier, struct outlive_barrier_state_t *state);

/**
 * Makes a broken barrier whole: the dead lose their seats, which others may take; the living keep
 * theirs and begin a new phase. A barrier that is not broken stays as it is. Any number of
 * participants may call it at once.
 *
 * Errors: ETIMEDOUT: another thread that repairs it is stopped. EINVAL.
 *
 * If a process dies during the call, the barrier is still broken, or whole.
 */
int outlive_barrier_repair(const struct outlive_barrier_t *barrier, outlive_deadline_t deadline);

/**
 * Opens the queue of that name, or makes it. `options` NULL: none is set. With OUTLIVE_OPEN its
 * messages may be of any type, and are bytes here.
 *
 * Owner: `*queue` is the caller's, until `outlive_queue_close`. Its senders and receivers may
 * outlive it.
 *
 * Errors: see `outlive_opening_t`.
 *
 * If a process dies, the messages that it sent stay.
 */
int outlive_queue_open(const struct outlive_domain_t *domain,
                       const char *name,
                       enum outlive_opening_t how,
                       const struct outlive_queue_options_t *options,
                       struct outlive_queue_t **queue);

/**
 * Closes a queue. Its senders and receivers stay, and so do messages that were not received: they
 * wait in the queue until a receiver takes them, or the name is removed (`outlive_domain_remove`).
 * Passing NULL has no effect.
 */
void outlive_queue_close(struct outlive_queue_t *queue);

/**
 * Makes room for `messages` messages of up to `size` bytes each, and brings it in, so that sending
 * and receiving them is neither a page fault nor a system call, as long as no more of them wait at a
 * time. Each process of the queue calls it, sender and receiver alike.
 *
 * Errors: ENOSPC: the queue, or the file system, has no room for all of it; what was made stays.
 * EMSGSIZE, EINVAL, OUTLIVE_DAMAGED.
 *
 * If the process dies, other processes use what was made.
 */
int outlive_queue_prefault(const struct outlive_queue_t *queue, size_t messages, size_t size);

/**
 * Writes what has happened to the queue so far to `*counters`.
 *
 * Errors: EINVAL, OUTLIVE_DAMAGED.
 */
int outlive_queue_counters(const struct outlive_queue_t *queue, struct outlive_queue_counters_t *counters);

/**
 * Writes 1 to `*full` if the queue is full: it holds `max_messages` messages, or as many as its
 * bytes allow. Otherwise 0; a long message may find no room all the same. While other processes
 * send and receive, the answer is about a moment that has passed.
 *
 * Errors: EINVAL, OUTLIVE_DAMAGED.
 */
int outlive_queue_is_full(const struct outlive_queue_t *queue, uint32_t *full);

/**
 * Waits until no message is left: all that were sent have been received, also those that are sent
 * meanwhile. A message that was peeked at is received when it is committed; one that a program
 * received as a task (Rust's `Tasks`, Python's `get`) when it is done.
 *
 * Errors: ETIMEDOUT (also with OUTLIVE_TRY), EINVAL, EUSERS, OUTLIVE_DAMAGED.
 *
 * If a process dies, its tasks are gone with it and are not waited for. What a dead receiver left in
 * the queue is waited for, until another one receives it.
 */
int outlive_queue_join(const struct outlive_queue_t *queue, outlive_deadline_t deadline);

/**
 * Makes a new sender: any number, in any number of processes and threads.
 *
 * Owner: `*sender` is the caller's, until `outlive_sender_close`.
 *
 * Errors: EINVAL, EUSERS, ENOSPC.
 */
int outlive_queue_sender(const struct outlive_queue_t *queue, struct outlive_sender_t **sender);

/**
 * Makes this process the receiver, if there is none or it is dead; waits until the deadline for a
 * living one to leave or to end. The message that a dead one had not committed comes first.
 *
 * So several processes may stand by: when the receiver dies, one of them takes over at once.
 *
 * Owner: `*receiver` is the caller's, until `outlive_receiver_close`.
 *
 * Errors: EBUSY: another receiver is alive. EAGAIN: the last one is dead, and one of its threads
 * has not ended, for which OUTLIVE_TRY, too, waits up to two seconds. EINVAL, EUSERS, ENOSPC,
 * OUTLIVE_DAMAGED.
 *
 * If a process dies while it takes over, the next caller takes over.
 */
int outlive_queue_receiver(const struct outlive_queue_t *queue,
                           outlive_deadline_t deadline,
                           struct outlive_receiver_t **receiver);

/**
 * Closes a sender. Passing NULL has no effect.
 */
void outlive_sender_close(struct outlive_sender_t *sender);

/**
 * Closes the receiver: another may be made. A message that was peeked at and not committed stays.
 * Passing NULL has no effect.
 */
void outlive_receiver_close(struct outlive_receiver_t *receiver);

/**
 * Sends a copy of a message, of 0 bytes to 1 GiB; waits until the deadline while the queue is full
 * and at its largest.
 *
 * Errors: EPIPE: the receiver died, and no process has taken over. ENOTCONN: there is none, and
 * the queue refuses messages then. ETIMEDOUT; EAGAIN with OUTLIVE_TRY: full. EMSGSIZE: larger than
 * a message may be, or than the queue may grow. EINVAL, EUSERS, OUTLIVE_DAMAGED. After an error no
 * part of the message was sent.
 *
 * If the process dies: after a return of 0 the message is in the queue and outlives this process;
 * if it dies during the call, no part of the message is received. The receiver's death ends the
 * wait at once.
 */
int outlive_sender_send(struct outlive_sender_t *sender, const void *data, size_t size, outlive_deadline_t deadline);

/**
 * Sends many messages in one step: either all of them are in the queue, one after the other, or
 * none is.
 *
 * Errors: as `outlive_sender_send`; EMSGSIZE when the messages together, with 4 bytes each, are
 * too large. With OUTLIVE_TRY, ETIMEDOUT in place of EAGAIN.
 *
 * If the process dies during the call, none of the messages is received.
 */
int outlive_sender_send_batch(struct outlive_sender_t *sender,
                              const struct outlive_bytes_t *messages,
                              size_t count,
                              outlive_deadline_t deadline);

/**
 * Receives a message into `buffer`, waiting for one until the deadline. `*size`: its bytes.
 *
 * A message is received at most once: a process that dies after this has returned takes the
 * message with it; `outlive_receiver_peek` does not lose it.
 *
 * Errors: EMSGSIZE: it does not fit; `*size` is the room that it needs, and it stays in the queue.
 * ETIMEDOUT; EAGAIN with OUTLIVE_TRY: the queue is empty. EPIPE: all senders are gone
 * (`outlive_receiver_end_when_senders_gone`). EPERM: not the receiver, or not any more, as in a
 * forked child. OUTLIVE_DAMAGED: that message is skipped. EINVAL, EUSERS.
 *
 * If a sender dies during a send, that message is skipped; the messages that it had sent are
 * received.
 */
int outlive_receiver_recv(struct outlive_receiver_t *receiver,
                          void *buffer,
                          size_t capacity,
                          size_t *size,
                          outlive_deadline_t deadline);

/**
 * Returns the next message where it lies, without taking it out of the queue, waiting for one
 * until the deadline. It stays in the queue until `outlive_receiver_commit`; a second peek without
 * a commit returns the same message.
 *
 * Owner: `*data` is shared memory, which stays as it is until the commit, the next call with this
 * receiver, or its close. `*redelivered` (may be NULL): 1 when an earlier receiver got this
 * message too and died before it committed it: it may have acted on it.
 *
 * Errors: as `outlive_receiver_recv`.
 *
 * If this process dies before the commit, the next receiver gets the same message, with
 * `*redelivered`.
 */
int outlive_receiver_peek(struct outlive_receiver_t *receiver,
                          const void **data,
                          size_t *size,
                          uint32_t *redelivered,
                          outlive_deadline_t deadline);

/**
 * Takes the message that was peeked at out of the queue for good.
 *
 * Errors: EINVAL: no message was peeked at.
 *
 * If the process dies during the call, the next receiver gets the message again, or not.
 */
int outlive_receiver_commit(struct outlive_receiver_t *receiver);

/**
 * Sets whether a receive that finds nothing ends with EPIPE once there have been senders and all
 * of them have died or been closed. Default: 0, it waits for the next sender.
 *
 * Errors: EINVAL.
 */
int outlive_receiver_end_when_senders_gone(struct outlive_receiver_t *receiver, uint32_t end);

/**
 * Opens the job queue of that name, or makes it. `options` NULL: none is set. Jobs are bytes.
 *
 * Owner: `*queue` is the caller's, until `outlive_job_queue_close`. Jobs may outlive it.
 *
 * Errors: see `outlive_opening_t`.
 *
 * If a process dies, the jobs that it has put stay, and those that it has taken go to others.
 */
int outlive_job_queue_open(const struct outlive_domain_t *domain,
                           const char *name,
                           enum outlive_opening_t how,
                           const struct outlive_job_queue_options_t *options,
                           struct outlive_job_queue_t **queue);

/**
 * Closes a job queue. Its jobs stay. Passing NULL has no effect.
 */
void outlive_job_queue_close(struct outlive_job_queue_t *queue);

/**
 * Puts a copy of a job, waiting until the deadline while the queue holds as many as it can. `*id`
 * (may be NULL): the job's number, which no other job of this queue has.
 *
 * Errors: ETIMEDOUT; EAGAIN with OUTLIVE_TRY: full. EMSGSIZE: larger than a job may be. EPERM:
 * this process was taken for dead. EINVAL, EUSERS, OUTLIVE_DAMAGED. After an error the job was not
 * put.
 *
 * If the process dies: after a return of 0 the job is in the queue and outlives this process; if
 * it dies during the call, the job is there whole, or not at all.
 */
int outlive_job_queue_put(const struct outlive_job_queue_t *queue,
                          const void *data,
                          size_t size,
                          outlive_deadline_t deadline,
                          uint64_t *id);

/**
 * Takes the next job, waiting for one until the deadline; it may be one that a dead worker had. A
 * job that came back is taken before all that were put after it.
 *
 * Owner: `*job` is the caller's, until `outlive_job_done`, `outlive_job_set_aside` or
 * `outlive_job_release`.
 *
 * Errors: ETIMEDOUT; EAGAIN with OUTLIVE_TRY: there is none. OUTLIVE_DAMAGED: that job's bytes are
 * damaged, and it is set aside. EINVAL, EUSERS, ENOSPC.
 *
 * If the process dies while it has the job, another worker gets it. A stopped process keeps it.
 */
int outlive_job_queue_take(const struct outlive_job_queue_t *queue,
                           outlive_deadline_t deadline,
                           struct outlive_job_t **job);

/**
 * Makes room for `jobs` jobs, and brings it in, so that putting, taking and ending them is neither
 * a page fault nor a system call, as long as no more of them are in the queue at a time, those
 * included that workers have and those that are set aside. Each process of the queue calls it.
 *
 * Errors: ENOSPC: more than max_jobs, or the file system has no room for all of them; what was
 * made stays. EINVAL, OUTLIVE_DAMAGED.
 *
 * If the process dies, other processes use what was made.
 */
int outlive_job_queue_prefault(const struct outlive_job_queue_t *queue, size_t jobs);

/**
 * Waits until all jobs are done or set aside, including those that are put meanwhile.
 *
 * Errors: ETIMEDOUT, also with OUTLIVE_TRY. EINVAL, EUSERS.
 *
 * If a worker dies, its job is not done: this waits until another worker has done it.
 */
int outlive_job_queue_join(const struct outlive_job_queue_t *queue, outlive_deadline_t deadline);

/**
 * Writes how many jobs are in which state to `*counts`.
 *
 * Errors: EINVAL.
 */
int outlive_job_queue_counts(const struct outlive_job_queue_t *queue, struct outlive_job_counts_t *counts);

/**
 * Describes in `*job` the first job that is set aside and whose number is `from` or more, and
 * copies its data into `buffer`. With the number after the last one's, a loop goes through all.
 *
 * Errors: ENOENT: there is none. EMSGSIZE: it does not fit; `job->size` is the room that it needs.
 * EINVAL, OUTLIVE_DAMAGED.
 */
int outlive_job_queue_set_aside(const struct outlive_job_queue_t *queue,
                                uint64_t from,
                                struct outlive_set_aside_t *job,
                                void *buffer,
                                size_t capacity);

/**
 * Lets the job of that number, which is set aside, be taken again, as if it had never been.
 *
 * Errors: ENOENT: it is not set aside. EINVAL.
 */
int outlive_job_queue_retry(const struct outlive_job_queue_t *queue, uint64_t id);

/**
 * Removes the job of that number, which is set aside, for good.
 *
 * Errors: ENOENT: it is not set aside. EINVAL.
 */
int outlive_job_queue_discard(const struct outlive_job_queue_t *queue, uint64_t id);

/**
 * Returns the job's data and writes the number of bytes to `*size`; NULL and 0 when there is no
 * job. They are valid as long as the job is.
 */
const void *outlive_job_data(const struct outlive_job_t *job, size_t *size);

/**
 * Returns the job's number, which no other job of its queue has.
 */
uint64_t outlive_job_id(const struct outlive_job_t *job);

/**
 * Returns how often the job has been taken, this time included. More than 1 means that an
 * earlier worker died or gave it back, and may have done a part of it.
 */
uint32_t outlive_job_attempts(const struct outlive_job_t *job);

/**
 * Acknowledges the job: it is done, and gone. The handle is gone as well, also after an error.
 *
 * Errors: EPERM: this process was taken for dead, or is a forked child: another worker may have
 * the job. EINVAL.
 *
 * If the process dies during the call, the job is done, or another worker gets it.
 */
int outlive_job_done(struct outlive_job_t *job);

/**
 * Sets the job aside, however often it has been taken. The handle is gone, also after an error.
 *
 * Errors: as `outlive_job_done`.
 */
int outlive_job_set_aside(struct outlive_job_t *job);

/**
 * Gives the job back: it is taken again, before all that were put after it; or it is set aside, if
 * it has been taken as often as allowed. Passing NULL has no effect.
 */
void outlive_job_release(struct outlive_job_t *job);

/**
 * Opens a notifier of that name, and makes what notifiers and listeners share if there is none.
 * `options` NULL: none is set. A name has up to 64 notifiers at a time.
 *
 * Owner: `*notifier` is the caller's, until `outlive_notifier_close`.
 *
 * Errors: see `outlive_opening_t`; EUSERS: there are 64.
 *
 * If a process dies, listeners are told, if that was made with `on_died`.
 */
int outlive_notifier_open(const struct outlive_domain_t *domain,
                          const char *name,
                          enum outlive_opening_t how,
                          const struct outlive_notifier_options_t *options,
                          struct outlive_notifier_t **notifier);

/**
 * Closes a notifier: listeners are told, if that was made with `on_left`. Passing NULL has no
 * effect.
 */
void outlive_notifier_close(struct outlive_notifier_t *notifier);

/**
 * Adds a notice of that number, 0 to 63, to the counts of each listener, and wakes those that
 * sleep. `*listeners` (may be NULL): how many living listeners there were.
 *
 * Errors: EINVAL: the number; EPERM: a forked child's copy.
 *
 * If a process dies during the call, some listeners may have the notice, and others not.
 */
int outlive_notifier_notify(const struct outlive_notifier_t *notifier, uint32_t number, uint32_t *listeners);

/**
 * Opens a listener of that name, and makes what notifiers and listeners share if there is none.
 * `options` NULL: none is set. It counts what is notified from now on. A name has up to 64
 * listeners at a time.
 *
 * Owner: `*listener` is the caller's, until `outlive_listener_close`.
 *
 * Errors: see `outlive_opening_t`; EUSERS: there are 64.
 *
 * If a process dies, the notices that it had not taken are lost with it.
 */
int outlive_listener_open(const struct outlive_domain_t *domain,
                          const char *name,
                          enum outlive_opening_t how,
                          const struct outlive_notifier_options_t *options,
                          struct outlive_listener_t **listener);

/**
 * Closes a listener. Passing NULL has no effect.
 */
void outlive_listener_close(struct outlive_listener_t *listener);

/**
 * Waits until there are notices, or until the deadline, and takes all that are there.
 *
 * Errors: ETIMEDOUT, EAGAIN; EPERM: a forked child's copy; EINVAL.
 *
 * If a notifier's process dies, that is a notice, if there is an `on_died`.
 */
int outlive_listener_wait(struct outlive_listener_t *listener,
                          outlive_deadline_t deadline,
                          struct outlive_notices_t *notices);

/**
 * Opens the topic of that name, or makes it, for messages that are bytes. `options` NULL: none is
 * set. With OUTLIVE_OPEN the messages may be of any type, and are bytes here.
 *
 * Owner: `*topic` is the caller's, until `outlive_topic_close`. Its publishers and subscribers may
 * outlive it.
 *
 * Errors: see `outlive_opening_t`; OUTLIVE_OTHER_TYPE: its messages are of a Rust type, or of
 * another description than `payload`.
 *
 * If a process dies, the messages that it published stay.
 */
int outlive_topic_open(const struct outlive_domain_t *domain,
                       const char *name,
                       enum outlive_opening_t how,
                       const struct outlive_topic_options_t *options,
                       struct outlive_topic_t **topic);

/**
 * Closes a topic. Its publishers and subscribers stay. Passing NULL has no effect.
 */
void outlive_topic_close(struct outlive_topic_t *topic);

/**
 * Writes what the topic was made with into `config`, which begins with its size as
 * OUTLIVE_TOPIC_OPTIONS_INIT sets it: depth, max_bytes, stamps, no_stamps, reliable, durability,
 * max_publishers, max_subscribers, max_samples and mode; the rest is 0.
 *
 * Errors: EINVAL.
 */
int outlive_topic_config(const struct outlive_topic_t *topic, struct outlive_topic_options_t *config);

/**
 * Returns how many living publishers and subscribers there are. Each place may be NULL.
 *
 * Errors: EINVAL.
 */
int outlive_topic_counts(const struct outlive_topic_t *topic, uint32_t *publishers, uint32_t *subscribers);

/**
 * Makes a new publisher: up to `max_publishers` at a time. `options` NULL: none is set.
 *
 * Owner: `*publisher` is the caller's, until `outlive_publisher_close`.
 *
 * Errors: EUSERS, ENOSPC, EINVAL, OUTLIVE_DAMAGED.
 */
int outlive_topic_publisher(const struct outlive_topic_t *topic,
                            const struct outlive_publisher_options_t *options,
                            struct outlive_publisher_t **publisher);

/**
 * Makes a new subscriber: up to `max_subscribers` at a time. `options` NULL: it receives what is published from
 * now on.
 *
 * Owner: `*subscriber` is the caller's, until `outlive_subscriber_close`.
 *
 * Errors: EUSERS, ENOSPC, EINVAL, OUTLIVE_DAMAGED; OUTLIVE_OTHER_OPTIONS: it asks for more than the
 * topic offers.
 *
 * If a process dies during the call, there is no new subscriber.
 */
int outlive_topic_subscriber(const struct outlive_topic_t *topic,
                             const struct outlive_subscriber_options_t *options,
                             struct outlive_subscriber_t **subscriber);

/**
 * Closes a publisher. Its published messages stay; a loan of it can only be dropped then. Passing
 * NULL has no effect.
 */
void outlive_publisher_close(struct outlive_publisher_t *publisher);

/**
 * Makes memory for messages of up to `size` bytes, brings it in, and keeps it for this publisher, so
 * that lending and publishing them is neither a page fault nor a system call. `held`: how many are
 * in use at a time beside those in the ring: loans, and samples that subscribers hold. Subscribers
 * see the memory in mappings of their own: each calls `outlive_domain_prefault` after this.
 *
 * Errors: ENOSPC: the topic, or the file system, has no room for all of it; no message is given up.
 * EMSGSIZE, EINVAL, EPERM, OUTLIVE_DAMAGED.
 *
 * If the process dies, the next publisher has the memory.
 */
int outlive_publisher_prefault(struct outlive_publisher_t *publisher, size_t held, size_t size);

/**
 * Lends memory for a message of `size` bytes, from 0 to 1 GiB, to be written in place: `*data`,
 * aligned to 8, or to 64 if it has more than 168 bytes. Its contents are arbitrary.
 *
 * Owner: `*loan` and `*data` are the caller's, until `outlive_publisher_publish` or
 * `outlive_loan_release`.
 *
 * Errors: ENOSPC: the topic is at its largest, and subscribers hold its messages. EMSGSIZE,
 * EINVAL, EPERM (a forked child needs a publisher of its own), EUSERS, OUTLIVE_DAMAGED.
 *
 * If the process dies, its loans are free again.
 */
int outlive_publisher_loan(struct outlive_publisher_t *publisher,
                           size_t size,
                           struct outlive_loan_t **loan,
                           void **data);

/**
 * Sets the header that is published with a loan.
 *
 * Errors: EINVAL.
 */
int outlive_loan_set_header(struct outlive_loan_t *loan, const struct outlive_header_t *header);

/**
 * Gives a loan back unpublished. Passing NULL has no effect.
 */
void outlive_loan_release(struct outlive_loan_t *loan);

/**
 * Publishes a loan. It waits, until the deadline, only for a reliable subscriber that has not
 * taken the message that would be overwritten. `*sequence` (may be NULL): its number among the
 * messages of this publisher's ring.
 *
 * Owner: the loan is consumed, also by a call that fails.
 *
 * Errors: ETIMEDOUT; EAGAIN with OUTLIVE_TRY: such a subscriber is alive and has not taken its
 * message; `outlive_last_error_pid` is its process. EPERM, EINVAL, EUSERS, OUTLIVE_DAMAGED. After an error the loan was not published.
 *
 * If the process dies: after a return of 0 the message is published, even if this process dies; if
 * it dies during the call, subscribers get the whole message or none of it. A reliable
 * subscriber's death ends the wait at once.
 */
int outlive_publisher_publish(struct outlive_publisher_t *publisher,
                              struct outlive_loan_t *loan,
                              outlive_deadline_t deadline,
                              uint64_t *sequence);

/**
 * Publishes a copy of `size` bytes, with `header` (NULL: none).
 *
 * Errors: as `outlive_publisher_loan` and `outlive_publisher_publish`.
 *
 * If a process dies: as with `outlive_publisher_publish`.
 */
int outlive_publisher_publish_copy(struct outlive_publisher_t *publisher,
                                   const void *data,
                                   size_t size,
                                   const struct outlive_header_t *header,
                                   outlive_deadline_t deadline,
                                   uint64_t *sequence);

/**
 * Returns how many living subscribers there are. 0 for NULL.
 */
uint32_t outlive_publisher_subscriber_count(const struct outlive_publisher_t *publisher);

/**
 * Says that the publisher is there, although it has nothing to publish: to subscribers that ask for
 * its liveliness it is as if it had published. Passing NULL has no effect.
 */
void outlive_publisher_assert_liveliness(struct outlive_publisher_t *publisher);

/**
 * Returns how often this publisher has stopped waiting for a reliable subscriber that was in its way
 * for longer than its `max_blocking`. 0 for NULL.
 */
uint64_t outlive_publisher_stopped_waiting(const struct outlive_publisher_t *publisher);

/**
 * Writes which reliable subscriber is furthest behind this publisher, of several the first. It looks at
 * all subscribers, and waits for none. One of which the publisher has stopped waiting is left out.
 * `outlive_wait_set_slowest` is for another thread.
 *
 * Errors: ESRCH: there is no such subscriber; EINVAL.
 *
 * If a subscriber dies, it is left out, at once.
 */
int outlive_publisher_slowest(const struct outlive_publisher_t *publisher, struct outlive_laggard_t *laggard);

/**
 * Returns how many periods have passed without a message of this publisher: those before its last
 * message, and those that a wait set has taken since. 0 for NULL, and without a period.
 */
uint64_t outlive_publisher_missed(const struct outlive_publisher_t *publisher);

/**
 * Reads that file alone; `path` NULL: the files of `$OUTLIVE_CONFIG`, of the user and of the system,
 * as far as they exist. (`outlive_domain_open` reads them by itself, for the default domain.)
 *
 * Owner: `*config` is the caller's, until `outlive_config_close`.
 *
 * Errors: EINVAL: a file is no TOML, has an unknown key or an impossible value; `outlive_last_error`
 * says where. ENOENT: `path` is not there; EACCES, and errors of the system.
 */
int outlive_config_load(const char *path, struct outlive_config_t **config);

/**
 * Closes a configuration. Passing NULL has no effect.
 */
void outlive_config_close(struct outlive_config_t *config);

/**
 * Writes the name of the profile that holds for the topic of that name into `buffer`: of the first
 * that has a pattern which fits.
 *
 * Errors: ENOENT: no profile holds for it; EMSGSIZE: the name does not fit with its NUL; EINVAL.
 */
int outlive_config_profile(const struct outlive_config_t *config, const char *topic, char *buffer, size_t capacity);

/**
 * Returns how handles wait that no profile says anything else of, `wait.strategy`: one of the
 * OUTLIVE_WAIT numbers; OUTLIVE_WAIT_ADAPTIVE where no file says it, and for NULL.
 */
uint32_t outlive_config_wait(const struct outlive_config_t *config);

/**
 * Sets in `options` what the profile of the topic of that name says of topics, and leaves the rest
 * as it is; all of it, if no profile holds for that name. Begin `options` with
 * OUTLIVE_TOPIC_OPTIONS_INIT; what is set after this call wins.
 *
 * Errors: EINVAL.
 */
int outlive_config_topic(const struct outlive_config_t *config,
                         const char *topic,
                         struct outlive_topic_options_t *options);

/**
 * Sets in `options` what the profile of the topic of that name says of publishers, as
 * `outlive_config_topic` does. Begin `options` with OUTLIVE_PUBLISHER_OPTIONS_INIT.
 *
 * Errors: EINVAL.
 */
int outlive_config_publisher(const struct outlive_config_t *config,
                             const char *topic,
                             struct outlive_publisher_options_t *options);

/**
 * Sets in `options` what the profile of the topic of that name says of subscribers, as
 * `outlive_config_topic` does. Begin `options` with OUTLIVE_SUBSCRIBER_OPTIONS_INIT. `keys` then
 * points into the configuration: make the subscriber before the configuration is closed.
 *
 * Errors: EINVAL.
 */
int outlive_config_subscriber(const struct outlive_config_t *config,
                              const char *topic,
                              struct outlive_subscriber_options_t *options);

/**
 * Closes a subscriber. Samples that it took stay valid. Passing NULL has no effect.
 */
void outlive_subscriber_close(struct outlive_subscriber_t *subscriber);

/**
 * Receives the next message, waiting for it until the deadline.
 *
 * Owner: `*sample` is the caller's, until `outlive_sample_release`; up to 256 may be held at a
 * time.
 *
 * Errors: ETIMEDOUT; EAGAIN with OUTLIVE_TRY: no message is there. ETIME: no message has come for
 * longer than the period. OUTLIVE_LAGGED: a publisher has stopped waiting for this reliable
 * subscriber, which has lost messages: `outlive_subscriber_lagged` says how many. OUTLIVE_NEW_SESSION: the next message is the first of a start
 * of its publisher. OUTLIVE_NOT_LIVELY, OUTLIVE_LIVELY, EOWNERDEAD: what `liveliness` asks for, of the
 * publisher that `outlive_subscriber_told` names. After each, the next call goes on. ENOBUFS: it
 * holds `max_samples` samples. EPERM: a forked child needs a subscriber of its own.
 * OUTLIVE_DAMAGED: the damaged message is skipped. EINVAL, EUSERS.
 *
 * If a publisher dies, its published messages are received as before.
 */
int outlive_subscriber_recv(struct outlive_subscriber_t *subscriber,
                            struct outlive_sample_t **sample,
                            outlive_deadline_t deadline);

/**
 * Returns the newest message that is there, taken before or not; older ones are skipped, without
 * counting as lost.
 *
 * Owner: as `outlive_subscriber_recv`.
 *
 * Errors: EAGAIN: no message is there. Otherwise as `outlive_subscriber_recv`.
 */
int outlive_subscriber_latest(struct outlive_subscriber_t *subscriber, struct outlive_sample_t **sample);

/**
 * Returns how many messages were overwritten before this subscriber took them, so far. 0 for NULL.
 */
uint64_t outlive_subscriber_lost(const struct outlive_subscriber_t *subscriber);

/**
 * Returns how many messages were passed over because they were older than its `max_age`, or than
 * their publisher's `lifespan`. 0 for NULL.
 */
uint64_t outlive_subscriber_expired(const struct outlive_subscriber_t *subscriber);

/**
 * Writes the session and the process of the publisher of which a receive told last, by
 * OUTLIVE_NEW_SESSION (whose process is not told: 0), OUTLIVE_NOT_LIVELY, OUTLIVE_LIVELY or
 * EOWNERDEAD; 0 before that. Each place may be NULL.
 *
 * Errors: EINVAL.
 */
int outlive_subscriber_told(const struct outlive_subscriber_t *subscriber, uint32_t *session, uint32_t *pid);

/**
 * Returns how many messages of one publisher this reliable subscriber had lost when a receive told it
 * OUTLIVE_LAGGED last. 0 before that, and for NULL.
 */
uint64_t outlive_subscriber_lagged(const struct outlive_subscriber_t *subscriber);

/**
 * Returns how often a publisher was alive and did nothing for the time that `liveliness` says. 0 for
 * NULL.
 */
uint64_t outlive_subscriber_lapses(const struct outlive_subscriber_t *subscriber);

/**
 * Returns how many of its periods have passed without a message; one ETIME stands for all that had
 * passed by then. 0 for NULL, and without a period.
 */
uint64_t outlive_subscriber_missed(const struct outlive_subscriber_t *subscriber);

/**
 * Returns how many messages are waiting for it. 0 for NULL.
 */
uint64_t outlive_subscriber_lag(const struct outlive_subscriber_t *subscriber);

/**
 * Returns how many living publishers there are. 0 for NULL.
 */
uint32_t outlive_subscriber_publisher_count(const struct outlive_subscriber_t *subscriber);

/**
 * Returns a sample's bytes, for reading: aligned to 8, or to 64 if there are more than 168. NULL
 * for NULL.
 *
 * Owner: the sample.
 */
const void *outlive_sample_data(const struct outlive_sample_t *sample);

/**
 * Returns how many bytes a sample has. 0 for NULL.
 */
size_t outlive_sample_size(const struct outlive_sample_t *sample);

/**
 * Writes the header that its publisher sent along to `*header`; all zero if there was none.
 *
 * Errors: EINVAL.
 */
int outlive_sample_header(const struct outlive_sample_t *sample, struct outlive_header_t *header);

/**
 * Returns its number among the messages of its publisher's ring, without gaps except for lost
 * messages. 0 for NULL.
 */
uint64_t outlive_sample_sequence(const struct outlive_sample_t *sample);

/**
 * Returns its order among all messages of the topic: a message that was published before another's
 * publishing began has the lower order. 0 for NULL.
 */
uint64_t outlive_sample_order(const struct outlive_sample_t *sample);

/**
 * Returns the token of the process that published it. 0: not known.
 */
uint32_t outlive_sample_publisher(const struct outlive_sample_t *sample);

/**
 * Returns the number of the session that it is of: each start of a publisher has a higher one. 0:
 * not known.
 */
uint32_t outlive_sample_session(const struct outlive_sample_t *sample);

/**
 * Returns 1 if the process that published it is alive, 0 if not.
 */
int outlive_sample_publisher_alive(const struct outlive_sample_t *sample);

/**
 * Returns how many nanoseconds ago it was published, by its stamp; UINT64_MAX without a stamp.
 */
uint64_t outlive_sample_age(const struct outlive_sample_t *sample);

/**
 * Releases a sample: its memory can be reused. Passing NULL has no effect.
 */
void outlive_sample_release(struct outlive_sample_t *sample);

/**
 * Opens the state of that name, or makes one with this value in it, for values of at most
 * `capacity` bytes, 128 MiB at most; a new state's default: 4 KiB, or `size` if that is more. An
 * existing state keeps its value. With OUTLIVE_OPEN its values may be of any type, and are bytes
 * here.
 *
 * Owner: `*state` is the caller's, until `outlive_state_close`.
 *
 * Errors: see `outlive_opening_t`; OUTLIVE_OTHER_TYPE: its values are of one fixed size. ENOSPC:
 * also for a first value that is larger than `capacity`.
 */
int outlive_state_open(const struct outlive_domain_t *domain,
                       const char *name,
                       enum outlive_opening_t how,
                       size_t capacity,
                       const void *initial,
                       size_t size,
                       struct outlive_state_t **state);

/**
 * Opens the state of that name, or makes one whose values all have `size` bytes, with those at
 * `initial` in it (NULL: zeroes). It is the same as Rust's `State<T>` with a T of as many bytes,
 * and C++'s.
 *
 * Owner: `*state` is the caller's, until `outlive_state_close`.
 *
 * Errors: see `outlive_opening_t`; OUTLIVE_OTHER_TYPE: its values have another size, or several.
 * EINVAL also for `size` 0.
 */
int outlive_state_open_fixed(const struct outlive_domain_t *domain,
                             const char *name,
                             enum outlive_opening_t how,
                             size_t size,
                             const void *initial,
                             struct outlive_state_t **state);

/**
 * Opens the state of that name, or makes one whose values are what `payload` describes, for all
 * languages; a new state begins with the `size` bytes at `initial` (NULL: zeroes). An existing one
 * with another description is refused, and `outlive_last_error` names the first field that differs.
 * Values of a described type all have its size; for slices and for encodings `capacity` is the most
 * bytes of a value (0: 4 KiB, or `size` if that is more). `payload` NULL: as `outlive_state_open`.
 *
 * Owner: `*state` is the caller's, until `outlive_state_close`.
 *
 * Errors: see `outlive_opening_t`. ENOSPC: also for a first value that is larger than `capacity`.
 */
int outlive_state_open_described(const struct outlive_domain_t *domain,
                                 const char *name,
                                 enum outlive_opening_t how,
                                 const struct outlive_payload_t *payload,
                                 size_t capacity,
                                 const void *initial,
                                 size_t size,
                                 struct outlive_state_t **state);

/**
 * Closes a state. Its writer stays. Passing NULL has no effect.
 */
void outlive_state_close(struct outlive_state_t *state);

/**
 * Copies the latest value, whole, into `buffer`; `*size`: its bytes; `*version` (may be NULL): its
 * version. Never waits. A `capacity` of `outlive_state_capacity` or more saves a second copy;
 * bytes of `buffer` behind the value may be written then.
 *
 * Errors: EMSGSIZE: it does not fit; `*size` is the room that it needs. EINVAL, ENOMEM,
 * OUTLIVE_DAMAGED.
 *
 * If the writer dies in the middle of a set, this returns the previous value, whole.
 */
int outlive_state_get(const struct outlive_state_t *state,
                      void *buffer,
                      size_t capacity,
                      size_t *size,
                      uint64_t *version);

/**
 * Returns the most bytes that its values can have. 0 for NULL.
 */
size_t outlive_state_capacity(const struct outlive_state_t *state);

/**
 * Returns the latest value's version: the first value has version 1, and each set adds 1. 0 for
 * NULL.
 */
uint64_t outlive_state_version(const struct outlive_state_t *state);

/**
 * Waits until the value has another version than `seen`, or its writer is dead, or until the
 * deadline. `*version` (may be NULL): the version now.
 *
 * Errors: EPIPE: the writer is dead, and the value still has version `seen`. ETIMEDOUT, also with
 * OUTLIVE_TRY. EINVAL, EUSERS.
 *
 * If the writer dies, waiters are told at once.
 */
int outlive_state_wait_changed(const struct outlive_state_t *state,
                               uint64_t seen,
                               outlive_deadline_t deadline,
                               uint64_t *version);

/**
 * Makes this process the writer, if there is none or it is dead; waits until the deadline for a
 * living one to leave or to end.
 *
 * Owner: `*writer` is the caller's, until `outlive_state_writer_close`.
 *
 * Errors: EBUSY: another writer is alive. EAGAIN: the last one is dead, and one of its threads has
 * not ended within two seconds. EINVAL, EUSERS, ENOSPC, OUTLIVE_DAMAGED.
 *
 * If a process dies while it takes over, the next caller takes over.
 */
int outlive_state_writer(const struct outlive_state_t *state,
                         outlive_deadline_t deadline,
                         struct outlive_state_writer_t **writer);

/**
 * Closes the writer: another may be made. Passing NULL has no effect.
 */
void outlive_state_writer_close(struct outlive_state_writer_t *writer);

/**
 * Writes the writer's thread or process, dead or alive, to `*info`.
 *
 * Errors: ESRCH: there is no writer. EINVAL.
 */
int outlive_state_writer_now(const struct outlive_state_t *state, struct outlive_peer_info_t *info);

/**
 * Makes buffers for `readers` readers that are in `outlive_state_get` at the same time, 64 at most,
 * and brings the state's memory in, so that setting a value is neither a page fault nor a system
 * call, as long as no more of them are there at a time, and none sleeps. Each reader calls
 * `outlive_domain_prefault` after this.
 *
 * Errors: ENOSPC: more than 64, or the file system has no room for all of it; what was made stays.
 * EPERM: not the writer any more. EINVAL, OUTLIVE_DAMAGED.
 *
 * If the process dies, the next writer uses what was made.
 */
int outlive_state_writer_prefault(struct outlive_state_writer_t *writer, size_t readers);

/**
 * Sets the value. Never waits. `*version` (may be NULL): its version.
 *
 * Errors: EMSGSIZE: too large, or of another length than all its values have. EPERM: not the
 * writer, or not any more, as in a forked child. EINVAL, ENOSPC, OUTLIVE_DAMAGED.
 *
 * If the process dies during the call, the state has the previous value or this one, whole.
 */
int outlive_state_writer_set(struct outlive_state_writer_t *writer, const void *data, size_t size, uint64_t *version);

/**
 * Opens the service of that name as a client, or makes it. `options` NULL: none is set. With
 * OUTLIVE_OPEN its requests and replies may be of any type, and are bytes here.
 *
 * Owner: `*client` is the caller's, until `outlive_client_close`.
 *
 * Errors: see `outlive_opening_t`. ENOSPC: there is no memory for one more client, or it already has
 * 1,024; a service that this call made stays.
 *
 * If a client dies, no server begins those of its calls that were not begun, and its replies are
 * freed.
 */
int outlive_client_open(const struct outlive_domain_t *domain,
                        const char *name,
                        enum outlive_opening_t how,
                        const struct outlive_service_options_t *options,
                        struct outlive_client_t **client);

/**
 * Makes memory for `messages` requests and replies of up to `size` bytes each, and brings it in, so
 * that calls of that length are no page faults. Requests of up to 232 bytes and replies of up to 112
 * need none. A client that sleeps for its reply makes a system call.
 *
 * Errors: ENOSPC: the service, or the file system, has no room for all of it. EMSGSIZE, EINVAL,
 * OUTLIVE_DAMAGED.
 *
 * If the process dies, other processes use what was made.
 */
int outlive_client_prefault(const struct outlive_client_t *client, size_t messages, size_t size);

/**
 * Says that the client is there, although it has nothing to ask: to those that watch the service's
 * clients it is as if it had made a call. Passing NULL has no effect.
 */
void outlive_client_assert_liveliness(const struct outlive_client_t *client);

/**
 * Closes a client. Its calls go on until they are dropped. Passing NULL has no effect.
 */
void outlive_client_close(struct outlive_client_t *client);

/**
 * Sends a request, and waits for the reply until the deadline.
 *
 * Owner: `*reply` is the caller's, until `outlive_reply_release`.
 *
 * Errors: EPIPE: the server died, and no server had begun the call. ECONNRESET: the server died
 * after it had begun the call, which may have taken effect. ENOTCONN: there is no server.
 * ECONNABORTED: the server dropped the request. OUTLIVE_FAILED: the server could not do what was
 * asked, and said why: `outlive_last_error` returns its words. ETIMEDOUT: the call is cancelled. EMSGSIZE, EAGAIN
 * (1,024 calls are in flight), EPERM (a forked child needs a client of its own), EINVAL, EUSERS,
 * OUTLIVE_DAMAGED.
 *
 * If the server dies, the call ends at once. No call is ever begun twice.
 */
int outlive_client_call(struct outlive_client_t *client,
                        const void *data,
                        size_t size,
                        outlive_deadline_t deadline,
                        struct outlive_reply_t **reply);

/**
 * Sends a request without waiting for the reply; the deadline is for memory for a long request,
 * and, with `wait_for_server`, for a server.
 *
 * Owner: `*call` is the caller's, until `outlive_call_release`.
 *
 * Errors: as `outlive_client_call`.
 */
int outlive_client_begin(struct outlive_client_t *client,
                         const void *data,
                         size_t size,
                         outlive_deadline_t deadline,
                         struct outlive_call_t **call);

/**
 * Lends memory for a request of `size` bytes, to be written in place, waiting until the deadline while
 * the service's memory is in use: the server reads it there, and no byte of a long one is copied. Its
 * contents are arbitrary.
 *
 * Owner: `*loan` is the caller's, until `outlive_request_loan_begin`, `outlive_request_loan_call` or
 * `outlive_request_loan_release`.
 *
 * Errors: ETIMEDOUT, also with OUTLIVE_TRY: there is no memory. EMSGSIZE, EPERM, EINVAL, EUSERS,
 * OUTLIVE_DAMAGED.
 *
 * If the process dies, the service has the memory back once its last thread has ended.
 */
int outlive_client_loan(struct outlive_client_t *client,
                        size_t size,
                        outlive_deadline_t deadline,
                        struct outlive_request_loan_t **loan);

/**
 * Returns where the request is written: aligned to 8 bytes, as many as were asked for. NULL for NULL.
 * Owner: the loan.
 */
void *outlive_request_loan_data(struct outlive_request_loan_t *loan);

/**
 * Sends the request, without waiting for the reply: as `outlive_client_begin`.
 *
 * Owner: the loan is consumed, also by a call that fails; `*call` is the caller's, until
 * `outlive_call_release`.
 *
 * Errors: as `outlive_client_call`.
 */
int outlive_request_loan_begin(struct outlive_request_loan_t *loan,
                               outlive_deadline_t deadline,
                               struct outlive_call_t **call);

/**
 * Sends the request, and waits for the reply until the deadline: as `outlive_client_call`.
 *
 * Owner: the loan is consumed, also by a call that fails; `*reply` is the caller's, until
 * `outlive_reply_release`.
 *
 * Errors: as `outlive_client_call`.
 */
int outlive_request_loan_call(struct outlive_request_loan_t *loan,
                              outlive_deadline_t deadline,
                              struct outlive_reply_t **reply);

/**
 * Gives a loan back unsent. Passing NULL has no effect.
 */
void outlive_request_loan_release(struct outlive_request_loan_t *loan);

/**
 * Returns the next reply of a call, waiting for it until the deadline; `*reply` is NULL when there
 * are no more.
 *
 * Owner: `*reply` is the caller's, until `outlive_reply_release`.
 *
 * Errors: as `outlive_client_call`; ETIMEDOUT does not cancel the call; EAGAIN with OUTLIVE_TRY:
 * not yet.
 */
int outlive_call_next(struct outlive_call_t *call, outlive_deadline_t deadline, struct outlive_reply_t **reply);

/**
 * Drops a call; one that is not over is cancelled. Passing NULL has no effect.
 */
void outlive_call_release(struct outlive_call_t *call);

/**
 * Returns a reply's bytes. NULL for NULL. Owner: the reply.
 */
const void *outlive_reply_data(const struct outlive_reply_t *reply);

/**
 * Returns how many bytes a reply has. 0 for NULL.
 */
size_t outlive_reply_size(const struct outlive_reply_t *reply);

/**
 * Frees a reply. Passing NULL has no effect.
 */
void outlive_reply_release(struct outlive_reply_t *reply);

/**
 * Opens the service of that name as its server, or makes it. `options` NULL: none is set. With
 * OUTLIVE_OPEN its requests and replies may be of any type, and are bytes here.
 *
 * Owner: `*server` is the caller's, until `outlive_server_close`.
 *
 * Errors: see `outlive_opening_t`; EBUSY: another server is alive, perhaps of the very service that
 * this call made: then another process was quicker to serve it, and it stays. EAGAIN: the last
 * server is dead, and one of its threads has not ended, for which OUTLIVE_TRY, too, waits up to two
 * seconds.
 *
 * If a process dies while it takes over, the next caller takes over. When a server dies, the calls
 * that it had begun end at once, and the next server takes over those that it had not.
 */
int outlive_server_open(const struct outlive_domain_t *domain,
                        const char *name,
                        enum outlive_opening_t how,
                        const struct outlive_service_options_t *options,
                        struct outlive_server_t **server);

/**
 * Makes memory for requests and replies, and brings it in, as `outlive_client_prefault` does.
 */
int outlive_server_prefault(const struct outlive_server_t *server, size_t messages, size_t size);

/**
 * Stops serving. Requests that it has taken can still be replied to. Passing NULL has no effect.
 */
void outlive_server_close(struct outlive_server_t *server);

/**
 * Returns the next request, waiting for it until the deadline.
 *
 * Owner: `*request` is the caller's, until it is replied to or dropped.
 *
 * Errors: ETIMEDOUT; EAGAIN with OUTLIVE_TRY. EPERM: not the server, or not any more. EINVAL,
 * EUSERS, OUTLIVE_DAMAGED.
 *
 * If a client dies, its requests are skipped.
 */
int outlive_server_next(struct outlive_server_t *server,
                        outlive_deadline_t deadline,
                        struct outlive_request_t **request);

/**
 * Returns a request's bytes. NULL for NULL. Owner: the request.
 */
const void *outlive_request_data(const struct outlive_request_t *request);

/**
 * Returns how many bytes a request has. 0 for NULL.
 */
size_t outlive_request_size(const struct outlive_request_t *request);

/**
 * Returns whether the client wants no reply any more, or is dead. False for NULL.
 */
bool outlive_request_is_cancelled(const struct outlive_request_t *request);

/**
 * Waits until the client wants no reply any more (it let go of the call, perhaps because its deadline
 * passed), or is dead; until the deadline at most. Another thread may use the request meanwhile, but
 * not consume it.
 *
 * Errors: ETIMEDOUT: a client still waits. EINVAL, EUSERS, ENOSPC.
 *
 * If the client dies, the wait is over at once.
 */
int outlive_request_wait_cancelled(const struct outlive_request_t *request, outlive_deadline_t deadline);

/**
 * Writes the client, dead or alive, to `*info`, also when another client has its place by now.
 *
 * Errors: ESRCH: not known any more. EINVAL.
 */
int outlive_request_client(const struct outlive_request_t *request, struct outlive_peer_info_t *info);

/**
 * Sends the reply, which may be the bytes of the request itself. Never waits.
 *
 * Owner: the request is consumed, also by a call that fails.
 *
 * Errors: ECANCELED: the client wants no reply any more. EPIPE: it died. After EMSGSIZE, ENOSPC,
 * EPERM, EINVAL and OUTLIVE_DAMAGED the client gets ECONNABORTED.
 *
 * If the process dies: after a return of 0 the client has the reply, even if this process dies.
 */
int outlive_request_reply(struct outlive_request_t *request, const void *data, size_t size);

/**
 * Lends memory for the reply to a request, `size` bytes, to be written in place: the client reads it
 * there, and no byte of a long one is copied. Its contents are arbitrary. Never waits.
 *
 * Owner: the request is consumed, also by a call that fails; its bytes can be read until the loan is
 * sent or released. `*loan` is the caller's, until `outlive_reply_loan_send` or
 * `outlive_reply_loan_release`.
 *
 * Errors: EPIPE: the client died. After EMSGSIZE, ENOSPC, EPERM, EINVAL and OUTLIVE_DAMAGED the client
 * gets ECONNABORTED.
 *
 * If the process dies before the reply is sent, the client is told; the service has the memory back
 * once the last thread of this process has ended.
 */
int outlive_request_loan(struct outlive_request_t *request, size_t size, struct outlive_reply_loan_t **loan);

/**
 * Returns where the reply is written: aligned to 8 bytes, as many as were asked for. NULL for NULL.
 * Owner: the loan.
 */
void *outlive_reply_loan_data(struct outlive_reply_loan_t *loan);

/**
 * Returns the bytes of the request that the loan is a reply to; their number goes to `*size`, unless
 * that is NULL. NULL for NULL. Owner: the loan.
 */
const void *outlive_reply_loan_request(const struct outlive_reply_loan_t *loan, size_t *size);

/**
 * Sends the reply. Never waits.
 *
 * Owner: the loan is consumed, also by a call that fails.
 *
 * Errors: as `outlive_request_reply`.
 *
 * If the process dies: after a return of 0 the client has the reply, even if this process dies.
 */
int outlive_reply_loan_send(struct outlive_reply_loan_t *loan);

/**
 * Gives a loan back unsent, and tells the client why it gets no reply, as `outlive_request_fail`.
 *
 * Owner: the loan is consumed, also by a call that fails.
 *
 * Errors: as `outlive_request_fail`.
 *
 * If the process dies: after a return of 0 the client has the text, even if this process dies.
 */
int outlive_reply_loan_fail(struct outlive_reply_loan_t *loan, const char *why);

/**
 * Gives a loan back unsent: the client gets ECONNABORTED. Passing NULL has no effect.
 */
void outlive_reply_loan_release(struct outlive_reply_loan_t *loan);

/**
 * Tells the client that what it asked for could not be done, and why: it gets OUTLIVE_FAILED with
 * this text, UTF-8, cut to 64 KiB, or, when the service has no memory for it, to 48 bytes. Never
 * waits.
 *
 * Owner: the request is consumed, also by a call that fails.
 *
 * Errors: ECANCELED: the client wants no reply any more. EPIPE: it died. EPERM, EINVAL (also for a
 * text that is NULL or not UTF-8; then the client gets ECONNABORTED), OUTLIVE_DAMAGED.
 *
 * If the process dies: after a return of 0 the client has the text, even if this process dies.
 */
int outlive_request_fail(struct outlive_request_t *request, const char *why);

/**
 * Drops a request: the client gets ECONNABORTED. Passing NULL has no effect.
 */
void outlive_request_release(struct outlive_request_t *request);

/**
 * Begins a stream: several replies to one request.
 *
 * Owner: the request is consumed; `*stream` is the caller's, until `outlive_stream_finish` or
 * `outlive_stream_release`.
 *
 * Errors: EINVAL.
 */
int outlive_request_stream(struct outlive_request_t *request, struct outlive_stream_t **stream);

/**
 * Sends a reply of a stream, waiting until the deadline while eight are under way.
 *
 * Errors: ETIMEDOUT, also with OUTLIVE_TRY; otherwise as `outlive_request_reply`. The stream goes
 * on after ETIMEDOUT, EMSGSIZE and ENOSPC.
 *
 * If the client dies, the call returns EPIPE at once.
 */
int outlive_stream_send(struct outlive_stream_t *stream, const void *data, size_t size, outlive_deadline_t deadline);

/**
 * Ends a stream: no more replies come.
 *
 * Owner: the stream is consumed.
 *
 * Errors: as `outlive_request_reply`.
 */
int outlive_stream_finish(struct outlive_stream_t *stream);

/**
 * Ends a stream without a last reply, and tells the client why: after the replies that were sent,
 * it gets OUTLIVE_FAILED with this text, as with `outlive_request_fail`. Never waits, not even
 * while eight replies are under way.
 *
 * Owner: the stream is consumed, also by a call that fails.
 *
 * Errors: as `outlive_request_fail`.
 */
int outlive_stream_fail(struct outlive_stream_t *stream, const char *why);

/**
 * Cuts a stream off: the client gets ECONNABORTED after the last reply. Passing NULL has no
 * effect.
 */
void outlive_stream_release(struct outlive_stream_t *stream);

/**
 * Follows what becomes of the clients of a server's service: which have done nothing for `lease`
 * nanoseconds, and which have died. A client does something when it makes a call, sends a part of
 * a request, takes a reply of a stream, or calls `outlive_client_assert_liveliness`.
 *
 * Owner: `*watch` is the caller's, until `outlive_client_watch_close`; it may outlive the server.
 *
 * Errors: EINVAL, EUSERS, OUTLIVE_DAMAGED.
 *
 * If a client dies, that is told at once. Of those that are dead by now nothing is told.
 */
int outlive_server_watch_clients(const struct outlive_server_t *server,
                                 uint64_t lease,
                                 struct outlive_client_watch_t **watch);

/**
 * Follows what becomes of the clients of the service of that name, as
 * `outlive_server_watch_clients`, from a process that is neither its server nor a client of it.
 *
 * Owner: `*watch` is the caller's, until `outlive_client_watch_close`; it may outlive the domain.
 *
 * Errors: ENOENT: there is no such service. OUTLIVE_OTHER_KIND, EINVAL, EUSERS, OUTLIVE_DAMAGED.
 *
 * If a client dies, that is told at once. Of those that are dead by now nothing is told.
 */
int outlive_client_watch_open(const struct outlive_domain_t *domain,
                              const char *name,
                              uint64_t lease,
                              struct outlive_client_watch_t **watch);

/**
 * Closes a watch. Passing NULL has no effect.
 */
void outlive_client_watch_close(struct outlive_client_watch_t *watch);

/**
 * Waits until something has become of a client, or until the deadline. `*event` is one of the
 * OUTLIVE_CLIENT numbers, `*client` the process.
 *
 * Errors: ETIMEDOUT; EAGAIN with OUTLIVE_TRY: there is nothing to tell; EINVAL, EUSERS,
 * OUTLIVE_DAMAGED, and errors of the system.
 *
 * If a client dies, that is told at once.
 */
int outlive_client_watch_next(struct outlive_client_watch_t *watch,
                              outlive_deadline_t deadline,
                              uint32_t *event,
                              struct outlive_peer_info_t *client);

/**
 * Returns how often a client's lease has passed. 0 for NULL.
 */
uint64_t outlive_client_watch_lapses(const struct outlive_client_watch_t *watch);

/**
 * Returns how many clients have died. 0 for NULL.
 */
uint64_t outlive_client_watch_deaths(const struct outlive_client_watch_t *watch);

/**
 * Sends a request of which further parts follow, by `outlive_request_stream_send`. The deadline is for
 * memory for a long request, and, with `wait_for_server`, for a server.
 *
 * Owner: `*stream` is the caller's, until `outlive_request_stream_finish` or
 * `outlive_request_stream_release`.
 *
 * Errors: as `outlive_client_begin`.
 */
int outlive_client_stream(struct outlive_client_t *client,
                          const void *data,
                          size_t size,
                          outlive_deadline_t deadline,
                          struct outlive_request_stream_t **stream);

/**
 * Sends a part of a request, waiting until the deadline while eight are under way, or while the
 * service's memory is in use.
 *
 * Errors: ESHUTDOWN: the server has replied already, or failed the request, and takes no more parts;
 * `outlive_request_stream_finish` returns the call, which has the reply. ETIMEDOUT, also with
 * OUTLIVE_TRY, and EMSGSIZE, after which the stream goes on. Otherwise as `outlive_client_call`.
 *
 * If the server dies, the call returns ECONNRESET or EPIPE at once.
 */
int outlive_request_stream_send(struct outlive_request_stream_t *stream,
                                const void *data,
                                size_t size,
                                outlive_deadline_t deadline);

/**
 * Returns a reply that the server has sent before it has all parts, as `outlive_call_next`.
 *
 * Owner: `*reply` is the caller's, until `outlive_reply_release`.
 *
 * Errors: as `outlive_call_next`.
 */
int outlive_request_stream_next(struct outlive_request_stream_t *stream,
                                outlive_deadline_t deadline,
                                struct outlive_reply_t **reply);

/**
 * Says that no more parts come, and returns the call, which waits for the reply. Never waits.
 *
 * Owner: the stream is consumed, also by a call that fails; `*call` is the caller's, until
 * `outlive_call_release`.
 *
 * Errors: EPERM, EINVAL, EUSERS, OUTLIVE_DAMAGED.
 */
int outlive_request_stream_finish(struct outlive_request_stream_t *stream, struct outlive_call_t **call);

/**
 * Drops a stream: its call is cancelled. Passing NULL has no effect.
 */
void outlive_request_stream_release(struct outlive_request_stream_t *stream);

/**
 * Returns the next part of a request, waiting for it until the deadline; `*part` is NULL when there
 * are no more. A request that was not sent by `outlive_client_stream` has none.
 *
 * Owner: `*part` is the caller's, until `outlive_part_release`.
 *
 * Errors: ECANCELED: no client waits for a reply any more; it let go of the call, or died. ETIMEDOUT;
 * EAGAIN with OUTLIVE_TRY. EPERM, EINVAL, EUSERS, OUTLIVE_DAMAGED.
 *
 * If the client dies, the call returns ECANCELED at once.
 */
int outlive_request_next_part(struct outlive_request_t *request,
                              outlive_deadline_t deadline,
                              struct outlive_part_t **part);

/**
 * Returns the next part of the request to which a stream replies, as `outlive_request_next_part`.
 *
 * Owner: `*part` is the caller's, until `outlive_part_release`.
 *
 * Errors: as `outlive_request_next_part`.
 */
int outlive_stream_next_part(struct outlive_stream_t *stream,
                             outlive_deadline_t deadline,
                             struct outlive_part_t **part);

/**
 * Returns a part's bytes. NULL for NULL. Owner: the part.
 */
const void *outlive_part_data(const struct outlive_part_t *part);

/**
 * Returns how many bytes a part has. 0 for NULL.
 */
size_t outlive_part_size(const struct outlive_part_t *part);

/**
 * Frees a part. Passing NULL has no effect.
 */
void outlive_part_release(struct outlive_part_t *part);

/**
 * Lends memory for a part of a request, `size` bytes, to be written in place: the server reads it there,
 * and no byte is copied. Its contents are arbitrary. Waits until the deadline while eight parts are under
 * way, or while the service's memory is in use.
 *
 * Owner: `*loan` is the caller's, until `outlive_request_stream_send_loan` or
 * `outlive_part_loan_release`.
 *
 * Errors: as `outlive_request_stream_send`.
 *
 * If the process dies, the service has the memory back once its last thread has ended.
 */
int outlive_request_stream_loan(struct outlive_request_stream_t *stream,
                                size_t size,
                                outlive_deadline_t deadline,
                                struct outlive_part_loan_t **loan);

/**
 * Returns where the part is written: aligned to 64 bytes, as many as were asked for. NULL for NULL.
 * Owner: the loan.
 */
void *outlive_part_loan_data(struct outlive_part_loan_t *loan);

/**
 * Sends a part that `outlive_request_stream_loan` of this stream has lent. Never waits.
 *
 * Owner: the loan is consumed, also by a call that fails.
 *
 * Errors: as `outlive_request_stream_send`; EAGAIN when other parts have taken the place since it was lent:
 * of several loans open at once, no more go than there are places.
 */
int outlive_request_stream_send_loan(struct outlive_request_stream_t *stream, struct outlive_part_loan_t *loan);

/**
 * Gives a loan back unsent; the stream goes on. Passing NULL has no effect.
 */
void outlive_part_loan_release(struct outlive_part_loan_t *loan);

/**
 * Lends memory for a reply of a stream, `size` bytes, to be written in place: the client reads it there,
 * and no byte of a long one is copied. Its contents are arbitrary. Waits until the deadline while eight
 * replies are under way.
 *
 * Owner: `*loan` is the caller's, until `outlive_stream_send_loan` or `outlive_stream_loan_release`.
 *
 * Errors: as `outlive_stream_send`.
 *
 * If the process dies before the reply is sent, the client is told; the service has the memory back
 * once the last thread of this process has ended.
 */
int outlive_stream_loan(struct outlive_stream_t *stream,
                        size_t size,
                        outlive_deadline_t deadline,
                        struct outlive_stream_loan_t **loan);

/**
 * Returns where the reply is written: aligned to 8 bytes, as many as were asked for. NULL for NULL.
 * Owner: the loan.
 */
void *outlive_stream_loan_data(struct outlive_stream_loan_t *loan);

/**
 * Sends a reply that `outlive_stream_loan` of this stream has lent. Never waits.
 *
 * Owner: the loan is consumed, also by a call that fails.
 *
 * Errors: as `outlive_stream_send`; EAGAIN when other replies have taken the place since it was lent: of
 * several loans open at once, no more go than there are places.
 *
 * If the process dies: after a return of 0 the client has the reply, even if this process dies.
 */
int outlive_stream_send_loan(struct outlive_stream_t *stream, struct outlive_stream_loan_t *loan);

/**
 * Gives a loan back unsent; the stream goes on. Passing NULL has no effect.
 */
void outlive_stream_loan_release(struct outlive_stream_loan_t *loan);

/**
 * Opens the pool of that name, or makes it. `options` NULL: none is set.
 *
 * Owner: `*pool` is the caller's, until `outlive_pool_close`.
 *
 * Errors: see `outlive_opening_t`.
 *
 * If a process dies, what it had is free once its last thread has ended.
 */
int outlive_pool_open(const struct outlive_domain_t *domain,
                      const char *name,
                      enum outlive_opening_t how,
                      const struct outlive_pool_options_t *options,
                      struct outlive_pool_t **pool);

/**
 * Closes a pool: addresses in it are invalid from then on, unless it is open elsewhere in this
 * process. Passing NULL has no effect.
 */
void outlive_pool_close(struct outlive_pool_t *pool);

/**
 * Makes `objects` objects of `size` bytes, brings them in, and frees them, so that the calling thread
 * takes and frees as many at a time without a page fault or a system call.
 *
 * Errors: those of `outlive_pool_alloc`.
 *
 * If the process dies, what it had is free.
 */
int outlive_pool_prefault(const struct outlive_pool_t *pool, size_t objects, size_t size);

/**
 * Looks at all objects and writes to `*usage` how many are in which state.
 *
 * Errors: EINVAL, ENOSPC, OUTLIVE_DAMAGED.
 *
 * If a process dies, what it had counts as its own until a process collects it
 * (`outlive_pool_gc`).
 */
int outlive_pool_usage(const struct outlive_pool_t *pool, struct outlive_pool_usage_t *usage);

/**
 * Frees what dead processes had, and gives each 2 MiB back to the system in which all objects are
 * free. `*objects` (may be NULL): objects of dead processes that are free now; `*bytes` (may be
 * NULL): bytes that the system has back.
 *
 * Errors: EINVAL, ENOSPC, OUTLIVE_DAMAGED.
 *
 * If a process dies during the call, some of it is done, and the next call does the rest.
 */
int outlive_pool_gc(const struct outlive_pool_t *pool, uint64_t *objects, uint64_t *bytes);

/**
 * Allocates memory of `size` bytes, aligned to `align`, a power of two up to 4,096 (0: 16). Its
 * contents are arbitrary.
 *
 * Owner: `*data` is this process's, until `outlive_pool_free`, or until it is handed over. Any
 * thread may free it.
 *
 * Errors: ENOSPC: the pool is at its largest; the message names the process that has most.
 * EMSGSIZE, EINVAL, EUSERS, OUTLIVE_FAULT.
 *
 * If the process dies, the memory is free once its last thread has ended.
 */
int outlive_pool_alloc(const struct outlive_pool_t *pool, size_t size, size_t align, void **data);

/**
 * Frees memory. Passing NULL has no effect.
 *
 * Errors: EINVAL: no object begins there, or it was freed before. EPERM: it is not this process's.
 * EXDEV: another pool's. OUTLIVE_FAULT: a debug mode found bytes that the program must not have
 * written.
 */
int outlive_pool_free(const struct outlive_pool_t *pool, void *data);

/**
 * Hands memory over: any process that has the offset may claim it, or only the owner of `token` (a
 * process's or thread's; 0: any process). It does so in one atomic step: at each moment the object
 * has an owner or is offered. `domain`: the token's; may be NULL without one.
 *
 * Owner: `data` is no longer this process's; after EINVAL, EPERM and EXDEV it is as before.
 *
 * Errors: as `outlive_pool_free`, and EINVAL for a number that is no token.
 *
 * If a process dies: an object offered to any process stays; one offered to a process is free once
 * that has ended.
 */
int outlive_pool_offer(const struct outlive_pool_t *pool,
                       void *data,
                       const struct outlive_domain_t *domain,
                       uint32_t token,
                       uint64_t *offset);

/**
 * Takes over an object that was handed over. `*size` (may be NULL): its bytes.
 *
 * Owner: `*data` is this process's, until `outlive_pool_free`, or until it is handed over.
 *
 * Errors: ESTALE: it was claimed before, or is gone. EACCES: it is offered to another process.
 * OUTLIVE_OTHER_TYPE: it is a value of a Rust type. EINVAL, OUTLIVE_FAULT.
 *
 * If the process dies during the call, the object is still offered, or free once the process has
 * ended.
 */
int outlive_pool_claim(const struct outlive_pool_t *pool, uint64_t offset, void **data, size_t *size);

/**
 * Turns memory into an object that several processes hold, each by name; no process may write to
 * it from then on.
 *
 * Owner: `data` is consumed; after EINVAL, EPERM and EXDEV it is as before. `*shared` is the
 * caller's, until `outlive_shared_release`.
 *
 * Errors: as `outlive_pool_free`, and ENOSPC.
 *
 * If a holder dies, its name is removed; the last holder's death frees the object.
 */
int outlive_pool_share(const struct outlive_pool_t *pool, void *data, struct outlive_shared_t **shared);

/**
 * Makes this process a holder of a shared object.
 *
 * Owner: `*shared` is the caller's, until `outlive_shared_release`.
 *
 * Errors: ESTALE: it is gone. EUSERS: 62 processes hold it. EINVAL.
 */
int outlive_pool_join(const struct outlive_pool_t *pool, uint64_t offset, struct outlive_shared_t **shared);

/**
 * Returns a shared object's bytes, for reading. NULL for NULL. Owner: `shared`.
 */
const void *outlive_shared_data(const struct outlive_shared_t *shared);

/**
 * Returns how many bytes a shared object has. 0 for NULL.
 */
size_t outlive_shared_size(const struct outlive_shared_t *shared);

/**
 * Returns the offset by which other processes join: valid as long as any process holds the object.
 * 0 for NULL.
 */
uint64_t outlive_shared_offset(const struct outlive_shared_t *shared);

/**
 * Releases a shared object; the last holder frees it. Passing NULL has no effect.
 */
void outlive_shared_release(struct outlive_shared_t *shared);

/**
 * Makes an empty set, for sources of that domain.
 *
 * Owner: `*set` is the caller's, until `outlive_wait_set_close`.
 *
 * Errors: EINVAL.
 *
 * If a process dies whose end a set waits for, all such sets report it; what a dead sender had
 * sent is still reported.
 */
int outlive_wait_set_open(const struct outlive_domain_t *domain, struct outlive_wait_set_t **set);

/**
 * Closes a set, and its descriptor. Passing NULL has no effect.
 */
void outlive_wait_set_close(struct outlive_wait_set_t *set);

/**
 * Removes a source from the set. The handle that it was made from may be closed before or after.
 *
 * Errors: EINVAL: the set does not have it.
 */
int outlive_wait_set_remove(struct outlive_wait_set_t *set, uint64_t key);

/**
 * Waits until a source is ready, or until the deadline, and writes all that are ready then to
 * `ready`, as many as fit; `*count` is how many were written. A source is reported as long as it
 * is ready, so those that did not fit are reported the next time.
 *
 * Errors: ETIMEDOUT; EAGAIN with OUTLIVE_TRY: no source is ready. EINVAL, EUSERS, and errors of
 * the system.
 *
 * If a process dies that waits in a set, that has no effect on others.
 */
int outlive_wait_set_wait(struct outlive_wait_set_t *set,
                          struct outlive_ready_t *ready,
                          size_t capacity,
                          size_t *count,
                          outlive_deadline_t deadline);

/**
 * Returns a descriptor that is readable when a source is ready, for `epoll` and `poll`; it stays
 * readable until `outlive_wait_set_wait` with OUTLIVE_TRY has found nothing.
 *
 * Owner: the set; do not read from it, and do not close it.
 *
 * Errors: EINVAL, EUSERS, EMFILE, and errors of the system.
 */
int outlive_wait_set_fd(struct outlive_wait_set_t *set, int *fd);

/**
 * Adds a queue's receiver: OUTLIVE_READABLE when a receive is worth a try, OUTLIVE_ENDED when a
 * receive would return EPIPE because the senders are gone. Call what is ready with OUTLIVE_TRY.
 *
 * Errors: EXDEV: the source is of another domain. EINVAL.
 */
int outlive_wait_set_add_receiver(struct outlive_wait_set_t *set,
                                  const struct outlive_receiver_t *receiver,
                                  uint64_t *key);

/**
 * Adds a job queue: OUTLIVE_READABLE when there is a job to be taken, a dead worker's included.
 *
 * Errors: EXDEV, EINVAL.
 */
int outlive_wait_set_add_job_queue(struct outlive_wait_set_t *set,
                                   const struct outlive_job_queue_t *queue,
                                   uint64_t *key);

/**
 * Adds a listener: OUTLIVE_READABLE. Once in a while `outlive_listener_wait` with OUTLIVE_TRY finds
 * nothing then.
 *
 * Errors: EXDEV, EINVAL.
 */
int outlive_wait_set_add_listener(struct outlive_wait_set_t *set,
                                  const struct outlive_listener_t *listener,
                                  uint64_t *key);

/**
 * Adds a topic's subscriber: OUTLIVE_READABLE; OUTLIVE_MISSED when none has come for its period,
 * until a receive has returned ETIME; OUTLIVE_CHANGED when there is something to tell of a
 * publisher's liveliness, until a receive has returned it.
 *
 * Errors: EXDEV, EINVAL.
 */
int outlive_wait_set_add_subscriber(struct outlive_wait_set_t *set,
                                    const struct outlive_subscriber_t *subscriber,
                                    uint64_t *key);

/**
 * Adds bits of an event: OUTLIVE_SET as long as any of them is set, or all of them with `all` not
 * 0. The set clears none.
 *
 * Errors: EXDEV, EINVAL.
 */
int outlive_wait_set_add_event(struct outlive_wait_set_t *set,
                               const struct outlive_event_t *event,
                               uint32_t bits,
                               uint32_t all,
                               uint64_t *key);

/**
 * Adds a latch: OUTLIVE_SET once it is open.
 *
 * Errors: EXDEV, EINVAL.
 */
int outlive_wait_set_add_latch(struct outlive_wait_set_t *set, const struct outlive_latch_t *latch, uint64_t *key);

/**
 * Adds a token's owner: OUTLIVE_ENDED when it has ended.
 *
 * Errors: EXDEV, EINVAL.
 */
int outlive_wait_set_add_peer(struct outlive_wait_set_t *set,
                              const struct outlive_domain_t *domain,
                              uint32_t token,
                              uint64_t *key);

/**
 * Adds a service's server: OUTLIVE_READABLE when a request is worth a try.
 *
 * Errors: EXDEV, EINVAL.
 */
int outlive_wait_set_add_server(struct outlive_wait_set_t *set, const struct outlive_server_t *server, uint64_t *key);

/**
 * Adds a call: OUTLIVE_READABLE when a reply, or its end, is there; OUTLIVE_ENDED when there is no
 * server any more.
 *
 * Errors: EXDEV, EINVAL.
 */
int outlive_wait_set_add_call(struct outlive_wait_set_t *set, const struct outlive_call_t *call, uint64_t *key);

/**
 * Adds a request that the server has: OUTLIVE_ENDED when its client wants no reply any more, or is
 * dead. Once it is answered, it is not ready again.
 *
 * Errors: EXDEV, EINVAL.
 */
int outlive_wait_set_add_request(struct outlive_wait_set_t *set,
                                 const struct outlive_request_t *request,
                                 uint64_t *key);

/**
 * Adds a stream of replies that the server sends: OUTLIVE_ENDED when its client wants no further
 * reply, or is dead. Once it has ended, it is not ready again.
 *
 * Errors: EXDEV, EINVAL.
 */
int outlive_wait_set_add_stream(struct outlive_wait_set_t *set, const struct outlive_stream_t *stream, uint64_t *key);

/**
 * Adds the parts of a request that the server has: OUTLIVE_READABLE when
 * `outlive_request_next_part` has a part, or says that there are no more; OUTLIVE_ENDED when no client
 * waits for a reply any more. Once it is answered, it is not ready again.
 *
 * Errors: EXDEV, EINVAL.
 */
int outlive_wait_set_add_parts(struct outlive_wait_set_t *set, const struct outlive_request_t *request, uint64_t *key);

/**
 * Adds the parts of the request to which a stream replies, as `outlive_wait_set_add_parts`, for
 * `outlive_stream_next_part`.
 *
 * Errors: EXDEV, EINVAL.
 */
int outlive_wait_set_add_stream_parts(struct outlive_wait_set_t *set,
                                      const struct outlive_stream_t *stream,
                                      uint64_t *key);

/**
 * Adds the replies to a request whose parts are sent, as `outlive_wait_set_add_call`, for
 * `outlive_request_stream_next`; also the replies that come after `outlive_request_stream_finish`.
 *
 * Errors: EXDEV, EINVAL.
 */
int outlive_wait_set_add_request_stream(struct outlive_wait_set_t *set,
                                        const struct outlive_request_stream_t *stream,
                                        uint64_t *key);

/**
 * Adds a watch of a domain: OUTLIVE_CHANGED when the domain's contents differ from those of its
 * last `outlive_domain_watch_changed`, until the next one.
 *
 * Errors: EXDEV, EINVAL.
 */
int outlive_wait_set_add_domain_watch(struct outlive_wait_set_t *set,
                                      const struct outlive_domain_watch_t *watch,
                                      uint64_t *key);

/**
 * Adds a watch of a service's clients: OUTLIVE_CHANGED when something has become of one, until
 * `outlive_client_watch_next` has told it.
 *
 * Errors: EXDEV, EINVAL.
 */
int outlive_wait_set_add_client_watch(struct outlive_wait_set_t *set,
                                      const struct outlive_client_watch_t *watch,
                                      uint64_t *key);

/**
 * Adds a timer: OUTLIVE_ELAPSED from that point in time on, until `outlive_wait_set_take_timer`.
 *
 * Errors: EINVAL.
 */
int outlive_wait_set_add_timer(struct outlive_wait_set_t *set, outlive_deadline_t at, uint64_t *key);

/**
 * Adds a timer that elapses every so many nanoseconds, for the first time that long from now.
 *
 * Errors: EINVAL.
 */
int outlive_wait_set_add_timer_every(struct outlive_wait_set_t *set, uint64_t nanoseconds, uint64_t *key);

/**
 * Returns in `*elapsed` how often a timer has elapsed since the last call. From then on it is not
 * ready until it elapses again.
 *
 * Errors: EINVAL: the key is no timer of this set.
 */
int outlive_wait_set_take_timer(struct outlive_wait_set_t *set, uint64_t key, uint64_t *elapsed);

/**
 * Adds a publisher: OUTLIVE_WRITABLE when no living reliable subscriber is in the way;
 * `outlive_wait_set_slowest` says which one is.
 *
 * Errors: EXDEV, EINVAL.
 */
int outlive_wait_set_add_publisher(struct outlive_wait_set_t *set,
                                   const struct outlive_publisher_t *publisher,
                                   uint64_t *key);

/**
 * Writes which reliable subscriber is furthest behind a publisher of the set, as
 * `outlive_publisher_slowest`: for which process the set waits. The publisher may be another
 * thread's, and waiting.
 *
 * Errors: ESRCH: there is no such subscriber, or the publisher has ended. EINVAL: the key is no
 * publisher of this set.
 */
int outlive_wait_set_slowest(struct outlive_wait_set_t *set, uint64_t key, struct outlive_laggard_t *laggard);

/**
 * Adds the period of a publisher: OUTLIVE_MISSED when it has published nothing for its period, until
 * it does or `outlive_wait_set_take_missed` is called; never without a period. The set may be
 * another thread's, which so learns that the publisher's thread hangs.
 *
 * Errors: EINVAL.
 */
int outlive_wait_set_add_due(struct outlive_wait_set_t *set,
                             const struct outlive_publisher_t *publisher,
                             uint64_t *key);

/**
 * Returns in `*periods` how many periods have passed without a message since the publisher's last
 * message, or the last call. From then on it is not ready before the end of the next.
 *
 * Errors: EINVAL: the key is no publisher's period of this set.
 */
int outlive_wait_set_take_missed(struct outlive_wait_set_t *set, uint64_t key, uint64_t *periods);

/**
 * Adds a state: OUTLIVE_CHANGED for a value, the present one first; OUTLIVE_ENDED for a writer's
 * death; each until `outlive_wait_set_take_state`.
 *
 * Errors: EXDEV, EINVAL.
 */
int outlive_wait_set_add_state(struct outlive_wait_set_t *set, const struct outlive_state_t *state, uint64_t *key);

/**
 * Takes a state's news: `*version` is that of the present value. From then on it is not ready
 * until the next change.
 *
 * Errors: EPIPE: its writer died. EAGAIN: there is no news. EINVAL: the key is no state of this
 * set.
 */
int outlive_wait_set_take_state(struct outlive_wait_set_t *set, uint64_t key, uint64_t *version);

/**
 * Adds a topic: OUTLIVE_CHANGED when its publishers or subscribers differ from the last report,
 * until `outlive_wait_set_take_topic`.
 *
 * Errors: EXDEV, EINVAL.
 */
int outlive_wait_set_add_topic(struct outlive_wait_set_t *set, const struct outlive_topic_t *topic, uint64_t *key);

/**
 * Takes a topic's news: `*publishers` and `*subscribers` are how many there are now. From then on
 * it is not ready until the next change.
 *
 * Errors: EAGAIN: there is no change. EINVAL: the key is no topic of this set.
 */
int outlive_wait_set_take_topic(struct outlive_wait_set_t *set,
                                uint64_t key,
                                uint32_t *publishers,
                                uint32_t *subscribers);

/**
 * Adds a queue of which this process stands by to be the receiver: OUTLIVE_ENDED while no living
 * process receives. Then `outlive_queue_receiver` with OUTLIVE_TRY makes the receiver, unless another
 * process was faster (EBUSY): the source is not ready any more then.
 *
 * Errors: EXDEV, EINVAL.
 *
 * If the process that receives dies, the source is ready once its last thread has ended.
 */
int outlive_wait_set_add_queue_stand_by(struct outlive_wait_set_t *set,
                                        const struct outlive_queue_t *queue,
                                        uint64_t *key);

/**
 * Adds a state of which this process stands by to be the writer: OUTLIVE_ENDED while no living
 * process writes. Then `outlive_state_writer` with OUTLIVE_TRY makes the writer, unless another
 * process was faster (EBUSY).
 *
 * Errors: EXDEV, EINVAL.
 *
 * If the process that writes dies, the source is ready once its last thread has ended.
 */
int outlive_wait_set_add_state_stand_by(struct outlive_wait_set_t *set,
                                        const struct outlive_state_t *state,
                                        uint64_t *key);

/**
 * Adds a service of which this process stands by to be a server: OUTLIVE_ENDED while no living
 * process serves, or, of a service for several servers, while there is room for one. Then
 * `outlive_server_open` makes the server, unless another process was faster (EBUSY). The service is
 * opened, or made, as `outlive_server_open` does with the same arguments; `serve_by` of the options
 * has no effect.
 *
 * Errors: see `outlive_opening_t`; EXDEV.
 *
 * If a server dies, the source is ready once its last thread has ended.
 */
int outlive_wait_set_add_service_stand_by(struct outlive_wait_set_t *set,
                                          const struct outlive_domain_t *domain,
                                          const char *name,
                                          enum outlive_opening_t how,
                                          const struct outlive_service_options_t *options,
                                          uint64_t *key);

/**
 * Opens the mutex of that name, or makes it, with `size` bytes of value behind it: as
 * `outlive_mutex_open`.
 *
 * Owner: `*mutex` is in shared memory, mapped until `outlive_pi_mutex_close`.
 *
 * Errors: see `outlive_opening_t`; OUTLIVE_OTHER_TYPE: it exists with another size. Locking, not
 * opening, returns OUTLIVE_OTHER_PLACE.
 */
int outlive_pi_mutex_open(const struct outlive_domain_t *domain,
                          const char *name,
                          enum outlive_opening_t how,
                          size_t size,
                          const void *initial,
                          struct outlive_pi_mutex_t **mutex);

/**
 * Returns the value behind a named mutex. NULL: it has none, or is inside a record.
 *
 * Owner: shared memory, mapped until `outlive_pi_mutex_close`.
 */
void *outlive_pi_mutex_value(const struct outlive_pi_mutex_t *mutex);

/**
 * Closes this opening of a named mutex. No thread of this process may hold it or wait for it by
 * this address. Passing NULL has no effect.
 */
void outlive_pi_mutex_close(struct outlive_pi_mutex_t *mutex);

/**
 * Takes the lock, waiting until the deadline while a living owner holds it; the owner inherits the
 * caller's priority meanwhile.
 *
 * Errors: as `outlive_mutex_lock_until`, and OUTLIVE_OTHER_PLACE: it belongs to another pid
 * namespace or C library.
 *
 * If a process dies: as with `outlive_mutex_lock`; a lent priority is taken back.
 */
int outlive_pi_mutex_lock(struct outlive_pi_mutex_t *mutex, outlive_deadline_t deadline);

/**
 * Unlocks the mutex.
 *
 * Errors: EPERM: this thread does not hold it. EINVAL.
 */
int outlive_pi_mutex_unlock(struct outlive_pi_mutex_t *mutex);

/**
 * Declares after EOWNERDEAD that what the lock guards is whole again. The caller holds the lock.
 *
 * Errors: EPERM: this thread does not hold it. EINVAL.
 */
int outlive_pi_mutex_consistent(struct outlive_pi_mutex_t *mutex);

/**
 * Unlocks the mutex as `outlive_mutex_mark_not_recoverable` does; `outlive_pi_mutex_reset` makes
 * it usable again.
 *
 * Errors: EPERM: this thread does not hold it. EINVAL.
 */
int outlive_pi_mutex_mark_not_recoverable(struct outlive_pi_mutex_t *mutex);

/**
 * Returns whether the calling thread holds it, its last owner died with it, and no holder has
 * declared it consistent since: the same as EOWNERDEAD, for code that does not see the return
 * code. False for what is no such lock.
 */
bool outlive_pi_mutex_owner_died(const struct outlive_pi_mutex_t *mutex);

/**
 * Makes a mutex usable again that was marked not recoverable (ENOTRECOVERABLE). Its users have
 * agreed on making what it guards whole before.
 *
 * Errors: as `outlive_pi_mutex_lock`, except EOWNERDEAD and ENOTRECOVERABLE.
 */
int outlive_pi_mutex_reset(struct outlive_pi_mutex_t *mutex, outlive_deadline_t deadline);

/**
 * Writes the thread that holds it now, dead or alive, to `*info`.
 *
 * Errors: ESRCH: no thread holds it. EINVAL.
 */
int outlive_pi_mutex_holder(const struct outlive_pi_mutex_t *mutex, struct outlive_peer_info_t *info);

/**
 * Opens the mutex of that name, or makes it with that ceiling, and with `size` bytes of value
 * behind it, as `outlive_mutex_open`. `ceiling` 0, with OUTLIVE_OPEN: the ceiling that it has. It
 * is the same as Rust's `CeilingMutex<T>` with a T of as many bytes.
 *
 * Owner: `*mutex` is in shared memory, mapped until `outlive_ceiling_mutex_close`.
 *
 * Errors: see `outlive_opening_t`; EINVAL also when `ceiling` is not 1 to 99. OUTLIVE_OTHER_TYPE:
 * it exists with another size.
 */
int outlive_ceiling_mutex_open(const struct outlive_domain_t *domain,
                               const char *name,
                               enum outlive_opening_t how,
                               uint32_t ceiling,
                               size_t size,
                               const void *initial,
                               struct outlive_ceiling_mutex_t **mutex);

/**
 * Returns the value behind a named mutex. NULL: it has none, or is inside a record.
 *
 * Owner: shared memory, mapped until `outlive_ceiling_mutex_close`.
 */
void *outlive_ceiling_mutex_value(const struct outlive_ceiling_mutex_t *mutex);

/**
 * Closes this opening of a named mutex. Locks that threads hold by it stay theirs until they end;
 * no thread of this process may wait for it by this address. Passing NULL, or what is not an
 * opened named mutex, has no effect.
 */
void outlive_ceiling_mutex_close(struct outlive_ceiling_mutex_t *mutex);

/**
 * Takes the lock, waiting until the deadline while a living owner holds it; the waiter already
 * runs at the ceiling.
 *
 * Errors: as `outlive_mutex_lock_until`; EINVAL: the thread's own priority is higher than the
 * ceiling. EPERM: the thread may not run at the ceiling.
 *
 * If a process dies: as `outlive_mutex_lock`.
 */
int outlive_ceiling_mutex_lock(struct outlive_ceiling_mutex_t *mutex, outlive_deadline_t deadline);

/**
 * Unlocks the mutex, and then lowers the thread's priority.
 *
 * Errors: EPERM: this thread does not hold it. EINVAL.
 */
int outlive_ceiling_mutex_unlock(struct outlive_ceiling_mutex_t *mutex);

/**
 * Declares after EOWNERDEAD that what the lock guards is whole again. The caller holds the lock.
 *
 * Errors: EPERM: this thread does not hold it. EINVAL.
 */
int outlive_ceiling_mutex_consistent(struct outlive_ceiling_mutex_t *mutex);

/**
 * Unlocks the mutex as `outlive_mutex_mark_not_recoverable` does, then lowers the thread's
 * priority; `outlive_ceiling_mutex_reset` makes it usable again.
 *
 * Errors: EPERM: this thread does not hold it. EINVAL.
 */
int outlive_ceiling_mutex_mark_not_recoverable(struct outlive_ceiling_mutex_t *mutex);

/**
 * Returns whether EOWNERDEAD was reported and not repaired, as `outlive_mutex_owner_died`.
 */
bool outlive_ceiling_mutex_owner_died(const struct outlive_ceiling_mutex_t *mutex);

/**
 * Makes a mutex usable again that was marked not recoverable (ENOTRECOVERABLE). Its users have
 * agreed on making what it guards whole before.
 *
 * Errors: as `outlive_ceiling_mutex_lock`, except EOWNERDEAD and ENOTRECOVERABLE.
 */
int outlive_ceiling_mutex_reset(struct outlive_ceiling_mutex_t *mutex, outlive_deadline_t deadline);

/**
 * Writes the thread that holds it now, dead or alive, to `*info`.
 *
 * Errors: ESRCH: no thread holds it. EINVAL.
 */
int outlive_ceiling_mutex_holder(const struct outlive_ceiling_mutex_t *mutex, struct outlive_peer_info_t *info);

/**
 * Opens the mutex of that name, or makes it, with `size` bytes of value behind it: as
 * `outlive_mutex_open`.
 *
 * Owner: `*mutex` is in shared memory, mapped until `outlive_reentrant_mutex_close`.
 *
 * Errors: see `outlive_opening_t`; OUTLIVE_OTHER_TYPE: it exists with another size.
 */
int outlive_reentrant_mutex_open(const struct outlive_domain_t *domain,
                                 const char *name,
                                 enum outlive_opening_t how,
                                 size_t size,
                                 const void *initial,
                                 struct outlive_reentrant_mutex_t **mutex);

/**
 * Returns the value behind a named mutex. NULL: it has none, or is inside a record.
 *
 * Owner: shared memory, mapped until `outlive_reentrant_mutex_close`.
 */
void *outlive_reentrant_mutex_value(const struct outlive_reentrant_mutex_t *mutex);

/**
 * Closes this opening of a named mutex. No thread of this process may hold it or wait for it by
 * this address. Passing NULL has no effect.
 */
void outlive_reentrant_mutex_close(struct outlive_reentrant_mutex_t *mutex);

/**
 * Takes the lock, waiting until the deadline while another living thread holds it. The thread that
 * holds it takes it once more, and is not told again that an owner died.
 *
 * Errors: as `outlive_mutex_lock_until`, except EDEADLK; EUSERS: the thread has locked it
 * 4,294,967,295 times.
 *
 * If a process dies: as with `outlive_mutex_lock`, however often it had locked it; the next locker
 * has locked it once.
 */
int outlive_reentrant_mutex_lock(struct outlive_reentrant_mutex_t *mutex, outlive_deadline_t deadline);

/**
 * Undoes one `outlive_reentrant_mutex_lock` of this thread by this address; the last one unlocks the
 * mutex.
 *
 * Errors: EPERM: this thread does not hold it. EINVAL.
 */
int outlive_reentrant_mutex_unlock(struct outlive_reentrant_mutex_t *mutex);

/**
 * Declares after EOWNERDEAD that what the lock guards is whole again. The caller holds the lock. It
 * has no effect once this thread has called `outlive_reentrant_mutex_mark_not_recoverable`.
 *
 * Errors: EPERM: this thread does not hold it. EINVAL.
 */
int outlive_reentrant_mutex_consistent(struct outlive_reentrant_mutex_t *mutex);

/**
 * Marks the mutex not recoverable as `outlive_mutex_mark_not_recoverable` does, and undoes one
 * `outlive_reentrant_mutex_lock`; only `outlive_reentrant_mutex_reset` makes it usable again.
 *
 * Errors: EPERM: this thread does not hold it. EINVAL.
 */
int outlive_reentrant_mutex_mark_not_recoverable(struct outlive_reentrant_mutex_t *mutex);

/**
 * Returns whether the calling thread holds it, its last owner died with it, and no holder has
 * declared it consistent since: the same as EOWNERDEAD, for code that does not see the return
 * code. False for what is no such lock.
 */
bool outlive_reentrant_mutex_owner_died(const struct outlive_reentrant_mutex_t *mutex);

/**
 * Makes a mutex usable again that was marked not recoverable (ENOTRECOVERABLE). Its users have
 * agreed on making what it guards whole before.
 *
 * Errors: as `outlive_reentrant_mutex_lock`, except EOWNERDEAD and ENOTRECOVERABLE. EDEADLK: this
 * thread holds it.
 */
int outlive_reentrant_mutex_reset(struct outlive_reentrant_mutex_t *mutex, outlive_deadline_t deadline);

/**
 * Writes the thread that holds it now, dead or alive, to `*info`.
 *
 * Errors: ESRCH: no thread holds it. EINVAL.
 */
int outlive_reentrant_mutex_holder(const struct outlive_reentrant_mutex_t *mutex, struct outlive_peer_info_t *info);

/**
 * Sets how this process waits for this mutex: one of the OUTLIVE_WAIT numbers.
 *
 * Errors: EINVAL.
 */
int outlive_reentrant_mutex_set_wait(struct outlive_reentrant_mutex_t *mutex, uint32_t how);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* OUTLIVE_H */

/* ThreadSanitizer is told what the calls put in order. */
#if defined(__SANITIZE_THREAD__)
#include "outlive_tsan.h"
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#include "outlive_tsan.h"
#endif
#endif
