/* multiresolution: A[r][q][:] becomes A[r][q][:] C4 */
#include "kernel.h"

#ifndef R
#define R 12
#endif
#ifndef Q
#define Q 12
#endif
#ifndef S
#define S 30
#endif

static ALIGNED double A[R][Q][S], C4[S][S], sum[S];
OUTPUT(A)

EXPORT void setup(void) {
    FILL(A); FILL(C4);
}

KERNEL void doitgen(void) {
    for (int r = 0; r < R; r++)
        for (int q = 0; q < Q; q++) {
            for (int p = 0; p < S; p++) {
                sum[p] = 0;
                for (int s = 0; s < S; s++) sum[p] += A[r][q][s] * C4[s][p];
            }
            for (int p = 0; p < S; p++) A[r][q][p] = sum[p];
        }
}
