/* Correlation, version 0 of the Gus paper's Table 2: the loop nest of Fig. 5, untransformed. */
#include "correlation.h"

KERNEL void correlation_v0(void) {
    POINTERS;
    for (int j = 0; j < M; j++)
        for (int i = j; i < M; i++) {
            for (int k = 0; k < N; k++) c[i * M + j] += x[k * M + i] * x[k * M + j];
            c[j * M + i] = c[i * M + j];
        }
}
