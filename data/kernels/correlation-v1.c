/* Correlation, version 1 of the Gus paper's Table 2: vectorized by hand, four columns at a time. */
#include "correlation.h"

KERNEL void correlation_v1(void) {
    POINTERS;
    for (int i = 0; i < M; i++)
        for (int j = 0; j <= i; j += 4)
            for (int k = 0; k < N; k++)
                STORE(c + i * M + j, SPLAT(x + k * M + i) * LOAD(x + k * M + j) + LOAD(c + i * M + j));
    mirror(c);
}
