/* A + u1 v1^T + u2 v2^T, then two products with vectors */
#include "kernel.h"

#ifndef N
#define N 100
#endif

static ALIGNED double A[N][N], u1[N], v1[N], u2[N], v2[N], w[N], x[N], y[N], z[N];
OUTPUT(w)

EXPORT void setup(void) {
    FILL(A); FILL(u1); FILL(v1); FILL(u2); FILL(v2); FILL(x); FILL(y); FILL(z);
}

KERNEL void gemver(void) {
    const double alpha = 1.5, beta = 1.2;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) A[i][j] += u1[i] * v1[j] + u2[i] * v2[j];
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) x[i] += beta * A[j][i] * y[j];
    for (int i = 0; i < N; i++) x[i] += z[i];
    for (int i = 0; i < N; i++) {
        w[i] = 0;
        for (int j = 0; j < N; j++) w[i] += alpha * A[i][j] * x[j];
    }
}
