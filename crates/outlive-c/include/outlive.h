/* Outlive: shared-memory communication for processes that may die at any instruction. The C interface, ABI version 2.
 *
 * Written by cbindgen from the sources, which have the same comments: edit those. doc/c-abi.md has the rules in full:
 *
 * - Functions return 0, or a positive number: errno's where there is one (EOWNERDEAD, ETIMEDOUT, EPIPE, ...), else one of the
 *   OUTLIVE_ codes. outlive_last_error() has the thread's last message. Nothing is ever thrown.
 * - `X_open` gives a handle, `X_close` takes it; NULL to a close is nothing. A result's place is NULL (handles) or as it was
 *   (everything else) when a call fails. NULL where something is needed is EINVAL.
 * - What waits takes a moment: outlive_after_ms(n), OUTLIVE_NEVER, OUTLIVE_TRY. It also ends when what it waits for can never come
 *   because a peer died.
 * - Mutexes, condition variables, rwlocks, events, latches, onces, semaphores and barriers are bytes in shared memory, used by
 *   their address, as with pthreads: named ones, or inside a record, a struct of your own. A lock belongs to the thread that took
 *   it.
 * - A forked child has nothing of its parent's but what is in shared memory: it opens its own ends, and holds none of its
 *   parent's locks.
 * - From version to version things are only added: options structs begin with their size (use the INIT macros), others never
 *   change.
 */

#ifndef OUTLIVE_H
#define OUTLIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OUTLIVE_ALIGNED(n) __attribute__((aligned(n)))

/** A primitive's place in a record: OUTLIVE_PLACE(struct line, lock, OUTLIVE_MUTEX). */
#define OUTLIVE_PLACE(type, member, kind) { offsetof(type, member), (kind), 0 }

/** In a struct: a semaphore with room for so many permits, a barrier for so many participants: OUTLIVE_SEMAPHORE_OF(3) slots; is
 * used as &line->slots.semaphore. */
#define OUTLIVE_SEMAPHORE_OF(permit_count) struct { outlive_semaphore_t semaphore; uint32_t permits[permit_count]; }
#define OUTLIVE_BARRIER_OF(seat_count) struct { outlive_barrier_t barrier; uint32_t seats[seat_count]; }

/** Their places: OUTLIVE_SEMAPHORE_PLACE(struct line, slots). A mutex's, with its ceiling. */
#define OUTLIVE_SEMAPHORE_PLACE(type, member) \
    { offsetof(type, member), OUTLIVE_SEMAPHORE, (uint32_t)(sizeof(((type *)0)->member.permits) / sizeof(uint32_t)) }
#define OUTLIVE_BARRIER_PLACE(type, member) \
    { offsetof(type, member), OUTLIVE_BARRIER, (uint32_t)(sizeof(((type *)0)->member.seats) / sizeof(uint32_t)) }
#define OUTLIVE_CEILING_PLACE(type, member, ceiling) { offsetof(type, member), OUTLIVE_CEILING_MUTEX, (ceiling) }

#define OUTLIVE_DOMAIN_OPTIONS_INIT { sizeof(outlive_domain_options_t), NULL, NULL, 0, 0, 0, 0, 0, 0 }
#define OUTLIVE_QUEUE_OPTIONS_INIT { sizeof(outlive_queue_options_t), 0, 0, 0, 0, 0, 0, 0 }
#define OUTLIVE_TOPIC_OPTIONS_INIT { sizeof(outlive_topic_options_t), 0, 0, 0, 0, 0 }
#define OUTLIVE_SUBSCRIBER_OPTIONS_INIT { sizeof(outlive_subscriber_options_t), 0, 0, 0, 0, NULL, 0, 0 }
#define OUTLIVE_SERVICE_OPTIONS_INIT { sizeof(outlive_service_options_t), 0, 0, 0 }
#define OUTLIVE_POOL_OPTIONS_INIT { sizeof(outlive_pool_options_t), 0, 0, NULL, 0, 0 }

/**
 * Shared bytes make no sense: a stray write, or somebody hostile.
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
 * A participant's death broke the barrier.
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
 * The CUDA driver refused: the message has its function, its words and its number.
 */
#define OUTLIVE_DRIVER 10010

/**
 * A defect of Outlive itself: report it. The program may go on; what it had in hand may be lost.
 */
#define OUTLIVE_PANIC 10009

/**
 * The version of the ABI that this header describes.
 */
#define OUTLIVE_ABI_VERSION 2

/**
 * Spin as long as that has lately been paying, then sleep. The default.
 */
#define OUTLIVE_WAIT_ADAPTIVE 0

/**
 * Sleep at once: no processor time is spent on waiting.
 */
#define OUTLIVE_WAIT_BLOCK 1

/**
 * Spin long before sleeping: lowest latency, at the price of a busy processor.
 */
#define OUTLIVE_WAIT_SPIN 2

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
 * In an `outlive_place_t`: an `outlive_semaphore_t` with permits behind it: `OUTLIVE_SEMAPHORE_PLACE`. Since ABI 2.
 */
#define OUTLIVE_SEMAPHORE 10

/**
 * In an `outlive_place_t`: an `outlive_barrier_t` with seats behind it: `OUTLIVE_BARRIER_PLACE`. Since ABI 2.
 */
#define OUTLIVE_BARRIER 11

/**
 * In an `outlive_place_t`: an `outlive_ceiling_mutex_t`: `OUTLIVE_CEILING_PLACE`. Since ABI 2.
 */
#define OUTLIVE_CEILING_MUTEX 13

/**
 * Bits stay set until they are cleared.
 */
#define OUTLIVE_RESET_MANUAL 0

/**
 * A waiter takes the bits that it waited for.
 */
#define OUTLIVE_RESET_AUTOMATIC 1

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
 * There is another value; others publish or subscribe.
 */
#define OUTLIVE_CHANGED 5

/**
 * A publish is worth a try.
 */
#define OUTLIVE_WRITABLE 6

/**
 * A call that is under way.
 */
typedef struct outlive_call_t outlive_call_t;

/**
 * The end that asks. It and its calls are used by one thread at a time.
 */
typedef struct outlive_client_t outlive_client_t;

/**
 * A domain: a folder on a memory file system, in which processes meet; every named thing is a file in it. Nothing has to be
 * started or set up. May be used by all threads at once.
 */
typedef struct outlive_domain_t outlive_domain_t;

/**
 * Memory that a publisher has lent for a message, to be written in place.
 */
typedef struct outlive_loan_t outlive_loan_t;

/**
 * A pool, open in this process: memory from 0 bytes to 1 GiB. May be used by all threads at once.
 */
typedef struct outlive_pool_t outlive_pool_t;

/**
 * The end that messages go into. It and its loans are used by one thread at a time.
 */
typedef struct outlive_publisher_t outlive_publisher_t;

/**
 * A queue, open in this process: where its ends are made. May be used by all threads at once.
 */
typedef struct outlive_queue_t outlive_queue_t;

/**
 * The end that messages come out of: one at a time, of all processes. Used by one thread at a time.
 */
typedef struct outlive_receiver_t outlive_receiver_t;

/**
 * A reply. May be used by all threads at once.
 */
typedef struct outlive_reply_t outlive_reply_t;

/**
 * A request that waits for its reply. May move to another thread, which replies.
 */
typedef struct outlive_request_t outlive_request_t;

/**
 * A message that was taken: it stays as it is until it is released, whatever its publisher does. May be used by all threads
 * at once, and longer than its subscriber.
 */
typedef struct outlive_sample_t outlive_sample_t;

/**
 * The end that messages go into. Used by one thread at a time.
 */
typedef struct outlive_sender_t outlive_sender_t;

/**
 * The end that answers: one at a time, of all processes. Used by one thread at a time.
 */
typedef struct outlive_server_t outlive_server_t;

/**
 * An object that several processes hold, each by name. May be used by all threads at once.
 */
typedef struct outlive_shared_t outlive_shared_t;

/**
 * The latest value under a name: one writer, any number of readers, nobody waits for anybody. May be used by all threads at
 * once.
 */
typedef struct outlive_state_t outlive_state_t;

/**
 * The one who sets the values. Used by one thread at a time.
 */
typedef struct outlive_state_writer_t outlive_state_writer_t;

/**
 * Several replies to one request.
 */
typedef struct outlive_stream_t outlive_stream_t;

/**
 * The end that messages come out of: each subscriber gets all of them. Used by one thread at a time.
 */
typedef struct outlive_subscriber_t outlive_subscriber_t;

/**
 * A topic, open in this process: where publishers and subscribers are made. May be used by all threads at once.
 */
typedef struct outlive_topic_t outlive_topic_t;

/**
 * A set of things to wait for, of one domain. Used by one thread at a time.
 */
typedef struct outlive_wait_set_t outlive_wait_set_t;

/**
 * Until when a call may wait: a moment, so that waiting again does not make it longer.
 *
 * A number of nanoseconds of `CLOCK_MONOTONIC`, as `outlive_after_ms` makes it; or of the time of day, with the highest bit
 * set, as `outlive_at_time_of_day` makes it; or `OUTLIVE_NEVER`, or `OUTLIVE_TRY`.
 */
typedef uint64_t outlive_deadline_t;

/**
 * How to open a domain: `outlive_domain_open_with`. Begin with `OUTLIVE_DOMAIN_OPTIONS_INIT`.
 */
typedef struct outlive_domain_options_t {
  /**
   * `sizeof(outlive_domain_options_t)`.
   */
  size_t size;
  /**
   * A folder, made when missing; its parent must exist. NULL: by `name`.
   */
  const char *path;
  /**
   * A domain of the user's own, `/dev/shm/outlive-UID/NAME`. NULL: what `OUTLIVE_DOMAIN` names, else `default`.
   */
  const char *name;
  /**
   * Not 0: the folder must be there already.
   */
  uint32_t must_exist;
  /**
   * Not 0: share the domain with the group `group` (0770, 0660).
   */
  uint32_t has_group;
  /**
   * The group's number.
   */
  uint32_t group;
  /**
   * How many milliseconds a sleeper sleeps at most before it looks by itself. 0: as by default (1 s); UINT32_MAX: never.
   */
  uint32_t recheck_ms;
  /**
   * 1: record in which order locks are taken, and tell when that can deadlock one day; 2: do not, whatever
   * `OUTLIVE_LOCK_ORDER` says.
   */
  uint32_t lock_order;
  /**
   * 0.
   */
  uint32_t reserved;
} outlive_domain_options_t;

/**
 * What is known about a token's owner. Of a fixed size for ever.
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
   * 1: it lives.
   */
  uint8_t alive;
  /**
   * 1: the token stands for the whole process.
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
 * Where in a record a primitive lies, and which: `OUTLIVE_PLACE(type, member, OUTLIVE_MUTEX)`.
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
   * How many permits a semaphore has room for, how many seats a barrier, how high a mutex's ceiling is; 0 of the others.
   */
  uint32_t number;
} outlive_place_t;

/**
 * Fills a new record in, zeroed before, which nobody else sees yet. Must return; may be called twice, for two files of which
 * one is thrown away. `argument` is the caller's.
 */
typedef void (*outlive_init_t)(void *data, void *argument);

/**
 * A mutex in shared memory: 8 bytes of a record, or a named one of its own. All zeroes are an unlocked one. It is used by its
 * address, like a `pthread_mutex_t`, and never copied.
 */
typedef struct outlive_mutex_t {
  uint64_t words[1];
} outlive_mutex_t;

/**
 * A condition variable in shared memory: 32 bytes of a record, or a named one. All zeroes are a fresh one.
 */
typedef struct outlive_condvar_t {
  uint64_t words[4];
} outlive_condvar_t;

/**
 * A reader-writer lock in shared memory: 4,160 bytes of a record (readers have cache lines of their own), or a named one. All
 * zeroes are an unlocked one. It is used by its address, like a `pthread_rwlock_t`, and never copied.
 */
typedef struct OUTLIVE_ALIGNED(64) outlive_rwlock_t {
  uint64_t words[520];
} outlive_rwlock_t;

/**
 * Thirty-two bits to wait for, in shared memory: 32 bytes of a record, or a named one. All zeroes are a fresh one, with bits
 * that stay until they are cleared.
 */
typedef struct outlive_event_t {
  uint64_t words[4];
} outlive_event_t;

/**
 * A number of arrivals to wait for, in shared memory: 32 bytes of a record, or a named one. All zeroes are an open one.
 */
typedef struct outlive_latch_t {
  uint64_t words[4];
} outlive_latch_t;

/**
 * What has been done once, or not yet, in shared memory: 8 bytes of a record, or a named one. All zeroes: not yet.
 */
typedef struct outlive_once_t {
  uint64_t words[1];
} outlive_once_t;

/**
 * Does it. `previous_died`: 1 when somebody began before and died: half of it may be there. Must return.
 */
typedef void (*outlive_make_t)(void *argument, int previous_died);

/**
 * A semaphore in shared memory: so many permits, and whoever dies gives its own back. A named one, or the beginning of one in
 * a record, whose permits follow it: `OUTLIVE_SEMAPHORE_OF(3) slots;`, noted as a place by `OUTLIVE_SEMAPHORE_PLACE`, used as
 * `&line->slots.semaphore`. All zeroes are one whose permits are all free (`outlive_semaphore_init`). It is used by its
 * address, and never copied; permits belong to the thread that took them.
 */
typedef struct OUTLIVE_ALIGNED(64) outlive_semaphore_t {
  uint32_t words[16];
} outlive_semaphore_t;

/**
 * A barrier in shared memory, which knows its participants. A named one, or the beginning of one in a record, whose seats
 * follow it: `OUTLIVE_BARRIER_OF(4) step;`, noted as a place by `OUTLIVE_BARRIER_PLACE`, used as `&line->step.barrier`. All
 * zeroes are one without participants, which a death breaks (`outlive_barrier_init`). It is used by its address, and never
 * copied; seats belong to the thread that took them.
 */
typedef struct OUTLIVE_ALIGNED(64) outlive_barrier_t {
  uint32_t words[16];
} outlive_barrier_t;

/**
 * How to make a queue; one that is there keeps what it was made with. Begin with `OUTLIVE_QUEUE_OPTIONS_INIT`.
 */
typedef struct outlive_queue_options_t {
  /**
   * `sizeof(outlive_queue_options_t)`.
   */
  size_t size;
  /**
   * The most bytes that the queue may take, messages and all. Where memory of short messages is used for
   * long ones, the file may take up to 64 KiB more for each 2 MiB of it. 0: a quarter of the file system,
   * at most 6 GiB.
   */
  uint64_t max_bytes;
  /**
   * Slots to begin with. 0: 64.
   */
  uint32_t first_slots;
  /**
   * Bytes of a slot; a message of up to 24 bytes less is stored in the slot itself. 0: 128.
   */
  uint32_t slot_bytes;
  /**
   * Not 0: a send fails with ENOTCONN while there is no receiver, instead of keeping the message for one.
   */
  uint32_t need_receiver;
  /**
   * How this process's ends wait: one of the OUTLIVE_WAIT numbers.
   */
  uint32_t wait;
  /**
   * Not 0: the queue must be there already.
   */
  uint32_t must_exist;
  /**
   * 0.
   */
  uint32_t reserved;
} outlive_queue_options_t;

/**
 * What has happened to a queue. Exact when it is quiet. Of a fixed size for ever.
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
   * Messages that lie there.
   */
  uint64_t pending;
  /**
   * Messages whose sender died in the middle; they were never acknowledged.
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
   * Bytes of memory that the queue has taken.
   */
  uint64_t bytes;
  /**
   * The most it may take.
   */
  uint64_t max_bytes;
  /**
   * 0.
   */
  uint64_t reserved[7];
} outlive_queue_counters_t;

/**
 * Bytes of the caller's.
 */
typedef struct outlive_bytes_t {
  /**
   * Where. May be NULL when there are none.
   */
  const void *data;
  /**
   * How many.
   */
  size_t size;
} outlive_bytes_t;

/**
 * How to make a topic; one that is there keeps what it was made with. Begin with `OUTLIVE_TOPIC_OPTIONS_INIT`.
 */
typedef struct outlive_topic_options_t {
  /**
   * `sizeof(outlive_topic_options_t)`.
   */
  size_t size;
  /**
   * The most bytes that the topic may take, messages and all. Where memory of short messages is used for
   * long ones, the file may take up to 64 KiB more for each 2 MiB of it. 0: a quarter of the file system,
   * at most 4 GiB.
   */
  uint64_t max_bytes;
  /**
   * How many messages of each publisher are kept: as many may a subscriber be behind, and get as history. 0: 16.
   */
  uint32_t depth;
  /**
   * Not 0: publishers leave headers without a stamp as they are.
   */
  uint32_t no_stamps;
  /**
   * How this process's ends wait: one of the OUTLIVE_WAIT numbers.
   */
  uint32_t wait;
  /**
   * Not 0: the topic must be there already; its messages may be of any type, and are bytes here.
   */
  uint32_t must_exist;
} outlive_topic_options_t;

/**
 * How to subscribe. Begin with `OUTLIVE_SUBSCRIBER_OPTIONS_INIT`.
 */
typedef struct outlive_subscriber_options_t {
  /**
   * `sizeof(outlive_subscriber_options_t)`.
   */
  size_t size;
  /**
   * Not 0: publishers wait until this subscriber has taken a message before they overwrite it. Its death releases them.
   */
  uint32_t reliable;
  /**
   * How many messages of each publisher from before the joining to take, as far as they are there.
   */
  uint32_t history;
  /**
   * The most messages of each publisher to be behind; older ones are passed over, and counted as lost. 0: as many as the
   * topic keeps.
   */
  uint32_t keep_last;
  /**
   * 0.
   */
  uint32_t reserved;
  /**
   * Messages with these keys only; none: all messages. Copied.
   */
  const uint64_t *keys;
  /**
   * How many keys.
   */
  size_t key_count;
  /**
   * How often there ought to be a message, in nanoseconds: receiving fails with ETIME when none comes for so long. 0: not
   * said.
   */
  uint64_t period;
} outlive_subscriber_options_t;

/**
 * What goes with a message, as its publisher fills it in. Of a fixed size for ever.
 */
typedef struct outlive_header_t {
  /**
   * When: nanoseconds since 1970, or whatever the users of a topic agree on. 0: publishers fill in the time of day, unless the
   * topic has no stamps.
   */
  uint64_t stamp;
  /**
   * Which frame of reference, sensor or stream: the users' business.
   */
  uint64_t frame;
  /**
   * By which subscribers may choose.
   */
  uint64_t key;
  /**
   * The users' own.
   */
  uint8_t own[32];
} outlive_header_t;

/**
 * How to make a service; one that is there keeps what it was made with. Begin with `OUTLIVE_SERVICE_OPTIONS_INIT`.
 */
typedef struct outlive_service_options_t {
  /**
   * `sizeof(outlive_service_options_t)`.
   */
  size_t size;
  /**
   * The most bytes that requests and replies may take together, records and all, besides 24 KiB for each
   * client. Where memory of short ones is used for long ones, the file may take up to 64 KiB more for each
   * 2 MiB of it. 0: 1 GiB.
   */
  uint64_t max_bytes;
  /**
   * How this process's end waits: one of the OUTLIVE_WAIT numbers.
   */
  uint32_t wait;
  /**
   * For clients, not 0: calls that are not begun wait for a server, instead of failing with ENOTCONN or EPIPE.
   */
  uint32_t wait_for_server;
} outlive_service_options_t;

/**
 * How to open a pool; one that is there keeps the size it was made with. Begin with `OUTLIVE_POOL_OPTIONS_INIT`.
 */
typedef struct outlive_pool_options_t {
  /**
   * `sizeof(outlive_pool_options_t)`.
   */
  size_t size;
  /**
   * The most bytes of the file system that a new pool may take. The whole file counts: objects, the pool's
   * own words, and a record of 16 bytes for each object, which stays when memory of small objects is used
   * for larger ones. 0: a quarter of the file system, at most 8 GiB.
   */
  uint64_t max_bytes;
  /**
   * The most bytes that threads keep for themselves. 0: 16 MiB.
   */
  uint64_t cache_bytes;
  /**
   * Debug modes, as text: `tag,integrity`. NULL: none.
   */
  const char *modes;
  /**
   * Not 0: as huge pages.
   */
  uint32_t huge_pages;
  /**
   * 0.
   */
  uint32_t reserved;
} outlive_pool_options_t;

/**
 * How much of a pool is whose. Of a fixed size for ever. Since ABI 2.
 */
typedef struct outlive_pool_usage_t {
  /**
   * Objects that there are; the next six sum up to it.
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
   * Nobody's.
   */
  uint64_t free;
  /**
   * Handed over and not claimed yet.
   */
  uint64_t offered;
  /**
   * Held by several processes, or one that lets others join.
   */
  uint64_t shared;
  /**
   * In the hands of a thread that takes or frees just now, or died doing so.
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
   * Bytes of those that are handed over and not claimed yet.
   */
  uint64_t unclaimed_bytes;
  /**
   * Bytes of memory that the pool has taken.
   */
  uint64_t bytes;
  /**
   * The most that it may take.
   */
  uint64_t max_bytes;
  /**
   * Processes that have objects, the dead too.
   */
  uint64_t holders;
  /**
   * 0.
   */
  uint64_t reserved[3];
} outlive_pool_usage_t;

/**
 * Something that is ready.
 */
typedef struct outlive_ready_t {
  /**
   * Which: as adding it said.
   */
  uint64_t key;
  /**
   * What about it: one of the numbers above.
   */
  uint32_t what;
  /**
   * 0.
   */
  uint32_t reserved;
} outlive_ready_t;

/**
 * A mutex in shared memory whose holder inherits the priority of who waits for it, for real-time threads: 64 bytes of a
 * record, or a named one. All zeroes are an unlocked one. It belongs to the pid namespace and the C library that first used it.
 */
typedef struct OUTLIVE_ALIGNED(64) outlive_pi_mutex_t {
  uint64_t words[8];
} outlive_pi_mutex_t;

/**
 * A mutex in shared memory whose holders run at its ceiling, a real-time priority of 1 to 99: 16 bytes of a record, with its
 * ceiling in its place (`OUTLIVE_CEILING_PLACE`), or a named one. All zeroes are an unlocked one. The lock belongs to the
 * thread that took it. Since ABI 2.
 */
typedef struct outlive_ceiling_mutex_t {
  uint64_t words[2];
} outlive_ceiling_mutex_t;

/**
 * Wait as long as it takes. A call still ends when what it waits for can never come because its peer died.
 */
#define OUTLIVE_NEVER UINT64_MAX

/**
 * Do not wait: locks that are held give `EBUSY`, everything else that is not there gives `EAGAIN`.
 */
#define OUTLIVE_TRY 0

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The message of the calling thread's last call that failed: what happened, and what to do next. In English, UTF-8, at
 * most 1023 bytes. Never NULL; empty if no call has failed yet. Successful calls leave it as it is.
 *
 * Owner: the library. Valid until the thread's next call that fails, or its end.
 */
const char *outlive_last_error(void);

/**
 * What a return code says, in a few words: of the library's own codes and of errno numbers.
 *
 * Owner: the library; constant for its own codes. For errno numbers as `strerror(3)`: valid until the thread's next call.
 */
const char *outlive_strerror(int code);

/**
 * The version of the ABI that the library has: what was added to the header says since which. It only grows.
 */
uint32_t outlive_abi_version(void);

/**
 * The version of the library, as text: `0.1.0`. Owner: the library; constant.
 */
const char *outlive_version(void);

/**
 * That many nanoseconds from now. A span too long for the clock is `OUTLIVE_NEVER`.
 */
outlive_deadline_t outlive_after(uint64_t nanoseconds);

/**
 * That many milliseconds from now.
 */
outlive_deadline_t outlive_after_ms(uint64_t milliseconds);

/**
 * At that time of day, in seconds and nanoseconds since 1970. When the clock is set, it comes sooner or later accordingly.
 * A time before 1970 has passed.
 */
outlive_deadline_t outlive_at_time_of_day(int64_t seconds,
                                          uint32_t nanoseconds);

/**
 * Opens the domain of that name below the user's own folder, `/dev/shm/outlive-UID`, made when missing. `name` NULL: the
 * one that the environment's `OUTLIVE_DOMAIN` names (a path if it has a `/`), else `default`.
 *
 * Owner: `*domain` is the caller's, until `outlive_domain_close`. What is opened in it may be used longer than it.
 *
 * Errors: EINVAL, EPERM (a folder of somebody else's, or one that others may enter), ENOTDIR, EACCES, ENOSPC, ENOMEM,
 * EMFILE, OUTLIVE_OTHER_VERSION, OUTLIVE_NOT_OURS, OUTLIVE_DAMAGED, and what the system says.
 *
 * If a process dies: nothing in a domain depends on who made it.
 */
int outlive_domain_open(const char *name,
                        struct outlive_domain_t **domain);

/**
 * The same in any folder, made when missing; its parent must exist.
 */
int outlive_domain_open_at(const char *path, struct outlive_domain_t **domain);

/**
 * The same, otherwise than by default. `options` NULL: as `outlive_domain_open(NULL, domain)`.
 *
 * Errors: as `outlive_domain_open`, and ENOENT with `must_exist`.
 */
int outlive_domain_open_with(const struct outlive_domain_options_t *options, struct outlive_domain_t **domain);

/**
 * Lets go of a domain. What was opened in it stays open. NULL is nothing.
 */
void outlive_domain_close(struct outlive_domain_t *domain);

/**
 * The domain's folder, as text, into `buffer`.
 *
 * Errors: EINVAL; EMSGSIZE when it does not fit with its NUL.
 */
int outlive_domain_path(const struct outlive_domain_t *domain, char *buffer, size_t capacity);

/**
 * Takes a name out of the domain. Who has the thing open goes on with it; nobody else finds it any more.
 *
 * Errors: ENOENT, EINVAL, EACCES.
 */
int outlive_domain_remove(const struct outlive_domain_t *domain, const char *name);

/**
 * Frees what the dead have left, in all that the domain has. Everybody who meets it does so by himself; this is for tidying
 * up. `*claims` (may be NULL): how many claims of the dead there were.
 *
 * Errors: EINVAL, and what the system says.
 */
int outlive_domain_sweep(const struct outlive_domain_t *domain,
                         uint64_t *claims);

/**
 * The calling thread's token: a number by which others ask whether the thread lives, and wait for its end. It lives until
 * the thread ends. Never 0.
 *
 * Errors: EINVAL, EUSERS (65,536 are in use), ENOSPC.
 *
 * If a process dies: its threads' tokens read dead from then on, for ever.
 */
int outlive_domain_token(const struct outlive_domain_t *domain,
                         uint32_t *token);

/**
 * The process's token. It lives until the process's last thread has ended.
 *
 * Errors: as `outlive_domain_token`.
 */
int outlive_domain_process_token(const struct outlive_domain_t *domain, uint32_t *token);

/**
 * Whether a token's owner lives. No system call. A token that never was, and one of no domain, reads dead.
 */
bool outlive_peer_is_alive(const struct outlive_domain_t *domain, uint32_t token);

/**
 * Sleeps until a token's owner has ended; returns at once if it is dead.
 *
 * Errors: ETIMEDOUT: it lives; EINVAL, EUSERS, ENOSPC.
 *
 * If a process dies: all who wait for it are woken, about 0.2 ms after a SIGKILL.
 */
int outlive_peer_wait_dead(const struct outlive_domain_t *domain, uint32_t token, outlive_deadline_t deadline);

/**
 * Sleeps until one of `count` tokens' owners has ended; `*dead` (may be NULL) says which.
 *
 * Errors: as `outlive_peer_wait_dead`.
 *
 * If a process dies: as `outlive_peer_wait_dead`.
 */
int outlive_peer_wait_any_dead(const struct outlive_domain_t *domain,
                               const uint32_t *tokens,
                               size_t count,
                               outlive_deadline_t deadline,
                               uint32_t *dead);

/**
 * What is known about a token's owner, dead or alive.
 *
 * Errors: EINVAL; ESRCH when nothing is known any more.
 */
int outlive_peer_info(const struct outlive_domain_t *domain, uint32_t token, struct outlive_peer_info_t *info);

/**
 * Opens the record of that name, or makes it: `size` bytes, page-aligned, zeroed, filled in by `init` (may be NULL), before
 * anybody else sees them. `places` says where the primitives lie: they stand in the file, so that what the dead hold is found
 * by anybody, and a program with another idea of the struct is refused.
 *
 * Owner: `*data` is shared memory, mapped until `outlive_record_close`. What is not under a lock in it has to be atomic.
 *
 * Errors: EINVAL (also for places that overlap, lie outside or are not aligned, for numbers that cannot be, and for more than
 * 46), OUTLIVE_OTHER_KIND, OUTLIVE_OTHER_TYPE (there with another size, or with other primitives, places or numbers), ENOSPC,
 * ENOMEM, EACCES, OUTLIVE_OTHER_VERSION, OUTLIVE_NOT_OURS, OUTLIVE_DAMAGED, and what the system says.
 *
 * If a process dies: while it makes the record, nothing is left of it. Afterwards, each primitive tells by itself.
 */
int outlive_record_open(const struct outlive_domain_t *domain,
                        const char *name,
                        size_t size,
                        const struct outlive_place_t *places,
                        size_t count,
                        outlive_init_t init,
                        void *argument,
                        void **data);

/**
 * Closes this opening of a record: addresses in it mean nothing any more. Nobody of this process may hold or wait for a
 * primitive in it. NULL is nothing; so is what is not an opened record's start.
 */
void outlive_record_close(void *data);

/**
 * Opens the mutex of that name, or makes it, with `size` bytes of value behind it, aligned to 64: `outlive_mutex_value`. 0: a
 * lock alone. `initial`: the value if it is made; NULL: zeroes. Rust's `Mutex<T>` with a T of as many bytes is the same.
 *
 * Owner: `*mutex` is in shared memory, mapped until `outlive_mutex_close`.
 *
 * Errors: EINVAL, OUTLIVE_OTHER_KIND, OUTLIVE_OTHER_TYPE (there with another size), ENOSPC, ENOMEM, EACCES,
 * OUTLIVE_OTHER_VERSION, OUTLIVE_NOT_OURS, OUTLIVE_DAMAGED, and what the system says.
 *
 * If a process dies: while it makes the mutex, nothing is left of it.
 */
int outlive_mutex_open(const struct outlive_domain_t *domain,
                       const char *name,
                       size_t size,
                       const void *initial,
                       struct outlive_mutex_t **mutex);

/**
 * The value behind a named mutex, to be touched by the lock's holder only. NULL: it has none, or is inside a record.
 *
 * Owner: shared memory, mapped until `outlive_mutex_close`.
 */
void *outlive_mutex_value(const struct outlive_mutex_t *mutex);

/**
 * Closes this opening of a named mutex: its address and its value's mean nothing any more. Nobody of this process may hold it
 * or wait for it by this address. Others are not concerned. NULL is nothing; so is what is not an opened named mutex.
 */
void outlive_mutex_close(struct outlive_mutex_t *mutex);

/**
 * Takes the lock, waiting as long as a living owner holds it. It belongs to the calling thread.
 *
 * Errors: EOWNERDEAD: the lock is yours, but an owner died with it: repair what it guards, call
 * `outlive_mutex_consistent`, and unlock; unlocked without, the next to lock is told again. ENOTRECOVERABLE: it was given up
 * (`outlive_mutex_give_up`; `outlive_mutex_lock_to_reset` starts anew). EDEADLK: this thread holds it already. EINVAL: no mutex that this process has open.
 * OUTLIVE_DAMAGED, EUSERS, ENOSPC.
 *
 * If a process dies: holding it, the next to lock is told, also if it is asleep already; waiting for it, nobody notices.
 */
int outlive_mutex_lock(struct outlive_mutex_t *mutex);

/**
 * Takes the lock if it is free, or its owner is dead.
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
 * Gives the lock back. After EOWNERDEAD, and without `outlive_mutex_consistent`, the next to lock gets EOWNERDEAD again (with
 * pthread's robust mutexes this gives the lock up).
 *
 * Errors: EPERM: this thread does not hold it (also in a forked child: it is the parent's). EINVAL.
 *
 * If a process dies: in here, the lock is free, or the next to lock is told.
 */
int outlive_mutex_unlock(struct outlive_mutex_t *mutex);

/**
 * Declares that what the lock guards is whole again, after EOWNERDEAD. The caller holds the lock.
 *
 * Errors: EPERM: this thread does not hold it. EINVAL.
 */
int outlive_mutex_consistent(struct outlive_mutex_t *mutex);

/**
 * Gives the lock back, and gives it up: what it guards cannot be made whole. Every later locker gets ENOTRECOVERABLE, until
 * somebody calls `outlive_mutex_lock_to_reset`. The caller holds the lock, told of a death or not.
 *
 * Errors: EPERM: this thread does not hold it. EINVAL. Since ABI 2.
 *
 * If a process dies: in here, the lock is given up, or the next to lock is told.
 */
int outlive_mutex_give_up(struct outlive_mutex_t *mutex);

/**
 * Whether the calling thread holds it, its last owner died with it, and nothing has been declared consistent since: what
 * EOWNERDEAD said, for those who cannot look at the code. False for what is no such lock. Since ABI 2.
 */
bool outlive_mutex_owner_died(const struct outlive_mutex_t *mutex);

/**
 * Takes a mutex in whatever state it is in, given up (ENOTRECOVERABLE) or not, waiting for a living owner until the deadline:
 * make whole what it guards, call `outlive_mutex_consistent`, and unlock. Unlocked without, one that was given up stays so.
 *
 * Errors: as `outlive_mutex_lock_until`, but for EOWNERDEAD and ENOTRECOVERABLE.
 *
 * If a process dies: in the middle of the repair, it stays given up, or the next to lock is told.
 */
int outlive_mutex_lock_to_reset(struct outlive_mutex_t *mutex,
                                outlive_deadline_t deadline);

/**
 * Who holds it just now, dead or alive.
 *
 * Errors: ESRCH: nobody. EINVAL.
 */
int outlive_mutex_holder(const struct outlive_mutex_t *mutex, struct outlive_peer_info_t *info);

/**
 * How this process waits for this mutex: one of the OUTLIVE_WAIT numbers.
 *
 * Errors: EINVAL.
 */
int outlive_mutex_set_wait(struct outlive_mutex_t *mutex, uint32_t how);

/**
 * Opens the condition variable of that name, or makes it.
 *
 * Owner: `*condvar` is in shared memory, mapped until `outlive_condvar_close`.
 *
 * Errors: as `outlive_mutex_open`.
 *
 * If a process dies: while it makes it, nothing is left of it.
 */
int outlive_condvar_open(const struct outlive_domain_t *domain, const char *name, struct outlive_condvar_t **condvar);

/**
 * Closes this opening of a named one. Nobody of this process may wait for it by this address.
 */
void outlive_condvar_close(struct outlive_condvar_t *condvar);

/**
 * Gives the mutex back, waits for a notification, and takes the mutex again. May return without one: look at the condition
 * in a loop. Different waiters may use different mutexes.
 *
 * Errors: with the mutex held again: EOWNERDEAD: somebody died holding it meanwhile (or had died before, and nobody has
 * declared it consistent): repair, call `outlive_mutex_consistent`, and notify all. ETIMEDOUT (`outlive_condvar_wait_until`).
 * Without it: ENOTRECOVERABLE: somebody gave it up. EPERM: this thread did not hold it. OUTLIVE_DAMAGED. EINVAL: nothing has
 * happened.
 *
 * If a process dies: a waiter, its notification goes to another one. A notifier in the middle: perhaps nobody was notified;
 * `outlive_condvar_wait_or_end` watches it.
 */
int outlive_condvar_wait(struct outlive_condvar_t *condvar,
                         struct outlive_mutex_t *mutex);

/**
 * The same, until the deadline. The mutex is taken again without one.
 */
int outlive_condvar_wait_until(struct outlive_condvar_t *condvar,
                               struct outlive_mutex_t *mutex,
                               outlive_deadline_t deadline);

/**
 * The same, until the owner of `token` has ended, too: for whoever waits for what only that one can bring.
 *
 * Errors: as `outlive_condvar_wait_until`, and ESRCH, with the mutex held again: it has ended.
 *
 * If a process dies: the peer's end ends the wait at once.
 */
int outlive_condvar_wait_or_end(struct outlive_condvar_t *condvar,
                                struct outlive_mutex_t *mutex,
                                const struct outlive_domain_t *domain,
                                uint32_t token,
                                outlive_deadline_t deadline);

/**
 * Wakes one of those who wait. With the mutex in hand or after it was given back, never before the change.
 *
 * Errors: EINVAL.
 *
 * If a process dies: before this has returned, perhaps nobody was woken.
 */
int outlive_condvar_notify_one(struct outlive_condvar_t *condvar);

/**
 * Wakes all who wait.
 *
 * Errors: EINVAL.
 *
 * If a process dies: before this has returned, perhaps nobody was woken.
 */
int outlive_condvar_notify_all(struct outlive_condvar_t *condvar);

/**
 * Opens the lock of that name, or makes it, with `size` bytes of value behind it, aligned to 64: `outlive_rwlock_value`.
 * `initial`: the value if it is made; NULL: zeroes. Rust's `RwLock<T>` with a T of as many bytes is the same.
 *
 * Owner: `*lock` is in shared memory, mapped until `outlive_rwlock_close`.
 *
 * Errors: as `outlive_mutex_open`.
 *
 * If a process dies: while it makes the lock, nothing is left of it.
 */
int outlive_rwlock_open(const struct outlive_domain_t *domain,
                        const char *name,
                        size_t size,
                        const void *initial,
                        struct outlive_rwlock_t **lock);

/**
 * The value behind a named lock, to be read by readers and written by the writer only. NULL: it has none, or is inside a
 * record.
 *
 * Owner: shared memory, mapped until `outlive_rwlock_close`.
 */
void *outlive_rwlock_value(const struct outlive_rwlock_t *lock);

/**
 * Closes this opening of a named lock. Nobody of this process may hold it or wait for it by this address.
 */
void outlive_rwlock_close(struct outlive_rwlock_t *lock);

/**
 * Takes the lock to read, waiting until the deadline as long as a living writer holds it or waits for it. It belongs to the
 * calling thread, which may read several times at once unless a writer waits.
 *
 * Errors: EOWNERDEAD: a writer died, and you have the lock alone, *as its writer*, to repair what it left:
 * `outlive_rwlock_consistent`, then unlock or `outlive_rwlock_downgrade`; unlocked without, the next to come is told again.
 * ENOTRECOVERABLE: it was given up (`outlive_rwlock_give_up`). EDEADLK: this
 * thread writes, or reads already while a writer waits for that. ETIMEDOUT; EBUSY with OUTLIVE_TRY. EINVAL: no such lock that
 * this process has open. OUTLIVE_DAMAGED, EUSERS, ENOSPC.
 *
 * If a process dies: reading, nobody is told, writers go on at once. Writing, exactly one is told, the next to come.
 */
int outlive_rwlock_read(struct outlive_rwlock_t *lock,
                        outlive_deadline_t deadline);

/**
 * Takes the lock to write, waiting until the deadline until no living thread reads or writes. New readers wait meanwhile.
 *
 * Errors: EOWNERDEAD: the lock is yours, but its last writer died with it. EDEADLK: this thread reads or writes already.
 * Otherwise as `outlive_rwlock_read`.
 *
 * If a process dies: as `outlive_rwlock_read`.
 */
int outlive_rwlock_write(struct outlive_rwlock_t *lock,
                         outlive_deadline_t deadline);

/**
 * Gives the lock back, what the thread took of it last.
 *
 * Errors: EPERM: this thread does not hold it. EINVAL.
 */
int outlive_rwlock_unlock(struct outlive_rwlock_t *lock);

/**
 * Declares that what the lock guards is whole again, after EOWNERDEAD. Unlocked without, the next to come, to read or to write,
 * gets EOWNERDEAD again.
 *
 * Errors: EPERM: this thread does not hold it as its writer. EINVAL.
 */
int outlive_rwlock_consistent(struct outlive_rwlock_t *lock);

/**
 * Gives the lock back, and gives it up: what it guards cannot be made whole. All who come later, to read or to write, get
 * ENOTRECOVERABLE, until somebody calls `outlive_rwlock_reset`. The caller has the lock as its writer.
 *
 * Errors: EPERM: this thread does not hold it as its writer. EINVAL. Since ABI 2.
 *
 * If a process dies: in here, the lock is given up, or the next to come is told.
 */
int outlive_rwlock_give_up(struct outlive_rwlock_t *lock);

/**
 * Whether the calling thread holds it, its last owner died with it, and nothing has been declared consistent since: what
 * EOWNERDEAD said, for those who cannot look at the code. False for what is no such lock. Since ABI 2.
 */
bool outlive_rwlock_owner_died(const struct outlive_rwlock_t *lock);

/**
 * From reader to writer, once the other readers have left, waiting for them until the deadline. Nobody writes in between, so
 * what was read still holds.
 *
 * Errors: with the lock held to read as before: EBUSY: a writer waits already, or others read with OUTLIVE_TRY: give the lock
 * back and take it as a writer. EDEADLK: this thread reads a second time. ETIMEDOUT, OUTLIVE_DAMAGED. EPERM: this thread does
 * not read. EINVAL.
 */
int outlive_rwlock_upgrade(struct outlive_rwlock_t *lock,
                           outlive_deadline_t deadline);

/**
 * From writer to reader; nobody writes in between.
 *
 * Errors: EPERM: this thread does not hold it as its writer, or it came with EOWNERDEAD and nothing was declared consistent:
 * held as before. EINVAL.
 */
int outlive_rwlock_downgrade(struct outlive_rwlock_t *lock);

/**
 * Makes a lock that was given up (ENOTRECOVERABLE) usable again. What it guards was made whole before, by an agreement of its
 * users.
 *
 * Errors: as `outlive_rwlock_write`, but for EOWNERDEAD and ENOTRECOVERABLE.
 */
int outlive_rwlock_reset(struct outlive_rwlock_t *lock,
                         outlive_deadline_t deadline);

/**
 * Who holds it just now: one writer, or any number of readers. As many as fit into `infos`; `*count` says how many there are.
 *
 * Errors: EINVAL.
 */
int outlive_rwlock_holders(const struct outlive_rwlock_t *lock,
                           struct outlive_peer_info_t *infos,
                           size_t capacity,
                           size_t *count);

/**
 * Opens the event of that name, or makes it. `reset`: OUTLIVE_RESET_MANUAL or OUTLIVE_RESET_AUTOMATIC.
 *
 * Owner: `*event` is in shared memory, mapped until `outlive_event_close`.
 *
 * Errors: as `outlive_mutex_open`; OUTLIVE_OTHER_TYPE when it is there with the other reset.
 *
 * If a process dies: while it makes it, nothing is left of it.
 */
int outlive_event_open(const struct outlive_domain_t *domain,
                       const char *name,
                       uint32_t reset,
                       struct outlive_event_t **event);

/**
 * In a record's initialiser: how a new event's bits are reset.
 *
 * Errors: EINVAL.
 */
int outlive_event_init(struct outlive_event_t *event, uint32_t reset);

/**
 * Closes this opening of a named one. Nobody of this process may wait for it by this address. NULL is nothing.
 */
void outlive_event_close(struct outlive_event_t *event);

/**
 * Sets bits, 0 to 30, and wakes all who wait. `*before` (may be NULL): the bits as they were, where somebody waits just before.
 *
 * Errors: EINVAL, also for bit 31.
 *
 * If a process dies: in here, what is set is set, and who waits is woken all the same.
 */
int outlive_event_set(struct outlive_event_t *event,
                      uint32_t bits,
                      uint32_t *before);

/**
 * Clears bits. `*before` (may be NULL): the bits as they were.
 *
 * Errors: EINVAL.
 */
int outlive_event_clear(struct outlive_event_t *event, uint32_t bits, uint32_t *before);

/**
 * The bits as they are. 0 for what is no event.
 */
uint32_t outlive_event_bits(const struct outlive_event_t *event);

/**
 * Waits until one of the bits is set, or the deadline. `*seen` (may be NULL): which of them were.
 *
 * Errors: ETIMEDOUT; EAGAIN with OUTLIVE_TRY. EINVAL, EUSERS, ENOSPC.
 *
 * If a process dies: another waiter, nobody notices. Who was to set them: the event does not know; see `outlive_wait_set_t`.
 */
int outlive_event_wait_any(struct outlive_event_t *event,
                           uint32_t bits,
                           outlive_deadline_t deadline,
                           uint32_t *seen);

/**
 * Waits until all of the bits are set at once, or the deadline. Otherwise as `outlive_event_wait_any`.
 */
int outlive_event_wait_all(struct outlive_event_t *event, uint32_t bits, outlive_deadline_t deadline, uint32_t *seen);

/**
 * Opens the latch of that name, or makes it, which so many arrivals open.
 *
 * Owner: `*latch` is in shared memory, mapped until `outlive_latch_close`.
 *
 * Errors: as `outlive_mutex_open`.
 *
 * If a process dies: while it makes it, nothing is left of it.
 */
int outlive_latch_open(const struct outlive_domain_t *domain,
                       const char *name,
                       uint32_t arrivals,
                       struct outlive_latch_t **latch);

/**
 * In a record's initialiser: how many arrivals open a new latch.
 *
 * Errors: EINVAL.
 */
int outlive_latch_init(struct outlive_latch_t *latch, uint32_t arrivals);

/**
 * Closes this opening of a named one. Nobody of this process may wait for it by this address. NULL is nothing.
 */
void outlive_latch_close(struct outlive_latch_t *latch);

/**
 * Arrives so many times; the last wakes all who wait. UINT32_MAX opens it at once. `*missing` (may be NULL): how many are
 * missing now.
 *
 * Errors: EINVAL.
 *
 * If a process dies: in here, it has arrived or not; who waits is woken all the same.
 */
int outlive_latch_arrive(struct outlive_latch_t *latch,
                         uint32_t arrivals,
                         uint32_t *missing);

/**
 * Waits until it is open, or the deadline.
 *
 * Errors: ETIMEDOUT; EAGAIN with OUTLIVE_TRY. EINVAL, EUSERS, ENOSPC.
 */
int outlive_latch_wait(struct outlive_latch_t *latch, outlive_deadline_t deadline);

/**
 * Opens the once of that name, or makes it.
 *
 * Owner: `*once` is in shared memory, mapped until `outlive_once_close`.
 *
 * Errors: as `outlive_mutex_open`.
 *
 * If a process dies: while it makes it, nothing is left of it.
 */
int outlive_once_open(const struct outlive_domain_t *domain, const char *name, struct outlive_once_t **once);

/**
 * Closes this opening of a named one. NULL is nothing.
 */
void outlive_once_close(struct outlive_once_t *once);

/**
 * Sees to it that it has been done: by `make(argument, previous_died)`, unless somebody has done it, or is about to, which is
 * waited for until the deadline.
 *
 * Errors: ETIMEDOUT; EBUSY with OUTLIVE_TRY: somebody living is about to. EDEADLK: this thread is. EINVAL, OUTLIVE_DAMAGED,
 * EUSERS, ENOSPC.
 *
 * If a process dies: in the middle of `make`, the next one who comes, or who waits, does it, and is told.
 */
int outlive_once_do(struct outlive_once_t *once,
                    outlive_make_t make,
                    void *argument,
                    outlive_deadline_t deadline);

/**
 * Whether it has been done: 1, 0. 0 for what is no once.
 */
int outlive_once_is_done(const struct outlive_once_t *once);

/**
 * Opens the semaphore of that name, or makes it with so many permits, of 1 to 65,536. `most`: as many may there be at a time,
 * if `outlive_semaphore_add` adds some; 0: no more than `permits`.
 *
 * Owner: `*semaphore` is in shared memory, mapped until `outlive_semaphore_close`.
 *
 * Errors: as `outlive_mutex_open`.
 *
 * If a process dies: while it makes it, nothing is left of it. Afterwards its permits are free at once; who sleeps for one is
 * woken by the death itself.
 */
int outlive_semaphore_open(const struct outlive_domain_t *domain,
                           const char *name,
                           uint32_t permits,
                           uint32_t most,
                           struct outlive_semaphore_t **semaphore);

/**
 * In a record's initialiser: so many of the permits are free at first, `permits` of `most`, which is the room that the
 * struct and its place have. Without it all are. Since ABI 2.
 *
 * Errors: EINVAL.
 */
int outlive_semaphore_init(struct outlive_semaphore_t *semaphore, uint32_t permits, uint32_t most);

/**
 * Closes this opening of a named semaphore: its address means nothing any more. Permits that threads hold by it stay theirs
 * until they end. NULL is nothing; so is what is not an opened named semaphore.
 */
void outlive_semaphore_close(struct outlive_semaphore_t *semaphore);

/**
 * Takes a permit, waiting for one until the deadline. `*index` (may be NULL): which it is, from 0 on; no two holders have
 * the same.
 *
 * Errors: ETIMEDOUT; EAGAIN with OUTLIVE_TRY. EDEADLK: this thread holds all. EINVAL, EUSERS, ENOSPC.
 *
 * If a process dies: a holder, its permit is free at once.
 */
int outlive_semaphore_acquire(const struct outlive_semaphore_t *semaphore,
                              outlive_deadline_t deadline,
                              uint32_t *index);

/**
 * Gives back the permit that this thread took last.
 *
 * Errors: EPERM: it has none. EINVAL.
 */
int outlive_semaphore_release(const struct outlive_semaphore_t *semaphore);

/**
 * Uses up the permit that this thread took last: there is one less, until somebody adds one. So a semaphore
 * counts things that are made in one place and used up in another.
 *
 * Errors: EPERM: it has none. EINVAL.
 */
int outlive_semaphore_consume(const struct outlive_semaphore_t *semaphore);

/**
 * Hands the permit that this thread took last to another thread, or process: the owner of `token`, who takes it
 * up by `outlive_semaphore_take_up`. In one atomic step: at no moment is it nobody's. Since ABI 2.
 *
 * Errors: EPERM: it has none. EINVAL, also for a number that is no token.
 *
 * If a process dies: who it was handed to, before or after taking it up: the permit is free.
 */
int outlive_semaphore_hand_to(const struct outlive_semaphore_t *semaphore, uint32_t token);

/**
 * Takes up a permit that somebody handed to this thread or its process, waiting for one until the deadline. `*index` (may be
 * NULL): which it is. Since ABI 2.
 *
 * Errors: ETIMEDOUT; EAGAIN with OUTLIVE_TRY. EINVAL, EUSERS, ENOSPC.
 *
 * If a process dies: who was to hand one over: this does not know of it, use a deadline.
 */
int outlive_semaphore_take_up(const struct outlive_semaphore_t *semaphore,
                              outlive_deadline_t deadline,
                              uint32_t *index);

/**
 * Adds a permit.
 *
 * Errors: EOVERFLOW: there are as many as there may be. EINVAL.
 *
 * If a process dies: in here, it is added or not.
 */
int outlive_semaphore_add(const struct outlive_semaphore_t *semaphore);

/**
 * How many permits are free just now. 0 for what is no semaphore.
 */
uint32_t outlive_semaphore_free(const struct outlive_semaphore_t *semaphore);

/**
 * Who holds permits just now. As many as fit into `infos`; `*count` says how many there are.
 *
 * Errors: EINVAL.
 */
int outlive_semaphore_holders(const struct outlive_semaphore_t *semaphore,
                              struct outlive_peer_info_t *infos,
                              size_t capacity,
                              size_t *count);

/**
 * Opens the barrier of that name, or makes it, for so many participants. `count_out` not 0: who dies is counted out, and the
 * others go on; else a death breaks the barrier.
 *
 * Owner: `*barrier` is in shared memory, mapped until `outlive_barrier_close`.
 *
 * Errors: as `outlive_mutex_open`.
 *
 * If a process dies: while it makes it, nothing is left of it.
 */
int outlive_barrier_open(const struct outlive_domain_t *domain,
                         const char *name,
                         uint32_t parties,
                         uint32_t count_out,
                         struct outlive_barrier_t **barrier);

/**
 * In a record's initialiser: what a participant's death does, as in `outlive_barrier_open`. Without it the barrier breaks.
 * Since ABI 2.
 *
 * Errors: EINVAL.
 */
int outlive_barrier_init(struct outlive_barrier_t *barrier,
                         uint32_t count_out);

/**
 * Closes this opening of a named barrier: its address means nothing any more. Seats that threads have by it stay theirs until
 * they end. NULL is nothing; so is what is not an opened named barrier.
 */
void outlive_barrier_close(struct outlive_barrier_t *barrier);

/**
 * Takes a seat for the calling thread, which takes part from now on.
 *
 * Errors: EUSERS: all seats are taken. OUTLIVE_BROKEN, EINVAL, ENOSPC.
 *
 * If a process dies: with a seat, the barrier breaks, or the dead one is counted out.
 */
int outlive_barrier_join(const struct outlive_barrier_t *barrier);

/**
 * Gives the calling thread's seat up: the others go on without it.
 *
 * Errors: EPERM: it has none. EINVAL.
 */
int outlive_barrier_leave(const struct outlive_barrier_t *barrier);

/**
 * Arrives, and waits until all have, or until the deadline. `*serial` (may be NULL): 1 for one of them, 0 for the others.
 *
 * Errors: OUTLIVE_BROKEN: a participant died (`outlive_barrier_repair`). ETIMEDOUT, also with OUTLIVE_TRY: the arrival stands,
 * wait again. EPERM: this thread has not joined. EINVAL.
 *
 * If a process dies: one who is absent, its death ends the wait at once.
 */
int outlive_barrier_wait(const struct outlive_barrier_t *barrier,
                         outlive_deadline_t deadline,
                         uint32_t *serial);

/**
 * Makes a broken barrier whole: the dead lose their seats, to be taken by others who join; the living keep theirs and begin a
 * new phase. Nothing is done to one that is not broken. Any number of participants may call it at once.
 *
 * Errors: ETIMEDOUT: another who repairs is stopped. EINVAL.
 *
 * If a process dies: in here, it is broken still, or whole.
 */
int outlive_barrier_repair(const struct outlive_barrier_t *barrier,
                           outlive_deadline_t deadline);

/**
 * Opens the queue of that name, or makes it. `options` NULL: as by default.
 *
 * Owner: `*queue` is the caller's, until `outlive_queue_close`. Its ends may be used longer than it.
 *
 * Errors: EINVAL, OUTLIVE_OTHER_KIND, ENOSPC, ENOMEM, EACCES, ENOENT (with `must_exist`), OUTLIVE_OTHER_VERSION,
 * OUTLIVE_NOT_OURS, OUTLIVE_DAMAGED, and what the system says.
 *
 * If a process dies: while it makes the queue, nothing is left of it. What was sent stays.
 */
int outlive_queue_open(const struct outlive_domain_t *domain,
                       const char *name,
                       const struct outlive_queue_options_t *options,
                       struct outlive_queue_t **queue);

/**
 * Lets go of a queue. Its ends stay. NULL is nothing.
 */
void outlive_queue_close(struct outlive_queue_t *queue);

/**
 * What has happened so far.
 *
 * Errors: EINVAL, OUTLIVE_DAMAGED.
 */
int outlive_queue_counters(const struct outlive_queue_t *queue, struct outlive_queue_counters_t *counters);

/**
 * A new sender: any number, in any number of processes and threads.
 *
 * Owner: `*sender` is the caller's, until `outlive_sender_close`.
 *
 * Errors: EINVAL, EUSERS, ENOSPC.
 */
int outlive_queue_sender(const struct outlive_queue_t *queue, struct outlive_sender_t **sender);

/**
 * The receiver, if there is none, or it is dead: then what it had not committed comes first.
 *
 * Owner: `*receiver` is the caller's, until `outlive_receiver_close`.
 *
 * Errors: EBUSY: another lives. EAGAIN: the last one is dead, and one of its threads has not come to its end within two
 * seconds. EINVAL, EUSERS, ENOSPC, OUTLIVE_DAMAGED.
 *
 * If a process dies: while it takes over, the next one does.
 */
int outlive_queue_receiver(const struct outlive_queue_t *queue, struct outlive_receiver_t **receiver);

/**
 * Drops a sender. NULL is nothing.
 */
void outlive_sender_close(struct outlive_sender_t *sender);

/**
 * Drops the receiver: another may be made. A message that was peeked at and not committed stays. NULL is nothing.
 */
void outlive_receiver_close(struct outlive_receiver_t *receiver);

/**
 * Sends a message, of 0 bytes to 1 GiB, copied; waits until the deadline while the queue is at its largest and full.
 *
 * Errors: EPIPE: the receiver died, and none has taken over. ENOTCONN: there is none, and the queue refuses messages then.
 * ETIMEDOUT; EAGAIN with OUTLIVE_TRY: full. EMSGSIZE: larger than a message may be, or than the queue may grow. EINVAL,
 * EUSERS, OUTLIVE_DAMAGED. In all cases nothing was sent, not in part either.
 *
 * If a process dies: 0 says that the message is in the queue and outlives this process; dead in the middle, nothing of it is
 * received. The receiver's death ends the wait at once.
 */
int outlive_sender_send(struct outlive_sender_t *sender,
                        const void *data,
                        size_t size,
                        outlive_deadline_t deadline);

/**
 * Sends many messages in one step: all of them are in the queue, one after the other, or none is.
 *
 * Errors: as `outlive_sender_send`; the messages together, with 4 bytes each, count as one for EMSGSIZE. With OUTLIVE_TRY,
 * ETIMEDOUT in place of EAGAIN.
 *
 * If a process dies: in the middle, none of them is received.
 */
int outlive_sender_send_batch(struct outlive_sender_t *sender,
                              const struct outlive_bytes_t *messages,
                              size_t count,
                              outlive_deadline_t deadline);

/**
 * Receives a message into `buffer`, waiting for one until the deadline. `*size`: its bytes. At most once: who dies after this
 * has returned takes the message with it; `outlive_receiver_peek` is for where that must not be.
 *
 * Errors: EMSGSIZE: it does not fit; `*size` says what is needed, and it stays in the queue. ETIMEDOUT; EAGAIN with
 * OUTLIVE_TRY: nothing there. EPIPE: all senders are gone (`outlive_receiver_end_when_senders_gone`). EPERM: not the
 * receiver (any more), as in a forked child. OUTLIVE_DAMAGED: that message is skipped. EINVAL, EUSERS.
 *
 * If a process dies: a sender in the middle, its message is skipped; what it had sent is received.
 */
int outlive_receiver_recv(struct outlive_receiver_t *receiver,
                          void *buffer,
                          size_t capacity,
                          size_t *size,
                          outlive_deadline_t deadline);

/**
 * Looks at the next message where it lies, waiting for one until the deadline. It stays in the queue until
 * `outlive_receiver_commit`; peeked at again without, it is the same one.
 *
 * Owner: `*data` is shared memory, which stays as it is until the commit, the next call with this receiver, or its close.
 * `*redelivered` (may be NULL): 1 when a receiver that died had been handed this message too, and may have acted on it.
 *
 * Errors: as `outlive_receiver_recv`.
 *
 * If a process dies: this one, before the commit: the next receiver is handed the same message, with `*redelivered`.
 */
int outlive_receiver_peek(struct outlive_receiver_t *receiver,
                          const void **data,
                          size_t *size,
                          uint32_t *redelivered,
                          outlive_deadline_t deadline);

/**
 * Takes the message that was peeked at out of the queue.
 *
 * Errors: EINVAL: none was.
 *
 * If a process dies: in here, the message is handed out again, or not.
 */
int outlive_receiver_commit(struct outlive_receiver_t *receiver);

/**
 * Whether a receive that finds nothing ends with EPIPE when there has been a sender and none is left, alive and not closed.
 * Default: 0, wait for the next one.
 *
 * Errors: EINVAL.
 */
int outlive_receiver_end_when_senders_gone(struct outlive_receiver_t *receiver,
                                           uint32_t end);

/**
 * Opens the topic of that name, or makes it, for messages that are bytes. `options` NULL: as by default.
 *
 * Owner: `*topic` is the caller's, until `outlive_topic_close`. Its ends may be used longer than it.
 *
 * Errors: EINVAL, OUTLIVE_OTHER_KIND, OUTLIVE_OTHER_TYPE (its messages are of a type of Rust's: `must_exist` opens it all the
 * same), ENOSPC, ENOMEM, EACCES, ENOENT (with `must_exist`), OUTLIVE_OTHER_VERSION, OUTLIVE_NOT_OURS, OUTLIVE_DAMAGED, and
 * what the system says.
 *
 * If a process dies: while it makes the topic, nothing is left of it. What was published stays.
 */
int outlive_topic_open(const struct outlive_domain_t *domain,
                       const char *name,
                       const struct outlive_topic_options_t *options,
                       struct outlive_topic_t **topic);

/**
 * Lets go of a topic. Its ends stay. NULL is nothing.
 */
void outlive_topic_close(struct outlive_topic_t *topic);

/**
 * How many publishers and subscribers live. Each place may be NULL.
 *
 * Errors: EINVAL.
 */
int outlive_topic_counts(const struct outlive_topic_t *topic, uint32_t *publishers, uint32_t *subscribers);

/**
 * A new publisher: up to 62 at a time.
 *
 * Owner: `*publisher` is the caller's, until `outlive_publisher_close`.
 *
 * Errors: EUSERS, ENOSPC, EINVAL, OUTLIVE_DAMAGED.
 */
int outlive_topic_publisher(const struct outlive_topic_t *topic, struct outlive_publisher_t **publisher);

/**
 * A new subscriber: up to 64 at a time. `options` NULL: to all that is published from now on.
 *
 * Owner: `*subscriber` is the caller's, until `outlive_subscriber_close`.
 *
 * Errors: EUSERS, ENOSPC, EINVAL, OUTLIVE_DAMAGED.
 *
 * If a process dies: in here, as if it had never come.
 */
int outlive_topic_subscriber(const struct outlive_topic_t *topic,
                             const struct outlive_subscriber_options_t *options,
                             struct outlive_subscriber_t **subscriber);

/**
 * Drops a publisher; its loans must have been published or dropped. What it published stays. NULL is nothing.
 */
void outlive_publisher_close(struct outlive_publisher_t *publisher);

/**
 * Drops a subscriber. Samples that it took stay. NULL is nothing.
 */
void outlive_subscriber_close(struct outlive_subscriber_t *subscriber);

/**
 * Lends memory for a message of `size` bytes, from 0 to 1 GiB, to be written in place: `*data`, aligned to 8, of more
 * than 168 bytes to 64. Its bytes are not defined.
 *
 * Owner: `*loan` and `*data` are the caller's, until `outlive_publisher_publish` or `outlive_loan_drop`.
 *
 * Errors: ENOSPC: the topic is at its largest, and subscribers hold what is there. EMSGSIZE, EINVAL, EPERM (a forked child
 * needs a publisher of its own), EUSERS, OUTLIVE_DAMAGED.
 *
 * If a process dies: its loans are free again.
 */
int outlive_publisher_loan(struct outlive_publisher_t *publisher,
                           size_t size,
                           struct outlive_loan_t **loan,
                           void **data);

/**
 * What is to go with a loan.
 *
 * Errors: EINVAL.
 */
int outlive_loan_set_header(struct outlive_loan_t *loan, const struct outlive_header_t *header);

/**
 * Gives a loan back unpublished. NULL is nothing.
 */
void outlive_loan_drop(struct outlive_loan_t *loan);

/**
 * Publishes a loan. Waits, until the deadline, only for a reliable subscriber that has not taken what lies in the way.
 * `*sequence` (may be NULL): its number among the messages of this publisher's ring.
 *
 * Owner: the loan is used up, whatever comes of it.
 *
 * Errors: ETIMEDOUT; EAGAIN with OUTLIVE_TRY: such a subscriber lives and has not taken it. EPERM, EINVAL, EUSERS,
 * OUTLIVE_DAMAGED. Nothing was published then.
 *
 * If a process dies: 0 says that the message is there, whatever becomes of this process; dead in the middle, nobody gets it.
 * A reliable subscriber's death ends the wait at once.
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
 * If a process dies: as `outlive_publisher_publish`.
 */
int outlive_publisher_publish_copy(struct outlive_publisher_t *publisher,
                                   const void *data,
                                   size_t size,
                                   const struct outlive_header_t *header,
                                   outlive_deadline_t deadline,
                                   uint64_t *sequence);

/**
 * How many subscribers live. 0 for NULL.
 */
uint32_t outlive_publisher_subscriber_count(const struct outlive_publisher_t *publisher);

/**
 * What is next; waits for it until the deadline.
 *
 * Owner: `*sample` is the caller's, until `outlive_sample_release`; up to 256 may be held at a time.
 *
 * Errors: ETIMEDOUT; EAGAIN with OUTLIVE_TRY: nothing there. ETIME: nothing has come for longer than the period. ENOBUFS:
 * 256 are held. EPERM: a forked child needs a subscriber of its own. OUTLIVE_DAMAGED: what was there is passed over. EINVAL,
 * EUSERS.
 *
 * If a process dies: a publisher, what it had published is taken as before.
 */
int outlive_subscriber_recv(struct outlive_subscriber_t *subscriber,
                            struct outlive_sample_t **sample,
                            outlive_deadline_t deadline);

/**
 * The newest message that there is, taken before or not; those before it are passed over, without counting as lost.
 *
 * Owner: as `outlive_subscriber_recv`.
 *
 * Errors: EAGAIN: nobody has ever published. Otherwise as `outlive_subscriber_recv`.
 */
int outlive_subscriber_latest(struct outlive_subscriber_t *subscriber, struct outlive_sample_t **sample);

/**
 * How many messages were overwritten before this subscriber came to them, so far. 0 for NULL.
 */
uint64_t outlive_subscriber_lost(const struct outlive_subscriber_t *subscriber);

/**
 * How many messages lie there for it. 0 for NULL.
 */
uint64_t outlive_subscriber_lag(const struct outlive_subscriber_t *subscriber);

/**
 * How many publishers live. 0 for NULL.
 */
uint32_t outlive_subscriber_publisher_count(const struct outlive_subscriber_t *subscriber);

/**
 * A sample's bytes, to read: aligned to 8, of more than 168 bytes to 64. NULL for NULL.
 *
 * Owner: the sample.
 */
const void *outlive_sample_data(const struct outlive_sample_t *sample);

/**
 * How many bytes it has. 0 for NULL.
 */
size_t outlive_sample_size(const struct outlive_sample_t *sample);

/**
 * What its publisher said besides; all zero if nothing.
 *
 * Errors: EINVAL.
 */
int outlive_sample_header(const struct outlive_sample_t *sample, struct outlive_header_t *header);

/**
 * Its number among the messages of its publisher's ring, without gaps but for what was lost. 0 for NULL.
 */
uint64_t outlive_sample_sequence(const struct outlive_sample_t *sample);

/**
 * Its order among all messages of the topic: what was published before another's publishing began has a lower one. 0 for
 * NULL.
 */
uint64_t outlive_sample_order(const struct outlive_sample_t *sample);

/**
 * The token of the process that published it. 0: not known.
 */
uint32_t outlive_sample_publisher(const struct outlive_sample_t *sample);

/**
 * Lets go of a sample: its memory can be used again. NULL is nothing.
 */
void outlive_sample_release(struct outlive_sample_t *sample);

/**
 * Opens the state of that name, or makes one for values of at most `most` bytes, 128 MiB at most, with this one in it. One
 * that is there keeps the value that it has, and is refused when it is of another size. `most` 0: it must be there, of
 * whatever type and size.
 *
 * Owner: `*state` is the caller's, until `outlive_state_close`.
 *
 * Errors: EINVAL, OUTLIVE_OTHER_KIND, OUTLIVE_OTHER_TYPE (also for values of another size), ENOSPC (also for a first value that is larger than `most`), ENOENT
 * (with `most` 0), ENOMEM, EACCES, OUTLIVE_OTHER_VERSION, OUTLIVE_NOT_OURS, OUTLIVE_DAMAGED, and what the system says.
 *
 * If a process dies: while it makes the state, nothing is left of it.
 */
int outlive_state_open(const struct outlive_domain_t *domain,
                       const char *name,
                       size_t most,
                       const void *initial,
                       size_t size,
                       struct outlive_state_t **state);

/**
 * Opens the state of that name, or makes one whose values all have `size` bytes, with those at `initial` in it (NULL:
 * zeroes). It is the same as Rust's `State<T>` with a T of as many bytes, and C++'s.
 *
 * Owner: `*state` is the caller's, until `outlive_state_close`.
 *
 * Errors: as `outlive_state_open`; OUTLIVE_OTHER_TYPE also for one whose values have another size, or several. EINVAL also for
 * `size` 0.
 *
 * If a process dies: while it makes the state, nothing is left of it.
 */
int outlive_state_open_fixed(const struct outlive_domain_t *domain,
                             const char *name,
                             size_t size,
                             const void *initial,
                             struct outlive_state_t **state);

/**
 * Lets go of a state. Its writer stays. NULL is nothing.
 */
void outlive_state_close(struct outlive_state_t *state);

/**
 * The latest value, whole, into `buffer`; `*size`: its bytes; `*version` (may be NULL): which it is. Never waits. Needs
 * no copy in between when `capacity` is `outlive_state_capacity` or more; `buffer` may be written behind the value then.
 *
 * Errors: EMSGSIZE: it does not fit; `*size` says what is needed. EINVAL, ENOMEM, OUTLIVE_DAMAGED.
 *
 * If a process dies: the writer in the middle of a set: the value before, whole.
 */
int outlive_state_get(const struct outlive_state_t *state,
                      void *buffer,
                      size_t capacity,
                      size_t *size,
                      uint64_t *version);

/**
 * The most bytes that its values can have. 0 for NULL.
 */
size_t outlive_state_capacity(const struct outlive_state_t *state);

/**
 * The latest value's version: 1 is the first, and each set gives the next. 0 for NULL.
 */
uint64_t outlive_state_version(const struct outlive_state_t *state);

/**
 * Waits until the value is another than that of version `seen`, or its writer is dead, or until the deadline. `*version` (may
 * be NULL): which it is now.
 *
 * Errors: EPIPE: the writer is dead, and the value is the one that was seen. ETIMEDOUT, also with OUTLIVE_TRY. EINVAL, EUSERS.
 *
 * If a process dies: the writer: who waits is told at once.
 */
int outlive_state_wait_changed(const struct outlive_state_t *state,
                               uint64_t seen,
                               outlive_deadline_t deadline,
                               uint64_t *version);

/**
 * The writer, if there is none, or it is dead; waits until the deadline for a living one to leave or to end.
 *
 * Owner: `*writer` is the caller's, until `outlive_state_writer_close`.
 *
 * Errors: EBUSY: another lives. EAGAIN: the last one is dead, and one of its threads has not come to its end within two
 * seconds. EINVAL, EUSERS, ENOSPC, OUTLIVE_DAMAGED.
 *
 * If a process dies: while it takes over, the next one does.
 */
int outlive_state_writer(const struct outlive_state_t *state,
                         outlive_deadline_t deadline,
                         struct outlive_state_writer_t **writer);

/**
 * Drops the writer: another may be made. NULL is nothing.
 */
void outlive_state_writer_close(struct outlive_state_writer_t *writer);

/**
 * Who has the writer, dead or alive.
 *
 * Errors: ESRCH: nobody. EINVAL.
 */
int outlive_state_writer_now(const struct outlive_state_t *state, struct outlive_peer_info_t *info);

/**
 * Sets the value. Never waits. `*version` (may be NULL): which it is.
 *
 * Errors: EMSGSIZE: too large, or of another length than all its values have. EPERM: not the writer (any more), as in a forked
 * child. EINVAL, ENOSPC, OUTLIVE_DAMAGED.
 *
 * If a process dies: in here, the value before is there, or this one, whole.
 */
int outlive_state_writer_set(struct outlive_state_writer_t *writer,
                             const void *data,
                             size_t size,
                             uint64_t *version);

/**
 * Opens the service of that name as a client, or makes it. `options` NULL: as by default.
 *
 * Owner: `*client` is the caller's, until `outlive_client_close`.
 *
 * Errors: as `outlive_queue_open`, and EUSERS.
 *
 * If a process dies: a client, its calls that are not begun never will be, and its replies are freed.
 */
int outlive_client_open(const struct outlive_domain_t *domain,
                        const char *name,
                        const struct outlive_service_options_t *options,
                        struct outlive_client_t **client);

/**
 * Lets go of a client. Its calls go on until they are dropped. NULL is nothing.
 */
void outlive_client_close(struct outlive_client_t *client);

/**
 * Asks, and waits for the reply until the deadline.
 *
 * Owner: `*reply` is the caller's, until `outlive_reply_free`.
 *
 * Errors: EPIPE: the server died, and nobody had begun the call. ECONNRESET: the server died with it begun, and may have done
 * something. ENOTCONN: there is none. ECONNABORTED: the server dropped the request. ETIMEDOUT: the call is cancelled. EMSGSIZE,
 * EAGAIN (1,024 calls are under way), EPERM (a forked child needs a client of its own), EINVAL, EUSERS, OUTLIVE_DAMAGED.
 *
 * If a process dies: the server, the call ends at once. No call is ever begun twice.
 */
int outlive_client_call(struct outlive_client_t *client,
                        const void *data,
                        size_t size,
                        outlive_deadline_t deadline,
                        struct outlive_reply_t **reply);

/**
 * Asks without waiting for the reply; the deadline is for memory for a long request, and for a server where that is asked for.
 *
 * Owner: `*call` is the caller's, until `outlive_call_drop`.
 *
 * Errors: as `outlive_client_call`.
 */
int outlive_client_begin(struct outlive_client_t *client,
                         const void *data,
                         size_t size,
                         outlive_deadline_t deadline,
                         struct outlive_call_t **call);

/**
 * The next reply, waited for until the deadline; `*reply` is NULL when there are no more.
 *
 * Owner: `*reply` is the caller's, until `outlive_reply_free`.
 *
 * Errors: as `outlive_client_call`; ETIMEDOUT cancels nothing here; EAGAIN with OUTLIVE_TRY: not yet.
 */
int outlive_call_next(struct outlive_call_t *call, outlive_deadline_t deadline, struct outlive_reply_t **reply);

/**
 * Drops a call; one that is not over is cancelled. NULL is nothing.
 */
void outlive_call_drop(struct outlive_call_t *call);

/**
 * A reply's bytes. NULL for NULL. Owner: the reply.
 */
const void *outlive_reply_data(const struct outlive_reply_t *reply);

/**
 * How many they are. 0 for NULL.
 */
size_t outlive_reply_size(const struct outlive_reply_t *reply);

/**
 * Frees a reply. NULL is nothing.
 */
void outlive_reply_free(struct outlive_reply_t *reply);

/**
 * Opens the service of that name as its server, or makes it. `options` NULL: as by default.
 *
 * Owner: `*server` is the caller's, until `outlive_server_close`.
 *
 * Errors: EBUSY: another serves and lives. EAGAIN, EUSERS; otherwise as `outlive_queue_open`.
 *
 * If a process dies: while it takes over, the next one does. A server's calls end at once; what it had not begun, the next one
 * takes over.
 */
int outlive_server_open(const struct outlive_domain_t *domain,
                        const char *name,
                        const struct outlive_service_options_t *options,
                        struct outlive_server_t **server);

/**
 * Stops serving. Requests that it has go on. NULL is nothing.
 */
void outlive_server_close(struct outlive_server_t *server);

/**
 * The next request, waited for until the deadline.
 *
 * Owner: `*request` is the caller's, until it is replied to or dropped.
 *
 * Errors: ETIMEDOUT; EAGAIN with OUTLIVE_TRY. EPERM: not the server (any more). EINVAL, EUSERS, OUTLIVE_DAMAGED.
 *
 * If a process dies: a client, its requests are passed over.
 */
int outlive_server_next(struct outlive_server_t *server,
                        outlive_deadline_t deadline,
                        struct outlive_request_t **request);

/**
 * A request's bytes. NULL for NULL. Owner: the request.
 */
const void *outlive_request_data(const struct outlive_request_t *request);

/**
 * How many they are. 0 for NULL.
 */
size_t outlive_request_size(const struct outlive_request_t *request);

/**
 * Whether the client wants no reply any more, or is dead. False for NULL.
 */
bool outlive_request_is_cancelled(const struct outlive_request_t *request);

/**
 * Who asked, dead or alive, also when another client has its place by now.
 *
 * Errors: ESRCH: not known any more. EINVAL.
 */
int outlive_request_client(const struct outlive_request_t *request, struct outlive_peer_info_t *info);

/**
 * Replies. Never waits.
 *
 * Owner: the request is used up, whatever comes of it.
 *
 * Errors: ECANCELED: the client wants no reply any more. EPIPE: it died. EMSGSIZE, ENOSPC, EPERM, EINVAL, OUTLIVE_DAMAGED: the
 * client is told ECONNABORTED.
 *
 * If a process dies: 0 says that the reply is the client's, whatever becomes of this process.
 */
int outlive_request_reply(struct outlive_request_t *request,
                          const void *data,
                          size_t size);

/**
 * Drops a request: the client is told ECONNABORTED. NULL is nothing.
 */
void outlive_request_drop(struct outlive_request_t *request);

/**
 * Begins to reply by several replies.
 *
 * Owner: the request is used up; `*stream` is the caller's, until `outlive_stream_finish` or `outlive_stream_drop`.
 *
 * Errors: EINVAL.
 */
int outlive_request_stream(struct outlive_request_t *request, struct outlive_stream_t **stream);

/**
 * Sends a reply of a stream, waiting until the deadline while eight are on their way.
 *
 * Errors: ETIMEDOUT, also with OUTLIVE_TRY; otherwise as `outlive_request_reply`. The stream goes on after ETIMEDOUT, EMSGSIZE
 * and ENOSPC.
 *
 * If a process dies: the client: EPIPE, at once.
 */
int outlive_stream_send(struct outlive_stream_t *stream,
                        const void *data,
                        size_t size,
                        outlive_deadline_t deadline);

/**
 * The last word: nothing more comes.
 *
 * Owner: the stream is used up.
 *
 * Errors: as `outlive_request_reply`.
 */
int outlive_stream_finish(struct outlive_stream_t *stream);

/**
 * Cuts a stream off: the client is told ECONNABORTED after the last reply. NULL is nothing.
 */
void outlive_stream_drop(struct outlive_stream_t *stream);

/**
 * Opens the pool of that name, or makes it. `options` NULL: as by default.
 *
 * Owner: `*pool` is the caller's, until `outlive_pool_close`.
 *
 * Errors: as `outlive_queue_open`.
 *
 * If a process dies: what it had is free once its last thread has ended.
 */
int outlive_pool_open(const struct outlive_domain_t *domain,
                      const char *name,
                      const struct outlive_pool_options_t *options,
                      struct outlive_pool_t **pool);

/**
 * Lets go of a pool: addresses in it mean nothing any more, unless it is open elsewhere in this process. NULL is nothing.
 */
void outlive_pool_close(struct outlive_pool_t *pool);

/**
 * Looks at all objects.
 *
 * Errors: EINVAL, ENOSPC, OUTLIVE_DAMAGED. Since ABI 2.
 *
 * If a process dies: what it had counts as its, until somebody frees it (`outlive_pool_gc`).
 */
int outlive_pool_usage(const struct outlive_pool_t *pool, struct outlive_pool_usage_t *usage);

/**
 * Gives memory back to the system, except what is likely to be needed again, and frees what the dead had. `*objects` (may be
 * NULL): of the dead, free now; `*bytes` (may be NULL): of memory that the system has back. Since ABI 2.
 *
 * Errors: EINVAL, ENOSPC, OUTLIVE_DAMAGED.
 *
 * If a process dies: in here, some of it is done, and the next one does the rest.
 */
int outlive_pool_gc(const struct outlive_pool_t *pool,
                    uint64_t *objects,
                    uint64_t *bytes);

/**
 * Takes memory of `size` bytes, aligned to `align`, a power of two up to 4,096 (0: 16). Its bytes are not defined.
 *
 * Owner: `*data` is this process's, until `outlive_pool_free`, or handed over. Any thread may free it.
 *
 * Errors: ENOSPC: the pool is at its largest; the message says who has most. EMSGSIZE, EINVAL, EUSERS, OUTLIVE_FAULT.
 *
 * If a process dies: it is free once its last thread has ended.
 */
int outlive_pool_alloc(const struct outlive_pool_t *pool, size_t size, size_t align, void **data);

/**
 * Frees memory. NULL is nothing.
 *
 * Errors: EINVAL: no object begins there, or it was freed before. EPERM: it is not this process's. EXDEV: another pool's.
 * OUTLIVE_FAULT: a debug mode found that somebody wrote where he may not.
 */
int outlive_pool_free(const struct outlive_pool_t *pool,
                      void *data);

/**
 * Hands memory over: whoever has the offset may claim it, or only the owner of `token` (a process's; 0: anybody). In one
 * atomic step: at no moment is it nobody's. `domain`: the token's; may be NULL without one.
 *
 * Owner: `data` is no longer this process's; with EINVAL, EPERM and EXDEV it is as before.
 *
 * Errors: as `outlive_pool_free`, and EINVAL for a number that is no token.
 *
 * If a process dies: offered to anybody, it stays; to a process, it is free once that has ended.
 */
int outlive_pool_offer(const struct outlive_pool_t *pool,
                       void *data,
                       const struct outlive_domain_t *domain,
                       uint32_t token,
                       uint64_t *offset);

/**
 * Takes over what was handed over. `*size` (may be NULL): its bytes.
 *
 * Owner: `*data` is this process's, until `outlive_pool_free`, or handed over.
 *
 * Errors: ESTALE: it was claimed before, or is gone. EACCES: it is for somebody else. OUTLIVE_OTHER_TYPE: it is a value of a
 * type of Rust's. EINVAL, OUTLIVE_FAULT.
 *
 * If a process dies: in here, it is still offered, or free with the dead one.
 */
int outlive_pool_claim(const struct outlive_pool_t *pool,
                       uint64_t offset,
                       void **data,
                       size_t *size);

/**
 * Makes memory one that several processes hold, each by name; nobody writes to it from then on.
 *
 * Owner: `data` is used up; with EINVAL, EPERM and EXDEV it is as before. `*shared` is the caller's, until
 * `outlive_shared_release`.
 *
 * Errors: as `outlive_pool_free`, and ENOSPC.
 *
 * If a process dies: a holder, its name is taken out; the last one's death frees the object.
 */
int outlive_pool_share(const struct outlive_pool_t *pool, void *data, struct outlive_shared_t **shared);

/**
 * Becomes one of those who hold a shared object.
 *
 * Owner: `*shared` is the caller's, until `outlive_shared_release`.
 *
 * Errors: ESTALE: it is gone. EUSERS: 62 processes hold it. EINVAL.
 */
int outlive_pool_join(const struct outlive_pool_t *pool, uint64_t offset, struct outlive_shared_t **shared);

/**
 * A shared object's bytes, to read. NULL for NULL. Owner: `shared`.
 */
const void *outlive_shared_data(const struct outlive_shared_t *shared);

/**
 * How many they are. 0 for NULL.
 */
size_t outlive_shared_size(const struct outlive_shared_t *shared);

/**
 * By which others join: good as long as somebody holds it. 0 for NULL.
 */
uint64_t outlive_shared_offset(const struct outlive_shared_t *shared);

/**
 * Lets go of a shared object; the last one frees it. NULL is nothing.
 */
void outlive_shared_release(struct outlive_shared_t *shared);

/**
 * An empty set, for things of that domain.
 *
 * Owner: `*set` is the caller's, until `outlive_wait_set_close`.
 *
 * Errors: EINVAL.
 *
 * If a process dies: whose end is waited for is told, to all sets; a sender, what it had sent is told.
 */
int outlive_wait_set_open(const struct outlive_domain_t *domain, struct outlive_wait_set_t **set);

/**
 * Drops a set, and its descriptor. NULL is nothing.
 */
void outlive_wait_set_close(struct outlive_wait_set_t *set);

/**
 * Adds a queue's receiver: OUTLIVE_READABLE when a receive is worth a try, OUTLIVE_ENDED when it would be told that the senders
 * are gone. Use OUTLIVE_TRY on what is ready.
 *
 * Errors: EXDEV: of another domain. EINVAL.
 */
int outlive_wait_set_add_receiver(struct outlive_wait_set_t *set,
                                  const struct outlive_receiver_t *receiver,
                                  uint64_t *key);

/**
 * Adds a topic's subscriber: OUTLIVE_READABLE.
 *
 * Errors: EXDEV, EINVAL.
 */
int outlive_wait_set_add_subscriber(struct outlive_wait_set_t *set,
                                    const struct outlive_subscriber_t *subscriber,
                                    uint64_t *key);

/**
 * Adds bits of an event: OUTLIVE_SET as long as any of them is set, or all of them with `all` not 0. The set takes none.
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
 * Adds a timer: OUTLIVE_ELAPSED from that moment on, until `outlive_wait_set_take_timer`.
 *
 * Errors: EINVAL.
 */
int outlive_wait_set_add_timer(struct outlive_wait_set_t *set, outlive_deadline_t at, uint64_t *key);

/**
 * Adds a timer that elapses every so many nanoseconds, from one span from now on.
 *
 * Errors: EINVAL.
 */
int outlive_wait_set_add_timer_every(struct outlive_wait_set_t *set, uint64_t nanoseconds, uint64_t *key);

/**
 * How many of a timer's moments have passed since this was asked last: `*elapsed`. From then on it is not ready before the
 * next.
 *
 * Errors: EINVAL: no timer of this set.
 */
int outlive_wait_set_take_timer(struct outlive_wait_set_t *set,
                                uint64_t key,
                                uint64_t *elapsed);

/**
 * Adds a service's server: OUTLIVE_READABLE when a request is worth a try.
 *
 * Errors: EXDEV, EINVAL.
 */
int outlive_wait_set_add_server(struct outlive_wait_set_t *set, const struct outlive_server_t *server, uint64_t *key);

/**
 * Adds a call: OUTLIVE_READABLE when a reply, or its end, is there; OUTLIVE_ENDED when there is no server any more.
 *
 * Errors: EXDEV, EINVAL.
 */
int outlive_wait_set_add_call(struct outlive_wait_set_t *set, const struct outlive_call_t *call, uint64_t *key);

/**
 * Adds a publisher: OUTLIVE_WRITABLE when no reliable subscriber that lives is in the way.
 *
 * Errors: EXDEV, EINVAL.
 */
int outlive_wait_set_add_publisher(struct outlive_wait_set_t *set,
                                   const struct outlive_publisher_t *publisher,
                                   uint64_t *key);

/**
 * Adds a state: OUTLIVE_CHANGED of a value, what is there now being the first; OUTLIVE_ENDED of a writer's death; until
 * `outlive_wait_set_take_state`.
 *
 * Errors: EXDEV, EINVAL.
 */
int outlive_wait_set_add_state(struct outlive_wait_set_t *set, const struct outlive_state_t *state, uint64_t *key);

/**
 * What is new about a state: `*version`, of the value that is there. From then on it is not ready before the next.
 *
 * Errors: EPIPE: its writer died. EAGAIN: nothing is new. EINVAL: no state of this set.
 */
int outlive_wait_set_take_state(struct outlive_wait_set_t *set, uint64_t key, uint64_t *version);

/**
 * Adds a topic: OUTLIVE_CHANGED when others publish or subscribe than were told last, until `outlive_wait_set_take_topic`.
 *
 * Errors: EXDEV, EINVAL.
 */
int outlive_wait_set_add_topic(struct outlive_wait_set_t *set,
                               const struct outlive_topic_t *topic,
                               uint64_t *key);

/**
 * How many publish and subscribe now: `*publishers`, `*subscribers`. From then on it is not ready before the next change.
 *
 * Errors: EAGAIN: nobody has come or gone. EINVAL: no topic of this set.
 */
int outlive_wait_set_take_topic(struct outlive_wait_set_t *set,
                                uint64_t key,
                                uint32_t *publishers,
                                uint32_t *subscribers);

/**
 * Takes a source out. What it was made from may be closed before or after.
 *
 * Errors: EINVAL: it is not in.
 */
int outlive_wait_set_remove(struct outlive_wait_set_t *set, uint64_t key);

/**
 * Waits until something is ready, or the deadline: all that is ready then, as much as fits into `ready`; `*count` says how much
 * was written. What did not fit is told the next time: what is ready is told as long as it is.
 *
 * Errors: ETIMEDOUT; EAGAIN with OUTLIVE_TRY: nothing. EINVAL, EUSERS, and what the system says.
 *
 * If a process dies: one who waits in a set, nobody notices.
 */
int outlive_wait_set_wait(struct outlive_wait_set_t *set,
                          struct outlive_ready_t *ready,
                          size_t capacity,
                          size_t *count,
                          outlive_deadline_t deadline);

/**
 * A descriptor that is readable when something is ready, for `epoll` and `poll`: until `outlive_wait_set_wait` with OUTLIVE_TRY
 * has found nothing.
 *
 * Owner: the set; do not read from it, do not close it.
 *
 * Errors: EINVAL, EUSERS, EMFILE, and what the system says.
 */
int outlive_wait_set_fd(struct outlive_wait_set_t *set,
                        int *fd);

/**
 * Opens the mutex of that name, or makes it, with `size` bytes of value behind it: as `outlive_mutex_open`.
 *
 * Owner: `*mutex` is in shared memory, mapped until `outlive_pi_mutex_close`.
 *
 * Errors: as `outlive_mutex_open`. OUTLIVE_OTHER_PLACE comes from locking.
 *
 * If a process dies: while it makes the mutex, nothing is left of it.
 */
int outlive_pi_mutex_open(const struct outlive_domain_t *domain,
                          const char *name,
                          size_t size,
                          const void *initial,
                          struct outlive_pi_mutex_t **mutex);

/**
 * The value behind a named mutex. NULL: it has none, or is inside a record.
 *
 * Owner: shared memory, mapped until `outlive_pi_mutex_close`.
 */
void *outlive_pi_mutex_value(const struct outlive_pi_mutex_t *mutex);

/**
 * Closes this opening of a named mutex. Nobody of this process may hold it or wait for it by this address. NULL is nothing.
 */
void outlive_pi_mutex_close(struct outlive_pi_mutex_t *mutex);

/**
 * Takes the lock, waiting until the deadline as long as a living owner holds it, and lending that one the caller's priority.
 *
 * Errors: as `outlive_mutex_lock_until`, and OUTLIVE_OTHER_PLACE: it belongs to another pid namespace or C library.
 *
 * If a process dies: as `outlive_mutex_lock`; what its priority was lent for is taken back.
 */
int outlive_pi_mutex_lock(struct outlive_pi_mutex_t *mutex,
                          outlive_deadline_t deadline);

/**
 * Gives the lock back.
 *
 * Errors: EPERM: this thread does not hold it. EINVAL.
 */
int outlive_pi_mutex_unlock(struct outlive_pi_mutex_t *mutex);

/**
 * Declares that what the lock guards is whole again, after EOWNERDEAD. The caller holds the lock.
 *
 * Errors: EPERM: this thread does not hold it. EINVAL.
 */
int outlive_pi_mutex_consistent(struct outlive_pi_mutex_t *mutex);

/**
 * As `outlive_mutex_give_up`; `outlive_pi_mutex_reset` starts anew.
 *
 * Errors: EPERM: this thread does not hold it. EINVAL. Since ABI 2.
 */
int outlive_pi_mutex_give_up(struct outlive_pi_mutex_t *mutex);

/**
 * Whether the calling thread holds it, its last owner died with it, and nothing has been declared consistent since: what
 * EOWNERDEAD said, for those who cannot look at the code. False for what is no such lock. Since ABI 2.
 */
bool outlive_pi_mutex_owner_died(const struct outlive_pi_mutex_t *mutex);

/**
 * Makes a mutex that was given up (ENOTRECOVERABLE) usable again. What it guards was made whole before, by an agreement of its
 * users.
 *
 * Errors: as `outlive_pi_mutex_lock`, but for EOWNERDEAD and ENOTRECOVERABLE.
 */
int outlive_pi_mutex_reset(struct outlive_pi_mutex_t *mutex,
                           outlive_deadline_t deadline);

/**
 * Who holds it just now, dead or alive.
 *
 * Errors: ESRCH: nobody. EINVAL.
 */
int outlive_pi_mutex_holder(const struct outlive_pi_mutex_t *mutex, struct outlive_peer_info_t *info);

/**
 * Opens the mutex of that name, or makes it with that ceiling. Rust's `CeilingMutex<()>` is the same.
 *
 * Owner: `*mutex` is in shared memory, mapped until `outlive_ceiling_mutex_close`.
 *
 * Errors: as `outlive_mutex_open`; EINVAL also when it is there with another ceiling, or when none of 1 to 99 is asked for.
 * Since ABI 2.
 *
 * If a process dies: while it makes the mutex, nothing is left of it.
 */
int outlive_ceiling_mutex_open(const struct outlive_domain_t *domain,
                               const char *name,
                               uint32_t ceiling,
                               struct outlive_ceiling_mutex_t **mutex);

/**
 * The same with `size` bytes of value behind it, as `outlive_mutex_open`: Rust's `CeilingMutex<T>` with a T of as many bytes.
 * Since ABI 2.
 */
int outlive_ceiling_mutex_open_with_value(const struct outlive_domain_t *domain,
                                          const char *name,
                                          uint32_t ceiling,
                                          size_t size,
                                          const void *initial,
                                          struct outlive_ceiling_mutex_t **mutex);

/**
 * The value behind a named mutex. NULL: it has none, or is inside a record. Since ABI 2.
 *
 * Owner: shared memory, mapped until `outlive_ceiling_mutex_close`.
 */
void *outlive_ceiling_mutex_value(const struct outlive_ceiling_mutex_t *mutex);

/**
 * Closes this opening of a named mutex. What threads hold by it stays theirs until they end; nobody of this process may wait
 * for it by this address. NULL is nothing; so is what is not an opened named one. Since ABI 2.
 */
void outlive_ceiling_mutex_close(struct outlive_ceiling_mutex_t *mutex);

/**
 * Takes the lock, at the ceiling already while it waits, until the deadline, as long as a living owner holds it.
 *
 * Errors: as `outlive_mutex_lock_until`; EINVAL: the thread's own priority is higher than the ceiling. EPERM: no right to run
 * at the ceiling. Since ABI 2.
 *
 * If a process dies: as `outlive_mutex_lock`.
 */
int outlive_ceiling_mutex_lock(struct outlive_ceiling_mutex_t *mutex,
                               outlive_deadline_t deadline);

/**
 * Gives the lock back, and then lowers the thread.
 *
 * Errors: EPERM: this thread does not hold it. EINVAL. Since ABI 2.
 */
int outlive_ceiling_mutex_unlock(struct outlive_ceiling_mutex_t *mutex);

/**
 * Declares that what the lock guards is whole again, after EOWNERDEAD. The caller holds the lock.
 *
 * Errors: EPERM: this thread does not hold it. EINVAL. Since ABI 2.
 */
int outlive_ceiling_mutex_consistent(struct outlive_ceiling_mutex_t *mutex);

/**
 * As `outlive_mutex_give_up`, then lowers the thread; `outlive_ceiling_mutex_reset` starts anew.
 *
 * Errors: EPERM: this thread does not hold it. EINVAL. Since ABI 2.
 */
int outlive_ceiling_mutex_give_up(struct outlive_ceiling_mutex_t *mutex);

/**
 * As `outlive_mutex_owner_died`. Since ABI 2.
 */
bool outlive_ceiling_mutex_owner_died(const struct outlive_ceiling_mutex_t *mutex);

/**
 * Makes a mutex that was given up (ENOTRECOVERABLE) usable again. What it guards was made whole before, by an agreement of its
 * users.
 *
 * Errors: as `outlive_ceiling_mutex_lock`, but for EOWNERDEAD and ENOTRECOVERABLE. Since ABI 2.
 */
int outlive_ceiling_mutex_reset(struct outlive_ceiling_mutex_t *mutex,
                                outlive_deadline_t deadline);

/**
 * Who holds it just now, dead or alive.
 *
 * Errors: ESRCH: nobody. EINVAL. Since ABI 2.
 */
int outlive_ceiling_mutex_holder(const struct outlive_ceiling_mutex_t *mutex, struct outlive_peer_info_t *info);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* OUTLIVE_H */
