/* Finds where libc keeps a robust mutex's lock word, without knowing the mutex's layout: tokens are
 * built on that word.
 *
 *     cc -O1 -pthread robust_offset.c -o robust_offset && ./robust_offset
 *     musl-gcc -static -O1 -pthread robust_offset.c -o robust_offset_musl && ./robust_offset_musl
 *
 * The method: lock a robust, process-shared mutex, ask the kernel for the thread's robust list,
 * find the entry that lies inside the mutex, add the list's offset. The word found there must hold
 * the thread's id, the kernel must mark it when its holder is killed, and it must be the only word
 * besides the mutex's constant ones that an unlocked mutex may have set. glibc and musl answer
 * differently (0 and 4), and musl registers no list before its first robust lock.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* From linux/futex.h, which comes with one of the two libraries only. */
#define FUTEX_WAITERS 0x80000000u
#define FUTEX_OWNER_DIED 0x40000000u
#define FUTEX_TID_MASK 0x3fffffffu

struct robust_list {
    struct robust_list *next;
};

struct robust_list_head {
    struct robust_list list;
    long futex_offset;
    struct robust_list *list_op_pending;
};

static int passed, failed;

static void check(int is_so, const char *what)
{
    printf("%s: %s\n", is_so ? "ok" : "FAILED", what);
    *(is_so ? &passed : &failed) += 1;
}

static void *shared_memory(size_t bytes)
{
    return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static int make_robust(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t attribute;
    if (pthread_mutexattr_init(&attribute) || pthread_mutexattr_setpshared(&attribute, PTHREAD_PROCESS_SHARED) ||
        pthread_mutexattr_setrobust(&attribute, PTHREAD_MUTEX_ROBUST))
        return -1;
    return pthread_mutex_init(mutex, &attribute);
}

static struct robust_list_head *list_head(void)
{
    struct robust_list_head *head = NULL;
    size_t size = 0;
    return syscall(SYS_get_robust_list, 0, &head, &size) == 0 ? head : NULL;
}

/* The lock word's offset in a mutex that this thread holds; -1 when it is not found. */
static long find_word(const pthread_mutex_t *mutex)
{
    const struct robust_list_head *head = list_head();
    if (!head)
        return -1;
    const struct robust_list *entry = head->list.next;
    for (int n = 0; n < 2048 && entry != &head->list; n++) {
        /* The lowest bit marks a mutex with priority inheritance. */
        entry = (const struct robust_list *)((uintptr_t)entry & ~(uintptr_t)1);
        uintptr_t inside = (uintptr_t)entry - (uintptr_t)mutex;
        if (inside < sizeof *mutex)
            return (long)inside + head->futex_offset;
        entry = entry->next;
    }
    return -1;
}

static volatile uint32_t *word_of(pthread_mutex_t *mutex, long offset)
{
    return (volatile uint32_t *)((char *)mutex + offset);
}

/* Starts a child that takes the mutex and sleeps until it is killed; returns when it has it. */
static pid_t hold(pthread_mutex_t *mutex, volatile int *held, volatile long *offset)
{
    *held = 0;
    pid_t child = fork();
    if (child == 0) {
        int got = pthread_mutex_trylock(mutex);
        if (got == EOWNERDEAD)
            got = pthread_mutex_consistent(mutex);
        *offset = find_word(mutex);
        *held = got == 0 ? 1 : -1;
        for (;;)
            pause();
    }
    for (int waited = 0; child > 0 && *held == 0 && waited < 20000; waited++)
        usleep(1000);
    return child;
}

static void end(pid_t child)
{
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

int main(void)
{
    setbuf(stdout, NULL);
    char *memory = shared_memory(8192);
    pthread_mutex_t *mutex = (pthread_mutex_t *)memory, *second = (pthread_mutex_t *)(memory + 256);
    volatile int *held = (volatile int *)(memory + 4096);
    volatile long *offset_in_child = (volatile long *)(memory + 4160);
    check(sizeof(pthread_mutex_t) <= 48, "the mutex fits into a slot's 48 bytes");
    check(make_robust(mutex) == 0 && make_robust(second) == 0, "robust process-shared mutexes can be made");

    check(pthread_mutex_lock(mutex) == 0, "lock");
    long offset = find_word(mutex);
    printf("the lock word lies at %ld, the list's offset is %ld\n", offset, (long)list_head()->futex_offset);
    check(offset >= 0 && offset % 4 == 0 && offset + 4 <= (long)sizeof *mutex, "the lock word is found inside");
    volatile uint32_t *word = word_of(mutex, offset);
    check(*word == (uint32_t)syscall(SYS_gettid), "it holds the thread's id");
    check(pthread_mutex_lock(second) == 0 && find_word(second) == offset, "another mutex has it at the same place");
    check(find_word(mutex) == offset, "and the first is still found behind it");
    check(list_head()->list_op_pending == NULL, "nothing is pending between calls");
    pthread_mutex_unlock(second);
    pthread_mutex_unlock(mutex);
    check(*word == 0, "unlocked, it is 0");

    /* A zeroed slot becomes a mutex when the words that an initialised mutex has set are stored,
     * any number of times. */
    pthread_mutex_t fresh;
    memset(&fresh, 0, sizeof fresh);
    make_robust(&fresh);
    uint32_t words[sizeof fresh / 4];
    memcpy(words, &fresh, sizeof fresh);
    check(words[offset / 4] == 0, "an initialised mutex leaves its lock word 0");
    pthread_mutex_t *prepared = (pthread_mutex_t *)(memory + 512);
    for (size_t n = 0; n < sizeof words / 4; n++)
        if (words[n])
            ((volatile uint32_t *)prepared)[n] = words[n];
    check(pthread_mutex_trylock(prepared) == 0 && *word_of(prepared, offset) != 0, "a prepared one can be taken");
    pthread_mutex_unlock(prepared);

    for (int round = 0; round < 50 && !failed; round++) {
        pid_t child = hold(prepared, held, offset_in_child);
        int found = *held == 1 && *offset_in_child == offset;
        int busy = pthread_mutex_trylock(prepared) == EBUSY;
        int names = *word_of(prepared, offset) == (uint32_t)child;
        end(child);
        uint32_t now = *word_of(prepared, offset);
        if (round == 0) {
            check(found, "a child finds the word at the same place");
            check(busy && names, "it holds the child's id, and nobody else gets in");
        }
        if (!found || !busy || !names || (now & FUTEX_OWNER_DIED) == 0 || (now & FUTEX_TID_MASK) != 0)
            check(0, "the kernel marks the word of a killed child");
    }
    check((*word_of(prepared, offset) & FUTEX_OWNER_DIED) != 0, "the kernel marks the word of a killed child");

    /* The waiters' bit, set from outside, survives the mark. */
    pid_t child = hold(prepared, held, offset_in_child);
    __atomic_fetch_or(word_of(prepared, offset), FUTEX_WAITERS, __ATOMIC_SEQ_CST);
    end(child);
    check(*word_of(prepared, offset) == (FUTEX_WAITERS | FUTEX_OWNER_DIED), "a waiters' bit set from outside stays");
    check(pthread_mutex_trylock(prepared) == EOWNERDEAD, "libc tells the death to the next");
    check(pthread_mutex_consistent(prepared) == 0 && pthread_mutex_unlock(prepared) == 0, "and the mutex is whole again");

    printf("%d passed, %d failed\n", passed, failed);
    return failed ? 1 : 0;
}
