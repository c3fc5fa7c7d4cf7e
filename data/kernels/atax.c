/* y = A^T (A x) */
#include "kernel.h"

#ifndef M
#define M 116
#endif
#ifndef N
#define N 124
#endif

static ALIGNED double A[M][N], x[N], y[N], t[M];
OUTPUT(y)

EXPORT void setup(void) {
    FILL(A); FILL(x);
}

KERNEL void atax(void) {
    for (int j = 0; j < N; j++) y[j] = 0;
    for (int i = 0; i < M; i++) {
        t[i] = 0;
        for (int j = 0; j < N; j++) t[i] += A[i][j] * x[j];
        for (int j = 0; j < N; j++) y[j] += A[i][j] * t[i];
    }
}
