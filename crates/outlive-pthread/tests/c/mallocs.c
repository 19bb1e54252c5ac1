/* A program with an allocator of its own, which locks: a library in front of libc must not allocate
 * on the way to a lock. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void __libc_free(void *);

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile long calls;

#define LOCKED(kind, call) { pthread_mutex_lock(&mutex); calls++; kind call; pthread_mutex_unlock(&mutex); RETURN }
#define RETURN return p;
void *malloc(size_t size) LOCKED(void *p =, __libc_malloc(size))
void *calloc(size_t count, size_t size) LOCKED(void *p =, __libc_calloc(count, size))
void *realloc(void *old, size_t size) LOCKED(void *p =, __libc_realloc(old, size))
#undef RETURN
#define RETURN
void free(void *old) LOCKED(, __libc_free(old))

int main(void)
{
	void *volatile something = malloc(10);
	free(something);
	pthread_rwlockattr_t attr;
	pthread_rwlock_t *rwlock = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	int error = pthread_rwlock_init(rwlock, &attr) | pthread_rwlock_rdlock(rwlock) | pthread_rwlock_unlock(rwlock)
		| pthread_rwlock_wrlock(rwlock) | pthread_rwlock_unlock(rwlock);
	printf("%d %s\n", error, calls ? "allocated" : "never asked");
	return error;
}
