/* Included first in each file of glibc's test support, which is compiled outside glibc's tree. */
#define _GNU_SOURCE 1
#include <limits.h>
#define IS_IN(library) 0
