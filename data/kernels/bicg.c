/* s = A^T r and q = A p, the kernel of BiCGStab */
#include "kernel.h"

#ifndef M
#define M 116
#endif
#ifndef N
#define N 124
#endif

static ALIGNED double A[N][M], p[M], r[N], s[M], q[N];
OUTPUT(s)

EXPORT void setup(void) {
    FILL(A); FILL(p); FILL(r);
}

KERNEL void bicg(void) {
    for (int j = 0; j < M; j++) s[j] = 0;
    for (int i = 0; i < N; i++) {
        q[i] = 0;
        for (int j = 0; j < M; j++) {
            s[j] += r[i] * A[i][j];
            q[i] += A[i][j] * p[j];
        }
    }
}
