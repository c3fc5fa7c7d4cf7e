/* stores to L1 and little else */
#include "kernel.h"

#ifndef COUNT
#define COUNT 400
#endif
#ifndef SIZE
#define SIZE 1024
#endif

static ALIGNED long target[SIZE];
OUTPUT(target)

EXPORT void setup(void) {
    for (int i = 0; i < SIZE; i++) target[i] = 0;
}

KERNEL void store_bound(void) {
    volatile long *p = target;
    for (long i = 0; i < COUNT; i++) {
        p[0] = i; p[1] = i; p[2] = i; p[3] = i; p[4] = i; p[5] = i; p[6] = i; p[7] = i;
        p = p + 8 == target + SIZE ? target : p + 8;
    }
}
