/* Workers use a mutex, a reader-writer lock and a condition variable as hard as they can; one of
 * them is killed, again and again. A program that knows pthread and nothing else.
 *
 *     storm FILE KILLS PATIENCE     (seconds)
 *
 * No worker may be inside beside a writer, or beside another holder of the mutex that was not about
 * to be killed, and all must go on after each kill. Says `KILLS TURNS`, or what went wrong.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORKERS 5

struct shared {
	pthread_mutex_t mutex;
	pthread_rwlock_t rwlock;
	pthread_cond_t cond;
	volatile int in_mutex, writing, reading[WORKERS]; /* life and worker, 0 is none */
	volatile int doomed[WORKERS];                     /* this life, or an earlier one, is over, or will be at once */
	volatile unsigned turns[WORKERS];
	volatile int items;
	char wrong[100];
};

static struct shared *shared;

static int name(int worker, int life) { return life * WORKERS + worker; }
static int lives(int who) { return who && who / WORKERS > shared->doomed[who % WORKERS]; }

static void check(int who, const char *wrong)
{
	__sync_synchronize();
	if (lives(who)) {
		strcpy(shared->wrong, wrong);
		kill(getppid(), SIGUSR1);
		pause();
	}
}

/* No lock may be refused. */
static void must(int error, const char *what)
{
	if (error) {
		sprintf(shared->wrong, "%s: error %d", what, error);
		kill(getppid(), SIGUSR1);
		pause();
	}
}

static void work(int worker, int life)
{
	unsigned seed = name(worker, life) * 2654435761u;
	int me = name(worker, life);
	for (;;) {
		int what = rand_r(&seed) % 5;
		/* The first worker only brings: so there always is one that does. */
		if (what == 1 && worker == 0) what = 0;
		if (what < 2) {
			must(pthread_mutex_lock(&shared->mutex), "lock");
			check(shared->in_mutex, "two in the mutex");
			shared->in_mutex = me;
			if (what == 0) {
				shared->items++;
				shared->in_mutex = 0;
				pthread_cond_signal(&shared->cond);
			} else {
				while (shared->items == 0) {
					shared->in_mutex = 0;
					must(pthread_cond_wait(&shared->cond, &shared->mutex), "wait");
					check(shared->in_mutex, "two in the mutex after a wait");
					shared->in_mutex = me;
				}
				shared->items--;
				shared->in_mutex = 0;
			}
			must(pthread_mutex_unlock(&shared->mutex), "unlock of the mutex");
		} else if (what < 4) {
			must(pthread_rwlock_rdlock(&shared->rwlock), "rdlock");
			shared->reading[worker] = me;
			check(shared->writing, "a reader beside a writer");
			if (what == 3) {
				must(pthread_rwlock_rdlock(&shared->rwlock), "rdlock");
				must(pthread_rwlock_unlock(&shared->rwlock), "unlock");
			}
			shared->reading[worker] = 0;
			must(pthread_rwlock_unlock(&shared->rwlock), "unlock");
		} else {
			must(pthread_rwlock_wrlock(&shared->rwlock), "wrlock");
			check(shared->writing, "two writers");
			shared->writing = me;
			__sync_synchronize();
			for (int i = 0; i < WORKERS; i++)
				check(shared->reading[i], "a writer beside a reader");
			shared->writing = 0;
			must(pthread_rwlock_unlock(&shared->rwlock), "unlock");
		}
		shared->turns[worker]++;
	}
}

static pid_t start(int worker, int life)
{
	pid_t parent = getpid(), pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent) _exit(0);
		work(worker, life);
	}
	return pid;
}

static void wrong(int signal)
{
	(void)signal;
	dprintf(1, "FAILED %s\n", shared->wrong[0] ? shared->wrong : "HANG");
	_exit(1);
}

static unsigned turns(void)
{
	unsigned all = 0;
	for (int i = 0; i < WORKERS; i++) all += shared->turns[i];
	return all;
}

int main(int count, char **args)
{
	if (count != 4) return 2;
	int file = open(args[1], O_RDWR | O_CREAT, 0600);
	if (file < 0 || ftruncate(file, 4096)) return 2;
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (shared == MAP_FAILED) return 2;
	memset(shared, 0, sizeof *shared);
	pthread_mutexattr_t mutex;
	pthread_rwlockattr_t rwlock;
	pthread_condattr_t cond;
	pthread_mutexattr_init(&mutex);
	pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
	pthread_rwlockattr_init(&rwlock);
	pthread_rwlockattr_setpshared(&rwlock, PTHREAD_PROCESS_SHARED);
	pthread_condattr_init(&cond);
	pthread_condattr_setpshared(&cond, PTHREAD_PROCESS_SHARED);
	if (pthread_mutex_init(&shared->mutex, &mutex) || pthread_rwlock_init(&shared->rwlock, &rwlock)
	    || pthread_cond_init(&shared->cond, &cond))
		return 2;
	signal(SIGUSR1, wrong);
	signal(SIGALRM, wrong);
	shared->items = 1000;
	pid_t pids[WORKERS];
	int life[WORKERS];
	for (int i = 0; i < WORKERS; i++) pids[i] = start(i, life[i] = 1);
	long kills = atol(args[2]);
	unsigned seed = 7;
	for (long n = 0; n < kills; n++) {
		struct timespec t = { 0, rand_r(&seed) % 2000000 };
		nanosleep(&t, NULL);
		int i = rand_r(&seed) % WORKERS;
		shared->doomed[i] = life[i];
		__sync_synchronize();
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
		shared->items += 10; /* what the dead one would have brought: the recheck finds it */
		pids[i] = start(i, ++life[i]);
		unsigned before[WORKERS];
		memcpy(before, (void *)shared->turns, sizeof before);
		alarm(atoi(args[3]));
		for (int k = 0; k < WORKERS; k++)
			while (shared->turns[k] == before[k]) usleep(20);
		alarm(0);
	}
	for (int i = 0; i < WORKERS; i++) shared->doomed[i] = life[i];
	__sync_synchronize();
	for (int i = 0; i < WORKERS; i++) kill(pids[i], SIGKILL), waitpid(pids[i], NULL, 0);
	printf("%ld %u\n", kills, turns());
	return 0;
}
