/* y[i] = x[which[i]], random indices */
#include "kernel.h"

#ifndef N
#define N 2048
#endif

static ALIGNED double x[N], y[N];
static ALIGNED int which[N];
OUTPUT(y)

EXPORT void setup(void) {
    FILL(x); for (int i = 0; i < N; i++) which[i] = (int)(next() * N);
}

KERNEL void gather(void) {
    for (int i = 0; i < N; i++) y[i] = x[which[i]];
}
