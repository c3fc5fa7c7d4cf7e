/* A = L U, in place, without pivoting */
#include "kernel.h"

#ifndef N
#define N 56
#endif

static ALIGNED double A[N][N];
OUTPUT(A)

EXPORT void setup(void) {
    FILL(A); for (int i = 0; i < N; i++) A[i][i] += N; /* diagonally dominant */
}

KERNEL void lu(void) {
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < i; j++) {
            for (int k = 0; k < j; k++) A[i][j] -= A[i][k] * A[k][j];
            A[i][j] /= A[j][j];
        }
        for (int j = i; j < N; j++)
            for (int k = 0; k < i; k++) A[i][j] -= A[i][k] * A[k][j];
    }
}
