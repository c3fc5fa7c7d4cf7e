/* folding of RNA: the most base pairs, by dynamic programming (int) */
#include "kernel.h"

#ifndef N
#define N 80
#endif

static ALIGNED int table[N][N];
static ALIGNED char seq[N];
OUTPUT(table)

EXPORT void setup(void) {
    for (int i = 0; i < N; i++) seq[i] = (i + 1) % 4;
    for (int i = 0; i < N * N; i++) ((int *)table)[i] = 0;
}

KERNEL void nussinov(void) {
    #define MAX(a, b) ((a) > (b) ? (a) : (b))
    for (int i = N - 1; i >= 0; i--)
        for (int j = i + 1; j < N; j++) {
            int best = table[i][j];
            best = MAX(best, table[i][j - 1]);
            if (i + 1 < N) best = MAX(best, table[i + 1][j]);
            if (i + 1 < N) best = MAX(best, table[i + 1][j - 1] + (i < j - 1 && seq[i] + seq[j] == 3));
            for (int k = i + 1; k < j; k++) best = MAX(best, table[i][k] + table[k + 1][j]);
            table[i][j] = best;
        }
}
