/* a chain of dependent integer additions: one cycle each */
#include "kernel.h"

#ifndef COUNT
#define COUNT 4000
#endif

static ALIGNED unsigned long result[1];
OUTPUT(result)

EXPORT void setup(void) {
    result[0] = 1;
}

KERNEL void latency_add(void) {
    unsigned long x = result[0], n = COUNT / 8;
    do {
        KEEP(x); x += 3; KEEP(x); x += 3; KEEP(x); x += 3; KEEP(x); x += 3;
        KEEP(x); x += 3; KEEP(x); x += 3; KEEP(x); x += 3; KEEP(x); x += 3;
    } while (--n);
    result[0] = x;
}
