/* y[i] = 2 x[i] where x[i] > 1/2: masked vector accesses */
#include "kernel.h"

#ifndef N
#define N 2048
#endif

static ALIGNED double x[N], y[N];
OUTPUT(y)

EXPORT void setup(void) {
    FILL(x); FILL(y);
}

KERNEL void masked_update(void) {
    for (int i = 0; i < N; i++)
        if (x[i] > 0.5) y[i] = 2 * x[i];
}
