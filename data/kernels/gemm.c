/* C = alpha A B + beta C */
#include "kernel.h"

#ifndef N
#define N 48
#endif

static ALIGNED double A[N][N], B[N][N], C[N][N];
OUTPUT(C)

EXPORT void setup(void) {
    FILL(A); FILL(B); FILL(C);
}

KERNEL void gemm(void) {
    const double alpha = 1.5, beta = 1.2;
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) C[i][j] *= beta;
        for (int k = 0; k < N; k++)
            for (int j = 0; j < N; j++) C[i][j] += alpha * A[i][k] * B[k][j];
    }
}
