/* heat equation in three dimensions, a 7-point stencil */
#include "kernel.h"

#ifndef N
#define N 20
#endif
#ifndef STEPS
#define STEPS 4
#endif

static ALIGNED double A[N][N][N], B[N][N][N];
OUTPUT(A)

EXPORT void setup(void) {
    FILL(A); for (int i = 0; i < N * N * N; i++) ((double *)B)[i] = ((double *)A)[i];
}

KERNEL void heat_3d(void) {
    #define STENCIL(X, i, j, k)                                              \
        (0.125 * (X[i + 1][j][k] - 2 * X[i][j][k] + X[i - 1][j][k]) +        \
         0.125 * (X[i][j + 1][k] - 2 * X[i][j][k] + X[i][j - 1][k]) +        \
         0.125 * (X[i][j][k + 1] - 2 * X[i][j][k] + X[i][j][k - 1]) + X[i][j][k])
    for (int t = 0; t < STEPS; t++) {
        for (int i = 1; i < N - 1; i++)
            for (int j = 1; j < N - 1; j++)
                for (int k = 1; k < N - 1; k++) B[i][j][k] = STENCIL(A, i, j, k);
        for (int i = 1; i < N - 1; i++)
            for (int j = 1; j < N - 1; j++)
                for (int k = 1; k < N - 1; k++) A[i][j][k] = STENCIL(B, i, j, k);
    }
}
