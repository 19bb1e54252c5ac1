/* Included first in each of glibc's tests: makes every mutex, condition variable and reader-writer
 * lock that the test initialises process-shared, because the shim leaves all others to libc. A
 * condition variable with an initialiser gets the mark that the shim's own have; a mutex and a
 * reader-writer lock with one stay libc's. */
#define _GNU_SOURCE 1
#include <limits.h>
/* What glibc's own build says of its tests. */
#define IS_IN(library) 0

#include <pthread.h>
static inline int shared_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *given)
{
	pthread_mutexattr_t attr;
	if (given) attr = *given; else pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	return pthread_mutex_init(mutex, &attr);
}
static inline int shared_cond_init(pthread_cond_t *cond, const pthread_condattr_t *given)
{
	pthread_condattr_t attr;
	if (given) attr = *given; else pthread_condattr_init(&attr);
	pthread_condattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	return pthread_cond_init(cond, &attr);
}
static inline int shared_rwlock_init(pthread_rwlock_t *lock, const pthread_rwlockattr_t *given)
{
	pthread_rwlockattr_t attr;
	if (given) attr = *given; else pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	return pthread_rwlock_init(lock, &attr);
}
#define pthread_mutex_init shared_mutex_init
#define pthread_cond_init shared_cond_init
#define pthread_rwlock_init shared_rwlock_init
#undef PTHREAD_COND_INITIALIZER
#define PTHREAD_COND_INITIALIZER { .__size = "\xf6olcond\xf6" }
