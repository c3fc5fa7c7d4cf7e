/* a[i] = b[i] + s c[i]: the STREAM triad */
#include "kernel.h"

#ifndef N
#define N 4096
#endif

static ALIGNED double a[N], b[N], c[N];
OUTPUT(a)

EXPORT void setup(void) {
    FILL(b); FILL(c);
}

KERNEL void triad(void) {
    const double s = 3;
    for (int i = 0; i < N; i++) a[i] = b[i] + s * c[i];
}
