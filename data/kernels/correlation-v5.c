/* Correlation, version 5 of the Gus paper's Table 2: register tiles of 4x16: 16 accumulators and their operands do not fit AVX2's 16 registers. */
#include "correlation.h"

KERNEL void correlation_v5(void) {
    POINTERS;
    for (int kb = 0; kb < N; kb += 48)
        for (int j = 0; j < M; j += 16)
            for (int i = j; i < M; i += 4) {
                double *q = c + i * M + j, *r = q + M, *s = r + M, *t = s + M;
                vec q0 = LOAD(q), q1 = LOAD(q + 4), q2 = LOAD(q + 8), q3 = LOAD(q + 12);
                vec r0 = LOAD(r), r1 = LOAD(r + 4), r2 = LOAD(r + 8), r3 = LOAD(r + 12);
                vec s0 = LOAD(s), s1 = LOAD(s + 4), s2 = LOAD(s + 8), s3 = LOAD(s + 12);
                vec t0 = LOAD(t), t1 = LOAD(t + 4), t2 = LOAD(t + 8), t3 = LOAD(t + 12);
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
                    vec a2 = SPLAT(p + i + 2);
                    s0 = a2 * b0 + s0;
                    s1 = a2 * b1 + s1;
                    s2 = a2 * b2 + s2;
                    s3 = a2 * b3 + s3;
                    vec a3 = SPLAT(p + i + 3);
                    t0 = a3 * b0 + t0;
                    t1 = a3 * b1 + t1;
                    t2 = a3 * b2 + t2;
                    t3 = a3 * b3 + t3;
                }
                STORE(q, q0); STORE(q + 4, q1); STORE(q + 8, q2); STORE(q + 12, q3);
                STORE(r, r0); STORE(r + 4, r1); STORE(r + 8, r2); STORE(r + 12, r3);
                STORE(s, s0); STORE(s + 4, s1); STORE(s + 8, s2); STORE(s + 12, s3);
                STORE(t, t0); STORE(t + 4, t1); STORE(t + 8, t2); STORE(t + 12, t3);
            }
    mirror(c);
}
