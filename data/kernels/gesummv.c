/* y = alpha A x + beta B x */
#include "kernel.h"

#ifndef N
#define N 100
#endif

static ALIGNED double A[N][N], B[N][N], x[N], y[N], t[N];
OUTPUT(y)

EXPORT void setup(void) {
    FILL(A); FILL(B); FILL(x);
}

KERNEL void gesummv(void) {
    const double alpha = 1.5, beta = 1.2;
    for (int i = 0; i < N; i++) {
        t[i] = 0;
        y[i] = 0;
        for (int j = 0; j < N; j++) {
            t[i] += A[i][j] * x[j];
            y[i] += B[i][j] * x[j];
        }
        y[i] = alpha * t[i] + beta * y[i];
    }
}
