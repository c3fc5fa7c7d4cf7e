/* a 9-point stencil in place (Gauss-Seidel) */
#include "kernel.h"

#ifndef N
#define N 50
#endif
#ifndef STEPS
#define STEPS 8
#endif

static ALIGNED double A[N][N];
OUTPUT(A)

EXPORT void setup(void) {
    FILL(A);
}

KERNEL void seidel_2d(void) {
    for (int t = 0; t < STEPS; t++)
        for (int i = 1; i < N - 1; i++)
            for (int j = 1; j < N - 1; j++)
                A[i][j] = (A[i - 1][j - 1] + A[i - 1][j] + A[i - 1][j + 1] + A[i][j - 1] + A[i][j] + A[i][j + 1] +
                           A[i + 1][j - 1] + A[i + 1][j] + A[i + 1][j + 1]) / 9;
}
