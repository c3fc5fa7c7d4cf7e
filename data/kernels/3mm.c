/* G = (A B) (C D) */
#include "kernel.h"

#ifndef N
#define N 36
#endif

static ALIGNED double A[N][N], B[N][N], C[N][N], D[N][N], E[N][N], F[N][N], G[N][N];
OUTPUT(G)

EXPORT void setup(void) {
    FILL(A); FILL(B); FILL(C); FILL(D);
}

KERNEL void kernel_3mm(void) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            E[i][j] = 0;
            for (int k = 0; k < N; k++) E[i][j] += A[i][k] * B[k][j];
        }
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            F[i][j] = 0;
            for (int k = 0; k < N; k++) F[i][j] += C[i][k] * D[k][j];
        }
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            G[i][j] = 0;
            for (int k = 0; k < N; k++) G[i][j] += E[i][k] * F[k][j];
        }
}
