/* The victim's own side, in C: it says when its operation begins and ends. engine/control.rs has
 * the page, engine/victim.rs the process that reads it. */
#ifndef OUTLIVE_TESTKIT_STAGE_H
#define OUTLIVE_TESTKIT_STAGE_H

#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ControlPage. */
struct stage {
	uint32_t phase, tid;
	uint64_t acknowledged, notes[8];
};

enum { STAGE_BEGUN = 1, STAGE_ENDED = 2 };

/* NULL: there is no such page. */
static inline struct stage *stage_enter(const char *file)
{
	int fd = open(file, O_RDWR);
	void *page = fd < 0 ? MAP_FAILED : mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return page == MAP_FAILED ? NULL : page;
}

/* The next instruction is the operation's first. Stops until the engine takes over. */
static inline void stage_begin(struct stage *stage)
{
	__atomic_store_n(&stage->tid, (uint32_t)syscall(SYS_gettid), __ATOMIC_SEQ_CST);
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	raise(SIGSTOP);
	__atomic_store_n(&stage->phase, STAGE_BEGUN, __ATOMIC_SEQ_CST);
}

/* The operation has returned. */
static inline void stage_end(struct stage *stage)
{
	__atomic_store_n(&stage->phase, STAGE_ENDED, __ATOMIC_SEQ_CST);
}

#endif
