/* A = Q R, by the modified Gram-Schmidt process */
#include "kernel.h"

#ifndef M
#define M 48
#endif
#ifndef N
#define N 40
#endif

static ALIGNED double A[M][N], R[N][N], Q[M][N];
OUTPUT(Q)

EXPORT void setup(void) {
    FILL(A);
}

KERNEL void gramschmidt(void) {
    for (int k = 0; k < N; k++) {
        double norm = 0;
        for (int i = 0; i < M; i++) norm += A[i][k] * A[i][k];
        R[k][k] = SQRT(norm);
        for (int i = 0; i < M; i++) Q[i][k] = A[i][k] / R[k][k];
        for (int j = k + 1; j < N; j++) {
            R[k][j] = 0;
            for (int i = 0; i < M; i++) R[k][j] += Q[i][k] * A[i][j];
            for (int i = 0; i < M; i++) A[i][j] -= Q[i][k] * R[k][j];
        }
    }
}
