/* a branch that no predictor learns */
#include "kernel.h"

#ifndef N
#define N 2048
#endif

static ALIGNED double x[N];
static ALIGNED long result[2];
OUTPUT(result)

EXPORT void setup(void) {
    FILL(x);
}

KERNEL void branchy(void) {
    long low = 0, high = 0;
    for (int i = 0; i < N; i++) {
        if (x[i] < 0.5) { low++; KEEP(low); } else { high += 3; KEEP(high); }
    }
    result[0] = low;
    result[1] = high;
}
