/* Correlation, version 4 of the Gus paper's Table 2: as version 3, and tiled by 48 along k for reuse in L1. */
#include "correlation.h"

KERNEL void correlation_v4(void) {
    POINTERS;
    for (int kb = 0; kb < N; kb += 48)
        for (int j = 0; j < M; j += 16)
            for (int i = j; i < M; i += 2) {
                double *q = c + i * M + j, *r = q + M;
                vec q0 = LOAD(q), q1 = LOAD(q + 4), q2 = LOAD(q + 8), q3 = LOAD(q + 12);
                vec r0 = LOAD(r), r1 = LOAD(r + 4), r2 = LOAD(r + 8), r3 = LOAD(r + 12);
                for (int k = kb; k < kb + 48; k++) {
                    const double *p = x + k * M;
                    vec b0 = LOAD(p + j), b1 = LOAD(p + j + 4), b2 = LOAD(p + j + 8), b3 = LOAD(p + j + 12);
                    vec a0 = SPLAT(p + i);
                    q0 = a0 * b0 + q0;
                    q1 = a0 * b1 + q1;
                    q2 = a0 * b2 + q2;
                    q3 = a0 * b3 + q3;
                    vec a1 = SPLAT(p + i + 1);
                    r0 = a1 * b0 + r0;
                    r1 = a1 * b1 + r1;
                    r2 = a1 * b2 + r2;
                    r3 = a1 * b3 + r3;
                }
                STORE(q, q0); STORE(q + 4, q1); STORE(q + 8, q2); STORE(q + 12, q3);
                STORE(r, r0); STORE(r + 4, r1); STORE(r + 8, r2); STORE(r + 12, r3);
            }
    mirror(c);
}
