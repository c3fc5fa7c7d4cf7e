/* a 3-point stencil, to and fro */
#include "kernel.h"

#ifndef N
#define N 400
#endif
#ifndef STEPS
#define STEPS 40
#endif

static ALIGNED double A[N], B[N];
OUTPUT(A)

EXPORT void setup(void) {
    FILL(A); FILL(B);
}

KERNEL void jacobi_1d(void) {
    for (int t = 0; t < STEPS; t++) {
        for (int i = 1; i < N - 1; i++) B[i] = 0.33333 * (A[i - 1] + A[i] + A[i + 1]);
        for (int i = 1; i < N - 1; i++) A[i] = 0.33333 * (B[i - 1] + B[i] + B[i + 1]);
    }
}
