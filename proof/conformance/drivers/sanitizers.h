/* What the sanitizers ask a program of, once: the `main` of each driver includes it. */
#ifndef SANITIZERS_H
#define SANITIZERS_H

#if defined(__SANITIZE_ADDRESS__)
#ifdef __cplusplus
extern "C" {
#endif
/* A thread's cache of a pool hangs on a page of its own, which a fork wipes and the leak sanitizer
 * does not read. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:outlive::pool"; }
/* Frames of the library are seen whatever it was compiled with. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "fast_unwind_on_malloc=0"; }
#ifdef __cplusplus
}
#endif
#endif

#endif
