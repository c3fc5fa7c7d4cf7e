/* C = alpha A B + beta C, A symmetric, its lower triangle stored */
#include "kernel.h"

#ifndef M
#define M 44
#endif
#ifndef N
#define N 48
#endif

static ALIGNED double A[M][M], B[M][N], C[M][N];
OUTPUT(C)

EXPORT void setup(void) {
    FILL(A); FILL(B); FILL(C);
}

KERNEL void symm(void) {
    const double alpha = 1.5, beta = 1.2;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            double t = 0;
            for (int k = 0; k < i; k++) {
                C[k][j] += alpha * B[i][j] * A[i][k];
                t += B[k][j] * A[i][k];
            }
            C[i][j] = beta * C[i][j] + alpha * B[i][j] * A[i][i] + alpha * t;
        }
}
