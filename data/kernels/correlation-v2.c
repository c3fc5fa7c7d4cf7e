/* Correlation, version 2 of the Gus paper's Table 2: register tiles of 2x16, the accumulators still loaded and stored in the inner loop. */
#include "correlation.h"

KERNEL void correlation_v2(void) {
    POINTERS;
    for (int i = 0; i < M; i += 2)
        for (int j = 0; j <= i + 1; j += 16)
            for (int k = 0; k < N; k++) {
                const double *p = x + k * M;
                double *q = c + i * M + j, *r = q + M;
                vec b0 = LOAD(p + j), b1 = LOAD(p + j + 4), b2 = LOAD(p + j + 8), b3 = LOAD(p + j + 12);
                vec a0 = SPLAT(p + i), a1 = SPLAT(p + i + 1);
                STORE(q, a0 * b0 + LOAD(q));
                STORE(q + 4, a0 * b1 + LOAD(q + 4));
                STORE(q + 8, a0 * b2 + LOAD(q + 8));
                STORE(q + 12, a0 * b3 + LOAD(q + 12));
                STORE(r, a1 * b0 + LOAD(r));
                STORE(r + 4, a1 * b1 + LOAD(r + 4));
                STORE(r + 8, a1 * b2 + LOAD(r + 8));
                STORE(r + 12, a1 * b3 + LOAD(r + 12));
            }
    mirror(c);
}
