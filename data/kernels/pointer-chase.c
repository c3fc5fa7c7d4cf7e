/* a chain of loads through a random cycle of pointers */
#include "kernel.h"

#ifndef N
#define N 1024
#endif
#ifndef COUNT
#define COUNT 2000
#endif

static ALIGNED void *ring[N];
static ALIGNED long order[N], result[1];
OUTPUT(result)

EXPORT void setup(void) {
    for (int i = 0; i < N; i++) order[i] = i;
    for (int i = N - 1; i > 0; i--) { /* Sattolo's shuffle makes one cycle of all */
        int j = (int)(next() * i);
        long t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
    for (int i = 0; i < N; i++) ring[order[i]] = &ring[order[(i + 1) % N]];
}

KERNEL void pointer_chase(void) {
    void **p = ring;
    for (int i = 0; i < COUNT; i++) p = (void **)*p;
    result[0] = (void **)p - ring;
}
