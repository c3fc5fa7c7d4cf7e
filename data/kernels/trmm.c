/* B = alpha A^T B, A unit lower triangular */
#include "kernel.h"

#ifndef M
#define M 48
#endif
#ifndef N
#define N 52
#endif

static ALIGNED double A[M][M], B[M][N];
OUTPUT(B)

EXPORT void setup(void) {
    FILL(A); FILL(B);
}

KERNEL void trmm(void) {
    const double alpha = 1.5;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            for (int k = i + 1; k < M; k++) B[i][j] += A[k][i] * B[k][j];
            B[i][j] *= alpha;
        }
}
