/* Correlation, version 6 of the Gus paper's Table 2: register tiles of 3x12, which fit. */
#include "correlation.h"

KERNEL void correlation_v6(void) {
    POINTERS;
    for (int kb = 0; kb < N; kb += 48)
        for (int j = 0; j < M; j += 12)
            for (int i = j; i < M; i += 3) {
                double *q = c + i * M + j, *r = q + M, *s = r + M;
                vec q0 = LOAD(q), q1 = LOAD(q + 4), q2 = LOAD(q + 8);
                vec r0 = LOAD(r), r1 = LOAD(r + 4), r2 = LOAD(r + 8);
                vec s0 = LOAD(s), s1 = LOAD(s + 4), s2 = LOAD(s + 8);
                for (int k = kb; k < kb + 48; k++) {
                    const double *p = x + k * M;
                    vec b0 = LOAD(p + j), b1 = LOAD(p + j + 4), b2 = LOAD(p + j + 8);
                    vec a0 = SPLAT(p + i);
                    q0 = a0 * b0 + q0;
                    q1 = a0 * b1 + q1;
                    q2 = a0 * b2 + q2;
                    vec a1 = SPLAT(p + i + 1);
                    r0 = a1 * b0 + r0;
                    r1 = a1 * b1 + r1;
                    r2 = a1 * b2 + r2;
                    vec a2 = SPLAT(p + i + 2);
                    s0 = a2 * b0 + s0;
                    s1 = a2 * b1 + s1;
                    s2 = a2 * b2 + s2;
                }
                STORE(q, q0); STORE(q + 4, q1); STORE(q + 8, q2);
                STORE(r, r0); STORE(r + 4, r1); STORE(r + 8, r2);
                STORE(s, s0); STORE(s + 4, s1); STORE(s + 8, s2);
            }
    mirror(c);
}
