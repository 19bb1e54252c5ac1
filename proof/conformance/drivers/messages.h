/* What the drivers of C and C++ have in common: how commands and answers write messages. */
#ifndef MESSAGES_H
#define MESSAGES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* `SIZE*SEED`: byte i is (SEED + i) % 251. */
static inline void pattern(unsigned char *to, size_t size, uint64_t seed) {
    unsigned byte = (unsigned)(seed % 251);
    for (size_t at = 0; at < size; at++) {
        to[at] = (unsigned char)byte;
        byte = byte == 250 ? 0 : byte + 1;
    }
}

static inline int is_pattern(const void *data, size_t size, uint64_t seed) {
    const unsigned char *bytes = (const unsigned char *)data;
    unsigned byte = (unsigned)(seed % 251);
    for (size_t at = 0; at < size; at++) {
        if (bytes[at] != byte) return 0;
        byte = byte == 250 ? 0 : byte + 1;
    }
    return 1;
}

/* A message as an answer says it: up to 16 letters as they are, others by their pattern. */
static inline void show(char shown[64], const void *data, size_t size) {
    const unsigned char *bytes = (const unsigned char *)data;
    int letters = size >= 1 && size <= 16;
    for (size_t at = 0; letters && at < size; at++) letters = bytes[at] > 0x20 && bytes[at] < 0x7f;
    if (letters) snprintf(shown, 64, "%.*s", (int)size, (const char *)bytes);
    else if (is_pattern(data, size, size > 0 ? bytes[0] : 0)) snprintf(shown, 64, "%zu*%d", size, size > 0 ? bytes[0] : 0);
    else snprintf(shown, 64, "%zu*broken", size);
}

/* Milliseconds of the clock, for loops with an end. */
static inline uint64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

#endif
