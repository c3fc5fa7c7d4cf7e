/* A = L L^T, in place */
#include "kernel.h"

#ifndef N
#define N 64
#endif

static ALIGNED double A[N][N];
OUTPUT(A)

EXPORT void setup(void) {
    FILL(A);
    for (int i = 0; i < N; i++) /* symmetric, and positive definite by its diagonal */
        for (int j = 0; j <= i; j++) A[i][j] = A[j][i] = i == j ? 2.0 * N : A[i][j];
}

KERNEL void cholesky(void) {
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < i; j++) {
            for (int k = 0; k < j; k++) A[i][j] -= A[i][k] * A[j][k];
            A[i][j] /= A[j][j];
        }
        for (int k = 0; k < i; k++) A[i][i] -= A[i][k] * A[i][k];
        A[i][i] = SQRT(A[i][i]);
    }
}
