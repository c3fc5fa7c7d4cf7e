/* solve L x = b, L lower triangular */
#include "kernel.h"

#ifndef N
#define N 200
#endif

static ALIGNED double L[N][N], x[N], b[N];
OUTPUT(x)

EXPORT void setup(void) {
    FILL(L); FILL(b); for (int i = 0; i < N; i++) L[i][i] += N;
}

KERNEL void trisolv(void) {
    for (int i = 0; i < N; i++) {
        x[i] = b[i];
        for (int j = 0; j < i; j++) x[i] -= L[i][j] * x[j];
        x[i] /= L[i][i];
    }
}
