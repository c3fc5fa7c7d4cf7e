/* D = alpha A B C + beta D */
#include "kernel.h"

#ifndef N
#define N 40
#endif

static ALIGNED double A[N][N], B[N][N], C[N][N], D[N][N], T[N][N];
OUTPUT(D)

EXPORT void setup(void) {
    FILL(A); FILL(B); FILL(C); FILL(D);
}

KERNEL void kernel_2mm(void) {
    const double alpha = 1.5, beta = 1.2;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            T[i][j] = 0;
            for (int k = 0; k < N; k++) T[i][j] += alpha * A[i][k] * B[k][j];
        }
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            D[i][j] *= beta;
            for (int k = 0; k < N; k++) D[i][j] += T[i][k] * C[k][j];
        }
}
