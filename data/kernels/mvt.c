/* x1 += A u and x2 += A^T v */
#include "kernel.h"

#ifndef N
#define N 120
#endif

static ALIGNED double A[N][N], x1[N], x2[N], u[N], v[N];
OUTPUT(x2)

EXPORT void setup(void) {
    FILL(A); FILL(x1); FILL(x2); FILL(u); FILL(v);
}

KERNEL void mvt(void) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) x1[i] += A[i][j] * u[j];
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) x2[i] += A[j][i] * v[j];
}
