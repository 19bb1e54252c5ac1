/* Kills a process at every instruction of what it does with a lock, or at as many as asked for,
 * evenly spread, and sees whether the others go on. A program that knows pthread and ptrace and
 * nothing else.
 *
 *     everywhere FILE OPERATION MOST [MS]
 *
 * With MS the process is left stopped there first, and where the mutex is free, the other has to
 * get on beside it, within so many milliseconds.
 *
 * Each life: the locks are initialised anew; the victim, a fork, gets to where the operation
 * begins; another process falls asleep beside it, if the operation has one; the victim is stepped N
 * instructions on and killed. A step that sleeps is a point of its own; to come past it, the victim
 * is helped. Says `OPERATION INSTRUCTIONS KILLS`, or what went wrong.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct shared {
	pthread_mutex_t mutex;
	pthread_rwlock_t rwlock;
	pthread_cond_t cond;
	volatile int items, ready;
};

static struct shared *shared;
static long patience;
/* How many times as long everything may take: the machine is so busy. */
static long stretch = 1;
static int free_beside;

static void init(void)
{
	pthread_mutexattr_t mutex;
	pthread_rwlockattr_t rwlock;
	pthread_condattr_t cond;
	pthread_mutexattr_init(&mutex);
	pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
	pthread_rwlockattr_init(&rwlock);
	pthread_rwlockattr_setpshared(&rwlock, PTHREAD_PROCESS_SHARED);
	pthread_condattr_init(&cond);
	pthread_condattr_setpshared(&cond, PTHREAD_PROCESS_SHARED);
	memset(shared, 0, sizeof *shared);
	if (pthread_mutex_init(&shared->mutex, &mutex) || pthread_rwlock_init(&shared->rwlock, &rwlock)
	    || pthread_cond_init(&shared->cond, &cond))
		exit(2);
}

static int nothing(void) { return 0; }
static int lock(void) { return pthread_mutex_lock(&shared->mutex); }
static int unlock(void) { return pthread_mutex_unlock(&shared->mutex); }
static int lock_unlock(void) { return lock() | unlock(); }
static int timedlock_unlock(void)
{
	struct timespec late;
	clock_gettime(CLOCK_REALTIME, &late);
	late.tv_sec += 600;
	return pthread_mutex_timedlock(&shared->mutex, &late) | unlock();
}
static int rdlock(void) { return pthread_rwlock_rdlock(&shared->rwlock); }
static int wrlock(void) { return pthread_rwlock_wrlock(&shared->rwlock); }
static int rwunlock(void) { return pthread_rwlock_unlock(&shared->rwlock); }
static int rd_unlock(void) { return rdlock() | rwunlock(); }
static int wr_unlock(void) { return wrlock() | rwunlock(); }
static int rd_wr_unlock(void) { return rd_unlock() | wr_unlock(); }
static int notify(void) { return pthread_cond_signal(&shared->cond); }
static int wait_once(void) { return pthread_cond_wait(&shared->cond, &shared->mutex); }
static int take_item(void)
{
	lock();
	while (!shared->items)
		pthread_cond_wait(&shared->cond, &shared->mutex);
	shared->items--;
	return unlock();
}
static int bring_item(void)
{
	lock();
	shared->items++;
	return unlock() | notify();
}

struct operation {
	const char *name;
	int (*before)(void);     /* the victim, to begin with */
	int (*beside)(void);     /* another process, asleep before the victim goes on; ends afterwards */
	int (*operation)(void);  /* the victim: here it is killed */
	int (*hold)(void);       /* the parent, before all that */
	int (*help)(void);       /* the parent, when the victim sleeps and is to go on, and at last if it has not done it */
	int (*after)(void);      /* the parent, when the victim is dead, for the other's sake */
};

static const struct operation operations[] = {
	{ "mutex", nothing, NULL, lock_unlock, nothing, nothing, nothing },
	{ "mutex-unlock", lock, lock_unlock, unlock, nothing, nothing, nothing },
	{ "mutex-unlock-timed", lock, timedlock_unlock, unlock, nothing, nothing, nothing },
	{ "mutex-wait", nothing, lock_unlock, lock_unlock, lock, unlock, nothing },
	{ "read", nothing, NULL, rd_unlock, nothing, nothing, nothing },
	{ "write", nothing, NULL, wr_unlock, nothing, nothing, nothing },
	{ "read-unlock", rdlock, wr_unlock, rwunlock, nothing, nothing, nothing },
	{ "write-unlock", wrlock, rd_wr_unlock, rwunlock, nothing, nothing, nothing },
	{ "read-wait", nothing, wr_unlock, rd_unlock, wrlock, rwunlock, nothing },
	{ "write-wait", nothing, rd_wr_unlock, wr_unlock, rdlock, rwunlock, nothing },
	{ "signal", nothing, take_item, bring_item, nothing, nothing, bring_item },
	{ "cond-wait", lock, take_item, wait_once, nothing, notify, bring_item },
};

static long now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int is_asleep(pid_t pid)
{
	char path[64];
	long call = -1;
	snprintf(path, sizeof path, "/proc/%d/syscall", pid);
	FILE *file = fopen(path, "r");
	if (file) {
		if (fscanf(file, "%ld", &call) != 1) call = -1;
		fclose(file);
	}
	return call == 202 || call == 449 || call == 98; /* futex, futex_waitv; futex on aarch64 */
}

static void circles(int signal)
{
	static const char said[] = "FAILED somewhere: HANG: a survivor runs in a circle\n";
	(void)signal;
	if (write(1, said, sizeof said - 1)) _exit(1);
	_exit(1);
}

static int failed(const char *what, const char *name, long point)
{
	printf("FAILED %s at instruction %ld: %s\n", name, point, what);
	return 1;
}

/* One life; *steps is how far it came. */
static int live(const struct operation *o, long point, long *steps)
{
	int status, helped = 0;
	pid_t other = 0;
	init();
	o->hold();
	pid_t victim = fork();
	if (victim == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* What is done for the first time in a process is done before. */
		if (pthread_rwlock_tryrdlock(&shared->rwlock) == 0) rwunlock();
		if (pthread_mutex_trylock(&shared->mutex) == 0) unlock();
		int error = o->before();
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		error |= o->operation();
		raise(SIGSTOP);
		_exit(error);
	}
	waitpid(victim, &status, 0);
	if (!WIFSTOPPED(status)) return failed("the victim did not begin", o->name, point);
	if (o->beside) {
		long by = now_ms() + 10000 * stretch;
		other = fork();
		if (other == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			_exit(o->beside());
		}
		while (!is_asleep(other))
			if (now_ms() > by) return failed("the other does not sleep", o->name, point);
			else usleep(20);
	}
	for (*steps = 0; *steps < point; ++*steps) {
		ptrace(PTRACE_SINGLESTEP, victim, 0, 0);
		long by = 0, late = now_ms() + 10000 * stretch;
		int asleep = 0, looks = 0;
		while (waitpid(victim, &status, WNOHANG) == 0) {
			if (++looks < 100) { sched_yield(); continue; }
			usleep(200);
			if (now_ms() > late) return failed("HANG: the victim sleeps on", o->name, point);
			if (!is_asleep(victim)) { asleep = 0; continue; }
			/* For a while: a call that returns at once looks the same for a moment. */
			if (!asleep) asleep = 1, by = now_ms() + 3;
			else if (now_ms() > by) {
				if (*steps + 1 >= point) { ++*steps; goto kill; }
				/* Once; then the others do what is needed. */
				asleep = 0;
				if (helped++) continue;
				++*steps;
				o->help();
			}
		}
		if (WIFEXITED(status)) return failed("the victim ended", o->name, point);
		if (WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP) break;
		if (WIFSTOPPED(status) && WSTOPSIG(status) != SIGTRAP) return failed("a strange stop", o->name, point);
	}
kill:
	/* glibc's word: the owner's thread id, and a bit for sleepers. */
	if (patience && other && *(volatile unsigned *)&shared->mutex == 0) {
		long by = now_ms() + patience;
		while (waitpid(other, &status, WNOHANG) == 0)
			if (now_ms() > by) {
				kill(other, SIGKILL);
				return failed("HANG: the other sleeps beside a free mutex", o->name, point);
			} else usleep(50);
		if (!WIFEXITED(status) || WEXITSTATUS(status)) return failed("the other had an error", o->name, point);
		other = 0;
		free_beside++;
	}
	kill(victim, SIGKILL);
	waitpid(victim, &status, 0);
	if (!helped) o->help();
	o->after();
	if (other) {
		long by = now_ms() + 5000 * stretch;
		while (waitpid(other, &status, WNOHANG) == 0)
			if (now_ms() > by) { kill(other, SIGKILL); return failed("HANG: the other sleeps on", o->name, point); }
			else usleep(50);
		if (!WIFEXITED(status) || WEXITSTATUS(status)) return failed("the other had an error", o->name, point);
	}
	struct timespec soon;
	clock_gettime(CLOCK_REALTIME, &soon);
	soon.tv_sec += 2 * stretch;
	/* libc's own lock may run in a circle after a death, and look at no clock. */
	alarm(5 * stretch);
	if (pthread_mutex_timedlock(&shared->mutex, &soon) || unlock()) return failed("HANG: mutex", o->name, point);
	if (pthread_rwlock_timedwrlock(&shared->rwlock, &soon) || rwunlock()) return failed("HANG: to write", o->name, point);
	if (pthread_rwlock_timedrdlock(&shared->rwlock, &soon) || rwunlock()) return failed("HANG: to read", o->name, point);
	alarm(0);
	return 0;
}

int main(int count, char **args)
{
	if (count < 4 || count > 5) return 2;
	if (getenv("OUTLIVE_TEST_STRETCH")) stretch = atol(getenv("OUTLIVE_TEST_STRETCH"));
	if (count == 5) patience = atol(args[4]);
	signal(SIGALRM, circles);
	int file = open(args[1], O_RDWR | O_CREAT, 0600);
	if (file < 0 || ftruncate(file, 4096)) return 2;
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (shared == MAP_FAILED) return 2;
	for (unsigned i = 0; i < sizeof operations / sizeof *operations; i++) {
		const struct operation *o = &operations[i];
		long length, steps, kills = 0, most = atol(args[3]);
		if (strcmp(args[2], o->name)) continue;
		if (live(o, 1000000, &length)) return 1;
		for (long n = 0; n < most; n++) {
			long point = length <= most ? n : n * length / most;
			if (point > length) break;
			if (live(o, point, &steps)) return 1;
			kills++;
		}
		if (patience && free_beside < 2) { printf("FAILED %s: free at %d instructions only\n", o->name, free_beside); return 1; }
		printf("%s %ld %ld\n", o->name, length, kills);
		return 0;
	}
	return 2;
}
