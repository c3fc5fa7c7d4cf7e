/* C = alpha A A^T + beta C, its lower triangle */
#include "kernel.h"

#ifndef M
#define M 40
#endif
#ifndef N
#define N 48
#endif

static ALIGNED double A[N][M], C[N][N];
OUTPUT(C)

EXPORT void setup(void) {
    FILL(A); FILL(C);
}

KERNEL void syrk(void) {
    const double alpha = 1.5, beta = 1.2;
    for (int i = 0; i < N; i++) {
        for (int j = 0; j <= i; j++) C[i][j] *= beta;
        for (int k = 0; k < M; k++)
            for (int j = 0; j <= i; j++) C[i][j] += alpha * A[i][k] * A[j][k];
    }
}
