/* What Outlive's calls put in order, for ThreadSanitizer. outlive.h includes this where the program
 * is compiled with -fsanitize=thread; no other program has any of it.
 *
 * ThreadSanitizer sees neither the library's atomics nor its futexes, because the library is not
 * compiled with it. So it would report a race of two threads that take turns by a lock of Outlive's.
 * The macros below tell it: what a thread did before it gave a lock back comes before what the next
 * holder does, and what a thread did before it sent comes before what the receiver does.
 *
 * Each handle of a lock is a lock to ThreadSanitizer: two threads that use the same lock by two
 * handles get a report that is not so. All messages, events and other meetings of a process are one
 * to it, so it misses a race between two threads that both send and receive.
 *
 * share/outlive/tsan.supp is needed, too: it says the same of what the library itself does. */
#ifndef OUTLIVE_TSAN_H
#define OUTLIVE_TSAN_H

#include <errno.h>

#ifdef __cplusplus
extern "C" {
#endif

void __tsan_acquire(void *address);
void __tsan_release(void *address);

/* The one place that stands for all messages and meetings of the process. */
static inline void *outlive_tsan_place(void) { return (void *)(uintptr_t)outlive_version(); }
static inline void outlive_tsan_before(void) { __tsan_release(outlive_tsan_place()); }
static inline int outlive_tsan_after(int code)
{
	__tsan_acquire(outlive_tsan_place());
	return code;
}
/* A lock that was taken, also if its owner died. */
static inline int outlive_tsan_got(void *lock, int code)
{
	if (code == 0 || code == EOWNERDEAD)
		__tsan_acquire(lock);
	return code;
}

#ifdef __cplusplus
}
#endif

#define OUTLIVE_TSAN_TAKES(lock, call) __extension__({ \
	__typeof__(lock) tsan_ = (lock); \
	outlive_tsan_got((void *)(uintptr_t)tsan_, call); \
})
#define OUTLIVE_TSAN_GIVES(lock, call) __extension__({ \
	__typeof__(lock) tsan_ = (lock); \
	__tsan_release((void *)(uintptr_t)tsan_); \
	call; \
})
#define OUTLIVE_TSAN_SENDS(call) (outlive_tsan_before(), call)
#define OUTLIVE_TSAN_GETS(call) outlive_tsan_after(call)
#define OUTLIVE_TSAN_MEETS(call) (outlive_tsan_before(), outlive_tsan_after(call))

/* A macro does not name itself again: these call the functions. */
#define outlive_mutex_lock(lock) OUTLIVE_TSAN_TAKES(lock, outlive_mutex_lock(tsan_))
#define outlive_mutex_trylock(lock) OUTLIVE_TSAN_TAKES(lock, outlive_mutex_trylock(tsan_))
#define outlive_mutex_lock_until(lock, ...) OUTLIVE_TSAN_TAKES(lock, outlive_mutex_lock_until(tsan_, __VA_ARGS__))
#define outlive_mutex_lock_to_reset(lock, ...) OUTLIVE_TSAN_TAKES(lock, outlive_mutex_lock_to_reset(tsan_, __VA_ARGS__))
#define outlive_mutex_unlock(lock) OUTLIVE_TSAN_GIVES(lock, outlive_mutex_unlock(tsan_))
#define outlive_mutex_mark_not_recoverable(lock) OUTLIVE_TSAN_GIVES(lock, outlive_mutex_mark_not_recoverable(tsan_))

/* A wait gives the mutex back and takes it again. */
#define OUTLIVE_TSAN_WAITS(mutex, call) __extension__({ \
	__typeof__(mutex) tsan_ = (mutex); \
	__tsan_release((void *)(uintptr_t)tsan_); \
	int tsan_code_ = (call); \
	__tsan_acquire((void *)(uintptr_t)tsan_); \
	tsan_code_; \
})
#define outlive_condvar_wait(condvar, mutex) OUTLIVE_TSAN_WAITS(mutex, outlive_condvar_wait(condvar, tsan_))
#define outlive_condvar_wait_until(condvar, mutex, ...) \
	OUTLIVE_TSAN_WAITS(mutex, outlive_condvar_wait_until(condvar, tsan_, __VA_ARGS__))
#define outlive_condvar_wait_or_end(condvar, mutex, ...) \
	OUTLIVE_TSAN_WAITS(mutex, outlive_condvar_wait_or_end(condvar, tsan_, __VA_ARGS__))
#define outlive_condvar_wait_reentrant_mutex(condvar, mutex, ...) \
	OUTLIVE_TSAN_WAITS(mutex, outlive_condvar_wait_reentrant_mutex(condvar, tsan_, __VA_ARGS__))
#define outlive_condvar_wait_pi_mutex(condvar, mutex, ...) \
	OUTLIVE_TSAN_WAITS(mutex, outlive_condvar_wait_pi_mutex(condvar, tsan_, __VA_ARGS__))
#define outlive_condvar_wait_ceiling_mutex(condvar, mutex, ...) \
	OUTLIVE_TSAN_WAITS(mutex, outlive_condvar_wait_ceiling_mutex(condvar, tsan_, __VA_ARGS__))

#define outlive_reentrant_mutex_lock(lock, ...) OUTLIVE_TSAN_TAKES(lock, outlive_reentrant_mutex_lock(tsan_, __VA_ARGS__))
#define outlive_reentrant_mutex_unlock(lock) OUTLIVE_TSAN_GIVES(lock, outlive_reentrant_mutex_unlock(tsan_))
#define outlive_reentrant_mutex_mark_not_recoverable(lock) \
	OUTLIVE_TSAN_GIVES(lock, outlive_reentrant_mutex_mark_not_recoverable(tsan_))

#define outlive_rwlock_read(lock, ...) OUTLIVE_TSAN_TAKES(lock, outlive_rwlock_read(tsan_, __VA_ARGS__))
#define outlive_rwlock_upgradable_read(lock, ...) OUTLIVE_TSAN_TAKES(lock, outlive_rwlock_upgradable_read(tsan_, __VA_ARGS__))
#define outlive_rwlock_write(lock, ...) OUTLIVE_TSAN_TAKES(lock, outlive_rwlock_write(tsan_, __VA_ARGS__))
#define outlive_rwlock_upgrade(lock, ...) OUTLIVE_TSAN_TAKES(lock, outlive_rwlock_upgrade(tsan_, __VA_ARGS__))
#define outlive_rwlock_unlock(lock) OUTLIVE_TSAN_GIVES(lock, outlive_rwlock_unlock(tsan_))
#define outlive_rwlock_downgrade(lock) OUTLIVE_TSAN_GIVES(lock, outlive_rwlock_downgrade(tsan_))
#define outlive_rwlock_downgrade_to_upgradable(lock) OUTLIVE_TSAN_GIVES(lock, outlive_rwlock_downgrade_to_upgradable(tsan_))
#define outlive_rwlock_mark_not_recoverable(lock) OUTLIVE_TSAN_GIVES(lock, outlive_rwlock_mark_not_recoverable(tsan_))

#define outlive_pi_mutex_lock(lock, ...) OUTLIVE_TSAN_TAKES(lock, outlive_pi_mutex_lock(tsan_, __VA_ARGS__))
#define outlive_pi_mutex_unlock(lock) OUTLIVE_TSAN_GIVES(lock, outlive_pi_mutex_unlock(tsan_))
#define outlive_pi_mutex_mark_not_recoverable(lock) OUTLIVE_TSAN_GIVES(lock, outlive_pi_mutex_mark_not_recoverable(tsan_))
#define outlive_ceiling_mutex_lock(lock, ...) OUTLIVE_TSAN_TAKES(lock, outlive_ceiling_mutex_lock(tsan_, __VA_ARGS__))
#define outlive_ceiling_mutex_unlock(lock) OUTLIVE_TSAN_GIVES(lock, outlive_ceiling_mutex_unlock(tsan_))
#define outlive_ceiling_mutex_mark_not_recoverable(lock) \
	OUTLIVE_TSAN_GIVES(lock, outlive_ceiling_mutex_mark_not_recoverable(tsan_))

#define outlive_event_set(...) OUTLIVE_TSAN_SENDS(outlive_event_set(__VA_ARGS__))
#define outlive_event_wait_any(...) OUTLIVE_TSAN_GETS(outlive_event_wait_any(__VA_ARGS__))
#define outlive_event_wait_all(...) OUTLIVE_TSAN_GETS(outlive_event_wait_all(__VA_ARGS__))
#define outlive_latch_arrive(...) OUTLIVE_TSAN_SENDS(outlive_latch_arrive(__VA_ARGS__))
#define outlive_latch_wait(...) OUTLIVE_TSAN_GETS(outlive_latch_wait(__VA_ARGS__))
#define outlive_once_do(...) OUTLIVE_TSAN_MEETS(outlive_once_do(__VA_ARGS__))
#define outlive_once_is_done(...) OUTLIVE_TSAN_GETS(outlive_once_is_done(__VA_ARGS__))
#define outlive_semaphore_acquire(...) OUTLIVE_TSAN_GETS(outlive_semaphore_acquire(__VA_ARGS__))
#define outlive_semaphore_acquire_many(...) OUTLIVE_TSAN_GETS(outlive_semaphore_acquire_many(__VA_ARGS__))
#define outlive_semaphore_release_many(...) OUTLIVE_TSAN_SENDS(outlive_semaphore_release_many(__VA_ARGS__))
#define outlive_semaphore_release(...) OUTLIVE_TSAN_SENDS(outlive_semaphore_release(__VA_ARGS__))
#define outlive_semaphore_hand_to(...) OUTLIVE_TSAN_SENDS(outlive_semaphore_hand_to(__VA_ARGS__))
#define outlive_semaphore_take_up(...) OUTLIVE_TSAN_GETS(outlive_semaphore_take_up(__VA_ARGS__))
#define outlive_barrier_wait(...) OUTLIVE_TSAN_MEETS(outlive_barrier_wait(__VA_ARGS__))

#define outlive_sender_send(...) OUTLIVE_TSAN_SENDS(outlive_sender_send(__VA_ARGS__))
#define outlive_sender_send_batch(...) OUTLIVE_TSAN_SENDS(outlive_sender_send_batch(__VA_ARGS__))
#define outlive_receiver_recv(...) OUTLIVE_TSAN_GETS(outlive_receiver_recv(__VA_ARGS__))
#define outlive_receiver_peek(...) OUTLIVE_TSAN_GETS(outlive_receiver_peek(__VA_ARGS__))
#define outlive_publisher_publish(...) OUTLIVE_TSAN_SENDS(outlive_publisher_publish(__VA_ARGS__))
#define outlive_publisher_publish_copy(...) OUTLIVE_TSAN_SENDS(outlive_publisher_publish_copy(__VA_ARGS__))
/* A sample that was given back may be the next loan. */
#define outlive_publisher_loan(...) OUTLIVE_TSAN_GETS(outlive_publisher_loan(__VA_ARGS__))
#define outlive_sample_release(...) OUTLIVE_TSAN_SENDS(outlive_sample_release(__VA_ARGS__))
#define outlive_subscriber_recv(...) OUTLIVE_TSAN_GETS(outlive_subscriber_recv(__VA_ARGS__))
#define outlive_subscriber_latest(...) OUTLIVE_TSAN_GETS(outlive_subscriber_latest(__VA_ARGS__))
#define outlive_state_get(...) OUTLIVE_TSAN_GETS(outlive_state_get(__VA_ARGS__))
#define outlive_state_wait_changed(...) OUTLIVE_TSAN_GETS(outlive_state_wait_changed(__VA_ARGS__))
#define outlive_state_writer_set(...) OUTLIVE_TSAN_SENDS(outlive_state_writer_set(__VA_ARGS__))
#define outlive_client_call(...) OUTLIVE_TSAN_MEETS(outlive_client_call(__VA_ARGS__))
#define outlive_client_begin(...) OUTLIVE_TSAN_SENDS(outlive_client_begin(__VA_ARGS__))
#define outlive_call_next(...) OUTLIVE_TSAN_GETS(outlive_call_next(__VA_ARGS__))
#define outlive_server_next(...) OUTLIVE_TSAN_GETS(outlive_server_next(__VA_ARGS__))
#define outlive_request_reply(...) OUTLIVE_TSAN_SENDS(outlive_request_reply(__VA_ARGS__))
#define outlive_stream_send(...) OUTLIVE_TSAN_SENDS(outlive_stream_send(__VA_ARGS__))
#define outlive_stream_finish(...) OUTLIVE_TSAN_SENDS(outlive_stream_finish(__VA_ARGS__))
#define outlive_pool_free(...) OUTLIVE_TSAN_SENDS(outlive_pool_free(__VA_ARGS__))
#define outlive_pool_alloc(...) OUTLIVE_TSAN_GETS(outlive_pool_alloc(__VA_ARGS__))
#define outlive_pool_offer(...) OUTLIVE_TSAN_SENDS(outlive_pool_offer(__VA_ARGS__))
#define outlive_pool_claim(...) OUTLIVE_TSAN_GETS(outlive_pool_claim(__VA_ARGS__))
#define outlive_pool_share(...) OUTLIVE_TSAN_SENDS(outlive_pool_share(__VA_ARGS__))
#define outlive_pool_join(...) OUTLIVE_TSAN_GETS(outlive_pool_join(__VA_ARGS__))
#define outlive_wait_set_wait(...) OUTLIVE_TSAN_GETS(outlive_wait_set_wait(__VA_ARGS__))

#endif
