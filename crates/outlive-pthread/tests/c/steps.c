/* A program that knows pthread and nothing else. It maps a file in which its locks lie, and does the steps that its
 * arguments name, one after another; each says on a line of its own what came of it.
 *
 *     steps FILE STEP...
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct shared {
	pthread_mutex_t plain, recursive, checking, adaptive, inheriting, protecting, robust;
	pthread_rwlock_t rwlock;
	pthread_cond_t cond, monotonic;
	volatile int items;
};

static struct shared *shared;

static void say(const char *step, int result)
{
	printf("%s %d\n", step, result);
}

static struct timespec in(clockid_t clock, long ms)
{
	struct timespec t;
	clock_gettime(clock, &t);
	t.tv_nsec += ms * 1000000;
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	return t;
}

static int init_mutex(pthread_mutex_t *mutex, int type, int protocol, int robust)
{
	pthread_mutexattr_t attr;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_settype(&attr, type);
	pthread_mutexattr_setprotocol(&attr, protocol);
	pthread_mutexattr_setrobust(&attr, robust);
	int error = pthread_mutex_init(mutex, &attr);
	pthread_mutexattr_destroy(&attr);
	return error;
}

static int init(void)
{
	int error = init_mutex(&shared->plain, PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED);
	error |= init_mutex(&shared->recursive, PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED);
	error |= init_mutex(&shared->checking, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED);
	error |= init_mutex(&shared->adaptive, PTHREAD_MUTEX_ADAPTIVE_NP, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED);
	error |= init_mutex(&shared->inheriting, PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_STALLED);
	error |= init_mutex(&shared->protecting, PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_PROTECT, PTHREAD_MUTEX_STALLED);
	error |= init_mutex(&shared->robust, PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_ROBUST);
	pthread_rwlockattr_t rw;
	pthread_rwlockattr_init(&rw);
	pthread_rwlockattr_setpshared(&rw, PTHREAD_PROCESS_SHARED);
	error |= pthread_rwlock_init(&shared->rwlock, &rw);
	pthread_condattr_t cond;
	pthread_condattr_init(&cond);
	pthread_condattr_setpshared(&cond, PTHREAD_PROCESS_SHARED);
	error |= pthread_cond_init(&shared->cond, &cond);
	pthread_condattr_setclock(&cond, CLOCK_MONOTONIC);
	error |= pthread_cond_init(&shared->monotonic, &cond);
	return error;
}

static pthread_mutex_t *mutex_of(const char *name)
{
	return !strcmp(name, "plain") ? &shared->plain : !strcmp(name, "recursive") ? &shared->recursive
		: !strcmp(name, "checking") ? &shared->checking : !strcmp(name, "adaptive") ? &shared->adaptive
		: !strcmp(name, "inheriting") ? &shared->inheriting
		: !strcmp(name, "protecting") ? &shared->protecting : !strcmp(name, "robust") ? &shared->robust : NULL;
}

static void unlock_plain(void *had)
{
	*(int *)had = pthread_mutex_unlock(&shared->plain);
}

static int cleanup_result = -1;

static volatile int waiting;

/* How it waits: until a time that does not come, if "timed" or "clock" says so. */
static void *waits(void *how)
{
	struct timespec end = in(CLOCK_REALTIME, 1000 * 3600);
	pthread_mutex_lock(&shared->plain);
	waiting = 1;
	pthread_cleanup_push(unlock_plain, &cleanup_result);
	for (;;) {
		if (!strcmp(how, "timed"))
			pthread_cond_timedwait(&shared->cond, &shared->plain, &end);
		else if (!strcmp(how, "clock"))
			pthread_cond_clockwait(&shared->cond, &shared->plain, CLOCK_REALTIME, &end);
		else
			pthread_cond_wait(&shared->cond, &shared->plain);
	}
	pthread_cleanup_pop(0);
	return NULL;
}

/* A thread that is cancelled in a wait has the mutex again when its clean-up handler runs. Once it is cancelled as it
 * goes to sleep, and once a while later; and once while this thread has the mutex. */
static int cancel(const char *how)
{
	for (int when = 0; when < 3; when++) {
		pthread_t thread;
		void *result;
		waiting = 0;
		cleanup_result = -1;
		pthread_create(&thread, NULL, waits, (void *)how);
		do {
			pthread_mutex_lock(&shared->plain);
			pthread_mutex_unlock(&shared->plain);
		} while (!waiting);
		if (when > 0) usleep(50000);
		if (when == 2) pthread_mutex_lock(&shared->plain);
		pthread_cancel(thread);
		if (when == 2) {
			usleep(50000);
			if (cleanup_result != -1) return -2;
			pthread_mutex_unlock(&shared->plain);
		}
		pthread_join(thread, &result);
		if (result != PTHREAD_CANCELED || cleanup_result) return -1;
	}
	return 0;
}

static void *takes_and_ends(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&shared->plain);
	pthread_rwlock_wrlock(&shared->rwlock);
	return NULL;
}

static int thread_ends(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, takes_and_ends, NULL);
	return pthread_join(thread, NULL);
}

/* Locks of its own, which no other process sees. */
static int private_locks(void)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
	static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
	struct timespec soon = in(CLOCK_REALTIME, 10), now;
	int error = pthread_mutex_lock(&mutex);
	error |= pthread_cond_timedwait(&cond, &mutex, &soon) != ETIMEDOUT;
	clock_gettime(CLOCK_REALTIME, &now);
	error |= now.tv_sec < soon.tv_sec || (now.tv_sec == soon.tv_sec && now.tv_nsec < soon.tv_nsec);
	error |= pthread_cond_signal(&cond) | pthread_cond_broadcast(&cond) | pthread_mutex_unlock(&mutex);
	error |= pthread_rwlock_rdlock(&rwlock) | pthread_rwlock_tryrdlock(&rwlock);
	error |= pthread_rwlock_trywrlock(&rwlock) != EBUSY;
	error |= pthread_rwlock_unlock(&rwlock) | pthread_rwlock_unlock(&rwlock);
	error |= pthread_rwlock_wrlock(&rwlock) | pthread_rwlock_unlock(&rwlock);
	error |= pthread_cond_destroy(&cond) | pthread_mutex_destroy(&mutex) | pthread_rwlock_destroy(&rwlock);
	pthread_mutex_t made;
	pthread_cond_t made_cond;
	pthread_rwlock_t made_rwlock;
	error |= pthread_mutex_init(&made, NULL) | pthread_cond_init(&made_cond, NULL) | pthread_rwlock_init(&made_rwlock, NULL);
	error |= pthread_mutex_trylock(&made) | pthread_mutex_unlock(&made) | pthread_mutex_destroy(&made);
	error |= pthread_cond_destroy(&made_cond) | pthread_rwlock_destroy(&made_rwlock);
	return error;
}

static int step(const char *name)
{
	char verb[32], which[32];
	struct timespec soon;
	if (sscanf(name, "%31[^-]-%31s", verb, which) == 2 && mutex_of(which)) {
		pthread_mutex_t *mutex = mutex_of(which);
		if (!strcmp(verb, "lock")) return pthread_mutex_lock(mutex);
		if (!strcmp(verb, "trylock")) return pthread_mutex_trylock(mutex);
		if (!strcmp(verb, "unlock")) return pthread_mutex_unlock(mutex);
		if (!strcmp(verb, "consistent")) return pthread_mutex_consistent(mutex);
		if (!strcmp(verb, "destroy")) return pthread_mutex_destroy(mutex);
		if (!strcmp(verb, "timedlock")) {
			soon = in(CLOCK_REALTIME, 50);
			return pthread_mutex_timedlock(mutex, &soon);
		}
		if (!strcmp(verb, "clocklock")) {
			soon = in(CLOCK_MONOTONIC, 50);
			return pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &soon);
		}
		if (!strcmp(verb, "badtimedlock")) { struct timespec none = { 1, -1 }; return pthread_mutex_timedlock(mutex, &none); }
		if (!strcmp(verb, "pasttimedlock")) { struct timespec past = { -5, 0 }; return pthread_mutex_timedlock(mutex, &past); }
		if (!strcmp(verb, "badclocklock")) {
			soon = in(CLOCK_MONOTONIC, 50);
			return pthread_mutex_clocklock(mutex, CLOCK_PROCESS_CPUTIME_ID, &soon);
		}
		if (!strcmp(verb, "condwait")) {
			soon = in(CLOCK_REALTIME, 50);
			return pthread_cond_timedwait(&shared->cond, mutex, &soon);
		}
	}
	if (!strcmp(name, "init")) return init();
	if (!strcmp(name, "pause")) { for (;;) pause(); }
	if (!strcmp(name, "rdlock")) return pthread_rwlock_rdlock(&shared->rwlock);
	if (!strcmp(name, "wrlock")) return pthread_rwlock_wrlock(&shared->rwlock);
	if (!strcmp(name, "tryrdlock")) return pthread_rwlock_tryrdlock(&shared->rwlock);
	if (!strcmp(name, "trywrlock")) return pthread_rwlock_trywrlock(&shared->rwlock);
	if (!strcmp(name, "unlock")) return pthread_rwlock_unlock(&shared->rwlock);
	if (!strcmp(name, "destroy-rwlock")) return pthread_rwlock_destroy(&shared->rwlock);
	if (!strcmp(name, "timedrdlock")) { soon = in(CLOCK_REALTIME, 50); return pthread_rwlock_timedrdlock(&shared->rwlock, &soon); }
	if (!strcmp(name, "timedwrlock")) { soon = in(CLOCK_REALTIME, 50); return pthread_rwlock_timedwrlock(&shared->rwlock, &soon); }
	if (!strcmp(name, "clockrdlock")) { soon = in(CLOCK_MONOTONIC, 50); return pthread_rwlock_clockrdlock(&shared->rwlock, CLOCK_MONOTONIC, &soon); }
	if (!strcmp(name, "clockwrlock")) { soon = in(CLOCK_MONOTONIC, 50); return pthread_rwlock_clockwrlock(&shared->rwlock, CLOCK_MONOTONIC, &soon); }
	if (!strcmp(name, "badwrlock")) { struct timespec none = { 1, 2000000000 }; return pthread_rwlock_timedwrlock(&shared->rwlock, &none); }
	if (!strcmp(name, "badrdlock")) { struct timespec none = { 1, -1 }; return pthread_rwlock_timedrdlock(&shared->rwlock, &none); }
	if (!strcmp(name, "pastwrlock")) { struct timespec past = { -5, 0 }; return pthread_rwlock_timedwrlock(&shared->rwlock, &past); }
	if (!strcmp(name, "badclockrdlock")) { soon = in(CLOCK_MONOTONIC, 50); return pthread_rwlock_clockrdlock(&shared->rwlock, CLOCK_PROCESS_CPUTIME_ID, &soon); }
	if (!strcmp(name, "wait-item")) {
		int error = 0;
		while (shared->items == 0 && error == 0)
			error = pthread_cond_wait(&shared->cond, &shared->plain);
		if (!error) shared->items--;
		return error;
	}
	if (!strcmp(name, "timedwait")) {
		int error = 0;
		soon = in(CLOCK_REALTIME, 50);
		while (error == 0) error = pthread_cond_timedwait(&shared->cond, &shared->plain, &soon);
		return error;
	}
	if (!strcmp(name, "timedwait-monotonic")) {
		int error = 0;
		soon = in(CLOCK_MONOTONIC, 50);
		while (error == 0) error = pthread_cond_timedwait(&shared->monotonic, &shared->plain, &soon);
		return error;
	}
	if (!strcmp(name, "clockwait")) {
		int error = 0;
		soon = in(CLOCK_MONOTONIC, 50);
		while (error == 0) error = pthread_cond_clockwait(&shared->cond, &shared->plain, CLOCK_MONOTONIC, &soon);
		return error;
	}
	if (!strcmp(name, "badwait")) { struct timespec none = { 1, -1 }; return pthread_cond_timedwait(&shared->cond, &shared->plain, &none); }
	if (!strcmp(name, "badclockwait")) { soon = in(CLOCK_MONOTONIC, 50); return pthread_cond_clockwait(&shared->cond, &shared->plain, CLOCK_PROCESS_CPUTIME_ID, &soon); }
	if (!strcmp(name, "pastwait")) { struct timespec past = { -5, 0 }; return pthread_cond_timedwait(&shared->cond, &shared->plain, &past); }
	if (!strcmp(name, "add-item")) return shared->items++, 0;
	if (!strcmp(name, "signal")) return pthread_cond_signal(&shared->cond);
	if (!strcmp(name, "broadcast")) return pthread_cond_broadcast(&shared->cond);
	if (!strcmp(name, "destroy-cond")) return pthread_cond_destroy(&shared->cond);
	if (!strncmp(name, "cancel-", 7)) return cancel(name + 7);
	if (!strcmp(name, "thread-ends")) return thread_ends();
	if (!strcmp(name, "private")) return private_locks();
	/* What the child of a fork may do with its parent's locks. */
	if (!strcmp(name, "child-unlocks")) {
		int status;
		pid_t child = fork();
		if (child == 0) _exit(pthread_rwlock_unlock(&shared->rwlock));
		waitpid(child, &status, 0);
		return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	}
	fprintf(stderr, "steps: no step %s\n", name);
	exit(2);
}

int main(int count, char **args)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	int file = open(args[1], O_RDWR | O_CREAT, 0600);
	if (file < 0 || ftruncate(file, 4096)) return 2;
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (shared == MAP_FAILED) return 2;
	for (int i = 2; i < count; i++) {
		if (!strcmp(args[i], "pause")) puts("pause");
		say(args[i], step(args[i]));
	}
	return 0;
}
