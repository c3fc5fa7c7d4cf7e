/* a 5-point stencil, to and fro */
#include "kernel.h"

#ifndef N
#define N 60
#endif
#ifndef STEPS
#define STEPS 8
#endif

static ALIGNED double A[N][N], B[N][N];
OUTPUT(A)

EXPORT void setup(void) {
    FILL(A); FILL(B);
}

KERNEL void jacobi_2d(void) {
    for (int t = 0; t < STEPS; t++) {
        for (int i = 1; i < N - 1; i++)
            for (int j = 1; j < N - 1; j++)
                B[i][j] = 0.2 * (A[i][j] + A[i][j - 1] + A[i][j + 1] + A[i + 1][j] + A[i - 1][j]);
        for (int i = 1; i < N - 1; i++)
            for (int j = 1; j < N - 1; j++)
                A[i][j] = 0.2 * (B[i][j] + B[i][j - 1] + B[i][j + 1] + B[i + 1][j] + B[i - 1][j]);
    }
}
